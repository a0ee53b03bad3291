"""A dialect: how a database writes names, literals, types, expressions and statements, and its limits.

It is data: six parts, each a table of templates with names in braces, whose defaults are standard SQL. What reads them
are the methods of `Dialect`; `frameboost.compile` puts SQL together of these.

To add a dialect, copy the smallest file here that states a whole one (``oracle.py``), or take the child of a dialect
that is much the same (``trino.py``), and list it in ``built_in.py``.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from typing import Any

from frameboost.checks.arguments import is_text
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import path_parts
from frameboost.schema.types import FeatureType, Physical

__all__ = [
    "BACKSLASH_ESCAPES", "INDEX", "LINE", "MATERIALIZED", "PLAIN_STAGE", "SIGNED_INTEGERS", "Catalog", "ColumnTypes",
    "Dialect", "Expressions", "Limits", "Literals", "Names", "OutOfRange", "Statements", "by_unit", "guarded_exp",
    "wide",
]  # fmt: skip

# How the lines of a value in a query begin.
LINE = "\n  "


# --- names ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """How names of columns, tables and functions are written.

    Attributes
    ----------
    quotes
        What opens and what closes a quoted name; the closing one is doubled inside.
    escapes
        What is written for a character inside of the quotes, besides the closing quote.
    unnameable
        Characters that no name can hold.
    only_basic_plane
        Whether no name can hold characters beyond U+FFFF, such as emoji.
    longest, in_bytes
        How many characters a name has at most, or how many bytes; None for any number.
    ends_in_blank
        Whether a name may end in a blank.
    any_case
        Whether names that differ only in case are one name, quoted or not.
    replaced
        Sequences of characters that the database replaces in the text of a query, in quoted names as well.
    clients
        A regular expression for what clients of the database that run files replace in them, in quoted names as well.
    lost
        A regular expression for names, in lower case, that a column of a table can have, but not one of a common table
        expression.
    """

    quotes: tuple[str, str] = ('"', '"')
    escapes: Mapping[str, str] = field(default_factory=dict)
    unnameable: str = "\0"
    only_basic_plane: bool = False
    longest: int | None = None
    in_bytes: bool = False
    ends_in_blank: bool = True
    any_case: bool = False
    replaced: tuple[str, ...] = ()
    clients: str | None = None
    lost: str | None = None


# --- literals ---------------------------------------------------------------------------------------------------------

# Of a database where a backslash is an escape in strings.
BACKSLASH_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class Literals:
    """Templates of literals; ``{v}`` is the value as text.

    Attributes
    ----------
    string_prefix, escapes
        What precedes a quoted string, and what is written for characters inside, besides ``''`` for a quote: what
        would end the string, or what the database or a client of it replaces in any text, in strings as well.
    encoded
        Characters that are no part of a quoted string, and how a string that has some is written, by its bytes ``{v}``
        in hexadecimal.
    unheld
        Characters that no string of the database can hold.
    booleans
        False and true as values of a column.
    text
        A string literal ``{v}`` that compares exactly with a column as `Expressions.text` has it.
    double
        A finite float64: ``{v}`` is the shortest text with a point or an exponent, ``{e}`` one with an exponent.
    extreme
        The same for numbers beyond 1e±125, where these are written in another way; ``{i}`` is the text with an integer
        and an exponent, 15e-301 for 1.5e-300.
    has_subnormals
        Whether a literal can be a number between 0 and ±2^-1022. If not, a threshold in between is rounded up, because
        no column is expected to hold such a number.
    infinity, nan
        ∞ and −∞, and NaN; None where the type has none.
    integers
        Integers that the database adds up in 64 bits: of more than 32 bits, and of fewer, which may need a cast; None
        where floats take less time or text.
    short_integer
        An integer whose sums have 32 bits.
    integer_digits
        Decimal digits of the widest integers; None for any number.
    wide_integer, decimal
        An integer beyond 64 bits, and a decimal of precision ``{p}`` and scale ``{s}``.
    date, timestamp, timestamptz
        ``{v}`` is as in ISO 8601 with ``time_separator`` before the time.
    digits, has_whole_fractions
        Digits of a second's fraction, and whether all of them are always written.
    years
        First and last year of dates and times.
    zoned_seconds
        First and last second since 1970 that a column of timestamps with a time zone holds; None for that of ``years``.
    has_endless_dates
        Whether dates and timestamps may be ``infinity``.
    interval
        ``{v}`` microseconds; None where a duration is a column of integers, in the units of its type.
    longest_interval
        Microseconds of the longest interval that compares with a column; None for any number.
    cells
        By family a value as a row of a table has it, of the literal ``{v}``, where that compares with what
        `Expressions` make of a column.
    """

    string_prefix: str = ""
    escapes: Mapping[str, str] = field(default_factory=dict)
    encoded: tuple[str, str] | None = None
    unheld: str = ""
    booleans: tuple[str, str] = ("FALSE", "TRUE")
    text: str = "{v}"
    double: str = "{v}"
    extreme: str | None = None
    has_subnormals: bool = True
    infinity: tuple[str, str] | None = None
    nan: str | None = None
    integers: tuple[str, str] | None = None
    short_integer: str = "{v}"
    integer_digits: int | None = None
    wide_integer: str = "{v}"
    decimal: str = "{v}"
    date: str = "DATE '{v}'"
    timestamp: str = "TIMESTAMP '{v}'"
    timestamptz: str = "TIMESTAMP '{v}+00:00'"
    time_separator: str = " "
    digits: int = 6
    has_whole_fractions: bool = False
    years: tuple[int, int] = (1, 9999)
    zoned_seconds: tuple[int, int] | None = None
    has_endless_dates: bool = False
    interval: str | None = None
    longest_interval: int | None = None
    cells: Mapping[str, str] = field(default_factory=dict)


# --- column types -----------------------------------------------------------------------------------------------------

# Of a database without unsigned integers: the next larger type holds them.
SIGNED_INTEGERS = {
    "int8": "SMALLINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "uint8": "SMALLINT",
    "uint16": "INTEGER", "uint32": "BIGINT", "codes": "BIGINT",
}  # fmt: skip


def wide(type_name: str) -> dict[str, str]:
    """Return the type for each of the integers that do not fit into 64 bits with a sign."""
    return dict.fromkeys(("uint64", "int128", "uint128"), type_name)


@dataclass(frozen=True)
class ColumnTypes:
    """The column types of a database.

    Attributes
    ----------
    columns
        The SQL type by the name of a feature type, or by its family; a feature type that is not listed has none.
        ``decimal`` is a template of ``{p}`` (precision) and ``{s}`` (scale). Without ``duration``, durations are 64-bit
        integers in the units of the feature's type.
    casts
        Types that have another name in CAST.
    exact_string
        A type for strings of up to ``{n}`` bytes that compares, and is indexed, as what `Expressions.text` makes of a
        column; None where that is to be done with a column of strings as well.
    compared
        The type of a column of thresholds, by family, where it is another one than that of the features.
    nullable
        A column type ``{t}`` that takes NULL.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    exact_string: str | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    nullable: str = "{t}"


# --- expressions ------------------------------------------------------------------------------------------------------


def guarded_exp(high: str, low: str) -> str:
    """Return the template of EXP where overflow is an error: of an argument that is clipped to two literals.

    709.78 and −745.13 are where the range of float64 ends. To the lower one first: where GREATEST and LEAST pass over
    NULL it becomes that, as sums of the largest numbers would overflow.
    """
    return f"EXP(LEAST(GREATEST({{x}}, {low}), {high}))"


def by_unit(template: str, **units: str) -> dict[str, str]:
    """Return a template for each unit of time, by which ``{unit}`` in it is replaced; ``units`` are called otherwise.

    >>> by_unit("TRUNC({x}, '{unit}')", hour="HH24", day="DD", week="IW", month="MM")["week"]
    "TRUNC({x}, 'IW')"
    """
    return {unit: template.replace("{unit}", units.get(unit, unit)) for unit in ("hour", "day", "week", "month")}


@dataclass(frozen=True)
class Expressions:
    """Templates of expressions; ``{x}`` is a column or another expression.

    Attributes
    ----------
    is_number
        A condition on a float that is true unless it is NULL or NaN; None where there is no NaN.
    is_true, is_false
        A Boolean column as a condition.
    text
        A string column, such that ``=`` with `Literals.text` holds for equal strings only.
    as_text
        A column of any type as a ``{t}``, a string, with its collation if it has one.
    text_is_value
        Whether `text` has the characters of the column, and no more.
    equal_texts
        The condition that two string columns ``{x}`` and ``{y}`` are equal, for which an index on one of them is used;
        None where that of `text` of both is as good.
    real
        A float column, such that ``<`` is not true of NaN, whatever statistics the database has of the column. It may
        be NULL for NaN.
    double
        A column of numbers such that float64 may be other rows of it, by UNION ALL.
    string
        A column of strings such that any other string may be another row of it, by UNION ALL.
    number
        A column of numbers, or of Booleans, as a ``{t}``, a float64; None where no expression takes both. Where CAST
        makes zero of text that is no number, 1e300.
    part
        A column of any type by which a window is parted into the groups of GROUP BY.
    time, time_with_zone
        A column of timestamps without and with a time zone, such that it compares with literals as these do.
    longest_list
        Values that ``IN`` takes; 0 for none, where a chain of OR is better, None for any number.
    list_is_value
        Whether the list behind ``IN`` is one of the elements of a query (see `Limits.elements`).
    branch
        One of two values, ``{t}`` and ``{e}``, by a condition ``{c}``, the second where it is NULL.
    case_skips_unmet_whens
        Whether CASE is evaluated by vectors of rows, and a WHEN that no row of a vector satisfies is skipped. Then
        scoring is faster where rows that take the same branches are adjacent (``form="sorted"``).
    longest_sum
        Terms that a sum has without parentheses; None for balanced sums in parentheses.
    uncompiled
        A zero that keeps the database from compiling a query into one piece of code, which takes long where there is
        much of it.
    functions
        Names of functions where they are not the standard's.
    most_arguments
        Arguments that GREATEST and LEAST take; more of them are nested.
    exp
        e to the power of ``{x}``, however large or small.
    array
        A list of the numbers ``{v}``; None where a column holds but one.
    lookup
        Number ``{i}``, from 0, of the constants ``{v}``, where that is a fast way to look a leaf up; None elsewhere.
    longest_lookup
        How many constants that takes; None for any number.
    mod, xor
        The remainder of ``{x}`` divided by ``{y}``, and the bits that differ in them, of integers of 0 or more below
        2^63.
    bucket
        How many of the ``{n}`` ascending literals ``{v}``, of which ``{first}`` is the first, are at most ``{x}``, a
        float that is not NULL; None for a CASE.
    quantiles
        The values of a column ``{x}`` at the fractions ``{v}`` of its rows, ascending, each in a row, by an aggregate;
        None where a window is as fast.
    struct
        A record of the fields ``{v}``, each written as ``'name': value``; None where there is none or it is not used.
    now
        The time: of a type with a zone, or in UTC.
    moment
        A date or a time as a ``{t}``, a timestamp.
    window_start
        By unit, an hour, a day, a week from Monday or a month, the beginning of the one that a timestamp is in.
    window_before
        By unit, the timestamp ``{n}`` units, an integer literal, before another one.
    lambda_
        ``{value}``, SQL over ``m``, for the only item of a list; None where a value can't be named in passing.
    """

    is_number: str | None = None
    is_true: str = "{x}"
    is_false: str = "NOT {x}"
    text: str = "{x}"
    as_text: str = "CAST({x} AS {t})"
    text_is_value: bool = True
    equal_texts: str | None = None
    real: str = "{x}"
    double: str = "{x}"
    string: str = "{x}"
    number: str | None = "CAST({x} AS {t})"
    part: str = "{x}"
    time: str = "{x}"
    time_with_zone: str = "{x}"
    longest_list: int | None = None
    list_is_value: bool = False
    branch: str = "CASE WHEN {c} THEN {t} ELSE {e} END"
    case_skips_unmet_whens: bool = False
    longest_sum: int | None = None
    uncompiled: str | None = None
    functions: Mapping[str, str] = field(default_factory=dict)
    # SQLite takes 127 (100 in old versions), Trino 127, SQL Server 254 (docs/vendors.md).
    most_arguments: int = 100
    exp: str = "EXP({x})"
    array: str | None = None
    lookup: str | None = None
    longest_lookup: int | None = None
    mod: str = "MOD({x}, {y})"
    xor: str = "({x} ^ {y})"
    bucket: str | None = None
    quantiles: str | None = None
    struct: str | None = None
    now: str = "CURRENT_TIMESTAMP"
    moment: str = "CAST({x} AS {t})"
    window_start: Mapping[str, str] = field(default_factory=lambda: by_unit("DATE_TRUNC('{unit}', {x})"))
    window_before: Mapping[str, str] = field(default_factory=lambda: by_unit("{x} - INTERVAL '{n} {unit}'"))
    lambda_: str | None = None


# --- statements -------------------------------------------------------------------------------------------------------

INDEX = "CREATE INDEX {index} ON {name} ({columns})"
PLAIN_STAGE = "{name} AS (\nSELECT {select}\n)"
MATERIALIZED = "{name} AS MATERIALIZED (\nSELECT {select}\n)"


@dataclass(frozen=True)
class Catalog:
    """Where a database keeps the columns of its tables, as queries can read it; by default as the standard has it.

    Attributes
    ----------
    source
        What follows FROM; ``{table}`` and ``{schema}`` are the names as strings, ``{path}`` is the whole name as a
        query has it, as a string, and ``{above}`` the parts of a table's name above its schema, each with a dot behind
        it, or with the schema where ``of_schema`` is empty.
    table, of_schema
        The columns of the names of the table and of its schema; empty where the source is of one.
    schema
        The current schema, of a table without one; None where it has no name.
    name, type, collation
        The columns of a column's name and type, and of its collation, which is NULL where it is not known.
    of_both
        The columns of the names of the database and of the schema in it, where the source is of all databases.
    """

    source: str = "{above}information_schema.columns"
    table: str = "table_name"
    of_schema: str = "table_schema"
    schema: str | None = "current_schema()"
    name: str = "column_name"
    type: str = "data_type"
    collation: str = "NULL"
    of_both: tuple[str, str] | None = None


@dataclass(frozen=True)
class Statements:
    """Templates of statements and of their clauses.

    Attributes
    ----------
    star
        All columns of ``{table}``, with others beside them.
    except_columns
        All columns but ``{v}``; None where there is no such thing.
    except_unknown
        The same where some of ``{v}`` may be no columns, or of ``{strings}``, names in lower case as strings; None
        where there is no such thing.
    first_of_name_wins
        Whether of two columns of one name in a subquery or a new table the first one keeps the name.
    alias
        The text between a table and its alias.
    aliases_hide_columns
        Whether the alias of a value in a SELECT means that value wherever else in the SELECT it is used.
    star_names_tables
        Whether all columns of a table that is joined are named with their table where another has a column of the name.
    joins_to_nulls
        The end of a SELECT with a LEFT JOIN so that it has NULLs where no row matches.
    count
        The number of rows, and what adds one where ``{c}`` holds, both in 64 bits.
    row_number
        A number that is different in each row.
    value_of_group
        The value of ``{x}`` in the row of a group where ``{c}`` holds, of any type; None to group by ``{x}`` instead,
        where columns of most types may be grouped by.
    keeps_order
        Whether the rows of a table have an order, in which ``row_number`` counts them.
    fenced_stage
        A common table expression ``{name}`` of SELECT ``{select}`` whose values are computed once, where the database
        would otherwise substitute their expressions for their names.
    scratch_table
        A statement of ``{name}`` and ``{query}`` that makes a table which is gone with the session, at the latest; None
        where there is none.
    reads_scratch_once
        Whether a query may name such a table only once.
    joined
        ``{table}``, which has no index, as what other rows are joined to by equality.
    histogram
        How rows are added up by many columns at once: a name of `frameboost.engines.sql.engine.SHAPES`.
    most_sets
        GROUPING SETS of a query, or columns in them; None for any number.
    most_keys
        Keys from 0 on by which rows are grouped faster than by more; None where there is no such number.
    set_of_row, key_of_row
        The number of the set of a row of GROUPING SETS, each of one of ``{n}`` columns ``{v}``, counted from
        ``{first}``, None to take GROUPING of each column; and the value of that column.
    catalog
        Where the columns of tables are listed; None where a query can't read it.
    define_table, create_index
        Statements of ``{name}`` and ``{columns}``, and ``{index}``; None where tables are not made by a statement
        alone, and where they need no index to be joined.
    index_in_schema
        Whether the name of the index, not of the table, has the schema.
    many_rows
        A SELECT of ``{rows}``, literals in parentheses, where what follows would otherwise be copied into each of the
        SELECTs that UNION ALL joins; None elsewhere.
    insert_row
        A row of ``{v}`` for INSERT, where it is a separate SELECT; None where rows are listed after VALUES.
    create_view, create_table
        Statements of ``{name}`` and ``{query}``.
    replace_view
        Statements of these that make a view whether or not there is one, whose grants and dependants stay.
    replace_table
        A statement of these that does so with a table; None where there is none.
    create_function
        A statement of ``{name}``, ``{parameters}``, the type that it ``{returns}``, and ``{value}`` (``{text}`` as a
        string), with ``{replace}`` for `replace_function`; None where there are no scalar functions in SQL.
    parameter
        A parameter in that statement, of ``{name}``, its number ``{n}`` and ``{type}``, and in the value.
    replace_function
        What lets the statement replace a function; None where another statement must drop it.
    transaction
        Statements that begin and end a transaction of statements like these; None where they are none of one.
    batch_end
        A line between the statements of a file, besides semicolons.
    selects_into
        Whether a table is made of a query by INTO in the query, instead.
    insert, insert_before_stages
        What makes a statement of a query that fills ``{columns}`` of ``{name}``, and whether it comes before WITH.
    update, update_needs_where
        A statement of ``{name}``, ``{column}``, ``{value}`` and ``{where}``, and whether one of all rows must say so.
    """

    star: str = "*"
    except_columns: str | None = None
    except_unknown: str | None = None
    first_of_name_wins: bool = False
    alias: str = "AS "
    aliases_hide_columns: bool = False
    star_names_tables: bool = False
    joins_to_nulls: str = ""
    count: tuple[str, str] = ("COUNT(*)", "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)")
    row_number: str = "ROW_NUMBER() OVER ()"
    value_of_group: str | None = None
    keeps_order: bool = False
    fenced_stage: str = PLAIN_STAGE
    scratch_table: str | None = "CREATE TEMPORARY TABLE {name} AS\n{query}"
    reads_scratch_once: bool = False
    joined: str = "{table}"
    histogram: str = "union"
    most_sets: int | None = None
    most_keys: int | None = None
    set_of_row: str | None = None
    key_of_row: str = "COALESCE({v}, 0)"
    catalog: Catalog | None = field(default_factory=Catalog)
    define_table: str | None = "CREATE TABLE {name} (\n  {columns}\n)"
    create_index: str | None = None
    index_in_schema: bool = False
    many_rows: str | None = None
    insert_row: str | None = None
    create_view: str = "CREATE VIEW {name} AS\n{query}"
    create_table: str = "CREATE TABLE {name} AS\n{query}"
    replace_view: tuple[str, ...] = ("CREATE OR REPLACE VIEW {name} AS\n{query}",)
    replace_table: str | None = None
    create_function: str | None = None
    parameter: tuple[str, str] = ("{name} {type}", "{name}")
    replace_function: str | None = "OR REPLACE "
    transaction: tuple[str, str] | None = None
    batch_end: str = ""
    selects_into: bool = False
    insert: str = "INSERT INTO {name} ({columns})\n"
    insert_before_stages: bool = True
    update: str = "UPDATE {name}\nSET {column} = {value}{where}"
    update_needs_where: bool = False

    def set_and_key(self, columns: Mapping[int, str]) -> tuple[str, str]:
        """Return the number and the key of a row of GROUPING SETS, each of one of these columns, by number."""
        first, listed = min(columns), ", ".join(columns.values())
        if self.set_of_row is not None:
            number = self.set_of_row.format(v=listed, n=len(columns), first=first)
        else:
            whens = " ".join(f"WHEN GROUPING({name}) = 0 THEN {number}" for number, name in columns.items())
            number = f"CASE {whens} END"
        return number, self.key_of_row.format(v=listed)


# --- limits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """What a database refuses beyond; None where it has no such limit, or none that a model could reach.

    Attributes
    ----------
    text
        Bytes of a query, or of the statement that it is in.
    view
        Bytes of the statement that makes a view, where that is less than ``text``.
    depth
        Levels of an expression, as its parser counts them.
    case_depth
        CASE within CASE.
    stack
        Entries of the parser's stack.
    stages
        Common table expressions, each of which reads the one before.
    views
        Views, each of which reads the one before, where these are not as many as ``stages``.
    columns
        Columns of a SELECT.
    elements
        Elements of a query as its parser counts them: a name or a value is one, an operator or a call two.
    terms
        Names and values in one expression.
    """

    text: int | None = None
    view: int | None = None
    depth: int | None = None
    case_depth: int | None = None
    stack: int | None = None
    stages: int | None = None
    views: int | None = None
    columns: int | None = None
    elements: int | None = None
    terms: int | None = None

    def of_view(self) -> int | None:
        """Return the bytes that the statement of a view may have."""
        return min((most for most in (self.text, self.view) if most is not None), default=None)

    def of_views(self) -> int | None:
        """Return how many views may read the one before."""
        return self.stages if self.views is None else self.views


# --- the dialect ------------------------------------------------------------------------------------------------------

_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_INTEGER = 2**63
# Integers that have 32 bits in most databases.
_SHORT = 2**31
_USUAL = 1e-125
_LEAST_NORMAL = 2.0**-1022
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}
# SQLite joins no more SELECTs than 500. https://www.sqlite.org/limits.html
_MAX_SELECTS = 400


class OutOfRange(Enum):
    """A threshold that no value of a column can be written as: every present value is below it, or none is.

    A category that no value of the column can be is `BELOW`.
    """

    ABOVE = "every value is less"
    BELOW = "no value is less"


@dataclass(frozen=True)
class Dialect:
    """How a database's SQL is written.

    Attributes
    ----------
    name
        What users call it.
    names, literals, types, expressions, statements, limits
        Its parts.
    parser
        What sqlglot calls it; by default as users do.
    """

    name: str
    names: Names = field(default_factory=Names)
    literals: Literals = field(default_factory=Literals)
    types: ColumnTypes = field(default_factory=ColumnTypes)
    expressions: Expressions = field(default_factory=Expressions)
    statements: Statements = field(default_factory=Statements)
    limits: Limits = field(default_factory=Limits)
    parser: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parser", self.parser or self.name)

    def child(
        self,
        name: str,
        *,
        names: Mapping[str, Any] | None = None,
        literals: Mapping[str, Any] | None = None,
        types: Mapping[str, str | None] | None = None,
        expressions: Mapping[str, Any] | None = None,
        statements: Mapping[str, Any] | None = None,
        limits: Mapping[str, int | None] | None = None,
        parser: str = "",
    ) -> Dialect:
        """Return a dialect that differs from this one in these fields of each part.

        ``types`` has column types that differ, by feature type; None where the database has none.

        Examples
        --------
        >>> from frameboost.dialects.oracle import ORACLE
        >>> older = ORACLE.child("oracle 12.1", names={"longest": 30}, types={"timestamptz": None})
        >>> older.names.longest, older.names.in_bytes, older.types.columns["date"], "timestamptz" in older.types.columns
        (30, True, 'DATE', False)
        """
        columns = {**self.types.columns, **(types or {})}
        return replace(
            self,
            name=name,
            names=replace(self.names, **(names or {})),
            literals=replace(self.literals, **(literals or {})),
            types=replace(self.types, columns={kind: known for kind, known in columns.items() if known is not None}),
            expressions=replace(self.expressions, **(expressions or {})),
            statements=replace(self.statements, **(statements or {})),
            limits=replace(self.limits, **(limits or {})),
            parser=parser,
        )

    # --- names --------------------------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """Return a column, table or function name as a quoted identifier.

        Raises
        ------
        ParameterError
            If the database can't have such a name.
        """
        if not isinstance(name, str):
            raise ParameterError(f"a name must be a string, not {shown(name)}")
        names = self.names
        wrong = next((c for c in name if c in names.unnameable or (names.only_basic_plane and c > "\uffff")), None)
        what = f"holds {shown(wrong)}" if wrong is not None else ""
        if replaced := next((sequence for sequence in names.replaced if sequence in name), None):
            raise ParameterError(
                f"the name {shown(name)} holds {shown(replaced)}, which {self.name} substitutes even in quoted names; "
                "rename it there"
            )
        if not names.ends_in_blank and name.endswith(" "):
            what = "ends in a blank"
        if not name:
            what = "is empty"
        if not is_text(name):
            what = "holds an unpaired surrogate"
        if what:
            raise ParameterError(f"the name {shown(name)} {what}, which no name in {self.name} can; rename it there")
        size, unit = (len(name.encode()), "bytes") if names.in_bytes else (len(name), "characters")
        if names.longest is not None and size > names.longest:
            raise ParameterError(
                f"the name {shown(name)} has {size} {unit}, and names in {self.name} have at most {names.longest}; "
                "rename it there"
            )
        opening, closing = names.quotes
        escapes = {**names.escapes, closing: closing * 2}
        return opening + "".join(escapes.get(character, character) for character in name) + closing

    def quote_path(self, name: str) -> str:
        """Return a table name that may be qualified by dots, each part quoted; a part may be in quotes already."""
        return ".".join(map(self.quote, self.parts_of(name)))

    @staticmethod
    def parts_of(name: str) -> list[str]:
        """Return the parts of a table name that may be qualified by dots; a part may be in quotes already."""
        if not isinstance(name, str):
            raise ParameterError(f"the name of a table must be a string, not {shown(name)}")
        return path_parts(name)

    # --- literals and types -------------------------------------------------------------------------------------------

    def literal(self, kind: FeatureType, value: Physical) -> str | OutOfRange:
        """Return a physical value as a literal that compares exactly with a column of the type."""
        kind, literals = kind.values, self.literals
        if isinstance(value, str):
            return OutOfRange.BELOW if self._is_unheld(value) else literals.text.format(v=self.string(value))
        if kind.is_float:
            number = float(value)
            if math.isinf(number) and literals.infinity is None:
                return OutOfRange.ABOVE if number > 0 else OutOfRange.BELOW
            if not literals.has_subnormals and abs(number) < _LEAST_NORMAL:
                number = _LEAST_NORMAL if number > 0 else 0.0
            return self.number(number)
        whole = int(value)
        if kind.precision_and_scale:
            precision, scale = kind.precision_and_scale
            return literals.decimal.format(v=f"{kind.decimal(whole):f}", p=precision, s=scale)
        if kind.family in ("date", "timestamp", "timestamptz"):
            return self._moment(kind, whole)
        if kind.family == "duration" and literals.interval is not None:
            # The first microsecond from the threshold on: −(−a // b) rounds up.
            micros = -(-whole * 10**6 // _PER_SECOND[kind.unit or "us"])
            if literals.longest_interval is not None and abs(micros) > literals.longest_interval:
                return OutOfRange.ABOVE if micros > 0 else OutOfRange.BELOW
            return literals.interval.format(v=micros)
        if literals.integer_digits is not None and abs(whole) >= 10**literals.integer_digits:
            return OutOfRange.ABOVE if whole > 0 else OutOfRange.BELOW
        return str(whole) if -_LONGEST_INTEGER <= whole < _LONGEST_INTEGER else literals.wide_integer.format(v=whole)

    def is_exact(self, kind: FeatureType, value: Physical) -> bool:
        """Whether a column of the type can hold the value as it is, so that its literal is it, and not the next one."""
        if isinstance(value, float):
            return self.literals.has_subnormals or not 0 < abs(value) < _LEAST_NORMAL
        if not kind.unit or (kind.family == "duration" and self.literals.interval is None) or isinstance(value, str):
            return True
        digits = 6 if kind.family == "duration" else self.literals.digits
        return int(value) % max(1, _PER_SECOND[kind.unit] // int(10**digits)) == 0

    def number(self, value: float) -> str:
        """Return a float64 as a literal of the type that reads back as the same number."""
        literals = self.literals
        if math.isinf(value):
            assert literals.infinity is not None, "the database has no infinities"
            return literals.infinity[value < 0]
        text = repr(float(value))
        if literals.extreme is not None and value and not _USUAL < abs(value) < 1 / _USUAL:
            return literals.extreme.format(v=text, i=_with_integer(text))
        return literals.double.format(v=text, e=text if "e" in text else f"{text}e0")

    def integer(self, value: int, *, is_short: bool) -> str:
        """Return an integer as a literal of a type in which it is added up exactly.

        ``is_short``: whether sums have 32 bits; else they have 53.
        """
        if is_short:
            return self.literals.short_integer.format(v=value)
        if self.literals.integers is None:
            return self.literals.double.format(v=f"{value}.0", e=f"{value}e0")
        return self.literals.integers[abs(value) < _SHORT].format(v=value)

    def string(self, value: str) -> str:
        """Return a string as a literal.

        Raises
        ------
        ParameterError
            If no string of the database can hold it.
        """
        if self._is_unheld(value):
            raise ParameterError(
                f"the string {shown(value)} holds a character that the database can't store in strings"
            )
        literals = self.literals
        if literals.encoded is not None and not set(literals.encoded[0]).isdisjoint(value):
            return literals.encoded[1].format(v=value.encode().hex().upper())
        escapes = {"'": "''", **literals.escapes}
        pattern = "|".join(map(re.escape, sorted(escapes, key=len, reverse=True)))
        return f"{literals.string_prefix}'" + re.sub(pattern, lambda match: escapes[match[0]], value) + "'"

    def _is_unheld(self, value: str) -> bool:
        return not set(self.literals.unheld).isdisjoint(value)

    def label(self, value: str | bool) -> str:
        """Return the label of a class as a value of a column."""
        return self.string(value) if isinstance(value, str) else self.literals.booleans[value]

    def _moment(self, kind: FeatureType, value: int) -> str | OutOfRange:
        """Return a date or a time as a literal, rounded up to the database's fractions of a second.

        A threshold t means ``x < t``, so the first value from t on that the column can have means the same.
        """
        literals = self.literals
        template = {"date": literals.date, "timestamp": literals.timestamp, "timestamptz": literals.timestamptz}[
            kind.family
        ]
        assert kind.bounds is not None
        if abs(value) == kind.bounds[1] and literals.has_endless_dates:
            return template.replace("+00:00", "").format(v="infinity" if value > 0 else "-infinity")
        if kind.family == "date":
            seconds, fraction = value * 86_400, ""
        else:
            parts = -(-value * 10**literals.digits // _PER_SECOND[kind.unit or "us"])
            seconds, rest = divmod(parts, 10**literals.digits)
            fraction = f".{rest:0{literals.digits}d}"
            fraction = fraction if literals.has_whole_fractions else fraction.rstrip("0").rstrip(".")
        if not _second_of(literals.years[0]) <= seconds < _second_of(literals.years[1] + 1):
            return OutOfRange.ABOVE if value > 0 else OutOfRange.BELOW
        moment = _EPOCH + dt.timedelta(seconds=seconds)
        if kind.family == "date":
            return template.format(v=moment.date().isoformat())
        return template.format(v=moment.isoformat(sep=literals.time_separator) + fraction)

    def type_of(self, kind: FeatureType) -> str | None:
        """Return the type of a column that holds a feature, or None if the database has none."""
        kind = kind.values
        if kind.precision_and_scale:
            template = self.types.columns.get("decimal")
            return template and template.format(p=kind.precision_and_scale[0], s=kind.precision_and_scale[1])
        known = self.types.columns.get(kind.name) or self.types.columns.get(kind.family)
        return self.types.columns.get("int64") if known is None and kind.family == "duration" else known

    def cast(self, value: str, type_name: str) -> str:
        """Return a value cast to the column type of a feature type."""
        return f"CAST({value} AS {self.types.casts.get(type_name) or self.types.columns[type_name]})"

    def narrow(self, value: str, largest: int) -> str:
        """Return an integer from 0 to ``largest`` as one of few bytes, which is read and grouped by faster.

        As it is where the database has one type of integers, or CAST knows only one.
        """
        kind = "uint8" if largest < 2**8 else "uint16" if largest < 2**16 else "uint32"
        is_known = self.cast("", kind) != self.cast("", "int64")
        return self.cast(value, kind) if is_known else value

    # --- expressions --------------------------------------------------------------------------------------------------

    def as_text(self, column: str) -> str:
        """Return a column of any type as a string."""
        type_ = self.types.casts.get("string") or self.types.columns["string"]
        return self.expressions.as_text.format(x=column, t=type_)

    def number_of(self, column: str, *, was_boolean: bool) -> str:
        """Return a column of numbers or of Booleans as a float64, where need be of the type that it had in training."""
        template = self.expressions.number
        if template is not None:
            return template.format(x=column, t=self.types.casts.get("float64") or self.types.columns["float64"])
        if not was_boolean:
            return self.cast(column, "float64")
        is_true, is_false = (test.format(x=column) for test in (self.expressions.is_true, self.expressions.is_false))
        return f"CASE WHEN {is_true} THEN {self.number(1.0)} WHEN {is_false} THEN {self.number(0.0)} END"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of one of the functions that expressions have."""
        if function == "EXP":
            return self.expressions.exp.format(x=arguments[0])
        name, most = self.expressions.functions.get(function, function), self.expressions.most_arguments
        while len(arguments) > most:
            parts = [arguments[first : first + most] for first in range(0, len(arguments), most)]
            # SQLite's MAX of one argument is an aggregate.
            arguments = [part[0] if len(part) == 1 else f"{name}({', '.join(part)})" for part in parts]
        return f"{name}({', '.join(arguments)})"

    def clipped(self, value: str, low: str, high: str) -> str:
        """Return a value within bounds."""
        return self.call("LEAST", [self.call("GREATEST", [value, low]), high])

    def any_of(self, value: str, literals: Sequence[str]) -> str:
        """Return the condition that a value is one of the literals, of which there is at least one."""
        if len(literals) == 1 or self.expressions.longest_list == 0:
            return " OR ".join(f"{value} = {literal}" for literal in literals)
        size = self.expressions.longest_list or len(literals)
        parts = (literals[first : first + size] for first in range(0, len(literals), size))
        return " OR ".join(f"{value} IN ({', '.join(part)})" for part in parts)

    def sum(self, terms: Sequence[str]) -> str:
        """Return a sum of numbers on a grid, whose order does not matter, in parentheses if it has several terms.

        Most parsers give up on a chain of some hundred additions, so it is a balanced tree: four terms are
        ``((a + b) + (c + d))``. Spark's parser takes longer the deeper parentheses nest, and likes a chain that is not
        too long.
        """
        if len(terms) == 1 and terms[0].startswith("-"):
            return f"({terms[0]})"  # as two signs begin a comment
        return self._sum(terms)

    def _sum(self, terms: Sequence[str], before: str = "") -> str:
        """Return the sum with each term but the first at the beginning of a line; ``before`` is written before that."""
        if len(terms) == 1:
            return f"{before}{terms[0]}"
        if self.expressions.longest_sum is not None and len(terms) <= self.expressions.longest_sum:
            return f"({before}{f' +{LINE}'.join(terms)})"
        middle = len(terms) // 2
        left, right = self._sum(terms[:middle], before), self._sum(terms[middle:], LINE)
        return f"({left} +{right if middle == len(terms) - 1 else f' {right}'})"

    def total(self, terms: Sequence[str]) -> str:
        """Return the same sum where it is a whole expression."""
        if len(terms) == 1:
            return self.sum(terms)
        return self._sum(terms, LINE) if self.expressions.longest_sum is None else self._sum(terms)[1:-1]

    def select_besides(self, query: str, added: str, alias: str) -> str:
        """Return a query of all columns of another one, which gets an alias, and of added ones."""
        name = self.quote(alias)
        return f"SELECT {self.statements.star.format(table=name)}, {added} FROM ({query}) {self.statements.alias}{name}"

    # --- rows of literals ---------------------------------------------------------------------------------------------

    def constant_rows(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> str:
        """Return a query of rows of literals, under quoted names; there is at least one row.

        Every database has SELECTs joined by UNION ALL, not every one VALUES in FROM.
        """
        first = [f"{value} AS {name}" for value, name in zip(rows[0], names, strict=True)]
        return self._union(list(map(self._select, (first, *rows[1:]))))

    def typed_rows(self, typed: str, rows: Sequence[Sequence[str]]) -> str:
        """Return a query of rows of literals that begins with a SELECT of no rows, whose names and types they get."""
        if self.statements.many_rows is None:
            return self._union(list(map(self._select, rows)), typed)
        listed = ",\n".join(f"({', '.join(row)})" for row in rows)
        return f"{typed}\nUNION ALL\n{self.statements.many_rows.format(rows=listed)}"

    def _select(self, values: Sequence[str]) -> str:
        return (self.statements.insert_row or "SELECT {v}").format(v=", ".join(values))

    def _union(self, selects: Sequence[str], typed: str = "") -> str:
        """Return SELECTs joined by UNION ALL, each part of which begins with ``typed``."""
        if len(selects) < _MAX_SELECTS:
            return "\nUNION ALL\n".join([*([typed] if typed else []), *selects])
        size, alias = _MAX_SELECTS - 1, self.statements.alias
        unions = [self._union(selects[first : first + size], typed) for first in range(0, len(selects), size)]
        return self._union([f"SELECT * FROM (\n{union}\n) {alias}part_{i}" for i, union in enumerate(unions)])

    def rows_of(self, rows: Sequence[Sequence[str]]) -> str:
        """Return rows of literals as INSERT takes them."""
        if self.statements.insert_row is not None:
            return "\nUNION ALL ".join(self.statements.insert_row.format(v=", ".join(row)) for row in rows)
        return "VALUES\n" + ",\n".join(f"({', '.join(row)})" for row in rows)


def _with_integer(text: str) -> str:
    """Return a float64's text as an integer and an exponent, such as 15e-301 for 1.5e-300."""
    sign, digits, exponent = Decimal(text).as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def _second_of(year: int) -> int:
    """Return when the year begins, in seconds since 1970."""
    days = (dt.datetime(min(year, 9999), 1, 1) - _EPOCH).days
    return (days + 365 * (year > 9999)) * 86_400  # Python's calendar ends with 9999, a year of 365 days

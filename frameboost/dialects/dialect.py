"""A dialect: names, literals, types, expressions, statements and limits of a database.

It is data: six parts, each a table of templates with names in braces, by default standard SQL. The methods of `Dialect`
read them, and `frameboost.compile` composes SQL from these.

To add a dialect, copy the smallest complete one (``oracle.py``), or derive a child of a similar dialect (``trino.py``),
and list it in ``built_in.py``.
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
    "in_lines", "wide",
]  # fmt: skip

# How the lines of a value in a query begin.
LINE = "\n  "
# Characters of several columns of SELECT in a line, and of a sum behind which no line begins.
_LONGEST_LIST, _LONGEST_SUM = 76, 100


def in_lines(columns: Sequence[str]) -> str:
    r"""Return columns of SELECT, as many in a line as it has room for.

    >>> print(in_lines(["a", "b" * 66, "(1 + (\n  CASE END\n)) AS c", "d"]).replace("b" * 66, "b...b"))
    a, b...b,
      (1 + (
      CASE END
    )) AS c, d
    """
    text, room = "", _LONGEST_LIST
    for column in columns:
        needed = len(column.partition("\n")[0]) + 2
        if text:
            text += ", " if needed <= room else f",{LINE}"
            room = room if needed <= room else _LONGEST_LIST
        text += column
        last = column.rpartition("\n")[2]
        room = _LONGEST_LIST - len(last) if len(last) < len(column) else room - needed
    return text


# --- names ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The rules for names of columns, tables and functions.

    Attributes
    ----------
    quotes
        The opening and the closing quote of a name; the latter is doubled inside.
    escapes
        Escapes by character, beside the closing quote.
    unnameable
        Characters that are invalid in names.
    only_basic_plane
        Whether characters beyond U+FFFF, such as emoji, are invalid.
    longest, in_bytes
        The maximum length of a name in characters, or in bytes; None without a limit.
    ends_in_blank
        Whether a name may end in a blank.
    any_case
        Whether names are case-insensitive, quoted or not.
    replaced
        Character sequences that the database substitutes in queries, even in quoted names.
    clients
        A regular expression for text that clients substitute in files, even in quoted names.
    lost
        A regular expression for lower-case names that are valid for columns of tables, but not of common table
        expressions.
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
        The prefix of a quoted string, and escapes by character, beside ``''`` for a quote: characters that would end
        the string, or that the database or its clients substitute in strings.
    encoded
        Characters that are invalid in a quoted string, and the template for strings that contain some, by their bytes
        ``{v}`` in hexadecimal.
    unheld
        Characters that the database can't store in strings.
    booleans
        False and true as values of a column.
    text
        A string literal ``{v}`` that compares exactly with `Expressions.text`.
    double
        A finite float64: ``{v}`` is the shortest text with a point or an exponent, ``{e}`` one with an exponent.
    extreme
        The same for numbers beyond 1e±125, if they are written differently; ``{i}`` is the text with an integer and an
        exponent, 15e-301 for 1.5e-300.
    has_subnormals
        Whether literals can be subnormal. If not, such thresholds are rounded up, as columns are not expected to hold
        such numbers.
    infinity, nan
        ∞ and −∞, and NaN; None if the type lacks them.
    integers
        Integers summed in 64 bits: those of more than 32 bits, and shorter ones, which may need a cast; None if floats
        are faster or shorter.
    short_integer
        An integer with sums of 32 bits.
    integer_digits
        Decimal digits of the widest integers; None without a limit.
    wide_integer, decimal
        An integer beyond 64 bits, and a decimal of precision ``{p}`` and scale ``{s}``.
    date, timestamp, timestamptz
        ``{v}`` is as in ISO 8601 with ``time_separator`` before the time.
    digits, has_whole_fractions
        Digits of fractional seconds, and whether all of them are always written.
    years
        First and last year of dates and times.
    zoned_seconds
        First and last second since 1970 of timestamps with time zone; None for the range of ``years``.
    has_endless_dates
        Whether dates and timestamps may be ``infinity``.
    interval
        ``{v}`` microseconds; None if durations are integer columns, in the units of the type.
    longest_interval
        Microseconds of the longest interval that compares with a column; None without a limit.
    cells
        By family, the value in a table row for the literal ``{v}``, if it differs from the form that `Expressions`
        compare.
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
    """Return the type for each integer type beyond signed 64 bits."""
    return dict.fromkeys(("uint64", "int128", "uint128"), type_name)


@dataclass(frozen=True)
class ColumnTypes:
    """The column types of a database.

    Attributes
    ----------
    columns
        The SQL type by feature type, or by family; unlisted feature types have none. ``decimal`` is a template of
        ``{p}`` (precision) and ``{s}`` (scale). Without ``duration``, durations are 64-bit integers in the units of the
        feature's type.
    casts
        Types that have another name in CAST.
    exact_string
        A type for strings of up to ``{n}`` bytes that compares, and is indexed, like `Expressions.text`; None to apply
        that to string columns as well.
    compared
        The type of a threshold column, by family, if it differs from that of the features.
    nullable
        A nullable column type ``{t}``.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    exact_string: str | None = None
    compared: Mapping[str, str] = field(default_factory=dict)
    nullable: str = "{t}"


# --- expressions ------------------------------------------------------------------------------------------------------


def guarded_exp(high: str, low: str) -> str:
    """Return the template of EXP for databases where overflow is an error: the argument is clipped to two literals.

    709.78 and −745.13 are the limits of float64. It is clipped to the lower one first, which also replaces NULL if
    GREATEST and LEAST ignore it, as sums of the largest numbers would overflow.
    """
    return f"EXP(LEAST(GREATEST({{x}}, {low}), {high}))"


def by_unit(template: str, **units: str) -> dict[str, str]:
    """Return a template for each unit of time, with ``{unit}`` replaced; ``units`` are names that differ.

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
        A condition that is true for floats other than NULL and NaN; None if there is no NaN.
    is_true, is_false
        A Boolean column as a condition.
    text
        A string column in a form for which ``=`` with `Literals.text` is true of equal strings only.
    as_text
        A column of any type cast to the string type ``{t}``, with its collation, if any.
    text_is_value
        Whether `text` has the characters of the column unchanged.
    equal_texts
        The condition that two string columns ``{x}`` and ``{y}`` are equal, in a form that can use an index; None to
        compare `text` of both.
    real
        A float column in a form for which ``<`` is not true of NaN, whatever the column statistics. It may turn NaN
        into NULL.
    double
        A numeric column in a form that unions with float64.
    string
        A string column in a form that unions with any string.
    number
        A numeric or Boolean column as ``{t}``, a float64; None if no expression accepts both. 1e300 for non-numeric
        text if CAST would turn it into zero.
    part
        A column of any type in a form for PARTITION BY with the groups of GROUP BY.
    time, time_with_zone
        A column of timestamps without and with time zone, in a form that compares with literals.
    longest_list
        The maximum length of an ``IN`` list; 0 to use a chain of OR, None without a limit.
    list_is_value
        Whether an ``IN`` list counts as one element of a query (see `Limits.elements`).
    branch
        ``{t}`` if the condition ``{c}`` is true, else ``{e}``, also if it is NULL.
    case_skips_unmet_whens
        Whether CASE is evaluated by vectors of rows, and skips a WHEN without matching rows in a vector, so that
        scoring is faster if rows with the same branches are adjacent (``form="sorted"``).
    longest_sum
        The maximum number of terms of a sum without parentheses; None for balanced sums in parentheses.
    uncompiled
        A zero that keeps the database from compiling a query as a whole, which is slow for large queries.
    functions
        Names of functions that differ from the standard.
    most_arguments
        The maximum number of arguments of GREATEST and LEAST; more are nested.
    exp
        e to the power of ``{x}``, safe for large and small ``{x}``.
    array
        A list of the numbers ``{v}``; None without list columns.
    lookup
        Element ``{i}`` of the constants ``{v}``, if that is a fast lookup; otherwise None.
    first_index
        The index of the first of these constants.
    longest_lookup
        The maximum number of these constants; None without a limit.
    mod, xor
        The remainder of ``{x}`` divided by ``{y}``, and their bitwise xor, for integers from 0 to below 2^63.
    bucket
        How many of the ``{n}`` ascending literals ``{v}``, which begin with ``{first}``, are at most ``{x}``, a
        non-NULL float; None for a CASE.
    quantiles
        An aggregate that returns the values of a column ``{x}`` at the ascending fractions ``{v}`` of its rows, one per
        row; None if a window function is as fast.
    struct
        A record of the fields ``{v}``, each written as ``'name': value``; None if unsupported or unused.
    now
        The current time, with time zone or in UTC.
    moment
        A date or a time as a ``{t}``, a timestamp.
    window_start
        By unit (hour, day, week from Monday, month), the start of a timestamp's window.
    window_before
        By unit, the timestamp ``{n}`` units, an integer literal, before another one.
    lambda_
        ``{value}``, SQL over ``m``, for the only item of a list; None without lambda functions.
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
    first_index: int = 1
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
    """The queryable catalog of table columns, by default the standard's.

    Attributes
    ----------
    source
        The FROM item; ``{table}`` and ``{schema}`` are the names as strings, ``{path}`` is the qualified name as a
        string, and ``{above}`` the parts of a table's name above its schema, each followed by a dot, including the
        schema if ``of_schema`` is empty.
    table, of_schema
        The columns of table and schema names; empty if the source is specific to one.
    schema
        The current schema, for unqualified tables; None if it has no name.
    name, type, collation
        The columns of a column's name, type and collation, the last NULL if unknown.
    of_both
        The columns of database and schema names, if the source covers all databases.
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
        All columns of ``{table}``, beside others.
    except_columns
        All columns except ``{v}``; None if unsupported.
    except_unknown
        The same if ``{v}`` may contain unknown columns, or from ``{strings}``, lower-case names as strings; None if
        unsupported.
    first_of_name_wins
        Whether the first of two columns of the same name in a subquery or a new table keeps the name.
    alias
        The text between a table and its alias.
    aliases_hide_columns
        Whether an alias in a SELECT hides a column of that name elsewhere in the SELECT.
    star_names_tables
        Whether ``*`` over a join qualifies column names that occur in several tables.
    joins_to_nulls
        The end of a SELECT with a LEFT JOIN that makes unmatched columns NULL.
    count
        The number of rows, and the aggregate that counts rows with ``{c}``, both in 64 bits.
    row_number
        A number that is different in each row.
    value_of_group
        The value of ``{x}``, of any type, in the row of a group where ``{c}`` is true; None to group by ``{x}``
        instead, if most types can be grouped by.
    keeps_order
        Whether tables have a row order, which ``row_number`` follows.
    fenced_stage
        A common table expression ``{name}`` of SELECT ``{select}`` that is materialised, if the database would
        otherwise inline its expressions.
    scratch_table
        A statement of ``{name}`` and ``{query}`` that creates a temporary table of the session; None if unsupported.
    reads_scratch_once
        Whether a query may reference such a table only once.
    joined
        ``{table}``, without an index, as the right side of an equality join.
    histogram
        The shape of histogram queries over many columns: a name of `frameboost.engines.sql.engine.SHAPES`.
    most_sets
        The maximum number of GROUPING SETS of a query, or of columns in them; None without a limit.
    most_keys
        The number of keys, counted from 0, up to which grouping is faster; None if it does not matter.
    set_of_row, key_of_row
        The index of the set of a row of GROUPING SETS, each of one of ``{n}`` columns ``{v}``, counted from
        ``{first}``, None to use GROUPING of each column; and the value of that column.
    catalog
        The catalog of table columns; None if not queryable.
    define_table, create_index
        Statements of ``{name}`` and ``{columns}``, and ``{index}``; None if a statement alone can't create a table, and
        if joins need no index.
    index_in_schema
        Whether the index name, not the table name, is qualified.
    many_rows
        A SELECT of ``{rows}``, literals in parentheses, if later stages would otherwise be copied into each SELECT of a
        UNION ALL; otherwise None.
    insert_row
        A row of ``{v}`` for INSERT as a separate SELECT; None to list rows after VALUES.
    create_view, create_table
        Statements of ``{name}`` and ``{query}``.
    replace_view
        Statements of these that create or replace a view, keeping its grants and dependants.
    replace_table
        A statement of these that creates or replaces a table; None if unsupported.
    create_function
        A statement of ``{name}``, ``{parameters}``, the type that it ``{returns}``, and ``{value}`` (``{text}`` as a
        string), with ``{replace}`` for `replace_function`; None where there are no scalar functions in SQL.
    parameter
        A parameter in that statement, of ``{name}``, its number ``{n}`` and ``{type}``, and in the value.
    replace_function
        The clause that lets the statement replace a function; None if it must be dropped first.
    transaction
        Statements that begin and end a transaction of DDL; None if unsupported.
    batch_end
        A line between the statements of a file, beside semicolons.
    selects_into
        Whether a query creates a table by INTO.
    insert, insert_before_stages
        The INSERT clause for ``{columns}`` of ``{name}``, and whether it precedes WITH.
    update, update_needs_where
        A statement of ``{name}``, ``{column}``, ``{value}`` and ``{where}``, and whether WHERE is mandatory.
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
        """Return the set index and the key of a row of GROUPING SETS, each of one of these columns, by index."""
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
    """The limits of a database; None without a limit, or without one that a model could reach.

    Attributes
    ----------
    text
        Bytes of a query, or of the statement that contains it.
    view
        Bytes of a CREATE VIEW, if less than ``text``.
    depth
        Levels of an expression, as the parser counts them.
    case_depth
        CASE within CASE.
    stack
        Entries of the parser's stack.
    stages
        Common table expressions in a chain.
    views
        Views in a chain, if different from ``stages``.
    columns
        Columns of a SELECT.
    elements
        Elements of a query as the parser counts them: a name or a value is one, an operator or a call two.
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
        """Return the maximum bytes of a CREATE VIEW."""
        return min((most for most in (self.text, self.view) if most is not None), default=None)

    def of_views(self) -> int | None:
        """Return the maximum length of a chain of views."""
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
    """A threshold outside a column's range: every non-missing value is below it, or none is.

    A category that the column can't hold is `BELOW`.
    """

    ABOVE = "every value is less"
    BELOW = "no value is less"


@dataclass(frozen=True)
class Dialect:
    """The SQL dialect of a database.

    Attributes
    ----------
    name
        What users call it.
    names, literals, types, expressions, statements, limits
        Its parts.
    parser
        Its name in sqlglot; by default the same.
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
        """Return a dialect that differs from this one in these fields of its parts.

        ``types`` are the column types that differ, by feature type; None if the database lacks one.

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
        """Return a table name, optionally qualified, with each part quoted; parts may already be quoted."""
        return ".".join(map(self.quote, self.parts_of(name)))

    @staticmethod
    def parts_of(name: str) -> list[str]:
        """Return the parts of a table name, optionally qualified; parts may be quoted."""
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
        """Whether a column of the type can hold the value exactly, so that its literal is not rounded up."""
        if isinstance(value, float):
            return self.literals.has_subnormals or not 0 < abs(value) < _LEAST_NORMAL
        if not kind.unit or (kind.family == "duration" and self.literals.interval is None) or isinstance(value, str):
            return True
        digits = 6 if kind.family == "duration" else self.literals.digits
        return int(value) % max(1, _PER_SECOND[kind.unit] // int(10**digits)) == 0

    def number(self, value: float) -> str:
        """Return a float64 as a literal that parses to the same number."""
        literals = self.literals
        if math.isinf(value):
            assert literals.infinity is not None, "the database has no infinities"
            return literals.infinity[value < 0]
        text = repr(float(value))
        if literals.extreme is not None and value and not _USUAL < abs(value) < 1 / _USUAL:
            return literals.extreme.format(v=text, i=_with_integer(text))
        return literals.double.format(v=text, e=text if "e" in text else f"{text}e0")

    def integer(self, value: int, *, is_short: bool) -> str:
        """Return an integer as a literal of a type that sums exactly.

        ``is_short`` means sums of 32 bits, otherwise of 53.
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
            If the database can't store it.
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
        """Return a class label as a column value."""
        return self.string(value) if isinstance(value, str) else self.literals.booleans[value]

    def _moment(self, kind: FeatureType, value: int) -> str | OutOfRange:
        """Return a date or time as a literal, rounded up to the database's fractional seconds.

        A threshold t means ``x < t``, so the first possible column value from t on is equivalent.
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
        """Return the column type for a feature, or None if the database has none."""
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
        """Return an integer from 0 to ``largest`` cast to a narrow type, which is faster to read and group by.

        Unchanged if the database, or its CAST, has only one integer type.
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
        """Return a numeric or Boolean column as float64, if necessary with the type in training."""
        template = self.expressions.number
        if template is not None:
            return template.format(x=column, t=self.types.casts.get("float64") or self.types.columns["float64"])
        if not was_boolean:
            return self.cast(column, "float64")
        is_true, is_false = (test.format(x=column) for test in (self.expressions.is_true, self.expressions.is_false))
        return f"CASE WHEN {is_true} THEN {self.number(1.0)} WHEN {is_false} THEN {self.number(0.0)} END"

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of a function of expressions."""
        if function == "EXP":
            return self.expressions.exp.format(x=arguments[0])
        name, most = self.expressions.functions.get(function, function), self.expressions.most_arguments
        while len(arguments) > most:
            parts = [arguments[first : first + most] for first in range(0, len(arguments), most)]
            # SQLite's MAX of one argument is an aggregate.
            arguments = [part[0] if len(part) == 1 else f"{name}({', '.join(part)})" for part in parts]
        return f"{name}({', '.join(arguments)})"

    def clipped(self, value: str, low: str, high: str) -> str:
        """Return a value clipped to bounds."""
        return self.call("LEAST", [self.call("GREATEST", [value, low]), high])

    def any_of(self, value: str, literals: Sequence[str]) -> str:
        """Return the condition that a value is one of the literals, of which there must be at least one."""
        if len(literals) == 1 or self.expressions.longest_list == 0:
            return " OR ".join(f"{value} = {literal}" for literal in literals)
        size = self.expressions.longest_list or len(literals)
        parts = (literals[first : first + size] for first in range(0, len(literals), size))
        return " OR ".join(f"{value} IN ({', '.join(part)})" for part in parts)

    def sum(self, terms: Sequence[str]) -> str:
        """Return a sum of numbers on a grid, in any order, in parentheses if it has several terms.

        Most parsers fail on a chain of some hundred additions, so it is a balanced tree: four terms are ``((a + b) + (c
        + d))``. Spark's parser is slow for nested parentheses, and prefers chains that are not too long.
        """
        if len(terms) == 1 and terms[0].startswith("-"):
            return f"({terms[0]})"  # as two signs begin a comment
        text = self._sum(terms)
        # What stands behind a sum of several lines begins a line, too.
        return f"{text[:-1]}\n)" if len(terms) > 1 and len(text) > _LONGEST_SUM else text

    def _sum(self, terms: Sequence[str], before: str = "") -> str:
        """Return the sum with each term but the first on a new line; ``before`` precedes that."""
        if len(terms) == 1:
            return f"{before}{terms[0]}"
        if self.expressions.longest_sum is not None and len(terms) <= self.expressions.longest_sum:
            return f"({before}{f' +{LINE}'.join(terms)})"
        middle = len(terms) // 2
        left, right = self._sum(terms[:middle], before), self._sum(terms[middle:], LINE)
        return f"({left} +{right if middle == len(terms) - 1 else f' {right}'})"

    def total(self, terms: Sequence[str]) -> str:
        """Return the sum as a whole expression."""
        if len(terms) == 1:
            return self.sum(terms)
        return self._sum(terms, LINE) if self.expressions.longest_sum is None else self._sum(terms)[1:-1]

    def select_besides(self, query: str, added: str, alias: str) -> str:
        """Return a query of all columns of another one, under an alias, and of additional ones."""
        name = self.quote(alias)
        return f"SELECT {self.statements.star.format(table=name)}, {added} FROM ({query}) {self.statements.alias}{name}"

    # --- rows of literals ---------------------------------------------------------------------------------------------

    def constant_rows(self, rows: Sequence[Sequence[str]], names: Sequence[str]) -> str:
        """Return a query of at least one row of literals, under quoted names.

        Every database supports UNION ALL of SELECTs, not every one VALUES in FROM.
        """
        first = [f"{value} AS {name}" for value, name in zip(rows[0], names, strict=True)]
        return self._union(list(map(self._select, (first, *rows[1:]))))

    def typed_rows(self, typed: str, rows: Sequence[Sequence[str]]) -> str:
        """Return a query of literal rows after an empty SELECT, which determines their names and types."""
        if self.statements.many_rows is None:
            return self._union(list(map(self._select, rows)), typed)
        listed = ",\n".join(f"({', '.join(row)})" for row in rows)
        return f"{typed}\nUNION ALL\n{self.statements.many_rows.format(rows=listed)}"

    def _select(self, values: Sequence[str]) -> str:
        return (self.statements.insert_row or "SELECT {v}").format(v=", ".join(values))

    def _union(self, selects: Sequence[str], typed: str = "") -> str:
        """Return SELECTs joined by UNION ALL, each part beginning with ``typed``."""
        if len(selects) < _MAX_SELECTS:
            return "\nUNION ALL\n".join([*([typed] if typed else []), *selects])
        size, alias = _MAX_SELECTS - 1, self.statements.alias
        unions = [self._union(selects[first : first + size], typed) for first in range(0, len(selects), size)]
        return self._union([f"SELECT * FROM (\n{union}\n) {alias}part_{i}" for i, union in enumerate(unions)])

    def rows_of(self, rows: Sequence[Sequence[str]]) -> str:
        """Return literal rows in the form of INSERT."""
        if self.statements.insert_row is not None:
            return "\nUNION ALL ".join(self.statements.insert_row.format(v=", ".join(row)) for row in rows)
        return "VALUES\n" + ",\n".join(f"({', '.join(row)})" for row in rows)


def _with_integer(text: str) -> str:
    """Return a float64's text as an integer and an exponent, such as 15e-301 for 1.5e-300."""
    sign, digits, exponent = Decimal(text).as_tuple()
    return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"


def _second_of(year: int) -> int:
    """Return the start of a year, in seconds since 1970."""
    days = (dt.datetime(min(year, 9999), 1, 1) - _EPOCH).days
    return (days + 365 * (year > 9999)) * 86_400  # Python's calendar ends with 9999, a year of 365 days

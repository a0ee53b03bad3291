"""A dialect: how a database spells names, values, types and functions, and how long and deep its queries may be.

It is data: templates with a place in braces. What is written with them is put together in `frameboost.compile`.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from frameboost.checks.arguments import is_text
from frameboost.checks.messages import shown
from frameboost.dialects.limits import Limits
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import path_parts
from frameboost.schema.types import FeatureType, Physical

__all__ = ["Dialect", "Outside"]

_EPOCH = dt.datetime(1970, 1, 1)
_LONGEST_INTEGER = 2**63
_USUAL = 1e-125
_PER_SECOND = {"ms": 10**3, "us": 10**6, "ns": 10**9}


class Outside(Enum):
    """A threshold that no value of a column can be written as: every present value is below it, or none is."""

    ABOVE = "every value is less"
    BELOW = "no value is less"


@dataclass(frozen=True)
class Dialect:
    """How a database's SQL is written.

    Attributes
    ----------
    name
        What users call it.
    parser
        What sqlglot calls it.
    quotes
        What opens and what closes a quoted name; the closing one is doubled inside.
    escapes, string_prefix
        What is written for a character inside of a quoted string, besides ``''`` for a quote; and before the string.
    name_escapes
        The same for quoted names, besides the closing quote.
    unnameable, longest_name, name_in_bytes
        Characters that no name can hold, and how many characters, or bytes, a name has at most.
    ends_in_blank
        Whether a name may end in a blank.
    double
        A finite float64, of ``{v}``, the shortest text with a point or an exponent, or ``{e}``, one with an exponent.
    extreme
        The same for numbers beyond 1e±125, where they are written in another way.
    infinity
        ∞ and −∞; None where the type has none.
    is_number
        A condition on a float ``{x}`` that is true unless it is NULL or NaN; None where there is no NaN.
    types
        The column type for each of our types (by name, or by family); a type that is not listed has none.
    casts
        Types under another name in CAST.
    integer_digits
        Decimal digits of the widest integers; None for any number.
    wide_integer, decimal
        An integer beyond 64 bits, of ``{v}``, and a decimal, of ``{v}``, ``{p}`` and ``{s}``.
    date, timestamp, timestamptz
        Of ``{v}``, as in ISO 8601 with a space before the time; timestamps have ``digits`` of a second's fraction.
    has_whole_fractions
        Whether all of them are always written.
    time_separator
        Between date and time.
    years
        First and last year of dates and times.
    has_endless_dates
        Whether dates and timestamps may be ``infinity``.
    interval
        Of ``{v}``, microseconds; None where a duration is a column of integers, in units of its type.
    is_true, is_false
        A Boolean column ``{x}`` as a condition.
    text, text_literal
        A string column ``{x}`` and a literal ``{v}``, such that ``=`` holds for equal strings only.
    longest_list
        Values that ``IN`` takes; 0 for none, where a chain of OR is better, None for any number.
    branch
        One of two values, ``{t}`` and ``{e}``, by a condition ``{c}``, the second where it is NULL.
    longest_sum
        Terms that a sum has without parentheses; None for balanced sums in parentheses.
    uncompiled
        A zero, made of a column ``{x}``, that keeps the database from compiling a query into one piece of code, which
        takes long where there is much of it.
    functions
        Names of functions where they are not the standard's.
    exp
        e to the power of ``{x}``, however large or small.
    array
        A list of numbers, of ``{v}``; None where a column holds but one.
    element
        Item number ``{i}``, from 0, of such a list ``{x}``; given where that is a fast way to look a leaf up.
    lambda_
        ``{value}``, SQL over ``m``, for the only item of a list ``{x}``; None where a value can't be named in passing.
    case_skips_unmet_whens
        Whether CASE is evaluated by vectors of rows, and a WHEN that no row of a vector satisfies costs nothing more.
        Then scoring is faster where rows that take the same branches stand together (``form="sorted"``).
    star
        All columns of ``{table}``, with others beside them.
    except_columns
        All columns but ``{v}``; None where there is no such thing.
    alias
        What stands between a table and its alias.
    nullable
        A column type ``{t}`` that takes NULL.
    define_table, create_index
        Statements of ``{name}`` and ``{columns}``, and ``{index}``; None where tables are not made by a statement
        alone, and where they need no index to be joined.
    index_in_schema
        Whether it is the index, not the table, whose name says in which schema it is.
    insert_row
        A row of ``{v}`` for INSERT, where it is a SELECT of its own; None where rows are listed after VALUES.
    create_view, create_table, update
        Statements of ``{name}`` and ``{query}``; of ``{name}``, ``{column}``, ``{value}`` and ``{where}``.
    selects_into
        Whether a table is made of a query by INTO in the query, instead.
    update_needs_where
        Whether an update of all rows must say so.
    count
        The number of rows, and what adds one where ``{c}`` holds, both in 64 bits.
    row_number
        A number that is different in each row.
    fenced_stage
        A common table expression ``{name}`` of SELECT ``{select}`` whose values are worked out once, where the database
        would otherwise put their expressions wherever their names stand.
    keeps_order
        Whether the rows of a table have an order of their own, in which ``row_number`` counts them.
    lost_names
        A regular expression for names, in lower case, that a column of a table can have, but not one of a common table
        expression.
    aliases_hide_columns
        Whether a name that a SELECT gives to a value stands for that value wherever else in the SELECT it is used.
    any_case
        Whether names that differ only in case are one name, quoted or not.
    limits
        See `frameboost.dialects.limits.Limits`.
    """

    name: str
    parser: str
    quotes: tuple[str, str] = ('"', '"')
    escapes: Mapping[str, str] = field(default_factory=dict)
    string_prefix: str = ""
    name_escapes: Mapping[str, str] = field(default_factory=dict)
    unnameable: str = "\0"
    longest_name: int | None = None
    name_in_bytes: bool = False
    ends_in_blank: bool = True
    double: str = "{v}"
    extreme: str | None = None
    infinity: tuple[str, str] | None = None
    is_number: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    casts: Mapping[str, str] = field(default_factory=dict)
    integer_digits: int | None = None
    wide_integer: str = "{v}"
    decimal: str = "{v}"
    date: str = "DATE '{v}'"
    timestamp: str = "TIMESTAMP '{v}'"
    timestamptz: str = "TIMESTAMP '{v}+00:00'"
    digits: int = 6
    has_whole_fractions: bool = False
    time_separator: str = " "
    years: tuple[int, int] = (1, 9999)
    has_endless_dates: bool = False
    interval: str | None = None
    is_true: str = "{x}"
    is_false: str = "NOT {x}"
    text: str = "{x}"
    text_literal: str = "{v}"
    longest_list: int | None = None
    longest_sum: int | None = None
    uncompiled: str | None = None
    branch: str = "CASE WHEN {c} THEN {t} ELSE {e} END"
    functions: Mapping[str, str] = field(default_factory=dict)
    exp: str = "EXP({x})"
    array: str | None = None
    element: str | None = None
    lambda_: str | None = None
    case_skips_unmet_whens: bool = False
    star: str = "*"
    except_columns: str | None = None
    alias: str = "AS "
    nullable: str = "{t}"
    define_table: str | None = "CREATE TABLE {name} (\n  {columns}\n)"
    create_index: str | None = None
    index_in_schema: bool = False
    insert_row: str | None = None
    create_view: str = "CREATE VIEW {name} AS\n{query}"
    create_table: str = "CREATE TABLE {name} AS\n{query}"
    update: str = "UPDATE {name}\nSET {column} = {value}{where}"
    selects_into: bool = False
    update_needs_where: bool = False
    count: tuple[str, str] = ("COUNT(*)", "SUM(CASE WHEN {c} THEN 1 ELSE 0 END)")
    row_number: str = "ROW_NUMBER() OVER ()"
    fenced_stage: str = "{name} AS (\nSELECT {select}\n)"
    keeps_order: bool = False
    lost_names: str | None = None
    aliases_hide_columns: bool = False
    any_case: bool = False
    limits: Limits = field(default_factory=Limits)

    # --- names and strings --------------------------------------------------------------------------------------------

    def quote(self, name: str) -> str:
        """Return a column, table or function name as a quoted identifier.

        Raises
        ------
        ParameterError
            If the database can't have such a name.
        """
        if not isinstance(name, str):
            raise ParameterError(f"a name must be a string, not {shown(name)}")
        wrong = next((character for character in name if character in self.unnameable), None)
        what = f"holds {shown(wrong)}" if wrong is not None else ""
        if not self.ends_in_blank and name.endswith(" "):
            what = "ends in a blank"
        if not name:
            what = "is empty"
        if not is_text(name):
            what = "holds half of a character, a surrogate"
        if what:
            raise ParameterError(f"the name {shown(name)} {what}, which no name in {self.name} can; rename it there")
        size, unit = (len(name.encode()), "bytes") if self.name_in_bytes else (len(name), "characters")
        if self.longest_name is not None and size > self.longest_name:
            raise ParameterError(
                f"the name {shown(name)} has {size} {unit}, and names in {self.name} have at most {self.longest_name}; "
                "rename it there"
            )
        opening, closing = self.quotes
        escapes = {**self.name_escapes, closing: closing * 2}
        return opening + "".join(escapes.get(character, character) for character in name) + closing

    def quote_path(self, name: str) -> str:
        """Return a table name that may be qualified by dots, each part quoted; a part may come in quotes of its own."""
        return ".".join(map(self.quote, self.parts_of(name)))

    @staticmethod
    def parts_of(name: str) -> list[str]:
        """Return the parts of a table name that may be qualified by dots."""
        if not isinstance(name, str):
            raise ParameterError(f"the name of a table must be a string, not {shown(name)}")
        return path_parts(name)

    def string(self, value: str) -> str:
        """Return a string as a literal."""
        escapes = {"'": "''", **self.escapes}
        return f"{self.string_prefix}'" + "".join(escapes.get(c, c) for c in value) + "'"

    # --- numbers ------------------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        """Return a float64 as a literal of the type that reads back as the same number."""
        if math.isinf(value):
            assert self.infinity is not None, f"{self.name} has no infinities"
            return self.infinity[value < 0]
        text = repr(float(value))
        if self.extreme is not None and value and not _USUAL < abs(value) < 1 / _USUAL:
            return self.extreme.format(v=text)
        return self.double.format(v=text, e=text if "e" in text else f"{text}e0")

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Return a call of one of the functions that expressions have."""
        if function == "EXP":
            return self.exp.format(x=arguments[0])
        return f"{self.functions.get(function, function)}({', '.join(arguments)})"

    def any_of(self, value: str, literals: Sequence[str]) -> str:
        """Return the condition that a value is one of the literals, of which there is at least one."""
        if len(literals) == 1 or self.longest_list == 0:
            return " OR ".join(f"{value} = {literal}" for literal in literals)
        size = self.longest_list or len(literals)
        parts = (literals[first : first + size] for first in range(0, len(literals), size))
        return " OR ".join(f"{value} IN ({', '.join(part)})" for part in parts)

    def sum(self, terms: Sequence[str]) -> str:
        """Return a sum of numbers on a grid, whose order does not matter, in parentheses if it has several terms.

        Most parsers give up on a chain of some hundred additions, so it is a balanced tree; Spark's takes longer over
        parentheses the more is in them, and likes a chain that is not too long.
        """
        if len(terms) == 1:
            return terms[0]
        if self.longest_sum is not None and len(terms) <= self.longest_sum:
            return "(" + "\n + ".join(terms) + ")"
        middle = len(terms) // 2
        return f"({self.sum(terms[:middle])}\n + {self.sum(terms[middle:])})"

    def total(self, terms: Sequence[str]) -> str:
        """Return the same sum where it stands alone."""
        text = self.sum(terms)
        return text if self.longest_sum is None or len(terms) == 1 else text[1:-1]

    def rows_of(self, rows: Sequence[Sequence[str]]) -> str:
        """Return rows of literals as INSERT takes them."""
        if self.insert_row is not None:
            return "\nUNION ALL ".join(self.insert_row.format(v=", ".join(row)) for row in rows)
        return "VALUES\n" + ",\n".join(f"({', '.join(row)})" for row in rows)

    # --- types --------------------------------------------------------------------------------------------------------

    def type_of(self, kind: FeatureType) -> str | None:
        """Return the type of a column that holds a feature, or None if the database has none."""
        if kind.precision_and_scale:
            template = self.types.get("decimal")
            return template and template.format(p=kind.precision_and_scale[0], s=kind.precision_and_scale[1])
        if kind.family == "duration" and self.interval is None:
            return self.types.get("int64")
        return self.types.get(kind.name) or self.types.get(kind.family)

    def cast(self, value: str, type_name: str) -> str:
        """Return a value as one of our types."""
        return f"CAST({value} AS {self.casts.get(type_name) or self.types[type_name]})"

    def literal(self, kind: FeatureType, value: Physical) -> str | Outside:
        """Return a physical value as a literal that compares exactly with a column of the type."""
        if isinstance(value, str):
            return self.text_literal.format(v=self.string(value))
        if kind.is_float:
            number = float(value)
            if math.isinf(number) and self.infinity is None:
                return Outside.ABOVE if number > 0 else Outside.BELOW
            return self.number(number)
        whole = int(value)
        if kind.precision_and_scale:
            precision, scale = kind.precision_and_scale
            return self.decimal.format(v=f"{kind.decimal(whole):f}", p=precision, s=scale)
        if kind.family in ("date", "timestamp", "timestamptz"):
            return self._moment(kind, whole)
        if kind.family == "duration" and self.interval is not None:
            return self.interval.format(v=-(-whole * 10**6 // _PER_SECOND[kind.unit or "us"]))
        if self.integer_digits is not None and abs(whole) >= 10**self.integer_digits:
            return Outside.ABOVE if whole > 0 else Outside.BELOW
        return str(whole) if -_LONGEST_INTEGER <= whole < _LONGEST_INTEGER else self.wide_integer.format(v=whole)

    def _moment(self, kind: FeatureType, value: int) -> str | Outside:
        """Return a date or a time as a literal; of a time the first that the database's fractions can tell from it."""
        template = {"date": self.date, "timestamp": self.timestamp, "timestamptz": self.timestamptz}[kind.family]
        assert kind.bounds is not None
        if abs(value) == kind.bounds[1] and self.has_endless_dates:
            return template.replace("+00:00", "").format(v="infinity" if value > 0 else "-infinity")
        if kind.family == "date":
            seconds, fraction = value * 86_400, ""
        else:
            parts = -(-value * 10**self.digits // _PER_SECOND[kind.unit or "us"])
            seconds, rest = divmod(parts, 10**self.digits)
            fraction = f".{rest:0{self.digits}d}"
            fraction = fraction if self.has_whole_fractions else fraction.rstrip("0").rstrip(".")
        if not _second_of(self.years[0]) <= seconds < _second_of(self.years[1] + 1):
            return Outside.ABOVE if value > 0 else Outside.BELOW
        moment = _EPOCH + dt.timedelta(seconds=seconds)
        text = (
            moment.date().isoformat() if kind.family == "date" else moment.isoformat(sep=self.time_separator) + fraction
        )
        return template.format(v=text)


def _second_of(year: int) -> int:
    """Return when the year begins, in seconds since 1970."""
    days = (dt.datetime(min(year, 9999), 1, 1) - _EPOCH).days
    return (days + 365 * (year > 9999)) * 86_400  # Python's calendar ends with 9999, a year of 365 days

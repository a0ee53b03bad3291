"""SQL for DuckDB: identifiers, literals, physical values, tests for missing values, and the statements in ``sql/``.

All names and values in training queries are quoted here. Scoring in other databases uses the literals of
`frameboost.dialects`; DuckDB's dialect takes them from here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from frameboost.expressions.expression import float_literal
from frameboost.schema.types import DUCKDB_TYPES, FeatureType, Physical

__all__ = [
    "EXACT_TEXT",
    "IS_NUMBER",
    "is_missing",
    "is_present",
    "literal",
    "membership",
    "path_parts",
    "physical_sql",
    "quote_identifier",
    "quote_path",
    "render",
    "string_literal",
]


# A condition that is true of floats but for NULL and NaN. Statistics of Parquet files leave NaN out, and comparisons,
# since 2.0.1 isnan too, are folded by them; these two functions are not (measured, 2.0.1; duckdb#25521).
IS_NUMBER = "(isfinite({x}) OR isinf({x}))"
# A string or a value of an ENUM as what compares by its bytes, whatever the collation of column and connection.
EXACT_TEXT = "{x}::VARCHAR COLLATE C"
# DuckDB's physical values of 'infinity', of dates and of timestamps; -'infinity' is the negative.
_ENDLESS_DAYS, _ENDLESS = 2**31 - 1, 2**63 - 1
_EPOCH = dt.datetime(1970, 1, 1)
_PER_MICROSECOND = {"ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


def quote_identifier(name: str) -> str:
    """Return a column, table or function name as a quoted identifier.

    >>> quote_identifier('the "best" column')
    '"the ""best"" column"'
    """
    return '"' + name.replace('"', '""') + '"'


def quote_path(name: str) -> str:
    """Return a table name, optionally qualified, with each part quoted, whether it came quoted or not.

    >>> quote_path('sales.orders'), quote_path('"odd.name"')
    ('"sales"."orders"', '"odd.name"')
    """
    return ".".join(map(quote_identifier, path_parts(name)))


def path_parts(name: str) -> list[str]:
    """Return the unquoted parts of a table name, optionally qualified.

    >>> path_parts('sales."odd.name"')
    ['sales', 'odd.name']
    """
    parts, inside = [""], False
    for character in name:
        if character == '"':
            inside = not inside
        if character == "." and not inside:
            parts.append("")
        else:
            parts[-1] += character
    return [p[1:-1].replace('""', '"') if len(p) > 1 and p[0] == p[-1] == '"' else p for p in parts]


def string_literal(value: str) -> str:
    """Return a string as a SQL literal."""
    return "'" + value.replace("'", "''").replace("\0", "' || chr(0) || '") + "'"


def literal(kind: FeatureType, value: Physical) -> str:
    """Return a physical value as a literal of the column's type, or of a type that compares exactly with it.

    >>> literal(FeatureType("decimal(9,2)"), 1250), literal(FeatureType("date"), 19_000)
    ("CAST('12.50' AS DECIMAL(9, 2))", "DATE '2022-01-08'")
    """
    if isinstance(value, str):
        return string_literal(value)
    if kind.is_float:
        return float_literal(float(value))
    number = int(value)
    if kind.family == "boolean":
        return "TRUE" if number else "FALSE"
    if kind.precision_and_scale:
        precision, scale = kind.precision_and_scale
        return f"CAST('{kind.decimal(number):f}' AS DECIMAL({precision}, {scale}))"
    if kind.family == "date":
        return _date_literal(number)
    if kind.unit:
        return _time_literal(kind, kind.unit, number)
    # DuckDB compares a UHUGEINT with a HUGEINT as DOUBLE.
    return f"CAST('{number}' AS UHUGEINT)" if kind.values.name == "uint128" else str(number)


def _date_literal(days: int) -> str:
    if abs(days) == _ENDLESS_DAYS:
        return f"DATE '{'-' if days < 0 else ''}infinity'"
    try:
        return f"DATE '{(_EPOCH + dt.timedelta(days)).date().isoformat()}'"
    except OverflowError:  # outside Python's years 1 to 9999
        return f"(DATE '1970-01-01' + CAST({days} AS INTEGER))"


def _time_literal(kind: FeatureType, unit: str, number: int) -> str:
    if kind.family == "duration":
        # INTERVAL counts microseconds. Rounding a threshold up to them changes no comparison x < threshold.
        times, parts = _PER_MICROSECOND[unit]
        return f"to_microseconds({-(-number * times // parts)})"
    zone = "+00" if kind.family == "timestamptz" else ""
    if abs(number) == _ENDLESS:
        return f"CAST('{'-' if number < 0 else ''}infinity' AS {DUCKDB_TYPES[kind.values.name]})"
    if unit == "ns":
        return f"(make_timestamp_ns({number}) AT TIME ZONE 'UTC')" if zone else f"make_timestamp_ns({number})"
    times, parts = _PER_MICROSECOND[unit]
    microseconds = -(-number * times // parts)
    try:
        text = (_EPOCH + dt.timedelta(microseconds=microseconds)).isoformat(sep=" ")
    except OverflowError:
        made = f"make_timestamp({microseconds})"
        return f"({made} AT TIME ZONE 'UTC')" if zone else made
    return f"{DUCKDB_TYPES[kind.values.name]} '{text}{zone}'"


def physical_sql(kind: FeatureType, value: str) -> str:
    """Return SQL for the physical value of ``value``, in a type that reaches Python without loss.

    Decimals and integers, which may not fit an int64, are sent as text.
    """
    if kind.is_float:
        return f"CAST({value} AS DOUBLE)"
    if kind.family == "boolean":
        return f"CAST({value} AS INTEGER)"
    if kind.family == "date":
        return f"({value} - DATE '1970-01-01')"
    if kind.unit:
        if kind.family == "duration":
            return f"epoch_{kind.unit}({value})"
        branches = " ".join(
            f"WHEN {value} = {_time_literal(kind, kind.unit, endless)} THEN {endless}"
            for endless in (_ENDLESS, -_ENDLESS)
        )
        # DuckDB 2.0.1 has lost epoch_ms of the types with seconds and milliseconds.
        time = f"CAST({value} AS TIMESTAMP)" if kind.unit == "ms" else value
        return f"CASE {branches} ELSE epoch_{kind.unit}({time}) END"
    return f"CAST({value} AS VARCHAR)"


def is_missing(kind: FeatureType, column: str) -> str:
    """Return the condition that a value is missing: NULL or, in a float column, NaN."""
    return f"({column} IS NULL OR isnan({column}))" if kind.is_float else f"{column} IS NULL"


def is_present(kind: FeatureType, column: str) -> str:
    """Return the condition that a value is not missing."""
    return f"({column} IS NOT NULL AND NOT isnan({column}))" if kind.is_float else f"{column} IS NOT NULL"


def membership(column: str, values: Sequence[str]) -> str:
    """Return the condition that a column is one of ``values``, SQL literals; false for an empty list."""
    return f"{column} IN ({', '.join(values)})" if values else "FALSE"


# --- the statements in ``sql/`` ---------------------------------------------------------------------------------------

# The folder is at the top of the repository in a checkout, and inside the package once it is installed.


@cache
def _statement(name: str) -> str:
    package = Path(__file__).parents[1]
    folder = next(f for f in (package / "sql", package.parent / "sql") if (f / "histograms.sql").is_file())
    lines = (folder / f"{name}.sql").read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.startswith("--"))


def render(name: str, **parts: object) -> str:
    """Return the statement in ``sql/<name>.sql``, without its header, with all ``{part}`` placeholders replaced."""
    return _statement(name).format_map(parts)

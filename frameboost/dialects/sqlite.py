"""SQLite's dialect."""

from __future__ import annotations

import math
from dataclasses import dataclass

from frameboost.dialects.dialect import (
    INDEX,
    MATERIALIZED,
    Catalog,
    ColumnTypes,
    Dialect,
    Expressions,
    Limits,
    Literals,
    Names,
    Statements,
    by_unit,
)

__all__ = ["SQLITE"]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "codes")
# Numbers between these are read with an error far below half a unit in the last place.
_SMALLEST, _LARGEST = 1e-20, 1e20
_FEW_DIGITS = 3
_STEP = 60


@dataclass(frozen=True)
class _SQLite(Dialect):
    """SQLite's literals: it does not parse every decimal to the nearest float64.

    It rounds twice, to 64 bits and to 53, so that a short decimal between two float64 numbers can become the wrong one;
    decimals with 17 digits are close to one of them. SQLite 3.40 also misreads numbers far from 1, in time quadratic in
    the number of digits; these are written as an integer below 2^53 times or over powers of two, which is exact: 2^70
    is ``(1.0 * 2^60 * 2^10)``, with digits written out.
    """

    def number(self, value: float) -> str:
        if math.isinf(value) or value == 0:
            return super().number(value)
        if _SMALLEST < abs(value) < _LARGEST:
            text = repr(float(value))
            is_short = "e" not in text and len(text.replace(".", "").strip("-0")) <= _FEW_DIGITS
            return text if is_short else f"{value:#.17g}"
        fraction, power = math.frexp(value)
        numerator, power = int(fraction * 2**53), power - 53
        while numerator % 2 == 0:
            numerator, power = numerator // 2, power + 1
        steps = [*[_STEP] * (abs(power) // _STEP), abs(power) % _STEP]
        operator = " / " if power < 0 else " * "
        return f"({operator.join([f'{numerator}.0', *(f'{2**step}.0' for step in steps if step)])})"


SQLITE = _SQLite(
    name="sqlite",
    names=Names(
        # In double quotes, a name that is no column is a string. https://www.sqlite.org/lang_keywords.html
        quotes=("`", "`"),
        # A column of a subquery called true or false becomes column1 and so on (measured, 3.40.1).
        lost="true|false",
        # https://www.sqlite.org/lang_keywords.html
        any_case=True,
    ),
    literals=Literals(
        # SQL ends with a NUL. https://www.sqlite.org/nulinstr.html
        encoded=("\0", "CAST(x'{v}' AS TEXT)"),
        # 9e999 is infinity (measured, 3.40.1); a NaN becomes NULL. https://www.sqlite.org/floatingpoint.html
        infinity=("9e999", "-9e999"),
        # https://www.sqlite.org/datatype3.html
        integers=("{v}", "{v}"),
        # Dates and times are text. https://www.sqlite.org/lang_datefunc.html
        date="'{v}'", timestamp="'{v}'", timestamptz="'{v}'", digits=9,
    ),
    types=ColumnTypes(
        # https://www.sqlite.org/datatype3.html
        columns={
            **dict.fromkeys(_INTEGERS, "INTEGER"), "float32": "REAL", "float64": "REAL", "decimal": "NUMERIC",
            "boolean": "INTEGER", "date": "TEXT", "timestamp": "TEXT", "timestamptz": "TEXT", "string": "TEXT",
        },
    ),
    expressions=Expressions(
        # https://www.sqlite.org/lang_expr.html
        mod="({x} % {y})", xor="(({x} | {y}) - ({x} & {y}))",
        # Exact, whatever the collation of the column. https://www.sqlite.org/datatype3.html
        text="{x} COLLATE BINARY",
        # Of other text CAST makes 0. https://www.sqlite.org/lang_expr.html#castexpr
        number="CASE WHEN typeof({x}) = 'text' AND {x} <> CAST({x} AS {t}) THEN 1e300 ELSE CAST({x} AS {t}) END",
        # Text, with a blank or a T before the time. https://www.sqlite.org/lang_datefunc.html
        time="REPLACE({x}, 'T', ' ')", time_with_zone="REPLACE({x}, 'T', ' ')",
        # Of two or more arguments. https://www.sqlite.org/lang_corefunc.html
        functions={"GREATEST": "MAX", "LEAST": "MIN"},
        # A date is text without a time, which is before the same one at midnight. https://www.sqlite.org/lang_datefunc.html
        moment="datetime({x})",
        # https://www.sqlite.org/lang_datefunc.html
        window_start={
            "hour": "strftime('%Y-%m-%d %H:00:00', {x})", "day": "strftime('%Y-%m-%d 00:00:00', {x})",
            "week": "strftime('%Y-%m-%d 00:00:00', {x}, '-6 days', 'weekday 1')",
            "month": "strftime('%Y-%m-01 00:00:00', {x})",
        },
        window_before={
            **by_unit("strftime('%Y-%m-%d %H:%M:%S', {x}, '-{n} {unit}')"),
            "week": "strftime('%Y-%m-%d %H:%M:%S', {x}, '-' || (7 * {n}) || ' day')",
        },
    ),
    statements=Statements(
        # A table's collations are in no pragma. https://www.sqlite.org/pragma.html#pragma_table_info
        catalog=Catalog("pragma_table_info({table}, {schema})", "", "", "NULL", "name", "type"),
        # Measured, 3.40.1; the other one of a new table is called prediction:1.
        first_of_name_wins=True,
        keeps_order=True,
        # Others are flattened into the query; since 3.35. https://www.sqlite.org/lang_with.html
        fenced_stage=MATERIALIZED,
        # The schema precedes the index. https://www.sqlite.org/lang_createindex.html
        create_index=INDEX, index_in_schema=True,
        # Neither OR REPLACE nor grants; views find what they read by name. https://www.sqlite.org/lang_createview.html
        replace_view=("DROP VIEW IF EXISTS {name}", "CREATE VIEW {name} AS\n{query}"), transaction=("BEGIN", "COMMIT"),
    ),
    limits=Limits(
        # SQLITE_MAX_SQL_LENGTH, SQLITE_MAX_EXPR_DEPTH and the parser's stack. https://www.sqlite.org/limits.html
        text=10**9, depth=1000, stack=100,
        # 18 levels of CASE overflow that stack, 10 do below a sum of 1,000 trees (measured, 3.40.1).
        case_depth=9,
        # Tables in a join, also of flattened CTEs. https://www.sqlite.org/limits.html
        stages=64,
        # SQLITE_MAX_COLUMN. https://github.com/sqlite/sqlite/blob/master/src/sqliteLimit.h
        columns=2000,
    ),
)  # fmt: skip

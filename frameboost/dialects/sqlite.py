"""SQLite's dialect."""

from __future__ import annotations

import math
from dataclasses import dataclass

from frameboost.dialects.dialect import Dialect
from frameboost.dialects.limits import Limits

__all__ = ["SQLITE"]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "codes")
# What lies between these is read with an error far below half a unit in the last place.
_SMALLEST, _LARGEST = 1e-20, 1e20
_FEW_DIGITS = 3
_STEP = 60


@dataclass(frozen=True)
class _SQLite(Dialect):
    """SQLite, which does not read every decimal as the nearest float64.

    It rounds twice, to 64 bits and to 53, so that a decimal between two float64, as short ones may be, can become
    the wrong one: here they have 17 digits, which are near one of them. And it misreads numbers far from 1 (3.40):
    these are a quotient or a product of an integer below 2^53 and powers of two, which is exact, but takes time
    quadratic in their number.
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
    parser="sqlite",
    quotes=("`", "`"),  # what is in double quotes and no column is a string
    lost_names="true|false",
    fenced_stage="{name} AS MATERIALIZED (\nSELECT {select}\n)",
    keeps_order=True,
    infinity=("9e999", "-9e999"),
    types={
        **dict.fromkeys(_INTEGERS, "INTEGER"), "float32": "REAL", "float64": "REAL", "decimal": "NUMERIC",
        "boolean": "INTEGER", "date": "TEXT", "timestamp": "TEXT", "timestamptz": "TEXT", "string": "TEXT",
    },
    date="'{v}'",
    timestamp="'{v}'",
    timestamptz="'{v}'",
    digits=9,
    text="{x} COLLATE BINARY",
    functions={"GREATEST": "MAX", "LEAST": "MIN"},
    index_in_schema=True,
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    any_case=True,
    limits=Limits(text=10**9, depth=1000, case_depth=9, stack=100, stages=64, columns=2000),
)  # fmt: skip

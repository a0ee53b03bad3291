"""SQLite's dialect."""

from __future__ import annotations

import math
from dataclasses import dataclass

from frameboost.dialects.dialect import Dialect, Limits

__all__ = ["SQLITE"]

_INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "codes")
# Numbers of no more digits, and no more zeros, are read by one exact operation.
_DIGITS, _ZEROS = 15, 22
_STEP = 60


@dataclass(frozen=True)
class _SQLite(Dialect):
    """SQLite, which does not read every decimal as the nearest float64.

    Its manual promises 15 digits, and 3.40 misreads some numbers far from 1. Longer ones are written as a quotient or a
    product of an integer below 2^53 and powers of two, which is exact.
    """

    def number(self, value: float) -> str:
        text = repr(float(value))
        mantissa, _, exponent = text.partition("e")
        digits = mantissa.replace("-", "").replace(".", "").strip("0")
        if math.isinf(value) or (len(digits) <= _DIGITS and abs(int(exponent or "0")) + len(mantissa) <= _ZEROS):
            return super().number(value)
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
    create_index="CREATE INDEX {index} ON {name} ({columns})",
    any_case=True,
    limits=Limits(text=10**9, depth=1000, columns=2000),
)  # fmt: skip

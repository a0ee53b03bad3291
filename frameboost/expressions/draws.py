"""Random numbers that every engine draws alike: a hash of a row's position, or of a feature's number, and a key.

The hash is three rounds of multiply and xor-shift on 32 bits (in the manner of Wellons' "lowbias32"), with multipliers
below 2^31, so that no product leaves a signed 64-bit integer: plain BIGINT arithmetic does it, in SQL as in polars.
"""

from __future__ import annotations

from typing import TypeVar

import polars as pl

__all__ = ["draw_expr", "draw_sql", "key_of", "mix"]

_MASK = 2**32 - 1
_FIRST, _SECOND, _THIRD = 0x45D9F3B, 0x7FEB352D, 0x2C1B3C6D

_Number = TypeVar("_Number", int, pl.Expr)


def mix(value: _Number, key: int) -> _Number:
    """Return a hash in [0, 2^32) of integers in [0, 2^32)."""
    x = (value * _FIRST + key) % 2**32
    x = (x ^ (x // 2**16)) * _SECOND % 2**32
    x = (x ^ (x // 2**15)) * _THIRD % 2**32
    return x ^ (x // 2**16)


def key_of(seed: int, *path: int) -> int:
    """Return a key for a place in a fit, such as (tree, level); different places have unrelated keys."""
    key = mix(seed & _MASK, seed >> 32 & _MASK)
    for step in path:
        key = mix(step + 1, key)
    return key


def draw_expr(position: pl.Expr, key: int) -> pl.Expr:
    """Return a uniform number in [0, 1) for each row position (Int64)."""
    return mix(position % 2**32, key).cast(pl.Float64) / 2.0**32


def draw_sql(position: str, key: int) -> str:
    """Return the same in DuckDB's SQL, of an integer expression."""
    # A sub-select a round would hide the arithmetic; a lambda names what is used twice.
    first = f"[(CAST({position} AS BIGINT) % {2**32} * {_FIRST} + {key}) % {2**32}]"
    second = f"list_transform({first}, lambda x: xor(x, x // {2**16}) * {_SECOND} % {2**32})"
    third = f"list_transform({second}, lambda x: xor(x, x // {2**15}) * {_THIRD} % {2**32})"
    last = f"list_transform({third}, lambda x: xor(x, x // {2**16}))"
    return f"(CAST({last}[1] AS DOUBLE) / 4294967296e0)"

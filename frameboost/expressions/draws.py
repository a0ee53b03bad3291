"""Random numbers by hashing: the same in every engine, whatever the order of the rows.

A draw is a hash of a key and of the row position (or the feature index). The key is a hash of the seed and of the step
of the fit: what is drawn, the tree, the level. There is no state, so draws are the same in every thread and engine.

The hash is three rounds of multiply and xor-shift on 32 bits, as in Wellons' "lowbias32". Its multipliers are below
2^31, so no product overflows a signed 64-bit integer, and BIGINT arithmetic is enough, in SQL as in polars.

Draws for the first three rows; a sample of half of the rows has those with a draw below 0.5, here only row 2:

>>> key = draw_key(7, 0)
>>> key, [hash32(position, key) for position in range(3)]
(1417765027, [3348640924, 4267088298, 2116513947])
>>> [round(hash32(position, key) / 2**32, 3) for position in range(3)]
[0.78, 0.994, 0.493]
>>> pl.select(draw_expr(pl.int_range(3, dtype=pl.Int64), key).round(3)).to_series().to_list()
[0.78, 0.994, 0.493]
>>> draws(np.arange(3), key).round(3).tolist()
[0.78, 0.994, 0.493]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["FIRST", "SECOND", "THIRD", "RowPositions", "draw_expr", "draw_key", "draw_sql", "draws", "hash32"]


_MASK = 2**32 - 1
FIRST, SECOND, THIRD = 0x45D9F3B, 0x7FEB352D, 0x2C1B3C6D

_Number = TypeVar("_Number", int, pl.Expr)


def hash32(value: _Number, key: int) -> _Number:
    """Return the hash, in [0, 2^32), of a value and a key in [0, 2^32)."""
    x = (value * FIRST + key) % 2**32
    x = (x ^ (x // 2**16)) * SECOND % 2**32
    x = (x ^ (x // 2**15)) * THIRD % 2**32
    return x ^ (x // 2**16)


def draw_key(seed: int, *path: int) -> int:
    """Return the key of a step of a fit, such as (tree, level); keys of different steps are unrelated."""
    key = hash32(seed & _MASK, seed >> 32 & _MASK)
    for step in path:
        key = hash32(step + 1, key)
    return key


def draw_expr(position: pl.Expr, key: int) -> pl.Expr:
    """Return a uniform number in [0, 1) for each row position (Int64)."""
    return hash32(position % 2**32, key).cast(pl.Float64) / 2.0**32


def draws(positions: npt.NDArray[np.integer], key: int) -> npt.NDArray[np.float64]:
    """Return the same number for an array of positions."""
    x = positions.astype(np.uint32)  # 32 bits wrap around by themselves
    x *= FIRST
    x += key
    for shift, factor in ((16, SECOND), (15, THIRD)):
        x ^= x >> shift
        x *= factor
    x ^= x >> 16
    return x / 2.0**32


def draw_sql(position: str, key: int) -> str:
    """Return the same number in DuckDB's SQL, for an integer expression."""
    # The xor-shift uses its operand twice; a lambda over a list of one names it.
    first = f"[(CAST({position} AS BIGINT) % {2**32} * {FIRST} + {key}) % {2**32}]"
    second = f"list_transform({first}, lambda x: xor(x, x // {2**16}) * {SECOND} % {2**32})"
    third = f"list_transform({second}, lambda x: xor(x, x // {2**15}) * {THIRD} % {2**32})"
    last = f"list_transform({third}, lambda x: xor(x, x // {2**16}))"
    return f"(CAST({last}[1] AS DOUBLE) / 4294967296e0)"


@dataclass(frozen=True)
class RowPositions:
    """The positions among all rows of the rows in a shard.

    Rows 0 to 2 of this shard are the rows 10 to 12 of all, and later rows those from 40 on:

    >>> positions = RowPositions(((0, 10), (3, 40)))
    >>> pl.select(positions.expr(pl.int_range(5))).to_series().to_list()
    [10, 11, 12, 40, 41]
    >>> positions.sql("rowid")
    '(rowid + CASE WHEN rowid < 3 THEN 10 ELSE 37 END)'

    Attributes
    ----------
    runs
        The first row of each run of consecutive rows, and its position among all rows; the first is row 0.
    """

    runs: tuple[tuple[int, int], ...] = ((0, 0),)

    @property
    def _added(self) -> list[int]:
        return [position - row for row, position in self.runs]

    def expr(self, row: pl.Expr) -> pl.Expr:
        """Return the position, Int64, of a row."""
        if len(self.runs) == 1:
            return row.cast(pl.Int64) + self.runs[0][1]
        return row.map_batches(lambda rows: pl.Series(rows.name, self.of(rows.to_numpy())), return_dtype=pl.Int64)

    def of(self, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Return the positions of some rows."""
        positions = rows.astype(np.int64)
        added = np.array(self._added)
        run = np.searchsorted([first for first, _ in self.runs], positions, side="right") - 1 if len(added) > 1 else 0
        positions += added[run]
        return positions

    def sql(self, row: str) -> str:
        """Return the position of a row in DuckDB's SQL."""
        if len(self.runs) == 1:
            return f"({row} + {self.runs[0][1]})"
        ends = [first for first, _ in self.runs[1:]]
        cases = " ".join(f"WHEN {row} < {end} THEN {added}" for end, added in zip(ends, self._added, strict=False))
        return f"({row} + CASE {cases} ELSE {self._added[-1]} END)"

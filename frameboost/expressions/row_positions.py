"""The positions among all rows of the rows that a shard holds, by which rows are drawn.

Rows 0 to 2 of this shard are the rows 10 to 12 of all, and its further rows those from 40 on:

>>> places = RowPositions(((0, 10), (3, 40)))
>>> pl.select(places.expr(pl.int_range(5))).to_series().to_list()
[10, 11, 12, 40, 41]
>>> places.sql("rowid")
'(rowid + CASE WHEN rowid < 3 THEN 10 ELSE 37 END)'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["RowPositions"]


@dataclass(frozen=True)
class RowPositions:
    """The position of each row.

    Attributes
    ----------
    runs
        The first row of each run of rows that follow each other, and its position among all rows; the first is row 0.
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

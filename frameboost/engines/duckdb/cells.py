"""Cells of equal width over a column's cuts: the binary search for a bin starts from the value's cell.

Say the cuts are 1, 2, 3, 10, and the cells are 3 wide and centred on 1, 4, 7 and 10. They hold the cuts {1, 2}, {3}, {}
and {10}, so 0, 2, 3 and 3 cuts are in lower cells: a value in the second cell starts at bin 2, with one cut to compare.

The number of a cell is a monotone function of the value, also as floating point arithmetic rounds it. So cuts in lower
cells are not above the value, and cuts in higher cells are: only those in the value's own cell are left to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.expressions.duckdb_sql import literal
from frameboost.expressions.expression import float_literal
from frameboost.schema.types import FeatureType, Physical

__all__ = ["NUMBERS", "Cells"]

# Types whose values become the same number as DOUBLE in a database and as float64 here.
NUMBERS = ("float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)))
# Longer lists fall out of the cache.
_SIZES = (256, 512, 1024, 2048, 4096)
# Finding the cell takes as long as about two steps of the search.
_MIN_STEPS_SAVED = 3


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a column.

    Attributes
    ----------
    kind
        The column's type.
    low, high
        Its first and last cut.
    scale
        The number of cells per unit of the column.
    below
        The number of cuts in lower cells, for each cell.
    n_steps
        The number of steps that are left to search: 2^(n_steps - 1), ..., 2, 1.
    """

    kind: FeatureType
    low: Physical
    high: Physical
    scale: float
    below: tuple[int, ...]
    n_steps: int

    @classmethod
    def of(cls, kind: FeatureType, cuts: Sequence[Physical]) -> Cells | None:
        """Return the cells for cuts in ascending order, or None if they would not save enough steps."""
        if kind.name not in NUMBERS or len(cuts).bit_length() <= _MIN_STEPS_SAVED:
            return None
        found = None
        with np.errstate(all="ignore"):
            cuts = kind.edges(cuts)
            numbers = np.array(cuts, dtype=np.float64)
            for size in _SIZES:
                scale = float(size / (numbers[-1] - numbers[0]))
                cells = np.rint((numbers - numbers[0]) * scale)
                if not (0.0 < scale < np.inf and np.isfinite(cells).all()):
                    return None
                n_steps = int(np.unique(cells, return_counts=True)[1].max()).bit_length()
                if found is None or n_steps < found.n_steps:
                    below = np.searchsorted(cells, np.arange(cells[-1] + 1)).tolist()
                    found = cls(kind, cuts[0], cuts[-1], scale, tuple(below), n_steps)
        assert found is not None
        return found if found.n_steps + _MIN_STEPS_SAVED <= len(cuts).bit_length() else None

    def start(self, column: str, below: str) -> str:
        """Return the SQL of the bin to start from, given a column and the list ``below`` in SQL."""
        low, high = (literal(self.kind, cut) for cut in (self.low, self.high))
        number = f"(CAST({column} AS DOUBLE) - {float_literal(float(self.low))}) * {float_literal(self.scale)}"
        return (
            f"CAST({below}[CASE WHEN {column} < {low} THEN 1 WHEN {column} >= {high} THEN {len(self.below)} "
            f"ELSE CAST({number} AS BIGINT) + 1 END] AS BIGINT)"
        )

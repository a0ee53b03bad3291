"""Where the search for a value's bin starts in a database: cells of equal width, with few cuts in each.

A cell's number is computed by operations that never turn the order of two numbers round. So no cut of a lower cell is
above a value, and every cut of a higher one is: only those of its own cell are left to search, however numbers round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.expressions.duckdb_sql import literal
from frameboost.expressions.expression import float_literal
from frameboost.schema.types import FeatureType, Physical

__all__ = ["Cells"]

# Types whose values become DOUBLE in a database as they become float64 here.
_COUNTED = ("float32", "float64", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64)))
# Longer lists fall out of the cache.
_SIZES = (256, 512, 1024, 2048, 4096)
# A cell takes about as long to find as two steps of a search.
_FEWEST_STEPS_SAVED = 3


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of a column.

    Attributes
    ----------
    kind
        The column's type.
    low, high
        The first of its cuts and the last.
    scale
        Cells by unit of the column.
    below
        For each cell how many cuts are in lower ones.
    n_steps
        How many steps a search takes that starts from there: of 2^(n_steps - 1), ..., 2, 1.
    """

    kind: FeatureType
    low: Physical
    high: Physical
    scale: float
    below: tuple[int, ...]
    n_steps: int

    @classmethod
    def of(cls, kind: FeatureType, cuts: Sequence[Physical]) -> Cells | None:
        """Return the cells for cuts in ascending order, or None if cells would not make the search shorter."""
        if kind.name not in _COUNTED or len(cuts).bit_length() <= _FEWEST_STEPS_SAVED:
            return None
        found = None
        with np.errstate(all="ignore"):
            numbers = np.array(cuts, dtype=np.float64)
            for size in _SIZES:
                scale = float(size / (numbers[-1] - numbers[0]))
                places = np.rint((numbers - numbers[0]) * scale)
                if not (0.0 < scale < np.inf and np.isfinite(places).all()):
                    return None
                n_steps = int(np.unique(places, return_counts=True)[1].max()).bit_length()
                if found is None or n_steps < found.n_steps:
                    found = cls(kind, cuts[0], cuts[-1], scale, _below(places), n_steps)
        assert found is not None
        return found if found.n_steps + _FEWEST_STEPS_SAVED <= len(cuts).bit_length() else None

    def start(self, column: str, below: str) -> str:
        """Return the number of cuts in lower cells than the value of ``column``, where ``below`` is the list's."""
        low, high = (literal(self.kind, cut) for cut in (self.low, self.high))
        number = f"(CAST({column} AS DOUBLE) - {float_literal(float(self.low))}) * {float_literal(self.scale)}"
        return (
            f"CAST({below}[CASE WHEN {column} < {low} THEN 1 WHEN {column} >= {high} THEN {len(self.below)} "
            f"ELSE CAST({number} AS BIGINT) + 1 END] AS BIGINT)"
        )


def _below(places: npt.NDArray[np.float64]) -> tuple[int, ...]:
    return tuple(np.searchsorted(places, np.arange(places[-1] + 1)).tolist())

"""Pairs of equal h as one int64 each, for the sums of `frameboost.engines.memory.star.codes`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frameboost.engines.memory.star.packed_kernels import pack_pairs
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["Grid", "PackedPairs", "most_in_one"]

# The step of g, the h of all rows, and the number of bits of the count.
Grid = tuple[float, float, int]
# Rows of which one must have an h that is not 0: those of a sample are spread evenly.
_LOOKED_AT = 1 << 12


class PackedPairs:
    """The pairs of a tree as `frameboost.engines.memory.star.packed_kernels` adds them, if h is the same in all rows.

    Attributes
    ----------
    values
        int64 (rows,), see `pack_pairs`.
    grid
        None if the pairs of this tree are not packed.
    """

    def __init__(self, n_rows: int) -> None:
        self.values: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self.grid: Grid | None = None
        self._n_rows = n_rows

    def start_tree(self, pairs: FloatArray, step: float, workers: Workers) -> None:
        """Pack the pairs of the tree that is started, float64 (rows, 2), if they can be; ``step`` is that of g or 0."""
        self.grid = None
        h = float(pairs[:_LOOKED_AT, 1].max())
        if not 0 < h < np.inf or step <= 0 or not np.isin(pairs[:_LOOKED_AT, 1], (0.0, h)).all():
            return
        if len(self.values) != self._n_rows:
            self.values = np.empty(self._n_rows, np.int64)
        bits, values = _bits(self._n_rows), self.values
        most = 2.0 ** _magnitude_bits(self._n_rows)

        def pack(rows: tuple[int, int]) -> bool:
            return bool(pack_pairs(pairs, 1 / step, h, bits, most, *rows, values))

        if all(workers.each(workers.slices(self._n_rows, VALUES_PER_TASK), pack)):
            self.grid = step, h, bits


def most_in_one(n_rows: int) -> int:
    """Return how many rows the sum of one int64 may have at most, where there are ``n_rows`` in all."""
    return (1 << _bits(n_rows)) - 1


def _magnitude_bits(n_rows: int) -> int:
    """Return k such that g is at most 2^k steps (see `frameboost.expressions.grid`)."""
    return 52 - (max(n_rows, 4) - 1).bit_length()


def _bits(n_rows: int) -> int:
    """Return how many bits count rows: n rows have sums of g up to n · 2^k, and n fits the bits below."""
    return (63 - _magnitude_bits(n_rows)) // 2

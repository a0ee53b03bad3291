"""Pairs of equal h as one int64 each, for the sums of `frameboost.engines.memory.star.codes`."""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.star.packed_kernels import pack_pairs
from frameboost.engines.memory.star.records import Records
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["Grid", "PackedPairs", "most_in_one"]

# The step of g, the h of all rows, the number of bits of the count, and the bits that a number is shorter than 64.
Grid = tuple[float, float, int, int]
# Rows of which one must have an h that is not 0: those of a sample are spread evenly.
_LOOKED_AT = 1 << 12


class PackedPairs:
    """The pairs of a tree as `frameboost.engines.memory.star.packed_kernels` adds them, if h is the same in all rows.

    They are the numbers of `Records`.

    Attributes
    ----------
    grid
        None if the pairs of this tree are not packed.
    """

    def __init__(self, n_rows: int) -> None:
        self.grid: Grid | None = None
        self._n_rows = n_rows
        self._n_bytes = -(-(_magnitude_bits(n_rows) + 3) // 8)  # with a sign, for up to ± 2^k, and the count

    def bytes_of(self, pairs: FloatArray, step: float) -> int:
        """Return how many bytes a record needs for these pairs: 0 if they surely can't be packed."""
        h = pairs[:_LOOKED_AT, 1]
        may_pack = 0 < h.max() < np.inf and step > 0 and np.isin(h, (0.0, h.max())).all()
        return self._n_bytes if may_pack else 0

    def start_tree(self, pairs: FloatArray, step: float, records: Records, workers: Workers) -> None:
        """Pack the pairs of the tree that is started, float64 (rows, 2), if they can be; ``step`` is that of g or 0."""
        self.grid = None
        if not self.bytes_of(pairs, step):
            return
        h, shift = float(pairs[:_LOOKED_AT, 1].max()), 64 - 8 * records.n_number
        most = 2.0 ** _magnitude_bits(self._n_rows)

        def pack(rows: tuple[int, int]) -> bool:
            return bool(pack_pairs(pairs, 1 / step, h, most, shift, *rows, records.bytes))

        if all(workers.each(workers.slices(self._n_rows, VALUES_PER_TASK), pack)):
            self.grid = step, h, _bits(self._n_rows), shift


def most_in_one(n_rows: int) -> int:
    """Return how many rows the sum of one int64 may have at most, where there are ``n_rows`` in all."""
    return (1 << _bits(n_rows)) - 1


def _magnitude_bits(n_rows: int) -> int:
    """Return k such that g is at most 2^k steps (see `frameboost.expressions.grid`)."""
    return 52 - (max(n_rows, 4) - 1).bit_length()


def _bits(n_rows: int) -> int:
    """Return how many bits count rows: n rows have sums of g up to n · 2^k, and n fits the bits below."""
    return (63 - _magnitude_bits(n_rows)) // 2

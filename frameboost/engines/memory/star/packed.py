"""g and h of facts as whole numbers of steps, in their records: one cache line has all that is read of a fact.

Say the step of g is s. Where h is the same in all rows, a row with g = 5 s has the number 5 · 2 + 1: the lowest bit
counts rows, and is 0 where a sample leaves the row out. A sum of these has both sums (see `packed_kernels`). Where h
differs, a row with g = 5 s and h = 3 t has the numbers 5 and 3.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.gradients import Scale
from frameboost.engines.memory.programs.program import Program
from frameboost.engines.memory.star.number_kernels import compute_numbers, write_numbers
from frameboost.engines.memory.star.records import Records
from frameboost.runtime.task_sizes import ROWS_PER_TASK, VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["Grid", "PackedGradients", "most_in_one"]

# The step of g, the h of all rows, the number of bits of the count, and the bits that a number is shorter than 64.
Grid = tuple[float, float, int, int]
# The steps of g and h, and the bytes of a number.
Steps = tuple[float, float, int]


class PackedGradients:
    """The pairs of a tree as the numbers of `Records`.

    Attributes
    ----------
    grid
        Set if h is the same in all rows; None if the pairs of this tree are not packed, or have both numbers.
    steps
        Set if there are two numbers for g and h; else None.

    Parameters
    ----------
    n_rows
        The number of facts.
    may_count
        Whether rows of the same h may be counted, as codes are bytes.
    """

    def __init__(self, n_rows: int, *, may_count: bool) -> None:
        self.grid: Grid | None = None
        self.steps: Steps | None = None
        self._n_rows = n_rows
        self._may_count = may_count
        self._most = 2.0 ** _magnitude_bits(n_rows)
        self._n_bytes = -(-(_magnitude_bits(n_rows) + 3) // 8)  # with a sign, for up to ± 2^k, and the count

    def bytes_of(self, scale: Scale | None) -> int:
        """Return how many bytes a record needs for pairs of this scale."""
        if scale is None:
            return 0
        return self._n_bytes if self._same_h(scale) else 2 * self._n_bytes

    def write(self, gh: FloatArray, scale: Scale | None, records: Records, workers: Workers) -> None:
        """Pack pairs, float64 (rows, 2), if they can be."""
        self.grid = self.steps = None
        if scale is None:
            return
        inverses, same_h = 1 / np.array([scale.g, scale.h]), self._same_h(scale)

        def write(rows: tuple[int, int]) -> bool:
            own = gh[slice(*rows)]
            return bool(write_numbers(own, inverses, same_h, self._most, self._n_bytes, *rows, records.bytes))

        if all(workers.each(workers.slices(self._n_rows, VALUES_PER_TASK), write)):
            self._keep(scale)

    def compute(
        self, program: Program, columns: IntArray, offsets: FloatArray, scale: Scale, records: Records,
        workers: Workers,
    ) -> tuple[FloatArray, FloatArray]:  # fmt: skip
        """Compute pairs as numbers, and return their largest magnitudes and sums.

        See `frameboost.engines.memory.programs.arrays.compute_all`; ``columns`` are their addresses.
        """
        self.grid = self.steps = None
        count = workers.count(self._n_rows, ROWS_PER_TASK)
        largest, totals = np.empty((2, count, 2))
        steps = np.array([scale.g, scale.h])
        compute_numbers(
            workers.team(count), program.for_kernels, program.constants, columns, program.results, offsets, 1 / steps,
            self._same_h(scale), self._n_bytes, records.bytes, largest, totals,
        )  # fmt: skip
        most = largest.max(axis=0)
        if (most <= self._most * steps).all():  # not if NaN
            self._keep(scale)
        return most, totals.sum(axis=0)  # exact

    def _same_h(self, scale: Scale) -> float:
        return scale.same_h if self._may_count else 0.0

    def _keep(self, scale: Scale) -> None:
        if same_h := self._same_h(scale):
            self.grid = scale.g, same_h, _bits(self._n_rows), 64 - 8 * self._n_bytes
        else:
            self.steps = scale.g, scale.h, self._n_bytes


def most_in_one(n_rows: int) -> int:
    """Return how many rows the sum of one int64 may have at most, where there are ``n_rows`` in all."""
    return (1 << _bits(n_rows)) - 1


def _magnitude_bits(n_rows: int) -> int:
    """Return k such that g is at most 2^k steps (see `frameboost.expressions.grid`)."""
    return 52 - (max(n_rows, 4) - 1).bit_length()


def _bits(n_rows: int) -> int:
    """Return how many bits count rows: n rows have sums of g up to n · 2^k, and n fits the bits below."""
    return (63 - _magnitude_bits(n_rows)) // 2

"""g and h of a block of rows: computed again from the margins and labels wherever they are used.

A row's g and h take 16 bytes, its margin 8, and its label mostly one. Reading 16 bytes from a disk takes longer than
computing them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.external_memory.blocks import Block, blocks
from frameboost.engines.memory.gradients import Gradients
from frameboost.engines.memory.programs.arrays import Addresses, compute_block
from frameboost.engines.memory.programs.program import Program
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, Stats

__all__ = ["RecomputedGradients"]


class RecomputedGradients(Gradients):
    """Gradient pairs that are stored only if they must be.

    They are if there are several outputs, or if no program computes them.

    Parameters
    ----------
    workers, constants, storage
        See `Gradients`.
    stored
        Whether to store them always.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage, *, stored: bool) -> None:
        super().__init__(workers, constants, storage)
        self._stored = stored
        self._program: Program | None = None  # of pairs that are not stored
        self._columns: Sequence[FloatArray] = ()
        self._is_expired = False

    @property
    def are_stored(self) -> bool:
        """Whether `pairs` has those of all rows."""
        return self._program is None

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """See `Gradients.make_room`."""
        self._program = program if n_outputs == 1 and not self._stored else None
        self._is_expired = False
        super().make_room(n_outputs, n_rows if self.are_stored else 0, program)

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """See `Gradients.run`."""
        if self.are_stored:
            return super().run(program, [np.asarray(column, np.float64) for column in columns], n_rows)
        self._columns = columns
        found = self._workers.each(list(blocks(0, n_rows)), lambda block: self._computed(block, None)[1:])
        largest, totals = (np.array(each) for each in zip(*found, strict=True))
        self.totals = [Stats(*totals.sum(axis=0).tolist())]  # exact
        most: list[float] = largest.max(axis=0).tolist()
        return most

    def columns(self) -> list[pl.Series]:
        """See `Gradients.columns`; none if they are not stored."""
        return super().columns() if self.are_stored else []

    def expire(self) -> None:
        """Say that the margins have changed."""
        self._is_expired = True

    def of_block(self, output: int, block: Block, rows: npt.NDArray[np.uint32] | None) -> FloatArray:
        """Return g and h, float64 (rows, 2), of a block, or of some of its ``rows``, counted from its first."""
        if self.are_stored:
            gh = self.gh[output, block.start : block.stop]
            return gh if rows is None else gh[rows]
        return self._computed(block, rows)[0]

    def _computed(self, block: Block, rows: npt.NDArray[np.uint32] | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return g and h of a block, or of some of its rows, their largest magnitudes and their sums."""
        program = self._program
        assert program is not None
        assert not self._is_expired
        own = [column[block.start : block.stop] for column in self._columns]
        columns = [np.asarray(column if rows is None else column[rows], np.float64) for column in own]
        n_rows = block.stop - block.start if rows is None else len(rows)
        gh = np.empty((1, n_rows, 2))
        return gh[0], *compute_block(program, columns, n_rows, self._offsets, gh, Addresses())

"""g and h of facts: written to their records as they are computed, where nothing else reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from frameboost.engines.memory.gradients import Gradients, Scale
from frameboost.engines.memory.programs.program import Program
from frameboost.engines.memory.star.codes import KeyedColumns
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray

__all__ = ["RecordedGradients"]


class RecordedGradients(Gradients):
    """Gradient pairs that are only in records, from when `record` is called on.

    Arrays of them are computed when they are asked for, as for the sums of linear leaves, and from then on every round.
    They always are if there are several outputs, or if no program computes them.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage) -> None:
        super().__init__(workers, constants, storage)
        self._keyed: KeyedColumns | None = None
        self._computed: tuple[Program, Sequence[FloatArray], int] | None = None  # from what, if only in records
        self._is_expired = False
        self._are_read = False  # whether arrays have been asked for

    @property
    def are_recorded(self) -> bool:
        """Whether the pairs of this round are in records."""
        return self._computed is not None and self._keyed is not None and self._keyed.has_numbers

    def record(self, keyed: KeyedColumns | None) -> None:
        """Write the pairs of rounds to come to the records of these columns, if there are any."""
        self._keyed = keyed

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """See `Gradients.make_room`; there is none for pairs that will be in records."""
        is_recorded = self._keyed is not None and n_outputs == 1 and program is not None and not self._are_read
        self._computed, self._is_expired = None, False
        super().make_room(n_outputs, 0 if is_recorded else n_rows, program)

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """See `Gradients.run`."""
        if self._keyed is None or self.gh.size or len(program.results) > 2:
            return super().run(program, columns, n_rows)
        self._computed = program, columns, n_rows
        # Of the first round no grid is known: what is written then is computed again, as soon as the largest are.
        scale = self.scale(0) or Scale(1.0, 1.0, 0.0)
        largest, sums = self._keyed.compute(program, self._addresses.of(columns), self._offsets, scale)
        self._set_totals(sums)
        found: list[float] = largest.tolist()
        return found

    def of(self, output: int) -> FloatArray:
        """See `Gradients.of`."""
        if self._computed is not None and not self.gh.size:
            assert not self._is_expired
            self._are_read = True
            program, columns, n_rows = self._computed
            super().make_room(1, n_rows, program)
            super().run(program, columns, n_rows)
        return super().of(output)

    def columns(self) -> list[pl.Series]:
        """See `Gradients.columns`; none if they are only in records."""
        return super().columns() if self._computed is None else []

    def expire(self) -> None:
        """Say that the margins have changed: arrays that have not been computed can't be any more."""
        self._is_expired = True

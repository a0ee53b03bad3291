"""Gradients in memory: g and h of every row, by a compiled program or by polars, rounded to their grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.programs import (
    Addresses,
    Program,
    compile_program,
    compute_all,
    compute_few,
    is_for_numpy,
)
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar, grid_offset, offset_step
from frameboost.runtime.kernel import kernel
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray, Stats

__all__ = ["Gradients", "Scale", "put_gh", "round_gh"]


class Scale(NamedTuple):
    """What pairs are multiples of.

    Attributes
    ----------
    g, h
        The steps of their grids.
    same_h
        The h of all rows, if the loss has the same in every row and it is positive; else 0.
    """

    g: float
    h: float
    same_h: float


class _Rows(Protocol):
    terms: dict[str, Scalar | Cumulative | QueryWindow]

    @property
    def n_rows(self) -> int: ...

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame: ...

    def array(self, name: str) -> FloatArray | None: ...


class Records(Protocol):
    """What holds the codes of each row, and can hold its g and h beside them."""

    @property
    def has_numbers(self) -> bool:
        """Whether it holds those of this round."""

    def compute(
        self, program: Program, addresses: IntArray, offsets: FloatArray, scale: Scale
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the pairs of all rows; return their largest magnitudes and their sums."""


class Gradients:
    """g and h of every row, side by side.

    Attributes
    ----------
    gh
        float64 (outputs, rows, 2): g and h. Each output's g is on one grid and its h on another, so sums are exact (see
        `frameboost.expressions.grid`).
    totals
        The sums of each output.

    Parameters
    ----------
    workers
        The threads.
    constants
        Columns with one value in all rows.
    storage
        Where the pairs are kept.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage = IN_MEMORY) -> None:
        self.gh: FloatArray = np.empty((0, 0, 2))
        self.totals: list[Stats] = []
        self._workers = workers
        self._constants = constants
        self._storage = storage
        self._is_current = False  # whether the pairs are those of this round
        self._offsets = np.empty(0)  # of the grids of each output's g and h, in the round before
        self._addresses = Addresses()
        self._compiled: tuple[list[Expression], dict[str, Any], Program | None] | None = None

    def compute(
        self, gradients: Mapping[str, Expression], rows: _Rows, offsets: Sequence[float] | None = None
    ) -> list[float]:
        """Compute the pairs from ``g_0``, ``h_0``, ``g_1``, ...: by one program if it can, else by polars.

        A grid depends on the largest gradient, which is known only after all are computed. Its step is a power of two,
        though, and seldom differs from the round before. So a program rounds rows to the last grids at once, and
        computes all again if these turn out to be the wrong ones; with ``offsets`` those are the grids. The largest
        magnitude of each gradient is returned.
        """
        program, arrays = self._prepare(gradients, rows)
        if offsets is not None:
            self._offsets = np.array(offsets)
        if program is None:
            largest = self._compute_by_polars(gradients, rows, offsets)
        else:
            largest = self.run(program, arrays, rows.n_rows)
            while offsets is None and (grids := self._grids(largest, rows.n_rows)) != self._offsets.tolist():
                self._offsets = np.array(grids)
                largest = self.run(program, arrays, rows.n_rows)
        self._is_current = True
        return largest

    def _prepare(self, gradients: Mapping[str, Expression], rows: _Rows) -> tuple[Program | None, list[FloatArray]]:
        """Make room for the pairs; return the program for them and its columns, if there is one that can be run."""
        self.forget()
        program = self._program_of(gradients, rows)
        arrays = [] if program is None else [rows.array(name) for name in program.columns]
        present = [array for array in arrays if array is not None]
        if len(present) < len(arrays):
            program, present = None, []
        self.make_room(len(gradients) // 2, rows.n_rows, program)
        return program, present

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """Make room for the pairs that a program, or polars, is about to compute."""
        if self.gh.shape[:2] != (n_outputs, n_rows):  # kept from round to round: fresh memory is slow
            self.gh = self._storage.empty((n_outputs, n_rows, 2), np.float64, is_rewritten=True)
        if len(self._offsets) != 2 * n_outputs:
            self._offsets = np.zeros(2 * n_outputs)

    @staticmethod
    def _grids(largest: Sequence[float], n_rows: int) -> list[float]:
        return [grid_offset(each, n_rows) for each in largest]

    def forget(self) -> None:
        """Leave the pairs out of `columns` until they are computed again."""
        self._is_current = False

    def of(self, output: int) -> FloatArray:
        """Return g and h of an output, float64 (rows, 2)."""
        gh: FloatArray = self.gh[output]
        return gh

    def summed(self, output: int) -> FloatArray:
        """Return the pairs of an output that histograms add up; none where they read them elsewhere."""
        return self.of(output)

    def expire(self) -> None:
        """Say that the margins have changed: pairs that have not been computed can't be any more."""

    def keep_order(self, records: Records | None) -> None:
        """Say that the rows stay in their order from now on, and what can hold their pairs beside their codes."""

    def scale(self, output: int) -> Scale | None:
        """Return what an output's pairs are multiples of; None if they were not computed by a program."""
        program = None if self._compiled is None else self._compiled[2]
        if program is None:
            return None
        g, h = (offset_step(float(each)) for each in self._offsets[2 * output : 2 * output + 2])
        if not g or not h:
            return None
        constant, offset = program.constant(2 * output + 1), float(self._offsets[2 * output + 1])
        return Scale(g, h, (constant + offset) - offset if constant is not None and constant > 0 else 0.0)

    def columns(self) -> list[pl.Series]:
        """Return this round's pairs as the columns ``g_0``, ``h_0``, ``g_1``, ...; none while they are computed."""
        if not self._is_current:
            return []
        return [
            pl.Series(f"{kind}_{output}", gh[:, i]) for output, gh in enumerate(self.gh) for i, kind in enumerate("gh")
        ]

    def round(self, gh: FloatArray, offsets: Sequence[float]) -> Stats:
        """Round pairs, float64 (rows, 2), to the grids of these offsets, in place; return their sums."""
        slices = self._workers.slices(len(gh), VALUES_PER_TASK)
        sums = self._workers.each(slices, lambda slice_: round_gh(gh[slice(*slice_)], *offsets))
        return Stats(*(float(sum(parts)) for parts in zip(*sums, strict=True)))

    def _program_of(self, gradients: Mapping[str, Expression], rows: _Rows) -> Program | None:
        """Return the gradients' program, compiled anew only when they or the terms have changed."""
        expressions = list(gradients.values())
        if self._compiled is None or self._compiled[0] != expressions or self._compiled[1] != rows.terms:
            terms = dict(rows.terms)
            self._compiled = expressions, terms, compile_program(expressions, terms, self._constants)
        return self._compiled[2]

    def _compute_by_polars(
        self, gradients: Mapping[str, Expression], rows: _Rows, offsets: Sequence[float] | None
    ) -> list[float]:
        """Compute the pairs on grids of ``offsets``, None for those of their magnitudes; return the largest."""
        columns = rows.by_row(gradients).get_columns()
        self.totals, largest = [], []
        for k, gh in enumerate(self.gh):
            magnitudes = put_gh(columns[2 * k].to_numpy(), columns[2 * k + 1].to_numpy(), gh)
            largest += magnitudes
            grids = self._grids(magnitudes, rows.n_rows) if offsets is None else offsets[2 * k : 2 * k + 2]
            self.totals.append(self.round(gh, grids))
        return largest

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """Run a program over its columns, on the grids of ``_offsets``; return the largest magnitudes."""
        if is_for_numpy(n_rows):
            largest, sums = compute_few(program, columns, self._offsets, self.gh)
        else:
            largest, sums = compute_all(
                program, program.results, columns, n_rows, self._offsets, self.gh, self._addresses, self._workers
            )
        self._set_totals(sums)
        return largest.tolist()  # type: ignore[no-any-return]

    def _set_totals(self, sums: FloatArray) -> None:
        values = sums.tolist()
        self.totals = [Stats(values[k], values[k + 1]) for k in range(0, len(values), 2)]


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def put_gh(gradients, hessians, gh):  # type: ignore[no-untyped-def]
    """Write g and h, float64 (rows,) each, to ``gh``, (rows, 2); return max|g| and max|h|, NaN ignored."""
    largest_g = largest_h = 0.0
    for row in range(len(gradients)):
        g, h = gradients[row], hessians[row]
        gh[row, 0], gh[row, 1] = g, h
        largest_g = abs(g) if abs(g) > largest_g else largest_g
        largest_h = abs(h) if abs(h) > largest_h else largest_h
    return largest_g, largest_h


@kernel
def round_gh(gh, offset_g, offset_h):  # type: ignore[no-untyped-def]
    """Round g and h, float64 (rows, 2), to the grids of these offsets, in place (see `frameboost.expressions.grid`).

    Returns
    -------
    float64
        The exact sum of g.
    float64
        The exact sum of h.
    """
    total_g = total_h = 0.0
    for row in range(len(gh)):
        g = (gh[row, 0] + offset_g) - offset_g
        h = (gh[row, 1] + offset_h) - offset_h
        gh[row, 0], gh[row, 1] = g, h
        total_g += g
        total_h += h
    return total_g, total_h

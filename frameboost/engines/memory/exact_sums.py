"""Exact sums of expressions over rows in memory, as metrics need them each round: by programs (see `programs`).

The largest magnitude of an expression sets the grid that its sum is taken on. On many rows a program rounds to the
grids of the round before, as for gradients, and sums again only if these turn out to be the wrong ones.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.programs import (
    Addresses,
    Program,
    compile_program,
    compute_all,
    compute_gh,
    evaluate,
    is_for_numpy,
)
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar, grid_offset
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray

__all__ = ["ExactSums", "values_by_row"]


# Rows that a kernel rounds at a time: what it writes stays in the processor's cache.
_BLOCK = 1 << 15


class _Rows(Protocol):
    terms: dict[str, Scalar | Cumulative | QueryWindow]

    def array(self, name: str) -> npt.NDArray[Any] | None: ...

    def fixed_key(self, expression: Scalar) -> Hashable | None: ...

    @property
    def fixed_version(self) -> int: ...


@dataclass
class _Plan:
    """How the sums of some expressions are computed, while the terms and the fixed expressions are what they were."""

    terms: Mapping[str, Any]
    keys: list[Hashable | None]  # of the fixed expressions, None for others
    version: int  # of the fixed terms that the keys are of
    program: Program | None  # of those that change from round to round; None if they are none, or have no program
    changing: tuple[str, ...] = ()
    known: dict[str, float] = field(default_factory=dict)
    # The kernel takes pairs: results of an odd number have the first once more.
    results: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    offsets: FloatArray = field(default_factory=lambda: np.empty(0))
    addresses: Addresses = field(default_factory=Addresses)


class ExactSums:
    """Sums over ``n_rows`` rows, or over fewer that are sums of these.

    Parameters
    ----------
    n_rows
        The number of rows, on which the grids depend.
    workers
        The threads.
    constants
        Columns with one value in all rows.
    """

    def __init__(self, n_rows: int, workers: Workers, constants: Mapping[str, float]) -> None:
        self._n_rows = n_rows
        self._workers = workers
        self._constants = constants
        self._rounded: FloatArray = np.empty((0, 0, 2))
        self._plans: dict[tuple[tuple[str, Expression], ...], _Plan] = {}

    def of(self, expressions: Mapping[str, Expression], rows: _Rows) -> dict[str, float] | None:
        """Return the sums by name; None if there is no program for them, or if a number is NaN."""
        key = tuple(expressions.items())
        plan = self._plans.get(key)
        if plan is None or plan.version != rows.fixed_version or plan.terms != rows.terms:
            keys = [rows.fixed_key(each) for each in expressions.values()]
            if plan is None or plan.keys != keys or plan.terms != rows.terms:
                self._plans[key] = plan = self._planned(expressions, rows, keys)
            plan.version = rows.fixed_version
        if plan.program is None:
            return dict(plan.known) if len(plan.known) == len(expressions) else None
        sums = self._sums(plan.program, plan, rows)
        return None if sums is None else plan.known | dict(zip(plan.changing, sums, strict=True))

    def _planned(self, expressions: Mapping[str, Expression], rows: _Rows, keys: list[Hashable | None]) -> _Plan:
        """Return how sums are computed from now on; those of fixed expressions are computed at once."""
        terms = dict(rows.terms)
        plan = _Plan(terms, keys, rows.fixed_version, None)
        fixed = [name for name, key in zip(expressions, keys, strict=True) if key is not None]
        program = compile_program([expressions[name] for name in fixed], terms, self._constants)
        sums = None if program is None else self._sums(program, _Plan(terms, [], 0, program), rows)
        plan.known = {} if sums is None else dict(zip(fixed, sums, strict=True))
        plan.changing = tuple(name for name in expressions if name not in plan.known)
        remaining = [expressions[name] for name in plan.changing]
        plan.program = compile_program(remaining, terms, self._constants) if remaining else None
        return plan

    def _sums(self, program: Program, plan: _Plan, rows: _Rows) -> list[float] | None:
        arrays = [rows.array(name) for name in program.columns]
        columns = [array for array in arrays if array is not None]
        if len(columns) < len(arrays):
            return None
        n_rows = len(columns[0]) if columns else self._n_rows
        if not n_rows:
            return [0.0] * len(program.results)
        if is_for_numpy(n_rows):
            return self._of_few(evaluate(program, [np.asarray(each, np.float64) for each in columns]), n_rows)
        if not len(plan.results):
            plan.results = _paired(program.results)
            plan.offsets = np.zeros(len(plan.results))
        while True:
            largest, sums = self._of_many(program, columns, plan, n_rows)
            if np.isnan(largest).any():
                return None
            offsets = [grid_offset(each, self._n_rows) for each in largest.tolist()]
            if offsets == plan.offsets.tolist():
                return sums.tolist()[: len(program.results)]  # type: ignore[no-any-return]
            plan.offsets = np.array(offsets)

    def _of_few(self, results: Sequence[Any], n_rows: int) -> list[float] | None:
        sums = []
        for values in results:
            largest = max(-float(np.min(values, initial=0.0)), float(np.max(values, initial=0.0)))
            if largest != largest:
                return None
            offset = grid_offset(largest, self._n_rows)
            on_grid = (values + offset) - offset
            sums.append(float(np.add.reduce(on_grid)) if np.ndim(on_grid) else float(on_grid) * n_rows)
        return sums

    def _of_many(
        self, program: Program, columns: Sequence[npt.NDArray[Any]], plan: _Plan, n_rows: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the largest magnitude of each result, and its sum on the grid of its offset."""
        if n_rows <= _BLOCK:
            self._make_room(plan)
            block = [np.ascontiguousarray(column, np.float64) for column in columns]  # as it is, if it is one
            return compute_all(
                program, plan.results, block, n_rows, plan.offsets, self._rounded, plan.addresses, self._workers
            )

        def of_slice(slice_: tuple[int, int], rounded: FloatArray) -> tuple[FloatArray, FloatArray]:
            parts = []
            for start in range(*slice_, _BLOCK):
                stop = min(start + _BLOCK, slice_[1])
                block = [np.ascontiguousarray(column[start:stop], np.float64) for column in columns]
                addresses = np.array([column.ctypes.data for column in block], dtype=np.int64)
                part = compute_gh(
                    program.for_kernels, program.constants, addresses, plan.results, 0, stop - start, plan.offsets,
                    rounded,
                )  # fmt: skip
                parts.append(part)
            return _merged(parts)

        if n_rows < 2 * VALUES_PER_TASK:
            self._make_room(plan)
            return of_slice((0, n_rows), self._rounded)
        slices = self._workers.slices(n_rows, VALUES_PER_TASK)
        room = len(plan.results) // 2, _BLOCK, 2
        return _merged(self._workers.each(slices, lambda slice_: of_slice(slice_, np.empty(room))))

    def _make_room(self, plan: _Plan) -> None:
        """Make room for rounded values, which is kept from round to round: fresh memory is slow."""
        if self._rounded.shape[0] != len(plan.results) // 2:
            self._rounded = np.empty((len(plan.results) // 2, min(self._n_rows, _BLOCK), 2))


def _merged(parts: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return the largest magnitudes, NaN if one is, and the sums over several parts of the rows."""
    if len(parts) == 1:
        return parts[0]
    largest, sums = zip(*parts, strict=True)
    return np.max(largest, axis=0), np.sum(sums, axis=0)


def values_by_row(
    program: Program, columns: Sequence[npt.NDArray[Any]], n_rows: int, workers: Workers
) -> list[FloatArray]:
    """Return the results of a program in every row, those of zero without their sign."""
    columns = [np.ascontiguousarray(column, np.float64) for column in columns]
    if is_for_numpy(n_rows):
        return [np.broadcast_to(np.float64(0.0) + values, (n_rows,)) for values in evaluate(program, columns)]
    n_results, even = len(program.results), _paired(program.results)
    gh = np.empty((len(even) // 2, n_rows, 2))
    addresses = np.array([column.ctypes.data for column in columns], dtype=np.int64)
    as_they_are = np.zeros(len(even))

    def compute(first: int, last: int) -> None:
        compute_gh(program.for_kernels, program.constants, addresses, even, first, last, as_they_are, gh)

    workers.over(n_rows, compute, smallest=VALUES_PER_TASK)
    return [gh[k >> 1, :, k & 1] for k in range(n_results)]


def _paired(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an even number of values, which the kernel takes: if it is odd, the first once more."""
    return values if len(values) % 2 == 0 else np.append(values, values[:1])

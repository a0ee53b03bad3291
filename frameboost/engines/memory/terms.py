"""Expressions over the rows in memory: g and h, ranking terms, and the sums of metrics.

They are computed by compiled programs (`frameboost.engines.programs`), or by polars for expressions without one. The
largest magnitude of an expression determines the grid of its sum. On many rows, a program rounds to the grids of the
previous round, as for gradients, and sums again only if the grids have changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.fixed_terms import fixed_key
from frameboost.engines.programs import (
    Addresses,
    Program,
    compile_program,
    compute_all,
    compute_few,
    compute_gh,
    evaluate,
    is_for_numpy,
)
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar, grid_offset, offset_step
from frameboost.runtime.kernel import kernel
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray, Stats

__all__ = ["ExactSums", "Gradients", "Scale", "TermArrays", "put_gh", "round_gh", "values_by_row"]


class Scale(NamedTuple):
    """The steps that pairs are multiples of.

    Attributes
    ----------
    g, h
        The steps of their grids.
    same_h
        The h of all rows if it is constant and positive, otherwise 0.
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
    """The interface to records that hold the codes of each row, and can hold its g and h."""

    @property
    def has_numbers(self) -> bool:
        """Whether they hold g and h of this round."""

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
        The storage of the pairs.
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

        A grid depends on the largest gradient, which is known only at the end. As its step is a power of two, it rarely
        changes between rounds. So a program rounds rows to the grids of the previous round, and computes all rows again
        if the grids have changed; ``offsets`` fixes the grids. Returns the largest magnitude of each gradient.
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
        """Allocate the pairs; return the program for them and its columns, if there is one that can run."""
        self.forget()
        program = self._program_of(gradients, rows)
        arrays = [] if program is None else [rows.array(name) for name in program.columns]
        present = [array for array in arrays if array is not None]
        if len(present) < len(arrays):
            program, present = None, []
        self.make_room(len(gradients) // 2, rows.n_rows, program)
        return program, present

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """Allocate the pairs before a program or polars computes them."""
        if self.gh.shape[:2] != (n_outputs, n_rows):  # kept from round to round: fresh memory is slow
            self.gh = self._storage.empty((n_outputs, n_rows, 2), np.float64, is_rewritten=True)
        if len(self._offsets) != 2 * n_outputs:
            self._offsets = np.zeros(2 * n_outputs)

    @staticmethod
    def _grids(largest: Sequence[float], n_rows: int) -> list[float]:
        return [grid_offset(each, n_rows) for each in largest]

    def forget(self) -> None:
        """Exclude the pairs from `columns` until they are computed again."""
        self._is_current = False

    def of(self, output: int) -> FloatArray:
        """Return g and h of an output, float64 (rows, 2)."""
        gh: FloatArray = self.gh[output]
        return gh

    def summed(self, output: int) -> FloatArray:
        """Return the pairs of an output that histograms sum; None if histograms read them elsewhere."""
        return self.of(output)

    def expire(self) -> None:
        """Note that the margins have changed: pairs not yet computed can no longer be."""

    def keep_order(self, records: Records | None) -> None:
        """Note that the row order is final, and the records that can hold the pairs beside the codes."""

    def scale(self, output: int) -> Scale | None:
        """Return the steps of an output's pairs; None if no program computed them."""
        program = None if self._compiled is None else self._compiled[2]
        if program is None:
            return None
        g, h = (offset_step(float(each)) for each in self._offsets[2 * output : 2 * output + 2])
        if not g or not h:
            return None
        constant, offset = program.constant(2 * output + 1), float(self._offsets[2 * output + 1])
        return Scale(g, h, (constant + offset) - offset if constant is not None and constant > 0 else 0.0)

    def columns(self) -> list[pl.Series]:
        """Return this round's pairs as the columns ``g_0``, ``h_0``, ``g_1``, ...; none during their computation."""
        if not self._is_current:
            return []
        return [
            pl.Series(f"{kind}_{output}", gh[:, i]) for output, gh in enumerate(self.gh) for i, kind in enumerate("gh")
        ]

    def column(self, name: str) -> FloatArray | None:
        """Return one of these columns without copying it; None for any other."""
        kind, _, output = name.partition("_")
        if not self._is_current or kind not in ("g", "h") or not output.isdecimal() or int(output) >= len(self.gh):
            return None
        return self.gh[int(output), :, "gh".index(kind)]

    def round(self, gh: FloatArray, offsets: Sequence[float]) -> Stats:
        """Round pairs, float64 (rows, 2), to the grids of these offsets, in place; return their sums."""
        slices = self._workers.slices(len(gh), VALUES_PER_TASK)
        sums = self._workers.each(slices, lambda slice_: round_gh(gh[slice(*slice_)], *offsets))
        return Stats(*(float(sum(parts)) for parts in zip(*sums, strict=True)))

    def _program_of(self, gradients: Mapping[str, Expression], rows: _Rows) -> Program | None:
        """Return the gradients' program, recompiled only if they or the terms have changed."""
        expressions = list(gradients.values())
        if self._compiled is None or self._compiled[0] != expressions or self._compiled[1] != rows.terms:
            terms = dict(rows.terms)
            self._compiled = expressions, terms, compile_program(expressions, terms, self._constants)
        return self._compiled[2]

    def _compute_by_polars(
        self, gradients: Mapping[str, Expression], rows: _Rows, offsets: Sequence[float] | None
    ) -> list[float]:
        """Compute the pairs on grids of ``offsets``, None for the grids of their magnitudes; return the largest."""
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


# --- terms of ranking -------------------------------------------------------------------------------------------------


Term = Scalar | Cumulative | QueryWindow


class TermRows(Protocol):
    """The interface to rows for which terms are computed."""

    rows: pl.DataFrame | None
    row_names: list[str]
    terms: dict[str, Term]
    storage: Storage
    workers: Workers

    def values_of(self, expressions: Sequence[Scalar]) -> list[FloatArray] | None:
        """Return the values of expressions in every row, None if they have no program."""

    def values_at(self, expression: Expression, columns: Mapping[str, FloatArray]) -> FloatArray | None:
        """Return the values of an expression for other ``columns``; None if it reads further columns."""

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row by polars."""
        ...


class TermArrays:
    """The terms of some rows, as arrays.

    A query of 100 rows has one maximum, and 3,000 such queries have ranks from 0 to 99. So expressions of such terms
    alone are computed once for each query, or each rank.

    Attributes
    ----------
    version
        The number of definitions of terms so far, part of the keys.
    """

    def __init__(self) -> None:
        self.version = 0
        self._arrays: dict[str, FloatArray] = {}  # by row
        self._of_queries: dict[str, FloatArray] = {}  # by query; in `_arrays` too once they have been read
        self._ranks: dict[str, FloatArray] = {}  # terms that are ranks: all values
        self._keys: dict[str, Hashable] = {}  # of fixed terms, by name
        self._fixed: dict[Hashable, FloatArray] = {}
        self._queries: Queries | None = None

    def array(self, name: str) -> FloatArray | None:
        """Return a stored term, None if there is none of that name."""
        if name not in self._arrays and name in self._of_queries:
            assert self._queries is not None
            self._arrays[name] = self._queries.of_row(self._of_queries[name])
        return self._arrays.get(name)

    def all_arrays(self) -> dict[str, FloatArray]:
        """Return all stored terms."""
        for name in self._of_queries:
            self.array(name)
        return self._arrays

    def keep(self, terms: Mapping[str, FloatArray]) -> None:
        """Store terms that were computed elsewhere."""
        self._arrays |= terms

    def queries_of(self, rows: TermRows) -> Queries:
        """Return the cached rows by query."""
        if self._queries is None:
            assert rows.rows is not None
            self._queries = Queries(rows.rows["qid"].to_numpy(), rows.workers)
        return self._queries

    def define(self, name: str, term: Term, rows: TermRows) -> bool:
        """Compute a term over queries, or a fixed one; return whether it is stored."""
        self.version += 1
        for known in (self._arrays, self._of_queries, self._ranks, self._keys):
            known.pop(name, None)
        key = self.key(term, rows)
        if key is not None:
            self._keys[name] = key
        if isinstance(term, Expression) and not term.columns:
            return False  # a number is part of each program
        if key is None:
            return self._define_by_query(name, term, rows) or self._define_by_row(name, term, rows)
        values = self._fixed.get(key)
        if values is None:
            values = self._computed(term, rows, is_fixed=True)
        if values is None:
            return False
        self._fixed[key] = self._arrays[name] = values
        return True

    def _define_by_query(self, name: str, term: Term, rows: TermRows) -> bool:
        """Compute a term with one value per query, or per rank; return whether it is such a term."""
        by_query: FloatArray | None = None
        if isinstance(term, QueryWindow) and term.function in ("sum", "min", "max"):
            values = self._values(term.value, rows, is_fixed=False)
            by_query = None if values is None else self.queries_of(rows).reduced(term.function, values)
        elif isinstance(term, Expression):
            by_query = rows.values_at(term, self._of_queries)
            for rank, all_ranks in self._ranks.items():
                at_ranks = rows.values_at(term, {rank: all_ranks})
                if at_ranks is not None:
                    self._arrays[name] = rows.storage.kept(at_ranks[self._arrays[rank].astype(np.int64)])
                    return True
        if by_query is None:
            return False
        self._of_queries[name] = by_query
        return True

    def _define_by_row(self, name: str, term: Term, rows: TermRows) -> bool:
        values = self._computed(term, rows, is_fixed=False)
        if values is None:
            return False
        self._arrays[name] = values
        if isinstance(term, QueryWindow) and term.function == "rank":
            self._ranks[name] = np.arange(float(self.queries_of(rows).longest))
        return True

    def key(self, term: Term, rows: TermRows) -> Hashable | None:
        """Return the cache key of a fixed term or expression; None if it is not fixed."""
        return fixed_key(term, lambda name: self._key_of_name(name, rows))

    def _key_of_name(self, name: str, rows: TermRows) -> Hashable | None:
        if name in self._keys:
            return self._keys[name]
        is_role = (
            name in (*rows.row_names, "weight")
            and name not in rows.terms
            and name not in (*self._arrays, *self._of_queries)
        )
        return name if is_role else None

    def _computed(self, term: Term, rows: TermRows, *, is_fixed: bool) -> FloatArray | None:
        if isinstance(term, QueryWindow):
            values = self._values(term.value, rows, is_fixed=is_fixed)
            order = None if term.order is None else self._values(term.order, rows, is_fixed=is_fixed)
            if values is None or (order is None) != (term.order is None):
                return None
            return rows.storage.kept(self.queries_of(rows).window(term.function, values, order))
        if isinstance(term, Expression) and is_fixed:
            values = self._values(term, rows, is_fixed=True)
            return None if values is None else rows.storage.kept(np.ascontiguousarray(values))
        return None

    @staticmethod
    def _values(value: Scalar, rows: TermRows, *, is_fixed: bool) -> FloatArray | None:
        computed = rows.values_of([value])
        if computed is not None:
            return None if np.isnan(computed[0]).any() else computed[0]
        if not is_fixed:
            return None
        values = rows.by_row({"value": value})["value"]
        return None if values.null_count() or values.is_nan().any() else values.to_numpy()


# --- exact sums of expressions ----------------------------------------------------------------------------------------


# Rows that a kernel rounds at a time: what it writes stays in the processor's cache.
_BLOCK = 1 << 15


class _SummedRows(Protocol):
    terms: dict[str, Scalar | Cumulative | QueryWindow]

    def array(self, name: str) -> npt.NDArray[Any] | None: ...

    def fixed_key(self, expression: Scalar) -> Hashable | None: ...

    @property
    def fixed_version(self) -> int: ...


@dataclass
class _Plan:
    """How the sums of some expressions are computed, valid until terms or fixed expressions change."""

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
    """Sums over ``n_rows`` rows, or over fewer rows that are aggregates of these.

    Parameters
    ----------
    n_rows
        The number of rows, which determines the grids.
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

    def of(self, expressions: Mapping[str, Expression], rows: _SummedRows) -> dict[str, float] | None:
        """Return the sums by name; None if there is no program, or a number is NaN."""
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

    def _planned(self, expressions: Mapping[str, Expression], rows: _SummedRows, keys: list[Hashable | None]) -> _Plan:
        """Return the plan of the sums; those of fixed expressions are computed at once."""
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

    def _sums(self, program: Program, plan: _Plan, rows: _SummedRows) -> list[float] | None:
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
            block = [np.ascontiguousarray(column, np.float64) for column in columns]  # no copy of a contiguous float64
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
        """Allocate rounded values, reused from round to round, as fresh memory is slow."""
        if self._rounded.shape[0] != len(plan.results) // 2:
            self._rounded = np.empty((len(plan.results) // 2, min(self._n_rows, _BLOCK), 2))


def _merged(parts: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    """Return the largest magnitudes, NaN if one is, and the sums over several parts of the rows."""
    if len(parts) == 1:
        return parts[0]
    largest, sums = zip(*parts, strict=True)
    return np.max(largest, axis=0), np.sum(sums, axis=0)


def values_by_row(
    program: Program, columns: Sequence[npt.NDArray[Any]], n_rows: int, workers: Workers | None
) -> list[FloatArray]:
    """Return the results of a program in every row, those of zero without their sign; one thread needs no workers."""
    columns = [np.ascontiguousarray(column, np.float64) for column in columns]
    if is_for_numpy(n_rows):
        return [np.broadcast_to(np.float64(0.0) + values, (n_rows,)) for values in evaluate(program, columns)]
    n_results, even = len(program.results), _paired(program.results)
    gh = np.empty((len(even) // 2, n_rows, 2))
    addresses = np.array([column.ctypes.data for column in columns], dtype=np.int64)
    as_they_are = np.zeros(len(even))

    def compute(first: int, last: int) -> None:
        compute_gh(program.for_kernels, program.constants, addresses, even, first, last, as_they_are, gh)

    if workers is None:
        compute(0, n_rows)
    else:
        workers.over(n_rows, compute, smallest=VALUES_PER_TASK)
    return [gh[k >> 1, :, k & 1] for k in range(n_results)]


def _paired(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an even number of values, as the kernel requires: if odd, the first value is repeated."""
    return values if len(values) % 2 == 0 else np.append(values, values[:1])

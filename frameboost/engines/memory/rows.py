"""What the engines in memory share: the frame read once, margins and gradients as numpy arrays, and threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from frameboost.engines.contract import Sample
from frameboost.engines.frame.engine import FrameEngine
from frameboost.engines.frame.gradients import tree_pairs
from frameboost.engines.frame.ranking import PAIR_SUMS
from frameboost.engines.memory.gradient_kernels import put_pairs, round_pairs
from frameboost.engines.memory.program_kernels import compute_shares
from frameboost.engines.memory.programs import Program, compile_program
from frameboost.engines.memory.ranking_kernels import sum_pairs
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import grid_offset
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Aggregate, Scalar
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column, physical_values
from frameboost.splits.split import Stats

__all__ = ["SMALLEST_TASK", "ArrayEngine"]

# Below this many additions a thread costs more than it saves.
SMALLEST_TASK = 1 << 15


# The kernel's number of what pairs change, and the columns that it reads for that (``label`` where it reads none).
_IN_KERNEL = {
    "pairwise": (0, ("label", "label", "label")),
    "ndcg": (1, ("worth", "discount", "label")),
    "map": (2, ("hits", "credit", "relevant")),
}


class ArrayEngine(FrameEngine):
    """Row state of an engine whose rows are in arrays."""

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        roles: Mapping[str, str],
        workers: Workers,
    ) -> None:
        super().__init__(frame, features, roles)
        self.workers = workers
        self._columns = pl.DataFrame()
        self._margins: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self._pairs: np.ndarray[tuple[int, int, int], np.dtype[np.float64]] = np.empty((0, 0, 2))  # of each output
        self._n_pairs = 0  # of how many outputs they are those of this round
        self._offsets = np.empty(0)  # of the grids of g and h of each output, in the round before
        self._constants = {} if "weight" in roles else {"weight": 1.0}
        self._residuals: list[pl.Series] = []
        self.row_numbers: pl.Series | None = None  # the user's, to sample by once rows are in another order
        self.is_sampled = False  # whether trees are; all of a fit or none
        self._compiled: tuple[list[Expression], dict[str, Any], Program | None] | None = None
        self._located: tuple[tuple[Any, ...], list[Any], np.ndarray[tuple[int], np.dtype[np.int64]] | None] | None = (
            None
        )

    def load(self) -> pl.DataFrame:
        """Read the frame, once; return the features' columns, named by their number, until they are binned."""
        if self.rows is None:
            columns = [column(f.name).alias(str(i)) for i, f in enumerate(self.features)]
            everything = self.frame.select(*columns, *self.row_exprs).collect()
            self.rows = everything.select(self.row_names).rechunk()  # they are read as arrays, round by round
            self._columns = everything.drop(self.row_names)
        return self._columns

    def values(self, number: int) -> pl.Series:
        """Return a feature's physical values, until the columns are binned."""
        return physical_values(self.load()[str(number)], self.features[number].type)

    def drop_columns(self) -> None:
        """Let the features' columns go."""
        self._columns = pl.DataFrame()

    def computed_columns(self) -> list[pl.Series]:
        """See `FrameEngine.computed_columns`."""
        margins = [pl.Series(name, values) for name, values in self._margins.items()]
        gradients = [
            pl.Series(f"{kind}_{output}", pairs[:, i])
            for output, pairs in enumerate(self._pairs[: self._n_pairs])
            for i, kind in enumerate("gh")
        ]
        return [*margins, *self._residuals, *gradients]

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        # A number is not worth a query over all rows, nor the memory for it.
        numbers = {name: pl.select(each.to_polars()).item() for name, each in margins.items() if not each.columns}
        started = {name: np.full(self.n_rows, value) for name, value in numbers.items()}
        computed = {name: each for name, each in margins.items() if each.columns}
        if computed:
            started |= {name: np.array(values) for name, values in self.by_row(computed).to_dict().items()}
        self._margins = started

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        self.load()  # all of it will be needed, and a lazy frame should be read once
        return super().aggregate(aggregates)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        return [self.values(i).null_count() for i in range(len(self.features))]

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        self._n_pairs, self._residuals = 0, []
        n_outputs = len(gradients) // 2
        if self._pairs.shape[:2] != (n_outputs, self.n_rows):  # the same array round by round: new memory is slow
            self._pairs = np.empty((n_outputs, self.n_rows, 2))
            self._offsets = np.zeros(2 * n_outputs)
        self._totals = self._run(gradients)
        if others:
            self._residuals = self.by_row(others).get_columns()
        self._n_pairs = n_outputs

    def _run(self, gradients: Mapping[str, Expression]) -> list[Stats]:
        """Compute the gradients into pairs, on their grids; return the sums of each output's."""
        assert self.rows is not None
        program = self._program_of(gradients)
        addresses = None if program is None else self._addresses_of(program)
        if program is None or addresses is None:
            found = self.by_row(gradients).get_columns()
            totals = []
            for k, pairs in enumerate(self._pairs):
                largest = put_pairs(found[2 * k].to_numpy(), found[2 * k + 1].to_numpy(), pairs)
                totals.append(self._round(pairs, [grid_offset(each, self.n_rows) for each in largest]))
            return totals
        return self._run_program(program, addresses)

    def _run_program(self, program: Program, addresses: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Stats]:
        """Compute the gradients by a program over the columns at those addresses.

        Their grids depend on the largest of them, which is known once they are computed. But a grid's step is a power
        of two, and seldom another than a round before: rows are put on that grid, and once more if it was wrong.
        """
        p, count = program, self.workers.count(self.n_rows, SMALLEST_TASK)
        largest, totals = np.empty((2, count, len(p.results)))
        while True:
            team = self.workers.team(count)
            compute_shares(
                team, p.instructions, p.constants, addresses, p.results, self._offsets, self._pairs, largest, totals
            )
            offsets = [grid_offset(most, self.n_rows) for most in largest.max(axis=0).tolist()]
            if offsets == self._offsets.tolist():
                sums = totals.sum(axis=0).tolist()  # exact
                return [Stats(*sums[k : k + 2]) for k in range(0, len(sums), 2)]
            self._offsets = np.array(offsets)

    def _program_of(self, gradients: Mapping[str, Expression]) -> Program | None:
        """Return the program of the gradients, that of the round before unless the terms have changed."""
        wanted, terms = list(gradients.values()), dict(self.terms)
        if self._compiled is None or self._compiled[:2] != (wanted, terms):
            self._compiled = wanted, terms, compile_program(wanted, terms, self._constants)
        return self._compiled[2]

    def _addresses_of(self, program: Program) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
        """Return where the program's columns are, None where one can't be had; as in the round before if it's there."""
        held = (program, self.rows, self._margins)
        if self._located is None or any(a is not b for a, b in zip(held, self._located[0], strict=True)):
            arrays = [self._array(name) for name in program.columns]
            found = None
            if not any(array is None for array in arrays):
                found = np.array([array.ctypes.data for array in arrays if array is not None], dtype=np.int64)
            self._located = held, arrays, found  # the arrays too, so that they stay where they are
        return self._located[2]

    def _array(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
        """Return a column of the rows as it lies in memory, None where it can't be had without NULL."""
        assert self.rows is not None
        if name in self._margins:
            return self._margins[name]
        values = self.rows[name]
        if values.dtype != pl.Float64 or values.null_count():
            return None
        array = values.to_numpy()
        return array if array.flags.c_contiguous else None

    def _round(self, pairs: np.ndarray, offsets: Sequence[float]) -> Stats:
        """Put pairs on their grids; return their sums."""
        slices = self.workers.slices(len(pairs), SMALLEST_TASK)
        sums = self.workers.each(slices, lambda slice_: round_pairs(pairs[slice(*slice_)], *offsets))
        return Stats(*(float(sum(parts)) for parts in zip(*sums, strict=True)))

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.gradient_pairs, totals = self._pairs[output], self._totals[output]
        self.is_sampled = sample is not None
        if sample is not None:
            sampled = tree_pairs(self.all_rows(), output, sample, self.row_numbers)
            self.gradient_pairs = sampled.to_numpy(order="c")
            totals = self._round(self.gradient_pairs, [0.0, 0.0])  # a sample of numbers on a grid is on it
        self.follow_tree()
        return totals

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        raise NotImplementedError

    def hessians(self) -> pl.Series:
        """Return h of every row in the current tree."""
        return pl.Series(self.gradient_pairs[:, 1])

    def sum_pairs(self, pairs: Pairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        rows = self.all_rows().select("qid", *pairs.columns).with_row_index("position").collect()
        ranked = rows.select("qid", "place", "position").sort("qid", "place")
        starts = np.append(np.flatnonzero(ranked["qid"].rle_id().diff().fill_null(1).to_numpy()), len(rows))
        change, names = _IN_KERNEL[pairs.change]
        labels, margins = rows["label"].to_numpy(), rows["margin"].to_numpy()
        first_of_row, second_of_row, relevant = (rows[name].to_numpy() for name in names)
        order, out = ranked["position"].cast(pl.Int64).to_numpy(), np.zeros((len(rows), 3))

        def add(first: int, last: int) -> None:
            sum_pairs(
                order, starts, labels, margins, change, first_of_row, second_of_row, relevant,
                pairs.truncation, pairs.by_difference, offset, first, last, out,
            )  # fmt: skip

        n_queries = len(starts) - 1
        largest = int(np.diff(starts).max())
        n_pairs = len(rows) * min(pairs.truncation, largest)
        self.workers.over(n_queries, add, smallest=n_queries * SMALLEST_TASK // n_pairs)
        self.store_pairs(pl.DataFrame(out + 0.0, schema=PAIR_SUMS))

    def margins(self, name: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Return the rows' margins of that name, to be changed in place."""
        return self._margins[name]

"""The engine for frames that fit in memory: binned columns in arrays, sums by compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, propose_column
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import sample_of
from frameboost.binning.kernels import interleave
from frameboost.engines.memory.histogram_kernels import add_more, build_histograms
from frameboost.engines.memory.nodes import RowPartition
from frameboost.engines.memory.partition_kernels import add_by_node, add_by_side, fill_sides, part_rows, take_rows
from frameboost.engines.memory.rows import SMALLEST_TASK, ArrayEngine
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Scalar
from frameboost.runtime.workers import Shares
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["WORTH_SORTING", "MemoryEngine"]

# From so many rows on, what a row's gradients and codes take is further away than the processor's own caches.
WORTH_SORTING = 1 << 17
# Of fewer additions a thread has done most before another wakes up.
_FEWEST_ADDITIONS = 1 << 20


class MemoryEngine(ArrayEngine):
    """`Engine` over binned columns; rows are kept grouped by node."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        self.load()
        sample = sample_of(self.n_rows)
        found = dict(given)

        def propose(number: int) -> None:
            found[number] = propose_column(self.features[number], self.values(number), max_bin, sample)

        self.workers.each([i for i in range(len(self.features)) if i not in given], propose, alone=self._is_small)
        return [found[i] for i in range(len(self.features))]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.load()
        self.make_room(bins)

        def bin_(i: int) -> None:
            bin_column(bins[i], self.values(i), self.columns[i])

        self.workers.each(range(len(bins)), bin_, alone=self._is_small)
        self.drop_columns()
        self.interleave_codes()
        self.make_order()
        self._may_sort = self.n_rows >= WORTH_SORTING and "qid" not in self.row_names  # queries stay together

    @property
    def _is_small(self) -> bool:
        """Whether all columns are done before another thread wakes up."""
        return self.n_rows * len(self.features) < SMALLEST_TASK

    def make_room(self, bins: Sequence[Bins]) -> None:
        """Make room for the codes of each feature: ``columns``, of the smallest type that holds them."""
        self.layout = SlotLayout(bins)
        self.n_codes: IntArray = np.diff(self.layout.offsets)
        dtypes = [np.min_scalar_type(b.largest_code) for b in bins]
        self.columns: list[Codes] = [np.empty(0, dtype) for dtype in dtypes]
        # Features by the size of their codes: the place of each in the array of these, -1 in others'.
        self.column_groups: list[tuple[IntArray, np.ndarray]] = []
        for dtype in dict.fromkeys(dtypes):
            members = [i for i, own in enumerate(dtypes) if own == dtype]
            codes = np.empty((len(members), self.n_rows), dtype)
            places = np.full(len(bins), -1)
            places[members] = np.arange(len(members))
            self.column_groups.append((places, codes))
            for i, column in zip(members, codes, strict=True):
                self.columns[i] = column

    def interleave_codes(self) -> None:
        """Make the second copy of the codes, all features of a row side by side.

        A histogram reads all features of a row, a partition one feature of all rows. The former has features by the
        size of their codes, so that one with many categories makes no other column wider.
        """
        self.code_groups = [
            (np.empty(columns.shape[::-1], columns.dtype), self.layout.offsets[:-1][places >= 0])
            for places, columns in self.column_groups
        ]
        self._copy_codes()

    def _copy_codes(self) -> None:
        for (_, columns), (codes, _) in zip(self.column_groups, self.code_groups, strict=True):
            self.workers.over(self.n_rows, partial(interleave, columns, codes), smallest=SMALLEST_TASK)

    def make_order(self) -> None:
        """Make room for the order of the rows."""
        self.partition = RowPartition(self.n_rows, self.workers)
        self._pending: Mapping[int, tuple[Split, int, int]] = {}
        self._may_sort = False

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        if self._may_sort and len(self._pairs) and len(self.partition.pieces):
            self.sort_rows()
        super().compute_gradients(gradients, others)

    def sort_rows(self) -> None:
        """Put the rows in the order of the leaves that the last tree has put them in, once.

        The next trees will ask much the same questions, so rows of a leaf will mostly stay together. Where they are
        side by side, a node's next row is near; no sum depends on their order (see `frameboost.expressions.grid`).
        """
        assert self.rows is not None
        self.move_rows()
        self._may_sort = False
        order = self.partition.order()
        numbers = pl.Series(order)
        self.row_numbers = numbers if self.is_sampled else None
        self.rows = self.rows[numbers]
        room = self._pairs.ravel()[: self.n_rows]  # of gradients that are about to be computed anew
        for margins in self._margins.values():
            take_rows(margins, order, room)
            margins[:] = room

        def sort(column: Codes) -> None:
            in_order = np.empty_like(column)
            take_rows(column, order, in_order)
            column[:] = in_order

        self.workers.each(self.columns, sort)
        self._copy_codes()

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        self.partition.start_tree()
        self._pending = {}

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `Engine.histograms`."""
        self.move_rows()
        parts, firsts = self.partition.shares(nodes, _FEWEST_ADDITIONS // len(self.features))
        count = len(firsts) - 1
        team = self.workers.team(count)
        # A share may start within a node: then it has a histogram of its own for it.
        more = np.zeros((count - 1, *out.shape[1:]))
        rows, pairs = self.partition.rows, self.gradient_pairs
        for k, (codes, slots) in enumerate(self.code_groups):
            build_histograms(team, codes, rows, parts, firsts, pairs, slots, out, places, more, k == 0)
        if count > 1:
            add_more(parts, firsts, more, out, places)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`.

        Rows stay where they are until somebody asks for the children: those of the last level never are asked for.
        """
        self.move_rows()
        self._pending = splits

    def move_rows(self) -> None:
        """Do the splits that were put off."""
        if not self._pending:
            return
        goes_left, starts, columns = self._sides()

        def part(shares: Shares) -> npt.NDArray[np.int64]:
            parts, firsts = shares
            counts = np.empty(len(parts), dtype=np.int64)
            team = self.workers.team(len(firsts) - 1)
            for codes, asked in columns:
                part_rows(team, codes, asked, goes_left, starts, self.partition.rows, parts, firsts, counts)
            return counts

        children = np.array([(left, right) for _, left, right in self._pending.values()])
        self.partition.split(list(self._pending), children, part)
        self._pending = {}

    def _sides(self) -> tuple[npt.NDArray[np.bool_], IntArray, list[tuple[Codes, IntArray]]]:
        """Return of the splits that were put off which codes go left, where each's start, and the columns they ask.

        These are by the arrays that they are in, with -1 for columns that are in another.
        """
        splits = [split for split, _, _ in self._pending.values()]
        features = np.array([split.feature for split in splits])
        missing_left = np.array([split.missing_left for split in splits])
        n_codes = self.n_codes[features]
        goes_left, starts = fill_sides(self.positions(splits), missing_left, n_codes)
        for split, start, n in zip(splits, starts.tolist(), n_codes.tolist(), strict=False):
            if split.categories is not None:
                goes_left[start : start + n] = split.goes_left(n)
        return goes_left, starts, [(codes, place[features]) for place, codes in self.column_groups]

    def positions(self, splits: Sequence[Split]) -> IntArray:
        """Return the codes from which on rows go right, by splits of numeric features."""
        return np.array([split.bin for split in splits])

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        margins, rows = self.margins(margin), self.partition.rows
        children = {child for _, left, right in self._pending.values() for child in (left, right)}
        settled = [node for node in values if node not in children]
        parts, firsts = self.partition.shares(settled)
        team = self.workers.team(len(firsts) - 1)
        add_by_node(team, margins, rows, parts, firsts, np.array([values[node] for node in settled]))
        if not self._pending:
            return
        sides = np.array([(values[left], values[right]) for _, left, right in self._pending.values()])
        goes_left, starts, columns = self._sides()
        parts, firsts = self.partition.shares(list(self._pending))
        team = self.workers.team(len(firsts) - 1)
        for codes, asked in columns:
            add_by_side(team, codes, asked, goes_left, starts, rows, parts, firsts, sides, margins)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        self.move_rows()
        node_of = np.empty(self.n_rows, dtype=np.int32)
        for node, start, stop in self.partition.pieces.tolist():
            node_of[self.partition.rows[start:stop]] = node
        return self.quantiles_by_node(pl.Series(node_of), self.hessians(), value, weight, alpha)

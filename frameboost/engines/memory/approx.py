"""The in-memory engines of ``tree_method="approx"``: cuts proposed for each tree or each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes, sort_column
from frameboost.binning.bins import Bins, NodeBins, codes_by_rank, gaps_at, weighted_cut_positions
from frameboost.binning.codes import in_numpy
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.exact import PresortedEngine, category_histogram, rank_of
from frameboost.engines.memory.partition import ColumnGroups, RowPartition, SplitColumns
from frameboost.runtime.kernel import kernel
from frameboost.splits.split import Split

__all__ = ["GlobalApproxEngine", "LocalApproxEngine"]


class GlobalApproxEngine(MemoryEngine):
    """`RebinningEngine` over ranks.

    Each column is sorted once, and its values are replaced by their ranks among the distinct values. For each tree, h
    is summed by rank, prefix sums of h yield the cuts, and every row's code is read from a table rank -> code.
    """

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        self.load()
        self._ranks = np.empty((len(self.features), self.n_rows), dtype=np.uint32)

        def rank(i: int) -> tuple[Bins, pl.Series]:
            return sort_column(self.features[i], self.values(i), self._ranks[i], np.empty(self.n_rows, np.uint32))

        self._ranked = self.workers.each(range(len(self.features)), rank)
        self.columns.drop()
        self.binned = BinnedColumns((), self.n_rows)  # until the first tree is binned
        self.partition = RowPartition(self.n_rows, self.workers)
        self._may_sort = False
        # Rows that follow a tree of other bins, as by dropout (see `frameboost.training.dart`), are partitioned by
        # rank.
        self._is_binned = False  # whether the codes are those of the tree
        counts = [b.count if b.feature.type.is_categorical else len(distinct) for b, distinct in self._ranked]
        self._rank_columns = ColumnGroups([(np.arange(len(counts)), self._ranks)], np.array(counts) + 1)
        return [bins for bins, _ in self._ranked]

    def rebin(self, max_bin: int) -> list[Bins]:
        """See `RebinningEngine.rebin`."""
        cuts: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = [np.empty(0, np.int64) for _ in self._ranked]
        weights = np.ascontiguousarray(self.tree_gh[:, 1])

        def propose(first: int, last: int) -> None:
            room = np.empty(max(len(distinct) for _, distinct in self._ranked) + 2)  # fresh memory is slow
            for i in range(first, last):
                bins, distinct = self._ranked[i]
                if not bins.feature.type.is_categorical:
                    below = room[: len(distinct) + 2]  # of each distinct value, and of missing ones
                    sum_below(self._ranks[i], weights, below)
                    cuts[i] = weighted_cut_positions(below[:-2], below[-2], max_bin - bins.has_missing)

        self.workers.over(len(self.features), propose)
        bins = [
            bins if bins.feature.type.is_categorical
            else Bins.of_gaps(bins.feature, gaps_at(in_numpy(distinct), at), has_missing=bins.has_missing)
            for (bins, distinct), at in zip(self._ranked, cuts, strict=True)
        ]  # fmt: skip
        self._store_codes(bins, cuts)
        self._is_binned = True
        return bins

    def _store_codes(self, bins: Sequence[Bins], cuts: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> None:
        """Store every row's codes, from the ranks at which bins start."""
        self.binned = BinnedColumns(bins, self.n_rows, room=self.binned)

        def encode(i: int, bins: Bins, codes: Codes) -> None:
            distinct, ranks = self._ranked[i][1], self._ranks[i]
            if bins.feature.type.is_categorical:
                codes[:] = ranks
                return
            table = codes_by_rank(cuts[i], len(distinct), bins.missing)
            np.take(table.astype(codes.dtype, copy=False), ranks, out=codes, mode="clip")

        self.binned.fill(encode, self.workers)

    @property
    def split_columns(self) -> SplitColumns:
        """See `MemoryEngine.split_columns`."""
        return super().split_columns if self._is_binned else self._rank_columns

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        self._is_binned = False

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        super().apply_splits(
            splits if self._is_binned else _by_rank(splits, [distinct for _, distinct in self._ranked])
        )


class LocalApproxEngine(PresortedEngine):
    """`NodeBinningEngine` over presorted columns: one scan of a column bins it for all open nodes."""

    def load_columns(self) -> list[Bins]:
        """See `NodeBinningEngine.load_columns`."""
        return self.presort()

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`."""
        index_of = np.full(self.n_nodes, -1, dtype=np.int64)
        index_of[list(nodes)] = np.arange(len(nodes))
        results: list[NodeBins | None] = [None] * len(self.features)

        def scan(first: int, last: int) -> None:
            for i in range(first, last):
                is_categorical = self.features[i].type.is_categorical
                results[i] = (self._categories if is_categorical else self._bins)(i, index_of, len(nodes), max_bin)

        self.workers.over(len(self.features), scan)
        return [of_nodes for of_nodes in results if of_nodes is not None]

    def _bins(self, feature: int, index_of: np.ndarray, n_nodes: int, max_bin: int) -> NodeBins:
        distinct = self.distinct[feature]
        most = min(max_bin - self.bins[feature].has_missing, len(distinct))
        histogram = np.zeros((n_nodes, most + 1, 3))
        starts, befores = np.empty((2, n_nodes, most), dtype=np.int64)
        counts = np.zeros(n_nodes, dtype=np.int64)
        bin_nodes(
            self.sorted_rows[feature], self.ranks[feature], len(distinct), self.node_of, self.tree_gh, index_of,
            most, histogram, starts, befores, counts,
        )  # fmt: skip
        # Drop the bins that no node has.
        histogram = np.delete(histogram, slice(int(counts.max()), most), axis=1)
        cuts, below = (
            [distinct.gather(of_node[1:count]).to_list() for of_node, count in zip(ranks, counts.tolist(), strict=True)]
            for ranks in (starts, befores)
        )
        return NodeBins(histogram, cuts, below)

    def _categories(self, feature: int, index_of: np.ndarray, n_nodes: int, max_bin: int) -> NodeBins:
        histogram, counted = np.zeros((2, n_nodes, self.bins[feature].count + 1, 3))
        category_histogram(self.ranks[feature], self.node_of, self.tree_gh, index_of, histogram)
        category_histogram(self.ranks[feature], self.node_of, self.counted_gh, index_of, counted)
        histogram[..., 2] = counted[..., 0]
        return NodeBins(histogram, [()] * n_nodes, [()] * n_nodes)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        super().apply_splits(_by_rank(splits, self.distinct))


def _by_rank(
    splits: Mapping[int, tuple[Split, int, int]], distinct: Sequence[pl.Series]
) -> dict[int, tuple[Split, int, int]]:
    """Return the splits with the rank of the lowest value that goes right as their ``bin``."""
    return {
        node: (split._replace(bin=rank_of(distinct[split.feature], split.threshold)), left, right)
        for node, (split, left, right) in splits.items()
    }


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def sum_below(ranks, weights, below):  # type: ignore[no-untyped-def]
    """Write the weight of the rows below each distinct value.

    Parameters
    ----------
    ranks
        uint32 (rows,): the index of the value among the column's distinct values; missing values come after them.
    weights
        float64 (rows,).
    below
        float64 (distinct values + 2,), written. The last two are the weight of all values, and that of missing ones.
    """
    for rank in range(len(below)):
        below[rank] = 0.0
    for row in range(len(ranks)):
        below[ranks[row] + np.uint32(1)] += weights[row]
    for rank in range(len(below) - 2):
        below[rank + 1] += below[rank]


@kernel(inline="always")
def _add_row(gradients, row, out, index, bin_):  # type: ignore[no-untyped-def]
    out[index, bin_, 0] += gradients[row, 0]
    out[index, bin_, 1] += gradients[row, 1]
    out[index, bin_, 2] += (gradients[row, 0] != 0.0) | (gradients[row, 1] != 0.0)


@kernel
def bin_nodes(  # type: ignore[no-untyped-def]
    sorted_rows, ranks, missing, node_of, gradients, index_of, max_bin, out, starts, befores, counts
):
    """Bin one feature in every open node separately, as `frameboost.binning.bins.weighted_cut_positions` does.

    A first scan sums h and counts distinct values by node, a second assigns bins. Both process all nodes at once: each
    row updates the state of its node.

    Parameters
    ----------
    sorted_rows
        uint32 (rows,): row numbers, missing values first, then by ascending value.
    ranks
        uint32 (rows,): the index of the value among the column's distinct values, ``missing`` where it is missing.
    missing
        The rank of a missing value.
    node_of
        int32 (rows,): the node of each row.
    gradients
        float64 (rows, 2): g and h.
    index_of
        int64 (nodes made so far,): the index of each node's result, -1 if the node is not open.
    max_bin
        The most bins of a node.
    out
        float64 (open nodes, max_bin + 1, 3), zero at first, written: sums of g and h, and the number of rows where one
        of them is not 0, the missing bin last.
    starts
        int64 (open nodes, max_bin), written: the rank of the lowest value in each bin.
    befores
        int64 (open nodes, max_bin), written: the rank of the preceding value in the node, -1 for the first.
    counts
        int64 (open nodes,), zero at first, written: the number of bins of each node.
    """
    n = len(counts)
    total, before = np.zeros(n), np.zeros(n)
    n_values = np.zeros(n, dtype=np.int64)
    last, part = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    first = 0  # row with a value
    for i in range(len(sorted_rows)):
        row = sorted_rows[i]
        rank = np.int64(ranks[row])
        if rank == missing:
            first = i + 1
        index = index_of[node_of[row]]
        if index < 0:
            continue
        if rank == missing:
            _add_row(gradients, row, out, index, max_bin)
            continue
        total[index] += gradients[row, 1]
        if rank != last[index]:
            n_values[index] += 1
            last[index] = rank
    last[:] = -1
    for i in range(first, len(sorted_rows)):
        row = sorted_rows[i]
        index = index_of[node_of[row]]
        if index < 0:
            continue
        rank = np.int64(ranks[row])
        if rank != last[index]:
            before_it, last[index] = last[index], rank
            if n_values[index] <= max_bin:
                number = part[index] + 1
            elif total[index] > 0.0:
                number = min(np.int64(np.floor(before[index] * np.float64(max_bin) / total[index])), max_bin - 1)
            else:
                number = 0
            if number != part[index]:
                part[index] = number
                starts[index, counts[index]] = rank
                befores[index, counts[index]] = before_it
                counts[index] += 1
        _add_row(gradients, row, out, index, counts[index] - 1)
        before[index] += gradients[row, 1]

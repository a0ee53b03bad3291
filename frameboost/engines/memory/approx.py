"""The engines of ``tree_method="approx"`` in memory: cuts are proposed for each tree, or in each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes, sort_column
from frameboost.binning.bins import Bins, NodeBins, codes_by_rank, gaps_at, weighted_cut_positions
from frameboost.binning.value_counts import in_numpy
from frameboost.engines.memory.binning import BinnedColumns
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.exact_kernels import category_histogram
from frameboost.engines.memory.nodes import RowPartition
from frameboost.engines.memory.presorted import PresortedEngine, rank_of
from frameboost.engines.memory.proposal_kernels import bin_nodes, sum_below
from frameboost.engines.memory.split_tables import SplitColumns
from frameboost.splits.split import Split

__all__ = ["GlobalApproxEngine", "LocalApproxEngine"]


class GlobalApproxEngine(MemoryEngine):
    """`RebinningEngine` over ranks.

    Each column is sorted once, and its values replaced by their ranks among the distinct ones. For each tree, h is
    summed by rank, cuts are found by prefix sums of it, and a table of rank -> code gives every row its code.
    """

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        self.load()
        self._ranks = np.empty((len(self.features), self.n_rows), dtype=np.uint32)

        def rank(i: int) -> tuple[Bins, pl.Series]:
            return sort_column(self.features[i], self.values(i), self._ranks[i], np.empty(self.n_rows, np.uint32))

        self._ranked = self.workers.each(range(len(self.features)), rank)
        self.drop_columns()
        self.partition = RowPartition(self.n_rows, self.workers)
        self._may_sort = False
        # Rows that follow a tree of other bins, as by dropout (see `frameboost.training.dart`), are partitioned by
        # rank.
        self._is_binned = False  # whether the codes are those of the tree
        counts = [b.count if b.feature.type.is_categorical else len(distinct) for b, distinct in self._ranked]
        self._rank_columns = SplitColumns([(np.arange(len(counts)), self._ranks)], np.array(counts) + 1)
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
        """Store every row's codes, given the ranks at which bins start."""
        self.binned = BinnedColumns(bins, self.n_rows, room=getattr(self, "binned", None))

        def encode(i: int, own: Bins, codes: Codes) -> None:
            distinct, ranks = self._ranked[i][1], self._ranks[i]
            if own.feature.type.is_categorical:
                codes[:] = ranks
                return
            table = codes_by_rank(cuts[i], len(distinct), own.missing)
            np.take(table.astype(codes.dtype, copy=False), ranks, out=codes, mode="clip")

        self.binned.fill(encode, self.workers, self.stored_codes)

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
    """`NodeBinningEngine` over presorted columns: one scan of a column bins it in all open nodes at once."""

    def load_columns(self) -> list[Bins]:
        """See `NodeBinningEngine.load_columns`."""
        return self.presort()

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`."""
        index_of = np.full(self.n_nodes, -1, dtype=np.int64)
        index_of[list(nodes)] = np.arange(len(nodes))
        found: list[NodeBins | None] = [None] * len(self.features)

        def scan(first: int, last: int) -> None:
            for i in range(first, last):
                is_categorical = self.features[i].type.is_categorical
                found[i] = (self._categories if is_categorical else self._bins)(i, index_of, len(nodes), max_bin)

        self.workers.over(len(self.features), scan)
        return [of_nodes for of_nodes in found if of_nodes is not None]

    def _bins(self, feature: int, index_of: np.ndarray, n_nodes: int, max_bin: int) -> NodeBins:
        distinct = self.distinct[feature]
        most = min(max_bin - self.bins[feature].has_missing, len(distinct))
        histogram = np.zeros((n_nodes, most + 1, 2))
        starts, befores = np.empty((2, n_nodes, most), dtype=np.int64)
        counts = np.zeros(n_nodes, dtype=np.int64)
        bin_nodes(
            self.sorted_rows[feature], self.ranks[feature], len(distinct), self.node_of, self.tree_gh, index_of,
            most, histogram, starts, befores, counts,
        )  # fmt: skip
        # Drop the bins that no node has.
        histogram = np.delete(histogram, slice(int(counts.max()), most), axis=1)
        cuts, below = (
            [distinct.gather(own[1:count]).to_list() for own, count in zip(ranks, counts.tolist(), strict=True)]
            for ranks in (starts, befores)
        )
        return NodeBins(histogram, cuts, below)

    def _categories(self, feature: int, index_of: np.ndarray, n_nodes: int, max_bin: int) -> NodeBins:
        histogram = np.zeros((n_nodes, self.bins[feature].count + 1, 2))
        category_histogram(self.ranks[feature], self.node_of, self.tree_gh, index_of, histogram)
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

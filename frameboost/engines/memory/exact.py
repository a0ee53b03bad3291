"""The engine of exact greedy (``tree_method="exact"``): columns sorted once, and scanned once a level."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.binning.thresholds import thresholds_of_gaps
from frameboost.engines.memory.exact_kernels import category_histogram, fill_block, part_block, scan_column
from frameboost.engines.memory.presorted import PresortedEngine
from frameboost.schema.types import FeatureType, Physical
from frameboost.splits.categorical import categorical_split
from frameboost.splits.gain import bounded_score
from frameboost.splits.search_kernels import scan_histograms
from frameboost.splits.split import Penalties, Split, SplitLimits, Stats

__all__ = ["ExactEngine"]

# A split whose threshold is still to be chosen, and the gap that it is in.
_Found = tuple[Split, tuple[Physical, Physical] | None]


class ExactEngine(PresortedEngine):
    """`ColumnBlockEngine` over arrays.

    A column's block has an entry (rank << 32) + row for every row, those of a node side by side and sorted by value.
    A split partitions each block stably, so no node is ever sorted again. Say x is 7, 3, 9, 3 in rows 0 to 3 (ranks 1,
    0, 2, 0), and a split on another column sends rows 0 and 3 left::

        root                    (0, row 1) (0, row 3) (1, row 0) (2, row 2)
        left child, then right  (0, row 3) (1, row 0) | (0, row 1) (2, row 2)

    A scan reads a node's range from one end to the other, adds up g and h, and scores a split wherever the rank
    changes: here left of row 0, and left of row 2.
    """

    def presort(self) -> list[Bins]:
        """See `ColumnBlockEngine.presort`."""
        bins = super().presort()
        self.blocks = np.empty(self.ranks.shape, dtype=np.uint64)
        return bins

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        self.ranges = {0: (0, self.n_rows)}  # node -> its range in every block
        self._is_sorted = False  # whether the blocks hold this tree's rows
        self._pending: list[
            tuple[int, int, int]
        ] = []  # splits still to be carried out in the blocks: node, left, right

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        super().apply_splits(splits)
        self._pending += [(node, left, right) for node, (_, left, right) in splits.items()]

    def best_splits(
        self, nodes: Sequence[int], totals: Sequence[Stats], penalties: Penalties, limits: SplitLimits
    ) -> list[Split | None]:
        """See `ColumnBlockEngine.best_splits`."""
        part = self._parting()

        def scan(feature: int) -> list[_Found | None]:
            is_categorical = self.features[feature].type.is_categorical
            if not is_categorical:
                part(feature)
            if not limits.allowed[:, feature].any():
                return [None] * len(nodes)
            by_value = self._categorical if is_categorical else self._numeric
            return by_value(feature, nodes, totals, penalties, limits)

        found = self.workers.each(range(len(self.features)), scan)
        # Ties go to the lowest feature: max keeps the first.
        best = [
            max((s for s in of_node if s is not None), key=lambda s: s[0].gain, default=None)
            for of_node in zip(*found, strict=True)
        ]
        thresholds = thresholds_of_gaps([each and each[1] for each in best])
        return [each and each[0]._replace(threshold=t) for each, t in zip(best, thresholds, strict=True)]

    def _numeric(
        self, feature: int, nodes: Sequence[int], totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[_Found | None]:
        n = len(totals)
        G, H = np.array([t.G for t in totals]), np.array([t.H for t in totals])
        parent = np.array([
            bounded_score(t.G, t.H, p.reg_lambda, p.reg_alpha, p.max_delta_step, lower, upper)
            for t, (lower, upper) in zip(totals, limits.bounds.tolist(), strict=True)
        ])  # fmt: skip
        best, stats = np.empty((n, 4), dtype=np.int64), np.empty((n, 3))
        starts, stops = np.array([self.ranges[node] for node in nodes]).T.copy()
        scan_column(
            self.blocks[feature], starts, stops, len(self.distinct[feature]), self.tree_gh,
            limits.allowed[:, feature].copy(), G, H, limits.monotone[feature], limits.bounds,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, parent, best, stats,
        )  # fmt: skip
        splits: list[_Found | None] = []
        for total, (is_split, below, above, missing_left), (gain, GL, HL) in zip(
            totals, best.tolist(), stats.tolist(), strict=True
        ):
            if not is_split:
                splits.append(None)
                continue
            values = self.distinct[feature]
            is_presence = above < 0
            gap = None if is_presence else _gap(self.features[feature].type, values[below], values[above])
            left = Stats(GL, HL)
            bound = len(values) if is_presence else above
            splits.append((Split(feature, gain, left, total - left, bool(missing_left), bin=bound), gap))
        return splits

    def _categorical(
        self, feature: int, nodes: Sequence[int], totals: Sequence[Stats], p: Penalties, limits: SplitLimits
    ) -> list[_Found | None]:
        index_of = np.full(self.n_nodes, -1, dtype=np.int64)
        index_of[list(nodes)] = np.where(limits.allowed[:, feature], np.arange(len(nodes)), -1)
        n_codes = self.bins[feature].count + 1
        histograms = np.zeros((len(totals), n_codes, 2))
        category_histogram(self.ranks[feature], self.node_of, self.tree_gh, index_of, histograms)
        best, stats = np.empty((len(totals), 3), dtype=np.int64), np.empty((len(totals), 3))
        monotone, bounds = limits.bounding(p.max_delta_step)
        own = None if monotone is None else monotone[feature : feature + 1]
        scan_histograms(
            histograms, np.arange(len(histograms)), np.array([0, n_codes]), np.array([True]),
            limits.allowed[:, feature : feature + 1].copy(), own, bounds, None,
            p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats,
        )  # fmt: skip
        found: list[_Found | None] = []
        for total, histogram, choice, (gain, GL, HL) in zip(
            totals, histograms, best.tolist(), stats.tolist(), strict=True
        ):
            chosen = None
            if choice[0] >= 0:
                category, missing_left = choice[1], bool(choice[2])
                left = Stats(GL, HL)
                chosen = categorical_split(histogram, feature, category, missing_left, gain, left, total, p), None
            found.append(chosen)
        return found

    def _parting(self) -> Callable[[int], None]:
        """Compute the ranges of the new children; return a function that partitions a column's block."""
        was_sorted, self._is_sorted = self._is_sorted, True
        pending, self._pending = self._pending, []
        starts, stops = np.array([self.ranges[node] for node, _, _ in pending], dtype=np.int64).reshape(-1, 2).T.copy()
        is_left = np.zeros(self.n_nodes, dtype=np.bool_)
        is_left[[left for _, left, _ in pending]] = True
        goes_left = is_left[self.node_of]
        sizes = np.bincount(self.node_of, minlength=self.n_nodes)
        for (_, left, right), start, stop in zip(pending, starts.tolist(), stops.tolist(), strict=True):
            middle = start + int(sizes[left])
            self.ranges[left], self.ranges[right] = (start, middle), (middle, stop)

        def part(feature: int) -> None:
            block = self.blocks[feature]
            if not was_sorted:
                fill_block(self.sorted_rows[feature], self.ranks[feature], block)
            if pending:
                part_block(block, starts, stops, goes_left)

        return part


def _gap(kind: FeatureType, below: Physical, above: Physical) -> tuple[Physical, Physical]:
    """Return the gap that the threshold is in: of floats the two neighbours, otherwise up to their midpoint.

    Physical values that are integers are split at the midpoint, rounded up, as XGBoost does.
    """
    return (below, above) if kind.is_float else (below, -((-int(below) - int(above)) // 2))

"""Symmetric (oblivious) trees: every node of a level has the same split (Kohavi 1994; CatBoost's trees).

The leaf index of a row has one bit per level, so that SQL and polars look up its value in a list without walking the
tree. Example, depth 2: ``x < 3`` on the first level and ``y < 5`` on the second; the row x = 4, y = 1 has the bits 1
(right) and 0 (left), so it is in leaf 0b10.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.binning.bins import SlotLayout
from frameboost.splits.search import categorical_split
from frameboost.splits.split import FloatArray, Split, Stats
from frameboost.splits.symmetric import scan_level
from frameboost.training.open_nodes import OpenNode
from frameboost.training.splitter import BinSplitter, HistogramSource, SplitSettings, with_rows

__all__ = ["SymmetricSplitter"]


class SymmetricSplitter(BinSplitter):
    """Finds the split with the largest sum of gains over all nodes of a level; ``gamma`` bounds that sum."""

    def __init__(self, histograms: HistogramSource, layout: SlotLayout, settings: SplitSettings) -> None:
        super().__init__(*with_rows(histograms, layout, settings), layout, settings)
        self._summed: FloatArray = np.empty((0, 2))  # the sums over a level, (slots, 2)

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """Return the level's split for each of its nodes, with the node's sums; None for all if it gains nothing.

        The gain of each node's split is an equal share of the level's.
        """
        histograms, indices = self._histograms_of(nodes)
        if nodes[0].parent < 0:
            self._summed = histograms[indices[0]].copy()  # every level has all rows, and sums are exact
        p, layout, limits = self._settings.penalties, self._layout, self._settings.limits_of(nodes)
        monotone, bounds = limits.bounding(p.max_delta_step)
        gain, feature, position, missing_left = scan_level(
            histograms, indices, self._summed, layout.offsets, self._is_categorical, limits.allowed.all(axis=0),
            monotone, bounds, p.least_rows, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth, p.reg_lambda,
            p.reg_alpha, p.max_delta_step, p.min_child_weight,
        )  # fmt: skip
        if feature < 0 or gain < self._settings.least_gain(min_gain):
            for node in nodes:
                self._pool.forget(node.id)
            return [None] * len(nodes)
        shared = self._shared(feature, position, bool(missing_left), gain / len(nodes))
        return [self._of_node(shared, histograms, index) for index in indices]

    def _shared(self, feature: int, position: int, missing_left: bool, gain: float) -> Split:
        """Return the level's split, without sums."""
        nothing = Stats(0.0, 0.0)
        if self._layout.is_categorical[feature]:
            of_feature = self._summed[self._layout.offsets[feature] : self._layout.offsets[feature + 1]]
            return categorical_split(
                of_feature, feature, position, missing_left, gain, nothing, nothing, self._settings.penalties
            )
        threshold = self._layout.bins[feature].threshold_of(position)
        return Split(feature, gain, nothing, nothing, missing_left, bin=position, threshold=threshold)

    def _of_node(self, shared: Split, histograms: FloatArray, index: int) -> Split:
        """Return the level's split with the sums of one node, and numbers of rows if they are counted."""
        slots = slice(self._layout.offsets[shared.feature], self._layout.offsets[shared.feature + 1])
        of_feature = histograms[index, slots]
        is_left = shared.goes_left(len(of_feature))
        left, right = of_feature[is_left].sum(axis=0), of_feature[~is_left].sum(axis=0)
        split = shared._replace(left=Stats(*left.tolist()), right=Stats(*right.tolist()))
        if self._settings.penalties.least_rows is None:
            return split
        counts = histograms[index + 1, slots, 0]
        return split._replace(rows=(float(counts[is_left].sum()), float(counts[~is_left].sum())))

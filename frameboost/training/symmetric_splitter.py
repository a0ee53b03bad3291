"""Symmetric (oblivious) trees: every node of a level has the same split (Kohavi 1994; CatBoost's trees).

A row's leaf is then a number with a bit a level, which SQL and polars look up without walking down.
"""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.binning.bins import SlotLayout
from frameboost.engines.contract import HistogramEngine
from frameboost.runtime.workers import Workers
from frameboost.splits.categorical import categorical_split
from frameboost.splits.gain import MIN_GAIN
from frameboost.splits.split import FloatArray, Penalties, Split, Stats
from frameboost.splits.symmetric_kernels import scan_level
from frameboost.training.histograms import HistogramPool
from frameboost.training.node import OpenNode
from frameboost.training.splitter import LimitsOf

__all__ = ["SymmetricSplitter"]


class SymmetricSplitter:
    """Finds one split for all nodes that it is asked for, which are those of a level.

    Parameters
    ----------
    engine, layout, penalties, limits_of, workers
        As for `frameboost.training.splitter.HistogramSplitter`.
    gamma
        What the level as a whole must gain.
    """

    def __init__(
        self,
        engine: HistogramEngine,
        layout: SlotLayout,
        penalties: Penalties,
        limits_of: LimitsOf,
        workers: Workers,
        gamma: float,
    ) -> None:
        self._pool = HistogramPool(engine, layout.n_slots, workers)
        self._layout = layout
        self._penalties = penalties
        self._limits_of = limits_of
        self._gamma = gamma

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """Return the same split for each node, with the node's own sums and gain; None for all if it gains nothing."""
        kept, places = self._pool.of(nodes)
        histograms = kept[places]
        p, layout, limits = self._penalties, self._layout, self._limits_of(nodes)
        summed = histograms.sum(axis=0)  # exact: all of it is on the gradient grid
        gain, feature, position, missing_left = scan_level(
            histograms, summed, layout.offsets, layout.is_categorical, limits.allowed.all(axis=0), limits.monotone,
            limits.bounds, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth, p.reg_lambda, p.reg_alpha,
            p.max_delta_step, p.min_child_weight,
        )  # fmt: skip
        if feature < 0 or gain <= MIN_GAIN or gain < self._gamma:
            for node in nodes:
                self._pool.forget(node.id)
            return [None] * len(nodes)
        shared = self._shared(summed, feature, position, bool(missing_left), gain / len(nodes))
        return [self._of_node(shared, histogram) for histogram in histograms]

    def _shared(self, summed: FloatArray, feature: int, position: int, missing_left: bool, gain: float) -> Split:
        nothing = Stats(0.0, 0.0)
        if self._layout.is_categorical[feature]:
            own = summed[self._layout.offsets[feature] : self._layout.offsets[feature + 1]]
            return categorical_split(own, feature, position, missing_left, gain, nothing, nothing, self._penalties)
        cuts = self._layout.bins[feature].cuts
        threshold = cuts[position - 1] if position <= len(cuts) else None
        return Split(feature, gain, nothing, nothing, missing_left, bin=position, threshold=threshold)

    def _of_node(self, shared: Split, histogram: FloatArray) -> Split:
        """Return the split with the sums of one node; its gain is the node's even share of the level's."""
        own = histogram[self._layout.offsets[shared.feature] : self._layout.offsets[shared.feature + 1]]
        is_left = shared.goes_left(len(own))
        left, right = own[is_left].sum(axis=0), own[~is_left].sum(axis=0)
        return Split(
            shared.feature, shared.gain, Stats(*left.tolist()), Stats(*right.tolist()), shared.missing_left,
            bin=shared.bin, threshold=shared.threshold, categories=shared.categories,
        )  # fmt: skip

    def end_tree(self) -> None:
        """See `frameboost.training.splitter.Splitter`."""
        self._pool.clear()

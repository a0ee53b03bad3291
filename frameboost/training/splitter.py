"""The best split of each open node, from histograms or by a scan of presorted columns.

The kernels that score the splits are in `frameboost.splits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import ColumnBlockEngine
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.categorical import categorical_split
from frameboost.splits.gain import MIN_GAIN
from frameboost.splits.search_kernels import find_splits, scan_histograms
from frameboost.splits.split import FloatArray, Penalties, Split, SplitLimits, Stats
from frameboost.training.histograms import SLOTS_PER_THREAD, HistogramPool, HistogramSource
from frameboost.training.node import OpenNode
from frameboost.training.pruning import Pruner

__all__ = ["ExactSplitter", "HistogramSplitter", "LimitsOf", "SplitSearch", "SplitSettings", "Splitter"]

# The slots of a feature of two bins, and the fewest such features for which a shortcut is worth compiling.
_SLOTS_OF_PAIR, _MIN_PAIRS = 3, 32

LimitsOf = Callable[[Sequence[OpenNode]], SplitLimits]


@dataclass(slots=True)
class SplitSettings:
    """The settings of a fit that every splitter needs.

    Attributes
    ----------
    penalties
        Regularisation, which gains depend on.
    limits_of
        Returns the limits on the splits of open nodes: constraints, and the features drawn for them.
    gamma
        The least gain of a split.
    workers
        Threads of the split search.
    n_outputs
        Number of outputs of the loss.
    min_gains
        For each output the gain that is no more than rounding; known once the margins are set.
    output
        The output whose tree is grown; the one of the largest gains where trees are for all.
    """

    penalties: Penalties
    limits_of: LimitsOf
    gamma: float
    workers: Workers
    n_outputs: int = 1
    min_gains: tuple[float, ...] = (MIN_GAIN,)
    output: int = 0

    @property
    def min_gain(self) -> float:
        """The gain that is no more than rounding."""
        return self.min_gains[self.output]

    @property
    def least_gain(self) -> float:
        """The least gain of a split that is made."""
        return max(math.nextafter(self.min_gain, math.inf), self.gamma)

    def accepts(self, gain: float) -> bool:
        """Whether a split with that gain is made."""
        return gain >= self.least_gain


class Splitter(Protocol):
    """Finds the best splits of open nodes, one tree at a time."""

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """Return the best split of each node, None for a node that becomes a leaf."""

    def end_tree(self) -> None:
        """Drop what is kept for the tree."""

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """Return the `Split.bin` of a split at a threshold, for a tree that is repeated from a checkpoint.

        Raises
        ------
        ValueError
            If no split of this data has that threshold.
        """


@dataclass(frozen=True, slots=True)
class SplitSearch:
    """The split search of a fit, with the engines' columns binned or sorted for it.

    Attributes
    ----------
    splitter
        Finds the best split of each open node.
    bins
        The bins of all features, with their categories; where bins don't last the fit, without cuts.
    pruner
        Takes back weak splits of a grown tree; None where they are never made.
    needs_whole_levels
        Whether the splitter must see every node of a level, those that are too light to be split too.
    """

    splitter: Splitter
    bins: Sequence[Bins]
    pruner: Pruner | None = None
    needs_whole_levels: bool = False


class HistogramSplitter:
    """Splits at the boundaries of bins (``tree_method="hist"``), from the sums of gradients in each bin."""

    def __init__(self, histograms: HistogramSource, layout: SlotLayout, settings: SplitSettings) -> None:
        self._pool = HistogramPool(histograms, layout.n_slots, settings.workers)
        self._layout = layout
        self._is_categorical = layout.is_categorical if layout.is_categorical.any() else None
        has_two_bins = np.count_nonzero(np.diff(layout.offsets) == _SLOTS_OF_PAIR) >= _MIN_PAIRS
        self._has_two_bins = True if has_two_bins else None
        self._cuts = [None if b.feature.type.is_categorical else b.cuts for b in layout.bins]
        self._settings = settings

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        histograms, indices = self._pool.of(nodes)
        best = np.empty((len(nodes), 3), dtype=np.int64)
        stats = np.empty((len(nodes), 3))
        p, layout, workers = self._settings.penalties, self._layout, self._settings.workers
        limits = self._settings.limits_of(nodes)
        monotone, bounds = limits.bounding(p.max_delta_step)
        count = workers.count(len(nodes), SLOTS_PER_THREAD // layout.n_slots)
        team = workers.team(count)
        arguments = (
            histograms, indices, layout.offsets, self._is_categorical, limits.allowed,
            monotone, bounds, self._has_two_bins, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats,
        )  # fmt: skip
        if team is None:
            scan_histograms(*arguments)
        else:
            find_splits(team, *arguments, count)
        found = zip(nodes, indices.tolist(), best.tolist(), stats.tolist(), strict=True)
        return [self._split(node, histograms, index, choice, sums) for node, index, choice, sums in found]

    def _split(
        self, node: OpenNode, histograms: FloatArray, index: int, choice: list[int], sums: list[float]
    ) -> Split | None:
        """Return the split that the kernel has chosen: feature, bin (or category), side of missing; gain, GL, HL."""
        feature, position, missing_left = choice
        gain, GL, HL = sums
        if feature < 0 or not self._settings.accepts(gain):
            self._pool.forget(node.id)
            return None
        left = Stats(GL, HL)
        cuts = self._cuts[feature]
        if cuts is None:
            own = histograms[index, self._layout.offsets[feature] : self._layout.offsets[feature + 1]]
            return categorical_split(
                own, feature, position, bool(missing_left), gain, left, node.stats, self._settings.penalties
            )
        threshold = cuts[position - 1] if position <= len(cuts) else None
        return Split(feature, gain, left, node.stats - left, missing_left == 1, position, threshold)

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""
        self._pool.clear()

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`."""
        return self._layout.bins[feature].bin_of(threshold)


class ExactSplitter:
    """Splits between any two values (``tree_method="exact"``; Chen & Guestrin 2016, algorithm 1).

    A split below ``gamma`` is made all the same, and taken back once the tree is grown (see
    `frameboost.training.pruning`): as in XGBoost, a weak split may lead to strong ones.
    """

    def __init__(self, engine: ColumnBlockEngine, settings: SplitSettings) -> None:
        self._engine = engine
        self._settings = settings

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        found = self._engine.best_splits(
            [n.id for n in nodes], [n.stats for n in nodes], self._settings.penalties, self._settings.limits_of(nodes)
        )
        return [split if split is not None and split.gain > self._settings.min_gain else None for split in found]

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`."""
        return self._engine.rank_of(feature, threshold)

"""Finding the best split of a node: over histograms, or over presorted columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from frameboost.binning.bins import SlotLayout
from frameboost.engines.contract import ColumnBlockEngine, HistogramEngine
from frameboost.runtime.workers import Workers
from frameboost.splits.categorical import categorical_split
from frameboost.splits.search_kernels import find_splits
from frameboost.splits.split import FloatArray, Penalties, Split, SplitLimits, Stats
from frameboost.training.histograms import SMALLEST_TASK, HistogramPool
from frameboost.training.node import OpenNode

__all__ = ["ExactSplitter", "HistogramSplitter", "LimitsOf", "Splitter"]

LimitsOf = Callable[[Sequence[OpenNode]], SplitLimits]


class Splitter(Protocol):
    """Finds the best split of open nodes, one tree at a time."""

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """Return the best split of each node, None where no split gains anything."""

    def end_tree(self) -> None:
        """Forget what was kept for the tree."""


class HistogramSplitter:
    """Splits between bins (``tree_method="hist"``)."""

    def __init__(
        self,
        engine: HistogramEngine,
        layout: SlotLayout,
        penalties: Penalties,
        limits_of: LimitsOf,
        workers: Workers,
    ) -> None:
        self._workers = workers
        self._pool = HistogramPool(engine, layout.n_slots, workers)
        self._layout = layout
        self._cuts = [None if b.feature.type.is_categorical else b.cuts for b in layout.bins]
        self._penalties = penalties
        self._limits_of = limits_of

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        histograms, places = self._pool.of(nodes)
        best = np.empty((len(nodes), 3), dtype=np.int64)
        stats = np.empty((len(nodes), 3))
        p, layout, limits = self._penalties, self._layout, self._limits_of(nodes)

        count = self._workers.count(len(nodes), SMALLEST_TASK // layout.n_slots)
        find_splits(
            self._workers.team(count), histograms, places, layout.offsets, layout.is_categorical, limits.allowed,
            limits.monotone, limits.bounds, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats, count,
        )  # fmt: skip
        found = zip(nodes, places.tolist(), best.tolist(), stats.tolist(), strict=True)
        return [self._split(node, histograms, place, choice, sums) for node, place, choice, sums in found]

    def _split(
        self, node: OpenNode, histograms: FloatArray, place: int, choice: list[int], sums: list[float]
    ) -> Split | None:
        feature, position, missing_left = choice
        if feature < 0:
            self._pool.forget(node.id)
            return None
        gain, GL, HL = sums
        left = Stats(GL, HL)
        cuts = self._cuts[feature]
        if cuts is None:
            own = histograms[place, self._layout.offsets[feature] : self._layout.offsets[feature + 1]]
            return categorical_split(
                own, feature, position, bool(missing_left), gain, left, node.stats, self._penalties
            )
        threshold = cuts[position - 1] if position <= len(cuts) else None
        return Split(feature, gain, left, node.stats - left, missing_left == 1, position, threshold)

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""
        self._pool.clear()


class ExactSplitter:
    """Splits between any two values (``tree_method="exact"``; Chen & Guestrin 2016, algorithm 1)."""

    def __init__(self, engine: ColumnBlockEngine, penalties: Penalties, limits_of: LimitsOf) -> None:
        self._engine = engine
        self._penalties = penalties
        self._limits_of = limits_of

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        limits = self._limits_of(nodes)
        return self._engine.best_splits([n.id for n in nodes], [n.stats for n in nodes], self._penalties, limits)

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""

"""The best split of each open node of a tree for several outputs, from their histograms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.binning.bins import SlotLayout
from frameboost.engines.vector_contract import VectorEngine
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.splits.vector_kernels import find_vector_splits, named_by_outputs, scan_outputs
from frameboost.training.histograms import SLOTS_PER_THREAD, HistogramPool
from frameboost.training.node import OpenNode
from frameboost.training.splitter import SplitSettings

__all__ = ["VectorSplitter"]


class _AllOutputs:
    """The histograms of all outputs, one after the other, as if they were one histogram."""

    def __init__(self, engine: VectorEngine, n_slots: int) -> None:
        self._engine, self._n_slots = engine, n_slots

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `frameboost.training.histograms.HistogramSource`."""
        self._engine.vector_histograms(nodes, out.reshape(len(out), -1, self._n_slots, 2), indices)


class VectorSplitter:
    """Splits at the boundaries of bins, by the sum of the gains in all outputs; ``gamma`` bounds that sum."""

    def __init__(self, engine: VectorEngine, layout: SlotLayout, settings: SplitSettings) -> None:
        self._n_outputs, self._layout, self._settings = settings.n_outputs, layout, settings
        n_slots = self._n_outputs * layout.n_slots
        self._pool = HistogramPool(_AllOutputs(engine, layout.n_slots), n_slots, settings.workers)
        self._is_categorical = layout.is_categorical if layout.is_categorical.any() else None

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `frameboost.training.splitter.Splitter`."""
        sums, indices = self._pool.of(nodes)
        histograms = sums.reshape(len(sums), self._n_outputs, self._layout.n_slots, 2)
        best, gains = np.empty((len(nodes), 3), dtype=np.int64), np.empty(len(nodes))
        p, workers = self._settings.penalties, self._settings.workers
        count = workers.count(len(nodes), max(1, SLOTS_PER_THREAD // (self._n_outputs * self._layout.n_slots)))
        team = workers.team(count)
        arguments = (
            histograms, indices, self._layout.offsets, self._is_categorical, self._settings.limits_of(nodes).allowed,
            p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, gains,
        )  # fmt: skip
        if team is None:
            scan_outputs(*arguments)
        else:
            find_vector_splits(team, *arguments, count)
        found = zip(nodes, indices.tolist(), best.tolist(), gains.tolist(), strict=True)
        return [self._split(node, histograms[index], choice, gain) for node, index, choice, gain in found]

    def _split(self, node: OpenNode, histogram: FloatArray, choice: Sequence[int], gain: float) -> Split | None:
        """Return the split that the kernel has chosen, with the sums of its children."""
        feature, position, missing_left = choice
        if feature < 0 or not self._settings.accepts(gain):
            self._pool.forget(node.id)
            return None
        own = np.ascontiguousarray(histogram[:, self._layout.offsets[feature] : self._layout.offsets[feature + 1]])
        nothing, bin_ = Stats(0.0, 0.0), position
        threshold: Physical | None = None
        categories: tuple[int, ...] | None = None
        if self._layout.is_categorical[feature]:
            p = self._settings.penalties
            named = named_by_outputs(
                own, position, missing_left == 1, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
                p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
            )  # fmt: skip
            bin_, categories = 0, tuple(sorted(named.tolist()))
        else:
            cuts = self._layout.bins[feature].cuts
            threshold = cuts[position - 1] if position <= len(cuts) else None
        split = Split(feature, gain, nothing, nothing, missing_left == 1, bin_, threshold, categories)
        left = own[:, split.goes_left(own.shape[1])].sum(axis=1)
        of_left = Stats(*left.sum(axis=0).tolist())
        return split._replace(left=of_left, right=node.stats - of_left, left_outputs=left)

    def end_tree(self) -> None:
        """See `frameboost.training.splitter.Splitter`."""
        self._pool.clear()

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `frameboost.training.splitter.Splitter`."""
        return self._layout.bins[feature].bin_of(threshold)

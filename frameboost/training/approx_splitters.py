"""Splits at quantiles weighted by the hessians (``tree_method="approx"``), proposed before each tree or in each node.

Chen & Guestrin 2016, sections 3.2 and 3.3, algorithm 2. The rank of a value z is the share of hessian below it,
r(z) = Σ_{x<z} h / Σ h, because to second order the loss is Σ ½h (f(x) + g/h)²: a squared error with weights h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frameboost.binning.bins import Bins, NodeBins, SlotLayout, thresholds_of_gaps, with_thresholds
from frameboost.engines.contract import NodeBinningEngine, RebinningEngine
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray, IntArray, Split
from frameboost.training.open_nodes import OpenNode
from frameboost.training.splitter import HistogramSplitter, SplitSettings

__all__ = ["GlobalSplitter", "LocalSplitter"]


class GlobalSplitter:
    """Splits between bins proposed once per tree (``proposal="global"``)."""

    def __init__(self, engine: RebinningEngine, max_bin: int, settings: SplitSettings) -> None:
        self._engine = engine
        self._max_bin = max_bin
        self._settings = settings
        self._of_tree: HistogramSplitter | None = None

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        if self._of_tree is None:
            layout = SlotLayout(with_thresholds(self._engine.rebin(self._max_bin)))
            self._of_tree = HistogramSplitter(self._engine, layout, self._settings)
        return self._of_tree.best_splits(nodes, min_gain)

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""
        self._of_tree = None

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`; engines whose bins change compare values with the threshold."""
        return 0


class LocalSplitter:
    """Splits between bins proposed in each node, from its rows (``proposal="local"``)."""

    def __init__(self, engine: NodeBinningEngine, bins: Sequence[Bins], max_bin: int, settings: SplitSettings) -> None:
        self._engine = engine
        self._bins = tuple(bins)
        self._max_bin = max_bin
        self._settings = settings

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        of_nodes = self._engine.node_bins([node.id for node in nodes], self._max_bin)
        proposals = [_with_a_bin(b, each) for b, each in zip(self._bins, of_nodes, strict=True)]
        # A node with fewer bins than another has empty ones at the end, which the scan of the histograms skips.
        layout = SlotLayout([_numbered(b, of_nodes) for b, of_nodes in zip(self._bins, proposals, strict=True)])
        ready = _ReadyHistograms(np.concatenate([f.histogram for f in proposals], axis=1))
        splitter = HistogramSplitter(ready, layout, self._settings)
        splits = splitter.best_splits(nodes, min_gain)
        gaps = [
            None if split is None or split.categories is not None else proposals[split.feature].gap(index, split.bin)
            for index, split in enumerate(splits)
        ]
        thresholds = thresholds_of_gaps(gaps)
        return [split and split._replace(threshold=each) for split, each in zip(splits, thresholds, strict=True)]

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`; engines whose bins change compare values with the threshold."""
        return 0


class _ReadyHistograms:
    """Precomputed histograms of all nodes of a batch; none is subtracted from its parent's."""

    def __init__(self, histograms: FloatArray) -> None:
        self._histograms = histograms

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramSource.histograms`."""
        assert len(nodes) == len(self._histograms)
        out[indices] = self._histograms[..., :2]

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        out[indices, :, 0], out[indices, :, 1] = self._histograms[..., 2], 0.0


def _with_a_bin(bins: Bins, of_nodes: NodeBins) -> NodeBins:
    """Return the bins with an empty one before the bin of missing values, if a number is missing in all nodes.

    A feature without categories has no such bin in the layout either.
    """
    if bins.feature.type.is_categorical or of_nodes.histogram.shape[1] > 1:
        return of_nodes
    return replace(of_nodes, histogram=np.pad(of_nodes.histogram, ((0, 0), (1, 0), (0, 0))))


def _numbered(bins: Bins, of_nodes: NodeBins) -> Bins:
    """Return as many bins as the node with the most has; cuts are placeholders, as they differ between nodes."""
    if bins.feature.type.is_categorical:
        return bins
    return replace(bins, cuts=tuple(range(of_nodes.histogram.shape[1] - 2)))

"""Splits proposed anew, at quantiles weighted by the hessians: before each tree, or in each node.

Chen & Guestrin 2016, sections 3.2 and 3.3, algorithm 2. A rank is the share of hessian below a value,
r(z) = Σ_{x<z} h / Σ h, as the loss is to second order Σ ½h (f(x) + g/h)² : a squared error weighted by h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.node_bins import NodeBins
from frameboost.engines.contract import Engine, HistogramEngine, NodeBinningEngine, RebinningEngine
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray, Penalties, Split
from frameboost.training.node import OpenNode
from frameboost.training.splitter import HistogramSplitter, LimitsOf, Splitter

__all__ = ["GlobalSplitter", "LocalSplitter", "propose_anew"]


def propose_anew(
    engine: Engine, proposal: str, max_bin: int, penalties: Penalties, limits_of: LimitsOf, workers: Workers
) -> tuple[Splitter, list[Bins]]:
    """Let the engine keep its columns; return what finds splits by that proposal, and the bins without cuts."""
    if proposal == "local":
        binning = cast("NodeBinningEngine", engine)
        bins = binning.load_columns()
        return LocalSplitter(binning, bins, max_bin, penalties, limits_of, workers), bins
    rebinning = cast("RebinningEngine", engine)
    bins = rebinning.load_columns()
    return GlobalSplitter(rebinning, max_bin, penalties, limits_of, workers), bins


class GlobalSplitter:
    """Splits between bins that are made for one tree."""

    def __init__(
        self, engine: RebinningEngine, max_bin: int, penalties: Penalties, limits_of: LimitsOf, workers: Workers
    ) -> None:
        self._engine = engine
        self._max_bin = max_bin
        self._penalties = penalties
        self._limits_of = limits_of
        self._workers = workers
        self._of_tree: HistogramSplitter | None = None

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        if self._of_tree is None:
            layout = SlotLayout(self._engine.rebin(self._max_bin))
            self._of_tree = HistogramSplitter(self._engine, layout, self._penalties, self._limits_of, self._workers)
        return self._of_tree.best_splits(nodes)

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""
        self._of_tree = None


class LocalSplitter:
    """Splits between bins that every node has for itself."""

    def __init__(
        self,
        engine: NodeBinningEngine,
        bins: Sequence[Bins],
        max_bin: int,
        penalties: Penalties,
        limits_of: LimitsOf,
        workers: Workers,
    ) -> None:
        self._engine = engine
        self._bins = tuple(bins)
        self._max_bin = max_bin
        self._penalties = penalties
        self._limits_of = limits_of
        self._workers = workers

    def best_splits(self, nodes: Sequence[OpenNode]) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        found = [_with_a_bin(f) for f in self._engine.node_bins([node.id for node in nodes], self._max_bin)]
        # The same scan as over bins that all nodes share: it passes over those that are empty, and so over those that
        # a node does not have.
        layout = SlotLayout([_numbered(b, of_nodes) for b, of_nodes in zip(self._bins, found, strict=True)])
        given = cast("HistogramEngine", _Given(np.concatenate([f.histogram for f in found], axis=1)))
        splitter = HistogramSplitter(given, layout, self._penalties, self._limits_of, self._workers)
        return [
            split and _with_threshold(split, found[split.feature].cuts[place])
            for place, split in enumerate(splitter.best_splits(nodes))
        ]

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""


class _Given:
    """Histograms that are there already, all of them: none is to be had by subtraction from its parent's."""

    def __init__(self, histograms: FloatArray) -> None:
        self._histograms = histograms

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        assert len(nodes) == len(self._histograms)
        out[places] = self._histograms


def _with_a_bin(of_nodes: NodeBins) -> NodeBins:
    """Return the bins with an empty one before that for missing values, if a feature is missing in all of the nodes."""
    if of_nodes.histogram.shape[1] > 1:
        return of_nodes
    return replace(of_nodes, histogram=np.pad(of_nodes.histogram, ((0, 0), (1, 0), (0, 0))))


def _numbered(bins: Bins, of_nodes: NodeBins) -> Bins:
    """Return as many bins as any node has, the cuts between them only numbers."""
    if bins.feature.type.is_categorical:
        return bins
    return replace(bins, cuts=tuple(range(of_nodes.histogram.shape[1] - 2)))


def _with_threshold(split: Split, cuts: Sequence[float | int | str]) -> Split:
    """Return the split in its node's own cuts; past the last of them it asks whether the value is present."""
    if split.categories is not None:
        return split
    return split._replace(threshold=cuts[split.bin - 1] if split.bin <= len(cuts) else None)

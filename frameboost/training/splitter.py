"""The best split of each open node, from histograms, half of them by subtraction.

Only the lighter of two siblings is summed from its rows; the other is parent − sibling. Sums on the gradient grid are
exact, so the difference is bit for bit the sum over the sibling's rows. Example, one feature with three bins, sums of
g:

=======================  ================  ==================================================
node 0 (root)            ``[4, -1, 2]``    summed
node 1 (lighter child)   ``[1,  0, 2]``    summed
node 2 (its sibling)     ``[3, -1, 0]``    node 0 − node 1, written over the histogram of node 0
=======================  ================  ==================================================

The kernels that score the splits are in `frameboost.splits`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import CountingEngine
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.search import categorical_split, find_splits, subtract_from_parents
from frameboost.splits.split import FloatArray, IntArray, Penalties, Split, SplitLimits, Stats
from frameboost.training.open_nodes import Constraints, FeatureSampler, OpenNode

__all__ = [
    "SLOTS_PER_THREAD",
    "BinSplitter",
    "HistogramPool",
    "HistogramSource",
    "HistogramSplitter",
    "SplitSearch",
    "SplitSettings",
    "Splitter",
    "with_rows",
]

# A thread that subtracts or scans fewer slots than this costs more than it saves.
SLOTS_PER_THREAD = 1 << 16
# As many as a tree of depth 6 needs. The operating system allocates a histogram's memory when it is first written to.
_FIRST_HISTOGRAMS = 32
# The slots of a feature of two bins, and the fewest such features for which a shortcut is worth compiling.
_SLOTS_OF_PAIR, _MIN_PAIRS = 3, 32


@dataclass(frozen=True, slots=True)
class SplitSettings:
    """The settings of a fit that every splitter needs.

    Attributes
    ----------
    penalties
        The regularisation of gains.
    constraints, features
        Constraints on the trees, and feature sampling.
    gamma
        The least gain of a split.
    workers
        Threads of the split search.
    n_outputs
        Number of outputs of the loss.
    h_counts_rows
        Whether H is the number of rows.
    """

    penalties: Penalties
    constraints: Constraints
    features: FeatureSampler
    gamma: float
    workers: Workers
    n_outputs: int = 1
    h_counts_rows: bool = False

    def limits_of(self, nodes: Sequence[OpenNode]) -> SplitLimits:
        """Return the limits on the splits of open nodes."""
        return self.constraints.limits(nodes, self.features.allowed(nodes))

    def least_gain(self, min_gain: float) -> float:
        """Return the minimum gain of a split that must also exceed ``min_gain``."""
        return max(math.nextafter(min_gain, math.inf), self.gamma)


class Pruner(Protocol):
    """Prunes weak splits of a grown tree."""

    def prune(self, nodes: Sequence[OpenNode]) -> tuple[list[OpenNode], dict[int, OpenNode]]:
        """Prune weak splits; return the remaining nodes, and for each grown leaf the leaf that now has its rows."""

    def move_rows(self, leaf_of: Mapping[int, OpenNode]) -> None:
        """Move the rows of grown leaves to the remaining leaves."""


class Splitter(Protocol):
    """Finds the best splits of open nodes, one tree at a time."""

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """Return the best split of each node with a gain above ``min_gain``, None for a node that becomes a leaf."""

    def end_tree(self) -> None:
        """Drop the state of the tree."""

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """Return the `Split.bin` of a split at a threshold, to replay a tree from a checkpoint.

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
        The bins of all features, with their categories; without cuts if they change during the fit.
    pruner
        Prunes weak splits of a grown tree; None if they are never made.
    needs_whole_levels
        Whether the splitter must see every node of a level, including those too light to split.
    """

    splitter: Splitter
    bins: Sequence[Bins]
    pruner: Pruner | None = None
    needs_whole_levels: bool = False


class BinSplitter:
    """The common part of splitters between bins: the layout of bins, and the histograms of open nodes.

    Parameters
    ----------
    histograms, n_slots
        The source of histograms, and the number of slots of each.
    layout, settings
        The bins, and the settings of the fit.
    """

    def __init__(self, histograms: HistogramSource, n_slots: int, layout: SlotLayout, settings: SplitSettings) -> None:
        self._pool = HistogramPool(histograms, n_slots, settings.workers)
        self._layout, self._settings = layout, settings
        self._is_categorical = layout.is_categorical if layout.is_categorical.any() else None

    def _histograms_of(self, nodes: Sequence[OpenNode]) -> tuple[FloatArray, IntArray]:
        """Return histograms, float64 (histograms, slots, 2), and the index of each node's.

        If rows are counted, the next histogram has the numbers of rows.
        """
        sums, indices = self._pool.of(nodes)
        return sums.reshape(-1, self._layout.n_slots, 2), indices * (sums.shape[1] // self._layout.n_slots)

    def _leaves(self, nodes: Sequence[OpenNode], features: IntArray, gains: FloatArray, min_gain: float) -> list[bool]:
        """Return which nodes become leaves, as no feature (-1) splits them or the gain is too small; forget them."""
        least_gain = self._settings.least_gain(min_gain)
        are_leaves: list[bool] = ((features < 0) | (gains < least_gain)).tolist()
        for node, is_leaf in zip(nodes, are_leaves, strict=True):
            if is_leaf:
                self._pool.forget(node.id)
        return are_leaves

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""
        self._pool.clear()

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`."""
        return self._layout.bins[feature].bin_of(threshold)


class HistogramSplitter(BinSplitter):
    """Splits between bins (``tree_method="hist"``), from sums of gradients by bin."""

    def __init__(self, histograms: HistogramSource, layout: SlotLayout, settings: SplitSettings) -> None:
        super().__init__(*with_rows(histograms, layout, settings), layout, settings)
        has_two_bins = np.count_nonzero(np.diff(layout.offsets) == _SLOTS_OF_PAIR) >= _MIN_PAIRS
        self._has_two_bins = True if has_two_bins and settings.penalties.least_rows is None else None

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        histograms, indices = self._histograms_of(nodes)
        best = np.empty((len(nodes), 3), dtype=np.int64)
        stats = np.empty((len(nodes), 3))
        p, layout, workers = self._settings.penalties, self._layout, self._settings.workers
        limits = self._settings.limits_of(nodes)
        monotone, bounds = limits.bounding(p.max_delta_step)
        count = workers.count(len(nodes), SLOTS_PER_THREAD // layout.n_slots)
        find_splits(
            workers.team(count), histograms, indices, layout.offsets, self._is_categorical, limits.allowed,
            monotone, bounds, self._has_two_bins, p.least_rows, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, stats, count,
        )  # fmt: skip
        are_leaves = self._leaves(nodes, best[:, 0], stats[:, 0], min_gain)
        chosen = zip(nodes, are_leaves, indices.tolist(), best.tolist(), stats.tolist(), strict=True)
        return [
            None if is_leaf else self._split(node, histograms[index], choice, sums)
            for node, is_leaf, index, choice, sums in chosen
        ]

    def _split(self, node: OpenNode, histogram: FloatArray, choice: list[int], sums: list[float]) -> Split:
        """Return the kernel's choice as a split: feature, bin (or category), missing direction; gain, GL, HL."""
        feature, position, missing_left = choice
        gain, GL, HL = sums
        left = Stats(GL, HL)
        if self._layout.is_categorical[feature]:
            of_feature = histogram[self._layout.offsets[feature] : self._layout.offsets[feature + 1]]
            return categorical_split(
                of_feature, feature, position, bool(missing_left), gain, left, node.stats, self._settings.penalties
            )
        threshold = self._layout.bins[feature].threshold_of(position)
        return Split(feature, gain, left, node.stats - left, missing_left == 1, position, threshold)


# --- histograms -------------------------------------------------------------------------------------------------------


class HistogramSource(Protocol):
    """A source of histograms: the part of `HistogramEngine` that splitters need."""

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `frameboost.engines.contract.HistogramEngine.histograms`."""


class HistogramPool:
    """The histograms that later ones are subtracted from, in one growing array that trees reuse."""

    def __init__(self, source: HistogramSource, n_slots: int, workers: Workers) -> None:
        self._source = source
        self._n_slots = n_slots
        self._workers = workers
        self._sums: FloatArray = np.empty((0, n_slots, 2))  # (histograms, slots, 2)
        self._indices: dict[int, int] = {}  # node -> index of its histogram
        self._free: list[int] = []

    def of(self, nodes: Sequence[OpenNode]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return histograms, float64 (histograms, slots, 2), and the index of each of ``nodes``.

        Siblings must be in the same call. The heavier sibling overwrites the histogram of its parent.
        """
        summed = [node for node in nodes if node.is_smaller or node.parent not in self._indices]
        free = self._free_indices(len(summed))
        parents = [self._indices.pop(node.parent, -1) for node in summed]
        for node, index, parent in zip(summed, free, parents, strict=True):
            self._indices[node.id] = index
            if parent >= 0:
                assert node.sibling is not None
                self._indices[node.sibling.id] = parent
        indices = np.array(free, dtype=np.int64)
        self._source.histograms([node.id for node in summed], self._sums, indices)
        self._subtract(free, parents)
        return self._sums, np.array([self._indices[node.id] for node in nodes], dtype=np.int64)

    def _subtract(self, indices: Sequence[int], parents: Sequence[int]) -> None:
        """Turn the histograms of parents (-1 for none) into those of the other child, in place."""
        count = self._workers.count(len(indices), SLOTS_PER_THREAD // self._sums.shape[1])
        of_indices, of_parents = np.array(indices, dtype=np.int64), np.array(parents, dtype=np.int64)
        subtract_from_parents(self._workers.team(count), self._sums, of_indices, of_parents)

    def _free_indices(self, count: int) -> list[int]:
        """Return ``count`` free indices, with more memory if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            n_before = len(self._sums)
            new = max(missing, n_before, _FIRST_HISTOGRAMS)
            before, self._sums = self._sums, np.empty((n_before + new, self._n_slots, 2))
            if n_before:
                self._sums[:n_before] = before
            self._free += range(n_before, len(self._sums))
        return [self._free.pop() for _ in range(count)]

    def forget(self, node: int) -> None:
        """Free the index of a node that becomes a leaf."""
        self._free.append(self._indices.pop(node))

    def clear(self) -> None:
        """Free all indices after a tree."""
        self._free += self._indices.values()
        self._indices.clear()


def with_rows(histograms: HistogramSource, layout: SlotLayout, settings: SplitSettings) -> tuple[HistogramSource, int]:
    """Return the source of histograms for a splitter, with numbers of rows if they are counted, and its slots."""
    if settings.penalties.least_rows is None:
        return histograms, layout.n_slots
    counting = cast(CountingEngine, histograms)
    return _WithRows(counting, layout.n_slots, h_counts_rows=settings.h_counts_rows), 2 * layout.n_slots


class _WithRows:
    """Sums histograms of g and h, each followed by one with the number of rows of each bin instead of g."""

    def __init__(self, engine: CountingEngine, n_slots: int, *, h_counts_rows: bool) -> None:
        self._engine, self._n_slots, self._h_counts_rows = engine, n_slots, h_counts_rows

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramSource.histograms`."""
        of_one = out.reshape(-1, self._n_slots, 2)
        self._engine.histograms(nodes, of_one, 2 * indices)
        if self._h_counts_rows:
            of_one[2 * indices + 1] = of_one[2 * indices, :, ::-1]
        else:
            self._engine.row_counts(nodes, of_one, 2 * indices + 1)

"""Trees for several outputs: grown once, with a tree of the same splits for each output.

The trees of a growth differ in values, gains and covers, those of their output: leaf values −G_k/(H_k+λ), and gains
that sum over outputs to the gain of the split. So all code for trees of one output can read them, and scoring may walk
once for all outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from frameboost.binning.bins import SlotLayout
from frameboost.engines.contract import CountingEngine, Engine, VectorEngine
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Physical
from frameboost.splits.search import bounded_weights, categorical_split
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.splits.symmetric import scan_level
from frameboost.splits.vector import find_vector_splits, gains_of_outputs, named_by_outputs
from frameboost.training.grower import GrownTree, Moves, TreeGrower, TreeTarget, add_values, tree_of, with_linear
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.open_nodes import OpenNode
from frameboost.training.splitter import SLOTS_PER_THREAD, BinSplitter, SplitSearch, SplitSettings
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["SymmetricVectorSplitter", "VectorSplitter", "VectorTreeGrower"]


class VectorTreeGrower:
    """Grows trees for all outputs at once, and adds their leaf values to the margins.

    Parameters
    ----------
    engine
        The engine over the training rows, a `frameboost.engines.contract.VectorEngine`.
    followers
        Engines over held-out rows.
    search, settings
        The split search over its columns, and its settings, with constraints on the features of a path.
    parameters
        Shape and regularisation of the trees.
    linear
        Fits slopes of linear leaves, or None; the engines are then `LinearVectorEngine`.
    """

    def __init__(
        self, engine: Engine, followers: Sequence[Engine], search: SplitSearch, settings: SplitSettings,
        parameters: Parameters, linear: LinearLeaves | None = None,
    ) -> None:  # fmt: skip
        self._engine, self._engines, self._penalties = engine, (engine, *followers), settings.penalties
        self._linear = linear
        self._grower = TreeGrower(engine, followers, search, settings, parameters)

    def grow(
        self, root_stats: Sequence[Stats], targets: Sequence[TreeTarget], shrinkage: float
    ) -> list[GrownTree]:  # fmt: skip
        """See `frameboost.training.growths.Grower`; for all outputs."""
        outputs = np.array(root_stats)
        root = OpenNode(0, 0, Stats(*outputs.sum(axis=0).tolist()), outputs=outputs)
        is_renewed, min_gain = targets[0].renewal is not None, max(target.min_gain for target in targets)
        nodes, steps, leaf_of = self._grower.grow_nodes(root, min_gain, ahead=not is_renewed)
        sums = np.stack([_outputs(node) for node in nodes])
        splits, gains, values = tree_of(nodes, 0), self._gains(nodes, sums), self._values(sums, shrinkage)
        number_of = {node.id: number for number, node in enumerate(nodes)}
        leaves = [number_of[leaf.id] for leaf in leaf_of.values()]
        for target in targets:
            if target.renewal is not None:
                for id_, renewed in target.renewal.leaf_values(self._engine, shrinkage).items():
                    values[number_of[id_], target.output] = renewed
        linear: list[LinearColumns | None] = [None] * len(targets)
        number = np.array(list(number_of))
        if self._linear is not None:
            feature, left = np.array(splits.feature), np.array(splits.left)
            linear = self._linear.fitted(self._engine, number, feature, left, values.T, shrinkage)
        grown = []
        for target, slopes in zip(targets, linear, strict=True):
            output = target.output
            of_rows = dict(zip(leaf_of, values[leaves, output].tolist(), strict=True))
            of_nodes = values[:, output], gains[:, output], sums[:, output, 1]
            value, gain, cover = (tuple(each.tolist()) for each in of_nodes)
            constant = replace(splits, value=value, gain=gain, cover=cover, output=output)
            tree, by_id = with_linear(constant, slopes, number)
            for engine in self._engines:
                add_values(engine, of_rows, by_id, target.margin)
            grown.append(GrownTree(tree, target.margin, partial(_calls, steps, of_rows, by_id)))
        for node in nodes:
            node.sibling = None  # breaks the reference cycle of two siblings, so that they are freed at once
        return grown

    def _values(self, sums: FloatArray, shrinkage: float) -> FloatArray:
        """Return the shrunk values, (nodes, outputs), from G and H; 0 where H is below ``min_child_weight``."""
        p, (G, H) = self._penalties, np.ascontiguousarray(sums.reshape(-1, 2).T)
        no_bounds = np.tile([-np.inf, np.inf], (len(G), 1))
        weights = bounded_weights(G, H, no_bounds, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight)
        values: FloatArray = (weights * shrinkage + 0.0).reshape(sums.shape[:2])  # + 0.0 turns -0.0 into 0.0
        return values

    def _gains(self, nodes: Sequence[OpenNode], sums: FloatArray) -> FloatArray:
        """Return the gains of nodes that are split, (nodes, outputs)."""
        p = self._penalties
        gains = np.zeros(sums.shape[:2])
        for index, node in enumerate(nodes):
            if node.left is not None:
                gains[index] = gains_of_outputs(
                    _outputs(node.left), sums[index], p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight
                )
        return gains


def _outputs(node: OpenNode) -> FloatArray:
    assert node.outputs is not None
    return node.outputs


def _calls(
    steps: Sequence[Moves], values: Mapping[int, float], linear: LinearColumns | None
) -> tuple[Sequence[Moves], Mapping[int, float], LinearColumns | None]:
    return steps, values, linear


# --- the splits -------------------------------------------------------------------------------------------------------


class _AllOutputs:
    """The histograms of all outputs, and of numbers of rows if they are counted, as one histogram."""

    def __init__(self, engine: VectorEngine, n_slots: int, *, are_counted: bool) -> None:
        self._engine, self._n_slots, self._are_counted = engine, n_slots, are_counted

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramSource.histograms`."""
        of_outputs = out.reshape(len(out), -1, self._n_slots, 2)
        self._engine.vector_histograms(nodes, of_outputs, indices)
        if self._are_counted:
            last = (indices + 1) * of_outputs.shape[1] - 1
            cast(CountingEngine, self._engine).row_counts(nodes, out.reshape(-1, self._n_slots, 2), last)


class VectorSplitter(BinSplitter):
    """Splits between bins, by the sum of gains over all outputs; ``gamma`` bounds that sum."""

    def __init__(self, engine: VectorEngine, layout: SlotLayout, settings: SplitSettings) -> None:
        self._n_outputs = settings.n_outputs
        are_counted = settings.penalties.least_rows is not None
        source = _AllOutputs(engine, layout.n_slots, are_counted=are_counted)
        super().__init__(source, (self._n_outputs + are_counted) * layout.n_slots, layout, settings)

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `frameboost.training.splitter.Splitter`."""
        sums, indices = self._pool.of(nodes)
        histograms = sums.reshape(len(sums), -1, self._layout.n_slots, 2)
        best, gains = np.empty((len(nodes), 3), dtype=np.int64), np.empty(len(nodes))
        p, workers = self._settings.penalties, self._settings.workers
        count = workers.count(len(nodes), max(1, SLOTS_PER_THREAD // (self._n_outputs * self._layout.n_slots)))
        find_vector_splits(
            workers.team(count), histograms, indices, self._layout.offsets, self._is_categorical,
            self._settings.limits_of(nodes).allowed, p.least_rows, p.max_cat_to_onehot, p.max_cat_threshold,
            p.cat_smooth, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight, best, gains, count,
        )  # fmt: skip
        are_leaves = self._leaves(nodes, best[:, 0], gains, min_gain)
        chosen = zip(nodes, are_leaves, indices.tolist(), best.tolist(), gains.tolist(), strict=True)
        return [
            None if is_leaf else self._split(node, histograms[index, : self._n_outputs], choice, gain)
            for node, is_leaf, index, choice, gain in chosen
        ]

    def _split(self, node: OpenNode, histogram: FloatArray, choice: Sequence[int], gain: float) -> Split:
        """Return the kernel's choice as a split, with the sums of its children."""
        feature, position, missing_left = choice
        sums = np.ascontiguousarray(histogram[:, self._layout.offsets[feature] : self._layout.offsets[feature + 1]])
        nothing, bin_ = Stats(0.0, 0.0), position
        threshold: Physical | None = None
        categories: tuple[int, ...] | None = None
        if self._layout.is_categorical[feature]:
            p = self._settings.penalties
            named = named_by_outputs(
                sums, position, missing_left == 1, p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
                p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
            )  # fmt: skip
            bin_, categories = 0, tuple(sorted(named.tolist()))
        else:
            threshold = self._layout.bins[feature].threshold_of(position)
        split = Split(feature, gain, nothing, nothing, missing_left == 1, bin_, threshold, categories)
        return _with_sums(split, node, sums)


class SymmetricVectorSplitter(BinSplitter):
    """Finds the split with the largest sum of gains over all nodes of a level and all outputs.

    Each output of a node counts as a node of `frameboost.splits.symmetric.scan_level`.
    """

    def __init__(self, engine: VectorEngine, layout: SlotLayout, settings: SplitSettings) -> None:
        self._n_outputs = settings.n_outputs
        self._are_counted = settings.penalties.least_rows is not None
        source = _AllOutputs(engine, layout.n_slots, are_counted=self._are_counted)
        super().__init__(source, (self._n_outputs + self._are_counted) * layout.n_slots, layout, settings)
        self._ordering: FloatArray = np.empty((0, 2))  # what bins are empty by, and categories sorted, (slots, 2)

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `frameboost.training.symmetric_splitter.SymmetricSplitter.best_splits`."""
        sums, indices = self._pool.of(nodes)
        histograms = sums.reshape(len(sums), -1, self._layout.n_slots, 2)
        if nodes[0].parent < 0:
            self._ordering = self._ordering_of(histograms[indices[0], : self._n_outputs])
        scanned, each = self._scanned(histograms, indices)
        p, layout, limits = self._settings.penalties, self._layout, self._settings.limits_of(nodes)
        monotone, bounds = limits.bounding(p.max_delta_step)
        gain, feature, position, missing_left = scan_level(
            scanned, each, self._ordering, layout.offsets, self._is_categorical, limits.allowed.all(axis=0),
            monotone, None if bounds is None else np.repeat(bounds, self._n_outputs, axis=0), p.least_rows,
            p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth, p.reg_lambda, p.reg_alpha, p.max_delta_step,
            p.min_child_weight,
        )  # fmt: skip
        if feature < 0 or gain < self._settings.least_gain(min_gain):
            for node in nodes:
                self._pool.forget(node.id)
            return [None] * len(nodes)
        slots, nothing = slice(layout.offsets[feature], layout.offsets[feature + 1]), Stats(0.0, 0.0)
        shared = Split(feature, gain / len(nodes), nothing, nothing, missing_left == 1, position, None)
        if layout.is_categorical[feature]:
            shared = categorical_split(
                self._ordering[slots], feature, position, missing_left == 1, shared.gain, nothing, nothing, p
            )
        else:
            shared = shared._replace(threshold=layout.bins[feature].threshold_of(position))
        return [
            _with_sums(shared, node, histograms[index, : self._n_outputs, slots])
            for node, index in zip(nodes, indices, strict=True)
        ]

    def _ordering_of(self, root: FloatArray) -> FloatArray:
        """Return the sums over outputs, for a categorical feature those of the output with the largest gradients.

        Gradients sum to 0 over the classes of a row, so categories could not be sorted by the sum.
        """
        ordering: FloatArray = root.sum(axis=0)
        for feature in np.flatnonzero(self._layout.is_categorical):
            slots = slice(self._layout.offsets[feature], self._layout.offsets[feature + 1])
            ordering[slots] = root[np.abs(root[:, slots, 0]).sum(axis=1).argmax(), slots]
        return ordering

    def _scanned(self, histograms: FloatArray, indices: IntArray) -> tuple[FloatArray, IntArray]:
        """Return histograms of one output each, and the indices of the open nodes', by node and output.

        If rows are counted, each is followed by the numbers of rows.
        """
        n, per_node = self._n_outputs, histograms.shape[1]
        outputs = np.arange(n)
        if not self._are_counted:
            return histograms.reshape(-1, *histograms.shape[2:]), (indices[:, None] * per_node + outputs).ravel()
        of_nodes = histograms[indices]
        counts = np.broadcast_to(of_nodes[:, n:], of_nodes[:, :n].shape)
        both = np.stack([of_nodes[:, :n], counts], axis=2)
        return both.reshape(-1, *histograms.shape[2:]), 2 * np.arange(len(indices) * n)


def _with_sums(split: Split, node: OpenNode, sums: FloatArray) -> Split:
    """Return the split of a node with the sums of its children, from the sums by output and bin of its feature."""
    left = sums[:, split.goes_left(sums.shape[1])].sum(axis=1)
    of_left = Stats(*left.sum(axis=0).tolist())
    return split._replace(left=of_left, right=node.stats - of_left, left_outputs=left)

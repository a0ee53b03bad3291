r"""The growth of one tree: which nodes are split, where to stop, and the values of the leaves.

Nodes are numbered in the order of creation, with the two children of a split consecutive. Example, depthwise, where
node 2 gains too little to be split::

            0                 batch 1: node 0 into 1, 2
          /   \
         1     2              batch 2: node 1 into 3, 4
        / \
       3   4

With ``lossguide`` each batch is one node, the one with the largest gain, so numbers follow the gains, not the levels.
Some engines split several nodes at once (see `frameboost.training.look_ahead`); the tree is the same.

A `GrownTree` can be replayed from its moves and values. The trees of a fit are converted to model trees together:
engines that grow whole trees record bins, and looking up their thresholds tree by tree would take as long as growing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Engine, LinearEngine, capabilities_of
from frameboost.expressions.grid import Scalar
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Physical
from frameboost.splits.search import bounded_weights
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.look_ahead import nodes_ahead, undo_splits
from frameboost.training.open_nodes import GROW_POLICIES, Lossguide, OpenNode
from frameboost.training.splitter import SplitSearch, SplitSettings
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.tree import LEAF, ColumnTrees, Tree, TreeColumns, linear_columns

__all__ = [
    "BinThresholds",
    "GrownArrays",
    "GrownTree",
    "Moves",
    "Renewal",
    "TreeGrower",
    "TreeTarget",
    "add_values",
    "as_tree",
    "as_trees",
    "moves_of",
    "tree_of",
]

_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class Renewal:
    """Leaf values that are the ``alpha`` quantile of ``residual`` over the rows of the leaf, optionally weighted."""

    residual: Scalar
    weight: Scalar | None
    alpha: float

    def leaf_values(self, engine: Engine, shrinkage: float) -> dict[int, float]:
        """Return the shrunk values of the engine's nodes that have rows, by node."""
        quantiles = engine.node_quantiles(self.residual, self.weight, self.alpha)
        return {node: value * shrinkage + 0.0 for node, value in quantiles.items()}  # + 0.0 turns -0.0 into 0.0


@dataclass(frozen=True, slots=True)
class TreeTarget:
    """The output that a tree is grown for.

    Attributes
    ----------
    output, margin
        The output of the loss, and the name of its margin.
    min_gain
        The gain that rounding can cause; a split must exceed it.
    renewal
        The leaf renewal, if leaf values are not −G/(H+λ).
    """

    output: int
    margin: str
    min_gain: float
    renewal: Renewal | None = None


class TreeGrower:
    """Grows trees on an engine, and adds their leaf values to its margins and to those of followers.

    Parameters
    ----------
    engine
        The engine over the training rows.
    followers
        Engines over held-out rows, which receive all splits and leaf values.
    search, settings
        The split search over its columns, and its settings.
    parameters
        Shape and regularisation of the trees.
    linear
        Fits slopes of linear leaves, or None; the engines are then `LinearEngine`.
    """

    def __init__(
        self, engine: Engine, followers: Sequence[Engine], search: SplitSearch, settings: SplitSettings,
        parameters: Parameters, linear: LinearLeaves | None = None,
    ) -> None:  # fmt: skip
        self._engine = engine
        self._linear = linear
        self._engines = (engine, *followers)
        self._followers = tuple(followers)
        self._splitter = search.splitter
        self._pruner = search.pruner
        self._needs_whole_levels = search.needs_whole_levels
        # Features are drawn by the number of a node, which splits ahead change.
        is_ordered = parameters.grow_policy == "lossguide" and parameters.colsample_bynode == 1.0
        # A leaf that is split ahead has its rows in two nodes of the engine, and sums are by node.
        self._is_batched = (
            capabilities_of(engine).takes_batches and is_ordered and self._pruner is None and linear is None
        )
        self._parameters = parameters
        self._constraints = settings.constraints
        self._policy = GROW_POLICIES[parameters.grow_policy]
        self._max_leaves = parameters.max_leaves or _NO_LIMIT
        self._max_depth = parameters.max_depth or _NO_LIMIT

    def grow(self, root_stats: Sequence[Stats], targets: Sequence[TreeTarget], shrinkage: float) -> list[GrownTree]:
        """See `frameboost.training.growths.Grower`; for one output."""
        (totals,), (target,) = root_stats, targets
        renewal, margin = target.renewal, target.margin
        nodes, steps, leaf_of = self.grow_nodes(OpenNode(0, 0, totals), target.min_gain, ahead=renewal is None)
        self._set_values(nodes, leaf_of, renewal, shrinkage)
        # The rows of a pruned leaf are in the node where they were grown to, or, with a renewal, have been moved.
        values = {id_: leaf.value for grown, leaf in leaf_of.items() for id_ in (grown, leaf.id)}
        tree = tree_of(nodes, target.output)
        linear = None
        if self._linear is not None:
            number = np.array([node.id for node in nodes])
            feature, left, value = map(np.array, (tree.feature, tree.left, tree.value))
            (linear,) = self._linear.fitted(self._engine, number, feature, left, value[np.newaxis], shrinkage)
            tree, linear = with_linear(tree, linear, number)
        for engine in self._engines:
            add_values(engine, values, linear, margin)
        for node in nodes:
            node.sibling = None  # breaks the reference cycle of two siblings, so that they are freed at once
        return [GrownTree(tree, margin, lambda: (steps, values, linear))]

    # --- the nodes to split -------------------------------------------------------------------------------------------

    def grow_nodes(
        self, root: OpenNode, min_gain: float, *, ahead: bool
    ) -> tuple[list[OpenNode], list[Moves], dict[int, OpenNode]]:
        """Grow the nodes of a tree started in the engine, and move the rows.

        A split must gain more than ``min_gain``. With ``ahead`` nodes may be split ahead of their turn, if the engine
        processes batches.

        Returns
        -------
        tuple
            The nodes in the order of creation, without values; the splits, in steps; and the leaf of each childless
            node, by index.
        """
        nodes = [root]
        if self._constraints.is_monotone:
            root.value = float(self._weights(nodes)[0])
        steps: list[Moves] = []
        for follower in self._followers:
            follower.reset_nodes()
        self._find_splits([root], min_gain)
        for batch, new in self._batches(root, min_gain, ahead=self._is_batched and ahead):
            if new:
                moves = self._split(new, 1 + 2 * sum(map(len, steps)))
                steps.append(moves)
                for engine in self._engines:
                    engine.apply_splits(moves)
            nodes += _children(batch)
        self._splitter.end_tree()
        if self._pruner is not None:
            nodes, leaf_of = self._pruner.prune(nodes)
            return nodes, steps, leaf_of
        undone = undo_splits(nodes) if self._is_batched else {}
        return nodes, steps, {node.id: node for node in nodes if node.left is None} | undone

    def _batches(
        self, root: OpenNode, min_gain: float, *, ahead: bool
    ) -> Iterator[tuple[list[OpenNode], list[OpenNode]]]:
        """Yield the nodes to split next, and the childless nodes; the caller must set their children.

        With ``ahead`` there are more of the latter, as one call of the engine serves all.
        """
        n_leaves, order = 1, self._policy()
        if root.split:
            order.add(root)
        while n_leaves < self._max_leaves:
            budget = self._max_leaves - n_leaves
            batch = order.next(budget)
            if not batch:
                return
            new = [node for node in batch if node.left is None]
            if new and ahead and isinstance(order, Lossguide):
                new += nodes_ahead(order.waiting, budget - len(batch))
            n_leaves += len(batch)
            yield batch, new
            if new and n_leaves < self._max_leaves:
                self._find_splits(_children(new), min_gain)
            for child in _children(batch):
                if child.split:
                    order.add(child)

    def _split(self, batch: Sequence[OpenNode], next_id: int) -> Moves:
        """Create the children of each node of a batch, numbered from ``next_id`` on."""
        moves: Moves = {}
        for node in batch:
            assert node.split is not None
            left, right = node.divide(next_id)
            next_id += 2
            if self._constraints.sets is not None:
                left.path = right.path = node.path | {node.split.feature}
            if self._constraints.is_monotone:
                weights = self._weights((left, right)).tolist()
                for child, weight in zip((left, right), weights, strict=True):
                    child.value = node.value if self._is_light(child) else weight  # until `_set_values`
                self._constraints.narrow(node, left.value, right.value)
            moves[node.id] = (node.split, left.id, right.id)
        return moves

    def _find_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> None:
        """Find the best splits of sibling nodes, if depth and hessians allow any."""
        shallow = [node for node in nodes if node.depth < self._max_depth]
        if not self._needs_whole_levels:
            # A child needs H of at least min_child_weight, so a node with less than twice that is a leaf. Siblings stay
            # together as long as one of them can be split: its histogram may be the difference to the other's.
            needed = 2 * self._parameters.min_child_weight
            shallow = [
                n for n in shallow
                if needed <= n.stats.H or (n.sibling is not None and needed <= n.sibling.stats.H)
            ]  # fmt: skip
        if not shallow:
            return
        for node, split in zip(shallow, self._splitter.best_splits(shallow, min_gain), strict=True):
            node.split = split

    # --- their values -------------------------------------------------------------------------------------------------

    def _set_values(
        self, nodes: Sequence[OpenNode], leaf_of: Mapping[int, OpenNode], renewal: Renewal | None, shrinkage: float
    ) -> None:
        """Give every node its value, shrunk by the learning rate."""
        values = self._weights(nodes) * shrinkage + 0.0  # + 0.0 turns -0.0 into 0.0
        by_id = {node.id: node for node in nodes}
        for node, value in zip(nodes, values.tolist(), strict=True):  # parents come first
            node.value = value
            if self._is_light(node):
                low, high = node.lower * shrinkage, node.upper * shrinkage
                node.value = min(max(by_id[node.parent].value, low), high)
        if renewal is None:
            return
        if self._pruner is not None:
            self._pruner.move_rows(leaf_of)
        renewed = renewal.leaf_values(self._engine, shrinkage)
        for leaf in leaf_of.values():
            leaf.value = renewed.get(leaf.id, leaf.value)
        if self._constraints.is_monotone:
            self._constraints.bound_values(nodes)

    def _is_light(self, node: OpenNode) -> bool:
        """Whether a node predicts like its parent, within its bounds; only symmetric trees have such small nodes."""
        p = self._parameters
        return (p.min_child_weight > node.stats.H or p.min_child_samples > node.rows) and node.parent >= 0

    def _weights(self, nodes: Sequence[OpenNode]) -> FloatArray:
        """Return each node's weight −G/(H+λ) within its bounds; 0 below min_child_weight, as in XGBoost."""
        p = self._parameters
        G, H = np.array([node.stats.G for node in nodes]), np.array([node.stats.H for node in nodes])
        bounds, step = self._constraints.bounds(nodes), p.max_delta_step or 0.0
        weights: FloatArray = bounded_weights(G, H, bounds, p.reg_lambda, p.reg_alpha, step, p.min_child_weight)
        return weights


def _children(nodes: Sequence[OpenNode]) -> list[OpenNode]:
    return [child for node in nodes for child in (node.left, node.right) if child is not None]


def tree_of(nodes: Sequence[OpenNode], output: int) -> Tree:
    """Return the tree of these nodes, renumbered in order."""
    number = {node.id: i for i, node in enumerate(nodes)}
    splits = [node.split if node.left is not None else None for node in nodes]
    return Tree(
        feature=tuple([s.feature if s else LEAF for s in splits]),
        threshold=tuple([s.threshold if s else None for s in splits]),
        categories=tuple([s.categories if s else None for s in splits]),
        missing_left=tuple([s.missing_left if s else False for s in splits]),
        left=tuple([LEAF if n.left is None else number[n.left.id] for n in nodes]),
        right=tuple([LEAF if n.right is None else number[n.right.id] for n in nodes]),
        gain=tuple([s.gain if s else 0.0 for s in splits]),
        cover=tuple([n.stats.H for n in nodes]),
        value=tuple([n.value for n in nodes]),
        output=output,
    )


def with_linear(tree: Tree, linear: LinearColumns | None, number: IntArray) -> tuple[Tree, LinearColumns | None]:
    """Return a tree with linear leaves, if it has any, and these by the engine's index of each node."""
    if not linear:
        return tree, None
    leaves = linear.leaves()
    of_nodes = tuple(map(leaves.get, range(len(tree))))
    return replace(tree, linear=of_nodes), replace(linear, node=number[linear.node])


# --- trees as they are grown: their moves and values can be repeated --------------------------------------------------


Moves = dict[int, tuple[Split, int, int]]  # node -> its split, left child, right child


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree, and the engine calls that add its leaf values to the margins: the splits in steps, then values.

    A function returns the calls, as only replays need them. The tree may still be in the engine's format.
    """

    tree: Tree | GrownArrays
    margin: str
    calls: Callable[[], tuple[Sequence[Moves], Mapping[int, float], LinearColumns | None]]

    @classmethod
    def of(cls, tree: Tree | GrownArrays, margin: str, bin_of: Callable[[int, Physical | None], int]) -> GrownTree:
        """Return a tree with the engine's node indices (see `moves_of`)."""

        def calls() -> tuple[Sequence[Moves], Mapping[int, float], LinearColumns | None]:
            t = as_tree(tree)
            return moves_of(t, bin_of), {leaf: t.value[leaf] for leaf in t.leaves()}, linear_columns([t])

        return cls(tree, margin, calls)

    def add_to_margins(self, engines: Sequence[Engine], weight: float = 1.0) -> None:
        """Add the leaf values times ``weight`` to the margins of all rows of some engines."""
        steps, of_leaves, linear = self.calls()
        values = {node: value * weight for node, value in of_leaves.items()}
        for engine in engines:
            engine.reset_nodes()
            for moves in steps:
                engine.apply_splits(moves)
            add_values(engine, values, linear, self.margin)


def add_values(engine: Engine, values: Mapping[int, float], linear: LinearColumns | None, margin: str) -> None:
    """Add leaf values, some possibly linear, to a margin of all rows of an engine."""
    if linear:
        cast(LinearEngine, engine).add_linear_leaves(values, linear, margin)
    else:
        engine.add_leaf_values(values, margin)


def moves_of(tree: Tree, bin_of: Callable[[int, Physical | None], int]) -> tuple[Moves, ...]:
    """Return the splits of a grown tree level by level, for an engine; nodes have the indices of the tree.

    ``bin_of`` returns the bin of a numeric split, by feature and threshold, for engines that compare bins.
    """
    steps: list[Moves] = []
    level = [0]
    while inner := [node for node in level if not tree.is_leaf(node)]:
        steps.append({node: (_split(tree, node, bin_of), tree.left[node], tree.right[node]) for node in inner})
        level = [child for node in inner for child in (tree.left[node], tree.right[node])]
    return tuple(steps)


def _split(tree: Tree, node: int, bin_of: Callable[[int, Physical | None], int]) -> Split:
    feature, threshold, categories = tree.feature[node], tree.threshold[node], tree.categories[node]
    left, right = (Stats(0.0, tree.cover[child]) for child in (tree.left[node], tree.right[node]))  # no G: not needed
    bin_ = bin_of(feature, threshold) if categories is None else 0
    return Split(feature, tree.gain[node], left, right, tree.missing_left[node], bin_, threshold, categories)


# --- trees as an engine has grown them --------------------------------------------------------------------------------


class BinThresholds:
    """The thresholds of all splits.

    Attributes
    ----------
    firsts
        int64 (features,): the start of each feature's thresholds, indexed by `Split.bin`.
    of_slots
        All thresholds; None for categories, past the last cut, and at 0.
    floats
        float64: the float thresholds, NaN for others.
    is_integer
        bool: whether they are neither floats nor None.
    """

    def __init__(self, bins: Sequence[Bins]) -> None:
        ends = np.cumsum([1, *(each.count + 1 for each in bins)])
        self.firsts: IntArray = ends[:-1] - 1  # bins are counted from 1 on
        self.of_slots: list[Physical | None] = [None] * int(ends[-1])
        self.is_integer, self.floats = np.zeros(ends[-1], np.bool_), np.full(ends[-1], np.nan)
        for start, each in zip(ends.tolist(), bins, strict=False):
            if each.cuts and not each.feature.type.is_categorical:
                of_feature = slice(start, start + len(each.cuts))
                self.of_slots[of_feature] = each.cuts
                if isinstance(each.cuts[0], float):
                    self.floats[of_feature] = each.cuts
                else:
                    self.is_integer[of_feature] = True


class GrownArrays:
    """The nodes of a tree grown by an engine, copied before the next tree overwrites them.

    Parameters
    ----------
    splits
        Feature, bin, missing direction and left child of each node, shared by the trees of a growth.
    results
        Gain, cover and value of each node, those of the output.
    thresholds
        The thresholds of their bins.
    categories
        The categories in splits, by node, ascending.
    output
        The output of the tree.
    linear
        The linear leaves, or None.
    """

    __slots__ = ("categories", "feature", "gain", "linear", "nodes", "output", "thresholds")

    def __init__(
        self, splits: Sequence[IntArray], results: Sequence[FloatArray], thresholds: BinThresholds,
        categories: Mapping[int, tuple[int, ...]], output: int, linear: LinearColumns | None,
    ) -> None:  # fmt: skip
        self.feature, self.gain, self.nodes = splits[0], results[0], (*splits, *results)
        self.thresholds, self.categories, self.output, self.linear = thresholds, categories, output, linear


def as_tree(grown: Tree | GrownArrays) -> Tree:
    """Return one tree."""
    return grown if isinstance(grown, Tree) else _columns_of([grown]).trees()[0]


def as_trees(grown: Sequence[Tree | GrownArrays]) -> Sequence[Tree]:
    """Return all trees of a fit."""
    arrays = [each for each in grown if isinstance(each, GrownArrays)]
    if not grown or len(arrays) < len(grown):  # the first rounds may be those of a checkpoint
        return tuple(map(as_tree, grown))
    return ColumnTrees(_columns_of(arrays))


def _columns_of(grown: Sequence[GrownArrays]) -> TreeColumns:
    feature, bin_, missing_left, left, gain, cover, value = (
        np.concatenate(arrays) for arrays in zip(*(each.nodes for each in grown), strict=True)
    )
    sizes, is_inner, thresholds = np.array([len(each.nodes[0]) for each in grown]), feature >= 0, grown[0].thresholds
    slots = np.where(is_inner, thresholds.firsts[feature] + bin_, 0)
    integer_at = np.flatnonzero(thresholds.is_integer[slots])
    starts, linear = np.cumsum(sizes) - sizes, [each.linear for each in grown]
    named = {start + node: codes for start, each in zip(starts.tolist(), grown, strict=True)
             for node, codes in each.categories.items()}  # fmt: skip
    nodes: dict[str, npt.NDArray[Any]] = {
        "feature": feature.astype(np.int32),
        "threshold": thresholds.floats[slots],
        "missing_left": (missing_left == 1).astype(np.uint8),
        "left": left.astype(np.int32),
        "right": (left + is_inner).astype(np.int32),  # `LEAF` of a leaf, which is added 0
        "gain": gain,
        "cover": cover,
        "value": value,
    }
    return TreeColumns(
        sizes, np.array([each.output for each in grown]), nodes,
        integer_at, [thresholds.of_slots[slot] for slot in slots[integer_at].tolist()],
        np.array(list(named), np.int64), np.array(list(map(len, named.values())), np.int64),
        np.array([code for codes in named.values() for code in codes], np.int64),
        LinearColumns.joined(linear, starts.tolist()) if any(linear) else None,
    )  # fmt: skip

r"""The growth of one tree: which nodes are split, where to stop, and the values of the leaves.

Nodes are numbered in the order of their creation, the two children of a split one after the other. Example, depthwise,
where node 2 gains too little to be split::

            0                 batch 1: node 0 into 1, 2
          /   \
         1     2              batch 2: node 1 into 3, 4
        / \
       3   4

With ``lossguide`` each batch is one node, the one with the largest gain, so numbers follow the gains, not the levels.
Some engines are told to split several nodes at once (see `frameboost.training.look_ahead`); the tree is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from frameboost.engines.contract import BatchedEngine, Engine
from frameboost.engines.linear_contract import LinearEngine
from frameboost.parameters.learning_rates import shrinkage_of
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Physical
from frameboost.splits.gain import bounded_weights
from frameboost.splits.split import FloatArray, Split, Stats
from frameboost.training.constraints import Constraints
from frameboost.training.gradients import Renewal
from frameboost.training.grow_policies import GROW_POLICIES, Lossguide
from frameboost.training.grown_arrays import GrownArrays, as_tree
from frameboost.training.linear_leaves import LinearLeaves
from frameboost.training.look_ahead import nodes_ahead, undo_splits
from frameboost.training.node import OpenNode
from frameboost.training.pruning import reached_nodes
from frameboost.training.splitter import SplitSearch
from frameboost.trees.linear_leaf import LinearLeaf
from frameboost.trees.tree import LEAF, Tree

__all__ = ["GrownTree", "Moves", "TreeGrower", "add_values", "moves_of", "tree_of"]

Moves = dict[int, tuple[Split, int, int]]  # node -> its split, left child, right child
_NO_LIMIT = 1 << 62


@dataclass(frozen=True, slots=True)
class GrownTree:
    """A tree, and the calls of an engine that add its leaf values to the margins: the splits in steps, then values.

    The calls are needed only where a tree is repeated, and so come from a function. The tree may still be as the engine
    has grown it.
    """

    kept: Tree | GrownArrays
    margin: str
    calls: Callable[[], tuple[Sequence[Moves], Mapping[int, float], Mapping[int, LinearLeaf]]]

    @classmethod
    def of(cls, kept: Tree | GrownArrays, margin: str, bin_of: Callable[[int, Physical | None], int]) -> GrownTree:
        """Return a tree whose nodes have the same numbers in the engine (see `moves_of`)."""

        def calls() -> tuple[Sequence[Moves], Mapping[int, float], Mapping[int, LinearLeaf]]:
            tree = as_tree(kept)
            return moves_of(tree, bin_of), {leaf: tree.value[leaf] for leaf in tree.leaves()}, tree.linear_leaves()

        return cls(kept, margin, calls)

    def add_to_margins(self, engines: Sequence[Engine], weight: float = 1.0) -> None:
        """Add the leaf values times ``weight`` to the margins of all rows of some engines."""
        steps, of_leaves, linear = self.calls()
        values = {node: value * weight for node, value in of_leaves.items()}
        for engine in engines:
            engine.reset_nodes()
            for moves in steps:
                engine.apply_splits(moves)
            add_values(engine, values, linear, self.margin)


def add_values(engine: Engine, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
    """Add the values of leaves, some of which may be linear, to a margin of all rows of an engine."""
    if linear:
        cast(LinearEngine, engine).add_linear_leaves(values, linear, margin)
    else:
        engine.add_leaf_values(values, margin)


def moves_of(tree: Tree, bin_of: Callable[[int, Physical | None], int]) -> tuple[Moves, ...]:
    """Return the splits of a grown tree level by level, as an engine takes them; nodes have the numbers of the tree.

    ``bin_of`` gives the bin of a numeric split, by feature and threshold, for engines that compare bins.
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


class TreeGrower:
    """Grows trees one by one on an engine, and adds their leaf values to its margins and to those of followers.

    Attributes
    ----------
    shrinkage
        The factor of the leaf values of the next trees; at first that of round 0.

    Parameters
    ----------
    engine
        The engine over the training rows.
    search
        The split search over its columns.
    parameters
        Shape and regularisation of the trees.
    constraints
        Constraints on the trees.
    followers
        Engines over held-out rows, to which each split and leaf value is passed on.
    linear
        Gives leaves slopes, if they are to have any; the engines are `LinearEngine`.
    """

    def __init__(
        self,
        engine: Engine,
        search: SplitSearch,
        parameters: Parameters,
        constraints: Constraints,
        followers: Sequence[Engine] = (),
        linear: LinearLeaves | None = None,
    ) -> None:
        self._engine = engine
        self._linear = linear
        self._engines = (engine, *followers)
        self._followers = tuple(followers)
        self._splitter = search.splitter
        self._pruner = search.pruner
        self._needs_whole_levels = search.needs_whole_levels
        # Features are drawn by the number of a node, which splits ahead change.
        is_ordered = parameters.grow_policy == "lossguide" and parameters.colsample_bynode == 1.0
        # A leaf that is split ahead has its rows in two nodes of the engine, and sums are asked for by node.
        self._is_batched = isinstance(engine, BatchedEngine) and is_ordered and self._pruner is None and linear is None
        self._parameters = parameters
        self._constraints = constraints
        self._policy = GROW_POLICIES[parameters.grow_policy]
        self._max_leaves = parameters.max_leaves or _NO_LIMIT
        self._max_depth = parameters.max_depth or _NO_LIMIT
        self.shrinkage = shrinkage_of(parameters.as_dict(), 0)

    def grow(self, root_stats: Stats, output: int, margin: str, renewal: Renewal | None = None) -> GrownTree:
        """Grow one tree from the gradients that the engine holds, and add its leaf values to the margins.

        Parameters
        ----------
        root_stats
            G and H of all rows.
        output, margin
            The output that the tree is for, and the name of its margin.
        renewal
            The leaf values, where they are not −G/(H+λ).
        """
        nodes, steps, leaf_of = self.grow_nodes(OpenNode(0, 0, root_stats), ahead=renewal is None)
        self._set_values(nodes, leaf_of, renewal)
        # The rows of a pruned leaf are in the node where they were grown to, or, with a renewal, have been moved.
        values = {id_: leaf.value for grown, leaf in leaf_of.items() for id_ in (grown, leaf.id)}
        tree = tree_of(nodes if self._pruner is None else reached_nodes(nodes), output)
        linear: dict[int, LinearLeaf] = {}
        if self._linear is not None:
            number = {leaf: nodes[leaf].id for leaf in tree.leaves()}
            tree = self._linear.fitted(cast(LinearEngine, self._engine), tree, number, self.shrinkage)
            linear = {number[leaf]: each for leaf, each in tree.linear_leaves().items()}
        for engine in self._engines:
            add_values(engine, values, linear, margin)
        for node in nodes:
            node.sibling = None  # breaks the reference cycle of two siblings, so that they are freed at once
        return GrownTree(tree, margin, lambda: (steps, values, linear))

    # --- the nodes to split -------------------------------------------------------------------------------------------

    def grow_nodes(self, root: OpenNode, *, ahead: bool) -> tuple[list[OpenNode], list[Moves], dict[int, OpenNode]]:
        """Grow the nodes of a tree that the engine has started, and move the rows.

        ``ahead`` says whether nodes may be split ahead of their turn, where the engine takes batches.

        Returns
        -------
        tuple
            The nodes in the order of their creation, which have no values yet; the splits, in steps; and the leaf of
            each node without children, by its number.
        """
        nodes = [root]
        if self._constraints.is_monotone:
            root.value = float(self._weights(nodes)[0])
        steps: list[Moves] = []
        for follower in self._followers:
            follower.reset_nodes()
        self._find_splits([root])
        for batch, new in self._batches(root, ahead=self._is_batched and ahead):
            if new:
                moves = self._split(new, 1 + 2 * sum(map(len, steps)))
                steps.append(moves)
                for engine in self._engines:
                    engine.apply_splits(moves)
            nodes += _children(batch)
        self._splitter.end_tree()
        undone = undo_splits(nodes) if self._is_batched else {}
        leaf_of = {n.id: n for n in nodes if n.left is None} if self._pruner is None else self._pruner.prune(nodes)
        return nodes, steps, leaf_of | undone

    def _batches(self, root: OpenNode, *, ahead: bool) -> Iterator[tuple[list[OpenNode], list[OpenNode]]]:
        """Yield the nodes to split next, and those that have no children yet: the caller must give them children.

        With ``ahead`` the latter are more, as one call of the engine serves them all.
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
                self._find_splits(_children(new))
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

    def _find_splits(self, nodes: Sequence[OpenNode]) -> None:
        """Find the best splits of sibling nodes, where the depth and the hessians allow any."""
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
        for node, split in zip(shallow, self._splitter.best_splits(shallow), strict=True):
            node.split = split

    # --- their values -------------------------------------------------------------------------------------------------

    def _set_values(self, nodes: Sequence[OpenNode], leaf_of: Mapping[int, OpenNode], renewal: Renewal | None) -> None:
        """Give every node its value, shrunk by the learning rate."""
        values = self._weights(nodes) * self.shrinkage + 0.0  # + 0.0 turns -0.0 into 0.0
        by_id = {node.id: node for node in nodes}
        for node, value in zip(nodes, values.tolist(), strict=True):  # parents come first
            node.value = value
            if self._is_light(node):
                low, high = node.lower * self.shrinkage, node.upper * self.shrinkage
                node.value = min(max(by_id[node.parent].value, low), high)
        if renewal is None:
            return
        if self._pruner is not None:
            self._pruner.move_rows(leaf_of)
        found = self._engine.node_quantiles(renewal.residual, renewal.weight, renewal.alpha)
        for leaf in leaf_of.values():
            if leaf.id in found:
                leaf.value = found[leaf.id] * self.shrinkage + 0.0

    def _is_light(self, node: OpenNode) -> bool:
        """Whether a node predicts what its parent does, within its bounds; only a symmetric tree has one so light."""
        return self._parameters.min_child_weight > node.stats.H and node.parent >= 0

    def _weights(self, nodes: Sequence[OpenNode]) -> FloatArray:
        """Return each node's weight −G/(H+λ) within its bounds; 0 below min_child_weight, as XGBoost has it."""
        p = self._parameters
        G, H = np.array([node.stats.G for node in nodes]), np.array([node.stats.H for node in nodes])
        bounds, step = self._constraints.bounds(nodes), p.max_delta_step or 0.0
        weights: FloatArray = bounded_weights(G, H, bounds, p.reg_lambda, p.reg_alpha, step, p.min_child_weight)
        return weights


def _children(nodes: Sequence[OpenNode]) -> list[OpenNode]:
    return [child for node in nodes for child in (node.left, node.right) if child is not None]


def tree_of(nodes: Sequence[OpenNode], output: int) -> Tree:
    """Return the tree of these nodes, renumbered in their order."""
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

"""Growing one tree: which node is split next, when to stop, what the leaves are worth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from frameboost.engines.contract import ColumnBlockEngine, Engine
from frameboost.parameters.parameters import Parameters
from frameboost.splits.gain import MIN_GAIN, bounded_weights
from frameboost.splits.split import FloatArray, Split, Stats
from frameboost.training.constraints import Constraints
from frameboost.training.gradients import Renewal
from frameboost.training.node import OpenNode
from frameboost.training.splitter import Splitter
from frameboost.trees.tree import LEAF, Tree

__all__ = ["Growth", "Moves", "TreeGrower"]

Moves = dict[int, tuple[Split, int, int]]  # node -> its split and its children


@dataclass(frozen=True, slots=True)
class Growth:
    """A tree, and what an engine has to do again to move margins by it: the steps, then the leaves' values."""

    tree: Tree
    margin: str
    steps: tuple[Moves, ...]
    values: Mapping[int, float]


class TreeGrower:
    """Grows trees on an engine, one a call, and moves its margins along, and those of engines that follow.

    Parameters
    ----------
    engine
        Where the rows are.
    splitter
        How splits are found.
    parameters
        The shape and regularisation of the trees.
    constraints
        What the trees must keep to.
    followers
        Engines over other rows with the same bins, which take every split and every leaf over.
    """

    def __init__(
        self,
        engine: Engine,
        splitter: Splitter,
        parameters: Parameters,
        constraints: Constraints,
        followers: Sequence[Engine] = (),
    ) -> None:
        self._engine = engine
        self._followers = tuple(followers)
        self._splitter = splitter
        self._parameters = parameters
        self._constraints = constraints
        # `exact` decides by gamma only after growing, as XGBoost does: a weak split may lead to strong ones.
        self._prunes = parameters.tree_method == "exact"
        self._is_symmetric = parameters.grow_policy == "symmetric"

    def grow(self, root_stats: Stats, output: int, margin: str, renewal: Renewal | None = None) -> Growth:
        """Grow one tree from the gradients that the engine holds, and add its leaves to the margins.

        Parameters
        ----------
        root_stats
            G and H of all rows.
        output
            Which output the tree is for, whose margins are called ``margin``.
        renewal
            What the leaves are worth, if not −G/(H+λ).
        """
        root = OpenNode(0, 0, root_stats)
        nodes = [root]
        steps: list[Moves] = []
        for follower in self._followers:
            follower.follow_tree()
        self._find_splits([root])
        for batch in self._order_of_expansion(root):
            moves: Moves = {}
            for node in batch:
                assert node.split is not None
                left, right = node.divide(len(nodes))
                if self._constraints.sets is not None:
                    left.path = right.path = node.path | {node.split.feature}
                if self._constraints.is_monotone:
                    self._constraints.narrow(node, *self._weights((left, right)).tolist())
                nodes += (left, right)
                moves[node.id] = (node.split, left.id, right.id)
            steps.append(moves)
            for engine in (self._engine, *self._followers):
                engine.apply_splits(moves)
        self._splitter.end_tree()
        leaf_of = self._prune(nodes) if self._prunes else {n.id: n for n in nodes if n.left is None}
        self._set_values(nodes, leaf_of, renewal)
        # Rows of a pruned leaf are where they were grown to, or, once leaves were renewed, in the leaf that is left.
        values = {id_: leaf.value for grown, leaf in leaf_of.items() for id_ in (grown, leaf.id)}
        for engine in (self._engine, *self._followers):
            engine.add_leaf_values(values, margin)
        for node in nodes:
            node.sibling = None  # two that know each other would be left to the garbage collector
        return Growth(self._freeze(nodes, output), margin, tuple(steps), values)

    # --- which nodes to split -----------------------------------------------------------------------------------------

    def _order_of_expansion(self, root: OpenNode) -> Iterator[list[OpenNode]]:
        """Yield nodes to split now; by the time the caller comes back for more, they have children."""
        most = self._parameters.max_leaves or float("inf")
        by_level = self._parameters.grow_policy != "lossguide"
        n_leaves = 1
        candidates = [root] if root.split else []
        while candidates and n_leaves < most:
            if self._is_symmetric and 2 * n_leaves > most:
                return  # a level is split as a whole or not at all
            if by_level:
                batch, candidates = candidates[: int(min(most - n_leaves, len(candidates)))], []
            else:
                # The largest gain; of equals the node that was made first.
                batch = [max(candidates, key=lambda n: (n.split.gain if n.split else 0.0, -n.id))]
                candidates.remove(batch[0])
            n_leaves += len(batch)
            yield batch
            children = [child for node in batch for child in (node.left, node.right) if child is not None]
            if n_leaves < most:
                self._find_splits(children)
            candidates += [child for child in children if child.split]

    def _find_splits(self, nodes: Sequence[OpenNode]) -> None:
        """Look for the best splits of siblings, where they may be split at all."""
        deepest = self._parameters.max_depth or float("inf")
        # A child needs H of at least min_child_weight, so a node with less than twice that is a leaf. Its sibling's
        # histogram may hang on its own, so both are looked at unless neither can be split.
        needed = 2 * self._parameters.min_child_weight
        open_nodes = [
            n for n in nodes
            if n.depth < deepest and (needed <= n.stats.H or (n.sibling is not None and needed <= n.sibling.stats.H))
        ]  # fmt: skip
        if self._is_symmetric:
            open_nodes = [node for node in nodes if node.depth < deepest]
        if not open_nodes:
            return
        for node, split in zip(open_nodes, self._splitter.best_splits(open_nodes), strict=True):
            if split is not None and (self._is_symmetric or self._is_worth_it(split)):
                node.split = split

    def _is_worth_it(self, split: Split) -> bool:
        return split.gain > MIN_GAIN and (self._prunes or split.gain >= self._parameters.gamma)

    def _prune(self, nodes: Sequence[OpenNode]) -> dict[int, OpenNode]:
        """Take back, from the bottom up, splits into two leaves that gain less than gamma.

        Returns the leaf that each grown leaf's rows end up in.
        """
        ended_in = {node.id: node for node in nodes if node.left is None}
        for node in reversed(nodes):  # children come after their parents
            if node.left is None or node.right is None or node.split is None:
                continue
            if node.left.left is None and node.right.left is None and node.split.gain < self._parameters.gamma:
                gone = (node.left.id, node.right.id)
                node.split = node.left = node.right = None
                for id_, leaf in ended_in.items():
                    if leaf.id in gone:
                        ended_in[id_] = node
        return ended_in

    # --- what becomes of them -----------------------------------------------------------------------------------------

    def _set_values(self, nodes: Sequence[OpenNode], leaf_of: Mapping[int, OpenNode], renewal: Renewal | None) -> None:
        """Give every node its value, shrunk by the learning rate."""
        p = self._parameters
        shrinkage = p.learning_rate / p.num_parallel_tree
        values = self._weights(nodes) * shrinkage + 0.0  # + 0.0: no -0.0 in a model
        for node, value in zip(nodes, values.tolist(), strict=True):  # parents come first
            # Only a symmetric tree has nodes as light as that; nothing can be said of them.
            is_light = p.min_child_weight > node.stats.H and node.parent >= 0
            node.value = nodes[node.parent].value if is_light else value
        if renewal is None:
            return
        # Rows of nodes that were pruned away are where they were; only `exact` prunes.
        gone = {id_: leaf.id for id_, leaf in leaf_of.items() if leaf.id != id_}
        if gone:
            cast("ColumnBlockEngine", self._engine).merge_nodes(gone)
        found = self._engine.node_quantiles(renewal.residual, renewal.weight, renewal.alpha)
        for leaf in leaf_of.values():
            if leaf.id in found:
                leaf.value = found[leaf.id] * shrinkage + 0.0

    def _weights(self, nodes: Sequence[OpenNode]) -> FloatArray:
        """Return each node's weight, 0 of one that is too light: XGBoost gives such a root no say."""
        p = self._parameters
        G, H = np.array([node.stats.G for node in nodes]), np.array([node.stats.H for node in nodes])
        bounds, step = self._constraints.bounds(nodes), p.max_delta_step or 0.0
        weights: FloatArray = bounded_weights(G, H, bounds, p.reg_lambda, p.reg_alpha, step, p.min_child_weight)
        return weights

    def _freeze(self, nodes: Sequence[OpenNode], output: int) -> Tree:
        """Return the tree, its nodes numbered as they were made, without those that were pruned away."""
        reached = nodes
        if self._prunes:
            children = {child.id for node in nodes for child in (node.left, node.right) if child is not None}
            reached = [node for node in nodes if node.parent < 0 or node.id in children]
        number = {node.id: i for i, node in enumerate(reached)}
        splits = [node.split if node.left is not None else None for node in reached]
        return Tree(
            feature=tuple([s.feature if s else LEAF for s in splits]),
            threshold=tuple([s.threshold if s else None for s in splits]),
            categories=tuple([s.categories if s else None for s in splits]),
            missing_left=tuple([s.missing_left if s else False for s in splits]),
            left=tuple([LEAF if n.left is None else number[n.left.id] for n in reached]),
            right=tuple([LEAF if n.right is None else number[n.right.id] for n in reached]),
            gain=tuple([s.gain if s else 0.0 for s in splits]),
            cover=tuple([n.stats.H for n in reached]),
            value=tuple([n.value for n in reached]),
            output=output,
        )

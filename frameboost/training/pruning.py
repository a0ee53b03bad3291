"""Pruning of a grown tree from the bottom up: a split into two leaves that gains less than ``gamma`` is taken back.

Example: node 0 splits into 1 and 2, node 2 into 3 and 4 with gain 0.5. With ``gamma`` 1 node 2 becomes a leaf, and the
rows of 3 and 4 are in leaf 2; then node 0, whose children are both leaves now, is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.engines.contract import ColumnBlockEngine
from frameboost.training.node import OpenNode

__all__ = ["Pruner", "reached_nodes"]


class Pruner:
    """Prunes trees after they are grown, as ``tree_method="exact"`` does (XGBoost's updater ``prune``)."""

    def __init__(self, engine: ColumnBlockEngine, gamma: float) -> None:
        self._engine = engine
        self._gamma = gamma

    def prune(self, nodes: Sequence[OpenNode]) -> dict[int, OpenNode]:
        """Take back weak splits; return, for each grown leaf, the leaf that its rows belong to now."""
        leaf_of = {node.id: node for node in nodes if node.left is None}
        for node in reversed(nodes):  # children come after their parents
            if node.left is None or node.right is None or node.split is None:
                continue
            if node.left.left is None and node.right.left is None and node.split.gain < self._gamma:
                pruned = (node.left.id, node.right.id)
                node.split = node.left = node.right = None
                for id_, leaf in leaf_of.items():
                    if leaf.id in pruned:
                        leaf_of[id_] = node
        return leaf_of

    def move_rows(self, leaf_of: Mapping[int, OpenNode]) -> None:
        """Move the rows of grown leaves to the leaves that they belong to now."""
        moves = {id_: leaf.id for id_, leaf in leaf_of.items() if leaf.id != id_}
        if moves:
            self._engine.merge_nodes(moves)


def reached_nodes(nodes: Sequence[OpenNode]) -> list[OpenNode]:
    """Return the nodes that are still part of the tree, in order."""
    children = {child.id for node in nodes for child in (node.left, node.right) if child is not None}
    return [node for node in nodes if node.parent < 0 or node.id in children]

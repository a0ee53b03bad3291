"""Exact greedy splits between any two values (``tree_method="exact"``), and pruning of the grown tree.

Splits into two leaves with a gain below ``gamma`` are pruned bottom-up. Example: node 0 splits into 1 and 2, node 2
into 3 and 4 with gain 0.5. With ``gamma`` 1 node 2 becomes a leaf with the rows of 3 and 4; then node 0, now with two
leaves as children, is checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.engines.contract import ColumnBlockEngine
from frameboost.schema.types import Physical
from frameboost.splits.split import Split
from frameboost.training.open_nodes import OpenNode
from frameboost.training.splitter import SplitSettings

__all__ = ["ExactSplitter", "GammaPruner"]


class ExactSplitter:
    """Splits between any two values (``tree_method="exact"``; Chen & Guestrin 2016, algorithm 1).

    Splits below ``gamma`` are made, and `GammaPruner` prunes them from the grown tree: as in XGBoost, a weak split may
    lead to strong ones.
    """

    def __init__(self, engine: ColumnBlockEngine, settings: SplitSettings) -> None:
        self._engine = engine
        self._settings = settings

    def best_splits(self, nodes: Sequence[OpenNode], min_gain: float) -> list[Split | None]:
        """See `Splitter.best_splits`."""
        splits = self._engine.best_splits(
            [n.id for n in nodes], [n.stats for n in nodes], self._settings.penalties, self._settings.limits_of(nodes)
        )
        return [split if split is not None and split.gain > min_gain else None for split in splits]

    def end_tree(self) -> None:
        """See `Splitter.end_tree`."""

    def bin_of(self, feature: int, threshold: Physical | None) -> int:
        """See `Splitter.bin_of`."""
        return self._engine.rank_of(feature, threshold)


class GammaPruner:
    """Prunes grown trees, as ``tree_method="exact"`` does (XGBoost's updater ``prune``)."""

    def __init__(self, engine: ColumnBlockEngine, gamma: float) -> None:
        self._engine = engine
        self._gamma = gamma

    def prune(self, nodes: Sequence[OpenNode]) -> tuple[list[OpenNode], dict[int, OpenNode]]:
        """See `frameboost.training.splitter.Pruner.prune`."""
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
        children = {child.id for node in nodes for child in (node.left, node.right) if child is not None}
        return [node for node in nodes if node.parent < 0 or node.id in children], leaf_of

    def move_rows(self, leaf_of: Mapping[int, OpenNode]) -> None:
        """See `frameboost.training.splitter.Pruner.move_rows`."""
        moves = {id_: leaf.id for id_, leaf in leaf_of.items() if leaf.id != id_}
        if moves:
            self._engine.merge_nodes(moves)

"""Splits ahead of their turn: an engine that takes about as long for many nodes as for one splits many at once.

Grown by the largest gain, a tree is split one node at a time, and each split may take a query for its rows and one for
the histograms of its children; in memory, most nodes are too small for two threads. A node whose gain is among the
largest will mostly be split soon. So the engine splits it now, together with the one whose turn it is, and its
children's splits wait until that node's turn comes. A node split ahead that has had no turn when the tree has all its
leaves is a leaf: the rows of its children are in it. So the tree is the same as without.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from frameboost.training.open_nodes import OpenNode, Ranked

__all__ = ["nodes_ahead", "undo_splits"]


def nodes_ahead(waiting: Sequence[Ranked], budget: int) -> list[OpenNode]:
    """Return the nodes to split ahead of their turn, in the order in which they seem to have it.

    ``waiting`` is a heap of nodes that have a split, and ``budget`` is the number of splits left. The tree is grown on
    from what is known; of the first third of the splits to come, those that have not been made are returned. Of the
    others many will not come, as children that are not there yet have larger gains.
    """
    heap, ahead = list(waiting), []
    number = itertools.count(max((number for _, number, _ in waiting), default=0) + 1)
    for _ in range(-(-budget // 3)):
        if not heap:
            break
        *_, node = heapq.heappop(heap)
        if node.left is None or node.right is None:
            ahead.append(node)
            continue
        for child in (node.left, node.right):
            if child.split:
                heapq.heappush(heap, (-child.split.gain, next(number), child))
    return ahead


def undo_splits(nodes: Sequence[OpenNode]) -> dict[int, OpenNode]:
    """Make leaves of the nodes that were split ahead and had no turn; return the leaf of each node below them.

    ``nodes`` are those of the tree, without the nodes below.
    """
    ids = {node.id for node in nodes}
    leaf_of: dict[int, OpenNode] = {}
    for node in nodes:
        if node.left is None or node.left.id in ids:
            continue
        below = [node]
        for each in below:  # grows
            children = [child for child in (each.left, each.right) if child is not None]
            each.left = each.right = None
            for child in children:
                child.sibling = None
            below += children
        leaf_of |= {each.id: node for each in below[1:]}
    return leaf_of

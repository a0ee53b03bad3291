"""Split nodes ahead of their turn, for engines that take about as long for many nodes as for one.

Lossguide growth splits one node at a time; each split may take a query for its rows and one for the histograms of its
children, and in memory most nodes are too small for two threads. Nodes with gains among the largest will probably be
split soon, so the engine splits them now, together with the current node, and their children's splits wait for the
nodes' turns. A node split ahead that never gets its turn becomes a leaf again, with the rows of its children. So the
tree is the same.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

from frameboost.training.open_nodes import OpenNode, Ranked

__all__ = ["nodes_ahead", "undo_splits"]

_AFTER_ALL = 1 << 62  # a number beyond those of nodes that wait


def nodes_ahead(waiting: Sequence[Ranked], budget: int) -> list[OpenNode]:
    """Return the nodes to split ahead of their turn, in the expected order.

    ``waiting`` is a heap of nodes that have a split, and ``budget`` is the number of splits left. The growth is
    simulated from known splits; of its first third, the splits that are not made yet are returned. Many of the rest
    would not happen, as unknown children have larger gains.
    """
    heap, ahead = list(waiting), []
    number = itertools.count(_AFTER_ALL)
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
    """Turn nodes that were split ahead without getting a turn into leaves; return the leaf of each node below them.

    ``nodes`` are those of the tree, without the nodes below these leaves.
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

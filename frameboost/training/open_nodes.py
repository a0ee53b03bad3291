"""The open nodes of a tree that is being grown, and the order in which they are split, by ``grow_policy``.

To add a policy, write a class here and add it to `GROW_POLICIES` and to the values of the parameter.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import Protocol

from frameboost.splits.split import FloatArray, Split, Stats

__all__ = ["GROW_POLICIES", "Lossguide", "OpenNode", "Ranked"]


@dataclass(slots=True, eq=False)
class OpenNode:
    """A node of a growing tree.

    Attributes
    ----------
    id
        Number of the node, in the order of creation; the root is 0.
    depth
        The root's is 0.
    stats
        G and H of its rows.
    parent
        Number of its parent; -1 for the root.
    sibling
        The other child of its parent.
    is_smaller
        Whether its H is the smaller one of the two siblings; a tie goes to the left one.
    split
        Its best split, if there is one.
    left, right
        Its children, once split.
    value
        Its leaf value, which inner nodes have too; set once the tree is grown.
    lower, upper
        The bounds of its weight, from monotone constraints.
    path
        The features that its ancestors were split on, if there are interaction constraints.
    outputs
        In a tree for several outputs, of which ``stats`` are sums: G and H of each, float64 (outputs, 2).
    """

    id: int
    depth: int
    stats: Stats
    parent: int = -1
    is_smaller: bool = True
    lower: float = -math.inf
    upper: float = math.inf
    path: frozenset[int] = frozenset()
    sibling: OpenNode | None = field(default=None, repr=False)
    split: Split | None = None
    left: OpenNode | None = field(default=None, repr=False)
    right: OpenNode | None = field(default=None, repr=False)
    value: float = 0.0
    outputs: FloatArray | None = field(default=None, repr=False)

    def divide(self, next_id: int) -> tuple[OpenNode, OpenNode]:
        """Create the two children, numbered ``next_id`` and ``next_id + 1``, with the bounds of the node."""
        assert self.split is not None
        split, depth, lower, upper = self.split, self.depth + 1, self.lower, self.upper
        is_left_smaller = split.left.H <= split.right.H
        left = OpenNode(next_id, depth, split.left, self.id, is_left_smaller, lower, upper)
        right = OpenNode(next_id + 1, depth, split.right, self.id, not is_left_smaller, lower, upper)
        if self.outputs is not None and split.left_outputs is not None:
            left.outputs, right.outputs = split.left_outputs, self.outputs - split.left_outputs
        left.sibling, right.sibling = right, left
        self.left, self.right = left, right
        return left, right


# --- the order of splits ----------------------------------------------------------------------------------------------

Ranked = tuple[float, int, OpenNode]  # −gain, a number that is unique, and the node: the least has the first turn


class GrowPolicy(Protocol):
    """The nodes of a tree that have a split, and wait for their turn."""

    def add(self, node: OpenNode) -> None:
        """Let a node wait; nodes are added in the order of their creation."""

    def next(self, budget: int) -> list[OpenNode]:
        """Take the nodes to split now, none to stop; ``budget`` is the number of leaves that may still be added."""


class Depthwise:
    """Splits the whole level, or as much of it as the budget allows, from left to right."""

    def __init__(self) -> None:
        self._level: list[OpenNode] = []

    def add(self, node: OpenNode) -> None:
        """See `GrowPolicy.add`."""
        self._level.append(node)

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        level, self._level = self._level, []
        return level[:budget]


class Symmetric(Depthwise):
    """Splits the whole level, or nothing if the budget does not allow that."""

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        level = super().next(budget + 1)
        return level if len(level) <= budget else []


class Lossguide:
    """Splits the node with the largest gain; of equal ones the first created.

    Attributes
    ----------
    waiting
        The nodes that wait, as a heap.
    """

    def __init__(self) -> None:
        self.waiting: list[Ranked] = []
        self._n_added = 0

    def add(self, node: OpenNode) -> None:
        """See `GrowPolicy.add`."""
        assert node.split is not None
        self._n_added += 1
        heapq.heappush(self.waiting, (-node.split.gain, self._n_added, node))

    def next(self, budget: int) -> list[OpenNode]:
        """See `GrowPolicy.next`."""
        return [heapq.heappop(self.waiting)[-1]] if self.waiting else []


GROW_POLICIES: dict[str, type[GrowPolicy]] = {
    "depthwise": Depthwise,
    "lossguide": Lossguide,
    "symmetric": Symmetric,
}

"""A node of a tree that is being grown."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from frameboost.splits.split import FloatArray, Split, Stats

__all__ = ["OpenNode"]


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
        Its best split, if one has been found.
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

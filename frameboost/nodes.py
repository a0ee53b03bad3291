"""A node while its tree grows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from frameboost.engines.contract import Split, Stats

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
        Whether its H is the smaller of the two siblings' (of equals, the left one's).
    split
        Its best split, once looked for and found.
    left, right
        Its children, once split.
    value
        What it adds to the margin of a row, or would as a leaf; set once the tree is grown.
    lower, upper
        The least and the largest weight that it may have.
    path
        The features that its ancestors were split on.
    """

    id: int
    depth: int
    stats: Stats
    parent: int = -1
    sibling: OpenNode | None = field(default=None, repr=False)
    is_smaller: bool = True
    split: Split | None = None
    left: OpenNode | None = field(default=None, repr=False)
    right: OpenNode | None = field(default=None, repr=False)
    value: float = 0.0
    lower: float = -math.inf
    upper: float = math.inf
    path: frozenset[int] = frozenset()

    def divide(self, next_id: int) -> tuple[OpenNode, OpenNode]:
        """Make the two children of the node's split, numbered ``next_id`` and ``next_id + 1``; bounds are inherited."""
        assert self.split is not None
        left = OpenNode(next_id, self.depth + 1, self.split.left, self.id)
        right = OpenNode(next_id + 1, self.depth + 1, self.split.right, self.id)
        left.lower, left.upper = right.lower, right.upper = self.lower, self.upper
        left.path = right.path = self.path | {self.split.feature}
        left.sibling, right.sibling = right, left
        left.is_smaller = left.stats.H <= right.stats.H
        right.is_smaller = not left.is_smaller
        self.left, self.right = left, right
        return left, right

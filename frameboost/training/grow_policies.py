"""The order in which open nodes are split, by ``grow_policy``.

To add a policy, write a class here and add it to ``GROW_POLICIES`` and to the values of the parameter.
"""

from __future__ import annotations

import heapq
from typing import Protocol

from frameboost.training.node import OpenNode

__all__ = ["GROW_POLICIES", "Depthwise", "GrowPolicy", "Lossguide", "Ranked", "Symmetric"]

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

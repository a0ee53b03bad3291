"""The order in which open nodes are split, by ``grow_policy``.

To add a policy, write a function here and add it to ``GROW_POLICIES`` and to the values of the parameter.
"""

from __future__ import annotations

from collections.abc import Callable

from frameboost.training.node import OpenNode

__all__ = ["GROW_POLICIES", "GrowPolicy"]

# From the nodes that have a split, in the order of their creation, and the number of leaves that may still be added:
# the nodes to split now, none to stop, and those to keep for later.
GrowPolicy = Callable[[list[OpenNode], int], tuple[list[OpenNode], list[OpenNode]]]


def depthwise(candidates: list[OpenNode], budget: int) -> tuple[list[OpenNode], list[OpenNode]]:
    """Split the whole level, or as much of it as the budget allows, from left to right."""
    return candidates[:budget], []


def lossguide(candidates: list[OpenNode], budget: int) -> tuple[list[OpenNode], list[OpenNode]]:
    """Split the node with the largest gain; of equal ones the first created."""
    best = max(candidates, key=lambda node: node.split.gain if node.split else 0.0)  # the first of equals
    candidates.remove(best)
    return [best], candidates


def symmetric(candidates: list[OpenNode], budget: int) -> tuple[list[OpenNode], list[OpenNode]]:
    """Split the whole level, or nothing if the budget does not allow that."""
    return (candidates if len(candidates) <= budget else []), []


GROW_POLICIES: dict[str, GrowPolicy] = {"depthwise": depthwise, "lossguide": lossguide, "symmetric": symmetric}

"""Trees from another library's nodes, and the conversion of its thresholds to those of `frameboost.trees.tree.Tree`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.interop.float32 import float64_thresholds
from frameboost.schema.types import Physical
from frameboost.trees.linear_leaf import LinearLeaf
from frameboost.trees.tree import LEAF, Tree

__all__ = ["LeafNode", "SplitNode", "above_float32", "at_most", "build_tree"]


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A leaf; ``cover`` is the weight of its training rows, 1.0 where the library does not keep it."""

    value: float
    cover: float = 1.0
    linear: LinearLeaf | None = None


@dataclass(frozen=True, slots=True)
class SplitNode:
    """A split, with the fields of `frameboost.trees.tree.Tree`; ``left`` and ``right`` are the library's node ids."""

    feature: int
    left: Any
    right: Any
    threshold: Physical | None = None
    categories: tuple[int, ...] | None = None
    missing_left: bool = False
    with_missing: bool = False
    gain: float = 0.0
    cover: float = 1.0
    value: float = 0.0


def build_tree(root: Any, look_up: Callable[[Any], SplitNode | LeafNode], output: int = 0) -> Tree:
    """Return the tree below ``root``, its nodes numbered in preorder, so that children come after their parents.

    Parameters
    ----------
    root
        The library's id of the root node, of any type.
    look_up
        Returns the node of an id. For a split that sends all rows to one side, it may return that child instead.
    output
        The number of the margin that the leaves add to.
    """
    nodes: list[SplitNode | LeafNode] = []
    indices: dict[tuple[int, bool], int] = {}
    waiting: list[tuple[Any, int, bool]] = [(root, -1, False)]
    while waiting:
        name, parent, is_left = waiting.pop()
        node = look_up(name)
        indices[parent, is_left] = len(nodes)
        if isinstance(node, SplitNode):
            waiting += ((node.right, len(nodes), False), (node.left, len(nodes), True))
        nodes.append(node)

    def of_splits(name: str, in_leaf: Any) -> tuple[Any, ...]:
        return tuple(getattr(node, name) if isinstance(node, SplitNode) else in_leaf for node in nodes)

    linear = tuple([node.linear if isinstance(node, LeafNode) else None for node in nodes])
    return Tree(
        feature=of_splits("feature", LEAF),
        threshold=of_splits("threshold", None),
        categories=of_splits("categories", None),
        missing_left=of_splits("missing_left", False),
        left=tuple(indices.get((i, True), LEAF) for i in range(len(nodes))),
        right=tuple(indices.get((i, False), LEAF) for i in range(len(nodes))),
        gain=of_splits("gain", 0.0),
        cover=tuple(node.cover for node in nodes),
        value=tuple(node.value for node in nodes),
        output=output,
        with_missing=of_splits("with_missing", False),
        linear=linear if any(linear) else (),
    )


def at_most(threshold: float, *, missing_left: bool) -> dict[str, Any] | bool:
    """Return the fields of a `SplitNode` for ``x <= threshold``; True or False if all rows go left or right.

    >>> at_most(0.5, missing_left=False)
    {'threshold': 0.5000000000000001, 'missing_left': False}
    """
    if threshold == math.inf:  # all values that are not missing go left
        return True if missing_left else {}
    return {"threshold": math.nextafter(threshold, math.inf), "missing_left": missing_left}


def above_float32(thresholds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return T for each threshold t such that ``float32(x) <= t`` for the same float64 x as ``x < T``.

    >>> above_float32(np.array([0.5])).tolist()
    [0.5000000298023225]
    """
    with np.errstate(over="ignore"):
        below = thresholds.astype(np.float32)
        below = np.where(below > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
        return float64_thresholds(np.nextafter(below, np.float32(np.inf)))

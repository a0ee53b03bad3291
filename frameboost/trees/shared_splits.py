"""Trees of several outputs that ask the same questions, as with vector leaves: one walk serves all."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.trees.tree import Tree

__all__ = ["shared_splits"]


def shared_splits(trees: Sequence[Tree]) -> list[list[int]]:
    """Return the numbers of trees of several outputs with equal splits, group by group.

    A tree of one leaf asks nothing, and a row's value in a linear leaf is not looked up: both are in no group. Nor are
    trees of one output only: few of a model are equal by chance.

    >>> splits = {"feature": (0, -1, -1), "categories": (None,) * 3, "missing_left": (False,) * 3, "left": (1, -1, -1),
    ...           "right": (2, -1, -1), "gain": (1.0, 0.0, 0.0), "cover": (2.0, 1.0, 1.0)}
    >>> def stump(threshold, value, output):
    ...     return Tree(**splits, threshold=(threshold, None, None), value=(0.0, -value, value), output=output)
    >>> shared_splits([stump(2.5, 1.0, 0), stump(3.0, 1.0, 0), stump(2.5, 4.0, 1), stump(3.0, 2.0, 0)])
    [[0, 2]]
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for number, tree in enumerate(trees):
        if not tree.is_leaf(0) and not tree.is_linear:
            groups.setdefault(
                (tree.feature, tree.threshold, tree.categories, tree.missing_left, tree.left, tree.right,
                 tree.with_missing), []
            ).append(number)  # fmt: skip
    return [group for group in groups.values() if len({trees[number].output for number in group}) > 1]

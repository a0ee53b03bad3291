"""The mean leaf value below each node of a tree, weighted by cover: the expectations that contributions (SHAP) need.

A row goes on to a node's children in proportion to their covers, as in XGBoost. If the covers sum to 0 (a model file
may say so, and rows of weight 0 lead to it), each child gets half. XGBoost would divide by zero; with any shares at all
the contributions add up to the margin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from frameboost.expressions.grid import bit_step
from frameboost.trees.tree import Tree

__all__ = ["means_on_grid", "node_means", "node_shares"]


def node_shares(tree: Tree) -> list[float]:
    """Return for each node its share of its parent's cover; 1 for the root.

    >>> leaf = {"threshold": (2, None, None), "categories": (None,) * 3, "missing_left": (False,) * 3}
    >>> tree = Tree((0, -1, -1), **leaf, left=(1, -1, -1), right=(2, -1, -1), gain=(1.0, 0.0, 0.0),
    ...             cover=(4.0, 1.0, 3.0), value=(0.0, 8.0, -4.0))
    >>> node_shares(tree), node_means(tree)
    ([1.0, 0.25, 0.75], [-1.0, 8.0, -4.0])
    """
    shares = [1.0] * len(tree)
    for node in range(len(tree)):
        if tree.is_leaf(node):
            continue
        left, right = tree.left[node], tree.right[node]
        covers = tree.cover[left], tree.cover[right]
        total = sum(covers)
        if min(covers) < 0.0 or not 0.0 < total < math.inf:
            shares[left] = shares[right] = 0.5
        else:
            shares[left], shares[right] = covers[0] / total, covers[1] / total
    return shares


def node_means(tree: Tree) -> list[float]:
    """Return for each node the mean of the leaf values below it, weighted by cover; for a leaf its value."""
    means, shares = list(tree.value), node_shares(tree)
    for node in reversed(range(len(tree))):  # children come after their parent
        if not tree.is_leaf(node):
            left, right = tree.left[node], tree.right[node]
            means[node] = shares[left] * means[left] + shares[right] * means[right]
    return means


def means_on_grid(base_margin: float, trees: Sequence[Tree]) -> tuple[float, list[list[float]]]:
    """Return the mean margin and each tree's node means, on a grid on which sums of their differences are exact.

    A contribution is a sum of differences between the means of a child and its parent. Such sums are at most
    V = |base| + Σ over trees of (|mean of the root| + the largest Σ |difference| on a path). With the step
    2^(⌈log2 V⌉ − 51) none of them, in any order, needs more than the 53 bits of a float64, so Python and SQL agree to
    the last bit on contributions, too.
    """
    all_means = [node_means(tree) for tree in trees]
    largest = abs(base_margin) + sum(map(_variation, trees, all_means))
    # 51 rather than 53 bits, as rounding adds up to a step for each node.
    step = bit_step(largest, 51) if largest else 1.0
    on_grid = [[round(mean / step) * step for mean in means] for means in all_means]
    return math.fsum([round(base_margin / step) * step, *(means[0] for means in on_grid)]), on_grid


def _variation(tree: Tree, means: Sequence[float]) -> float:
    """Return |mean of the root| plus the largest sum of |differences| on a path from the root to a leaf."""
    so_far = [abs(means[0])] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                so_far[child] = so_far[node] + abs(means[child] - means[node])
    return max(so_far)

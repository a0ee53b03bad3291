"""Node means of trees for contributions (SHAP): the mean leaf value below each node, weighted by cover, and slopes.

A node's mean weights its children by cover, as in XGBoost. If the covers sum to 0 (possible in model files, and with
rows of weight 0), each child gets half, where XGBoost would divide by zero; contributions sum to the margin for any
shares.

A linear leaf enters means with its plain value, and the rest is credited to the features of its slopes. A leaf with
plain value 2, constant 2.5 and slope 4 has the value 3.5 for u = 0.25: 2 enters the means, 1.5 is credited to the
feature.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from frameboost.expressions.grid import bit_step
from frameboost.trees.linear_leaves import LinearColumns, LinearLeaf
from frameboost.trees.tree import Tree

__all__ = ["LeafSlopes", "leaf_contributions", "leaf_slopes", "means_on_grid", "node_means", "node_shares"]

LeafSlopes = dict[int, LinearLeaf]
"""Of each leaf with slopes, by node, what it adds to its value without them; the constant belongs to the first term."""


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


def means_on_grid(base_margin: float, trees: Sequence[Tree]) -> tuple[float, list[list[float]], list[LeafSlopes]]:
    """Return the mean margin, and the node means and slopes of each tree, on a grid with exact sums.

    A contribution is a sum of differences between the means of a child and its parent, and of slopes times numbers.
    Such sums are at most V = |base| + Σ over trees of (|mean of the root| + the largest Σ |difference| on a path + the
    largest value of slopes). With the step 2^(⌈log2 V⌉ − 51) no partial sum, in any order, needs more than the 53 bits
    of a float64, so that contributions in Python and SQL are bitwise equal. Slopes keep about 30 bits for numbers of
    20: their contributions are exact to 1e-8 of V.
    """
    all_means, slopes = [node_means(tree) for tree in trees], [leaf_slopes(tree) for tree in trees]
    largest = abs(base_margin) + sum(map(_variation, trees, all_means))
    largest += sum(max((leaf.largest() for leaf in of_tree.values()), default=0.0) for of_tree in slopes)
    # 51 rather than 53 bits, as rounding adds up to a step for each node.
    step = bit_step(largest, 51) if largest else 1.0
    on_grid = [[round(mean / step) * step for mean in means] for means in all_means]
    bias = math.fsum([round(base_margin / step) * step, *(means[0] for means in on_grid)])
    return bias, on_grid, [LinearColumns.of(of_tree).rounded(step).leaves() for of_tree in slopes]


def leaf_contributions(tree: Tree, means: Sequence[float]) -> dict[int, dict[int, float]]:
    """Return Saabas' contributions in each leaf, by node and feature: the changes of the mean on its path."""
    of_nodes: dict[int, dict[int, float]] = {0: {}}
    for node in range(len(tree)):  # children come after their parent
        if tree.is_leaf(node):
            continue
        above, feature = of_nodes.pop(node), tree.feature[node]
        for child in (tree.left[node], tree.right[node]):
            of_nodes[child] = {**above, feature: above.get(feature, 0.0) + means[child] - means[node]}
    return of_nodes


def leaf_slopes(tree: Tree) -> LeafSlopes:
    """Return the difference of linear leaves from their plain values."""
    return {
        node: LinearLeaf(leaf.constant - tree.value[node], leaf.terms) for node, leaf in tree.linear_leaves().items()
    }


def _variation(tree: Tree, means: Sequence[float]) -> float:
    """Return |mean of the root| plus the largest sum of |differences| on a path from the root to a leaf."""
    so_far = [abs(means[0])] * len(tree)
    for node in range(len(tree)):
        if not tree.is_leaf(node):
            for child in (tree.left[node], tree.right[node]):
                so_far[child] = so_far[node] + abs(means[child] - means[node])
    return max(so_far)

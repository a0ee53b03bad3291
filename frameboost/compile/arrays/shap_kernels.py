"""Kernels for contributions: Shapley values of trees (TreeSHAP), their interactions, Saabas' steps, and slopes.

The game (Lundberg, Erion & Lee 2018, "Consistent Individualized Feature Attribution for Tree Ensembles", algorithm 1):
v(S) is the tree's mean prediction when only the features in S are known; at a split on any other feature a row goes
both ways, in proportion to cover. Of one leaf, with value c, this is c·Π_j (o_j if j ∈ S else z_j), over the distinct
features j on its path: o_j is 1 if the row passes all of the path's splits on j, otherwise 0, and z_j the product of
the shares that those splits pass on. Shapley's weights are an integral over the chance t that a feature is known
(Owen 1972, "Multilinear extensions of games"), so the leaf adds to feature i

    c·(o_i − z_i) ∫ Π_{j≠i} (z_j (1 − t) + o_j t) dt,  t from 0 to 1.

These are exactly the numbers of the paper's algorithm 2, which keeps the coefficients of that polynomial and multiplies
and divides them as the path grows. Here its *values* are stored, at the points of a Gauss-Legendre rule that integrates
its degree exactly. All factors are positive, so nothing cancels however deep the tree, where coefficients lose their
digits (``docs/explain.md`` has the figures); and sums over all leaves below a node can be shared (as in Yu et al.
2022, "Linear TreeSHAP"), so a row takes O(nodes × depth / 2) instead of O(leaves × depth²).

A node represents the edge that leads to it. ``above`` is the nearest edge up the path whose split has the same feature,
or the root, for which o = z = 1, where there is none. Nodes are numbered within their tree.
"""

from __future__ import annotations

import numpy as np

from frameboost.compile.arrays.score_kernels import LEAF, NO_TABLE, is_named
from frameboost.runtime.kernel import kernel

__all__ = ["add_interactions", "add_shap", "add_slopes", "add_steps", "link_nodes"]

# Rows that pass one tree before the next tree: factors that depend on the tree alone are computed once for them.
_BLOCK = 256


@kernel(inline="always")
def _goes_left(codes, row, node, missing, conditions):  # type: ignore[no-untyped-def]
    feature, bound, missing_left, table_at, tables, _left, _right = conditions
    code = codes[row, feature[node]]
    if table_at[node] != NO_TABLE:
        return is_named(tables, table_at[node], code)
    if code == missing[feature[node]]:
        return missing_left[node]
    return code < bound[node]


@kernel
def link_nodes(roots, feature, left, right, share, parent, above, zero):  # type: ignore[no-untyped-def]
    """Compute what is the same for all rows: each edge's parent, the edge above of the same feature, and z.

    Parameters
    ----------
    roots
        int64 (trees,): where each tree's nodes start.
    feature, left, right
        As in `frameboost.compile.arrays.flat_trees.TreeArrays`.
    share
        float64 (nodes,): the share of the parent's rows that a node gets.
    parent, above
        int64 (nodes,), written: numbers within the tree; 0 for the root.
    zero
        float64 (nodes,), written: z, the product of the shares of the edges up the path with the same feature.

    Returns
    -------
    int
        The most distinct features on a path.
    """
    distinct = np.zeros(len(feature), dtype=np.int64)
    for tree in range(len(roots)):
        root = roots[tree]
        parent[root] = 0
        above[root] = 0
        zero[root] = 1.0
        stop = roots[tree + 1] if tree + 1 < len(roots) else len(feature)
        for node in range(root, stop):
            if feature[node] == LEAF:
                continue
            up = node
            while up != root and feature[root + parent[up]] != feature[node]:
                up = root + parent[up]
            for child in (left[node], right[node]):
                parent[child] = node - root
                above[child] = up - root
                zero[child] = zero[up] * share[child]
                distinct[child] = distinct[node] + (up == root)
    return distinct.max()


@kernel
def _fill_factors(root, size, above, zero, points, ratio):  # type: ignore[no-untyped-def]
    """Write the factor by which an edge changes the path's product of z(1−t) + ot to ``ratio``, (nodes, 3, points).

    The second index is the sum of o of the edge and o of the edge above: 0 for (0, 0), 1 for (0, 1), 2 for (1, 1). A
    row that fails the edge above also fails this one, so there is no (1, 0).
    """
    for i in range(1, size):
        z, z_above = zero[root + i], zero[root + above[root + i]]
        for k in range(3):
            o, o_above = k // 2, (k + 1) // 2
            for q in range(len(points)):
                t = points[q]
                over = z_above * (1.0 - t) + o_above * t
                # If o and z of the edge above are both 0, the product is 0 and stays 0.
                ratio[i, k, q] = (z * (1.0 - t) + o * t) / over if over > 0.0 else 0.0


@kernel
def _fill_slopes(root, size, zero, points, slope):  # type: ignore[no-untyped-def]
    """Write to ``slope``, (nodes, 2, points), (o − z) / (z(1−t) + ot) for o of 0 and 1; 0 where that is 0 / 0."""
    for i in range(size):
        z = zero[root + i]
        for o in range(2):
            for q in range(len(points)):
                t = points[q]
                factor = z * (1.0 - t) + o * t
                slope[i, o, q] = (o - z) / factor if factor > 0.0 else 0.0


@kernel
def _fill_changes(root, size, above, slope, weights, change):  # type: ignore[no-untyped-def]
    """Write to ``change``, (nodes, 3, points), what an edge adds to its feature for a product of 1.

    The edge above has added the same leaves with its o and z, which is subtracted. The second index is as in
    `_fill_factors`.
    """
    for i in range(1, size):
        for k in range(3):
            for q in range(len(weights)):
                subtracted = slope[above[root + i], (k + 1) // 2, q]
                change[i, k, q] = weights[q] * (slope[i, k // 2, q] - subtracted)


@kernel
def _descend(codes, row, root, size, missing, conditions, above, ratio, ones, product):  # type: ignore[no-untyped-def]
    """Write the path's product at each point to ``product``, and the index of `_fill_factors` of each edge to ``ones``.

    ``ones`` (int64) is 2 where o is 1, and only there.
    """
    feature, _bound, _missing_left, _table_at, _tables, left, right = conditions
    ones[0] = 2
    for q in range(product.shape[1]):
        product[0, q] = 1.0
    for i in range(size):
        if feature[root + i] == LEAF:
            continue
        is_left = _goes_left(codes, row, root + i, missing, conditions)
        hot, cold = left[root + i] - root, right[root + i] - root
        if not is_left:
            hot, cold = cold, hot
        # Both children have the same edge above, if any.
        k = 1 if ones[above[root + hot]] == 2 else 0
        ones[hot], ones[cold] = 2 * k, k
        for q in range(product.shape[1]):
            product[hot, q] = product[i, q] * ratio[hot, 2 * k, q]
            product[cold, q] = product[i, q] * ratio[cold, k, q]


@kernel
def add_shap(codes, roots, sizes, missing, conditions, value, links, rule, first, last, out):  # type: ignore[no-untyped-def]
    """Add the Shapley values of rows ``first`` to ``last - 1``.

    Parameters
    ----------
    codes
        uint16 or uint32 (rows, features).
    roots, sizes
        int64 (trees,): where the nodes of each tree start, and how many it has; any of the trees, in any order.
    missing
        int64 (features,): the code of a missing value.
    conditions
        ``feature``, ``bound``, ``missing_left``, ``table_at``, ``tables``, ``left``, ``right`` of
        `frameboost.compile.arrays.flat_trees.TreeArrays`.
    value
        float64 (nodes,): leaf values.
    links
        ``parent``, ``above``, ``zero`` of `link_nodes`.
    rule
        Points and weights, float64 (points,), of a Gauss-Legendre rule on [0, 1] with at least half as many points as
        there are distinct features on a path.
    out
        float64 (rows, features), added to.
    """
    feature, _bound, _missing_left, _table_at, _tables, left, right = conditions
    parent, above, zero = links
    points, weights = rule
    n_points, largest = len(points), sizes.max()
    ratio = np.empty((largest, 3, n_points))
    slope = np.empty((largest, 2, n_points))
    change = np.empty((largest, 3, n_points))
    ones = np.empty(largest, dtype=np.int64)
    product = np.empty((largest, n_points))
    for start in range(first, last, _BLOCK):
        for tree in range(len(roots)):
            root, size = roots[tree], sizes[tree]
            _fill_factors(root, size, above, zero, points, ratio)
            _fill_slopes(root, size, zero, points, slope)
            _fill_changes(root, size, above, slope, weights, change)
            for row in range(start, min(start + _BLOCK, last)):
                _descend(codes, row, root, size, missing, conditions, above, ratio, ones, product)
                # From the leaves up, product becomes the sum over the leaves below, each times its value.
                for i in range(size - 1, 0, -1):
                    if feature[root + i] == LEAF:
                        for q in range(n_points):
                            product[i, q] *= value[root + i]
                    else:
                        low, high = left[root + i] - root, right[root + i] - root
                        for q in range(n_points):
                            product[i, q] = product[low, q] + product[high, q]
                    k = ones[i]
                    total = 0.0
                    for q in range(n_points):
                        total += product[i, q] * change[i, k, q]
                    out[row, feature[root + parent[root + i]]] += total


@kernel
def add_interactions(codes, roots, sizes, missing, conditions, value, links, rule, first, last, out):  # type: ignore[no-untyped-def]
    """Add the Shapley interaction values of rows ``first`` to ``last - 1``, for pairs of different features.

    Of a leaf they are c·(o_i − z_i)(o_j − z_j) ∫ Π_{k≠i,j} (z_k (1 − t) + o_k t) dt, and each of (i, j) and (j, i) gets
    half. The parameters are those of `add_shap`; ``out`` is float64 (rows, features, features), added to.
    """
    feature = conditions[0]
    parent, above, zero = links
    points, weights = rule
    n_points, largest = len(points), sizes.max()
    ratio = np.empty((largest, 3, n_points))
    slope = np.empty((largest, 2, n_points))
    ones = np.empty(largest, dtype=np.int64)
    product = np.empty((largest, n_points))
    on_path = np.empty(out.shape[1], dtype=np.int64)
    for start in range(first, last, _BLOCK):
        for tree in range(len(roots)):
            root, size = roots[tree], sizes[tree]
            _fill_factors(root, size, above, zero, points, ratio)
            _fill_slopes(root, size, zero, points, slope)
            for row in range(start, min(start + _BLOCK, last)):
                _descend(codes, row, root, size, missing, conditions, above, ratio, ones, product)
                for i in range(size):
                    if feature[root + i] != LEAF:
                        continue
                    for q in range(n_points):
                        product[i, q] *= 0.5 * weights[q] * value[root + i]
                    n_edges = _distinct_edges(root, i, feature, parent, on_path)
                    for a in range(n_edges):
                        edge, o = on_path[a], ones[on_path[a]] // 2
                        for b in range(a):
                            other, o_other = on_path[b], ones[on_path[b]] // 2
                            half = 0.0
                            for q in range(n_points):
                                half += product[i, q] * slope[edge, o, q] * slope[other, o_other, q]
                            f, g = feature[root + parent[root + edge]], feature[root + parent[root + other]]
                            out[row, f, g] += half
                            out[row, g, f] += half


@kernel
def _distinct_edges(root, leaf, feature, parent, on_path):  # type: ignore[no-untyped-def]
    """Write to ``on_path`` the lowest edge of each feature on the way to ``leaf``; return how many there are."""
    count, at = 0, leaf
    while at != 0:
        up = parent[root + at]
        is_new = True
        for k in range(count):
            if feature[root + parent[root + on_path[k]]] == feature[root + up]:
                is_new = False
        if is_new:
            on_path[count] = at
            count += 1
        at = up
    return count


@kernel
def add_steps(codes, roots, missing, conditions, mean, first, last, out):  # type: ignore[no-untyped-def]
    """Add, for each split that a row passes, how the mean changes to the split's feature (Saabas 2014).

    ``mean``, float64 (nodes,), is the tree's mean prediction below each node, and of a leaf its value; the other
    parameters are those of `add_shap`.
    """
    feature, _bound, _missing_left, _table_at, _tables, left, right = conditions
    for start in range(first, last, _BLOCK):
        for tree in range(len(roots)):
            for row in range(start, min(start + _BLOCK, last)):
                node = roots[tree]
                while feature[node] != LEAF:
                    child = left[node] if _goes_left(codes, row, node, missing, conditions) else right[node]
                    out[row, feature[node]] += mean[child] - mean[node]
                    node = child


@kernel
def add_slopes(leaves, roots, linear_at, constant, starts, indices, terms, numbers, first, out):  # type: ignore[no-untyped-def]
    """Add slope times number of each term of the rows' leaves to its feature; the constant goes to the first term.

    ``out`` is float64 (rows, features), by ``indices``; ``linear_at`` is that of one output; the other parameters
    are those of `frameboost.compile.arrays.score_kernels.sum_linear_leaves`.
    """
    for row in range(len(leaves)):
        for tree in range(len(roots)):
            leaf = linear_at[roots[tree] + leaves[row, tree]]
            if leaf < 0:
                continue
            is_complete = True
            for k in range(starts[leaf], starts[leaf + 1]):
                x = numbers[indices[k], first + row]
                is_complete &= x == x
            if not is_complete:
                continue
            out[first + row, indices[starts[leaf]]] += constant[leaf]
            for k in range(starts[leaf], starts[leaf + 1]):
                x = numbers[indices[k], first + row]
                u = min(max((x + terms[k, 1]) - terms[k, 2], terms[k, 3]), terms[k, 4])
                out[first + row, indices[k]] += terms[k, 0] * u

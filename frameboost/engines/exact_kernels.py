"""Kernels over presorted columns: exact greedy split finding (Chen & Guestrin 2016, algorithm 1 and section 4.1)."""

from __future__ import annotations

import numba
import numpy as np

from frameboost.gain import leaf_score, split_score

__all__ = ["category_histogram", "move_rows", "scan_column"]


@numba.njit(nogil=True, cache=True)
def scan_column(  # type: ignore[no-untyped-def]
    order, codes, missing, node_of, gradients, place_of, G, H, direction, bounds,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, parent, best, stats,
):  # fmt: skip
    """Find, in one scan of a sorted column, the best split on it of every open node.

    The rows with a missing value come first, so that by the time a value is reached the sums of the missing ones are
    known and each boundary is scored for both directions at once.

    Parameters
    ----------
    order
        uint32 (rows,): row indices, the missing ones first, then by ascending value.
    codes
        uint32 (rows,): the rank of each row's value among the distinct ones; ``missing`` where there is none.
    node_of
        int32 (rows,): the node of each row.
    gradients
        float64 (rows, 2): g and h.
    place_of
        int64 (nodes,): a node's place among the open ones; -1 for all others, which are left alone.
    G, H
        float64 (open nodes,): sums over each node.
    direction
        1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (open nodes, 2): the least and the largest weight in each node, infinite without constraints.
    reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    parent
        float64 (open nodes,): the score of each node unsplit.
    best
        int64 (open nodes, 4), written: whether there is a split, the ranks on both sides of it (the upper one is -1 for
        "is it present?"), and whether missing goes left.
    stats
        float64 (open nodes, 3), written: gain, G and H of the left child.
    """
    n = len(G)
    is_bounded = direction != 0 or bool(np.isfinite(bounds).any())
    missing_G, missing_H = np.zeros(n), np.zeros(n)
    left_G, left_H = np.zeros(n), np.zeros(n)
    last = np.full(n, -1, dtype=np.int64)
    stats[:, 0] = 0.0
    best[:, 0] = 0
    for i in range(len(order) + n):
        if i < len(order):
            row = order[i]
            node = place_of[node_of[row]]
            if node < 0:
                continue
            g, h = gradients[row, 0], gradients[row, 1]
            code = np.int64(codes[row])
            if code == missing:
                missing_G[node] += g
                missing_H[node] += h
                continue
        else:  # past the end: all present values of a node go left
            node, code, g, h = i - len(order), np.int64(-1), 0.0, 0.0
        if last[node] >= 0 and code != last[node]:
            for missing_left in range(2):
                if missing_left == 1 and missing_H[node] == 0.0 and missing_G[node] == 0.0:
                    break
                GL = left_G[node] + missing_left * missing_G[node]
                HL = left_H[node] + missing_left * missing_H[node]
                GR, HR = G[node] - GL, H[node] - HL
                if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
                    continue
                if is_bounded:
                    # Whether a value is present goes by no order.
                    way = direction if code >= 0 else 0
                    lower, upper = bounds[node, 0], bounds[node, 1]
                    score = split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, way, lower, upper)
                else:
                    score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step) + leaf_score(
                        GR, HR, reg_lambda, reg_alpha, max_delta_step
                    )
                gain = score - parent[node]
                if gain > stats[node, 0]:
                    best[node, 0], best[node, 1], best[node, 2], best[node, 3] = (
                        1,
                        last[node],
                        code,
                        missing_left,
                    )
                    stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL
        left_G[node] += g
        left_H[node] += h
        last[node] = code


@numba.njit(nogil=True, cache=True)
def category_histogram(codes, node_of, gradients, place_of, out):  # type: ignore[no-untyped-def]
    """Add each row's gradient pair to its category: out is float64 (open nodes, categories + 1, 2), zero at first."""
    for row in range(len(codes)):
        node = place_of[node_of[row]]
        if node >= 0:
            out[node, codes[row], 0] += gradients[row, 0]
            out[node, codes[row], 1] += gradients[row, 1]


@numba.njit(nogil=True, cache=True)
def move_rows(  # type: ignore[no-untyped-def]
    codes,
    node_of,
    split_of,
    feature,
    bound,
    missing,
    missing_left,
    left,
    right,
    table_at,
    tables,
    first,
    last,
):
    """Move rows ``first`` to ``last - 1`` to the children of their nodes.

    Parameters
    ----------
    codes
        uint32 (features, rows).
    node_of
        int32 (rows,), changed.
    split_of
        int64 (nodes,): which of the splits is the node's; -1 for none.
    feature, bound, missing, missing_left, left, right
        A split each: a row goes left where its code is less than ``bound``, or is ``missing`` and ``missing_left``.
    table_at, tables
        For a categorical split, where in ``tables`` (bool) it says of each code whether it goes left; -1 otherwise.
    """
    for row in range(first, last):
        split = split_of[node_of[row]]
        if split < 0:
            continue
        code = codes[feature[split], row]
        if table_at[split] >= 0:
            is_left = tables[table_at[split] + code]
        elif code == missing[split]:
            is_left = missing_left[split]
        else:
            is_left = code < bound[split]
        node_of[row] = left[split] if is_left else right[split]

"""Kernels over presorted columns: exact greedy split finding (Chen & Guestrin 2016, algorithm 1 and section 4.1)."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.splits.gain import leaf_score, split_score

__all__ = ["category_histogram", "fill_block", "move_rows", "part_block", "scan_column"]

# An entry of a block is (rank << 32) + row.
_ROW = np.uint64(2**32 - 1)
_RANK = np.uint64(32)


@kernel
def fill_block(order, codes, block):  # type: ignore[no-untyped-def]
    """Write the rows of ``order`` with their codes to ``block``, uint64 (rows,): (code << 32) + row."""
    n = np.uint64(len(order))
    for i in range(n):
        if i + AHEAD < n:
            prefetch(codes, np.uint64(order[i + AHEAD]))
        row = np.uint64(order[i])
        block[i] = (np.uint64(codes[row]) << _RANK) | row


@kernel
def part_block(block, starts, stops, goes_left):  # type: ignore[no-untyped-def]
    """Partition each range stably: rows that go left come first, and both sides keep their order.

    The range a b c d, of which b and d go left, becomes b d a c. Left rows are written in place, right rows to a buffer
    that is copied behind them.

    Parameters
    ----------
    block
        uint64 (rows,), see `fill_block`, reordered.
    starts, stops
        int64 (nodes,): the ranges.
    goes_left
        bool (rows,): whether a row goes left.
    """
    buffer = np.empty(len(block), dtype=np.uint64)
    for k in range(len(starts)):
        start, stop = np.uint64(starts[k]), np.uint64(stops[k])
        left, n_right = start, np.uint64(0)
        for i in range(start, stop):
            # Both sides are written, and one counter moves: no branch that could be mispredicted.
            entry = block[i]
            is_left = np.uint64(goes_left[entry & _ROW])
            block[left] = entry
            buffer[n_right] = entry
            left += is_left
            n_right += np.uint64(1) - is_left
        for i in range(n_right):
            block[left + i] = buffer[i]


@kernel
def scan_column(  # type: ignore[no-untyped-def]
    block, starts, stops, missing, gradients, allowed, G, H, direction, bounds,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, parent, best, stats,
):  # fmt: skip
    """Find the best split of every open node on one column, in one scan of its block.

    Rows with a missing value come first. When the first value is reached, their sums are known, and each boundary
    between two values is scored with missing on the left and on the right.

    Parameters
    ----------
    block
        uint64 (rows,): (code << 32) + row; a code is the rank of a value among the distinct ones.
    starts, stops
        int64 (open nodes,): each node's range of the block: missing values first, then ascending codes.
    missing
        The code of a missing value.
    gradients
        float64 (rows, 2): g and h.
    allowed
        bool (open nodes,): whether a node may be split on the column.
    G, H
        float64 (open nodes,): sums over each node.
    direction
        1 where leaf weights must not decrease from left to right, -1 where they must not increase, else 0.
    bounds
        float64 (open nodes, 2): the bounds of the leaf weights in each node, infinite without constraints.
    reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    parent
        float64 (open nodes,): the score of each node unsplit.
    best
        int64 (open nodes, 4), written: whether there is a split, the ranks on both sides of it (the upper is -1 for the
        split of present from missing values), and whether missing goes left.
    stats
        float64 (open nodes, 3), written: gain, G and H of the left child.
    """
    is_bounded = direction != 0 or bool(np.isfinite(bounds).any())
    gh = gradients.ravel()
    for node in range(len(starts)):
        stats[node, 0] = 0.0
        best[node, 0] = 0
        if not allowed[node]:
            continue
        missing_G = missing_H = left_G = left_H = 0.0
        last, most = np.int64(-1), 0.0
        total_G, total_H = G[node], H[node]
        stop = np.uint64(stops[node])
        for i in range(np.uint64(starts[node]), stop + np.uint64(1)):
            if i < stop:
                if i + AHEAD < stop:
                    prefetch(gh, (block[i + AHEAD] & _ROW) << np.uint64(1))
                at = (block[i] & _ROW) << np.uint64(1)
                code = np.int64(block[i] >> _RANK)
                g, h = gh[at], gh[at + np.uint64(1)]
                if code == missing:
                    missing_G += g
                    missing_H += h
                    continue
            else:  # past the end: all present values go left
                code, g, h = np.int64(-1), 0.0, 0.0
            if last >= 0 and code != last:
                for missing_left in range(1 + (missing_H != 0.0 or missing_G != 0.0)):
                    GL = left_G + missing_left * missing_G
                    HL = left_H + missing_left * missing_H
                    GR, HR = total_G - GL, total_H - HL
                    if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
                        continue
                    if is_bounded:
                        # A split of present from missing values has no direction.
                        way = direction if code >= 0 else np.int8(0)
                        lower, upper = bounds[node, 0], bounds[node, 1]
                        score = split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, way, lower, upper)
                    else:
                        score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step) + leaf_score(
                            GR, HR, reg_lambda, reg_alpha, max_delta_step
                        )
                    gain = score - parent[node]
                    if gain > most:
                        most = gain
                        best[node, 0], best[node, 1], best[node, 2], best[node, 3] = 1, last, code, missing_left
                        stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL
            left_G += g
            left_H += h
            last = code


@kernel
def category_histogram(codes, node_of, gradients, index_of, out):  # type: ignore[no-untyped-def]
    """Add each row's gradient pair to its category: ``out`` is float64 (open nodes, categories + 1, 2), zeroed."""
    for row in range(len(codes)):
        node = index_of[node_of[row]]
        if node >= 0:
            out[node, codes[row], 0] += gradients[row, 0]
            out[node, codes[row], 1] += gradients[row, 1]


@kernel
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
        int64 (nodes,): the number of the node's split; -1 for none.
    feature, bound, missing, missing_left, left, right
        One entry per split: a row goes left if its code is below ``bound``, or is ``missing`` and ``missing_left``.
    table_at, tables
        For a categorical split, the place in ``tables`` (bool) where its table of which codes go left starts; else -1.
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

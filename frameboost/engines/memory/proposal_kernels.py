"""Kernels of weighted cuts (``tree_method="approx"``): prefix sums of h by rank, and the bins of each node."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["bin_nodes", "sum_below"]


@kernel
def sum_below(ranks, weights, below):  # type: ignore[no-untyped-def]
    """Write the weight of the rows below each distinct value.

    Parameters
    ----------
    ranks
        uint32 (rows,): the value's place among the column's distinct values; missing values come after them.
    weights
        float64 (rows,).
    below
        float64 (distinct values + 2,), written. The last two are the weight of all values, and that of missing ones.
    """
    for rank in range(len(below)):
        below[rank] = 0.0
    for row in range(len(ranks)):
        below[ranks[row] + np.uint32(1)] += weights[row]
    for rank in range(len(below) - 2):
        below[rank + 1] += below[rank]


@kernel
def bin_nodes(  # type: ignore[no-untyped-def]
    sorted_rows, ranks, missing, node_of, gradients, index_of, max_bin, out, starts, befores, counts
):
    """Bin one feature in every open node on its own, cut as by `frameboost.binning.bins.weighted_cut_positions`.

    A first scan sums h and counts distinct values by node, a second assigns bins. Both interleave all nodes: a row adds
    to the state of its node.

    Parameters
    ----------
    sorted_rows
        uint32 (rows,): row numbers, missing values first, then by ascending value.
    ranks
        uint32 (rows,): the value's place among the column's distinct values, ``missing`` where it is missing.
    missing
        The rank of a missing value.
    node_of
        int32 (rows,): the node of each row.
    gradients
        float64 (rows, 2): g and h.
    place_of
        int64 (nodes made so far,): a node's place in the results; -1 if it isn't open.
    max_bin
        The most bins of a node.
    out
        float64 (open nodes, max_bin + 1, 2), zero at first, written: sums of g and h, the missing bin last.
    starts
        int64 (open nodes, max_bin), written: the rank of the lowest value in each bin.
    befores
        int64 (open nodes, max_bin), written: the rank of the value before it in the node, -1 for the first.
    counts
        int64 (open nodes,), zero at first, written: the number of bins of each node.
    """
    n = len(counts)
    total, before = np.zeros(n), np.zeros(n)
    n_values = np.zeros(n, dtype=np.int64)
    last, part = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
    first = 0  # row with a value
    for i in range(len(sorted_rows)):
        row = sorted_rows[i]
        rank = np.int64(ranks[row])
        if rank == missing:
            first = i + 1
        index = index_of[node_of[row]]
        if index < 0:
            continue
        if rank == missing:
            out[index, max_bin, 0] += gradients[row, 0]
            out[index, max_bin, 1] += gradients[row, 1]
            continue
        total[index] += gradients[row, 1]
        if rank != last[index]:
            n_values[index] += 1
            last[index] = rank
    last[:] = -1
    for i in range(first, len(sorted_rows)):
        row = sorted_rows[i]
        index = index_of[node_of[row]]
        if index < 0:
            continue
        rank = np.int64(ranks[row])
        if rank != last[index]:
            before_it, last[index] = last[index], rank
            if n_values[index] <= max_bin:
                own = part[index] + 1
            elif total[index] > 0.0:
                own = min(np.int64(np.floor(before[index] * np.float64(max_bin) / total[index])), max_bin - 1)
            else:
                own = 0
            if own != part[index]:
                part[index] = own
                starts[index, counts[index]] = rank
                befores[index, counts[index]] = before_it
                counts[index] += 1
        out[index, counts[index] - 1, 0] += gradients[row, 0]
        out[index, counts[index] - 1, 1] += gradients[row, 1]
        before[index] += gradients[row, 1]

"""The kernel that takes blocks of rows through trees, a node at a time (see `frameboost.compile.arrays.byte_trees`)."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["add_leaves"]

# Rows that go through a tree together: the nodes that they are in, and one column of their codes, stay at hand.
_BLOCK = 1024


@kernel
def add_leaves(  # type: ignore[no-untyped-def]
    codes, starts, number, column, bound, also, right, table, tables, value, margins
):
    """Add the leaf values of all trees to the margins, in their order.

    Parameters
    ----------
    codes
        uint8 (columns, rows).
    starts
        int64 (trees + 1,): where each tree's questions start in the next arrays.
    number, right
        uint8 (questions,): the node that is asked, and its right child; its left child has the next number. Nodes come
        before their children.
    column
        int64 (questions,): whose code is asked for.
    bound, also
        uint8 (questions,): a code below ``bound``, or equal to ``also``, goes left.
    table
        int64 (questions,): -1, or which of ``tables`` says of each code whether it goes left instead.
    tables
        bool (tables, 256).
    value
        float64 (trees, 256): of each node's number what it is worth as a leaf.
    margins
        float64 (rows,), added to.
    """
    n_rows = codes.shape[1]
    node = np.empty(_BLOCK, dtype=np.uint8)
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        for tree in range(len(starts) - 1):
            node[:] = 0
            for question in range(starts[tree], starts[tree + 1]):
                own = codes[column[question], start : start + size]
                here, left, below = number[question], np.uint8(number[question] + 1), bound[question]
                other, equal = right[question], also[question]
                # No branch and nothing wider than a byte, or the compiler would take rows one by one.
                if table[question] < 0:
                    for i in range(size):
                        child = left if (own[i] < below) | (own[i] == equal) else other
                        node[i] = child if node[i] == here else node[i]
                else:
                    goes_left = tables[table[question]]
                    for i in range(size):
                        child = left if goes_left[own[i]] else other
                        node[i] = child if node[i] == here else node[i]
            worth = value[tree]
            for i in range(size):
                margins[start + i] += worth[node[i]]

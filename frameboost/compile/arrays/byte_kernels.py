"""The kernel that moves blocks of rows down trees, one node at a time (see `frameboost.compile.arrays.byte_trees`)."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["NO_TABLE", "add_leaves"]

# Rows that pass a tree together: their nodes and one column of their codes stay in the first cache.
_BLOCK = 1024
NO_TABLE = -1  # in ``table``, for a split that is not categorical


@kernel
def add_leaves(  # type: ignore[no-untyped-def]
    codes, starts, number, column, bound, also, right, table, tables, value, margins
):
    """Add the leaf values of all trees to the margins, in tree order.

    Parameters
    ----------
    codes
        uint8 (columns, rows).
    starts
        int64 (trees + 1,): the first question (inner node) of each tree in the next arrays, and their number.
    number, right
        uint8 (questions,): the number of the node, and of its right child; its left child has the next number
        (preorder). Nodes come before their children.
    column
        int64 (questions,): the row of ``codes`` that the node compares.
    bound, also
        uint8 (questions,): a code below ``bound``, or equal to ``also``, goes left.
    table
        int64 (questions,): `NO_TABLE`, or the row of ``tables`` that says instead which codes go left.
    tables
        bool (tables, 256).
    value
        float64 (trees, 256): the leaf value for each node number.
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
                # Without branches and wider types the compiler vectorises the loop: 32 or 64 rows an instruction.
                if table[question] == NO_TABLE:
                    for i in range(size):
                        child = left if (own[i] < below) | (own[i] == equal) else other
                        node[i] = child if node[i] == here else node[i]
                else:
                    goes_left = tables[table[question]]
                    for i in range(size):
                        child = left if goes_left[own[i]] else other
                        node[i] = child if node[i] == here else node[i]
            leaf_values = value[tree]
            for i in range(size):
                margins[start + i] += leaf_values[node[i]]

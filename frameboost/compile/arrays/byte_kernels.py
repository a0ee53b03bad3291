"""The kernel that moves blocks of rows down trees, one node at a time (see `frameboost.compile.arrays.byte_trees`)."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import BYTES, move_bytes
from frameboost.runtime.kernel import kernel

__all__ = [
    "BOUND", "BYTES", "CHILD", "COLUMN", "MISSING", "NO_TABLE", "ROTATED", "ROUND", "add_deep_leaves", "add_leaves",
]  # fmt: skip

# Rows that pass a tree together: their nodes and one column of their codes stay in the first cache.
_BLOCK = 1024
_BYTES = np.uint64(BYTES)
MISSING = 255  # the code of missing values
NO_TABLE = -1  # in ``table``, for a split that is not categorical
# The fields of a node's word begin at these bits: the left child, whose sibling is next; the bound; whether codes are
# rotated, so that the missing one, 255, comes first; the row of ``codes``.
CHILD, BOUND, ROTATED, COLUMN = np.uint64(2**24 - 1), np.uint64(24), np.uint64(33), np.uint64(34)
# Steps after which rows that are in a leaf are left out.
ROUND = 5
BOUNDS, BYTE, ONE = np.uint64(511), np.uint64(255), np.uint64(1)


@kernel
def add_leaves(  # type: ignore[no-untyped-def]
    codes, starts, number, column, bound, also, right, table, tables, value, margins
):
    """Add the leaf values of all trees to the margins, in tree order.

    Parameters
    ----------
    codes
        uint8 (columns, rows), with rows up to a multiple of 64, whose codes do not count beyond those of ``margins``.
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
    n_rows = np.uint64(len(margins))
    node = np.empty(_BLOCK, dtype=np.uint8)
    for start in range(np.uint64(0), n_rows, np.uint64(_BLOCK)):
        size = min(np.uint64(_BLOCK), n_rows - start)
        for tree in range(len(starts) - 1):
            first, last = starts[tree], starts[tree + 1]
            _ask(codes, start, size, first, last, number, column, bound, also, right, table, tables, node)
            leaf_values = value[tree]
            for i in range(size):
                margins[start + i] += leaf_values[node[i]]


@kernel
def _ask(codes, start, size, first, last, number, column, bound, also, right, table, tables, node):  # type: ignore[no-untyped-def]
    """Write to ``node`` where the rows from ``start`` on get by the questions ``first`` to ``last - 1`` of a tree."""
    node[:] = 0
    own, stride = codes.reshape(-1), np.uint64(codes.shape[1])
    blocks = (size + _BYTES - ONE) // _BYTES
    for question in range(np.uint64(first), np.uint64(last)):
        at = np.uint64(column[question]) * stride + start
        here, left, other = number[question], np.uint8(number[question] + 1), right[question]
        if table[question] == NO_TABLE:
            move_bytes(own, at, node, blocks, here, bound[question], also[question], left, other)
        else:
            goes_left = tables[table[question]]
            for i in range(size):  # without branches and wider types the compiler vectorises the loop
                child = left if goes_left[own[at + i]] else other
                node[i] = child if node[i] == here else node[i]


@kernel
def add_deep_leaves(  # type: ignore[no-untyped-def]
    codes,
    starts,
    number,
    column,
    bound,
    also,
    right,
    table,
    tables,
    entry,
    roots,
    height,
    words,
    table_of,
    value,
    margins,
):
    """Add the leaf values of all trees to the margins, in tree order; rows walk below the top of each tree.

    The first arguments are those of `add_leaves`, for the tops of the trees only.

    Parameters
    ----------
    entry
        uint32 (trees, 256): the node where the walk begins, for each node number of the top.
    roots
        int64 (trees,): where each tree's nodes start in the arrays below.
    height
        int64 (trees,): the most steps from the end of the top to a leaf, or any number above `ROUND`.
    words
        uint64 (nodes,): a node, see `frameboost.compile.arrays.deep_trees`.
    table_of
        int64 (nodes,): the row of ``tables`` of a categorical split; None if no node has one.
    value
        float64 (nodes,): the leaf values, and -0 in the inner nodes.
    """
    n_rows = len(margins)
    top, node, row = np.empty(_BLOCK, dtype=np.uint8), np.empty(_BLOCK, dtype=np.uint32), np.empty(_BLOCK, np.uint32)
    for start in range(0, n_rows, _BLOCK):
        size = min(_BLOCK, n_rows - start)
        for tree in range(len(starts) - 1):
            first, last = starts[tree], starts[tree + 1]
            first_row, n_here = np.uint64(start), np.uint64(size)
            _ask(codes, first_row, n_here, first, last, number, column, bound, also, right, table, tables, top)
            begin, nodes, leaf_values = entry[tree], words[roots[tree] :], value[roots[tree] :]
            for i in range(size):
                node[i], row[i] = begin[top[i]], i
            open_ = size
            while open_ > 0:
                _step(codes, start, roots[tree], nodes, table_of, tables, min(height[tree], ROUND), row[:open_], node)
                if height[tree] <= ROUND:
                    for i in range(size):
                        margins[start + i] += leaf_values[node[i]]
                    break
                n_rows_left = 0
                for i in range(open_):  # without branches: rows that are in a leaf have arrived, others add -0
                    margins[start + row[i]] += leaf_values[node[i]]
                    is_open = nodes[node[i]] & CHILD != node[i]
                    row[n_rows_left], node[n_rows_left] = row[i], node[i]
                    n_rows_left += is_open
                open_ = n_rows_left


@kernel
def _step(codes, start, root, nodes, table_of, tables, n_steps, row, node):  # type: ignore[no-untyped-def]
    """Move each of the rows ``start + row`` so many steps down from its node."""
    stride = np.uint64(codes.shape[1])
    own = codes.reshape(-1)[start:]
    for _ in range(n_steps):
        if table_of is None:  # which leaves the other loop out of the compilation
            # Without branches all rows take a step in the same instructions.
            for i in range(len(row)):
                word = nodes[node[i]]
                code = own[(word >> COLUMN) * stride + np.uint64(row[i])] + (word >> ROTATED & ONE)
                node[i] = (word & CHILD) + np.uint64((code & BYTE) >= (word >> BOUND & BOUNDS))
        else:
            for i in range(len(row)):
                word, asked = nodes[node[i]], table_of[root + node[i]]
                code = own[(word >> COLUMN) * stride + np.uint64(row[i])]
                if asked == NO_TABLE:
                    is_right = (code + (word >> ROTATED & ONE) & BYTE) >= (word >> BOUND & BOUNDS)
                else:
                    is_right = not tables[asked, code]
                node[i] = (word & CHILD) + np.uint64(is_right)

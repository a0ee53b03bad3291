"""The kernel that adds the values of linear leaves."""

from __future__ import annotations

from frameboost.runtime.kernel import kernel

__all__ = ["add_linear_trees"]


@kernel
def add_linear_trees(leaves, trees, roots, value, linear_at, constant, starts, places, terms, numbers, first, margins):  # type: ignore[no-untyped-def]
    """Add the values of some trees to the margins of some rows.

    Parameters
    ----------
    leaves
        int32 (rows, all trees): the rows' leaves, by their number within the tree.
    trees, roots
        int64: which trees, and where the nodes of all trees start.
    value, linear_at
        float64 and int64 (nodes): the value of a leaf without slopes, and the number of one with slopes or -1.
    constant, starts
        float64 (linear leaves), int64 (linear leaves + 1): the constants, and where the terms of each start.
    places, terms
        int64 (terms), float64 (terms, 5): the row of ``numbers``; slope, offset, shift, low and high.
    numbers
        float64 (features, rows): NaN where a value is missing.
    first
        The number of the first of these rows in ``numbers``.
    margins
        float64 (rows).
    """
    for row in range(len(leaves)):
        total = 0.0
        for i in range(len(trees)):
            node = roots[trees[i]] + leaves[row, trees[i]]
            found, leaf = value[node], linear_at[node]
            if leaf >= 0:
                linear, is_complete = constant[leaf], True
                for k in range(starts[leaf], starts[leaf + 1]):
                    x = numbers[places[k], first + row]
                    is_complete &= x == x
                    linear += terms[k, 0] * min(max((x + terms[k, 1]) - terms[k, 2], terms[k, 3]), terms[k, 4])
                if is_complete:
                    found = linear
            total += found
        margins[row] += total

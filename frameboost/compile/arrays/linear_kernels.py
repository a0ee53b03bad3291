"""Kernels that add the values of linear leaves, and what their slopes contribute."""

from __future__ import annotations

from frameboost.runtime.kernel import kernel

__all__ = ["add_linear_trees", "add_slopes"]


@kernel
def add_linear_trees(leaves, trees, roots, value, linear_at, constant, starts, indices, terms, numbers, first, margins):  # type: ignore[no-untyped-def]
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
                    x = numbers[indices[k], first + row]
                    is_complete &= x == x
                    linear += terms[k, 0] * min(max((x + terms[k, 1]) - terms[k, 2], terms[k, 3]), terms[k, 4])
                if is_complete:
                    found = linear
            total += found
        margins[row] += total


@kernel
def add_slopes(leaves, roots, linear_at, constant, starts, indices, terms, numbers, first, out):  # type: ignore[no-untyped-def]
    """Add slope times number of each term of the rows' leaves to its feature; the constant goes to the first term.

    ``out`` is float64 (rows, features), by ``indices``; the other parameters are those of `add_linear_trees`.
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

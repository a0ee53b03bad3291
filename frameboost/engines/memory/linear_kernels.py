"""Kernels of linear leaves: ranges and sums of products over the rows of a leaf, and values added to margins.

``numbers`` is float64 (features, rows), NaN where a value is missing; ``indices`` says which of its rows are the
features of the leaf.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["add_linear", "range_of_leaf", "sum_leaf"]


@kernel
def range_of_leaf(rows, gh, numbers, indices, out):  # type: ignore[no-untyped-def]
    """Write the number of rows, the largest |g| and h, and the least and largest number of each feature to ``out``.

    ``rows`` is uint32, ``gh`` float64 (rows, 2). Rows with h = 0 or a missing number do not count.
    """
    n_terms = len(indices)
    for k in range(3):
        out[k] = 0.0
    for k in range(n_terms):
        out[3 + 2 * k] = np.inf
        out[4 + 2 * k] = -np.inf
    for i in range(len(rows)):
        row = rows[i]
        is_complete = gh[row, 1] > 0.0
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
        if not is_complete:
            continue
        out[0] += 1.0
        out[1] = max(out[1], abs(gh[row, 0]))
        out[2] = max(out[2], gh[row, 1])
        for k in range(n_terms):
            x = numbers[indices[k], row]
            out[3 + 2 * k] = min(out[3 + 2 * k], x)
            out[4 + 2 * k] = max(out[4 + 2 * k], x)


@kernel
def sum_leaf(rows, gh, numbers, indices, grids, g_offset, h_offset, out):  # type: ignore[no-untyped-def]
    """Write the sums of `LinearEngine.leaf_sums` to ``out``.

    ``grids`` is float64 (terms, 4): offset, shift, low and high of each feature.
    """
    n_terms = len(indices)
    u = np.empty(n_terms)
    for k in range(len(out)):
        out[k] = 0.0
    for i in range(len(rows)):
        row = rows[i]
        is_complete = gh[row, 1] > 0.0
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
            u[k] = min(max((x + grids[k, 0]) - grids[k, 1], grids[k, 2]), grids[k, 3])
        if not is_complete:
            continue
        g = (gh[row, 0] + g_offset) - g_offset
        h = (gh[row, 1] + h_offset) - h_offset
        out[0] += g
        out[1] += h
        at = 2 + 2 * n_terms
        for k in range(n_terms):
            hu = h * u[k]
            out[2 + k] += g * u[k]
            out[2 + n_terms + k] += hu
            for j in range(k + 1):
                out[at] += hu * u[j]
                at += 1


@kernel
def add_linear(rows, numbers, indices, grids, slopes, constant, value, margins):  # type: ignore[no-untyped-def]
    """Add the value of a linear leaf to the margins of its rows; ``value`` where a number is missing."""
    n_terms = len(indices)
    for i in range(len(rows)):
        row = rows[i]
        total, is_complete = constant, True
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
            total += slopes[k] * min(max((x + grids[k, 0]) - grids[k, 1], grids[k, 2]), grids[k, 3])
        margins[row] += total if is_complete else value

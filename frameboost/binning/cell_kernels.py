"""Kernels over cells of equal width: how many values are in each, and which values are in some of them."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["count_cells", "rows_of_cells", "write_cells"]

# Values whose cells are computed together, by vector instructions.
_BLOCK = 256


@kernel(error_model="numpy")
def write_cells(block, low, per_width, n_cells, cells):  # type: ignore[no-untyped-def]
    """Write the cell of each value to ``cells`` (uint32): the first of those below ``low``, the last of the largest."""
    last = np.float64(n_cells - 1)
    for i in range(len(block)):
        index = (np.float64(block[i]) - low) * per_width
        cells[i] = np.uint32(min(max(index, 0.0), last))


@kernel
def count_cells(values, weights, low, per_width, counts):  # type: ignore[no-untyped-def]
    """Add the weights (int64, or None: 1 each) of the values in each cell to ``counts``, int64 (cells,).

    No value is missing. A cell has a width of 1 / ``per_width``, and the first one starts at ``low``.
    """
    cells = np.empty(_BLOCK, dtype=np.uint32)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        write_cells(block, low, per_width, len(counts), cells)
        for i in range(len(block)):
            if weights is None:
                counts[cells[i]] += 1
            else:
                counts[cells[i]] += weights[start + i]


@kernel
def rows_of_cells(values, low, per_width, is_wanted, rows):  # type: ignore[no-untyped-def]
    """Write the rows whose cell is wanted to ``rows`` (uint32, with room for all), and return their number."""
    cells, n = np.empty(_BLOCK, dtype=np.uint32), np.uint64(0)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        write_cells(block, low, per_width, len(is_wanted), cells)
        for i in range(len(block)):
            rows[n] = start + i  # the next row overwrites one that is not wanted: no branch
            n += np.uint64(is_wanted[cells[i]])
    return n

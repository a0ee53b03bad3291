"""Kernels of columns: codes, and counts in cells of equal width."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel

__all__ = [
    "bin_columns",
    "bin_values",
    "count_cells",
    "rows_of_cells",
    "take_codes",
    "write_cells",
]


# Values that go through a binary search together, or whose cells are computed together. Each step is a loop over the
# block without a branch, which compiles to vector instructions.
_BLOCK = 256
# Cuts that all values are compared with before the search, 2^k - 1; and cuts up to which there is no search.
_PIVOTS, _FEW = 7, 31


@kernel
def bin_values(values, edges, n_cuts, missing, first, last, codes):  # type: ignore[no-untyped-def]
    """Write the codes of the rows ``first`` to ``last - 1``; a code is the number of cuts that are not above the value.

    The binary search of the value 7 among the cuts 2, 5, 9: a step of 2 finds 5 ≤ 7 and goes to position 2, a step of 1
    finds 9 > 7 and stays. The code is 2. Instead of the first three steps, which read one cut each, the
    value is compared with all seven cuts that these may read.

    Parameters
    ----------
    values
        (rows,) of any number type; NaN is missing.
    edges
        The cuts in ascending order, padded by the largest number of their type to a length of 2^k - 1.
    n_cuts
        The number of cuts.
    missing
        The code of missing values.
    codes
        uint8, uint16 or uint32 (last - first,), written.
    """
    position = np.empty(_BLOCK, dtype=np.uint32)  # unsigned, as numba checks signed indices for being negative
    n_pivots = min(len(edges), _PIVOTS)
    apart = (len(edges) + 1) // (n_pivots + 1)
    for start in range(first, last, _BLOCK):
        block = values[start : min(start + _BLOCK, last)]
        for i in range(len(block)):
            position[i] = 0
        for pivot in range(n_pivots):
            edge = edges[(pivot + 1) * apart - 1]
            for i in range(len(block)):
                position[i] += np.uint32(edge <= block[i])
        for i in range(len(block)):
            position[i] *= np.uint32(apart)
        step = apart >> 1
        while step > 0:
            ahead = edges[step - 1 :]
            for i in range(len(block)):
                position[i] += np.uint32(step) if ahead[position[i]] <= block[i] else np.uint32(0)
            step >>= 1
        for i in range(len(block)):
            is_present = block[i] == block[i]
            codes[start - first + i] = min(np.int64(position[i]), n_cuts) if is_present else missing


@kernel
def bin_columns(values, source, edges, starts, n_cuts, target, missing, codes):  # type: ignore[no-untyped-def]
    """Write the codes of all rows of several columns (see `bin_values`).

    Parameters
    ----------
    values
        (columns, rows) of any number type.
    source
        int64 (coded columns,): the column of ``values`` that each is made from.
    edges, starts
        The padded cuts of all coded columns; int64 (coded columns + 1,): where each one's start.
    n_cuts
        int64 (coded columns,).
    target
        int64 (coded columns,): the row of ``codes`` that is written.
    codes
        uint8 (codes, rows).
    """
    for i in range(len(source)):
        column, cuts, out = values[source[i]], edges[starts[i] : starts[i + 1]], codes[target[i]]
        if len(cuts) > _FEW:
            # A literal 0 would have another type, and so be compiled again.
            bin_values(column, cuts, n_cuts[i], missing, np.int64(0), values.shape[1], out)
        else:
            _count_cuts(column, cuts, n_cuts[i], missing, out)


@kernel
def _count_cuts(values, edges, n_cuts, missing, codes):  # type: ignore[no-untyped-def]
    """Write the codes of a column with few cuts: a comparison with each of them takes less than a binary search."""
    for first in range(0, len(values), _BLOCK):
        block, out = values[first : first + _BLOCK], codes[first : first + _BLOCK]
        for i in range(len(block)):
            out[i] = 0
        for cut in range(n_cuts):
            edge = edges[cut]
            for i in range(len(block)):
                out[i] += np.uint8(edge <= block[i])
        for i in range(len(block)):
            if block[i] != block[i]:
                out[i] = missing


@kernel
def take_codes(rows, order, at, out, first, last):  # type: ignore[no-untyped-def]
    """Copy codes of rows in another order to ``out`` (rows, some features), for its rows ``first`` to ``last - 1``.

    They are those of the features from ``at`` on of ``rows`` (rows, features); ``order`` has the row numbers (uint32).
    """
    all_codes, copies = rows.ravel(), out.ravel()
    n_features, width, last = np.uint64(rows.shape[1]), np.uint64(out.shape[1]), np.uint64(last)
    for i in range(np.uint64(first), last):
        if i + AHEAD < last:
            prefetch(all_codes, np.uint64(order[i + AHEAD]) * n_features + np.uint64(at))
        start = np.uint64(order[i]) * n_features + np.uint64(at)
        for k in range(width):
            copies[i * width + k] = all_codes[start + k]


# --- cells of equal width: how many values are in each, and which values are in some of them --------------------------


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
def rows_of_cells(values, low, per_width, may_have_cut, rows):  # type: ignore[no-untyped-def]
    """Write the rows of the cells that may have a cut to ``rows`` (uint32, with room for all); return their number."""
    cells, n = np.empty(_BLOCK, dtype=np.uint32), np.uint64(0)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        write_cells(block, low, per_width, len(may_have_cut), cells)
        for i in range(len(block)):
            rows[n] = start + i  # overwritten by the next row if its cell has no cut: no branch
            n += np.uint64(may_have_cut[cells[i]])
    return n

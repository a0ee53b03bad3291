"""Kernels that propose cuts from a sorted column, bin columns by them, and lay columns side by side."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["bin_values", "cut_starts", "interleave"]

# Values that go through the binary search together, step by step: its steps are then the same for all of them, and the
# processor takes several at once.
_BLOCK = 256


@kernel
def cut_starts(ordered, max_bin):  # type: ignore[no-untyped-def]
    """Return where the cuts of a sorted column stand in it; see `frameboost.binning.bins.cut_positions`.

    Parameters
    ----------
    ordered
        The present values, ascending, of any type that compares.
    max_bin
        Most bins.

    Returns
    -------
    int64 array
        For each cut the first position of its value.
    """
    total = len(ordered)
    starts = np.empty(min(max_bin, total + 1), dtype=np.int64)
    n_starts = 0
    for i in range(1, total):
        if ordered[i] != ordered[i - 1]:
            if n_starts + 1 >= max_bin:  # more values than bins
                break
            starts[n_starts] = i
            n_starts += 1
    else:
        return starts[:n_starts]
    # A cut is the first value of each part; `due` is the first position whose part is a later one.
    n_starts, due = 0, (total + max_bin - 1) // max_bin
    for i in range(1, total):
        if i >= due and ordered[i] != ordered[i - 1]:
            starts[n_starts] = i
            n_starts += 1
            due = ((i * max_bin // total + 1) * total + max_bin - 1) // max_bin
    return starts[:n_starts]


@kernel
def bin_values(values, edges, n_cuts, missing, first, last, codes):  # type: ignore[no-untyped-def]
    """Write the codes of the rows ``first`` to ``last - 1``: how many cuts are not above a value.

    Parameters
    ----------
    values
        (rows,) of any number type; NaN is missing.
    edges
        The cuts in ascending order, then the largest number of their type up to a length of 2^k - 1.
    n_cuts
        How many cuts there are.
    missing
        The code of missing values.
    codes
        uint8, uint16 or uint32 (last - first,), written.
    """
    position = np.zeros(_BLOCK, dtype=np.uint64)  # unsigned: numba asks of a signed index whether it is negative
    for start in range(first, last, _BLOCK):
        block = values[start : min(start + _BLOCK, last)]
        position[:] = 0
        step = (len(edges) + 1) >> 1
        while step > 0:
            ahead = edges[step - 1 :]
            for i in range(len(block)):
                position[i] += np.uint64(step) if ahead[position[i]] <= block[i] else np.uint64(0)
            step >>= 1
        for i in range(len(block)):
            is_present = block[i] == block[i]
            codes[start - first + i] = min(np.int64(position[i]), n_cuts) if is_present else missing


@kernel
def interleave(columns, rows, first, last):  # type: ignore[no-untyped-def]
    """Copy the rows ``first`` to ``last - 1`` of ``columns``, (features, rows), to ``rows``, (rows, features)."""
    for start in range(first, last, _BLOCK):
        stop = min(start + _BLOCK, last)
        for feature in range(len(columns)):
            for row in range(start, stop):
                rows[row, feature] = columns[feature, row]

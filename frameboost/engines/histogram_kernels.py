"""Kernels over binned columns: histograms, and the partition of rows into nodes."""

from __future__ import annotations

import numba

__all__ = ["add_by_node", "build_histograms", "partition_rows"]


@numba.njit(nogil=True, cache=True)
def build_histograms(codes, rows, starts, stops, gradients, slots, out, first, last):  # type: ignore[no-untyped-def]
    """Add each row's gradient pair to its bins, for the features ``first`` to ``last - 1``.

    Parameters
    ----------
    codes
        uint8, uint16 or uint32 (rows, features), row-major: the cache line that a row brings holds all its codes.
    rows
        uint32 (rows,): row indices, those of a node side by side.
    starts, stops
        int64 (nodes,): each node's part of ``rows``.
    gradients
        float64 (rows, 2): g and h.
    slots
        int64 (features,): the first slot of each feature.
    out
        float64 (nodes, slots, 2), zero at first, written.
    """
    for node in range(len(starts)):
        histogram = out[node]
        for i in range(starts[node], stops[node]):
            row = rows[i]
            g = gradients[row, 0]
            h = gradients[row, 1]
            for feature in range(first, last):
                slot = slots[feature] + codes[row, feature]
                histogram[slot, 0] += g
                histogram[slot, 1] += h


@numba.njit(nogil=True, cache=True)
def partition_rows(column, rows, start, stop, goes_left, buffer):  # type: ignore[no-untyped-def]
    """Reorder a node's rows so that those that go left come first, each side in its old order; return how many do.

    Parameters
    ----------
    column
        uint8, uint16 or uint32 (rows,): the codes of the split's feature.
    rows
        uint32 (rows,): row indices, reordered between ``start`` and ``stop``.
    goes_left
        bool (codes,): whether a code goes left.
    buffer
        uint32 (rows,), scratch; only ``start`` to ``stop`` is touched.
    """
    left = start
    right = start
    for i in range(start, stop):
        row = rows[i]
        # Both sides are written and one counter moves: no branch to mispredict.
        rows[left] = row
        buffer[right] = row
        is_left = goes_left[column[row]]
        left += is_left
        right += not is_left
    for i in range(start, right):
        rows[left + i - start] = buffer[i]
    return left - start


@numba.njit(nogil=True, cache=True)
def add_by_node(margins, rows, starts, stops, values):  # type: ignore[no-untyped-def]
    """Add ``values[k]`` to the margins (float64) of the rows between ``starts[k]`` and ``stops[k]``."""
    for node in range(len(starts)):
        for i in range(starts[node], stops[node]):
            margins[rows[i]] += values[node]

"""Kernels over the rows of nodes: which node has which, and what it adds to their margins.

Indices are unsigned: of a signed one numba asks each time whether it counts from the end.
"""

from __future__ import annotations

import numba
import numpy as np

from frameboost.engines.intrinsics import AHEAD, prefetch

__all__ = ["add_by_node", "add_by_side", "move_pieces", "number_rows", "part_rows", "pieces_of", "take_rows"]

_ONE = np.uint64(1)


@numba.njit(nogil=True, cache=True)
def number_rows(rows):  # type: ignore[no-untyped-def]
    """Write 0, 1, 2, ... to ``rows`` (uint32)."""
    for i in range(len(rows)):
        rows[i] = i


@numba.njit(nogil=True, cache=True)
def pieces_of(nodes, pieces, n_nodes):  # type: ignore[no-untyped-def]
    """Return the pieces of some nodes, each with its node's place in ``nodes``, and in that order.

    Parameters
    ----------
    nodes
        int64 (nodes,): below ``n_nodes``.
    pieces
        int64 (pieces, 3): a node, and a part of the rows that it has.
    """
    place = np.full(n_nodes, -1)
    for i in range(len(nodes)):
        place[nodes[i]] = i
    ends = np.zeros(len(nodes) + 1, dtype=np.int64)
    for piece in range(len(pieces)):
        if place[pieces[piece, 0]] >= 0:
            ends[place[pieces[piece, 0]] + 1] += 1
    for i in range(len(nodes)):
        ends[i + 1] += ends[i]
    found = np.empty((ends[-1], 3), dtype=np.int64)
    for piece in range(len(pieces)):
        own = place[pieces[piece, 0]]
        if own >= 0:
            found[ends[own]] = own, pieces[piece, 1], pieces[piece, 2]
            ends[own] += 1
    return found


@numba.njit(nogil=True, cache=True)
def move_pieces(nodes, children, pieces, parted, n_left, half, n_nodes):  # type: ignore[no-untyped-def]
    """Return the pieces of all nodes once some have been split.

    Parameters
    ----------
    nodes
        int64 (nodes,): those that are split.
    children
        int64 (nodes, 2): their left and right children.
    pieces
        int64 (pieces, 3): a node, and a part of the rows that it had.
    parted
        int64 (parted, 3): the pieces, or parts of them, that `part_rows` has copied to the other half: the place of a
        node in ``nodes``, and a part of the rows.
    n_left
        int64 (parted,): how many rows of each go left.
    half
        How many rows there are.
    n_nodes
        A number that all of ``nodes`` are below.
    """
    is_split = np.zeros(n_nodes, dtype=np.bool_)
    for i in range(len(nodes)):
        is_split[nodes[i]] = True
    found = np.empty((len(pieces) + 2 * len(parted), 3), dtype=np.int64)
    n = 0
    for piece in range(len(pieces)):
        if not is_split[pieces[piece, 0]]:
            found[n] = pieces[piece]
            n += 1
    for piece in range(len(parted)):
        place, start, stop = parted[piece]
        there = half if start < half else -half
        middle = start + there + n_left[piece]
        found[n, 0], found[n, 1], found[n, 2] = children[place, 0], start + there, middle
        found[n + 1, 0], found[n + 1, 1], found[n + 1, 2] = children[place, 1], middle, stop + there
        n += 2
    return found[:n]


@numba.njit(nogil=True, cache=True)
def part_rows(columns, features, goes_left, numbers, rows, pieces, counts):  # type: ignore[no-untyped-def]
    """Copy parts of ``rows`` to its other half: what goes left from the front of a part on, the rest from its back.

    Parameters
    ----------
    columns
        uint8, uint16 or uint32 (columns, rows): codes.
    features
        int64 (splits,): the column that a split asks.
    goes_left
        bool (splits, codes): whether a code goes left.
    numbers
        int64: the number of a split among these, by its place among all; -1 if its column is in another array.
    rows
        uint32 (2 rows,): row indices, those of a node side by side in one half. Written in the same place of the other.
    pieces
        int64 (pieces, 3): the place of a split, and a part of ``rows``.
    counts
        int64 (pieces,), written: how many rows of a piece go left.
    """
    half = np.uint64(len(rows)) >> _ONE
    for piece in range(len(pieces)):
        place, start, stop = pieces[piece]
        split = numbers[place]
        if split < 0:
            continue
        first, last = np.uint64(start), np.uint64(stop)
        column, is_left = columns[features[split]], goes_left[split]
        front = first + half if first < half else first - half
        left, right = front, front + (last - first) - _ONE
        for i in range(first, last):
            if i + AHEAD < last:
                prefetch(column, np.uint64(rows[i + AHEAD]))
            row = rows[i]
            flag = np.uint64(is_left[np.uint64(column[np.uint64(row)])])
            rows[left if flag else right] = row
            left += flag
            right -= _ONE - flag
        counts[piece] = left - front


@numba.njit(nogil=True, cache=True)
def take_rows(values, rows, out):  # type: ignore[no-untyped-def]
    """Write ``values`` of the ``rows`` (uint32) to ``out``, in that order."""
    for i in range(np.uint64(0), np.uint64(len(rows))):
        if i + AHEAD < np.uint64(len(rows)):
            prefetch(values, np.uint64(rows[i + AHEAD]))
        out[i] = values[np.uint64(rows[i])]


@numba.njit(nogil=True, cache=True)
def add_by_node(margins, rows, pieces, values):  # type: ignore[no-untyped-def]
    """Add ``values[k]`` to the margins (float64) of parts of ``rows``; ``pieces``, int64 (pieces, 3): k and a part."""
    for piece in range(len(pieces)):
        value, stop = values[pieces[piece, 0]], np.uint64(pieces[piece, 2])
        for i in range(np.uint64(pieces[piece, 1]), stop):
            if i + AHEAD < stop:
                prefetch(margins, np.uint64(rows[i + AHEAD]))
            margins[np.uint64(rows[i])] += value


@numba.njit(nogil=True, cache=True)
def add_by_side(columns, features, goes_left, numbers, rows, pieces, values, margins):  # type: ignore[no-untyped-def]
    """Add to the margins (float64) ``values``, float64 (splits, 2), of the side that a row goes to; see `part_rows`."""
    for piece in range(len(pieces)):
        place, start, stop = pieces[piece]
        split = numbers[place]
        if split < 0:
            continue
        first, last = np.uint64(start), np.uint64(stop)
        column, is_left, left, right = columns[features[split]], goes_left[split], values[place, 0], values[place, 1]
        for i in range(first, last):
            if i + AHEAD < last:
                later = np.uint64(rows[i + AHEAD])
                prefetch(column, later)
                prefetch(margins, later)
            row = np.uint64(rows[i])
            margins[row] += left if is_left[np.uint64(column[row])] else right

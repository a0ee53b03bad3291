"""Kernels over the rows of nodes: which node has which, and what it adds to their margins.

Indices are unsigned: of a signed one numba asks each time whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = [
    "add_by_node", "add_by_side", "fill_sides", "move_pieces", "number_rows", "part_rows", "pieces_of", "share_pieces",
    "shares_of", "take_rows",
]  # fmt: skip

_ONE = np.uint64(1)


@kernel
def number_rows(rows):  # type: ignore[no-untyped-def]
    """Write 0, 1, 2, ... to ``rows`` (uint32)."""
    for i in range(len(rows)):
        rows[i] = i


@kernel
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


@kernel
def share_pieces(pieces, most, smallest):  # type: ignore[no-untyped-def]
    """Share the rows of pieces out, in order: each share has as many, so that few pieces are cut.

    Parameters
    ----------
    pieces
        int64 (pieces, 3): of what, start, stop.
    most, smallest
        How many shares there may be, and how many rows one must have if there are several.

    Returns
    -------
    int64 array (parts, 3)
        Pieces and parts of pieces, none of them empty.
    int64 array (shares + 1,)
        Which of them is the first of each share, and their number.
    """
    total = (pieces[:, 2] - pieces[:, 1]).sum()
    count = max(1, min(most, total // max(smallest, 1)))
    parts, firsts = np.empty((len(pieces) + count - 1, 3), dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    n, before, share = 0, 0, 0
    for piece in range(len(pieces)):
        start, stop = pieces[piece, 1], pieces[piece, 2]
        while start < stop:
            while before >= total * (share + 1) // count:
                share += 1
                firsts[share] = n
            middle = min(stop, start + total * (share + 1) // count - before)
            parts[n] = pieces[piece, 0], start, middle
            n += 1
            before += middle - start
            start = middle
    firsts[share + 1 :] = n
    return parts[:n], firsts


@kernel
def shares_of(nodes, pieces, n_nodes, most, smallest):  # type: ignore[no-untyped-def]
    """Return `share_pieces` of the pieces of some nodes (see `pieces_of`)."""
    return share_pieces(pieces_of(nodes, pieces, n_nodes), most, smallest)


@kernel
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


@kernel
def fill_sides(bins, missing_left, n_codes):  # type: ignore[no-untyped-def]
    """Return whether codes go left, by numeric splits: bool, code by code and split by split, and where each starts.

    Those below ``bins`` (int64) do, and the last of the ``n_codes`` (int64) if ``missing_left`` (bool).
    """
    starts = np.zeros(len(bins) + 1, dtype=np.int64)
    starts[1:] = np.cumsum(n_codes)
    goes_left = np.zeros(starts[-1], dtype=np.bool_)
    for i in range(len(bins)):
        goes_left[starts[i] : starts[i] + min(bins[i], n_codes[i])] = True
        goes_left[starts[i + 1] - 1] = missing_left[i]
    return goes_left, starts


@kernel
def _asked(columns, places, goes_left, starts, part):  # type: ignore[no-untyped-def]
    """Return where a part starts and stops, the column that its split asks, and what goes left."""
    split, start, stop = part
    return np.uint64(start), np.uint64(stop), columns[places[split]], goes_left[starts[split] :]


@kernel
def _part_share(columns, places, goes_left, starts, rows, parts, firsts, counts, share):  # type: ignore[no-untyped-def]
    half = np.uint64(len(rows)) >> _ONE
    for part in range(firsts[share], firsts[share + 1]):
        if places[parts[part, 0]] < 0:
            continue
        first, last, column, is_left = _asked(columns, places, goes_left, starts, parts[part])
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
        counts[part] = left - front


_parting = outlined(_part_share)


@kernel
def part_rows(team, columns, places, goes_left, starts, rows, parts, firsts, counts):  # type: ignore[no-untyped-def]
    """Copy parts of ``rows`` to its other half: what goes left from the front of a part on, the rest from its back.

    Parameters
    ----------
    team
        Who does it (see `frameboost.runtime.team_kernels`).
    columns
        uint8, uint16 or uint32 (columns, rows): codes.
    places
        int64 (splits,): the column that a split asks; -1 if it is in another array.
    goes_left, starts
        bool and int64 (splits,): whether a code goes left, by the split's codes, and where these start.
    rows
        uint32 (2 rows,): row indices, those of a node side by side in one half. Written in the same place of the other.
    parts, firsts
        What `share_pieces` returns of splits and their rows.
    counts
        int64 (parts,), written: how many rows of a part go left.
    """
    share_out(team, _parting((columns, places, goes_left, starts, rows, parts, firsts, counts)), len(firsts) - 1)


@kernel
def take_rows(values, rows, out):  # type: ignore[no-untyped-def]
    """Write ``values`` of the ``rows`` (uint32) to ``out``, in that order."""
    for i in range(np.uint64(0), np.uint64(len(rows))):
        if i + AHEAD < np.uint64(len(rows)):
            prefetch(values, np.uint64(rows[i + AHEAD]))
        out[i] = values[np.uint64(rows[i])]


@kernel
def _add_share_by_node(margins, rows, parts, firsts, values, share):  # type: ignore[no-untyped-def]
    for part in range(firsts[share], firsts[share + 1]):
        value, stop = values[parts[part, 0]], np.uint64(parts[part, 2])
        for i in range(np.uint64(parts[part, 1]), stop):
            if i + AHEAD < stop:
                prefetch(margins, np.uint64(rows[i + AHEAD]))
            margins[np.uint64(rows[i])] += value


_adding_by_node = outlined(_add_share_by_node)


@kernel
def add_by_node(team, margins, rows, parts, firsts, values):  # type: ignore[no-untyped-def]
    """Add ``values[k]`` to the margins (float64) of the rows of node k; see `share_pieces`."""
    share_out(team, _adding_by_node((margins, rows, parts, firsts, values)), len(firsts) - 1)


@kernel
def _add_share_by_side(  # type: ignore[no-untyped-def]
    columns, places, goes_left, starts, rows, parts, firsts, values, margins, share
):
    for part in range(firsts[share], firsts[share + 1]):
        if places[parts[part, 0]] < 0:
            continue
        first, last, column, is_left = _asked(columns, places, goes_left, starts, parts[part])
        left, right = values[parts[part, 0]]
        for i in range(first, last):
            if i + AHEAD < last:
                later = np.uint64(rows[i + AHEAD])
                prefetch(column, later)
                prefetch(margins, later)
            row = np.uint64(rows[i])
            margins[row] += left if is_left[np.uint64(column[row])] else right


_adding_by_side = outlined(_add_share_by_side)


@kernel
def add_by_side(  # type: ignore[no-untyped-def]
    team, columns, places, goes_left, starts, rows, parts, firsts, values, margins
):
    """Add to the margins (float64) ``values``, float64 (splits, 2), of the side that a row goes to; see `part_rows`."""
    values_of_share = (columns, places, goes_left, starts, rows, parts, firsts, values, margins)
    share_out(team, _adding_by_side(values_of_share), len(firsts) - 1)

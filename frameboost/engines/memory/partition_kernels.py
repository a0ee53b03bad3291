"""Kernels over the rows of nodes: partition by split, shares for threads, leaf values added to margins.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = [
    "add_by_node", "add_by_side", "cut_parts", "fill_side", "fill_sides", "move_pieces", "number_rows", "part_rows",
    "part_share", "parting", "pieces_of", "share_pieces", "shares_of", "take_rows",
]  # fmt: skip

_ONE = np.uint64(1)


@kernel(inline="always")
def _zeros(count):  # type: ignore[no-untyped-def]
    """Return int64 zeros; `numpy.zeros` takes numba three times as long to compile."""
    found = np.empty(count, dtype=np.int64)
    for i in range(count):
        found[i] = 0
    return found


@kernel(inline="always")
def number_rows(rows, first, last):  # type: ignore[no-untyped-def]
    """Write their places, ``first`` to ``last - 1``, to ``rows`` (uint32)."""
    for i in range(np.uint64(first), np.uint64(last)):  # indices that are signed would be checked
        rows[i] = i


@kernel(inline="always")
def pieces_of(nodes, pieces, n_nodes):  # type: ignore[no-untyped-def]
    """Return the pieces of some nodes in the order of ``nodes``, with the node's place in it in the node's stead.

    Parameters
    ----------
    nodes
        int64 (nodes,): below ``n_nodes``.
    pieces
        int64 (pieces, 3): node, start, stop.
    """
    index = np.empty(n_nodes, dtype=np.int64)
    index[:] = -1
    for i in range(len(nodes)):
        index[nodes[i]] = i
    ends = _zeros(len(nodes) + 1)
    for piece in range(len(pieces)):
        if index[pieces[piece, 0]] >= 0:
            ends[index[pieces[piece, 0]] + 1] += 1
    for i in range(len(nodes)):
        ends[i + 1] += ends[i]
    found = np.empty((ends[-1], 3), dtype=np.int64)
    for piece in range(len(pieces)):
        own = index[pieces[piece, 0]]
        if own >= 0:
            at = ends[own]
            found[at, 0], found[at, 1], found[at, 2] = own, pieces[piece, 1], pieces[piece, 2]
            ends[own] += 1
    return found


@kernel(inline="always")
def share_pieces(pieces, most, smallest):  # type: ignore[no-untyped-def]
    """Divide the rows of pieces, in order, into shares of equal size.

    Say 10 rows in the pieces (0, 0, 7) and (1, 7, 10) are for two threads. The first share has (0, 0, 5), the second
    (0, 5, 7) and (1, 7, 10): parts are these three, firsts is 0, 1, 3.

    Parameters
    ----------
    pieces
        int64 (pieces, 3): node, start, stop.
    most, smallest
        The most shares, and the fewest rows of each if there are several.

    Returns
    -------
    int64 array (parts, 3)
        Pieces and parts of pieces, none of them empty.
    int64 array (shares + 1,)
        The first part of each share; last, the number of parts.
    """
    total = 0
    for piece in range(len(pieces)):
        total += pieces[piece, 2] - pieces[piece, 1]
    count = max(1, min(most, total // max(smallest, 1)))
    parts, firsts = np.empty((len(pieces) + count - 1, 3), dtype=np.int64), _zeros(count + 1)
    n, before, share = 0, 0, 0
    for piece in range(len(pieces)):
        start, stop = pieces[piece, 1], pieces[piece, 2]
        while start < stop:
            while before >= total * (share + 1) // count:
                share += 1
                firsts[share] = n
            middle = min(stop, start + total * (share + 1) // count - before)
            parts[n, 0], parts[n, 1], parts[n, 2] = pieces[piece, 0], start, middle
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
    """Return the pieces of the leaves after some of them were split.

    Parameters
    ----------
    nodes
        int64 (nodes,): the nodes that were split.
    children
        int64 (nodes, 2): their left and right children.
    pieces
        int64 (pieces, 3): node, start, stop, from before.
    parted
        int64 (parted, 3): the parts that `part_rows` has copied to the other half: a node's place in ``nodes``, start,
        stop.
    n_left
        int64 (parted,): how many rows of each part go left.
    half
        The number of rows, which is the length of a half.
    n_nodes
        A number above all of ``nodes``.
    """
    is_split = _zeros(n_nodes)
    for i in range(len(nodes)):
        is_split[nodes[i]] = 1
    found = np.empty((len(pieces) + 2 * len(parted), 3), dtype=np.int64)
    n = 0
    for piece in range(len(pieces)):
        if is_split[pieces[piece, 0]] == 0:
            found[n, 0], found[n, 1], found[n, 2] = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
            n += 1
    for piece in range(len(parted)):
        index, start, stop = parted[piece, 0], parted[piece, 1], parted[piece, 2]
        there = half if start < half else -half
        middle = start + there + n_left[piece]
        found[n, 0], found[n, 1], found[n, 2] = children[index, 0], start + there, middle
        found[n + 1, 0], found[n + 1, 1], found[n + 1, 2] = children[index, 1], middle, stop + there
        n += 2
    return found[:n]


@kernel(inline="always")
def fill_side(goes_left, bin_, missing_left):  # type: ignore[no-untyped-def]
    """Write whether each code of a numeric split goes left: those below ``bin_``, and the last if ``missing_left``."""
    for code in range(len(goes_left)):
        goes_left[code] = code < bin_
    goes_left[-1] = missing_left


@kernel
def fill_sides(bins, missing_left, n_codes):  # type: ignore[no-untyped-def]
    """Return for each numeric split a table of whether a code goes left; all in one array, and where each starts.

    Codes below ``bins`` (int64, one per split) go left, and the last of the ``n_codes`` (int64) if ``missing_left``
    (bool).
    """
    starts = np.empty(len(bins) + 1, dtype=np.int64)
    starts[0] = 0
    for i in range(len(bins)):
        starts[i + 1] = starts[i] + n_codes[i]
    goes_left = np.empty(starts[-1], dtype=np.bool_)
    for i in range(len(bins)):
        fill_side(goes_left[starts[i] : starts[i + 1]], bins[i], missing_left[i])
    return goes_left, starts


@kernel(inline="always")
def part_share(columns, indices, goes_left, starts, rows, parts, firsts, counts, share):  # type: ignore[no-untyped-def]
    """Do what `part_rows` does, for one share."""
    half = np.uint64(len(rows)) >> _ONE
    for part in range(firsts[share], firsts[share + 1]):
        if indices[parts[part, 0]] < 0:
            continue
        split, start, stop = parts[part, 0], parts[part, 1], parts[part, 2]
        first, last = np.uint64(start), np.uint64(stop)
        column, is_left = columns[indices[split]], goes_left[starts[split] :]
        front = first + half if first < half else first - half
        left, right = front, front + (last - first) - _ONE
        for i in range(first, last):
            if i + AHEAD < last:
                prefetch(column, np.uint64(rows[i + AHEAD]))
            row = rows[i]
            # One store and two counters in place of a branch, which would be mispredicted every other time.
            flag = np.uint64(is_left[np.uint64(column[np.uint64(row)])])
            rows[left if flag else right] = row
            left += flag
            right -= _ONE - flag
        counts[part] = left - front


parting = outlined(part_share)


@kernel
def part_rows(team, columns, indices, goes_left, starts, rows, parts, firsts, counts):  # type: ignore[no-untyped-def]
    """Partition parts of ``rows`` into the other half: left rows from the front of the part, right rows from its back.

    Say rows 0 to 5, at the positions 0 to 5 of 12, have the codes 4, 1, 0, 7, 6, 2, and codes below 3 go left. Then the
    positions 6 to 11 get 1, 2, 5 (from the front) and 4, 3, 0 (from the back), and the count is 3.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team_kernels`).
    columns
        uint8, uint16 or uint32 (columns, rows): codes.
    indices
        int64 (splits,): the column that a split compares; -1 if it is in another array.
    goes_left, starts
        bool and int64 (splits,): whether a code goes left, and where each split's codes start (see `fill_sides`).
    rows
        uint32 (2 rows,): row numbers, those of a node side by side in one half; the same range of the other is written.
    parts, firsts
        The shares of the splits and their rows (see `share_pieces`).
    counts
        int64 (parts,), written: how many rows of a part go left.
    """
    share_out(team, parting((columns, indices, goes_left, starts, rows, parts, firsts, counts)), len(firsts) - 1)


@kernel
def _count_below(rows, start, stop, end):  # type: ignore[no-untyped-def]
    """Return how many of ``rows[start:stop]``, which ascend or descend, are below ``end``."""
    low, high = np.int64(0), stop - start
    descends = high > 0 and rows[start] > rows[stop - 1]
    while low < high:
        middle = (low + high) >> 1
        if rows[stop - 1 - middle if descends else start + middle] < end:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def cut_parts(parts, rows, ends, out, blocks):  # type: ignore[no-untyped-def]
    """Cut parts where a block of rows ends, and write them in the order of blocks; return how many there are.

    Say a block has 100 rows, and the rows of two parts are 5, 90, 120 and 180, 40, 7. The parts are then 5, 90 and
    40, 7 of the first block, and 120 and 180 of the second.

    Parameters
    ----------
    parts
        int64 (parts, 3): node, start, stop: ranges of ``rows``, each of which ascends or descends.
    rows
        uint32: row numbers.
    ends
        int64 (blocks,): the row behind the last of each block.
    out
        int64 (parts x blocks, 3), written: the parts.
    blocks
        int64 (blocks + 1,), written: the first part of each block.
    """
    below, count = np.empty(len(parts), np.int64), 0
    for k in range(len(parts)):
        below[k] = 0
    for block in range(len(ends)):
        blocks[block] = count
        for k in range(len(parts)):
            start, stop = parts[k, 1], parts[k, 2]
            if below[k] == stop - start:
                continue
            before, below[k] = below[k], _count_below(rows, start, stop, ends[block])
            if below[k] > before:
                out[count, 0] = parts[k, 0]
                if rows[start] > rows[stop - 1]:
                    out[count, 1], out[count, 2] = stop - below[k], stop - before
                else:
                    out[count, 1], out[count, 2] = start + before, start + below[k]
                count += 1
    blocks[len(ends)] = count
    return count


@kernel
def take_rows(values, rows, out):  # type: ignore[no-untyped-def]
    """Gather ``values`` of the ``rows`` (uint32) into ``out``."""
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
    columns, indices, goes_left, starts, rows, parts, firsts, values, margins, share
):
    for part in range(firsts[share], firsts[share + 1]):
        split, start, stop = parts[part, 0], parts[part, 1], parts[part, 2]
        if indices[split] < 0:
            continue
        column, is_left, last = columns[indices[split]], goes_left[starts[split] :], np.uint64(stop)
        left, right = values[split, 0], values[split, 1]
        for i in range(np.uint64(start), last):
            if i + AHEAD < last:
                later = np.uint64(rows[i + AHEAD])
                prefetch(column, later)
                prefetch(margins, later)
            row = np.uint64(rows[i])
            margins[row] += left if is_left[np.uint64(column[row])] else right


_adding_by_side = outlined(_add_share_by_side)


@kernel
def add_by_side(  # type: ignore[no-untyped-def]
    team, columns, indices, goes_left, starts, rows, parts, firsts, values, margins
):
    """Add to the margins (float64) ``values``, float64 (splits, 2), of the side that a row goes to; see `part_rows`."""
    values_of_share = (columns, indices, goes_left, starts, rows, parts, firsts, values, margins)
    share_out(team, _adding_by_side(values_of_share), len(firsts) - 1)

"""Kernels over the numbers of the nodes that rows are in: rows moved by splits, and grouped by node.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["group_rows", "move_to_children"]

_ZERO, _ONE, _TWO, _THREE, _FOUR = map(np.uint64, range(5))


@kernel
def move_to_children(numbers, codes, features, starts, children):  # type: ignore[no-untyped-def]
    """Move the rows of nodes that are split to their children.

    Parameters
    ----------
    numbers
        uint8, uint16 or uint32 (rows,): the node of each row, changed in place.
    codes
        uint8, uint16 or uint32 (rows, features): codes.
    features
        int64 (nodes,): the column of ``codes`` that a node's split compares; -1 for a node that is not split by one.
    starts, children
        int64 (nodes,): where the codes of each node start in ``children``, of the type of ``numbers``: the child to
        which each code goes.
    """
    n_features, all_codes = np.uint64(codes.shape[1]), codes.ravel()
    for row in range(_ZERO, np.uint64(len(numbers))):
        node = np.uint64(numbers[row])
        feature = features[node]
        if feature >= 0:
            code = np.uint64(all_codes[row * n_features + np.uint64(feature)])
            numbers[row] = children[np.uint64(starts[node]) + code]


@kernel
def group_rows(numbers, indices, rows, ends):  # type: ignore[no-untyped-def]
    """Write the numbers of all rows to ``rows``, place by place: a counting sort.

    Say rows 0 to 4 are in the nodes 1, 2, 1, 4, 2, and the nodes 2 and 4 have the places 0 and 1, all others 2. Then
    ``rows`` becomes 1, 4, 3, 0, 2, and ``ends`` 2, 3, 5.

    Rows are counted in four tables by turns, as two increments of one counter must wait for each other.

    Parameters
    ----------
    numbers
        uint8, uint16 or uint32 (rows,): the node of each row.
    indices
        uint32 (nodes,): the place of each node.
    rows
        uint32 (rows,), written.
    ends
        uint32 (places,), written: where the rows of each place end.
    """
    counts = np.zeros((4, len(indices)), np.uint32)
    n_rows = np.uint64(len(numbers))
    whole = n_rows - n_rows % _FOUR
    for row in range(_ZERO, whole, _FOUR):
        counts[_ZERO, np.uint64(numbers[row])] += 1
        counts[_ONE, np.uint64(numbers[row + _ONE])] += 1
        counts[_TWO, np.uint64(numbers[row + _TWO])] += 1
        counts[_THREE, np.uint64(numbers[row + _THREE])] += 1
    for row in range(whole, n_rows):
        counts[_ZERO, np.uint64(numbers[row])] += 1
    ends[:] = 0
    for node in range(len(indices)):
        ends[indices[node]] += counts[0, node] + counts[1, node] + counts[2, node] + counts[3, node]
    before = np.uint32(0)
    for index in range(len(ends)):
        before, ends[index] = before + ends[index], before
    for row in range(_ZERO, n_rows):
        own = np.uint64(indices[np.uint64(numbers[row])])
        end = ends[own]
        rows[np.uint64(end)] = row
        ends[own] = end + 1

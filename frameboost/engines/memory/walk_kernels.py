"""The values of a tree that was grown in one call, added to margins: of its rows, and of others by their codes."""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.tree_kernels import FEATURE, LEFT, TABLE
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["add_grown_leaves", "add_tree"]

# Rows that go down a tree together.
_BLOCK = np.uint64(128)


@kernel
def add_grown_leaves(columns, nodes, tables, rows, pieces, n_parted, values, margins):  # type: ignore[no-untyped-def]
    """Add to the margins (float64) of the rows of a tree the values of their leaves.

    Parameters
    ----------
    columns, nodes, tables, rows
        As `grow_tree` has them.
    pieces, n_parted
        int64 (pieces, 3): the node, start and stop of ``n_parted`` ranges of leaves, then of nodes of two leaves.
    values
        float64 (nodes,).
    """
    for k in range(n_parted):
        value = values[pieces[k, 0]]
        for i in range(np.uint64(pieces[k, 1]), np.uint64(pieces[k, 2])):
            margins[np.uint64(rows[i])] += value
    for k in range(n_parted, len(pieces)):
        node = nodes[pieces[k, 0]]
        column, is_left = columns[node[FEATURE]], tables[node[TABLE] :]
        left, right = values[node[LEFT]], values[node[LEFT] + 1]
        for i in range(np.uint64(pieces[k, 1]), np.uint64(pieces[k, 2])):
            row = np.uint64(rows[i])
            margins[row] += left if is_left[np.uint64(column[row])] else right


@kernel
def _add_share(codes, feature, left, table, goes_left, values, margins, count, share):  # type: ignore[no-untyped-def]
    """Add the values of one of ``count`` shares of the rows, whose blocks move level by level, without branches.

    One row's way down waits for memory at each step.
    """
    n_blocks, nodes = (np.uint64(len(codes)) + _BLOCK - np.uint64(1)) // _BLOCK, np.empty(_BLOCK, dtype=np.uint64)
    first = _BLOCK * (n_blocks * np.uint64(share) // np.uint64(count))
    last = min(np.uint64(len(codes)), _BLOCK * (n_blocks * np.uint64(share + 1) // np.uint64(count)))
    for start in range(first, last, _BLOCK):
        size = min(_BLOCK, last - start)
        for i in range(size):
            nodes[i] = 0
        is_moving = True
        while is_moving:
            is_moving = False
            for i in range(size):
                node = nodes[i]
                child = left[node]
                is_inner = child >= 0
                column, at = np.uint64(feature[node] if is_inner else 0), np.uint64(table[node] if is_inner else 0)
                is_right = not goes_left[at + np.uint64(codes[start + i, column])]
                nodes[i] = child + is_right if is_inner else node
                is_moving |= is_inner
        for i in range(size):
            margins[start + i] += values[nodes[i]]


_adding = outlined(_add_share)


@kernel
def add_tree(team, count, codes, feature, left, table, goes_left, values, margins):  # type: ignore[no-untyped-def]
    """Add to the margins (float64) of other rows, by their codes, the values of the leaves that they reach.

    Parameters
    ----------
    team, count
        The threads (see `frameboost.runtime.team_kernels`), and the number of shares.
    codes
        uint16 (rows, features).
    feature, left, table, goes_left
        See `frameboost.engines.contract.GrownNodes`.
    values, margins
        float64 (nodes,), and float64 (rows,), added to.
    """
    if left[0] < 0:
        for row in range(len(codes)):
            margins[row] += values[0]
        return
    share_out(team, _adding((codes, feature, left, table, goes_left, values, margins, count)), count)

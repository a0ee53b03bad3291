"""The pieces of few rows by numpy, which needs no compiling: what some of `partition_kernels` do.

Each call takes some five microseconds longer, and the kernels together a second to compile.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.partition_kernels import shares_of
from frameboost.runtime.compile_later import CompileLater
from frameboost.runtime.workers import Pieces, Shares
from frameboost.splits.split import BoolArray, IntArray

__all__ = ["are_in_numpy", "children_of", "one_share", "sides_of"]


# With more rows, threads share them.
_MAX_ROWS = 1 << 16
# In fits of a hundred trees, which take some 50 ms longer so.
_compiling_later = CompileLater(shares_of, most=10)


def are_in_numpy(n_rows: int) -> bool:
    """Whether numpy divides and moves the pieces of that many rows in a fit."""
    return n_rows <= _MAX_ROWS and _compiling_later.spend(1)


def one_share(nodes: IntArray, pieces: Pieces, n_nodes: int) -> Shares:
    """Do what `shares_of` does for a single share."""
    index = np.full(n_nodes, -1)
    index[nodes] = np.arange(len(nodes))
    own = index[pieces[:, 0]]
    wanted = np.flatnonzero((own >= 0) & (pieces[:, 1] < pieces[:, 2]))
    wanted = wanted[np.argsort(own[wanted], kind="stable")]
    parts = pieces[wanted]
    parts[:, 0] = own[wanted]
    return parts, np.array([0, len(parts)])


def children_of(
    nodes: IntArray, children: Pieces, pieces: Pieces, parted: Pieces, n_left: IntArray, half: int, n_nodes: int
) -> Pieces:
    """Do what `move_pieces` does."""
    is_leaf = np.ones(n_nodes, np.bool_)
    is_leaf[nodes] = False
    index, start, stop = parted.T
    there = np.where(start < half, half, -half)
    moved = np.empty((len(parted), 2, 3), dtype=np.int64)
    moved[:, :, 0] = children[index]
    moved[:, 0, 1] = start + there
    moved[:, 0, 2] = moved[:, 1, 1] = start + there + n_left
    moved[:, 1, 2] = stop + there
    return np.concatenate([pieces[is_leaf[pieces[:, 0]]], moved.reshape(-1, 3)])


def sides_of(bins: IntArray, missing_left: BoolArray, n_codes: IntArray) -> tuple[BoolArray, IntArray]:
    """Do what `fill_sides` does."""
    starts = np.concatenate([[0], np.cumsum(n_codes)])
    goes_left = np.arange(starts[-1]) < np.repeat(starts[:-1] + bins, n_codes)
    goes_left[starts[1:] - 1] = missing_left
    return goes_left, starts

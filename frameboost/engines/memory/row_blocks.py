"""Rows of many nodes in blocks, so that what is written by row stays in the processor's cache."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from frameboost.runtime.workers import Pieces, Shares
from frameboost.splits.split import IntArray

__all__ = ["in_blocks"]

# The margins of a block, 1 MB, are in the L2 cache, or soon in it.
ROWS_PER_BLOCK = 1 << 17


def in_blocks(parts: Pieces, firsts: IntArray, rows: npt.NDArray[np.uint32], n_rows: int) -> Shares:
    """Cut parts where a block of rows ends, and put them in the order of blocks.

    Say a block has 100 rows, and the rows of two parts are 5, 90, 120 and 180, 40, 7. The parts are then 5, 90 and
    40, 7 of the first block, and 120 and 180 of the second.

    Parameters
    ----------
    parts
        int64 (parts, 3): node, start, stop: ranges of ``rows``, each of which ascends or descends.
    firsts
        int64 (shares + 1,): the first part of each share.
    rows
        uint32: row numbers.
    n_rows
        The number of rows.

    Returns
    -------
    int64 array (parts, 3)
        The parts.
    int64 array (shares + 1,)
        The first part of each share: as many shares, of about as many rows each.
    """
    n_blocks = -(-n_rows // ROWS_PER_BLOCK)
    ends = np.minimum(np.arange(1, n_blocks + 1) * ROWS_PER_BLOCK, n_rows).astype(rows.dtype)  # else rows are converted
    found = [np.empty((0, 4), np.int64)]
    for node, start, stop in parts.tolist():
        if start == stop:
            continue
        own = rows[start:stop]
        descends = own[0] > own[-1]
        below = np.searchsorted(own[::-1] if descends else own, ends)  # how many rows are in blocks up to each
        counts, cuts = np.diff(below, prepend=0), np.column_stack([np.append(0, below[:-1]), below])
        cuts = stop - cuts[:, ::-1] if descends else start + cuts
        cut = np.column_stack([np.arange(n_blocks), np.full(n_blocks, node), cuts])
        found.append(cut[counts > 0])
    cut = np.concatenate(found)
    cut = cut[np.argsort(cut[:, 0], kind="stable")]
    total = np.cumsum(cut[:, 3] - cut[:, 2])
    n_shares, n_added = len(firsts) - 1, int(total[-1]) if len(total) else 0
    bounds = np.searchsorted(total, np.arange(1, n_shares) * n_added // n_shares)
    return np.ascontiguousarray(cut[:, 1:]), np.concatenate([[0], bounds, [len(cut)]])

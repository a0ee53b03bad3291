"""Rows of many nodes in blocks, so that what is written by row stays in the processor's caches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from frameboost.engines.memory.partition_kernels import cut_parts
from frameboost.runtime.workers import Pieces, Shares
from frameboost.splits.split import IntArray

__all__ = ["RowBlocks"]

# The margins of a block, 1 MB, are in the L2 cache, and those of a run of blocks in the L3 cache.
ROWS_PER_BLOCK, BLOCKS_PER_RUN = 1 << 17, 8
# With fewer rows of a part in a block, to cut parts takes longer than it saves.
MIN_ROWS = 1 << 7


class RowBlocks:
    """Parts that are cut where a block of rows ends, in the order of blocks (see `cut_parts`).

    Parameters
    ----------
    parts, rows
        See `cut_parts`.
    n_rows
        The number of rows.
    """

    def __init__(self, parts: Pieces, rows: npt.NDArray[np.uint32], n_rows: int) -> None:
        is_cut = len(parts) * MIN_ROWS <= ROWS_PER_BLOCK
        ends = np.append(np.arange(ROWS_PER_BLOCK, n_rows, ROWS_PER_BLOCK) if is_cut else [], n_rows).astype(np.int64)
        cut, self._blocks = np.empty((len(parts) * len(ends), 3), np.int64), np.empty(len(ends) + 1, np.int64)
        self._parts = cut[: cut_parts(parts, rows, ends, cut, self._blocks)]

    def runs(self, n_shares: int) -> Iterator[Shares]:
        """Yield the parts of some blocks in turn, in so many shares of about as many rows each."""
        for block in range(0, len(self._blocks) - 1, BLOCKS_PER_RUN):
            first, last = self._blocks[block], self._blocks[min(block + BLOCKS_PER_RUN, len(self._blocks) - 1)]
            yield _shared(self._parts[first:last], n_shares)


def _shared(parts: Pieces, n_shares: int) -> Shares:
    total: IntArray = np.cumsum(parts[:, 2] - parts[:, 1])
    n_rows = int(total[-1]) if len(total) else 0
    bounds = np.searchsorted(total, np.arange(1, n_shares) * n_rows // n_shares)
    return parts, np.concatenate([[0], bounds, [len(parts)]])

"""Which rows each node of a growing tree has: one array of row numbers, those of a node side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.engines.memory.partition_kernels import move_pieces, number_rows, shares_of
from frameboost.runtime.workers import Pieces, Shares, Workers

__all__ = ["RowPartition"]

# Fewer rows are dealt with before another thread wakes up.
_SMALLEST_TASK = 1 << 17


class RowPartition:
    """The rows by node.

    Attributes
    ----------
    rows
        uint32 (2 rows,): two halves, each with room for all rows. Of a piece's rows those that go to one child are
        written to the front of the same place in the other half, all else to its back, and stay there.
    pieces
        int64 (pieces, 3): a node that has not been split, and a part of ``rows`` that it has. There is more than one of
        a node where several threads have parted its, or its ancestors', rows.
    """

    def __init__(self, n_rows: int, workers: Workers) -> None:
        self.rows = np.empty(2 * n_rows, dtype=np.uint32)
        self.pieces: Pieces = np.empty((0, 3), dtype=np.int64)
        self._workers = workers
        self._n_nodes = 0

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows) // 2

    def start_tree(self) -> None:
        """Give all rows to the root, node 0, in their order."""
        number_rows(self.rows[: self.n_rows])
        self.pieces = np.array([[0, 0, self.n_rows]])
        self._n_nodes = 1

    def order(self) -> npt.NDArray[np.uint32]:
        """Return the rows node by node."""
        by_node = self.pieces[np.argsort(self.pieces[:, 0], kind="stable")]
        return np.concatenate([self.rows[:0], *(self.rows[start:stop] for _, start, stop in by_node.tolist())])

    def shares(self, nodes: Sequence[int], smallest: int | None = None) -> Shares:
        """Share the rows of some nodes out between threads, none with fewer than ``smallest`` if there are several.

        In the pieces, nodes are their places in ``nodes``.
        """
        smallest = self._workers.smallest(_SMALLEST_TASK if smallest is None else smallest)
        wanted = np.array(nodes, dtype=np.int64)
        parts, firsts = shares_of(wanted, self.pieces, self._n_nodes, self._workers.n_jobs, smallest)
        return parts, firsts

    def split(self, nodes: Sequence[int], children: Pieces, part: Callable[[Shares], npt.NDArray[np.int64]]) -> None:
        """Give the rows of nodes to their children.

        Parameters
        ----------
        nodes
            The nodes, none of which has been split.
        children
            int64 (nodes, 2): of each its left and its right child; no number is larger than the last.
        part
            Copies parts of rows, each of which starts with its node's place in ``nodes``, to the other half: what goes
            left from the front of a part on, all else from its back. Returns how many rows of each go left.
        """
        shares = self.shares(nodes)
        n_left = part(shares)
        self.pieces = move_pieces(np.array(nodes), children, self.pieces, shares[0], n_left, self.n_rows, self._n_nodes)
        self._n_nodes = max(self._n_nodes, int(children[-1, 1]) + 1)

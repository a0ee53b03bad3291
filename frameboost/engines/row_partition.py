"""Which rows each node of a growing tree has: one array of row numbers, those of a node side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.engines.histogram_kernels import copy_parts, number_rows
from frameboost.parallel import Pieces, Workers

__all__ = ["RowPartition"]

# Below so many rows a thread costs more than it saves.
_SMALLEST_TASK = 1 << 15


class RowPartition:
    """The rows by node.

    Attributes
    ----------
    rows
        uint32 (2 rows,): two halves, each with room for all rows. What a node has is in one of them; the rows of its
        children are written to the same place of the other, so that none have to be brought back.
    ranges
        int64 (nodes, 2): the part of ``rows`` that is a node's own, empty once it has been split.
    """

    def __init__(self, n_rows: int, workers: Workers) -> None:
        self.rows = np.empty(2 * n_rows, dtype=np.uint32)
        self.ranges: npt.NDArray[np.int64] = np.empty((0, 2), dtype=np.int64)
        self._workers = workers

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows) // 2

    def start_tree(self) -> None:
        """Give all rows to the root, node 0, in their order."""
        number_rows(self.rows[: self.n_rows])
        self.ranges = np.array([[0, self.n_rows]])

    def order(self) -> npt.NDArray[np.uint32]:
        """Return the rows node by node."""
        return np.concatenate([self.rows[start:stop] for start, stop in self.ranges.tolist()])

    def shares(self, nodes: Sequence[int]) -> list[Pieces]:
        """Share the rows of some nodes out between threads; see `Workers.shares`."""
        return self._workers.shares(self.ranges[list(nodes)], _SMALLEST_TASK)

    def split(self, nodes: Sequence[int], children: Pieces, part: Callable[[Pieces], npt.NDArray[np.int64]]) -> None:
        """Give the rows of nodes to their children.

        Parameters
        ----------
        nodes
            The nodes, none of which has been split.
        children
            int64 (nodes, 2): of each its left and its right child.
        part
            Copies pieces of rows, each of which starts with its node's place in ``nodes``, to the other half: what goes
            left from the front of a piece on, all else from its back. Returns how many rows of each go left.
        """
        shares = self.shares(nodes)
        counts = self._workers.each(shares, part)
        n_left, n_pieces = np.zeros((2, len(nodes)), dtype=np.int64)
        for share, own in zip(shares, counts, strict=True):  # which has one piece of a node at most
            n_left[share[:, 0]] += own
            n_pieces[share[:, 0]] += 1
        starts, stops = self.ranges[list(nodes)].T
        middles = starts + n_left
        is_cut = n_pieces > 1
        if is_cut.any():
            self._join(shares, counts, is_cut, starts.copy(), middles.copy())
        other = np.where(is_cut, 0, self._to_other_half(starts))
        ranges = np.zeros((int(children.max()) + 1, 2), dtype=np.int64)
        ranges[: len(self.ranges)] = self.ranges
        ranges[list(nodes)] = 0
        lefts, rights = children.T
        ranges[lefts, 0], ranges[rights, 1] = starts + other, stops + other
        ranges[lefts, 1] = ranges[rights, 0] = middles + other
        self.ranges = ranges

    def _to_other_half(self, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.where(starts < self.n_rows, self.n_rows, -self.n_rows)

    def _join(
        self,
        shares: Sequence[Pieces],
        counts: Sequence[npt.NDArray[np.int64]],
        is_cut: npt.NDArray[np.bool_],
        lefts: npt.NDArray[np.int64],
        rights: npt.NDArray[np.int64],
    ) -> None:
        """Bring the rows of nodes that several threads have had a share of back, each side of all shares in one.

        ``lefts`` and ``rights`` are where the next rows of a node's sides go; they are changed.
        """
        back = []
        for share, own in zip(shares, counts, strict=True):
            cut = is_cut[share[:, 0]]
            node, start, stop = share[cut].T
            middle = start + own[cut]
            there = self._to_other_half(start)
            back.append(
                np.concatenate(
                    [
                        np.stack([start + there, middle + there, lefts[node]], axis=1),
                        np.stack([middle + there, stop + there, rights[node]], axis=1),
                    ]
                )
            )
            lefts[node] += middle - start
            rights[node] += stop - middle
        self._workers.each(back, lambda parts: copy_parts(self.rows, parts))

"""Which rows each node of a growing tree has: one array of row numbers, those of a node side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.engines.histogram_kernels import copy_parts, number_rows
from frameboost.parallel import Piece, Workers

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
        Of each node that has not been split the part of ``rows`` that is its own.
    """

    def __init__(self, n_rows: int, workers: Workers) -> None:
        self.rows = np.empty(2 * n_rows, dtype=np.uint32)
        self.ranges: dict[int, tuple[int, int]] = {}
        self._workers = workers

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.rows) // 2

    def start_tree(self) -> None:
        """Give all rows to the root, node 0, in their order."""
        number_rows(self.rows[: self.n_rows])
        self.ranges = {0: (0, self.n_rows)}

    def order(self) -> npt.NDArray[np.uint32]:
        """Return the rows node by node."""
        return np.concatenate([self.rows[start:stop] for start, stop in self.ranges.values()])

    def shares(self, nodes: Sequence[int]) -> list[list[Piece]]:
        """Share the rows of some nodes out between threads; see `Workers.shares`."""
        return self._workers.shares([self.ranges[node] for node in nodes], _SMALLEST_TASK)

    def split(self, children: Mapping[int, tuple[int, int]], part: Callable[[Sequence[Piece]], Sequence[int]]) -> None:
        """Give the rows of nodes to their children.

        Parameters
        ----------
        children
            Of each node its left and its right child.
        part
            Copies pieces of rows, each of which starts with its node's place among ``children``, to the other half:
            what goes left from the front of a piece on, all else from its back. Returns how many rows of each go left.
        """
        shares = self.shares(list(children))
        pieces: list[list[tuple[int, int, int]]] = [[] for _ in children]
        for share, counts in zip(shares, self._workers.each(shares, part), strict=True):
            for (place, start, stop), n_left in zip(share, counts, strict=True):
                pieces[place].append((start, stop, n_left))
        back: list[list[tuple[int, int, int]]] = []
        for (node, (left, right)), own in zip(children.items(), pieces, strict=True):
            first, last = self.ranges.pop(node)
            other = self.n_rows if first < self.n_rows else -self.n_rows
            middle = first + sum(n_left for _, _, n_left in own)
            if len(own) > 1:  # threads have had shares of it, each of which has two sides now
                back += _joined(own, other, first, middle)
                other = 0
            self.ranges[left] = first + other, middle + other
            self.ranges[right] = middle + other, last + other
        self._workers.each(back, lambda parts: copy_parts(self.rows, np.array(parts)))


def _joined(
    pieces: Sequence[tuple[int, int, int]], other: int, left: int, right: int
) -> list[list[tuple[int, int, int]]]:
    """Return what to copy back of a node's pieces, ``other`` further on, so that each side is in one; see `copy_parts`.

    Sides start at ``left`` and ``right``.
    """
    found = []
    for start, stop, n_left in pieces:
        middle = start + n_left
        found.append([(start + other, middle + other, left), (middle + other, stop + other, right)])
        left += n_left
        right += stop - middle
    return found

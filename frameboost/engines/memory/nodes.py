"""Which rows each node of a growing tree has: row numbers, partitioned by splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import MAX_IN_NUMPY, Codes
from frameboost.engines.memory.grown_splits import GrownSplits
from frameboost.engines.memory.partition_kernels import (
    add_by_node,
    add_by_side,
    move_pieces,
    number_rows,
    part_rows,
    shares_of,
)
from frameboost.engines.memory.piece_arrays import are_in_numpy, children_of, one_share
from frameboost.engines.memory.row_blocks import RowBlocks
from frameboost.engines.memory.sampling_kernels import part_drawn
from frameboost.engines.memory.split_tables import SplitColumns, SplitTables
from frameboost.runtime.task_sizes import MOVED_ROWS_PER_TASK, VALUES_PER_TASK
from frameboost.runtime.workers import Pieces, Shares, Workers
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["RowPartition"]

# What adds to the rows of shares, given the threads, the parts and the first of each share.
_Addition = Callable[[IntArray | None, Pieces, IntArray], None]


class RowPartition:
    """Row numbers, those of a node side by side: a double buffer that splits copy from one half to the other.

    Say node 0 has six rows, of which 1, 2 and 5 go left. One pass reads its range in one half, and writes left rows to
    the front and right rows to the back of the same range in the other half (right rows come out in reverse; no sum
    depends on their order)::

        position    0 1 2 3 4 5 | 6 7 8 9 10 11
        before      0 1 2 3 4 5 | . . . . .  .      node 0: 0 to 6
        after       (free again)| 1 2 5 4 3  0      node 1: 6 to 9, node 2: 9 to 12

    Should node 2 be split next, its rows go from 9 to 12 to the range 3 to 6, while those of node 1 stay.

    Splits wait until the rows of a node are asked for. Rows of the last level never are: `add_leaf_values` looks up the
    side of the split for each row instead, which saves one of six partitions of a tree of depth 6.

    Attributes
    ----------
    pieces
        int64 (pieces, 3): node, start, stop: a range of ``rows`` that belongs to a leaf of the tree so far, without the
        splits that wait. A leaf has several where several threads have partitioned its rows, or those of an ancestor.
    add_in_blocks
        Whether leaf values are added to one block of rows after the other, as the rows of a leaf lie far apart. Not
        where splits compare sparse columns, which are made dense in turn.
    """

    add_in_blocks = False

    def __init__(self, n_rows: int, workers: Workers) -> None:
        self._rows = np.empty(2 * n_rows, np.uint32)
        self._are_numbered = True
        self.pieces: Pieces = np.empty((0, 3), dtype=np.int64)
        self._workers = workers
        self._is_in_numpy = are_in_numpy(n_rows)
        self._n_nodes = 0
        self._n_added = n_rows
        self._waiting: SplitTables | GrownSplits | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._rows) // 2

    @property
    def rows(self) -> npt.NDArray[np.uint32]:
        """The two halves, uint32 (2 rows,); the rows are numbered when a tree first asks for them."""
        if not self._are_numbered:
            self._number()
        return self._rows

    @property
    def is_split(self) -> bool:
        """Whether the tree has more than the root."""
        return self._n_nodes > 1 or self._waiting is not None

    def start_tree(self) -> None:
        """Give all rows to the root, node 0, in ascending order."""
        self._are_numbered = False
        self.pieces = np.array([[0, 0, self.n_rows]])
        self._n_nodes = 1
        self._n_added = self.n_rows
        self._waiting = None

    def _number(self) -> None:
        rows, self._are_numbered = self._rows[: self.n_rows], True
        if self.n_rows <= MAX_IN_NUMPY:
            rows[:] = np.arange(self.n_rows, dtype=np.uint32)
        else:
            self._workers.over(self.n_rows, lambda *slice_: number_rows(rows, *slice_), smallest=VALUES_PER_TASK)

    def rows_to_write(self) -> npt.NDArray[np.uint32]:
        """Return the two halves for the caller to number: what is in them does not count."""
        self._are_numbered = True
        return self._rows

    def set_apart(self, gh: FloatArray) -> None:
        """Leave the rows of the root whose g and h are zero out of `shares`; they follow the splits all the same.

        They come last in the root, in a piece of their own. A split keeps the rows of a piece in the same range of a
        half, so what comes before that range are the other rows, in every node.
        """
        self._n_added = part_drawn(gh, self.rows_to_write()[: self.n_rows])
        self.pieces = np.array([[0, 0, self._n_added], [0, self._n_added, self.n_rows]])

    def set_leaves(self, splits: GrownSplits) -> None:
        """Take over rows that have been partitioned by a tree, but for the last splits."""
        self.pieces, self._n_added, self._n_nodes = splits.pieces, self.n_rows, len(splits.fields)
        self._waiting = splits if splits.n_parted < len(splits.pieces) else None

    def write_order(self, out: npt.NDArray[np.uint32]) -> None:
        """Write all rows, node by node."""
        self._carry_out()
        by_node = self.pieces[np.argsort(self.pieces[:, 0], kind="stable")]
        np.concatenate([self.rows[:0], *(self.rows[start:stop] for _, start, stop in by_node.tolist())], out=out)

    def shares(self, nodes: Sequence[int], smallest: int | None = None) -> Shares:
        """Divide the rows of some nodes into one share per thread, none smaller than ``smallest`` if there are several.

        In the pieces of a share, a node is its place in ``nodes``. Rows that are set apart are left out.
        """
        self._carry_out()
        pieces = self.pieces
        if self._n_added < self.n_rows:
            pieces = pieces[pieces[:, 1] % self.n_rows < self._n_added]
        return self._shares(nodes, pieces, smallest)

    def has_all_in_order(self, nodes: Sequence[int]) -> bool:
        """Whether these nodes are the root alone, which still has all rows in ascending order."""
        return len(nodes) == 1 and self._n_nodes == 1 and self._n_added == self.n_rows

    def _shares(self, nodes: Sequence[int], pieces: Pieces, smallest: int | None = None) -> Shares:
        wanted = np.array(nodes, dtype=np.int64)
        if self._is_in_numpy:
            return one_share(wanted, pieces, self._n_nodes)
        smallest = self._workers.smallest(MOVED_ROWS_PER_TASK if smallest is None else smallest)
        parts, firsts = shares_of(wanted, pieces, self._n_nodes, self._workers.n_jobs, smallest)
        return parts, firsts

    def split(self, nodes: Sequence[int], children: Pieces, part: Callable[[Shares], npt.NDArray[np.int64]]) -> None:
        """Move the rows of nodes to their children.

        Parameters
        ----------
        nodes
            The nodes, all of them leaves so far.
        children
            int64 (nodes, 2): the left and the right child of each.
        part
            Copies shares to the other half as `part_rows` does, and returns how many rows of each piece go left.
        """
        shares = self._shares(nodes, self.pieces)
        moved = np.array(nodes), children, self.pieces, shares[0], part(shares), self.n_rows, self._n_nodes
        self.pieces = children_of(*moved) if self._is_in_numpy else move_pieces(*moved)
        self._n_nodes = max(self._n_nodes, int(children.max()) + 1)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]], columns: SplitColumns) -> None:
        """Move the rows of each node to its children, on demand: node -> (split, left child, right child)."""
        self._carry_out()
        self._waiting = SplitTables(splits, columns, in_numpy=self._is_in_numpy)

    def _carry_out(self) -> None:
        """Carry out the splits that wait."""
        if self._waiting is None:
            return
        splits, self._waiting = self._waiting, None

        def part(shares: Shares) -> npt.NDArray[np.int64]:
            parts, firsts = shares
            counts = np.empty(len(parts), dtype=np.int64)
            team = self._workers.team(len(firsts) - 1)
            for codes, indices in splits.columns():
                part_rows(team, codes, indices, splits.goes_left, splits.starts, self.rows, parts, firsts, counts)
            return counts

        self.split(splits.nodes, splits.children, part)

    def add_leaf_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """Add each leaf's value (node -> value) to the margins of its rows."""
        additions = ((nodes, add) for nodes, add in self._additions(values, margins) if len(nodes))
        if not self.add_in_blocks:
            for nodes, add in additions:
                self._add(add, self._shares(nodes, self.pieces))
            return
        runs = []
        given = list(additions)
        for nodes, _ in given:
            parts, firsts = self._shares(nodes, self.pieces)
            runs.append(RowBlocks(parts, self.rows, self.n_rows).runs(len(firsts) - 1))
        for run in zip_longest(*runs):
            for (_, add), shares in zip(given, run, strict=True):
                if shares is not None:
                    self._add(add, shares)

    def _add(self, add: _Addition, shares: Shares) -> None:
        add(self._workers.team(len(shares[1]) - 1), *shares)

    def _additions(self, values: Mapping[int, float], margins: FloatArray) -> Iterator[tuple[Sequence[int], _Addition]]:
        """Yield nodes, and what adds values to their rows: leaves, and those whose splits wait."""
        splits = self._waiting
        children = set() if splits is None else set(splits.children.ravel().tolist())
        nodes = [node for node in values if node not in children]
        of_nodes = np.array([values[node] for node in nodes])

        def add_to_leaves(team: IntArray | None, parts: Pieces, firsts: IntArray) -> None:
            add_by_node(team, margins, self.rows, parts, firsts, of_nodes)

        yield nodes, add_to_leaves
        if splits is None:
            return
        sides = np.array([(values[left], values[right]) for left, right in splits.children.tolist()])
        for codes, indices in splits.columns():
            # The rows of these splits are shared out apart, so that no thread waits while others have all of them.
            own = np.flatnonzero(indices >= 0)
            add = partial(self._add_sides, codes, indices[own], splits, own, sides[own], margins)
            yield [splits.nodes[split] for split in own.tolist()], add

    def _add_sides(
        self, codes: Codes, indices: IntArray, splits: SplitTables | GrownSplits, own: IntArray, sides: FloatArray,
        margins: FloatArray, team: IntArray | None, parts: Pieces, firsts: IntArray,
    ) -> None:  # fmt: skip
        starts = splits.starts[own]
        add_by_side(team, codes, indices, splits.goes_left, starts, self.rows, parts, firsts, sides, margins)

    def add_values(self, values: FloatArray, margins: FloatArray) -> None:
        """Add ``values``, float64 (nodes,), to the margins of the rows after `set_leaves`, on this thread."""
        if isinstance(self._waiting, GrownSplits):
            self._waiting.add_values(values, self.rows, margins)
        else:
            add_by_node(None, margins, self.rows, self.pieces, np.array([0, len(self.pieces)]), values)

    def leaves(self, *, drawn_only: bool = True) -> dict[int, npt.NDArray[np.uint32]]:
        """Return the rows of each leaf that has any, without those that are set apart unless all are asked for."""
        self._carry_out()
        found: dict[int, list[npt.NDArray[np.uint32]]] = {}
        for node, start, stop in self.pieces.tolist():
            if start < stop and (start % self.n_rows < self._n_added or not drawn_only):
                found.setdefault(node, []).append(self.rows[start:stop])
        return {node: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for node, pieces in found.items()}

    def of_rows(self) -> npt.NDArray[np.int32]:
        """Return the node of every row."""
        self._carry_out()
        node_of = np.empty(self.n_rows, dtype=np.int32)
        for node, start, stop in self.pieces.tolist():
            node_of[self.rows[start:stop]] = node
        return node_of

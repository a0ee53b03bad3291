"""The rows of each node of a growing tree: row numbers, partitioned by splits.

- `RowPartition`: the rows of each node, and the update of margins by leaf values
- `SplitTables`, `GrownSplits`: splits of several nodes as tables for kernels
- `part_rows`, `add_by_node`, `add_by_side`: the kernels over rows; the kernels before them divide rows into shares
- `one_share`, `children_of`, `sides_of`: the same in numpy, for so few rows that compiling kernels does not pay off

A row is a number below 2³²; a piece of a node is int64 (node, start, stop), a range of row numbers. In kernels, indices
are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.engines.contract import GrownNodes
from frameboost.engines.memory.limits import BLOCKS_PER_RUN, MAX_ROWS_IN_NUMPY, MIN_ROWS_OF_PART, ROWS_PER_BLOCK
from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import CompileLater, kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import MOVED_ROWS_PER_TASK, VALUES_PER_TASK, Pieces, RowNumbers, Shares, Workers
from frameboost.splits.split import BoolArray, FloatArray, IntArray, Split

__all__ = [
    "ColumnGroups", "GrownSplits", "RowPartition", "SplitColumns", "SplitTables", "fill_side", "number_rows", "parting",
    "take_all", "take_rows",
]  # fmt: skip

# Adds to the rows of shares: of the threads, the parts and the first of each share.
_Addition = Callable[[IntArray, Pieces, IntArray], None]


class RowPartition:
    """Row numbers, contiguous by node, in a double buffer: splits copy rows from one half to the other.

    Example: node 0 has six rows, and rows 1, 2 and 5 go left. One pass reads its range in one half, and writes left
    rows to the front and right rows to the back of the same range in the other half (right rows are reversed; no sum
    depends on their order)::

        position    0 1 2 3 4 5 | 6 7 8 9 10 11
        before      0 1 2 3 4 5 | . . . . .  .      node 0: 0 to 6
        after       (free again)| 1 2 5 4 3  0      node 1: 6 to 9, node 2: 9 to 12

    If node 2 is split next, its rows are copied from 9 to 12 to 3 to 6, while those of node 1 stay.

    Splits are deferred until the rows of a node are read. Rows of the last level are never read: `add_leaf_values`
    looks up the side of the split for each row instead, which saves one of six partitions of a tree of depth 6.

    Attributes
    ----------
    pieces
        int64 (pieces, 3): node, start, stop: a range of ``rows`` of a leaf of the tree, without deferred splits. A leaf
        has several pieces if several threads have partitioned its rows or those of an ancestor.
    add_in_blocks
        Whether leaf values are added one block of rows at a time, because the rows of a leaf are scattered. Not with
        splits on sparse columns, which are made dense in turn.
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
    def rows(self) -> RowNumbers:
        """The two halves, uint32 (2 rows,); rows are numbered at the first read by a tree."""
        if not self._are_numbered:
            self._number()
        return self._rows

    @property
    def is_split(self) -> bool:
        """Whether the tree has more than the root."""
        return self._n_nodes > 1 or self._waiting is not None

    def start_tree(self) -> None:
        """Assign all rows to the root, node 0, in ascending order."""
        self._are_numbered = False
        self.pieces = np.array([[0, 0, self.n_rows]])
        self._n_nodes = 1
        self._n_added = self.n_rows
        self._waiting = None

    def _number(self) -> None:
        rows, self._are_numbered = self._rows[: self.n_rows], True
        self._workers.over(self.n_rows, lambda *slice_: number_rows(rows, *slice_), smallest=VALUES_PER_TASK)

    def rows_to_write(self) -> RowNumbers:
        """Return the two halves for the caller to fill; their contents are undefined."""
        self._are_numbered = True
        return self._rows

    def set_apart(self, gh: FloatArray) -> None:
        """Exclude the rows of the root with zero g and h from `shares`; splits still move them.

        They are the last rows of the root, in a separate piece. A split keeps the rows of a piece in the same range of
        a half, so in every node the other rows precede that range.
        """
        self._n_added = part_drawn(gh, self.rows_to_write()[: self.n_rows])
        self.pieces = np.array([[0, 0, self._n_added], [0, self._n_added, self.n_rows]])

    def set_leaves(self, splits: GrownSplits) -> None:
        """Take over the rows of a grown tree, partitioned by all but its last splits."""
        self.pieces, self._n_added, self._n_nodes = splits.pieces, self.n_rows, len(splits.grown.left)
        self._waiting = splits if splits.n_parted < len(splits.pieces) else None

    def write_order(self, out: RowNumbers) -> None:
        """Write all rows, node by node."""
        self._carry_out()
        by_node = self.pieces[np.argsort(self.pieces[:, 0], kind="stable")]
        np.concatenate([self.rows[:0], *(self.rows[start:stop] for _, start, stop in by_node.tolist())], out=out)

    def shares(
        self, nodes: Sequence[int] | IntArray, smallest: int | None = None, *, drawn_only: bool = True
    ) -> Shares:
        """Divide the rows of some nodes into one share per thread, each of ``smallest`` rows or more if several.

        In the pieces of a share, a node is its index in ``nodes``. ``drawn_only`` excludes rows that are set apart.
        """
        self._carry_out()
        pieces = self.pieces
        if drawn_only and self._n_added < self.n_rows:
            pieces = pieces[pieces[:, 1] % self.n_rows < self._n_added]
        return self._shares(nodes, pieces, smallest)

    def has_all_in_order(self, nodes: Sequence[int]) -> bool:
        """Whether these nodes are the root alone, with all rows in ascending order."""
        return len(nodes) == 1 and self._n_nodes == 1 and self._n_added == self.n_rows

    def _shares(self, nodes: Sequence[int] | IntArray, pieces: Pieces, smallest: int | None = None) -> Shares:
        numbers = np.array(nodes, dtype=np.int64)
        if self._is_in_numpy:
            return one_share(numbers, pieces, self._n_nodes)
        smallest = self._workers.smallest(MOVED_ROWS_PER_TASK if smallest is None else smallest)
        parts, firsts = shares_of(numbers, pieces, self._n_nodes, self._workers.n_jobs, smallest)
        return parts, firsts

    def split(self, nodes: Sequence[int], children: Pieces, part: Callable[[Shares], npt.NDArray[np.int64]]) -> None:
        """Move the rows of nodes to their children.

        Parameters
        ----------
        nodes
            The nodes, all of them leaves before.
        children
            int64 (nodes, 2): the left and the right child of each.
        part
            A function that copies shares to the other half as `part_rows` does, and returns the number of rows of each
            piece that go left.
        """
        shares = self._shares(nodes, self.pieces)
        moved = np.array(nodes), children, self.pieces, shares[0], part(shares), self.n_rows, self._n_nodes
        self.pieces = children_of(*moved) if self._is_in_numpy else move_pieces(*moved)
        self._n_nodes = max(self._n_nodes, int(children.max()) + 1)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]], columns: SplitColumns) -> None:
        """Record splits of nodes, deferred until rows are read: node -> (split, left child, right child)."""
        self._carry_out()
        self._waiting = SplitTables(splits, columns, in_numpy=self._is_in_numpy)

    def _carry_out(self) -> None:
        """Execute the deferred splits."""
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
        # Lazily: dense columns of sparse features are overwritten by the next ones.
        additions = ((nodes, add) for nodes, add in self._additions(values, margins) if len(nodes))
        if not self.add_in_blocks:
            for nodes, add in additions:
                self._add(add, self._shares(nodes, self.pieces))
            return
        runs = []
        all_additions = list(additions)
        for nodes, _ in all_additions:
            parts, firsts = self._shares(nodes, self.pieces)
            runs.append(RowBlocks(parts, self.rows, self.n_rows).runs(len(firsts) - 1))
        for run in zip_longest(*runs):
            for (_, add), shares in zip(all_additions, run, strict=True):
                if shares is not None:
                    self._add(add, shares)

    def _add(self, add: _Addition, shares: Shares) -> None:
        add(self._workers.team(len(shares[1]) - 1), *shares)

    def _additions(self, values: Mapping[int, float], margins: FloatArray) -> Iterator[tuple[Sequence[int], _Addition]]:
        """Yield nodes, with functions that add values to their rows: leaves, and nodes with deferred splits."""
        splits = self._waiting
        children = set() if splits is None else set(splits.children.ravel().tolist())
        nodes = [node for node in values if node not in children]
        of_nodes = np.array([values[node] for node in nodes])

        def add_to_leaves(team: IntArray, parts: Pieces, firsts: IntArray) -> None:
            add_by_node(team, margins, self.rows, parts, firsts, of_nodes)

        yield nodes, add_to_leaves
        if splits is None:
            return
        sides = np.array([(values[left], values[right]) for left, right in splits.children.tolist()])
        for codes, indices in splits.columns():
            # The rows of these splits are shared out apart, so that no thread waits while others have all of them.
            selected = np.flatnonzero(indices >= 0)
            add = partial(self._add_sides, codes, indices[selected], splits, selected, sides[selected], margins)
            yield [splits.nodes[split] for split in selected.tolist()], add

    def _add_sides(
        self, codes: Codes, indices: IntArray, splits: SplitTables | GrownSplits, selected: IntArray, sides: FloatArray,
        margins: FloatArray, team: IntArray, parts: Pieces, firsts: IntArray,
    ) -> None:  # fmt: skip
        starts = splits.starts[selected]
        add_by_side(team, codes, indices, splits.goes_left, starts, self.rows, parts, firsts, sides, margins)

    def add_values(self, values: FloatArray, margins: FloatArray) -> None:
        """Add ``values``, (outputs, nodes), to the margins, (outputs, rows), after `set_leaves`, on this thread."""
        if isinstance(self._waiting, GrownSplits):
            self._waiting.add_values(values, self.rows, margins)
            return
        team, firsts = self._workers.team(1), np.array([0, len(self.pieces)])
        for of_output, margin in zip(values, margins, strict=True):
            add_by_node(team, margin, self.rows, self.pieces, firsts, of_output)

    def leaves(self) -> dict[int, RowNumbers]:
        """Return the rows of each nonempty leaf, without those set apart."""
        self._carry_out()
        parts: dict[int, list[RowNumbers]] = {}
        for node, start, stop in self.pieces.tolist():
            if start < stop and start % self.n_rows < self._n_added:
                parts.setdefault(node, []).append(self.rows[start:stop])
        return {node: pieces[0] if len(pieces) == 1 else np.concatenate(pieces) for node, pieces in parts.items()}

    def of_rows(self) -> npt.NDArray[np.int32]:
        """Return the node of every row."""
        self._carry_out()
        node_of = np.empty(self.n_rows, dtype=np.int32)
        for node, start, stop in self.pieces.tolist():
            node_of[self.rows[start:stop]] = node
        return node_of


# --- splits of several nodes as tables --------------------------------------------------------------------------------


class SplitColumns(Protocol):
    """The columns of codes, or ranks, that splits compare."""

    @property
    def n_codes(self) -> IntArray:
        """The number of codes of each feature, int64 (features,). The last code is that of missing values."""

    def compared(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield columns, (columns, rows), and the one that each split on these features compares (-1 for none).

        Each split gets its column once, and the array may be overwritten afterwards.
        """

    def sides(self, features: IntArray, goes_left: BoolArray, starts: IntArray) -> tuple[BoolArray, IntArray]:
        """Return whether each code of the compared columns goes left, from the sides of the features' codes."""


@dataclass(frozen=True)
class ColumnGroups:
    """`SplitColumns` in one array per dtype of codes.

    Attributes
    ----------
    groups
        For each dtype: int64 (features,), the index of each feature's column, -1 for another dtype; and the columns,
        (columns, rows).
    n_codes
        See `SplitColumns`.
    """

    groups: Sequence[tuple[IntArray, Codes]]
    n_codes: IntArray

    def compared(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """See `SplitColumns.compared`."""
        return ((codes, indices[features]) for indices, codes in self.groups)

    def sides(self, features: IntArray, goes_left: BoolArray, starts: IntArray) -> tuple[BoolArray, IntArray]:
        """See `SplitColumns.sides`."""
        return goes_left, starts


class SplitTables:
    """Splits of several nodes as tables for kernels.

    Attributes
    ----------
    nodes, children
        The nodes, and int64 (nodes, 2): the left and the right child of each.
    goes_left, starts
        Whether each code goes left, concatenated over splits, and the start of each split.

    Parameters
    ----------
    splits
        node -> (split, left child, right child).
    columns
        The columns that splits compare.
    in_numpy
        Whether to write the tables in numpy, to avoid compiling a kernel.
    """

    def __init__(
        self, splits: Mapping[int, tuple[Split, int, int]], columns: SplitColumns, *, in_numpy: bool = False
    ) -> None:
        self.nodes = list(splits)
        self.children: Pieces = np.array([(left, right) for _, left, right in splits.values()])
        chosen = [split for split, _, _ in splits.values()]
        features = np.array([split.feature for split in chosen])
        n_codes = columns.n_codes[features]
        missing_left = np.array([split.missing_left for split in chosen])
        numeric = np.array([split.bin for split in chosen]), missing_left, n_codes
        sides: tuple[BoolArray, IntArray] = sides_of(*numeric) if in_numpy else fill_sides(*numeric)
        goes_left, starts = sides
        for split, start, n in zip(chosen, starts.tolist(), n_codes.tolist(), strict=False):
            if split.categories is not None:
                goes_left[start : start + n] = split.goes_left(n)
        self.goes_left, self.starts = columns.sides(features, goes_left, starts)
        self._features, self._columns = features, columns

    def columns(self) -> Iterator[tuple[Codes, IntArray]]:
        """Yield columns, and the one that each split compares (-1 for none), until each split had its column."""
        return self._columns.compared(self._features)


@dataclass(frozen=True)
class GrownSplits:
    """The last splits of a tree grown in one call, as `SplitTables`: rows are moved only when they are read.

    Attributes
    ----------
    pieces, n_parted
        int64 (pieces, 3): node, start and stop of ``n_parted`` ranges of leaves, then of the split nodes.
    grown
        The nodes of the tree.
    codes
        uint16 (features, rows).
    """

    pieces: Pieces
    n_parted: int
    grown: GrownNodes
    codes: Codes

    @property
    def _numbers(self) -> IntArray:
        return self.pieces[self.n_parted :, 0]

    @property
    def nodes(self) -> Sequence[int]:
        """The split nodes."""
        return list(map(int, self._numbers))

    @property
    def children(self) -> Pieces:
        """int64 (nodes, 2): the left and the right child of each."""
        left = self.grown.left[self._numbers]
        return np.stack([left, left + 1], axis=1)

    @property
    def goes_left(self) -> BoolArray:
        """The tables of all splits."""
        return self.grown.goes_left

    @property
    def starts(self) -> IntArray:
        """int64 (nodes,): the start of each node's table in ``goes_left``."""
        return self.grown.table[self._numbers]

    def columns(self) -> Iterator[tuple[Codes, IntArray]]:
        """Yield the columns, and the one that each split compares."""
        yield self.codes, self.grown.feature[self._numbers]

    def add_values(self, values: FloatArray, rows: RowNumbers, margins: FloatArray) -> None:
        """Add the ``values`` of leaves, float64 (outputs, nodes of the tree), to the margins of their rows."""
        grown = self.grown
        add_grown_leaves(
            self.codes, grown.feature, grown.left, grown.table, grown.goes_left, rows, self.pieces, self.n_parted,
            values, margins,
        )  # fmt: skip


# --- kernels: pieces and shares ---------------------------------------------------------------------------------------


_ONE = np.uint64(1)


@kernel(inline="always")
def _zeros(count):  # type: ignore[no-untyped-def]
    """Return int64 zeros; numba takes three times as long to compile `numpy.zeros`."""
    zeros = np.empty(count, dtype=np.int64)
    for i in range(count):
        zeros[i] = 0
    return zeros


@kernel(inline="always")
def number_rows(rows, first, last):  # type: ignore[no-untyped-def]
    """Write the row positions ``first`` to ``last - 1``, to ``rows`` (uint32)."""
    for i in range(np.uint64(first), np.uint64(last)):  # indices that are signed would be checked
        rows[i] = i


@kernel(inline="always")
def pieces_of(nodes, pieces, n_nodes):  # type: ignore[no-untyped-def]
    """Return the pieces of some nodes in the order of ``nodes``, with each node replaced by its index in it.

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
    selected = np.empty((ends[-1], 3), dtype=np.int64)
    for piece in range(len(pieces)):
        index_of_piece = index[pieces[piece, 0]]
        if index_of_piece >= 0:
            at = ends[index_of_piece]
            selected[at, 0], selected[at, 1], selected[at, 2] = index_of_piece, pieces[piece, 1], pieces[piece, 2]
            ends[index_of_piece] += 1
    return selected


@kernel(inline="always")
def share_pieces(pieces, most, smallest):  # type: ignore[no-untyped-def]
    """Divide the rows of pieces, in order, into shares of equal size.

    Example: two threads share 10 rows in the pieces (0, 0, 7) and (1, 7, 10). The first share is (0, 0, 5), the second
    (0, 5, 7) and (1, 7, 10): parts are these three, firsts is 0, 1, 3.

    Parameters
    ----------
    pieces
        int64 (pieces, 3): node, start, stop.
    most, smallest
        The maximum number of shares, and the minimum rows of each if there are several.

    Returns
    -------
    int64 array (parts, 3)
        Nonempty pieces and parts of pieces.
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
    """Return the pieces of the leaves after splits of some of them.

    Parameters
    ----------
    nodes
        int64 (nodes,): the nodes that were split.
    children
        int64 (nodes, 2): their left and right children.
    pieces
        int64 (pieces, 3): node, start, stop, before the splits.
    parted
        int64 (parted, 3): the parts copied to the other half by `part_rows`: the node's index in ``nodes``, start,
        stop.
    n_left
        int64 (parted,): the number of rows of each part that go left.
    half
        The number of rows, the length of a half.
    n_nodes
        An upper bound of ``nodes``, exclusive.
    """
    is_split = _zeros(n_nodes)
    for i in range(len(nodes)):
        is_split[nodes[i]] = 1
    moved = np.empty((len(pieces) + 2 * len(parted), 3), dtype=np.int64)
    n = 0
    for piece in range(len(pieces)):
        if is_split[pieces[piece, 0]] == 0:
            moved[n, 0], moved[n, 1], moved[n, 2] = pieces[piece, 0], pieces[piece, 1], pieces[piece, 2]
            n += 1
    for piece in range(len(parted)):
        index, start, stop = parted[piece, 0], parted[piece, 1], parted[piece, 2]
        there = half if start < half else -half
        middle = start + there + n_left[piece]
        moved[n, 0], moved[n, 1], moved[n, 2] = children[index, 0], start + there, middle
        moved[n + 1, 0], moved[n + 1, 1], moved[n + 1, 2] = children[index, 1], middle, stop + there
        n += 2
    return moved[:n]


# --- kernels: rows moved by splits ------------------------------------------------------------------------------------


@kernel(inline="always")
def fill_side(goes_left, bin_, missing_left):  # type: ignore[no-untyped-def]
    """Write whether each code of a numeric split goes left: those below ``bin_``, and the last if ``missing_left``."""
    for code in range(len(goes_left)):
        goes_left[code] = code < bin_
    goes_left[-1] = missing_left


@kernel
def fill_sides(bins, missing_left, n_codes):  # type: ignore[no-untyped-def]
    """Return a table of whether each code goes left for each numeric split, all in one array, and their starts.

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
    """Do the work of `part_rows` for one share."""
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
            # One store and two counters instead of a branch, which would be mispredicted every other time.
            flag = np.uint64(is_left[np.uint64(column[np.uint64(row)])])
            rows[left if flag else right] = row
            left += flag
            right -= _ONE - flag
        counts[part] = left - front


parting = outlined(part_share)


@kernel
def part_rows(team, columns, indices, goes_left, starts, rows, parts, firsts, counts):  # type: ignore[no-untyped-def]
    """Partition parts of ``rows`` into the other half: left rows from the front, right rows from the back.

    Example: rows 0 to 5, at the positions 0 to 5 of 12, have the codes 4, 1, 0, 7, 6, 2, and codes below 3 go left. The
    positions 6 to 11 then have 1, 2, 5 (from the front) and 4, 3, 0 (from the back), and the count is 3.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team`).
    columns
        uint8, uint16 or uint32 (columns, rows): codes.
    indices
        int64 (splits,): the column that a split compares; -1 for a column of another array.
    goes_left, starts
        bool and int64 (splits,): whether a code goes left, and the start of each split's codes (see `fill_sides`).
    rows
        uint32 (2 rows,): row numbers, contiguous by node in one half; the same range of the other half is written.
    parts, firsts
        The shares of the splits and their rows (see `share_pieces`).
    counts
        int64 (parts,), written: the number of rows of a part that go left.
    """
    share_out(team, parting((columns, indices, goes_left, starts, rows, parts, firsts, counts)), len(firsts) - 1)


@kernel
def part_drawn(gh, rows):  # type: ignore[no-untyped-def]
    """Write the numbers of rows with a nonzero g or h to the front of ``rows``, the others to the back.

    ``gh`` is float64 (rows, 2), ``rows`` uint32 (rows,). If only rows 1 and 2 of four have gradients, ``rows`` is 1, 2,
    3, 0. Returns the number of rows at the front.
    """
    front, back = np.uint64(0), np.uint64(len(rows) - 1)
    for row in range(np.uint64(len(gh))):
        # One store and two counters instead of a branch, as in `part_rows`.
        flag = np.uint64((gh[row, 0] != 0.0) | (gh[row, 1] != 0.0))
        rows[front if flag else back] = row
        front += flag
        back -= np.uint64(1) - flag
    return np.int64(front)


# --- kernels: leaf values ---------------------------------------------------------------------------------------------


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
    """Add ``values``, float64 (splits, 2), of each row's side to the margins (float64); see `part_rows`."""
    values_of_share = (columns, indices, goes_left, starts, rows, parts, firsts, values, margins)
    share_out(team, _adding_by_side(values_of_share), len(firsts) - 1)


@kernel
def add_grown_leaves(  # type: ignore[no-untyped-def]
    columns, feature, left, table, goes_left, rows, pieces, n_parted, values, margins
):
    """Add the leaf values of a tree to the margins of its rows.

    Parameters
    ----------
    columns, rows
        uint16 (features, rows), codes; and uint32, row numbers.
    feature, left, table, goes_left
        See `frameboost.engines.contract.GrownNodes`.
    pieces, n_parted
        int64 (pieces, 3): the node, start and stop of ``n_parted`` ranges of leaves, then of nodes of two leaves.
    values, margins
        float64 (outputs, nodes), and float64 (outputs, rows), added to.
    """
    for output in range(np.uint64(len(values))):
        of_output = values[output]
        for k in range(n_parted):
            value = of_output[pieces[k, 0]]
            for i in range(np.uint64(pieces[k, 1]), np.uint64(pieces[k, 2])):
                margins[output, np.uint64(rows[i])] += value
        for k in range(n_parted, len(pieces)):
            node = pieces[k, 0]
            column, is_left = columns[feature[node]], goes_left[table[node] :]
            left_value, right_value = of_output[left[node]], of_output[left[node] + 1]
            for i in range(np.uint64(pieces[k, 1]), np.uint64(pieces[k, 2])):
                row = np.uint64(rows[i])
                margins[output, row] += left_value if is_left[np.uint64(column[row])] else right_value


# --- the same of few rows by numpy ------------------------------------------------------------------------------------


_compiling_later = CompileLater(shares_of, most=10)


def are_in_numpy(n_rows: int) -> bool:
    """Whether the pieces of that many rows are divided and moved in numpy."""
    return n_rows <= MAX_ROWS_IN_NUMPY and _compiling_later.spend(1)


def one_share(nodes: IntArray, pieces: Pieces, n_nodes: int) -> Shares:
    """Do the work of `shares_of` for a single share."""
    index = np.full(n_nodes, -1)
    index[nodes] = np.arange(len(nodes))
    indices = index[pieces[:, 0]]
    selected = np.flatnonzero((indices >= 0) & (pieces[:, 1] < pieces[:, 2]))
    selected = selected[np.argsort(indices[selected], kind="stable")]
    parts = pieces[selected]
    parts[:, 0] = indices[selected]
    return parts, np.array([0, len(parts)])


def children_of(
    nodes: IntArray, children: Pieces, pieces: Pieces, parted: Pieces, n_left: IntArray, half: int, n_nodes: int
) -> Pieces:
    """Do the work of `move_pieces`."""
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
    """Do the work of `fill_sides`."""
    starts = np.concatenate([[0], np.cumsum(n_codes)])
    goes_left = np.arange(starts[-1]) < np.repeat(starts[:-1] + bins, n_codes)
    goes_left[starts[1:] - 1] = missing_left
    return goes_left, starts


# --- rows of many nodes in blocks -------------------------------------------------------------------------------------


class RowBlocks:
    """Parts that are cut at the ends of blocks of rows, in the order of blocks (see `cut_parts`).

    Parameters
    ----------
    parts, rows
        See `cut_parts`.
    n_rows
        The number of rows.
    """

    def __init__(self, parts: Pieces, rows: RowNumbers, n_rows: int) -> None:
        is_cut = len(parts) * MIN_ROWS_OF_PART <= ROWS_PER_BLOCK
        ends = np.append(np.arange(ROWS_PER_BLOCK, n_rows, ROWS_PER_BLOCK) if is_cut else [], n_rows).astype(np.int64)
        cut, self._blocks = np.empty((len(parts) * len(ends), 3), np.int64), np.empty(len(ends) + 1, np.int64)
        self._parts = cut[: cut_parts(parts, rows, ends, cut, self._blocks)]

    def runs(self, n_shares: int) -> Iterator[Shares]:
        """Yield the parts of some blocks in turn, in a number of shares of about equally many rows."""
        for block in range(0, len(self._blocks) - 1, BLOCKS_PER_RUN):
            first, last = self._blocks[block], self._blocks[min(block + BLOCKS_PER_RUN, len(self._blocks) - 1)]
            yield _shared(self._parts[first:last], n_shares)


def _shared(parts: Pieces, n_shares: int) -> Shares:
    total: IntArray = np.cumsum(parts[:, 2] - parts[:, 1])
    n_rows = int(total[-1]) if len(total) else 0
    bounds = np.searchsorted(total, np.arange(1, n_shares) * n_rows // n_shares)
    return parts, np.concatenate([[0], bounds, [len(parts)]])


@kernel
def _count_below(rows, start, stop, end):  # type: ignore[no-untyped-def]
    """Return how many of ``rows[start:stop]``, ascending or descending, are below ``end``."""
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
    """Cut parts at the ends of blocks of rows, and write them in the order of blocks; return their number.

    Example: blocks have 100 rows, and the rows of two parts are 5, 90, 120 and 180, 40, 7. The result is 5, 90 and 40,
    7 of the first block, and 120 and 180 of the second.

    Parameters
    ----------
    parts
        int64 (parts, 3): node, start, stop: ranges of ``rows``, each ascending or descending.
    rows
        uint32: row numbers.
    ends
        int64 (blocks,): the end of each block, exclusive.
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


# --- rows in another order --------------------------------------------------------------------------------------------


@kernel
def take_rows(values, rows, out):  # type: ignore[no-untyped-def]
    """Gather ``values`` of the ``rows`` (uint32) into ``out``."""
    for i in range(np.uint64(0), np.uint64(len(rows))):
        if i + AHEAD < np.uint64(len(rows)):
            prefetch(values, np.uint64(rows[i + AHEAD]))
        out[i] = values[np.uint64(rows[i])]


def take_all(values: npt.NDArray[Any], order: RowNumbers, out: npt.NDArray[Any], workers: Workers) -> None:
    """Write ``values[order]`` to ``out``, (rows,)."""

    def take(first: int, last: int) -> None:
        take_rows(values, order[first:last], out[first:last])

    workers.over(len(order), take, smallest=VALUES_PER_TASK)

"""The external memory engine: arrays in files, for rows that do not fit in memory; each call is one pass over the rows.

It reads a block of rows at a time, and stores for each row its codes, its margin, its roles in as few bytes as
possible, and its node. Splits are deferred until the next pass.

g and h of a block are recomputed from margins and labels at each use. They take 16 bytes per row, a margin 8, and a
label mostly one: reading 16 bytes from disk takes longer than computing them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, indices_by_type, interleave
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import Sample
from frameboost.engines.memory.columns import FeatureColumns
from frameboost.engines.memory.engine import ArrayEngine
from frameboost.engines.memory.histograms import build_share, may_block
from frameboost.engines.memory.partition import ColumnGroups, SplitTables
from frameboost.engines.memory.sampling import mark_rows, sample_gh
from frameboost.engines.memory.terms import Gradients
from frameboost.engines.programs import Addresses, Program, compute_block
from frameboost.expressions.grid import Scalar
from frameboost.runtime.kernel import kernel
from frameboost.runtime.storage import Storage
from frameboost.runtime.workers import VALUES_PER_TASK, RowNumbers, Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["ExternalMemoryEngine", "group_rows", "move_to_children"]


class ExternalMemoryEngine(ArrayEngine):
    """`HistogramEngine` that reads its rows in order, block by block.

    It stores the codes, the margins, the roles and the node of each row. Splits are deferred until the next pass. In
    each block, the rows of the nodes to sum are copied, contiguous by node, with their gradients, and then summed.

    Example: rows 0 to 5 of a block are in the nodes 1, 2, 1, 1, 2, 2, node 1 was split into 3 and 4, and the histograms
    of 2 and 3 are requested. The split moves the rows to the nodes 3, 2, 4, 3, 2, 2. Rows 1, 4, 5 (node 2), 0 and 3
    (node 3) are copied in this order.

    Parameters
    ----------
    frame, features, roles, workers, storage, columns
        See `ArrayEngine`.
    stores_gradients
        Whether gradients are needed outside of histograms, or after the margins have changed: in a round with several
        trees, all need the gradients from before the first.
    """

    gradients: RecomputedGradients

    def __init__(
        self,
        frame: pl.LazyFrame,
        features: tuple[Feature, ...],
        roles: Mapping[str, str],
        workers: Workers,
        storage: Storage,
        *,
        columns: FeatureColumns | None = None,
        stores_gradients: bool = False,
    ) -> None:
        gradients = partial(RecomputedGradients, stored=stores_gradients)
        super().__init__(frame, features, roles, workers, storage, columns=columns, gradients=gradients)
        self._sampled_gh: FloatArray = np.empty((0, 2))  # which each tree writes anew

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def kept_roles(self, roles: pl.DataFrame) -> pl.DataFrame:
        """See `ArrayEngine.kept_roles`: in as few bytes as possible."""
        return super().kept_roles(pl.DataFrame([narrowed(values) for values in roles]))

    def stored_rows(self) -> pl.LazyFrame:
        """See `FrameEngine.stored_rows`."""
        return super().stored_rows().with_columns(pl.col(NARROW).cast(pl.Float64))

    def array(self, name: str) -> npt.NDArray[Any] | None:
        """See `ArrayEngine.array`; the array of a role may have a narrower dtype."""
        assert self.rows is not None
        if name not in self.margin_arrays and name in self.rows and self.rows[name].dtype in NARROW:
            return self.rows[name].to_numpy()
        return super().array(name)

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.load()
        self._codes = CodesByRow(bins, self.n_rows, self.storage)
        self._codes.fill(self.columns.coder(bins), self.workers)
        self.columns.drop()
        self._nodes = NodeNumbers(self.n_rows, self._codes, self.workers, self.storage)

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self._output = output
        self._sampled: FloatArray | None = None
        totals = self.gradients.totals[output]
        if sample is not None:
            if not len(self._sampled_gh):
                self._sampled_gh = self.storage.empty((self.n_rows, 2), np.float64, is_rewritten=True)
            gh = self._sampled_gh
            sums = self.workers.each(list(blocks(0, self.n_rows)), partial(self._draw_block, sample, gh))
            totals = Stats(*(float(sum(parts)) for parts in zip(*sums, strict=True)))
            self._sampled = gh
        self.reset_nodes()
        return totals

    def _draw_block(self, sample: Sample, gh: FloatArray, block: Block) -> Stats:
        """Write g and h of the sampled rows of a block, zero for other rows; return their sums."""
        positions = self.positions.of(np.arange(block.start, block.stop)).astype(np.uint32)
        return sample_gh(sample, self._pairs(block)[np.newaxis], positions, gh[np.newaxis, block.start : block.stop])[0]

    def _pairs(self, block: Block, rows: RowNumbers | None = None) -> FloatArray:
        """Return g and h of a block in the current tree, or of some of its rows."""
        if self._sampled is None:
            return self.gradients.of_block(self._output, block, rows)
        gh = self._sampled[block.start : block.stop]
        return gh if rows is None else gh[rows]

    def hessians(self) -> pl.Series:
        """See `ArrayEngine.hessians`."""
        return pl.concat(pl.Series(self._pairs(block)[:, 1]) for block in blocks(0, self.n_rows))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self._nodes.start_tree()

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._nodes.apply_splits(splits)

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        self._sum_by_bin(nodes, out, indices, self._pairs)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""

        def counted(block: Block, rows: RowNumbers | None = None) -> FloatArray:
            gh = self._pairs(block, rows)
            pairs = np.empty(gh.shape)
            mark_rows(gh[np.newaxis], pairs, 0, len(gh))
            return pairs

        self._sum_by_bin(nodes, out, indices, counted)

    def _sum_by_bin(self, nodes: Sequence[int], out: FloatArray, indices: IntArray, pairs: _PairsOf) -> None:
        """Write the histograms of some nodes, from the pairs of a block or of some of its rows."""
        order = np.full(self._nodes.n_nodes, len(nodes), np.uint32)
        order[list(nodes)] = range(len(nodes))
        out[indices] = 0.0
        more = np.zeros((len(self._nodes.slices) - 1, len(nodes), *out.shape[1:]))

        def add(slice_: int, block: Block, node_of: Numbers) -> None:
            if slice_ == 0:
                self._add_block(block, node_of, order, out, indices, pairs)
            else:
                self._add_block(block, node_of, order, more[slice_ - 1], np.arange(len(nodes)), pairs)

        self._nodes.sweep(add)
        for sums in more:
            out[indices] += sums

    def _add_block(
        self, block: Block, node_of: Numbers, order: RowNumbers, out: FloatArray, indices: IntArray, pairs: _PairsOf
    ) -> None:
        """Add a block to the histograms of its nodes; ``order`` maps nodes to indices of histograms."""
        needed: RowNumbers | None = None
        if len(order) == 1:  # the root: all rows, as they are
            parts = np.array([[0, 0, len(node_of)]])
        else:
            rows, ends = np.empty(len(node_of), np.uint32), np.empty(len(indices) + 1, np.uint32)
            group_rows(node_of, order, rows, ends)
            parts = np.stack([np.arange(len(indices)), np.append(0, ends[:-2]), ends[:-1]], axis=1, dtype=np.int64)
            parts = parts[parts[:, 1] < parts[:, 2]]
            needed = rows[: ends[-2]]
        if not len(parts):
            return
        gh = pairs(block, needed)
        in_order = np.arange(len(gh), dtype=np.uint32)
        for codes, slots in self._codes.groups:
            of_block = codes[block.start : block.stop]
            of_block = of_block if needed is None else np.take(of_block, needed, axis=0)
            firsts, blocks = np.array([0, len(parts)]), may_block(of_block, out.shape[1])
            build_share(of_block, in_order, parts, firsts, gh, slots, out, indices, out[:0], blocks, 0)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        margins = self.margins(margin)
        added = np.zeros(self._nodes.n_nodes)
        added[list(values)] = list(values.values())

        def add(_: int, block: Block, node_of: Numbers) -> None:
            margins[block.start : block.stop] += added[node_of]

        self._nodes.sweep(add)
        self.gradients.expire()

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self._nodes.of_rows()), self.hessians(), value, weight, alpha)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        return self.values_by_node(pl.Series(self._nodes.of_rows()), self.hessians(), value, weight).collect()


# --- blocks of rows ---------------------------------------------------------------------------------------------------


# 28 codes and a gradient pair of each row take 11 MB.
ROWS = 1 << 18


class Block(NamedTuple):
    """The rows ``start`` to ``stop - 1``."""

    start: int
    stop: int


_PairsOf = Callable[[Block, RowNumbers | None], FloatArray]  # the pairs of a block, or of some of its rows


def blocks(first: int, last: int) -> Iterator[Block]:
    """Divide the rows ``first`` to ``last - 1`` into blocks."""
    for start in range(first, last, ROWS):
        yield Block(start, min(start + ROWS, last))


# --- roles ------------------------------------------------------------------------------------------------------------


NARROW = (pl.UInt8, pl.Float32)


def narrowed(values: pl.Series) -> pl.Series:
    """Return a float64 column in a narrower dtype that preserves every value, including the sign of zero."""
    if values.dtype != pl.Float64 or values.null_count():
        return values
    bits = values.to_numpy().view(np.int64)
    for dtype in NARROW:
        narrow = values.cast(dtype, strict=False)
        if not narrow.null_count() and np.array_equal(narrow.cast(pl.Float64).to_numpy().view(np.int64), bits):
            return narrow
    return values


# --- g and h of a block -----------------------------------------------------------------------------------------------


class RecomputedGradients(Gradients):
    """Gradient pairs that are stored only if necessary.

    It is necessary with several outputs, or if no program computes them.

    Parameters
    ----------
    workers, constants, storage
        See `Gradients`.
    stored
        Whether to store them in any case.
    """

    def __init__(self, workers: Workers, constants: Mapping[str, float], storage: Storage, *, stored: bool) -> None:
        super().__init__(workers, constants, storage)
        self._stored = stored
        self._program: Program | None = None  # of pairs that are not stored
        self._columns: Sequence[FloatArray] = ()
        self._is_expired = False

    @property
    def are_stored(self) -> bool:
        """Whether `pairs` has the pairs of all rows."""
        return self._program is None

    def make_room(self, n_outputs: int, n_rows: int, program: Program | None) -> None:
        """See `Gradients.make_room`."""
        self._program = program if n_outputs == 1 and not self._stored else None
        self._is_expired = False
        super().make_room(n_outputs, n_rows if self.are_stored else 0, program)

    def run(self, program: Program, columns: Sequence[FloatArray], n_rows: int) -> list[float]:
        """See `Gradients.run`."""
        if self.are_stored:
            return super().run(program, [np.asarray(column, np.float64) for column in columns], n_rows)
        self._columns = columns
        computed = self._workers.each(list(blocks(0, n_rows)), lambda block: self._computed(block, None)[1:])
        largest, totals = (np.array(each) for each in zip(*computed, strict=True))
        self.totals = [Stats(*totals.sum(axis=0).tolist())]  # exact
        most: list[float] = largest.max(axis=0).tolist()
        return most

    def columns(self) -> list[pl.Series]:
        """See `Gradients.columns`; none if they are not stored."""
        return super().columns() if self.are_stored else []

    def column(self, name: str) -> FloatArray | None:
        """See `Gradients.column`; None if they are not stored."""
        return super().column(name) if self.are_stored else None

    def expire(self) -> None:
        """Note that the margins have changed."""
        self._is_expired = True

    def of_block(self, output: int, block: Block, rows: RowNumbers | None) -> FloatArray:
        """Return g and h, float64 (rows, 2), of a block, or of some of its ``rows``, relative to its start."""
        if self.are_stored:
            gh = self.gh[output, block.start : block.stop]
            return gh if rows is None else gh[rows]
        return self._computed(block, rows)[0]

    def _computed(self, block: Block, rows: RowNumbers | None) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return g and h of a block, or of some of its rows, their largest magnitudes and their sums."""
        program = self._program
        assert program is not None
        assert not self._is_expired
        of_block = [column[block.start : block.stop] for column in self._columns]
        columns = [np.asarray(column if rows is None else column[rows], np.float64) for column in of_block]
        n_rows = block.stop - block.start if rows is None else len(rows)
        gh = np.empty((1, n_rows, 2))
        return gh[0], *compute_block(program, columns, n_rows, self._offsets, gh, Addresses())


# --- binned columns ---------------------------------------------------------------------------------------------------


class CodesByRow:
    """The codes of all features, in one array per dtype.

    Attributes
    ----------
    groups
        For each dtype its codes, (rows, features of the dtype), and the first slot of each of these features.
    columns
        The columns that splits compare.
    """

    def __init__(self, bins: Sequence[Bins], n_rows: int, storage: Storage) -> None:
        self._bins = bins
        self._storage = storage
        layout = SlotLayout(bins)
        self.groups: list[tuple[Codes, IntArray]] = []
        by_column = []
        for dtype, indices in indices_by_type(bins):
            codes = storage.empty((n_rows, int(indices.max()) + 1), dtype)
            self.groups.append((codes, layout.offsets[:-1][indices >= 0]))
            by_column.append((indices, codes.T))
        self.columns = ColumnGroups(by_column, np.diff(layout.offsets))

    def fill(self, write: Callable[[int, Bins, Codes], None], workers: Workers) -> None:
        """Write the codes of all columns; ``write`` writes those of a feature (see `FeatureColumns.coder`).

        As many columns as fit in memory are binned together, and then written by row. One at a time, they would write
        each page once per column.
        """

        def write_one(each: tuple[int, Codes]) -> None:
            number, codes = each
            write(number, self._bins[number], codes)

        for (indices, _), (codes, _) in zip(self.columns.groups, self.groups, strict=True):
            features = np.flatnonzero(indices >= 0).tolist()
            n_rows, at_once = len(codes), max(1, self._storage.room // max(1, len(codes) * codes.itemsize))
            for at in range(0, len(features), at_once):
                at_a_time = features[at : at + at_once]
                columns = np.empty((len(at_a_time), n_rows), codes.dtype)
                workers.each(list(zip(at_a_time, columns, strict=True)), write_one)
                for block in blocks(0, n_rows):
                    part = columns[:, block.start : block.stop], codes[block.start : block.stop]
                    workers.over(block.stop - block.start, partial(interleave, *part, at), smallest=VALUES_PER_TASK)
                    self._storage.release_pages()


# --- the node of every row --------------------------------------------------------------------------------------------


Numbers = npt.NDArray[np.unsignedinteger]


class NodeNumbers:
    """The node of every row.

    Parameters
    ----------
    n_rows
        The number of rows.
    codes
        Their codes.
    workers
        The threads.
    storage
        The storage of the numbers.
    """

    def __init__(self, n_rows: int, codes: CodesByRow, workers: Workers, storage: Storage) -> None:
        self.n_nodes = 1
        self.slices = workers.slices(n_rows, ROWS)  # the rows of each thread
        self._codes = codes
        self._workers = workers
        self._storage = storage
        self._numbers: Numbers = storage.empty((n_rows,), np.uint8, is_rewritten=True)
        self._waiting: list[SplitTables] = []

    def start_tree(self) -> None:
        """Put all rows into the root, node 0."""
        self._numbers[:] = 0
        self.n_nodes = 1
        self._waiting = []

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits until the next sweep: node -> (split, left child, right child)."""
        tables = SplitTables(splits, self._codes.columns)
        self._waiting.append(tables)
        self.n_nodes = max(self.n_nodes, int(tables.children.max()) + 1)
        dtype = np.min_scalar_type(self.n_nodes)
        if dtype.itemsize > self._numbers.itemsize:
            before = self._numbers
            self._numbers = self._storage.empty(before.shape, dtype, is_rewritten=True)
            self._numbers[:] = before

    def sweep(self, visit: Callable[[int, Block, Numbers], Any]) -> None:
        """Call ``visit`` on each block with the index of its slice, the block and the nodes of its rows."""
        dtype = self._numbers.dtype
        splits, self._waiting = [_NodeTables(each, self.n_nodes, dtype) for each in self._waiting], []

        def sweep_slice(number: int) -> None:
            for block in blocks(*self.slices[number]):
                nodes = self._numbers[block.start : block.stop]
                for tables in splits:
                    for (codes, _), features in zip(self._codes.groups, tables.features, strict=True):
                        of_block = codes[block.start : block.stop]
                        move_to_children(nodes, of_block, features, tables.starts, tables.children)
                visit(number, block, nodes)
                self._storage.release_pages()

        self._workers.each(range(len(self.slices)), sweep_slice)

    def of_rows(self) -> npt.NDArray[np.int32]:
        """Return the node of every row."""
        if self._waiting:
            self.sweep(lambda *_: None)
        return self._numbers.astype(np.int32)


class _NodeTables:
    """Splits as tables, by node number.

    Attributes
    ----------
    features
        For each dtype of codes, int64 (nodes,): the index of the feature that the node's split compares, or -1.
    starts, children
        The start of each node's codes in ``children``, the child to which each code goes.
    """

    def __init__(self, splits: SplitTables, n_nodes: int, dtype: npt.DTypeLike) -> None:
        self.features: list[IntArray] = []
        for _, indices in splits.columns():
            of_nodes = np.full(n_nodes, -1)
            of_nodes[splits.nodes] = indices
            self.features.append(of_nodes)
        self.starts = np.zeros(n_nodes, np.int64)
        self.starts[splits.nodes] = splits.starts[:-1]
        left, right = np.repeat(splits.children, np.diff(splits.starts), axis=0).T
        self.children = np.where(splits.goes_left, left, right).astype(dtype)


_ZERO, _ONE, _TWO, _THREE, _FOUR = map(np.uint64, range(5))


@kernel
def move_to_children(numbers, codes, features, starts, children):  # type: ignore[no-untyped-def]
    """Move the rows of split nodes to their children.

    Parameters
    ----------
    numbers
        uint8, uint16 or uint32 (rows,): the node of each row, changed in place.
    codes
        uint8, uint16 or uint32 (rows, features): codes.
    features
        int64 (nodes,): the column of ``codes`` that a node's split compares; -1 for other nodes.
    starts, children
        int64 (nodes,): the start of each node's codes in ``children``, of the dtype of ``numbers``: the child to which
        each code goes.
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
    """Write the numbers of all rows to ``rows``, by group, with a counting sort.

    Example: rows 0 to 4 are in the nodes 1, 2, 1, 4, 2, the nodes 2 and 4 are the groups 0 and 1, and all others group
    2. Then ``rows`` becomes 1, 4, 3, 0, 2, and ``ends`` 2, 3, 5.

    Rows are counted in four tables in turn, because consecutive increments of one counter depend on each other.

    Parameters
    ----------
    numbers
        uint8, uint16 or uint32 (rows,): the node of each row.
    indices
        uint32 (nodes,): the group of each node.
    rows
        uint32 (rows,), written.
    ends
        uint32 (groups,), written: the end of each group's rows.
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
        group = np.uint64(indices[np.uint64(numbers[row])])
        end = ends[group]
        rows[np.uint64(end)] = row
        ends[group] = end + 1

"""The DuckDB engine with nodes, g and h in memory, if they fit: histograms take no statements.

Bins, gradients and metrics are computed in the database, as in the base class. If there is room, codes are held too,
and rows are partitioned as by the numba engine (`PartitionedNodes`). Otherwise codes are read for each level: the rows
of each batch are moved to their nodes, and those of the requested nodes are summed by bin (`RecordNodes`). They are
packed into 64-bit words then (`WordLayout`), as a few wide columns are faster to read than many narrow ones.

If there is room, roles and margins are held too, as the columns of one table that statements read (`SHOWN`), with g and
h. A round then takes one statement, which computes g and h, and writes no table. Tables joined by position are read by
one thread; one table by all threads, in a fifth of the time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.data.duckdb_session import SHOWN, Batch, DuckDBSession
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.engine import (
    BinSums,
    DuckDBEngine,
    FeatureTables,
    KeyCodes,
    Nodes,
    Packing,
    TreeGradients,
)
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar, grid_offsets
from frameboost.losses.loss import RankingPairs
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

if TYPE_CHECKING:
    from frameboost.engines.memory.columns import BinnedColumns
    from frameboost.engines.memory.star.keyed import KeyedColumns

__all__ = [
    "BYTES_PER_CODE", "BYTES_PER_ROW", "DuckDBRecordEngine", "PartitionedNodes", "RecordNodes", "RowGradients",
    "StoredWords", "WordLayout",
]  # fmt: skip

# What is in memory takes at most this part of what the database may take.
_SHARE = 1 / 8
# A number, g and h. Where codes are held, two row numbers instead of the number, and each code, at most.
BYTES_PER_ROW, _BYTES_PER_PARTITIONED, BYTES_PER_CODE = 2 + 8 + 8, 4 + 4 + 8 + 8, 4
_BYTES_PER_NUMBER = 8  # each role and margin, g and h of each margin, and the position
# For each row its query, its rank in it, and what sums over pairs read and return.
_BYTES_FOR_PAIRS = 128
# The most columns of codes: all are read at once.
_MAX_COLUMNS = 1 << 14
# Parts of a batch, which are more than the threads, as one of these also reads the next batch.
_PARTS = 4
# The most memory for the sums of all threads; more of them would add no faster than the database reads.
_MAX_BYTES, _MAX_THREADS = 1 << 28, 4
_BITS = 64  # of a word
_TYPES = {"float64": "DOUBLE", "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER"}
# Where `_CodesOfKeys` has the code that a column of the rows has itself: its first key, how many codes each has, which.
_ITSELF = (0, 1, 0)


class DuckDBRecordEngine(DuckDBEngine):
    """`HistogramEngine` over a DuckDB relation.

    Parameters
    ----------
    session, features, columns, roles, queries, in_order, tables
        As for `TableEngine`.
    workers
        The threads of kernels.
    """

    def __init__(
        self, session: DuckDBSession, features: Sequence[Feature], columns: Sequence[SqlColumn],
        roles: Mapping[str, str], queries: SqlColumn | None = None, *, in_order: bool = False,
        tables: FeatureTables | None = None, workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, features, columns, roles, queries, in_order=in_order, tables=tables)
        self._workers = workers
        self._is_in_memory = False
        self._bytes_per_row = BYTES_PER_ROW  # of what is in memory
        self._holds_rows = False  # whether this includes roles, margins, and g and h of all outputs
        self._word_layout: WordLayout | None = None
        self._held_codes: dict[str, np.dtype[Any]] = {}  # the columns of codes and keys to hold
        self._record_nodes: NodesInMemory | None = None
        self._row_gh: RowGradients | None = None

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._is_in_memory = len(self.tables.features) <= _MAX_COLUMNS and self.may_be_in_memory(BYTES_PER_ROW)
        super().bin_columns(bins)
        if not self._is_in_memory:
            return
        self._may_sort = False
        if self._word_layout is None:
            self._hold_codes(bins)
            return
        words = StoredWords(self.session, self.bins, self._word_layout.names)
        self._record_nodes = RecordNodes(
            self.session, self.bins, self.row_gh, self.layout, self._word_layout, words, self.tables.features,
            self.tables.dimensions, self._kernel_workers,
        )  # fmt: skip

    def _hold_codes(self, bins: Sequence[Bins]) -> None:
        """Read codes and keys into memory, and hold the nodes of the rows."""
        from frameboost.engines.memory.columns import BinnedColumns

        read = {name: np.empty(self.n_rows, dtype) for name, dtype in self._held_codes.items()}
        _read_columns(self.session, self.bins, [*read], [*read.values()])
        keyed = self._keyed(read) if self.tables.dimensions else None
        binned = BinnedColumns(bins, self.n_rows, keyed=keyed)
        binned.fill(lambda feature, _, codes: np.copyto(codes, read[f"bin_{feature}"]), self._kernel_workers)
        self.hold_nodes(binned)

    def _keyed(self, read: Mapping[str, npt.NDArray[Any]]) -> KeyedColumns:
        """Return the codes by key, from the keys that were read."""
        from frameboost.engines.memory.star.keyed import KeyedColumns
        from frameboost.engines.memory.star.tables import CodedTable

        counts = np.empty(0, np.int64)  # which only sorting reads
        dimensions = self.tables.dimensions
        coded = [CodedTable(d.features, np.ascontiguousarray(d.codes.T), read[d.column], counts) for d in dimensions]
        sorted_by = next((i for i, d in enumerate(dimensions) if d.column == self.tables.sorted_by), None)
        return KeyedColumns(coded, self.layout, (), self._kernel_workers, sorted_by)

    def hold_nodes(self, binned: BinnedColumns) -> None:
        """Hold the nodes of the rows in memory, with these codes."""
        self._record_nodes = PartitionedNodes(self.session, self.bins, self.row_gh, binned, self._kernel_workers)
        self._record_nodes.partition.add_in_blocks = bool(self.tables.sorted_by)

    @cached_property
    def _kernel_workers(self) -> Workers:
        """The threads of kernels over rows: at most those of the database."""
        return self._workers if self._workers.n_jobs <= self.n_threads else Workers(self.n_threads)

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`; margins and roles are held in memory if there is room."""
        n_bytes = self._bytes_per_row + _BYTES_PER_NUMBER * (1 + len(self.roles) + 3 * len(margins))
        are_numbers = "qid" not in self.roles and self._row_roles == [*self.roles]  # without those of linear leaves
        if self._record_nodes is None or not are_numbers or not self._may_take(n_bytes):
            super().start_margins(margins)
            return
        columns = {name: start.to_sql({role: role for role in self.roles}) for name, start in margins.items()}
        if not self._holds_rows:
            self.session.show(rowid=np.arange(self.n_rows))
            columns |= {role: f"COALESCE({role}, 'NaN')" for role in self.roles}  # in arrays, NaN is NULL
        self._hold(self.bins, columns)
        self._margins, self._holds_rows = dict.fromkeys(margins, SHOWN), True

    def _hold(self, rows: str, columns: Mapping[str, str], in_order: str = "") -> dict[str, FloatArray]:
        """Compute columns, name -> expression over rows, and hold them; return their arrays."""
        shown = self.session.shown
        arrays = {name: shown[name] if name in shown else np.empty(self.n_rows) for name in columns}
        _read_columns(self.session, rows, [*columns.values()], [*arrays.values()], in_order)
        self.session.show(**arrays)
        return arrays

    @property
    def row_gh(self) -> RowGradients:
        """The g and h of the rows in memory."""
        if self._row_gh is None:
            self._row_gh = RowGradients(self.session, self.n_rows)
        return self._row_gh

    def may_be_in_memory(self, n_bytes: int) -> bool:
        """Whether this many bytes per row fit in memory and speed up the fit."""
        return (
            self.sums_by_kernel and not self.is_shard and self.keeps_order
            and self._may_take(n_bytes) and self.session.can_show()
        )  # fmt: skip

    def _may_take(self, n_bytes: int) -> bool:
        """Whether this many bytes per row fit in memory."""
        return self.n_rows * n_bytes <= self.session.memory_limit * _SHARE

    @property
    def packing(self) -> Packing | None:
        """See `DuckDBEngine.packing`: in words, if nodes are in memory and codes are not."""
        return self._packed if self._is_in_memory else None

    def _packed(self, largest: Mapping[str, int]) -> list[str]:
        dtypes = {name: np.min_scalar_type(value) for name, value in largest.items()}
        n_bytes = _BYTES_PER_PARTITIONED + sum(dtype.itemsize for dtype in dtypes.values())
        if self._may_take(n_bytes):
            self._held_codes, self._bytes_per_row = dtypes, n_bytes
            return [*largest, *self.roles]
        self._word_layout = WordLayout(largest)
        return [*self._word_layout.sql(), *self.roles]

    def close(self) -> None:
        """See `Engine.close`."""
        self._record_nodes = self._row_gh = None
        if vars(self).get("_kernel_workers", self._workers) is not self._workers:
            self._kernel_workers.close()
        super().close()

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`; where they are held, they are computed once, and rounded afterwards."""
        if not self._holds_rows:
            return super().compute_gradients(gradients, others, offsets)
        numbers = {**gradients, **others}
        rows, names = self.query([*numbers.values()])
        columns = {name: number.to_sql(names) for name, number in numbers.items()}
        arrays = self._hold(f"({rows})", columns, self._in_order)

        def magnitude(name: str) -> float:
            return float(max(arrays[name].max(), -arrays[name].min()))

        largest = dict(zip(gradients, self._workers.each([*gradients], magnitude), strict=True))
        grids = offsets or grid_offsets(largest, self.n_rows)

        def put_on_grid(name: str) -> None:
            arrays[name] += grids[name]
            arrays[name] -= grids[name]

        self._workers.each([*gradients], put_on_grid)
        self.gradients.table, self.gradients.names = SHOWN, tuple(numbers)
        return largest

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`: by a kernel, in a tenth of the time of a self-join."""
        if self._is_in_memory and self._may_take(_BYTES_FOR_PAIRS):
            self.sum_pairs_in_memory(pairs, offset, self._workers)
        else:
            super().sum_pairs(pairs, offset)

    # --- once a tree --------------------------------------------------------------------------------------------------

    def sums(self, gh: TreeGradients) -> Stats:
        """See `DuckDBEngine.sums`."""
        if self._record_nodes is None:
            return super().sums(gh)
        from frameboost.engines.memory.histograms import gh_totals

        return Stats(*gh_totals(self.row_gh.of(gh), self.n_rows))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        super().reset_nodes()
        if self._row_gh is not None:
            self._row_gh.forget()
        if self._record_nodes is not None:
            self._record_nodes.restart()

    @property
    def nodes(self) -> Nodes:
        """See `DuckDBEngine.nodes`."""
        return super().nodes if self._record_nodes is None else self._record_nodes

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self._record_nodes is None:
            super().histograms(nodes, out, indices)
        else:
            self._record_nodes.histograms(nodes, self.gh, self.rows_in(nodes), out, indices)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        if self._record_nodes is None or self._outputs:
            super().row_counts(nodes, out, indices)
        else:
            self._record_nodes.histograms(nodes, self.gh, self.rows_in(nodes), out, indices, are_counted=True)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        if self._record_nodes is None:
            super().add_leaf_values(values, margin)
        elif self._holds_rows:
            self._record_nodes.add_values(values, self.session.shown[margin])
        else:
            self._add_to(margin, "value", [self._record_nodes.show_values(values)])


# --- words ------------------------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """The location of a code or a key: its word, its lowest bit in it, and its dtype, uint8, uint16 or uint32."""

    word: int
    shift: int
    dtype: npt.DTypeLike


class WordLayout:
    """Codes and keys of a row, packed into 64-bit words: ``word_0``, ``word_1``, ...

    A code takes 1, 2 or 4 bytes. If the largest values of a, b and c are 200, 70,000 and 9, ::

        word_0    bits 0 to 7: a    bits 8 to 39: b    bits 40 to 47: c

    Parameters
    ----------
    largest
        Column -> its largest value.
    """

    def __init__(self, largest: Mapping[str, int]) -> None:
        self.fields: dict[str, Field] = {}
        word, shift = 0, 0
        for name, value in largest.items():
            dtype = np.min_scalar_type(value)
            bits = 8 * dtype.itemsize
            if shift + bits > _BITS:
                word, shift = word + 1, 0
            self.fields[name] = Field(word, shift, dtype)
            shift += bits
        self.names = [f"word_{number}" for number in range(word + 1)]

    def sql(self) -> list[str]:
        """Return the words as expressions over the columns."""
        words: list[list[str]] = [[] for _ in self.names]
        for name, field in self.fields.items():
            words[field.word].append(f"CAST({name} AS UBIGINT) * {1 << field.shift}")
        return [f"{' + '.join(terms)} AS {name}" for name, terms in zip(self.names, words, strict=True)]


class StoredWords:
    """The words as columns of a table, which every call reads again."""

    def __init__(self, session: DuckDBSession, table: str, names: Sequence[str]) -> None:
        self._session = session
        self._table = table
        self._names = names

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """Yield lists of parts of the rows with their words, valid until the next list."""
        with closing(_batches(self._session, self._table, self._names, [np.uint64] * len(self._names))) as batches:
            for rows, batch in batches:
                parts = _slices(len(batch[0]), _PARTS)
                yield [(slice(rows.start + p.start, rows.start + p.stop), [words[p] for words in batch]) for p in parts]


def _read_columns(
    session: DuckDBSession, table: str, columns: Sequence[str], out: Sequence[npt.NDArray[Any]], in_order: str = ""
) -> None:
    """Write columns of a table, as the types of the arrays, to the arrays ``out``."""
    columns = [f"CAST({column} AS {_TYPES[array.dtype.name]})" for column, array in zip(columns, out, strict=True)]
    with closing(_batches(session, table, columns, [array.dtype for array in out], in_order)) as batches:
        for rows, batch in batches:
            for column, values in zip(out, batch, strict=True):
                column[rows] = values


def _batches(
    session: DuckDBSession, table: str, columns: Sequence[str], dtypes: Sequence[npt.DTypeLike], in_order: str = ""
) -> Generator[tuple[slice, Batch], None, None]:
    """Yield the batches of columns of a table, with the rows of each batch.

    Close it at once on KeyboardInterrupt, because the connection rejects other statements until then.
    """
    statement = render("read_rows", rows=table, columns=", ".join(columns), is_asked="TRUE", in_order=in_order)
    start = 0
    with closing(session.batches(statement, dtypes)) as batches:
        for batch in batches:
            rows = slice(start, start + len(batch[0]))
            yield rows, batch
            start = rows.stop


def _slices(size: int, count: int) -> list[slice]:
    """Divide a range into this many slices, at least one."""
    count = max(1, count)
    return [slice(first, last) for first, last in pairwise(size * k // count for k in range(count + 1))]


# --- nodes, g and h ---------------------------------------------------------------------------------------------------


class RowGradients:
    """The g and h of ``n_rows`` rows."""

    def __init__(self, session: DuckDBSession, n_rows: int) -> None:
        self._session = session
        self.n_rows = n_rows
        self._read: TreeGradients | None = None  # which these are

        self._values: FloatArray = np.empty((n_rows, 2))

    def of(self, gh: TreeGradients) -> FloatArray:
        """Return g and h of a tree, (rows, 2), which are read once."""
        if self._read != gh:
            columns = [*self._values.T]
            if gh.table == SHOWN:
                for column, name in zip(columns, (gh.g, gh.h), strict=True):
                    column[:] = self._session.shown[name]
            else:
                _read_columns(self._session, gh.table, [gh.g, gh.h], columns)
            self._read = gh
        return self._values

    def forget(self) -> None:
        """Note that g and h must be read again."""
        self._read = None


class NodesInMemory(ABC):
    """The nodes of the rows while a tree grows, in memory. Splits are deferred until the rows are read next.

    Parameters
    ----------
    session
        The session of the rows.
    bins
        The table of the rows.
    gradients
        The g and h of the rows.
    """

    def __init__(self, session: DuckDBSession, bins: str, gradients: RowGradients) -> None:
        self._session = session
        self._bins = bins
        self._gradients = gradients
        self._leaves: dict[int, None] = {0: None}  # in order

    def restart(self) -> None:
        """Put all rows into the root of a new tree."""
        self._leaves = {0: None}

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits: node -> (split, left child, right child)."""
        for node, (_, *children) in splits.items():
            del self._leaves[node]
            self._leaves |= dict.fromkeys(children)

    @abstractmethod
    def histograms(
        self, nodes: Sequence[int], tree: TreeGradients, n_rows: float, out: FloatArray, indices: IntArray, *,
        are_counted: bool = False,
    ) -> None:  # fmt: skip
        """Write the histograms of nodes, of about ``n_rows`` rows, to their ``indices`` in ``out``.

        If they ``are_counted``, rows have 1 instead of g and 0 instead of h (see `CountingEngine`).
        """

    @abstractmethod
    def add_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """Add the leaf value of each row to its margin."""

    @abstractmethod
    def numbers(self) -> npt.NDArray[np.integer]:
        """Return the node of each row."""

    # --- for statements -----------------------------------------------------------------------------------------------

    def show_values(self, values: Mapping[int, float]) -> str:
        """Expose the leaf value of each row to statements as the column ``value``; return the table's name."""
        added = np.zeros(self._gradients.n_rows)
        self.add_values(values, added)
        self._session.show(value=added)
        return SHOWN

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and the nodes of its numbers, which are the numbers themselves."""
        self._session.show(node=self.numbers())
        return SHOWN, {node: node for node in self._leaves}

    @property
    def sources(self) -> list[str]:
        """The tables that `case` reads."""
        table, _ = self.table()
        return [self._bins, table]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of each row's leaf."""
        return f"CASE node {' '.join(f'WHEN {node} THEN {values[node]}' for node in self._leaves)} END"

    def leaves(self) -> list[int]:
        """Return the current leaves of the tree."""
        return list(self._leaves)

    def drop(self) -> None:
        """Hide the nodes from statements."""
        self._session.hide("node")


class PartitionedNodes(NodesInMemory):
    """Nodes of rows with codes in memory: row numbers, contiguous by node.

    Parameters
    ----------
    session, bins, gradients
        See `NodesInMemory`.
    binned
        The codes.
    workers
        The threads.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, gradients: RowGradients, binned: BinnedColumns, workers: Workers
    ) -> None:
        from frameboost.engines.memory.partition import RowPartition

        super().__init__(session, bins, gradients)
        self._binned = binned
        self._workers = workers
        self.partition = RowPartition(gradients.n_rows, workers)
        self.restart()

    def restart(self) -> None:
        """See `NodesInMemory.restart`."""
        super().restart()
        self.partition.start_tree()
        self._is_started = False  # whether the codes are prepared to sum the gradients of the tree
        self._counted: FloatArray | None = None

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `NodesInMemory.move`."""
        super().move(splits)
        self.partition.apply_splits(splits, self._binned)

    def histograms(
        self, nodes: Sequence[int], tree: TreeGradients, n_rows: float, out: FloatArray, indices: IntArray, *,
        are_counted: bool = False,
    ) -> None:  # fmt: skip
        """See `NodesInMemory.histograms`."""
        gh = self._gradients.of(tree)
        if not self._is_started:
            self._binned.start_tree(gh, lambda: None)
            self._is_started = True
        if are_counted:
            if self._counted is None:
                self._counted = np.zeros_like(gh)
                self._counted[:, 0] = (gh != 0.0).any(axis=1)
            gh = self._counted
        self._binned.sum_by_bin(
            self.partition, nodes, [gh], out, [indices], self._workers, are_of_tree=not are_counted
        )  # fmt: skip

    def add_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """See `NodesInMemory.add_values`."""
        self.partition.add_leaf_values(values, margins)

    def numbers(self) -> npt.NDArray[np.int32]:
        """See `NodesInMemory.numbers`."""
        return self.partition.of_rows()


class RecordNodes(NodesInMemory):
    """Nodes of rows whose words are read in batches.

    If histograms are requested after a level was split, the rows of each batch are moved to the children, those of the
    requested nodes are selected, and their pairs are summed by code. Each thread processes a part of the batch, into
    separate sums.

    Parameters
    ----------
    session, bins, gradients
        See `NodesInMemory`.
    layout
        The bins of all features.
    word_layout, words
        The rows' words.
    stored
        The features with codes by row.
    dimensions
        The features that they have by keys.
    workers
        The threads.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, gradients: RowGradients, layout: SlotLayout, word_layout: WordLayout,
        words: StoredWords, stored: Sequence[int], dimensions: Sequence[KeyCodes], workers: Workers,
    ) -> None:  # fmt: skip
        super().__init__(session, bins, gradients)
        self._layout = layout
        self._words = words
        self._stored = stored
        self._dimensions = dimensions
        self._codes = _CodesOfKeys(layout, word_layout, dimensions)
        columns = [*(f"bin_{f}" for f in stored), *(each.column for each in dimensions)]
        self._fields = [word_layout.fields[name] for name in columns]
        self._workers = workers
        self._n_threads = min(workers.n_jobs, _MAX_THREADS)
        self._numbers: npt.NDArray[np.unsignedinteger] = np.zeros(gradients.n_rows, np.uint16)
        self.restart()

    def restart(self) -> None:
        """See `NodesInMemory.restart`."""
        super().restart()
        self._numbers.fill(0)
        self._n_nodes = 1
        self._waiting: dict[int, tuple[Split, int, int]] = {}

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `NodesInMemory.move`."""
        super().move(splits)
        self._waiting |= splits
        self._n_nodes = max(self._n_nodes, *(child + 1 for _, *children in splits.values() for child in children))
        if self._n_nodes > 1 << 16 and self._numbers.dtype == np.uint16:
            self._numbers = self._numbers.astype(np.uint32)

    # --- sweeps over the rows ----------------------------------------------------------------------------------------

    def histograms(
        self, nodes: Sequence[int], tree: TreeGradients, n_rows: float, out: FloatArray, indices: IntArray, *,
        are_counted: bool = False,
    ) -> None:  # fmt: skip
        """See `NodesInMemory.histograms`."""
        all_g, all_h = self._gradients.of(tree).T
        index_of = np.full(self._n_nodes, len(nodes), np.uint32)
        index_of[list(nodes)] = range(len(nodes))
        sums = [BinSums(self._layout, self._dimensions, len(nodes), n_rows)]
        n_threads = max(1, min(self._n_threads, _MAX_BYTES // sums[0].n_bytes))
        sums += [BinSums(self._layout, self._dimensions, len(nodes), n_rows) for _ in range(1, n_threads)]

        def add(thread: int, rows: slice, words: Batch) -> None:
            chosen = _ChosenRows(self._numbers[rows], index_of, len(nodes))
            codes = chosen.unpacked(words, self._fields)
            g, h = chosen.values_of(all_g[rows]), chosen.values_of(all_h[rows])
            if are_counted:
                g, h = ((g != 0.0) | (h != 0.0)).astype(np.float64), np.zeros(len(h))
            sums[thread].add(self._stored, codes, chosen.indices(), g, h)

        self._sweep(add, n_threads)
        for other in sums[1:]:
            sums[0].add_all(other)
        out[indices] = sums[0].result()

    def numbers(self) -> npt.NDArray[np.unsignedinteger]:
        """See `NodesInMemory.numbers`."""
        if self._waiting:
            self._sweep(lambda *_: None, self._n_threads)
        return self._numbers

    def add_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """See `NodesInMemory.add_values`."""
        by_number = np.zeros(self._n_nodes)
        by_number[list(values)] = list(values.values())

        def add(_: int, rows: slice, __: Batch) -> None:
            margins[rows] += by_number[self._numbers[rows]]

        self._sweep(add, self._n_threads)

    def _sweep(self, visit: Callable[[int, slice, Batch], None], n_threads: int) -> None:
        """Execute the deferred splits; call ``visit`` with each part of the rows, in threads.

        Its arguments are the index of the thread, the rows, and their words.
        """
        moves = _Moves(self._waiting, self._n_nodes, self._codes) if self._waiting else None

        def work(thread: int, parts: list[tuple[slice, Batch]]) -> None:
            for rows, words in _popped(parts):
                if moves is not None:
                    moves.carry_out(self._numbers[rows], words)
                visit(thread, rows, words)

        with closing(self._words.parts()) as lists:
            for parts in lists:
                self._workers.each(range(n_threads), partial(work, parts=parts))
        self._waiting = {}


def _popped(parts: list[tuple[slice, Batch]]) -> Iterator[tuple[slice, Batch]]:
    """Yield parts, each to one thread only."""
    while True:
        try:
            part = parts.pop()
        except IndexError:  # there are none left
            return
        yield part


class _ChosenRows:
    """The rows of a part that are in some nodes, grouped by node.

    So the sums of one node at a time are in the cache, and rows with the same key are adjacent.

    Parameters
    ----------
    numbers
        The node of each row of the part.
    indices
        uint32 (nodes,): the index of each chosen node; other nodes have the index after the last.
    n_nodes
        The number of chosen nodes.
    """

    def __init__(self, numbers: npt.NDArray[np.unsignedinteger], indices: npt.NDArray[np.uint32], n_nodes: int) -> None:
        from frameboost.engines.external_memory import group_rows

        rows, self._ends = np.empty(len(numbers), np.uint32), np.empty(n_nodes + 1, np.uint32)
        group_rows(numbers, indices, rows, self._ends)
        self._rows = rows[: self._ends[-2]]

    def indices(self) -> npt.NDArray[np.uint32]:
        """Return the node index of each row."""
        counts = np.diff(self._ends[:-1], prepend=0)
        return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)

    def values_of(self, values: FloatArray) -> FloatArray:
        """Return the rows' values, from the values of the part."""
        from frameboost.engines.duckdb.records.kernels import take

        out = np.empty(len(self._rows))
        take(values, self._rows, out)
        return out

    def unpacked(self, words: Batch, fields: Sequence[Field]) -> list[npt.NDArray[np.unsignedinteger]]:
        """Return the rows' codes and keys, from the words of the part."""
        from frameboost.engines.duckdb.records.kernels import take, unpack

        word, columns = np.empty(len(self._rows), np.uint64), list[npt.NDArray[np.unsignedinteger]]()
        taken = -1
        for field in fields:
            if field.word != taken:
                take(words[field.word], self._rows, word)
                taken = field.word
            columns.append(np.empty(len(word), field.dtype))
            unpack(word, field.shift, columns[-1])
        return columns


class _CodesOfKeys:
    """The codes of the keys of all dimensions, in one array.

    It starts with the integers from 0: a code of the rows is looked up like a key with one code, the code itself.

    Parameters
    ----------
    layout
        The bins of all features.
    word_layout
        The layout of the rows' words.
    dimensions
        The features with codes by key.
    """

    def __init__(self, layout: SlotLayout, word_layout: WordLayout, dimensions: Sequence[KeyCodes]) -> None:
        self.layout = layout
        self._fields = word_layout.fields
        self._of_feature: dict[int, tuple[str, tuple[int, int, int]]] = {}
        by_key = {feature for each in dimensions for feature in each.features}
        largest = max((bins.largest_code for f, bins in enumerate(layout.bins) if f not in by_key), default=0)
        codes = [np.arange(largest + 1, dtype=np.min_scalar_type(largest))]
        start = len(codes[0])
        for each in dimensions:
            n_features = len(each.features)
            self._of_feature |= {f: (each.column, (start, n_features, i)) for i, f in enumerate(each.features)}
            codes.append(each.codes.ravel())
            start += each.codes.size
        self.codes = np.concatenate(codes)

    def field(self, feature: int) -> tuple[int, int, int, int, int, int]:
        """Return the word, shift and mask to look up for a split on a feature, and the location in ``codes``.

        The location is the index of the first key, the number of a key's codes, and the feature's index among them.
        """
        column, index = self._of_feature.get(feature, (f"bin_{feature}", _ITSELF))
        field = self._fields[column]
        return field.word, field.shift, int(np.iinfo(field.dtype).max), *index


class _Moves:
    """Splits as arguments of `frameboost.engines.duckdb.records.kernels.move_records`.

    Parameters
    ----------
    splits
        Node -> (split, left child, right child).
    n_nodes
        The number of nodes of the tree, numbered from 0.
    codes
        The codes that the splits look up.
    """

    def __init__(self, splits: Mapping[int, tuple[Split, int, int]], n_nodes: int, codes: _CodesOfKeys) -> None:
        self._splits = np.full(n_nodes, -1, np.int32)
        self._splits[list(splits)] = range(len(splits))
        self._codes = codes.codes
        fields, children, start = [], [], 0
        for split, left, right in splits.values():
            goes_left = split.goes_left(codes.layout.bins[split.feature].missing + 1)
            fields.append([*codes.field(split.feature), start])
            children.append(np.where(goes_left, left, right))
            start += len(goes_left)
        self._fields = np.array(fields, np.uint64)
        self._children = np.concatenate(children).astype(np.uint32)

    def carry_out(self, numbers: npt.NDArray[np.unsignedinteger], words: Batch) -> None:
        """Move rows with these words, (words, rows), from the nodes with these numbers, in place."""
        from frameboost.engines.duckdb.records.kernels import move_records

        addresses = np.array([each.ctypes.data for each in words], np.uint64)
        move_records(numbers, self._splits, addresses, self._fields, self._codes, self._children)

"""The DuckDB engine with nodes, g and h in memory, if they fit: histograms take no statements.

Bins, gradients and metrics are computed in the database, as in the base class. But codes are packed into 64-bit words
(`WordLayout`), as a few wide columns are faster to read than many narrow ones. The words are held in memory if there is
room, otherwise read in batches for each level (`Words`). Each level takes one sweep over the rows: they are moved to
their nodes, and the rows of the requested nodes are summed by bin (`RecordNodes`).

If there is room, roles and margins are held too, as the columns of one table that statements read (`SHOWN`), with g and
h. A round then takes one statement, which computes g and h, and writes no table. Tables joined by position are read by
one thread; one table by all threads, in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

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

__all__ = [
    "BYTES_PER_ROW", "BYTES_PER_WORD", "DuckDBRecordEngine", "HeldWords", "RecordNodes", "RowGradients", "StoredWords",
    "WordLayout",
]  # fmt: skip

# What is in memory takes at most this part of what the database may take.
_SHARE = 1 / 8
# A number, g and h; and, where they are held too, each word.
BYTES_PER_ROW, BYTES_PER_WORD = 2 + 8 + 8, 8
_BYTES_PER_NUMBER = 8  # each role and margin, g and h of each margin, and the position
# For each row its query, its rank in it, and what sums over pairs read and return.
_BYTES_FOR_PAIRS = 128
# The most columns of codes: all are read at once.
_MAX_COLUMNS = 1 << 14
# Rows that a thread takes at once where words are in memory; and parts of a batch where they are not, which are more
# than the threads, as one of these also reads the next batch.
_PART, _PARTS = 1 << 16, 4
# The most memory for the sums of all threads; more of them would add no faster than the database reads.
_MAX_BYTES, _MAX_THREADS = 1 << 28, 4
_BITS = 64  # of a word
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
        self._record_nodes: RecordNodes | None = None
        self._row_gh: RowGradients | None = None

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._is_in_memory = len(self.tables.features) <= _MAX_COLUMNS and self.may_be_in_memory(BYTES_PER_ROW)
        super().bin_columns(bins)
        if self._word_layout is not None:
            names = self._word_layout.names
            words: Words = StoredWords(self.session, self.bins, names)
            with_words = BYTES_PER_ROW + BYTES_PER_WORD * len(names)
            if self._may_take(with_words):
                words, self._bytes_per_row = HeldWords.read(self.session, self.bins, names, self.n_rows), with_words
            self.hold_nodes(self._word_layout, words)
            self._may_sort = False

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`; margins and roles are held in memory if there is room."""
        n_bytes = self._bytes_per_row + _BYTES_PER_NUMBER * (1 + len(self.roles) + 3 * len(margins))
        are_numbers = "qid" not in self.roles and self._row_roles == [*self.roles]  # without those of linear leaves
        if self._word_layout is None or not are_numbers or not self._may_take(n_bytes):
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
        numbers = [f"CAST({sql} AS DOUBLE)" for sql in columns.values()]
        _read_columns(self.session, rows, numbers, [*arrays.values()], in_order)
        self.session.show(**arrays)
        return arrays

    def hold_nodes(self, word_layout: WordLayout, words: Words) -> None:
        """Hold the nodes of the rows in memory, with their g and h, from their words."""
        self._record_nodes = RecordNodes(
            self.session, self.bins, self.layout, word_layout, words, self.row_gh, self.tables.features,
            self.tables.dimensions, self._workers, min(self._workers.n_jobs, self.n_threads),
        )  # fmt: skip

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
        """See `DuckDBEngine.packing`: in words, if these fit in memory."""
        return self._in_words if self._is_in_memory else None

    def _in_words(self, largest: Mapping[str, int]) -> list[str]:
        self._word_layout = WordLayout(largest)
        return [*self._word_layout.sql(), *self.roles]

    def close(self) -> None:
        """See `Engine.close`."""
        self._record_nodes = self._row_gh = None
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
        return Stats(*(float(values.sum()) for values in self.row_gh.of(gh)))

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
            out[indices] = self._record_nodes.histograms(nodes, self.gh, self.rows_in(nodes))

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        if self._record_nodes is None or self._outputs:
            super().row_counts(nodes, out, indices)
        else:
            out[indices] = self._record_nodes.histograms(nodes, self.gh, self.rows_in(nodes), are_counted=True)

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


class Words(Protocol):
    """The words of all rows."""

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """Yield lists of parts of the rows with their words, valid until the next list."""


class HeldWords:
    """The words in memory: uint64 (rows,) each."""

    def __init__(self, words: Batch) -> None:
        self._words = words

    @classmethod
    def read(cls, session: DuckDBSession, table: str, names: Sequence[str], n_rows: int) -> HeldWords:
        """Return the words that are columns of a table."""
        words = [np.empty(n_rows, np.uint64) for _ in names]
        _read_columns(session, table, names, words)
        return cls(words)

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """See `Words.parts`."""
        n_rows = len(self._words[0])
        yield [(rows, [words[rows] for words in self._words]) for rows in _slices(n_rows, n_rows // _PART)]


class StoredWords:
    """The words as columns of a table, which every call reads again."""

    def __init__(self, session: DuckDBSession, table: str, names: Sequence[str]) -> None:
        self._session = session
        self._table = table
        self._names = names

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """See `Words.parts`."""
        with closing(_batches(self._session, self._table, self._names, np.uint64)) as batches:
            for rows, batch in batches:
                parts = _slices(len(batch[0]), _PARTS)
                yield [(slice(rows.start + p.start, rows.start + p.stop), [words[p] for words in batch]) for p in parts]


def _read_columns(
    session: DuckDBSession, table: str, columns: Sequence[str], out: Sequence[npt.NDArray[Any]], in_order: str = ""
) -> None:
    """Write columns of a table, all of one type, to the arrays ``out``."""
    with closing(_batches(session, table, columns, out[0].dtype, in_order)) as batches:
        for rows, batch in batches:
            for column, values in zip(out, batch, strict=True):
                column[rows] = values


def _batches(
    session: DuckDBSession, table: str, columns: Sequence[str], dtype: npt.DTypeLike, in_order: str = ""
) -> Generator[tuple[slice, Batch], None, None]:
    """Yield the batches of columns of a table, all of one type, with the rows of each batch.

    Close it at once on KeyboardInterrupt, because the connection rejects other statements until then.
    """
    statement = render("read_rows", rows=table, columns=", ".join(columns), is_asked="TRUE", in_order=in_order)
    start = 0
    with closing(session.batches(statement, [dtype] * len(columns))) as batches:
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

    @cached_property
    def _values(self) -> list[FloatArray]:
        return [np.empty(self.n_rows) for _ in range(2)]

    def of(self, gh: TreeGradients) -> list[FloatArray]:
        """Return g and h of a tree: those held, or those of a table, which are read once."""
        if gh.table == SHOWN:
            return [self._session.shown[name] for name in (gh.g, gh.h)]
        if self._read != gh:
            names = [f"CAST({name} AS DOUBLE)" for name in (gh.g, gh.h)]
            _read_columns(self._session, gh.table, names, self._values)
            self._read = gh
        return self._values

    def forget(self) -> FloatArray:
        """Note that g and h must be read again; return the array of one of them for reuse."""
        self._read = None
        return self._values[0]


class RecordNodes:
    """The nodes of the rows while a tree grows, in memory.

    Splits are deferred until the rows are read next. If histograms are requested after a level was split, the rows of
    each batch are moved to the children, those of the requested nodes are selected, and their pairs are summed by code.
    Each thread processes a part of the batch, into separate sums.

    Parameters
    ----------
    session
        The session of the rows.
    bins
        The table of the rows.
    layout
        The bins of all features.
    word_layout, words
        The rows' words.
    gradients
        The g and h of the rows.
    stored
        The features with codes by row.
    dimensions
        The features that they have by keys.
    workers, n_threads
        The threads, and the maximum number that run at once.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, layout: SlotLayout, word_layout: WordLayout, words: Words,
        gradients: RowGradients, stored: Sequence[int], dimensions: Sequence[KeyCodes], workers: Workers,
        n_threads: int,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._layout = layout
        self._words = words
        self._gradients = gradients
        self._stored = stored
        self._dimensions = dimensions
        self._codes = _CodesOfKeys(layout, word_layout, dimensions)
        columns = [*(f"bin_{f}" for f in stored), *(each.column for each in dimensions)]
        self._fields = [word_layout.fields[name] for name in columns]
        self._workers = workers
        self._n_threads = min(n_threads, _MAX_THREADS)
        self._numbers: npt.NDArray[np.unsignedinteger] = np.zeros(gradients.n_rows, np.uint16)
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of a new tree."""
        self._numbers.fill(0)
        self._n_nodes = 1
        self._leaves: dict[int, None] = {0: None}  # in order
        self._waiting: dict[int, tuple[Split, int, int]] = {}

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Defer splits: node -> (split, left child, right child)."""
        self._waiting |= splits
        for node, (_, *children) in splits.items():
            del self._leaves[node]
            self._leaves |= dict.fromkeys(children)
            self._n_nodes = max(self._n_nodes, *(child + 1 for child in children))
        if self._n_nodes > 1 << 16 and self._numbers.dtype == np.uint16:
            self._numbers = self._numbers.astype(np.uint32)

    # --- sweeps over the rows ----------------------------------------------------------------------------------------

    def histograms(
        self, nodes: Sequence[int], tree: TreeGradients, n_rows: float, *, are_counted: bool = False
    ) -> FloatArray:
        """Return the histograms of nodes, of about ``n_rows`` rows, (nodes, slots, 2).

        If they ``are_counted``, rows have 1 instead of g and 0 instead of h (see `CountingEngine`).
        """
        all_g, all_h = self._gradients.of(tree)
        indices = np.full(self._n_nodes, len(nodes), np.uint32)
        indices[list(nodes)] = range(len(nodes))
        sums = [BinSums(self._layout, self._dimensions, len(nodes), n_rows)]
        n_threads = max(1, min(self._n_threads, _MAX_BYTES // sums[0].n_bytes))
        sums += [BinSums(self._layout, self._dimensions, len(nodes), n_rows) for _ in range(1, n_threads)]

        def add(thread: int, rows: slice, words: Batch) -> None:
            chosen = _ChosenRows(self._numbers[rows], indices, len(nodes))
            codes = chosen.unpacked(words, self._fields)
            g, h = chosen.values_of(all_g[rows]), chosen.values_of(all_h[rows])
            if are_counted:
                g, h = ((g != 0.0) | (h != 0.0)).astype(np.float64), np.zeros(len(h))
            sums[thread].add(self._stored, codes, chosen.indices(), g, h)

        self._sweep(add, n_threads)
        for other in sums[1:]:
            sums[0].add_all(other)
        return sums[0].result()

    def settle(self) -> None:
        """Execute the deferred splits."""
        if self._waiting:
            self._sweep(lambda *_: None, self._n_threads)

    def add_values(self, values: Mapping[int, float], margins: FloatArray) -> None:
        """Add the leaf value of each row to its margin."""
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

    # --- for statements -----------------------------------------------------------------------------------------------

    def show_values(self, values: Mapping[int, float]) -> str:
        """Expose the leaf value of each row to statements as the column ``value``; return the table's name.

        It overwrites the tree's g and h, which are no longer needed.
        """
        out = self._gradients.forget()
        out.fill(0.0)
        self.add_values(values, out)
        self._session.show(value=out)
        return SHOWN

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and the nodes of its numbers, which are the numbers themselves."""
        self.settle()
        self._session.show(node=self._numbers)
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

"""The node, g and h of every fact in memory: facts are read once a level, moved, and added up at once.

Tables that are joined by position are read by one thread; the words of the facts alone (see `records`) by all threads,
in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.engines.duckdb.batch_sums import BinSums
from frameboost.engines.duckdb.gradients import TreePair
from frameboost.engines.duckdb.session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.engines.duckdb.star.records import Field, Records
from frameboost.expressions.sql_files import render
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, Split

__all__ = ["BYTES_PER_FACT", "FactNodes"]

# A number, g and h.
BYTES_PER_FACT = 2 + 8 + 8
# The most memory for the sums of all threads; more of them would add no faster than the database reads.
_MOST_BYTES, _MOST_THREADS = 1 << 28, 4

Numbers = npt.NDArray[np.unsignedinteger]


class FactNodes:
    """The nodes of the facts while a tree grows.

    Splits are put off until the facts are read next. Say histograms are asked for after a level was split: the facts of
    each batch are moved to the children, those of the nodes asked for are chosen, and their codes are added up. Each
    thread does so with a part of the batch, and has sums of its own.

    Parameters
    ----------
    session
        Where the facts are.
    bins
        Their table.
    layout
        The bins of all features.
    records
        The layout of its words.
    stored
        The features whose codes the facts have.
    dimensions
        The dimensions whose keys they have.
    n_facts
        How many there are.
    workers, n_threads
        The threads, and how many of them may work at once.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, layout: SlotLayout, records: Records, stored: Sequence[int],
        dimensions: Sequence[StarDimension], n_facts: int, workers: Workers, n_threads: int,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._layout = layout
        self._records = records
        self._stored = stored
        self._dimensions = dimensions
        self._codes = _AllCodes(dimensions)
        self._fields = [records.fields[name] for name in [*(f"bin_{f}" for f in stored), *self._codes.columns]]
        self._workers = workers
        self._n_threads = min(n_threads, _MOST_THREADS)
        self._numbers: Numbers = np.zeros(n_facts, np.uint16)
        self._pairs = np.empty((2, n_facts))
        self.restart()

    def restart(self) -> None:
        """Put all facts into the root of another tree, whose g and h are others too."""
        self._numbers.fill(0)
        self._n_nodes = 1
        self._leaves: dict[int, None] = {0: None}  # in order
        self._waiting: dict[int, tuple[Split, int, int]] = {}
        self._pair: TreePair | None = None  # which g and h are in memory

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Put off splits: node -> (split, left child, right child)."""
        self._waiting |= splits
        for node, (_, *children) in splits.items():
            del self._leaves[node]
            self._leaves |= dict.fromkeys(children)
            self._n_nodes = max(self._n_nodes, *(child + 1 for child in children))
        if self._n_nodes > 1 << 16 and self._numbers.dtype == np.uint16:
            self._numbers = self._numbers.astype(np.uint32)

    # --- sweeps over the facts ----------------------------------------------------------------------------------------

    def histograms(self, nodes: Sequence[int], pair: TreePair, n_rows: float) -> FloatArray:
        """Return the histograms of nodes, of about ``n_rows`` facts, (nodes, slots, 2)."""
        self._read_pairs(pair)
        places = np.full(self._n_nodes, len(nodes), np.uint32)
        places[list(nodes)] = range(len(nodes))
        n_bytes = 16 * len(nodes) * (self._layout.n_slots + sum(each.n_keys for each in self._dimensions))
        n_parts = max(1, min(self._n_threads, _MOST_BYTES // n_bytes))
        sums = [BinSums(self._layout, self._dimensions, len(nodes), n_rows) for _ in range(n_parts)]
        chosen = [_ChosenFacts(self._fields, len(self._records.names), len(nodes)) for _ in sums]
        moves = self._moves()

        def add(part: _Part) -> None:
            numbers, own = self._numbers[part.facts], chosen[part.number]
            if moves is not None:
                moves.carry_out(numbers, part.addresses)
            own.choose(numbers, places, self._pairs[:, part.facts], part.addresses)
            sums[part.number].add(self._stored, own.columns(), own.places, *own.pairs)

        for parts in self._parts(n_parts):
            self._workers.each(parts, add)
        self._waiting = {}
        for other in sums[1:]:
            sums[0].add_all(other)
        return sums[0].result()

    def settle(self) -> None:
        """Carry out the splits that were put off."""
        moves = self._moves()
        if moves is not None:
            for parts in self._parts(self._n_threads):
                self._workers.each(parts, lambda part: moves.carry_out(self._numbers[part.facts], part.addresses))
            self._waiting = {}

    def _read_pairs(self, pair: TreePair) -> None:
        """Read g and h of a tree, once."""
        if self._pair != pair:
            names = ", ".join(f"CAST({name} AS DOUBLE)" for name in (pair.g, pair.h))
            statement = render("read_rows", rows=pair.table, columns=names, is_asked="TRUE")
            start = 0
            with closing(self._session.batches(statement, [np.float64, np.float64])) as batches:
                for batch in batches:
                    facts = slice(start, start + len(batch[0]))
                    for out, numbers in zip(self._pairs, batch, strict=True):
                        out[facts] = numbers
                    start = facts.stop
            self._pair = pair

    def _parts(self, n_parts: int) -> Iterator[list[_Part]]:
        """Yield each batch of the facts in so many parts."""
        names = self._records.names
        statement = render("read_rows", rows=self._bins, columns=", ".join(names), is_asked="TRUE")
        start = 0
        with closing(self._session.batches(statement, [np.uint64] * len(names))) as batches:
            for batch in batches:
                n, addresses = len(batch[0]), np.array([words.ctypes.data for words in batch], np.uint64)
                bounds = pairwise(n * k // n_parts for k in range(n_parts + 1))
                yield [
                    _Part(number, slice(start + first, start + last), addresses + np.uint64(8 * first))
                    for number, (first, last) in enumerate(bounds)
                ]
                start += n

    def _moves(self) -> _Moves | None:
        """Return the splits that were put off."""
        if not self._waiting:
            return None
        splits = np.full(self._n_nodes, -1, np.int32)
        fields, children, start = [], [], 0
        for number, (node, (split, left, right)) in enumerate(self._waiting.items()):
            splits[node] = number
            column, of_key = self._codes.of_feature.get(split.feature, (f"bin_{split.feature}", (0, 0, 0)))
            field = self._records.fields[column]
            fields.append([field.word, field.shift, np.iinfo(field.dtype).max, *of_key, start])
            goes_left = split.goes_left(self._layout.bins[split.feature].missing + 1)
            children.append(np.where(goes_left, left, right))
            start += len(goes_left)
        all_children = np.concatenate(children).astype(np.uint32)
        return _Moves(splits, np.array(fields, np.uint64), self._codes.codes, all_children)

    # --- for statements -----------------------------------------------------------------------------------------------

    def show_values(self, values: Mapping[int, float]) -> str:
        """Have statements read the value of each fact's leaf as the column ``value``; return the table's name.

        This takes the place of the tree's g and h, which have served their purpose.
        """
        self.settle()
        by_number = np.zeros(self._n_nodes)
        by_number[list(values)] = list(values.values())
        self._pair, out = None, self._pairs[0]
        np.take(by_number, self._numbers, out=out, mode="clip")
        self._session.show(value=out)
        return SHOWN

    def table(self) -> tuple[str, dict[int, int]]:
        """Return a table with the column ``node``, and the node of each of its numbers, which is itself."""
        self.settle()
        self._session.show(node=self._numbers)
        return SHOWN, {node: node for node in self._leaves}

    @property
    def sources(self) -> list[str]:
        """The tables whose columns `case` reads."""
        table, _ = self.table()
        return [self._bins, table]

    def case(self, values: Mapping[int, str]) -> str:
        """Return an expression over `sources`: the value of the fact's leaf."""
        return f"CASE node {' '.join(f'WHEN {node} THEN {values[node]}' for node in self._leaves)} END"

    def leaves(self) -> list[int]:
        """Return the leaves of the tree so far."""
        return list(self._leaves)

    def drop(self) -> None:
        """Have statements no longer read what is in memory."""
        self._session.show()


class _Part(NamedTuple):
    """A part of a batch: its number, which facts these are, and where each of their words is."""

    number: int
    facts: slice
    addresses: npt.NDArray[np.uint64]


class _AllCodes:
    """The codes of the keys of all dimensions in one array.

    Attributes
    ----------
    codes
        The codes, uint8 or uint32.
    columns
        The columns of the keys.
    of_feature
        Of each feature, the column of its key and, in ``codes``, where the keys start, how many features each has, and
        which of these it is.
    """

    def __init__(self, dimensions: Sequence[StarDimension]) -> None:
        found = [each.codes.ravel() for each in dimensions if each.codes is not None]
        self.codes = found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.uint8), *found])
        self.columns = [each.column for each in dimensions]
        self.of_feature: dict[int, tuple[str, tuple[int, int, int]]] = {}
        start = 0
        for each, codes in zip(dimensions, found, strict=True):
            n_features = len(each.features)
            self.of_feature |= {f: (each.column, (start, n_features, i)) for i, f in enumerate(each.features)}
            start += len(codes)


class _Moves(NamedTuple):
    """Splits as `move_facts` takes them."""

    splits: npt.NDArray[np.int32]
    fields: npt.NDArray[np.uint64]
    codes: npt.NDArray[np.unsignedinteger]
    children: npt.NDArray[np.uint32]

    def carry_out(self, numbers: Numbers, addresses: npt.NDArray[np.uint64]) -> None:
        """Move the facts whose words are at these addresses."""
        from frameboost.engines.duckdb.star.kernels import move_facts

        move_facts(numbers, self.splits, addresses, self.fields, self.codes, self.children)


class _ChosenFacts:
    """The facts of a part that are to be added up, one place after the other; the memory is used again.

    Attributes
    ----------
    places, pairs
        uint32 (rows,) and float64 (2, rows).
    """

    def __init__(self, fields: Sequence[Field], n_words: int, n_places: int) -> None:
        self._fields = fields
        self._n_words = n_words
        self._ends = np.empty(n_places + 1, np.int64)
        self._n_most = -1

    def choose(self, numbers: Numbers, places: npt.NDArray[np.uint32], pairs: FloatArray, addresses: Any) -> None:
        """Choose the facts whose node has a place but the last."""
        from frameboost.engines.duckdb.star.kernels import choose_facts

        n = len(numbers)
        if n > self._n_most:
            self._n_most = n
            self._places, self._pairs = np.empty(n, np.uint32), np.empty((2, n))
            self._words = np.empty((self._n_words, n), np.uint64)
            self._columns: list[Any] = [np.empty(n, field.dtype) for field in self._fields]
        g, h = pairs
        n = choose_facts(numbers, places, g, h, addresses, self._ends, self._places, self._pairs, self._words)
        self.places, self.pairs, self._n = self._places[:n], self._pairs[:, :n], n

    def columns(self) -> list[npt.NDArray[np.unsignedinteger]]:
        """Return the codes and keys of the facts."""
        from frameboost.engines.duckdb.star.kernels import unpack

        columns = [column[: self._n] for column in self._columns]
        for field, column in zip(self._fields, columns, strict=True):
            unpack(self._words[field.word], field.shift, column)
        return columns

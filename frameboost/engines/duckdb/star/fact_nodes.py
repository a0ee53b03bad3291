"""The node, g and h of every fact in memory: facts are read once a level, moved, and added up at once.

Tables that are joined by position are read by one thread; the words of the facts alone (see `records`) by all threads,
in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.engines.duckdb.arrow_batches import Batch
from frameboost.engines.duckdb.batch_sums import BinSums
from frameboost.engines.duckdb.gradients import TreePair
from frameboost.engines.duckdb.session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.engines.duckdb.star.records import Field, Records
from frameboost.expressions.sql_files import render
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, Split

__all__ = ["BYTES_PER_FACT", "BYTES_PER_WORD", "FactNodes"]

# A number, g and h; and, where they are held too, each word.
BYTES_PER_FACT, BYTES_PER_WORD = 2 + 8 + 8, 8
# The most memory for the sums of all threads; more of them would add no faster than the database reads.
_MOST_BYTES, _MOST_THREADS = 1 << 28, 4

# Facts that a thread takes at once where words are in memory; and parts of a batch where they are not, which are more
# than the threads, as one of these also reads the next batch.
_PART, _PARTS = 1 << 16, 4
# Where `_AllCodes` has the code that a column of the facts has itself.
_ITSELF = (0, 1, 0)

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
    holds_words
        Whether to hold the words in memory too; otherwise they are read for each level.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, layout: SlotLayout, records: Records, stored: Sequence[int],
        dimensions: Sequence[StarDimension], n_facts: int, workers: Workers, n_threads: int, *,
        holds_words: bool,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._layout = layout
        self._records = records
        self._stored = stored
        self._dimensions = dimensions
        self._codes = _AllCodes(dimensions, max((layout.bins[f].largest_code for f in stored), default=0))
        columns = [*(f"bin_{f}" for f in stored), *(each.column for each in dimensions)]
        self._fields = [records.fields[name] for name in columns]
        self._workers = workers
        self._n_threads = min(n_threads, _MOST_THREADS)
        self._numbers: Numbers = np.zeros(n_facts, np.uint16)
        self._pairs = np.empty((2, n_facts))
        self._words = self._read_words() if holds_words else None
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
        sums = [BinSums(self._layout, self._dimensions, len(nodes), n_rows)]
        n_threads = max(1, min(self._n_threads, _MOST_BYTES // sums[0].n_bytes))
        sums += [BinSums(self._layout, self._dimensions, len(nodes), n_rows) for _ in range(1, n_threads)]
        free = list(sums)

        def add(facts: slice, words: Batch) -> None:
            chosen = _ChosenFacts(self._numbers[facts], places, len(nodes))
            own = free.pop()
            codes = chosen.unpacked(words, self._fields)
            own.add(self._stored, codes, chosen.places(), *map(chosen.taken, self._pairs[:, facts]))
            free.append(own)

        self._sweep(add, n_threads)
        for other in sums[1:]:
            sums[0].add_all(other)
        return sums[0].result()

    def settle(self) -> None:
        """Carry out the splits that were put off."""
        if self._waiting:
            self._sweep(lambda *_: None, self._n_threads)

    def _sweep(self, visit: Callable[[slice, Batch], None], n_threads: int) -> None:
        """Carry out the splits that were put off; call ``visit`` on parts of the facts, and their words, in threads."""
        moves = self._moves()

        def take(part: tuple[slice, Batch]) -> None:
            facts, words = part
            if moves is not None:
                moves.carry_out(self._numbers[facts], words)
            visit(facts, words)

        for parts in self._parts():
            self._workers.each(parts, take, alone=n_threads == 1)
        self._waiting = {}

    def _read(self, statement: str, out: npt.NDArray[Any]) -> Batch:
        """Write the columns that a statement reads to ``out``, (columns, facts); return that."""
        start = 0
        with closing(self._session.batches(statement, [out.dtype] * len(out))) as batches:
            for batch in batches:
                facts = slice(start, start + len(batch[0]))
                for column, values in zip(out, batch, strict=True):
                    column[facts] = values
                start = facts.stop
        return list(out)

    def _parts(self) -> Iterator[list[tuple[slice, Batch]]]:
        """Yield lists of parts of the facts with their words, which are valid until the next list is asked for."""
        n_facts = len(self._numbers)
        if self._words is not None:
            yield [(facts, [words[facts] for words in self._words]) for facts in _slices(n_facts, n_facts // _PART)]
            return
        names = self._records.names
        statement = render("read_rows", rows=self._bins, columns=", ".join(names), is_asked="TRUE")
        start = 0
        with closing(self._session.batches(statement, [np.uint64] * len(names))) as batches:
            for batch in batches:
                own = _slices(len(batch[0]), _PARTS)
                yield [(slice(start + s.start, start + s.stop), [words[s] for words in batch]) for s in own]
                start += len(batch[0])

    def _read_words(self) -> Batch:
        """Read the words of all facts."""
        names, n_facts = self._records.names, len(self._numbers)
        statement = render("read_rows", rows=self._bins, columns=", ".join(names), is_asked="TRUE")
        return self._read(statement, np.empty((len(names), n_facts), np.uint64))

    def _read_pairs(self, pair: TreePair) -> None:
        """Read g and h of a tree, once."""
        if self._pair != pair:
            names = ", ".join(f"CAST({name} AS DOUBLE)" for name in (pair.g, pair.h))
            statement = render("read_rows", rows=pair.table, columns=names, is_asked="TRUE")
            self._read(statement, self._pairs)
            self._pair = pair

    def _moves(self) -> _Moves | None:
        """Return the splits that were put off."""
        if not self._waiting:
            return None
        splits = np.full(self._n_nodes, -1, np.int32)
        fields, children, start = [], [], 0
        for number, (node, (split, left, right)) in enumerate(self._waiting.items()):
            splits[node] = number
            column, of_key = self._codes.of_feature.get(split.feature, (f"bin_{split.feature}", _ITSELF))
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


def _slices(size: int, count: int) -> list[slice]:
    """Divide a range into so many slices, at least one."""
    count = max(1, count)
    return [slice(first, last) for first, last in pairwise(size * k // count for k in range(count + 1))]


class _AllCodes:
    """The codes of the keys of all dimensions in one array, behind the codes of the facts' own columns, which are keys.

    Attributes
    ----------
    codes
        The codes, uint8 or uint32.
    of_feature
        Of each feature, the column of its key and, in ``codes``, where the keys start, how many features each has, and
        which of these it is.
    """

    def __init__(self, dimensions: Sequence[StarDimension], largest: int) -> None:
        found = [np.arange(largest + 1, dtype=np.min_scalar_type(largest))]
        self.of_feature: dict[int, tuple[str, tuple[int, int, int]]] = {}
        start = len(found[0])
        for each in dimensions:
            assert each.codes is not None
            n_features = len(each.features)
            self.of_feature |= {f: (each.column, (start, n_features, i)) for i, f in enumerate(each.features)}
            found.append(each.codes.ravel())
            start += each.codes.size
        self.codes = np.concatenate(found)


class _Moves(NamedTuple):
    """Splits as `move_facts` takes them."""

    splits: npt.NDArray[np.int32]
    fields: npt.NDArray[np.uint64]
    codes: npt.NDArray[np.unsignedinteger]
    children: npt.NDArray[np.uint32]

    def carry_out(self, numbers: Numbers, words: Batch) -> None:
        """Move the facts that have these words."""
        from frameboost.engines.duckdb.star.kernels import move_facts

        addresses = np.array([each.ctypes.data for each in words], np.uint64)
        move_facts(numbers, self.splits, addresses, self.fields, self.codes, self.children)


class _ChosenFacts:
    """The facts of a part whose nodes have a place but the last, one place after the other.

    So the sums of one place at a time are in the cache, and facts of one key lie side by side.
    """

    def __init__(self, numbers: Numbers, places: npt.NDArray[np.uint32], n_places: int) -> None:
        from frameboost.engines.external_memory.node_kernels import group_rows

        rows, self._ends = np.empty(len(numbers), np.uint32), np.empty(n_places + 1, np.uint32)
        group_rows(numbers, places, rows, self._ends)
        self._rows = rows[: self._ends[-2]]

    def places(self) -> npt.NDArray[np.uint32]:
        """Return the place of each."""
        counts = np.diff(self._ends[:-1], prepend=0)
        return np.repeat(np.arange(len(counts), dtype=np.uint32), counts)

    def taken(self, values: FloatArray) -> FloatArray:
        """Return their values, of those of the part."""
        from frameboost.engines.duckdb.star.kernels import take

        out = np.empty(len(self._rows))
        take(values, self._rows, out)
        return out

    def unpacked(self, words: Batch, fields: Sequence[Field]) -> list[npt.NDArray[np.unsignedinteger]]:
        """Return their codes and keys, of the words of the part."""
        from frameboost.engines.duckdb.star.kernels import take, unpack

        own, found = np.empty(len(self._rows), np.uint64), list[npt.NDArray[np.unsignedinteger]]()
        read = -1
        for field in fields:
            if field.word != read:
                take(words[field.word], self._rows, own)
                read = field.word
            found.append(np.empty(len(own), field.dtype))
            unpack(own, field.shift, found[-1])
        return found

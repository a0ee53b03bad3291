"""The node, g and h of every row in memory: rows are read once a level, moved, and added up at once.

Tables that are joined by position are read by one thread; the words of the rows alone (see `layout`) by all threads,
in a fifth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import SlotLayout
from frameboost.data.arrow_batches import Batch
from frameboost.data.duckdb_session import SHOWN, DuckDBSession
from frameboost.engines.duckdb.batch_sums import BinSums
from frameboost.engines.duckdb.gradients import TreeGradients
from frameboost.engines.duckdb.records.chosen_rows import ChosenRows
from frameboost.engines.duckdb.records.gradients import RowGradients
from frameboost.engines.duckdb.records.layout import Records
from frameboost.engines.duckdb.records.moves import CodesOfKeys, Moves
from frameboost.engines.duckdb.records.words import Words
from frameboost.engines.duckdb.star.dimension import StarDimension
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, Split

__all__ = ["BYTES_PER_ROW", "BYTES_PER_WORD", "RecordNodes"]

# A number, g and h; and, where they are held too, each word.
BYTES_PER_ROW, BYTES_PER_WORD = 2 + 8 + 8, 8
# The most memory for the sums of all threads; more of them would add no faster than the database reads.
_MAX_BYTES, _MAX_THREADS = 1 << 28, 4

Numbers = npt.NDArray[np.unsignedinteger]


class RecordNodes:
    """The nodes of the rows while a tree grows.

    Splits are put off until the rows are read next. Say histograms are asked for after a level was split: the rows of
    each batch are moved to the children, those of the nodes asked for are chosen, and their codes are added up. Each
    thread does so with a part of the batch, and has sums of its own.

    Parameters
    ----------
    session
        Where the rows are.
    bins
        Their table.
    layout
        The bins of all features.
    records, words
        The rows' words: their layout, and what they are.
    gradients
        Their g and h.
    stored
        The features whose codes they have.
    dimensions
        The dimensions whose keys they have.
    workers, n_threads
        The threads, and how many of them may work at once.
    """

    def __init__(
        self, session: DuckDBSession, bins: str, layout: SlotLayout, records: Records, words: Words,
        gradients: RowGradients,
        stored: Sequence[int], dimensions: Sequence[StarDimension], workers: Workers, n_threads: int,
    ) -> None:  # fmt: skip
        self._session = session
        self._bins = bins
        self._layout = layout
        self._words = words
        self._gradients = gradients
        self._stored = stored
        self._dimensions = dimensions
        self._codes = CodesOfKeys(layout, records, dimensions)
        columns = [*(f"bin_{f}" for f in stored), *(each.column for each in dimensions)]
        self._fields = [records.fields[name] for name in columns]
        self._workers = workers
        self._n_threads = min(n_threads, _MAX_THREADS)
        self._numbers: Numbers = np.zeros(len(gradients), np.uint16)
        self.restart()

    def restart(self) -> None:
        """Put all rows into the root of another tree."""
        self._numbers.fill(0)
        self._n_nodes = 1
        self._leaves: dict[int, None] = {0: None}  # in order
        self._waiting: dict[int, tuple[Split, int, int]] = {}

    def move(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """Put off splits: node -> (split, left child, right child)."""
        self._waiting |= splits
        for node, (_, *children) in splits.items():
            del self._leaves[node]
            self._leaves |= dict.fromkeys(children)
            self._n_nodes = max(self._n_nodes, *(child + 1 for child in children))
        if self._n_nodes > 1 << 16 and self._numbers.dtype == np.uint16:
            self._numbers = self._numbers.astype(np.uint32)

    # --- sweeps over the rows ----------------------------------------------------------------------------------------

    def histograms(self, nodes: Sequence[int], tree: TreeGradients, n_rows: float) -> FloatArray:
        """Return the histograms of nodes, of about ``n_rows`` rows, (nodes, slots, 2)."""
        gh = self._gradients.of(tree)
        indices = np.full(self._n_nodes, len(nodes), np.uint32)
        indices[list(nodes)] = range(len(nodes))
        sums = [BinSums(self._layout, self._dimensions, len(nodes), n_rows)]
        n_threads = max(1, min(self._n_threads, _MAX_BYTES // sums[0].n_bytes))
        sums += [BinSums(self._layout, self._dimensions, len(nodes), n_rows) for _ in range(1, n_threads)]

        def add(thread: int, rows: slice, words: Batch) -> None:
            chosen = ChosenRows(self._numbers[rows], indices, len(nodes))
            codes, (g, h) = chosen.unpacked(words, self._fields), map(chosen.taken, gh[:, rows])
            sums[thread].add(self._stored, codes, chosen.indices(), g, h)

        self._sweep(add, n_threads)
        for other in sums[1:]:
            sums[0].add_all(other)
        return sums[0].result()

    def settle(self) -> None:
        """Carry out the splits that were put off."""
        if self._waiting:
            self._sweep(lambda *_: None, self._n_threads)

    def _sweep(self, visit: Callable[[int, slice, Batch], None], n_threads: int) -> None:
        """Carry out the splits that were put off; call ``visit`` with each part of the rows, in threads.

        It gets the number of the thread, which rows these are, and their words.
        """
        moves = Moves(self._waiting, self._n_nodes, self._codes) if self._waiting else None

        def work(thread: int, parts: list[tuple[slice, Batch]]) -> None:
            for rows, words in _taken(parts):
                if moves is not None:
                    moves.carry_out(self._numbers[rows], words)
                visit(thread, rows, words)

        with closing(self._words.parts()) as lists:
            for parts in lists:
                self._workers.each(range(n_threads), partial(work, parts=parts))
        self._waiting = {}

    # --- for statements -----------------------------------------------------------------------------------------------

    def show_values(self, values: Mapping[int, float]) -> str:
        """Have statements read the value of each row's leaf as the column ``value``; return the table's name.

        This takes the place of the tree's g and h, which have served their purpose.
        """
        self.settle()
        by_number = np.zeros(self._n_nodes)
        by_number[list(values)] = list(values.values())
        out = self._gradients.forget()
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
        """Return an expression over `sources`: the value of the row's leaf."""
        return f"CASE node {' '.join(f'WHEN {node} THEN {values[node]}' for node in self._leaves)} END"

    def leaves(self) -> list[int]:
        """Return the leaves of the tree so far."""
        return list(self._leaves)

    def drop(self) -> None:
        """Have statements no longer read what is in memory."""
        self._session.show()


def _taken(parts: list[tuple[slice, Batch]]) -> Iterator[tuple[slice, Batch]]:
    """Yield parts that no other thread takes."""
    while True:
        try:
            part = parts.pop()
        except IndexError:  # there are none left
            return
        yield part

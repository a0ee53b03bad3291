"""The words of all rows (see `layout`), held in memory or read from the database, in parts for several threads."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frameboost.data.arrow_batches import Batch
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.expressions.duckdb_sql import render

__all__ = ["HeldWords", "StoredWords", "Words", "read_columns"]

# Rows that a thread takes at once where words are in memory; and parts of a batch where they are not, which are more
# than the threads, as one of these also reads the next batch.
_PART, _PARTS = 1 << 16, 4


class Words(Protocol):
    """The words of all rows."""

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """Yield lists of parts of the rows with their words, which are valid until the next list is asked for."""


class HeldWords:
    """The same in memory: uint64 (rows,) each."""

    def __init__(self, words: Batch) -> None:
        self._words = words

    @classmethod
    def read(cls, session: DuckDBSession, table: str, names: Sequence[str], n_rows: int) -> HeldWords:
        """Return the words that are columns of a table."""
        found = np.empty((len(names), n_rows), np.uint64)
        read_columns(session, table, names, found)
        return cls(list(found))

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """See `Words.parts`."""
        n_rows = len(self._words[0])
        yield [(rows, [words[rows] for words in self._words]) for rows in _slices(n_rows, n_rows // _PART)]


class StoredWords:
    """The same as columns of a table, which is read each time."""

    def __init__(self, session: DuckDBSession, table: str, names: Sequence[str]) -> None:
        self._session = session
        self._table = table
        self._names = names

    def parts(self) -> Generator[list[tuple[slice, Batch]], None, None]:
        """See `Words.parts`."""
        with closing(_batches(self._session, self._table, self._names, np.uint64)) as batches:
            for rows, batch in batches:
                own = _slices(len(batch[0]), _PARTS)
                yield [(slice(rows.start + s.start, rows.start + s.stop), [words[s] for words in batch]) for s in own]


def read_columns(session: DuckDBSession, table: str, columns: Sequence[str], out: npt.NDArray[Any]) -> None:
    """Write columns of a table, which are of one type, to ``out``, (columns, rows)."""
    with closing(_batches(session, table, columns, out.dtype)) as batches:
        for rows, batch in batches:
            for column, values in zip(out, batch, strict=True):
                column[rows] = values


def _batches(
    session: DuckDBSession, table: str, columns: Sequence[str], dtype: npt.DTypeLike
) -> Generator[tuple[slice, Batch], None, None]:  # fmt: skip
    """Yield the batches of columns of a table, which are of one type, and which rows each has.

    To be closed at once if Ctrl-C is pressed, as the connection takes no other statement before.
    """
    statement = render("read_rows", rows=table, columns=", ".join(columns), is_asked="TRUE")
    start = 0
    with closing(session.batches(statement, [dtype] * len(columns))) as batches:
        for batch in batches:
            rows = slice(start, start + len(batch[0]))
            yield rows, batch
            start = rows.stop


def _slices(size: int, count: int) -> list[slice]:
    """Divide a range into so many slices, at least one."""
    count = max(1, count)
    return [slice(first, last) for first, last in pairwise(size * k // count for k in range(count + 1))]

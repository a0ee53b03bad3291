"""The g and h of every row in memory, for the tree that is grown."""

from __future__ import annotations

import numpy as np

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.gradients import TreePair
from frameboost.engines.duckdb.records.words import read_columns
from frameboost.splits.split import FloatArray

__all__ = ["RowPairs"]


class RowPairs:
    """The g and h of ``n_rows`` rows."""

    def __init__(self, session: DuckDBSession, n_rows: int) -> None:
        self._session = session
        self._values: FloatArray = np.empty((2, n_rows))
        self._read: TreePair | None = None  # which these are

    def __len__(self) -> int:
        return len(self._values[0])

    def of(self, pair: TreePair) -> FloatArray:
        """Return g and h of a tree, (2, rows); they are read once."""
        if self._read != pair:
            names = [f"CAST({name} AS DOUBLE)" for name in (pair.g, pair.h)]
            read_columns(self._session, pair.table, names, self._values)
            self._read = pair
        return self._values

    def forget(self) -> FloatArray:
        """Have them read again, as they are others or served their purpose; return the room of one of them."""
        self._read = None
        room: FloatArray = self._values[0]
        return room

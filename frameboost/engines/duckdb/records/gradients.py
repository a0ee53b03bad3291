"""The g and h of every row in memory, for the tree that is grown."""

from __future__ import annotations

import numpy as np

from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.gradients import TreeGradients
from frameboost.engines.duckdb.records.words import read_columns
from frameboost.splits.split import FloatArray

__all__ = ["RowGradients"]


class RowGradients:
    """The g and h of ``n_rows`` rows."""

    def __init__(self, session: DuckDBSession, n_rows: int) -> None:
        self._session = session
        self._values: FloatArray = np.empty((2, n_rows))
        self._read: TreeGradients | None = None  # which these are

    def __len__(self) -> int:
        return len(self._values[0])

    def of(self, gh: TreeGradients) -> FloatArray:
        """Return g and h of a tree, (2, rows); they are read once."""
        if self._read != gh:
            names = [f"CAST({name} AS DOUBLE)" for name in (gh.g, gh.h)]
            read_columns(self._session, gh.table, names, self._values)
            self._read = gh
        return self._values

    def forget(self) -> FloatArray:
        """Have them read again, as they are others or served their purpose; return the room of one of them."""
        self._read = None
        room: FloatArray = self._values[0]
        return room

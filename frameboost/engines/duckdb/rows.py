"""Tables whose rows belong together by position, read side by side by all threads of the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from frameboost.engines.duckdb.session import DuckDBSession

__all__ = ["Slices"]

# DuckDB reads tables that are joined by position on one thread, so each slice is a join of its own. It is made of whole
# row groups.
_ROW_GROUP = 122_880
_MOST_SLICES = 32


@dataclass(frozen=True, slots=True)
class Slices:
    """How the positions of rows are parted: each slice starts at one of ``starts``."""

    starts: Sequence[int] = (0,)

    @classmethod
    def of(cls, session: DuckDBSession, n_rows: int) -> Slices:
        """Return as many slices as there are threads, of whole row groups."""
        most = min(int(session.setting("threads")), _MOST_SLICES)
        size = -(-n_rows // (most * _ROW_GROUP)) * _ROW_GROUP
        return cls(range(0, n_rows, size) if n_rows else (0,))

    def queries(self, columns: str, tables: Sequence[str]) -> list[str]:
        """Return a query of every slice, whose columns may be qualified by their table, and the first table's rowid."""
        if len(tables) == 1 or len(self.starts) == 1:
            return [f"SELECT {columns} FROM {' POSITIONAL JOIN '.join(tables)}"]
        found = []
        for start, end in zip(self.starts, [*self.starts[1:], None], strict=True):
            # The last has no end: a query may give more rows the second time that it is run.
            bound = f"rowid >= {start}" if end is None else f"rowid BETWEEN {start} AND {end - 1}"
            parts = [f"(SELECT *{', rowid' if t == tables[0] else ''} FROM {t} WHERE {bound}) AS {t}" for t in tables]
            found.append(f"SELECT {columns} FROM {' POSITIONAL JOIN '.join(parts)}")
        return found

"""Rows of constants as a SELECT, which every database has, as it does not VALUES in FROM."""

from __future__ import annotations

from collections.abc import Sequence

from frameboost.dialects.dialect import Dialect

__all__ = ["constant_rows"]

# Some databases join no more SELECTs than 500 by UNION.
_MOST_SELECTS = 400


def constant_rows(rows: Sequence[Sequence[str]], names: Sequence[str], dialect: Dialect) -> str:
    """Return a query of the rows, of literals, under the names, quoted; there is at least one row."""
    first = [f"{value} AS {name}" for value, name in zip(rows[0], names, strict=True)]
    template = dialect.statements.insert_row or "SELECT {v}"
    return _union([template.format(v=", ".join(row)) for row in (first, *rows[1:])], dialect)


def _union(selects: Sequence[str], dialect: Dialect) -> str:
    if len(selects) <= _MOST_SELECTS:
        return "\nUNION ALL\n".join(selects)
    parts = [selects[first : first + _MOST_SELECTS] for first in range(0, len(selects), _MOST_SELECTS)]
    alias = dialect.statements.alias
    whole = [f"SELECT * FROM (\n{_union(part, dialect)}\n) {alias}part_{i}" for i, part in enumerate(parts)]
    return _union(whole, dialect)

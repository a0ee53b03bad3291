"""How many rows a DuckDB table, view, file or query has about, as DuckDB's planner knows without reading them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import duckdb

__all__ = ["estimated_rows"]

_CARDINALITY = "Estimated Cardinality"


def estimated_rows(explain: Callable[[str], duckdb.DuckDBPyRelation | None], source: str) -> int | None:
    """Return about how many rows a source of DuckDB has, None where that is not known.

    ``explain`` runs a statement, and ``source`` stands behind FROM. The planner knows the rows of tables, frames and
    Parquet files. It guesses what a condition leaves (for ``x % 2 = 0``, two rows), which is not used, and says 0 or 1
    where it knows nothing, as of a lazy frame or behind LIMIT.

    Examples
    --------
    >>> import duckdb
    >>> con = duckdb.connect()
    >>> _ = con.execute("CREATE TABLE t AS FROM range(5000) r(x)")
    >>> estimated_rows(con.sql, "t"), estimated_rows(con.sql, "t WHERE x % 2 = 0"), estimated_rows(con.sql, "no_table")
    (5000, None, None)
    """
    try:
        found = explain(f"EXPLAIN (FORMAT json) FROM {source}")
        [plan] = json.loads(found.fetchall()[0][1] if found is not None else "[null]")
    except (duckdb.CatalogException, duckdb.BinderException, duckdb.IOException):  # there is no such table yet
        return None
    if plan is None or any(node["name"] == "FILTER" or "Filters" in node["extra_info"] for node in _nodes(plan)):
        return None
    rows = int(plan["extra_info"].get(_CARDINALITY, 0))
    return rows if rows > 1 else None


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan["children"]:
        yield from _nodes(child)

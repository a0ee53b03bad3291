"""The name of the table that a relation is, by which a query of the model joins it."""

from __future__ import annotations

import re
from typing import Any

import duckdb

from frameboost.data.wrapped_tables import unwrapped
from frameboost.runtime.duckdb_errors import waiting

__all__ = ["table_name"]

_PART = r'"(?:[^"]|"")*"|\w+'
# All columns of a table or a view, or some as they are: with computed columns or conditions it is another table.
_WHOLE = re.compile(
    rf"\s*(?:SELECT\s+(?:\*|(?:{_PART})(?:\s*,\s*(?:{_PART}))*)\s+)?FROM\s+((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*;?\s*",
    re.IGNORECASE,
)
_PLAIN = re.compile(r'"([^\W\d]\w*)"')


def table_name(table: Any) -> str | None:
    """Return the name of a relation's table or view as the user qualified it, or the alias that it was given, or None.

    A relation of some of a table's rows has its alias, but another table would be joined by this name.

    Examples
    --------
    >>> con = duckdb.connect()
    >>> _ = con.execute('CREATE SCHEMA sales; CREATE TABLE sales."all orders" (id INTEGER)')
    >>> orders = con.table('sales."all orders"')
    >>> table_name(orders), table_name(orders.filter("id > 3")), table_name(orders.filter("id > 3").set_alias("late"))
    ('sales."all orders"', None, 'late')
    """
    relation = unwrapped(table)
    if not isinstance(relation, duckdb.DuckDBPyRelation):
        return None
    try:
        query = waiting(relation).sql_query()
    except duckdb.Error:
        return None
    if whole := _WHOLE.fullmatch(query):
        name = re.sub(r"\s*(\.)\s*", r"\1", whole[1])
        return None if name.strip('"').startswith("__duckdb_") else _PLAIN.sub(r"\1", name)
    is_given = relation.type in ("QUERY_RELATION", "SUBQUERY_RELATION")
    alias = relation.alias
    return alias if is_given and not alias.startswith("unnamed_relation") else None

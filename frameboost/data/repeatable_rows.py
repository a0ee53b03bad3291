"""Relations of DuckDB whose rows are the same each time that they are read: as they are, or copied first.

A fit asks a relation for its labels, its cuts and its codes in several statements. A relation with ``random()``, a
sample, a file that somebody rewrites or a table of another server would answer each of them with other rows. So unless
its plan and its text show that it can't, all of it is read once, into a temporary table of its connection, which DuckDB
spills to disk, and which is dropped when the public function returns.

In place are read, if the functions that are applied to them are repeatable:

- tables of DuckDB while no other connection can write to them: there is none, or the database is read-only, or the
  table is temporary, or the caller has begun a transaction, which sees one state of the tables;
- Parquet files of this machine. They are written as a whole, as their footer has the addresses of all columns, so that
  only a file put in the place of another would differ; and a copy of a glob that is larger than memory might be larger
  than the disk.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import duckdb

from frameboost.checks.arguments import in_call, once_in_call, until_call_returns
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.predicates import changing_functions, words_of
from frameboost.data.query_plans import Step, is_repeatable, plan_of, plan_steps, step_without_order
from frameboost.data.sources import RelationSource
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import quote_identifier, string_literal
from frameboost.runtime.cleanup import closed_after
from frameboost.runtime.duckdb_errors import has_unread_result, unwrapped, waiting, when_free

__all__ = ["repeatable_source"]

_URL = re.compile(r"\b(?!file:)\w+://")
_NULL = '"NULL"'  # the type of a column of NULLs, which a table can't have


def repeatable_source(relation: duckdb.DuckDBPyRelation) -> RelationSource:
    """Return a relation as a source, with its rows copied if they may be others the next time.

    The same relation is copied once in an outermost public call. Outside of one, where nobody would drop the copy, it
    is not copied.
    """
    relation = unwrapped(relation)
    try:
        # The relation is kept beside its source, so that no other one gets its id.
        return once_in_call(id(relation), lambda: (_repeatable(waiting(relation)), relation))[0]
    except duckdb.Error as error:
        if not has_unread_result(error):
            raise
        raise DataError(
            "the connection of the relation has a result that is not read to its end, as after "
            "con.execute(...).fetchone(); fetch the rest of it first, or give a relation of another connection, such "
            "as con.cursor().table('flights')"
        ) from error


def _repeatable(relation: duckdb.DuckDBPyRelation) -> RelationSource:
    if not in_call():
        return RelationSource(relation)
    steps = plan_steps(plan_of(relation))
    unordered = step_without_order(steps)
    tables, is_drawn = _tables_stay(relation, steps), False
    has_functions = not (relation.type == "TABLE_RELATION" and len(steps) == 1 and steps[0].is_whole_table)
    if tables and not has_functions:
        return RelationSource(relation, unordered=unordered)
    with ExitStack() as opened:
        session = opened.enter_context(closed_after(DuckDBSession(relation)))
        if has_functions:
            texts = _texts(session, relation.sql_query())
            is_drawn = any(step.name == "SAMPLE" for step in steps)
            is_drawn = is_drawn or any(changing_functions(text, session.rows) for text in texts)
            if not is_drawn and is_repeatable(steps, tables=tables, files=not any(map(_URL.search, texts))):
                return RelationSource(relation, unordered=unordered)
        until_call_returns(opened.pop_all())
        table = session.table("rows")
        session.run(f"CREATE TEMP TABLE {table} AS FROM {session.source}")
        copy = session.relation_of(table)
    names = (name for name, kind in zip(copy.columns, relation.types, strict=True) if str(kind) == _NULL)
    if nulls := ", ".join(f"NULL AS {quote_identifier(name)}" for name in names):
        copy = copy.project(f"* REPLACE ({nulls})")
    return RelationSource(copy, is_copy=True, unordered="" if is_drawn else unordered)


def _texts(session: DuckDBSession, query: str) -> list[str]:
    """Return a query with the definitions of the views, macros and generated columns that it uses."""
    texts, seen = [query], set[str]()
    for text in texts:  # which grows
        names, called = words_of(text)
        wanted = ", ".join(map(string_literal, sorted(names - seen))) or "''"
        statement = (
            f"SELECT sql FROM duckdb_views() WHERE NOT internal AND lower(view_name) IN ({wanted}) UNION ALL "
            f"SELECT sql FROM duckdb_tables() WHERE contains(sql, 'GENERATED') AND lower(table_name) IN ({wanted})"
        )
        if macros := ", ".join(map(string_literal, sorted(called - seen))):
            statement += (
                " UNION ALL SELECT macro_definition FROM duckdb_functions() "
                f"WHERE NOT internal AND macro_definition IS NOT NULL AND lower(function_name) IN ({macros})"
            )
        texts += [text for (text,) in session.rows(statement)]
        seen |= names
    return texts


def _tables_stay(relation: duckdb.DuckDBPyRelation, steps: Sequence[Step]) -> bool:
    """Whether nobody else can write to the tables that a plan reads."""
    databases = {step.database for step in steps if step.database is not None} - {"temp"}
    if not databases:
        return True
    connections, writable, first = _state(
        relation,
        "(SELECT FIRST(count) FROM duckdb_connection_count())",
        "(SELECT LIST(database_name) FROM duckdb_databases() WHERE NOT readonly)",
        "txid_current()",
    )
    if connections <= 1 or databases.isdisjoint(writable or ()):
        return True
    return _state(relation, "txid_current()") == (first,)  # in a transaction


def _state(relation: duckdb.DuckDBPyRelation, *expressions: str) -> tuple[Any, ...]:
    """Return what expressions say of the database of a relation, which is bound for it and not read."""
    state = when_free(lambda: relation.limit(0).aggregate(", ".join(["COUNT(*)", *expressions])).fetchall())
    return tuple(state[0][1:])

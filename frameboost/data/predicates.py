"""Users' predicates, such as ``valid="date >= '2013-09-01'"``: check that they are repeatable; translate to polars.

A predicate enters two queries: one for the rows where it is true, one for all others. A volatile function, such as
``random()``, would put a row into both parts or neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import duckdb
import polars as pl

from frameboost.checks.messages import advice, listed, reason, shown
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import physical_sql, string_literal
from frameboost.runtime.interrupts import first_duckdb_error
from frameboost.schema.types import FeatureType

__all__ = ["Words", "as_polars", "changing_functions", "check_repeatable", "unusable", "words_of"]

# Functions that are called without parentheses; `duckdb_functions()` does not list them.
_KEYWORDS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}

# Functions that run SQL which is a text, or views that a text names.
_RUN_TEXTS = {"json_execute_serialized_sql", "query", "query_table"}

Run = Callable[[str], Sequence[Sequence[Any]]]


def unusable(predicate: str, error: Exception) -> ParameterError:
    """Return the error for an invalid predicate, caused by the database's or polars' ``error``."""
    problem = ParameterError(
        f"valid={shown(predicate)} is neither a column of the data nor a SQL predicate over its columns "
        f"({reason(error)}){_way_out(predicate)}"
    )
    problem.__cause__ = error
    return problem


def _way_out(predicate: str) -> str:
    """Return what an invalid predicate seems to mean, and how to write that."""
    if predicate.lower().startswith("last "):
        return "; the last rows are valid='last 20%', or of hours, days, weeks, months or years, with time='day'"
    if re.fullmatch(r"\s*[\d.]+\s*%\s*", predicate):
        return "; a share of the rows is a number, valid=0.2"
    if os.path.isfile(predicate):  # noqa: PTH113, as Path.is_file raises for a text that is too long for a path
        way = advice(f"are valid=pl.scan_csv({shown(predicate)})", "are read if it has a suffix such as .csv")
        return f"; the format of this file cannot be inferred from its name, and its rows {way}"
    return ""


# --- functions that are not repeatable --------------------------------------------------------------------------------


def check_repeatable(sql: str, what: str, run: Run | None = None) -> None:
    """Raise `ParameterError` if SQL calls a function that may change between queries.

    Parameters
    ----------
    sql
        SQL for DuckDB.
    what
        Its name in the message.
    run
        A function that runs a query in the database of the SQL, with its macros and user-defined functions; by default
        an empty database, with built-in functions only.
    """
    if changing := changing_functions(sql, run or _run_apart):
        raise ParameterError(
            f"{what} calls {listed(sorted(changing))}, whose result may change each time that the rows are read; "
            "make it a column of a table first, or write a fixed value"
        )


def changing_functions(sql: str, run: Run) -> set[str]:
    """Return the functions called in SQL that may change between queries.

    These are volatile functions, functions of the current time, Python functions, functions that run SQL text, and
    macros that call one of these. ``run`` is as for `check_repeatable`.
    """
    names = words_of(sql).called
    return (names & _KEYWORDS) | (_changing(names - _KEYWORDS, run) if names - _KEYWORDS else set())


class Words(NamedTuple):
    """The names in SQL, in lower case: all names, and those of called functions."""

    all: set[str]
    called: set[str]


def words_of(sql: str) -> Words:
    """Return the names in SQL.

    >>> sorted(words_of('SELECT "random" (), current_date FROM t -- now()').called)
    ['current_date', 'random']
    """
    text = sql.encode()  # DuckDB counts bytes
    tokens = [*duckdb.tokenize(sql), (len(text), None)]
    parts = [
        (text[start:end].decode().strip(), kind)
        for (start, kind), (end, _) in pairwise(tokens)
        if kind != duckdb.token_type.comment
    ]
    names, called = set(), set()
    for (word, kind), (following, _) in pairwise([*parts, ("", None)]):
        if kind in (duckdb.token_type.identifier, duckdb.token_type.keyword):
            name = word.removeprefix('"').removesuffix('"').replace('""', '"').lower()
            names.add(name)
            if name in _KEYWORDS or following.startswith("("):
                called.add(name)
    return Words(names, called)


def _changing(names: set[str], run: Run) -> set[str]:
    """Return the functions that are volatile, not built into DuckDB, or macros that call one of these.

    From DuckDB 2.0.1 on, functions of times with time zone, which depend on the connection's time zone, are consistent
    within a query only; for other times they are consistent.
    """
    names_sql = ", ".join(map(string_literal, sorted(names)))
    rows = run(
        "SELECT DISTINCT lower(function_name), stability, macro_definition FROM duckdb_functions() "
        f"WHERE lower(function_name) IN ({names_sql})"
    )
    consistent = {name for name, stability, _ in rows if stability == "CONSISTENT"}
    changing = {name for name, stability, _ in rows if stability is not None} - (consistent & _built_in_functions())
    changing |= names & _RUN_TEXTS
    for name, _, definition in rows:
        inside = words_of(definition).called - names if definition else set()
        if inside & _KEYWORDS or (inside and _changing(inside, run)):
            changing.add(name)
    return changing


@cache
def _built_in_functions() -> frozenset[str]:
    """Return DuckDB's built-in functions; in its catalog users' Python functions look the same."""
    rows = _run_apart("SELECT DISTINCT lower(function_name) FROM duckdb_functions()")
    return frozenset(name for (name,) in rows)


def _run_apart(query: str) -> Sequence[Sequence[Any]]:
    with duckdb.connect() as connection, first_duckdb_error():
        return connection.execute(query).fetchall()


# --- polars -----------------------------------------------------------------------------------------------------------


def as_polars(predicate: str, schema: Mapping[str, pl.DataType]) -> tuple[pl.Expr, dict[str, pl.Expr]]:
    """Return a predicate as a polars expression, and by name the constants that it reads as columns.

    SQL casts ``'2013-09-01'`` to the type of the column that it is compared with, polars does not; so DuckDB casts such
    text, and the value enters the expression as a constant column.

    Raises
    ------
    ParameterError
        If it has an aggregate or a window function, or compares a column with text that can't be cast to its type.
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(predicate, read="duckdb")
    except sqlglot.errors.SqlglotError:  # polars will report the error
        return pl.sql_expr(predicate), {}
    if (of_many := tree.find(exp.AggFunc, exp.Window)) is not None:  # which polars would evaluate over all rows
        raise unusable(predicate, ValueError(f"{of_many.sql(dialect='duckdb')} is computed from many rows"))
    constants: dict[str, pl.Expr] = {}
    for comparison in list(tree.find_all(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)):
        sides = list(comparison.iter_expressions())
        dtypes = [schema[side.name] for side in sides if _is_column(side, schema)]
        for side in sides:
            if dtypes and isinstance(side, exp.Literal) and side.is_string and _is_ordered(dtypes[0]):
                name = _unlike(schema, f"frameboost_constant_{len(constants)}")
                constants[name] = _constant(predicate, str(side.this), dtypes[0])
                side.replace(exp.column(exp.to_identifier(name, quoted=True)))
    return pl.sql_expr(tree.sql(dialect="duckdb") if constants else predicate), constants


def _is_column(node: object, schema: Mapping[str, pl.DataType]) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in schema


def _is_ordered(dtype: pl.DataType) -> bool:
    kind = FeatureType.from_polars(dtype)
    return kind is not None and not kind.is_categorical


def _constant(predicate: str, text: str, dtype: pl.DataType) -> pl.Expr:
    """Return a text as a value of the type, cast by DuckDB."""
    kind = FeatureType.from_polars(dtype)
    assert kind is not None
    value = f"CAST({string_literal(text)} AS {DUCKDB.type_of(kind)})"
    try:
        with duckdb.connect() as connection:
            physical = connection.execute(f"SELECT {physical_sql(kind, value)}").fetchall()[0][0]
    except duckdb.Error as error:
        raise ParameterError(
            f"{shown(predicate)} compares a column of type {kind} with {shown(text)}, which is none of its values"
        ) from error
    return pl.lit(physical).cast(dtype)


def _unlike(names: Mapping[str, object], name: str) -> str:
    while name in names:
        name += "_"
    return name

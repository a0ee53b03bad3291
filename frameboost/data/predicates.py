"""Predicates that users write, such as ``valid="date >= '2013-09-01'"``: what they may call, and how polars reads them.

A predicate is put into the queries as it stands, once for the rows where it holds and once for all others, so its value
must not change from one query to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import physical_sql, string_literal
from frameboost.schema.types import FeatureType

__all__ = ["as_polars", "check_repeatable"]

# Called without parentheses, and known to no catalog.
_KEYWORDS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}

Run = Callable[[str], Sequence[Sequence[Any]]]


# --- functions that say something else each time ----------------------------------------------------------------------


def check_repeatable(sql: str, what: str, run: Run | None = None) -> None:
    """Raise `ParameterError` if SQL calls a function that may say something else in the next query.

    Parameters
    ----------
    sql
        SQL of DuckDB's.
    what
        What it is, for the message.
    run
        What runs a query where the functions are that it calls, macros and a user's own among them; by default a
        database of its own, with DuckDB's functions alone.
    """
    names = _called(sql)
    if not names:
        return
    changing = names & _KEYWORDS
    if names - _KEYWORDS:
        changing |= _changing(names, run or _run_apart)
    if changing:
        raise ParameterError(
            f"{what} calls {listed(sorted(changing))}, which may say something else each time that the rows are read; "
            "make it a column of a table first, or write a fixed value"
        )


def _called(sql: str) -> set[str]:
    """Return the names of the functions in it, in lower case."""
    import sqlglot  # late, as it takes long to import

    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:  # the database will say what is wrong with it
        return set()
    names = {token.text.lower() for token in tokens if token.text.lower() in _KEYWORDS}
    for token, following in pairwise(tokens):
        if following.text == "(" and token.text[:1].isidentifier():
            names.add(token.text.lower())
    return names


def _changing(names: set[str], run: Run) -> set[str]:
    """Return those of the functions that are not always the same, or are macros that call one that is not."""
    wanted = ", ".join(map(string_literal, sorted(names)))
    rows = run(
        "SELECT DISTINCT lower(function_name), stability, macro_definition FROM duckdb_functions() "
        f"WHERE lower(function_name) IN ({wanted})"
    )
    found = {name for name, stability, _ in rows if stability not in (None, "CONSISTENT")}
    for name, _, definition in rows:
        inside = _called(definition) - names if definition else set()
        if inside & _KEYWORDS or (inside and _changing(inside, run)):
            found.add(name)
    return found


def _run_apart(query: str) -> Sequence[Sequence[Any]]:
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()


# --- polars -----------------------------------------------------------------------------------------------------------


def as_polars(predicate: str, schema: Mapping[str, pl.DataType]) -> tuple[pl.Expr, dict[str, pl.Expr]]:
    """Return a predicate as an expression, and constants that it reads as columns, by name.

    SQL compares a column with ``'2013-09-01'`` in the column's type; polars does not. So such a text becomes a constant
    of the column's type, as DuckDB reads it.
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(predicate, read="duckdb")
    except sqlglot.errors.SqlglotError:  # polars will say what is wrong with it
        return pl.sql_expr(predicate), {}
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
    """Return the value of a type that a text stands for, as DuckDB reads it."""
    kind = FeatureType.from_polars(dtype)
    assert kind is not None
    value = f"CAST({string_literal(text)} AS {DUCKDB.type_of(kind)})"
    try:
        with duckdb.connect() as connection:
            found = connection.execute(f"SELECT {physical_sql(kind, value)}").fetchall()[0][0]
    except duckdb.Error as error:
        raise ParameterError(
            f"{shown(predicate)} compares a column of type {kind} with {shown(text)}, which is none of its values"
        ) from error
    return pl.lit(found).cast(dtype)


def _unlike(names: Mapping[str, object], name: str) -> str:
    while name in names:
        name += "_"
    return name

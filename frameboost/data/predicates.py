"""Predicates of the user, such as ``valid="date >= '2013-09-01'"``: a check that they are repeatable, and polars' form.

A predicate enters two queries: one for the rows where it holds, one for all others. A function whose value changes from
one query to the next, such as ``random()``, would put a row into both parts or neither.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import listed, reason, shown
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import physical_sql, string_literal
from frameboost.schema.types import FeatureType

__all__ = ["as_polars", "check_repeatable", "unusable"]

# Functions that are called without parentheses; `duckdb_functions()` does not list them.
_KEYWORDS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}

Run = Callable[[str], Sequence[Sequence[Any]]]


def unusable(predicate: str, error: Exception) -> ParameterError:
    """Return the error for what is no predicate, given the database's or polars' own."""
    return ParameterError(
        f"valid={shown(predicate)} is neither a column of the data nor a SQL predicate over its columns "
        f"({reason(error)}){_meant(predicate)}"
    )


def _meant(predicate: str) -> str:
    """Return what a text that is no predicate seems to be, and how to give that."""
    if predicate.lower().startswith("last "):
        return "; the last rows are valid='last 20%' with time='day'"
    if re.fullmatch(r"\s*[\d.]+\s*%\s*", predicate):
        return "; a share of the rows is a number, valid=0.2"
    if os.path.isfile(predicate):  # noqa: PTH113, as Path.is_file raises for a text that is too long for a path
        return f"; the rows of this file, whose name tells no format, are valid=pl.scan_csv({shown(predicate)})"
    return ""


# --- functions that are not repeatable --------------------------------------------------------------------------------


def check_repeatable(sql: str, what: str, run: Run | None = None) -> None:
    """Raise `ParameterError` if SQL calls a function that may have another value in the next query.

    Parameters
    ----------
    sql
        SQL for DuckDB.
    what
        Its name in the message.
    run
        Runs a query in the database whose functions it calls, macros and user-defined functions included. By default
        that is an empty database, with DuckDB's own functions.
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
    """Return the names of the functions that SQL calls, in lower case."""
    import sqlglot  # late, as it takes long to import

    try:
        tokens = sqlglot.tokenize(sql, read="duckdb")
    except sqlglot.errors.SqlglotError:  # the database will report the error
        return set()
    names = {token.text.lower() for token in tokens if token.text.lower() in _KEYWORDS}
    for token, following in pairwise(tokens):
        if following.text == "(" and token.text[:1].isidentifier():
            names.add(token.text.lower())
    return names


def _changing(names: set[str], run: Run) -> set[str]:
    """Return those functions that are volatile, or macros that call a volatile one.

    From DuckDB 2.0.1 on, functions of times with a zone, which is the connection's, are consistent within a query only.
    The same functions of other times are consistent.
    """
    wanted = ", ".join(map(string_literal, sorted(names)))
    rows = run(
        "SELECT DISTINCT lower(function_name), stability, macro_definition FROM duckdb_functions() "
        f"WHERE lower(function_name) IN ({wanted})"
    )
    consistent = {name for name, stability, _ in rows if stability == "CONSISTENT"}
    found = {name for name, stability, _ in rows if stability is not None} - consistent
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
    """Return a predicate as a polars expression, and constants by name that it reads as columns.

    SQL casts ``'2013-09-01'`` to the type of the column that it is compared with; polars does not. So DuckDB casts such
    a text, and the value enters the expression as a constant column of the right type.
    """
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(predicate, read="duckdb")
    except sqlglot.errors.SqlglotError:  # polars will report the error
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
    """Return a text as a value of the type, cast by DuckDB."""
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

"""The tables of a star as one source of a query: the facts, and LEFT JOINs of what a model reads of their keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from frameboost.compile.sql.scores_by_key import Scores
from frameboost.compile.sql.stages import TableSource
from frameboost.dialects.dialect import Dialect
from frameboost.errors import ParameterError
from frameboost.joins.aggregates import (
    KEY,
    Aggregation,
    aggregates_sql,
    equal_keys,
    facts_sql,
    key_sql,
    rows_sql,
)
from frameboost.joins.star_sources import TableJoin

__all__ = ["joined_tables", "names_in_join"]

# Aliases within the derived table, and its own.
_FACTS, _DIMENSION, _JOINED = "facts", "dimension_", "joined"


def names_in_join(joins: Sequence[TableJoin], dialect: Dialect, names: Mapping[str, str] | None) -> dict[str, str]:
    """Return what columns of the facts and of the join are called that are not called as in training.

    A column of a dimension keeps its name in the join, whatever ``names`` calls it in its own table; in a database that
    can't have the name (``weather.temp`` in BigQuery) it is named by its table's place.
    """
    found = dict(names or {})
    for number, join in enumerate(joins, start=1):
        for name, own in join.columns.items():
            found.pop(name, None)
            try:
                dialect.quote(name)
            except ParameterError:
                found[name] = f"{_DIMENSION}{number}_{own}"
    return found


def joined_tables(
    facts: str, joins: Sequence[TableJoin], dialect: Dialect, wanted: Collection[str], names: Mapping[str, str],
    tables: Mapping[str, str], scores: Scores | None = None,
) -> TableSource:  # fmt: skip
    """Return a derived table: all columns of the facts, and those of the dimensions that are wanted.

    Parameters
    ----------
    facts
        The table of the facts, quoted.
    joins
        The dimensions, in order.
    dialect
        Whose SQL.
    wanted
        The names in the join of the columns to add.
    names
        The columns' names in the tables where they are not those of training, by name in the join.
    tables
        The dimensions' tables where they are not called as in training, by name.
    scores
        Values to add, by dimension and name, as SQL over the dimension's own columns.
    """
    aliases = names_in_join(joins, dialect, None)
    called, of_dimensions = dialect.statements.alias, dict[str, str]()  # columns of the join, as of an aliased table

    def column(name: str) -> str:
        return of_dimensions.get(name) or f"{_FACTS}.{dialect.quote(names.get(name, name))}"

    columns, lines = [f"{_FACTS}.*"], [f"FROM {facts} {called}{_FACTS}"]
    for number, join in enumerate(joins, start=1):
        alias = f"{_DIMENSION}{number}"
        table = dialect.quote_path(tables.get(join.table, join.table))
        if join.aggregation is not None:
            left = tuple(dialect.quote(names.get(key.left, key.left)) for key in join.keys)
            side = _aggregates(join, join.aggregation, alias, table, facts, left, dialect)
        else:
            side = _dimension(join, alias, table, names, dialect, (scores or {}).get(number - 1, {}))
        conditions = (
            equal_keys(column(key.left), own, dialect, is_text=key.is_text)
            if join.aggregation is None
            else f"{key_sql(column(key.left), dialect, is_text=key.is_text)} = {own}"  # which is compared so already
            for key, own in zip(join.keys, side.keys, strict=True)
        )
        lines.append(f"LEFT JOIN {side.table} {called}{alias} ON {' AND '.join(conditions)}")
        of_dimensions |= {name: f"{alias}.{value}" for name, value in side.columns.items()}
        columns += [
            f"{of_dimensions[name]} AS {dialect.quote(aliases.get(name, name))}"
            for name in side.columns
            if name in wanted
        ]
        columns += [f"{alias}.{dialect.quote(name)}" for name in (scores or {}).get(number - 1, ())]
    query = f"SELECT {', '.join(columns)}\n" + "\n".join(lines) + dialect.statements.joins_to_nulls
    return TableSource(f"(\n{query}\n) {called}{_JOINED}", _JOINED)


@dataclass(frozen=True, slots=True)
class _Side:
    """What stands behind LEFT JOIN: a table or a query, the columns of its key, and what it adds, by name."""

    table: str
    keys: list[str]
    columns: dict[str, str]


def _dimension(
    join: TableJoin, alias: str, table: str, names: Mapping[str, str], dialect: Dialect, scores: Mapping[str, str]
) -> _Side:  # fmt: skip
    keys = [dialect.quote(key.right) for key in join.keys]
    own = {name: dialect.quote(names.get(name, own)) for name, own in join.columns.items()}
    added = "".join(f", {value} AS {dialect.quote(name)}" for name, value in scores.items())
    if dialect.statements.star_names_tables:
        inner = {key: f"{alias}_key_{index}" for index, key in enumerate(keys, start=1)}
        inner |= {value: f"{alias}_{index}" for index, value in enumerate(own.values(), start=1)}
        table = f"(SELECT {', '.join(f'{value} AS {name}' for value, name in inner.items())}{added} FROM {table})"
        keys, own = [inner[key] for key in keys], {name: inner[value] for name, value in own.items()}
    elif scores:
        table = f"(SELECT {alias}.*{added} FROM {table} {dialect.statements.alias}{alias})"
    return _Side(table, [f"{alias}.{key}" for key in keys], own)


def _aggregates(
    join: TableJoin, aggregation: Aggregation, alias: str, table: str, facts: str, left: tuple[str, ...],
    dialect: Dialect,
) -> _Side:  # fmt: skip
    are_text = [key.is_text for key in join.keys]
    rows = rows_sql(aggregation, table, are_text, dialect)
    if aggregation.is_before:
        rows += f"\nUNION ALL\n{facts_sql(aggregation, facts, left, are_text, dialect)}"
    results = {name: f"{alias}_{index}" for index, name in enumerate(aggregation.values, start=1)}
    query = aggregates_sql(aggregation, f"({rows}) {dialect.statements.alias}events", dialect, results)
    keys = [f"{alias}.{KEY.format(index)}" for index in range(1, len(join.keys) + 1)]
    return _Side(f"({query})", keys, {name: results[own] for name, own in join.columns.items()})

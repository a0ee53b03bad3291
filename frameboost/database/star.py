"""The tables of a model trained on a star, as one source of a query.

Queries of such a model score the facts, with LEFT JOINs of the dimensions that it reads. Trees that read a single
dimension can be scored once per row of it, and joined as their sum (``form="by_key"``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from frameboost.checks.messages import advice, listed, shown
from frameboost.compile.sql.case import TreeWriter
from frameboost.compile.sql.conditions import renamed
from frameboost.compile.sql.forms import check_size
from frameboost.compile.sql.simplified_trees import simplified
from frameboost.compile.sql.sql_model import SqlModel
from frameboost.compile.sql.stages import TableSource
from frameboost.dialects.dialect import Dialect, in_lines
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.joins.aggregates import KEY, Aggregation, aggregates_sql, equal_keys, facts_sql, key_sql, rows_sql
from frameboost.joins.star_sources import DIMENSION_NAME, TableJoin
from frameboost.trees.tree import Tree

__all__ = ["StarTables", "Tables", "star_tables"]

Tables = Mapping[str, str] | Literal["joined"]
# SQL over the columns of a dimension, by the name of its column in the join; by the dimension's number.
_Scores = Mapping[int, Mapping[str, str]]
# Aliases within the derived table, and its alias; and the names of the sums of trees.
_FACTS, _DIMENSION, _JOINED = "facts", "dimension_", "joined"
_SCORE = "frameboost_score_{}_{}"


@dataclass(frozen=True)
class StarTables:
    """Dimensions as tables of a database, and the columns that queries read.

    Attributes
    ----------
    joins
        The dimensions, in order.
    dialect
        The database's SQL.
    read
        The columns that the model reads, by their names in training.
    columns
        The column names in the tables that differ from training.
    tables
        The table names that differ from the dimensions' names.
    scores
        Sums of trees to add to the dimensions (see `score_by_key`).
    """

    joins: tuple[TableJoin, ...]
    dialect: Dialect
    read: frozenset[str]
    columns: Mapping[str, str]
    tables: Mapping[str, str]
    scores: _Scores = field(default_factory=dict)

    @property
    def table_names(self) -> list[str]:
        """The tables of the dimensions, each once."""
        return list(dict.fromkeys(self.tables.get(join.table, join.table) for join in self.joins))

    def called(self, names: Mapping[str, str]) -> StarTables:
        """Return it with other table names."""
        now = {join.table: self.tables.get(join.table, join.table) for join in self.joins}
        return replace(self, tables={name: names[table] for name, table in now.items()})

    @property
    def names_in_join(self) -> Mapping[str, str]:
        """The column names in the join that differ from training, of columns that the model reads."""
        only_joined = {name for join in self.joins for name in (*join.columns, *(key.left for key in join.keys))}
        names = self._names(self.columns)
        return {name: other for name, other in names.items() if name not in only_joined or name in self.read}

    def _names(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Return the column names of the facts and of the join that differ from training.

        A dimension's column keeps its name in the join, whatever its name in the table (``columns``); if the database
        can't have the name (``weather.temp`` in BigQuery), it is named by the number of its table.
        """
        names = dict(columns)
        for number, join in enumerate(self.joins, start=1):
            for name, in_table in join.columns.items():
                names.pop(name, None)
                try:
                    self.dialect.quote(name)
                except ParameterError:
                    names[name] = f"{_DIMENSION}{number}_{in_table}"
        return names

    # --- joins --------------------------------------------------------------------------------------------------------

    def source(self, facts: str, others: Iterable[str] = ()) -> TableSource:
        """Return the source of a query: the facts, a quoted table, joined with columns of dimensions.

        It is a derived table of all columns of the facts, and the columns of dimensions that the model reads or that
        are in ``others``.
        """
        for number, join in enumerate(self.joins, start=1):
            if join.table == DIMENSION_NAME.format(number) and join.table not in self.tables:
                in_training = advice("; or name it in training, as fb.join(..., name='planes')")
                raise ParameterError(
                    f"{join.table} of the model is not a table, so that no query can join it; name a table "
                    f"with these rows, as tables={{{shown(join.table)}: 'planes'}}, or tables='joined' for rows "
                    f"that are joined already{in_training}"
                )
        needed, aliases, dialect = self.read | set(others), self._names({}), self.dialect
        called, of_dimensions = dialect.statements.alias, dict[str, str]()  # columns of the join, of an aliased table

        def column(name: str) -> str:
            return of_dimensions.get(name) or f"{_FACTS}.{self._quoted(name, name)}"

        columns, lines = [f"{_FACTS}.*"], [f"FROM {facts} {called}{_FACTS}"]
        for number, join in enumerate(self.joins, start=1):
            alias, scores = f"{_DIMENSION}{number}", self.scores.get(number - 1, {})
            if join.aggregation is not None:
                side = self._aggregates(join, join.aggregation, alias, facts)
            else:
                side = self._dimension(join, alias, scores)
            conditions = (
                equal_keys(column(key.left), of_side, dialect, is_text=key.is_text)
                if join.aggregation is None
                else f"{key_sql(column(key.left), dialect, is_text=key.is_text)} = {of_side}"  # compared so already
                for key, of_side in zip(join.keys, side.keys, strict=True)
            )
            lines.append(f"LEFT JOIN {side.table} {called}{alias} ON {' AND '.join(conditions)}")
            of_dimensions |= {name: f"{alias}.{value}" for name, value in side.columns.items()}
            columns += [
                f"{of_dimensions[name]} AS {dialect.quote(aliases.get(name, name))}"
                for name in side.columns
                if name in needed
            ]
            columns += [f"{alias}.{dialect.quote(name)}" for name in scores]
        query = f"SELECT {in_lines(columns)}\n" + "\n".join(lines) + dialect.statements.joins_to_nulls
        return TableSource(f"(\n{query}\n) {called}{_JOINED}", _JOINED)

    def _quoted(self, name: str, in_table: str) -> str:
        """Return the quoted name in its table of a column of the join; ``in_table`` is its name in training."""
        return self.dialect.quote(self.columns.get(name, in_table))

    def _table(self, join: TableJoin) -> str:
        return self.dialect.quote_path(self.tables.get(join.table, join.table))

    def _dimension(self, join: TableJoin, alias: str, scores: Mapping[str, str]) -> _Side:
        dialect, table = self.dialect, self._table(join)
        keys = [dialect.quote(key.right) for key in join.keys]
        columns = {name: self._quoted(name, in_table) for name, in_table in join.columns.items()}
        added = "".join(f", {value} AS {dialect.quote(name)}" for name, value in scores.items())
        if dialect.statements.star_names_tables:
            inner = {key: f"{alias}_key_{index}" for index, key in enumerate(keys, start=1)}
            inner |= {value: f"{alias}_{index}" for index, value in enumerate(columns.values(), start=1)}
            table = f"(SELECT {', '.join(f'{value} AS {name}' for value, name in inner.items())}{added} FROM {table})"
            keys, columns = [inner[key] for key in keys], {name: inner[value] for name, value in columns.items()}
        elif scores:
            table = f"(SELECT {alias}.*{added} FROM {table} {dialect.statements.alias}{alias})"
        return _Side(table, [f"{alias}.{key}" for key in keys], columns)

    def _aggregates(self, join: TableJoin, aggregation: Aggregation, alias: str, facts: str) -> _Side:
        dialect, are_text = self.dialect, [key.is_text for key in join.keys]
        left = tuple(self._quoted(key.left, key.left) for key in join.keys)
        rows = rows_sql(aggregation, self._table(join), are_text, dialect)
        if aggregation.is_before:
            rows += f"\nUNION ALL\n{facts_sql(aggregation, facts, left, are_text, dialect)}"
        results = {name: f"{alias}_{index}" for index, name in enumerate(aggregation.values, start=1)}
        query = aggregates_sql(aggregation, f"({rows}) {dialect.statements.alias}events", dialect, results)
        keys = [f"{alias}.{KEY.format(index)}" for index in range(1, len(join.keys) + 1)]
        return _Side(f"({query})", keys, {name: results[result] for name, result in join.columns.items()})

    # --- scores by key ------------------------------------------------------------------------------------------------

    def score_by_key(self, model: SqlModel) -> tuple[SqlModel, StarTables]:
        """Return the model without trees that read a single dimension, and tables with the sums of those.

        A margin starts from its base and these sums, each a column of the join. Leaf values are on a grid (see
        `frameboost.trees.tree`), so the margin has the same bits. For a fact without a row in a dimension all
        attributes are missing, and the sum is a constant. Aggregates are not scored by key.

        If trees 1 and 3 read planes, and tree 2 reads planes and weather, ``planes`` becomes ``(SELECT *, tree 1 + tree
        3 AS frameboost_score_1_1 FROM planes)``, and the margin ``base + COALESCE(frameboost_score_1_1, c) + tree 2``.

        Raises
        ------
        ParameterError
            If the sum of one dimension's trees exceeds a limit of the database.
        """
        if model.is_of_leaves:
            return model, self
        dialect, scores = self.dialect, dict[int, dict[str, str]]()
        bases, trees = list(model.bases), list(model.trees)
        table_of = {
            name: i for i, join in enumerate(self.joins) if join.aggregation is None for name in join.columns
        }  # fmt: skip
        for k, of_margin in enumerate(model.trees):
            by_table: dict[int | None, list[Tree]] = {None: []}
            for tree in of_margin:
                by_table.setdefault(_only_table(tree, model, table_of), []).append(tree)
            trees[k] = by_table.pop(None)
            terms = []
            for number, of_table in by_table.items():
                assert number is not None
                score, name = self._sum_over(self.joins[number], of_table, model), _SCORE.format(number + 1, k + 1)
                scores.setdefault(number, {})[name] = score
                without = math.fsum(_value_of_missing(tree) for tree in of_table)
                terms.append(f"COALESCE({dialect.quote(name)}, {dialect.number(without)})")
            if terms:
                bases[k] = dialect.sum([model.base(k), *terms])
        columns = [dialect.quote(name) for of_dimension in scores.values() for name in of_dimension]
        return replace(model, bases=bases, trees=trees, score_columns=columns), replace(self, scores=scores)

    def _sum_over(self, join: TableJoin, trees: Sequence[Tree], model: SqlModel) -> str:
        """Return the sum of trees as SQL over the columns of a dimension."""
        in_table = {
            column.name: self._quoted(name, join.columns[name])
            for column in model.columns
            if (name := column.feature.name) in join.columns
        }
        simpler = simplified(trees, self.dialect)
        text = TreeWriter(renamed(model.columns, in_table), self.dialect).margin(0.0, simpler)
        check_size(text, [simpler], self.dialect)
        return text


@dataclass(frozen=True, slots=True)
class _Side:
    """The right side of a LEFT JOIN: a table or a query, its key columns, and the columns it adds, by name."""

    table: str
    keys: list[str]
    columns: dict[str, str]


def star_tables(
    ensemble: Ensemble, dialect: Dialect, columns: Mapping[str, str] | None, tables: Tables | None
) -> StarTables | None:
    """Return the tables that queries of a model of a star join; None if ``tables`` is "joined".

    Raises
    ------
    ParameterError
        If ``tables`` names a table that the model does not have, or is neither a dict nor "joined".
    """
    if isinstance(tables, str) and tables == "joined":
        return None
    if tables is not None and not isinstance(tables, Mapping):
        raise ParameterError(
            f"tables must be a dict of the tables' names by dimension, or 'joined', not {shown(tables)}"
        )
    known = [join.table for join in ensemble.joins]
    for name, table in (tables or {}).items():
        if name not in known:
            raise ParameterError(f"tables names {shown(name)}; the dimensions of the model are {listed(known)}")
        if not isinstance(table, str) or not table:
            raise ParameterError(f"tables must have the name of a table for {shown(name)}, not {shown(table)}")
    lookup = None if ensemble.interval is None else ensemble.interval.groups
    read = frozenset([*ensemble.read_names, *([] if lookup is None else [lookup.column])])
    return StarTables(ensemble.joins, dialect, read, dict(columns or {}), dict(tables or {}))


def _only_table(tree: Tree, model: SqlModel, table_of: Mapping[str, int]) -> int | None:
    """Return the only dimension that a tree reads, or None."""
    if tree.is_linear or tree.is_leaf(0):
        return None
    tables = {table_of.get(model.columns[feature].feature.name) for feature in tree.feature if feature >= 0}
    return tables.pop() if len(tables) == 1 else None


def _value_of_missing(tree: Tree) -> float:
    """Return the leaf value of a row in which every feature is missing."""
    node = 0
    while not tree.is_leaf(node):
        node = (tree.left if tree.missing_left[node] else tree.right)[node]
    return tree.value[node]

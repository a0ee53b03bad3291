"""The tables of a star as the data of a fit: dimensions, their join to frames or relations, and the joins of a model.

A `StarFrame` and a `StarRelation` are the joined rows for whoever reads these, with the tables that they consist of.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb
import polars as pl

from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.aggregates import Aggregation
from frameboost.schema.types import column, free_name

__all__ = [
    "DIMENSION_NAME",
    "FACTS",
    "KEY_COPY",
    "Dimension",
    "KeyColumn",
    "StarFrame",
    "StarRelation",
    "TableJoin",
    "dimension_frame",
    "joined",
    "joined_relation",
    "key_exprs",
    "key_names",
    "needed",
    "recorded_joins",
    "star_frame",
    "star_relation",
    "with_key_copied",
]


FACTS = -1
"""The number of the facts among the tables of a star; dimensions count from 0."""
DIMENSION_NAME = "dimension {}"
"""The name of a dimension that has none, by its number."""
KEY_COPY = "frameboost_key"
"""The name of a copy of a column of a key, unless the facts have it."""


@dataclass(frozen=True)
class Dimension:
    """A table joined to the facts by a key; each fact matches at most one row.

    Attributes
    ----------
    name
        What messages call the table, and by default its name in a query.
    source
        Its rows.
    left_on
        The columns of the key, as those of the tables joined before are named in the join.
    right_on
        The columns of the key in this table.
    key_types
        The polars types in which the columns of the key are compared.
    columns
        The columns that the table adds: their names in the table, by the names in the join. The key is not among them.
    parent
        The number of the table that has ``left_on``: `FACTS`, a dimension before this one (a snowflake), or None where
        the columns are of several tables.
    aggregation
        How its rows are made of a table with many rows a key, if they are.
    written_on
        The names of ``left_on`` in the user's tables, where the star has copies of these columns under other names.
    rows_for
        Returns its rows for some facts, if these decide on them, as their times do on aggregates of earlier rows.
    """

    name: str
    source: LocalSource
    left_on: tuple[str, ...]
    right_on: tuple[str, ...]
    key_types: tuple[pl.DataType, ...]
    columns: Mapping[str, str]
    parent: int | None
    aggregation: Aggregation | None = None
    rows_for: Callable[[LocalSource], LocalSource] | None = None
    written_on: tuple[str, ...] = ()


def needed(dimensions: Sequence[Dimension], names: Collection[str] | None) -> list[Dimension]:
    """Return the dimensions with some columns of the join, in order, and those with their keys; None: all."""
    if names is None:
        return list(dimensions)
    columns, chosen = set(names), list[Dimension]()
    for dimension in reversed(dimensions):
        if not columns.isdisjoint(dimension.columns):
            chosen.insert(0, dimension)
            columns.update(dimension.left_on)
    return chosen


def with_key_copied(dimensions: Sequence[Dimension], name: str, copy: str) -> list[Dimension]:
    """Return the dimensions with a copy of a column in their keys, so that the column itself may be changed."""
    return [
        replace(
            dimension, left_on=tuple(copy if left == name else left for left in dimension.left_on),
            written_on=dimension.written_on or dimension.left_on,
        )
        for dimension in dimensions
    ]  # fmt: skip


# --- frames -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StarFrame(FrameSource):
    """Facts and dimensions that are polars frames; ``frame`` is their left join, in the order of the facts.

    Attributes
    ----------
    facts
        The rows that are trained on.
    dimensions
        What is joined to them, in order.
    """

    facts: pl.LazyFrame = field(kw_only=True)
    dimensions: tuple[Dimension, ...] = field(kw_only=True)

    def map(self, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> FrameSource:
        """See `FrameSource.map`; after a function of the facts' columns alone it is still a star."""
        try:
            facts = function(self.facts)
            facts.collect_schema()
        except pl.exceptions.ColumnNotFoundError:
            return FrameSource(function(self.frame), categorical=self.categorical)
        return star_frame(replace(self.fact_rows(), frame=facts), self.dimensions)

    def fact_rows(self) -> FrameSource:
        """See `FrameSource.fact_rows`."""
        return FrameSource(self.facts, categorical=self.categorical.intersection(self.facts.collect_schema().names()))

    def with_fact_rows(self, rows: LocalSource) -> StarFrame:
        """See `FrameSource.with_fact_rows`."""
        assert isinstance(rows, FrameSource)
        return star_frame(rows, self.dimensions)

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> FrameSource:
        """See `FrameSource.where`; a star of the facts for which it holds."""
        rows = super().where(predicate, is_column=is_column, negated=negated)
        if isinstance(rows, StarFrame):
            return rows
        facts = rows.frame.select(map(column, self.facts.collect_schema().names()))
        return star_frame(replace(self.fact_rows(), frame=facts), self.dimensions)

    def with_codes(self, name: str, labels: Sequence[str]) -> FrameSource:
        """See `FrameSource.with_codes`; dimensions are joined by the labels, not by their codes."""
        if not any(name in dimension.left_on for dimension in self.dimensions) or name not in self.fact_rows().names():
            return super().with_codes(name, labels)
        copy = free_name(KEY_COPY, self.names())
        facts = self.fact_rows().map(lambda frame: frame.with_columns(column(name).alias(copy)))
        return star_frame(facts.with_codes(name, labels), with_key_copied(self.dimensions, name, copy))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """See `FrameSource.to_frame`; dimensions that have none of the columns are not joined."""
        return joined(self.facts, self.dimensions, names).select(map(column, names))


def star_frame(facts: FrameSource, dimensions: Sequence[Dimension]) -> StarFrame:
    """Return a star; its keys must have been checked."""
    categorical = {
        name
        for dimension in dimensions
        for name, original in dimension.columns.items()
        if original in dimension.source.categorical
    }
    return StarFrame(
        joined(facts.frame, dimensions), categorical=facts.categorical | categorical, facts=facts.frame,
        dimensions=tuple(dimensions),
    )  # fmt: skip


def joined(facts: pl.LazyFrame, dimensions: Sequence[Dimension], names: Collection[str] | None = None) -> pl.LazyFrame:
    """Return the left join of all dimensions, or of those that some columns come from, in the order of the facts."""
    frame = facts
    for dimension in needed(dimensions, names):
        keys = key_names(dimension)
        added = dimension_frame(dimension)
        frame = frame.with_columns(key_exprs(dimension)).join(added, on=keys, how="left", maintain_order="left")
        frame = frame.drop(keys)
    return frame


def key_exprs(dimension: Dimension) -> list[pl.Expr]:
    """Return the key of a dimension, of rows that are joined to it, as the columns that `dimension_frame` has."""
    return _compared(dimension, dimension.left_on)


def dimension_frame(dimension: Dimension) -> pl.LazyFrame:
    """Return the key of a dimension, as in `key_exprs`, and the columns that it adds, by their names in the join.

    Its rows are those of the table, in order.
    """
    assert isinstance(dimension.source, FrameSource)
    added = [column(original).alias(name) for name, original in dimension.columns.items()]
    return dimension.source.frame.select(*_compared(dimension, dimension.right_on), *added)


def _compared(dimension: Dimension, names: Sequence[str]) -> list[pl.Expr]:
    keys = zip(names, dimension.key_types, key_names(dimension), strict=True)
    return [column(name).cast(dtype).alias(alias) for name, dtype, alias in keys]


def key_names(dimension: Dimension) -> list[str]:
    """Return names for the columns of a key that no column of a table has."""
    return [f"\0key {i}" for i in range(len(dimension.right_on))]


# --- relations --------------------------------------------------------------------------------------------------------

# The names of the two sides of each join.
_LEFT, _RIGHT = "frameboost_left", "frameboost_right"


@dataclass(frozen=True)
class StarRelation(RelationSource):
    """Facts and dimensions that are relations; ``relation`` is their left join.

    Attributes
    ----------
    facts
        The rows that are trained on.
    dimensions
        What is joined to them, in order.
    """

    facts: duckdb.DuckDBPyRelation = field(kw_only=True)
    dimensions: tuple[Dimension, ...] = field(kw_only=True)

    def fact_rows(self) -> RelationSource:
        """See `RelationSource.fact_rows`."""
        return self.derived(self.facts)

    def with_fact_rows(self, rows: LocalSource) -> StarRelation:
        """See `RelationSource.with_fact_rows`."""
        assert isinstance(rows, RelationSource)
        return star_relation(rows, self.dimensions)

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> RelationSource:
        """See `RelationSource.where`; a star of the facts for which it holds."""
        try:
            return self.with_fact_rows(self.fact_rows().where(predicate, is_column=is_column, negated=negated))
        except ParameterError:  # it needs attributes
            rows = super().where(predicate, is_column=is_column, negated=negated)
        names = (quote_identifier(name) for name in self.facts.columns)
        return self.with_fact_rows(rows.derived(rows.relation.project(", ".join(names))))

    def labels(self, name: str, most: int) -> list[str]:
        """See `RelationSource.labels`; those of a column of the facts are read without a join."""
        return self.fact_rows().labels(name, most) if name in self.facts.columns else super().labels(name, most)

    def with_codes(self, name: str, labels: Sequence[str]) -> RelationSource:
        """See `RelationSource.with_codes`; a star, if the column is one of the facts.

        Dimensions are joined by the labels, not by their codes.
        """
        if name not in self.facts.columns:
            return super().with_codes(name, labels)
        facts, dimensions = self.fact_rows(), self.dimensions
        if any(name in dimension.left_on for dimension in dimensions):
            copy = free_name(KEY_COPY, self.names())
            with_copy = facts.relation.project(f"*, {quote_identifier(name)} AS {quote_identifier(copy)}")
            facts, dimensions = facts.derived(with_copy), tuple(with_key_copied(dimensions, name, copy))
        return star_relation(facts.with_codes(name, labels), dimensions)


def star_relation(facts: RelationSource, dimensions: Sequence[Dimension]) -> StarRelation:
    """Return a star; its keys must have been checked."""
    tables = [facts, *(d.source for d in dimensions if isinstance(d.source, RelationSource))]
    return StarRelation(
        joined_relation(facts.relation, dimensions), any(table.is_copy for table in tables),
        facts.relation if facts.origin is None else facts.origin, facts.is_drawn,
        facts=facts.relation, dimensions=tuple(dimensions),
    )  # fmt: skip


def joined_relation(
    facts: duckdb.DuckDBPyRelation, dimensions: Sequence[Dimension], names: Collection[str] | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the left join of all dimensions, or of those that some columns come from, in the order of the facts.

    The rows are numbered and sorted, as a join may return them in any order, and samples are drawn by their order.
    """
    joined_to = needed(dimensions, names)
    row = quote_identifier(free_name("row", [*facts.columns, *(name for each in joined_to for name in each.columns)]))
    relation = facts.project(f"*, ROW_NUMBER() OVER () AS {row}")
    for dimension in joined_to:
        assert isinstance(dimension.source, RelationSource)
        keys = [
            f"{_LEFT}.{quote_identifier(left)} = {_RIGHT}.{quote_identifier(right)}"
            for left, right in zip(dimension.left_on, dimension.right_on, strict=True)
        ]
        added = (
            f", {_RIGHT}.{quote_identifier(original)} AS {quote_identifier(name)}"
            for name, original in dimension.columns.items()
        )
        both = relation.set_alias(_LEFT).join(
            dimension.source.relation.set_alias(_RIGHT), " AND ".join(keys), how="left"
        )
        relation = both.project(f"{_LEFT}.*{''.join(added)}")
    return relation.order(row).project(f"* EXCLUDE {row}")


# --- the joins as a model holds them: enough to write them into a query -----------------------------------------------


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a key: its name in the join so far, its name in the dimension, and whether it is text."""

    left: str
    right: str
    is_text: bool


@dataclass(frozen=True, slots=True)
class TableJoin:
    """A dimension that a model's rows are joined to.

    Attributes
    ----------
    table
        The name of the dimension, and by default of its table in a query.
    keys
        The columns of the key.
    columns
        The columns that the table adds: their names in the table, by the names in the join.
    aggregation
        How its rows are made of a table with many rows a key, if they are; ``keys`` then has the names of the result.
    """

    table: str
    keys: tuple[KeyColumn, ...]
    columns: Mapping[str, str]
    aggregation: Aggregation | None = None


def recorded_joins(source: object, features: Collection[str]) -> tuple[TableJoin, ...]:
    """Return the joins that some features of a fit's data need, in order; none of data that is one table."""
    if not isinstance(source, StarFrame | StarRelation):
        return ()
    return tuple(
        TableJoin(
            dimension.name,
            tuple(
                KeyColumn(left, right, dtype == pl.String)
                for left, right, dtype in zip(
                    dimension.written_on or dimension.left_on, dimension.right_on, dimension.key_types, strict=True
                )
            ),
            dict(dimension.columns),
            dimension.aggregation,
        )
        for dimension in needed(source.dimensions, features)
    )

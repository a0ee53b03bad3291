"""A star of polars frames as the data of a fit: joined, with the tables that it consists of."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from frameboost.data.shares import free_name
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.joins.dimension import KEY_COPY, Dimension, needed, with_key_copied
from frameboost.schema.polars_columns import column

__all__ = ["StarFrame", "dimension_frame", "joined", "key_exprs", "key_names", "star_frame"]


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
        """See `FrameSource.map`; what reads columns of the facts alone leaves a star."""
        try:
            facts = function(self.facts)
            facts.collect_schema()
        except pl.exceptions.ColumnNotFoundError:
            return FrameSource(function(self.frame), categorical=self.categorical)
        return star_frame(replace(self.own_rows(), frame=facts), self.dimensions)

    def own_rows(self) -> FrameSource:
        """See `FrameSource.own_rows`."""
        return FrameSource(self.facts, categorical=self.categorical.intersection(self.facts.collect_schema().names()))

    def with_own_rows(self, rows: LocalSource) -> StarFrame:
        """See `FrameSource.with_own_rows`."""
        assert isinstance(rows, FrameSource)
        return star_frame(rows, self.dimensions)

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> FrameSource:
        """See `FrameSource.where`; a star of the facts for which it holds."""
        kept = super().where(predicate, is_column=is_column, negated=negated)
        if isinstance(kept, StarFrame):
            return kept
        facts = kept.frame.select(map(column, self.facts.collect_schema().names()))
        return star_frame(replace(self.own_rows(), frame=facts), self.dimensions)

    def with_codes(self, name: str, labels: Sequence[str]) -> FrameSource:
        """See `FrameSource.with_codes`; dimensions are joined by the labels, not by their codes."""
        if not any(name in each.left_on for each in self.dimensions) or name not in self.own_rows().names():
            return super().with_codes(name, labels)
        copy = free_name(KEY_COPY, self.names())
        facts = self.own_rows().map(lambda frame: frame.with_columns(column(name).alias(copy)))
        return star_frame(facts.with_codes(name, labels), with_key_copied(self.dimensions, name, copy))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """See `FrameSource.to_frame`; dimensions that have none of the columns are not joined."""
        return joined(self.facts, self.dimensions, names).select(map(column, names))


def star_frame(facts: FrameSource, dimensions: Sequence[Dimension]) -> StarFrame:
    """Return a star; its keys must have been checked."""
    categorical = {
        name
        for dimension in dimensions
        for name, own in dimension.columns.items()
        if own in dimension.source.categorical
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
        own = dimension_frame(dimension)
        frame = frame.with_columns(key_exprs(dimension)).join(own, on=keys, how="left", maintain_order="left")
        frame = frame.drop(keys)
    return frame


def key_exprs(dimension: Dimension) -> list[pl.Expr]:
    """Return the key of a dimension, of rows that are joined to it, as the columns that `dimension_frame` has."""
    return _compared(dimension, dimension.left_on)


def dimension_frame(dimension: Dimension) -> pl.LazyFrame:
    """Return the key of a dimension, as `key_exprs` has it, and the columns that it adds, by their names in the join.

    Its rows are those of the table, in order.
    """
    assert isinstance(dimension.source, FrameSource)
    added = [column(own).alias(name) for name, own in dimension.columns.items()]
    return dimension.source.frame.select(*_compared(dimension, dimension.right_on), *added)


def _compared(dimension: Dimension, names: Sequence[str]) -> list[pl.Expr]:
    keys = zip(names, dimension.key_types, key_names(dimension), strict=True)
    return [column(name).cast(dtype).alias(alias) for name, dtype, alias in keys]


def key_names(dimension: Dimension) -> list[str]:
    """Return names for the columns of a key that no column of a table has."""
    return [f"\0key {i}" for i in range(len(dimension.right_on))]

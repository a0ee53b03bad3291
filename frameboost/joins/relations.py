"""A star of DuckDB relations as the data of a fit: joined, with the tables that it consists of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import duckdb

from frameboost.data.shares import free_name
from frameboost.data.sources import LocalSource, RelationSource
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.dimension import KEY_COPY, Dimension, needed, with_key_copied

__all__ = ["StarRelation", "joined_relation", "star_relation"]

# The names of the two sides of each join, and of the facts' row numbers.
_LEFT, _RIGHT, _ROW = "frameboost_left", "frameboost_right", "frameboost_row"


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

    def own_rows(self) -> RelationSource:
        """See `RelationSource.own_rows`."""
        return self.derived(self.facts)

    def with_own_rows(self, rows: LocalSource) -> StarRelation:
        """See `RelationSource.with_own_rows`."""
        assert isinstance(rows, RelationSource)
        return star_relation(rows, self.dimensions)

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> RelationSource:
        """See `RelationSource.where`; a star of the facts for which it holds."""
        try:
            return self.with_own_rows(self.own_rows().where(predicate, is_column=is_column, negated=negated))
        except ParameterError:  # it needs attributes
            kept = super().where(predicate, is_column=is_column, negated=negated)
        own = (quote_identifier(name) for name in self.facts.columns)
        return self.with_own_rows(kept.derived(kept.relation.project(", ".join(own))))

    def labels(self, name: str, most: int) -> list[str]:
        """See `RelationSource.labels`; those of a column of the facts are read without a join."""
        return self.own_rows().labels(name, most) if name in self.facts.columns else super().labels(name, most)

    def with_codes(self, name: str, labels: Sequence[str]) -> RelationSource:
        """See `RelationSource.with_codes`; a star, if the column is one of the facts.

        Dimensions are joined by the labels, not by their codes.
        """
        if name not in self.facts.columns:
            return super().with_codes(name, labels)
        facts, dimensions = self.own_rows(), self.dimensions
        if any(name in each.left_on for each in dimensions):
            copy = free_name(KEY_COPY, self.names())
            with_copy = facts.relation.project(f"*, {quote_identifier(name)} AS {quote_identifier(copy)}")
            facts, dimensions = facts.derived(with_copy), tuple(with_key_copied(dimensions, name, copy))
        return star_relation(facts.with_codes(name, labels), dimensions)


def star_relation(facts: RelationSource, dimensions: Sequence[Dimension]) -> StarRelation:
    """Return a star; its keys must have been checked."""
    tables = [facts, *(each.source for each in dimensions if isinstance(each.source, RelationSource))]
    return StarRelation(
        joined_relation(facts.relation, dimensions), any(table.is_copy for table in tables), facts.unordered,
        facts=facts.relation, dimensions=tuple(dimensions),
    )  # fmt: skip


def joined_relation(
    facts: duckdb.DuckDBPyRelation, dimensions: Sequence[Dimension], names: Collection[str] | None = None
) -> duckdb.DuckDBPyRelation:
    """Return the left join of all dimensions, or of those that some columns come from, in the order of the facts.

    The rows are numbered and sorted, as a join may return them in any order, and samples are drawn by their order.
    """
    row = quote_identifier(_ROW)
    found = facts.project(f"*, ROW_NUMBER() OVER () AS {row}")
    for dimension in needed(dimensions, names):
        assert isinstance(dimension.source, RelationSource)
        keys = [
            f"{_LEFT}.{quote_identifier(left)} = {_RIGHT}.{quote_identifier(right)}"
            for left, right in zip(dimension.left_on, dimension.right_on, strict=True)
        ]
        added = (
            f", {_RIGHT}.{quote_identifier(own)} AS {quote_identifier(name)}" for name, own in dimension.columns.items()
        )
        both = found.set_alias(_LEFT).join(dimension.source.relation.set_alias(_RIGHT), " AND ".join(keys), how="left")
        found = both.project(f"{_LEFT}.*{''.join(added)}")
    return found.order(row).project(f"* EXCLUDE {row}")

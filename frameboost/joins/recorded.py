"""The joins of a star as a model holds them: enough to write them into a query."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import polars as pl

from frameboost.joins.aggregation import Aggregation
from frameboost.joins.dimension import needed
from frameboost.joins.frames import StarFrame
from frameboost.joins.relations import StarRelation

__all__ = ["KeyColumn", "TableJoin", "recorded_joins"]


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
        The name of the dimension, and of its table in a query unless another is given.
    keys
        The columns of the key.
    columns
        The columns that the table adds: its own names, by the names in the join.
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

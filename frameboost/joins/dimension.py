"""A dimension of a star: a table that is joined by its key, and the names of its columns in the join."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from frameboost.data.sources import LocalSource
from frameboost.joins.aggregation import Aggregation

__all__ = ["FACTS", "KEY_COPY", "PLACE", "Dimension", "needed", "with_key_copied"]

FACTS = -1
"""The number of the facts among the tables of a star; dimensions count from 0."""
PLACE = "dimension {}"
"""The name of a dimension that has none, by its place."""
KEY_COPY = "frameboost_key"
"""The name of a copy of a column of a key, unless the facts have it."""


@dataclass(frozen=True)
class Dimension:
    """A table of which each row of the facts finds at most one row, by a key.

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
        The columns that the table adds: its own names, by the names in the join. The key is not among them.
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
    """Return the dimensions that some columns of the join come from, in order, and those with their keys; None: all."""
    if names is None:
        return list(dimensions)
    wanted, found = set(names), list[Dimension]()
    for dimension in reversed(dimensions):
        if not wanted.isdisjoint(dimension.columns):
            found.insert(0, dimension)
            wanted.update(dimension.left_on)
    return found


def with_key_copied(dimensions: Sequence[Dimension], name: str, copy: str) -> list[Dimension]:
    """Return the dimensions with a copy of a column in their keys, so that the column itself may be changed."""
    return [
        replace(
            each, left_on=tuple(copy if left == name else left for left in each.left_on),
            written_on=each.written_on or each.left_on,
        )
        for each in dimensions
    ]  # fmt: skip

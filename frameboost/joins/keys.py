"""Checks of the keys of a join, before any work starts: types that can be equal, and values that occur once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from frameboost.checks.messages import counted, listed, shown
from frameboost.data.sources import LocalSource, RelationSource
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.dimension import Dimension
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = ["check_unique", "join_type", "key_types"]

# Keys with more rows than one that a message names.
_MAX_NAMED = 3


def join_type(left: FeatureType | None, right: FeatureType | None) -> pl.DataType | None:
    """Return the polars type in which two columns of a key are compared, None if their values can't be equal.

    Integers of all widths can be, and times of all units that both have a time zone or both lack one; of numbers with
    fractions only those of one type, as 0.1 is another number in 32 bits.

    >>> join_type(FeatureType("int32"), FeatureType("uint64"))
    Int128
    >>> join_type(FeatureType("int32"), FeatureType("string")) is None
    True
    """
    if left is None or right is None or left.family != right.family:
        return None
    if left == right:
        return left.to_polars()
    are_integers = all(kind.name.startswith(("int", "uint")) for kind in (left, right))
    if left.family == "number":
        if not are_integers:
            return None
        names = {left.name, right.name}
        return pl.Int128() if names & {"uint64", "int128", "uint128"} else pl.Int64()
    finest = next(unit for unit in ("ns", "us", "ms") if unit in (left.unit, right.unit))
    return (left if left.unit == finest else right).to_polars()


def key_types(
    left: LocalSource, right: LocalSource, left_on: Sequence[str], right_on: Sequence[str], name: str
) -> tuple[pl.DataType, ...]:
    """Return the types in which the columns of a key are compared.

    ``left`` are the tables joined so far, ``right`` is the table that messages call ``name``.

    Raises
    ------
    DataError
        If a column is not there, or the values of two columns can't be equal.
    """
    known, own = left.types(), right.types()
    for column_name in left_on:
        if column_name not in known:
            raise DataError(
                f"key column {shown(column_name)} is not among the columns that {name} is joined to: {listed(known)}"
            )
    for column_name in right_on:
        if column_name not in own:
            raise DataError(f"key column {shown(column_name)} is not in {name}, which has {listed(own)}")
    types = []
    for one, other in zip(left_on, right_on, strict=True):
        compared = join_type(known[one], own[other])
        if compared is None:
            raise DataError(
                f"key {shown(one)} has type {left.type_names()[one]}, and {shown(other)} of {name} has type "
                f"{right.type_names()[other]}; cast one of them to the type of the other{_way(known[one], own[other])}"
            )
        types.append(compared)
    return tuple(types)


def _way(left: FeatureType | None, right: FeatureType | None) -> str:
    """Return why one column of a key may have floats in place of integers, if one has."""
    kinds = [kind.name if kind is not None and kind.family == "number" else "" for kind in (left, right)]
    if any(kind.startswith("float") for kind in kinds) and any(kind.startswith(("int", "uint")) for kind in kinds):
        return " (pandas makes integers floats where one is missing; its astype('Int64') makes them integers again)"
    return ""


def check_unique(dimension: Dimension) -> None:
    """Raise `DataError` if a key of a dimension has several rows, which a join would multiply facts by.

    Rows in whose key a value is NULL join no facts, and may be many.
    """
    found = _several(dimension.source, dimension.right_on)
    if not found:
        return
    keys = [f"{', '.join(map(shown, key))} ({counted(n, 'row')})" for *key, n in found[:_MAX_NAMED]]
    more = " and others" if len(found) > _MAX_NAMED else ""
    columns = listed(dimension.right_on)
    by = shown(dimension.right_on[0] if len(dimension.right_on) == 1 else list(dimension.right_on))
    raise DataError(
        f"{dimension.name} has several rows for one key of {columns}: {'; '.join(keys)}{more}; a join would repeat the "
        f"rows that have these keys, so aggregate {dimension.name} to one row a key first, with "
        f"fb.aggregate({dimension.name}, by={by}, columns=...)"
    )


def _several(source: LocalSource, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some keys that have several rows, each with their number, in the order of the keys."""
    most = _MAX_NAMED + 1
    if isinstance(source, RelationSource):
        quoted = ", ".join(map(quote_identifier, names))
        present = source.relation.filter(" AND ".join(f"{quote_identifier(name)} IS NOT NULL" for name in names))
        counts = present.aggregate(f"{quoted}, COUNT(*) AS frameboost_n", quoted)
        return counts.filter("frameboost_n > 1").order(quoted).limit(most).fetchall()
    keys = source.frame.select(column(name).alias(str(i)) for i, name in enumerate(names)).drop_nulls().collect()
    if keys.n_unique() == keys.height:
        return []
    repeated = keys.group_by(pl.all()).agg(pl.len().alias("n")).filter(pl.col("n") > 1)
    return repeated.sort(pl.exclude("n")).head(most).rows()

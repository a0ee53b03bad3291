"""What `frameboost.auto` has to know of the data before it starts."""

from __future__ import annotations

from typing import Any

import polars as pl

from frameboost.data.sources import FrameSource, LocalSource
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.polars_columns import column

__all__ = ["count_rows", "is_of_zeros_and_ones"]


def count_rows(source: LocalSource) -> int:
    """Return the number of rows."""
    if isinstance(source, FrameSource):
        return int(source.frame.select(pl.len()).collect().item())
    return int(source.relation.aggregate("COUNT(*)").fetchall()[0][0])


def is_of_zeros_and_ones(source: LocalSource, target: Any) -> bool:
    """Whether a target of integers has the values 0 and 1 and no others, so that it is most likely of two classes."""
    kind = source.types().get(target) if isinstance(target, str) else None
    if kind is None or not kind.is_integer:
        return False
    if isinstance(source, FrameSource):
        values = column(target)
        low, high = source.frame.select(low=values.min(), high=values.max()).collect().row(0)
    else:
        quoted = quote_identifier(target)
        low, high = source.relation.aggregate(f"MIN({quoted}), MAX({quoted})").fetchall()[0]
    return (low, high) == (0, 1)

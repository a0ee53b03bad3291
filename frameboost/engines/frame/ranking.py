"""Queries of a frame: their numbers, and window functions over the rows of each."""

from __future__ import annotations

import polars as pl

from frameboost.engines.contract import QueryWindow
from frameboost.schema.polars_columns import column, physical_expr
from frameboost.schema.types import FeatureType

__all__ = ["query_expr", "window_expr"]


def query_expr(frame: pl.LazyFrame, name: str) -> pl.Expr:
    """Return the query column as dense ranks from 1, NULL where it is missing."""
    kind = FeatureType.from_polars(frame.select(column(name)).collect_schema()[name])
    assert kind is not None
    return physical_expr(name, kind).rank("dense").cast(pl.Int64)


def window_expr(window: QueryWindow) -> pl.Expr:
    """Return a window function over each row's query."""
    value = window.value.to_polars()
    match window.function:
        case "rank":  # ties: the row that comes first
            return (value.rank("ordinal", descending=True).cast(pl.Float64) - 1).over("qid")
        case "running":
            assert window.order is not None
            return value.cum_sum().over("qid", order_by=window.order.to_polars())
        case "sum":
            return value.sum().over("qid")
        case "min":
            return value.min().over("qid")
        case "max":
            return value.max().over("qid")

"""Aggregates over the rows of a frame, and expressions for polars."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import cast

import polars as pl

from frameboost.losses.exact_sums import Aggregate, Scalar

__all__ = ["aggregated", "in_polars"]


def in_polars(value: Scalar) -> pl.Expr:
    """Return an expression for polars, memoised: each round evaluates the same ones."""
    return _memoised(cast("Hashable", value))


@lru_cache(maxsize=1024)
def _memoised(value: Hashable) -> pl.Expr:
    return cast("Scalar", value).to_polars()


def aggregated(rows: pl.LazyFrame, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
    """Return aggregates over all rows, by name."""
    # Columns first: to polars, the sum of the literal 1 is 1, not the number of rows.
    by_row = rows.with_columns(in_polars(a.expression).alias(name) for name, a in aggregates.items())
    wanted = [getattr(pl.col(name), a.function)().cast(pl.Float64) for name, a in aggregates.items()]
    return by_row.select(wanted).collect().row(0, named=True)

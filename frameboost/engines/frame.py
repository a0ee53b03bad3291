"""What the engines over polars frames share: labels, weights, margins and gradients as polars columns."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from frameboost.columns import physical_expr
from frameboost.engines.contract import Aggregate, Stats
from frameboost.expressions import Expression
from frameboost.gradients import gridded_gradients
from frameboost.polars_names import column
from frameboost.schema import Feature

__all__ = ["FrameEngine"]


class FrameEngine:
    """Row state of an engine whose rows are in a polars frame.

    Parameters
    ----------
    frame
        The user's data, lazy.
    features
        The features' names and types.
    target, weight
        Column names.
    """

    def __init__(self, frame: pl.LazyFrame, features: tuple[Feature, ...], target: str, weight: str | None) -> None:
        self.frame = frame
        self.features = features
        self.row_exprs = [
            _present_float(target).alias("label"),
            pl.lit(1.0).alias("weight") if weight is None else _present_float(weight).alias("weight"),
        ]
        self.rows: pl.DataFrame | None = None  # label, weight, margin

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.rows is not None:
            return len(self.rows)
        return int(self.frame.select(pl.len()).collect().item())

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        source = self.frame.select(self.row_exprs) if self.rows is None else self.rows.lazy()
        # First a value for every row, as in SQL: polars alone would take the sum of the constant 1 for 1.
        by_row = source.with_columns(a.expression.to_polars().alias(name) for name, a in aggregates.items())
        wanted = [getattr(pl.col(name), a.function)().cast(pl.Float64) for name, a in aggregates.items()]
        return by_row.select(wanted).collect().row(0, named=True)

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        counts = (physical_expr(f.name, f.type).null_count().alias(str(i)) for i, f in enumerate(self.features))
        return list(self.frame.select(counts).collect().row(0))

    def start_margins(self, margin: float) -> None:
        """See `Engine.start_margins`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(pl.lit(margin).alias("margin"))

    def gradients(self, gradient: Expression, hessian: Expression) -> tuple[pl.DataFrame, Stats]:
        """Return columns g and h, on the grid, and their sums."""
        assert self.rows is not None
        g, h = gridded_gradients(self, gradient, hessian)
        columns = self.rows.lazy().select(g.to_polars().alias("g"), h.to_polars().alias("h")).collect()
        return columns, Stats(float(columns["g"].sum()), float(columns["h"].sum()))

    def close(self) -> None:
        """See `Engine.close`."""
        self.rows = None


def _present_float(name: str) -> pl.Expr:
    return column(name).cast(pl.Float64).fill_nan(None)

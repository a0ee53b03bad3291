"""Gradients as polars expressions: g and h of every row, rounded to grids on which their sums are exact."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from frameboost.engines.frame.engine import FrameEngine
from frameboost.expressions.expression import Expression
from frameboost.losses.exact_sums import Scalar, rounded

__all__ = ["gradient_columns"]


def gradient_columns(
    rows: FrameEngine, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
) -> pl.DataFrame:
    """Return a column for each gradient and each of the other numbers."""
    return rows.by_row({**rounded(rows, gradients), **others})

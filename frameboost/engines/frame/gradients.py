"""The g and h that one tree is grown on, picked and sampled from the gradients of every row."""

from __future__ import annotations

import polars as pl

from frameboost.engines.contract import Sample
from frameboost.expressions.draws import draw_expr
from frameboost.expressions.row_positions import RowPositions

__all__ = ["tree_gh"]


def tree_gh(gradients: pl.LazyFrame, output: int, sample: Sample | None, positions: RowPositions) -> pl.DataFrame:
    """Return ``g`` and ``h`` of one output, set to zero in rows that the sample leaves out.

    A row is drawn by its position among all rows: that of its number in ``places``.
    """
    gh = gradients.select(pl.col(f"g_{output}").alias("g"), pl.col(f"h_{output}").alias("h"))
    if sample is not None:
        number = pl.int_range(pl.len(), dtype=pl.Int64)
        draw = draw_expr(positions.expr(number), sample.key).alias("draw")
        sampled = [sample.g.to_polars().alias("g"), sample.h.to_polars().alias("h")]
        gh = gh.with_columns(draw).with_columns(sampled).select("g", "h")
    return gh.collect()

"""The g and h that one tree is grown on, picked and sampled from the gradients of every row."""

from __future__ import annotations

import polars as pl

from frameboost.engines.contract import Sample
from frameboost.expressions.draws import draw_expr
from frameboost.expressions.places import Places

__all__ = ["tree_pairs"]


def tree_pairs(gradients: pl.LazyFrame, output: int, sample: Sample | None, places: Places) -> pl.DataFrame:
    """Return ``g`` and ``h`` of one output, set to zero in rows that the sample leaves out.

    A row is drawn by its position among all rows: that of its number in ``places``.
    """
    pairs = gradients.select(pl.col(f"g_{output}").alias("g"), pl.col(f"h_{output}").alias("h"))
    if sample is not None:
        number = pl.int_range(pl.len(), dtype=pl.Int64)
        draw = draw_expr(places.expr(number), sample.key).alias("draw")
        sampled = [sample.g.to_polars().alias("g"), sample.h.to_polars().alias("h")]
        pairs = pairs.with_columns(draw).with_columns(sampled).select("g", "h")
    return pairs.collect()

"""Ranking by a self-join: the sums over the pairs of each query's rows, as polars expressions."""

from __future__ import annotations

import polars as pl

from frameboost.engines.frame.ranking import PAIR_SUMS
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Rounded

__all__ = ["pair_sums"]


def pair_sums(rows: pl.LazyFrame, pairs: Pairs, offset: float) -> pl.DataFrame:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row, from a self-join of the rows by query."""
    ranked = rows.select("qid", *pairs.columns).with_row_index("position")
    sides = {side: ranked.rename({name: f"{name}_{side}" for name in ("position", *pairs.columns)}) for side in "ij"}
    joined = (
        sides["i"]
        .filter(pl.col("place_i") < pairs.truncation)
        .join(sides["j"], on="qid")
        .filter((pl.col("place_i") < pl.col("place_j")) & (pl.col("label_i") != pl.col("label_j")))
        .select(
            "position_i", "position_j",
            pl.when(pl.col("label_i") > pl.col("label_j")).then(1.0).otherwise(-1.0).alias("up"),
            Rounded(pairs.size, offset).to_polars(_names(pairs)).alias("pair_size"),
            Rounded(pairs.curvature, offset).to_polars(_names(pairs)).alias("pair_h"),
        )
    )  # fmt: skip
    pull = pl.col("up") * pl.col("pair_size")
    of_sides = pl.concat([
        joined.select(pl.col("position_i").alias("position"), (-pull).alias("pair_g"), "pair_h", "pair_size"),
        joined.select(pl.col("position_j").alias("position"), pull.alias("pair_g"), "pair_h", "pair_size"),
    ])  # fmt: skip
    sums = of_sides.group_by("position").agg(pl.col(PAIR_SUMS).sum())
    every_row = ranked.select("position").join(sums, on="position", how="left", maintain_order="left")
    # A row without pairs has no sums. Adding 0.0 turns -0.0 into 0.0: which of the two a sum of zeros is depends on
    # the order of its terms.
    return every_row.select(pl.col(PAIR_SUMS).fill_null(0.0) + 0.0).collect()


def _names(pairs: Pairs) -> dict[str, pl.Expr]:
    return {f"{name}_{side}": pl.col(f"{name}_{side}") for side in "ij" for name in pairs.columns}

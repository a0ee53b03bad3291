"""Queries in a frame: windows over the rows of each, and sums over pairs of them."""

from __future__ import annotations

import polars as pl

from frameboost.engines.contract import QueryWindow
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Rounded
from frameboost.schema.polars_columns import column, physical_expr
from frameboost.schema.types import FeatureType

__all__ = ["PAIR_SUMS", "pair_sums", "query_expr", "window_expr"]

PAIR_SUMS = ("pair_g", "pair_h", "pair_size")


def query_expr(frame: pl.LazyFrame, name: str) -> pl.Expr:
    """Return the column that tells the queries apart as integers from 1, NULL where it is missing."""
    kind = FeatureType.from_polars(frame.select(column(name)).collect_schema()[name])
    assert kind is not None
    return physical_expr(name, kind).rank("dense").cast(pl.Int64)


def window_expr(window: QueryWindow) -> pl.Expr:
    """Return a number from the rows of each row's query."""
    value = window.value.to_polars()
    match window.function:
        case "rank":  # of equals the one that comes first
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


def pair_sums(rows: pl.LazyFrame, pairs: Pairs, offset: float) -> pl.DataFrame:
    """Return ``pair_g``, ``pair_h`` and ``pair_size`` of every row, by a join of the rows with themselves."""
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
    # A row without pairs has no sums; and no sum of -0.0 and 0.0 should depend on their order.
    return every_row.select(pl.col(PAIR_SUMS).fill_null(0.0) + 0.0).collect()


def _names(pairs: Pairs) -> dict[str, pl.Expr]:
    return {f"{name}_{side}": pl.col(f"{name}_{side}") for side in "ij" for name in pairs.columns}

"""What the engines over polars frames share: labels, weights, margins and gradients as polars columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import cast

import polars as pl

from frameboost.engines.contract import Cumulative, QueryWindow, Sample
from frameboost.engines.polars.ranking import PAIR_SUMS, pair_sums, query_expr, window_expr
from frameboost.expressions.draws import draw_expr
from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import Pairs
from frameboost.losses.exact_sums import Aggregate, Scalar, rounded
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column, physical_expr
from frameboost.splits.split import Stats

__all__ = ["FrameEngine", "sampled_pairs"]

_WORTH_STREAMING = 1 << 17


class FrameEngine:
    """Row state of an engine whose rows are in a polars frame.

    Parameters
    ----------
    frame
        The user's data, lazy.
    features
        The features' names and types.
    roles
        What else a column is: role -> column name. There is a ``label``; without ``weight`` every weight is 1.
    """

    def __init__(self, frame: pl.LazyFrame, features: tuple[Feature, ...], roles: Mapping[str, str]) -> None:
        self.frame = frame
        self.features = features
        self.row_exprs = [
            (query_expr(frame, name) if role == "qid" else _present_float(name)).alias(role)
            for role, name in roles.items()
        ]
        self.row_names = list(roles)
        self.rows: pl.DataFrame | None = None  # roles and margins
        self.gradients = pl.DataFrame()  # g_0, h_0, ...
        self.pairs = pl.DataFrame()  # g and h of the tree
        self.terms: dict[str, Scalar | Cumulative | QueryWindow] = {}

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self.rows is not None:
            return len(self.rows)
        return int(self.frame.select(pl.len()).collect().item())

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        counts = (physical_expr(f.name, f.type).null_count().alias(str(i)) for i, f in enumerate(self.features))
        return list(self.frame.select(counts).collect().row(0))

    # --- rows and what is computed from them --------------------------------------------------------------------------

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(e.to_polars().alias(name) for name, e in margins.items())

    def define(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.define`."""
        self.terms.update(terms)

    def sum_pairs(self, pairs: Pairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        self.store_pairs(pair_sums(self.all_rows(), pairs, offset))

    def store_pairs(self, sums: pl.DataFrame) -> None:
        """Keep what `sum_pairs` has found: `PAIR_SUMS` of every row."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(sums.select(PAIR_SUMS).iter_columns())

    def all_rows(self) -> pl.LazyFrame:
        """Return the rows with everything that expressions may use."""
        if self.rows is None:
            lazy = self.frame.select(self.row_exprs)
        else:
            rows = pl.concat([self.rows, self.gradients], how="horizontal") if len(self.gradients) else self.rows
            lazy = rows.lazy()
        return self.with_terms(lazy)

    def with_terms(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows with what was defined over them, and with weights."""
        if "weight" not in self.row_names:
            rows = rows.with_columns(pl.lit(1.0).alias("weight"))
        for name, term in self.terms.items():
            if isinstance(term, Cumulative):
                rows = _running_sum(rows, name, term)
            else:
                value = window_expr(term) if isinstance(term, QueryWindow) else _in_polars(term)
                rows = rows.with_columns(value.alias(name))
        return rows

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        return _aggregated(self.all_rows(), aggregates)

    def aggregate_scores(
        self, score: Scalar, positive: Scalar, negative: Scalar, aggregates: Mapping[str, Aggregate]
    ) -> dict[str, float | None]:
        """See `Engine.aggregate_scores`."""
        sides = ("positive", "negative")
        by_row = self.all_rows().select(
            score.to_polars().alias("score"), positive.to_polars().alias(sides[0]), negative.to_polars().alias(sides[1])
        )
        by_score = by_row.group_by("score").agg(pl.col(sides).sum()).sort("score", descending=True)
        above = [(pl.col(side).cum_sum() - pl.col(side)).alias(f"{side}_above") for side in sides]
        totals = [pl.col(side).sum().alias(f"{side}_total") for side in sides]
        return _aggregated(by_score.with_columns(*above, *totals), aggregates)

    # --- one tree -----------------------------------------------------------------------------------------------------

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        self.gradients = pl.DataFrame()
        self.gradients = self.by_row({**rounded(self, gradients), **others})

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Return values of every row, as float64."""
        wanted = [_in_polars(e).cast(pl.Float64).alias(name) for name, e in values.items()]
        rows = self.all_rows().with_columns(wanted).select(list(values))
        # Streaming, rows go through all of it in pieces that stay in the cache, in all threads; which takes its time.
        return rows.collect(engine="streaming" if self.n_rows > _WORTH_STREAMING else "in-memory")

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.pairs = sampled_pairs(self.gradients.lazy(), output, sample)
        self.follow_tree()
        return Stats(float(self.pairs["g"].sum()), float(self.pairs["h"].sum()))

    def hessians(self) -> pl.Series:
        """Return h of every row, for the tree in hand."""
        return self.pairs["h"]

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        raise NotImplementedError

    def quantiles_by_node(
        self, node: pl.Series, value: Scalar, weight: Scalar | None, alpha: float
    ) -> dict[int, float]:
        """Do `Engine.node_quantiles`, given the node of every row."""
        each = [value.to_polars().alias("value"), *([] if weight is None else [weight.to_polars().alias("weight")])]
        rows = self.all_rows().with_columns(each).select("value", "weight")
        rows = pl.concat([rows, node.to_frame("node").lazy(), self.hessians().to_frame("h").lazy()], how="horizontal")
        quantile = _interpolated_quantile(alpha) if weight is None else _weighted_quantile(alpha)
        ordered = rows.filter(pl.col("h") > 0).sort("node", "value")
        found = ordered.group_by("node").agg(quantile.alias("quantile")).sort("node").collect()
        return dict(found.iter_rows())

    def close(self) -> None:
        """See `Engine.close`."""
        self.rows = None


def _in_polars(value: Scalar) -> pl.Expr:
    """Return the expression for polars; the same are asked for round by round."""
    return _remembered(cast("Hashable", value))


@lru_cache(maxsize=1024)
def _remembered(value: Hashable) -> pl.Expr:
    return cast("Scalar", value).to_polars()


def sampled_pairs(
    gradients: pl.LazyFrame, output: int, sample: Sample | None, numbers: pl.Series | None = None
) -> pl.DataFrame:
    """Return ``g`` and ``h`` of an output, of the sample if there is one: zero for rows that are not in it.

    Rows are drawn by their ``numbers``, 0, 1, 2 and so on where there are none.
    """
    pairs = gradients.select(pl.col(f"g_{output}").alias("g"), pl.col(f"h_{output}").alias("h"))
    if sample is not None:
        position = pl.int_range(pl.len(), dtype=pl.Int64) if numbers is None else pl.lit(numbers).cast(pl.Int64)
        draw = draw_expr(position, sample.key).alias("draw")
        sampled = [sample.g.to_polars().alias("g"), sample.h.to_polars().alias("h")]
        pairs = pairs.with_columns(draw).with_columns(sampled).select("g", "h")
    return pairs.collect()


def _present_float(name: str) -> pl.Expr:
    return column(name).cast(pl.Float64).fill_nan(None)


def _aggregated(rows: pl.LazyFrame, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
    # First a value for every row, as in SQL: polars alone would take the sum of the constant 1 for 1.
    by_row = rows.with_columns(_in_polars(a.expression).alias(name) for name, a in aggregates.items())
    wanted = [getattr(pl.col(name), a.function)().cast(pl.Float64) for name, a in aggregates.items()]
    return by_row.select(wanted).collect().row(0, named=True)


def _running_sum(rows: pl.LazyFrame, name: str, sums: Cumulative) -> pl.LazyFrame:
    place = sums.order.to_polars()
    total = sums.value.to_polars().cum_sum().over(pl.lit(1), order_by=place, descending=sums.descending)
    # What has the same place in the order has the same sum: that of the last of them, which is the largest.
    return rows.with_columns(total.alias(name)).with_columns(pl.col(name).max().over(place))


def _interpolated_quantile(alpha: float) -> pl.Expr:
    """Return the quantile of the sorted column ``value`` at the rank alpha (n + 1), between its two neighbours."""
    n = pl.len().cast(pl.Float64)
    rank = alpha * (n + 1)
    below = rank.floor() - 1
    low = pl.col("value").gather(below.clip(0, n - 1).cast(pl.UInt32)).first()
    high = pl.col("value").gather((below + 1).clip(0, n - 1).cast(pl.UInt32)).first()
    inside = low + (rank - 1 - below) * (high - low)
    first, last = pl.col("value").first(), pl.col("value").last()
    return pl.when(alpha <= 1 / (n + 1)).then(first).when(alpha >= n / (n + 1)).then(last).otherwise(inside)


def _weighted_quantile(alpha: float) -> pl.Expr:
    """Return the first of the sorted column ``value`` at which the running weight is alpha of all of it."""
    running = pl.col("weight").cum_sum()
    return pl.col("value").filter(running >= pl.col("weight").sum() * alpha).first()

"""The base class of the engines over a polars frame: roles, margins and defined terms as polars columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import polars as pl

from frameboost.binning.codes import category_values, distinct_values, sample_of
from frameboost.binning.value_counts import ValueCounts, in_numpy
from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.engines.frame.aggregation import aggregated, in_polars
from frameboost.engines.frame.ranking import query_expr, window_expr
from frameboost.engines.frame.scores import ScoreTable
from frameboost.engines.leaf_quantiles import leaf_quantile
from frameboost.expressions.ranking_terms import PAIR_SUMS
from frameboost.expressions.row_positions import RowPositions
from frameboost.losses.exact_sums import Aggregate, Aggregator, Scalar
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column, physical_expr
from frameboost.schema.types import Physical

__all__ = ["FrameEngine"]

_MIN_STREAMED = 1 << 17


class FrameEngine:
    """Row state of an engine over a polars frame.

    Parameters
    ----------
    frame
        The user's data, lazy.
    features
        The features' names and types.
    roles
        Role -> column name. ``label`` is always there; without ``weight`` every weight is 1.
    """

    def __init__(self, frame: pl.LazyFrame, features: tuple[Feature, ...], roles: Mapping[str, str]) -> None:
        self.frame = frame
        self.features = features
        self.row_exprs = [
            (query_expr(frame, name) if role == "qid" else _present_float(name)).alias(role)
            for role, name in roles.items()
        ]
        self.roles = dict(roles)
        self.row_names = list(roles)
        self.positions = RowPositions()  # of its rows among all, of which there are
        self._n_all_rows = 0
        self.rows: pl.DataFrame | None = None  # roles and margins
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

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`."""
        self.terms.update(terms)

    def store_pairs(self, sums: pl.DataFrame) -> None:
        """Store the columns `PAIR_SUMS` of every row."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(sums.select(PAIR_SUMS).iter_columns())

    def all_rows(self) -> pl.LazyFrame:
        """Return the rows with all columns that expressions may name."""
        if self.rows is None:
            return self.with_terms(self.frame.select(self.row_exprs))
        return self.with_terms(self.stored_rows())

    def stored_rows(self) -> pl.LazyFrame:
        """Return the rows with the roles and all columns that were computed."""
        assert self.rows is not None
        return self.rows.hstack(self.computed_columns()).lazy()

    def computed_columns(self) -> list[pl.Series]:
        """Return the columns that an engine keeps outside ``rows``, such as gradients."""
        return []

    def with_terms(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows with the defined terms, and a weight of 1 where there is none."""
        if "weight" not in self.row_names:
            rows = rows.with_columns(pl.lit(1.0).alias("weight"))
        for name, term in self.terms.items():
            if isinstance(term, Cumulative):
                rows = _running_sum(rows, name, term)
            else:
                value = window_expr(term) if isinstance(term, QueryWindow) else in_polars(term)
                rows = rows.with_columns(value.alias(name))
        return rows

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        return aggregated(self.all_rows(), aggregates)

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        return ScoreTable(self.score_sums(score, positive, negative), self.n_rows)

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row, as float64."""
        wanted = [in_polars(e).cast(pl.Float64).alias(name) for name, e in values.items()]
        rows = self.all_rows().with_columns(wanted).select(list(values))
        # The streaming engine evaluates all expressions on one cache-sized batch at a time, on all threads. Starting it
        # takes longer than few rows do.
        return rows.collect(engine="streaming" if self.n_rows > _MIN_STREAMED else "in-memory")

    def quantiles_by_node(
        self, node: pl.Series, h: pl.Series, value: Scalar, weight: Scalar | None, alpha: float
    ) -> dict[int, float]:
        """Return `Engine.node_quantiles`, given each row's node and its h in the current tree."""
        # The order of a node's values takes five times as long as a selection among them, which polars does not have.
        found = self.values_by_node(node, h, value, weight).group_by("node").agg(pl.all()).sort("node").collect()
        values = [each.to_numpy() for each in found["value"]]
        weights = [None] * len(found) if weight is None else [each.to_numpy() for each in found["weight"]]
        rows = zip(found["node"].to_list(), values, weights, strict=True)
        return {number: leaf_quantile(own, own_weights, alpha) for number, own, own_weights in rows}

    def values_by_node(self, node: pl.Series, h: pl.Series, value: Scalar, weight: Scalar | None) -> pl.LazyFrame:
        """Return `ShardEngine.node_values`, given each row's node and its h in the current tree."""
        named = {"value": value, **({} if weight is None else {"weight": weight})}
        rows = self.all_rows().with_columns(each.to_polars().alias(name) for name, each in named.items()).select(*named)
        rows = pl.concat([rows, node.to_frame("node").lazy(), h.to_frame("h").lazy()], how="horizontal")
        return rows.filter(pl.col("h") > 0).drop("h")

    def close(self) -> None:
        """See `Engine.close`."""
        self.rows = None

    # --- as a shard ---------------------------------------------------------------------------------------------------

    def start_at(self, positions: RowPositions, n_rows: int) -> None:
        """See `ShardEngine.start_at`."""
        self.positions, self._n_all_rows = positions, n_rows

    @cached_property
    def sample(self) -> pl.Series | None:
        """A mask of the rows that cuts come from, None for all."""
        return sample_of(self._n_all_rows, self.positions, self.n_rows)

    def feature_values(self, number: int) -> pl.Series:
        """Return a feature's physical values, before the columns are binned."""
        raise NotImplementedError

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """See `ShardEngine.count_values`."""
        return [self.counts_of(feature) for feature in features]

    def counts_of(self, feature: int) -> ValueCounts:
        """Return the distinct values of a feature in the rows that cuts come from."""
        present = self.values_for_cuts(feature)
        distinct, before = distinct_values(present)
        return ValueCounts(in_numpy(distinct), np.diff(np.append(before, len(present))))

    def values_for_cuts(self, feature: int) -> pl.Series:
        """Return the present values of a feature in the rows that cuts come from."""
        values = self.feature_values(feature)
        return (values if self.sample is None else values.filter(self.sample)).drop_nulls()

    def categories(self, feature: int) -> list[Physical]:
        """See `ShardEngine.categories`."""
        return category_values(self.feature_values(feature)).to_list()

    def score_sums(self, score: Scalar, positive: Scalar, negative: Scalar) -> pl.DataFrame:
        """See `ShardEngine.score_sums`."""
        named = {"score": score, "positive": positive, "negative": negative}
        by_row = self.all_rows().select(each.to_polars().alias(name) for name, each in named.items())
        return by_row.group_by("score").agg(pl.col("positive", "negative").sum()).collect()

    def query_names(self) -> pl.Series:
        """See `ShardEngine.query_names`."""
        return self.frame.select(column(self.roles["qid"]).cast(pl.String).unique()).collect().to_series()


def _present_float(name: str) -> pl.Expr:
    return column(name).cast(pl.Float64).fill_nan(None)


def _running_sum(rows: pl.LazyFrame, name: str, sums: Cumulative) -> pl.LazyFrame:
    position = sums.order.to_polars()
    total = sums.value.to_polars().cum_sum().over(pl.lit(1), order_by=position, descending=sums.descending)
    # Ties in the order share one sum: that of the last of them, which is the largest.
    return rows.with_columns(total.alias(name)).with_columns(pl.col(name).max().over(position))

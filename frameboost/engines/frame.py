"""The rows of an engine over a polars frame: labels, margins and added columns, and aggregates over them.

Two engines are built on `FrameEngine`: that of group-bys (`frameboost.engines.polars`), and that of arrays in memory
(`frameboost.engines.memory`). Below it are what it is made of: window functions over queries, distinct scores for areas
under curves, and quantiles of the rows of a leaf.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import cast

import numpy as np
import polars as pl

from frameboost.binning.codes import ValueCounts, category_values, distinct_values, in_numpy, sample_of
from frameboost.engines.contract import Cumulative, QueryWindow
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.grid import Aggregate, Aggregator, Scalar
from frameboost.schema.types import Feature, FeatureType, Physical, column, physical_expr
from frameboost.splits.split import FloatArray

__all__ = [
    "FrameEngine", "ScoreTable", "in_polars", "interpolated_quantile", "leaf_quantile", "weighted_quantile",
    "window_expr",
]  # fmt: skip

# More rows than this are evaluated by the streaming engine.
_MIN_STREAMED = 1 << 17
_SIDES = ("positive", "negative")  # the sums of a distinct score


class FrameEngine:
    """The row state of an engine over a polars frame.

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
            (_query_expr(frame, name) if role == "qid" else column(name).cast(pl.Float64).fill_nan(None)).alias(role)
            for role, name in roles.items()
        ]
        self.roles = dict(roles)
        self.row_names = list(roles)
        self.positions = RowPositions()  # of a shard's rows among all
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

    # --- columns ------------------------------------------------------------------------------------------------------

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`."""
        self.terms.update(terms)

    def store_arrays(self, columns: Mapping[str, FloatArray]) -> None:
        """See `ArrayRows.store_arrays`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(pl.Series(name, values) for name, values in columns.items())

    def all_rows(self) -> pl.LazyFrame:
        """Return the rows with all columns available to expressions."""
        if self.rows is None:
            return self._with_terms(self.frame.select(self.row_exprs))
        return self._with_terms(self.stored_rows())

    def stored_rows(self) -> pl.LazyFrame:
        """Return the rows with the roles and all computed columns."""
        assert self.rows is not None
        return self.rows.hstack(self.computed_columns()).lazy()

    def computed_columns(self) -> list[pl.Series]:
        """Return the columns that an engine keeps outside ``rows``, such as gradients."""
        return []

    def _with_terms(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rows with the defined terms, and a default weight of 1."""
        if "weight" not in self.row_names:
            rows = rows.with_columns(pl.lit(1.0).alias("weight"))
        for name, term in self.terms.items():
            if isinstance(term, Cumulative):
                rows = _with_running_sum(rows, name, term)
            else:
                value = window_expr(term) if isinstance(term, QueryWindow) else in_polars(term)
                rows = rows.with_columns(value.alias(name))
        return rows

    # --- numbers ------------------------------------------------------------------------------------------------------

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        return _aggregated(self.all_rows(), aggregates)

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        return ScoreTable(self.score_sums(score, positive, negative), self.n_rows)

    def by_row(self, values: Mapping[str, Scalar]) -> pl.DataFrame:
        """Evaluate expressions row by row, as float64."""
        numbers = [in_polars(e).cast(pl.Float64).alias(name) for name, e in values.items()]
        rows = self.all_rows().with_columns(numbers).select(list(values))
        # The streaming engine evaluates all expressions on one cache-sized batch at a time, on all threads. Starting it
        # takes longer than few rows do.
        return rows.collect(engine="streaming" if self.n_rows > _MIN_STREAMED else "in-memory")

    def computed(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """See `ArrayRows.computed`."""
        return {name: each.to_numpy(writable=True) for name, each in self.by_row(values).to_dict().items()}

    def quantiles_by_node(
        self, node: pl.Series, h: pl.Series, value: Scalar, weight: Scalar | None, alpha: float
    ) -> dict[int, float]:
        """Return `Engine.node_quantiles`. Arguments: each row's node and its h in the current tree."""
        # The order of a node's values takes five times as long as a selection among them, which polars does not have.
        rows = self.values_by_node(node, h, value, weight).group_by("node").agg(pl.all()).sort("node").collect()
        values = [each.to_numpy() for each in rows["value"]]
        weights = [None] * len(rows) if weight is None else [each.to_numpy() for each in rows["weight"]]
        return {
            number: leaf_quantile(of_node, its_weights, alpha)
            for number, of_node, its_weights in zip(rows["node"].to_list(), values, weights, strict=True)
        }

    def values_by_node(self, node: pl.Series, h: pl.Series, value: Scalar, weight: Scalar | None) -> pl.LazyFrame:
        """Return `ShardEngine.node_values`. Arguments: each row's node and its h in the current tree."""
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
        """A mask of the rows for proposing cuts, None for all."""
        return sample_of(self._n_all_rows, self.positions, self.n_rows)

    def feature_values(self, number: int) -> pl.Series:
        """Return a feature's physical values, before the columns are binned."""
        raise NotImplementedError

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """See `ShardEngine.count_values`."""
        return [self.counts_of(feature) for feature in features]

    def counts_of(self, feature: int) -> ValueCounts:
        """Return the distinct values of a feature over the rows for proposing cuts."""
        present = self.values_for_cuts(feature)
        distinct, before = distinct_values(present)
        return ValueCounts(in_numpy(distinct), np.diff(np.append(before, len(present))))

    def values_for_cuts(self, feature: int) -> pl.Series:
        """Return the non-missing values of a feature over the rows for proposing cuts."""
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


def in_polars(value: Scalar) -> pl.Expr:
    """Return an expression for polars, memoised, as each round evaluates the same ones."""
    return _memoised(cast("Hashable", value))


@lru_cache(maxsize=1024)
def _memoised(value: Hashable) -> pl.Expr:
    return cast("Scalar", value).to_polars()


def _aggregated(rows: pl.LazyFrame, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
    """Return aggregates over all rows, by name."""
    # Columns first: to polars, the sum of the literal 1 is 1, not the number of rows.
    by_row = rows.with_columns(in_polars(a.expression).alias(name) for name, a in aggregates.items())
    numbers = [getattr(pl.col(name), a.function)().cast(pl.Float64) for name, a in aggregates.items()]
    return by_row.select(numbers).collect().row(0, named=True)


def _with_running_sum(rows: pl.LazyFrame, name: str, sums: Cumulative) -> pl.LazyFrame:
    position = sums.order.to_polars()
    total = sums.value.to_polars().cum_sum().over(pl.lit(1), order_by=position, descending=sums.descending)
    # Ties in the order share one sum: that of the last of them, which is the largest.
    return rows.with_columns(total.alias(name)).with_columns(pl.col(name).max().over(position))


# --- queries of ranking -----------------------------------------------------------------------------------------------


def _query_expr(frame: pl.LazyFrame, name: str) -> pl.Expr:
    """Return the query column as dense ranks from 1, NULL if missing."""
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


# --- areas under curves -----------------------------------------------------------------------------------------------


class ScoreTable:
    """The distinct scores of rows (see `Engine.by_score`).

    Parameters
    ----------
    sums
        Each distinct ``score``, and the sums ``positive`` and ``negative`` of its rows, in any order.
    n_rows
        The number of rows.
    above, totals
        The sums of rows with higher scores than all of these, and of all rows, where these are not all scores: by
        ``positive`` and ``negative``.
    """

    def __init__(
        self,
        sums: pl.DataFrame,
        n_rows: int,
        above: Mapping[str, float] | None = None,
        totals: Mapping[str, float] | None = None,
    ) -> None:
        self._sums = sums
        self.n_rows = n_rows
        self._above = above or dict.fromkeys(_SIDES, 0.0)
        self._totals = totals or {side: float(sums[side].sum()) for side in _SIDES}

    @cached_property
    def _steps(self) -> pl.DataFrame:
        """The scores, the highest first, with the sums over the rows above each, and over all."""
        above = [(pl.col(side).cum_sum() - pl.col(side) + self._above[side]).alias(f"{side}_above") for side in _SIDES]
        # As arrays: polars divides by a column that it knows to be constant by way of 1 / constant, which rounds twice.
        totals = [pl.Series(f"{side}_total", np.full(len(self._sums), self._totals[side])) for side in _SIDES]
        return self._sums.sort("score", descending=True).with_columns(*above, *totals)

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        return _aggregated(self._steps.lazy(), aggregates)


# --- quantiles of leaves, by selection (quickselect) or, with weights, by sorting -------------------------------------


def leaf_quantile(values: FloatArray, weights: FloatArray | None, alpha: float) -> float:
    """Return the ``alpha`` quantile of the rows of a leaf (see `Engine.node_quantiles`)."""
    return interpolated_quantile(values, alpha) if weights is None else weighted_quantile(values, weights, alpha)


def interpolated_quantile(values: FloatArray, alpha: float) -> float:
    """Return the ``alpha`` quantile at rank alpha (n + 1), by linear interpolation (see `Engine.node_quantiles`).

    The median of 1, 2, 4, 8 has rank 2.5:

    >>> interpolated_quantile(np.array([8.0, 1.0, 4.0, 2.0]), 0.5)
    3.0
    """
    n = len(values)
    if alpha <= 1 / (n + 1):
        return float(values.min())
    if alpha >= n / (n + 1):
        return float(values.max())
    rank = alpha * (n + 1)
    below = math.floor(rank) - 1
    selected = np.partition(values, below)
    low, high = float(selected[below]), float(selected[below + 1 :].min())
    return low + (rank - 1 - below) * (high - low)


def weighted_quantile(values: FloatArray, weights: FloatArray, alpha: float) -> float:
    """Return the lowest value at which the running sum of weights, which is exact, reaches ``alpha`` of the total.

    >>> weighted_quantile(np.array([8.0, 1.0, 4.0]), np.array([1.0, 1.0, 3.0]), 0.5)
    4.0
    """
    order = np.argsort(values)
    running = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(running, running[-1] * alpha)]])

"""Metrics of many draws of the same rows, as the bootstrap needs them: all draws in one computation.

A draw is how often it has each row. With three rows and the draws (1, 1, 1) and (2, 0, 1), a sum of values v is the
product of the matrix of these lines with v. For the area under a curve the rows are sorted by their scores once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import RowsInMemory
from frameboost.expressions.expression import Expression
from frameboost.metrics.functions import FunctionMetric
from frameboost.metrics.metric import AnyMetric, CurveMetric, Metric

__all__ = ["adds_up", "can_be_drawn", "of_draws", "of_each_row", "row_counts"]

Floats = npt.NDArray[np.float64]


def can_be_drawn(metric: AnyMetric) -> TypeGuard[Metric | CurveMetric]:
    """Whether a metric is made of what each row has by itself, not of its rank in a query or in time."""
    return adds_up(metric) and all(isinstance(term, Expression) for term in metric.terms.values())


def adds_up(metric: AnyMetric) -> TypeGuard[Metric | CurveMetric]:
    """Whether a metric is made of sums, averages and counts over rows."""
    if isinstance(metric, FunctionMetric):
        return False
    return isinstance(metric, CurveMetric) or {f for f, _ in metric.parts[0].values()} <= {"sum", "avg", "count"}


def row_counts(drawn: Iterable[npt.NDArray[np.int64]], units: npt.NDArray[np.int64], n_units: int) -> Floats:
    """Return how often each draw has each row, a line a draw, by the units that it drew and the unit of each row.

    >>> row_counts([np.array([1, 1])], np.array([0, 1, 1]), 2).tolist()
    [[0.0, 2.0, 2.0]]
    """
    return np.stack([np.bincount(draw, minlength=n_units)[units] for draw in drawn]).astype(np.float64)


def of_each_row(metric: Metric, rows: RowsInMemory) -> pl.Series:
    """Return the metric of each row alone: for the root mean squared error, the absolute error.

    Terms over several rows, such as the risk sets of Cox's likelihood, are those of all rows.
    """
    return _around(metric, _aggregated(metric, rows))


def of_draws(metric: Metric | CurveMetric, rows: RowsInMemory, counts: Floats) -> Floats:
    """Return the metric of each draw; ``counts`` has a line a draw, and the terms of the metric are defined.

    >>> class Rows:
    ...     def by_row(self, values):
    ...         frame = pl.DataFrame({"label": [0.0, 1.0, 4.0], "weight": [1.0, 1.0, 1.0]})
    ...         return frame.select(value.to_polars().alias(name) for name, value in values.items())
    >>> mean = Metric("mean", "SUM(weight * label) / SUM(weight)", columns=("label", "weight"))
    >>> of_draws(mean, Rows(), np.array([[1.0, 1.0, 2.0], [2.0, 0.0, 0.0]])).tolist()
    [2.25, 0.0]
    """
    return _areas(metric, rows, counts) if isinstance(metric, CurveMetric) else _of_sums(metric, rows, counts)


def _of_sums(metric: Metric, rows: RowsInMemory, counts: Floats) -> Floats:
    values = _aggregated(metric, rows)
    sums = pl.DataFrame(counts @ values.fill_null(0.0).to_numpy(), schema=values.columns)
    averages = [name for name, (function, _) in metric.parts[0].items() if function == "avg"]
    return _around(metric, sums.with_columns(pl.col(name) / pl.col(f"{name}_count") for name in averages)).to_numpy()


def _aggregated(metric: Metric, rows: RowsInMemory) -> pl.DataFrame:
    """Return what a metric aggregates, a column for each aggregate."""
    return rows.by_row({name: expression for name, (_, expression) in metric.parts[0].items()})


def _around(metric: Metric, aggregates: pl.DataFrame) -> pl.Series:
    """Return a metric of each line of its aggregates."""
    return aggregates.select(metric.parts[1].to_polars().cast(pl.Float64).alias(metric.name)).to_series()


def _areas(metric: CurveMetric, rows: RowsInMemory, counts: Floats) -> Floats:
    weighted, weights = np.zeros(len(counts)), np.zeros(len(counts))
    for score, positive, negative in metric.scores:
        values = rows.by_row({"score": score, "positive": positive, "negative": negative})
        order = np.argsort(-values["score"].to_numpy(), kind="stable")
        scores, drawn = values["score"].to_numpy()[order], counts[:, order]
        starts = np.flatnonzero(np.append(True, np.diff(scores) != 0))  # of the rows of each distinct score
        columns: dict[str, Floats] = {}
        totals: dict[str, Floats] = {}
        for side in ("positive", "negative"):
            sums = np.add.reduceat(drawn * values[side].to_numpy()[order], starts, axis=1)
            above = np.cumsum(sums, axis=1)
            totals[side] = above[:, -1]
            total = np.repeat(totals[side], len(starts))
            columns |= {side: sums.ravel(), f"{side}_above": (above - sums).ravel(), f"{side}_total": total}
        values_of_scores = pl.DataFrame(columns).select(area=metric.area.to_polars(), total=metric.total.to_polars())
        area, whole = (values_of_scores[name].to_numpy().reshape(len(counts), -1) for name in ("area", "total"))
        share = totals["positive"] if metric.by_share and len(metric.scores) > 1 else np.ones(len(counts))
        with np.errstate(divide="ignore", invalid="ignore"):  # of a draw of one class, which has no curve
            weighted += share * area.sum(axis=1) / whole[:, 0]
        weights += share
    return weighted / weights

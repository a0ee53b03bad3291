"""Drift of a model's features: the population stability index of each feature, overall or by period."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.codes import code_expr
from frameboost.checks.messages import listed, shown
from frameboost.database.drift import SMALLEST_SHARE, feature_values, open_exactly
from frameboost.ensemble.baseline import MISSING, DriftBin, bins_of
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.schema.types import Feature, column

__all__ = ["MUCH_DRIFT", "SOME_DRIFT", "drift_frame", "periods_of", "stability_index"]

# What indices say: a feature of less than the first is distributed much as in training, one of more than the second is
# not.
SOME_DRIFT, MUCH_DRIFT = 0.1, 0.25

# Periods of a column that is neither a date nor a timestamp are its distinct values.
_MAX_PERIODS = 200
_LENGTHS = ("1h", "1d", "1w", "1mo", "1q", "1y", "10y", "100y")
_FEW_PERIODS = 40


def stability_index(actual: npt.ArrayLike, expected: npt.ArrayLike) -> float:
    """Return the population stability index Σ (a − e) ln(a / e) for actual shares a and expected shares e.

    Shares are clipped at 0.0001, which keeps the logarithm finite.

    >>> round(stability_index([0.25, 0.75], [0.5, 0.5]), 6)
    0.274653
    """
    a, e = (np.maximum(np.asarray(shares, dtype=np.float64), SMALLEST_SHARE) for shares in (actual, expected))
    return float(np.sum((a - e) * np.log(a / e)))


def drift_frame(
    ensemble: Ensemble, data: Any, baseline: pl.DataFrame, time: str | None = None, every: str = "1mo"
) -> pl.DataFrame:
    """Return the population stability index of each feature of a baseline, overall or by period.

    The `stability_index` compares the shares of rows in the bins of a feature with the baseline, as
    `frameboost.DatabaseModel.drift_query` does.

    Parameters
    ----------
    ensemble
        The model's.
    data
        As for `frameboost.Model.predict`, with the types of training.
    baseline
        A result of `frameboost.DatabaseModel.baseline`, or its rows for some features.
    time
        A column of dates or timestamps, or of periods, such as a year; None for all rows together.
    every
        The length of a period of dates or timestamps, as in polars' ``dt.truncate``.

    Returns
    -------
    polars.DataFrame
        ``period`` (its start, or the value; only with ``time``), ``feature``, ``psi``, ``rows`` (of the period); rows
        without a time are ignored.

    Raises
    ------
    DataError
        If a column is missing, has a type that differs from training, or has too many periods; if there are no rows.
    ParameterError
        If the baseline belongs to another model, or ``every`` is not a period.
    """
    bins = bins_of(baseline, ensemble.features)
    features = [ensemble.features[number] for number in bins]
    source = open_exactly(data, features)
    if time is not None and time not in source.names():
        raise DataError(f"time column {shown(time)} is not in the data, which has {listed(source.names())}")
    read = [*(f.name for f in features), *([] if time is None else [time])]
    frame = source.to_frame(list(dict.fromkeys(read))).collect()
    if frame.is_empty():
        raise DataError("the data has no rows")
    period = pl.repeat(0, frame.height, eager=True) if time is None else periods_of(frame, time, every)
    parts = [_of_feature(frame, feature, bins[number], period) for number, feature in zip(bins, features, strict=True)]
    return pl.concat(parts).drop([] if time is not None else "period")


def periods_of(frame: pl.DataFrame, time: str, every: str | None = None) -> pl.Series:
    """Return the period of each row: its start, by default for the shortest period with few starts, or its value.

    >>> days = pl.DataFrame({"day": pl.date_range(pl.date(2013, 1, 1), pl.date(2013, 3, 31), eager=True)})
    >>> periods_of(days, "day").value_counts(sort=True).rows()[0], len(periods_of(days, "day").unique())
    ((datetime.date(2013, 1, 7), 7), 13)
    """
    values = frame.select(column(time).alias("period")).to_series()
    if values.dtype.is_temporal() and values.dtype not in (pl.Duration, pl.Time):
        try:
            values = _truncated(values) if every is None else values.dt.truncate(every)
        except pl.exceptions.PolarsError as error:
            raise ParameterError(f"every must be a period such as '1d', '1w' or '1mo', not {shown(every)}") from error
    n_periods = values.n_unique()
    if values.null_count() == len(values):
        raise DataError(f"time column {shown(time)} has no value in any row")
    if n_periods > _MAX_PERIODS:
        longer = "set a longer one, such as every='1mo', or " if values.dtype.is_temporal() else "pass dates, or "
        raise DataError(
            f"time column {shown(time)} has {n_periods:,} periods, more than {_MAX_PERIODS}; {longer}a column of fewer "
            "values"
        )
    return values


def _truncated(times: pl.Series) -> pl.Series:
    """Return the starts of periods, by default of the shortest period with few distinct starts."""
    for every in _LENGTHS:
        starts = times.dt.truncate(every)
        if starts.n_unique() <= _FEW_PERIODS:
            break
    return starts


def _of_feature(frame: pl.DataFrame, feature: Feature, bins: Sequence[DriftBin], period: pl.Series) -> pl.DataFrame:
    """Return the index of one feature by period."""
    kind = feature.type
    ordered = sorted((b for b in bins if b.number != MISSING), key=lambda b: b.number)
    present = len(ordered)  # the code of a missing value, after those of the bins
    values = pl.col("value")
    if kind.is_categorical:
        named = [b.category for b in ordered if b.category is not None]
        code = code_expr(values, kind, named, present, other=len(named))
    else:
        code = code_expr(values, kind, [b.lower for b in ordered if b.lower is not None], present)
    coded = pl.DataFrame({"period": period, "value": feature_values(frame, feature)}).with_columns(code.alias("code"))
    counts = coded.drop_nulls("period").group_by("period", "code").len()
    expected = np.array([*(b.share for b in ordered), sum(b.share for b in bins if b.number == MISSING)])
    rows = []
    for (start,), group in sorted(counts.group_by("period"), key=lambda item: item[0]):
        actual = np.zeros(present + 1)
        actual[group["code"].to_numpy()] = group["len"].to_numpy()
        n_rows = int(actual.sum())
        rows.append((start, feature.name, stability_index(actual / n_rows, expected), n_rows))
    schema: dict[str, Any] = {"period": period.dtype, "feature": pl.String, "psi": pl.Float64, "rows": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")

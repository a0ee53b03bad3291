"""Frames that many tests train on."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import numpy as np
import polars as pl

__all__ = ["FEATURES_BY_TYPE", "LABELS", "every_type"]

# For each loss, the column of `every_type` to use as its label.
LABELS = {"reg:squarederror": "amount", "binary:logistic": "late"}

_CARRIERS = ["AA", "B6", "DL", "EV", "MQ", "UA", "it's", 'a"b', "Ünïcode", ""]


def every_type(n_rows: int = 400, seed: int = 0, *, missing: float = 0.1) -> pl.DataFrame:
    """Return a frame with a column of every feature type, named by the type, and labels that depend on all of them.

    Besides the features: ``amount`` (a float label), ``late`` (a Boolean one) and ``w`` (weights). A share of
    ``missing`` of each feature is NULL; half of that is NaN in float columns.
    """
    rng = np.random.default_rng(seed)
    k = len(FEATURES_BY_TYPE)
    levels = rng.integers(-60, 60, size=(n_rows, k))
    columns = [
        pl.Series(name, [make(int(v)) for v in levels[:, i]], dtype=dtype)
        for i, (name, (dtype, make)) in enumerate(FEATURES_BY_TYPE.items())
    ]
    is_missing = rng.random((n_rows, k)) < missing
    frame = pl.DataFrame(columns)
    frame = frame.with_columns(
        pl.when(pl.Series(is_missing[:, i])).then(None).otherwise(pl.col(name)).alias(name)
        for i, name in enumerate(frame.columns)
    )
    for name in ("float32", "float64"):
        nans = pl.Series(rng.random(n_rows) < missing / 2)
        frame = frame.with_columns(pl.when(nans).then(float("nan")).otherwise(pl.col(name)).alias(name))
    effect = np.where(is_missing, 7.0, np.sin(levels / 9.0) * 10.0 + levels * 0.1) @ rng.uniform(-1, 1, k)
    amount = np.round(effect + rng.normal(size=n_rows), 3)
    return frame.with_columns(
        pl.Series("amount", amount),
        pl.Series("late", amount + rng.normal(size=n_rows) * 5 > np.median(amount)),
        pl.Series("w", rng.integers(1, 5, n_rows) / 2.0),
    )


# name -> (dtype, function from an integer in [-60, 60) to a value)
FEATURES_BY_TYPE = {
    "int8": (pl.Int8, lambda v: v),
    "int16": (pl.Int16, lambda v: v * 300),
    "int32": (pl.Int32, lambda v: v * 10_000_000),
    "int64": (pl.Int64, lambda v: 2**60 + v),  # neighbours that are equal in float64
    "uint8": (pl.UInt8, lambda v: v + 60),
    "uint16": (pl.UInt16, lambda v: (v + 60) * 500),
    "uint32": (pl.UInt32, lambda v: (v + 60) * 30_000_000),
    "uint64": (pl.UInt64, lambda v: 2**63 + 60 + v),
    "int128": (pl.Int128, lambda v: v * 10**30),
    "float32": (pl.Float32, lambda v: v / 7),
    "float64": (pl.Float64, lambda v: v / 7),
    "decimal": (pl.Decimal(9, 2), lambda v: f"{v}.25"),
    "boolean": (pl.Boolean, lambda v: v % 3 == 0),
    "date": (pl.Date, lambda v: date(2013, 6, 1) + timedelta(days=v)),
    "datetime_ms": (pl.Datetime("ms"), lambda v: datetime(2013, 6, 1) + timedelta(hours=v)),
    "datetime_us": (pl.Datetime("us"), lambda v: datetime(1969, 12, 31) + timedelta(microseconds=v)),
    "datetime_ns": (pl.Datetime("ns"), lambda v: datetime(2013, 6, 1) + timedelta(seconds=v)),
    "datetime_tz": (pl.Datetime("us", "Europe/Paris"), lambda v: datetime(2013, 3, 31) + timedelta(hours=v)),
    "duration_ms": (pl.Duration("ms"), lambda v: timedelta(minutes=v)),
    "duration_us": (pl.Duration("us"), lambda v: timedelta(microseconds=v)),
    "string": (pl.String, lambda v: _CARRIERS[v % 10]),
    "enum": (pl.Enum(_CARRIERS), lambda v: _CARRIERS[v * v % 10]),
    "categorical": (pl.Categorical, lambda v: _CARRIERS[v // 12 % 10]),
}

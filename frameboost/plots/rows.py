"""The data of a chart: rows read and sampled, values that Vega-Lite knows, curves of few points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from frameboost.data.rows_to_score import open_rows
from frameboost.errors import DataError
from frameboost.expressions.draws import draw_expr, draw_key
from frameboost.model.model import Model
from frameboost.plots.theme import axis, number_axis
from frameboost.schema.polars_columns import column, text_expr
from frameboost.schema.types import FeatureType

__all__ = [
    "MAX_POINTS",
    "MISSING",
    "VegaType",
    "feature_type",
    "read_features",
    "sampled",
    "text_of",
    "thinned",
    "titled",
    "value_axis",
    "vega_type",
    "vega_values",
]  # fmt: skip

MAX_POINTS = 5_000
"""The most rows of data of a chart; Altair itself refuses more."""

MISSING = "(missing)"


def read_features(model: Model, data: Any) -> pl.DataFrame:
    """Return the columns that the model reads, of all rows.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows.
    """
    source = open_rows(data, model.ensemble.read_features)
    model.ensemble.find_in(source)
    frame = source.to_frame(model.ensemble.read_names).collect()
    if frame.is_empty():
        raise DataError("the data has no rows")
    return frame


def sampled(frame: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most so many rows, in their order: those whose position has the smallest hash.

    >>> sampled(pl.DataFrame({"x": range(100)}), 3)["x"].to_list()
    [0, 40, 48]
    """
    if len(frame) <= most:
        return frame
    draws = pl.select(draw_expr(pl.int_range(len(frame), dtype=pl.Int64), draw_key(0))).to_series()
    return frame[draws.arg_sort().head(most).sort()]


def thinned(frame: pl.DataFrame, x: str, y: str, most: int) -> pl.DataFrame:
    """Return at most so many points of a curve, evenly spaced along it, with the first and the last.

    >>> thinned(pl.DataFrame({"x": [0, 1, 2, 8, 9], "y": [0, 0, 0, 0, 0]}), "x", "y", 3)["x"].to_list()
    [0, 8, 9]
    """
    if len(frame) <= most:
        return frame
    length = np.zeros(len(frame))
    for name in (x, y):
        values = np.nan_to_num(frame[name].cast(pl.Float64).fill_null(0.0).to_numpy(), posinf=0.0, neginf=0.0)
        span = np.ptp(values) or 1.0
        length[1:] += np.abs(np.diff(values)) / span
    along = np.cumsum(length)
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], most - 1, endpoint=False)))
    return frame[np.unique(np.append(np.minimum(kept, len(frame) - 1), len(frame) - 1))]


def feature_type(model: Model, name: str) -> FeatureType:
    """Return the type of a feature of the model."""
    return model.ensemble.features[model.features.index(name)].type


VegaType = Literal["nominal", "temporal", "quantitative"]


def vega_type(kind: FeatureType) -> VegaType:
    """Return Vega-Lite's type of the values of `vega_values`."""
    if kind.is_categorical or kind.family == "boolean":
        return "nominal"
    return "temporal" if kind.family in ("date", "timestamp", "timestamptz") else "quantitative"


def vega_values(values: pl.Series, kind: FeatureType) -> pl.Series:
    """Return a feature's values as a chart can hold them; NaN is null.

    Numbers are floats, durations seconds, strings and Booleans text, times of a zone those of UTC.
    """
    if kind.family == "boolean":
        return values.cast(pl.Boolean).replace_strict([False, True], ["false", "true"], return_dtype=pl.String)
    if kind.is_categorical:
        return values.to_frame().select(text_expr(column(values.name), kind).alias(values.name)).to_series()
    if kind.family == "date":
        return values.cast(pl.Datetime("ms"))
    if kind.family == "timestamptz":
        return values.dt.convert_time_zone("UTC").dt.replace_time_zone(None).cast(pl.Datetime("ms"))
    if kind.family == "timestamp":
        return values.cast(pl.Datetime("ms"))
    if kind.family == "duration":
        return values.dt.total_microseconds().cast(pl.Float64) / 1e6
    numbers = values.cast(pl.Float64)
    return numbers.set(~numbers.is_finite().fill_null(True), None)


def value_axis(values: pl.Series, vega: VegaType) -> alt.Axis:
    """Return the axis of a feature's numbers or times, as `vega_values` returned them."""
    if vega != "quantitative":
        return axis()
    return number_axis(float(values.abs().max() or 0.0))  # type: ignore[arg-type]


def titled(name: str, kind: FeatureType) -> str:
    """Return a feature's name, with the unit that its values are shown in."""
    unit = {"duration": " (seconds)", "timestamptz": " (UTC)"}.get("" if kind.is_categorical else kind.family, "")
    return f"{name}{unit}"


def text_of(values: Sequence[Any], kind: FeatureType) -> list[str]:
    """Return values of a feature as text for people; missing ones as `MISSING`."""
    return [MISSING if value is None or value != value else _text(value, kind) for value in values]


def _text(value: Any, kind: FeatureType) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value.date() if kind.family == "date" and not kind.is_categorical else value)

"""The inputs of charts: a model, rows that are read, scored and sampled, values for Vega-Lite.

`chart` decorates each public chart function: it checks the arguments first, and makes all text of the result safe for
Vega.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec, TypeVar

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import Check, checked, instance_of
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.opening import open_rows
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.scored_rows import ScoredRows, score_rows
from frameboost.expressions.draws import draw_expr, draw_key
from frameboost.model.model import Model, predictor_of
from frameboost.plots.names import with_drawable_text
from frameboost.plots.theme import axis, number_axis
from frameboost.schema.types import FeatureType, column, text_expr

__all__ = [
    "MAX_POINTS", "MISSING", "VegaType", "chart", "class_name", "feature_type", "output_name",
    "read_features", "require_one_target", "sampled", "scored", "text_of", "thinned", "titled", "value_axis",
    "vega_type", "vega_values",
]  # fmt: skip

P = ParamSpec("P")
C = TypeVar("C")

MAX_POINTS = 5_000
"""The most rows of data of a chart; Altair itself refuses more."""

MISSING = "(missing)"


def chart(**checks: Check) -> Callable[[Callable[P, C]], Callable[P, C]]:
    """Return the decorator of a function that draws a model; ``checks`` are as for `checked`."""
    checks.setdefault("model", instance_of(Model, "a frameboost.Model (an estimator's is its model_)"))

    def decorate(draw: Callable[P, C]) -> Callable[P, C]:
        return checked(**checks)(with_drawable_text(draw))

    return decorate


# --- the model --------------------------------------------------------------------------------------------------------


def feature_type(model: Model, name: str) -> FeatureType:
    """Return the type of a feature.

    Raises
    ------
    ParameterError
        If the model has no such feature.
    """
    if name not in model.features:
        near = did_you_mean(name, model.features)
        raise ParameterError(f"feature must be one of the model's, {listed(model.features)}, not {shown(name)}{near}")
    return model.ensemble.features[model.features.index(name)].type


def output_name(model: Model, number: int) -> str:
    """Return the name of an output in charts: the label of a class, the level of a quantile, or an index."""
    labels, loss = model.ensemble.output_labels, model.ensemble.loss
    if loss.has_quantiles:
        return f"quantile {loss.renewal[number]:g}"
    return str(labels[number] if labels else number)


def class_name(name: str) -> str:
    """Return the name of a class in charts: its label, or ``class 3``."""
    return f"class {name}" if name.isdigit() else name


def require_one_target(model: Model, what: str) -> None:
    """Raise `ParameterError` if the model has several targets, which ``what`` does not support."""
    if (n_targets := len(model.ensemble.loss.labels)) > 1:
        raise ParameterError(f"{what} is for models of one target, not of {n_targets}; train one for each")


# --- rows -------------------------------------------------------------------------------------------------------------


def read_features(model: Model, data: Any) -> pl.DataFrame:
    """Read the columns that the model reads, of all rows.

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


def scored(model: Model, data: Any, target: str, weight: str | None, output: str) -> ScoredRows:
    """Return labels and predictions, as `score_rows` does."""
    return score_rows(predictor_of(model), data, target, weight, output)


def sampled(frame: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return at most ``most`` rows, in their order: those with the smallest hash of their position.

    >>> sampled(pl.DataFrame({"x": range(100)}), 3)["x"].to_list()
    [0, 40, 48]
    """
    if len(frame) <= most:
        return frame
    draws = pl.select(draw_expr(pl.int_range(len(frame), dtype=pl.Int64), draw_key(0))).to_series()
    return frame[draws.arg_sort().head(most).sort()]


def thinned(frame: pl.DataFrame, x: str, y: str, most: int) -> pl.DataFrame:
    """Return at most ``most`` points of a curve, evenly spaced along it, including both ends.

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
    indices = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], most - 1, endpoint=False)))
    return frame[np.unique(np.append(np.minimum(indices, len(frame) - 1), len(frame) - 1))]


# --- values -----------------------------------------------------------------------------------------------------------


VegaType = Literal["nominal", "temporal", "quantitative"]


def vega_type(kind: FeatureType) -> VegaType:
    """Return Vega-Lite's type for the values of `vega_values`."""
    if kind.is_categorical or kind.family == "boolean":
        return "nominal"
    return "temporal" if kind.family in ("date", "timestamp", "timestamptz") else "quantitative"


def vega_values(values: pl.Series, kind: FeatureType) -> pl.Series:
    """Return a feature's values for a chart; NaN is null.

    Numbers become floats, durations seconds, strings and Booleans text, times with a time zone UTC.
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
    """Return the axis for numbers or times of `vega_values`."""
    if vega != "quantitative":
        return axis()
    return number_axis(float(values.abs().max() or 0.0))  # type: ignore[arg-type]


def titled(name: str, kind: FeatureType) -> str:
    """Return a feature's name with the unit of its values in charts."""
    unit = {"duration": " (seconds)", "timestamptz": " (UTC)"}.get("" if kind.is_categorical else kind.family, "")
    return f"{name}{unit}"


def text_of(values: Sequence[Any], kind: FeatureType) -> list[str]:
    """Return values of a feature as readable text, missing ones as `MISSING`."""
    return [MISSING if value is None or value != value else _text(value, kind) for value in values]


def _text(value: Any, kind: FeatureType) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value.date() if kind.family == "date" and not kind.is_categorical else value)

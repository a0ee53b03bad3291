"""A summary of SHAP values: a dot for each row and feature (a beeswarm)."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import anything, checked, whole
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, margin_title, output_number
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import MAX_POINTS, feature_type, read_features, sampled, text_of, vega_values
from frameboost.plots.theme import AMOUNT, DIM, GREY, WIDTH, axis, layered, number_axis, quantity

__all__ = ["shap_frame", "shap_summary"]

_BAND = 34  # pixels of a feature
_CELLS = 80  # of the axis, in which dots are piled up


@checked(model=a_model, top=whole(1, 100), output=anything, rows=whole(1, 100_000))
@with_drawable_text
def shap_summary(
    model: Model, data: Any, *, top: int = 15, output: int | str | None = None, rows: int = 1_000
) -> alt.LayerChart:
    """Return a chart of the SHAP values of the most important features (a beeswarm): a dot for each row.

    Features are sorted by the mean of the absolute SHAP value. Colours are the rank of the feature's value among the
    rows; categories, which have no order, and missing values are grey. At most 5,000 dots are drawn, of fewer rows than
    the order is from.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.explain`.
    top
        The number of features, at most 100.
    output
        The number of the output to explain, from 0, if the model has several (classes, quantiles), of a class also
        its label.
    rows
        The most rows to explain; of more, a sample by a hash of the position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows.
    ParameterError
        As `frameboost.Model.explain`.
    """
    number = output_number(model, output)
    frame = sampled(read_features(model, data), rows)
    long = shap_frame(model, frame, top=top, output=number)
    order = long["feature"].unique(maintain_order=True).to_list()
    dots = _piled(long.filter(pl.col("row") < max(1, MAX_POINTS // len(order))))
    height = _BAND * len(order)
    y = alt.Y(field="feature", type="nominal", sort=order, title=None, axis=axis(grid=True, gridColor="#EEEEEE"))
    offset = alt.YOffset(field="offset", type="quantitative", scale=alt.Scale(domain=[-1, 1]))
    gradient = alt.Legend(values=[0, 1], labelExpr="datum.value < 0.5 ? 'low' : 'high'", gradientLength=height * 0.8)
    scale = alt.Scale(scheme=AMOUNT, domain=[0, 1])
    colour = alt.Color(field="rank", type="quantitative", title="value", legend=gradient, scale=scale)
    x = quantity(alt.X, "contribution", margin_title(model, number), axis=number_axis(grid=False))
    zero = alt.Chart(pl.DataFrame({"contribution": [0.0]})).mark_rule(color=GREY).encode(x=x)
    tooltip = [
        alt.Tooltip(field="feature", type="nominal"),
        alt.Tooltip(field="value", type="nominal"),
        alt.Tooltip(field="contribution", type="quantitative", format="+.6g"),
    ]
    layers = [zero]
    for found, look in ((dots.filter(pl.col("rank").is_null()), {}), (dots.drop_nulls("rank"), {"color": colour})):
        if not found.is_empty():  # of a layer without rows Vega warns that its axis has no ends
            base = alt.Chart(found, width=WIDTH, height=height).mark_circle(size=14, opacity=0.9, color=DIM)
            layers.append(base.encode(x=x, y=y, yOffset=offset, tooltip=tooltip, **look))
    return layered(*layers)


def shap_frame(model: Model, data: pl.DataFrame, *, top: int | None = None, output: int | None = None) -> pl.DataFrame:
    """Return the SHAP values of the features as a long frame, the most important feature first.

    Returns
    -------
    polars.DataFrame
        ``feature``, ``row`` (from 0), ``contribution``, ``value`` (of the feature, as text), and ``rank``, from 0 for
        the lowest value to 1 for the highest (null of categories and of missing values; 0.5 if all are equal).
    """
    found = model.explain(data, output=output if model.ensemble.n_outputs > 1 else None)
    mean = [(float(np.abs(found[name].to_numpy()).mean()), name) for name in model.features]
    order = [name for _, name in sorted(mean, key=lambda pair: -pair[0])][:top]
    parts = []
    for name in order:
        kind = feature_type(model, name)
        values = vega_values(data[name].alias("value"), kind)
        rank = pl.Series([None] * len(data), dtype=pl.Float64)
        if not kind.is_categorical:
            place = values.rank("dense").cast(pl.Float64) - 1
            highest = float(place.max() or 0.0)  # type: ignore[arg-type]
            rank = place / highest if highest else place.replace({0.0: 0.5})
        parts.append(pl.DataFrame({
            "feature": [name] * len(data), "row": np.arange(len(data)), "contribution": found[name],
            "value": text_of(values.to_list(), kind), "rank": rank,
        }))  # fmt: skip
    return pl.concat(parts)


def _piled(long: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with an ``offset`` from -1 to 1: dots of a feature at about one place are piled up evenly."""
    span = float(long["contribution"].max() - long["contribution"].min()) or 1.0  # type: ignore[operator, arg-type]
    cell = (pl.col("contribution") / span * _CELLS).floor()
    piled = long.with_columns(cell=cell).with_columns(
        place=pl.int_range(pl.len()).over("feature", "cell"), size=pl.len().over("feature", "cell")
    )
    largest = float(piled["size"].max() or 1)  # type: ignore[arg-type]
    centred = (pl.col("place") - (pl.col("size") - 1) / 2) * 2 / max(largest, 12.0)
    return piled.with_columns(offset=centred).drop("cell", "place", "size")

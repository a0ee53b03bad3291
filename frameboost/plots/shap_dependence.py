"""The dependence of SHAP values on one feature."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import anything, checked, column, whole
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, margin_title, output_number
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import (
    MAX_POINTS,
    MISSING,
    feature_type,
    read_features,
    sampled,
    titled,
    value_axis,
    vega_type,
    vega_values,
)
from frameboost.plots.theme import AMOUNT, BLUE, DIM, HEIGHT, WIDTH, axis, colour_of, layered, quantity, shown_classes

__all__ = ["shap_dependence"]

_MAX_CATEGORIES = 40
_OTHER = "(other)"


@checked(model=a_model, color=column, output=anything, rows=whole(1, MAX_POINTS))
@with_drawable_text
def shap_dependence(
    model: Model, data: Any, feature: str, *, color: str | None = None, output: int | str | None = None,
    rows: int = 2_000,
) -> alt.LayerChart:  # fmt: skip
    """Return a chart of a feature's SHAP values by its value, a dot for each row.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.explain`.
    feature
        The feature. Of a string the 40 most frequent categories are shown.
    color
        Another feature, whose values are the dots' colours; of a string the most frequent seven categories.
    output
        The number of the output to explain, from 0, if the model has several (classes, quantiles), of a class also
        its label.
    rows
        The most rows, at most 5,000; of more, a sample by a hash of the position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows.
    ParameterError
        If the model has no such feature, or as `frameboost.Model.explain`.
    """
    for name in [feature] if color is None else [feature, color]:
        if name not in model.features:
            near = did_you_mean(name, model.features)
            raise ParameterError(
                f"feature must be one of the model's, {listed(model.features)}, not {shown(name)}{near}"
            )
    number = output_number(model, output)
    frame = sampled(read_features(model, data), rows)
    found = model.explain(frame, output=number if model.ensemble.n_outputs > 1 else None)
    kind = feature_type(model, feature)
    dots = pl.DataFrame({"value": vega_values(frame[feature].alias("value"), kind), "contribution": found[feature]})
    vega = vega_type(kind)
    title = f"{margin_title(model, number)}, by {feature}"
    tooltip = [
        alt.Tooltip(field="value", type=vega, title=feature),
        alt.Tooltip(field="contribution", type="quantitative", format="+.6g"),
    ]
    encoding: dict[str, Any] = {"tooltip": tooltip}
    if color is not None:
        encoding["color"], values = _colour(frame[color], model, color)
        dots = dots.with_columns(values)
        tooltip.append(alt.Tooltip(field="color", type=vega_type(feature_type(model, color)), title=color))
    if vega == "nominal":
        return _of_categories(dots, encoding, titled(feature, kind), title)
    scale = alt.Scale(zero=False) if vega == "quantitative" else alt.Undefined
    x = alt.X(field="value", type=vega, title=titled(feature, kind), scale=scale, axis=value_axis(dots["value"], vega))
    return _dots(dots.drop_nulls("value"), {"x": x, "y": quantity(alt.Y, "contribution", title)} | encoding, HEIGHT)


def _dots(dots: pl.DataFrame, encoding: dict[str, Any], height: int) -> alt.LayerChart:
    """Return a dot for each row, grey where the colour's value is missing."""
    known = dots.drop_nulls("color") if "color" in dots.columns else dots
    layers = [
        alt.Chart(known, width=WIDTH, height=height).mark_circle(size=16, opacity=0.7, color=BLUE).encode(**encoding)
    ]
    if len(known) < len(dots):
        unknown = alt.Chart(dots.filter(pl.col("color").is_null())).mark_circle(size=16, opacity=0.7, color=DIM)
        layers.insert(0, unknown.encode(**{name: channel for name, channel in encoding.items() if name != "color"}))
    return layered(*layers)


def _of_categories(dots: pl.DataFrame, encoding: dict[str, Any], name: str, title: str) -> alt.LayerChart:
    """Return strips of dots, a row for each category, sorted by the mean contribution; dots are spread evenly."""
    dots = dots.with_columns(pl.col("value").fill_null(MISSING))
    frequent = dots["value"].value_counts(sort=True)["value"].head(_MAX_CATEGORIES).to_list()
    dots = dots.filter(pl.col("value").is_in(frequent))
    means = (
        dots.group_by("value")
        .agg(pl.col("contribution").mean())
        .sort("contribution", "value", descending=[True, False])
    )
    # RowPositions of a strip in turn: the multiples of the golden ratio, which fill it evenly.
    dots = dots.with_columns(offset=(pl.int_range(pl.len()).over("value") * 0.6180339887498949) % 1.0 * 1.4 - 0.7)
    y = alt.Y(field="value", type="nominal", title=name, sort=means["value"].to_list(), axis=axis(grid=True))
    offset = alt.YOffset(field="offset", type="quantitative", scale=alt.Scale(domain=[-1, 1]))
    place = {"x": quantity(alt.X, "contribution", title), "y": y, "yOffset": offset}
    return _dots(dots, place | encoding, 22 * len(means))


def _colour(values: pl.Series, model: Model, name: str) -> tuple[Any, pl.Series]:
    """Return the encoding of the colour by another feature, and the column of its values."""
    kind = feature_type(model, name)
    found = vega_values(values.alias("color"), kind)
    if vega_type(kind) == "nominal":
        found = found.fill_null(MISSING)
        frequent = found.value_counts(sort=True)["color"].to_list()
        if len(frequent) > 8:
            frequent = [*shown_classes(frequent)[:7], _OTHER]
            found = found.to_frame().select(
                pl.when(pl.col("color").is_in(frequent)).then(pl.col("color")).otherwise(pl.lit(_OTHER)).alias("color")
            ).to_series()  # fmt: skip
        return colour_of("color", frequent, name, rest=_OTHER), found
    # From the 5th to the 95th percentile, so that a few outliers don't leave one colour to all others.
    numbers = found.drop_nulls().to_physical().cast(pl.Float64)
    ends = [numbers.quantile(0.05), numbers.quantile(0.95)]
    scale = alt.Scale(scheme=AMOUNT, clamp=True)
    if vega_type(kind) == "quantitative" and None not in ends and ends[0] != ends[1]:
        scale = alt.Scale(scheme=AMOUNT, clamp=True, domain=ends)
    shade = alt.Color(field="color", type=vega_type(kind), title=titled(name, kind), scale=scale)
    return shade, found

"""Charts of SHAP values: of many rows (beeswarm), by a feature's value (dependence), of one row (waterfall)."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import anything, column, whole
from frameboost.checks.messages import shortened
from frameboost.errors import DataError
from frameboost.model.model import Model
from frameboost.plots.inputs import (
    MAX_POINTS,
    MISSING,
    chart,
    feature_type,
    output_name,
    read_features,
    sampled,
    text_of,
    titled,
    value_axis,
    vega_type,
    vega_values,
)
from frameboost.plots.theme import (
    AMOUNT,
    BLUE,
    DIM,
    GREY,
    HEIGHT,
    ORANGE,
    WIDTH,
    axis,
    colour_of,
    headed,
    layered,
    name_tip,
    number_axis,
    number_tip,
    quantity,
    shown_classes,
)
from frameboost.prediction.contributions import BIAS
from frameboost.schema.types import FeatureType

__all__ = ["shap_dependence", "shap_frame", "shap_summary", "waterfall", "waterfall_frame"]

_BAND = 34  # pixels of a feature
_CELLS = 80  # of the axis, in which dots are piled up
_MAX_CATEGORIES = 40
_OTHER = "(other)"


def _contributions(model: Model, rows: pl.DataFrame, output: int) -> pl.DataFrame:
    """Return the SHAP values of rows for one output: a column for each feature, and the bias."""
    return model.explain(rows, output=output if model.ensemble.n_outputs > 1 else None)


def _margin_title(model: Model, number: int) -> str:
    """Return the axis title for contributions to one margin."""
    if model.ensemble.n_outputs == 1:
        return f"contribution to the {_margin(model)}"
    name = output_name(model, number)
    return f"contribution to the {_margin(model)} of {'output ' if name.isdigit() else ''}{name}"


def _margin(model: Model) -> str:
    """Return the sum of the features' contributions."""
    link = model.ensemble.loss.links[0].text
    of_margin = "prediction" if link == "margin" and model.ensemble.calibration is None else "margin"
    if model.objective in ("binary:logistic", "reg:logistic") and model.ensemble.calibration is None:
        of_margin = "log-odds"
    return of_margin


# --- of many rows -----------------------------------------------------------------------------------------------------


@chart(top=whole(1, 100), output=anything, rows=whole(1, 100_000))
def shap_summary(
    model: Model, data: Any, *, top: int = 15, output: int | str | None = None, rows: int = 1_000
) -> alt.LayerChart:
    """Return a beeswarm chart of the SHAP values of the most important features: a dot for each row.

    Features are sorted by the mean absolute SHAP value. Colours are ranks of the feature's values; categories, which
    have no order, and missing values are grey. At most 5,000 dots are drawn; the order uses all explained rows.

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
        The maximum number of rows to explain; more rows are sampled by a hash of row position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows.
    ParameterError
        As `frameboost.Model.explain`.
    """
    number = model.ensemble.margin_number(output)
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
    x = quantity(alt.X, "contribution", _margin_title(model, number), axis=number_axis(grid=False))
    zero = alt.Chart(pl.DataFrame({"contribution": [0.0]})).mark_rule(color=GREY).encode(x=x)
    tooltip = [name_tip("feature"), name_tip("value"), number_tip("contribution", format="+.6g")]
    layers = [zero]
    for part, look in ((dots.filter(pl.col("rank").is_null()), {}), (dots.drop_nulls("rank"), {"color": colour})):
        if not part.is_empty():  # of a layer without rows Vega warns that its axis has no ends
            base = alt.Chart(part, width=WIDTH, height=height).mark_circle(size=14, opacity=0.9, color=DIM)
            layers.append(base.encode(x=x, y=y, yOffset=offset, tooltip=tooltip, **look))
    mean = float(long.filter(feature=order[0])["contribution"].abs().mean())  # type: ignore[arg-type]
    finding = f"{shortened(order[0], 40)} moves the {_margin(model)} most: by {mean:.3g} on average"
    how = "A dot is a row: how far the feature moves it from the mean. Colour: the value of the feature."
    return headed(layered(*layers), finding, how)


def shap_frame(model: Model, data: pl.DataFrame, *, top: int | None = None, output: int = 0) -> pl.DataFrame:
    """Return the SHAP values of the features as a long frame, the most important feature first.

    Returns
    -------
    polars.DataFrame
        ``feature``, ``row`` (from 0), ``contribution``, ``value`` (of the feature, as text), and ``rank``, from 0 for
        the lowest to 1 for the highest value (null for categories and missing values; 0.5 if all are equal).
    """
    contributions = _contributions(model, data, output)
    mean = [(float(np.abs(contributions[name].to_numpy()).mean()), name) for name in model.features]
    order = [name for _, name in sorted(mean, key=lambda pair: -pair[0])][:top]
    parts = []
    for name in order:
        kind = feature_type(model, name)
        values = vega_values(data[name].alias("value"), kind)
        rank = pl.Series([None] * len(data), dtype=pl.Float64)
        if not kind.is_categorical:
            rank = values.rank("dense").cast(pl.Float64) - 1
            highest = float(rank.max() or 0.0)  # type: ignore[arg-type]
            rank = rank / highest if highest else rank.replace({0.0: 0.5})
        parts.append(pl.DataFrame({
            "feature": [name] * len(data), "row": np.arange(len(data)), "contribution": contributions[name],
            "value": text_of(values.to_list(), kind), "rank": rank,
        }))  # fmt: skip
    return pl.concat(parts)


def _piled(long: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with an ``offset`` from -1 to 1 that piles up dots close together."""
    span = float(long["contribution"].max() - long["contribution"].min()) or 1.0  # type: ignore[operator, arg-type]
    cell = (pl.col("contribution") / span * _CELLS).floor()
    piled = long.with_columns(cell=cell).with_columns(
        index=pl.int_range(pl.len()).over("feature", "cell"), size=pl.len().over("feature", "cell")
    )
    largest = float(piled["size"].max() or 1)  # type: ignore[arg-type]
    centred = (pl.col("index") - (pl.col("size") - 1) / 2) * 2 / max(largest, 12.0)
    return piled.with_columns(offset=centred).drop("cell", "index", "size")


# --- by the value of a feature ----------------------------------------------------------------------------------------


@chart(color=column, output=anything, rows=whole(1, MAX_POINTS))
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
        The feature. For a string the 40 most frequent categories are shown.
    color
        Another feature, to colour the dots by; for a string the seven most frequent categories.
    output
        The number of the output to explain, from 0, if the model has several (classes, quantiles), of a class also
        its label.
    rows
        The maximum number of rows, at most 5,000; more rows are sampled by a hash of row position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows.
    ParameterError
        If the feature is unknown, or as `frameboost.Model.explain`.
    """
    kind = feature_type(model, feature)
    colour_kind = None if color is None else feature_type(model, color)
    number = model.ensemble.margin_number(output)
    frame = sampled(read_features(model, data), rows)
    contributions = _contributions(model, frame, number)
    values = vega_values(frame[feature].alias("value"), kind)
    dots = pl.DataFrame({"value": values, "contribution": contributions[feature]})
    vega = vega_type(kind)
    title = f"{_margin_title(model, number)}, by {feature}"
    tooltip = [
        alt.Tooltip(field="value", type=vega, title=feature),
        number_tip("contribution", format="+.6g"),
    ]
    encoding: dict[str, Any] = {"tooltip": tooltip}
    if color is not None and colour_kind is not None:
        encoding["color"], shades = _colour(frame[color], color, colour_kind)
        dots = dots.with_columns(shades)
        tooltip.append(alt.Tooltip(field="color", type=vega_type(colour_kind), title=color))
    low, high = (float(end) for end in (dots["contribution"].min(), dots["contribution"].max()))  # type: ignore[arg-type]
    finding = f"{shortened(feature, 60)} contributes {low:+.3g} to {high:+.3g} to the {_margin(model)}"
    how = "A dot is a row: how far its value of the feature moves it from the mean."
    if vega == "nominal":
        drawn = _of_categories(dots, encoding, titled(feature, kind), title)
        return headed(drawn, finding, how)
    scale = alt.Scale(zero=False) if vega == "quantitative" else alt.Undefined
    x = alt.X(field="value", type=vega, title=titled(feature, kind), scale=scale, axis=value_axis(dots["value"], vega))
    position = {"x": x, "y": quantity(alt.Y, "contribution", title)}
    return headed(_dots(dots.drop_nulls("value"), position | encoding, HEIGHT), finding, how)


def _dots(dots: pl.DataFrame, encoding: dict[str, Any], height: int) -> alt.LayerChart:
    """Return a dot for each row, grey if the colour's value is missing."""
    known = dots.drop_nulls("color") if "color" in dots.columns else dots
    layers = [
        alt.Chart(known, width=WIDTH, height=height).mark_circle(size=16, opacity=0.7, color=BLUE).encode(**encoding)
    ]
    if len(known) < len(dots):
        unknown = alt.Chart(dots.filter(pl.col("color").is_null())).mark_circle(size=16, opacity=0.7, color=DIM)
        layers.insert(0, unknown.encode(**{name: channel for name, channel in encoding.items() if name != "color"}))
    return layered(*layers)


def _of_categories(dots: pl.DataFrame, encoding: dict[str, Any], name: str, title: str) -> alt.LayerChart:
    """Return a strip of dots for each category, sorted by the mean contribution; dots are spread evenly."""
    dots = dots.with_columns(pl.col("value").fill_null(MISSING))
    frequent = dots["value"].value_counts(sort=True)["value"].head(_MAX_CATEGORIES).to_list()
    dots = dots.filter(pl.col("value").is_in(frequent))
    means = (
        dots.group_by("value")
        .agg(pl.col("contribution").mean())
        .sort("contribution", "value", descending=[True, False])
    )
    # Offsets within a strip: the multiples of the golden ratio, which fill it evenly.
    dots = dots.with_columns(offset=(pl.int_range(pl.len()).over("value") * 0.6180339887498949) % 1.0 * 1.4 - 0.7)
    y = alt.Y(field="value", type="nominal", title=name, sort=means["value"].to_list(), axis=axis(grid=True))
    offset = alt.YOffset(field="offset", type="quantitative", scale=alt.Scale(domain=[-1, 1]))
    position = {"x": quantity(alt.X, "contribution", title), "y": y, "yOffset": offset}
    return _dots(dots, position | encoding, 22 * len(means))


def _colour(values: pl.Series, name: str, kind: FeatureType) -> tuple[Any, pl.Series]:
    """Return the colour encoding by another feature, and its column of values."""
    values = vega_values(values.alias("color"), kind)
    if vega_type(kind) == "nominal":
        values = values.fill_null(MISSING)
        frequent = values.value_counts(sort=True)["color"].to_list()
        if len(frequent) > 8:
            frequent = [*shown_classes(frequent)[:7], _OTHER]
            values = values.to_frame().select(
                pl.when(pl.col("color").is_in(frequent)).then(pl.col("color")).otherwise(pl.lit(_OTHER)).alias("color")
            ).to_series()  # fmt: skip
        return colour_of("color", frequent, name, rest=_OTHER), values
    # From the 5th to the 95th percentile, so that a few outliers don't leave one colour to all others.
    numbers = values.drop_nulls().to_physical().cast(pl.Float64)
    ends = [numbers.quantile(0.05), numbers.quantile(0.95)]
    scale = alt.Scale(scheme=AMOUNT, clamp=True)
    if vega_type(kind) == "quantitative" and None not in ends and ends[0] != ends[1]:
        scale = alt.Scale(scheme=AMOUNT, clamp=True, domain=ends)
    shade = alt.Color(field="color", type=vega_type(kind), title=titled(name, kind), scale=scale)
    return shade, values


# --- of one row -------------------------------------------------------------------------------------------------------


@chart(row=anything, top=whole(1, 200), output=anything)
def waterfall(model: Model, row: Any, *, top: int = 10, output: int | str | None = None) -> alt.LayerChart:
    """Return a waterfall chart of one row's margin: from the mean margin, feature by feature.

    Bars to the right raise the margin, bars to the left lower it; the largest is on top.

    Parameters
    ----------
    model
        The model.
    row
        As the data of `frameboost.Model.predict`, with one row.
    top
        The number of features; all others are summed in one bar.
    output
        The number of the output to explain, from 0, if the model has several (classes, quantiles), of a class also
        its label.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there is not exactly one row.
    ParameterError
        As `frameboost.Model.explain`.
    """
    number = model.ensemble.margin_number(output)
    frame = read_features(model, row)
    if len(frame) != 1:
        raise DataError(f"row has {len(frame):,} rows; pass one, such as df[0] or df.filter(...)")
    steps = waterfall_frame(model, frame, top=top, output=number)
    unit = _margin_title(model, number).removeprefix("contribution to the ")
    amount = pl.when(pl.col("kind") == "total").then(pl.col("end")).otherwise(pl.col("contribution"))
    sign = pl.when(pl.col("contribution") >= 0).then(pl.lit("raises")).otherwise(pl.lit("lowers"))
    steps = steps.with_columns(
        amount=amount,
        sign=pl.when(pl.col("kind") == "total").then(pl.lit("total")).otherwise(sign),
        highest=pl.max_horizontal("start", "end"),
    )
    texts = [f"{v:.4g}" if kind == "total" else f"{v:+.4g}" for v, kind in steps.select("amount", "kind").rows()]
    steps = steps.with_columns(text=pl.Series(texts))
    rows = steps.filter(pl.col("kind") != "total")
    margin, mean = steps[0, "end"], steps[-1, "end"]
    step, amount = rows.row(0, named=True)["step"], rows[0, "contribution"]
    finding = f"This row: {margin:.4g}, where the mean is {mean:.4g}; most by {shortened(step, 60)} ({amount:+.3g})"
    how = f"From the mean (below) to the {unit} of this row (on top). Bars to the right raise it, to the left lower it."
    return headed(layered(*_layers(steps, unit)), finding, how)


def _layers(steps: pl.DataFrame, unit: str) -> list[alt.Chart]:
    """Return bars of the contributions, ticks at the two totals, and the amounts."""
    y = alt.Y(field="step", type="nominal", sort=None, title=None, axis=axis())
    scale = alt.Scale(zero=False, padding=50)
    x, at_end, at_highest = (
        alt.X(field=field, type="quantitative", title=unit, scale=scale, axis=number_axis())
        for field in ("start", "end", "highest")
    )
    colour = alt.Color(field="sign", type="nominal", title=None, legend=None,
                       scale=alt.Scale(domain=["raises", "lowers", "total"], range=[ORANGE, BLUE, GREY]))  # fmt: skip
    tooltip = [name_tip("step"), number_tip("amount", format="+.6g")]
    every = alt.Chart(steps, width=WIDTH, height={"step": 24})
    totals = alt.Chart(steps.filter(kind="total")).mark_tick(thickness=3, size=18)
    bars = alt.Chart(steps.filter(pl.col("kind") != "total")).mark_bar(size=16)
    text = every.mark_text(align="left", dx=5).encode(x=at_highest, y=y, text=alt.Text(field="text", type="nominal"))
    return [
        text,
        bars.encode(x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tooltip),
        totals.encode(x=at_end, y=y, color=colour, tooltip=tooltip),
    ]


def waterfall_frame(model: Model, row: pl.DataFrame, *, top: int = 10, output: int = 0) -> pl.DataFrame:
    """Return the steps from the mean margin to the margin of a row.

    Returns
    -------
    polars.DataFrame
        ``step`` (a feature and its value, as text), ``kind`` ("total" for the first and the last, otherwise "feature"
        or "others"), ``contribution``, ``start`` and ``end``: the margin before and after it. First the margin of the
        row, then features by descending absolute contribution, the sum of all others, and the mean margin plus any
        offset.
    """
    contributions = _contributions(model, row, output)
    kinds = {feature.name: feature.type for feature in model.ensemble.features}
    values = {n: text_of(vega_values(row[n].alias("value"), kind).to_list(), kind)[0] for n, kind in kinds.items()}
    bias = float(contributions[BIAS][0])
    named = sorted(((name, float(contributions[name][0])) for name in model.features), key=lambda pair: -abs(pair[1]))
    steps = [(f"{name} = {shortened(values[name], 60)}", "feature", amount) for name, amount in named[:top]]
    if rest := named[top:]:
        steps.append((f"{len(rest)} other features", "others", sum(amount for _, amount in rest)))
    offset = model.ensemble.offset
    mean = "mean" if offset is None else f"mean and {offset.kind}"
    rows, margin = [(mean, "total", 0.0, bias, bias)], bias
    for step, kind, amount in reversed(steps):
        rows.append((step, kind, amount, margin, margin + amount))
        margin += amount
    rows.append(("this row", "total", 0.0, margin, margin))
    return pl.DataFrame(rows[::-1], schema=["step", "kind", "contribution", "start", "end"], orient="row")

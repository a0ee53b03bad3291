"""Partial dependence on one feature, with individual conditional expectation (ICE), or on two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import anything, whole, word
from frameboost.checks.messages import shortened, shown
from frameboost.errors import DataError, ParameterError
from frameboost.model.model import Model, predictor_of
from frameboost.plots.inputs import (
    MAX_POINTS,
    MISSING,
    VegaType,
    chart,
    feature_type,
    output_name,
    read_features,
    sampled,
    titled,
    value_axis,
    vega_type,
    vega_values,
)
from frameboost.plots.theme import (
    AMOUNT,
    GREY,
    HEIGHT,
    LIGHT,
    WIDTH,
    axis,
    colour_of,
    dash_of,
    headed,
    layered,
    name_tip,
    number_format,
    number_tip,
    quantity,
    shown_classes,
)
from frameboost.prediction.dependence import individual_dependence
from frameboost.schema.types import FeatureType

__all__ = ["distribution_frame", "partial_dependence"]

_MAX_CATEGORIES = {1: 30, 2: 20}  # by the number of features
# Without the last digits, which depend on the order of a sum: equal means are drawn as equal.
_MEAN = pl.col("prediction").mean().round_sig_figs(12)
_THICK = 50  # pixels
_BINS = 40


@chart(feature=anything, ice=whole(0, 200), output=word("mean", "margin"), rows=whole(1, 10_000), number=anything)
def partial_dependence(
    model: Model, data: Any, feature: str | Sequence[str], *, ice: int = 0,
    output: Literal["mean", "margin"] = "mean", number: int | str | None = None, rows: int = 1_000,
) -> alt.VConcatChart:  # fmt: skip
    """Return a chart of the partial dependence on one or two features, with the distribution of the features.

    For one feature a line, or a point for each category; a point or a dashed line marks the mean prediction for missing
    values, if there are any. For two features a heat map, over the rows without missing values in them. Numbers and
    times have up to 20 values at evenly spaced ranks; categories are the most frequent 30, for two features 20.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.predict`. The distribution is that of all rows.
    feature
        A feature of the model, or two.
    ice
        The number of rows, at most 200 (fewer with many categories), to draw individual conditional expectation (ICE)
        for.
    output
        ``"mean"`` or ``"margin"``, as for `frameboost.Model.predict`.
    number
        The output, by index from 0 or class label, if the model has several; by default the first eight, by colour. ICE
        and two features require one.
    rows
        The maximum number of rows to average over, at most 10,000; more rows are sampled by a hash of row position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows, or a feature is entirely missing.
    ParameterError
        If the feature or output is unknown.
    """
    names = [feature] if isinstance(feature, str) else list(feature) if isinstance(feature, list | tuple) else []
    are_names = all(isinstance(name, str) for name in names) and 1 <= len(names) <= 2
    if not are_names or len(set(names)) < len(names):
        raise ParameterError(f"feature must be a feature of the model, or two in a list, not {shown(feature)}")
    n_outputs = len(model.ensemble.output(output).values)
    output_names = [output_name(model, index) if n_outputs > 1 else str(index) for index in range(n_outputs)]
    if isinstance(number, str) and number in output_names:
        number = output_names.index(number)
    elif number is not None:
        whole(0, n_outputs - 1)("number", number)
    assert not isinstance(number, str)
    if n_outputs > 1 and number is None and (ice or len(names) == 2):
        what = "ice" if ice else "the dependence on two features"
        raise ParameterError(f"{what} shows one output; set number, from 0 to {n_outputs - 1}")
    kinds = [feature_type(model, name) for name in names]
    frame = read_features(model, data)
    if len(names) == 2:
        for name, kind in zip(names, kinds, strict=True):
            frame = frame.filter(vega_values(frame[name].alias("value"), kind).is_not_null())
        if frame.is_empty():
            raise DataError(f"features {shown(names[0])} and {shown(names[1])} are never both non-missing")
    long = individual_dependence(
        predictor_of(model), sampled(frame, rows), names, output, number=number, grid_of=frame,
        most=_MAX_CATEGORIES[len(names)],
    )  # fmt: skip
    title = "mean prediction" if output == "mean" else "mean margin"
    if len(names) == 2:
        return _on_two(frame, long, names, kinds, title)
    long = long.with_columns(pl.col("output").replace_strict(dict(enumerate(output_names)), return_dtype=pl.String))
    return _on_one(frame, long, names[0], kinds[0], title, ice)


# --- one feature ------------------------------------------------------------------------------------------------------


def _on_one(
    frame: pl.DataFrame, long: pl.DataFrame, name: str, kind: FeatureType, title: str, ice: int
) -> alt.VConcatChart:
    vega = vega_type(kind)
    outputs = shown_classes(long["output"].unique(maintain_order=True).to_list())
    long = long.filter(pl.col("output").is_in(outputs))
    shown = vega_values(long["value"], kind)
    is_missing = long["value"].is_null() | (long["value"].is_nan() if long["value"].dtype.is_float() else False)
    long = long.with_columns(shown).filter(shown.is_not_null() | is_missing)  # infinities have no position on an axis
    ice = min(ice, MAX_POINTS // max(1, long["value"].n_unique() + 1))
    means = long.group_by("value", "output", maintain_order=True).agg(_MEAN)
    curves = long.filter(pl.col("row").is_in(sampled(long.select(pl.col("row").unique().sort()), ice)["row"].to_list()))
    if vega == "nominal":
        counts = distribution_frame(frame[name], kind)
        missing_rows = pl.DataFrame({"value": [MISSING], "rows": [frame[name].null_count()]}, schema=counts.schema)
        counts = pl.concat([counts, missing_rows])
        return _of_categories(means, curves, counts, titled(name, kind), title, outputs)
    look = value_axis(means["value"], vega)
    x = alt.X(field="value", type=vega, title=titled(name, kind), scale=_scale(vega), axis=look)
    layers: list[alt.Chart] = []
    if ice:
        paths = alt.Chart(curves.drop_nulls("value")).mark_line(
            color=GREY, opacity=0.25 if ice <= 50 else 0.12, strokeWidth=1
        )
        layers.append(
            paths.encode(x=x, y=quantity(alt.Y, "prediction", title), detail=alt.Detail(field="row", type="nominal"))
        )
    present = means.drop_nulls("value")
    line = alt.Chart(present, width=WIDTH, height=HEIGHT).mark_line(point={"size": 25}, strokeWidth=2.5)
    layers.append(line.encode(
        x=x, y=quantity(alt.Y, "prediction", title), color=colour_of("output", outputs, "output"),
        strokeDash=dash_of("output", outputs, "output"), tooltip=_tooltip(vega, name, title),
    ))  # fmt: skip
    if len(present) < len(means):
        missing = means.filter(pl.col("value").is_null()).with_columns(label=pl.lit(MISSING))
        rule = alt.Chart(missing).mark_rule(strokeDash=[2, 3], strokeWidth=1.5)
        rule = rule.encode(y=quantity(alt.Y, "prediction", title), color=colour_of("output", outputs, "output"))
        text = alt.Chart(missing).mark_text(align="right", baseline="bottom", dy=-2, color=GREY)
        where = {"x": alt.value(WIDTH - 2), "y": quantity(alt.Y, "prediction", title)}
        layers += [rule, text.encode(**where, text=alt.Text(field="label", type="nominal"))]
    bars = _distribution(
        distribution_frame(frame[name], kind),
        alt.X(field="value", type=vega, title=None, scale=_scale(vega), axis=alt.Axis(labels=False, ticks=False)),
        alt.X2(field="upper"),
    )
    charts: alt.VConcatChart = alt.vconcat(layered(*layers), bars, spacing=5).resolve_scale(x="shared")
    how = "The mean prediction if every row had this value of the feature. Bars: the rows by value."
    return headed(charts, _range_of(means, name, title, outputs), f"{how} Grey: single rows." if ice else how)


def _range_of(means: pl.DataFrame, name: str, title: str, outputs: Sequence[str]) -> str:
    """Return the range of the mean prediction as the feature varies, of the output that varies most."""
    ends = means.drop_nulls("value").group_by("output", maintain_order=True).agg(
        low=pl.col("prediction").min(), high=pl.col("prediction").max()
    )  # fmt: skip
    output, low, high = (ends if len(ends) else ends.clear(1)).sort(
        pl.col("high") - pl.col("low"), descending=True, maintain_order=True
    ).row(0)  # fmt: skip
    if low is None or low == high:
        return f"{title} does not change with {shortened(name, 60)}".capitalize()
    of_output = f" of {shortened(output, 30)}" if len(outputs) > 1 else ""
    return f"{shortened(name, 60)} takes the {title}{of_output} from {low:.3g} to {high:.3g}"


def _tooltip(vega: VegaType, name: str, title: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(field="value", type=vega, title=name),
        name_tip("output"),
        number_tip("prediction", title=title, format=".6g"),
    ]


def _of_categories(
    means: pl.DataFrame, curves: pl.DataFrame, counts: pl.DataFrame, name: str, title: str, outputs: list[str]
) -> alt.VConcatChart:
    """Return a point for each category, sorted by the mean prediction of the first output, beside row counts."""
    means, curves = (f.with_columns(pl.col("value").fill_null(MISSING)) for f in (means, curves))
    order = means.filter(output=outputs[0]).sort("prediction", descending=True)["value"].to_list()
    counts = counts.filter(pl.col("value").is_in(order))
    y = alt.Y(field="value", type="nominal", title=name, sort=order, axis=axis())
    x = quantity(alt.X, "prediction", title)
    points = alt.Chart(means, width=WIDTH, height={"step": 18}).mark_point(filled=True, size=70, opacity=1)
    symbols = alt.Shape(field="output", type="nominal", title="output", scale=alt.Scale(domain=outputs),
                        legend=alt.Undefined if len(outputs) > 1 else None)  # fmt: skip
    layers = [points.encode(x=x, y=y, color=colour_of("output", outputs, "output"), shape=symbols,
                            tooltip=_tooltip("nominal", name, title))]  # fmt: skip
    if len(curves):
        layers.insert(0, alt.Chart(curves).mark_tick(color=GREY, opacity=0.3).encode(x=x, y=y))
    hidden = alt.Y(field="value", type="nominal", title=None, sort=order, axis=None)
    beside = _distribution(counts, hidden, None).properties(height={"step": 18})
    drawn = alt.vconcat(alt.hconcat(layered(*layers), beside, spacing=5).resolve_scale(y="shared"))
    how = "The mean prediction if every row were of this category. Bars: the rows of each category."
    return headed(drawn, _range_of(means, name, title, outputs), f"{how} Ticks: single rows." if len(curves) else how)


# --- two features -----------------------------------------------------------------------------------------------------


def _on_two(
    frame: pl.DataFrame, long: pl.DataFrame, names: Sequence[str], kinds: Sequence[FeatureType], title: str
) -> alt.VConcatChart:
    """Return a heat map of the mean prediction by pairs of values, with the distributions at two sides.

    ``long`` is a result of `frameboost.prediction.dependence.individual_dependence`.
    """
    means = long.group_by("value", "other", maintain_order=True).agg(_MEAN)
    means = means.with_columns(
        vega_values(means["value"], kinds[0]), vega_values(means["other"], kinds[1])
    )  # fmt: skip
    for field, kind in zip(("value", "other"), kinds, strict=True):
        if vega_type(kind) != "nominal":
            means = means.join(_cells(means[field]), on=field, maintain_order="left")
    x, x2 = _side(alt.X, alt.X2, "value", kinds[0], titled(names[0], kinds[0]), means)
    y, y2 = _side(alt.Y, alt.Y2, "other", kinds[1], titled(names[1], kinds[1]), means)
    legend = alt.Legend(titleLimit=WIDTH, format=".3~g")
    colour = alt.Color(
        field="prediction", type="quantitative", title=title, scale=alt.Scale(scheme=AMOUNT), legend=legend
    )
    tooltip = [
        alt.Tooltip(field="value", type=vega_type(kinds[0]), title=names[0]),
        alt.Tooltip(field="other", type=vega_type(kinds[1]), title=names[1]),
        number_tip("prediction", title=title, format=".6g"),
    ]
    ends = {key: end for key, end in (("x2", x2), ("y2", y2)) if end is not None}
    # Strokes of the same colour, without which renderers leave hairlines between cells.
    stroke = alt.Stroke(field="prediction", type="quantitative", scale=alt.Scale(scheme=AMOUNT), legend=None)
    cells = alt.Chart(means, width=WIDTH, height=320).mark_rect(strokeWidth=0.7)
    cells = cells.encode(x=x, y=y, color=colour, stroke=stroke, tooltip=tooltip, **ends)
    above = _beside(frame[names[0]], kinds[0], means["value"], x, alt.X2)
    right = _beside(frame[names[1]], kinds[1], means["other"], y, alt.Y2).properties(height=320)
    lower = alt.hconcat(cells, right, spacing=5).resolve_scale(y="shared")
    charts: alt.VConcatChart = alt.vconcat(above, lower, spacing=5).resolve_scale(x="independent", color="independent")
    low, high = (float(end) for end in (means["prediction"].min(), means["prediction"].max()))  # type: ignore[arg-type]
    both = " and ".join(shortened(name, 40) for name in names)
    how = "The mean prediction if every row had these values of both features. Bars: the rows by value."
    return headed(charts, f"{both} take the {title} from {low:.3g} to {high:.3g}", how)


def _cells(values: pl.Series) -> pl.DataFrame:
    """Return the bounds of the cell around each value: midpoints between neighbours, and the outermost values."""
    distinct = values.unique().sort()
    numbers = distinct.to_physical().cast(pl.Float64)
    middle = (numbers + numbers.shift(1)) / 2
    lower, upper = middle.fill_null(numbers[0]), middle.shift(-1).fill_null(numbers[-1])
    bounds = pl.DataFrame({"lower": lower, "upper": upper})
    if distinct.dtype.is_temporal():
        bounds = bounds.select(pl.all().round().cast(pl.Int64).cast(distinct.dtype))
    name = values.name
    return pl.DataFrame({name: distinct, f"{name}_lower": bounds["lower"], f"{name}_upper": bounds["upper"]})


def _side(
    channel: Any, end: Any, field: str, kind: FeatureType, title: str | None, means: pl.DataFrame
) -> tuple[Any, Any]:
    """Return the encodings of one axis and of the ends of its cells (None for categories)."""
    vega = vega_type(kind)
    if vega == "nominal":
        by_value = means.group_by(field, maintain_order=True).agg(pl.col("prediction").mean())
        order = by_value.sort("prediction", maintain_order=True)[field].to_list()
        return channel(
            field=field, type=vega, title=title, scale=alt.Scale(domain=order), axis=_names(channel, order)
        ), None
    look = value_axis(means[field], vega)
    first = channel(field=f"{field}_lower", type=vega, title=title, scale=_scale(vega), axis=look)
    return first, end(field=f"{field}_upper")


def _names(channel: Any, names: Sequence[str]) -> alt.Axis:
    """Return an axis of categories, with upright names only if they fit side by side."""
    fit = channel is alt.Y or 7 * max(map(len, names)) * len(names) < WIDTH
    return axis() if channel is alt.Y else axis(labelLimit=120, labelAngle=0 if fit else -60)


def _beside(values: pl.Series, kind: FeatureType, shown: pl.Series, position: Any, end: Any) -> alt.Chart:
    """Return the distribution along one axis; ``position`` is its encoding in the heat map."""
    channel = alt.X if isinstance(position, alt.X) else alt.Y
    counts = distribution_frame(values, kind)
    vega, bare = vega_type(kind), alt.Axis(labels=False, ticks=False)
    if vega == "nominal":
        counts = counts.filter(pl.col("value").is_in(shown.unique().to_list()))
        same = channel(field="value", type=vega, title=None, scale=position["scale"], axis=bare)
        return _distribution(counts, same, None)
    lower, upper = shown.min(), shown.max()
    counts = counts.filter((pl.col("upper") >= lower) & (pl.col("value") <= upper))
    return _distribution(
        counts, channel(field="value", type=vega, title=None, scale=_scale(vega), axis=bare), end(field="upper")
    )


def _scale(vega: str) -> Any:
    return alt.Scale(zero=False, nice=False) if vega == "quantitative" else alt.Scale(nice=False)


# --- distributions ----------------------------------------------------------------------------------------------------


def distribution_frame(values: pl.Series, kind: FeatureType) -> pl.DataFrame:
    """Return the number of rows of each category, or in 40 ranges of equal width of a number or a time.

    Returns
    -------
    polars.DataFrame
        ``value`` (or ``value`` and ``upper``, the bounds of the range) and ``rows``; missing values are dropped.
    """
    present = vega_values(values.alias("value"), kind).drop_nulls()
    if vega_type(kind) == "nominal":
        return present.value_counts(name="rows").sort(["rows", "value"], descending=[True, False])
    numbers = present.to_physical().cast(pl.Float64).to_numpy()
    counts, edges = np.histogram(numbers, _BINS) if len(numbers) else (np.zeros(0, int), np.zeros(1))
    if len(numbers) and edges[0] + (edges[1] - edges[0]) / 2 == edges[0]:  # too close to each other to divide
        counts, edges = np.array([len(numbers)]), edges[[0, -1]]
    bounds = {"value": edges[:-1], "upper": edges[1:]}
    frame = pl.DataFrame(bounds | {"rows": counts.astype(np.int64)}).filter(pl.col("rows") > 0)
    if vega_type(kind) == "temporal":
        return frame.with_columns(pl.col("value", "upper").round().cast(pl.Int64).cast(pl.Datetime("ms")))
    return frame


def _distribution(frame: pl.DataFrame, position: Any, other: Any) -> alt.Chart:
    """Return bars of the row counts by value.

    ``position`` encodes the value as in the other chart, `altair.X` for vertical and `altair.Y` for horizontal bars;
    ``other`` encodes the end of a range, `altair.X2` or `altair.Y2`, None for categories.
    """
    rises = isinstance(position, alt.X)
    size: dict[str, Any] = {"width": WIDTH, "height": _THICK} if rises else {"width": _THICK}
    largest = float(frame["rows"].max() or 0)  # type: ignore[arg-type]
    amount = quantity(
        alt.Y if rises else alt.X, "rows", "rows", zero=True, axis=alt.Axis(tickCount=2, format=number_format(largest))
    )
    encoding: dict[str, Any] = {"x": position, "y": amount} if rises else {"x": amount, "y": position}
    if other is not None:
        encoding["x2" if rises else "y2"] = other
    tooltip = [number_tip("rows", format=",")]
    bars = alt.Chart(frame, **size).mark_bar(
        orient="vertical" if rises else "horizontal", color=LIGHT, stroke=GREY, strokeWidth=0.3
    )
    drawn: alt.Chart = bars.encode(**encoding, tooltip=tooltip)
    return drawn

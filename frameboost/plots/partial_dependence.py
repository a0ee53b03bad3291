"""Partial dependence on one feature, with individual conditional expectation (ICE), and on two features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

from frameboost.checks.arguments import anything, checked, whole, word
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import DataError, ParameterError
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, output_name
from frameboost.plots.dependence_on_two import dependence_on_two
from frameboost.plots.distribution import distribution, distribution_frame
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import (
    MAX_POINTS,
    MISSING,
    VegaType,
    feature_type,
    read_features,
    sampled,
    titled,
    value_axis,
    vega_type,
    vega_values,
)  # fmt: skip
from frameboost.plots.theme import GREY, HEIGHT, WIDTH, axis, colour_of, dash_of, layered, quantity, shown_classes
from frameboost.prediction.individual_dependence import individual_dependence
from frameboost.prediction.predictor import Predictor

__all__ = ["partial_dependence"]

_MAX_CATEGORIES = 30
# Without the last digits, which depend on the order of a sum: equal means are drawn as equal.
_MEAN = pl.col("prediction").mean().round_sig_figs(12)


@checked(
    model=a_model, feature=anything, ice=whole(0, 200), output=word("mean", "margin"), rows=whole(1, 10_000),
    number=anything,
)  # fmt: skip
@with_drawable_text
def partial_dependence(
    model: Model, data: Any, feature: str | Sequence[str], *, ice: int = 0,
    output: Literal["mean", "margin"] = "mean", number: int | str | None = None, rows: int = 1_000,
) -> alt.VConcatChart:  # fmt: skip
    """Return a chart of the mean prediction as a function of one or two features, above the features' distribution.

    Of one feature it is a line, or a point for each category, and a point or a dashed line at the mean prediction
    with the feature missing, if it is missing in some row. Of two features it is a map of colours, of the rows in which
    both are present. Numbers and times have up to 20 values at evenly spaced ranks; categories are the most frequent
    30, of two features 20.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.predict`. The distribution is that of all rows.
    feature
        A feature of the model, or two.
    ice
        The number of rows, at most 200 (of many categories fewer), whose own predictions are drawn too (individual
        conditional expectation, ICE).
    output
        ``"mean"`` or ``"margin"``, as for `frameboost.Model.predict`.
    number
        The number of the output, from 0, if the model has several, of a class also its label; by default the first
        eight, in several colours. ICE and two features need one.
    rows
        The most rows to take the mean over, at most 10,000; of more, a sample by a hash of the position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there are no rows, or a feature has no value.
    ParameterError
        If the model has no such feature or output.
    """
    names = [feature] if isinstance(feature, str) else list(feature) if isinstance(feature, list | tuple) else []
    are_names = all(isinstance(name, str) for name in names) and 1 <= len(names) <= 2
    if not are_names or len(set(names)) < len(names):
        raise ParameterError(f"feature must be a feature of the model, or two in a list, not {shown(feature)}")
    n_outputs = len(model.ensemble.output(output).values)
    own_names = [output_name(model, index) if n_outputs > 1 else str(index) for index in range(n_outputs)]
    if isinstance(number, str) and number in own_names:
        number = own_names.index(number)
    elif number is not None:
        whole(0, n_outputs - 1)("number", number)
    assert not isinstance(number, str)
    if n_outputs > 1 and number is None and (ice or len(names) == 2):
        what = "ice" if ice else "the dependence on two features"
        raise ParameterError(f"{what} is drawn of one output; give number, from 0 to {n_outputs - 1}")
    for name in names:
        if name not in model.features:
            near = did_you_mean(name, model.features)
            raise ParameterError(
                f"feature must be one of the model's, {listed(model.features)}, not {shown(name)}{near}"
            )
    frame = read_features(model, data)
    if len(names) == 2:
        for name in names:
            kind = feature_type(model, name)
            frame = frame.filter(vega_values(frame[name].alias("value"), kind).is_not_null())
        if frame.is_empty():
            raise DataError(f"features {shown(names[0])} and {shown(names[1])} are never both present")
    most = _MAX_CATEGORIES if len(names) == 1 else 20
    long = individual_dependence(
        Predictor(model.ensemble), sampled(frame, rows), names, output, number=number, grid_of=frame, most=most
    )
    title = "mean prediction" if output == "mean" else "mean margin"
    if len(names) == 2:
        return dependence_on_two(model, frame, long, names, title)
    long = long.with_columns(pl.col("output").replace_strict(dict(enumerate(own_names)), return_dtype=pl.String))
    return _on_one(model, frame, long, names[0], title, ice)


def _on_one(model: Model, frame: pl.DataFrame, long: pl.DataFrame, name: str, title: str, ice: int) -> alt.VConcatChart:
    kind = feature_type(model, name)
    outputs = shown_classes(long["output"].unique(maintain_order=True).to_list())
    long = long.filter(pl.col("output").is_in(outputs))
    shown = vega_values(long["value"], kind)
    is_missing = long["value"].is_null() | (long["value"].is_nan() if long["value"].dtype.is_float() else False)
    long = long.with_columns(shown).filter(shown.is_not_null() | is_missing)  # infinities have no place on an axis
    ice = min(ice, MAX_POINTS // max(1, long["value"].n_unique() + 1))
    means = long.group_by("value", "output", maintain_order=True).agg(_MEAN)
    curves = long.filter(pl.col("row").is_in(sampled(long.select(pl.col("row").unique().sort()), ice)["row"].to_list()))
    if vega_type(kind) == "nominal":
        counts = distribution_frame(frame[name], kind)
        missing_rows = pl.DataFrame({"value": [MISSING], "rows": [frame[name].null_count()]}, schema=counts.schema)
        counts = pl.concat([counts, missing_rows])
        return _of_categories(means, curves, counts, titled(name, kind), title, outputs)
    look = value_axis(means["value"], vega_type(kind))
    x = alt.X(field="value", type=vega_type(kind), title=titled(name, kind), scale=_scale(kind), axis=look)
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
        strokeDash=dash_of("output", outputs, "output"), tooltip=_tooltip(vega_type(kind), name, title),
    ))  # fmt: skip
    if len(present) < len(means):
        missing = means.filter(pl.col("value").is_null()).with_columns(label=pl.lit(MISSING))
        rule = alt.Chart(missing).mark_rule(strokeDash=[2, 3], strokeWidth=1.5)
        rule = rule.encode(y=quantity(alt.Y, "prediction", title), color=colour_of("output", outputs, "output"))
        text = alt.Chart(missing).mark_text(align="right", baseline="bottom", dy=-2, color=GREY)
        where = {"x": alt.value(WIDTH - 2), "y": quantity(alt.Y, "prediction", title)}
        layers += [rule, text.encode(**where, text=alt.Text(field="label", type="nominal"))]
    bars = distribution(
        distribution_frame(frame[name], kind),
        alt.X(
            field="value",
            type=vega_type(kind),
            title=None,
            scale=_scale(kind),
            axis=alt.Axis(labels=False, ticks=False),
        ),
        alt.X2(field="upper"),
    )
    chart: alt.VConcatChart = alt.vconcat(layered(*layers), bars, spacing=5).resolve_scale(x="shared")
    return chart


def _scale(kind: Any) -> Any:
    return alt.Scale(zero=False, nice=False) if vega_type(kind) == "quantitative" else alt.Scale(nice=False)


def _tooltip(vega: VegaType, name: str, title: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip(field="value", type=vega, title=name),
        alt.Tooltip(field="output", type="nominal"),
        alt.Tooltip(field="prediction", type="quantitative", title=title, format=".6g"),
    ]


def _of_categories(
    means: pl.DataFrame, curves: pl.DataFrame, counts: pl.DataFrame, name: str, title: str, outputs: list[str]
) -> alt.VConcatChart:
    """Return a point for each category, sorted by the mean prediction of the first output, beside numbers of rows."""
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
    beside = distribution(counts, hidden, None).properties(height={"step": 18})
    return alt.vconcat(alt.hconcat(layered(*layers), beside, spacing=5).resolve_scale(y="shared"))

"""The waterfall of one row: its margin as the sum of the features' SHAP values."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import anything, checked, whole
from frameboost.checks.messages import shortened
from frameboost.errors import DataError
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, margin_title, output_number
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import read_features, text_of, vega_values
from frameboost.plots.theme import BLUE, GREY, ORANGE, WIDTH, axis, layered, number_axis
from frameboost.prediction.contributions import BIAS

__all__ = ["waterfall", "waterfall_frame"]


@checked(model=a_model, row=anything, top=whole(1, 200), output=anything)
@with_drawable_text
def waterfall(model: Model, row: Any, *, top: int = 10, output: int | str | None = None) -> alt.LayerChart:
    """Return a chart of how one row's margin comes about: from the mean of all rows, feature by feature.

    Bars to the right raise the margin, bars to the left lower it; the largest is on top.

    Parameters
    ----------
    model
        The model.
    row
        As the data of `frameboost.Model.predict`, with one row.
    top
        The number of features; the sum of all others is one more bar.
    output
        The number of the output to explain, from 0, if the model has several (classes, quantiles), of a class also
        its label.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if there is not one row.
    ParameterError
        As `frameboost.Model.explain`.
    """
    number = output_number(model, output)
    frame = read_features(model, row)
    if len(frame) != 1:
        raise DataError(f"row has {len(frame):,} rows; give one, such as df[0] or df.filter(...)")
    steps = waterfall_frame(model, frame, top=top, output=number)
    unit = margin_title(model, number).removeprefix("contribution to the ")
    amount = pl.when(pl.col("kind") == "total").then(pl.col("end")).otherwise(pl.col("contribution"))
    sign = pl.when(pl.col("contribution") >= 0).then(pl.lit("raises")).otherwise(pl.lit("lowers"))
    steps = steps.with_columns(
        amount=amount,
        sign=pl.when(pl.col("kind") == "total").then(pl.lit("total")).otherwise(sign),
        highest=pl.max_horizontal("start", "end"),
    )
    texts = [f"{v:.4g}" if kind == "total" else f"{v:+.4g}" for v, kind in steps.select("amount", "kind").rows()]
    steps = steps.with_columns(text=pl.Series(texts))
    return layered(*_layers(steps, unit))


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
    tooltip = [
        alt.Tooltip(field="step", type="nominal"),
        alt.Tooltip(field="amount", type="quantitative", format="+.6g"),
    ]
    every = alt.Chart(steps, width=WIDTH, height={"step": 24})
    totals = alt.Chart(steps.filter(kind="total")).mark_tick(thickness=3, size=18)
    bars = alt.Chart(steps.filter(pl.col("kind") != "total")).mark_bar(size=16)
    text = every.mark_text(align="left", dx=5).encode(x=at_highest, y=y, text=alt.Text(field="text", type="nominal"))
    return [
        text,
        bars.encode(x=x, x2=alt.X2(field="end"), y=y, color=colour, tooltip=tooltip),
        totals.encode(x=at_end, y=y, color=colour, tooltip=tooltip),
    ]


def waterfall_frame(model: Model, row: pl.DataFrame, *, top: int = 10, output: int | str | None = None) -> pl.DataFrame:
    """Return the steps from the mean margin to that of a row.

    Returns
    -------
    polars.DataFrame
        ``step`` (a feature and its value, as text), ``kind`` ("total" for the first and the last, otherwise "feature"
        or "others"), ``contribution``, ``start`` and ``end``: the margin before and after it. First the margin of the
        row, then features by the absolute contribution, then the sum of all others, then the mean
        margin, with the offset if there is one.
    """
    found = model.explain(row, output=output if model.ensemble.n_outputs > 1 else None)
    kinds = {feature.name: feature.type for feature in model.ensemble.features}
    values = {n: text_of(vega_values(row[n].alias("value"), kind).to_list(), kind)[0] for n, kind in kinds.items()}
    bias = float(found[BIAS][0])
    named = sorted(((name, float(found[name][0])) for name in model.features), key=lambda pair: -abs(pair[1]))
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

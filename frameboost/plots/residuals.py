"""The residuals of a regression."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import checked, column, whole
from frameboost.checks.messages import counted, shown
from frameboost.errors import ParameterError
from frameboost.evaluation.residuals import residual_histogram, residual_quantiles
from frameboost.evaluation.scored_rows import score_rows
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, one_target
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import sampled
from frameboost.plots.theme import BLUE, GREY, HEIGHT, LIGHT, ORANGE, WIDTH, layered, number_axis, quantity
from frameboost.prediction.predictor import Predictor

__all__ = ["residuals"]


@checked(model=a_model, target=column, bins=whole(2, 100), rows=whole(0, 4_000))
@with_drawable_text
def residuals(
    model: Model, data: Any, target: str, *, weight: str | None = None, bins: int = 20, rows: int = 1_000
) -> alt.HConcatChart:
    """Return a chart of the residuals, label minus prediction, by the prediction, and of their distribution.

    The line is the median of the residuals in bins of the prediction, the band reaches from their 10th to their 90th
    percentile; both are of all rows. Dots are a sample of the rows; those outside the 99 % in the middle are cut off.

    Parameters
    ----------
    model
        A model of one output that is no class.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    bins
        The most bins of the line, from 2 to 100.
    rows
        The most dots, at most 4,000; of more rows, a sample by a hash of the position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is missing, or a weight is not a number of 0 or more.
    ParameterError
        If the model is of classes, or has several outputs.
    """
    one_target(model, "residuals")
    loss = model.ensemble.loss
    if loss.classes or loss.n_predictions > 1:
        given = f"{shown(loss.name)} with {counted(loss.n_outputs, 'output')}"
        use = "; calibration and confusion are for classes" if loss.classes else ""
        raise ParameterError(f"residuals are of a regression with one output, not of {given}{use}")
    found = score_rows(Predictor(model.ensemble), data, target, weight, "mean")
    rows_of = (found.labels, found.predictions, found.weights)
    quantiles, histogram = residual_quantiles(*rows_of, bins=bins), residual_histogram(*rows_of)
    dots = pl.DataFrame({"prediction": found.predictions, "residual": found.labels - found.predictions})
    low, high = (float(value) for value in np.quantile(dots["residual"].to_numpy(), (0.005, 0.995)))
    low, high = min(low, 0.0, float(quantiles["p10"].min())), max(high, 0.0, float(quantiles["p90"].max()))  # type: ignore[arg-type]
    domain = [low, high] if low < high else [low - 1, high + 1]
    scale = alt.Scale(domain=domain, nice=True)
    left = _by_prediction(sampled(dots, rows), quantiles, scale, target)
    return alt.hconcat(left, _distribution(histogram, scale), spacing=5)


def _by_prediction(dots: pl.DataFrame, quantiles: pl.DataFrame, scale: alt.Scale, target: str) -> alt.LayerChart:
    def y(field: str) -> alt.Y:
        title = f"residual: {target} minus prediction"
        encoded: alt.Y = quantity(alt.Y, field, title, scale=scale, axis=number_axis(titleLimit=HEIGHT))
        return encoded

    x = quantity(alt.X, "prediction", f"prediction of {target}")
    zero = alt.Chart(pl.DataFrame({"residual": [0.0]})).mark_rule(color="black").encode(y=y("residual"))
    points = alt.Chart(dots).mark_circle(color=LIGHT, size=10, opacity=0.6, clip=True).encode(x=x, y=y("residual"))
    band = alt.Chart(quantiles).mark_area(color=BLUE, opacity=0.25, clip=True)
    single = alt.Chart(quantiles).mark_rule(color=BLUE, opacity=0.5)  # the band of one bin alone has no width
    tooltip = [
        alt.Tooltip(field=field, type="quantitative", format=".4g")
        for field in ("prediction", "p10", "p50", "p90", "mean")
    ]
    line = alt.Chart(quantiles, width=WIDTH, height=HEIGHT).mark_line(
        color=BLUE, strokeWidth=2.5, point=True, clip=True
    )
    return layered(
        points, zero,
        (single if len(quantiles) == 1 else band).encode(x=x, y=y("p10"), y2=alt.Y2(field="p90")),
        line.encode(x=x, y=y("p50"), tooltip=tooltip),
    )  # fmt: skip


def _distribution(histogram: pl.DataFrame, scale: alt.Scale) -> alt.Chart:
    tooltip = [alt.Tooltip(field=f, type="quantitative", format=".4g") for f in ("lower", "upper", "share")]
    bars = alt.Chart(histogram, width=90, height=HEIGHT).mark_bar(
        orient="horizontal", color=ORANGE, stroke=GREY, strokeWidth=0.3
    )
    chart: alt.Chart = bars.encode(
        x=quantity(alt.X, "share", "share of rows", zero=True, axis=alt.Axis(tickCount=2, format="%")),
        y=quantity(alt.Y, "lower", None, scale=scale, axis=alt.Axis(labels=False, ticks=False)),
        y2=alt.Y2(field="upper"),
        tooltip=tooltip,
    )
    return chart

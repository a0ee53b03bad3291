"""The calibration of probabilities or predictions."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import polars as pl

from frameboost.checks.arguments import checked, column, whole, word
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.evaluation.calibration_curve import calibration_curve, prediction_histogram
from frameboost.evaluation.scored_rows import score_rows
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, class_name, one_target
from frameboost.plots.names import with_drawable_text
from frameboost.plots.theme import GREY, colour_of, dash_of, layered, quantity, shown_classes
from frameboost.prediction.predictor import Predictor

__all__ = ["calibration"]

_SIDE = 340  # pixels


@checked(model=a_model, target=column, bins=whole(2, 100), strategy=word("quantile", "uniform"))
@with_drawable_text
def calibration(
    model: Model, data: Any, target: str, *, weight: str | None = None, bins: int = 10,
    strategy: Literal["quantile", "uniform"] = "quantile",
) -> alt.VConcatChart:  # fmt: skip
    """Return a chart of the mean label of rows with similar predictions (a reliability diagram).

    Predictions are calibrated if the points are on the diagonal. Bars are the mean label plus and minus two standard
    errors. The chart below has the distribution of the predictions. Of more than two classes there is a curve for each
    of the first eight. Of a regression it is the mean label by the prediction.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.predict`, with labels; not those that the model was trained on.
    target, weight
        The columns of the labels and of weights.
    bins
        The most bins, from 2 to 100.
    strategy
        ``"quantile"``: bins of equal weight; ``"uniform"``: of equal width.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is no class, or a weight is not a number of 0 or more.
    ParameterError
        If the model has no probabilities or predictions on the scale of the label.
    """
    one_target(model, "calibration")
    loss = model.ensemble.loss
    if loss.n_predictions > 1 and not loss.classes:
        raise ParameterError(
            f"calibration is for models of one output or of classes, not for {shown(loss.name)} with {loss.n_outputs} "
            "outputs"
        )
    rows = score_rows(Predictor(model.ensemble), data, target, weight, "probability" if loss.classes else "mean")
    several = (
        [(class_name(c.name), (c.labels, c.scores, c.weights)) for c in rows.each_class(target)]
        if loss.classes
        else [("prediction", (rows.labels, rows.predictions, rows.weights))]
    )
    names = shown_classes([name for name, _ in several])
    curves, histograms = [], []
    for name, (labels, scores, weights) in several[: len(names)]:
        found = calibration_curve(labels, scores, weights, bins=bins, strategy=strategy)
        curves.append(found.with_columns(name=pl.lit(name)))
        histograms.append(prediction_histogram(scores, weights).with_columns(name=pl.lit(name)))
    curve = pl.concat(curves)
    error = 2 * pl.col("standard_error")
    curve = curve.with_columns(low=pl.col("mean_label") - error, high=pl.col("mean_label") + error)
    titles = ("mean probability", "share of the class") if loss.classes else ("mean prediction", f"mean {target}")
    return _chart(curve, pl.concat(histograms), names, titles, is_probability=bool(loss.classes))


def _chart(
    curve: pl.DataFrame, histogram: pl.DataFrame, names: list[str], titles: tuple[str, str], *, is_probability: bool
) -> alt.VConcatChart:
    low, high = (0.0, 1.0) if is_probability else _ends(curve)
    scale = alt.Scale(domain=[low, high], nice=False, clamp=True)
    x = quantity(alt.X, "mean_prediction", titles[0], scale=scale)
    y = quantity(alt.Y, "mean_label", titles[1], scale=scale)
    ends = alt.Chart(pl.DataFrame({"mean_prediction": [low, high], "mean_label": [low, high]}))
    diagonal = ends.mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    base = alt.Chart(curve, width=_SIDE, height=_SIDE)
    colour = colour_of("name", names, None)
    bars = alt.Chart(curve.drop_nulls("standard_error")).mark_rule(strokeWidth=1.2)
    bars = bars.encode(x=x, y=quantity(alt.Y, "low", titles[1], scale=scale), y2=alt.Y2(field="high"), color=colour)
    tooltip = [
        alt.Tooltip(field="mean_prediction", type="quantitative", title=titles[0], format=".4g"),
        alt.Tooltip(field="mean_label", type="quantitative", title=titles[1], format=".4g"),
        alt.Tooltip(field="weight", type="quantitative", title="rows (weight)", format=",.6~g"),
    ]
    line = base.mark_line(point={"size": 40, "filled": True}, strokeWidth=2)
    line = line.encode(x=x, y=y, color=colour, strokeDash=dash_of("name", names, None), tooltip=tooltip)
    return alt.vconcat(layered(diagonal, bars, line), _histogram(histogram, names, titles[0], scale), spacing=8)


def _histogram(histogram: pl.DataFrame, names: list[str], title: str, scale: alt.Scale) -> alt.Chart:
    """Return bars of the distribution of one curve's predictions, or the outlines of several's."""
    chart = alt.Chart(histogram, width=_SIDE, height=60)
    x = quantity(alt.X, "lower", f"distribution of the {title.removeprefix('mean ')}", scale=scale)
    y = quantity(alt.Y, "share", "rows", zero=True, stack=None, axis=alt.Axis(tickCount=2, format="%"))
    colour = colour_of("name", names, None)
    drawn: alt.Chart
    if len(names) > 1:
        outline = chart.mark_line(interpolate="step-after", strokeWidth=1.5)
        drawn = outline.encode(x=x, y=y, color=colour, strokeDash=dash_of("name", names, None))
    else:
        bars = chart.mark_bar(orient="vertical", opacity=0.55)
        drawn = bars.encode(x=x, x2=alt.X2(field="upper"), y=y, color=colour)
    return drawn


def _ends(curve: pl.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest number on the two axes."""
    numbers = [value for name in ("mean_prediction", "mean_label", "low", "high") for value in curve[name].drop_nulls()]
    low, high = min(numbers), max(numbers)
    return (low - 0.5, high + 0.5) if low == high else (low, high)

"""Curves over the threshold of a classifier: ROC, precision and recall, costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import checked, column, not_negative
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.evaluation.scored_rows import ScoredRows, TwoClasses, score_rows, scores_for_ranking
from frameboost.evaluation.threshold_curves import (
    average_precision,
    precision_recall_curve,
    roc_auc,
    roc_curve,
)
from frameboost.evaluation.threshold_curves import (
    threshold_costs as costs_frame,
)
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, class_name, one_target
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import thinned
from frameboost.plots.theme import (
    GREY,
    HEIGHT,
    MAX_CLASSES,
    ORANGE,
    WIDTH,
    colour_of,
    dash_of,
    layered,
    quantity,
)
from frameboost.prediction.predictor import Predictor

__all__ = ["classes_with_rows", "precision_recall", "roc", "scored", "threshold_costs"]

_SIDE = 340  # pixels
_POINTS = 500  # of a curve


@checked(model=a_model, target=column)
@with_drawable_text
def roc(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the true positive rate by the false positive rate, with the area under the curve (AUC).

    Of more than two classes there is a curve for each of the first eight that occur, against all others. A curve is
    drawn with at most 500 points, evenly spaced along it; the AUC is that of all rows.

    Parameters
    ----------
    model
        A model of classes, or any of one output whose labels here are 0 and 1.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is no class, all are of one, or a weight is not a number of 0 or
        more.
    ParameterError
        If the model has several outputs that are no classes.
    """

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        found = roc_curve(c.labels, c.scores, c.weights)
        return found, f"AUC {roc_auc(found):.4f}"

    fields = ("false_positive_rate", "true_positive_rate")
    frame, names = _curves(model, data, target, weight, "roc", curve, fields)
    diagonal = pl.DataFrame({fields[0]: [0.0, 1.0], fields[1]: [0.0, 1.0]})
    return _unit_square(frame, names, fields, ("false positive rate", "true positive rate"), diagonal)


@checked(model=a_model, target=column)
@with_drawable_text
def precision_recall(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the precision by the recall, with the average precision.

    The dashed line is the share of the class: the precision without a model. Else as `roc`, of which the arguments are
    the same.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        found = precision_recall_curve(c.labels, c.scores, c.weights)
        # A line starts at the highest precision that a threshold has, at recall 0.
        first = found.head(1).with_columns(recall=pl.lit(0.0))
        return pl.concat([first, found]), f"average precision {average_precision(found):.4f}"

    frame, names = _curves(model, data, target, weight, "precision_recall", curve, ("recall", "precision"))
    last = frame.group_by("name", maintain_order=True).last()
    base = pl.concat([last.select("name", "precision", recall=pl.lit(at)) for at in (0.0, 1.0)])
    return _unit_square(frame, names, ("recall", "precision"), ("recall", "precision"), base)


@checked(model=a_model, target=column, false_positive=not_negative, false_negative=not_negative)
@with_drawable_text
def threshold_costs(
    model: Model, data: Any, target: str, *, false_positive: float = 1.0, false_negative: float = 1.0,
    weight: str | None = None,
) -> alt.LayerChart:  # fmt: skip
    """Return a chart of what wrong decisions cost by the threshold, with the cheapest threshold.

    Rows with a probability of at least the threshold are taken for positive. Dashed lines are the two parts of the
    cost. A curve is drawn with at most 500 points; the best threshold is that of all rows.

    Parameters
    ----------
    model
        A model of two classes, or any of one output whose labels here are 0 and 1.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    false_positive, false_negative
        The costs of a row with label 0 taken for positive, and of one with label 1 taken for negative. The chart has
        the mean over all rows.

    Raises
    ------
    DataError, ParameterError
        As `roc`; if the model has more than two classes, or a cost is negative.
    """
    if model.ensemble.loss.n_outputs > 1:
        raise ParameterError(f"threshold_costs is for models of one output, not for {shown(model.objective)}")
    rows, score = scored(model, data, target, weight, "threshold_costs")
    one = next(iter(rows.each_class(target)))
    found = costs_frame(
        one.labels, one.scores, one.weights, false_positive=false_positive, false_negative=false_negative
    )
    total = float(one.weights.sum())
    best = found.sort("cost", maintain_order=True).row(0, named=True)
    finite = found.filter(pl.col("threshold").is_finite())
    few = thinned(finite, "threshold", "cost", _POINTS)
    parts = {
        "both": pl.col("cost"),
        "false positives": pl.col("false_positives") * false_positive / total,
        "false negatives": pl.col("false_negatives") * false_negative / total,
    }
    lines = pl.concat([few.select("threshold", cost=cost, name=pl.lit(name)) for name, cost in parts.items()])
    return _cost_chart(lines, best, score)


def _cost_chart(lines: pl.DataFrame, best: dict[str, float], score: str) -> alt.LayerChart:
    names = ["both", "false positives", "false negatives"]
    scale = alt.Scale(domain=[0, 1]) if score == "probability" else alt.Scale(zero=False)
    x = quantity(alt.X, "threshold", f"threshold of the {score}", scale=scale)
    y = quantity(alt.Y, "cost", "mean cost of a row", zero=True)
    tooltip = [alt.Tooltip(field="name", type="nominal", title="cost of")] + [
        alt.Tooltip(field=field, type="quantitative", format=".4g") for field in ("threshold", "cost")
    ]
    colour, dash = colour_of("name", names, "cost of"), dash_of("name", names, "cost of")
    curves = alt.Chart(lines, width=WIDTH, height=HEIGHT).mark_line(strokeWidth=2)
    curves = curves.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    low, high = (float(end) for end in (lines["threshold"].min(), lines["threshold"].max()))  # type: ignore[arg-type]
    threshold = min(best["threshold"], high)  # infinite where no row is to be taken for positive
    what = f"{threshold:.4g}" if threshold == best["threshold"] else "none positive"
    note = {"threshold": [threshold], "cost": [best["cost"]], "label": [f"cheapest: {what}, cost {best['cost']:.4g}"]}
    at = alt.Chart(pl.DataFrame(note))
    right = threshold > (0.5 if score == "probability" else (low + high) / 2)
    dot = at.mark_point(filled=True, size=80, color=ORANGE, stroke="black", opacity=1).encode(x=x, y=y)
    rule = at.mark_rule(color=GREY, strokeDash=[4, 4]).encode(x=x)
    words = at.mark_text(align="right" if right else "left", dx=-6 if right else 6, baseline="top", color="black")
    label = words.encode(x=x, y=alt.value(4), text=alt.Text(field="label", type="nominal"))
    return layered(rule, curves, dot, label)


def scored(model: Model, data: Any, target: str, weight: str | None, what: str) -> tuple[ScoredRows, str]:
    """Return labels and scores whose order tells how likely a class is, and what the scores are called."""
    one_target(model, what)
    output = scores_for_ranking(model.ensemble.loss, what)
    rows = score_rows(Predictor(model.ensemble), data, target, weight, output)
    return rows, "prediction" if output == "mean" else output


def classes_with_rows(rows: ScoredRows, target: str) -> list[TwoClasses]:
    """Return the classes against all others, of several those that some row is of; all if only one class occurs."""
    found = list(rows.each_class(target))
    return [one for one in found if 0 < one.labels.sum() < len(one.labels)] or found


def _curves(
    model: Model, data: Any, target: str, weight: str | None, what: str,
    curve: Callable[[TwoClasses], tuple[pl.DataFrame, str]], fields: tuple[str, str],
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """Return the curves of all classes, of few points each, and the names of the curves."""
    rows, _ = scored(model, data, target, weight, what)
    several, parts, names = rows.predictions.ndim == 2, [], []
    for one in classes_with_rows(rows, target)[:MAX_CLASSES]:
        found, text = curve(one)
        names.append(f"{class_name(one.name)}: {text}" if several else text)
        parts.append(thinned(found, *fields, _POINTS).with_columns(name=pl.lit(names[-1])))
    return pl.concat(parts), names


def _unit_square(
    frame: pl.DataFrame, names: list[str], fields: tuple[str, str], titles: tuple[str, str], base: pl.DataFrame
) -> alt.LayerChart:
    """Return lines within the unit square, over dashed lines of what is reached without a model."""
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = quantity(alt.X, fields[0], titles[0], scale=scale)
    y = quantity(alt.Y, fields[1], titles[1], scale=scale)
    detail = {"detail": alt.Detail(field="name", type="nominal")} if "name" in base.columns else {}
    without = alt.Chart(base).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y, **detail)
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=_SIDE)
    colour, dash = colour_of("name", names, None, legend=legend), dash_of("name", names, None, legend=legend)
    tooltip = [alt.Tooltip(field="name", type="nominal", title="curve")] + [
        alt.Tooltip(field=field, type="quantitative", title=title, format=".4g")
        for field, title in (*zip(fields, titles, strict=True), ("threshold", "threshold"))
    ]
    # In the order of the thresholds: by default a line goes from left to right, also where a curve is vertical.
    placed = frame.with_columns(place=pl.int_range(pl.len()))
    lines = alt.Chart(placed, width=_SIDE, height=_SIDE).mark_line(strokeWidth=2)
    order = alt.Order(field="place", type="quantitative")
    return layered(without, lines.encode(x=x, y=y, color=colour, strokeDash=dash, order=order, tooltip=tooltip))

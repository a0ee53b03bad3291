"""Charts of labels against predictions.

- Classes, by the threshold of a score: `roc`, `precision_recall`, `threshold_costs`, `gains`, `lift`
- `confusion`: actual and predicted classes
- `calibration`: the mean label by the prediction
- `residuals` for regressions: label minus prediction
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import column, not_negative, number, whole, word
from frameboost.checks.messages import counted, shortened, shown
from frameboost.errors import ParameterError
from frameboost.evaluation import threshold_curves
from frameboost.evaluation.calibration_curve import calibration_curve, prediction_histogram
from frameboost.evaluation.confusion import confusion_matrix
from frameboost.evaluation.residuals import residual_histogram, residual_quantiles
from frameboost.evaluation.scored_rows import ScoredRows, TwoClasses, scores_for_ranking
from frameboost.model.model import Model
from frameboost.plots.inputs import chart, class_name, require_one_target, sampled, scored, thinned
from frameboost.plots.theme import (
    BLUE,
    GREY,
    HEIGHT,
    LIGHT,
    MAX_CLASSES,
    ORANGE,
    WIDTH,
    axis,
    colour_of,
    dash_of,
    headed,
    layered,
    name_tip,
    number_axis,
    number_tip,
    percentage,
    quantity,
    shown_classes,
)  # fmt: skip

__all__ = [
    "calibration", "confusion", "gains", "lift", "precision_recall", "residuals", "roc", "threshold_costs",
]  # fmt: skip

_SIDE = 340  # pixels
_MAX_POINTS = 500  # of a curve
_MAX_CONFUSED = 60  # classes of a confusion matrix: 3,600 cells
_MAX_NUMBERED = 15  # maximum classes of a confusion matrix with numbers in its cells


# --- curves over the threshold of a score -----------------------------------------------------------------------------


@chart(target=column)
def roc(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the ROC curve, with the area under it (AUC).

    For more than two classes it has a curve for each of the first eight that occur, against the rest. Curves are drawn
    with at most 500 evenly spaced points; the AUC is computed from all rows.

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
        If the model has several outputs that are not classes.
    """
    areas: dict[str, float] = {}

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        points = threshold_curves.roc_curve(c.labels, c.scores, c.weights)
        areas[class_name(c.name)] = threshold_curves.roc_auc(points)
        return points, f"AUC {areas[class_name(c.name)]:.4f}"

    fields = ("false_positive_rate", "true_positive_rate")
    frame, names = _curves(model, data, target, weight, "roc", curve, fields)
    diagonal = pl.DataFrame({fields[0]: [0.0, 1.0], fields[1]: [0.0, 1.0]})
    square = _unit_square(frame, names, fields, ("false positive rate", "true positive rate"), diagonal)
    finding = f"A positive row scores above a negative one in {percentage(min(areas.values()))} of pairs"
    how = "Each point is a threshold of the score. Dashed: scores without information, AUC 0.5."
    return headed(square, _ends_of("AUC", areas) or finding, how, width=_SIDE)


@chart(target=column)
def precision_recall(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of precision by recall, with the average precision.

    The dashed line is the share of the class, the precision without a model. Arguments are as in `roc`.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """
    means: dict[str, float] = {}

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        points = threshold_curves.precision_recall_curve(c.labels, c.scores, c.weights)
        means[class_name(c.name)] = threshold_curves.average_precision(points)
        # A line starts at the highest precision that a threshold has, at recall 0.
        first = points.head(1).with_columns(recall=pl.lit(0.0))
        return pl.concat([first, points]), f"average precision {means[class_name(c.name)]:.4f}"

    frame, names = _curves(model, data, target, weight, "precision_recall", curve, ("recall", "precision"))
    last = frame.group_by("name", maintain_order=True).last()
    base = pl.concat([last.select("name", "precision", recall=pl.lit(at)) for at in (0.0, 1.0)])
    square = _unit_square(frame, names, ("recall", "precision"), ("recall", "precision"), base)
    finding = f"Average precision {min(means.values()):.3g}; without a model {last[0, 'precision']:.3g}"
    how = "Each point is a threshold of the score. Dashed: the share of the class, the precision without a model."
    return headed(square, _ends_of("Average precision", means) or finding, how, width=_SIDE)


@chart(target=column)
def gains(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the cumulative gains: the share of positives among the rows with the highest scores.

    The dashed line is a random order. For more than two classes it has a curve for each of the first eight, against the
    rest. Curves are drawn with at most 500 points. Arguments are as in `roc`.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        return threshold_curves.gains_curve(c.labels, c.scores, c.weights), ""

    frame, names = _curves(model, data, target, weight, "gains", curve, ("share_of_rows", "share_of_positives"))
    base = pl.DataFrame({"share_of_rows": [0.0, 1.0], "share_of_positives": [0.0, 1.0]})
    lines = _by_share_of_rows(frame, names, "share_of_positives", "share of positives", base, axis(format="%"))
    shares = _at_share(frame, "share_of_positives", 0.2)
    finding = f"The 20 % of rows with the highest scores have {percentage(max(shares))} of the positives"
    if len(shares) > 1:
        finding = f"The best 20 % of rows have {percentage(min(shares))} to {percentage(max(shares))} of a class"
    return headed(lines, finding, "Dashed: rows in random order. The further above it, the better the order.")


@chart(target=column)
def lift(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the lift: the rate of positives among the rows with the highest scores relative to all rows.

    The curve begins at 1 % of the rows, because it is noisy before; otherwise as `gains`.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """

    def curve(c: TwoClasses) -> tuple[pl.DataFrame, str]:
        points = threshold_curves.gains_curve(c.labels, c.scores, c.weights)
        late = points.filter(pl.col("share_of_rows") >= 0.01)
        return late if len(late) > 1 else points.drop_nulls(), ""

    frame, names = _curves(model, data, target, weight, "lift", curve, ("share_of_rows", "lift"))
    base = pl.DataFrame({"share_of_rows": [0.0, 1.0], "lift": [1.0, 1.0]})
    lines = _by_share_of_rows(frame, names, "lift", "lift", base, axis())
    lifts = _at_share(frame, "lift", 0.1)
    times = f"{max(lifts):.3g}" if len(lifts) == 1 else f"{min(lifts):.3g} to {max(lifts):.3g}"
    finding = f"Positives are {times} times as frequent in the best 10 % of rows as in all"
    return headed(lines, finding, "Dashed: rows in random order, lift 1.")


def _at_share(frame: pl.DataFrame, field: str, share: float) -> list[float]:
    """Return each curve's value at a share of rows, by linear interpolation."""
    return [
        float(np.interp(share, *rows.select("share_of_rows", field).fill_null(0.0).to_numpy().T))
        for rows in frame.partition_by("name", maintain_order=True)
    ]


def _ends_of(what: str, of_classes: Mapping[str, float]) -> str:
    """Return the range of a number over classes as text; empty for a single class."""
    if len(of_classes) == 1:
        return ""
    low, high = (choose(of_classes, key=of_classes.__getitem__) for choose in (min, max))
    return f"{what} {of_classes[low]:.3g} ({shortened(low, 30)}) to {of_classes[high]:.3g} ({shortened(high, 30)})"


def _curves(
    model: Model, data: Any, target: str, weight: str | None, what: str,
    curve: Callable[[TwoClasses], tuple[pl.DataFrame, str]], fields: tuple[str, str],
) -> tuple[pl.DataFrame, list[str]]:  # fmt: skip
    """Return the thinned curves of the first classes that occur, and their names.

    ``curve`` returns all points of a class's curve, and the end of its name.
    """
    rows, _ = _scores(model, data, target, weight, what)
    classes = list(rows.each_class(target))
    # Of several classes those that some row is of; all if only one class occurs.
    classes = [c for c in classes if 0 < c.labels.sum() < len(c.labels)] or classes
    parts, names = [], []
    for c in classes[:MAX_CLASSES]:
        points, text = curve(c)
        if text and rows.predictions.ndim == 1:
            names.append(text)
        else:
            names.append(f"{class_name(c.name)}: {text}" if text else class_name(c.name))
        parts.append(thinned(points, *fields, _MAX_POINTS).with_columns(name=pl.lit(names[-1])))
    return pl.concat(parts), names


def _scores(model: Model, data: Any, target: str, weight: str | None, what: str) -> tuple[ScoredRows, str]:
    """Return labels and scores that increase with the probability of a class, and the name of the scores."""
    require_one_target(model, what)
    output = scores_for_ranking(model.ensemble.loss, what)
    return scored(model, data, target, weight, output), "prediction" if output == "mean" else output


def _unit_square(
    frame: pl.DataFrame, names: list[str], fields: tuple[str, str], titles: tuple[str, str], base: pl.DataFrame
) -> alt.LayerChart:
    """Return lines in the unit square, over dashed lines of the result without a model."""
    scale = alt.Scale(domain=[0, 1], nice=False)
    x = quantity(alt.X, fields[0], titles[0], scale=scale)
    y = quantity(alt.Y, fields[1], titles[1], scale=scale)
    detail = {"detail": alt.Detail(field="name", type="nominal")} if "name" in base.columns else {}
    without = alt.Chart(base).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y, **detail)
    legend = alt.Legend(orient="bottom", columns=1, labelLimit=_SIDE)
    colour, dash = colour_of("name", names, None, legend=legend), dash_of("name", names, None, legend=legend)
    tooltip = [
        name_tip("name", title="curve"),
        *(number_tip(field, title=title, format=".4g") for field, title in zip(fields, titles, strict=True)),
        number_tip("threshold", title="threshold", format=".4g"),
    ]
    # In the order of the thresholds: by default a line goes from left to right, also where a curve is vertical.
    in_order = frame.with_columns(place=pl.int_range(pl.len()))
    lines = alt.Chart(in_order, width=_SIDE, height=_SIDE).mark_line(strokeWidth=2)
    order = alt.Order(field="place", type="quantitative")
    return layered(without, lines.encode(x=x, y=y, color=colour, strokeDash=dash, order=order, tooltip=tooltip))


def _by_share_of_rows(
    frame: pl.DataFrame, names: list[str], field: str, title: str, base: pl.DataFrame, y_axis: alt.Axis
) -> alt.LayerChart:
    """Return lines by the share of rows, over a dashed line of the result without a model."""
    x = quantity(alt.X, "share_of_rows", "share of rows, highest scores first",
                 scale=alt.Scale(domain=[0, 1]), axis=number_axis(format="%"))  # fmt: skip
    y = quantity(alt.Y, field, title, zero=True, axis=y_axis)
    without = alt.Chart(base).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    tooltip = [
        name_tip("name", title="class"),
        number_tip("share_of_rows", title="share of rows", format=".4g"),
        number_tip(field, title=title, format=".4g"),
        number_tip("threshold", title="threshold", format=".4g"),
    ]
    lines = alt.Chart(frame, width=WIDTH, height=HEIGHT).mark_line(strokeWidth=2).encode(
        x=x, y=y, color=colour_of("name", names, None), strokeDash=dash_of("name", names, None), tooltip=tooltip
    )  # fmt: skip
    return layered(without, lines)


@chart(target=column, false_positive=not_negative, false_negative=not_negative)
def threshold_costs(
    model: Model, data: Any, target: str, *, false_positive: float = 1.0, false_negative: float = 1.0,
    weight: str | None = None,
) -> alt.LayerChart:  # fmt: skip
    """Return a chart of the cost of errors by threshold, with the cheapest threshold.

    Rows with a probability of the threshold or more are predicted positive. Dashed lines are the two parts of the cost.
    Curves are drawn with at most 500 points; the cheapest threshold is computed from all rows.

    Parameters
    ----------
    model
        A model of two classes, or any of one output whose labels here are 0 and 1.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    false_positive, false_negative
        The costs of a false positive and of a false negative. The chart shows the mean over all rows.

    Raises
    ------
    DataError, ParameterError
        As `roc`; if the model has more than two classes, or a cost is negative.
    """
    if model.ensemble.loss.n_outputs > 1:
        raise ParameterError(f"threshold_costs is for models of one output, not for {shown(model.objective)}")
    rows, score = _scores(model, data, target, weight, "threshold_costs")
    binary = next(iter(rows.each_class(target)))
    costs = threshold_curves.threshold_costs(
        binary.labels, binary.scores, binary.weights, false_positive=false_positive, false_negative=false_negative
    )
    total = float(binary.weights.sum())
    best = costs.sort("cost", maintain_order=True).row(0, named=True)
    few = thinned(costs.filter(pl.col("threshold").is_finite()), "threshold", "cost", _MAX_POINTS)
    parts = {
        "both": pl.col("cost"),
        "false positives": pl.col("false_positives") * false_positive / total,
        "false negatives": pl.col("false_negatives") * false_negative / total,
    }
    lines = pl.concat([few.select("threshold", cost=cost, name=pl.lit(name)) for name, cost in parts.items()])
    scale = alt.Scale(domain=[0, 1]) if score == "probability" else alt.Scale(zero=False)
    x = quantity(alt.X, "threshold", f"threshold of the {score}", scale=scale)
    y = quantity(alt.Y, "cost", "mean cost of a row", zero=True)
    tooltip = [name_tip("name", title="cost of"), number_tip("threshold", format=".4g"),
               number_tip("cost", format=".4g")]  # fmt: skip
    colour, dash = colour_of("name", list(parts), "cost of"), dash_of("name", list(parts), "cost of")
    curves = alt.Chart(lines, width=WIDTH, height=HEIGHT).mark_line(strokeWidth=2)
    curves = curves.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    low, high = (float(end) for end in (lines["threshold"].min(), lines["threshold"].max()))  # type: ignore[arg-type]
    threshold = min(best["threshold"], high)  # infinite where no row is to be taken for positive
    decision = f"{threshold:.4g}" if threshold == best["threshold"] else "none positive"
    label = f"cheapest: {decision}, cost {best['cost']:.4g}"
    at = alt.Chart(pl.DataFrame({"threshold": [threshold], "cost": [best["cost"]], "label": [label]}))
    right = threshold > (0.5 if score == "probability" else (low + high) / 2)
    dot = at.mark_point(filled=True, size=80, color=ORANGE, stroke="black", opacity=1).encode(x=x, y=y)
    rule = at.mark_rule(color=GREY, strokeDash=[4, 4]).encode(x=x)
    words = at.mark_text(align="right" if right else "left", dx=-6 if right else 6, baseline="top", color=GREY)
    drawn = layered(
        rule, curves, dot, words.encode(x=x, y=alt.value(4), text=alt.Text(field="label", type="nominal"))
    )  # fmt: skip
    finding = f"Decisions cost least at {decision}" if decision != "none positive" else "No row is worth a positive"
    how = (
        f"A false positive costs {false_positive:g}, a false negative {false_negative:g}. Rows with a {score} of at "
        "least the threshold are positive."
    )
    return headed(drawn, f"{finding}: {best['cost']:.3g} a row", how)


# --- classes ----------------------------------------------------------------------------------------------------------


@chart(target=column, threshold=number(0, 1))
def confusion(
    model: Model, data: Any, target: str, *, threshold: float | None = None, weight: str | None = None
) -> alt.LayerChart:
    """Return a chart of the confusion matrix.

    Colours are shares within the actual class. Numbers, for up to 15 classes, are sums of weights (without weights, of
    rows) and shares.

    Parameters
    ----------
    model
        A model of at most 60 classes.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    threshold
        For two classes: predict class 1 from this probability on, instead of the most probable class.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is no class, or a weight is not a number of 0 or more.
    ParameterError
        If the model has no classes, more than 60, or with a threshold more than two.
    """
    require_one_target(model, "confusion")
    n_classes = model.ensemble.loss.classes
    if not 2 <= n_classes <= _MAX_CONFUSED:
        actual = f"{n_classes} classes" if n_classes else f"objective {shown(model.objective)}, which has none"
        raise ParameterError(f"confusion is for models of 2 to {_MAX_CONFUSED} classes, not for {actual}")
    if threshold is None:
        rows = scored(model, data, target, weight, "class")
        predicted = rows.predictions
    else:
        if model.ensemble.loss.n_outputs > 1:
            raise ParameterError(f"threshold is for two classes with one output, not for {shown(model.objective)}")
        rows = scored(model, data, target, weight, "probability")
        predicted = (rows.predictions >= threshold).astype(np.float64)
    rows.check_classes(n_classes, target)
    names = list(rows.class_names) or [str(k) for k in range(n_classes)]
    matrix = confusion_matrix(rows.labels, predicted, n_classes, rows.weights)
    texts = [
        f"{weight:,.0f}\n{share:.1%}" if share is not None else f"{weight:,.0f}"
        for weight, share in matrix.select("weight", "share").rows()
    ]
    classes = pl.col("actual", "predicted").replace_strict(range(n_classes), names, return_dtype=pl.String)
    matrix = matrix.with_columns(classes, text=pl.Series(texts))
    is_numbered = n_classes <= _MAX_NUMBERED
    side = max(64 if is_numbered else 12, 240 // n_classes)
    x = alt.X(field="predicted", type="ordinal", title="predicted class", sort=names,
              axis=axis(orient="top", labelAngle=0 if max(map(len, names)) * 8 <= side else -90))  # fmt: skip
    y = alt.Y(field="actual", type="ordinal", title="actual class", sort=names, axis=axis())
    colour = alt.Color(field="share", type="quantitative", title="share of the actual class",
                       scale=alt.Scale(scheme="blues", domain=[0, 1]), legend=alt.Legend(format="%"))  # fmt: skip
    tooltip = [
        alt.Tooltip(field="actual", type="ordinal"),
        alt.Tooltip(field="predicted", type="ordinal"),
        number_tip("weight", title="rows (weight)", format=",.6~g"),
        number_tip("share", format=".2%"),
    ]
    base = alt.Chart(matrix, width=side * n_classes, height=side * n_classes)
    layers = [base.mark_rect(stroke="white").encode(x=x, y=y, color=colour, tooltip=tooltip)]
    if is_numbered:
        shade = alt.condition("datum.share > 0.55", alt.value("white"), alt.value("black"))
        label = alt.Chart(matrix).mark_text(lineBreak="\n", baseline="middle", dy=-6, fontSize=12)
        layers.append(label.encode(x=x, y=y, text=alt.Text(field="text", type="nominal"), color=shade))
    is_right = pl.col("actual") == pl.col("predicted")
    right = float(matrix.select(pl.col("weight").filter(is_right).sum() / pl.col("weight").sum()).item())
    finding = f"{percentage(right)} of the rows are predicted right"
    wrong = matrix.filter(~is_right & (pl.col("weight") > 0))
    if len(wrong):
        actual, predicted = wrong.sort("weight", descending=True, maintain_order=True).row(0)[:2]
        finding += f"; most errors: {shortened(actual, 30)} as {shortened(predicted, 30)}"
    how = "Rows of the actual class by predicted class, with their share of the actual class: right on the diagonal."
    return headed(layered(*layers), finding, how, width=max(_SIDE, side * n_classes))


# --- probabilities and numbers ----------------------------------------------------------------------------------------


@chart(target=column, bins=whole(2, 100), strategy=word("quantile", "uniform"))
def calibration(
    model: Model, data: Any, target: str, *, weight: str | None = None, bins: int = 10,
    strategy: Literal["quantile", "uniform"] = "quantile",
) -> alt.VConcatChart:  # fmt: skip
    """Return a reliability diagram: the mean label by prediction.

    Predictions are calibrated if the points are on the diagonal. Bars are the mean label ± two standard errors. The
    chart below shows the distribution of the predictions. For more than two classes it has a curve for each of the
    first eight; for a regression it shows the mean label by prediction.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.predict`, with labels; preferably rows that the model was not trained on.
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
    require_one_target(model, "calibration")
    loss = model.ensemble.loss
    if loss.n_predictions > 1 and not loss.classes:
        raise ParameterError(
            f"calibration is for models of one output or of classes, not for {shown(loss.name)} with {loss.n_outputs} "
            "outputs"
        )
    rows = scored(model, data, target, weight, "probability" if loss.classes else "mean")
    class_scores = (
        [(class_name(c.name), (c.labels, c.scores, c.weights)) for c in rows.each_class(target)]
        if loss.classes
        else [("prediction", (rows.labels, rows.predictions, rows.weights))]
    )
    names = shown_classes([name for name, _ in class_scores])
    curves, histograms = [], []
    for name, (labels, scores, weights) in class_scores[: len(names)]:
        points = calibration_curve(labels, scores, weights, bins=bins, strategy=strategy)
        curves.append(points.with_columns(name=pl.lit(name)))
        histograms.append(prediction_histogram(scores, weights).with_columns(name=pl.lit(name)))
    error = 2 * pl.col("standard_error")
    curve = pl.concat(curves).with_columns(low=pl.col("mean_label") - error, high=pl.col("mean_label") + error)
    titles = ("mean probability", "share of the class") if loss.classes else ("mean prediction", f"mean {target}")
    low, high = (0.0, 1.0) if loss.classes else _ends(curve)
    scale = alt.Scale(domain=[low, high], nice=False, clamp=True)
    x = quantity(alt.X, "mean_prediction", titles[0], scale=scale)
    y = quantity(alt.Y, "mean_label", titles[1], scale=scale)
    ends = alt.Chart(pl.DataFrame({"mean_prediction": [low, high], "mean_label": [low, high]}))
    diagonal = ends.mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    colour, dash = colour_of("name", names, None), dash_of("name", names, None)
    bars = alt.Chart(curve.drop_nulls("standard_error")).mark_rule(strokeWidth=1.2)
    bars = bars.encode(x=x, y=quantity(alt.Y, "low", titles[1], scale=scale), y2=alt.Y2(field="high"), color=colour)
    tooltip = [
        number_tip("mean_prediction", title=titles[0], format=".4g"),
        number_tip("mean_label", title=titles[1], format=".4g"),
        number_tip("weight", title="rows (weight)", format=",.6~g"),
    ]
    line = alt.Chart(curve, width=_SIDE, height=_SIDE).mark_line(point={"size": 40, "filled": True}, strokeWidth=2)
    line = line.encode(x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip)
    # Below, bars of the distribution of one curve's predictions, or the outlines of several's.
    shares = alt.Chart(pl.concat(histograms), width=_SIDE, height=60)
    x = quantity(alt.X, "lower", f"distribution of the {titles[0].removeprefix('mean ')}", scale=scale)
    y = quantity(alt.Y, "share", "rows", zero=True, stack=None, axis=alt.Axis(tickCount=2, format="%"))
    if len(names) > 1:
        outline = shares.mark_line(interpolate="step-after", strokeWidth=1.5)
        distribution = outline.encode(x=x, y=y, color=colour, strokeDash=dash)
    else:
        filled = shares.mark_bar(orient="vertical", opacity=0.55)
        distribution = filled.encode(x=x, x2=alt.X2(field="upper"), y=y, color=colour)
    distance = (curve["mean_prediction"] - curve["mean_label"]).abs()
    apart = float(np.average(distance.to_numpy(), weights=curve["weight"].to_numpy()))
    finding = f"{titles[0].capitalize()} and {titles[1]} differ by {apart:.2g} on average"
    how = "On the diagonal predictions are calibrated. Bars: two standard errors. Below: where the predictions are."
    return headed(alt.vconcat(layered(diagonal, bars, line), distribution, spacing=8), finding, how, width=_SIDE)


def _ends(curve: pl.DataFrame) -> tuple[float, float]:
    """Return the lowest and the highest number on the two axes."""
    numbers = [value for name in ("mean_prediction", "mean_label", "low", "high") for value in curve[name].drop_nulls()]
    low, high = min(numbers), max(numbers)
    return (low - 0.5, high + 0.5) if low == high else (low, high)


@chart(target=column, bins=whole(2, 100), rows=whole(0, 4_000))
def residuals(
    model: Model, data: Any, target: str, *, weight: str | None = None, bins: int = 20, rows: int = 1_000
) -> alt.HConcatChart:
    """Return a chart of the residuals, label minus prediction, by prediction, with their distribution.

    The line is the median residual in bins of the prediction, the band the 10th to the 90th percentile, both from all
    rows. Dots are a sample of the rows, clipped to the central 99 %.

    Parameters
    ----------
    model
        A model with one output that is not a class.
    data
        As for `frameboost.Model.predict`, with labels.
    target, weight
        The columns of the labels and of weights.
    bins
        The maximum number of bins of the line, from 2 to 100.
    rows
        The maximum number of dots, at most 4,000; more rows are sampled by a hash of row position.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if a label is missing, or a weight is not a number of 0 or more.
    ParameterError
        If the model is a classifier, or has several outputs.
    """
    require_one_target(model, "residuals")
    loss = model.ensemble.loss
    if loss.classes or loss.n_predictions > 1:
        use = "; calibration and confusion are for classes" if loss.classes else ""
        raise ParameterError(
            f"residuals are of a regression with one output, not of {shown(loss.name)} with "
            f"{counted(loss.n_outputs, 'output')}{use}"
        )
    scores = scored(model, data, target, weight, "mean")
    columns = (scores.labels, scores.predictions, scores.weights)
    quantiles, histogram = residual_quantiles(*columns, bins=bins), residual_histogram(*columns)
    dots = pl.DataFrame({"prediction": scores.predictions, "residual": scores.labels - scores.predictions})
    low, high = (float(value) for value in np.quantile(dots["residual"].to_numpy(), (0.005, 0.995)))
    low, high = min(low, 0.0, float(quantiles["p10"].min())), max(high, 0.0, float(quantiles["p90"].max()))  # type: ignore[arg-type]
    scale = alt.Scale(domain=[low, high] if low < high else [low - 1, high + 1], nice=True)

    def y(field: str) -> alt.Y:
        title = f"residual: {target} minus prediction"
        encoded: alt.Y = quantity(alt.Y, field, title, scale=scale, axis=number_axis(titleLimit=HEIGHT))
        return encoded

    x = quantity(alt.X, "prediction", f"prediction of {target}")
    points = alt.Chart(sampled(dots, rows)).mark_circle(color=LIGHT, size=10, opacity=0.6, clip=True)
    zero = alt.Chart(pl.DataFrame({"residual": [0.0]})).mark_rule(color="black")
    band = alt.Chart(quantiles)
    if len(quantiles) == 1:  # the band of one bin alone has no width
        band = band.mark_rule(color=BLUE, opacity=0.5)
    else:
        band = band.mark_area(color=BLUE, opacity=0.25, clip=True)
    line = alt.Chart(quantiles, width=WIDTH, height=HEIGHT).mark_line(
        color=BLUE, strokeWidth=2.5, point=True, clip=True
    )
    tooltip = [number_tip(field, format=".4g") for field in ("prediction", "p10", "p50", "p90", "mean")]
    by_prediction = layered(
        points.encode(x=x, y=y("residual")), zero.encode(y=y("residual")),
        band.encode(x=x, y=y("p10"), y2=alt.Y2(field="p90")), line.encode(x=x, y=y("p50"), tooltip=tooltip),
    )  # fmt: skip
    bars = alt.Chart(histogram, width=90, height=HEIGHT).mark_bar(
        orient="horizontal", color=ORANGE, stroke=GREY, strokeWidth=0.3
    )
    distribution = bars.encode(
        x=quantity(alt.X, "share", "share of rows", zero=True, axis=alt.Axis(tickCount=2, format="%")),
        y=quantity(alt.Y, "lower", None, scale=scale, axis=alt.Axis(labels=False, ticks=False)),
        y2=alt.Y2(field="upper"),
        tooltip=[number_tip(field, format=".4g") for field in ("lower", "upper", "share")],
    )
    half = float(dots["residual"].abs().median())  # type: ignore[arg-type]
    how = "Line: the median residual; band: from the 10th to the 90th percentile; dots: a sample of rows."
    return headed(
        alt.hconcat(by_prediction, distribution, spacing=5), f"Half of the rows are within {half:.3g} of the label", how
    )

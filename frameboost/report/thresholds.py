"""Benefits and costs of classification thresholds, for models of two classes."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost import plots
from frameboost.checks.messages import shortened
from frameboost.model.threshold import chosen_threshold
from frameboost.plots.theme import (
    GREY,
    HEIGHT,
    WIDTH,
    colour_of,
    dash_of,
    headed,
    layered,
    name_tip,
    number_tip,
    quantity,
)
from frameboost.report.material import Material
from frameboost.report.page import Chart, Raw, Section, note, number, paragraph, percent, table

__all__ = ["decisions", "thresholds"]

_USUAL = tuple(k / 10 for k in range(1, 10))
_CURVE = np.linspace(0.0, 1.0, 101)


def thresholds(material: Material) -> Section | None:
    """Return the section of thresholds and costs, None unless two classes have probabilities and labels."""
    loss = material.ensemble.loss
    if not material.one_target or loss.classes != 2 or loss.n_outputs != 1 or not loss.has_probabilities:
        return None
    scored = material.predictions
    if len(np.unique(scored.labels)) < 2:
        return None
    false_positive, false_negative = material.costs
    costs_of = {"false_positive": false_positive, "false_negative": false_negative}
    rows = pl.DataFrame({"label": scored.labels, "prediction": scored.predictions, "weight": scored.weights})
    own = loss.threshold
    names: dict[float, list[str]] = {usual: [] for usual in _USUAL}
    for name, threshold in (
        ("the model", own),
        ("best F1", chosen_threshold("f1", rows)),
        ("cheapest", chosen_threshold(costs_of, rows)),
    ):
        names.setdefault(threshold, []).append(name)
    of_each = decisions(scored.labels, scored.predictions, scored.weights, sorted(names), material.costs)
    shown = [
        (
            Raw(f"<strong>{number(row['threshold'])}</strong>")
            if row["threshold"] == own
            else number(row["threshold"]),
            ", ".join(names[row["threshold"]]),
            percent(row["share"]),
            *(number(row[name], 3) for name in ("precision", "recall", "f1")),
            *(number(row[name]) for name in ("false_positives", "false_negatives", "cost")),
        )
        for row in of_each.rows(named=True)
    ]
    header = ("threshold", "", "positive", "precision", "recall", "F1", "false positives", "false negatives", "cost")
    positive = shortened(str(material.ensemble.labels[1] if material.ensemble.labels else 1), 40)
    text = (
        f"A row is predicted {positive} if its probability is above the threshold. A false positive costs "
        f"{false_positive:g}, a false negative {false_negative:g}; cost is the mean over all rows."
    )
    how = "The cheapest threshold and that of the best F1 are chosen on these rows, which flatters them a little."
    curves = decisions(scored.labels, scored.predictions, scored.weights, _CURVE.tolist(), material.costs)
    at_own = of_each.row(by_predicate=pl.col("threshold") == own, named=True)
    costs = plots.threshold_costs(
        material.model, scored, material.target, false_positive=false_positive, false_negative=false_negative
    )
    return Section("thresholds", "Thresholds and costs", [
        paragraph(text), table(header, shown, numbers=(0, 2, 3, 4, 5, 6, 7, 8)), note(how),
        Chart(_curves(curves, at_own), "Precision and recall by threshold"), Chart(costs, "Cost by threshold"),
    ])  # fmt: skip


def decisions(
    labels: npt.NDArray[np.float64], scores: npt.NDArray[np.float64], weights: npt.NDArray[np.float64],
    at: Sequence[float], costs: tuple[float, float],
) -> pl.DataFrame:  # fmt: skip
    """Return the outcomes of classification by each threshold; a row is positive if its score is above it.

    Parameters
    ----------
    labels, scores, weights
        Float64 of shape (rows,): labels 0 and 1, weights above 0.
    at
        The thresholds.
    costs
        The costs of a false positive and of a false negative.

    Returns
    -------
    polars.DataFrame
        ``threshold``, ``share`` (of rows predicted positive), ``precision``, ``recall``, ``f1`` (null for 0 / 0),
        ``false_positives``, ``false_negatives`` (sums of weights), ``cost`` (the mean over the rows).

    Examples
    --------
    >>> import numpy as np
    >>> labels, scores = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.1, 0.4, 0.8, 0.6])
    >>> decisions(labels, scores, np.ones(4), [0.5], (1.0, 5.0)).rows()
    [(0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.5)]
    """
    total, positives = float(weights.sum()), float(weights[labels > 0].sum())
    rows = []
    for threshold in at:
        is_positive = scores > threshold
        taken = float(weights[is_positive].sum())
        right = float(weights[is_positive & (labels > 0)].sum())
        missed = positives - right
        rows.append((
            threshold, taken / total, right / taken if taken else None, right / positives if positives else None,
            2 * right / (taken + positives) if taken + positives else None, taken - right, missed,
            ((taken - right) * costs[0] + missed * costs[1]) / total,
        ))  # fmt: skip
    columns = ("threshold", "share", "precision", "recall", "f1", "false_positives", "false_negatives", "cost")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Float64), orient="row")


def _curves(curves: pl.DataFrame, at_own: dict[str, float | None]) -> alt.LayerChart:
    """Return the chart of precision, recall and the share of positive rows, with the threshold of the model."""
    parts = {"precision": "precision", "recall": "recall", "share": "rows predicted positive"}
    lines = pl.concat([
        curves.select("threshold", value=pl.col(field), name=pl.lit(name)) for field, name in parts.items()
    ]).drop_nulls()  # fmt: skip
    unit = alt.Scale(domain=[0, 1])
    x = quantity(alt.X, "threshold", "threshold of the probability", scale=unit)
    y = quantity(alt.Y, "value", "share", scale=unit)
    names = list(parts.values())
    tooltip = [name_tip("name"), number_tip("threshold", format=".3g"), number_tip("value", format=".3g")]
    drawn = alt.Chart(lines, width=WIDTH, height=HEIGHT).mark_line(strokeWidth=2).encode(
        x=x, y=y, color=colour_of("name", names, None), strokeDash=dash_of("name", names, None), tooltip=tooltip
    )  # fmt: skip
    own = alt.Chart(pl.DataFrame({"threshold": [at_own["threshold"]]}))
    rule = own.mark_rule(color=GREY, strokeDash=[4, 4]).encode(x=x)
    found = ", ".join(f"{name} {number(at_own[name], 3)}" for name in ("precision", "recall"))
    return headed(layered(rule, drawn), f"At the model's threshold, {number(at_own['threshold'])}: {found}",
                  "Dashed: the threshold of the model. A higher one gives fewer, surer positives.")  # fmt: skip

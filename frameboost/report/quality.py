"""How good the model is: the metrics that fit the objective, with intervals, and the charts that belong to them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from frameboost import plots
from frameboost.checks.messages import counted, shortened
from frameboost.metrics.built_in import larger_is_better
from frameboost.report.markup import Chart, Raw, Section, escaped, interval, number, paragraph, table
from frameboost.report.material import Material

__all__ = ["quality"]

_MAX_CLASSES = 30  # of a confusion matrix
_SCORES = 4
_WORDS: Mapping[str, str] = {
    "rmse": "root of the mean squared error",
    "rmsle": "root of the mean squared difference of logarithms",
    "mae": "mean absolute error",
    "mape": "mean absolute error as a share of the label",
    "mphe": "mean pseudo-Huber error",
    "r2": "share of the labels' variance that is explained (R²)",
    "logloss": "mean negative log-likelihood of the label",
    "mlogloss": "mean negative log-likelihood of the label",
    "error": "share of rows taken for the wrong class",
    "merror": "share of rows taken for the wrong class",
    "auc": "area under the ROC curve",
    "aucpr": "area under the curve of precision and recall",
    "poisson-nloglik": "mean negative log-likelihood of Poisson's distribution",
    "gamma-nloglik": "mean negative log-likelihood of the gamma distribution",
    "gamma-deviance": "deviance of the gamma distribution",
    "tweedie-nloglik": "mean negative log-likelihood of Tweedie's distribution",
    "quantile": "mean pinball loss",
    "cox-nloglik": "negative partial log-likelihood",
    "aft-nloglik": "mean negative log-likelihood of the accelerated failure time",
    "interval-regression-accuracy": "share of predictions within the label's interval",
    "ndcg": "normalised discounted cumulative gain",
    "map": "mean average precision",
    "pre": "precision",
}


def quality(material: Material) -> Section | None:
    """Return the section, None without labels."""
    if material.evaluation is None:
        return None
    parts: list[Raw | Chart] = [_scores(material), _metrics(material), *_intervals(material), *_charts(material)]
    return Section("quality", "How good it is", parts)


def _scores(material: Material) -> Raw:
    """Return the first metrics in large numbers."""
    found = []
    for name, value in list(material.values.items())[:_SCORES]:
        found.append(
            f'<div><div class="name">{escaped(shortened(name, 40))}</div><div class="value">{number(value)}</div>'
            f'<div class="interval">{interval(*material.intervals[name])}</div></div>'
        )
    return Raw(f'<div class="scores">{"".join(found)}</div>')


def _metrics(material: Material) -> Raw:
    without = material.values_without_trees
    rows = []
    for name, value in material.values.items():
        better = "higher" if name == "r2" or larger_is_better(name) else "lower"
        words = _WORDS.get(name.partition("@")[0].removesuffix("-"), "")
        row = [name, number(value), interval(*material.intervals[name])]
        rows.append([*row, *([number(without[name])] if without else []), better, words])
    header = ["metric", "value", "95 % interval", *(["without trees"] if without else []), "better", ""]
    numbers = (1, 2, 3) if without else (1, 2)
    unit = material.wanted.groups or material.roles.get("qid")
    drawn = "rows" if unit is None else f"the values of {unit}"
    text = f"{counted(material.n_rows, 'row')}. Intervals are by the bootstrap over {drawn}"
    text += "; without trees, every row has the base margin as prediction." if without else "."
    return Raw(table(header, rows, numbers=numbers) + paragraph(text, kind="note"))


def _intervals(material: Material) -> list[Raw]:
    """Return how many labels the model's intervals hold, if it has any."""
    if material.ensemble.interval is None or material.evaluation is None:
        return []
    coverage, held, width = material.evaluation.interval.row(0)
    text = (
        f"The model's intervals promise to hold {100 * coverage:g} % of the labels, and hold {100 * held:.3g} % of "
        f"these; their mean width is {number(width)}."
    )
    return [Raw(paragraph(text))]


def _charts(material: Material) -> list[Chart]:
    loss = material.ensemble.loss
    if not material.one_target or material.is_ranking:
        return []
    if not loss.classes and not material.predicts_labels:
        return []
    scored = (material.model, material.predictions, material.target)
    if not loss.classes:
        caption = "Dots are a sample of rows, the line is the median residual, the band holds four of five rows."
        return [Chart(plots.residuals(*scored), caption, "Residuals")]
    found = []
    if len(np.unique(material.predictions.labels)) > 1:
        found = [
            Chart(
                plots.roc(*scored), "Each threshold of the score is a point; dashed is a score without information.",
                "ROC",
            ),
            Chart(plots.precision_recall(*scored), "Dashed is the share of the class.", "Precision and recall"),
            Chart(plots.gains(*scored), "What is found among the rows of the highest scores.", "Gains"),
        ]  # fmt: skip
    if 2 <= loss.classes <= _MAX_CLASSES:
        caption = "Rows, and their share of the actual class, by the most probable class."
        found.append(
            Chart(plots.confusion(material.model, material.predicted("class"), material.target), caption, "Confusion")
        )
    return found

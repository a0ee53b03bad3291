"""Curves over the threshold of a score: ROC, precision and recall, costs, gains and lift.

All derive from the same counts: with threshold t, rows with a score of t or more are predicted positive.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.errors import DataError
from frameboost.evaluation.weighted import weights_of

__all__ = [
    "average_precision", "gains_curve", "precision_recall_curve", "roc_auc", "roc_curve", "threshold_costs",
]  # fmt: skip


def roc_curve(labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> pl.DataFrame:
    """Return the receiver operating characteristic.

    Parameters
    ----------
    labels
        0 or 1 for each row.
    scores
        Scores, higher for more likely rows.
    weights
        Row weights, above 0; by default 1.

    Returns
    -------
    polars.DataFrame
        ``threshold`` (descending, first infinity), ``false_positive_rate``, ``true_positive_rate``; one row per
        distinct score.

    Raises
    ------
    DataError
        If all labels are equal.

    Examples
    --------
    >>> roc_curve([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.9]).rows()
    [(inf, 0.0, 0.0), (0.9, 0.0, 0.5), (0.4, 0.5, 1.0), (0.1, 1.0, 1.0)]
    """
    threshold, positive, negative = _counts(labels, scores, weights)
    _require(positive[-1] > 0 and negative[-1] > 0, "labels of both classes, 0 and 1")
    return pl.DataFrame({
        "threshold": threshold,
        "false_positive_rate": negative / negative[-1],
        "true_positive_rate": positive / positive[-1],
    })  # fmt: skip


def roc_auc(curve: pl.DataFrame) -> float:
    """Return the area under a curve of `roc_curve`, by trapezoids.

    >>> roc_auc(roc_curve([0, 1, 0, 1], [0.1, 0.4, 0.4, 0.9]))
    0.875
    """
    return float(np.trapezoid(curve["true_positive_rate"].to_numpy(), curve["false_positive_rate"].to_numpy()))


def precision_recall_curve(
    labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None
) -> pl.DataFrame:
    """Return precision and recall for each distinct score as threshold.

    Arguments are as in `roc_curve`.

    Returns
    -------
    polars.DataFrame
        ``threshold`` (descending), ``precision``, ``recall``.

    Raises
    ------
    DataError
        If no label is 1.

    Examples
    --------
    >>> precision_recall_curve([0, 1, 0, 1], [0.1, 0.4, 0.3, 0.9]).rows()
    [(0.9, 1.0, 0.5), (0.4, 1.0, 1.0), (0.3, 0.6666666666666666, 1.0), (0.1, 0.5, 1.0)]
    """
    threshold, positive, negative = (values[1:] for values in _counts(labels, scores, weights))
    _require(positive[-1] > 0, "a label that is 1")
    return pl.DataFrame({
        "threshold": threshold,
        "precision": positive / (positive + negative),
        "recall": positive / positive[-1],
    })  # fmt: skip


def average_precision(curve: pl.DataFrame) -> float:
    """Return the average precision of a curve of `precision_recall_curve`: the mean precision over the steps of recall.

    >>> average_precision(precision_recall_curve([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.9]))
    0.8333333333333333
    """
    steps = np.diff(curve["recall"].to_numpy(), prepend=0.0)
    return float(np.sum(steps * curve["precision"].to_numpy()))


def threshold_costs(
    labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None,
    *, false_positive: float = 1.0, false_negative: float = 1.0,
) -> pl.DataFrame:  # fmt: skip
    """Return the cost of errors with each distinct score as threshold.

    Parameters
    ----------
    labels, scores, weights
        As in `roc_curve`.
    false_positive, false_negative
        The costs of a false positive and of a false negative.

    Returns
    -------
    polars.DataFrame
        ``threshold`` (descending, first infinity: no row is predicted positive), ``false_positives`` and
        ``false_negatives`` (sums of weights), ``cost`` (the weighted mean per row).

    Examples
    --------
    A missed positive costs 5, so it pays to take all three for positive:

    >>> threshold_costs([0, 1, 1], [0.5, 0.2, 0.9], false_negative=5).rows()
    [(inf, 0.0, 2.0, 3.3333333333333335), (0.9, 0.0, 1.0, 1.6666666666666667), (0.5, 1.0, 1.0, 2.0),
     (0.2, 1.0, 0.0, 0.3333333333333333)]
    """
    threshold, positive, negative = _counts(labels, scores, weights)
    missed = positive[-1] - positive
    cost = (negative * false_positive + missed * false_negative) / (positive[-1] + negative[-1])
    return pl.DataFrame({"threshold": threshold, "false_positives": negative, "false_negatives": missed, "cost": cost})


def gains_curve(labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> pl.DataFrame:
    """Return the share of positives among the rows with the highest scores.

    Arguments are as in `roc_curve`.

    Returns
    -------
    polars.DataFrame
        ``threshold`` (descending, first infinity), ``share_of_rows``, ``share_of_positives``, and ``lift``, their ratio
        (null for no rows).

    Raises
    ------
    DataError
        If no label is 1.

    Examples
    --------
    >>> gains_curve([0, 0, 0, 1], [0.1, 0.4, 0.3, 0.9]).rows()[:3]
    [(inf, 0.0, 0.0, None), (0.9, 0.25, 1.0, 4.0), (0.4, 0.5, 1.0, 2.0)]
    """
    threshold, positive, negative = _counts(labels, scores, weights)
    _require(positive[-1] > 0, "a label that is 1")
    rows = (positive + negative) / (positive[-1] + negative[-1])
    gained = positive / positive[-1]
    lift = [None, *(gained[1:] / rows[1:]).tolist()]
    columns = {"threshold": threshold, "share_of_rows": rows, "share_of_positives": gained, "lift": lift}
    return pl.DataFrame(columns, schema_overrides={"lift": pl.Float64})


def _counts(
    labels: npt.ArrayLike, scores: npt.ArrayLike, weights: npt.ArrayLike | None
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the distinct scores, descending after infinity, and the weights of labels 1 and 0 from each score up."""
    label, score = np.asarray(labels, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    weight = weights_of(weights, len(label))
    _require(len(label) > 0, "at least one row")
    order = np.argsort(-score, kind="stable")
    label, score, weight = label[order], score[order], weight[order]
    last = np.append(np.flatnonzero(np.diff(score)), len(score) - 1)  # the last row of each distinct score
    positive, negative = np.cumsum(weight * label)[last], np.cumsum(weight * (1.0 - label))[last]
    return np.append(math.inf, score[last]), np.append(0.0, positive), np.append(0.0, negative)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise DataError(f"the curve needs {what}")

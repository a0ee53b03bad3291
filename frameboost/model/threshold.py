"""The threshold of the second of two classes, chosen by what is gained or lost on rows with labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.sources import LocalSource
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.evaluation import score_counts
from frameboost.evaluation.threshold_curves import gains_curve, precision_recall_curve, threshold_costs
from frameboost.losses.classes import check_decides, with_threshold
from frameboost.parameters.parameters import threshold_or_rule
from frameboost.prediction.predictor import Predictor

__all__ = ["chosen_threshold", "decided", "scores_of"]

_MOST_DIGITS = 17


def decided(
    ensemble: Ensemble, threshold: object, source: LocalSource | None = None, roles: Mapping[str, str] | None = None
) -> Ensemble:
    """Return the ensemble with a threshold, or with one that is chosen on the rows of a source.

    Parameters
    ----------
    ensemble
        Of two classes.
    threshold
        A number, or how to choose it: see `Parameters`.
    source, roles
        The rows, with labels as numbers, and their columns by role.

    Raises
    ------
    ParameterError
        If the threshold is neither, the ensemble has no probability of the second of two classes, or there are no rows.
    DataError
        If no row is of one of the classes.
    """
    chosen = threshold_or_rule(threshold)
    check_decides(ensemble.loss)
    if isinstance(chosen, float | None):
        number = 0.5 if chosen is None else chosen
    elif source is None or roles is None:
        raise ParameterError(f"threshold={shown(threshold)} is chosen on rows with labels; give data and target")
    else:
        number = chosen_threshold(chosen, scores_of(ensemble, source, roles))
    parameters = {**ensemble.parameters, "threshold": number}
    return replace(ensemble, loss=with_threshold(ensemble.loss, number), parameters=parameters)


def scores_of(ensemble: Ensemble, source: LocalSource, roles: Mapping[str, str]) -> pl.DataFrame:
    """Return ``label``, ``score``, the probability of the second class, and ``weight``, of rows that count."""
    counts = score_counts(Predictor(ensemble).of_numbers(), source, roles, [], "probability")
    return counts.filter(pl.col("weight") > 0)


def chosen_threshold(rule: object, rows: pl.DataFrame) -> float:
    """Return the threshold that a rule chooses, in few digits, between two probabilities of the rows.

    Parameters
    ----------
    rule
        As `Parameters` has it.
    rows
        ``label``, ``score`` and ``weight``, float64.

    Examples
    --------
    >>> rows = pl.DataFrame({"label": [0.0, 0.0, 1.0, 1.0], "score": [0.1, 0.4, 0.3, 0.9], "weight": [1.0] * 4})
    >>> chosen_threshold("f1", rows), chosen_threshold({"share": 0.25}, rows)
    (0.2, 0.7)
    >>> chosen_threshold({"false_positive": 9.0, "false_negative": 1.0}, rows)
    0.7
    """
    labels, scores, weights = (rows[name].to_numpy() for name in ("label", "score", "weight"))
    if rule == "f1":
        curve = precision_recall_curve(labels, scores, weights)
        precision, recall = curve["precision"].to_numpy(), curve["recall"].to_numpy()
        sums = precision + recall
        loss = -np.divide(2 * precision * recall, sums, out=np.zeros_like(sums), where=sums > 0)
    elif isinstance(rule, Mapping) and "share" in rule:
        curve = gains_curve(labels, scores, weights)
        loss = np.abs(curve["share_of_rows"].to_numpy() - rule["share"])
    elif isinstance(rule, Mapping):
        curve = threshold_costs(labels, scores, weights, **rule)
        loss = curve["cost"].to_numpy()
    else:
        raise DataError(f"there is no threshold by {shown(rule)}")
    least = float(curve["threshold"][int(loss.argmin())])  # from which on rows are of the second class
    distinct = np.unique(scores)
    at = int(np.searchsorted(distinct, least))
    below = float(distinct[at - 1]) if at else 0.0
    return _between(below, min(least, 1.0) if at < len(distinct) else 1.0)


def _between(low: float, high: float) -> float:
    """Return a number of few digits that is above or at ``low`` and below ``high``, near their middle."""
    middle = low + (high - low) / 2
    for digits in range(1, _MOST_DIGITS):
        number = round(middle, digits - 1 - math.floor(math.log10(middle))) if middle > 0 else 0.0
        if max(low, 0.0) < number < high and number < 1.0:
            return number
    return min(max(middle, low, 1e-300), math.nextafter(1.0, 0.0))

"""Calibration of a trained model: a link from margins to probabilities that is fitted on labelled rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import advice, shown, warn
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError, ParameterError
from frameboost.evaluation.scored_rows import score_rows
from frameboost.expressions.expression import Expression
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.workers import require_numba

__all__ = ["METHODS", "calibrated_ensemble", "calibration_link"]

METHODS = ("platt", "isotonic")

Floats = npt.NDArray[np.float64]

# Of more knots than this, evenly spaced ones are used, so that the SQL stays short.
_MAX_KNOTS = 256
_STEPS, _PRECISION = 100, 1e-12


def calibrated_ensemble(predictor: Predictor, data: Any, target: str, weight: str | None, method: str) -> Ensemble:
    """Return the ensemble with a calibration fitted to rows with labels, as `Model.calibrate` describes it.

    Raises
    ------
    ParameterError
        If the ensemble is not for two classes, or has more than one margin.
    DataError
        If a column is not there, a label is not 0 or 1, or a weight is not a number of 0 or more.
    """
    ensemble = predictor.ensemble
    if ensemble.loss.classes != 2 or ensemble.n_outputs > 1:
        raise ParameterError(
            "calibrate is for models of two classes with one margin, not for "
            f"{shown(ensemble.loss.name)} with {ensemble.n_outputs}"
        )
    rows = score_rows(predictor, data, target, weight, "margin")
    rows.check_classes(2, target)
    rises = bool(ensemble.parameters.get("monotone_constraints"))
    link = calibration_link(rows.predictions, rows.labels, rows.weights, method, rises=rises)
    if (threshold := ensemble.parameters.get("threshold")) is not None:
        anew = advice("; choose it anew: model.with_threshold(...)")
        warn(f"the threshold {threshold:g} was chosen before calibration, and now applies to other probabilities{anew}")
    # Predictions of rows that models held out are not calibrated.
    training = replace(ensemble.training, out_of_fold="")
    return replace(ensemble.changed(calibration=link), training=training)


def calibration_link(
    margins: Floats, labels: Floats, weights: Floats, method: str, *, rises: bool = False
) -> Expression:
    """Return a link, an expression of SQL, from ``margin`` to the probability of label 1, fitted to held-out rows.

    Parameters
    ----------
    margins, labels, weights
        float64 (rows,): margins of the model, labels 0 or 1, weights greater than 0.
    method
        ``"platt"`` or ``"isotonic"``.
    rises
        Whether the probability must not fall with the margin, as that of a model with monotone constraints.

    Raises
    ------
    DataError
        If the labels are all the same.
    """
    if labels.min() == labels.max():
        raise DataError(f"every label to calibrate on is {labels[0]:g}; both 0 and 1 must occur")
    if method == "platt":
        return _platt(margins, labels, weights, rises=rises)
    return _isotonic(margins, labels, weights)


def _platt(margins: Floats, labels: Floats, weights: Floats, *, rises: bool) -> Expression:
    """Return 1 / (1 + e^−(a·margin + b)), by Newton's method with Platt's smoothed targets (Platt 1999)."""
    positives = weights[labels == 1].sum()
    negatives = weights.sum() - positives
    target = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (negatives + 2))
    design = np.column_stack([margins, np.ones_like(margins)])
    coefficients = np.array([0.0, np.log((positives + 1) / (negatives + 1))])

    def cost(at: Floats) -> float:
        score = design @ at
        return float((weights * (np.logaddexp(0.0, score) - target * score)).sum())

    for _ in range(_STEPS):
        probability = 1.0 / (1.0 + np.exp(-(design @ coefficients)))
        gradient = design.T @ (weights * (probability - target))
        curvature = weights * probability * (1.0 - probability)
        hessian = (design.T * curvature) @ design + _PRECISION * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _PRECISION and cost(coefficients - size * step) > cost(coefficients):
            size /= 2
        coefficients = coefficients - size * step
        if np.abs(size * step).max() <= _PRECISION * (1.0 + np.abs(coefficients).max()):
            break
    a, b = map(float, coefficients)
    if a < 0.0:
        instead = "so that it falls with the margin"
        if rises:
            a, b = 0.0, float(np.log((weights * target).sum() / (weights * (1.0 - target)).sum()))
            instead = "the same for all, as the constraints of the model would be turned round otherwise"
        warn(f"the margins rank these rows in reverse; the probability is {instead}")
    return Expression(f"1 / (1 + EXP(-({a!r} * margin + {b!r})))", ("margin",))


def _isotonic(margins: Floats, labels: Floats, weights: Floats) -> Expression:
    """Return the isotonic regression of the labels, linear between its blocks (Zadrozny & Elkan 2002)."""
    order = np.argsort(margins, kind="stable")
    knots, values = _blocks(*_pooled(margins[order], labels[order], weights[order]))
    return Expression(_piecewise(knots.tolist(), values.tolist()), ("margin",))


def _pooled(margins: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the distinct margins in ascending order, and the mean label and weight of each."""
    starts = np.flatnonzero(np.concatenate([[True], margins[1:] != margins[:-1]]))
    weight = np.add.reduceat(weights, starts)
    return margins[starts], np.add.reduceat(labels * weights, starts) / weight, weight


def _blocks(margins: Floats, means: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the isotonic blocks and their values."""
    require_numba('method="isotonic"')
    from frameboost.training.calibration_kernels import pool_adjacent_violators

    starts, values = pool_adjacent_violators(means, weights)
    ends = np.unique(np.concatenate([starts[:-1], starts[1:] - 1]))
    if len(ends) > _MAX_KNOTS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _MAX_KNOTS).round().astype(np.int64))]
    return margins[ends], np.repeat(values, np.diff(starts))[ends]


def _piecewise(knots: list[float], values: list[float]) -> str:
    """Return a binary search for the margin's interval as nested CASE, of depth log2(number of knots)."""
    if len(knots) == 1:
        return repr(values[0])

    def between(low: int, high: int) -> str:
        if high - low == 1:
            slope = (values[high] - values[low]) / (knots[high] - knots[low])
            return f"{values[low]!r}" if slope == 0 else f"{values[low]!r} + {slope!r} * (margin - {knots[low]!r})"
        middle = (low + high) // 2
        return f"CASE WHEN margin < {knots[middle]!r} THEN {between(low, middle)} ELSE {between(middle, high)} END"

    inside = between(0, len(knots) - 1)
    return (
        f"CASE WHEN margin <= {knots[0]!r} THEN {values[0]!r} WHEN margin >= {knots[-1]!r} THEN {values[-1]!r} "
        f"ELSE {inside} END"
    )

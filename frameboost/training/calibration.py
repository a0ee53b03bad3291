"""Calibration: from margins to probabilities that come true, as a SQL expression that the model carries along."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from frameboost.errors import DataError
from frameboost.expressions.expression import Expression

__all__ = ["METHODS", "calibrated"]

Floats = npt.NDArray[np.float64]

# More knots than this make the SQL long and say nothing more; of more, as many are kept, evenly spaced.
_MOST_KNOTS = 256
_STEPS, _PRECISION = 100, 1e-12


def calibrated(margins: Floats, labels: Floats, weights: Floats, method: str) -> Expression:
    """Return a link from ``margin`` to the probability of label 1, fitted to rows that the model has not seen.

    Parameters
    ----------
    margins, labels, weights
        float64 (rows,): what the model says, 0 or 1, and weights greater than 0.
    method
        ``"platt"`` or ``"isotonic"``.

    Raises
    ------
    DataError
        If the labels are all the same.
    """
    if labels.min() == labels.max():
        raise DataError(f"every label to calibrate on is {labels[0]:g}; both 0 and 1 must occur")
    return METHODS[method](margins, labels, weights)


def _platt(margins: Floats, labels: Floats, weights: Floats) -> Expression:
    """Return 1 / (1 + e^−(a margin + b)) (Platt 1999, with his targets a little off 0 and 1; Newton's method)."""
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
    return Expression(f"1 / (1 + EXP(-({a!r} * margin + {b!r})))", ("margin",))


def _isotonic(margins: Floats, labels: Floats, weights: Floats) -> Expression:
    """Return the non-decreasing function nearest to the labels, straight between its blocks (Zadrozny & Elkan 2002)."""
    order = np.argsort(margins, kind="stable")
    knots, values = _blocks(*_pooled(margins[order], labels[order], weights[order]))
    return Expression(_piecewise(knots.tolist(), values.tolist()), ("margin",))


def _pooled(margins: Floats, labels: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return distinct margins in ascending order, with the mean label and the weight of each."""
    starts = np.flatnonzero(np.concatenate([[True], margins[1:] != margins[:-1]]))
    weight = np.add.reduceat(weights, starts)
    return margins[starts], np.add.reduceat(labels * weights, starts) / weight, weight


def _blocks(margins: Floats, means: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the isotonic blocks and their values."""
    from frameboost.training.calibration_kernels import pool_adjacent_violators  # which needs numba

    starts, values = pool_adjacent_violators(means, weights)
    ends = np.unique(np.concatenate([starts[:-1], starts[1:] - 1]))
    if len(ends) > _MOST_KNOTS:
        ends = ends[np.unique(np.linspace(0, len(ends) - 1, _MOST_KNOTS).round().astype(np.int64))]
    return margins[ends], np.repeat(values, np.diff(starts))[ends]


def _piecewise(knots: list[float], values: list[float]) -> str:
    """Return a CASE over halves of the knots, so that it is as deep as their number has digits in base 2."""
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


METHODS: dict[str, Callable[[Floats, Floats, Floats], Expression]] = {"platt": _platt, "isotonic": _isotonic}

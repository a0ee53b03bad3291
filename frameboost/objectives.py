"""Losses, each written once, as SQL over ``label`` and ``margin``.

The second-order objective needs of a loss l(y, ŷ) the gradient g = ∂l/∂ŷ and the hessian h = ∂²l/∂ŷ² at the current
margin ŷ (Chen & Guestrin 2016, section 2.2). Row weights multiply both and are not part of the expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from frameboost.errors import ParameterError
from frameboost.expressions import Expression

__all__ = ["Metric", "Objective", "get_objective"]

_ROW = ("label", "margin")

# XGBoost's bound on how near to 0 or 1 the logistic loss may start; a weighted mean label may even round to them.
_NEAREST = 1e-6


@dataclass(frozen=True)
class Metric:
    """A number that says how well margins fit labels: ``of_mean(weighted mean of loss)``."""

    name: str
    loss: Expression
    of_mean: Callable[[float], float]


@dataclass(frozen=True)
class Objective:
    """A loss, as SQL.

    Attributes
    ----------
    name
        XGBoost's name for it.
    gradient, hessian
        Expressions over ``label`` and ``margin``.
    link
        Expression over ``margin``: from a margin to a prediction on the scale of the target.
    metric
        What is reported while training.
    margin_of
        From a prediction on the scale of the target to a margin, for the base score.
    label_condition, label_requirement
        An expression that holds for every valid label, and the same in words for the error message.
    score_range
        The open interval in which ``base_score`` must lie.
    """

    name: str
    gradient: Expression
    hessian: Expression
    link: Expression
    metric: Metric
    margin_of: Callable[[float], float]
    label_condition: Expression | None = None
    label_requirement: str = ""
    score_range: tuple[float, float] = (-math.inf, math.inf)


def _logit(probability: float) -> float:
    kept = min(max(probability, _NEAREST), 1.0 - _NEAREST)
    return -math.log(1.0 / kept - 1.0)


_SIGMOID = "1 / (1 + EXP(-margin))"

_OBJECTIVES = (
    Objective(
        name="reg:squarederror",  # l = ½(ŷ − y)²
        gradient=Expression("margin - label", _ROW),
        hessian=Expression("1", _ROW),
        link=Expression("margin", ("margin",)),
        metric=Metric("rmse", Expression("(margin - label) * (margin - label)", _ROW), math.sqrt),
        margin_of=float,
    ),
    Objective(
        name="binary:logistic",  # l = −y ln p − (1 − y) ln(1 − p), p = 1 / (1 + e^−ŷ)
        gradient=Expression(f"{_SIGMOID} - label", _ROW),
        # XGBoost's floor: where p is 0 or 1 in floating point, a leaf must not divide by zero.
        hessian=Expression(f"GREATEST({_SIGMOID} * (1 - {_SIGMOID}), 1e-16)", _ROW),
        link=Expression(_SIGMOID, ("margin",)),
        # ln(1 + e^ŷ) − yŷ, kept from overflowing for large ŷ.
        metric=Metric(
            "logloss",
            Expression("GREATEST(margin, 0) - margin * label + LN(1 + EXP(-ABS(margin)))", _ROW),
            float,
        ),
        margin_of=_logit,
        label_condition=Expression("label = 0 OR label = 1", _ROW),
        label_requirement="0 and 1 (or false and true)",
        score_range=(0.0, 1.0),
    ),
)
_BY_NAME = {objective.name: objective for objective in _OBJECTIVES}


def get_objective(name: str) -> Objective:
    """Return the objective of that name, or raise `ParameterError` that lists them."""
    try:
        return _BY_NAME[name]
    except (KeyError, TypeError):
        listed = ", ".join(map(repr, _BY_NAME))
        raise ParameterError(f"objective must be one of {listed}, not {name!r}") from None

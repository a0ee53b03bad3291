"""The losses by XGBoost's names, each a few SQL expressions: `LOSSES`, the table at the end of this file.

To add a loss, write a function that returns a `Loss`, and enter it in `LOSSES`. The function's arguments are those
training parameters that the loss reads. The tests of losses take their rows from ``tests/support/objectives.py``: add a
case there. Engines, dialects and the model file need nothing.

Conventions of the formulas:

- A comment gives the loss l(y, ŷ) of one row; y is ``label``, ŷ is ``margin``, or ``margin_0``, ``margin_1``, ... .
- Gradient and hessian are ∂l/∂ŷ and ∂²l/∂ŷ², without the row's weight. Where XGBoost's hessian is not ∂²l/∂ŷ², or has a
  floor, so has the one here.
- An expression may use what `frameboost.expressions.expression.Expression` allows. Constants are put in by ``!r``,
  which keeps every bit.
- Subexpressions that several outputs share, and sums over rows, are ``terms``. A term may use those before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from inspect import signature
from typing import Any

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.aft import aft_loss
from frameboost.losses.distributions import lognormal_loss, negbinomial_loss, normal_loss
from frameboost.losses.loss import (
    Derivatives,
    Loss,
    RunningSum,
    Start,
    Term,
    argmax_class,
    largest_margin,
    margin_names,
)
from frameboost.losses.ranking import ranking_loss

__all__ = ["LOSSES", "get_loss"]

# XGBoost keeps the start of the logistic loss this far from 0 and 1; a weighted mean label may even round to them.
_NEAREST = 1e-6
# Metrics of counts have the same floor.
_SMALLEST_MEAN = 1e-16
# Terms in a chain of additions, each in parentheses of its own in SQL. SQLite's parser runs out of its stack at 90 of
# them, sqlglot's at 493.
_LONGEST_CHAIN = 64


def get_loss(name: str, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss of that name, made with those of the training ``parameters`` that it reads.

    Raises
    ------
    ParameterError
        If there is no loss of that name; the message lists all names.
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise ParameterError(
            f"objective must be an fb.Objective or one of {listed(LOSSES, None)}, not {shown(name)}"
            f"{did_you_mean(name, LOSSES)}"
        )
    return _made(name, tuple((parameter, parameters[parameter]) for parameter in _parameters_of(name)))


@cache
def _parameters_of(name: str) -> tuple[str, ...]:
    return tuple(signature(LOSSES[name]).parameters)


@cache
def _made(name: str, used: tuple[tuple[str, Any], ...]) -> Loss:
    return LOSSES[name](**dict(used))


# --- building blocks --------------------------------------------------------------------------------------------------


def _over_row(text: str, *more: str) -> Expression:
    return Expression(text, ("label", "margin", *more))


def _derivatives(gradient: str, hessian: str) -> tuple[Derivatives, ...]:
    return (Derivatives(_over_row(gradient), _over_row(hessian)),)


_IDENTITY = Expression("margin", ("margin",))
_SIGMOID = "1 / (1 + EXP(-margin))"
_LABEL_IS = {
    "0 and 1 (or false and true)": "label = 0 OR label = 1",
    "numbers from 0 to 1": "label >= 0 AND label <= 1",
    "numbers greater than -1": "label > -1",
    "numbers greater than 0": "label > 0",
    "numbers of 0 or more": "label >= 0",
}


def _exponential() -> Expression:
    return Expression("EXP(margin)", ("margin",))


def _log(mean: float) -> float:
    """Return the margin of a mean; where all labels are 0 it is that of nearly nothing."""
    return math.log(max(mean, _SMALLEST_MEAN))


def _power_of_mean(power: float) -> Expression:
    return Expression(f"EXP({power!r} * margin)", ("margin",))


def _labels(words: str) -> dict[str, Any]:
    return {"label_requirement": words, "label_condition": Expression(_LABEL_IS[words], ("label",))}


# --- regression -------------------------------------------------------------------------------------------------------


def _squared_error(scale_pos_weight: float) -> Loss:
    # l = ½(ŷ − y)²
    gradient, hessian = _scaled_positives("margin - label", "1", scale_pos_weight)
    return Loss("reg:squarederror", _derivatives(gradient, hessian), (_IDENTITY,), "rmse",
                start=_start(scale_pos_weight))  # fmt: skip


def _squared_log_error() -> Loss:
    # l = ½(ln(ŷ + 1) − ln(y + 1))², with margins kept above −1
    kept = "GREATEST(margin, -1 + 1e-6) + 1"
    return Loss(
        "reg:squaredlogerror",
        _derivatives(
            f"(LN({kept}) - LN(label + 1)) / ({kept})",
            f"GREATEST((LN(label + 1) - LN({kept}) + 1) / (({kept}) * ({kept})), 1e-6)",
        ),
        (_IDENTITY,), "rmsle", start=Start("newton"), **_labels("numbers greater than -1"),
    )  # fmt: skip


def _pseudo_huber_error(huber_slope: float) -> Loss:
    # l = δ²(√(1 + ((ŷ − y) / δ)²) − 1)
    square = huber_slope * huber_slope
    residual = "(margin - label) * (margin - label)"
    root = f"SQRT(1 + {residual} / {square!r})"
    gradient, hessian = f"(margin - label) / {root}", f"{square!r} / (({square!r} + {residual}) * {root})"
    return Loss("reg:pseudohubererror", _derivatives(gradient, hessian), (_IDENTITY,), "mphe", start=Start("newton"))


def _absolute_error() -> Loss:
    # l = |ŷ − y|; its leaves are medians of the residuals
    return Loss("reg:absoluteerror", _derivatives("SIGN(margin - label)", "1"), (_IDENTITY,), "mae",
                start=Start("quantiles"), renewal=(0.5,))  # fmt: skip


def _quantile_error(quantile_alpha: tuple[float, ...]) -> Loss:
    # l = α(y − ŷ) where y > ŷ, else (1 − α)(ŷ − y)
    names = margin_names(len(quantile_alpha))
    outputs = tuple(
        Derivatives(
            Expression(f"CASE WHEN {name} >= label THEN {1 - alpha!r} ELSE {-alpha!r} END", ("label", name)),
            Expression("1", ("label", name)),
        )
        for name, alpha in zip(names, quantile_alpha, strict=True)
    )
    links = tuple(Expression(name, names) for name in names)
    return Loss("reg:quantileerror", outputs, links, "quantile", start=Start("quantiles"), renewal=quantile_alpha)


def _expectile_error(expectile_alpha: float) -> Loss:
    # l = ½α(y − ŷ)² where y > ŷ, else ½(1 − α)(ŷ − y)² (Newey & Powell, Econometrica 1987)
    weight = f"CASE WHEN margin >= label THEN {1 - expectile_alpha!r} ELSE {expectile_alpha!r} END"
    return Loss("reg:expectileerror", _derivatives(f"({weight}) * (margin - label)", weight), (_IDENTITY,), "expectile",
                start=Start("newton from mean"))  # fmt: skip


def _poisson(max_delta_step: float) -> Loss:
    # l = e^ŷ − yŷ; the hessian e^(ŷ + max_delta_step) is too large on purpose, which shortens the steps
    return Loss(
        "count:poisson", _derivatives("EXP(margin) - label", f"EXP(margin + {max_delta_step!r})"), (_exponential(),),
        "poisson-nloglik", margin_of=_log, score_range=(0.0, math.inf), spread=_power_of_mean(0.5),
        **_labels("numbers of 0 or more"),
    )  # fmt: skip


def _gamma(scale_pos_weight: float) -> Loss:
    # l = y e^−ŷ + ŷ
    gradient, hessian = _scaled_positives("1 - label / EXP(margin)", "label / EXP(margin)", scale_pos_weight)
    return Loss(
        "reg:gamma", _derivatives(gradient, hessian), (_exponential(),), "gamma-deviance", margin_of=_log,
        score_range=(0.0, math.inf), start=_start(scale_pos_weight), spread=_exponential(),
        **_labels("numbers greater than 0"),
    )  # fmt: skip


def _tweedie(tweedie_variance_power: float) -> Loss:
    # l = −y e^((1−ρ)ŷ) / (1 − ρ) + e^((2−ρ)ŷ) / (2 − ρ)
    one, two = f"{1 - tweedie_variance_power!r}", f"{2 - tweedie_variance_power!r}"
    return Loss(
        "reg:tweedie",
        _derivatives(
            f"EXP({two} * margin) - label * EXP({one} * margin)",
            f"{two} * EXP({two} * margin) - label * {one} * EXP({one} * margin)",
        ),
        (_exponential(),), f"tweedie-nloglik@{tweedie_variance_power:g}", margin_of=_log,
        score_range=(0.0, math.inf), spread=_power_of_mean(tweedie_variance_power / 2),
        **_labels("numbers of 0 or more"),
    )  # fmt: skip


# --- classification ---------------------------------------------------------------------------------------------------


def _logit(probability: float) -> float:
    kept = min(max(probability, _NEAREST), 1.0 - _NEAREST)
    return -math.log(1.0 / kept - 1.0)


def _scaled_positives(gradient: str, hessian: str, scale_pos_weight: float) -> tuple[str, str]:
    """Give rows of label 1 the weight ``scale_pos_weight``."""
    if scale_pos_weight == 1.0:
        return gradient, hessian
    scale = f"CASE WHEN label = 1 THEN {scale_pos_weight!r} ELSE 1 END"
    return f"({gradient}) * {scale}", f"({hessian}) * {scale}"


def _start(scale_pos_weight: float) -> Start:
    return Start("mean" if abs(scale_pos_weight - 1.0) <= _NEAREST else "newton")


def _logistic(name: str, metric: str, scale_pos_weight: float) -> Loss:
    # l = −y ln p − (1 − y) ln(1 − p), p = 1 / (1 + e^−ŷ); the hessian's floor is for rows where p rounds to 0 or 1
    gradient, hessian = _scaled_positives(
        f"{_SIGMOID} - label", f"GREATEST({_SIGMOID} * (1 - {_SIGMOID}), 1e-16)", scale_pos_weight
    )
    raw = name == "binary:logitraw"
    probability = Expression(_SIGMOID, ("margin",))
    any_share = name == "reg:logistic"
    return Loss(
        name, _derivatives(gradient, hessian), (_IDENTITY if raw else probability,), metric, evaluated=(probability,),
        # XGBoost's base score of raw margins is a margin, even where it is estimated as the mean label.
        margin_of=float if raw else _logit, score_range=(-math.inf, math.inf) if raw else (0.0, 1.0),
        start=_start(scale_pos_weight), classes=0 if any_share else 2,
        **_labels("numbers from 0 to 1" if any_share else "0 and 1 (or false and true)"),
    )  # fmt: skip


def _hinge() -> Loss:
    # l = max(0, 1 − ŷ(2y − 1)); where it is flat the hessian is the smallest normal float32, XGBoost's
    inside = "margin * (2 * label - 1) < 1"
    return Loss(
        "binary:hinge",
        _derivatives(
            f"CASE WHEN {inside} THEN 1 - 2 * label ELSE 0 END", f"CASE WHEN {inside} THEN 1 ELSE 1.17549435e-38 END"
        ),
        (Expression("CASE WHEN margin > 0 THEN 1 ELSE 0 END", ("margin",)),), "error", start=Start("newton"),
        classes=2, **_labels("0 and 1 (or false and true)"),
    )  # fmt: skip


def _softmax(name: str, num_class: int) -> Loss:
    # l = −ln p_y, p_k = e^ŷ_k / Σ e^ŷ_j
    margins = margin_names(num_class)
    powers = [f"power_{k}" for k in range(num_class)]
    stages: tuple[dict[str, Expression], ...] = (
        {"largest": largest_margin(num_class)},
        {power: Expression(f"EXP({m} - largest)", (m, "largest")) for power, m in zip(powers, margins, strict=True)},
    )
    total = Expression(_nested_sum(powers), tuple(powers))
    outputs = tuple(
        Derivatives(
            Expression(f"{p} / total - CASE WHEN label = {k} THEN 1 ELSE 0 END", ("label", p, "total")),
            # Twice the diagonal of the true hessian, as in XGBoost: an upper bound of the whole matrix.
            Expression(f"GREATEST(2 * ({p} / total) * (1 - {p} / total), 1e-16)", ("label", p, "total")),
        )
        for k, p in enumerate(powers)
    )
    shares = tuple(Expression(f"{p} / total", (p, "total")) for p in powers)
    stages += ({"total": total},)
    return Loss(
        name, outputs, (argmax_class(num_class),) if name == "multi:softmax" else shares, "mlogloss",
        terms={key: term for stage in stages for key, term in stage.items()}, link_terms=stages, evaluated=shares,
        start=Start("frequencies"), classes=num_class,
        label_requirement=f"the classes 0 to {num_class - 1}",
        label_condition=Expression(f"label = FLOOR(label) AND label >= 0 AND label < {num_class}", ("label",)),
    )  # fmt: skip


def _nested_sum(terms: Sequence[str]) -> str:
    """Return a sum of many terms in parentheses that parsers can read: halves, until they are chains of 64 or fewer.

    Floats are added in the order that the text says, in every engine and database; 64 terms or fewer are one chain.
    """
    if len(terms) <= _LONGEST_CHAIN:
        return " + ".join(terms)
    middle = len(terms) // 2
    return f"({_nested_sum(terms[:middle])}) + ({_nested_sum(terms[middle:])})"


# --- survival ---------------------------------------------------------------------------------------------------------


def _cox() -> Loss:
    """Return the negative log partial likelihood, ties by Breslow's method; a negative label is a censored time."""
    time = _over_row("ABS(label)")
    terms: dict[str, Term] = {
        "hazard": _over_row("EXP(margin)"),
        # The risk set of this row's time: all rows of the same time or a later one.
        "at_risk": RunningSum(_over_row("hazard", "hazard"), time, descending=True),
        "r": RunningSum(_over_row("CASE WHEN label > 0 THEN 1 / at_risk ELSE 0 END", "at_risk"), time),
        "s": RunningSum(_over_row("CASE WHEN label > 0 THEN 1 / (at_risk * at_risk) ELSE 0 END", "at_risk"), time),
    }
    derivatives = Derivatives(
        _over_row("hazard * r - CASE WHEN label > 0 THEN 1 ELSE 0 END", "hazard", "r"),
        _over_row("hazard * r - hazard * hazard * s", "hazard", "r", "s"),
    )
    return Loss("survival:cox", (derivatives,), (_exponential(),), "cox-nloglik", terms, margin_of=_log,
                score_range=(0.0, math.inf), start=Start("newton"))  # fmt: skip


# --- the table --------------------------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[..., Loss]] = {
    "reg:squarederror": _squared_error,
    "reg:squaredlogerror": _squared_log_error,
    "reg:logistic": lambda scale_pos_weight: _logistic("reg:logistic", "rmse", scale_pos_weight),
    "reg:pseudohubererror": _pseudo_huber_error,
    "reg:absoluteerror": _absolute_error,
    "reg:quantileerror": _quantile_error,
    "reg:expectileerror": _expectile_error,
    "binary:logistic": lambda scale_pos_weight: _logistic("binary:logistic", "logloss", scale_pos_weight),
    "binary:logitraw": lambda scale_pos_weight: _logistic("binary:logitraw", "logloss", scale_pos_weight),
    "binary:hinge": _hinge,
    "count:poisson": _poisson,
    "reg:gamma": _gamma,
    "reg:tweedie": _tweedie,
    "multi:softmax": lambda num_class: _softmax("multi:softmax", num_class),
    "multi:softprob": lambda num_class: _softmax("multi:softprob", num_class),
    "dist:normal": normal_loss,
    "dist:lognormal": lognormal_loss,
    "dist:negbinomial": negbinomial_loss,
    "survival:cox": _cox,
    "survival:aft": aft_loss,
    "rank:pairwise": partial(ranking_loss, "pairwise"),
    "rank:ndcg": partial(ranking_loss, "ndcg"),
    "rank:map": partial(ranking_loss, "map"),
}

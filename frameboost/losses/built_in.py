"""The losses by XGBoost's names, each a few SQL expressions: `LOSSES`, the table near the end of this file.

To add a loss, write a function that returns a `Loss`, and add it to `LOSSES`. The function's arguments are the training
parameters that the loss reads. Add a case to ``tests/support/objectives.py`` for the tests. Engines, dialects and the
model file need no change.

Conventions of the formulas:

- A comment states the loss l(y, ŷ) of one row; y is ``label``, ŷ is ``margin``, or ``margin_0``, ``margin_1``, ... .
- Gradient and hessian are ∂l/∂ŷ and ∂²l/∂ŷ², without the row's weight. Hessians of XGBoost that differ from ∂²l/∂ŷ², or
  have a floor, are copied.
- Expressions are limited to `frameboost.expressions.expression.Expression`. Constants are inserted by ``!r``, which is
  exact.
- ``terms`` are subexpressions shared by outputs, and sums over rows. A term may use earlier ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from inspect import signature
from typing import Any, Literal

from frameboost.checks.messages import advice, counted, did_you_mean, listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.classes import class_weighted, decided_by
from frameboost.losses.loss import (
    Change,
    Derivatives,
    Loss,
    OverQuery,
    RankingPairs,
    Ratio,
    RunningSum,
    Start,
    Term,
    argmax_class,
    largest_margin,
    margin_names,
)
from frameboost.losses.transforms import smeared, transformed

__all__ = [
    "DEFAULT_TRUNCATION",
    "DISTRIBUTIONS",
    "FURTHEST",
    "LOSSES",
    "adjusted",
    "aft_terms",
    "discount",
    "get_loss",
    "ideal_terms",
    "label_check",
    "label_gain",
    "log_gamma",
    "ranking_loss",
]


# XGBoost keeps the start of the logistic loss this far from 0 and 1; a weighted mean label may even round to them.
_NEAREST = 1e-6
# Metrics of counts have the same floor.
_SMALLEST_MEAN = 1e-16
# Terms in a chain of additions, each with its parentheses in SQL. SQLite's parser runs out of its stack at 90 of them,
# sqlglot's at 493.
_LONGEST_CHAIN = 64


def get_loss(name: str, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss of that name, constructed from the training ``parameters`` that it reads.

    Raises
    ------
    ParameterError
        If the name is unknown; the message lists all names.
    """
    if not isinstance(name, str) or name not in LOSSES:
        raise ParameterError(
            f"objective must be {advice('an fb.Objective or ')}one of {listed(LOSSES, None)}, not {shown(name)}"
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
    """Return the margin of a mean; if all labels are 0, that of a tiny mean."""
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
    # l = ½(ln(ŷ + 1) − ln(y + 1))², with margins clipped to above −1
    clipped = "GREATEST(margin, -1 + 1e-6) + 1"
    return Loss(
        "reg:squaredlogerror",
        _derivatives(
            f"(LN({clipped}) - LN(label + 1)) / ({clipped})",
            f"GREATEST((LN(label + 1) - LN({clipped}) + 1) / (({clipped}) * ({clipped})), 1e-6)",
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


def _huber(huber_slope: float) -> Loss:
    # l = ½(ŷ − y)² where |ŷ − y| ≤ δ, else δ(|ŷ − y| − ½δ) (Huber 1964), with LightGBM's hessian
    gradient = f"GREATEST(LEAST(margin - label, {huber_slope!r}), {-huber_slope!r})"
    return Loss("reg:huber", _derivatives(gradient, "1"), (_IDENTITY,), "huber", start=Start("mean"))


def _fair(fair_c: float) -> Loss:
    # l = c²(|ŷ − y|/c − ln(1 + |ŷ − y|/c))
    size = f"(ABS(margin - label) + {fair_c!r})"
    gradient, hessian = f"{fair_c!r} * (margin - label) / {size}", f"{fair_c * fair_c!r} / ({size} * {size})"
    return Loss("reg:fair", _derivatives(gradient, hessian), (_IDENTITY,), "fair", start=Start("mean"))


def _absolute_percentage_error() -> Loss:
    # l = |ŷ − y| / max(1, |y|); its leaves are medians of the residuals, weighted by 1 / max(1, |y|), as LightGBM's
    share = "1 / GREATEST(ABS(label), 1)"
    return Loss("reg:mape", _derivatives(f"SIGN(margin - label) * ({share})", "1"), (_IDENTITY,), "mape",
                start=Start("quantiles"), renewal=(0.5,), renewal_weight=Expression(share, ("label",)))  # fmt: skip


def _absolute_error() -> Loss:
    # l = |ŷ − y|; its leaves are medians of the residuals
    return Loss("reg:absoluteerror", _derivatives("SIGN(margin - label)", "1"), (_IDENTITY,), "mae",
                start=Start("quantiles"), renewal=(0.5,))  # fmt: skip


def _quantile_error(quantile_alpha: tuple[float, ...]) -> Loss:
    # l = α(y − ŷ) where y > ŷ, else (1 − α)(ŷ − y)
    return _of_levels(
        "reg:quantileerror", quantile_alpha, "CASE WHEN margin >= label THEN {below} ELSE -{above} END", "1",
        "quantile", Start("quantiles"), renewal=quantile_alpha,
    )  # fmt: skip


def _expectile_error(expectile_alpha: tuple[float, ...]) -> Loss:
    # l = ½α(y − ŷ)² where y > ŷ, else ½(1 − α)(ŷ − y)² (Newey & Powell, Econometrica 1987)
    weight = "CASE WHEN margin >= label THEN {below} ELSE {above} END"
    return _of_levels("reg:expectileerror", expectile_alpha, f"({weight}) * (margin - label)", weight, "expectile",
                      Start("newton from mean"))  # fmt: skip


def _of_levels(
    name: str, levels: tuple[float, ...], gradient: str, hessian: str, metric: str, start: Start, **more: Any
) -> Loss:
    """Return a loss with an output for each level α, inserted for ``{above}``, with 1 − α for ``{below}``."""
    margins = margin_names(len(levels))

    def at(text: str, margin: str, alpha: float) -> Expression:
        return _over_row(text.format(above=repr(alpha), below=repr(1 - alpha))).renamed({"margin": margin})

    outputs = tuple(
        Derivatives(at(gradient, margin, alpha), at(hessian, margin, alpha))
        for margin, alpha in zip(margins, levels, strict=True)
    )
    return Loss(name, outputs, tuple(Expression(each, margins) for each in margins), metric, start=start, **more)


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
    first_power, second_power = f"{1 - tweedie_variance_power!r}", f"{2 - tweedie_variance_power!r}"
    return Loss(
        "reg:tweedie",
        _derivatives(
            f"EXP({second_power} * margin) - label * EXP({first_power} * margin)",
            f"{second_power} * EXP({second_power} * margin) - label * {first_power} * EXP({first_power} * margin)",
        ),
        (_exponential(),), f"tweedie-nloglik@{tweedie_variance_power:g}", margin_of=_log,
        score_range=(0.0, math.inf), spread=_power_of_mean(tweedie_variance_power / 2),
        **_labels("numbers of 0 or more"),
    )  # fmt: skip


# --- classification ---------------------------------------------------------------------------------------------------


def _logit(probability: float) -> float:
    clipped = min(max(probability, _NEAREST), 1.0 - _NEAREST)
    return -math.log(1.0 / clipped - 1.0)


def _scaled_positives(gradient: str, hessian: str, scale_pos_weight: float) -> tuple[str, str]:
    """Weight rows with label 1 by ``scale_pos_weight``."""
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
    """Return a sum of many terms with parentheses that parsers can handle: halves down to chains of 64.

    The order of addition is the same in every engine and database.
    """
    if len(terms) <= _LONGEST_CHAIN:
        return " + ".join(terms)
    middle = len(terms) // 2
    return f"({_nested_sum(terms[:middle])}) + ({_nested_sum(terms[middle:])})"


# --- survival ---------------------------------------------------------------------------------------------------------


def _cox() -> Loss:
    """Return the negative log partial likelihood, ties by Breslow's method; negative labels are censored times."""
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


# Accelerated failure time, ln y = ŷ + σZ, with censored times. After Barnwal, Cho & Hocking 2022, "Survival regression
# with accelerated failure time model in XGBoost". A row's time lies between its label and ``upper``:
#
# ================  =================  ======================
# the time is       label              ``upper``
# ================  =================  ======================
# known             the time           the same number
# right-censored    the last moment    NULL, or infinite
# left-censored     0                  the first moment
# interval          its lower end      its upper end
# ================  =================  ======================

# XGBoost clips gradients to ±_STEEPEST, and hessians to between _FLATTEST and _STEEPEST.
_STEEPEST, _FLATTEST = 15.0, 1e-16

_OPEN = "(upper IS NULL OR upper > 1e300)"

# The normal distribution's tail, to 15 digits (Hart 1968, algorithm 5666, in the form of West 2005, "Better
# approximations to cumulative normal functions"), highest power first.
_ABOVE = (0.0352624965998911, 0.700383064443688, 6.37396220353165, 33.912866078383, 112.079291497871,
          221.213596169931, 220.206867912376)  # fmt: skip
_BELOW = (0.0883883476483184, 1.75566716318264, 16.064177579207, 86.7807322029461, 296.564248779674,
          637.333633378831, 793.826512519948, 440.413735824752)  # fmt: skip


def _polynomial(coefficients: tuple[float, ...], x: str) -> str:
    text = repr(coefficients[0])
    for coefficient in coefficients[1:]:
        text = f"({text} * {x} + {coefficient!r})"
    return text


def _aft_normal(z: str) -> dict[str, str]:
    x = f"ABS({z})"
    far = f"({x} + 1 / ({x} + 2 / ({x} + 3 / ({x} + 4 / ({x} + 0.65)))))"
    near = f"EXP(-{z} * {z} / 2) * {_polynomial(_ABOVE, x)} / {_polynomial(_BELOW, x)}"
    tail = f"CASE WHEN {x} < 7.07106781186547 THEN {near} ELSE EXP(-{z} * {z} / 2) / {far} / 2.506628274631 END"
    pdf = f"(EXP(-{z} * {z} / 2) / {math.sqrt(2 * math.pi)!r})"
    return {
        "pdf": pdf,
        "cdf": f"CASE WHEN {z} > 0 THEN 1 - ({tail}) ELSE {tail} END",
        "beyond": f"CASE WHEN {z} > 0 THEN {tail} ELSE 1 - ({tail}) END",
        "slope": f"-{z} * {pdf}",
        "bend": f"({z} * {z} - 1) * {pdf}",
    }


def _aft_logistic(z: str) -> dict[str, str]:
    e = f"EXP(-ABS({z}))"
    pdf = f"({e} / ((1 + {e}) * (1 + {e})))"
    return {
        "pdf": pdf,
        "cdf": f"CASE WHEN {z} >= 0 THEN 1 / (1 + {e}) ELSE {e} / (1 + {e}) END",
        "beyond": f"CASE WHEN {z} >= 0 THEN {e} / (1 + {e}) ELSE 1 / (1 + {e}) END",
        "slope": f"{pdf} * CASE WHEN {z} >= 0 THEN ({e} - 1) / ({e} + 1) ELSE (1 - {e}) / (1 + {e}) END",
        "bend": f"{pdf} * ({e} * {e} - 4 * {e} + 1) / ((1 + {e}) * (1 + {e}))",
    }


def _aft_extreme(z: str) -> dict[str, str]:
    w = f"EXP(LEAST({z}, 300))"  # clipped so that products stay finite; past 300 all of these are 0 or 1
    pdf = f"({w} * EXP(-{w}))"
    return {
        "pdf": pdf,
        # 1 - EXP(-w) loses its digits near 0 (cancellation).
        "cdf": f"CASE WHEN {w} < 1e-4 THEN {w} * (1 - {w} / 2 * (1 - {w} / 3)) ELSE 1 - EXP(-{w}) END",
        "beyond": f"EXP(-{w})",
        "slope": f"(1 - {w}) * {pdf}",
        "bend": f"({w} * {w} - 3 * {w} + 1) * {pdf}",
    }


DISTRIBUTIONS = {"normal": _aft_normal, "logistic": _aft_logistic, "extreme": _aft_extreme}


def _limits(distribution: str, sigma: float) -> dict[str, tuple[float, float]]:
    """Return the limits of the derivatives in the tails, where their quotients are 0 / 0: for z > 0, and otherwise.

    Keys: ``gradient`` and ``hessian`` for known times and intervals, with ``_right`` and ``_left`` for censored times.
    """
    if distribution == "normal":
        bend = 1 / (sigma * sigma)
        return {
            "gradient": (-_STEEPEST, _STEEPEST), "gradient_right": (-_STEEPEST, 0.0), "gradient_left": (0.0, _STEEPEST),
            "hessian": (bend, bend), "hessian_right": (bend, _FLATTEST), "hessian_left": (_FLATTEST, bend),
        }  # fmt: skip
    if distribution == "logistic":
        flat = (_FLATTEST, _FLATTEST)
        return {
            "gradient": (-1 / sigma, 1 / sigma), "gradient_right": (-1 / sigma, 0.0), "gradient_left": (0.0, 1 / sigma),
            "hessian": flat, "hessian_right": flat, "hessian_left": flat,
        }  # fmt: skip
    bent = (_STEEPEST, _FLATTEST)
    return {
        "gradient": (-_STEEPEST, 1 / sigma), "gradient_right": (-_STEEPEST, 0.0), "gradient_left": (0.0, 1 / sigma),
        "hessian": bent, "hessian_right": bent, "hessian_left": (_FLATTEST, _FLATTEST),
    }  # fmt: skip


def aft_terms(distribution: str, sigma: float, margin: str = "margin") -> dict[str, Expression]:
    """Return terms over ``label``, ``upper`` and the margin: the standardised residuals and the distribution at them.

    ``z_l`` and ``z_u`` are the residuals (ln y − ŷ)/σ of label and ``upper``. ``pdf``, ``cdf``, ``beyond`` (1 − cdf),
    ``slope`` (pdf') and ``bend`` (pdf'') have one term at each. ``mass`` is the probability between the two.
    """
    row = ("label", "upper", margin)
    texts = {
        "z_l": f"CASE WHEN label > 0 THEN (LN(GREATEST(label, 1e-300)) - {margin}) / {sigma!r} ELSE 0 END",
        "z_u": f"CASE WHEN {_OPEN} THEN 0 ELSE (LN(GREATEST(upper, 1e-300)) - {margin}) / {sigma!r} END",
    }
    lower, upper = DISTRIBUTIONS[distribution]("z_l"), DISTRIBUTIONS[distribution]("z_u")
    for name, at_infinity in (("pdf", "0"), ("cdf", "1"), ("beyond", "0"), ("slope", "0"), ("bend", "0")):
        texts[f"{name}_l"] = f"CASE WHEN label > 0 THEN {lower[name]} ELSE 0 END"
        texts[f"{name}_u"] = f"CASE WHEN {_OPEN} THEN {at_infinity} ELSE {upper[name]} END"
    # Taken from the tail that the interval lies in; in the other tail both probabilities would round to 1.
    texts["mass"] = "CASE WHEN z_l > 0 THEN beyond_l - beyond_u ELSE cdf_u - cdf_l END"
    return {name: Expression(text, (*row, *texts)) for name, text in texts.items()}


def _aft_loss(aft_loss_distribution: str, aft_loss_distribution_scale: float) -> Loss:
    """Return the negative log-likelihood: −ln of the density of a known time, or of the interval's probability."""
    sigma = aft_loss_distribution_scale
    terms: dict[str, Expression | RunningSum] = dict(aft_terms(aft_loss_distribution, sigma))
    columns = ("label", "upper", "margin", *terms)
    known = "label = upper"
    quotients = {
        "gradient": (
            ("slope_l", f"({sigma!r} * pdf_l)"),
            ("(pdf_u - pdf_l)", f"({sigma!r} * mass)"),
        ),
        "hessian": (
            ("(slope_l * slope_l - pdf_l * bend_l)", f"({sigma * sigma!r} * pdf_l * pdf_l)"),
            (
                "((pdf_u - pdf_l) * (pdf_u - pdf_l) - mass * (slope_u - slope_l))",
                f"({sigma * sigma!r} * mass * mass)",
            ),
        ),
    }
    limits = _limits(aft_loss_distribution, sigma)
    bounds = {"gradient": (-_STEEPEST, _STEEPEST), "hessian": (_FLATTEST, _STEEPEST)}
    derivatives = {}
    for name, ((top, bottom), (censored_top, censored_bottom)) in quotients.items():
        limit = (
            f"CASE WHEN NOT ({known}) AND label <= 0 THEN {_by_sign(limits[f'{name}_left'])} "
            f"WHEN {_OPEN} THEN {_by_sign(limits[f'{name}_right'])} ELSE {_by_sign(limits[name])} END"
        )
        quotient = (
            f"CASE WHEN {known} AND {bottom} > 0 THEN {top} / {bottom} "
            f"WHEN NOT ({_OPEN}) AND {known} THEN {limit} "
            f"WHEN {censored_bottom} > 0 THEN {censored_top} / {censored_bottom} ELSE {limit} END"
        )
        low, high = bounds[name]
        derivatives[name] = Expression(f"LEAST(GREATEST({quotient}, {low!r}), {high!r})", columns)
    return Loss(
        "survival:aft", (Derivatives(derivatives["gradient"], derivatives["hessian"]),),
        (Expression("EXP(margin)", ("margin",)),), "aft-nloglik", terms, margin_of=math.log,
        score_range=(0.0, math.inf), start=Start("margins", (_log(0.5),)), roles=("upper",),
        label_condition=Expression(
            f"label >= 0 AND ({_OPEN} OR (upper >= label AND upper > 0))", ("label", "upper")
        ),
        label_requirement="times of 0 or more whose label_upper_bound is greater than 0 and no earlier",
    )  # fmt: skip


def _by_sign(values: tuple[float, float]) -> str:
    above, below = values
    return repr(above) if above == below else f"CASE WHEN z_l > 0 OR z_u > 0 THEN {above!r} ELSE {below!r} END"


# --- distributions: losses of a mean and a spread ---------------------------------------------------------------------

# Each is a negative log-likelihood. Its steps are natural gradients (Duan et al. 2020, "NGBoost: Natural Gradient
# Boosting for Probabilistic Prediction", section 3), with one hessian for each of the two margins, as mean and spread
# are orthogonal in all three distributions.
#
# The logarithm of a spread can move far in one step, so hessians are the Fisher information with one expectation in it
# replaced by what was observed: 1 + z² instead of 2, (y + m) / 2 instead of m. With R the mean z² of a leaf's rows,
# the step of ln σ is then
#
#     −G/H = (R − 1) / (R + 1) = tanh(½ ln R),
#
# where the likelihood is largest at ½ ln R: about the same near R = 1, and never more than 1 from outliers.

# Standard deviations from the mean beyond which a row pulls no more at the spread: gradients are summed on one grid for
# all rows, where a single z² of 1e16 would leave no digits for the others.
FURTHEST = 100.0
# ln α of the negative binomial is clipped to ± this: from all but Poisson to a variance of 22,026 squared means.
_WIDEST = 10.0
# Where the series of ln Γ and of its derivative begin: their first omitted terms are below 1e-12 there.
_SHIFT = 8

_TWO_MARGINS = ("label", "margin_0", "margin_1")


def _over_two(text: str, *more: str) -> Expression:
    return Expression(text, (*_TWO_MARGINS, *more))


def _of_margins(text: str) -> Expression:
    return Expression(text, _TWO_MARGINS[1:])


def _two_moments(name: str, label: str, mean: str, deviation: str, **more: object) -> Loss:
    # l = ln σ + (y − µ)² / (2σ²) of y or of its logarithm, µ = ŷ₀, ln σ = ŷ₁
    z = f"(({label} - margin_0) * EXP(-margin_1))"
    terms: dict[str, Term] = {"squared": _over_two(f"LEAST({z} * {z}, {FURTHEST * FURTHEST!r})")}
    # The natural gradient of µ is µ − y. The Fisher information 1/σ² in both would give the same step, but in units
    # of the label, with which `reg_lambda` and `min_child_weight` would mean something else for metres than for miles.
    of_mean = Derivatives(_over_two(f"margin_0 - {label}"), _over_two("1"))
    of_spread = Derivatives(_over_two("(1 - squared) / 2", "squared"), _over_two("(1 + squared) / 2", "squared"))
    start = Start("moments", label=Expression(label, ("label",)), margins_of=_normal_margins)
    return Loss(
        name, (of_mean, of_spread), (_of_margins(mean),), f"{name[5:]}-nloglik", terms, start=start,
        spread=_of_margins(deviation), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _normal_loss() -> Loss:
    """Return the loss of normally distributed labels with mean ŷ₀ and standard deviation e^ŷ₁."""
    return _two_moments("dist:normal", "label", "margin_0", "EXP(margin_1)")


def _lognormal_loss() -> Loss:
    """Return the loss of labels with logarithms of mean ŷ₀ and standard deviation e^ŷ₁.

    The mean of the label is m = exp(ŷ₀ + σ²/2), its standard deviation m √(exp(σ²) − 1).
    """
    variance = "EXP(2 * margin_1)"
    mean = f"EXP(margin_0 + {variance} / 2)"
    return _two_moments(
        "dist:lognormal", "LN(label)", mean, f"{mean} * SQRT(EXP({variance}) - 1)", score_range=(0.0, math.inf),
        label_condition=Expression("label > 0", ("label",)), label_requirement="numbers greater than 0",
    )  # fmt: skip


def _normal_margins(mean: float, variance: float) -> tuple[float, float]:
    return mean, math.log(max(variance, 1e-300)) / 2


def _negbinomial_loss() -> Loss:
    """Return the loss of counts with the mean m = e^ŷ₀ and the variance m + α m², α = e^ŷ₁.

    It is the second model of Cameron & Trivedi 1986, "Econometric models based on count data", NB2.
    """
    # l = −ln Γ(y + r) + ln Γ(r) + ln Γ(y + 1) − r ln(r / (r + m)) − y ln(m / (r + m)), r = 1/α
    terms: dict[str, Term] = {
        "mean": _over_two("EXP(margin_0)"),
        "alpha": _over_two(f"EXP({_dispersion()})"),
        "shape": _over_two("1 / alpha", "alpha"),
    }
    names = tuple(terms)
    terms["slope"] = _over_two(
        f"shape * ({_digamma('(label + shape)')} - ({_digamma('shape')}) - LN(1 + alpha * mean)"
        " + (mean - label) / (shape + mean))",
        *names,
    )
    of_mean = Derivatives(
        _over_two("(mean - label) / (1 + alpha * mean)", *names),
        _over_two("(mean + label) / (2 * (1 + alpha * mean))", *names),
    )
    # The information in ln α is about ½ (∂ ln variance / ∂ ln α)²; half the gradient keeps steps within ±2.
    share = "(alpha * mean / (1 + alpha * mean))"
    of_spread = Derivatives(
        _over_two("slope", "slope"), _over_two(f"({share} * {share} + ABS(slope)) / 2", *names, "slope")
    )
    mean = "EXP(margin_0)"
    return Loss(
        "dist:negbinomial", (of_mean, of_spread), (_of_margins(mean),), "negbinomial-nloglik", terms,
        score_range=(0.0, math.inf), spread=_of_margins(f"SQRT({mean} * (1 + EXP({_dispersion()}) * {mean}))"),
        start=Start("moments", label=Expression("label", ("label",)), margins_of=_negbinomial_margins),
        label_condition=Expression("label >= 0", ("label",)), label_requirement="numbers of 0 or more",
    )  # fmt: skip


def _dispersion() -> str:
    return f"LEAST(GREATEST(margin_1, {-_WIDEST!r}), {_WIDEST!r})"


def _negbinomial_margins(mean: float, variance: float) -> tuple[float, float]:
    """Return the margins by the method of moments: α = (variance − mean) / mean²."""
    square = mean * mean  # which may be 0 of a mean that is not
    alpha = (variance - mean) / square if square > 0 else 0.0
    return math.log(max(mean, 1e-16)), math.log(max(alpha, 0.01))


def _shifted(x: str) -> tuple[str, str]:
    """Return x + 8, and the text of its square."""
    t = f"({x} + {_SHIFT})"
    return t, f"({t} * {t})"


def _digamma(x: str) -> str:
    """Return ψ(x) for x > 0: the asymptotic series at x + 8, and the recurrence ψ(x) = ψ(x + 1) − 1/x back to x."""
    t, square = _shifted(x)
    steps = " ".join(f"- 1 / ({x} + {k})" for k in range(_SHIFT))
    return (
        f"LN({t}) - 1 / (2 * {t}) - 1 / (12 * {square}) + 1 / (120 * {square} * {square})"
        f" - 1 / (252 * {square} * {square} * {square}) {steps}"
    )


def log_gamma(x: str) -> str:
    """Return the text of ln Γ(x) for x > 0, good to 1e-12: Stirling's series at x + 8, and the recurrence back to x."""
    t, square = _shifted(x)
    cubed = f"({square} * {t})"
    factors = " * ".join(f"({x} + {k})" for k in range(_SHIFT))
    return (
        f"(({t} - 0.5) * LN({t}) - {t} + 0.9189385332046727 + 1 / (12 * {t}) - 1 / (360 * {cubed})"
        f" + 1 / (1260 * {cubed} * {square}) - 1 / (1680 * {cubed} * {cubed} * {t}) - LN({factors}))"
    )


# --- ranking ----------------------------------------------------------------------------------------------------------

# LambdaMART (Burges 2010, "From RankNet to LambdaRank to LambdaMART: an overview"), with a query's rows paired by
# XGBoost's method ``topk``, and normalised as in XGBoost 3.2 (``src/objective/lambdarank_obj.cc``). The gradients of a
# pair are those of `frameboost.losses.loss.RankingPairs`. Ranks count from 0.

# XGBoost's default for pairs, and for metrics without an @.
DEFAULT_TRUNCATION = 32
_EVERY_ROW = 2**31 - 1

# 1 / log2(x) = ln 2 / ln x
_LN_2 = "0.6931471805599453"


def label_gain(*, exponential: bool) -> str:
    """Return the gain of a row by its label."""
    return "POWER(2, label) - 1" if exponential else "label"


def discount(rank: str) -> str:
    """Return the discount of a rank, 1 / log2(rank + 2)."""
    return f"{_LN_2} / LN({rank} + 2)"


def ideal_terms(prefix: str, truncation: int, *, exponential: bool) -> dict[str, Term]:
    """Return terms that end with ``ideal``, the ideal DCG of a row's query in units of its largest gain, ``best``.

    They begin with ``gain``, that of each row. Gains go up to 2^31 − 1; a grid for the largest would lose bits of the
    smaller ones, so each is divided by the largest gain of its query.
    """
    gain, best, rank = f"{prefix}gain", f"{prefix}best", f"{prefix}ideal_rank"
    share = f"{gain} / {best} * ({discount(rank)})"
    return {
        gain: Expression(label_gain(exponential=exponential), ("label",)),
        best: OverQuery("max", Expression(gain, (gain,))),
        rank: OverQuery("rank", Expression("label", ("label",))),
        f"{prefix}ideal": OverQuery(
            "sum",
            Expression(f"CASE WHEN {best} > 0 AND {rank} < {truncation} THEN {share} ELSE 0 END",
                       (gain, best, rank)),
        ),
    }  # fmt: skip


def label_check(change: Literal["ndcg", "map"], *, exponential: bool) -> tuple[str, Expression]:
    """Return the requirement on labels, in words and as a condition."""
    if change == "map":
        return "0 and 1 (or false and true)", Expression("label = 0 OR label = 1", ("label",))
    if not exponential:
        return "numbers of 0 or more", Expression("label >= 0", ("label",))
    return (
        "the integers 0 to 31 (with ndcg_exp_gain=False any number of 0 or more)",
        Expression("label = FLOOR(label) AND label >= 0 AND label <= 31", ("label",)),
    )


def ranking_loss(
    change: Change,
    *,
    lambdarank_pair_method: str,
    lambdarank_num_pair_per_sample: int | None,
    lambdarank_normalization: bool,
    lambdarank_score_normalization: bool,
    ndcg_exp_gain: bool,
    seed: int,
) -> Loss:
    """Return the loss ``rank:<change>``."""
    are_drawn = lambdarank_pair_method == "mean"
    n_pairs = lambdarank_num_pair_per_sample or (1 if are_drawn else DEFAULT_TRUNCATION)
    truncation = _EVERY_ROW if are_drawn else n_pairs
    margin = Expression("margin", ("margin",))
    terms: dict[str, Term] = {
        "rank": OverQuery("rank", margin),
        "highest": OverQuery("max", margin),
        "lowest": OverQuery("min", margin),
        # Weights are divided by their mean over the queries: that of one row of each, the same in every round.
        "label_rank": OverQuery("rank", Expression("label", ("label",))),
        "mean_weight": Ratio(
            Expression("CASE WHEN label_rank = 0 THEN weight ELSE 0 END", ("label_rank", "weight")),
            Expression("CASE WHEN label_rank = 0 THEN 1 ELSE 0 END", ("label_rank",)),
        ),
    }
    terms |= _change_terms(change, truncation, exponential=ndcg_exp_gain)
    terms["pairs"] = RankingPairs(change, n_pairs, lambdarank_score_normalization, seed if are_drawn else None)
    scale = "1 / mean_weight"
    if lambdarank_normalization and are_drawn:
        scale = f"1 / mean_weight / {n_pairs}"
    elif lambdarank_normalization:
        # Each pair is counted in both of its rows, so this is twice the sum over pairs, as in XGBoost.
        terms["pull"] = OverQuery("sum", Expression("pair_size", ("pair_size",)), on_grid=True)
        scale = f"CASE WHEN pull > 0 THEN LN(1 + pull) / {_LN_2} / pull ELSE 1 END / mean_weight"
    terms["scale"] = Expression(scale, ("pull", "mean_weight"))
    derivatives = Derivatives(
        Expression("pair_g * scale", ("pair_g", "scale")), Expression("pair_h * scale", ("pair_h", "scale"))
    )
    words, condition = ("", None) if change == "pairwise" else label_check(change, exponential=ndcg_exp_gain)
    metric = "map" if change == "map" else "ndcg"
    metric = metric if are_drawn else f"{metric}@{truncation}"
    return Loss(
        f"rank:{change}", (derivatives,), (margin,), metric, terms, start=Start("margins", (0.0,)), roles=("qid",),
        label_requirement=words, label_condition=condition,
    )  # fmt: skip


def _change_terms(change: Change, truncation: int, *, exponential: bool) -> dict[str, Term]:
    if change == "ndcg":
        share = "gain / best / ideal"
        return ideal_terms("", truncation, exponential=exponential) | {
            "gain_share": Expression(f"CASE WHEN ideal > 0 THEN {share} ELSE 0 END", ("gain", "best", "ideal")),
            "discount": Expression(discount("rank"), ("rank",)),
        }
    if change == "map":
        rank = Expression("rank", ("rank",))
        label = Expression("label", ("label",))
        at_rank = Expression("label / (rank + 1)", ("label", "rank"))
        return {
            "hits": OverQuery("running", label, rank, on_grid=True),
            "credit": OverQuery("running", at_rank, rank),
            "relevant": OverQuery("sum", label, on_grid=True),
        }
    return {}


# --- the table --------------------------------------------------------------------------------------------------------

LOSSES: dict[str, Callable[..., Loss]] = {
    "reg:squarederror": _squared_error,
    "reg:squaredlogerror": _squared_log_error,
    "reg:logistic": lambda scale_pos_weight: _logistic("reg:logistic", "rmse", scale_pos_weight),
    "reg:pseudohubererror": _pseudo_huber_error,
    "reg:huber": _huber,
    "reg:fair": _fair,
    "reg:mape": _absolute_percentage_error,
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
    "dist:normal": _normal_loss,
    "dist:lognormal": _lognormal_loss,
    "dist:negbinomial": _negbinomial_loss,
    "survival:cox": _cox,
    "survival:aft": _aft_loss,
    "rank:pairwise": partial(ranking_loss, "pairwise"),
    "rank:ndcg": partial(ranking_loss, "ndcg"),
    "rank:map": partial(ranking_loss, "map"),
}

OTHER_NAMES: Mapping[str, str | None] = {
    "log_loss": None,
    **dict.fromkeys(("squared_error", "regression", "regression_l2", "l2", "mean_squared_error", "mse"),
                    "reg:squarederror"),
    **dict.fromkeys(("absolute_error", "regression_l1", "l1", "mean_absolute_error", "mae"), "reg:absoluteerror"),
    **dict.fromkeys(("mape", "mean_absolute_percentage_error"), "reg:mape"),
    "huber": "reg:huber",
    "fair": "reg:fair",
    "poisson": "count:poisson",
    "gamma": "reg:gamma",
    "tweedie": "reg:tweedie",
    "quantile": "reg:quantileerror",
    "binary": "binary:logistic",
    **dict.fromkeys(("cross_entropy", "xentropy"), "reg:logistic"),
    **dict.fromkeys(("multiclass", "softmax"), "multi:softprob"),
    "lambdarank": "rank:ndcg",
}  # fmt: skip
"""The objective here of each of LightGBM's, and of scikit-learn's losses; None is the default for the target."""

ALPHAS: Mapping[str, str] = {"quantile": "quantile_alpha", "huber": "huber_slope"}
"""What LightGBM's ``alpha`` is of these objectives, which of others is XGBoost's, the L1 penalty."""


# --- what parameters make of any loss ---------------------------------------------------------------------------------


def _started(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss that starts from ``base_score``, one for all outputs or one for each.

    Raises
    ------
    ParameterError
        If their number is wrong, they are out of range, or do not determine the start of the loss.
    """
    given, n, (low, high) = parameters["base_score"], loss.n_outputs, loss.score_range
    scores = given if isinstance(given, tuple | list) else (given,) * n
    if loss.start.kind == "moments" and not isinstance(given, float):
        raise ParameterError(
            f"base_score is one number for objective {shown(loss.name)}, the mean, beside which the spread is "
            f"estimated; not {shown(given)}"
        )
    if given == "zero":
        return replace(loss, start=Start("margins", (0.0,) * n))
    if len(scores) != n:
        raise ParameterError(f"base_score has {len(scores)} numbers, and the objective has {counted(n, 'output')}")
    for score in scores:
        if not low < score < high:
            raise ParameterError(
                f"base_score must lie between {low:g} and {high:g} for objective {shown(loss.name)}, not {shown(score)}"
            )
    if loss.start.kind == "moments":
        return replace(loss, start=replace(loss.start, mean=given))
    to_fitted = float if loss.transform is None else loss.transform.function
    return replace(loss, start=Start("margins", tuple(loss.margin_of(to_fitted(score)) for score in scores)))


# In the order in which they are applied.
_ADJUSTMENTS: Mapping[str, Callable[[Loss, Mapping[str, Any]], Loss]] = {
    "target_transform": transformed,
    "base_score": _started,
    "smearing": smeared,
    "class_weight": class_weighted,
    "threshold": decided_by,
}


def adjusted(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss adjusted by those parameters that are not None.

    Raises
    ------
    ParameterError
        If a parameter does not fit the loss.
    """
    for name, adjust in _ADJUSTMENTS.items():
        if parameters.get(name) is not None:
            loss = adjust(loss, parameters)
    return loss

"""The accelerated failure time loss, ln y = ŷ + σZ, with censored times.

After Barnwal, Cho & Hocking 2022, "Survival regression with accelerated failure time model in XGBoost". A row's time
lies between its label and ``upper``:

================  =================  ======================
the time is       label              ``upper``
================  =================  ======================
known             the time           the same number
right-censored    the last moment    NULL, or infinite
left-censored     0                  the first moment
interval          its lower end      its upper end
================  =================  ======================
"""

from __future__ import annotations

import math

from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, RunningSum, Start

__all__ = ["DISTRIBUTIONS", "aft_loss", "aft_terms"]

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


def _normal(z: str) -> dict[str, str]:
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


def _logistic(z: str) -> dict[str, str]:
    e = f"EXP(-ABS({z}))"
    pdf = f"({e} / ((1 + {e}) * (1 + {e})))"
    return {
        "pdf": pdf,
        "cdf": f"CASE WHEN {z} >= 0 THEN 1 / (1 + {e}) ELSE {e} / (1 + {e}) END",
        "beyond": f"CASE WHEN {z} >= 0 THEN {e} / (1 + {e}) ELSE 1 / (1 + {e}) END",
        "slope": f"{pdf} * CASE WHEN {z} >= 0 THEN ({e} - 1) / ({e} + 1) ELSE (1 - {e}) / (1 + {e}) END",
        "bend": f"{pdf} * ({e} * {e} - 4 * {e} + 1) / ((1 + {e}) * (1 + {e}))",
    }


def _extreme(z: str) -> dict[str, str]:
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


DISTRIBUTIONS = {"normal": _normal, "logistic": _logistic, "extreme": _extreme}


def _limits(distribution: str, sigma: float) -> dict[str, tuple[float, float]]:
    """Return the limits of the derivatives in the tails, where their quotients are 0 / 0: for z > 0, and for the rest.

    Keys: ``gradient`` and ``hessian`` of a known time or an interval, with ``_right`` and ``_left`` of a censored time.
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
    """Return terms over ``label``, ``upper`` and the margin: the standardised residuals and the distribution there.

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


def aft_loss(aft_loss_distribution: str, aft_loss_distribution_scale: float) -> Loss:
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
        score_range=(0.0, math.inf), start=Start("value", 0.5), roles=("upper",),
        label_condition=Expression(
            f"label >= 0 AND ({_OPEN} OR (upper >= label AND upper > 0))", ("label", "upper")
        ),
        label_requirement="times of 0 or more whose label_upper_bound is greater than 0 and no earlier",
    )  # fmt: skip


def _by_sign(values: tuple[float, float]) -> str:
    above, below = values
    return repr(above) if above == below else f"CASE WHEN z_l > 0 OR z_u > 0 THEN {above!r} ELSE {below!r} END"

"""Losses with two margins, for the mean and the spread of a label: normal, log-normal, negative binomial.

Each is a negative log-likelihood. Its steps are natural gradients (Duan et al. 2020, "NGBoost: Natural Gradient
Boosting for Probabilistic Prediction", section 3), with one hessian for each of the two margins, as mean and spread are
orthogonal in all three distributions.

The logarithm of a spread can move far in one step, so hessians are the Fisher information with one expectation in it
replaced by what was observed: 1 + z² in place of 2, (y + m) / 2 in place of m. With R the mean z² of a leaf's rows, the
step of ln σ is then

    −G/H = (R − 1) / (R + 1) = tanh(½ ln R),

where the likelihood is largest at ½ ln R: about the same near R = 1, and never more than 1 from outliers.
"""

from __future__ import annotations

import math

from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, Start, Term

__all__ = ["FURTHEST", "log_gamma", "lognormal_loss", "negbinomial_loss", "normal_loss"]

# Standard deviations from the mean beyond which a row pulls no more at the spread: gradients are summed on one grid for
# all rows, where a single z² of 1e16 would leave no digits for the others.
FURTHEST = 100.0
# ln α of the negative binomial is kept within ± this: from all but Poisson to a variance of 22,026 squared means.
_WIDEST = 10.0
# Where the series of ln Γ and of its derivative begin: their first omitted terms are below 1e-12 there.
_SHIFT = 8

_ROW = ("label", "margin_0", "margin_1")


def _over_row(text: str, *more: str) -> Expression:
    return Expression(text, (*_ROW, *more))


def _of_margins(text: str) -> Expression:
    return Expression(text, _ROW[1:])


def _normal(name: str, label: str, mean: str, deviation: str, **more: object) -> Loss:
    # l = ln σ + (y − µ)² / (2σ²) of y or of its logarithm, µ = ŷ₀, ln σ = ŷ₁
    z = f"(({label} - margin_0) * EXP(-margin_1))"
    terms: dict[str, Term] = {"squared": _over_row(f"LEAST({z} * {z}, {FURTHEST * FURTHEST!r})")}
    # The natural gradient of µ is µ − y. The Fisher information 1/σ² in both would give the same step, but in units
    # of the label, with which `reg_lambda` and `min_child_weight` would mean something else for metres than for miles.
    of_mean = Derivatives(_over_row(f"margin_0 - {label}"), _over_row("1"))
    of_spread = Derivatives(_over_row("(1 - squared) / 2", "squared"), _over_row("(1 + squared) / 2", "squared"))
    start = Start("moments", label=Expression(label, ("label",)), margins_of=_normal_margins)
    return Loss(
        name, (of_mean, of_spread), (_of_margins(mean),), f"{name[5:]}-nloglik", terms, start=start,
        spread=_of_margins(deviation), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def normal_loss() -> Loss:
    """Return the loss of labels that are normally distributed: mean ŷ₀, standard deviation e^ŷ₁."""
    return _normal("dist:normal", "label", "margin_0", "EXP(margin_1)")


def lognormal_loss() -> Loss:
    """Return the loss of labels whose logarithm has the mean ŷ₀ and the standard deviation e^ŷ₁.

    The mean of the label is m = exp(ŷ₀ + σ²/2), its standard deviation m √(exp(σ²) − 1).
    """
    variance = "EXP(2 * margin_1)"
    mean = f"EXP(margin_0 + {variance} / 2)"
    return _normal(
        "dist:lognormal", "LN(label)", mean, f"{mean} * SQRT(EXP({variance}) - 1)", score_range=(0.0, math.inf),
        label_condition=Expression("label > 0", ("label",)), label_requirement="numbers greater than 0",
    )  # fmt: skip


def _normal_margins(mean: float, variance: float) -> tuple[float, float]:
    return mean, math.log(max(variance, 1e-300)) / 2


def negbinomial_loss() -> Loss:
    """Return the loss of counts with the mean m = e^ŷ₀ and the variance m + α m², α = e^ŷ₁.

    It is the second model of Cameron & Trivedi 1986, "Econometric models based on count data", NB2.
    """
    # l = −ln Γ(y + r) + ln Γ(r) + ln Γ(y + 1) − r ln(r / (r + m)) − y ln(m / (r + m)), r = 1/α
    terms: dict[str, Term] = {
        "mean": _over_row("EXP(margin_0)"),
        "alpha": _over_row(f"EXP({_dispersion()})"),
        "shape": _over_row("1 / alpha", "alpha"),
    }
    names = tuple(terms)
    terms["slope"] = _over_row(
        f"shape * ({_digamma('(label + shape)')} - ({_digamma('shape')}) - LN(1 + alpha * mean)"
        " + (mean - label) / (shape + mean))",
        *names,
    )
    of_mean = Derivatives(
        _over_row("(mean - label) / (1 + alpha * mean)", *names),
        _over_row("(mean + label) / (2 * (1 + alpha * mean))", *names),
    )
    # The information in ln α is about ½ (∂ ln variance / ∂ ln α)²; half the gradient keeps steps within ±2.
    share = "(alpha * mean / (1 + alpha * mean))"
    of_spread = Derivatives(
        _over_row("slope", "slope"), _over_row(f"({share} * {share} + ABS(slope)) / 2", *names, "slope")
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

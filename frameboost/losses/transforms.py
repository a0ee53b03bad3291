"""Targets on another scale: a loss is fitted to a function of the labels, and predictions are on the labels' scale.

Trees, base margins and leaf quantiles are fitted to T(y); the link is T⁻¹ of the margin. So everything derived from
links (predictions, metrics, SQL, the model file) is on the scale of the labels. Intervals are computed for T(y), and
T⁻¹ is applied to both ends.

The mean of T⁻¹(ŷ + e) over the errors e is not T⁻¹(ŷ): squared error fits the mean of T(y), and T⁻¹ of it is below the
mean of y, near the median. Smearing (Duan 1983, "Smearing Estimate: A Nonparametric Retransformation Method") takes the
mean over the errors of the fit. For each T here it is a function of ŷ with one or two estimated means:

=========  ==================  ===========================  =====================================================
T          T(y)                T⁻¹(ŷ)                       its mean over errors e
=========  ==================  ===========================  =====================================================
``log``    ln y                exp ŷ                        a exp ŷ, with a the mean of exp e
``log1p``  ln(1 + y)           exp ŷ − 1                    a exp ŷ − 1
``sqrt``   √y                  max(ŷ, 0)²                   max(ŷ, 0)² + a, with a the mean of e²
``asinh``  ln(y + √(1 + y²))   (exp ŷ − exp −ŷ) / 2         (a exp ŷ − b exp −ŷ) / 2, with b the mean of exp −e
=========  ==================  ===========================  =====================================================

Standardisation is not offered, as it changes trees by penalties only, nor are ranks, as their inverse in SQL is a
table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, Transform

__all__ = ["TRANSFORMS", "is_smeared", "smeared", "smearing_terms", "transformed", "with_smearing"]

# The objective that predicts a mean; the others predict quantiles, of which T⁻¹ is the quantile, or something else.
_OF_MEANS = "reg:squarederror"
# What else is relative to the size of a label.
_RELATIVE = {"reg:squaredlogerror": "logarithms", "reg:mape": "shares of the label"}


_POWER, _SQUARE = "EXP(fitted - margin)", "GREATEST(margin, 0) * GREATEST(margin, 0)"
TRANSFORMS: Mapping[str, Transform] = {
    transform.name: transform
    for transform in (
        Transform(
            "log", math.log, "LN(label)", "EXP(margin)", "{0} * EXP(margin)", (_POWER,), (1.0,), "label > 0",
            "numbers greater than 0", 0.0,
        ),
        Transform(
            "log1p", math.log1p, "LN(label + 1)", "EXP(margin) - 1", "{0} * EXP(margin) - 1", (_POWER,), (1.0,),
            "label > -1", "numbers greater than -1", -1.0,
        ),
        Transform(
            "sqrt", math.sqrt, "SQRT(label)", _SQUARE, f"{_SQUARE} + {{0}}", ("(fitted - margin) * (fitted - margin)",),
            (0.0,), "label >= 0", "numbers of 0 or more", 0.0,
        ),
        Transform(
            "asinh",
            math.asinh,
            # of negative numbers by that of their magnitude, as the sum would lose all digits
            "SIGN(label) * LN(ABS(label) + SQRT(label * label + 1))",
            "(EXP(margin) - EXP(-margin)) / 2", "({0} * EXP(margin) - {1} * EXP(-margin)) / 2",
            (_POWER, "EXP(margin - fitted)"), (1.0, 1.0),
        ),
    )
}  # fmt: skip


def transformed(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return a loss fitted to ``target_transform`` of the labels.

    Raises
    ------
    ParameterError
        If its prediction is not the margin, or it weights labels.
    """
    name = parameters["target_transform"]
    if [link.text for link in loss.links] != list(loss.margins) or loss.classes or loss.roles or loss.is_of_arrays:
        why = " has a link of its own" if loss.n_outputs == 1 and loss.links[0].text != "margin" else ""
        why = " is a Python function, which may transform the label itself" if loss.is_of_arrays else why
        raise ParameterError(
            f"target_transform={shown(name)} is for objectives that predict the margin, such as {shown(_OF_MEANS)} and "
            f"'reg:quantileerror', not for {shown(loss.name)}{', which' * bool(why)}{why}"
        )
    if loss.name in _RELATIVE:
        raise ParameterError(
            f"target_transform={shown(name)} can't be combined with {shown(loss.name)}, which is of "
            f"{_RELATIVE[loss.name]} already"
        )
    if parameters.get("scale_pos_weight", 1.0) != 1.0:
        raise ParameterError("scale_pos_weight is for labels of 0 and 1, and can't be combined with target_transform")
    transform = TRANSFORMS[name]
    of_label = Expression(transform.of_label, ("label",))
    fitted = {f"fitted_{label}": of_label.renamed({"label": label}) for label in loss.labels}
    names = dict(zip(loss.labels, fitted, strict=True))
    condition = Expression(transform.condition, ("label",)) if transform.condition else None
    loss = replace(
        loss,
        transform=transform, fitted=fitted, terms={**fitted, **loss.terms}, label_condition=condition,
        label_requirement=transform.requirement and f"{transform.requirement}, for target_transform={shown(name)}",
        outputs=tuple(
            Derivatives(each.gradient.renamed(names), each.hessian.renamed(names), each.are_weighted)
            for each in loss.outputs
        ),
        score_range=(transform.lowest, math.inf), spread=None,
    )  # fmt: skip
    return with_smearing(loss, None)


def smeared(loss: Loss, parameters: Mapping[str, Any]) -> Loss:
    """Return the loss smeared by the numbers of ``smearing``, unless they are estimated after training (`is_smeared`).

    Raises
    ------
    ParameterError
        If it is not transformed, or takes no such numbers.
    """
    smearing = parameters["smearing"]
    if loss.transform is None:
        raise ParameterError("smearing is for target_transform, which is None")
    if isinstance(smearing, Sequence):
        return with_smearing(loss, smearing)
    if smearing and loss.name != _OF_MEANS:
        raise ParameterError(f"smearing=True is for {shown(_OF_MEANS)}, which fits a mean, not for {shown(loss.name)}")
    return loss


def with_smearing(loss: Loss, numbers: Sequence[float] | None) -> Loss:
    """Return the loss with its link smeared by numbers, target after target.

    Raises
    ------
    ParameterError
        If the number of numbers is wrong.
    """
    transform = loss.transform
    assert transform is not None
    n_each = len(transform.neutral)
    if numbers is not None and len(numbers) != n_each * len(loss.labels):
        raise ParameterError(
            f"smearing of target_transform={shown(transform.name)} takes {n_each * len(loss.labels)} numbers, not "
            f"{len(numbers)}"
        )
    links = []
    for output, margin in enumerate(loss.margins):
        target = output if len(loss.labels) > 1 else 0
        text = transform.inverse
        if numbers is not None:
            text = transform.smeared.format(*map(_literal, numbers[target * n_each : (target + 1) * n_each]))
        links.append(Expression(text, ("margin",)).renamed({"margin": margin}))
    return replace(loss, links=tuple(links), smearing=None if numbers is None else tuple(numbers))


def is_smeared(objective: object, smearing: object) -> bool:
    """Whether a fit estimates the errors of a transformed target, by its parameters."""
    return smearing is True or (smearing is None and objective == _OF_MEANS)


def smearing_terms(loss: Loss) -> list[Expression]:
    """Return the terms that the numbers of `with_smearing` are means of, over transformed labels and margins."""
    assert loss.transform is not None
    return [
        Expression(text, ("fitted", "margin")).renamed({"fitted": fitted, "margin": margin})
        for fitted, margin in zip(loss.fitted, loss.margins, strict=True)
        for text in loss.transform.errors
    ]


def _literal(value: float) -> str:
    return f"({value!r})" if value < 0 else repr(value)

"""What a loss is: SQL expressions that say how margins become gradients, predictions and a place to start.

The second-order objective needs of a loss l(y, ŷ) the gradient g = ∂l/∂ŷ and the hessian h = ∂²l/∂ŷ² at the current
margin ŷ (Chen & Guestrin 2016, section 2.2). Row weights multiply both and are not part of the expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import OverQuery, Pairs, Ratio

__all__ = [
    "Derivatives", "Loss", "RunningSum", "Start", "Term", "margin_names", "of_targets", "prediction_names", "winner",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Derivatives:
    """Gradient and hessian of one output, over the row's roles, the margins and the loss's terms."""

    gradient: Expression
    hessian: Expression


@dataclass(frozen=True, slots=True)
class RunningSum:
    """A term that is a sum over the rows that come no later than this one in the order of ``order``.

    ``value`` must be 0 or more.
    """

    value: Expression
    order: Expression
    descending: bool = False


# What a loss's or a metric's terms may be.
Term = Expression | RunningSum | OverQuery | Ratio | Pairs


@dataclass(frozen=True, slots=True)
class Start:
    """Where the margins start when no base score is given.

    ``mean``: at the weighted mean label; ``newton``: at the prediction of one Newton step from margin 0; ``quantiles``:
    of the labels, one an output; ``frequencies``: at the centred logarithms of the classes' shares; ``value``: at a
    number. All are on the scale of the prediction, and `Loss.margin_of` takes them to the margin.
    """

    kind: Literal["mean", "newton", "quantiles", "frequencies", "value"] = "mean"
    value: float = 0.0


@dataclass(frozen=True)
class Loss:
    """A loss.

    Attributes
    ----------
    name
        XGBoost's name for it, or ``"custom"``.
    outputs
        The derivatives for each output; the margins are called ``margin``, or ``margin_0``, ``margin_1``, ...
    links
        From the margins to the predictions, on the scale of the target.
    metric
        The name of the metric that is reported by default.
    terms
        What the derivatives share, by name, each over what comes before it.
    link_terms
        Stages of what the links share, over the margins and earlier stages.
    evaluated
        The links of what metrics look at, where that is not what is predicted.
    margin_of
        From a prediction on the scale of the target to a margin, for the base score.
    start
        Where the margins start.
    renewal
        For each output the quantile of the residuals that its leaves take as value, instead of −G/(H+λ).
    label_condition, label_requirement
        An expression that holds for every valid label, and the same in words for the error message.
    score_range
        The open interval in which ``base_score`` must lie.
    classes
        How many classes the labels 0, 1, ... stand for; 0 for a regression.
    roles
        What columns it needs besides the label.
    definition
        What a model file holds of a user's own loss, or of another library's.
    is_trainable
        Whether its derivatives are known; of another library's loss they may not be.
    labels
        The names of the labels: one, or one for each output.
    """

    name: str
    outputs: tuple[Derivatives, ...]
    links: tuple[Expression, ...]
    metric: str
    terms: Mapping[str, Term] = field(default_factory=dict)
    link_terms: tuple[Mapping[str, Expression], ...] = ()
    evaluated: tuple[Expression, ...] | None = None
    margin_of: Callable[[float], float] = float
    start: Start = Start()
    renewal: tuple[float, ...] = ()
    label_condition: Expression | None = None
    label_requirement: str = ""
    score_range: tuple[float, float] = (-math.inf, math.inf)
    classes: int = 0
    roles: tuple[str, ...] = ()
    definition: Mapping[str, Any] | None = None
    is_trainable: bool = True
    labels: tuple[str, ...] = ("label",)

    def label_of(self, output: int) -> str:
        """Return the name of the label that an output is for."""
        return self.labels[output] if len(self.labels) > 1 else self.labels[0]

    @property
    def n_outputs(self) -> int:
        """Number of margins, and of trees a round."""
        return len(self.outputs)

    @property
    def has_margin_of_each_class(self) -> bool:
        """Whether each class has a margin of its own (two classes may do with one between them)."""
        return self.classes > 0 and self.classes == self.n_outputs

    @property
    def margins(self) -> tuple[str, ...]:
        """The names of the margins."""
        return margin_names(self.n_outputs)


def margin_names(n: int) -> tuple[str, ...]:
    """Return the names that expressions know ``n`` margins by."""
    return ("margin",) if n == 1 else tuple(f"margin_{i}" for i in range(n))


def prediction_names(n: int) -> tuple[str, ...]:
    """Return the names that metrics know ``n`` predictions by."""
    return ("prediction",) if n == 1 else tuple(f"prediction_{i}" for i in range(n))


def winner(classes: int) -> Expression:
    """Return the class of the largest margin, of equals the first."""
    margins = margin_names(classes)
    cases = []
    for k, margin in enumerate(margins[:-1]):
        later = margins[k + 1 :]
        largest = later[0] if len(later) == 1 else f"GREATEST({', '.join(later)})"
        cases.append(f"WHEN {margin} >= {largest} THEN {k}")
    return Expression(f"CASE {' '.join(cases)} ELSE {classes - 1} END", margins)


def of_targets(loss: Loss, n: int) -> Loss:
    """Return the loss over ``n`` labels, ``label_0`` and so on, with an output for each.

    Raises
    ------
    ParameterError
        If it has several outputs already, or needs more of a row than its label.
    """
    if loss.n_outputs > 1 or loss.terms or loss.roles:
        raise ParameterError(f"objective {shown(loss.name)} takes one target, not {n}")
    names = [{"label": f"label_{k}", "margin": f"margin_{k}"} for k in range(n)]
    return replace(
        loss,
        outputs=tuple(
            Derivatives(derivatives.gradient.renamed(name), derivatives.hessian.renamed(name))
            for derivatives in loss.outputs
            for name in names
        ),
        links=tuple(link.renamed(name) for link in loss.links for name in names),
        evaluated=None if loss.evaluated is None else tuple(e.renamed(n) for e in loss.evaluated for n in names),
        renewal=loss.renewal * n,
        labels=tuple(name["label"] for name in names),
    )

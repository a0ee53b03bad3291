"""The outputs of a model, as expressions over its margins: ``mean``, ``margin``, ``class`` and ``probability``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss, argmax_class, margin_names

__all__ = ["OUTPUTS", "Output", "leaf_output", "output_of"]

OUTPUTS = ("mean", "margin", "class", "probability")


@dataclass(frozen=True)
class Output:
    """An output of a model: expressions over its margins.

    Attributes
    ----------
    margins
        The names of the margins.
    stages
        Subexpressions of the values, in stages; each may use the margins and earlier stages.
    values
        One expression, or several for a list of numbers.
    is_class
        Whether the value is the number of a class.
    """

    margins: tuple[str, ...]
    stages: tuple[Mapping[str, Expression], ...]
    values: tuple[Expression, ...]
    is_class: bool = False

    def margins_behind(self) -> list[list[int]]:
        """Return, for each value, the numbers of the margins that it depends on, directly or through stages.

        >>> from frameboost.losses.built_in import get_loss
        >>> loss = get_loss("multi:softprob", {"num_class": 2, "scale_pos_weight": 1.0})
        >>> output_of(loss, "mean").margins_behind(), output_of(loss, "margin").margins_behind()
        ([[0, 1], [0, 1]], [[0], [1]])
        """
        behind = {margin: {k} for k, margin in enumerate(self.margins)}

        def of(value: Expression) -> set[int]:
            return set().union(*(numbers for name, numbers in behind.items() if value.uses(name)))

        for stage in self.stages:
            behind |= {name: of(value) for name, value in stage.items()}
        return [sorted(of(value)) for value in self.values]


def leaf_output(n_trees: int) -> Output:
    """Return the output ``leaf``: the numbers of the leaves that a row reaches, each tree's in place of a margin."""
    margins = margin_names(n_trees)
    return Output(margins, (), tuple(Expression(margin, (margin,)) for margin in margins), is_class=True)


def output_of(loss: Loss, name: str, calibration: Expression | None = None) -> Output:
    """Return the output of that name of a model with that loss.

    ``calibration`` is a link from the margin to the prediction that replaces the loss's own.

    Raises
    ------
    ParameterError
        If the loss has no such output; the message lists those that it has.
    """
    margins = loss.margins
    if name == "margin":
        return Output(margins, (), tuple(Expression(m, margins) for m in margins))
    links = loss.links if calibration is None else (calibration,)
    if name == "mean":
        return Output(margins, loss.link_terms if len(links) > 1 or loss.n_outputs == 1 else (), links)
    if name == "class" and loss.has_margin_of_each_class:
        return Output(margins, (), (argmax_class(loss.classes),), is_class=True)
    if name == "class" and loss.classes:
        likely = Expression(f"CASE WHEN {_likely(loss, links[0])} THEN 1 ELSE 0 END", margins)
        return Output(margins, (), (likely,), is_class=True)
    if name == "probability" and loss.classes and loss.name != "binary:hinge":
        shares = loss.evaluated or links if calibration is None else links
        return Output(margins, loss.link_terms, shares)
    of_classes = OUTPUTS[:3] if loss.name == "binary:hinge" else OUTPUTS
    named = listed(of_classes if loss.classes else OUTPUTS[:2])
    raise ParameterError(f"output must be one of {named}, not {shown(name)}")


def _likely(loss: Loss, probability: Expression) -> str:
    raw = loss.name == "binary:logitraw"
    return f"({probability.text}) > {0 if raw else 0.5}"

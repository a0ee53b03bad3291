"""What a model can say of a row, as expressions over its margins: predictions, the margins themselves, a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss, margin_names, winner

__all__ = ["OUTPUTS", "Output", "leaf_output", "output_of"]

OUTPUTS = ("mean", "margin", "class", "probability")


@dataclass(frozen=True)
class Output:
    """Expressions over margins.

    Attributes
    ----------
    margins
        The names of the margins.
    stages
        What the values share, each stage over the margins and earlier stages.
    values
        One for a single number, several for a list of them.
    is_class
        Whether the value is the number of a class.
    """

    margins: tuple[str, ...]
    stages: tuple[Mapping[str, Expression], ...]
    values: tuple[Expression, ...]
    is_class: bool = False


def leaf_output(n_trees: int) -> Output:
    """Return the output of leaves' numbers, over margins each of which is a tree that says the number."""
    margins = margin_names(n_trees)
    return Output(margins, (), tuple(Expression(margin, (margin,)) for margin in margins), is_class=True)


def output_of(loss: Loss, name: str, calibration: Expression | None = None) -> Output:
    """Return an output of models with that loss, or raise `ParameterError` that lists those that there are.

    ``calibration`` takes the margin to the prediction in place of the loss's own link.
    """
    margins = loss.margins
    if name == "margin":
        return Output(margins, (), tuple(Expression(m, margins) for m in margins))
    links = loss.links if calibration is None else (calibration,)
    if name == "mean":
        return Output(margins, loss.link_terms if len(links) > 1 or loss.n_outputs == 1 else (), links)
    if name == "class" and loss.has_margin_of_each_class:
        return Output(margins, (), (winner(loss.classes),), is_class=True)
    if name == "class" and loss.classes:
        likely = Expression(f"CASE WHEN {_likely(loss, links[0])} THEN 1 ELSE 0 END", margins)
        return Output(margins, (), (likely,), is_class=True)
    if name == "probability" and loss.classes and loss.name != "binary:hinge":
        shares = loss.evaluated or links if calibration is None else links
        return Output(margins, loss.link_terms, shares)
    named = listed(OUTPUTS if loss.classes else OUTPUTS[:2])
    raise ParameterError(f"output must be one of {named}, not {shown(name)}")


def _likely(loss: Loss, probability: Expression) -> str:
    raw = loss.name == "binary:logitraw"
    return f"({probability.text}) > {0 if raw else 0.5}"

"""The outputs of a model, as expressions over its margins: ``mean``, ``margin``, ``class`` and ``probability``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from frameboost.checks.messages import listed, shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Loss, argmax_class, largest_margin, margin_names

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
        Whether each value is the number of a class, or its label.
    labels
        The labels by the names that they have in the values; none where classes are numbered.
    names
        What each value is called where the values are columns; none where they are numbered.
    """

    margins: tuple[str, ...]
    stages: tuple[Mapping[str, Expression], ...]
    values: tuple[Expression, ...]
    is_class: bool = False
    labels: Mapping[str, str | bool] = field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def is_margin(self) -> bool:
        """Whether the output is the only margin as it is."""
        return (
            [value.text for value in self.values] == list(self.margins) and len(self.margins) == 1 and not self.is_class
        )

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


def output_of(
    loss: Loss, name: str, calibration: Expression | None = None, labels: Sequence[str | bool] = ()
) -> Output:
    """Return the output of that name of a model with that loss.

    Parameters
    ----------
    calibration
        A link from the margin to the prediction that replaces the loss's own.
    labels
        The labels of the classes; none where they are numbered.

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
        is_softmax = len(links) == 1 < loss.n_outputs
        return Output(margins, _largest(loss, links[0]) if is_softmax else loss.link_terms, links)
    if name == "class" and loss.classes:
        return _class(loss, links, labels)
    if name == "probability" and loss.classes and loss.name != "binary:hinge":
        shares = loss.evaluated or links if calibration is None else links
        texts = tuple(label for label in labels if isinstance(label, str))
        if texts and len(shares) == 1:
            first = Expression(f"1 - ({shares[0].text})", shares[0].columns)
            return Output(margins, loss.link_terms, (first, *shares), names=texts)
        return Output(margins, loss.link_terms, shares, names=texts)
    of_classes = OUTPUTS[:3] if loss.name == "binary:hinge" else OUTPUTS
    named = listed(of_classes if loss.classes else OUTPUTS[:2])
    raise ParameterError(f"output must be one of {named}, not {shown(name)}")


def _class(loss: Loss, links: Sequence[Expression], labels: Sequence[str | bool]) -> Output:
    """Return the most probable class, of several targets one for each."""
    by_name = {f"class_{k}": label for k, label in enumerate(labels)}
    if loss.has_margin_of_each_class:
        best = argmax_class(loss.classes, tuple(by_name))
        return Output(loss.margins, _largest(loss, best), (best,), is_class=True, labels=by_name)
    no, yes = by_name or ("0", "1")
    half = 0 if loss.name == "binary:logitraw" else 0.5
    values = tuple(
        Expression(f"CASE WHEN ({link.text}) > {half} THEN {yes} ELSE {no} END", (*loss.margins, *by_name))
        for link in links
    )
    return Output(loss.margins, (), values, is_class=True, labels=by_name)


def _largest(loss: Loss, best: Expression) -> tuple[Mapping[str, Expression], ...]:
    """Return the stage with the largest margin, if `argmax_class` reads it."""
    return ({"largest": largest_margin(loss.n_outputs)},) if "largest" in best.columns else ()

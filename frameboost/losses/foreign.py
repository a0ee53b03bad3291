"""Losses of other libraries' models, of which only is known how margins become predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, margin_names

__all__ = ["FOREIGN_FIELDS", "foreign_loss", "read_foreign_loss"]

FOREIGN_FIELDS = ("name", "links", "classes")
_NOTHING = Derivatives(Expression("0", ()), Expression("1", ()))


def foreign_loss(name: str, links: Sequence[str], classes: int = 0) -> Loss:
    """Return a loss that nothing can be trained on.

    Parameters
    ----------
    name
        What the other library calls it, after its own name: ``"lightgbm:multiclassova"``.
    links
        SQL over ``margin``, or over ``margin_0``, ``margin_1`` and so on if there are several links: the predictions.
    classes
        How many classes there are: 2 with a single link, which is the second one's probability; with several links
        their number, where the class of the largest margin is the likeliest. 0 where there are no classes.

    Raises
    ------
    ParameterError
        If a link is no SQL of the kind that every engine has, or the number of classes does not go with them.
    """
    if classes not in ((0, 2) if len(links) == 1 else (0, len(links))) or not links:
        raise ParameterError(f"an objective of {len(links)} links can't have {classes} classes")
    names = margin_names(len(links))
    expressions = tuple(Expression(link, names).required_number("the link") for link in links)
    return Loss(
        name, (_NOTHING,) * len(links), expressions, "rmse", classes=classes,
        definition={"name": name, "links": list(links), "classes": classes}, is_trainable=False,
    )  # fmt: skip


def read_foreign_loss(definition: Mapping[str, Any]) -> Loss:
    """Return the loss that a model file describes, or raise `ParameterError`."""
    name, links, classes = (definition.get(field) for field in FOREIGN_FIELDS)
    if not isinstance(name, str) or not isinstance(links, list) or not all(isinstance(link, str) for link in links):
        raise ParameterError("an objective of another library has a name and a list of links")
    if not isinstance(classes, int) or isinstance(classes, bool):
        raise ParameterError("an objective of another library has a number of classes")
    return foreign_loss(name, links, classes)

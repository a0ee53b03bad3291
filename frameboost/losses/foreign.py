"""Losses of imported models: their links are known, their derivatives are not."""

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
    """Return a loss that can be scored with, but not trained.

    Parameters
    ----------
    name
        The other library's name and its name for the loss: ``"lightgbm:multiclassova"``.
    links
        SQL over ``margin``, or over ``margin_0``, ``margin_1`` and so on if there are several links: the predictions.
    classes
        The number of classes, 0 of a regression. With a single link it is 2, and the link is the probability of class
        1; with several links it is their number, and the class of the largest margin is the likeliest.

    Raises
    ------
    ParameterError
        If a link is not an expression that is supported, or the number of classes does not fit the links.
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

"""Losses that are not in the table: those that users write, ``fit(objective=Objective(...))``, and imported ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frameboost.checks.arguments import name_of
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, Start, margin_names

__all__ = ["FOREIGN_FIELDS", "Objective", "foreign_loss", "read_foreign_loss"]


_ROW = ("label", "margin", "weight")


@dataclass(frozen=True)
class Objective:
    """A loss that you write: its derivatives in the margin, as SQL that has the same values in every engine.

    Parameters
    ----------
    gradient, hessian
        First and second derivative of the loss in the margin, over ``label``, ``margin`` and ``weight``. Weights
        multiply both anyway. The hessian must be greater than 0 in every row.
    link
        From the ``margin`` to the prediction.
    metric
        The name of the metric that is reported by default.

    Raises
    ------
    ParameterError
        If one of them is not SQL of the kind that every engine has, uses another name, or is no number.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [1.0, 1.0, 9.0, 9.0]})
    >>> log_cosh = fb.Objective("1 - 2 / (EXP(2 * (margin - label)) + 1)",
    ...                         hessian="GREATEST(4 / POWER(EXP(margin - label) + EXP(label - margin), 2), 1e-3)")
    >>> model = fb.fit(df, "y", objective=log_cosh, n_estimators=50, min_child_weight=0, max_delta_step=1)
    >>> model.predict(df).round(1).to_list()
    [1.0, 1.0, 9.0, 9.0]
    """

    gradient: str
    hessian: str = "1"
    link: str = "margin"
    metric: str = "rmse"

    def __post_init__(self) -> None:
        for role, text, columns in (
            ("gradient", self.gradient, _ROW), ("hessian", self.hessian, _ROW), ("link", self.link, ("margin",))
        ):  # fmt: skip
            if not isinstance(text, str):
                raise ParameterError(f"{role} must be a SQL expression, a string, not {shown(text)}")
            Expression(text, columns).required_number(f"the {role} of the objective,")
        name_of("the name of a metric")("metric", self.metric)

    def loss(self) -> Loss:
        """Return the `Loss` that is trained."""
        derivatives = Derivatives(Expression(self.gradient, _ROW), Expression(self.hessian, _ROW))
        return Loss(
            "custom", (derivatives,), (Expression(self.link, ("margin",)),), self.metric, start=Start("newton"),
            definition={"gradient": self.gradient, "hessian": self.hessian, "link": self.link, "metric": self.metric},
        )  # fmt: skip


# --- losses of imported models: their links are known, their derivatives are not --------------------------------------


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

"""A user's own loss as SQL: ``fit(objective=Objective(gradient, hessian))``."""

from __future__ import annotations

from dataclasses import dataclass

from frameboost.checks.arguments import name_of
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.loss import Derivatives, Loss, Start

__all__ = ["Objective"]

_ROW = ("label", "margin", "weight")


@dataclass(frozen=True)
class Objective:
    """A loss of your own: its derivatives in the margin, as SQL that gives the same numbers in every engine.

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

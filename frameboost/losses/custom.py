"""Losses outside the table of built-in ones: the user's (``fit(objective=Objective(...))``) and imported ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from frameboost.checks.arguments import name_of
from frameboost.checks.messages import shown
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.losses.functions import ArrayCall, may_be_called, name_of_function, side_by_side
from frameboost.losses.loss import (
    ArrayFunction,
    Derivatives,
    FloatArray,
    Loss,
    Start,
    margin_names,
    multi_target_loss,
)

__all__ = [
    "FOREIGN_FIELDS", "LINKS", "SOFTMAX", "Link", "Objective", "foreign_loss", "name_of_objective",
    "read_foreign_loss", "scored_loss", "with_function",
]  # fmt: skip


_ROW = ("label", "margin", "weight")
_RETURNS = "(gradient, hessian)"


# --- links by name ----------------------------------------------------------------------------------------------------


class Link(NamedTuple):
    """A named link.

    Attributes
    ----------
    sql
        The prediction as a function of the margin; empty if there are several margins.
    loss
        The built-in loss that defines its labels, classes and range of predictions; empty without bounds.
    metric
        The default metric.
    """

    sql: str
    loss: str
    metric: str

    def like(self, classes: int) -> Loss | None:
        """Return the loss of that name."""
        return get_loss(self.loss, {**_PARAMETERS, "num_class": classes}) if self.loss else None


# One link for all margins: a column for each class.
SOFTMAX = "softmax"
LINKS = {
    "identity": Link("margin", "", "rmse"),
    "log": Link("EXP(margin)", "count:poisson", "rmse"),
    "logit": Link("1 / (1 + EXP(-margin))", "binary:logistic", "logloss"),
    SOFTMAX: Link("", "multi:softprob", "mlogloss"),
}
_NO_NAME = Link("", "", "rmse")
_PARAMETERS = {"scale_pos_weight": 1.0, "max_delta_step": 0.0}  # which the losses of links read


# --- losses that users write ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Objective:
    """A custom loss: its derivatives with respect to the margin, as SQL that every engine runs, or as a function.

    A function is called in each round with float64 arrays of all rows, in the order of the data: ``f(label, margin)``
    or ``f(label, margin, weight)``, or with XGBoost's signature ``f(margin, dtrain)``, where ``dtrain`` has
    ``get_label()`` and ``get_weight()``. It returns gradient and hessian. If it takes the weights, it must multiply
    both by them; otherwise they are multiplied here. The model file stores its name and the link, so that the model
    loads and scores without the function.

    Parameters
    ----------
    gradient
        The first derivative of the loss with respect to the margin, as SQL over ``label``, ``margin`` and ``weight``
        (by which it is multiplied in any case), or the function. A function's arrays have the shape (rows,), or (rows,
        outputs) for several targets and for the classes of ``link="softmax"``; its hessian must be 0 or more.
    hessian
        The second derivative, as SQL. It must be greater than 0 in every row.
    link
        The prediction as SQL over ``margin``, or ``"identity"``, ``"log"``, ``"logit"`` (the probability of the second
        of two classes) or ``"softmax"`` (of several classes; for a function).
    metric
        The default metric, by name. If omitted, it is logloss or mlogloss for classes, and rmse otherwise.

    Raises
    ------
    ParameterError
        If SQL is not numeric, uses another name or a function that some engine lacks, or if the function has another
        signature.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [1.0, 1.0, 9.0, 9.0]})
    >>> log_cosh = fb.Objective("1 - 2 / (EXP(2 * (margin - label)) + 1)",
    ...                         hessian="GREATEST(4 / POWER(EXP(margin - label) + EXP(label - margin), 2), 1e-3)")
    >>> model = fb.fit(df, "y", objective=log_cosh, n_estimators=50, min_child_weight=0, max_delta_step=1)
    >>> model.predict(df).round(1).to_list()
    [1.0, 1.0, 9.0, 9.0]

    >>> import numpy as np
    >>> def poisson(label, margin):
    ...     return np.exp(margin) - label, np.exp(margin)
    >>> model = fb.fit(df, "y", objective=fb.Objective(poisson, link="log"), n_estimators=50, min_child_weight=0)
    >>> model.predict(df).round(1).to_list()
    [1.0, 1.0, 9.0, 9.0]
    """

    gradient: str | Callable[..., Any]
    hessian: str = "1"
    link: str = "margin"
    metric: str | None = None

    def __post_init__(self) -> None:
        sql = {} if may_be_called(self.gradient) else {"gradient": self.gradient, "hessian": self.hessian}
        for role, text in sql.items():
            if not isinstance(text, str):
                or_function = " or a function" if role == "gradient" else ""
                raise ParameterError(f"{role} must be a SQL expression, a string{or_function}, not {shown(text)}")
            Expression(text, _ROW).required_number(f"the {role} of the objective,")
        if not sql and self.hessian != "1":
            raise ParameterError("hessian can't be combined with a function, which returns gradient and hessian")
        if not isinstance(self.link, str):
            raise ParameterError(f"link must be a SQL expression, a string, not {shown(self.link)}")
        if self.link == SOFTMAX and sql:
            raise ParameterError("link='softmax' is for a function, which returns a column for each class")
        if self.link not in LINKS:
            Expression(self.link, ("margin",)).required_number("the link of the objective,")
        if self.metric is not None:
            name_of("the name of a metric")("metric", self.metric)
        if not sql:
            self._call  # noqa: B018  # raises if its parameters are others

    @property
    def name(self) -> str:
        """The name in models and messages: ``custom``, or ``python:`` and the name of the function."""
        return f"python:{name_of_function(self.gradient)}" if may_be_called(self.gradient) else "custom"

    @property
    def is_function(self) -> bool:
        """Whether it is a Python function over arrays."""
        return may_be_called(self.gradient)

    @property
    def family(self) -> str:
        """The kind of target that the link implies: ``binary``, ``multi``, or ``reg``."""
        family = LINKS.get(self.link, _NO_NAME).loss.partition(":")[0]
        return family if family in ("binary", "multi") else "reg"

    @property
    def _call(self) -> ArrayCall:
        assert may_be_called(self.gradient)
        return ArrayCall(self.gradient, f"objective {shown(self.name)}", "margin", _RETURNS)

    def loss(self, n_targets: int = 1, num_class: int | None = None) -> Loss:
        """Return the `Loss` to train.

        Raises
        ------
        ParameterError
            If it is for one target, and there are several.
        """
        link = LINKS.get(self.link, _NO_NAME)
        sql, like = link.sql or self.link, link.like(num_class or 2)
        metric = self.metric or link.metric
        if may_be_called(self.gradient):
            links = SOFTMAX if self.link == SOFTMAX else [sql]
            scored = foreign_loss(self.name, links, 0 if like is None else like.classes)
            loss = _trained_by(self._call, _of_targets(scored, n_targets))
        else:
            assert isinstance(self.gradient, str)
            derivatives = Derivatives(Expression(self.gradient, _ROW), Expression(self.hessian, _ROW))
            loss = Loss("custom", (derivatives,), (Expression(sql, ("margin",)),), metric, definition={
                "gradient": self.gradient, "hessian": self.hessian, "link": self.link, "metric": metric
            })  # fmt: skip
            loss = _of_targets(loss, n_targets)
        loss = replace(loss, metric=metric, start=Start("newton"))
        if like is None:
            return loss
        loss = replace(loss, margin_of=like.margin_of, score_range=like.score_range, classes=like.classes)
        if not like.classes:
            return loss
        return replace(loss, label_condition=like.label_condition, label_requirement=like.label_requirement)


def with_function(objective: Any, n_classes: int = 0) -> Any:
    """Return an `Objective` for a function; anything else unchanged.

    ``n_classes`` of a classifier determines the link.

    >>> with_function("reg:squarederror"), with_function(lambda label, margin: None, n_classes=3).link
    ('reg:squarederror', 'softmax')
    """
    if not may_be_called(objective) or isinstance(objective, Objective):
        return objective
    return Objective(objective, link=SOFTMAX if n_classes > 2 else "logit" if n_classes == 2 else "margin")


def name_of_objective(objective: Any) -> str:
    """Return the name of an objective in messages."""
    return objective.name if isinstance(objective, Objective) else str(objective)


def _of_targets(loss: Loss, n_targets: int) -> Loss:
    return loss if n_targets == 1 else multi_target_loss(loss, n_targets)


# --- a function over arrays -------------------------------------------------------------------------------------------


def _trained_by(call: ArrayCall, loss: Loss) -> Loss:
    """Return the loss with derivatives computed by a function."""
    n, of_label = loss.n_outputs, loss.labels
    columns = [(f"function_g_{k}", f"function_h_{k}") for k in range(n)]

    def compute(arrays: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        label, margin = side_by_side(arrays, of_label), side_by_side(arrays, loss.margins)
        returned = call(label, margin, arrays["weight"])
        g, h = _derivatives(returned, margin.shape, loss.name)
        return {name: values for k, pair in enumerate(columns) for name, values in zip(pair, (g[k], h[k]), strict=True)}

    return replace(
        loss, is_trainable=True, terms={"derivatives": ArrayFunction(compute, (*of_label, *loss.margins, "weight"))},
        outputs=tuple(
            Derivatives(Expression(g, (g,)), Expression(h, (h,)), are_weighted=call.takes_weight) for g, h in columns
        ),
    )  # fmt: skip


def _derivatives(returned: Any, shape: tuple[int, ...], name: str) -> list[FloatArray]:
    """Return g and h, shape (outputs, rows) each, from the result of a function.

    Raises
    ------
    ParameterError
        If it is not a pair of numeric arrays with the ``shape`` of the margins.
    DataError
        If a value is not finite, or a hessian is negative.
    """
    what = f"objective {shown(name)}"
    form = f"must return (gradient, hessian), two arrays of shape {shape}"
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        kind = f"{len(returned)} values" if isinstance(returned, tuple | list) else type(returned).__name__
        raise ParameterError(f"{what} {form}, not {kind}")
    found = []
    for role, values in zip(("gradient", "hessian"), returned, strict=True):
        array = np.asarray(values)
        if array.dtype.kind not in "biuf":
            raise ParameterError(f"{what} {form}; the {role} has dtype {array.dtype}, which is not of numbers")
        if array.shape not in (shape, (*shape[:1], 1) if len(shape) == 1 else shape):
            raise ParameterError(f"{what} {form}; the {role} has shape {array.shape}")
        numbers = array.astype(np.float64).reshape(len(array), -1).T
        wrong = ~np.isfinite(numbers) | (numbers < 0.0 if role == "hessian" else False)
        if wrong.any():
            needed = "finite and 0 or more" if role == "hessian" else "finite"
            row = int(wrong.any(axis=0).argmax())
            raise DataError(
                f"the {role} of {what} is {numbers[:, row][wrong[:, row]][0]:g} in row {row} (from 0), and not "
                f"{needed} in {int(wrong.any(axis=0).sum()):,} of {numbers.shape[1]:,} rows"
            )
        found.append(np.ascontiguousarray(numbers))
    return found


def scored_loss(loss: Loss) -> Loss:
    """Return the loss of a Python function in the form of a model file, without derivatives."""
    assert loss.definition is not None
    return _of_targets(read_foreign_loss(loss.definition), len(loss.labels))


# --- losses of models whose links are known, and their derivatives not: imported ones, and those of functions ---------


FOREIGN_FIELDS = ("name", "links", "classes")
_NOTHING = Derivatives(Expression("0", ()), Expression("1", ()))


def foreign_loss(name: str, links: Sequence[str] | str, classes: int = 0) -> Loss:
    """Return a loss that can score but not train.

    Parameters
    ----------
    name
        The library and its name for the loss: ``"lightgbm:multiclassova"``.
    links
        The predictions as SQL over ``margin``, or over ``margin_0``, ``margin_1`` and so on if there are several links.
        ``"softmax"`` is one link over a margin for each class.
    classes
        The number of classes, 0 for a regression. A single link is the probability of class 1 of 2; several links are
        one for each class, and the class with the largest margin is predicted.

    Raises
    ------
    ParameterError
        If a link is not a supported expression, or the number of classes does not match the links.
    """
    definition = {"name": name, "links": links if isinstance(links, str) else list(links), "classes": classes}
    if isinstance(links, str):
        if links != SOFTMAX or classes < 2:
            raise ParameterError("the links of an objective must be a list, or 'softmax' of 2 classes or more")
        like = get_loss(LINKS[SOFTMAX].loss, {"num_class": classes})
        return Loss(
            name, (_NOTHING,) * classes, like.links, "mlogloss", link_terms=like.link_terms, evaluated=like.evaluated,
            classes=classes, definition=definition, is_trainable=False,
        )  # fmt: skip
    if classes not in ((0, 2) if len(links) == 1 else (0, len(links))) or not links:
        raise ParameterError(f"an objective of {len(links)} links can't have {classes} classes")
    names = margin_names(len(links))
    expressions = tuple(Expression(link, names).required_number("the link") for link in links)
    return Loss(
        name, (_NOTHING,) * len(links), expressions, "rmse", classes=classes, definition=definition,
        is_trainable=False,
    )  # fmt: skip


def read_foreign_loss(definition: Mapping[str, Any]) -> Loss:
    """Return the loss that a model file describes, or raise `ParameterError`."""
    name, links, classes = (definition.get(field) for field in FOREIGN_FIELDS)
    are_texts = isinstance(links, list) and all(isinstance(link, str) for link in links)
    if not isinstance(name, str) or not (are_texts or links == SOFTMAX):
        raise ParameterError("an objective of another library has a name and a list of links")
    if not isinstance(classes, int) or isinstance(classes, bool):
        raise ParameterError("an objective of another library has a number of classes")
    return foreign_loss(name, links, classes)  # type: ignore[arg-type]  # checked above

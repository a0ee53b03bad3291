"""Metrics that are Python functions over arrays: those of users, scikit-learn's functions and its scorers.

A function is called with labels and predictions of all rows, as `frameboost.losses.functions` says, and returns a
number, or as in LightGBM and XGBoost a tuple with it: (name, value) or (name, value, is_higher_better).

A scorer is asked for what it says of an estimator: its function, whether larger is better, and whether it takes
classes, probabilities or margins.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from frameboost.checks.messages import shown
from frameboost.engines.contract import ArrayRows, Rows
from frameboost.errors import ParameterError
from frameboost.expressions.expression import Expression
from frameboost.losses.functions import ArrayCall, name_of_function, side_by_side
from frameboost.losses.loss import Loss, Term, prediction_names

__all__ = ["FunctionMetric", "function_metric", "is_score_of_sklearn", "scorer_of"]


@dataclass(frozen=True)
class FunctionMetric:
    """A metric that a function computes of arrays.

    Attributes
    ----------
    name
        The name of the function or of the scorer.
    function
        The function.
    call
        How it is called.
    is_maximized
        Whether larger values are better, unless the function says so itself.
    sign
        What its values are multiplied by: -1 of a scorer of losses.
    methods
        What a scorer takes, as the methods of an estimator that return it; none of a function, which takes predictions.
    loss
        The loss that defines the labels and predictions.
    said
        What the function has returned beside its value, ``"name"`` and ``"is_higher_better"``, once it was called;
        copies share it.
    """

    name: str
    function: Callable[..., Any]
    call: ArrayCall
    is_maximized: bool
    sign: float = 1.0
    methods: tuple[str, ...] = ()
    loss: Loss | None = None
    terms: Mapping[str, Term] = field(default_factory=dict)
    said: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def maximize(self) -> bool:
        """Whether larger values are better, which is known for sure once the function was called."""
        return bool(self.said.get("is_higher_better", self.is_maximized))

    @property
    def title(self) -> str:
        """The name in histories: what the function returns as such, once it was called."""
        return str(self.said.get("name", self.name))

    def evaluate(self, rows: Rows) -> float:
        """Return the metric over the rows at their current margins."""
        loss = self.loss
        assert loss is not None
        is_margin = bool(loss.classes) and self.methods[:1] == ("decision_function",) and loss.n_outputs == 1
        read = loss.margins if is_margin else prediction_names(len(loss.evaluated or loss.links))
        names = (*loss.labels, *read, "weight")
        arrays = cast("ArrayRows", rows).computed({name: Expression(name, (name,)) for name in names})
        label, prediction = side_by_side(arrays, loss.labels), side_by_side(arrays, read)
        if loss.classes and self.methods[:1] == ("predict",):
            best = prediction.argmax(axis=1) if prediction.ndim == 2 else prediction > loss.threshold
            prediction = best.astype(np.float64)
        try:
            returned = self.call(label, prediction, arrays["weight"])
        except Exception as error:
            if loss.classes:
                what = (
                    "the numbers of classes" if self.methods[:1] == ("predict",) else "their probabilities or margins"
                )
                error.add_note(
                    f"eval_metric {shown(self.name)} is called with classes by number, from 0, as labels and {what} as "
                    "predictions; scikit-learn's name of a metric, such as 'f1', is of classes"
                )
            raise
        return self._number(returned)

    def _number(self, returned: Any) -> float:
        value = returned
        if isinstance(returned, tuple) and len(returned) in (2, 3) and isinstance(returned[0], str):
            self.said.setdefault("name", returned[0])
            value = returned[1]
            if len(returned) == 3:
                self.said["is_higher_better"] = bool(returned[2])
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        if not isinstance(value, numbers.Real):
            raise ParameterError(
                f"eval_metric {shown(self.name)} must return a number, or a tuple (name, value) or (name, value, "
                f"is_higher_better), not {shown(returned)}"
            )
        return self.sign * float(value) + 0.0


def function_metric(item: Any, name: str | None = None, *, maximize: bool | None = None) -> FunctionMetric:
    """Return the metric of a function or a scorer, still without its loss.

    Without ``maximize``, smaller values are better, but of scikit-learn's functions whose names end with ``_score``.

    Raises
    ------
    ParameterError
        If the parameters of the function are other ones.
    """
    item = _score_of_estimator(item)
    function, sign, methods, options = item, 1.0, (), {}
    said = {} if name is None else {"name": name}  # an explicit name overrides the returned one
    name = name or name_of_function(item)
    if "sklearn" in sys.modules and all(hasattr(item, each) for each in ("_score_func", "_sign", "_kwargs")):
        function, options, sign, maximize = item._score_func, item._kwargs, float(item._sign), True
        wanted = getattr(item, "_response_method", "predict")
        methods = (wanted,) if isinstance(wanted, str) else tuple(wanted)
        if name == type(item).__name__:
            name = f"neg_{name_of_function(function)}" if sign < 0 else name_of_function(function)
    elif maximize is None:
        maximize = str(getattr(function, "__module__", "")).startswith("sklearn.metrics") and name.endswith("_score")
    call = ArrayCall(function, f"eval_metric {shown(name)}", "prediction", "number", options)
    return FunctionMetric(name, function, call, maximize, sign, methods, said=said)


def _score_of_estimator(item: Any) -> Any:
    """Return the scorer that an estimator's own ``score`` is, for what scikit-learn's ``check_scoring`` makes of it.

    Anything else is returned unchanged.
    """
    if type(item).__name__ != "_PassthroughScorer":
        return item
    from sklearn.base import is_classifier, is_regressor

    name = "accuracy" if is_classifier(item._estimator) else "r2" if is_regressor(item._estimator) else ""
    return scorer_of(name) or item


def scorer_of(name: str) -> Any | None:
    """Return scikit-learn's scorer of that name, None if there is none or scikit-learn is not installed."""
    try:
        from sklearn.metrics import get_scorer, get_scorer_names
    except ImportError:
        return None
    return get_scorer(name) if name in get_scorer_names() else None


def is_score_of_sklearn(name: str) -> bool:
    """Whether scikit-learn has a scorer of that name, or a function for which larger values are better.

    >>> # needs sklearn
    >>> is_score_of_sklearn("neg_log_loss"), is_score_of_sklearn("r2_score"), is_score_of_sklearn("log_loss")
    (True, True, False)
    """
    if scorer_of(name) is not None:
        return True
    return name.endswith("_score") and hasattr(sys.modules.get("sklearn.metrics"), name)

"""Call users' functions over arrays, objectives and metrics, with the signatures of XGBoost, LightGBM and scikit-learn.

================================  ===================================================================================
``f(label, prediction)``          as scikit-learn's metrics and the estimators of both libraries
``f(label, prediction, weight)``  the same, of weighted rows too; the weight may be a keyword, ``sample_weight``
``f(prediction, dtrain)``         as ``xgboost.train`` and ``lightgbm.train``; ``dtrain.get_label()``
================================  ===================================================================================

Parameter names or types distinguish the last form from the first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from frameboost.errors import ParameterError

__all__ = ["ArrayCall", "LabelledRows", "may_be_called", "name_of_function", "side_by_side"]

Floats = npt.NDArray[np.float64]

_DATASET = re.compile(r"d|dm|dmat|dmatrix|d?(train|test|valid|eval|data|set|dataset)|\w+_(data|dataset|dmatrix|set)")
_DATASET_TYPES = ("DMatrix", "Dataset")
_PREDICTION = re.compile(r"(y_?)?(pred\w*|hat)|margins?|(raw_)?scores?")
_WEIGHT = re.compile(r"(sample_?)?weights?|w")


class LabelledRows:
    """Labels and weights, with the methods of XGBoost's ``DMatrix`` and LightGBM's ``Dataset``."""

    def __init__(self, label: Floats, weight: Floats | None) -> None:
        self._label, self._weight = label, weight

    def get_label(self) -> Floats:
        """Return the labels."""
        return self._label

    def get_weight(self) -> Floats:
        """Return the weights, an empty array if all are 1."""
        return np.empty(0) if self._weight is None else self._weight

    def num_row(self) -> int:
        """Return the number of rows."""
        return len(self._label)

    num_data = num_row


class ArrayCall:
    """A user's function and its calling convention.

    Parameters
    ----------
    function
        The function.
    what
        The name in messages: ``objective 'focal'``.
    prediction
        The name of its second argument in messages: ``margin`` or ``prediction``.
    returns
        The expected return value, in messages.
    options
        Additional keywords of the call.

    Attributes
    ----------
    takes_weight
        Whether it takes row weights.

    Raises
    ------
    ParameterError
        If its signature matches none of the forms.
    """

    def __init__(
        self, function: Callable[..., Any], what: str, prediction: str, returns: str,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self._function = partial(function, **options) if options else function
        signature = _signature(self._function)
        parameters = [] if signature is None else list(signature.parameters.values())
        positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        n_needed = sum(p.default is p.empty for p in positional)
        others = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
        self._of_rows = len(positional) >= 2 and n_needed <= 2 and _is_dataset(positional[1])
        weight = next((p for p in parameters if p not in positional[:2] and _WEIGHT.fullmatch(p.name)), None)
        takes_any = signature is None or any(p.kind is p.VAR_POSITIONAL for p in parameters)
        self._weight_name = "" if weight is None or weight.kind is weight.POSITIONAL_ONLY else weight.name
        self._has_third = n_needed == 3 and not self._weight_name
        self._must_have_weight = weight is None or weight.default is weight.empty
        fits = len(positional) >= 2 and n_needed <= 3 and (not others or others == [weight])
        is_swapped = bool(positional) and not self._of_rows and _PREDICTION.fullmatch(positional[0].name) is not None
        if not (takes_any or fits) or is_swapped:
            raise ParameterError(
                f"{what} takes {_names(signature)}; write it as f(label, {prediction}) or f(label, {prediction}, "
                f"weight) -> {returns}, over arrays, or with XGBoost's f({prediction}, dtrain)"
            )
        self.takes_weight = self._of_rows or bool(self._weight_name) or self._has_third

    def __call__(self, label: Floats, prediction: Floats, weight: Floats) -> Any:
        """Call the function."""
        is_weighted = bool((weight != 1.0).any())
        if self._of_rows:
            return self._function(prediction, LabelledRows(label, weight if is_weighted else None))
        if self._has_third:
            return self._function(label, prediction, weight)
        if self._weight_name and (is_weighted or self._must_have_weight):
            return self._function(label, prediction, **{self._weight_name: weight})
        return self._function(label, prediction)


def side_by_side(arrays: Mapping[str, Floats], names: Sequence[str]) -> Floats:
    """Return columns as an array of shape (rows,), or (rows, columns) for several."""
    return arrays[names[0]] if len(names) == 1 else np.column_stack([arrays[name] for name in names])


def may_be_called(value: object) -> TypeGuard[Callable[..., Any]]:
    """Whether a value is a function, or a callable object; classes are neither."""
    return callable(value) and not isinstance(value, type)


def name_of_function(function: Callable[..., Any]) -> str:
    """Return the name of a function, of the function in a ``partial``, or of an object's class."""
    inner = function
    while hasattr(inner, "func"):
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return None


def _is_dataset(parameter: inspect.Parameter) -> bool:
    """Whether a parameter takes a DMatrix or a Dataset, by its type annotation, or else by its name."""
    if parameter.annotation is not parameter.empty:
        text = parameter.annotation if isinstance(parameter.annotation, str) else str(parameter.annotation)
        return any(name in text for name in _DATASET_TYPES)
    return _DATASET.fullmatch(parameter.name) is not None


def _names(signature: inspect.Signature | None) -> str:
    """Return a signature without its types."""
    parameters = [] if signature is None else signature.parameters.values()
    bare = [each.replace(annotation=each.empty) for each in parameters]
    return str(inspect.Signature(bare))

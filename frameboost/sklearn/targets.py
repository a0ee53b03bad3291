"""Checks of y and of the weights of its rows, in scikit-learn's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import is_classifier
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import DataError, ParameterError

__all__ = ["Array", "FloatArray", "check_labels", "check_numbers", "check_queries", "check_weights", "without_zeros"]

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]


def check_numbers(y: Any, estimator: object, name: str = "y", *, several: bool = False) -> FloatArray:
    """Return a numeric target, or ``several`` as the columns of an array; a single column becomes one-dimensional."""
    values = _values(y, estimator, name, several=several)
    if values.dtype.kind not in "biufO":
        raise ValueError(f"{name} has type {values.dtype}; a target must be numeric")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:  # of strings among objects
        raise ValueError(f"{name} holds a value that is no number; a target must be numeric") from error
    except OverflowError as error:  # of Python's integers
        raise ParameterError(f"{name} holds a number beyond any float64; a target must be of finite numbers") from error
    assert_all_finite(numbers, input_name=name)
    return numbers


def check_labels(y: Any, estimator: object, name: str = "y") -> Array:
    """Return the labels of a classification."""
    labels = _values(y, estimator, name)
    _refuse_missing(labels, name)
    check_classification_targets(labels)
    return labels


def check_queries(qid: Any, name: str = "qid") -> Array:
    """Return the number of each row's query, from 0."""
    queries: Array = column_or_1d(qid)
    _refuse_missing(queries, name)
    return np.unique(queries, return_inverse=True)[1]


def check_weights(sample_weight: Any, name: str = "sample_weight") -> FloatArray:
    """Return the weights of rows: finite numbers, 0 or more."""
    try:
        weight: FloatArray = column_or_1d(sample_weight, dtype=np.float64)
    except OverflowError as error:  # of Python's integers
        raise ParameterError(f"{name} holds a number beyond any float64; weights must be finite numbers") from error
    assert_all_finite(weight, input_name=name)
    if (weight < 0).any():
        raise DataError(f"{name} has negative weights, the lowest {weight.min():g}; a weight must be 0 or more")
    if not weight.any():
        raise ValueError(f"{name} is zero in every row; some row must count")
    return weight


def without_zeros(
    frame: pl.DataFrame | SparseFrame, target: Array, sample_weight: Any
) -> tuple[pl.DataFrame | SparseFrame, dict[str, Array]]:
    """Return the rows with a positive weight, and their roles.

    scikit-learn requires that a row of weight 0 has no effect. `frameboost.fit` would still propose cuts from its
    values, so it is removed.
    """
    check_consistent_length(frame, target)
    if sample_weight is None:
        return frame, {"target": target}
    weight = check_weights(sample_weight)
    check_consistent_length(frame, weight)
    counts = weight != 0
    return frame.filter(pl.Series(counts)), {"target": target[counts], "weight": weight[counts]}


def _refuse_missing(values: Array, name: str) -> None:
    """Raise ValueError if a value is missing: None and pandas' NA, which have no order among others, or NaN."""
    if values.dtype.kind == "O" and any(type(value).__name__ in ("NoneType", "NAType") for value in values):
        raise ValueError(f"Input {name} contains missing values.")
    assert_all_finite(values, input_name=name)


def _values(y: Any, estimator: object, name: str, *, several: bool = False) -> Array:
    """Return y as an array; a column becomes one-dimensional, with scikit-learn's warning."""
    kind = type(estimator).__name__
    if y is None:
        raise ValueError(f"This {kind} estimator requires {name} to be passed, but the target {name} is None.")
    if isinstance(y, pl.LazyFrame):
        y = y.collect()
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        if several:
            return np.asarray(y)
        way = (
            "; sklearn.multioutput.MultiOutputClassifier trains one for each column" if is_classifier(estimator) else ""
        )
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {shape} instead: a {kind} has one target{way}"
        )
    values: Array = column_or_1d(y, warn=True)
    return values

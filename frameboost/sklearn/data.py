"""X, y and weights as the frame that is trained on.

In a sparse matrix an entry that is not stored is 0, as everywhere in scikit-learn and in LightGBM (XGBoost takes it for
missing); a NaN that is stored is missing. The model is that of the dense array. For prediction some rows at a time are
dense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from frameboost.checks.messages import shown
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, with_types_of_nulls
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import DataError, ParameterError
from frameboost.joins.star import Star
from frameboost.schema.types import FeatureType, free_name

__all__ = [
    "Array", "FloatArray", "Rows", "check_labels", "check_numbers", "check_queries", "check_weights", "names_in",
    "read", "read_parts", "read_whole", "role_columns", "with_roles", "with_types_of", "without_zeros",
]  # fmt: skip

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

_DENSE_AT_ONCE = 1 << 28  # bytes of a sparse matrix's rows that are scored together


def names_in(estimator: Any) -> list[str]:
    """Return the names that X's columns have in the model, as scikit-learn calls those without a name: x0, x1, ..."""
    if hasattr(estimator, "feature_names_in_"):
        return list(estimator.feature_names_in_)
    return [f"x{i}" for i in range(estimator.n_features_in_)]


def read(estimator: BaseEstimator, X: Any, *, reset: bool) -> pl.DataFrame | SparseFrame:
    """Return X as a frame with the columns of `names_in`; ``reset`` sets them, when fitting.

    It also sets ``_categorical``, the columns of categories that polars has no type of (see `FrameSource`).
    """
    checked = _checked(estimator, X, reset=reset)
    return _sparse_frame(estimator, checked) if _is_sparse(checked) else _frame(estimator, checked)


def read_whole(estimator: BaseEstimator, X: Any) -> pl.DataFrame:
    """Return X as a dense frame, for a fitted estimator.

    Raises
    ------
    DataError
        If it is a sparse matrix, and takes more memory than there is.
    """
    found = read(estimator, X, reset=False)
    return found.to_dense(found.columns) if isinstance(found, SparseFrame) else found


def read_parts(estimator: BaseEstimator, X: Any) -> Iterator[pl.DataFrame]:
    """Yield the rows of X as frames: all at once, of a sparse matrix as many as take little memory."""
    checked = _checked(estimator, X, reset=False)
    n_rows, n_columns = checked.shape
    at_once = n_rows
    if _is_sparse(checked):
        at_once = max(1, _DENSE_AT_ONCE // (n_columns * checked.dtype.itemsize))
    for start in range(0, max(1, n_rows), max(1, at_once)):
        yield _frame(estimator, checked if at_once >= n_rows else checked[start : start + at_once])


def _checked(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as a polars frame, an array or a sparse matrix by rows, whose columns are those of fit."""
    if isinstance(X, Star):
        raise DataError("X is a Star, whose rows scikit-learn can't count or choose; give its collect(), or take fit")
    if isinstance(X, pl.LazyFrame):
        X = X.collect()
    if reset:
        estimator._categorical = frozenset()
    if not _is_table(X):
        smallest = 2 if reset else 1
        return validate_data(
            estimator, X, reset=reset, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=smallest
        )
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    source = open_source(X, "X")
    if not isinstance(source, FrameSource):
        raise TypeError("the rows of a DuckDB relation have no order, so y can't tell them; use frameboost.fit")
    if reset:
        names = zip(source.names(), names_in(estimator), strict=True)
        estimator._categorical = frozenset(name for own, name in names if own in source.categorical)
    return source.frame.collect()


def _frame(estimator: BaseEstimator, checked: Any) -> pl.DataFrame:
    names = names_in(estimator)
    if isinstance(checked, pl.DataFrame):
        return checked.rename(dict(zip(checked.columns, names, strict=True)))
    return pl.from_numpy(_plain(_by_columns(checked) if _is_sparse(checked) else checked), schema=names)


def _by_columns(matrix: Any) -> Array:
    """Return a sparse matrix as a dense array, one column after the other in memory, as polars takes it.

    SciPy's ``toarray(order="F")`` writes the same array 20 times slower than that of the transposed matrix.
    """
    transposed: Array = matrix.tocsc().T.toarray()
    return transposed.T


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "indptr")


def _is_table(X: Any) -> bool:
    """Whether X is a frame of typed columns: a polars or pandas frame or an Arrow table, but not a series."""
    return hasattr(type(X), "__arrow_c_stream__") and len(getattr(X, "shape", ())) == 2


def _sparse_frame(estimator: BaseEstimator, matrix: Any) -> SparseFrame:
    by_column = matrix.tocsc()
    if by_column is matrix or not by_column.has_canonical_format:
        by_column = by_column.copy()
        by_column.sum_duplicates()
    by_column.data = _plain(by_column.data)
    return SparseFrame(by_column, tuple(names_in(estimator)))


def _plain(array: Array) -> Array:
    """Return the array with a type that polars has, and equal values."""
    if array.dtype.kind == "b":
        return array.astype("u1")  # in an array True is a number, and may come as 1.0 the next time
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype("f8")
    return array


# --- rows to train and validate on ------------------------------------------------------------------------------------

# The names of the columns of target, weights and queries, which are added to those of X.
_NAMES = {"target": "y", "weight": "sample_weight", "group": "qid"}


class Rows(NamedTuple):
    """Features, and the other columns by keyword of `frameboost.fit`; a target of several columns is an array."""

    frame: pl.DataFrame | SparseFrame
    roles: dict[str, Array]


def role_columns(rows: Rows) -> dict[str, list[str]]:
    """Return the names of the columns that the roles have beside the features: of several targets y0, y1, ..."""
    taken, found = set(rows.frame.columns), {}
    for role, values in rows.roles.items():
        names = [_NAMES[role]] if values.ndim == 1 else [f"{_NAMES[role]}{i}" for i in range(values.shape[1])]
        found[role] = [free_name(name, taken) for name in names]
        taken.update(found[role])
    return found


def with_roles(rows: Rows, columns: Mapping[str, Sequence[str]]) -> pl.DataFrame | SparseFrame:
    """Return the features and the columns of the roles, of which weights and queries are 1 by default."""
    frame, roles = rows
    for role, names in columns.items():
        values = np.atleast_2d(roles[role].T) if role in roles else np.ones((1, len(frame)))
        frame = frame.with_columns([pl.Series(name, column) for name, column in zip(names, values, strict=True)])
    return frame


def with_types_of(frame: pl.DataFrame | SparseFrame, features: Sequence[str], held_out: Sequence[Rows]) -> list[Rows]:
    """Return the rows of ``eval_set``, in which columns without a value have the types that they have in X.

    Raises
    ------
    DataError
        If a column has another type than in X.
    """
    own, found = frame.schema, []
    types = {name: kind for name in features if (kind := FeatureType.from_polars(own[name])) is not None}
    for i, (other, roles) in enumerate(held_out):
        if not isinstance(other, SparseFrame):
            other = with_types_of_nulls(FrameSource(other.lazy()), types, exactly=True).frame.collect()
        others = other.schema
        for name in features:
            if own[name] != others[name] and types.get(name) != FeatureType.from_polars(others[name]):
                raise DataError(
                    f"column {shown(name)} has type {others[name]} in X of eval_set[{i}], but {own[name]} in X; give "
                    "it the same type"
                )
        found.append(Rows(other, roles))
    return found


# --- y and weights, checked in scikit-learn's words -------------------------------------------------------------------


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

"""Convert X, y and weights to the frame to train on.

Implicit entries of a sparse matrix are 0, as in scikit-learn and LightGBM (in XGBoost they are missing); a stored NaN
is missing. The model is that of the dense array. Prediction makes a few rows dense at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _num_samples, validate_data

from frameboost.checks.messages import shown
from frameboost.data.database_table import DatabaseTable
from frameboost.data.foreign_tables import frame_of_arrow, is_arrow_table, is_frame_of, numbers_of_pandas
from frameboost.data.matrix import Matrix
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, with_types_of_nulls
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.draws import draw_key, draws
from frameboost.joins.star import Star
from frameboost.schema.types import FeatureType, free_name

__all__ = [
    "Array", "FloatArray", "Rows", "check_labels", "check_margins", "check_numbers", "check_queries", "check_weights",
    "has_queries", "held_out_rows", "names_in", "queries_in", "queries_of_sizes", "read", "read_parts", "read_whole",
    "role_columns", "with_roles", "with_types_of", "without_zeros",
]  # fmt: skip

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

_DENSE_AT_ONCE = 1 << 28  # bytes of a sparse matrix's rows that are scored together


# The column of X that holds the queries of a ranker, as in XGBoost.
_QUERIES = "qid"


def has_queries(X: Any) -> bool:
    """Whether X is a frame with the column `qid`."""
    if isinstance(X, pl.LazyFrame):
        return _QUERIES in X.collect_schema()
    return _is_table(X) and _QUERIES in getattr(X, "column_names", getattr(X, "columns", ()))


def has_queries_beside(estimator: Any, X: Any) -> bool:
    """Whether X has the column `qid` beside the features of a fitted ranker."""
    return hasattr(estimator, "_has_query_column") and has_queries(X) and _QUERIES not in names_in(estimator)


def queries_in(X: Any) -> Any:
    """Return the query column of X, if it has one."""
    return X.select(_QUERIES).collect().to_series() if isinstance(X, pl.LazyFrame) else X[_QUERIES]


def names_in(estimator: Any) -> list[str]:
    """Return the feature names of X; unnamed columns are x0, x1, ..., as in scikit-learn."""
    if hasattr(estimator, "feature_names_in_"):
        names: list[str] = estimator.feature_names_in_.tolist()
        return names
    own: list[str] | None = getattr(estimator, "_columns_without_names", None)  # of a model that was loaded
    return own or _numbered(estimator.n_features_in_)


@lru_cache(maxsize=1)
def _numbered(n_columns: int) -> list[str]:
    return [f"x{i}" for i in range(n_columns)]


def read(estimator: BaseEstimator, X: Any, *, reset: bool) -> pl.DataFrame | SparseFrame:
    """Return X as a frame with the columns of `names_in`; ``reset`` stores the names, when fitting.

    It also sets ``_categorical``, the categorical columns that polars has no type for (see `FrameSource`).
    """
    checked = _checked(estimator, X, reset=reset)
    return _sparse_frame(estimator, checked) if _is_sparse(checked) else _frame(estimator, checked)


def read_whole(estimator: BaseEstimator, X: Any) -> pl.DataFrame:
    """Return X as a dense frame, for a fitted estimator.

    Raises
    ------
    DataError
        If it is a sparse matrix that does not fit into memory as a dense one.
    """
    found = read(estimator, X, reset=False)
    return found.to_dense(found.columns) if isinstance(found, SparseFrame) else found


def read_parts(estimator: BaseEstimator, X: Any) -> Iterator[pl.DataFrame | Matrix]:
    """Yield the rows of X to predict: all at once, or for a sparse matrix as many as need little memory."""
    checked = _checked(estimator, X, reset=False)
    if isinstance(checked, pl.DataFrame | Matrix):
        yield checked
        return
    n_rows, n_columns = checked.shape
    at_once = n_rows
    if _is_sparse(checked):
        at_once = max(1, _DENSE_AT_ONCE // (n_columns * checked.dtype.itemsize))
    for start in range(0, max(1, n_rows), max(1, at_once)):
        part = checked if at_once >= n_rows else checked[start : start + at_once]
        yield Matrix(_plain(part.toarray() if _is_sparse(part) else part), names_in(estimator))


def _checked(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as a frame or a `Matrix` with the columns of `names_in`, an array or a CSR matrix; check its columns."""
    if isinstance(X, Star):
        raise DataError("X is a Star, whose rows scikit-learn can't count or choose; pass its collect(), or use fit")
    if isinstance(X, DatabaseTable):
        raise DataError(
            "X is a table of a database, whose rows have no order, so y can't match them; use frameboost.fit"
        )
    if isinstance(X, pl.LazyFrame):
        X = X.collect()
    if reset:
        estimator._categorical, estimator._columns_without_names = frozenset(), None
        drops_queries = getattr(estimator, "_has_query_column", False) and has_queries(X)
    else:
        drops_queries = has_queries_beside(estimator, X)
    if drops_queries:
        X = X.drop(columns=[_QUERIES]) if hasattr(X, "iloc") else pl.DataFrame(X).drop(_QUERIES)
    if not reset and (known := _known(estimator, X)) is not None:
        return known
    if not _is_table(X):
        smallest = 2 if reset else 1
        return validate_data(
            estimator, X, reset=reset, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=smallest
        )
    source = open_source(X, "X")  # which refuses columns of the same name
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    if not isinstance(source, FrameSource):
        raise TypeError("the rows of a DuckDB relation have no order, so y can't match them; use frameboost.fit")
    if reset:
        names = zip(source.names(), names_in(estimator), strict=True)
        estimator._categorical = frozenset(name for own, name in names if own in source.categorical)
    frame = source.frame.collect()
    return frame.rename(dict(zip(frame.columns, names_in(estimator), strict=True)))


def _known(estimator: Any, X: Any) -> Any:
    """Return X as `_checked` does if it needs no more checks; `validate_data` takes longer than scoring a row.

    That is an array of numbers, or a frame, or numbers in a table of pandas or Arrow, with the columns of fit.
    """
    if not hasattr(estimator, "feature_names_in_"):
        is_numbers = type(X) is np.ndarray and X.dtype.kind in "fiu" and X.ndim == 2 and len(X) > 0
        fits = is_numbers and X.shape[1] == estimator.n_features_in_
        return Matrix(_plain(X), names_in(estimator)) if fits else None
    if is_frame_of("pandas", X):
        X = numbers_of_pandas(X)
    elif is_arrow_table(X):
        frame = frame_of_arrow(X)
        X = None if pl.String in map(type, frame.dtypes) else frame  # strings may not be UTF-8
    return X if isinstance(X, pl.DataFrame | Matrix) and X.columns == names_in(estimator) else None


def _frame(estimator: BaseEstimator, checked: Any) -> pl.DataFrame:
    if isinstance(checked, pl.DataFrame):
        return checked
    if isinstance(checked, Matrix):
        return checked.frame()
    return pl.from_numpy(_plain(checked), schema=names_in(estimator))


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "indptr")


def _is_table(X: Any) -> bool:
    """Whether X is a table of typed columns: a polars or pandas frame or an Arrow table, but not a series."""
    return hasattr(type(X), "__arrow_c_stream__") and len(getattr(X, "shape", ())) == 2


def _sparse_frame(estimator: BaseEstimator, matrix: Any) -> SparseFrame:
    by_column = matrix.tocsc()
    if by_column is matrix or not by_column.has_canonical_format:
        by_column = by_column.copy()
        by_column.sum_duplicates()
    by_column.data = _plain(by_column.data)
    return SparseFrame(by_column, tuple(names_in(estimator)))


def _plain(array: Array) -> Array:
    """Return the array with equal values in a type that polars has."""
    if array.dtype.char in "fd" and array.dtype.isnative:
        return array
    if array.dtype.kind == "b":
        return array.astype("u1")  # in an array True is a number, and may come as 1.0 the next time
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype("f8")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


# --- rows to train and validate on ------------------------------------------------------------------------------------

# The names of the columns of target, weights and queries, which are added to those of X.
_NAMES = {"target": "y", "weight": "sample_weight", "group": "qid", "base_margin": "base_margin"}
# The purpose of a random key; `data.held_out` has it too, for the rows that `frameboost.fit` holds out.
_HELD_OUT = 21


class Rows(NamedTuple):
    """Features, and other columns by keyword of `frameboost.fit`; a target of several columns is a 2-d array."""

    frame: pl.DataFrame | SparseFrame
    roles: dict[str, Array]

    def where(self, counts: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows where a mask is true."""
        return Rows(self.frame.filter(pl.Series(counts)), {role: each[counts] for role, each in self.roles.items()})


def without_zeros(rows: Rows) -> Rows:
    """Return the rows with a positive weight.

    scikit-learn requires that rows of weight 0 have no effect; `frameboost.fit` would propose cuts from their values.
    """
    weight = rows.roles.get("weight")
    return rows if weight is None else rows.where(weight != 0)


def held_out_rows(rows: Rows, share: float, seed: int, *, by_class: bool) -> tuple[Rows, Rows]:
    """Return training rows and held-out rows, drawn by a hash of row position and seed.

    Queries are drawn as a whole. ``by_class`` draws the same share of each class, and keeps at least one row of it.

    Parameters
    ----------
    share
        The share of the rows or queries, or their number if 1 or more.

    Raises
    ------
    DataError
        If no training rows are left.
    """
    unit, strata = rows.roles.get("group"), None
    n_units = len(rows.frame) if unit is None else int(unit.max()) + 1
    if by_class:
        target = rows.roles["target"]
        strata = np.unique(target.reshape(len(target), -1), axis=0, return_inverse=True)[1].ravel()
    n_held_out = max(1, round(share * n_units)) if share < 1 else int(share)
    if n_held_out >= n_units:
        what = "rows" if unit is None else "queries"
        raise DataError(
            f"validation_fraction={share:g} holds out {n_held_out:,} of {n_units:,} {what}, which leaves none to train "
            "on; set a smaller one"
        )
    units = pl.DataFrame({
        "draw": draws(np.arange(n_units), draw_key(seed, _HELD_OUT)),
        "stratum": np.zeros(n_units, np.int64) if strata is None else strata,
    })  # fmt: skip
    # Of the rows of a class in the order of their draws, the first ones are held out, to the same quantile of each.
    rank, last = pl.col("draw").rank("ordinal").over("stratum"), pl.len().over("stratum")
    order = units.select(
        ((rank - 0.5) / last).alias("quantile"), (rank == last).alias("last"), "draw", unit=pl.int_range(n_units)
    )
    chosen = order.sort("last", "quantile", "draw")["unit"].head(n_held_out).to_numpy()
    is_held_out = np.zeros(n_units, bool)
    is_held_out[chosen] = True
    of_rows = is_held_out if unit is None else is_held_out[unit]
    return rows.where(~of_rows), rows.where(of_rows)


def role_columns(rows: Rows) -> dict[str, list[str]]:
    """Return the column names of the roles beside the features; several targets are y0, y1, ..."""
    taken, found = set(rows.frame.columns), {}
    for role, values in rows.roles.items():
        names = [_NAMES[role]] if values.ndim == 1 else [f"{_NAMES[role]}{i}" for i in range(values.shape[1])]
        found[role] = [free_name(name, taken) for name in names]
        taken.update(found[role])
    return found


def with_roles(rows: Rows, columns: Mapping[str, Sequence[str]]) -> pl.DataFrame | SparseFrame:
    """Return the features with the columns of the roles; weights and queries default to 1."""
    frame, roles = rows
    for role, names in columns.items():
        values = np.atleast_2d(roles[role].T) if role in roles else np.ones((1, len(frame)))
        frame = frame.with_columns([pl.Series(name, column) for name, column in zip(names, values, strict=True)])
    return frame


def with_types_of(frame: pl.DataFrame | SparseFrame, features: Sequence[str], held_out: Sequence[Rows]) -> list[Rows]:
    """Return the rows of ``eval_set``, with columns of missing values only cast to the types of X.

    Raises
    ------
    DataError
        If the type of a column differs from X.
    """
    if not held_out:
        return []
    own, found = frame.schema, []
    types = {name: kind for name in features if (kind := FeatureType.from_polars(own[name])) is not None}
    for i, (other, roles) in enumerate(held_out):
        if not isinstance(other, SparseFrame):
            other = with_types_of_nulls(FrameSource(other.lazy()), types, exactly=True).frame.collect()
        others = other.schema
        for name in features:
            if own[name] != others[name] and types.get(name) != FeatureType.from_polars(others[name]):
                raise DataError(
                    f"column {shown(name)} has type {others[name]} in X of eval_set[{i}], but {own[name]} in X; cast "
                    "it to the same type"
                )
        found.append(Rows(other, roles))
    return found


# --- y and weights, checked in scikit-learn's words -------------------------------------------------------------------


def check_numbers(y: Any, estimator: object, name: str = "y", *, several: bool = False) -> FloatArray:
    """Return a numeric target, with ``several`` as a 2-d array; a single column becomes one-dimensional."""
    values = _values(y, estimator, name, several=several)
    if values.dtype.kind not in "biufO":
        raise ValueError(f"{name} has type {values.dtype}; a target must be numeric")
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as error:  # of strings among objects
        raise ValueError(f"{name} holds a value that is not a number; a target must be numeric") from error
    except OverflowError as error:  # of Python's integers
        raise ParameterError(f"{name} holds a number beyond any float64; a target must be of finite numbers") from error
    assert_all_finite(numbers, input_name=name)
    return numbers


def check_labels(y: Any, estimator: object, name: str = "y") -> Array:
    """Return the class labels, or for a multilabel target an array of 0 and 1."""
    labels = _values(y, estimator, name, several=True)
    _refuse_missing(labels, name)
    check_classification_targets(labels)
    if labels.ndim == 2 and type_of_target(labels) != "multilabel-indicator":
        raise ValueError(
            f"{name} should be a 1d array, got an array of shape {labels.shape} instead: a {type(estimator).__name__} "
            "has one target, or several of two values; sklearn.multioutput.MultiOutputClassifier trains one for each "
            "column"
        )
    return labels


def check_queries(qid: Any, name: str = "qid") -> Array:
    """Return the index of each row's query, from 0."""
    queries: Array = column_or_1d(qid)
    _refuse_missing(queries, name)
    return np.unique(queries, return_inverse=True)[1]


def queries_of_sizes(sizes: Any, X: Any, name: str = "group") -> Array:
    """Return the index of each row's query, for contiguous queries of these sizes."""
    n_rows = X.select(pl.len()).collect().item() if isinstance(X, pl.LazyFrame) else _num_samples(X)
    counts: Array = column_or_1d(sizes)
    is_numbers = counts.dtype.kind in "iuf" and (counts >= 0).all() and (counts % 1 == 0).all()
    if not is_numbers or counts.sum() != n_rows:
        raise ValueError(
            f"{name} must have the number of rows of each query, {n_rows:,} together, not {shown(counts.tolist())}; "
            "the query of each row is qid"
        )
    return np.repeat(np.arange(len(counts)), counts.astype(np.int64))


def check_margins(margins: Any, n_rows: int, name: str = "base_margin") -> FloatArray:
    """Return the offset of each row: a number, a column, or a column for each margin.

    Margins of several classes may be flat, class after class, as in LightGBM.
    """
    try:
        values: FloatArray = np.asarray(margins, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ParameterError(f"{name} must hold finite numbers, not {shown(margins)}") from error
    if values.ndim == 0:
        values = np.full(n_rows, values)
    if values.ndim == 1 and len(values) > n_rows > 0 and len(values) % n_rows == 0:
        values = values.reshape(-1, n_rows).T
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim > 2 or len(values) != n_rows:
        raise ValueError(
            f"{name} must have a number for each of {n_rows:,} rows, or one for each margin, not an array of shape "
            f"{np.shape(margins)}"
        )
    assert_all_finite(values, input_name=name)
    return values


def check_weights(sample_weight: Any, name: str = "sample_weight") -> FloatArray:
    """Return row weights; check that they are finite and 0 or more."""
    try:
        weight: FloatArray = column_or_1d(sample_weight, dtype=np.float64)
    except OverflowError as error:  # of Python's integers
        raise ParameterError(f"{name} holds a number beyond any float64; weights must be finite numbers") from error
    assert_all_finite(weight, input_name=name)
    if (weight < 0).any():
        raise DataError(f"{name} has negative weights, the lowest {weight.min():g}; a weight must be 0 or more")
    if not weight.any():
        raise ValueError(f"{name} is zero in every row; at least one must be positive")
    return weight


def _refuse_missing(values: Array, name: str) -> None:
    """Raise ValueError for missing values: None, pandas' NA, or NaN."""
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
        raise ValueError(f"{name} should be a 1d array, got an array of shape {shape} instead: a {kind} has one target")
    values: Array = column_or_1d(y, warn=True)
    return values

"""X as a frame: of tables, arrays and sparse matrices.

In a sparse matrix an entry that is not stored is 0, as everywhere in scikit-learn and in LightGBM (XGBoost takes it for
missing); a NaN that is stored is missing. The model is that of the dense array. For prediction some rows at a time are
dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.errors import DataError
from frameboost.joins.star import Star
from frameboost.sklearn.targets import Array

__all__ = ["names_in", "read", "read_parts", "read_whole"]

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

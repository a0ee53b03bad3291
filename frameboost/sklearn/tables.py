"""X as a frame: of tables, arrays and sparse matrices.

In a sparse matrix an entry that is not stored is 0, as everywhere in scikit-learn and in LightGBM (XGBoost takes it for
missing); a NaN that is stored is missing. It is trained on as a dense frame, so the model is that of the dense array.
For prediction only some rows at a time are dense.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from frameboost.data.sources import FrameSource, open_source
from frameboost.errors import DataError
from frameboost.runtime.available_memory import available_memory
from frameboost.sklearn.targets import Array

__all__ = ["names_in", "read", "read_parts"]

_DENSE_AT_ONCE = 1 << 28  # bytes of a sparse matrix's rows that are scored together
_BYTES_OF_BINS = 2  # for each value, besides the dense value itself: its bin, and a copy in another order


def names_in(estimator: Any) -> list[str]:
    """Return the names that X's columns have in the model, as scikit-learn calls those without a name: x0, x1, ..."""
    if hasattr(estimator, "feature_names_in_"):
        return list(estimator.feature_names_in_)
    return [f"x{i}" for i in range(estimator.n_features_in_)]


def read(estimator: BaseEstimator, X: Any, *, reset: bool) -> pl.DataFrame:
    """Return X as a frame with the columns of `names_in`; ``reset`` sets them, when fitting."""
    checked = _checked(estimator, X, reset=reset)
    if _is_sparse(checked):
        _check_fits(checked)
    return _frame(estimator, checked)


def read_parts(estimator: BaseEstimator, X: Any) -> Iterator[pl.DataFrame]:
    """Yield the rows of X as frames: all at once, of a sparse matrix as many as take little memory."""
    checked = _checked(estimator, X, reset=False)
    n_rows, n_columns = checked.shape
    at_once = n_rows
    if _is_sparse(checked):
        at_once = max(1, _DENSE_AT_ONCE // (n_columns * checked.dtype.itemsize))
    for start in range(0, max(1, n_rows), max(1, at_once)):
        yield _frame(estimator, checked if at_once >= n_rows else checked[start : start + at_once])


def _checked(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Return X as a polars frame, an array or a sparse matrix by rows, whose columns are those of fit."""
    if isinstance(X, pl.LazyFrame):
        X = X.collect()
    if not _is_table(X):
        smallest = 2 if reset else 1
        return validate_data(
            estimator, X, reset=reset, accept_sparse="csr", ensure_all_finite=False, ensure_min_samples=smallest
        )
    validate_data(estimator, X, skip_check_array=True, reset=reset)
    source = open_source(X, "X")
    if not isinstance(source, FrameSource):
        raise TypeError("the rows of a DuckDB relation have no order, so y can't tell them; use frameboost.fit")
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


def _check_fits(matrix: Any) -> None:
    """Raise `DataError` if a sparse matrix and its bins, both dense, take more memory than there is."""
    n_rows, n_columns = matrix.shape
    needed, available = n_rows * n_columns * (matrix.dtype.itemsize + _BYTES_OF_BINS), available_memory()
    if available is not None and needed > available:
        raise DataError(
            f"X is a sparse matrix of {n_rows:,} rows and {n_columns:,} columns, which would take {needed / 1e9:,.1f} "
            f"GB of memory as the dense frame that is trained on, and {available / 1e9:,.1f} GB are free; choose fewer "
            "columns (max_features of a vectorizer, SelectKBest) or combine them (TruncatedSVD)"
        )


def _plain(array: Array) -> Array:
    """Return the array with a type that polars has, and equal values."""
    if array.dtype.kind == "b":
        return array.astype("u1")  # in an array True is a number, and may come as 1.0 the next time
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype("f8")
    return array

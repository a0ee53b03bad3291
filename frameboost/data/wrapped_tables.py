"""Tables that stand for others: Ibis over DuckDB, narwhals frames, datasets of PyArrow; and objects that are no table.

They are told by the names of their classes, as the libraries may not be installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.errors import DataError
from frameboost.runtime import duckdb_errors

__all__ = ["unwrapped", "way_out"]


def unwrapped(data: Any, argument: str = "data") -> Any:
    """Return the table that an object stands for, or the object if it is none of these.

    An Ibis table of the DuckDB backend becomes a relation of the backend's connection, whose rows stay where they are;
    a narwhals frame the frame or relation below it; a PyArrow dataset a lazy frame that scans it. Sparse columns of a
    pandas frame become dense ones.

    Raises
    ------
    DataError
        If DuckDB can't run the query of an Ibis table.

    Examples
    --------
    >>> # needs narwhals
    >>> import narwhals, polars
    >>> unwrapped(narwhals.from_native(polars.DataFrame({"x": [1]}))).rows()
    [(1,)]
    """
    data = duckdb_errors.unwrapped(data)
    names = [f"{kind.__module__}.{kind.__name__}" for kind in type(data).__mro__]
    if any(name in ("narwhals.dataframe.DataFrame", "narwhals.dataframe.LazyFrame") for name in names) or any(
        name.startswith("narwhals.stable.") and name.endswith("Frame") for name in names
    ):
        return unwrapped(data.to_native(), argument)
    if "pyarrow._dataset.Dataset" in names:
        return pl.scan_pyarrow_dataset(data)
    if any(name.startswith("ibis.expr.types.") and name.endswith(".Table") for name in names):
        return _of_ibis(data, argument)
    if "pandas.DataFrame" in names or "pandas.core.frame.DataFrame" in names:
        sparse = {name: dtype.subtype for name, dtype in data.dtypes.items() if str(dtype).startswith("Sparse[")}
        return data.astype(sparse) if sparse else data
    return data


def _of_ibis(table: Any, argument: str) -> Any:
    """Return an Ibis table as a relation, if its backend is DuckDB; Ibis itself runs any other, and sends Arrow."""
    ibis = sys.modules["ibis"]  # whoever has such a table has imported it
    try:
        backend = table.get_backend()
    except ibis.common.exceptions.IbisError:  # of a table without a backend, or of two
        return table
    if type(backend).__module__ != "ibis.backends.duckdb":
        return table
    query = backend.compile(table)
    try:
        return backend.con.sql(query)
    except duckdb.Error as error:
        raise DataError(
            f"{argument} is an Ibis table whose query DuckDB can't run ({reason(error)}); give "
            "table.to_polars(), which reads it into memory"
        ) from error


def way_out(data: Any) -> str:
    """Return the end of the message that some data is no table: what to give instead."""
    if isinstance(data, np.ndarray) or hasattr(data, "tocsr"):  # of SciPy
        return (
            ", whose columns have no names; give a frame, such as pl.DataFrame(array, schema=[...]), or use an "
            "estimator, which takes arrays: fb.FrameBoostRegressor().fit(X, y)"
        )
    if type(data).__module__.split(".")[0] in ("xgboost", "lightgbm", "catboost"):
        return ", which gives no rows back; give the frame that it was made of, with the labels as a column"
    if isinstance(data, Path):
        frame = f"pl.scan_csv({shown(str(data))})"
        return f", and the name of {data.name} tells no format; give a frame of it, such as {frame}"
    return (
        "; it must be a polars DataFrame or LazyFrame, a DuckDB relation (such as con.table('flights')), a pandas "
        "DataFrame, a table that speaks the Arrow PyCapsule interface, the path of a Parquet, CSV, NDJSON, Arrow or "
        "DuckDB file, or a list of frames or paths"
    )

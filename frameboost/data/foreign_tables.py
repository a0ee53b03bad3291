"""Tables of other libraries: wrappers of tables, tables that polars reads, and messages for other objects.

Objects of Ibis, narwhals, PyArrow, pandas and Dask are recognised by the names of their classes, as the libraries may
not be installed.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.data.connections import dialect_called
from frameboost.data.database_table import table as database_table
from frameboost.data.matrix import Matrix
from frameboost.data.sources import FrameSource
from frameboost.errors import DataError
from frameboost.runtime.interrupts import plain_relation, waiting

__all__ = [
    "dictionaries_of", "frame_of_arrow", "is_arrow_table", "is_frame_of", "no_strings", "numbers_of_pandas",
    "open_arrow", "open_pandas", "refuse_duplicates", "table_behind", "table_name", "way_out",
]  # fmt: skip

# Raised by polars, and by pyarrow below it, for a column whose type polars lacks; a panic is not even an Exception.
_UNREADABLE = (
    ValueError,
    TypeError,
    ArithmeticError,
    NotImplementedError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)

# The types of NumPy that polars has as well; pandas compares them with its types, which are unequal to them.
_NUMBERS = frozenset(np.dtype(name) for name in ("?", *"bhilqBHILQfd"))


def table_behind(data: Any, argument: str = "data") -> Any:
    """Return the table that an object wraps, or the object itself.

    An Ibis table of the DuckDB backend becomes a relation of the backend's connection, without moving rows; a narwhals
    frame becomes its native frame or relation; a PyArrow dataset becomes a lazy frame that scans it. Sparse columns of
    a pandas frame become dense.

    Raises
    ------
    DataError
        If DuckDB can't run the query of an Ibis table.

    Examples
    --------
    >>> # needs narwhals
    >>> import narwhals, polars
    >>> table_behind(narwhals.from_native(polars.DataFrame({"x": [1]}))).rows()
    [(1,)]
    """
    data = plain_relation(data)
    names = [f"{kind.__module__}.{kind.__name__}" for kind in type(data).__mro__]
    if any(name in ("narwhals.dataframe.DataFrame", "narwhals.dataframe.LazyFrame") for name in names) or any(
        name.startswith("narwhals.stable.") and name.endswith("Frame") for name in names
    ):
        return table_behind(data.to_native(), argument)
    if "pyarrow._dataset.Dataset" in names:
        return pl.scan_pyarrow_dataset(data)
    if any(name.startswith("ibis.expr.types.") and name.endswith(".Table") for name in names):
        return _of_ibis(data, argument)
    if "pandas.DataFrame" in names or "pandas.core.frame.DataFrame" in names:
        sparse = {name: dtype.subtype for name, dtype in data.dtypes.items() if str(dtype).startswith("Sparse[")}
        return data.astype(sparse) if sparse else data
    return data


def _of_ibis(table: Any, argument: str) -> Any:
    """Return an Ibis table as a relation of DuckDB or a table of its database; Ibis sends others as Arrow."""
    ibis = sys.modules["ibis"]  # whoever has such a table has imported it
    try:
        backend = table.get_backend()
    except ibis.common.exceptions.IbisError:  # of a table without a backend, or of two
        return table
    if type(backend).__module__ != "ibis.backends.duckdb":
        known = dialect_called(str(backend.name))
        return table if known is None else database_table(backend, str(backend.compile(table)), dialect=known)
    query = backend.compile(table)
    try:
        return backend.con.sql(query)
    except duckdb.Error as error:
        raise DataError(
            f"{argument} is an Ibis table whose query DuckDB can't run ({reason(error)}); pass "
            "table.to_polars(), which reads it into memory"
        ) from error


def way_out(data: Any) -> str:
    """Return the end of a message for unsupported data: what to pass instead."""
    if isinstance(data, np.ndarray) or hasattr(data, "tocsr"):  # of SciPy
        return (
            ", whose columns have no names; pass a frame, such as pl.DataFrame(array, schema=[...]), or use an "
            "estimator, which takes arrays: fb.FrameBoostRegressor().fit(X, y)"
        )
    if type(data).__module__.split(".")[0] in ("xgboost", "lightgbm", "catboost"):
        return ", which can't be read back; pass the frame that it was made of, with the labels as a column"
    if isinstance(data, Path):
        frame = f"pl.scan_csv({shown(str(data))})"
        return f", and the format of {data.name} cannot be inferred from its name; pass it as a frame, such as {frame}"
    if callable(getattr(data, "cursor", None)) or hasattr(data, "raw_connection"):
        return ", not one of its tables; pass fb.table(connection, 'flights')"
    return (
        "; it must be a polars DataFrame or LazyFrame, a DuckDB relation (such as con.table('flights')), a table of "
        "another database (fb.table(connection, 'flights')), a pandas DataFrame, a table that speaks the Arrow "
        "PyCapsule interface, the path of a Parquet, CSV, NDJSON, Arrow or DuckDB file, or a list of frames or paths"
    )


# --- tables that polars reads -----------------------------------------------------------------------------------------


def open_pandas(frame: Any) -> FrameSource:
    """Open a pandas frame as a source."""
    if (numbers := numbers_of_pandas(frame)) is not None:
        return FrameSource((numbers.frame() if isinstance(numbers, Matrix) else numbers).lazy())
    refuse_duplicates([str(name) for name in frame.columns])
    source = _read(pl.from_pandas, frame, ((str(name), frame[[name]]) for name in frame.columns))
    categories = (
        str(name)
        for name, dtype in frame.dtypes.items()
        if str(dtype) == "category" or str(dtype).startswith("dictionary<")  # of an ArrowDtype
    )
    return replace(source, categorical=no_strings(source, categories))


def numbers_of_pandas(frame: Any) -> Matrix | pl.DataFrame | None:
    """Return a pandas frame of NumPy numbers only, NaN as NULL; None for other frames.

    Columns are read grouped by type; `polars.from_pandas` reads them one by one, which takes longer than scoring a row.
    """
    dtypes = frame.dtypes.tolist()
    kinds = set(dtypes)
    if not kinds or not kinds <= _NUMBERS:
        return None
    names = list(map(str, frame.columns.tolist()))
    refuse_duplicates(names)
    if len(kinds) == 1:
        return Matrix(frame.to_numpy(), names)
    positions = ([k for k, dtype in enumerate(dtypes) if dtype == kind] for kind in kinds)
    parts = (Matrix(frame.iloc[:, at].to_numpy(), [names[k] for k in at]).frame() for at in positions)
    return pl.concat(parts, how="horizontal").select(names)


def open_arrow(table: Any) -> FrameSource:
    """Open a table with the Arrow PyCapsule interface as a source."""
    names = getattr(table, "column_names", [])
    refuse_duplicates(names)
    source = _with_valid_text(_read(frame_of_arrow, table, ((name, table.select([name])) for name in names)))
    return replace(source, categorical=no_strings(source, dictionaries_of(table)))


@dataclass(frozen=True, slots=True)
class _Stream:
    """A table with the Arrow PyCapsule interface only: `polars.DataFrame` handles PyArrow's columns one by one."""

    table: Any

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def frame_of_arrow(table: Any) -> pl.DataFrame:
    """Return a table with the Arrow PyCapsule interface as a frame."""
    return pl.DataFrame(_Stream(table))


def is_arrow_table(data: Any) -> bool:
    """Whether this is a table or a record batch of PyArrow."""
    return type(data).__module__ == "pyarrow.lib" and type(data).__name__ in ("Table", "RecordBatch")


def is_frame_of(library: str, data: Any) -> bool:
    """Whether this is a DataFrame of a library or a subclass, by name, as it may not be installed."""
    bases = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(data).__mro__)
    return (library, "DataFrame") in bases


def _read(read: Callable[[Any], Any], data: Any, columns: Iterable[tuple[str, Any]]) -> FrameSource:
    """Read a table into polars; if that fails, read its ``columns`` one by one to name the column in the error."""
    try:
        return FrameSource(read(data).lazy())
    except _UNREADABLE as error:
        for name, column_alone in columns:
            try:
                read(column_alone)
            except _UNREADABLE:
                raise DataError(
                    f"column {shown(name)} can't be read by polars ({reason(error)}); convert it to numbers, dates or "
                    "strings, or drop it"
                ) from error
        raise DataError(f"the {type(data).__name__} can't be read by polars as a table ({reason(error)})") from error


def dictionaries_of(data: Any) -> list[str]:
    """Return the dictionary columns of a PyArrow table, batch or dataset."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(data).__mro__}
    if not any(kind.startswith("pyarrow.") for kind in kinds):
        return []
    return [field.name for field in data.schema if str(field.type).startswith("dictionary<")]


def no_strings(source: FrameSource, categorical: Iterable[str]) -> frozenset[str]:
    """Return the categorical columns without string categories, which polars has no type for."""
    types = source.types()
    return frozenset(name for name in categorical if (kind := types[name]) is not None and not kind.is_categorical)


def _with_valid_text(source: FrameSource) -> FrameSource:
    """Return the source if all text is UTF-8, else raise `DataError`; polars would crash later."""
    frame = source.frame.collect()
    for name, dtype in zip(frame.columns, frame.dtypes, strict=True):
        if dtype == pl.String:
            try:
                frame[name].cast(pl.Binary).cast(pl.String)
            except pl.exceptions.PolarsError as error:
                raise DataError(f"column {shown(name)} holds text that is not UTF-8; decode it first") from error
    return source


def refuse_duplicates(names: Sequence[str], *, ignore_case: bool = False) -> None:
    """Raise `DataError` if two columns have the same name."""
    if not ignore_case and len(set(names)) == len(names):
        return
    times, first = Counter(names), dict[bytes, str]()
    for name in names:
        # DuckDB ignores the case of ASCII letters only; so does lower() on bytes.
        key = name.encode().lower() if ignore_case else name.encode()
        other = first.setdefault(key, name)
        if times[name] > 1:
            raise DataError(f"column {shown(name)} occurs {times[name]} times; column names must be unique")
        if other != name:
            raise DataError(
                f"columns {shown(other)} and {shown(name)} differ only in case, which DuckDB ignores; rename "
                "one of them"
            )


# --- the name of the table that a relation reads, under which a query of the model joins it ---------------------------

_PART = r'"(?:[^"]|"")*"|\w+'
# All columns of a table or a view, or some as they are: with computed columns or conditions it is another table.
_WHOLE = re.compile(
    rf"\s*(?:SELECT\s+(?:\*|(?:{_PART})(?:\s*,\s*(?:{_PART}))*)\s+)?FROM\s+((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*;?\s*",
    re.IGNORECASE,
)
_PLAIN = re.compile(r'"([^\W\d]\w*)"')


def table_name(table: Any) -> str | None:
    """Return the qualified name of a relation's table or view as the user wrote it, its alias, or None.

    A filtered table has the alias of the table, but a join by that name would use all rows.

    Examples
    --------
    >>> con = duckdb.connect()
    >>> _ = con.execute('CREATE SCHEMA sales; CREATE TABLE sales."all orders" (id INTEGER)')
    >>> orders = con.table('sales."all orders"')
    >>> table_name(orders), table_name(orders.filter("id > 3")), table_name(orders.filter("id > 3").set_alias("late"))
    ('sales."all orders"', None, 'late')
    """
    relation = table_behind(table)
    if not isinstance(relation, duckdb.DuckDBPyRelation):
        return None
    try:
        query = waiting(relation).sql_query()
    except duckdb.Error:
        return None
    if whole := _WHOLE.fullmatch(query):
        name = re.sub(r"\s*(\.)\s*", r"\1", whole[1])
        return None if name.strip('"').startswith("__duckdb_") else _PLAIN.sub(r"\1", name)
    is_query = relation.type in ("QUERY_RELATION", "SUBQUERY_RELATION")
    alias = relation.alias
    return alias if is_query and not alias.startswith("unnamed_relation") else None

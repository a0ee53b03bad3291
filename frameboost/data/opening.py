"""`open_source`: the user's data, ``fit(data)``, as a source, or a sentence why it is none.

It makes a `FrameSource` or a `RelationSource` of it. Both have the same methods, so nothing above asks which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import duckdb
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.data.repeatable_rows import repeatable_source
from frameboost.data.several_files import Part, TableFiles, frame_part, parts_of_files, same_columns
from frameboost.data.sources import FrameSource, LocalSource, RelationSource, SparseSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.data.wrapped_tables import unwrapped, way_out
from frameboost.errors import DataError
from frameboost.runtime.duckdb_errors import waiting
from frameboost.schema.types import FeatureType

__all__ = ["Tables", "is_frame_of", "no_strings", "open_source"]

# Raised by polars, and by pyarrow below it, for a column whose type polars lacks; a panic is not even an Exception.
_UNREADABLE = (
    ValueError,
    TypeError,
    ArithmeticError,
    NotImplementedError,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
)
_UNTYPED = ("Null", "NULL")  # of polars and of DuckDB
# What `open_source` takes a list of.
_PARTS = (pl.DataFrame, pl.LazyFrame, str, Path)


class Tables(Protocol):
    """Several tables that are one source, such as `frameboost.joins.star.Star`."""

    def open_tables(self, argument: str) -> LocalSource:
        """Return the source; ``argument`` is what messages call it."""


def open_source(data: Any, argument: str = "data", *, once: bool = True) -> LocalSource:
    """Return the user's data as a source; ``argument`` is its name in messages.

    Columns of NULL that have no type, such as that of ``pl.DataFrame({"x": [None]})``, are of floats.

    By default the rows of a relation are the same each time that they are read (see `frameboost.data.repeatable_rows`).
    Without ``once`` they are not read yet: what is opened is only a part of the data.

    Raises
    ------
    DataError
        If it is no data that can be read.
    """
    source = _opened(data, argument, once=once)
    if other := [name for name, kind in source.types().items() if kind is None]:
        type_names = source.type_names()
        untyped = [name for name in other if type_names[name] in _UNTYPED]
        source = source.as_null(dict.fromkeys(untyped, FeatureType("float64")))
    return source


def _opened(data: Any, argument: str, *, once: bool) -> LocalSource:
    given, data = data, unwrapped(data, argument)
    if hasattr(type(data), "open_tables"):  # looked up on the type: a relation would look for a column of the name
        tables: Tables = data
        return tables.open_tables(argument)
    if isinstance(data, FrameSource | RelationSource):  # a part of another, such as a fold
        return data
    if isinstance(data, pl.LazyFrame):
        part = frame_part(data, "")
        source = _in_parts([part]) if part.is_file else FrameSource(data)
        return replace(source, categorical=no_strings(source, _dictionaries(given)))
    if isinstance(data, pl.DataFrame):
        return FrameSource(data.lazy())
    if isinstance(data, SparseFrame):
        return SparseSource(data.others.lazy(), table=data)
    if (files := TableFiles.of(data)) is not None:
        return _of_files(files, argument, once=once)
    if isinstance(data, list | tuple) and data and all(isinstance(part, _PARTS) for part in data):
        return _of_list(data, argument)
    if isinstance(data, duckdb.DuckDBPyRelation):
        try:
            waiting(data).limit(0)  # binds it: its table may have been dropped, or its connection closed
            names = waiting(data).columns
        except duckdb.Error as error:
            what = "the relation" if argument == "data" else f"{argument}, a relation,"
            raise DataError(f"{what} can't be read: {reason(error)}; make it anew") from error
        for name in names:
            if "\0" in name:
                raise DataError(f"column {shown(name)} has a NUL in its name, which Arrow can't hold; rename it")
        _refuse_duplicates(names, ignore_case=True)
        return (repeatable_source(data) if once else RelationSource(data)).comparable()
    if type(data).__module__.startswith("pyspark."):
        raise DataError(
            f"{argument} is a PySpark {type(data).__name__}, whose rows are in a cluster; give df.toArrow() if they "
            "fit into memory, or write them to Parquet and give pl.scan_parquet(...) or con.read_parquet(...); a model "
            "scores them in Spark as the column functions.expr(model.sql(dialect='spark'))"
        )
    if is_frame_of("dask", data):
        raise DataError(
            f"{argument} is a Dask DataFrame, which fit trains on with engine=fb.Dask(client); here give "
            "ddf.compute() if its rows fit into memory, or call this for each partition with ddf.map_partitions(...)"
        )
    # Looked up on the type, as Python does: a class itself is not a table. Nor is a polars Series.
    if is_frame_of("pandas", data):
        _refuse_duplicates([str(name) for name in data.columns])
        source = _read(pl.from_pandas, data, ((str(name), data[[name]]) for name in data.columns))
        categories = (
            str(name)
            for name, dtype in data.dtypes.items()
            if str(dtype) == "category" or str(dtype).startswith("dictionary<")  # of an ArrowDtype
        )
        return replace(source, categorical=no_strings(source, categories))
    if hasattr(type(data), "__arrow_c_stream__") and not isinstance(data, pl.Series):
        names = getattr(data, "column_names", [])
        _refuse_duplicates(names)
        source = _with_valid_text(_read(pl.DataFrame, data, ((name, data.select([name])) for name in names)))
        return replace(source, categorical=no_strings(source, _dictionaries(data)))
    raise DataError(f"{argument} is a {type(data).__name__}{way_out(data)}")


def _of_list(data: Sequence[Any], argument: str) -> FrameSource:
    """Return the rows of frames and of files, one after the other."""
    parts: list[Part] = []
    for number, item in enumerate(data, start=1):
        if isinstance(item, str | Path):
            found = parts_of_files(TableFiles((str(item),)), argument)
            if isinstance(found, duckdb.DuckDBPyRelation):
                raise DataError(f"{argument} has a table of DuckDB among frames; give a relation with all rows")
            parts += found
        else:
            parts.append(frame_part(item.lazy(), f"frame {number}" if number > 1 else f"the first frame of {argument}"))
    return _in_parts(parts)


def _of_files(files: TableFiles, argument: str, *, once: bool) -> LocalSource:
    """Return the table in files."""
    found = parts_of_files(files, argument)
    return _opened(found, argument, once=once) if isinstance(found, duckdb.DuckDBPyRelation) else _in_parts(found)


def _in_parts(parts: Sequence[Part]) -> FrameSource:
    """Return frames whose rows follow each other, with the columns of the first."""
    frames = same_columns(parts) if len(parts) > 1 else [parts[0].frame]
    whole = pl.concat(frames) if len(frames) > 1 else frames[0]
    source = FrameSource(
        whole, tuple(frames), tuple(part.name for part in parts),
        are_files=all(part.is_file for part in parts), are_columnar=all(part.is_columnar for part in parts),
    )  # fmt: skip
    return replace(source, categorical=no_strings(source, parts[0].categorical))


def is_frame_of(library: str, data: Any) -> bool:
    """Whether this is a DataFrame of a library or of a subclass, by name, as it may not be installed."""
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


def _dictionaries(data: Any) -> list[str]:
    """Return the columns of a table, a batch or a dataset of PyArrow that are dictionaries."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(data).__mro__}
    if not any(kind.startswith("pyarrow.") for kind in kinds):
        return []
    return [each.name for each in data.schema if str(each.type).startswith("dictionary<")]


def no_strings(source: FrameSource, categorical: Iterable[str]) -> frozenset[str]:
    """Return those of some columns of categories that polars has no categories of, as they are no strings."""
    types = source.types()
    return frozenset(name for name in categorical if (kind := types[name]) is not None and not kind.is_categorical)


def _with_valid_text(source: FrameSource) -> FrameSource:
    """Return the source if all text is UTF-8, else raise `DataError`: polars does not check, and crashes later."""
    frame = source.frame.collect()
    for name in frame.columns:
        if frame[name].dtype == pl.String:
            try:
                frame[name].cast(pl.Binary).cast(pl.String)
            except pl.exceptions.PolarsError as error:
                raise DataError(f"column {shown(name)} holds text that is not UTF-8; decode it first") from error
    return source


def _refuse_duplicates(names: Sequence[str], *, ignore_case: bool = False) -> None:
    first: dict[bytes, str] = {}
    for name in names:
        # DuckDB ignores the case of ASCII letters only; so does lower() on bytes.
        key = name.encode().lower() if ignore_case else name.encode()
        other = first.setdefault(key, name)
        if names.count(name) > 1:
            raise DataError(f"column {shown(name)} occurs {names.count(name)} times; column names must be unique")
        if other != name:
            raise DataError(
                f"columns {shown(other)} and {shown(name)} differ only in case, which DuckDB ignores; give one "
                "another name"
            )

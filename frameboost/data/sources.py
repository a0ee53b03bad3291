"""The user's data, ``fit(data)``: a polars frame, a table of any library that speaks Arrow, or a DuckDB relation.

`open_source` makes a `FrameSource` or a `RelationSource` of it. Both have the same methods, so nothing above asks
which.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.data.labels import codes_sql, distinct_strings, in_order, with_codes
from frameboost.data.predicates import as_polars, check_repeatable, unusable
from frameboost.data.several_files import Part, TableFiles, frame_part, parts_of_files, same_columns
from frameboost.data.spark_source import SparkSource
from frameboost.data.sparse_matrix import SparseFrame
from frameboost.data.wrapped_tables import unwrapped, way_out
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.runtime.duckdb_errors import first_duckdb_error
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = [
    "FrameSource", "LocalSource", "RelationSource", "Source", "SparseSource", "check_numeric", "is_frame_of",
    "open_source", "read_relation",
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
# What `open_source` takes a list of.
_PARTS = (pl.DataFrame, pl.LazyFrame, str, Path)


@dataclass(frozen=True)
class FrameSource:
    """A polars LazyFrame.

    Attributes
    ----------
    frame
        The frame.
    parts
        The frames that it consists of, one after the other, where the user gave several frames or files.
    part_names
        What messages call each part, if anything.
    are_files
        Whether the parts only read files (see `scanned_formats`), so that rows can be read by position.
    are_columnar
        Whether these are files of which one column can be read without the others: Parquet or Arrow, not CSV.
    """

    frame: pl.LazyFrame
    parts: tuple[pl.LazyFrame, ...] = ()
    part_names: tuple[str, ...] = ()
    are_files: bool = False
    are_columnar: bool = False

    def map(self, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> FrameSource:
        """Return the source with a function applied to the frame and to each part; it must take rows one by one."""
        return replace(self, frame=function(self.frame), parts=tuple(map(function, self.parts)))

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return self.frame.collect_schema().names()

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        schema = self.frame.collect_schema()
        types = {dtype: FeatureType.from_polars(dtype) for dtype in set(schema.dtypes())}  # few, of many columns
        return {name: types[dtype] for name, dtype in schema.items()}

    def type_names(self) -> dict[str, str]:
        """Return each column's type as the user knows it."""
        return {name: _shortened(str(dtype)) for name, dtype in self.frame.collect_schema().items()}

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> FrameSource:
        """Return the rows where a Boolean column or a SQL predicate is true; if ``negated``, all other rows."""
        try:
            schema = self.frame.collect_schema()
            condition, constants = (column(predicate), {}) if is_column else as_polars(predicate, schema)
            holds = condition.fill_null(False)
            kept = self.map(
                lambda frame: frame.with_columns(**constants).filter(~holds if negated else holds).drop(list(constants))
            )
            kept.frame.collect_schema()
        except pl.exceptions.PolarsError as error:
            raise unusable(predicate, error) from error
        return kept

    def check_repeatable(self, predicate: str | None) -> None:
        """Raise `ParameterError` if a predicate may have another value for a row when it is read again."""
        if predicate is not None:
            check_repeatable(predicate, f"valid={shown(predicate)}")

    def labels(self, name: str, most: int) -> list[str]:
        """Return at most so many distinct strings of a column, of an Enum in its order, of other types sorted."""
        return in_order(distinct_strings(self.frame, name, most), self.frame.collect_schema()[name])

    def with_codes(self, name: str, labels: Sequence[str]) -> FrameSource:
        """Return the rows with each string of a column replaced by its place among the labels."""
        return self.map(partial(with_codes, name=name, labels=tuple(labels)))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Return the columns as a lazy frame."""
        return self.frame.select(column(name) for name in names)


@dataclass(frozen=True)
class SparseSource(FrameSource):
    """A sparse matrix and the columns beside it, of which ``frame`` has only these.

    Attributes
    ----------
    table
        All columns.
    """

    table: SparseFrame = field(kw_only=True)

    def names(self) -> list[str]:
        """See `FrameSource.names`."""
        return self.table.columns

    def types(self) -> dict[str, FeatureType | None]:
        """See `FrameSource.types`."""
        return self.table.types()

    def type_names(self) -> dict[str, str]:
        """See `FrameSource.type_names`."""
        return {name: str(dtype) for name, dtype in self.table.schema.items()}

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """See `FrameSource.to_frame`; columns of the matrix become dense."""
        return self.table.to_dense(names).lazy()


@dataclass(frozen=True)
class RelationSource:
    """A DuckDB relation: a table, a view, a query, files."""

    relation: duckdb.DuckDBPyRelation

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return list(self.relation.columns)

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        types = zip(self.relation.columns, self.relation.types, strict=True)
        return {name: FeatureType.from_duckdb(str(type_)) for name, type_ in types}

    def type_names(self) -> dict[str, str]:
        """Return each column's type as the user knows it."""
        types = zip(self.relation.columns, self.relation.types, strict=True)
        return {name: _shortened(str(type_).strip('"')) for name, type_ in types}  # one type is written "NULL"

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> RelationSource:
        """Return the rows where a Boolean column or a SQL predicate is true; if ``negated``, all other rows."""
        holds = f"COALESCE(({quote_identifier(predicate) if is_column else predicate}), FALSE)"
        try:
            if not (is_column or negated):  # once for both parts
                # DuckDB finds a text that is no date, say, only when it compares a row with it.
                self.relation.limit(1).filter(holds).aggregate("COUNT(*)").fetchall()
            return RelationSource(self.relation.filter(f"NOT {holds}" if negated else holds))
        except duckdb.Error as error:
            raise unusable(predicate, error) from error

    def check_repeatable(self, predicate: str | None) -> None:
        """Raise `ParameterError` if a predicate or the relation may have other values when it is read again."""

        def run(query: str) -> Sequence[Sequence[Any]]:
            found = self.relation.query(f"frameboost_{secrets.token_hex(6)}", query)
            return found.fetchall() if found is not None else []

        if predicate is not None:
            check_repeatable(predicate, f"valid={shown(predicate)}", run)
        check_repeatable(self.relation.sql_query(), "the data's query", run)

    def labels(self, name: str, most: int) -> list[str]:
        """See `FrameSource.labels`."""
        quoted = quote_identifier(name)
        distinct = self.relation.project(quoted).filter(f"{quoted} IS NOT NULL").distinct().limit(most)
        is_enum = self.type_names()[name].startswith("ENUM(")
        found = [str(label) for (label,) in (distinct.order(quoted) if is_enum else distinct).fetchall()]
        return found if is_enum else sorted(found)

    def with_codes(self, name: str, labels: Sequence[str]) -> RelationSource:
        """See `FrameSource.with_codes`."""
        quoted = quote_identifier(name)
        return RelationSource(self.relation.project(f"* REPLACE ({codes_sql(quoted, labels)} AS {quoted})"))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Read the columns into memory; a type that polars lacks becomes one with the same physical values."""
        types = self.types()
        selected, casts = [], []
        for name in names:
            quoted, kind = quote_identifier(name), types[name]
            if kind is not None and kind.family == "duration":
                selected.append(f"epoch_us({quoted}) AS {quoted}")
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.name in ("int128", "uint128"):
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")  # through Arrow it would be a decimal(38,0)
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.is_categorical:
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")
            else:
                selected.append(quoted)
        return read_relation(self.relation.project(", ".join(selected))).lazy().with_columns(casts)


def read_relation(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows of a relation, through Arrow without pyarrow, unlike its ``pl()``."""
    with first_duckdb_error():
        return pl.from_dataframe(relation, rechunk=False)  # pl.DataFrame caches the type: a "leak" to DuckDB at exit


LocalSource = FrameSource | RelationSource
Source = LocalSource | SparkSource


def check_numeric(source: Source, name: str, what: str, where: str = "", *, or_labels: bool = False) -> None:
    """Raise `DataError` if a column is neither numeric nor Boolean, nor of strings that are labels if it may be.

    The message says ``what`` the column is, such as "weight column", and ``where`` it is.
    """
    kind = source.types()[name]
    if kind is None or kind.family not in ("number", "boolean", *(["string"] if or_labels else [])):
        more = ", or strings that are labels of classes" if or_labels else ""
        raise DataError(
            f"{what} {shown(name)} has type {source.type_names()[name]}{where}; it must be numeric or Boolean{more}"
        )


def open_source(data: Any, argument: str = "data") -> LocalSource:
    """Return the user's data as a source; ``argument`` is its name in messages.

    Raises
    ------
    DataError
        If it is no data that can be read.
    """
    data = unwrapped(data, argument)
    if isinstance(data, pl.LazyFrame):
        part = frame_part(data, "")
        return _in_parts([part]) if part.is_file else FrameSource(data)
    if isinstance(data, pl.DataFrame):
        return FrameSource(data.lazy())
    if isinstance(data, SparseFrame):
        return SparseSource(data.others.lazy(), table=data)
    if (files := TableFiles.of(data)) is not None:
        return _of_files(files, argument)
    if isinstance(data, list | tuple) and data and all(isinstance(part, _PARTS) for part in data):
        return _of_list(data, argument)
    if isinstance(data, duckdb.DuckDBPyRelation):
        try:
            data.limit(0)  # binds it: its table may have been dropped, or its connection closed
            names = data.columns
        except duckdb.Error as error:
            what = "the relation" if argument == "data" else f"{argument}, a relation,"
            raise DataError(f"{what} can't be read: {reason(error)}; make it anew") from error
        for name in names:
            if "\0" in name:
                raise DataError(f"column {shown(name)} has a NUL in its name, which Arrow can't hold; rename it")
        _refuse_duplicates(names, ignore_case=True)
        return RelationSource(data)
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
        return _read(pl.from_pandas, data, ((str(name), data[[name]]) for name in data.columns))
    if hasattr(type(data), "__arrow_c_stream__") and not isinstance(data, pl.Series):
        names = getattr(data, "column_names", [])
        _refuse_duplicates(names)
        return _with_valid_text(_read(pl.DataFrame, data, ((name, data.select([name])) for name in names)))
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


def _of_files(files: TableFiles, argument: str) -> LocalSource:
    """Return the table in files."""
    found = parts_of_files(files, argument)
    return RelationSource(found) if isinstance(found, duckdb.DuckDBPyRelation) else _in_parts(found)


def _in_parts(parts: Sequence[Part]) -> FrameSource:
    """Return frames whose rows follow each other, with the columns of the first."""
    frames = same_columns(parts) if len(parts) > 1 else [parts[0].frame]
    whole = pl.concat(frames) if len(frames) > 1 else frames[0]
    return FrameSource(
        whole, tuple(frames), tuple(part.name for part in parts),
        are_files=all(part.is_file for part in parts), are_columnar=all(part.is_columnar for part in parts),
    )  # fmt: skip


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


def _shortened(type_name: str) -> str:
    """Return a type's name cut to the length of a message; that of an enum or a struct may have pages."""
    return type_name if len(type_name) <= 80 else f"{type_name[:77]}..."

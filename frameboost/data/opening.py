"""`open_source`: open the user's data as a source of rows, or raise an error that says why that fails.

`_KINDS` lists all kinds of data, each with a predicate and an opener. All sources have the same methods.
"""

from __future__ import annotations

import datetime as dt
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, overload

import duckdb
import polars as pl

from frameboost.checks.arguments import BY_NAME, in_call, once_in_call, until_call_returns
from frameboost.checks.messages import listed, reason, shown
from frameboost.data.dask_source import PartitionedSource, open_dask_frame
from frameboost.data.database_table import DatabaseTable
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.foreign_tables import (
    dictionaries_of,
    is_frame_of,
    no_strings,
    open_arrow,
    open_pandas,
    refuse_duplicates,
    table_behind,
    way_out,
)
from frameboost.data.matrix import Matrix
from frameboost.data.plans import Step, is_repeatable, plan_of, plan_steps, scanned_formats
from frameboost.data.predicates import changing_functions, check_repeatable, words_of
from frameboost.data.sources import (
    FrameSource,
    LocalSource,
    RelationSource,
    Source,
    with_typed_nulls,
    with_types_of_nulls,
)
from frameboost.data.spark_source import SparkSource, is_spark_frame
from frameboost.data.sparse_matrix import SparseFrame, SparseSource
from frameboost.data.table_files import Part, TableFiles, parts_of_files, same_columns
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, string_literal
from frameboost.runtime.interrupts import closed_after, has_unread_result, plain_relation, waiting, when_free
from frameboost.schema.types import Feature, FeatureType, column

__all__ = ["open_rows", "open_source", "repeatable_source"]

Types = Mapping[str, FeatureType | None]


@dataclass(frozen=True, slots=True)
class _Options:
    """The parameters of `open_source`, and the object before `table_behind`."""

    argument: str
    once: bool
    types: Types | None
    clusters: bool
    original: Any


@overload
def open_source(
    data: Any,
    argument: str = "data",
    *,
    types: Types | None = None,
    once: bool = True,
    clusters: Literal[False] = False,
) -> LocalSource: ...


@overload
def open_source(
    data: Any, argument: str = "data", *, types: Types | None = None, once: bool = True, clusters: Literal[True]
) -> Source: ...


def open_source(
    data: Any, argument: str = "data", *, types: Types | None = None, once: bool = True, clusters: bool = False
) -> Source:
    """Open the user's data as a source.

    Untyped columns of NULL, such as that of ``pl.DataFrame({"x": [None]})``, become floats.

    Parameters
    ----------
    data
        The data.
    argument
        Its name in messages.
    types
        The column types of other data or of a model, to read text columns with if all values fit, and entirely missing
        columns in any case.
    once
        Whether to make the rows of a relation the same in every read (see `repeatable_source`); False for a part of the
        data that is not read yet.
    clusters
        Whether to accept database tables and DataFrames of Dask and Spark without moving their rows.

    Raises
    ------
    DataError
        If the data can't be read.
    """
    is_known = isinstance(data, pl.DataFrame | pl.LazyFrame | duckdb.DuckDBPyRelation)
    table = data if is_known else table_behind(data, argument)
    options = _Options(argument, once, types, clusters, data)
    for is_kind, open_kind in _KINDS:
        if is_kind(table):
            source: Source = open_kind(table, options)
            break
    else:
        raise DataError(f"{argument} is a {type(table).__name__}{way_out(table)}")
    if isinstance(source, SparkSource | PartitionedSource | DatabaseTable):
        return source
    source = with_typed_nulls(source)
    if types:
        known = {name: kind for name, kind in types.items() if kind is not None}
        source = with_types_of_nulls(source, known, exactly=True)
    return source


# --- the kinds of data ------------------------------------------------------------------------------------------------


def _of_lazy_frame(frame: pl.LazyFrame, options: _Options) -> FrameSource:
    part = _frame_part(frame, "")
    source = _in_parts([part]) if part.is_file else FrameSource(frame)
    return replace(source, categorical=no_strings(source, dictionaries_of(options.original)))


def _frame_part(frame: pl.LazyFrame, name: str) -> Part:
    """Return a lazy frame as a part."""
    formats = scanned_formats(frame)
    return Part(frame, name, formats is not None, formats == frozenset(["parquet"]))


def _of_files(data: Any, options: _Options) -> LocalSource:
    """Return the table in files; columns of text have the types of training where all their values are of these."""
    files = TableFiles.of(data)
    assert files is not None
    if files.where is not None:
        source = _of_files(replace(files, where=None), replace(options, once=False))
        return _rows_where(source, files.where, options)
    if options.types:
        return _typed_files(files, options.types, options.argument)
    parts = parts_of_files(files, options.argument)
    return _of_relation(parts, options) if isinstance(parts, duckdb.DuckDBPyRelation) else _in_parts(parts)


def _rows_where(source: LocalSource, where: str, options: _Options) -> LocalSource:
    """Return the rows of files that fulfil a condition."""
    BY_NAME["where"]("where", where)
    try:
        rows = source.where(where, is_column=False, negated=False)
    except ParameterError as error:
        if error.__cause__ is None:
            raise
        says = reason(error.__cause__)
        raise ParameterError(
            f"where={shown(where)} is not a SQL condition over the columns of the data ({says})"
        ) from error
    if isinstance(rows, RelationSource):
        return _of_relation(rows.relation, options)
    check_repeatable(where, f"where={shown(where)}")
    return rows


def _of_list(data: Sequence[Any], options: _Options) -> FrameSource:
    """Concatenate frames and files, in order."""
    parts: list[Part] = []
    argument = options.argument
    for number, item in enumerate(data, start=1):
        if (files := TableFiles.of([item])) is not None:
            parts_of_item = parts_of_files(files, argument)
            if isinstance(parts_of_item, duckdb.DuckDBPyRelation):
                raise DataError(f"{argument} has a table of DuckDB among frames; pass a relation with all rows")
            parts += parts_of_item
        else:
            parts.append(
                _frame_part(item.lazy(), f"frame {number}" if number > 1 else f"the first frame of {argument}")
            )
    return _in_parts(parts)


def _in_parts(parts: Sequence[Part]) -> FrameSource:
    """Return frames as parts, with the columns of the first."""
    frames = same_columns(parts) if len(parts) > 1 else [parts[0].frame]
    whole = pl.concat(frames) if len(frames) > 1 else frames[0]
    source = FrameSource(
        whole, tuple(frames), tuple(part.name for part in parts),
        are_files=all(part.is_file for part in parts), are_columnar=all(part.is_columnar for part in parts),
    )  # fmt: skip
    return replace(source, categorical=no_strings(source, parts[0].categorical))


def _of_relation(relation: duckdb.DuckDBPyRelation, options: _Options) -> RelationSource:
    relation = waiting(relation)
    try:
        relation.limit(0)  # binds it: its table may have been dropped, or its connection closed
        names = relation.columns
    except duckdb.Error as error:
        what = "the relation" if options.argument == "data" else f"{options.argument}, a relation,"
        raise DataError(f"{what} can't be read: {reason(error)}; create it again") from error
    for name in names:
        if "\0" in name:
            raise DataError(f"column {shown(name)} has a NUL in its name, which Arrow can't hold; rename it")
    refuse_duplicates(names, ignore_case=True)
    return (repeatable_source(relation) if options.once else RelationSource(relation)).comparable()


def _of_spark(data: Any, options: _Options) -> SparkSource:
    if options.clusters and is_spark_frame(data):
        return SparkSource(data, options.argument)
    raise DataError(
        f"{options.argument} is a PySpark {type(data).__name__}, whose rows are in a cluster; pass df.toArrow() if "
        "they fit into memory, or write them to Parquet and pass pl.scan_parquet(...) or con.read_parquet(...); a "
        "model scores them in Spark as the column functions.expr(model.sql(dialect='spark'))"
    )


def _of_database(data: DatabaseTable, options: _Options) -> Source:
    """Return a database table unchanged for engines that bin it; otherwise its rows, read once per call."""
    if options.clusters:
        return data
    frame = once_in_call(("rows", id(data)), lambda: data.to_frame(data.readable()))
    return FrameSource(frame)


def _of_dask(data: Any, options: _Options) -> FrameSource:
    if options.clusters:
        return open_dask_frame(data)
    raise DataError(
        f"{options.argument} is a Dask DataFrame, which fit trains on with engine=fb.Dask(client); here pass "
        "ddf.compute() if its rows fit into memory, or call this for each partition with ddf.map_partitions(...)"
    )


def _is_list_of_parts(data: Any) -> bool:
    kinds = (pl.DataFrame, pl.LazyFrame, str, Path)
    return isinstance(data, list | tuple) and len(data) > 0 and all(isinstance(part, kinds) for part in data)


_Kind = tuple[Callable[[Any], bool], Callable[[Any, _Options], Source]]
# How each kind of data is recognised, and how it is opened; the first that fits. A star opens itself. Methods are
# looked up on the type, as Python does: a class itself is no table, and a relation reads such a name as its column.
_KINDS: tuple[_Kind, ...] = (
    (lambda data: hasattr(type(data), "open_tables"), lambda tables, options: tables.open_tables(options.argument)),
    (lambda data: isinstance(data, FrameSource | RelationSource), lambda source, _: source),  # a part, such as a fold
    (lambda data: isinstance(data, pl.LazyFrame), _of_lazy_frame),
    (lambda data: isinstance(data, pl.DataFrame), lambda frame, _: FrameSource(frame.lazy())),
    (lambda data: isinstance(data, Matrix), lambda matrix, _: FrameSource(matrix.frame().lazy())),
    (lambda data: isinstance(data, SparseFrame), lambda frame, _: SparseSource(frame.others.lazy(), table=frame)),
    (lambda data: TableFiles.of(data) is not None, _of_files),
    (_is_list_of_parts, _of_list),
    (lambda data: isinstance(data, duckdb.DuckDBPyRelation), _of_relation),
    (lambda data: isinstance(data, DatabaseTable), _of_database),
    (lambda data: is_spark_frame(data) or type(data).__module__.startswith("pyspark."), _of_spark),
    (lambda data: is_frame_of("dask", data), _of_dask),
    (lambda data: is_frame_of("pandas", data), lambda frame, _: open_pandas(frame)),
    (
        lambda data: hasattr(type(data), "__arrow_c_stream__") and not isinstance(data, pl.Series),
        lambda table, _: open_arrow(table),
    ),
)


# --- files of text with the column types of training, where types inferred from the values would differ ---------------

# A file of text has no types: the prices 3, 4, 7 look like integers in one file, the codes 01, 02 like
# numbers, and a column without a value like anything. So the types of other data, or of a model, decide.


def _typed_files(files: TableFiles, training_types: Types, argument: str) -> LocalSource:
    """Return the table in files; columns of text have the types of training where all their values are of these.

    A column with other values keeps the inferred type; callers then raise an error that names it.

    Raises
    ------
    DataError
        As `open_source`.
    """
    files = replace(files, are_typed=True)
    source = open_source(files, argument)
    if not isinstance(source, FrameSource) or source.are_columnar:
        return source
    if types := _types_to_read(source, training_types):
        source = open_source(replace(files, types=types), argument)
        assert isinstance(source, FrameSource)
    casts = _casts(source, training_types)
    return source.map(lambda frame: frame.with_columns(casts)) if casts else source


def _types_to_read(source: FrameSource, training_types: Types) -> dict[str, pl.DataType]:
    """Return the types for reading columns with values that look like another family."""
    types: dict[str, pl.DataType] = {}
    for name, dtype in source.frame.collect_schema().items():
        kind = training_types.get(name)
        if kind is None:
            continue
        is_text, is_time = dtype == pl.String, kind.family in ("timestamp", "timestamptz")
        if (
            (kind.name == "string" and not is_text)  # strings that look like numbers in this file
            or (is_text and (is_time or kind.family in ("boolean", "date")))
            or (dtype == pl.Date and is_time)
        ):
            types[name] = kind.to_polars()
    return types


def _casts(source: FrameSource, training_types: Types) -> list[pl.Expr]:
    """Return casts of columns to the type of training, for numbers or times of the same family."""
    casts = []
    for name, data_type in source.types().items():
        kind = training_types.get(name)
        if data_type is None or kind is None or data_type == kind:
            continue
        if data_type.name == "string" and kind.family == "number":
            casts += _numbers_in_text(source.frame, name, kind)
        elif data_type.family == kind.family:
            cast = column(name).cast(kind.to_polars(), strict=False)
            back = cast.cast(data_type.to_polars(), strict=False)
            if kind.is_float or _holds(source.frame, back.eq_missing(column(name))):
                casts.append(cast)
    return casts


def _numbers_in_text(frame: pl.LazyFrame, name: str, kind: FeatureType) -> list[pl.Expr]:
    """Return a text column as numbers if it holds only these, such as decimals in NDJSON or an empty CSV column."""
    exact, number = (column(name).cast(dtype, strict=False) for dtype in (kind.to_polars(), pl.Float64()))
    if not _holds(frame, number.is_null() == column(name).is_null()):
        return []
    return [exact if _holds(frame, exact.cast(pl.Float64).eq_missing(number)) else number]


def _holds(frame: pl.LazyFrame, condition: pl.Expr) -> bool:
    """Whether a condition is true in every row."""
    return bool(frame.select(condition.all()).collect().item())


# --- relations whose rows are the same each time, as they are or copied -----------------------------------------------

# A fit reads a relation's labels, its cuts and its codes in several statements. A relation with ``random()``, a
# sample, a file that somebody rewrites or a table of another server would return other rows to each of them. So
# unless its plan and its text show that it can't, all of it is read once, into a temporary table of its connection,
# which DuckDB spills to disk, and which is dropped when the public function returns.
#
# Not copied are, if the functions that are applied to them are repeatable:
#
# - tables of DuckDB while no other connection can write to them: there is none, or the database is read-only, or the
#   table is temporary, or the caller has begun a transaction, which sees one state of the tables;
# - Parquet files of this machine. They are written as a whole, as their footer has the addresses of all columns, so
#   that only a file put in the place of another would differ; and a copy of a glob that is larger than memory might be
#   larger than the disk.

_URL = re.compile(r"\b(?!file:)\w+://")
_NULL = '"NULL"'  # the type of a column of NULLs, which a table can't have


def repeatable_source(relation: duckdb.DuckDBPyRelation) -> RelationSource:
    """Return a relation as a source, copied if its rows may change between reads.

    A relation is copied once per outermost public call, and not outside of one, where nothing would drop the copy.
    """
    relation = plain_relation(relation)
    try:
        # The relation is kept beside its source, so that no other one gets its id.
        return once_in_call(id(relation), lambda: (_repeatable(waiting(relation)), relation))[0]
    except duckdb.Error as error:
        if not has_unread_result(error):
            raise
        raise DataError(
            "the connection of the relation has a pending result, as after "
            "con.execute(...).fetchone(); fetch the rest of it first, or pass a relation of another connection, such "
            "as con.cursor().table('flights')"
        ) from error


def _repeatable(relation: duckdb.DuckDBPyRelation) -> RelationSource:
    if not in_call():
        return RelationSource(relation)
    steps = plan_steps(plan_of(relation))
    tables, is_drawn = _tables_stay(relation, steps), False
    has_functions = not (relation.type == "TABLE_RELATION" and len(steps) == 1 and steps[0].is_whole_table)
    if tables and not has_functions:
        return RelationSource(relation)
    with ExitStack() as opened:
        session = opened.enter_context(closed_after(DuckDBSession(relation)))
        if has_functions:
            texts = _texts(session, relation.sql_query())
            is_drawn = any(step.name == "SAMPLE" for step in steps)
            is_drawn = is_drawn or any(changing_functions(text, session.rows) for text in texts)
            if not is_drawn and is_repeatable(steps, tables=tables, files=not any(map(_URL.search, texts))):
                return RelationSource(relation)
        until_call_returns(opened.pop_all())
        table = session.table("rows")
        session.run(f"CREATE TEMP TABLE {table} AS FROM {session.source}")
        copy = session.relation_of(table)
    names = (name for name, kind in zip(copy.columns, relation.types, strict=True) if str(kind) == _NULL)
    if nulls := ", ".join(f"NULL AS {quote_identifier(name)}" for name in names):
        copy = copy.project(f"* REPLACE ({nulls})")
    return RelationSource(copy, is_copy=True, origin=None if is_drawn else relation, is_drawn=is_drawn)


def _texts(session: DuckDBSession, query: str) -> list[str]:
    """Return the text of a query with the definitions of its views, macros and generated columns."""
    texts, seen = [query], set[str]()
    for text in texts:  # which grows
        names, called = words_of(text)
        view_names = ", ".join(map(string_literal, sorted(names - seen))) or "''"
        statement = (
            f"SELECT sql FROM duckdb_views() WHERE NOT internal AND lower(view_name) IN ({view_names}) UNION ALL "
            f"SELECT sql FROM duckdb_tables() WHERE contains(sql, 'GENERATED') AND lower(table_name) IN ({view_names})"
        )
        if macros := ", ".join(map(string_literal, sorted(called - seen))):
            statement += (
                " UNION ALL SELECT macro_definition FROM duckdb_functions() "
                f"WHERE NOT internal AND macro_definition IS NOT NULL AND lower(function_name) IN ({macros})"
            )
        texts += [text for (text,) in session.rows(statement)]
        seen |= names
    return texts


def _tables_stay(relation: duckdb.DuckDBPyRelation, steps: Sequence[Step]) -> bool:
    """Whether nobody else can write to the tables in a plan."""
    databases = {step.database for step in steps if step.database is not None} - {"temp"}
    if not databases:
        return True
    connections, writable, first = _state(
        relation,
        "(SELECT FIRST(count) FROM duckdb_connection_count())",
        "(SELECT LIST(database_name) FROM duckdb_databases() WHERE NOT readonly)",
        "txid_current()",
    )
    if connections <= 1 or databases.isdisjoint(writable or ()):
        return True
    return _state(relation, "txid_current()") == (first,)  # in a transaction


def _state(relation: duckdb.DuckDBPyRelation, *expressions: str) -> tuple[Any, ...]:
    """Return the values of expressions in the database of a relation, which is bound for it but not read."""
    state = when_free(lambda: relation.limit(0).aggregate(", ".join(["COUNT(*)", *expressions])).fetchall())
    return tuple(state[0][1:])


# --- rows to score: a row as a dict, several as a list, midnights for dates -------------------------------------------

# What one value of a row may be; anything else may be a column of values.
_SCALARS = (str, bool, numbers.Number, Decimal, dt.date, dt.timedelta, dt.time, bytes)


def open_rows(
    data: Any, features: Sequence[Feature], argument: str = "data", *, exactly: bool = False
) -> LocalSource:  # fmt: skip
    """Return rows for a model with these features; ``argument`` is their name in messages.

    A dict is one row, by column name; a list of dicts is several rows. Timestamps that are all at midnight, as in
    pandas, are read as dates if the model was trained on dates. Text columns are read with the type of training if all
    values fit (see `open_source`), and entirely missing columns in any case; with ``exactly``, not with another type of
    the same family.

    Raises
    ------
    DataError
        As `open_source`; if the rows of a list differ in their columns, or a column has values of several types.

    Examples
    --------
    >>> x = Feature("x", FeatureType("int64"))
    >>> open_rows([{"x": 1, "y": None}, {"x": 2, "y": 0.5}], [x]).frame.collect().rows()
    [(1, None), (2, 0.5)]
    """
    types = {feature.name: feature.type for feature in features}
    if isinstance(data, Mapping):
        source: LocalSource = _of_dicts([data], types)
    elif isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        source = _of_dicts(data, types)
    elif (files := TableFiles.of(data)) is not None:
        source = _typed_files(files, types, argument)
    elif isinstance(data, pl.LazyFrame):  # `open_source` reads its plan, for fits that divide it
        source = FrameSource(data)
    else:
        source = open_source(data, argument)
    source = with_types_of_nulls(source, types, exactly=exactly)
    if isinstance(source, RelationSource):
        source = _without_booleans(source, types)
    return _with_dates(source, features)


def _of_dicts(rows: Sequence[Mapping[str, Any]], types: Mapping[str, FeatureType]) -> FrameSource:
    for number, row in enumerate(rows):
        for name in row:
            if not isinstance(name, str):
                raise DataError(f"a row names a column {shown(name)}; a name is a string")
        if row.keys() != rows[0].keys():
            odd = sorted(row.keys() ^ rows[0].keys())
            raise DataError(
                f"rows 0 and {number:,} have different columns: only one has {listed(odd)}; set None where a value is "
                "missing"
            )
    return FrameSource(pl.LazyFrame([_series(name, [row[name] for row in rows], types.get(name)) for name in rows[0]]))


def _series(name: str, values: list[Any], kind: FeatureType | None) -> pl.Series:
    """Return the values of a column; an entirely missing one has the type of training."""
    for value in values:
        if value is not None and not isinstance(value, _SCALARS):
            raise DataError(
                f"column {shown(name)} of a row is {shown(value)}, which is not a single value; a dict is one row; "
                "for columns, pass pl.DataFrame(...)"
            )
    known = [value for value in values if value is not None]
    if not known:
        return pl.Series(name, values, None if kind is None else kind.to_polars())
    try:
        are_numbers = all(isinstance(value, numbers.Number) and not isinstance(value, bool) for value in known)
        return pl.Series(name, values, strict=not are_numbers)  # integers among floats become floats
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        type_names = sorted({type(value).__name__ for value in known})
        raise DataError(
            f"column {shown(name)} has values of types {listed(type_names)}; convert them to one type"
        ) from error


def _without_booleans(source: RelationSource, types: Mapping[str, FeatureType]) -> RelationSource:
    """Return the relation with the numbers 0 and 1 for Booleans where the model has numbers; frames need no cast."""
    numbers_of = [name for name, kind in source.types().items() if kind is not None and kind.family == "boolean"
                  and name in types and types[name].family == "number"]  # fmt: skip
    quoted = [quote_identifier(name) for name in numbers_of]
    cast = ", ".join(f"CAST({name} AS UTINYINT) AS {name}" for name in quoted)
    return source.derived(source.relation.project(f"* REPLACE ({cast})")) if quoted else source


def _with_dates(source: LocalSource, features: Sequence[Feature]) -> LocalSource:
    """Return the source with timestamps as dates if the model has dates and all are at midnight."""
    of_dates = [feature.name for feature in features if feature.type.family == "date"]
    types = source.types() if of_dates else {}
    names = [name for name in of_dates if (kind := types.get(name)) and kind.family == "timestamp"]
    for name in names:
        if isinstance(source, FrameSource):
            has_times = source.frame.select((column(name) != column(name).dt.truncate("1d")).any()).collect().item()
            if not has_times:
                dates = column(name).cast(pl.Date).alias(name)
                source = source.map(lambda frame, dates=dates: frame.with_columns(dates))  # type: ignore[misc]
            continue
        quoted = quote_identifier(name)
        times = source.relation.filter(f"{quoted} <> date_trunc('day', {quoted})").aggregate("COUNT(*)")
        if not times.fetchall()[0][0]:
            source = source.derived(source.relation.project(f"* REPLACE (CAST({quoted} AS DATE) AS {quoted})"))
    return source

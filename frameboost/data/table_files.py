"""Tables in files, read lazily: files that are one table, whose rows follow each other, with one type a column.

The suffix of a path is its format (`frameboost.data.file_formats`). Of several files, or of frames and files, each is
a `Part`; their columns are checked to be the same.
"""

from __future__ import annotations

import base64
import errno
import glob
import json
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl
import polars.selectors as cs

from frameboost.checks.arguments import EXPLAINERS
from frameboost.checks.messages import advice, listed, reason, shortened, shown, shown_path, warn
from frameboost.data.file_formats import (
    DATABASE,
    DATABASE_TABLE,
    FORMATS,
    SEPARATORS,
    SUFFIXES,
    TEXTS,
    format_of_path,
    is_columnar,
    is_table,
    scan_text,
)
from frameboost.data.text_files import (
    check_header,
    problem_of_text,
    short_row,
    text_among_numbers,
    warn_of_mixed_types,
    warn_of_tokens,
)
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, quote_path
from frameboost.runtime.interrupts import first_duckdb_error
from frameboost.schema.types import column

__all__ = ["Part", "TableFiles", "name_file", "parts_of_files", "read_table", "same_columns"]

_FIRST_ROWS = 1000
_LAST = "\0last"  # a name that no column has
_LONGEST_HEADER = 1 << 24  # of a schema of many columns
# Polars panics over some damaged files; a panic is not even an Exception.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, duckdb.Error, OSError)


@dataclass(frozen=True)
class TableFiles:
    """Files that are one table.

    Attributes
    ----------
    paths
        Paths and globs.
    table
        The table of a DuckDB file.
    kind
        The format of the files (`file_formats.FORMATS`), by default from their suffixes.
    content
        The bytes of a single file, such as standard input.
    types
        Types of columns of text, which replace the inferred ones.
    fill_missing
        Whether columns missing in some files are NULL there.
    read_only
        Whether to open a DuckDB file read-only.
    null_values
        Tokens of NULL in text files, beside the empty one.
    are_typed
        Whether text columns take the types of training or of a model.
    where
        A SQL predicate over the columns that selects rows.
    """

    paths: tuple[str, ...]
    table: str | None = None
    kind: str | None = None
    content: bytes | None = None
    types: Mapping[str, pl.DataType] = field(default_factory=dict)
    fill_missing: bool = False
    read_only: bool = True
    null_values: tuple[str, ...] = ()
    are_typed: bool = False
    where: str | None = None

    @staticmethod
    def of(data: object) -> TableFiles | None:
        """Return the files of a path or a list of paths; None if it is something else."""
        if isinstance(data, TableFiles):
            return data
        if isinstance(data, str | Path):
            return TableFiles((str(data),)) if is_table(str(data)) else None
        if isinstance(data, list | tuple) and data and all(isinstance(path, str | Path) for path in data):
            return TableFiles(tuple(map(str, data)))
        return None


class Part(NamedTuple):
    """One of several concatenated frames.

    ``name`` is its name in messages, ``is_file`` whether it only reads files (see `scanned_formats`), ``is_columnar``
    whether these allow reading single columns, and ``categorical`` the dictionary columns of the file's schema, of any
    type.
    """

    frame: pl.LazyFrame
    name: str
    is_file: bool
    is_columnar: bool
    categorical: frozenset[str] = frozenset()


def parts_of_files(files: TableFiles, argument: str) -> list[Part] | duckdb.DuckDBPyRelation:
    """Return each file as a part, or the relation of the only one; ``argument`` is its name in messages.

    A text column with types inferred differently by file gets one type: numbers are floats if they are in any file, and
    an empty column takes the type of the others.

    Raises
    ------
    DataError
        If a file can't be read, or one of several is a DuckDB file.
    """
    options = {"table": files.table, "content": files.content, "read_only": files.read_only, "kind": files.kind,
               "null_values": files.null_values}  # fmt: skip
    paths = _all_paths(files, argument)
    tables = {path: read_table(path, types=files.types, **options) for path in dict.fromkeys(paths)}  # type: ignore[arg-type]
    if len(tables) == 1 and isinstance(first := next(iter(tables.values())), duckdb.DuckDBPyRelation):
        return first
    frames = {path: table for path, table in tables.items() if isinstance(table, pl.LazyFrame)}
    if others := [path for path in tables if path not in frames]:
        raise DataError(
            f"{argument} has {shown_path(others[0])}, a table of DuckDB, whose rows can't follow those of other files; "
            "pass a relation with all rows"
        )
    texts = {path: frame for path, frame in frames.items() if (files.kind or format_of_path(path)) in TEXTS}
    if types := _common_types(texts):
        frames |= {path: read_table(path, types={**types, **files.types}, **options) for path in texts}  # type: ignore
    if not files.types:  # else they have been opened before, to know which
        _warn_of_repeated(paths)
    frames |= {path: _checked_text(files, path, frames[path], alone=len(texts) == 1) for path in texts}
    if not files.are_typed:
        mixed = warn_of_mixed_types(texts, files.kind, files.content)
        warn_of_tokens({path: frames[path] for path in texts}, mixed)
    parts_by_path = {
        path: Part(
            frame, shown_path(path), files.content is None, is_columnar(path),
            _dictionaries_in(path) if files.content is None else frozenset(),
        )
        for path, frame in frames.items()
    }  # fmt: skip
    parts = [parts_by_path[path] for path in paths]
    return _filled(parts) if files.fill_missing else parts


def _checked_text(files: TableFiles, path: str, frame: pl.LazyFrame, *, alone: bool) -> pl.LazyFrame:
    """Return a file's table with untyped columns where CSV has no value, which polars reads as strings.

    For one of several files, the others determine the type. Short rows raise a warning; as polars fills them with NULL,
    the lines are read only if the last column has one. Both are checked in the first rows, and if these do not suffice,
    in all rows in one pass.
    """
    kind, schema = files.kind or format_of_path(path), frame.collect_schema()
    strings = [n for n, dtype in schema.items() if alone and dtype == pl.String and n not in files.types]
    # A file of another machine would be read once more.
    last = schema.names()[-1:] if kind in SEPARATORS and not files.types and "://" not in path else []
    has_null = False
    for rows in (frame.head(_FIRST_ROWS), frame):  # most columns have a value in the first rows
        if not strings and (has_null or not last):
            break
        expressions = [column(name).is_null().all() for name in strings] + [
            column(n).is_null().any().alias(_LAST) for n in last
        ]
        answers = rows.select(expressions).collect(engine="streaming")
        strings = [name for name in strings if answers[name].item()]
        has_null = bool(last) and answers[_LAST].item()
    if has_null and kind is not None and (where := short_row(frame, path, kind, files.content)):
        warn(f"{shown_path(path)} has a row that is too short: {where}; missing values of such rows are read as NULL")
    return frame.with_columns(pl.lit(None, pl.Null).alias(name) for name in strings) if strings else frame


def _all_paths(files: TableFiles, argument: str) -> list[str]:
    """Return the path of each file, in order, repeated if named twice."""
    if files.content is not None:
        return list(files.paths)
    return [path for pattern in files.paths for path in _files_of(pattern, argument)]


def _warn_of_repeated(paths: Sequence[str]) -> None:
    counts = Counter(path if "://" in path else str(Path(path).resolve()) for path in paths)
    path, count = max(counts.items(), key=itemgetter(1))
    if count > 1:
        warn(f"{shown_path(path)} is listed {count} times in the data, so its rows count as often")


def _files_of(path: str, argument: str) -> list[str]:
    """Return the files of a glob in the order of their names, or the path if it is not a glob.

    Raises
    ------
    DataError
        If there is no such file; ``argument`` is the name of the path in the message.
    """
    is_glob = glob.has_magic(path) and "://" not in path
    files = sorted(glob.glob(path)) if is_glob else [path]  # noqa: PTH207, which globs below one folder
    if not files:
        raise DataError(f"no file matches {argument}={shown(path)}")
    return files


def _common_types(frames: Mapping[str, pl.LazyFrame]) -> dict[str, pl.DataType]:
    """Return the common type of each column with types inferred differently by file, if there is one."""
    schemas = [frame.collect_schema() for frame in frames.values()]
    common: dict[str, pl.DataType] = {}
    for name in dict.fromkeys(name for schema in schemas for name in schema):
        inferred = {schema[name] for schema in schemas if name in schema}
        types = {dtype for dtype in inferred if dtype != pl.Null}  # as NDJSON has a column without values
        if len(types) > 1 and pl.String in types:
            texts = [frame for frame in frames.values() if frame.collect_schema().get(name) == pl.String]
            if all(frame.select(column(name).is_null().all()).collect().item() for frame in texts):
                types.remove(pl.String())
        if len(types) == 1 and len(inferred) > 1:
            common[name] = types.pop()
        elif len(types) > 1 and all(dtype.is_numeric() for dtype in types):
            common[name] = pl.Float64()
    return common


def _filled(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with the columns of all, NULL where a part lacks them."""
    schema: dict[str, Any] = {}
    for part in parts:
        for name, dtype in part.frame.collect_schema().items():
            schema.setdefault(name, dtype)
    filled = []
    for part in parts:
        part_schema = part.frame.collect_schema()
        lacking = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in part_schema]
        filled.append(part._replace(frame=part.frame.with_columns(lacking).select(map(column, schema))))
    return filled


def same_columns(parts: Sequence[Part]) -> list[pl.LazyFrame]:
    """Return the frames of several parts with the columns of the first.

    Raises
    ------
    DataError
        If a frame lacks a column of the first or its type differs; if a file has a column that the first lacks.
    """
    schema = parts[0].frame.collect_schema()
    for part in parts[1:]:
        part_schema = part.frame.collect_schema()
        if part.is_file and (more := [name for name in part_schema if name not in schema]):
            raise _lacks(parts[0], more[0], part)
        for name, dtype in schema.items():
            if name not in part_schema:
                raise _lacks(part, name, parts[0])
            if part_schema[name] != dtype:
                first, other = (_described(a, name, b) for a, b in ((parts[0], part_schema[name]), (part, dtype)))
                raise DataError(f"column {shown(name)} has type {first} and {other}; cast it to one type")
    return [part.frame.select(map(column, schema)) for part in parts]


def _lacks(part: Part, name: str, other: Part) -> DataError:
    way = advice("pl.concat(frames, how='diagonal')", "--fill-missing")
    return DataError(
        f"column {shown(name)} is in {other.name} but not in {part.name}; add it there, or join the rows by {way}, "
        "which has NULL in its place"
    )


def _described(part: Part, name: str, other: pl.DataType) -> str:
    """Return a column's type in a part; for strings where other parts have numbers, with the first non-number."""
    dtype = part.frame.collect_schema()[name]
    example = text_among_numbers(part.frame, name) if other.is_numeric() else ""
    return f"{shortened(str(dtype))} in {part.name}{example}"


# --- one file ---------------------------------------------------------------------------------------------------------


def read_table(
    path: str, table: str | None = None, types: Mapping[str, pl.DataType] | None = None, *, kind: str | None = None,
    content: bytes | None = None, read_only: bool = True, null_values: Sequence[str] = (),
) -> pl.LazyFrame | duckdb.DuckDBPyRelation:  # fmt: skip
    """Return a table in a file: a lazy frame, or a relation for a DuckDB table.

    Parameters
    ----------
    path
        The path of the file; its suffix is the format. ``"flights.duckdb::late"`` is the table ``late`` of a DuckDB
        file.
    table
        The table of a DuckDB file, if the path does not name it.
    types
        Types of text columns that override the inferred ones.
    kind
        The format, by its name in `frameboost.data.file_formats.FORMATS`, whatever the suffix.
    content
        The bytes to read instead of the file; the path is their name in messages.
    read_only
        Whether to open a DuckDB file read-only.
    null_values
        Tokens of NULL in text files, beside the empty one, such as ``NA``.

    Raises
    ------
    DataError
        If the file can't be read, or a text file has duplicate columns, or separators of another format.
    ParameterError
        If the format is unknown, or the table is ambiguous.
    """
    inside = DATABASE_TABLE.fullmatch(path)
    if inside is not None and kind is None and format_of_path(path) is None:
        if table is not None:
            raise ParameterError(f"two tables are named, {shown(inside[2])} in {shown(path)}, and {shown(table)}")
        path, table = inside[1], inside[2]
    kind = kind or format_of_path(path)
    if kind is not None and kind in FORMATS and table is not None:
        raise ParameterError(
            f"{shown(path)} is a {FORMATS[kind].label} file, which is one table; {shown(table)} would be one of a "
            "DuckDB file"
        )
    if kind is None and table is None:
        raise ParameterError(
            f"{shown(path)} is not a table in a supported format: it must end in {', '.join(SUFFIXES)} (text may be "
            "compressed: .csv.gz, .csv.zst)"
        )
    try:
        if kind is None or kind == DATABASE:
            return _relation(path, table, read_only=read_only)
        frame = _scan(kind, path if content is None else content, types or {}, null_values)
        names = frame.collect_schema().names()
        if kind in SEPARATORS:
            check_header(path, kind, names, path if content is None else content)
    except _UNREADABLE as error:
        why = problem_of_text(path, kind, content) if kind in TEXTS else None
        raise DataError(f"{path} can't be read: {why or _reason(error)}") from error
    return frame


def _scan(
    kind: str, source: str | bytes, types: Mapping[str, pl.DataType], null_values: Sequence[str]
) -> pl.LazyFrame:  # fmt: skip
    if kind == "parquet":
        return pl.scan_parquet(source)
    if kind == "arrow":
        if isinstance(source, bytes) and not source.startswith(b"ARROW1"):
            return pl.read_ipc_stream(source).lazy()
        return pl.scan_ipc(source)

    def scanned(overrides: Mapping[str, pl.DataType], n_inferred: int | None = None) -> pl.LazyFrame:
        # Types are inferred from all rows, as a column may be whole in the first rows and not in the last.
        frame = scan_text(kind, source, overrides, null_values, n_inferred)
        return _with_nulls(frame, null_values) if null_values and kind == "ndjson" else frame

    if not types:
        return scanned({})
    # The names of CSV are in its first line; those of NDJSON may be in any.
    names = scanned({}, None if kind == "ndjson" else 0).collect_schema().names()
    return scanned({name: types[name] for name in names if name in types})


def _with_nulls(frame: pl.LazyFrame, tokens: Sequence[str]) -> pl.LazyFrame:
    """Return an NDJSON table with NULL for some strings; columns of otherwise only numbers become numeric."""
    text, is_null = cs.string(), cs.string().is_in(list(tokens))
    of_type = {dtype: text.cast(dtype, strict=False) for dtype in (pl.Int64(), pl.Float64())}
    is_of = [(is_null | cast.is_not_null() | text.is_null()).all() for cast in of_type.values()]
    whole, fractional = (
        frame.select(conditions).collect(engine="streaming").row(0, named=True) for conditions in is_of
    )
    has_token = frame.select(is_null.any()).collect(engine="streaming").row(0, named=True)
    types = {
        name: pl.Int64() if whole[name] else pl.Float64()
        for name in has_token if has_token[name] and fractional[name]
    }  # fmt: skip
    return frame.with_columns(pl.when(~is_null).then(text)).cast(types)  # type: ignore[arg-type]


def _relation(path: str, table: str | None, *, read_only: bool) -> duckdb.DuckDBPyRelation:
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)  # DuckDB's message has two lines
    connection = duckdb.connect(path, read_only=read_only)
    if table is None:
        with first_duckdb_error():
            names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        if len(names) != 1:
            raise ParameterError(
                f"which table of {path}? Name one, as in '{path}::table'; it has {listed(names) or 'none'}"
            )
        return connection.sql(f"SELECT * FROM {quote_identifier(names[0])}")
    return connection.sql(f"SELECT * FROM {quote_path(table)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):  # polars raises it with another text
        return os.strerror(errno.ENOENT)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return reason(error)


def _dictionaries_in(path: str) -> frozenset[str]:
    """Return the dictionary columns in the schema of a Parquet or Arrow file, such as pandas' categories.

    Polars reads those of numbers and dates as plain columns.
    """
    schema, names = b"", frozenset[str]()
    if "://" in path:  # to read a header there takes as long as to read a table
        return names
    try:
        if (kind := format_of_path(path)) == "parquet":
            metadata = pl.read_parquet_metadata(path)
            pandas = json.loads(metadata.get("pandas", "{}")).get("columns", [])
            names = frozenset(entry["name"] for entry in pandas if entry["pandas_type"] == "categorical")
            schema = base64.b64decode(metadata.get("ARROW:schema", ""))
        elif kind == "arrow":
            with Path(path).open("rb") as file:
                schema = file.read(_LONGEST_HEADER)
        return names | frozenset(_dictionaries_of(schema.removeprefix(b"ARROW1\0\0")))
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, *_UNREADABLE):
        return names  # text of another tool's; the rows are read all the same


def _dictionaries_of(message: bytes) -> Iterator[str]:
    """Yield the dictionary columns of a schema in the format of Arrow streams and files (a FlatBuffer)."""
    if not message:
        return
    buffer = message[8 if message.startswith(b"\xff\xff\xff\xff") else 4 :]

    def number(at: int, kind: str = "<I") -> int:
        return int(struct.unpack_from(kind, buffer, at)[0])

    def target(at: int) -> int:
        return at + number(at)

    def slot(table: int, index: int) -> int | None:
        """Return the position of a field of a table, if present."""
        layout = table - number(table, "<i")
        offset = number(layout + 4 + 2 * index, "<H") if 4 + 2 * index < number(layout, "<H") else 0
        return table + offset if offset else None

    header = slot(target(0), 2)
    fields = None if header is None else slot(target(header), 1)
    if fields is None:
        return
    start = target(fields)
    for i in range(number(start)):
        field = target(start + 4 + 4 * i)
        name, dictionary = slot(field, 0), slot(field, 4)
        if name is not None and dictionary is not None:
            at = target(name)
            yield buffer[at + 4 : at + 4 + number(at)].decode()


# --- errors that polars raises when rows are read, with the names of files --------------------------------------------


def name_file(error: BaseException, arguments: Iterable[object]) -> None:
    """Raise `DataError` with the name of the file that polars can't read; return if no argument is a text file.

    Polars reads lazily, so its errors come late and do not name the file.
    """
    if isinstance(error, OSError):  # maybe of a file that is written
        return
    for argument in arguments:
        values = argument.values() if isinstance(argument, Mapping) else [argument]
        for files in filter(None, map(TableFiles.of, values)):
            paths = _all_paths(files, "data")
            for path in paths:
                kind = files.kind or format_of_path(path)
                if kind not in TEXTS:
                    continue
                why = problem_of_text(path, kind, files.content)
                if why or len(paths) == 1:
                    raise DataError(f"{path} can't be read: {why or reason(error)}") from error


def _say_unreachable(error: BaseException, _: Iterable[object]) -> None:
    """Raise `DataError` for a file of a lazy frame that polars can't open, such as a wrong address."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    is_of_polars = last is not None and Path(pl.__file__).parent in Path(last.tb_frame.f_code.co_filename).parents
    if is_of_polars and (isinstance(error, OSError) or "object-store" in str(error)):
        says = f"a file of the data can't be read: {reason(error)}"
        raise DataError(f"{says}; check its address and your rights") from error


EXPLAINERS += [name_file, _say_unreachable]

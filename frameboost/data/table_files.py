"""Tables in files: read lazily, and written atomically."""

from __future__ import annotations

import base64
import csv
import errno
import glob
import gzip
import io
import json
import os
import re
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import polars.selectors as cs

from frameboost.checks.messages import counted, listed, reason, shown
from frameboost.data.atomic_files import atomic_path, is_special
from frameboost.data.duckdb_tables import check_new_table, write_duckdb_table
from frameboost.data.file_formats import DATABASE, FORMATS, SEPARATORS, SUFFIXES, TEXTS, format_of_path
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, quote_path
from frameboost.schema.polars_columns import column

__all__ = [
    "STDOUT", "check_format", "check_writable", "dictionaries_in", "files_of", "is_columnar", "is_table",
    "mixed_types", "output_path", "problem_of_text", "read_table", "short_row", "table_in_database", "write_table",
    "write_text",
]  # fmt: skip

STDOUT = "-"
_LINES_TO_PARSE = 1000
_LONGEST_HEADER = 1 << 24  # of a schema of many columns
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_IN_DATABASE = re.compile(r"(.+)::([^:]+)", re.DOTALL)
# Polars panics over some damaged files; a panic is not even an Exception.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, duckdb.Error, OSError)


def is_table(text: str) -> bool:
    """Whether a text is the path of a table, by its suffix, rather than a column or a condition.

    >>> [is_table(text) for text in ("new.parquet", "flights.duckdb::new", "day > 80", "late", "day::INT > 80")]
    [True, True, False, False, False]
    """
    return format_of_path(text) is not None or table_in_database(text) is not None


def table_in_database(path: str) -> tuple[str, str] | None:
    """Return the file and the table of a path such as ``flights.duckdb::late``; None of any other.

    >>> table_in_database("flights.duckdb::late"), table_in_database("late.csv")
    (('flights.duckdb', 'late'), None)
    """
    inside = _IN_DATABASE.fullmatch(path)
    if inside is None or format_of_path(inside[1]) != DATABASE:
        return None
    return inside[1], inside[2]


def is_columnar(path: str) -> bool:
    """Whether one column of a file can be read without the others."""
    return format_of_path(path) in ("parquet", "arrow")


def read_table(
    path: str, table: str | None = None, types: Mapping[str, pl.DataType] | None = None, *, kind: str | None = None,
    content: bytes | None = None, read_only: bool = True, null_values: Sequence[str] = (),
) -> pl.LazyFrame | duckdb.DuckDBPyRelation:  # fmt: skip
    """Return a table in a file: a lazy frame, or a relation of a DuckDB file's table.

    Parameters
    ----------
    path
        The path of the file, whose suffix tells its format. ``"flights.duckdb::late"`` is the table ``late`` of a
        DuckDB file.
    table
        The table of a DuckDB file, if the path does not name it.
    types
        Types of columns of a file of text, in place of the inferred ones.
    kind
        The format, as `file_formats.FORMATS` names it, whatever the suffix.
    content
        The bytes of the file, which then is not read; the path is what messages call them.
    read_only
        Whether to open a DuckDB file so that it can't be written to.
    null_values
        What stands for NULL in files of text, besides nothing, such as ``NA``.

    Raises
    ------
    DataError
        If the file can't be read, or a file of text has a column twice, or other separators than its format.
    ParameterError
        If the format is unknown, or it is not clear which table is meant.
    """
    inside = _IN_DATABASE.fullmatch(path)
    if inside is not None and kind is None and format_of_path(path) is None:
        if table is not None:
            raise ParameterError(f"two tables are named, {shown(inside[2])} in {shown(path)}, and {shown(table)}")
        path, table = inside[1], inside[2]
    kind = kind or format_of_path(path)
    if kind not in (None, DATABASE) and table is not None:
        raise ParameterError(
            f"{shown(path)} is a {FORMATS[kind]} file, which is one table; {shown(table)} would be one of a DuckDB file"
        )
    if kind is None and table is None:
        raise ParameterError(
            f"{shown(path)} is no table that is known here: it must end in {', '.join(SUFFIXES)} (text may be "
            "compressed: .csv.gz, .csv.zst)"
        )
    try:
        if kind is None or kind == DATABASE:
            return _relation(path, table, read_only=read_only)
        frame = _scan(kind, path if content is None else content, types or {}, null_values)
        names = frame.collect_schema().names()
        if kind in SEPARATORS:
            _check_header(path, kind, names, path if content is None else content)
    except _UNREADABLE as error:
        why = problem_of_text(path, kind, content) if kind in TEXTS else None
        raise DataError(f"{path} can't be read: {why or _reason(error)}") from error
    return frame


def dictionaries_in(path: str) -> frozenset[str]:
    """Return the columns that a Parquet or Arrow file says are dictionaries, as pandas' categories are written.

    Polars reads those of numbers and dates as plain columns.
    """
    schema, names = b"", frozenset[str]()
    if "://" in path:  # to read a header there takes as long as to read a table
        return names
    try:
        if (kind := format_of_path(path)) == "parquet":
            told = pl.read_parquet_metadata(path)
            pandas = json.loads(told.get("pandas", "{}")).get("columns", [])
            names = frozenset(each["name"] for each in pandas if each["pandas_type"] == "categorical")
            schema = base64.b64decode(told.get("ARROW:schema", ""))
        elif kind == "arrow":
            with Path(path).open("rb") as file:
                schema = file.read(_LONGEST_HEADER)
        return names | frozenset(_dictionaries_of(schema.removeprefix(b"ARROW1\0\0")))
    except (ValueError, LookupError, TypeError, AttributeError, struct.error, *_UNREADABLE):
        return names  # text of another tool's; the rows are read all the same


def _dictionaries_of(message: bytes) -> Iterator[str]:
    """Yield the columns that are dictionaries, of a schema as Arrow's streams and files begin with (a FlatBuffer)."""
    if not message:
        return
    buffer = message[8 if message.startswith(b"\xff\xff\xff\xff") else 4 :]

    def number(at: int, kind: str = "<I") -> int:
        return int(struct.unpack_from(kind, buffer, at)[0])

    def target(at: int) -> int:
        return at + number(at)

    def slot(table: int, index: int) -> int | None:
        """Return where a field of a table is, if it is there."""
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


def _check_header(path: str, kind: str, names: Sequence[str], source: str | bytes) -> None:
    """Raise `DataError` if a column is there twice, which polars renames, or the text seems to be in another format."""
    if any("\0" in name for name in names):
        raise DataError(f"{path} can't be read: line 1 is not UTF-8")
    if any("\r" in name.strip("\r") for name in names):
        raise DataError(f"{path} can't be read: its lines end by \\r alone; write it with \\n, or \\r\\n")
    if any("_duplicated_" in name for name in names):
        header = pl.scan_csv(source, separator=SEPARATORS[kind], has_header=False, n_rows=1, infer_schema=False)
        given = header.collect().row(0)
        if twice := [name for name in given if given.count(name) > 1]:
            raise DataError(
                f"{path} has column {shown(twice[0])} {given.count(twice[0])} times; column names must be unique"
            )
    others = [
        each for each in (",", ";", "\t", "|") if each != SEPARATORS[kind] and len(names) == 1 and each in names[0]
    ]
    if others:
        raise DataError(
            f"{path} has one column, {shown(names[0])}, whose values seem to be separated by {shown(others[0])}; give "
            f"a frame of it, as pl.scan_csv(path, separator={shown(others[0])}), or write it as {FORMATS[kind]}"
        )


def problem_of_text(path: str, kind: str, content: bytes | None = None, *, is_short: bool = False) -> str | None:
    r"""Return what is wrong with a file of text, and in which line, where polars does not; None if nothing is found.

    >>> problem_of_text("-", "csv", b"x,y\n1,2\n1,2,3\n"), problem_of_text("-", "csv", b"x,y\n1,\xff\n")
    ('line 3 has 3 fields, and the header has 2', 'line 2 is not UTF-8')

    With ``is_short`` a row with fewer fields than the header is wrong in place of one with more.
    """
    try:
        with Path(path).open("rb") if content is None else io.BytesIO(content) as raw:
            start = raw.read(4)
            raw.seek(0)
            if start.startswith(_ZSTD):
                return None
            lines = _decoded(gzip.GzipFile(fileobj=raw) if start.startswith(_GZIP) else raw)
            return _of_objects(lines) if kind == "ndjson" else _of_fields(lines, SEPARATORS[kind], is_short=is_short)
    except _NotTextError as error:
        return str(error)
    except (csv.Error, OSError, EOFError, zlib.error):  # polars says why
        return None


def _of_objects(lines: Iterable[str]) -> str | None:
    first: dict[str, tuple[str, int]] = {}  # of each column its kind of value, and the line that has it
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            return f"line {number} is no JSON object"
        for name, value in values.items():
            kind = _KINDS.get(type(value), "")
            before, at = first.setdefault(name, (kind, number)) if kind else ("", 0)
            if kind != before and not {kind, before} <= _AS_STRINGS:
                return f"column {shown(name)} is {kind} in line {number} and {before} in line {at}"
    return None


# What messages call the types of JSON; polars reads columns with both of the latter as strings.
_KINDS = {
    int: "a number", float: "a number", bool: "true or false", str: "a string", list: "a list", dict: "an object",
}  # fmt: skip
_AS_STRINGS = frozenset(["a number", "a string"])


def mixed_types(frame: pl.LazyFrame, path: str, content: bytes | None = None) -> dict[str, tuple[object, str]]:
    """Return the columns of NDJSON that are read as strings and have other values too, with one of each."""
    found: dict[str, tuple[object, str]] = {}
    lines = _lines(path if content is None else content).drop_nulls()
    for name, dtype in frame.collect_schema().items():
        if dtype != pl.String:
            continue
        # The names of inner objects and parts of strings look alike, so that a few of the lines are parsed.
        key = re.escape(json.dumps(name, ensure_ascii=False))

        def values(start: str, key: str = key, name: str = name) -> Iterator[object]:
            looks_like = pl.col("line").str.contains(rf"{key}\s*:\s*{start}")
            some = lines.filter(looks_like).head(_LINES_TO_PARSE).collect(engine="streaming")["line"]
            return (_value_in(line, name) for line in some)

        other = next((value for value in values("[-0-9tf]") if isinstance(value, int | float)), None)
        text = None if other is None else next((value for value in values('"') if isinstance(value, str)), None)
        if text is not None:
            found[name] = (other, text)
    return found


def _value_in(line: str, name: str) -> object:
    try:
        return json.loads(line).get(name)
    except (ValueError, RecursionError):
        return None


def _lines(source: str | bytes) -> pl.LazyFrame:
    """Return the lines of a file of text as the column ``line``, in which an empty one is NULL."""
    return pl.scan_csv(
        source, separator="\1", quote_char=None, has_header=False, infer_schema=False, truncate_ragged_lines=True
    ).select(pl.first().alias("line"))


def _of_fields(lines: Iterable[str], separator: str, *, is_short: bool) -> str | None:
    rows = csv.reader(lines, delimiter=separator)
    width = len(next(rows, []))
    wrong = next((len(row) for row in rows if (len(row) < width if is_short else len(row) > width)), None)
    return None if wrong is None else f"line {rows.line_num} has {counted(wrong, 'field')}, and the header has {width}"


def short_row(frame: pl.LazyFrame, path: str, kind: str, content: bytes | None = None) -> str | None:
    """Return where a file of separated values, which ``frame`` reads, has a row of fewer fields than the header.

    None if nowhere.
    """
    line, width = pl.col("line"), len(frame.collect_schema())
    n_separators = line.str.count_matches(SEPARATORS[kind], literal=True).fill_null(0)
    is_short = n_separators < width - 1
    found = (
        _lines(path if content is None else content)
        .with_row_index("number", offset=1)
        .select(
            pl.col("number").filter(is_short).first(),
            n_separators.filter(is_short).first().alias("n"),
            line.filter(is_short).first().is_null().alias("is_empty"),
            line.str.contains('"', literal=True).any().alias("has_quotes"),
        )
        .collect(engine="streaming")
        .row(0, named=True)
    )
    if found["number"] is None:
        return None
    if found["has_quotes"]:  # a value may go over several lines, and a short row has nothing in the last column
        lacks_last = frame.select(column(frame.collect_schema().names()[-1]).is_null().any())
        may_be_short = lacks_last.collect(engine="streaming").item()
        return problem_of_text(path, kind, content, is_short=True) if may_be_short else None
    fields = 0 if found["is_empty"] else found["n"] + 1
    return f"line {found['number']} has {counted(fields, 'field')}, and the header has {width}"


class _NotTextError(Exception):
    """A line is not UTF-8."""


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise _NotTextError(f"line {number} is not UTF-8") from error


def files_of(path: str, argument: str) -> list[str]:
    """Return the files of a glob, in the order of their names, or the path if it is none.

    Raises
    ------
    DataError
        If there is no such file; ``argument`` is what the message calls the path.
    """
    is_glob = glob.has_magic(path) and "://" not in path
    files = sorted(glob.glob(path)) if is_glob else [path]  # noqa: PTH207, which globs below one folder
    if not files:
        raise DataError(f"no file matches {argument}={shown(path)}")
    return files


def _scan(
    kind: str, source: str | bytes, types: Mapping[str, pl.DataType], null_values: Sequence[str]
) -> pl.LazyFrame:  # fmt: skip
    if kind == "parquet":
        return pl.scan_parquet(source)
    if kind == "arrow":
        if isinstance(source, bytes) and not source.startswith(b"ARROW1"):
            return pl.read_ipc_stream(source).lazy()
        return pl.scan_ipc(source)

    def scanned(overrides: Mapping[str, pl.DataType], looked_at: int | None = None) -> pl.LazyFrame:
        # Types are inferred from all rows, as a column may be whole in the first rows and not in the last.
        if kind == "ndjson":
            frame = pl.scan_ndjson(source, infer_schema_length=looked_at, schema_overrides=dict(overrides))
            return _with_nulls(frame, null_values) if null_values else frame
        return pl.scan_csv(
            source, separator=SEPARATORS[kind], infer_schema_length=looked_at, try_parse_dates=True,
            schema_overrides=dict(overrides), null_values=["", *null_values] if null_values else None,
        )  # fmt: skip

    if not types:
        return scanned({})
    # The names of CSV are in its first line; those of NDJSON may be in any.
    names = scanned({}, None if kind == "ndjson" else 0).collect_schema().names()
    return scanned({name: types[name] for name in names if name in types})


def _with_nulls(frame: pl.LazyFrame, tokens: Sequence[str]) -> pl.LazyFrame:
    """Return a table of NDJSON with NULL for some strings; columns that are otherwise numbers are numbers."""
    text, is_null = cs.string(), cs.string().is_in(list(tokens))
    of_type = {dtype: text.cast(dtype, strict=False) for dtype in (pl.Int64(), pl.Float64())}
    is_of = [(is_null | cast.is_not_null() | text.is_null()).all() for cast in of_type.values()]
    whole, fractional = (frame.select(each).collect(engine="streaming").row(0, named=True) for each in is_of)
    has_token = frame.select(is_null.any()).collect(engine="streaming").row(0, named=True)
    types = {
        name: pl.Int64() if whole[name] else pl.Float64()
        for name in has_token if has_token[name] and fractional[name]
    }  # fmt: skip
    return frame.with_columns(pl.when(~is_null).then(text)).cast(types)  # type: ignore[arg-type]


def _relation(path: str, table: str | None, *, read_only: bool) -> duckdb.DuckDBPyRelation:
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)  # DuckDB's own message has two lines
    connection = duckdb.connect(path, read_only=read_only)
    if table is None:
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        if len(names) != 1:
            raise ParameterError(
                f"which table of {path}? Name one, as in '{path}::table'; it has {listed(names) or 'none'}"
            )
        return connection.sql(f"SELECT * FROM {quote_identifier(names[0])}")
    return connection.sql(f"SELECT * FROM {quote_path(table)}")


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):  # polars raises it with a text of its own
        return os.strerror(errno.ENOENT)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return reason(error)


# --- writing ----------------------------------------------------------------------------------------------------------


def check_writable(path: str) -> None:
    """Raise `OSError` if a file can't be written, so that long work does not start in vain."""
    if path == STDOUT:
        return
    path = (table_in_database(path) or (path,))[0]
    target = Path(path).resolve()
    code = None
    if target.is_dir():
        code = errno.EISDIR
    elif not is_special(path) and not target.parent.is_dir():
        code = errno.ENOENT
    elif not os.access(path if is_special(path) else target.parent, os.W_OK):
        code = errno.EACCES
    if code is not None:
        raise OSError(code, f"can't be written: {os.strerror(code)}", path)


@contextmanager
def output_path(path: str) -> Iterator[Path]:
    """Yield a path to write to, as `atomic_files.atomic_path` does, if it can be written."""
    check_writable(path)
    with atomic_path(path) as partial:
        yield partial


def write_text(path: str, text: str) -> None:
    """Write a text to a file, atomically, or to standard output."""
    if path == STDOUT:
        sys.stdout.write(text)
        return
    with output_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_table(frame: pl.LazyFrame, path: str, *, replace: bool = False) -> None:
    """Write a frame, batch by batch and atomically, to a file or a DuckDB table, or as CSV to standard output.

    Parameters
    ----------
    frame
        The rows.
    path
        A path of a format that `check_format` knows.
    replace
        Whether to replace a DuckDB table that is there already.

    Raises
    ------
    ParameterError
        As `check_format`.
    OSError
        If it can't be written.
    """
    if path == STDOUT:
        sys.stdout.write(frame.collect_schema().to_frame().write_csv())
        for batch in frame.collect_batches(maintain_order=True):
            sys.stdout.write(batch.write_csv(include_header=False))
        return
    kind = check_format(path, replace=replace)
    if (inside := table_in_database(path)) is not None:
        write_duckdb_table(frame, *inside, replace=replace)
        return
    packed: Any = {".gz": "gzip", ".zst": "zstd"}.get(Path(path).suffix.lower(), "uncompressed")
    with output_path(path) as partial:
        if kind == "parquet":
            frame.sink_parquet(partial)
        elif kind == "arrow":
            frame.sink_ipc(partial)
        elif kind == "ndjson":
            frame.sink_ndjson(partial, compression=packed, check_extension=False)
        else:
            frame.sink_csv(partial, separator=SEPARATORS[kind], compression=packed, check_extension=False)


def check_format(path: str, *, replace: bool = False) -> str:
    """Return the format that a table is written in to the path.

    Raises
    ------
    ParameterError
        If the suffix tells none, or a DuckDB table is there already and is not to be replaced.
    """
    if (inside := table_in_database(path)) is not None:
        check_new_table(*inside, replace=replace)
        return DATABASE
    kind = "csv" if path == STDOUT else format_of_path(path)
    if kind is None or kind == DATABASE:
        way = f"; name the table: {path}::scored" if kind == DATABASE else ""
        written = ", ".join(ending for ending, its in SUFFIXES.items() if its != DATABASE)
        raise ParameterError(
            f"{shown(path)} can't be written as a table: it must end in {written}, or be a table of a DuckDB file{way}"
        )
    return kind

"""Tables in files: read lazily, and written atomically."""

from __future__ import annotations

import errno
import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import polars as pl

from frameboost.checks.messages import listed, reason, shown
from frameboost.data.atomic_files import atomic_path
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, quote_path

__all__ = [
    "STDOUT", "check_format", "check_writable", "is_columnar", "is_table", "output_path", "read_table", "read_tables",
    "write_table", "write_text",
]  # fmt: skip

STDOUT = "-"
_KINDS = {
    ".parquet": "Parquet", ".pq": "Parquet", ".csv": "CSV", ".tsv": "CSV", ".arrow": "Arrow", ".ipc": "Arrow",
    ".feather": "Arrow", ".duckdb": "DuckDB", ".ddb": "DuckDB", ".db": "DuckDB",
}  # fmt: skip
_IN_DATABASE = re.compile(r"(.+)::([^:]+)", re.DOTALL)
# Polars panics over some damaged files; a panic is not even an Exception.
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, duckdb.Error, OSError)


def is_table(text: str) -> bool:
    """Whether a text is the path of a table, by its suffix, rather than a column or a condition.

    >>> [is_table(text) for text in ("new.parquet", "flights.duckdb::new", "day > 80", "late", "day::INT > 80")]
    [True, True, False, False, False]
    """
    inside = _IN_DATABASE.fullmatch(text)
    return _kind(text) is not None or (inside is not None and _kind(inside[1]) == "DuckDB")


def is_columnar(path: str) -> bool:
    """Whether one column of a file can be read without the others."""
    return _kind(path) in ("Parquet", "Arrow")


def read_table(
    path: str, table: str | None = None, types: Mapping[str, pl.DataType] | None = None
) -> pl.LazyFrame | duckdb.DuckDBPyRelation:
    """Return a table in a file: a lazy frame of Parquet, CSV or Arrow, or a relation of a DuckDB file's table.

    Parameters
    ----------
    path
        The path of the file, whose suffix tells its format. Of Parquet, CSV and Arrow files it may be a glob
        (``"2013-*.parquet"``). ``"flights.duckdb::late"`` is the table ``late`` of a DuckDB file.
    table
        The table of a DuckDB file, if the path does not name it. The file is opened read-only.
    types
        Types of columns of a CSV file, in place of the inferred ones.

    Raises
    ------
    DataError
        If the file can't be read.
    ParameterError
        If the format is unknown, or it is not clear which table is meant.
    """
    inside = _IN_DATABASE.fullmatch(path)
    if inside is not None and _kind(path) is None:
        if table is not None:
            raise ParameterError(f"two tables are named, {shown(inside[2])} in {shown(path)}, and {shown(table)}")
        path, table = inside[1], inside[2]
    kind = _kind(path)
    if kind not in (None, "DuckDB") and table is not None:
        raise ParameterError(
            f"{shown(path)} is a {kind} file, which is one table; {shown(table)} would be one of a DuckDB file"
        )
    if kind is None and table is None:
        raise ParameterError(f"{shown(path)} is no table that is known here: it must end in {', '.join(_KINDS)}")
    try:
        if kind is None or kind == "DuckDB":
            return _relation(path, table)
        frame = _scan(kind, path, types or {})
        frame.collect_schema()
    except _UNREADABLE as error:
        raise DataError(f"{path} can't be read: {_reason(error)}") from error
    return frame


def read_tables(path: str, argument: str) -> dict[str, pl.LazyFrame | duckdb.DuckDBPyRelation]:
    """Return the table of each file of a glob, in the order of their names, or of the file of that path.

    Raises
    ------
    DataError
        If there is none, where ``argument`` is what the message calls the path, or as `read_table`.
    """
    is_glob = glob.has_magic(path) and "://" not in path
    files = sorted(glob.glob(path)) if is_glob else [path]  # noqa: PTH207, which globs below one folder
    if not files:
        raise DataError(f"no file matches {argument}={shown(path)}")
    return {file: read_table(file) for file in files}


def _kind(path: str) -> str | None:
    return _KINDS.get(Path(path).suffix.lower())


def _scan(kind: str, path: str, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    if kind == "Parquet":
        return pl.scan_parquet(path)
    if kind == "Arrow":
        return pl.scan_ipc(path)

    def scanned(overrides: Mapping[str, pl.DataType]) -> pl.LazyFrame:
        # Types are inferred from all rows, as a column may be whole in the first rows and not in the last.
        return pl.scan_csv(
            path, separator="\t" if Path(path).suffix.lower() == ".tsv" else ",", infer_schema_length=None,
            try_parse_dates=True, schema_overrides=dict(overrides),
        )  # fmt: skip

    frame = scanned({})
    given = {name: types[name] for name in frame.collect_schema().names() if name in types}
    return scanned(given) if given else frame


def _relation(path: str, table: str | None) -> duckdb.DuckDBPyRelation:
    if not Path(path).is_file():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)  # DuckDB's own message has two lines
    connection = duckdb.connect(path, read_only=True)
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
    target = Path(path).resolve()
    code = None
    if target.is_dir():
        code = errno.EISDIR
    elif not _is_special(path) and not target.parent.is_dir():
        code = errno.ENOENT
    elif not os.access(path if _is_special(path) else target.parent, os.W_OK):
        code = errno.EACCES
    if code is not None:
        raise OSError(code, f"can't be written: {os.strerror(code)}", path)


@contextmanager
def output_path(path: str) -> Iterator[Path]:
    """Yield a path to write to, as `atomic_files.atomic_path` does; a device or a pipe is written to directly."""
    check_writable(path)
    if _is_special(path):  # such as /dev/null, or a pipe that somebody reads from: it must not be replaced
        yield Path(path)
        return
    with atomic_path(path) as partial:
        yield partial


def _is_special(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_file()


def write_text(path: str, text: str) -> None:
    """Write a text to a file, atomically, or to standard output."""
    if path == STDOUT:
        sys.stdout.write(text)
        return
    with output_path(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_table(frame: pl.LazyFrame, path: str) -> None:
    """Write a frame, batch by batch, to a Parquet, CSV or Arrow file, atomically, or as CSV to standard output.

    Raises
    ------
    ParameterError
        If the path's suffix is of none of these formats.
    OSError
        If it can't be written.
    """
    if path == STDOUT:
        sys.stdout.write(frame.collect_schema().to_frame().write_csv())
        for batch in frame.collect_batches(maintain_order=True):
            sys.stdout.write(batch.write_csv(include_header=False))
        return
    kind = check_format(path)
    with output_path(path) as partial:
        if kind == "Parquet":
            frame.sink_parquet(partial)
        elif kind == "Arrow":
            frame.sink_ipc(partial)
        else:
            frame.sink_csv(partial, separator="\t" if Path(path).suffix.lower() == ".tsv" else ",")


def check_format(path: str) -> str:
    """Return the format that a table is written in to the path, or raise `ParameterError`."""
    kind = "CSV" if path == STDOUT else _kind(path)
    if kind is None or kind == "DuckDB":
        written = ", ".join(ending for ending, its in _KINDS.items() if its != "DuckDB")
        raise ParameterError(f"{shown(path)} can't be written as a table: it must end in {written}")
    return kind

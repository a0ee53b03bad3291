"""Write texts and tables atomically: a file is replaced once its successor is complete.

Tables are written to a file in the format of its suffix, to a DuckDB table, or as CSV to standard output.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.data.file_formats import DATABASE, SEPARATORS, SUFFIXES, format_of_path, table_in_database
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, quote_path, string_literal
from frameboost.runtime.interrupts import first_duckdb_error
from frameboost.schema.types import column

__all__ = ["STDOUT", "atomic_path", "check_format", "check_writable", "is_special", "output_path", "write_bytes",
    "write_output", "write_table", "write_text"]  # fmt: skip

STDOUT = "-"


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to, then rename it to ``path``.

    If writing fails, the temporary file is removed, and ``path`` is unchanged. The temporary file is in a separate
    folder, so that a writer's thread that opens it after the failure leaves no file. Devices and pipes are yielded
    themselves, as they must not be replaced.
    """
    if is_special(path):
        yield Path(path)
        return
    target, folder = _target_and_partial(path)
    with _errors_of(path):
        folder.mkdir()
    try:
        partial = folder / "file"
        yield partial
        with _errors_of(path):
            partial.replace(target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def is_special(path: str | Path) -> bool:
    """Whether a path is something other than a regular file, such as /dev/null or a pipe."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def _target_and_partial(path: str | Path) -> tuple[Path, Path]:
    """Return the file to replace, resolving links, and an unused name beside it."""
    target = Path(path).resolve()
    return target, target.parent / f".{secrets.token_hex(8)}.partial"


@contextmanager
def _errors_of(path: str | Path) -> Iterator[None]:
    """Raise the operating system's errors with the user's path instead of the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write a file atomically. No other thread opens the temporary file, so it needs no separate folder."""
    if is_special(path):
        Path(path).write_bytes(data)
        return
    target, partial = _target_and_partial(path)
    try:
        with _errors_of(path):
            partial.write_bytes(data)
            partial.replace(target)
    finally:
        with suppress(OSError):  # renamed, or never written
            partial.unlink()


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8, atomically."""
    write_bytes(path, text.encode("utf-8"))


# --- outputs of the command line: texts, and tables of any format -----------------------------------------------------


def check_writable(path: str) -> None:
    """Raise `OSError` if a file can't be written, before long work starts."""
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
    """Yield a path to write to, as `atomic_path`, after checking that it is writable."""
    check_writable(path)
    with atomic_path(path) as partial:
        yield partial


def write_output(path: str, text: str) -> None:
    """Write text to a file, atomically, or to standard output."""
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
        A path of a format that `check_format` accepts.
    replace
        Whether to replace an existing DuckDB table.

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
        _write_duckdb_table(frame, *inside, replace=replace)
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
    """Return the format for writing a table to a path.

    Raises
    ------
    ParameterError
        If the suffix has no format, or a DuckDB table exists and is not to be replaced.
    """
    if (inside := table_in_database(path)) is not None:
        _check_new_table(*inside, replace=replace)
        return DATABASE
    kind = "csv" if path == STDOUT else format_of_path(path)
    if kind is None or kind == DATABASE:
        way = f"; name the table: {path}::scored" if kind == DATABASE else ""
        written = ", ".join(ending for ending, kind_of_suffix in SUFFIXES.items() if kind_of_suffix != DATABASE)
        raise ParameterError(
            f"{shown(path)} can't be written as a table: it must end in {written}, or be a table of a DuckDB file{way}"
        )
    return kind


# --- tables of DuckDB files -------------------------------------------------------------------------------------------

_MICROSECONDS = {"ns": "{} // 1000", "us": "{}", "ms": "{} * 1000"}

_INTEGERS: dict[Any, str] = {pl.Int128(): "HUGEINT", pl.UInt128(): "UHUGEINT"}


def _check_new_table(path: str, table: str, *, replace: bool) -> None:
    """Raise `ParameterError` if a DuckDB file has the table already, unless it is to be replaced.

    Raises
    ------
    DataError
        If the file exists, but is not a DuckDB file or is locked by another writer.
    """
    if not Path(path).exists() or replace:
        return
    try:
        with _connected(path) as connection:
            has_it = _has_table(connection, table)
    except duckdb.Error as error:
        raise DataError(f"{path} can't be opened: {reason(error)}") from error
    if has_it:
        raise ParameterError(
            f"{path} has a table {shown(table)} already; choose another name, or replace it (--replace)"
        )


def _write_duckdb_table(frame: pl.LazyFrame, path: str, table: str, *, replace: bool) -> None:
    """Write a frame to a table of a DuckDB file, which is created if it does not exist.

    Rows go to a temporary Parquet file, batch by batch, and from there into the table in one transaction: after an
    error the database is unchanged, and no new file remains.

    Raises
    ------
    DataError
        If the table can't be created.
    """
    with tempfile.TemporaryDirectory(prefix="frameboost-") as folder:
        rows = Path(folder) / "rows.parquet"
        schema = frame.collect_schema()
        wide = [column(name).cast(pl.String) for name, dtype in schema.items() if dtype in _INTEGERS]
        frame.with_columns(wide).sink_parquet(rows)
        try:
            if Path(path).exists():
                _create_table(Path(path), table, rows, schema, replace=replace)
            else:
                with atomic_path(path) as partial:
                    _create_table(partial, table, rows, schema, replace=replace)
        except duckdb.Error as error:
            raise DataError(f"table {shown(table)} of {path} can't be written: {reason(error)}") from error


def _create_table(path: Path, table: str, rows: Path, schema: pl.Schema, *, replace: bool) -> None:
    columns = ", ".join(_column_sql(name, dtype) for name, dtype in schema.items())
    create = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE"
    file = string_literal(str(rows))
    with _connected(str(path)) as connection, first_duckdb_error():
        connection.execute("BEGIN")  # which a connection rolls back that is closed before the end
        connection.execute(f"{create} {quote_path(table)} AS SELECT {columns} FROM read_parquet({file})")
        connection.execute("COMMIT")


def _column_sql(name: str, dtype: pl.DataType) -> str:
    """Return a Parquet column as DuckDB's type; Parquet lacks durations and 128-bit integers."""
    quoted = quote_identifier(name)
    if dtype in _INTEGERS:
        return f"CAST({quoted} AS {_INTEGERS[dtype]}) AS {quoted}"
    if not isinstance(dtype, pl.Duration):
        return quoted
    return f"to_microseconds({_MICROSECONDS[dtype.time_unit].format(quoted)}) AS {quoted}"


def _has_table(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    try:
        connection.sql(f"SELECT 1 FROM {quote_path(table)} LIMIT 0")
    except duckdb.CatalogException:
        return False
    return True


@contextmanager
def _connected(path: str) -> Iterator[duckdb.DuckDBPyConnection]:
    # A process has one instance of a database: that of a table that is being read is open in the same way.
    with closing(duckdb.connect(path)) as connection:
        yield connection

"""Tables written to DuckDB files, atomically."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from frameboost.checks.messages import reason, shown
from frameboost.data.atomic_files import atomic_path
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier, quote_path, string_literal
from frameboost.runtime.duckdb_errors import first_duckdb_error
from frameboost.schema.polars_columns import column

__all__ = ["check_new_table", "write_duckdb_table"]

_MICROSECONDS = {"ns": "{} // 1000", "us": "{}", "ms": "{} * 1000"}

_INTEGERS: dict[Any, str] = {pl.Int128(): "HUGEINT", pl.UInt128(): "UHUGEINT"}


def check_new_table(path: str, table: str, *, replace: bool) -> None:
    """Raise `ParameterError` if a DuckDB file has such a table already, unless it is to be replaced.

    Raises
    ------
    DataError
        If there is such a file, but it is no DuckDB file or somebody else writes to it.
    """
    if not Path(path).exists() or replace:
        return
    try:
        with _connection(path) as connection:
            has_it = _has(connection, table)
    except duckdb.Error as error:
        raise DataError(f"{path} can't be opened: {reason(error)}") from error
    if has_it:
        raise ParameterError(
            f"{path} has a table {shown(table)} already; choose another name, or replace it (--replace)"
        )


def write_duckdb_table(frame: pl.LazyFrame, path: str, table: str, *, replace: bool) -> None:
    """Write a frame to a table of a DuckDB file, which is made if it is not there.

    The rows go to a temporary Parquet file, batch by batch, and from there into the table in one transaction: after an
    error the database is as it was, and a new file is not there.

    Raises
    ------
    DataError
        If the table can't be made.
    """
    with tempfile.TemporaryDirectory(prefix="frameboost-") as folder:
        rows = Path(folder) / "rows.parquet"
        schema = frame.collect_schema()
        wide = [column(name).cast(pl.String) for name, dtype in schema.items() if dtype in _INTEGERS]
        frame.with_columns(wide).sink_parquet(rows)
        try:
            if Path(path).exists():
                _create(Path(path), table, rows, schema, replace=replace)
            else:
                with atomic_path(path) as partial:
                    _create(partial, table, rows, schema, replace=replace)
        except duckdb.Error as error:
            raise DataError(f"table {shown(table)} of {path} can't be written: {reason(error)}") from error


def _create(path: Path, table: str, rows: Path, schema: pl.Schema, *, replace: bool) -> None:
    columns = ", ".join(_column(name, dtype) for name, dtype in schema.items())
    create = "CREATE OR REPLACE TABLE" if replace else "CREATE TABLE"
    file = string_literal(str(rows))
    with _connection(str(path)) as connection, first_duckdb_error():
        connection.execute("BEGIN")  # which a connection rolls back that is closed before the end
        connection.execute(f"{create} {quote_path(table)} AS SELECT {columns} FROM read_parquet({file})")
        connection.execute("COMMIT")


def _column(name: str, dtype: pl.DataType) -> str:
    """Return a column of a Parquet file as DuckDB's type; Parquet has neither durations nor integers of 128 bits."""
    quoted = quote_identifier(name)
    if dtype in _INTEGERS:
        return f"CAST({quoted} AS {_INTEGERS[dtype]}) AS {quoted}"
    if not isinstance(dtype, pl.Duration):
        return quoted
    return f"to_microseconds({_MICROSECONDS[dtype.time_unit].format(quoted)}) AS {quoted}"


def _has(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    try:
        connection.sql(f"SELECT 1 FROM {quote_path(table)} LIMIT 0")
    except duckdb.CatalogException:
        return False
    return True


@contextmanager
def _connection(path: str) -> Iterator[duckdb.DuckDBPyConnection]:
    # A process has one instance of a database: that of a table that is being read is open in the same way.
    with closing(duckdb.connect(path)) as connection:
        yield connection

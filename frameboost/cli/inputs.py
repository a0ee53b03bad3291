"""The tables that commands read and write: files, globs, a DuckDB file's table, standard input and output."""

from __future__ import annotations

import argparse
import sys
import zlib
from pathlib import Path

from frameboost.checks.messages import listed
from frameboost.cli.arguments import Parser, UsageError, names
from frameboost.data.file_formats import FORMATS, format_of_bytes
from frameboost.data.several_files import TableFiles
from frameboost.data.table_files import STDOUT, check_format, check_writable, is_table, table_in_database
from frameboost.errors import DataError

__all__ = ["add_data", "add_output", "check_data", "check_output", "other_table", "read_data"]

_STDIN = STDOUT
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def add_data(parser: Parser, *, optional: bool = False) -> None:
    """Add the arguments that name the rows."""
    add = parser.add_argument
    add("data", metavar="DATA", nargs="*" if optional else "+",
        help="Parquet, CSV, NDJSON or Arrow files (also .csv.gz), globs of them, a DuckDB file's table "
        "(flights.duckdb::late), or '-' for standard input")  # fmt: skip
    add("--table", help="the table of a DuckDB file")
    add("--format", choices=tuple(FORMATS),
        help="the format, whatever a file is called; that of standard input is told from its first bytes")  # fmt: skip
    add("--null-values", type=names, default=[], metavar="TOKENS",
        help="what stands for a missing value in files of text, besides nothing: NA,?")  # fmt: skip
    add("--fill-missing", action="store_true", help="columns that only some of several files have are NULL in others")


def add_output(parser: Parser, what: str, *, required: bool) -> None:
    """Add the arguments that name the table to write; the help begins with ``what``."""
    parser.add_argument(
        "-o", "--out", required=required, metavar="FILE",
        help=f"{what} Parquet, CSV, NDJSON or Arrow file, a DuckDB file's table (scored.duckdb::late), or '-', CSV on "
        "stdout")  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="replace a DuckDB table that is there already")


def check_output(given: argparse.Namespace) -> None:
    """Raise an error if the table that a command is to write can't be written, before work starts."""
    if given.replace and table_in_database(given.out or "") is None:
        raise UsageError("--replace is for a table of a DuckDB file; other files are replaced anyway")
    if given.out is not None:
        check_writable(given.out)
        check_format(given.out, replace=given.replace)


def check_data(given: argparse.Namespace) -> None:
    """Raise `UsageError` if the arguments that name the rows do not go together."""
    several = len(given.data) > 1
    if several and given.table is not None:
        raise UsageError("--table is for one DuckDB file, not for several files")
    if _STDIN in given.data and several:
        raise UsageError("'-', standard input, is one table; it does not go with files")


def read_data(given: argparse.Namespace, out: str | None = None) -> TableFiles:
    """Return the rows that a command is given, and read standard input if they are there.

    A DuckDB file that ``out`` is a table of is opened so that it can be written to.
    """
    check_data(given)
    if given.data == [_STDIN]:
        content = sys.stdin.buffer.read()
        kind = given.format or _format_of_stdin(content)
        return TableFiles(("standard input",), given.table, kind, content, null_values=tuple(given.null_values))
    written = table_in_database(out or "")
    read = {Path((table_in_database(path) or (path,))[0]).resolve() for path in given.data}
    read_only = written is None or Path(written[0]).resolve() not in read
    return TableFiles(
        tuple(given.data),
        given.table,
        given.format,
        fill_missing=given.fill_missing,
        read_only=read_only,
        null_values=tuple(given.null_values),
    )


def other_table(path: str | None, given: argparse.Namespace) -> TableFiles | str | None:
    """Return another table of a command, to be read as its rows are; what is no path of a table as it is."""
    if path is None or not is_table(path):
        return path
    return TableFiles((path,), null_values=tuple(given.null_values))


def _format_of_stdin(content: bytes) -> str:
    if not content:
        raise DataError("standard input is empty")
    first = content
    if content.startswith(_GZIP):
        try:
            first = zlib.decompressobj(wbits=31).decompress(content, 1 << 20)
        except zlib.error as error:
            raise DataError(f"standard input can't be read: {error}") from error
    kind = None if content.startswith(_ZSTD) else format_of_bytes(first)
    if kind is None:
        raise DataError(
            f"the first bytes of standard input do not tell its format; give --format, one of {listed(FORMATS)}"
        )
    return kind

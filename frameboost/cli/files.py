"""The inputs and outputs of commands: models, and tables of files, globs, DuckDB files, standard streams."""

from __future__ import annotations

import argparse
import sys
import zlib
from functools import partial
from pathlib import Path

from frameboost.checks.messages import listed, shown
from frameboost.cli.options import Parser, UsageError, add_options, arguments, names, pairs, setting
from frameboost.data.file_formats import FORMATS, format_of_bytes, is_table, table_in_database
from frameboost.data.table_files import TableFiles
from frameboost.data.written_files import STDOUT, check_format, check_writable, write_output
from frameboost.database.database_model import DatabaseModel
from frameboost.ensemble.model_file import dump_file
from frameboost.errors import DataError, ParameterError
from frameboost.loading import open_model
from frameboost.model.model import Model

__all__ = [
    "add_data", "add_database", "add_model", "add_model_and_data", "add_model_out", "add_table_out", "add_text_out",
    "check_data", "check_keep", "check_table_out", "file_fact", "open_database", "other_table", "read_data",
    "write_model",
]  # fmt: skip

_STDIN = STDOUT
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def add_model(parser: Parser) -> None:
    """Add the argument of the model file."""
    parser.add_argument("model", metavar="MODEL", help="the model's file")


def add_data(parser: Parser, *, optional: bool = False) -> None:
    """Add the arguments of the rows."""
    add = parser.add_argument
    add("data", metavar="DATA", nargs="*" if optional else "+",
        help="Parquet, CSV, NDJSON or Arrow files (also .csv.gz), globs of them, a DuckDB file's table "
        "(flights.duckdb::late), or '-' for standard input")  # fmt: skip
    add("--table", help="the table of a DuckDB file")
    add("--format", choices=tuple(FORMATS),
        help="the file format, by default from the extension, or for standard input from the first bytes")  # fmt: skip
    add("--null-values", type=names, default=[], metavar="TOKENS",
        help="strings to read as missing in text files, besides empty fields: NA,?")  # fmt: skip
    add("--where", metavar="CONDITION", help="read only the rows that satisfy this SQL condition")
    add("--fill-missing", action="store_true", help="fill columns that some of the files lack with NULL")


def add_model_and_data(parser: Parser) -> None:
    """Add the arguments of the model file and of the rows."""
    add_model(parser)
    add_data(parser)


def add_database(parser: Parser) -> None:
    """Add the arguments of the database that a model is written for, and of its column names."""
    add_options(
        parser, Model.database, "dialect", "base_margin",
        columns={"option": "--column-map", "type": pairs, "metavar": "FEATURE=COLUMN,..."},
        tables={"type": lambda text: pairs(text) if "=" in text else text, "metavar": "DIMENSION=TABLE,..."},
        limits={"option": "--limit", "type": partial(setting, example="text=2000000"), "action": "append",
                "metavar": "NAME=NUMBER",
                "help": "override a limit of the dialect (docs/dialects.md), such as text=2000000, or none for no "
                "limit; may be repeated"},
    )  # fmt: skip


def open_database(options: argparse.Namespace) -> DatabaseModel:
    """Return the model for the database of the options."""
    limits = None if options.limits is None else dict(options.limits)
    return open_model(options.model).database(**arguments(options, Model.database) | {"limits": limits})


def add_model_out(parser: Parser) -> None:
    """Add the argument of the model file to write."""
    parser.add_argument(
        "-o", "--out", required=True, metavar="MODEL", help="the model file to write ('-': standard output)"
    )


def add_text_out(parser: Parser) -> None:
    """Add the argument of the SQL file to write."""
    parser.add_argument(
        "-o", "--out", default=STDOUT, metavar="FILE", help="the file to write; by default standard output"
    )


def add_table_out(parser: Parser, what: str, *, required: bool) -> None:
    """Add the arguments of the table to write; the help begins with ``what``."""
    parser.add_argument(
        "-o", "--out", required=required, metavar="FILE",
        help=f"{what} Parquet, CSV, NDJSON or Arrow file, a DuckDB file's table (scored.duckdb::late), or '-', CSV on "
        "stdout")  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="replace an existing DuckDB table")


def check_table_out(options: argparse.Namespace) -> None:
    """Raise an error before work starts if the table to write can't be written."""
    if options.replace and table_in_database(options.out or "") is None:
        raise UsageError("--replace is for a table of a DuckDB file; other files are replaced anyway")
    if options.out is not None:
        check_writable(options.out)
        check_format(options.out, replace=options.replace)


def check_data(options: argparse.Namespace) -> None:
    """Raise `UsageError` if the arguments of the rows conflict."""
    are_several = len(options.data) > 1
    if are_several and options.table is not None:
        raise UsageError("--table is for one DuckDB file, not for several files")
    if _STDIN in options.data and are_several:
        raise UsageError("'-', standard input, is one table; it can't be combined with files")


def read_data(options: argparse.Namespace) -> TableFiles:
    """Read the rows of a command, also from standard input.

    A DuckDB file that the command also writes to is opened for writing.
    """
    check_data(options)
    null_values = tuple(options.null_values)
    if options.data == [_STDIN]:
        content = sys.stdin.buffer.read()
        kind = options.format or _format_of_stdin(content)
        return TableFiles(
            ("standard input",), options.table, kind, content, null_values=null_values, where=options.where
        )
    written = table_in_database(getattr(options, "out", None) or "")
    read = {Path((table_in_database(path) or (path,))[0]).resolve() for path in options.data}
    return TableFiles(
        tuple(options.data),
        options.table,
        options.format,
        fill_missing=options.fill_missing,
        read_only=written is None or Path(written[0]).resolve() not in read,
        null_values=null_values,
        where=options.where,
    )


def other_table(path: str | None, options: argparse.Namespace) -> TableFiles | str | None:
    """Return another table of a command, read like its rows; anything but the path of a table unchanged."""
    if path is None or not is_table(path):
        return path
    return TableFiles((path,), null_values=tuple(options.null_values))


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
            f"the first bytes of standard input do not tell its format; set --format, one of {listed(FORMATS)}"
        )
    return kind


def check_keep(keep: list[str], known: list[str]) -> None:
    """Raise `ParameterError` if a column to keep is missing from the data."""
    for name in keep:
        if name not in known:
            raise ParameterError(f"column {shown(name)} is not in the data, which has {listed(known)}")


# --- models -----------------------------------------------------------------------------------------------------------


def write_model(model: Model, path: str) -> None:
    """Write a model in the format of the path's suffix (see `Model.save`), or as JSON to standard output."""
    if path == STDOUT:
        write_output(path, dump_file(model.ensemble))
    else:
        check_writable(path)
        model.save(path)


def file_fact(path: str) -> str:
    """Return a file's path and size as text.

    >>> import os
    >>> file_fact(os.devnull)
    '/dev/null (0 bytes)'
    """
    size = Path(path).stat().st_size
    if size < 1000:
        return f"{path} ({size} bytes)"
    return f"{path} ({size / 1e3:.1f} kB)" if size < 1e6 else f"{path} ({size / 1e6:.1f} MB)"

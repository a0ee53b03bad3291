"""The commands for a model in use: ``tag``, ``prove``, ``deploy``, ``rollback``, ``dbt`` and ``register``.

And ``dbt``, which puts it into a project of dbt, and ``register``, which makes a function of a database.
"""

from __future__ import annotations

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import polars as pl

from frameboost.checks.messages import counted, listed, shown
from frameboost.cli.files import add_database, add_model, add_model_out, add_text_out, open_database, write_model
from frameboost.cli.options import (
    COLUMNS,
    Commands,
    Parser,
    UsageError,
    add_command,
    add_options,
    arguments,
    pairs,
    value,
)
from frameboost.cli.screen import print_table
from frameboost.data.table_files import TableFiles
from frameboost.data.written_files import check_writable, write_output
from frameboost.database.database_model import DatabaseModel, read_columns
from frameboost.database.deployment import script
from frameboost.database.files import header
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import DataError, printable
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.runtime.interrupts import first_duckdb_error

__all__ = ["add_dbt", "add_deploy", "add_prove", "add_register", "add_rollback", "add_tag"]


# --- tag --------------------------------------------------------------------------------------------------------------


def add_tag(commands: Commands) -> None:
    """Add the command ``tag``."""
    example = (
        "frameboost tag model.json --name delay --version 3 --tag team=ops --baseline flights.parquet -o named.json"
    )
    parser = add_command(commands, "tag", "Set a model's name, version, tags and baseline", _tag, example)
    add_model(parser)
    parser.add_argument("--name", metavar="TEXT", help="the model's name")
    parser.add_argument("--version", metavar="TEXT", help="its version")
    parser.add_argument(
        "--tag", type=_text, action="append", metavar="NAME=TEXT", help="a tag; may be repeated; replaces all tags"
    )
    parser.add_argument("--baseline", metavar="DATA", help="the training rows; the model stores their shares by bin")
    add_model_out(parser)


def _text(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be like team=ops, not {shown(text)}")
    return name, value


def _tag(options: argparse.Namespace) -> None:
    check_writable(options.out)
    if options.name is options.version is options.tag is options.baseline is None:
        raise UsageError("tag needs --name, --version, --tag or --baseline")
    model = open_model(options.model)
    tags = None if options.tag is None else dict(options.tag)
    model = model.with_metadata(name=options.name, version=options.version, tags=tags)
    if options.baseline is not None:
        model = model.with_baseline(TableFiles((options.baseline,)))
    write_model(model, options.out)


# --- prove ------------------------------------------------------------------------------------------------------------

_SHOWN = 20


def add_prove(commands: Commands) -> None:
    """Add the command ``prove``."""
    example = "frameboost prove model.json --dialect postgres --table flights | psql -v ON_ERROR_STOP=1"
    help_ = "Write the query that proves that a database scores as Python does"
    notes = (
        "The query returns the rows with unexpected scores; an empty result is the proof. With --run it is run,\n"
        "and the exit code is 1 if there are any."
    )
    parser = add_command(commands, "prove", help_, _prove, example, notes)
    add_model(parser)
    add_database(parser)
    add_options(parser, DatabaseModel.self_test_query, "table", "output", "form", "trees", "rows")
    parser.add_argument(
        "--run",
        dest="run_in",
        metavar="FILE",
        help="the DuckDB file (SQLite with --dialect sqlite) to run the query in",
    )
    add_text_out(parser)


def _prove(options: argparse.Namespace) -> None:
    if options.run_in is not None and options.dialect not in _IN_FILES:
        raise UsageError(f"--run is for the dialects {listed(_IN_FILES)}; let psql or another client run the query")
    check_writable(options.out)
    database = open_database(options)
    query = database.self_test_query(**arguments(options, DatabaseModel.self_test_query))
    if options.run_in is None:
        write_output(options.out, f"{query}\n")
        return
    differing = _rows(options.run_in, options.dialect, query)
    if differing.height:
        print_table(differing.head(_SHOWN))
        raise DataError(f"{options.run_in}: {counted(differing.height, 'row')} scored differently than expected")
    print(f"{options.run_in}: each row of the test scores as expected")


def _rows(path: str, dialect: str, query: str) -> pl.DataFrame:
    """Return the rows of a query over a database file, opened read-only."""
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file")
    return _IN_FILES[dialect](path, query)


def _connect(path: str, *, read_only: bool = False) -> closing[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file; raise `DataError` if it is none.

    Files of tables DuckDB opens as databases in memory, which are gone when they are closed.
    """
    if not Path(path).is_file():
        raise DataError(f"{path}: no such file")
    with Path(path).open("rb") as file:
        header = file.read(12)
    if header and header[8:] != b"DUCK":
        raise DataError(f"{path} is not a DuckDB file")
    return closing(duckdb.connect(path, read_only=read_only))


def _rows_of_duckdb(path: str, query: str) -> pl.DataFrame:
    with _connect(path, read_only=True) as connection, first_duckdb_error():
        return pl.DataFrame(connection.sql(query))


def _rows_of_sqlite(path: str, query: str) -> pl.DataFrame:
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        try:
            cursor = connection.execute(query)
        except sqlite3.Error as error:
            raise DataError(f"{path}: {error}") from error
        names = [column[0] for column in cursor.description]
        return pl.DataFrame(cursor.fetchall(), schema=names, orient="row", infer_schema_length=None, strict=False)


# Databases in files, which the package can open.
_IN_FILES = {"duckdb": _rows_of_duckdb, "sqlite": _rows_of_sqlite}


# --- deploy, rollback -------------------------------------------------------------------------------------------------


def add_deploy(commands: Commands) -> None:
    """Add the command ``deploy``."""
    example = "frameboost deploy model.json --dialect postgres --view scored --table flights --keep id -o deploy.sql"
    help_ = "Write the statements that deploy a model as a view"
    parser = add_command(commands, "deploy", help_, _deploy, example)
    add_database(parser)
    _add_view(parser)
    add_options(parser, DatabaseModel.deploy_statements, "table", "kind")
    add_options(
        parser, Model.query, "name", "output", "stamp", where={"metavar": "CONDITION"},
        keep={"help": "columns to return with the predictions, such as id,day; default all, '' for none"},
    )  # fmt: skip


def add_rollback(commands: Commands) -> None:
    """Add the command ``rollback``."""
    example = "frameboost rollback model.json --dialect postgres --view scored -o rollback.sql"
    help_ = "Write the statements that roll a view back to a previously deployed model"
    parser = add_command(commands, "rollback", help_, _rollback, example)
    add_options(parser, Model.database, "dialect")
    _add_view(parser)


def _add_view(parser: Parser) -> None:
    add_model(parser)
    add_options(parser, DatabaseModel.deploy_statements, "view", "label")
    add_text_out(parser)


def _deploy(options: argparse.Namespace) -> None:
    check_writable(options.out)
    database = open_database(options)
    statements = database.deploy_statements(**arguments(options, DatabaseModel.deploy_statements))
    write_output(options.out, _head(database, options.output) + script(statements, database.dialect))


def _rollback(options: argparse.Namespace) -> None:
    check_writable(options.out)
    database = open_model(options.model).database(options.dialect)
    statements = database.rollback_statements(options.view, label=options.label)
    write_output(options.out, _head(database, "margin") + script(statements, database.dialect))


# --- dbt, register ----------------------------------------------------------------------------------------------------


def add_dbt(commands: Commands) -> None:
    """Add the command ``dbt``."""
    example = "frameboost dbt model.json shop --name scored --source stg_flights --dialect postgres --keep id"
    help_ = "Write a model into a dbt project, with its description, macros and tests"
    parser = add_command(commands, "dbt", help_, _dbt, example)
    add_model(parser)
    parser.add_argument("folder", metavar="FOLDER", help="the project's folder, with dbt_project.yml")
    add_options(
        parser, DatabaseModel.to_dbt, "name", "source", "output", "form", "trained", "materialized", "stamp",
        "self_test", keep=COLUMNS, unique_key=COLUMNS, where={"metavar": "CONDITION"},
        contract={"nargs": "?", "const": True, "type": pairs, "metavar": "COLUMN=TYPE,...",
                  "help": "let dbt enforce the names and types of all columns; pass the types of kept columns"},
        baseline={"metavar": "DATA", "help": "for the drift test, the training rows; by default the model's baseline"},
        check={"metavar": "DATA", "help": "rows to add to the self-test"},
        exposure={"type": value, "metavar": "JSON", "help": "the consumers of the predictions, a dbt exposure"},
    )  # fmt: skip
    add_database(parser)


def _dbt(options: argparse.Namespace) -> None:
    database = open_database(options)
    chosen = arguments(options, DatabaseModel.to_dbt)
    if options.baseline is not None:
        chosen["baseline"] = database.baseline(TableFiles((options.baseline,)))
    if options.check is not None:
        chosen["check"] = TableFiles((options.check,))
    for path in database.to_dbt(**chosen):
        print(path)


def add_register(commands: Commands) -> None:
    """Add the command ``register``."""
    example = "frameboost register model.json --in flights.duckdb --name delay"
    help_ = "Register a model as a function, in a DuckDB file or by a statement for another database"
    notes = (
        "The function's parameters are the columns that the model reads, in the order that is printed.\n"
        "Without --in the statement is written, for any database."
    )
    parser = add_command(commands, "register", help_, _register, example, notes)
    add_model(parser)
    parser.add_argument("--in", dest="run_in", metavar="FILE", help="the DuckDB file to store the function in")
    add_options(parser, DatabaseModel.create_function_sql, "name", "output", "replace")
    add_database(parser)
    add_text_out(parser)


def _register(options: argparse.Namespace) -> None:
    check_writable(options.out)
    if options.run_in is None:
        database = open_database(options)
        statement = database.create_function_sql(**arguments(options, DatabaseModel.create_function_sql))
        write_output(options.out, _head(database, options.output) + script([statement], database.dialect))
        return
    if options.dialect != DUCKDB.name:
        raise UsageError("--in is for a DuckDB file; without it the statement is written, for psql or another client")
    for name in ("columns", "base_margin", "limits"):
        if getattr(options, name) is not None:
            raise UsageError("--in passes the columns by position, so that it needs no names and no limits")
    model = open_model(options.model)
    with _connect(options.run_in) as connection:
        how = arguments(options, Model.register)
        model.register(connection, temporary=False, **how)
    read = ", ".join(shown(feature.name) for feature in model.ensemble.read_features)
    write_output(options.out, printable(f"{options.run_in} has the function {options.name}, of {read}\n"))


def _head(database: DatabaseModel, output: str) -> str:
    columns = read_columns(database, output)
    return header(database.ensemble, columns, database.column_names, database.dialect.name, None)

"""The commands of a model in use: ``frameboost tag``, which names it, ``deploy`` and ``rollback``."""

from __future__ import annotations

import argparse
from functools import partial

from frameboost.cli.files import add_model, write_model
from frameboost.cli.options import Commands, Parser, UsageError, add_command, add_options, arguments, pairs, setting
from frameboost.data.table_files import TableFiles
from frameboost.data.written_files import STDOUT, check_writable, write_output
from frameboost.database.database_model import DatabaseModel, read_columns
from frameboost.database.deployment import script
from frameboost.database.files import header
from frameboost.loading import open_model
from frameboost.model.model import Model

__all__ = ["add_deploy", "add_rollback", "add_tag"]


# --- tag --------------------------------------------------------------------------------------------------------------


def add_tag(commands: Commands) -> None:
    """Add the command ``tag``."""
    example = (
        "frameboost tag model.json --name delay --version 3 --tag team=ops --baseline flights.parquet -o named.json"
    )
    parser = add_command(commands, "tag", "Give a model a name, a version, tags and a baseline", _tag, example)
    add_model(parser)
    parser.add_argument("--name", metavar="TEXT", help="what the model is called")
    parser.add_argument("--version", metavar="TEXT", help="its version")
    parser.add_argument(
        "--tag", type=_text, action="append", metavar="NAME=TEXT", help="a tag; may be repeated; replaces all tags"
    )
    parser.add_argument(
        "--baseline", metavar="DATA", help="the rows of training, whose shares in bins become part of the model"
    )
    parser.add_argument(
        "-o", "--out", required=True, metavar="MODEL", help="the model file to write ('-': standard output)"
    )


def _text(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"must be like team=ops, not {text!r}")
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


# --- deploy, rollback -------------------------------------------------------------------------------------------------


def add_deploy(commands: Commands) -> None:
    """Add the command ``deploy``."""
    example = "frameboost deploy model.json --dialect postgres --view scored --table flights --keep id -o deploy.sql"
    help_ = "Write the statements that let a view return a model's scores"
    parser = add_command(commands, "deploy", help_, _deploy, example)
    _add_view(parser)
    add_options(
        parser, Model.database, "base_margin",
        columns={"option": "--column-map", "type": pairs, "metavar": "FEATURE=COLUMN,..."},
        limits={"option": "--limit", "type": partial(setting, example="text=2000000"), "action": "append",
                "metavar": "NAME=NUMBER", "help": "a number in place of the dialect's (docs/dialects.md)"},
    )  # fmt: skip
    add_options(parser, DatabaseModel.deploy_statements, "table", "kind")
    add_options(
        parser, Model.query, "name", "output", "stamp", where={"metavar": "CONDITION"},
        keep={"help": "columns to return beside the predictions, as id,day; by default all, of '' none"},
    )  # fmt: skip


def add_rollback(commands: Commands) -> None:
    """Add the command ``rollback``."""
    example = "frameboost rollback model.json --dialect postgres --view scored -o rollback.sql"
    help_ = "Write the statements that let a view return the scores of a model that was deployed before"
    parser = add_command(commands, "rollback", help_, _rollback, example)
    _add_view(parser)


def _add_view(parser: Parser) -> None:
    add_model(parser)
    add_options(parser, Model.database, "dialect")
    add_options(parser, DatabaseModel.deploy_statements, "view", "label")
    parser.add_argument(
        "-o", "--out", default=STDOUT, metavar="FILE", help="the file to write; by default standard output"
    )


def _deploy(options: argparse.Namespace) -> None:
    check_writable(options.out)
    limits = None if options.limits is None else dict(options.limits)
    database = open_model(options.model).database(**arguments(options, Model.database) | {"limits": limits})
    statements = database.deploy_statements(**arguments(options, DatabaseModel.deploy_statements))
    write_output(options.out, _head(database, options.output) + script(statements, database.dialect))


def _rollback(options: argparse.Namespace) -> None:
    check_writable(options.out)
    database = open_model(options.model).database(options.dialect)
    statements = database.rollback_statements(options.view, label=options.label)
    write_output(options.out, _head(database, "margin") + script(statements, database.dialect))


def _head(database: DatabaseModel, output: str) -> str:
    columns = read_columns(database, output)
    return header(database.ensemble, columns, database.column_names, database.dialect.name, None)

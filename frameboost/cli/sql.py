"""``frameboost sql``: writes a model as SQL."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from frameboost.cli.arguments import Commands, UsageError, add_command, names, pairs, setting
from frameboost.data.table_files import STDOUT, check_writable, write_text
from frameboost.database.database_model import DatabaseModel
from frameboost.loading import open_model

__all__ = ["add_sql"]

_EXAMPLE = "frameboost sql model.json --dialect postgres --table flights --view scored -o view.sql"


def add_sql(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "sql", "Write a model as SQL", _sql, _EXAMPLE)
    parser.epilog = (
        "Without --table it is one expression over the columns. Expressions and queries end without a semicolon,\n"
        f"statements with one.\n\n{parser.epilog}"
    )
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add("--dialect", default="duckdb", help="whose SQL (docs/dialects.md); default duckdb")
    add("-o", "--out", default=STDOUT, metavar="FILE", help="the file to write; by default standard output")
    add("--output", default="mean", metavar="{mean,margin,class,probability,quantiles,distribution,interval,leaf}",
        help="what to predict; default mean, on the scale of the target")  # fmt: skip
    add("--column-map", type=pairs, metavar="FEATURE=COLUMN,...", help="columns called otherwise than in training")
    add("--base-margin", type=names, metavar="COLUMNS",
        help="base margins by other names than in training, one for each output")  # fmt: skip
    add("--limit", type=partial(setting, example="text=2000000"), action="append", metavar="NAME=NUMBER",
        help="a number in place of the dialect's (docs/dialects.md), such as text=2000000, or none for no limit; may "
        "be repeated")  # fmt: skip
    _add_query(parser.add_argument_group("a query over a table"))


def _add_query(group: Any) -> None:
    add = group.add_argument
    add("--table", help="the table to score")
    add("--keep", type=names, action="extend", metavar="COLUMNS",
        help="the columns to return beside the predictions; by default all, of '' none")  # fmt: skip
    add("--where", metavar="CONDITION", help="which rows, as SQL of the dialect")
    add("--name", metavar="COLUMN", help="the column of predictions; default prediction")
    add("--form", metavar="{auto,case,lists,sorted,staged,table}",
        help="one expression a value, lists of nodes, expressions over sorted rows, common table expressions, "
        "or a query over a table of trees; default auto: the first that fits, DuckDB's fastest")  # fmt: skip
    add("--rows", type=int, metavar="N", help="about how many rows there are to score, by which auto chooses")
    add("--trees", metavar="TABLE", help="the table of trees, which --statements makes")
    add("--statements", action="store_true", help="the statements that make and fill the table of trees, first")
    how = group.add_mutually_exclusive_group()
    how.add_argument("--view", metavar="NAME", help="a statement that makes a view of it")
    how.add_argument("--create-table", metavar="NAME", help="a statement that makes a table of it")
    how.add_argument("--update", metavar="COLUMN", help="a statement that writes predictions into a column")


_QUERY_OPTIONS = ("keep", "where", "name", "form", "rows", "view", "create_table", "update")
_CONFLICTS = {"update": ("keep", "name", "form", "trees", "rows"), "create_table": ("name",)}


def _option_name(name: str) -> str:
    return name.replace("_", "-")


def _sql(given: argparse.Namespace) -> None:
    if given.statements and given.trees is None:
        raise UsageError("--statements needs --trees, the name of the table of trees")
    if given.table is None:
        for name in _QUERY_OPTIONS:
            if getattr(given, name) is not None:
                raise UsageError(f"--{_option_name(name)} needs --table, the table to score")
        if given.trees is not None and not given.statements:
            raise UsageError("--trees needs --table, the table to score, or --statements")
    for option, others in _CONFLICTS.items():
        for name in others:
            if getattr(given, option) is not None and getattr(given, name) is not None:
                raise UsageError(f"--{_option_name(name)} does not go with --{_option_name(option)}")
    check_writable(given.out)
    limits = None if given.limit is None else dict(given.limit)
    database = open_model(given.model).database(
        given.dialect, columns=given.column_map, base_margin=given.base_margin, limits=limits
    )
    statements = database.table_statements(given.trees) if given.statements else []
    text, is_statement = _text(database, given)
    if is_statement or statements:
        text = "".join(f"{statement.rstrip().rstrip(';')};\n" for statement in [*statements, text] if statement)
    write_text(given.out, text if text.endswith("\n") else f"{text}\n")


def _text(database: DatabaseModel, given: argparse.Namespace) -> tuple[str, bool]:
    """Return the expression, the query or the statement, and whether it is a statement."""
    if given.table is None:
        return ("", True) if given.statements else (database.sql(given.output), False)
    if given.update is not None:
        return database.update_sql(given.table, given.update, where=given.where, output=given.output), True
    options: dict[str, Any] = {"output": given.output, "keep": given.keep, "where": given.where}
    options |= {"form": given.form or "auto", "trees": given.trees, "rows": given.rows}
    options |= {} if given.name is None else {"name": given.name}
    if given.view is not None:
        return database.create_view_sql(given.view, given.table, **options), True
    if given.create_table is not None:
        return database.create_table_sql(given.create_table, given.table, **options), True
    return database.query(given.table, **options), False

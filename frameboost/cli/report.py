"""``frameboost report``: writes a report of a model and of how it does on rows, as one HTML file."""

from __future__ import annotations

import argparse

from frameboost.cli.arguments import Commands, UsageError, add_command, names
from frameboost.data.table_files import check_writable, read_table, write_text
from frameboost.errors import ParameterError
from frameboost.loading import open_model

__all__ = ["add_report"]


def add_report(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "report", "Write a report of a model on rows, as one HTML file", _report)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add("data", metavar="DATA", nargs="+",
        help="Parquet, CSV or Arrow files, or a DuckDB file's table (flights.duckdb::late)")  # fmt: skip
    add("--table", help="the table of a DuckDB file")
    add("-o", "--out", required=True, metavar="FILE", help="the HTML file to write ('-': standard output)")
    add("--target", type=names, metavar="COLUMN",
        help="the column of labels, or several; without it the report does not say how good the model is")  # fmt: skip
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--group", metavar="COLUMN", help="for ranking, which query a row belongs to")
    add("--label-upper-bound", metavar="COLUMN", help="for survival:aft, the latest that a time can be")
    add("--groups", metavar="COLUMN",
        help="which rows belong together, such as a customer's, for the intervals of metrics")  # fmt: skip
    add("--training", metavar="DATA", help="the table of the training rows, to compare the features with")
    add("--dialect", default="duckdb", help="whose SQL (docs/dialects.md); default duckdb")
    add("--title", help="the title of the page")


def _report(given: argparse.Namespace) -> None:
    check_writable(given.out)
    if len(given.data) > 1 and given.table is not None:
        raise UsageError("--table is for one DuckDB file, not for several files")
    try:
        from frameboost.report import Wanted, report_html  # late: it needs the extra `report`
    except ImportError as error:
        raise ParameterError(str(error)) from error
    model = open_model(given.model)
    target = given.target[0] if given.target is not None and len(given.target) == 1 else given.target
    wanted = Wanted(
        target, given.weight, given.group, given.label_upper_bound, given.groups,
        None if given.training is None else read_table(given.training), given.dialect, given.title,
    )  # fmt: skip
    data = given.data if len(given.data) > 1 else read_table(given.data[0], given.table)
    write_text(given.out, report_html(model, data, wanted))

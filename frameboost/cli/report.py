"""``frameboost report``: writes a report of a model and of how it does on rows, as one HTML file."""

from __future__ import annotations

import argparse

from frameboost.cli.arguments import Commands, add_command, names
from frameboost.cli.inputs import add_data, check_data, read_data
from frameboost.data.several_files import TableFiles
from frameboost.data.table_files import check_writable, write_text
from frameboost.errors import ParameterError
from frameboost.loading import open_model

__all__ = ["add_report"]

_EXAMPLE = "frameboost report model.json flights.parquet --target arr_delay -o report.html"


def add_report(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "report", "Write a report of a model on rows, as one HTML file", _report, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add_data(parser)
    add("-o", "--out", required=True, metavar="FILE", help="the HTML file to write ('-': standard output)")
    add("--target", type=names, metavar="COLUMN",
        help="the column of labels, or several; without it the report does not say how good the model is")  # fmt: skip
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--group", metavar="COLUMN", help="for ranking, which query a row belongs to")
    add("--label-upper-bound", metavar="COLUMN", help="for survival:aft, the latest that a time can be")
    add("--groups", metavar="COLUMN",
        help="which rows belong together, such as a customer's, for the intervals of metrics")  # fmt: skip
    add("--base-margin", type=names, metavar="COLUMNS",
        help="base margins by other names than in training, one for each output")  # fmt: skip
    add("--time", metavar="COLUMN", help="dates or times, for the metric by period; with --training also the drift")
    add("--training", metavar="DATA", help="the table of the training rows, to compare the features with")
    add("--dialect", default="duckdb", help="whose SQL (docs/dialects.md); default duckdb")
    add("--title", help="the title of the page")


def _report(given: argparse.Namespace) -> None:
    check_writable(given.out)
    check_data(given)
    try:
        from frameboost.report import Wanted, report_html  # late: it needs the extra `report`
    except ImportError as error:
        raise ParameterError(str(error)) from error
    model = open_model(given.model)
    target = given.target[0] if given.target is not None and len(given.target) == 1 else given.target
    training = None if given.training is None else TableFiles((given.training,), null_values=tuple(given.null_values))
    wanted = Wanted(
        target, given.weight, given.group, given.label_upper_bound, given.groups,
        training, given.dialect, given.title, given.base_margin, given.time,
    )  # fmt: skip
    write_text(given.out, report_html(model, read_data(given), wanted))

"""``frameboost conform``: gives a model prediction intervals, learnt from rows that it was not trained on."""

from __future__ import annotations

import argparse

from frameboost.cli.arguments import Commands, add_command, names
from frameboost.cli.inputs import add_data, read_data
from frameboost.cli.outputs import write_model
from frameboost.data.table_files import check_writable
from frameboost.loading import open_model

__all__ = ["add_conform"]

_EXAMPLE = "frameboost conform model.json flights.parquet --target arr_delay --coverage 0.9 -o sure.json"


def add_conform(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "conform", "Give a model prediction intervals", _conform, _EXAMPLE)
    parser.usage = "frameboost conform MODEL DATA ... --target COLUMN -o MODEL [options]"
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add_data(parser)
    add("--target", required=True, metavar="COLUMN", help="the column that the model predicts")
    add("-o", "--out", required=True, metavar="MODEL", help="the model file to write ('-': standard output)")
    add("--coverage", type=float, default=0.9, metavar="SHARE", help="of labels that intervals hold; default 0.9")
    add("--groups", metavar="COLUMN", help="a column, for each value of which the coverage is to hold")
    add("--base-margin", type=names, metavar="COLUMNS",
        help="base margins by other names than in training, one for each output")  # fmt: skip


def _conform(given: argparse.Namespace) -> None:
    check_writable(given.out)
    model = open_model(given.model).conform(
        read_data(given), given.target, coverage=given.coverage, groups=given.groups, base_margin=given.base_margin
    )
    write_model(model, given.out)

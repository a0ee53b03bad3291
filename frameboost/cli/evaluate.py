"""``frameboost evaluate``: prints how good a model is on labelled rows, all or by group."""

from __future__ import annotations

import argparse

import polars as pl

from frameboost.cli.arguments import Commands, Parser, add_command, names
from frameboost.cli.inputs import add_data, add_output, check_output, read_data
from frameboost.cli.screen import print_table
from frameboost.data.table_files import write_table
from frameboost.evaluation.evaluation import Evaluation
from frameboost.loading import open_model

__all__ = ["add_evaluate", "add_labels"]

_MAX_CLASSES = 12
_EXAMPLE = "frameboost evaluate model.json flights.parquet --target arr_delay --by carrier"


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "evaluate", "Say how good a model is on labelled rows", _evaluate, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add_data(parser)
    add_labels(parser)
    add("--by", type=names, action="extend", metavar="COLUMNS", help="columns, for each value of which by itself")
    add("--base-margin", type=names, metavar="COLUMNS",
        help="base margins by other names than in training, one for each output")  # fmt: skip
    add_output(parser, "write the metrics instead, a row for each group and metric, to a", required=False)


def add_labels(parser: Parser) -> None:
    """Add the arguments that name the columns of labelled rows, and the metrics."""
    add = parser.add_argument
    add("--target", type=names, required=True, metavar="COLUMN", help="the column that the model predicts, or several")
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--group", metavar="COLUMN", help="for ranking, which query a row belongs to")
    add("--label-upper-bound", metavar="COLUMN", help="for survival:aft, the latest that a time can be")
    add("--eval-metric", type=names, action="extend", metavar="NAMES",
        help="metrics (docs/metrics.md); by default all that fit the objective")  # fmt: skip


def _evaluate(given: argparse.Namespace) -> None:
    check_output(given)
    model = open_model(given.model)
    found = model.evaluate(
        read_data(given, given.out), given.target[0] if len(given.target) == 1 else given.target, by=given.by,
        weight=given.weight, group=given.group, label_upper_bound=given.label_upper_bound,
        base_margin=given.base_margin, eval_metric=given.eval_metric,
    )  # fmt: skip
    if given.out is not None:
        write_table(found.metrics.lazy(), given.out, replace=given.replace)
        return
    if given.by:
        groups = found.metrics.with_columns(pl.col(given.by).cast(pl.String).fill_null("NULL"))
        print_table(groups.pivot("metric", index=[*given.by, "rows"], values="value"))
        return
    print_table(found.metrics)
    if model.ensemble.interval is not None:
        print()
        print_table(found.interval, "intervals: the share of labels that they promise to hold, and hold")
    if 0 < len(model.classes) <= _MAX_CLASSES:
        print()
        print_table(_confusion(found), "rows by actual class (down) and predicted class (across)")


def _confusion(found: Evaluation) -> pl.DataFrame:
    matrix = found.confusion.with_columns(pl.col("actual", "predicted").cast(pl.String))
    return matrix.pivot("predicted", index="actual", values="weight")

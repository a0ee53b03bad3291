"""``frameboost train``: trains a model on a table and writes its file."""

from __future__ import annotations

import argparse
import typing
from dataclasses import Field, fields
from typing import Any, Literal

from frameboost.api import fit
from frameboost.cli.arguments import Commands, Parser, UsageError, add_command, names, setting, value
from frameboost.data.sources import open_source
from frameboost.data.table_files import STDOUT, check_writable, is_table, read_table, write_text
from frameboost.engines.choose import ENGINES
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.parameters.aliases import ALIASES
from frameboost.parameters.fields import values_text
from frameboost.parameters.parameters import Parameters

__all__ = ["add_train"]


def add_train(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "train", "Train a model on a table", _train)
    parser.usage = "frameboost train DATA ... --target COLUMN -o MODEL [options]"
    add = parser.add_argument
    add("data", metavar="DATA", nargs="+",
        help="Parquet, CSV or Arrow files, or a DuckDB file's table (flights.duckdb::late)")  # fmt: skip
    add("--table", help="the table of a DuckDB file")
    add("--target", type=names, required=True, metavar="COLUMN", help="the column to predict, or several")
    add("-o", "--out", required=True, metavar="MODEL", help="the model's file, JSON ('-': standard output)")
    add("--objective", metavar="NAME",
        help="the loss, by XGBoost's name (docs/objectives.md); by default what the target's type asks for: regression "
        "of numbers, classification of Booleans and strings")  # fmt: skip
    add("--features", type=names, action="extend", metavar="COLUMNS",
        help="the columns to predict from, as a,b; by default all that have no other role")  # fmt: skip
    add("--exclude", type=names, action="extend", metavar="COLUMNS", help="columns that are not to be features, as a,b")
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--group", metavar="COLUMN", help="for ranking, which query a row belongs to")
    add("--base-margin", type=names, metavar="COLUMNS", help="margins to start from, one for each output")
    add("--label-upper-bound", metavar="COLUMN", help="for survival:aft, the latest that a time can be")
    add("--valid", metavar="ROWS",
        help="rows to validate on: a share such as 0.2, 'last 20%%' by --time, another table, a Boolean column, or a "
             "SQL condition")  # fmt: skip
    add("--time", metavar="COLUMN", help="with --valid 'last 20%%', the column that tells which rows are last")
    add("--eval-metric", type=names, action="extend", metavar="NAMES",
        help="metrics (docs/metrics.md); early stopping watches the last")  # fmt: skip
    add("--init-model", metavar="MODEL", help="a model to train on from")
    add("--checkpoint", metavar="FILE",
        help="a file for the rounds so far, from which the same command goes on after a crash")  # fmt: skip
    add("--checkpoint-every", type=int, default=10, metavar="ROUNDS",
        help="rounds from one write of the checkpoint to the next; default 10")  # fmt: skip
    add("--engine", default="auto", metavar="{" + ",".join(ENGINES) + "}",
        help="what takes the sums; default auto: duckdb for a DuckDB table, numba for a file")  # fmt: skip
    add("--quiet", action="store_true", help="no progress bar, and no summary of the model")
    add("--param", type=setting, action="append", default=[], metavar="NAME=VALUE", dest="settings",
        help="any training parameter by its name in Python: max_depth=3")  # fmt: skip
    _add_parameters(parser)


def _add_parameters(parser: Parser) -> None:
    group = parser.add_argument_group(
        "training parameters",
        "as in Python (docs/parameters.md); lists as 0.1,0.9, dicts as x=1,y=-1, both as JSON too",
    )
    hints = typing.get_type_hints(Parameters)
    for item in fields(Parameters):
        hint, option = hints[item.name], f"--{item.name.replace('_', '-')}"
        help_ = f"{item.metadata['doc']} ({values_text(item, hint)}; default {_default_text(item.default)})"
        more: dict[str, Any] = {"type": value, "metavar": _metavar(item, hint)}
        if hint is bool:
            more = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            option, dest=item.name, default=argparse.SUPPRESS, help=help_.replace("%", "%%"), **more
        )  # fmt: skip
    for name in ALIASES:
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, dest=name, type=value, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def _default_text(default: Any) -> str:
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _metavar(item: Field[Any], hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "{" + ",".join(typing.get_args(hint)) + "}"
    if item.metadata["kind"]:
        return "VALUES"
    return "INT" if int in (typing.get_args(hint) or (hint,)) else "NUMBER"


def _train(given: argparse.Namespace) -> None:
    known = [*(item.name for item in fields(Parameters)), *ALIASES]
    parameters = {name: getattr(given, name) for name in known if hasattr(given, name)}
    for name, its_value in given.settings:
        if name in parameters:
            raise UsageError(f"the parameter {name} is given twice")
        parameters[name] = its_value
    check_writable(given.out)
    if len(given.data) > 1 and given.table is not None:
        raise UsageError("--table is for one DuckDB file, not for several files")
    data = given.data if len(given.data) > 1 else read_table(given.data[0], given.table)
    valid: Any = given.valid
    if valid is not None and is_table(valid):
        types = {name: kind.to_polars() for name, kind in open_source(data).types().items() if kind is not None}
        valid = read_table(valid, types=types)
    elif valid is not None and isinstance(value(valid), int | float):
        valid = value(valid)
    model = fit(
        data, given.target[0] if len(given.target) == 1 else given.target,
        objective=given.objective, features=given.features, exclude=given.exclude, weight=given.weight,
        group=given.group, base_margin=given.base_margin, label_upper_bound=given.label_upper_bound, valid=valid,
        time=given.time, eval_metric=given.eval_metric,
        init_model=None if given.init_model is None else open_model(given.init_model),
        engine=given.engine, checkpoint=given.checkpoint, checkpoint_every=given.checkpoint_every,
        verbose=False if given.quiet else None, **parameters,
    )  # fmt: skip
    write_text(given.out, model.to_json())
    if not given.quiet and given.out != STDOUT:
        print(_summary(model))


def _summary(model: Model) -> str:
    """Return the text about a trained model: its repr, and the metrics of its last or best round."""
    history = model.history
    if history.is_empty() or history.width == 1:
        return repr(model)
    last = history.filter(round=model.n_rounds).row(0, named=True)
    number = last.pop("round")
    metrics = ", ".join(f"{name} {metric:.6g}" for name, metric in last.items())
    which = "best round" if model.best_iteration == number else "round"
    return f"{model!r}\n{which} {number}: {metrics}"

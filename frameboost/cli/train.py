"""``frameboost train``: trains a model on a table and writes its file."""

from __future__ import annotations

import argparse
import typing
from dataclasses import Field, fields
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from frameboost.api import fit
from frameboost.cli.arguments import (
    Commands,
    Parser,
    UsageError,
    add_command,
    add_target_and_model,
    names,
    setting,
    value,
)
from frameboost.cli.inputs import add_data, other_table, read_data
from frameboost.cli.outputs import size_of, write_model
from frameboost.cli.screen import print_facts
from frameboost.cli.train_facts import train_facts
from frameboost.data.held_out import held_out_sources
from frameboost.data.opening import open_source
from frameboost.data.table_files import STDOUT, check_format, check_writable, write_table
from frameboost.engines.choose import ENGINES
from frameboost.loading import open_model
from frameboost.parameters.aliases import ALIASES, under_our_names
from frameboost.parameters.fields import values_text
from frameboost.parameters.parameters import Parameters

__all__ = ["add_train"]

_EXAMPLE = "frameboost train flights.parquet --target arr_delay --exclude id --valid 0.2 -o model.json"


def add_train(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "train", "Train a model on a table", _train, _EXAMPLE)
    parser.usage = "frameboost train DATA ... --target COLUMN -o MODEL [options]"
    add = parser.add_argument
    add_data(parser)
    add_target_and_model(parser)
    add("--objective", metavar="NAME",
        help="the loss, by XGBoost's name (docs/objectives.md); by default what the target's type asks for: regression "
        "of numbers, classification of Booleans and strings")  # fmt: skip
    add("--positive", metavar="LABEL", help="of two labels, the one whose probability is predicted; default the second")
    add("--weight", metavar="COLUMN", help="the rows' weights")
    add("--group", metavar="COLUMN", help="for ranking, which query a row belongs to")
    add("--base-margin", type=names, metavar="COLUMNS",
        help="columns that are added to the margins, one for each output")  # fmt: skip
    add("--exposure", metavar="COLUMN", help="of a log link, the column whose logarithm is added to the margin")
    add("--label-upper-bound", metavar="COLUMN", help="for survival:aft, the latest that a time can be")
    add("--valid", metavar="ROWS",
        help="rows to validate on: a share such as 0.2, 'last 20%%' by --time, another table, a Boolean column, or a "
             "SQL condition")  # fmt: skip
    add("--folds", metavar="FOLDS",
        help="the mean of a model for each fold, trained on the others; a number, or a column")  # fmt: skip
    add("--time", metavar="COLUMN", help="with --valid 'last 20%%', the column that tells which rows are last")
    add("--eval-metric", type=names, action="extend", metavar="NAMES",
        help="metrics (docs/metrics.md); early stopping watches the last")  # fmt: skip
    add("--train-metrics", action="store_true", help="evaluate the training rows too, beside those to validate on")
    add("--init-model", metavar="MODEL", help="a model to train on from")
    add("--checkpoint", metavar="FILE",
        help="a file for the rounds so far, from which the same command goes on after a crash")  # fmt: skip
    add("--checkpoint-every", type=int, default=10, metavar="ROUNDS",
        help="rounds from one write of the checkpoint to the next; default 10")  # fmt: skip
    add("--engine", default="auto", metavar="{" + ",".join(ENGINES) + "}",
        help="what takes the sums; default auto: duckdb for a DuckDB table, numba for a file")  # fmt: skip
    add("--history", metavar="FILE", help="a table to write the metrics of each round to")
    add("--quiet", action="store_true", help="no progress bar, and no summary at the end")
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
    if given.history is not None:
        check_writable(given.history)
        check_format(given.history)
    started = monotonic()
    data, target = read_data(given), given.target[0] if len(given.target) == 1 else given.target
    valid: Any = given.valid
    if valid is not None and isinstance(value(valid), int | float):
        valid = value(valid)
    elif valid is not None:
        valid = other_table(valid, given)
    model = fit(
        data, target, objective=given.objective, positive=given.positive, features=given.features,
        exclude=given.exclude, weight=given.weight, group=given.group, base_margin=given.base_margin,
        exposure=given.exposure, label_upper_bound=given.label_upper_bound, valid=valid,
        folds=int(given.folds) if (given.folds or "").isdecimal() else given.folds, time=given.time,
        eval_metric=given.eval_metric, train_metrics=given.train_metrics,
        init_model=None if given.init_model is None else open_model(given.init_model),
        engine=given.engine, checkpoint=given.checkpoint, checkpoint_every=given.checkpoint_every,
        verbose=False if given.quiet else None, **parameters,
    )  # fmt: skip
    seconds = monotonic() - started
    if given.history is not None:
        write_table(model.history.lazy(), given.history)
    write_model(model, given.out)
    if not given.quiet and given.out != STDOUT:
        seed = Parameters.from_keywords(under_our_names(parameters)).seed
        training, held_out = held_out_sources(open_source(data), valid, given.time, given.group, seed)
        facts = train_facts(model, training, {name: part.source for name, part in held_out.items()}, given)
        size = Path(given.out).stat().st_size
        print_facts(facts | {"seconds": f"{seconds:.1f}", "file": f"{given.out} ({size_of(size)})"})

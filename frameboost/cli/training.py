"""The commands that train (``train``, ``auto``, ``cv``) or change a model (``refit``, ``calibrate``, ``conform``)."""

from __future__ import annotations

import argparse
import inspect
import typing
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from functools import partial
from time import monotonic
from typing import Any, Literal, cast

import polars as pl

from frameboost.api import fit, plan_with
from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.cli.files import (
    add_data,
    add_model_and_data,
    add_model_out,
    add_table_out,
    check_table_out,
    file_fact,
    other_table,
    read_data,
    write_model,
)
from frameboost.cli.options import (
    COLUMNS,
    Commands,
    Parser,
    UsageError,
    add_command,
    add_options,
    arguments,
    setting,
    value,
)
from frameboost.cli.scoring import as_columns
from frameboost.cli.screen import print_facts, print_table
from frameboost.cross_validation import cv
from frameboost.data.sources import LocalSource
from frameboost.data.written_files import STDOUT, check_format, check_writable, write_table
from frameboost.engines.choose import ENGINES
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.parameters.parameters import ALIASES, Parameters, values_text
from frameboost.planning import FitPlan
from frameboost.tuning.auto import auto

__all__ = ["add_auto", "add_calibrate", "add_conform", "add_cv", "add_refit", "add_train"]

_ADJECTIVES = {"boolean": "Boolean", "number": "numeric"}


_ANY_PARAMETER = "any training parameter, by its name in Python: max_depth=3"
_FOLDS: dict[str, Any] = {"type": lambda text: int(text) if text.isdecimal() else text}
_OBJECTIVE = {
    "metavar": "NAME",
    "help": "the loss, by XGBoost's name (docs/objectives.md); by default by the target's type: regression "
    "of numbers, classification of Booleans and strings",
}
_METRICS = {"metavar": "NAMES", "help": "metrics (docs/metrics.md); early stopping watches the last"}
_BYTES_OR_DATABASE = {"type": lambda text: int(text) if text.isdecimal() else text, "metavar": "DATABASE"}


# --- train ------------------------------------------------------------------------------------------------------------


def add_train(commands: Commands) -> None:
    """Add the command ``train``."""
    example = "frameboost train flights.parquet --target arr_delay --exclude id --valid 0.2 -o model.json"
    parser = add_command(commands, "train", "Train a model on a table", _train, example)
    _add_target_and_model(parser)
    add_options(
        parser, fit, "weight", "group", "base_margin", "exposure", "label_upper_bound", "time", "stratified",
        "train_metrics", "checkpoint_every",
        max_sql=_BYTES_OR_DATABASE,
        objective=_OBJECTIVE,
        positive={"metavar": "LABEL"},
        valid={"metavar": "ROWS",
               "help": "held-out rows: a share such as 0.2, 'last 20%%' by --time, another table, a Boolean "
               "column, or a SQL condition"},
        folds={**_FOLDS, "help": "the mean of a model for each fold, trained on the others; a number, or a column"},
        eval_metric=_METRICS,
        init_model={"metavar": "MODEL"},
        checkpoint={"metavar": "FILE",
                    "help": "a checkpoint file, from which the same command resumes"},
        engine={"metavar": "{" + ",".join(ENGINES) + "}"},
    )  # fmt: skip
    parser.add_argument("--history", metavar="FILE", help="a table to write the metrics of each round to")
    _add_out_of_fold(parser)
    _add_quiet_and_settings(parser, _ANY_PARAMETER)
    _add_parameters(parser)


def _add_target_and_model(parser: Parser) -> None:
    """Add the common arguments of `train` and `auto`: the rows, the roles of columns, and the model file."""
    parser.usage = f"{parser.prog} DATA ... --target COLUMN -o MODEL [options]"
    _add_rows(parser)
    parser.add_argument(
        "-o", "--out", required=True, metavar="MODEL",
        help="the model's file: JSON, or binary if it is named .ubj ('-': JSON on standard output)")  # fmt: skip


def _add_rows(parser: Parser) -> None:
    """Add the arguments of the rows, the target and the features."""
    add_data(parser)
    add_options(parser, fit, target={"metavar": "COLUMN"}, features=COLUMNS, exclude=COLUMNS)


def _add_out_of_fold(parser: Parser) -> None:
    parser.add_argument(
        "--out-of-fold", metavar="FILE",
        help="a table to write each row's fold and out-of-fold prediction to, in their order",
    )  # fmt: skip


def _check_out_of_fold(options: argparse.Namespace) -> None:
    if options.out_of_fold is not None:
        check_writable(options.out_of_fold)
        check_format(options.out_of_fold)


def _write_out_of_fold(predictions: pl.DataFrame, path: str) -> None:
    write_table(pl.DataFrame([predictions["fold"], *as_columns(predictions["prediction"])]).lazy(), path)


def _add_quiet_and_settings(parser: Parser, help_: str) -> None:
    parser.add_argument("--quiet", action="store_true", help="no progress bar, and no summary at the end")
    parser.add_argument(
        "--param", type=setting, action="append", default=[], metavar="NAME=VALUE", dest="settings", help=help_
    )


def _add_parameters(parser: Parser) -> None:
    group = parser.add_argument_group(
        "training parameters",
        "as in Python (docs/parameters.md); lists as 0.1,0.9, dicts as x=1,y=-1, both as JSON too",
    )
    hints = typing.get_type_hints(Parameters)
    for item in fields(Parameters):
        hint, default = hints[item.name], item.default
        default = ",".join(map(str, default)) if isinstance(default, tuple) else default
        help_ = f"{item.metadata['doc']} ({values_text(item, hint)}; default {default})"
        more = {"type": value, "metavar": _metavar(item, hint)}
        if hint is bool:
            more = {"action": argparse.BooleanOptionalAction}
        _add_parameter(group, item.name, help=help_.replace("%", "%%"), **more)
    for alias in ALIASES:
        _add_parameter(group, alias, type=value, help=argparse.SUPPRESS)


def _add_parameter(group: Any, name: str, **keywords: Any) -> None:
    group.add_argument(f"--{name.replace('_', '-')}", dest=name, default=argparse.SUPPRESS, **keywords)


def _metavar(item: Field[Any], hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return "{" + ",".join(typing.get_args(hint)) + "}"
    if item.metadata["kind"]:
        return "VALUES"
    return "INT" if int in (typing.get_args(hint) or (hint,)) else "NUMBER"


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Return the training parameters of a command, from their options and from --param."""
    known = [*(item.name for item in fields(Parameters)), *ALIASES]
    parameters = {name: getattr(options, name) for name in known if hasattr(options, name)}
    for name, its_value in options.settings:
        if name in parameters or getattr(options, name, None) not in (None, False):  # False: a switch that is not used
            raise UsageError(f"the parameter {name} is set twice")
        parameters[name] = its_value
    return parameters


def _train(options: argparse.Namespace) -> None:
    parameters = _parameters(options)
    check_writable(options.out)
    _check_out_of_fold(options)
    if options.out_of_fold is not None and options.folds is None:
        raise UsageError("--out-of-fold needs --folds, the number of models")
    if options.history is not None:
        check_writable(options.history)
        check_format(options.history)
    started = monotonic()
    data, valid = read_data(options), options.valid
    if valid is not None:
        valid = value(valid) if isinstance(value(valid), int | float) else other_table(valid, options)
    initial = None if options.init_model is None else open_model(options.init_model)
    more = {"valid": valid, "init_model": initial, "verbose": False if options.quiet else None}
    keywords = arguments(options, fit) | more | parameters
    model = fit(data, **keywords)
    seconds = monotonic() - started
    if options.history is not None:
        write_table(model.history.lazy(), options.history)
    if options.out_of_fold is not None:
        _write_out_of_fold(model.out_of_fold, options.out_of_fold)
    write_model(model, options.out)
    if not options.quiet and options.out != STDOUT:
        planned, _ = plan_with(data, options.target, keywords)
        facts = _facts(model, planned, options)
        print_facts(facts | {"seconds": f"{seconds:.1f}", "file": file_fact(options.out)})


# --- what a training prints at its end --------------------------------------------------------------------------------


def _facts(model: Model, planned: FitPlan, options: argparse.Namespace) -> dict[str, str]:
    """Return facts about a model, its training and its quality, by name."""
    leaves = model.ensemble.n_leaves
    held_out = (cast("LocalSource", source).count_rows() for source in planned.held_out.values())
    counts = [f"{cast('LocalSource', planned.source).count_rows():,} to train on"]
    counts += [f"{n_rows:,} to validate on" for n_rows in held_out]
    return {
        "objective": f"{model.objective}, {_reason(model, planned, options)}",
        **_classes(model),
        "rows": ", ".join(counts),
        "features": _features(model),
        "trees": f"{model.n_trees:,} in {counted(model.n_rounds, 'round')} (depth {model.ensemble.depth}, "
        f"{counted(leaves, 'leaf', 'leaves')})",
        **_metrics(model, planned),
    }


def _features(model: Model) -> str:
    """Return the names and types of the features, cut to a line."""
    names = shortened(", ".join(f"{feature.name} {feature.type}" for feature in model.ensemble.features))
    return f"{len(model.features):,}: {names}"


def _reason(model: Model, planned: FitPlan, options: argparse.Namespace) -> str:
    """Return the reason for a model's objective."""
    if options.objective is not None:
        return "as --objective says"
    targets = planned.target
    kind = planned.data.types().get(targets[0])
    adjective = _ADJECTIVES.get("" if kind is None else kind.family)
    if len(targets) > 1:
        return f"as the targets {listed(targets)} are {adjective}"
    what = f"is {adjective}" if adjective else f"has {len(model.classes):,} labels"
    if model.ensemble.training.hint:  # of the fit, from the labels
        what = "is 0 or 1; --objective binary:logistic would predict the probability of 1"
    return f"as target {shown(targets[0])} {what}"


def _classes(model: Model) -> dict[str, str]:
    labels = model.classes
    if not labels or not isinstance(labels[0], str):
        return {}
    positive = "" if model.ensemble.loss.has_margin_of_each_class else f"; predicted is that of {shown(labels[-1])}"
    return {"classes": f"{listed(labels)}{positive}"}


def _metrics(model: Model, planned: FitPlan) -> dict[str, str]:
    """Return the metrics of the last round, which early stopping makes the best one."""
    last = model.history.filter(round=model.n_rounds)
    if planned.folds is not None:
        return {"metric": "none of the mean of the folds' models; frameboost cv has those of each fold"}
    if last.width < 2 or last.is_empty():
        return {"metric": "none, as no rows were held out; --valid 0.2 holds out a fifth"}
    metrics = {name: f"{value:.6g}" for name, value in last.drop("round").row(0, named=True).items()}
    if not planned.held_out or model.best_iteration is None:
        return metrics
    best = f"{model.best_iteration} of {model.n_rounds}"
    if model.best_iteration != model.n_rounds:
        best += f", with {last.columns[-1]} {model.best_score:.6g} (--early-stopping-rounds keeps that one)"
    return {"best round": best} | metrics


# --- auto -------------------------------------------------------------------------------------------------------------


def add_auto(commands: Commands) -> None:
    """Add the command ``auto``."""
    example = "frameboost auto flights.parquet --target arr_delay --exclude id --time-limit 60 -o model.json"
    parser = add_command(
        commands, "auto", "Search for a good model: parameters chosen on held-out rows", _auto, example
    )
    _add_target_and_model(parser)
    add_options(
        parser, auto, "time", "groups", "coverage", "seed", quality={"metavar": "{1..5}"},
        time_limit={"metavar": "SECONDS"}, fits=_BYTES_OR_DATABASE,
        checkpoint={"metavar": "FOLDER", "help": "a folder of checkpoints, from which the same command resumes"},
    )  # fmt: skip
    _add_out_of_fold(parser)
    _add_quiet_and_settings(
        parser, "any other argument of frameboost.auto by its name in Python: weight=w, max_depth=3"
    )


def _auto(options: argparse.Namespace) -> None:
    check_writable(options.out)
    _check_out_of_fold(options)
    started = monotonic()
    more = {name: getattr(options, name) for name in ("features", "exclude")}
    more["verbose"] = False if options.quiet else None
    model = auto(read_data(options), **arguments(options, auto) | more | dict(options.settings))
    if options.out_of_fold is not None:
        _write_out_of_fold(model.out_of_fold, options.out_of_fold)
    write_model(model, options.out)
    if not options.quiet and options.out != STDOUT:
        print_facts(
            {
                "objective": model.objective,
                "features": _features(model),
                "trees": f"{model.n_trees:,}",
                "seconds": f"{monotonic() - started:.1f}",
                "file": file_fact(options.out),
            }
        )
        print_table(model.leaderboard)


# --- cv ---------------------------------------------------------------------------------------------------------------


def add_cv(commands: Commands) -> None:
    """Add the command ``cv``."""
    example = "frameboost cv flights.parquet --target arr_delay --exclude id --folds 5 --early-stopping-rounds 10"
    parser = add_command(
        commands, "cv", "Cross-validate: train on all folds but one, and evaluate on that one", _cv, example
    )
    parser.usage = "frameboost cv DATA ... --target COLUMN [options]"
    _add_rows(parser)
    add_options(parser, cv, "time", "groups", folds={**_FOLDS, "metavar": "FOLDS"})
    add_options(
        parser, fit, "weight", "group", "base_margin", "exposure", "label_upper_bound", "stratified",
        objective=_OBJECTIVE, positive={"metavar": "LABEL"}, eval_metric=_METRICS,
        engine={"metavar": "{" + ",".join(ENGINES) + "}"},
    )  # fmt: skip
    add_table_out(parser, "write the metrics of each round instead, to a", required=False)
    _add_out_of_fold(parser)
    _add_quiet_and_settings(parser, _ANY_PARAMETER)
    _add_parameters(parser)


def _cv(options: argparse.Namespace) -> None:
    check_table_out(options)
    _check_out_of_fold(options)
    names = {**inspect.signature(fit).parameters, **inspect.signature(cv).parameters}
    chosen = {name: getattr(options, name) for name in names if getattr(options, name, None) is not None}
    parameters = {name: its_value for name, its_value in chosen.items() if name != "data"} | _parameters(options)
    parameters["verbose"] = False if options.quiet else None
    for name in ("return_models", "return_cvbooster", "return_estimator"):
        if name in parameters:
            raise UsageError(f"{name} is for Python; --out-of-fold writes the predictions of the models")
    if options.out_of_fold is None:
        rounds = cv(read_data(options), **parameters)
    else:
        validated = cv(read_data(options), **parameters, return_models=True)
        rounds = validated.metrics
        _write_out_of_fold(validated.out_of_fold, options.out_of_fold)
    if options.out is not None:
        write_table(rounds.lazy(), options.out, replace=options.replace)
        return
    last = rounds.row(-1, named=True)
    metrics = [name.removesuffix("_mean") for name in last if name.endswith("_mean")]
    table = pl.DataFrame({
        "metric": metrics,
        "mean": [last[f"{name}_mean"] for name in metrics],
        "deviation": [last[f"{name}_std"] for name in metrics],
    })  # fmt: skip
    print_table(table, f"after {counted(last['round'], 'round')}; deviation: the standard one over the folds")


# --- another model of one ---------------------------------------------------------------------------------------------


def add_refit(commands: Commands) -> None:
    """Add the command ``refit``."""
    example = "frameboost refit model.json flights.parquet --target arr_delay --decay-rate 0.5 -o newer.json"
    help_ = "Refit a model's leaf values on other rows; the splits stay"
    names = ("target", "weight", "label_upper_bound", "group", "decay_rate")
    _add_change(commands, Model.refit, names, help_, example)


def add_calibrate(commands: Commands) -> None:
    """Add the command ``calibrate``."""
    example = "frameboost calibrate late.json flights.parquet --target late --method isotonic -o sure.json"
    help_ = "Calibrate a model's probabilities on held-out rows"
    _add_change(commands, Model.calibrate, ("target", "method", "weight"), help_, example)


def add_conform(commands: Commands) -> None:
    """Add the command ``conform``."""
    example = "frameboost conform model.json flights.parquet --target arr_delay --coverage 0.9 -o sure.json"
    names = ("target", "coverage", "groups", "base_margin")
    _add_change(commands, Model.conform, names, "Add prediction intervals to a model", example)


def _add_change(
    commands: Commands, change: Callable[..., Model], names: Sequence[str], help_: str, example: str
) -> None:
    """Add the command of a method of `Model` that returns a changed model, with its parameters ``names``."""
    parser = add_command(commands, change.__name__, help_, partial(_write_changed, change), example)
    parser.usage = f"frameboost {change.__name__} MODEL DATA ... --target COLUMN -o MODEL [options]"
    add_model_and_data(parser)
    add_options(parser, change, *names)
    add_model_out(parser)


def _write_changed(change: Callable[..., Model], options: argparse.Namespace) -> None:
    check_writable(options.out)
    model = open_model(options.model)
    write_model(change(model, read_data(options), **arguments(options, change)), options.out)

"""``frameboost compare``: prints how two models differ, and how good both are on the same rows."""

from __future__ import annotations

import argparse

import polars as pl

from frameboost.checks.messages import shortened
from frameboost.cli.arguments import Commands, UsageError, add_command
from frameboost.cli.evaluate import add_labels
from frameboost.cli.inputs import add_data, read_data
from frameboost.cli.screen import print_table
from frameboost.evaluation.paired_bootstrap import compare_models
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.prediction.predictor import Predictor

__all__ = ["add_compare"]

_EXAMPLE = "frameboost compare model.json other.json flights.parquet --target arr_delay"


def add_compare(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "compare", "Say how two models differ, and which is better", _compare, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="a model's file")
    add("other", metavar="OTHER", help="another model's file, of the same target")
    add_data(parser)
    add_labels(parser)
    add("--resamples", type=int, default=500, metavar="INT",
        help="draws of the bootstrap that the intervals are from; default 500")  # fmt: skip
    add("--seed", type=int, default=0, metavar="INT", help="the seed of the draws; default 0")


def _compare(given: argparse.Namespace) -> None:
    if len(given.target) > 1:
        raise UsageError("compare takes one target")
    models = [open_model(path) for path in (given.model, given.other)]
    first, second = (Predictor(model.ensemble) for model in models)
    found = compare_models(
        first, second, read_data(given), given.target[0], weight=given.weight, group=given.group,
        label_upper_bound=given.label_upper_bound, eval_metric=given.eval_metric, resamples=given.resamples,
        seed=given.seed,
    )  # fmt: skip
    what = "of queries" if given.group else "of rows"
    print_table(found, f"metrics; low to high: 95 % of the differences in {given.resamples:,} paired draws {what}")
    for title, differences in (("model", _kinds(*models)), ("features", _features(*models)),
                               ("parameters", _parameters(*models))):  # fmt: skip
        print()
        if differences.is_empty():
            print(f"{title}: the same in both")
        else:
            print_table(differences, f"{title}, where they differ")


def _kinds(first: Model, second: Model) -> pl.DataFrame:
    facts = [
        {"objective": model.objective, "trees": str(model.n_trees), "rounds": str(model.n_rounds),
         "base margin": str(model.base_margin), "offset": str(model.offset),
         "classes": ", ".join(map(str, model.classes)),
         "calibrated": "no" if model.ensemble.calibration is None else "yes",
         "interval": "none" if model.ensemble.interval is None else f"{100 * model.ensemble.interval.coverage:g} %"}
        for model in (first, second)
    ]  # fmt: skip
    return _differences(*facts)


def _features(first: Model, second: Model) -> pl.DataFrame:
    facts = [{feature.name: str(feature.type) for feature in model.ensemble.features} for model in (first, second)]
    return _differences(*facts)


def _parameters(first: Model, second: Model) -> pl.DataFrame:
    facts = [{name: shortened(str(value)) for name, value in model.parameters.items()} for model in (first, second)]
    return _differences(*facts)


def _differences(first: dict[str, str], second: dict[str, str]) -> pl.DataFrame:
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    values = {"": names, "first": [first.get(name, "-") for name in names],
              "second": [second.get(name, "-") for name in names]}  # fmt: skip
    return pl.DataFrame(values, schema=dict.fromkeys(values, pl.String))

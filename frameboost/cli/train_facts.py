"""What ``frameboost train`` says at its end: what it trained, of what, and how good that is."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import polars as pl

from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.data.sources import FrameSource, Source
from frameboost.data.spark_source import SparkSource
from frameboost.model.model import Model

__all__ = ["train_facts"]

_ADJECTIVES = {"boolean": "Boolean", "number": "numeric"}


def train_facts(
    model: Model, training: Source, held_out: Mapping[str, Source], given: argparse.Namespace
) -> dict[str, str]:
    """Return what a model is, what it was trained on and how good it is, by name.

    Parameters
    ----------
    model
        The model.
    training, held_out
        The rows that it was trained on, and those to validate on by the name of the set.
    given
        The arguments of the command.
    """
    features = listed_features(model)
    leaves = sum(1 for tree in model.ensemble.trees for _ in tree.leaves())
    facts = {
        "objective": f"{model.objective}, {_why(model, training, given)}",
        **_classes(model),
        "rows": _rows(training, held_out),
        "features": f"{len(model.features):,}: {features}",
        "trees": f"{model.n_trees:,} in {counted(model.n_rounds, 'round')} (depth {model.ensemble.depth}, "
        f"{counted(leaves, 'leaf', 'leaves')})",
    }
    return facts | _metrics(model, held_out)


def listed_features(model: Model) -> str:
    """Return the names and types of the features, cut to a line."""
    return shortened(", ".join(f"{feature.name} {feature.type}" for feature in model.ensemble.features))


def _why(model: Model, training: Source, given: argparse.Namespace) -> str:
    """Return why a model has its objective."""
    if given.objective is not None:
        return "as asked for"
    kind = training.types().get(given.target[0])
    adjective = _ADJECTIVES.get("" if kind is None else kind.family)
    if len(given.target) > 1:
        return f"as the targets {listed(given.target)} are {adjective}"
    what = f"is {adjective}" if adjective else f"has {len(model.classes):,} labels"
    if model.ensemble.training.hint:  # which the fit has found by its own look at the labels
        what = "is 0 or 1; --objective binary:logistic would predict the probability of 1"
    return f"as target {shown(given.target[0])} {what}"


def _classes(model: Model) -> dict[str, str]:
    labels = model.classes
    if not labels or not isinstance(labels[0], str):
        return {}
    positive = "" if model.ensemble.loss.has_margin_of_each_class else f"; predicted is that of {shown(labels[-1])}"
    return {"classes": f"{listed(labels)}{positive}"}


def _rows(training: Source, held_out: Mapping[str, Source]) -> str:
    others = [f"{_count(source):,} to validate on" for source in held_out.values()]
    return ", ".join([f"{_count(training):,} to train on", *others])


def _count(source: Source) -> int:
    if isinstance(source, FrameSource):
        return int(source.frame.select(pl.len()).collect(engine="streaming").item())
    assert not isinstance(source, SparkSource)
    return int(source.relation.aggregate("COUNT(*)").fetchall()[0][0])


def _metrics(model: Model, held_out: Mapping[str, Source]) -> dict[str, str]:
    """Return the metrics of the last round, which early stopping makes the best one."""
    last = model.history.filter(round=model.n_rounds)
    if last.width < 2 or last.is_empty():
        return {"metric": "none, as no rows were held out; --valid 0.2 holds out a fifth"}
    found = {name: f"{value:.6g}" for name, value in last.drop("round").row(0, named=True).items()}
    if not held_out or model.best_iteration is None:
        return found
    best = f"{model.best_iteration} of {model.n_rounds}"
    name = last.columns[-1]
    if model.best_iteration == model.n_rounds:
        return {"best round": best} | found
    best += f", with {name} {model.best_score:.6g} (--early-stopping-rounds keeps that one)"
    return {"best round": best} | found

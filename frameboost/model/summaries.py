"""Summaries of an ensemble: trees as a frame, feature importances, and the text of a model's ``repr``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.compile.sql.conditions import condition_sql
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError, printable
from frameboost.schema.types import Feature
from frameboost.trees.tree import Tree

__all__ = ["importance_frame", "interval_text", "leaves_text", "summary", "tree_frame"]

_FEATURES_SHOWN, _LABELS_SHOWN = 8, 4

_SCHEMA: dict[str, Any] = {
    "tree": pl.Int32,
    "node": pl.Int32,
    "depth": pl.Int32,
    "feature": pl.String,
    "threshold": pl.Float64,
    "categories": pl.List(pl.String),
    "missing": pl.String,
    "left": pl.Int32,
    "right": pl.Int32,
    "gain": pl.Float64,
    "cover": pl.Float64,
    "value": pl.Float64,
    "condition": pl.String,
}
_KINDS = ("gain", "total_gain", "weight", "cover", "total_cover")


def tree_frame(ensemble: Ensemble) -> pl.DataFrame:
    """Return a row for each node, as `Model.trees` describes them; of several outputs with the tree's output."""
    rows = [
        (number, node, depth, *_node(tree, node, ensemble.features))
        for number, tree in enumerate(ensemble.trees)
        for node, depth in enumerate(tree.depths())
    ]
    frame = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    if ensemble.is_linear:
        frame = frame.with_columns(_slopes(ensemble))
    if ensemble.n_outputs == 1:
        return frame
    outputs = pl.Series([tree.output for tree in ensemble.trees], dtype=pl.Int32)
    return frame.select("tree", outputs.gather(frame["tree"]).alias("output"), pl.exclude("tree"))


def _slopes(ensemble: Ensemble) -> list[pl.Series]:
    """Return the columns of linear leaves, null in other nodes: the constant, and the slopes."""
    leaves = [leaf for tree in ensemble.trees for leaf in tree.linear or [None] * len(tree)]
    names = ensemble.feature_names
    slopes = [
        leaf and [{"feature": names[term.feature], "slope": term.slope, "centre": term.centre} for term in leaf.terms]
        for leaf in leaves
    ]
    kind = pl.List(pl.Struct({"feature": pl.String, "slope": pl.Float64, "centre": pl.Float64}))
    constants = [leaf and leaf.constant for leaf in leaves]
    return [pl.Series("constant", constants, pl.Float64), pl.Series("slopes", slopes, kind)]


def leaves_text(ensemble: Ensemble) -> str:
    """Return how many leaves there are, and how many of them have slopes."""
    leaves = sum(1 for tree in ensemble.trees for _ in tree.leaves())
    linear = sum(len(tree.linear_leaves()) for tree in ensemble.trees)
    return counted(leaves, "leaf", "leaves") + (f", {linear:,} with slopes" if linear else "")


def _node(tree: Tree, node: int, features: Sequence[Feature]) -> tuple[Any, ...]:
    sums = (tree.gain[node], tree.cover[node], tree.value[node])
    if tree.is_leaf(node):
        return (None, None, None, None, None, None, *sums, None)
    feature = features[tree.feature[node]]
    threshold, categories = tree.threshold[node], tree.categories[node]
    return (
        feature.name,
        None if threshold is None else float(feature.type.scaled(threshold)),
        None if categories is None else [feature.type.shown(feature.categories[code]) for code in categories],
        "left" if tree.missing_left[node] else "right",
        tree.left[node],
        tree.right[node],
        *sums,
        condition_sql(tree, node, features),
    )


def importance_frame(ensemble: Ensemble, kind: str) -> pl.DataFrame:
    """Return a row for each feature, as `Model.importance` describes them."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ParameterError(f"importance must be one of {listed(_KINDS)}, not {shown(kind)}")
    n_features = len(ensemble.features)
    importance = np.zeros(n_features)
    splits = np.zeros(n_features)
    for tree in ensemble.trees:
        for node, feature in enumerate(tree.feature):
            if not tree.is_leaf(node):
                splits[feature] += 1.0
                importance[feature] += tree.gain[node] if kind.endswith("gain") else tree.cover[node]
    if kind == "weight":
        importance = splits
    elif not kind.startswith("total_"):
        importance = importance / np.maximum(splits, 1.0)
    frame = pl.DataFrame(
        {"feature": ensemble.feature_names, "importance": importance}, schema_overrides={"feature": pl.String}
    )
    return frame.sort("importance", descending=True, maintain_order=True)


def summary(ensemble: Ensemble) -> str:
    """Return the text of a model's ``repr``: objective, trees and the first features."""
    trees, features = ensemble.trees, ensemble.features
    head = (
        f"Model: {shortened(ensemble.loss.name)}{_classes(ensemble)}, {counted(len(trees), 'tree')} "
        f"(depth {ensemble.depth}, {leaves_text(ensemble)}), {counted(len(features), 'feature')}"
    )
    first = features[:_FEATURES_SHOWN]
    width = max(len(shortened(f.name)) for f in first)
    lines = [
        f"  {shortened(f.name):<{width}}  {f.type}"
        + (f" ({counted(len(f.categories), 'category', 'categories')})" if f.categories else "")
        for f in first
    ]
    if len(features) > len(first):
        lines.append(f"  ... and {len(features) - len(first)} more")
    interval, offset = interval_text(ensemble), ensemble.offset
    more = [] if offset is None else [f"  {offset.kind}: {', '.join(map(shortened, offset.names))}"]
    more += [] if interval is None else [f"  interval: {interval}"]
    return printable("\n".join([head, *more, *lines]))


def interval_text(ensemble: Ensemble) -> str | None:
    """Return what the prediction interval is, in a line; None if there is none."""
    interval = ensemble.interval
    if interval is None:
        return None
    distances = (interval.distance, *(interval.groups.numbers if interval.groups else ()))
    low, high = (f"{distance:.4g}" for distance in (min(distances), max(distances)))
    by = low if low == high else f"{low} to {high} by {shortened(interval.groups.column)}" if interval.groups else low
    alphas = [f"{ensemble.loss.renewal[number]:g}" for number in interval.quantiles]
    what = {
        "absolute": f"prediction ± {by}",
        "scaled": f"prediction ± {by} × {_spread(ensemble)}",
        "quantiles": f"quantiles {' and '.join(alphas)}, moved apart by {by}",
    }[interval.kind]
    return f"{100 * interval.coverage:g} % coverage, {what}; {counted(interval.rows, 'row')}"


def _spread(ensemble: Ensemble) -> str:
    loss = ensemble.loss
    return "its standard deviation" if loss.is_distribution else loss.spread.text if loss.spread else ""


def _classes(ensemble: Ensemble) -> str:
    """Return the labels of the classes, if they are strings, in parentheses."""
    labels = [label for label in ensemble.labels if isinstance(label, str)]
    return f" ({counted(len(labels), 'class', 'classes')}: {listed(labels, _LABELS_SHOWN)})" if labels else ""

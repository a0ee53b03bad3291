"""Summaries of an ensemble: frames of its trees and of importances, the text and the HTML that a model is shown as.

In the HTML, which has no scripts, names of features and metrics are data: they are escaped. Colours are those of the
surrounding text, so that the table is legible on light and on dark pages. A class keeps MathJax from reading dollars in
names as formulas.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.compile.sql.conditions import condition_sql
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError, printable
from frameboost.evaluation.history import long_history
from frameboost.schema.types import Feature
from frameboost.trees.tree import Tree

__all__ = ["html_summary", "importance_frame", "interval_text", "summary", "tree_frame"]

_MAX_FEATURES, _MAX_LABELS, _MAX_CLASSES, _MAX_OUTPUTS = 8, 4, 8, 4

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
_WIDTH, _HEIGHT = 220, 36  # pixels of a spark line
_POINTS = 200  # of a spark line
_BLUE = "#3A94D0"  # on white and on black alike
_ORANGE = "#E69F00"


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
        known = (*_KINDS, "permutation", "shap")
        raise ParameterError(f"importance must be one of {listed(known)}, not {shown(kind)}")
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


# --- text -------------------------------------------------------------------------------------------------------------


def summary(ensemble: Ensemble) -> str:
    """Return the text of a model's ``repr``: objective, trees and the first features."""
    trees, features = ensemble.trees, ensemble.features
    head = (
        f"Model: {shortened(ensemble.loss.name)}{_classes(ensemble)}, {counted(len(trees), 'tree')} "
        f"(depth {ensemble.depth}, {_leaves(ensemble)}), {counted(len(features), 'feature')}"
    )
    first = features[:_MAX_FEATURES]
    width = max(len(shortened(f.name)) for f in first)
    lines = [
        f"  {shortened(f.name):<{width}}  {f.type}"
        + (f" ({counted(len(f.categories), 'category', 'categories')})" if f.categories else "")
        for f in first
    ]
    if len(features) > len(first):
        lines.append(f"  ... and {len(features) - len(first)} more")
    interval, offset = interval_text(ensemble), ensemble.offset
    more = [] if ensemble.loss.transform is None else [f"  target_transform: {transform_text(ensemble)}"]
    more += [] if offset is None else [f"  {offset.kind}: {', '.join(map(shortened, offset.names))}"]
    more += [] if interval is None else [f"  interval: {interval}"]
    more += [f"  {shortened(title)}"] if (title := ensemble.metadata.title) else []
    return printable("\n".join([head, *more, *lines]))


def transform_text(ensemble: Ensemble) -> str:
    """Return what the target is transformed by, in a few words; nothing if it is not."""
    loss = ensemble.loss
    if loss.transform is None:
        return ""
    numbers = ", ".join(f"{number:.4g}" for number in loss.smearing or ())
    return loss.transform.name + (f", smeared by {numbers}" if numbers else "")


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
        "absolute": f"prediction ± {by}" + (f" in {of.name}" if (of := ensemble.loss.transform) else ""),
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
    return f" ({counted(len(labels), 'class', 'classes')}: {listed(labels, _MAX_LABELS)})" if labels else ""


def _leaves(ensemble: Ensemble) -> str:
    """Return how many leaves there are, and how many of them have slopes."""
    leaves = ensemble.n_leaves
    linear = sum(len(tree.linear_leaves()) for tree in ensemble.trees)
    return counted(leaves, "leaf", "leaves") + (f", {linear:,} with slopes" if linear else "")


# --- HTML -------------------------------------------------------------------------------------------------------------


def html_summary(
    ensemble: Ensemble, history: pl.DataFrame, importance: pl.DataFrame, best_round: int | None, hint: str = ""
) -> str:
    """Return the HTML of a model: objective, classes, quality, rounds, its most important features, its history.

    Parameters
    ----------
    ensemble
        The model's.
    history
        `frameboost.Model.history`.
    importance
        What `frameboost.Model.importance` returns.
    best_round
        The best round of early stopping.
    hint
        A line about the objective.
    """
    rows = [
        ("objective", _escaped(ensemble.loss.name) + (" (calibrated)" if ensemble.calibration is not None else "")),
        ("predicts", _predicts(ensemble)),
        ("rounds", _rounds(ensemble, best_round)),
        ("trees", f"{counted(len(ensemble.trees), 'tree')}, {_leaves(ensemble)}"),
        ("base margin", _numbers(ensemble.base_margins)),
        ("features", _features(ensemble, importance)),
    ]
    if ensemble.loss.transform is not None:
        rows.insert(1, ("target transform", transform_text(ensemble)))
    if ensemble.offset is not None:
        rows.insert(-1, ("offset", _escaped(str(ensemble.offset), 200)))
    if (interval := interval_text(ensemble)) is not None:
        rows.insert(2, ("interval", _escaped(interval, 200)))
    if hint:
        rows.insert(1, ("", _escaped(hint, 200)))
    if title := ensemble.metadata.title:
        rows.insert(0, ("name", _escaped(title, 200)))
    if training := ensemble.metadata.training:
        rows.append(("trained", _escaped(training, 200)))
    if quality := _quality(history, best_round):
        rows.insert(2, ("quality", quality))
    if line := _history(history, best_round):
        rows.append(("history", line))
    cell = "text-align:left;vertical-align:top;padding:2px 10px 2px 0;border:none"
    body = "".join(
        f'<tr style="background:none"><th scope="row" style="{cell};font-weight:600">{name}</th>'
        f'<td style="{cell}">{value}</td></tr>'
        for name, value in rows
    )
    return (
        '<div class="tex2jax_ignore mathjax_ignore" style="color:inherit;background:none">'
        "<strong>frameboost.Model</strong>"
        f'<table style="border-collapse:collapse;border:none;color:inherit;margin:4px 0">{body}</table></div>'
    )


def _escaped(text: str, longest: int = 60) -> str:
    return html.escape(shortened(text, longest))


def _predicts(ensemble: Ensemble) -> str:
    loss = ensemble.loss
    if len(loss.labels) > 1:
        return f"{len(loss.labels)} targets"
    if loss.classes:
        named = [_escaped(str(label), 30) for label in ensemble.labels[:_MAX_CLASSES]]
        more = len(ensemble.labels) - len(named)
        names = (
            f": {', '.join(named)}{f' and {more:,} more' if more else ''}" if named else f", 0 to {loss.classes - 1:,}"
        )
        return counted(loss.classes, "class", "classes") + names
    if loss.is_distribution:
        return "a mean and a standard deviation"
    return "a number" if loss.n_outputs == 1 else f"{loss.n_outputs} numbers"


def _rounds(ensemble: Ensemble, best_round: int | None) -> str:
    return f"{ensemble.n_rounds:,}" + ("" if best_round is None else f" (best round: {best_round:,})")


def _numbers(values: Sequence[float]) -> str:
    text = ", ".join(f"{value:.6g}" for value in values[:_MAX_OUTPUTS])
    more = len(values) - _MAX_OUTPUTS
    return text if more <= 0 else f"{text} and {more:,} more"


def _features(ensemble: Ensemble, importance: pl.DataFrame) -> str:
    """Return the most important features, each with its type and a bar of its share of the gain."""
    types = {feature.name: feature.type for feature in ensemble.features}
    shares = importance["importance"].to_numpy()
    largest = max((float(share) for share in shares if math.isfinite(share)), default=0.0)
    lines, cell = [], "text-align:left;border:none;padding:0 8px 0 0"
    for name, share in importance.head(_MAX_FEATURES).rows():
        width = round(100 * (share / largest)) if largest > 0 and math.isfinite(share) and share > 0 else 0
        lines.append(
            f'<tr style="background:none"><td style="{cell}">{_escaped(name)}</td>'
            f'<td style="{cell};opacity:.7">{_escaped(str(types[name]))}</td>'
            f'<td style="border:none;padding:0;width:104px"><div title="total gain {share:.6g}" '
            f'style="background:{_BLUE};height:9px;width:{width}px"></div></td></tr>'
        )
    more = len(importance) - _MAX_FEATURES
    rest = f'<div style="opacity:.7">and {more:,} more</div>' if more > 0 else ""
    table = f'<table style="border-collapse:collapse;border:none;color:inherit;margin:0">{"".join(lines)}</table>'
    return f"{counted(len(ensemble.features), 'feature')}, by total gain:{table}{rest}"


def _quality(history: pl.DataFrame, best_round: int | None) -> str:
    """Return the metrics of the last validation rows in the best round or the last; nothing without such rows."""
    long = long_history(history).filter(pl.col("set").str.starts_with("valid") & pl.col("value").is_finite())
    if long.is_empty():
        return ""
    number = int(long["round"].max()) if best_round is None else best_round  # type: ignore[arg-type]
    of_round = long.filter(pl.col("round") == number, pl.col("set") == long["set"][-1])
    metrics = ", ".join(f"{_escaped(name)} {value:.4g}" for name, value in of_round.select("metric", "value").rows())
    return f"{metrics} ({_escaped(long['set'][-1])}, round {number:,})" if metrics else ""


def _history(history: pl.DataFrame, best_round: int | None) -> str:
    """Return spark lines of the last metric, one for each of the last two sets of rows; nothing without a history."""
    long = long_history(history).filter(pl.col("value").is_finite())
    if long.is_empty():
        return ""
    metric = long["metric"][-1]
    drawn = long.filter(metric=metric)
    colours = dict(zip(reversed(drawn["set"].unique(maintain_order=True).to_list()), (_ORANGE, _BLUE), strict=False))
    drawn = drawn.filter(pl.col("set").is_in(list(colours)))
    first, last = min(drawn["round"]), max(drawn["round"])
    low, high = min(drawn["value"]), max(drawn["value"])
    positions = drawn.select(
        "set",
        "value",
        x=2 + (_WIDTH - 4) * (pl.col("round") - first) / max(1, last - first),
        y=_HEIGHT - 3 - (_HEIGHT - 6) * (pl.col("value") - low) / ((high - low) or 1.0),
    )
    paths, ends = [], []
    for rows, colour in reversed(colours.items()):
        line = positions.filter(set=rows)
        every = line.gather_every(max(1, len(line) // _POINTS))
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in every.select("x", "y").rows())
        paths.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        name = _escaped(f"{rows} {metric}".strip())
        ends.append(f'<span style="color:{colour}">&#9632;</span> {name} {line["value"][-1]:.6g}')
    if best_round is not None and first <= best_round <= last:
        at = f"{2 + (_WIDTH - 4) * (best_round - first) / max(1, last - first):.1f}"
        paths.append(f'<line x1="{at}" x2="{at}" y1="0" y2="{_HEIGHT}" stroke="currentColor" stroke-dasharray="2 2"/>')
    label = f"{_escaped(metric)} over {counted(last - first + 1, 'round')}"
    return (
        f'<svg role="img" aria-label="{label}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}" style="display:block">{"".join(paths)}</svg><div>{"; ".join(ends)}</div>'
    )

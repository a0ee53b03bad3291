"""Weak segments of a model, from a shallow tree fitted to the loss of each row.

The loss of a row is the objective's metric on that row, squared for root mean squares. With enough rows the tree is
fitted to one half of them and evaluated on the other, as segments that are weak by chance are weak in one half only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from frameboost.api import fit
from frameboost.data.sources import FrameSource
from frameboost.engines.choose import rows_of
from frameboost.evaluation.metrics_by_group import evaluated_metrics, store_predictions
from frameboost.expressions.draws import draw_expr, draw_key
from frameboost.metrics.draws import of_each_row
from frameboost.metrics.metric import Metric, define_terms, larger_is_better
from frameboost.model.model import Model
from frameboost.report.conditions import in_sql, in_words, path_to
from frameboost.report.material import Material
from frameboost.report.page import Raw, Section, block_of_code, escaped, note, number, paragraph, percent, table
from frameboost.schema.types import column, free_name, with_values

__all__ = ["Segment", "weak_segments", "worst_segments"]

_DEPTH = 3
_MIN_ROWS = 20  # of a segment
_SMALLEST_SHARE = 0.01
_MIN_IN_HALVES = 1_000
_MAX_SEGMENTS = 5
_MAX_ROWS = 50_000  # to fit the tree to
_ROOTS = ("rmse", "rmsle")


@dataclass(frozen=True)
class Segment:
    """Rows that fulfil a condition, and the quality of the model on them."""

    words: str
    sql: str
    share: float
    value: float


def weak_segments(material: Material) -> Section | None:
    """Return the section of the worst segments compared with all rows, None without labels."""
    if material.evaluation is None:
        return None
    metric = material.metrics[0] if material.metrics else None
    if not isinstance(metric, Metric) or material.is_ranking:
        text = "No segments were sought: the metrics of this objective are not sums over rows."
        return Section("segments", "Where it is bad", [note(text)])
    segments, in_halves = worst_segments(material, metric)
    if not segments:
        text = (
            f"A tree of depth {_DEPTH} over the features finds no segment that is worse than the whole and has "
            f"{percent(_SMALLEST_SHARE)} of the rows, and {_MIN_ROWS} rows, or more."
        )
        return Section("segments", "Where it is bad", [paragraph(text)])
    how = f"The worst leaves of a tree of depth {_DEPTH} that was fitted to the {metric.name} of each row alone. "
    how += (
        "It was fitted to one half of the rows; the metrics are those of the other half, so that chance does not count."
        if in_halves
        else "There are too few rows to hold some out, so that a segment may be bad by chance alone."
    )
    return Section("segments", "Where it is bad", [
        paragraph(how),
        _table(material, metric.name, segments),
    ])  # fmt: skip


def _table(material: Material, metric: str, segments: Sequence[Segment]) -> Raw:
    whole = material.values[metric]
    rows: list[Sequence[object]] = [
        (
            escaped(segment.words) + block_of_code(segment.sql, "SQL", is_open=False),
            f"{round(segment.share * material.n_rows):,}" if not material.of_sample else "",
            percent(segment.share),
            Raw(f'<span class="bad">{escaped(number(segment.value))}</span>'),
            f"{segment.value / whole:.2f} ×" if whole > 0 else "–",
        )
        for segment in segments
    ]
    rows.append(("all rows", f"{material.n_rows:,}", "100 %", number(whole), "1 ×"))
    return table(("segment", "rows", "share", metric, "against all"), rows, numbers=(1, 2, 3, 4))


def worst_segments(material: Material, metric: Metric) -> tuple[list[Segment], bool]:
    """Return segments with a metric worse than that of all rows, the worst first, and whether rows were halved."""
    losses = _losses(material, metric)
    data = material.coded.frame.collect().with_columns(losses)
    in_halves = len(data) >= _MIN_IN_HALVES
    fitted = measured = data
    if in_halves:
        draw = draw_expr(pl.int_range(pl.len(), dtype=pl.Int64), draw_key(0, 1))
        fitted, measured = data.filter(draw < 0.5).head(_MAX_ROWS), data.filter(draw >= 0.5)
    tree = _fitted(material, fitted, losses.name)
    if tree is None:
        return [], in_halves
    leaf = free_name("leaf", data.columns)
    parts = measured.with_columns(_leaves(tree, measured).alias(leaf))
    values = evaluated_metrics(
        material.predictor, FrameSource(parts.lazy()), material.roles, [leaf], [metric], r2=False
    )
    sizes = dict(_leaves(tree, data).value_counts().rows())
    sign = -1 if larger_is_better(metric.name) else 1
    whole = material.values[metric.name]
    ensemble = tree.ensemble
    segments = []
    for leaf_number, value in values.select(leaf, "value").rows():
        if sign * value > sign * whole:
            steps = path_to(ensemble.trees[0], leaf_number)
            words = in_words(ensemble.trees[0], steps, ensemble.features, material.with_missing)
            sql = in_sql(ensemble.trees[0], steps, ensemble.features, material.dialect)
            segments.append(Segment(words, sql, sizes[leaf_number] / len(data), value))
    return sorted(segments, key=lambda segment: -sign * segment.value)[:_MAX_SEGMENTS], in_halves


def _losses(material: Material, metric: Metric) -> pl.Series:
    """Return the metric of each row; higher is worse."""
    names = [name for name in material.scored.columns if name not in ("weight", "group_0")]
    rows = rows_of(material.scored, names)
    store_predictions(rows, material.ensemble)
    define_terms(rows, metric.terms)
    values = of_each_row(metric, rows)
    values = values.set(~values.is_finite().fill_null(False), 0.0)  # of a row that has no part in the metric
    if metric.name in _ROOTS:
        values = values**2
    return (-values if larger_is_better(metric.name) else values).alias(free_name("loss", material.rows.columns))


def _fitted(material: Material, rows: pl.DataFrame, losses: str) -> Model | None:
    """Return a model of one shallow tree fitted to the losses, None if it has no split."""
    features = with_values(rows.select(map(column, material.ensemble.feature_names)))
    if not features or len(rows) < 2 * _MIN_ROWS or rows[losses].n_unique() == 1:
        return None
    weight = material.roles.get("weight")
    mean_weight = 1.0 if weight is None else float(rows[weight].cast(pl.Float64).mean() or 1.0)  # type: ignore[arg-type]
    return fit(
        rows, losses, features=features, weight=weight, objective="reg:squarederror", n_estimators=1,
        max_depth=_DEPTH, learning_rate=1.0, max_bin=64,
        min_child_weight=max(_MIN_ROWS, _SMALLEST_SHARE * len(rows)) * mean_weight,
    )  # fmt: skip


def _leaves(tree: Model, rows: pl.DataFrame) -> pl.Series:
    """Return the leaf of each row in the only tree."""
    return tree.predict(rows, "leaf").arr.get(0)

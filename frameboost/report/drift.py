"""The drift of these rows since training, and the metric and the drift by period.

With training rows, drift is the population stability index of each feature. Without them it uses the model file: the
categories, and the shares of rows in the leaves of the first tree. Before that tree all rows have the same margin; if
the hessian does not depend on the label, covers (sums of hessians) are proportional to numbers of rows, or to sums of
weights.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import polars as pl

from frameboost import plots
from frameboost.checks.messages import shortened
from frameboost.data.sources import FrameSource
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import DataError
from frameboost.evaluation.drift import MUCH_DRIFT, SOME_DRIFT, periods_of, stability_index
from frameboost.evaluation.metrics_by_group import evaluated_metrics
from frameboost.metrics.metric import larger_is_better
from frameboost.model.model import Model
from frameboost.plots.drift import period_labels
from frameboost.plots.theme import BLUE, GREY, WIDTH, axis, headed, layered, name_tip, number_tip, quantity
from frameboost.report.conditions import in_words, path_to
from frameboost.report.material import Material
from frameboost.report.page import (
    Chart,
    Panel,
    Raw,
    Section,
    bar,
    code,
    escaped,
    note,
    number,
    paragraph,
    percent,
    table,
)
from frameboost.schema.types import column, free_name, known_expr, text_expr

__all__ = ["drift", "metric_by_period", "over_time", "shares_by_leaf", "unseen_categories"]

_MAX_FEATURES, _MAX_LEAVES = 20, 8  # in tables
_MAX_DRIFTING = 10  # features of the chart by period
_FEW_ROWS = 30  # metrics of smaller periods are uncertain


# --- since training ---------------------------------------------------------------------------------------------------


def drift(material: Material) -> Section:
    """Return the section of the drift since training."""
    unseen = _unseen(material)
    has_none = material.training_rows is None and material.model.baseline is None
    moved = _of_leaves(material) if has_none else _of_features(material)
    # Side by side where the page is wide enough: what it says, and its table.
    panels = [Panel("".join(parts)) for parts in ([*unseen, *moved[:-1]], moved[-1:])]
    return Section("drift", "Drift since training", panels if len(moved) > 1 else [*unseen, *moved])


def _of_features(material: Material) -> list[Raw]:
    """Return the index of each feature relative to the training rows."""
    try:
        indices = material.stability
        assert indices is not None
    except DataError as error:  # e.g. a feature with another type than in training, so that its bins are unknown
        if material.training_rows is None:
            return _of_leaves(material)
        return [note("The features can't be compared with those of training: ", error, ".")]
    indices = indices.sort("psi", descending=True, maintain_order=True).select("feature", "psi")
    largest = max(MUCH_DRIFT, float(indices["psi"].max() or 0.0))  # type: ignore[arg-type]
    first = indices.head(_MAX_FEATURES).rows()
    rows_shown = [(name, number(psi, 3), bar(psi / largest), _level(psi)) for name, psi in first]
    more = len(indices) - len(first)
    text = (
        "The population stability index (PSI) of each feature: Σ (a − e) ln(a / e) over some ten bins, a and e the "
        f"shares of rows here and in training. Below {SOME_DRIFT} is little, above {MUCH_DRIFT} much."
    )
    rest = [note(f"{more:,} more features have less.")] if more > 0 else []
    return [paragraph(text), *rest, table(("feature", "PSI", "", ""), rows_shown, numbers=(1,))]


def _level(psi: float) -> Raw:
    if psi > MUCH_DRIFT:
        return Raw('<span class="bad">much</span>')
    return escaped("some" if psi >= SOME_DRIFT else "little")


def _unseen(material: Material) -> list[Raw]:
    """Return the categories unknown from training."""
    unseen = unseen_categories(material.ensemble, material.rows)
    if unseen.is_empty():
        if not any(f.type.is_categorical and f.type.name != "codes" for f in material.ensemble.features):
            return []
        return [paragraph("Every category in these rows is known from training.")]
    rows = [
        (name, percent(share), Raw(", ".join(code(shortened(value, 40)) for value in examples)))
        for name, share, examples in unseen.head(_MAX_FEATURES).rows()
    ]
    text = "Categories that training did not have; they go where missing values go."
    return [paragraph(text), table(("feature", "share of rows", "such as"), rows, numbers=(1,))]


def _of_leaves(material: Material) -> list[Raw]:
    """Return the shares of rows by leaf of the first tree."""
    how = note("For the drift of each feature pass the training rows, ", code("training="), ".")
    shares = shares_by_leaf(material.model, material.rows)
    if shares is None:
        return [how]
    psi = stability_index(shares["here"], shares["training"])
    tree, features = material.ensemble.trees[0], material.ensemble.features
    ordered = shares.sort((pl.col("here") - pl.col("training")).abs(), descending=True, maintain_order=True)
    rows = [
        (
            in_words(tree, path_to(tree, leaf), features, material.with_missing),
            percent(before),
            percent(here),
            f"{100 * (here - before):+.1f}",
        )
        for leaf, before, here in ordered.head(_MAX_LEAVES).rows()
    ]
    text = Raw(
        "The model file has the shares of the training rows in the leaves of its first tree. Against these, the rows "
        f"here have a population stability index of <strong>{number(psi, 3)}</strong> ({_level(psi)}): below "
        f"{SOME_DRIFT} is little, above {MUCH_DRIFT} much. The leaves that changed most:"
    )
    header = ("leaf", "in training", "here", "points")
    return [paragraph(text), how, table(header, rows, numbers=(1, 2, 3))]


def shares_by_leaf(model: Model, rows: pl.DataFrame) -> pl.DataFrame | None:
    """Return the shares of training rows and of these rows in the leaves of the first tree.

    Returns
    -------
    polars.DataFrame or None
        ``leaf`` (the node), ``training`` and ``here``; None if the covers of the tree are not in proportion to rows.
    """
    ensemble = model.ensemble
    if not ensemble.trees or not _covers_count_rows(ensemble):
        return None
    tree = ensemble.trees[0]
    leaves = list(tree.leaves())
    covers = [tree.cover[leaf] for leaf in leaves]
    if len(leaves) < 2 or not all(cover > 0 and math.isfinite(cover) for cover in covers):
        return None
    counts = dict(model[:1].predict(rows, "leaf").arr.get(0).value_counts().rows())
    return pl.DataFrame({
        "leaf": leaves,
        "training": [cover / sum(covers) for cover in covers],
        "here": [counts.get(leaf, 0) / len(rows) for leaf in leaves],
    })  # fmt: skip


def _covers_count_rows(ensemble: Ensemble) -> bool:
    loss = ensemble.loss
    if not loss.is_trainable or not loss.outputs:
        return False
    hessian = loss.outputs[0].hessian
    depends = [*loss.labels, *loss.roles, *loss.terms]
    return not any(name in hessian.columns and hessian.uses(name) for name in depends)


def unseen_categories(ensemble: Ensemble, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the features with categories unknown from training, the most frequent first.

    Returns
    -------
    polars.DataFrame
        ``feature``, ``share`` of the rows with such a category, and ``examples``, at most three.
    """
    rows_of_unseen = []
    for feature in ensemble.features:
        if not feature.type.is_categorical or feature.type.name == "codes":
            continue
        values = rows.select(known_expr(feature).alias(feature.name)).to_series()
        present = rows.select(text_expr(column(feature.name), feature.type).alias(feature.name)).to_series()
        unseen = present.filter(values.is_null() & present.is_not_null())
        if len(unseen):
            counts = unseen.value_counts(name="rows").sort(["rows", feature.name], descending=[True, False])
            rows_of_unseen.append((feature.name, len(unseen) / len(rows), counts[feature.name].head(3).to_list()))
    schema: dict[str, Any] = {"feature": pl.String, "share": pl.Float64, "examples": pl.List(pl.String)}
    return pl.DataFrame(rows_of_unseen, schema, orient="row").sort("share", descending=True, maintain_order=True)


# --- over time --------------------------------------------------------------------------------------------------------


def over_time(material: Material) -> Section | None:
    """Return the section of periods, None without a time column."""
    if material.options.time is None:
        return None
    periods = periods_of(material.rows, material.options.time)
    parts: list[Raw | Chart] = []
    if material.evaluation is not None and material.metrics:
        parts += _quality(material, metric_by_period(material, periods))
    parts += _drift(material, periods)
    return Section("time", "Over time", parts)


def metric_by_period(material: Material, periods: pl.Series) -> pl.DataFrame:
    """Return ``period``, ``rows`` and ``value`` of the objective's metric; rows without a time are ignored."""
    period = free_name("period", material.rows.columns)
    rows = material.coded.frame.collect().with_columns(periods.alias(period)).drop_nulls(period)
    if (weight := material.roles.get("weight")) is not None:
        rows = rows.filter(column(weight) > 0)
    values = evaluated_metrics(
        material.predictor, FrameSource(rows.lazy()), material.roles, [period], material.metrics[:1], r2=False
    )
    return values.select(pl.col(period).alias("period"), "rows", "value")


def _quality(material: Material, values: pl.DataFrame) -> list[Raw | Chart]:
    """Return the chart of the metric by period, beside that of all rows."""
    metric = material.metrics[0].name
    labels = period_labels(values["period"])
    values = values.with_columns(pl.Series("period", labels), few=pl.col("rows") < _FEW_ROWS)
    x = alt.X(
        field="period", type="ordinal", sort=labels, title=shortened(material.options.time or "", 40),
        axis=axis(labelAngle=-45, labelOverlap=True),
    )  # fmt: skip
    tooltip = [
        name_tip("period"),
        number_tip("value", title=metric, format=".4g"),
        number_tip("rows", format=","),
    ]
    y = quantity(alt.Y, "value", metric)
    base = alt.Chart(values.filter(pl.col("value").is_finite()), width=WIDTH, height=200)
    whole = alt.Chart(pl.DataFrame({"value": [material.values[metric]]})).mark_rule(color=GREY, strokeDash=[4, 4])
    dots = base.mark_circle(color=BLUE, size=50, opacity=1).encode(
        x=x, y=y, tooltip=tooltip,
        opacity=alt.condition("datum.few", alt.value(0.35), alt.value(1)),
    )  # fmt: skip
    chart = layered(whole.encode(y=y), base.mark_line(color=BLUE, strokeWidth=2).encode(x=x, y=y), dots)
    sign = -1 if larger_is_better(metric) else 1
    enough = values.filter(~pl.col("few") & pl.col("value").is_finite())
    worst = enough.sort(sign * pl.col("value"), maintain_order=True)
    finding = f"No period has {_FEW_ROWS} rows"
    if len(worst):
        finding = f"{metric} is worst in {worst[-1, 'period']}: {number(worst[-1, 'value'])}"
    how = f"Dashed: the {metric} of all rows. Pale dots: fewer than {_FEW_ROWS} rows."
    return [Chart(headed(chart, finding, how), "The metric by period")]


def _drift(material: Material, periods: pl.Series) -> list[Raw | Chart]:
    """Return the chart of the drift of each feature by period, if there are training rows."""
    try:
        baseline = material.baseline
    except DataError:  # of features that can't be compared, as the section of drift says
        return []
    if baseline is None:
        return [note("For the drift by period pass the training rows.")]
    time = material.options.time or ""
    is_feature = time in material.ensemble.read_names
    period = free_name(time, material.rows.columns) if is_feature else time
    rows = material.rows.with_columns(periods.alias(period)).drop_nulls(period)
    chart = plots.drift(material.model, rows, baseline, period, every="1ns", top=_MAX_DRIFTING)
    return [Chart(chart, "Drift by period")]

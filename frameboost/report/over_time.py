"""How quality and the features changed over time: the objective's metric by period, and drift against training."""

from __future__ import annotations

import altair as alt
import polars as pl

from frameboost import plots
from frameboost.checks.messages import shortened
from frameboost.data.shares import free_name
from frameboost.data.sources import FrameSource
from frameboost.errors import DataError
from frameboost.evaluation.drift import periods_of
from frameboost.evaluation.metrics_by_group import evaluated_metrics
from frameboost.plots.drift import period_labels
from frameboost.plots.theme import BLUE, GREY, WIDTH, axis, layered, quantity
from frameboost.report.markup import Chart, Raw, Section, paragraph
from frameboost.report.material import Material
from frameboost.schema.polars_columns import column

__all__ = ["metric_by_period", "over_time"]

_TOP = 10
_HEIGHT = 200
_FEW_ROWS = 30


def over_time(material: Material) -> Section | None:
    """Return the section, None without a column of times."""
    if material.wanted.time is None:
        return None
    periods = periods_of(material.rows, material.wanted.time)
    parts: list[Raw | Chart] = []
    if material.evaluation is not None and material.metrics:
        parts += _quality(material, metric_by_period(material, periods))
    parts += _drift(material, periods)
    return Section("time", "Over time", parts)


def metric_by_period(material: Material, periods: pl.Series) -> pl.DataFrame:
    """Return ``period``, ``rows`` and ``value`` of the objective's own metric; rows without a time are left out."""
    period = free_name("period", material.rows.columns)
    rows = material.coded.frame.collect().with_columns(periods.alias(period)).drop_nulls(period)
    if (weight := material.roles.get("weight")) is not None:
        rows = rows.filter(column(weight) > 0)
    found = evaluated_metrics(
        material.predictor, FrameSource(rows.lazy()), material.roles, [period], material.metrics[:1], r2=False
    )
    return found.select(pl.col(period).alias("period"), "rows", "value")


def _quality(material: Material, found: pl.DataFrame) -> list[Raw | Chart]:
    """Return the chart of the metric by period, beside that of all rows."""
    metric = material.metrics[0].name
    labels = period_labels(found["period"])
    found = found.with_columns(pl.Series("period", labels), few=pl.col("rows") < _FEW_ROWS)
    x = alt.X(
        field="period", type="ordinal", sort=labels, title=shortened(material.wanted.time or "", 40),
        axis=axis(labelAngle=-45, labelOverlap=True),
    )  # fmt: skip
    tooltip = [
        alt.Tooltip(field="period", type="nominal"),
        alt.Tooltip(field="value", type="quantitative", title=metric, format=".4g"),
        alt.Tooltip(field="rows", type="quantitative", format=","),
    ]
    y = quantity(alt.Y, "value", metric)
    base = alt.Chart(found.filter(pl.col("value").is_finite()), width=WIDTH, height=_HEIGHT)
    whole = alt.Chart(pl.DataFrame({"value": [material.values[metric]]})).mark_rule(color=GREY, strokeDash=[4, 4])
    dots = base.mark_circle(color=BLUE, size=50, opacity=1).encode(
        x=x, y=y, tooltip=tooltip,
        opacity=alt.condition("datum.few", alt.value(0.35), alt.value(1)),
    )  # fmt: skip
    chart = layered(whole.encode(y=y), base.mark_line(color=BLUE, strokeWidth=2).encode(x=x, y=y), dots)
    caption = f"Dashed is the {metric} of all rows; pale dots are of fewer than {_FEW_ROWS} rows."
    return [Chart(chart, caption, "The metric by period")]


def _drift(material: Material, periods: pl.Series) -> list[Raw | Chart]:
    """Return the chart of the drift of each feature by period, if the training rows are given."""
    try:
        baseline = material.baseline
    except DataError:  # of features that can't be compared, as the section of drift says
        return []
    if baseline is None:
        return [paragraph("For the drift by period give the rows of training.", kind="note")]
    period = free_name(material.wanted.time or "", material.rows.columns)
    rows = material.rows.with_columns(periods.alias(period)).drop_nulls(period)
    chart = plots.drift(material.model, rows, baseline, period, every="1ns", top=_TOP)
    caption = f"The population stability index of the {_TOP} features that changed most."
    return [Chart(chart, caption, "Drift by period")]

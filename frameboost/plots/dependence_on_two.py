"""Partial dependence on two features, as a map of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from frameboost.model.model import Model
from frameboost.plots.distribution import distribution, distribution_frame
from frameboost.plots.rows import feature_type, titled, value_axis, vega_type, vega_values
from frameboost.plots.theme import AMOUNT, WIDTH, axis
from frameboost.schema.types import FeatureType

__all__ = ["dependence_on_two"]


def dependence_on_two(
    model: Model, frame: pl.DataFrame, long: pl.DataFrame, names: Sequence[str], title: str
) -> alt.VConcatChart:
    """Return a cell for each pair of values, coloured by the mean prediction, with the distributions at two sides.

    ``long`` is the frame of `frameboost.prediction.individual_dependence.individual_dependence`.
    """
    kinds = [feature_type(model, name) for name in names]
    mean = pl.col("prediction").mean().round_sig_figs(12)  # equal means are drawn as equal
    means = long.group_by("value", "other", maintain_order=True).agg(mean)
    means = means.with_columns(
        vega_values(means["value"], kinds[0]), vega_values(means["other"], kinds[1])
    )  # fmt: skip
    for field, kind in zip(("value", "other"), kinds, strict=True):
        if vega_type(kind) != "nominal":
            means = means.join(_cells(means[field]), on=field, maintain_order="left")
    x, x2 = _side(alt.X, alt.X2, "value", kinds[0], titled(names[0], kinds[0]), means)
    y, y2 = _side(alt.Y, alt.Y2, "other", kinds[1], titled(names[1], kinds[1]), means)
    legend = alt.Legend(titleLimit=WIDTH, format=".3~g")
    colour = alt.Color(
        field="prediction", type="quantitative", title=title, scale=alt.Scale(scheme=AMOUNT), legend=legend
    )
    tooltip = [
        alt.Tooltip(field="value", type=vega_type(kinds[0]), title=names[0]),
        alt.Tooltip(field="other", type=vega_type(kinds[1]), title=names[1]),
        alt.Tooltip(field="prediction", type="quantitative", title=title, format=".6g"),
    ]
    ends = {key: end for key, end in (("x2", x2), ("y2", y2)) if end is not None}
    # Strokes of the same colour, without which renderers leave hairlines between cells.
    stroke = alt.Stroke(field="prediction", type="quantitative", scale=alt.Scale(scheme=AMOUNT), legend=None)
    cells = alt.Chart(means, width=WIDTH, height=320).mark_rect(strokeWidth=0.7)
    cells = cells.encode(x=x, y=y, color=colour, stroke=stroke, tooltip=tooltip, **ends)
    above = _beside(frame[names[0]], kinds[0], means["value"], x, alt.X2)
    right = _beside(frame[names[1]], kinds[1], means["other"], y, alt.Y2).properties(height=320)
    lower = alt.hconcat(cells, right, spacing=5).resolve_scale(y="shared")
    chart: alt.VConcatChart = alt.vconcat(above, lower, spacing=5).resolve_scale(x="independent", color="independent")
    return chart


def _cells(values: pl.Series) -> pl.DataFrame:
    """Return the bounds of the cell around each value: the middles between neighbours, and the outermost values."""
    distinct = values.unique().sort()
    numbers = distinct.to_physical().cast(pl.Float64)
    middle = (numbers + numbers.shift(1)) / 2
    lower, upper = middle.fill_null(numbers[0]), middle.shift(-1).fill_null(numbers[-1])
    bounds = pl.DataFrame({"lower": lower, "upper": upper})
    if distinct.dtype.is_temporal():
        bounds = bounds.select(pl.all().round().cast(pl.Int64).cast(distinct.dtype))
    name = values.name
    return pl.DataFrame({name: distinct, f"{name}_lower": bounds["lower"], f"{name}_upper": bounds["upper"]})


def _side(
    channel: Any, end: Any, field: str, kind: FeatureType, title: str | None, means: pl.DataFrame
) -> tuple[Any, Any]:
    """Return the encoding of one axis, and of the ends of its cells (None of categories)."""
    vega = vega_type(kind)
    if vega == "nominal":
        order = means.group_by(field).agg(pl.col("prediction").mean()).sort("prediction")[field].to_list()
        return channel(
            field=field, type=vega, title=title, scale=alt.Scale(domain=order), axis=_names(channel, order)
        ), None
    look = value_axis(means[field], vega)
    first = channel(field=f"{field}_lower", type=vega, title=title, scale=_scale(vega), axis=look)
    return first, end(field=f"{field}_upper")


def _names(channel: Any, names: Sequence[str]) -> alt.Axis:
    """Return an axis of categories, whose names are upright only where they fit beside each other."""
    fit = channel is alt.Y or 7 * max(map(len, names)) * len(names) < WIDTH
    return axis() if channel is alt.Y else axis(labelLimit=120, labelAngle=0 if fit else -60)


def _beside(values: pl.Series, kind: FeatureType, shown: pl.Series, position: Any, end: Any) -> alt.Chart:
    """Return the distribution along one axis, whose encoding in the map is ``position``."""
    channel = alt.X if isinstance(position, alt.X) else alt.Y
    counts = distribution_frame(values, kind)
    vega, bare = vega_type(kind), alt.Axis(labels=False, ticks=False)
    if vega == "nominal":
        counts = counts.filter(pl.col("value").is_in(shown.unique().to_list()))
        same = channel(field="value", type=vega, title=None, scale=position["scale"], axis=bare)
        return distribution(counts, same, None)
    lower, upper = shown.min(), shown.max()
    counts = counts.filter((pl.col("upper") >= lower) & (pl.col("value") <= upper))
    return distribution(
        counts, channel(field="value", type=vega, title=None, scale=_scale(vega), axis=bare), end(field="upper")
    )


def _scale(vega: str) -> Any:
    return alt.Scale(zero=False, nice=False) if vega == "quantitative" else alt.Scale(nice=False)

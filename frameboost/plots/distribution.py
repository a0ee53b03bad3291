"""The distribution of a feature's values, as a narrow chart beside another with the same axis."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import polars as pl

from frameboost.plots.rows import vega_type, vega_values
from frameboost.plots.theme import GREY, LIGHT, WIDTH, number_format, quantity
from frameboost.schema.types import FeatureType

__all__ = ["distribution", "distribution_frame"]

_THICK = 50  # pixels
_BINS = 40


def distribution_frame(values: pl.Series, kind: FeatureType) -> pl.DataFrame:
    """Return the number of rows of each category, or in 40 ranges of equal width of a number or a time.

    Returns
    -------
    polars.DataFrame
        ``value`` (or ``value`` and ``upper``, the bounds of the range) and ``rows``; missing values are left out.
    """
    present = vega_values(values.alias("value"), kind).drop_nulls()
    if vega_type(kind) == "nominal":
        return present.value_counts(name="rows").sort(["rows", "value"], descending=[True, False])
    numbers = present.to_physical().cast(pl.Float64).to_numpy()
    counts, edges = np.histogram(numbers, _BINS) if len(numbers) else (np.zeros(0, int), np.zeros(1))
    if len(numbers) and edges[0] + (edges[1] - edges[0]) / 2 == edges[0]:  # too close to each other to divide
        counts, edges = np.array([len(numbers)]), edges[[0, -1]]
    bounds = {"value": edges[:-1], "upper": edges[1:]}
    frame = pl.DataFrame(bounds | {"rows": counts.astype(np.int64)}).filter(pl.col("rows") > 0)
    if vega_type(kind) == "temporal":
        return frame.with_columns(pl.col("value", "upper").round().cast(pl.Int64).cast(pl.Datetime("ms")))
    return frame


def distribution(frame: pl.DataFrame, position: Any, other: Any) -> alt.Chart:
    """Return bars of the rows by value.

    ``position`` is the encoding of the value that the other chart has, `altair.X` for bars that rise and `altair.Y` for
    bars to the right; ``other`` is that of the ends of a range, `altair.X2` or `altair.Y2`, None of categories.
    """
    rises = isinstance(position, alt.X)
    size: dict[str, Any] = {"width": WIDTH, "height": _THICK} if rises else {"width": _THICK}
    largest = float(frame["rows"].max() or 0)  # type: ignore[arg-type]
    amount = quantity(
        alt.Y if rises else alt.X, "rows", "rows", zero=True, axis=alt.Axis(tickCount=2, format=number_format(largest))
    )
    encoding: dict[str, Any] = {"x": position, "y": amount} if rises else {"x": amount, "y": position}
    if other is not None:
        encoding["x2" if rises else "y2"] = other
    tooltip = [alt.Tooltip(field="rows", type="quantitative", format=",")]
    bars = alt.Chart(frame, **size).mark_bar(
        orient="vertical" if rises else "horizontal", color=LIGHT, stroke=GREY, strokeWidth=0.3
    )
    chart: alt.Chart = bars.encode(**encoding, tooltip=tooltip)
    return chart

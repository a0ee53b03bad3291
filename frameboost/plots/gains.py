"""Cumulative gains and lift: what is found among the rows of the highest scores."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import checked, column
from frameboost.evaluation.threshold_curves import gains_curve
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model, class_name
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import thinned
from frameboost.plots.theme import (
    GREY,
    HEIGHT,
    WIDTH,
    axis,
    colour_of,
    dash_of,
    layered,
    number_axis,
    quantity,
    shown_classes,
)
from frameboost.plots.thresholds import classes_with_rows, scored

__all__ = ["gains", "lift"]

_POINTS = 500  # of a curve
_ROWS = "share of rows, highest scores first"


@checked(model=a_model, target=column)
@with_drawable_text
def gains(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of the share of positives that is found among the rows of the highest scores.

    Dashed is what rows in any order would find. Of more than two classes there is a curve for each of the first eight
    against all others. A curve is drawn with at most 500 points. Arguments are as in `roc`.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """
    frame, names = _curves(model, data, target, weight, "gains", "share_of_positives")
    base = pl.DataFrame({"share_of_rows": [0.0, 1.0], "share_of_positives": [0.0, 1.0]})
    return _chart(frame, names, "share_of_positives", "share of positives found", base)


@checked(model=a_model, target=column)
@with_drawable_text
def lift(model: Model, data: Any, target: str, *, weight: str | None = None) -> alt.LayerChart:
    """Return a chart of how many times more positives are among the rows of the highest scores than among all.

    The curve begins at 1 % of the rows, because the first few rows make it jump; else as `gains`.

    Raises
    ------
    DataError, ParameterError
        As `roc`.
    """
    frame, names = _curves(model, data, target, weight, "lift", "lift")
    base = pl.DataFrame({"share_of_rows": [0.0, 1.0], "lift": [1.0, 1.0]})
    return _chart(frame, names, "lift", "lift", base)


def _curves(
    model: Model, data: Any, target: str, weight: str | None, what: str, field: str
) -> tuple[pl.DataFrame, list[str]]:
    rows, _ = scored(model, data, target, weight, what)
    parts = []
    for one in classes_with_rows(rows, target):
        found = gains_curve(one.labels, one.scores, one.weights)
        if field == "lift":
            late = found.filter(pl.col("share_of_rows") >= 0.01)
            found = late if len(late) > 1 else found.drop_nulls()
        parts.append(thinned(found, "share_of_rows", field, _POINTS).with_columns(name=pl.lit(class_name(one.name))))
    names = shown_classes([part["name"][0] for part in parts])
    return pl.concat(parts[: len(names)]), names


def _chart(frame: pl.DataFrame, names: list[str], field: str, title: str, base: pl.DataFrame) -> alt.LayerChart:
    x = quantity(alt.X, "share_of_rows", _ROWS, scale=alt.Scale(domain=[0, 1]), axis=number_axis(format="%"))
    style = axis(format="%") if field != "lift" else axis()
    y = quantity(alt.Y, field, title, zero=True, axis=style)
    without = alt.Chart(base).mark_line(color=GREY, strokeDash=[4, 4], strokeWidth=1).encode(x=x, y=y)
    tooltip = [alt.Tooltip(field="name", type="nominal", title="class")] + [
        alt.Tooltip(field=f, type="quantitative", title=t, format=".4g")
        for f, t in (("share_of_rows", "share of rows"), (field, title), ("threshold", "threshold"))
    ]
    lines = alt.Chart(frame, width=WIDTH, height=HEIGHT).mark_line(strokeWidth=2).encode(
        x=x, y=y, color=colour_of("name", names, None), strokeDash=dash_of("name", names, None), tooltip=tooltip
    )  # fmt: skip
    return layered(without, lines)

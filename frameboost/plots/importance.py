"""The importance of features as bars."""

from __future__ import annotations

from typing import Literal

import altair as alt

from frameboost.checks.arguments import anything, checked, whole
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model
from frameboost.plots.names import with_drawable_text
from frameboost.plots.theme import BLUE, WIDTH, axis, number_axis, number_format, quantity

__all__ = ["importance"]

_TITLES = {
    "gain": "mean gain of a split", "total_gain": "gain of all splits", "weight": "number of splits",
    "cover": "mean cover of a split", "total_cover": "cover of all splits",
}  # fmt: skip


@checked(model=a_model, kind=anything, top=whole(1, 500))
@with_drawable_text
def importance(
    model: Model, kind: Literal["gain", "total_gain", "weight", "cover", "total_cover"] = "gain", *, top: int = 20
) -> alt.Chart:
    """Return a chart of the most important features, the first on top.

    Parameters
    ----------
    model
        The model.
    kind
        As in `frameboost.Model.importance`.
    top
        The number of features, at most 500.

    Raises
    ------
    ParameterError
        If there is no such kind.
    """
    found = model.importance(kind)
    largest = float(found["importance"].max() or 0.0)  # type: ignore[arg-type]
    title = _TITLES[kind] + (f"; {top} of {len(found):,} features" if len(found) > top else "")
    chart: alt.Chart = (
        alt.Chart(found.head(top), width=WIDTH, height={"step": 20})
        .mark_bar(color=BLUE)
        .encode(
            x=quantity(alt.X, "importance", title, zero=True, axis=number_axis(format=number_format(largest))),
            y=alt.Y(field="feature", type="nominal", sort=None, title=None, axis=axis()),
            tooltip=[
                alt.Tooltip(field="feature", type="nominal"),
                alt.Tooltip(field="importance", type="quantitative", title=_TITLES[kind], format=".6g"),
            ],
        )
    )
    return chart

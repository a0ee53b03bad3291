"""The drift of features over time, relative to the training rows."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import column, name_of, whole
from frameboost.checks.messages import counted, shortened
from frameboost.evaluation.drift import MUCH_DRIFT, SOME_DRIFT, drift_frame
from frameboost.model.model import Model
from frameboost.plots.inputs import MAX_POINTS, chart
from frameboost.plots.theme import axis, headed, layered, name_tip, number_tip

__all__ = ["drift", "period_labels"]

_MAX_NUMBERED = 18
_LITTLE, _SOME, _MUCH = f"below {SOME_DRIFT}: little", f"to {MUCH_DRIFT}: some", "above: much"
_COLOURS = {_LITTLE: "#E8EEF4", _SOME: "#7FB2D9", _MUCH: "#08306B"}


@chart(time=column, every=name_of("a period such as '1d', '1w' or '1mo'"), top=whole(1, 100))
def drift(
    model: Model, data: Any, baseline: pl.DataFrame, time: str, *, every: str = "1mo", top: int = 20
) -> alt.LayerChart:
    """Return a chart of the population stability index (PSI) of each feature by period.

    A PSI below 0.1 indicates little change since training, one above 0.25 a large one. The feature with the highest
    index is on top. Periods with few rows have a high index by chance: about the number of bins divided by the number
    of rows.

    Parameters
    ----------
    model
        The model.
    data
        As for `frameboost.Model.predict`, with the types of training.
    baseline
        The result of `frameboost.DatabaseModel.baseline` for the training rows.
    time
        A column of dates or timestamps, or of periods, such as a year; at most 200 periods.
    every
        The length of a period of dates or timestamps, such as ``"1d"``, ``"1w"``, ``"1mo"`` or ``"1q"``.
    top
        The number of features, at most 100; at most 5,000 cells are drawn.

    Raises
    ------
    DataError
        As `frameboost.Model.predict`; if the type of a feature differs from training, or there are too many periods.
    ParameterError
        If the baseline belongs to another model, or ``every`` is not a period.
    """
    indices = drift_frame(model.ensemble, data, baseline, time, every)
    highest = indices.group_by("feature", maintain_order=True).agg(pl.col("psi").max()).sort(
        "psi", descending=True, maintain_order=True
    )  # fmt: skip
    periods = indices["period"].unique().sort()
    order = highest["feature"].head(min(top, MAX_POINTS // len(periods))).to_list()
    labels = period_labels(periods)
    cells = indices.filter(pl.col("feature").is_in(order)).with_columns(
        period=pl.col("period").replace_strict(periods, labels, return_dtype=pl.String),
        level=pl.when(pl.col("psi") < SOME_DRIFT).then(pl.lit(_LITTLE))
        .when(pl.col("psi") <= MUCH_DRIFT).then(pl.lit(_SOME)).otherwise(pl.lit(_MUCH)),
        text=pl.col("psi").map_elements(lambda psi: f"{psi:.2f}", return_dtype=pl.String),
    )  # fmt: skip
    is_numbered = len(periods) <= _MAX_NUMBERED
    title = time if all(len(label) < 20 for label in labels) else None
    x = alt.X(field="period", type="ordinal", sort=labels, title=title, axis=axis(labelAngle=-45, labelOverlap=True))
    y = alt.Y(field="feature", type="nominal", sort=order, title=None, axis=axis())
    colour = alt.Color(
        field="level", type="nominal", title="drift (PSI)",
        scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
    )  # fmt: skip
    tooltip = [
        name_tip("feature"), name_tip("period", title=time),
        number_tip("psi", title="PSI", format=".4f"),
        number_tip("rows", format=","),
    ]  # fmt: skip
    step = 36 if is_numbered else max(4, 640 // len(periods))
    base = alt.Chart(cells, width=step * len(periods), height={"step": 22})
    rectangles = base.mark_rect(stroke="white", strokeWidth=1 if is_numbered else 0.3)
    layers = [rectangles.encode(x=x, y=y, color=colour, tooltip=tooltip)]
    if is_numbered:
        shade = alt.condition(f"datum.psi > {MUCH_DRIFT}", alt.value("white"), alt.value("black"))
        text = alt.Chart(cells).mark_text(fontSize=10)
        layers.append(text.encode(x=x, y=y, text=alt.Text(field="text", type="nominal"), color=shade))
    drifted = highest.filter(pl.col("psi") > MUCH_DRIFT)["feature"].to_list()
    finding = f"No feature drifts much (PSI above {MUCH_DRIFT})"
    if drifted:
        others = f" and {counted(len(drifted) - 1, 'other feature')}" if len(drifted) > 1 else ""
        finding = f"{shortened(drifted[0], 40)}{others} drift{'' if others else 's'} much (PSI above {MUCH_DRIFT})"
    how = "The distance of each period's distribution from that of training, by feature. Few rows: high by chance."
    return headed(layered(*layers), finding, how, width=max(360, step * len(periods)))


def period_labels(periods: pl.Series) -> list[str]:
    """Return the periods as text, without common parts: midnight, the first day of each month."""
    if isinstance(periods.dtype, pl.Datetime):
        periods = periods.dt.replace_time_zone(None)
    texts = [str(period) for period in periods]
    for ending in (" 00:00:00", "-01", "-01"):
        if periods.dtype.is_temporal() and all(text.endswith(ending) for text in texts):
            texts = [text.removesuffix(ending) for text in texts]
    return texts

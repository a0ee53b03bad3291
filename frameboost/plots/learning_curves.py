"""Learning curves: the metrics after each round."""

from __future__ import annotations

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import anything, checked
from frameboost.checks.messages import shown
from frameboost.errors import ParameterError
from frameboost.evaluation.history import long_history
from frameboost.metrics.built_in import larger_is_better
from frameboost.model.model import Model
from frameboost.plots.names import with_drawable_text
from frameboost.plots.rows import MAX_POINTS
from frameboost.plots.theme import GREY, WIDTH, axis, colour_of, dash_of, layered, quantity

__all__ = ["learning_curves"]

_HEIGHT = 220


@checked(model=anything)
@with_drawable_text
def learning_curves(model: Model | pl.DataFrame) -> alt.VConcatChart:
    """Return a chart of the metrics after each round, a panel for each metric.

    A vertical line marks the best round: that of early stopping, otherwise the one with the best value of the last
    metric on the last set of validation rows (the smallest, but for built-in metrics that are better if larger).
    Without validation rows there is none. Of many rounds some 5,000 values are shown, at even distances.

    Parameters
    ----------
    model
        A model that has a history, or the frame of `frameboost.cv`, whose bands are a standard deviation over the folds
        to either side.

    Raises
    ------
    ParameterError
        If there is no history, as of a model that was loaded from a file.
    """
    if isinstance(model, Model):
        history, best = model.history, model.best_iteration
    elif isinstance(model, pl.DataFrame) and "round" in model.columns:
        history, best = model, None
    else:
        raise ParameterError(f"model must be a model or a frame that fb.cv returned, not {shown(model)}")
    long = long_history(history)
    if long.is_empty():
        raise ParameterError(
            "the model has no history: nothing was evaluated in its fit, or it was made of another model"
        )
    best = best or _best_round(long)
    sets = long["set"].unique(maintain_order=True).to_list()
    metrics = long["metric"].unique(maintain_order=True).to_list()
    rounds = np.unique(long["round"].to_numpy())
    most = max(2, MAX_POINTS // (len(sets) * len(metrics)) - 1)
    kept = rounds[np.unique(np.linspace(0, len(rounds) - 1, min(most, len(rounds))).round().astype(int))]
    few = long.filter(pl.col("round").is_in(kept.tolist()))
    return alt.vconcat(*(_panel(few.filter(metric=name), name, sets, best) for name in metrics))


def _best_round(long: pl.DataFrame) -> int | None:
    valid = long.filter(pl.col("set").str.starts_with("valid") & pl.col("value").is_not_nan())
    if valid.is_empty():
        return None
    metric, rows = valid[-1, "metric"], valid[-1, "set"]
    watched = valid.filter(metric=metric, set=rows).sort(
        "value", descending=larger_is_better(metric), maintain_order=True
    )
    return int(watched[0, "round"])


def _panel(long: pl.DataFrame, metric: str, sets: list[str], best: int | None) -> alt.LayerChart:
    x = alt.X(field="round", type="quantitative", title="round", scale=alt.Scale(zero=False, nice=False),
              axis=axis(tickMinStep=1, format="d"))  # fmt: skip
    base = alt.Chart(long, width=WIDTH, height=_HEIGHT)
    tooltip = [
        alt.Tooltip(field="set", type="nominal"),
        alt.Tooltip(field="round", type="quantitative"),
        alt.Tooltip(field="value", type="quantitative", title=metric, format=".6g"),
    ]
    lines = base.mark_line(point=long["round"].n_unique() == 1).encode(
        x=x, y=quantity(alt.Y, "value", metric), color=colour_of("set", sets, "rows"),
        strokeDash=dash_of("set", sets, "rows"), tooltip=tooltip,
    )  # fmt: skip
    layers: list[alt.Chart] = [lines]
    if long["std"].null_count() < len(long):
        bands = long.select(
            "set", "round", low=pl.col("value") - pl.col("std"), high=pl.col("value") + pl.col("std")
        )  # fmt: skip
        band = alt.Chart(bands).mark_area(opacity=0.2)
        layers.insert(0, band.encode(
            x=x, y=quantity(alt.Y, "low", metric), y2=alt.Y2(field="high"), color=colour_of("set", sets, "rows")
        ))  # fmt: skip
    if best is not None:
        at = alt.Chart(pl.DataFrame({"round": [best], "label": [f"best round: {best:,}"]}))
        rule = at.mark_rule(color=GREY, strokeDash=[4, 4]).encode(x=x)
        late = best > (long["round"].min() + long["round"].max()) / 2  # type: ignore[operator]
        text = at.mark_text(align="right" if late else "left", dx=-5 if late else 5, baseline="top", color=GREY)
        layers += [rule, text.encode(x=x, y=alt.value(2), text=alt.Text(field="label", type="nominal"))]
    return layered(*layers)

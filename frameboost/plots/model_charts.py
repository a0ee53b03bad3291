"""Charts of a model alone: learning curves, feature importance, trees."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt
import numpy as np
import polars as pl

from frameboost.checks.arguments import anything, whole
from frameboost.checks.messages import shortened, shown
from frameboost.errors import ParameterError
from frameboost.evaluation.history import long_history
from frameboost.metrics.metric import larger_is_better
from frameboost.model.model import Model
from frameboost.model.tree_drawing import check_tree, tree_heading, tree_layout
from frameboost.plots.inputs import MAX_POINTS, chart
from frameboost.plots.theme import (
    BLUE,
    GREY,
    ORANGE,
    WIDTH,
    axis,
    colour_of,
    dash_of,
    headed,
    layered,
    name_tip,
    number_axis,
    number_format,
    number_tip,
    percentage,
    quantity,
)

__all__ = ["importance", "learning_curves", "tree"]

_TITLES = {
    "gain": "mean gain of a split", "total_gain": "gain of all splits", "weight": "number of splits",
    "cover": "mean cover of a split", "total_cover": "cover of all splits",
}  # fmt: skip
_HOW = {
    "gain": "How much a split on the feature lowers the training loss on average.",
    "total_gain": "How much all splits on a feature lower the training loss.",
    "weight": "How many splits are on the feature.",
    "cover": "The sum of hessians (of squared error: the rows) that reach a split on the feature, on average.",
    "total_cover": "The sum of hessians (of squared error: the rows) that reach the splits on a feature.",
}
_LEVEL, _BOX_HEIGHT = 96, 48  # pixels


# --- learning curves --------------------------------------------------------------------------------------------------


@chart(model=anything)
def learning_curves(model: Model | pl.DataFrame) -> alt.VConcatChart:
    """Return a chart of the metrics by round, a panel for each metric.

    A vertical line marks the best round: that of early stopping, or else of the last metric on the last held-out set,
    if there is one (the minimum, or the maximum of a built-in metric that is better if larger). Long histories are
    thinned to about 5,000 evenly spaced values.

    Parameters
    ----------
    model
        A model with a history, or a result of `frameboost.cv`, drawn with bands of ± one standard deviation over the
        folds.

    Raises
    ------
    ParameterError
        If the model has no history.
    """
    if isinstance(model, Model):
        history, best = model.history, model.best_iteration
    elif isinstance(model, pl.DataFrame) and "round" in model.columns:
        history, best = model, None
    else:
        raise ParameterError(f"model must be a model or a frame that fb.cv returned, not {shown(model)}")
    long = long_history(history)
    if long.is_empty():
        raise ParameterError("the model has no history: its fit evaluated nothing, or it is derived from another model")
    best = best or _best_round(long)
    sets = long["set"].unique(maintain_order=True).to_list()
    metrics = long["metric"].unique(maintain_order=True).to_list()
    rounds = np.unique(long["round"].to_numpy())
    most = max(2, MAX_POINTS // (len(sets) * len(metrics)) - 1)
    shown_rounds = rounds[np.unique(np.linspace(0, len(rounds) - 1, min(most, len(rounds))).round().astype(int))]
    few = long.filter(pl.col("round").is_in(shown_rounds.tolist()))
    drawn = alt.vconcat(*(_panel(few.filter(metric=name), name, sets, best) for name in metrics))
    watched = long.filter(metric=metrics[-1], set=sets[-1])
    last = int(rounds[-1])
    at = watched.filter(pl.col("round") == (last if best is None else best))["value"]
    value = f", {sets[-1]} {metrics[-1]} {at[0]:.4g}" if len(at) and at[0] is not None else ""
    finding = f"Round {last:,}{value}" if best is None else f"Best round {best:,} of {last:,}{value}"
    how = "Each metric after each round. Validation rows that get worse while training rows get better: overfitting."
    return headed(drawn, finding, how)


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
    base = alt.Chart(long, width=WIDTH, height=220)
    tooltip = [
        name_tip("set"),
        number_tip("round"),
        number_tip("value", title=metric, format=".6g"),
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


# --- importance -------------------------------------------------------------------------------------------------------


@chart(kind=anything, top=whole(1, 500))
def importance(
    model: Model, kind: Literal["gain", "total_gain", "weight", "cover", "total_cover"] = "gain", *, top: int = 20
) -> alt.Chart:
    """Return a bar chart of the most important features.

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
        If the kind is unknown.
    """
    importances = model.importance(kind)
    largest = float(importances["importance"].max() or 0.0)  # type: ignore[arg-type]
    title = _TITLES[kind] + (f"; {top} of {len(importances):,} features" if len(importances) > top else "")
    bars: alt.Chart = (
        alt.Chart(importances.head(top), width=WIDTH, height={"step": 20})
        .mark_bar(color=BLUE)
        .encode(
            x=quantity(alt.X, "importance", title, zero=True, axis=number_axis(format=number_format(largest))),
            y=alt.Y(field="feature", type="nominal", sort=None, title=None, axis=axis()),
            tooltip=[
                name_tip("feature"),
                number_tip("importance", title=_TITLES[kind], format=".6g"),
            ],
        )
    )
    total = float(importances["importance"].sum())
    name, first = importances.row(0)
    of_all = f", {percentage(first / total)} of it" if "total" in kind or kind == "weight" else ""
    finding = f"{shortened(name, 40)} has the highest {_TITLES[kind]}{of_all}"
    if not first > 0:
        finding = "No feature is in a split"
    return headed(bars, finding, _HOW[kind])


# --- a tree -----------------------------------------------------------------------------------------------------------


@chart(number=whole(0), depth=whole(1, 8))
def tree(model: Model, number: int = 0, *, depth: int = 4) -> alt.LayerChart:
    """Return a chart of a tree: splits with their conditions, leaves with their values.

    Rows that fulfil a condition go left. Thick lines are missing directions. The number below a condition or a leaf
    value is the cover, the sum of hessians of the training rows (for squared error their number or weight).

    Parameters
    ----------
    model
        The model.
    number
        The index of the tree, from 0, as in `frameboost.Model.trees`.
    depth
        The number of levels of splits to draw, from 1 to 8; deeper leaves are counted.

    Raises
    ------
    ParameterError
        If the model has no such tree.
    """
    check_tree(model.ensemble, number)
    nodes = tree_layout(model.ensemble.trees[number], model.ensemble.features, depth)
    ends = nodes.join(
        nodes.select(parent="node", x0="x", y0="y"), on="parent", how="inner", maintain_order="left"
    ).with_columns(middle=(pl.col("x") + pl.col("x0")) / 2, height=(pl.col("y") + pl.col("y0")) / 2)
    longest = max(len(line) for text in nodes["text"] for line in text.split("\n"))
    box = max(70, int(6.2 * longest) + 14)
    slots, levels = nodes.filter(pl.col("kind") != "split").height, nodes["depth"].n_unique()
    width, height = slots * (box + 10), levels * _LEVEL
    x: dict[str, Any] = {"scale": alt.Scale(domain=[-0.5, slots - 0.5], nice=False), "axis": None}
    y: dict[str, Any] = {"scale": alt.Scale(domain=[levels - 0.5, -0.5], nice=False), "axis": None}

    def position(*fields: str) -> dict[str, Any]:
        return {
            "x": alt.X(field=fields[0], type="quantitative", **x),
            "y": alt.Y(field=fields[1], type="quantitative", **y),
        }

    line = alt.Chart(ends).mark_rule(color=GREY).encode(
        **position("x0", "y0"), x2=alt.X2(field="x"), y2=alt.Y2(field="y"),
        strokeWidth=alt.StrokeWidth(
            field="missing", type="ordinal", title="missing values go", legend=alt.Legend(orient="bottom"),
            scale=alt.Scale(domain=["here", "to the other side"], range=[3.5, 1.2]),
        ),
    )  # fmt: skip
    sides = alt.Chart(ends).mark_text(fontSize=10, lineBreak="\n", fill="white", stroke="white", strokeWidth=4)
    answers = {"text": alt.Text(field="answer", type="nominal"), **position("middle", "height")}
    halo, side = sides.encode(**answers), alt.Chart(ends).mark_text(fontSize=10, color="black").encode(**answers)
    boxes = alt.Chart(nodes).mark_rect(width=box, height=_BOX_HEIGHT, cornerRadius=5, strokeWidth=1.5, fill="white")
    colour = alt.Stroke(
        field="kind", type="nominal", title=None,
        scale=alt.Scale(domain=["split", "leaf", "more"], range=[BLUE, ORANGE, GREY]), legend=None,
    )  # fmt: skip
    shapes = boxes.encode(**position("x", "y"), stroke=colour, tooltip=_tooltip())
    labels = [
        alt.Chart(nodes.filter(pl.col("text").str.count_matches("\n") == breaks))
        .mark_text(fontSize=11, lineBreak="\n", baseline="middle", dy=-6.5 * breaks, color="black")
        .encode(**position("x", "y"), text=alt.Text(field="text", type="nominal"), tooltip=_tooltip())
        for breaks in (1, 2)
    ]
    frameless = alt.ViewBackground(stroke=None)
    drawn = layered(line, halo, side, shapes, *labels, width=width, height=height, view=frameless)
    how = "A row goes left (yes) where the condition holds. The thick line is the side of missing values."
    return headed(drawn, tree_heading(model.ensemble, number), how, width=max(width, 240))


def _tooltip() -> list[alt.Tooltip]:
    numbers = [number_tip(field, title=field) for field in ("node", "gain", "value", "cover")]
    return [numbers[0], name_tip("condition", title="goes left if"), *numbers[1:]]

"""The structure of one tree."""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from frameboost.checks.arguments import checked, whole
from frameboost.checks.messages import shortened
from frameboost.errors import ParameterError
from frameboost.model.model import Model
from frameboost.plots.arguments import a_model
from frameboost.plots.names import with_drawable_text
from frameboost.plots.theme import BLUE, GREY, ORANGE, layered
from frameboost.schema.types import Feature
from frameboost.trees.tree import Tree

__all__ = ["tree", "tree_layout"]

_LEVEL, _BOX_HEIGHT = 96, 48  # pixels
_LONGEST = 22  # characters of a line in a node
_MAX_CATEGORIES = 3


@checked(model=a_model, number=whole(0), depth=whole(1, 8))
@with_drawable_text
def tree(model: Model, number: int = 0, *, depth: int = 4) -> alt.LayerChart:
    """Return a chart of one tree: its splits with their conditions, the leaves with their values.

    Rows of which the condition is true go left. A thick line is the way of missing values. Below a leaf's value or a
    condition is the cover, the sum of hessians of the training rows (for squared error their number or weight).

    Parameters
    ----------
    model
        The model.
    number
        The number of the tree, from 0, as in `frameboost.Model.trees`.
    depth
        The levels of splits that are shown, from 1 to 8; below them only the number of leaves.

    Raises
    ------
    ParameterError
        If the model has no such tree.
    """
    if number >= model.n_trees:
        raise ParameterError(f"number must be that of a tree, from 0 to {model.n_trees - 1}, not {number}")
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

    def place(*fields: str) -> dict[str, Any]:
        return {
            "x": alt.X(field=fields[0], type="quantitative", **x),
            "y": alt.Y(field=fields[1], type="quantitative", **y),
        }

    line = alt.Chart(ends).mark_rule(color=GREY).encode(
        **place("x0", "y0"), x2=alt.X2(field="x"), y2=alt.Y2(field="y"),
        strokeWidth=alt.StrokeWidth(
            field="missing", type="ordinal", title="missing values go", legend=alt.Legend(orient="bottom"),
            scale=alt.Scale(domain=["here", "to the other side"], range=[3.5, 1.2]),
        ),
    )  # fmt: skip
    sides = alt.Chart(ends).mark_text(fontSize=10, lineBreak="\n", fill="white", stroke="white", strokeWidth=4)
    answers = {"text": alt.Text(field="answer", type="nominal"), **place("middle", "height")}
    halo, side = sides.encode(**answers), alt.Chart(ends).mark_text(fontSize=10, color="black").encode(**answers)
    boxes = alt.Chart(nodes).mark_rect(width=box, height=_BOX_HEIGHT, cornerRadius=5, strokeWidth=1.5, fill="white")
    colour = alt.Stroke(
        field="kind", type="nominal", title=None,
        scale=alt.Scale(domain=["split", "leaf", "more"], range=[BLUE, ORANGE, GREY]), legend=None,
    )  # fmt: skip
    shapes = boxes.encode(**place("x", "y"), stroke=colour, tooltip=_tooltip())
    labels = [
        alt.Chart(nodes.filter(pl.col("text").str.count_matches("\n") == breaks))
        .mark_text(fontSize=11, lineBreak="\n", baseline="middle", dy=-6.5 * breaks, color="black")
        .encode(**place("x", "y"), text=alt.Text(field="text", type="nominal"), tooltip=_tooltip())
        for breaks in (1, 2)
    ]
    frameless = alt.ViewBackground(stroke=None)
    return layered(line, halo, side, shapes, *labels, width=width, height=height, view=frameless)


def _tooltip() -> list[alt.Tooltip]:
    names = {"node": "node", "condition": "goes left if", "gain": "gain", "value": "value", "cover": "cover"}
    return [
        alt.Tooltip(field=f, type="nominal" if f == "condition" else "quantitative", title=t) for f, t in names.items()
    ]


def tree_layout(tree: Tree, features: tuple[Feature, ...], depth: int) -> pl.DataFrame:
    """Return the nodes of a tree down to a depth, with their places and texts.

    Returns
    -------
    polars.DataFrame
        ``node``, ``parent`` (null of the root), ``depth``, ``x`` (leaves from left to right at 0, 1, ...; an inner node
        in the middle of its children), ``y`` (the depth), ``kind`` ("split", "leaf", or "more" where the depth ends),
        ``text``, ``condition`` (of going left), ``answer`` ("yes" or "no", of the parent's condition), ``missing``
        ("here" if the parent's missing values go to this node), ``gain``, ``value``, ``cover``.
    """
    rows: list[dict[str, Any]] = []
    leaves = 0

    def visit(node: int, parent: int | None, level: int) -> float:
        """Add a node and those below it; return its x."""
        nonlocal leaves
        split = not tree.is_leaf(node) and level < depth
        if split:
            at = [visit(child, node, level + 1) for child in (tree.left[node], tree.right[node])]
            x = sum(at) / 2
        else:
            x, leaves = float(leaves), leaves + 1
        is_left = parent is not None and tree.left[parent] == node
        rows.append({
            "node": node, "parent": parent, "depth": level, "x": x, "y": level,
            "kind": "leaf" if tree.is_leaf(node) else "split" if split else "more",
            "text": _text(tree, node, features, split=split),
            "condition": None if tree.is_leaf(node) else _condition(tree, node, features, most=50),
            "answer": None if parent is None else "yes" if is_left else "no",
            "missing": None if parent is None
            else "here" if tree.missing_left[parent] == is_left else "to the other side",
            "gain": None if tree.is_leaf(node) else tree.gain[node],
            "value": tree.value[node], "cover": tree.cover[node],
        })  # fmt: skip
        return x

    visit(0, None, 0)
    types: dict[str, Any] = dict.fromkeys(("node", "parent", "depth"), pl.Int32)
    types |= dict.fromkeys(("x", "y", "gain", "value", "cover"), pl.Float64)
    types |= dict.fromkeys(("kind", "text", "condition", "answer", "missing"), pl.String)
    return pl.DataFrame(rows, schema_overrides=types).sort("node")


def _text(tree: Tree, node: int, features: tuple[Feature, ...], *, split: bool) -> str:
    amount = tree.cover[node]
    cover = f"cover {amount:,.0f}" if amount >= 1_000 else f"cover {amount:.4g}"
    if tree.is_leaf(node):
        slopes = " + slopes" if node in tree.linear_leaves() else ""
        return f"{tree.value[node]:+.4g}{slopes}\n{cover}"
    if not split:
        below, leaves = [node], 0
        while below:
            at = below.pop()
            leaves += tree.is_leaf(at)
            below += [] if tree.is_leaf(at) else [tree.left[at], tree.right[at]]
        return f"... {leaves} leaves\n{cover}"
    name = shortened(features[tree.feature[node]].name, _LONGEST)
    return f"{name}\n{_question(tree, node, features, _MAX_CATEGORIES, _LONGEST)}\n{cover}"


def _condition(tree: Tree, node: int, features: tuple[Feature, ...], most: int) -> str:
    return f"{features[tree.feature[node]].name} {_question(tree, node, features, most, 1_000)}"


def _question(tree: Tree, node: int, features: tuple[Feature, ...], most: int, longest: int) -> str:
    """Return what is asked of the feature's present values; those that answer yes go left."""
    feature = features[tree.feature[node]]
    threshold, codes = tree.threshold[node], tree.categories[node]
    if threshold is not None:
        if feature.type.family == "boolean":
            return "is false"
        value = f"{threshold:.6g}" if isinstance(threshold, float) else feature.type.shown(threshold)
        return shortened(f"< {value}", longest)
    if codes is None:
        return "is present"
    named = [feature.type.shown(feature.categories[code]) for code in codes]
    word = "is" if tree.named_left(node) else "is not"
    listed = (
        " or ".join(named[:most]) if len(named) <= most else f"{' or '.join(named[:most])} or {len(named) - most} more"
    )
    return shortened(f"{word} {listed}", longest)

"""A tree as a drawing that notebooks show: its splits with their conditions, the leaves with their values.

Names and categories are data: they are escaped. A notebook's HTML has the colours of the surrounding text, so that it
is legible on light and on dark pages; a file has a white background.
"""

from __future__ import annotations

import html
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from frameboost.checks.messages import counted, shortened
from frameboost.data.written_files import output_path
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError, printable
from frameboost.schema.types import Feature
from frameboost.trees.tree import Tree, split_features

__all__ = ["TreeDrawing", "check_tree", "tree_heading", "tree_layout"]

_LONGEST = 22  # characters of a line in a node
_MAX_CATEGORIES = 3
_CHARACTER, _LEAST_BOX, _BOX_HEIGHT, _LEVEL, _GAP, _TOP = 6.4, 64, 46, 88, 12, 30  # pixels
_FAINT = ' font-size="10.5" opacity="0.75"'  # of the last line, the cover
_COLOURS = {"split": "#3A94D0", "leaf": "#E69F00", "more": "#999999"}


@dataclass(frozen=True, repr=False)
class TreeDrawing:
    """A drawing of a tree; returned by `frameboost.Model.tree`.

    Attributes
    ----------
    ensemble
        The model's.
    number
        The number of the tree, from 0.
    depth
        The levels of splits that are drawn.
    """

    ensemble: Ensemble
    number: int
    depth: int

    @property
    def svg(self) -> str:
        """The drawing as SVG with a white background."""
        return self._drawn(on_page=False)

    def save(self, path: str | Path) -> None:
        """Write the drawing to a file as SVG.

        Raises
        ------
        OSError
            If the file can't be written.
        """
        with output_path(str(path)) as partial:
            partial.write_text(self.svg, encoding="utf-8", newline="\n")

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return (
            '<div class="tex2jax_ignore mathjax_ignore" style="color:inherit;overflow-x:auto">'
            f"{self._drawn(on_page=True)}</div>"
        )

    def __repr__(self) -> str:
        nodes = self._nodes()
        lines = [tree_heading(self.ensemble, self.number)]
        children: dict[int | None, list[dict[str, Any]]] = {}
        for row in nodes.rows(named=True):
            children.setdefault(row["parent"], []).append(row)
        stack = children[None]
        while stack:
            row = stack.pop()
            way = row["answer"] or ""
            way += (" or missing" if row["missing"] == "here" else "") + ": " if way else ""
            first, *rest = row["text"].split("\n")
            lines.append("  " * (row["depth"] + 1) + way + " ".join([first, *rest[:-1]]))
            stack += sorted(children.get(row["node"], []), key=lambda row: row["x"], reverse=True)
        return printable("\n".join(lines))

    def _nodes(self) -> pl.DataFrame:
        return tree_layout(self.ensemble.trees[self.number], self.ensemble.features, self.depth)

    def _drawn(self, *, on_page: bool) -> str:
        """Return the SVG, ``on_page`` in the colours of the surrounding text."""
        nodes = self._nodes()
        longest = max(_width(line) for text in nodes["text"] for line in text.split("\n"))
        box = max(_LEAST_BOX, round(_CHARACTER * longest) + 14)
        slots, levels = nodes.filter(pl.col("kind") != "split").height, nodes["depth"].n_unique()
        heading = tree_heading(self.ensemble, self.number)
        width = max(slots * (box + _GAP), round(7.5 * _width(heading)) + 2 * _GAP)
        height = _TOP + levels * _LEVEL - (_LEVEL - _BOX_HEIGHT) + 10
        places = {
            row["node"]: ((row["x"] + 0.5) * (box + _GAP), _TOP + row["y"] * _LEVEL) for row in nodes.rows(named=True)
        }
        lines, boxes = [], []
        for row in nodes.rows(named=True):
            x, y = places[row["node"]]
            if row["parent"] is not None:
                lines.append(_edge(places[row["parent"]], (x, y), row))
            boxes.append(_box(x, y, box, row))
        colour = "currentColor" if on_page else "#1c2430"
        background = "" if on_page else f'<rect width="{width}" height="{height}" fill="white"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{_escaped(heading)}" width="{width}" '
            f'height="{height}" viewBox="0 0 {width} {height}" fill="{colour}" stroke="none" font-size="12" '
            f'font-family="system-ui, sans-serif" text-anchor="middle">{background}'
            f'<text x="{_GAP // 2}" y="18" text-anchor="start" font-size="13" font-weight="600">'
            f"{_escaped(heading)}</text>"
            f'<g stroke="{colour}">{"".join(lines)}</g>{"".join(boxes)}</svg>'
        )


def _edge(start: tuple[float, float], end: tuple[float, float], row: dict[str, Any]) -> str:
    """Return the line from a parent to a node, thick where missing values go, and its answer."""
    (x0, y0), (x, y) = (start[0], start[1] + _BOX_HEIGHT), end
    thick = 3 if row["missing"] == "here" else 1
    side = -1 if row["answer"] == "yes" else 1
    middle, height = (x + x0) / 2 + side * 14, (y + y0) / 2 + 4
    return (
        f'<line x1="{x0:g}" y1="{y0:g}" x2="{x:g}" y2="{y:g}" stroke-width="{thick}" stroke-opacity="0.55"/>'
        f'<text x="{middle:g}" y="{height:g}" font-size="11" stroke="none">{row["answer"]}</text>'
    )


def _box(x: float, y: float, width: int, row: dict[str, Any]) -> str:
    """Return the box of a node with its lines of text, and all that is known of it as a tooltip."""
    lines = row["text"].split("\n")
    first = y + _BOX_HEIGHT / 2 + 4 - 7 * (len(lines) - 1)
    texts = "".join(
        f'<text x="{x:g}" y="{first + 14 * number:g}"{look}>{_escaped(line)}</text>'
        for number, (line, look) in enumerate(zip(lines, ["", "", _FAINT][-len(lines) :], strict=True))
    )
    known = {"node": row["node"], "goes left if": row["condition"], "gain": row["gain"], "value": row["value"],
             "cover": row["cover"]}  # fmt: skip
    tip = "; ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in known.items() if value is not None
    )  # fmt: skip
    colour = _COLOURS[row["kind"]]
    return (
        f'<g><title>{_escaped(tip)}</title><rect x="{x - width / 2:g}" y="{y:g}" width="{width}" '
        f'height="{_BOX_HEIGHT}" rx="5" fill="{colour}" fill-opacity="0.12" stroke="{colour}" stroke-width="1.5"/>'
        f"{texts}</g>"
    )


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _width(text: str) -> int:
    """Return the columns that a text takes; wide characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def check_tree(ensemble: Ensemble, number: int) -> None:
    """Raise `ParameterError` if the model has no tree of this number."""
    if number >= (n_trees := len(ensemble.trees)):
        raise ParameterError(f"number must be that of a tree, from 0 to {n_trees - 1}, not {number}")


def tree_heading(ensemble: Ensemble, number: int) -> str:
    """Return what a tree is: its number, its output if the model has several, and its size."""
    tree = ensemble.trees[number]
    output, used = "", counted(len(split_features([tree])), "feature")
    if ensemble.n_outputs > 1:
        labels = ensemble.output_labels
        output = f" of {shortened(str(labels[tree.output]), 40)}" if labels else f" of output {tree.output}"
    return f"Tree {number:,}{output}: {counted(tree.n_leaves, 'leaf', 'leaves')}, {used} in splits"


def tree_layout(tree: Tree, features: tuple[Feature, ...], depth: int) -> pl.DataFrame:
    """Return the nodes of a tree down to a depth, with their positions and texts.

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
    return f"{name}\n{_condition_text(tree, node, features, _MAX_CATEGORIES, _LONGEST)}\n{cover}"


def _condition(tree: Tree, node: int, features: tuple[Feature, ...], most: int) -> str:
    return f"{features[tree.feature[node]].name} {_condition_text(tree, node, features, most, 1_000)}"


def _condition_text(tree: Tree, node: int, features: tuple[Feature, ...], most: int, longest: int) -> str:
    """Return the condition on the feature's present values; those for which it is true go left."""
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

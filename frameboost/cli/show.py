"""``frameboost show``: prints a summary of a model, and its trees."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from frameboost.checks.messages import shortened
from frameboost.cli.arguments import Commands, add_command
from frameboost.cli.screen import print_table
from frameboost.errors import printable
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.loading import open_model
from frameboost.model.model import Model
from frameboost.model.summaries import interval_text
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import FeatureType

__all__ = ["add_show"]

_EXAMPLE = "frameboost show model.json --trees 1 --importance total_gain"

_LONGEST = 100


def add_show(commands: Commands) -> None:
    """Add the command."""
    parser = add_command(commands, "show", "Say what a model is", _show, _EXAMPLE)
    add = parser.add_argument
    add("model", metavar="MODEL", help="the model's file")
    add("--trees", type=int, default=0, metavar="N", help="draw the first N trees")
    add("--importance", default="gain", metavar="{gain,total_gain,weight,cover,total_cover}",
        help="how the importance of features is measured; default gain, the mean of their splits")  # fmt: skip


def _show(given: argparse.Namespace) -> None:
    model = open_model(given.model)
    features = _features(model, given.importance)
    print(printable(f"{_head(model)}\n\n{_parameters(model)}\n"))
    print_table(features, bars=given.importance)
    for tree in _trees(model, given.trees):
        print(printable(f"\n{tree}"))


def _head(model: Model) -> str:
    base = model.base_margin if isinstance(model.base_margin, list) else [model.base_margin]
    first = repr(model).partition("\n")[0]
    lines = [f"rounds       {model.n_rounds:,}", f"base margin  {', '.join(f'{margin:.6g}' for margin in base)}"]
    if (offset := model.ensemble.offset) is not None:
        lines.append(f"{offset.kind:<11}  {shortened(', '.join(offset.names), _LONGEST)}")
    if (calibration := model.ensemble.calibration) is not None:
        lines.append(f"calibrated   {shortened(calibration.text, _LONGEST)}")
    if (interval := interval_text(model.ensemble)) is not None:
        lines.append(f"interval     {shortened(interval, _LONGEST)}")
    return "\n".join([first, *lines])


def _parameters(model: Model) -> str:
    usual = Parameters().shaping() | {"max_delta_step": 0.0}  # as `fit` fills it in
    others = {name: its for name, its in model.parameters.items() if its != usual.get(name)}
    if not others:
        return "parameters: all by default"
    width = max(map(len, others))
    lines = [f"  {name:<{width}}  {shortened(str(its), _LONGEST)}" for name, its in others.items()]
    return "\n".join(["parameters other than by default", *lines])


def _features(model: Model, kind: Any) -> pl.DataFrame:
    described = {}
    for feature in model.ensemble.features:
        count = len(feature.categories)
        described[feature.name] = f"{feature.type}" + (
            f" ({count:,} {'category' if count == 1 else 'categories'})" if feature.type.is_categorical else ""
        )
    rows = model.importance(kind).rows()
    return pl.DataFrame({
        "feature": [name for name, _ in rows],
        "type": [described[name] for name, _ in rows],
        kind: [amount for _, amount in rows],
    })  # fmt: skip


def _trees(model: Model, count: int) -> Iterator[str]:
    frame = model.trees.filter(pl.col("tree") < count)
    kinds = {feature.name: feature.type for feature in model.ensemble.features}
    for (number,), rows in frame.group_by("tree", maintain_order=True):
        nodes = rows.rows(named=True)
        output = f" (output {nodes[0]['output']})" if "output" in nodes[0] else ""
        yield "\n".join([f"tree {number}{output}", *_tree_lines(nodes, kinds)])


def _tree_lines(nodes: list[dict[str, Any]], kinds: Mapping[str, FeatureType]) -> Iterator[str]:
    open_nodes = [(0, "", 1)]
    while open_nodes:
        number, side, depth = open_nodes.pop()
        node = nodes[number]
        yield (
            "  " * depth + side + (f"{node['value']:.6g}" if node["feature"] is None else f"{_condition(node, kinds)}?")
        )
        if node["feature"] is None:
            continue
        for answer, place in (("no", "right"), ("yes", "left")):  # a stack: the last is printed first
            missing = " or missing" if node["missing"] == place and not _is_presence_split(node) else ""
            open_nodes.append((node[place], f"{answer}{missing}: ", depth + 1))


def _condition(node: Mapping[str, Any], kinds: Mapping[str, FeatureType]) -> str:
    kind = kinds[node["feature"]]
    if kind.is_float and node["threshold"] is not None:  # shorter than the condition, whose SQL literals have exponents
        return shortened(f"{quote_identifier(node['feature'])} < {node['threshold']!r}", _LONGEST)
    return shortened(str(node["condition"]), _LONGEST)


def _is_presence_split(node: Mapping[str, Any]) -> bool:
    return node["threshold"] is None and node["categories"] is None

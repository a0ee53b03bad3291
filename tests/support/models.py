"""Models of their parts, of trees written as nested tuples, and as those; and a model file as it is stored."""

from collections.abc import Mapping, Sequence
from typing import Any

import frameboost as fb
from frameboost.ensemble.ensemble import Ensemble
from frameboost.expressions.expression import Expression
from frameboost.losses.built_in import get_loss
from frameboost.losses.loss import Loss
from frameboost.schema.types import Feature
from frameboost.trees.tree import Tree, on_leaf_grid

GOLDEN = """{
"format": "frameboost",
"version": 1,
"objective": "reg:squarederror",
"parameters": {"base_score": null, "gamma": 0.0, "grow_policy": "depthwise", "interaction_constraints": null, \
"learning_rate": 0.5, "max_bin": 256, "max_delta_step": 0.0, "max_depth": 2, "max_leaves": 0, \
"min_child_weight": 1.0, "monotone_constraints": null, "n_estimators": 1, "reg_alpha": 0.0, "reg_lambda": 0.0, \
"tree_method": "hist"},
"base_margin": 4.0,
"features": [
{"name": "dep \\"delay\\"", "type": "float64"},
{"name": "carrier", "type": "string", "categories": ["AA", "é"]}
],
"trees": [
{"feature":[0,1,-1,-1,-1],"threshold":[1.5,null,null,null,null],"categories":[null,[1],null,null,null],\
"missing_left":[true,false,false,false,false],"left":[1,3,-1,-1,-1],"right":[2,4,-1,-1,-1],\
"gain":[8.0,2.5,0.0,0.0,0.0],"cover":[8.0,4.0,4.0,2.0,2.0],"value":[0.0,-1.0,1.0,-2.0,0.5]}
]
}
"""


def model_of_parts(
    loss: Loss, parameters: Mapping[str, Any], features: Sequence[Feature], base_margins: Sequence[float],
    trees: Sequence[Tree], calibration: Expression | None = None,
) -> fb.Model:  # fmt: skip
    """Return the model of an ensemble with these parts."""
    return fb.Model(Ensemble(loss, parameters, tuple(features), tuple(base_margins), tuple(trees), calibration))


def grown(question, output: int = 0) -> Tree:
    """Return a tree of nested tuples: (feature, threshold or set of codes or None, where missing goes, yes, no)."""
    nodes: list[dict] = []

    def grow(question) -> int:
        i = len(nodes)
        node = {"feature": -1, "threshold": None, "categories": None, "missing_left": False, "left": -1, "right": -1,
                "gain": 0.0, "cover": 1.0, "value": 0.0}  # fmt: skip
        nodes.append(node)
        if isinstance(question, float):
            node["value"] = question
            return i
        node["feature"], asked, missing, yes, no = question
        node["categories" if isinstance(asked, set) else "threshold"] = (
            tuple(sorted(asked)) if isinstance(asked, set) else asked
        )
        node["missing_left"] = missing == "left"
        node["left"], node["right"] = grow(yes), grow(no)
        node["cover"] = sum(nodes[child]["cover"] for child in (node["left"], node["right"]))
        return i

    grow(question)
    return Tree(**{name: tuple(node[name] for node in nodes) for name in nodes[0]}, output=output)


def made(features, trees, base=(0.5,), objective="reg:squarederror", **parameters) -> fb.Model:
    base, trees = on_leaf_grid(base, tuple(trees))
    return model_of_parts(get_loss(objective, {"scale_pos_weight": 1.0, **parameters}), {}, features, base, trees)


def nested(model: fb.Model, node: int = 0):
    """Return a model's one tree in the twin's form."""
    row = model.trees.row(node, named=True)
    if row["feature"] is None:
        return row["value"], row["cover"]
    children = nested(model, row["left"]), nested(model, row["right"])
    number = model.features.index(row["feature"])
    return number, row["threshold"], row["missing"], row["gain"], row["cover"], *children

"""Models of CatBoost: from its JSON to the same trees, which predict the same.

Differences to frameboost, and how each is translated:

- Splits are ``float32(x) > border``, and *yes* goes right. That is ``x < u``, *yes* left, with u the smallest float64
  that rounds to a float32 above the border. NaN goes left, or right if trained with ``nan_mode="Max"``.
- A categorical split compares with one hash; *yes* goes right. The model does not keep the categories' names.
- A leaf holds the values of all outputs; here each output has its own trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from frameboost.checks.arguments import values_by_column
from frameboost.checks.json_fields import fail, is_finite, parse_json, shown_json
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.catboost.columns import (
    DAMAGED,
    CatBoostColumns,
    read_columns,
    read_list,
    read_numbers,
    read_whole,
    refuse_statistics,
)
from frameboost.interop.catboost.loss import catboost_loss, class_names
from frameboost.interop.ensemble_checks import checked_ensemble
from frameboost.interop.model_argument import bytes_of_file, comes_from, unreadable
from frameboost.interop.tree_builder import LeafNode, SplitNode, above_float32, build_tree
from frameboost.trees.tree import Tree

__all__ = ["read_catboost"]

_MAX_LEVELS = 64


def read_catboost(model: Any, categories: Mapping[str, Iterable[Any]] | None = None) -> Ensemble:
    """Return a model of CatBoost's as an ensemble that predicts the same (see `frameboost.from_catboost`)."""
    if categories is not None:
        values_by_column("categories", categories)
    document = _parsed(_text(model))
    trees = read_list(document, "trees" if "trees" in document else "oblivious_trees", DAMAGED)
    refuse_statistics(trees)
    columns = read_columns(document, trees, categories or {})
    n_outputs = _n_outputs(trees)
    scale, biases = _scale_and_biases(document, n_outputs)
    built = []
    for number, tree in enumerate(trees):
        where = f"{DAMAGED}, tree {number}"
        read = _symmetric(tree, columns, where) if "trees" not in document else _asymmetric(tree, columns, where)
        built += [_tree(read, output, n_outputs, scale, where) for output in range(n_outputs)]
    loss, parameters = catboost_loss(document, n_outputs)
    features = [column.feature for column in columns.values()]
    return checked_ensemble(loss, parameters, features, biases, built, class_names(document))


def _text(model: Any) -> bytes:
    if (data := bytes_of_file(model, "catboost")) is not None:
        return data
    if not comes_from(model, "catboost") or isinstance(model, type) or not hasattr(model, "save_model"):
        raise unreadable(model, "a model of CatBoost's, or a JSON file of one")
    if not model.is_fitted():
        raise ParameterError(f"the {type(model).__name__} is not fitted")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        return path.read_bytes()


def _parsed(data: bytes) -> dict[str, Any]:
    document = parse_json(data, "not a CatBoost model saved as JSON", DAMAGED)
    if not isinstance(document, dict) or not {"trees", "oblivious_trees"} & set(document):
        raise ModelFileError("not a CatBoost model saved as JSON: it has no trees")
    return document


# --- trees ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """A node of either kind of tree: values and the weight of its rows; of a split also the children."""

    values: list[float]
    weight: float
    question: Mapping[str, Any] | None = None
    left: int = -1
    right: int = -1


def _tree(nodes: Sequence[_Node], output: int, n_outputs: int, scale: float, where: str) -> Tree:
    if any(len(node.values) != n_outputs for node in nodes):
        raise ModelFileError(f"{where}: its leaves must have {n_outputs} values each")

    def look_up(index: int) -> SplitNode | LeafNode:
        node = nodes[index]
        value = node.values[output] * scale
        if node.question is None:
            return LeafNode(value, node.weight)
        return SplitNode(left=node.left, right=node.right, **node.question, cover=node.weight, value=value)

    return build_tree(0, look_up, output)


def _question(split: Any, columns: CatBoostColumns, where: str) -> dict[str, Any]:
    kind = split.get("split_type") if isinstance(split, dict) else None
    if kind == "FloatFeature":
        column = columns.get(("float", read_whole(split, "float_feature_index", where)))
        border = split.get("border")
        if column is None or not is_finite(border):
            raise ModelFileError(f"{where}: a split must have a border and a feature that there is")
        threshold = float(above_float32(np.array([border], dtype=np.float64))[0])
        return {"feature": column.index, "threshold": threshold, "missing_left": not column.nan_goes_right}
    if kind == "OneHotFeature":
        column = columns.get(("cat", read_whole(split, "cat_feature_index", where)))
        codes = None if column is None or column.codes is None else column.codes.get(read_whole(split, "value", where))
        if column is None or codes is None:
            raise ModelFileError(f"{where}: a split asks for a feature that there is not")
        return {"feature": column.index, "categories": codes, "missing_left": True}
    raise ParameterError(f"the CatBoost model has splits of the kind {shown_json(kind)}, which are not supported")


def _symmetric(tree: Any, columns: CatBoostColumns, where: str) -> list[_Node]:
    """Return the nodes of a symmetric tree, level by level.

    All nodes of a level have one split. Bit i of a leaf's number is the answer to split i: with two splits, leaf 2
    (binary 10) has answered no to split 0 and yes to split 1.
    """
    questions = [_question(split, columns, where) for split in read_list(tree, "splits", where)]
    values, depth = read_numbers(tree, "leaf_values", where), len(questions)
    if depth > _MAX_LEVELS or not values or len(values) % 2**depth:
        raise ModelFileError(f"{where}: it has {len(values)} leaf values, which do not go with {depth} splits")
    weights = read_numbers(tree, "leaf_weights", where) if tree.get("leaf_weights") else [1.0] * 2**depth
    if len(weights) != 2**depth:
        raise ModelFileError(f"{where}: it has {len(weights)} leaf weights, not {2**depth}")
    size = len(values) // 2**depth
    # From the leaves up. A node's number within its level has the answers so far as bits.
    levels = [[_Node(values[i * size : (i + 1) * size], weight) for i, weight in enumerate(weights)]]
    for level in reversed(range(depth)):
        below = levels[0]
        first = 2 ** (level + 1) - 1  # the number of the first node of the level below
        levels.insert(0, [
            _above(below[i], below[i + 2**level], questions[level], first + i, first + i + 2**level)
            for i in range(2**level)
        ])  # fmt: skip
    return [node for nodes in levels for node in nodes]


def _above(left: _Node, right: _Node, question: Mapping[str, Any], left_index: int, right_index: int) -> _Node:
    """Return the parent of two nodes, with the weighted mean of their values as its value."""
    weight = left.weight + right.weight
    share = left.weight / weight if weight else 0.5
    values = [a * share + b * (1 - share) for a, b in zip(left.values, right.values, strict=False)]
    return _Node(values, weight, question, left_index, right_index)


def _asymmetric(tree: Any, columns: CatBoostColumns, where: str) -> list[_Node]:
    """Return the nodes of a tree of nested objects, parents first."""
    items, children = [tree], {}
    for index, item in enumerate(items):  # the list grows while it is read: breadth-first order
        if isinstance(item, dict) and "split" in item:
            children[index] = len(items), len(items) + 1
            items += [item.get("left"), item.get("right")]
    nodes: dict[int, _Node] = {}
    for index in reversed(range(len(items))):
        item = items[index]
        if index in children:
            left, right = children[index]
            nodes[index] = _above(nodes[left], nodes[right], _question(item["split"], columns, where), left, right)
        else:
            value = item.get("value") if isinstance(item, dict) else None
            weight = item.get("weight", 1.0) if isinstance(item, dict) else None
            values = value if isinstance(value, list) else [value]
            if not values or not all(map(is_finite, [*values, weight])):
                raise ModelFileError(f"{where}: a node must have a split, or a value and a weight")
            nodes[index] = _Node(list(map(float, values)), float(weight))  # type: ignore[arg-type]
    return [nodes[index] for index in range(len(items))]


def _n_outputs(trees: Sequence[Any]) -> int:
    """Return the number of values in a leaf."""
    if not trees:
        raise ModelFileError("the model has no trees")
    tree, where = trees[0], f"{DAMAGED}, tree 0"
    if isinstance(tree, dict) and "splits" in tree:
        splits, values = (read_list(tree, key, where) for key in ("splits", "leaf_values"))
        return max(1, len(values) >> min(len(splits), _MAX_LEVELS))
    while isinstance(tree, dict) and "split" in tree:
        tree = tree.get("left")
    value = tree.get("value") if isinstance(tree, dict) else None
    return len(value) if isinstance(value, list) else 1


def _scale_and_biases(document: Mapping[str, Any], n_outputs: int) -> tuple[float, list[float]]:
    given = document.get("scale_and_bias", [1, [0.0] * n_outputs])
    scale, biases = given if isinstance(given, list) and len(given) == 2 else (None, None)
    biases = biases if isinstance(biases, list) else [biases] * n_outputs
    if len(biases) != n_outputs or not all(map(is_finite, [scale, *biases])):
        fail(DAMAGED, "scale_and_bias", f"a number and {n_outputs} more", given)
    return float(scale), list(map(float, biases))  # type: ignore[arg-type]

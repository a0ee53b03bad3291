"""Read CatBoost models from JSON, with the same trees and predictions.

Differences to frameboost, and how each is translated:

- Splits are ``float32(x) > border``, and *yes* goes right. That is ``x < u``, *yes* left, with u the smallest float64
  that rounds to a float32 above the border. NaN goes left, or right if trained with ``nan_mode="Max"``.
- A categorical split compares with one hash; *yes* goes right. The model does not store the categories' names.
- A leaf holds the values of all outputs; here each output has separate trees.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from frameboost.checks.arguments import values_by_column
from frameboost.checks.json_files import fail, is_finite, is_integer, parse_json, shown_json
from frameboost.checks.messages import advice, reason, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import FrameboostError, ModelFileError, ParameterError
from frameboost.interop.ensembles import (
    LeafNode,
    SplitNode,
    above_float32,
    build_tree,
    category_codes,
    checked_ensemble,
    checked_names,
    native_loss,
)
from frameboost.interop.files import bytes_of_file, comes_from, unreadable
from frameboost.losses.custom import foreign_loss
from frameboost.losses.loss import Loss, margin_names
from frameboost.schema.types import Feature, FeatureType, Physical
from frameboost.trees.tree import Tree

__all__ = ["categorical_names", "category_hash", "read_catboost"]

_DAMAGED = "damaged CatBoost model"
_MAX_LEVELS = 64


def read_catboost(model: Any, categories: Mapping[str, Iterable[Any]] | None = None) -> Ensemble:
    """Return a CatBoost model as an ensemble with the same predictions (see `frameboost.from_catboost`)."""
    if categories is not None:
        values_by_column("categories", categories)
    document = _parsed(_text(model))
    trees = _read_list(document, "trees" if "trees" in document else "oblivious_trees", _DAMAGED)
    _refuse_statistics(trees)
    columns = _read_columns(document, trees, categories or {})
    n_outputs = _n_outputs(trees)
    scale, biases = _scale_and_biases(document, n_outputs)
    built = []
    for number, tree in enumerate(trees):
        where = f"{_DAMAGED}, tree {number}"
        read = _symmetric(tree, columns, where) if "trees" not in document else _asymmetric(tree, columns, where)
        built += [_tree(read, output, n_outputs, scale, where) for output in range(n_outputs)]
    loss, parameters = _loss(document, n_outputs)
    features = [column.feature for column in columns.values()]
    return checked_ensemble(loss, parameters, features, biases, built, _class_names(document), library="catboost")


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
    document = parse_json(data, "not a CatBoost model saved as JSON", _DAMAGED)
    if not isinstance(document, dict) or not {"trees", "oblivious_trees"} & set(document):
        raise ModelFileError("not a CatBoost model saved as JSON: it has no trees")
    return document


def categorical_names(data: bytes) -> list[str]:
    """Return the names of a CatBoost model's categorical columns that need ``categories``."""
    document = parse_json(data, "not a CatBoost model saved as JSON", _DAMAGED)
    document = document if isinstance(document, dict) else {}
    for trees in (document.get(key) for key in ("trees", "oblivious_trees")):
        _refuse_statistics(trees if isinstance(trees, list) else [])
    info = document.get("features_info")
    items = info.get("categorical_features") if isinstance(info, dict) else None
    features = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return [str(item.get("feature_id") or item.get("flat_feature_index")) for item in features]


# --- trees ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """A node of either kind of tree: values and the weight of its rows; a split also has children."""

    values: list[float]
    weight: float
    condition: Mapping[str, Any] | None = None
    left: int = -1
    right: int = -1


def _tree(nodes: Sequence[_Node], output: int, n_outputs: int, scale: float, where: str) -> Tree:
    if any(len(node.values) != n_outputs for node in nodes):
        raise ModelFileError(f"{where}: its leaves must have {n_outputs} values each")

    def look_up(index: int) -> SplitNode | LeafNode:
        node = nodes[index]
        value = node.values[output] * scale
        if node.condition is None:
            return LeafNode(value, node.weight)
        return SplitNode(left=node.left, right=node.right, **node.condition, cover=node.weight, value=value)

    return build_tree(0, look_up, output)


def _condition(split: Any, columns: _Columns, where: str) -> dict[str, Any]:
    kind = split.get("split_type") if isinstance(split, dict) else None
    if kind == "FloatFeature":
        column = columns.get(("float", _read_whole(split, "float_feature_index", where)))
        border = split.get("border")
        if column is None or not is_finite(border):
            raise ModelFileError(f"{where}: a split must have a border and a known feature")
        threshold = float(above_float32(np.array([border], dtype=np.float64))[0])
        return {"feature": column.index, "threshold": threshold, "missing_left": not column.nan_goes_right}
    if kind == "OneHotFeature":
        column = columns.get(("cat", _read_whole(split, "cat_feature_index", where)))
        codes = None if column is None or column.codes is None else column.codes.get(_read_whole(split, "value", where))
        if column is None or codes is None:
            raise ModelFileError(f"{where}: a split is on an unknown feature")
        return {"feature": column.index, "categories": codes, "missing_left": True}
    raise ParameterError(f"the CatBoost model has splits of the kind {shown_json(kind)}, which are not supported")


def _symmetric(tree: Any, columns: _Columns, where: str) -> list[_Node]:
    """Return the nodes of a symmetric tree, level by level.

    All nodes of a level have the same split. Bit i of a leaf index is whether the condition of split i holds: with two
    splits, leaf 2 (binary 10) is where split 0 does not hold and split 1 does.
    """
    conditions = [_condition(split, columns, where) for split in _read_list(tree, "splits", where)]
    values, depth = _read_numbers(tree, "leaf_values", where), len(conditions)
    if depth > _MAX_LEVELS or not values or len(values) % 2**depth:
        raise ModelFileError(f"{where}: it has {len(values)} leaf values, which do not match {depth} splits")
    weights = _read_numbers(tree, "leaf_weights", where) if tree.get("leaf_weights") else [1.0] * 2**depth
    if len(weights) != 2**depth:
        raise ModelFileError(f"{where}: it has {len(weights)} leaf weights, not {2**depth}")
    size = len(values) // 2**depth
    # From the leaves up. A node's number within its level has the sides so far as bits.
    levels = [[_Node(values[i * size : (i + 1) * size], weight) for i, weight in enumerate(weights)]]
    for level in reversed(range(depth)):
        below = levels[0]
        first = 2 ** (level + 1) - 1  # the number of the first node of the level below
        levels.insert(0, [
            _above(below[i], below[i + 2**level], conditions[level], first + i, first + i + 2**level)
            for i in range(2**level)
        ])  # fmt: skip
    return [node for nodes in levels for node in nodes]


def _above(left: _Node, right: _Node, condition: Mapping[str, Any], left_index: int, right_index: int) -> _Node:
    """Return the parent of two nodes, with the weighted mean of their values as its value."""
    weight = left.weight + right.weight
    share = left.weight / weight if weight else 0.5
    values = [a * share + b * (1 - share) for a, b in zip(left.values, right.values, strict=False)]
    return _Node(values, weight, condition, left_index, right_index)


def _asymmetric(tree: Any, columns: _Columns, where: str) -> list[_Node]:
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
            nodes[index] = _above(nodes[left], nodes[right], _condition(item["split"], columns, where), left, right)
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
    tree, where = trees[0], f"{_DAMAGED}, tree 0"
    if isinstance(tree, dict) and "splits" in tree:
        splits, values = (_read_list(tree, key, where) for key in ("splits", "leaf_values"))
        return max(1, len(values) >> min(len(splits), _MAX_LEVELS))
    while isinstance(tree, dict) and "split" in tree:
        tree = tree.get("left")
    value = tree.get("value") if isinstance(tree, dict) else None
    return len(value) if isinstance(value, list) else 1


def _scale_and_biases(document: Mapping[str, Any], n_outputs: int) -> tuple[float, list[float]]:
    both = document.get("scale_and_bias", [1, [0.0] * n_outputs])
    scale, biases = both if isinstance(both, list) and len(both) == 2 else (None, None)
    biases = biases if isinstance(biases, list) else [biases] * n_outputs
    if len(biases) != n_outputs or not all(map(is_finite, [scale, *biases])):
        fail(_DAMAGED, "scale_and_bias", f"a number and {n_outputs} more", both)
    return float(scale), list(map(float, biases))  # type: ignore[arg-type]


# --- columns ----------------------------------------------------------------------------------------------------------

_NAN_GOES_RIGHT = {"AsIs": False, "AsFalse": False, "AsTrue": True}


@dataclass(frozen=True)
class _Column:
    """A feature, its index, and for a categorical one the codes of each hash (several if hashes collide)."""

    feature: Feature
    index: int
    nan_goes_right: bool = False
    codes: Mapping[int, tuple[int, ...]] | None = None


# The key is the kind, "float" or "cat", and CatBoost's number within the kind.
_Columns = Mapping[tuple[str, int], _Column]


def _read_columns(
    document: Mapping[str, Any], trees: Sequence[Any], categories: Mapping[str, Iterable[Any]]
) -> _Columns:
    """Return the columns of a model.

    Raises
    ------
    ModelFileError
        If their descriptions are damaged.
    ParameterError
        If ``categories`` lacks a column, or contains one that is not categorical.
    """
    described = _descriptions(document)
    names = checked_names([item.get("feature_id") or str(flat) for flat, _, item in described])
    categorical = [name for name, (_, kind, _) in zip(names, described, strict=True) if kind == "cat"]
    for name in categories:
        if name not in categorical:
            raise ParameterError(f"categories names {shown(name)}, which is not a categorical column of the model")
    split_hashes = _split_hashes(trees)
    columns: dict[tuple[str, int], _Column] = {}
    for name, (_, kind, item) in zip(names, described, strict=True):
        key_of_column = (kind, item["feature_index"])
        if key_of_column in columns:
            raise ModelFileError(f"{_DAMAGED}: two features have the same number")
        if kind == "float":
            treatment = item.get("nan_value_treatment", "AsIs")
            if not isinstance(treatment, str) or treatment not in _NAN_GOES_RIGHT:
                fail(
                    f"{_DAMAGED}, feature {shown_json(name)}",
                    "nan_value_treatment",
                    "AsIs, AsFalse or AsTrue",
                    treatment,
                )
            feature = Feature(name, FeatureType("float64"))
            columns[key_of_column] = _Column(feature, len(columns), _NAN_GOES_RIGHT[treatment])
        elif name in categories or item["feature_index"] in split_hashes:
            hashes = split_hashes.get(item["feature_index"], set())
            columns[key_of_column] = _categorical(name, hashes, categories.get(name), len(columns))
    if not columns:
        raise ModelFileError("the model has no features")
    return columns


def _descriptions(document: Mapping[str, Any]) -> list[tuple[int, str, dict[str, Any]]]:
    """Return each column's index among all, its kind and its description."""
    info, described = document.get("features_info"), []
    for kind, key in (("float", "float_features"), ("cat", "categorical_features")):
        for item in _read_list(info, key, _DAMAGED) if isinstance(info, dict) and key in info else []:
            if not isinstance(item, dict):
                raise ModelFileError(f"{_DAMAGED}: a feature must be an object, not {shown_json(item)}")
            indices = [_read_whole(item, number, _DAMAGED) for number in ("flat_feature_index", "feature_index")]
            described.append((indices[0], kind, item))
    return sorted(described, key=lambda entry: entry[:2])


def _refuse_statistics(trees: Sequence[Any]) -> None:
    """Raise `ParameterError` if splits compare statistics of categories."""
    if any(split.get("split_type") == "OnlineCtr" for split in _splits(trees)):
        raise ParameterError(
            "the CatBoost model has splits on statistics of categories (CTRs), which are not supported; train it with "
            "one_hot_max_size not less than the number of categories"
        )


def _splits(trees: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """Yield the splits of all trees that are objects; reading the trees reports any others."""
    waiting = list(trees)
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        splits = node.get("splits")
        both = [node.get("split"), *(splits if isinstance(splits, list) else [])]
        yield from (split for split in both if isinstance(split, dict))
        waiting += [node.get("left"), node.get("right")]


def _split_hashes(trees: Sequence[Any]) -> dict[int, set[int]]:
    """Return for each categorical feature the hashes in its splits."""
    hashes: dict[int, set[int]] = {}
    for split in _splits(trees):
        if split.get("split_type") == "OneHotFeature":
            feature, value = split.get("cat_feature_index"), split.get("value")
            if is_integer(feature) and is_integer(value):
                hashes.setdefault(feature, set()).add(value)  # type: ignore[arg-type]
    return hashes


def _categorical(name: str, hashes: set[int], known: Iterable[Any] | None, index: int) -> _Column:
    if known is None:
        way = advice(f"categories={{{shown(name)}: [...]}}", "a table, frameboost convert --categories DATA")
        raise ParameterError(
            f"the CatBoost model knows the categories of column {shown(name)} only by their hashes; pass them as {way}"
        )
    if isinstance(known, str | bytes | Mapping) or not isinstance(known, Iterable) or hasattr(known, "columns"):
        raise ParameterError(f"the categories of column {shown(name)} must be a list of values, not {shown(known)}")
    plain = [value.item() if isinstance(value, np.generic) else value for value in known]
    for value in plain:
        if value is not None and not isinstance(value, str | int | float):
            raise ParameterError(
                f"the categories of column {shown(name)} must be all strings or all whole numbers, not {shown(value)}"
            )
    present = list(dict.fromkeys(v for v in plain if v is not None))
    feature, _ = category_codes(present, name, "column")
    codes: dict[int, tuple[int, ...]] = {}
    for code, category in enumerate(feature.categories):
        number = category_hash(category)  # of Booleans as of 0 and 1
        codes[number] = (*codes.get(number, ()), code)
    if unknown := hashes - set(codes):
        raise ParameterError(
            f"the CatBoost model splits column {shown(name)} on {len(unknown)} categories that are not among the "
            f"{len(feature.categories)} passed"
        )
    return _Column(feature, index, codes=codes)


def category_hash(category: Physical) -> int:
    """Return the signed 32-bit hash of a category in CatBoost's models.

    Raises
    ------
    ParameterError
        If the library with the hash is not installed.

    Examples
    --------
    >>> # needs clickhouse_cityhash
    >>> category_hash("x"), category_hash(1) == category_hash("1")
    (-784473192, True)
    """
    try:
        from clickhouse_cityhash.cityhash import CityHash64
    except ImportError as error:
        raise ParameterError(
            "categories of CatBoost need clickhouse-cityhash: pip install frameboost[catboost]"
        ) from error
    low = int(CityHash64(str(category).encode("utf-8"))) & 0xFFFFFFFF
    return low - 2**32 if low >= 2**31 else low


# --- losses and their links -------------------------------------------------------------------------------------------

# Losses that frameboost has too: its name, and its parameters with CatBoost's names and defaults.
_COUNTERPARTS: dict[str, tuple[str, dict[str, tuple[str, str]]]] = {
    "RMSE": ("reg:squarederror", {}),
    "MAE": ("reg:absoluteerror", {}),
    "Quantile": ("reg:quantileerror", {"quantile_alpha": ("alpha", "0.5")}),
    "Poisson": ("count:poisson", {"max_delta_step": ("max_delta_step", "0.7")}),
    "Tweedie": ("reg:tweedie", {"tweedie_variance_power": ("variance_power", "1.5")}),
    "Logloss": ("binary:logistic", {}),
    "CrossEntropy": ("reg:logistic", {}),
}


def _loss(document: Mapping[str, Any], n_outputs: int) -> tuple[Loss, dict[str, Any]]:
    """Return the loss of a model, and the parameters that it takes.

    For most losses, and without a loss, as in a sum of models, CatBoost predicts the margin itself.

    Raises
    ------
    ModelFileError
        If the loss does not match the number of outputs.
    """
    name, options = _loss_function(document)
    margins = margin_names(n_outputs)
    sigmoids = [f"1 / (1 + EXP(-{margin}))" for margin in margins]
    if name == "MultiClass" and n_outputs > 1:
        return native_loss("multi:softprob", {"num_class": n_outputs})
    if name == "MultiClassOneVsAll" and n_outputs > 1:
        return foreign_loss("catboost:MultiClassOneVsAll", sigmoids, classes=n_outputs), {}
    if name in ("MultiLogloss", "MultiCrossEntropy"):
        return foreign_loss(f"catboost:{name}", sigmoids), {}
    if name == "RMSEWithUncertainty" and n_outputs == 2:
        return foreign_loss("catboost:RMSEWithUncertainty", ["margin_0", "EXP(2 * margin_1)"]), {}
    if name == "Focal" and n_outputs == 1:
        return foreign_loss("catboost:Focal", sigmoids, classes=2), {}
    if name in (*_COUNTERPARTS, "MultiClass", "MultiClassOneVsAll", "RMSEWithUncertainty", "Focal"):
        if n_outputs > 1 or name not in _COUNTERPARTS:
            raise ModelFileError(f"damaged CatBoost model: the loss {shown(name)} does not match {n_outputs} outputs")
        counterpart, options_by_name = _COUNTERPARTS[name]
        try:
            return native_loss(
                counterpart, {ours: float(options.get(*theirs)) for ours, theirs in options_by_name.items()}
            )
        except (FrameboostError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"damaged CatBoost model: the loss {shown(name)} has parameters {shown_json(options)}"
            ) from error
    return foreign_loss(f"catboost:{name}", margins), {}


def _class_names(document: Mapping[str, Any]) -> list[Any] | None:
    """Return the class labels, None if the model has none."""
    info = document.get("model_info")
    classes = info.get("class_params") if isinstance(info, dict) else None
    names = classes.get("class_names") if isinstance(classes, dict) else None
    return names if isinstance(names, list) else None


def _loss_function(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the loss and its parameters."""
    info = document.get("model_info")
    parameters = info.get("params") if isinstance(info, dict) else None
    if isinstance(parameters, str):  # as older releases wrote it
        try:
            parameters = json.loads(parameters)
        except (ValueError, RecursionError) as error:
            raise ModelFileError(f"damaged CatBoost model: its params are not JSON ({reason(error)})") from error
    loss = parameters.get("loss_function") if isinstance(parameters, dict) else None
    if loss is None:
        return "unknown", {}
    name, options = (loss.get("type"), loss.get("params", {})) if isinstance(loss, dict) else (None, None)
    if not isinstance(name, str) or not name.isidentifier() or not isinstance(options, dict):
        raise ModelFileError(f"damaged CatBoost model: its loss_function is {shown_json(loss)}")
    return name, options


# --- checked fields of the document -----------------------------------------------------------------------------------


def _read_list(item: Any, key: str, where: str) -> list[Any]:
    """Return a field that must be a list; the item must be an object."""
    value = item.get(key) if isinstance(item, dict) else None
    if not isinstance(value, list):
        fail(where, key, "a list", value)
    return value


def _read_numbers(item: Any, key: str, where: str) -> list[float]:
    """Return a field that must be a list of finite numbers."""
    values = _read_list(item, key, where)
    if not all(map(is_finite, values)):
        fail(where, key, "a list of finite numbers", values)
    return list(map(float, values))


def _read_whole(item: Mapping[str, Any], key: str, where: str) -> int:
    """Return a field that must be a whole number."""
    value = item.get(key)
    if not is_integer(value):
        fail(where, key, "a whole number", value)
    return int(value)  # type: ignore[arg-type]

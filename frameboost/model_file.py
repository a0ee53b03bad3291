"""The model file: JSON, one text for one model, checked to the last number when it is read.

``docs/model-file.md`` documents it field by field.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from frameboost.errors import FrameboostError, ModelFileError
from frameboost.leaf_grid import on_leaf_grid
from frameboost.objectives import get_objective
from frameboost.parameters import Parameters
from frameboost.schema import Feature
from frameboost.tree import LEAF, Tree
from frameboost.types import FeatureType, Physical

__all__ = ["FORMAT", "VERSION", "ModelParts", "dump_model", "read_model"]

FORMAT = "frameboost"
VERSION = 1

_FIELDS = ("format", "version", "objective", "parameters", "base_margin", "features", "trees")
_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}
_TREE_FIELDS = (
    "feature",
    "threshold",
    "categories",
    "missing_left",
    "left",
    "right",
    "gain",
    "cover",
    "value",
)


@dataclass(frozen=True)
class ModelParts:
    """What a model file holds."""

    objective: str
    parameters: Mapping[str, Any]
    features: tuple[Feature, ...]
    base_margin: float
    trees: tuple[Tree, ...]


# --- writing ----------------------------------------------------------------------------------------------------------


def dump_model(parts: ModelParts) -> str:
    """Return the text of a model file: a line a feature and a tree, so that two models can be compared by diff."""
    features = [
        {"name": f.name, "type": f.type.name} | ({"categories": list(f.categories)} if f.type.is_categorical else {})
        for f in parts.features
    ]
    trees = [
        {field: getattr(tree, field) for field in _TREE_FIELDS} | {"threshold": list(map(_writable, tree.threshold))}
        for tree in parts.trees
    ]
    head = {
        "format": FORMAT,
        "version": VERSION,
        "objective": parts.objective,
        "parameters": dict(sorted(parts.parameters.items())),
        "base_margin": parts.base_margin,
    }
    lines = [f"{_text(key)}: {_text(value)}" for key, value in head.items()]
    lines += [f"{_text(key)}: [\n{_lines(items)}\n]" for key, items in (("features", features), ("trees", trees))]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _text(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _lines(items: Sequence[object]) -> str:
    return ",\n".join(map(_text, items))


def _writable(threshold: Physical | None) -> Physical | None:
    """JSON has no infinities; a threshold may be one where the data held one."""
    if isinstance(threshold, float) and math.isinf(threshold):
        return "Infinity" if threshold > 0 else "-Infinity"
    return threshold


# --- reading ----------------------------------------------------------------------------------------------------------


def read_model(data: bytes) -> ModelParts:
    """Read and check a model file.

    Raises
    ------
    ModelFileError
        Which says what is wrong, and where.
    """
    document = _parse(data)
    if not isinstance(document, dict):
        raise ModelFileError("not a frameboost model: the file holds no JSON object")
    if document.get("format") != FORMAT:
        _fail("not a frameboost model", "format", f'"{FORMAT}"', document.get("format"))
    version = document.get("version")
    if not _is_integer(version) or version != VERSION:
        raise ModelFileError(f"the model file has version {_shown(version)}; this release reads version {VERSION}")
    _check_keys(document, _FIELDS, "damaged model")
    objective, parameters = _objective(document), _parameters(document)
    features = tuple(_feature(item, i) for i, item in enumerate(_list(document, "features")))
    if not features:
        raise ModelFileError("damaged model: it has no features")
    names = [f.name for f in features]
    if len(set(names)) < len(names):
        raise ModelFileError("damaged model: two features have the same name")
    base_margin = _number(document, "base_margin")
    trees = tuple(_tree(item, i, features) for i, item in enumerate(_list(document, "trees")))
    if not trees:
        raise ModelFileError("damaged model: it has no trees")
    _check_sums(base_margin, trees)
    return ModelParts(objective, parameters, features, base_margin, trees)


def _parse(data: bytes) -> object:
    try:
        text = data.decode("utf-8")
        document = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
        # JSON may spell halves of characters, which no column name or category can hold.
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError also for bad UTF-8 and for numbers of absurd length
        raise ModelFileError(f"not a frameboost model: the file is not JSON ({error})") from error
    return document


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ModelFileError(f"damaged model: an object has {_shown(twice)} twice")
    return item


def _check_keys(item: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in item:
        if key not in known:
            raise ModelFileError(f"{where}: unknown field {_shown(key)}")


def _refuse_constant(name: str) -> NoReturn:
    raise ModelFileError(f"damaged model: it holds {name}, and every number must be finite")


def _fail(where: str, key: str, wanted: str, found: object) -> NoReturn:
    raise ModelFileError(f'{where}: "{key}" must be {wanted}, not {_shown(found)}')


def _shown(found: object) -> str:
    try:
        text = json.dumps(found, ensure_ascii=False)  # 1e999 is read as an infinity
    except RecursionError:
        return "lists in lists without end"
    return text if len(text) <= 60 else text[:57] + "..."


def _objective(document: Mapping[str, Any]) -> str:
    name = document.get("objective")
    try:
        return get_objective(name).name  # type: ignore[arg-type]
    except FrameboostError as error:
        raise ModelFileError(f"damaged model: {error}") from error


def _parameters(document: Mapping[str, Any]) -> dict[str, Any]:
    given = document.get("parameters")
    if not isinstance(given, dict):
        _fail("damaged model", "parameters", "an object", given)
    try:
        read = Parameters.from_keywords(given).shaping()
    except FrameboostError as error:
        raise ModelFileError(f"damaged model: {error}") from error
    _check_keys(given, tuple(read), "damaged model, parameters")
    for name, value in given.items():
        if value != read[name]:  # "auto", say, which shapes no model
            _fail("damaged model, parameters", name, _text(read[name]), value)
    # Of those that an older release did not know nothing is made up.
    return {name: read[name] for name in given}


def _list(item: Mapping[str, Any], key: str, where: str = "damaged model") -> list[Any]:
    value = item.get(key)
    if not isinstance(value, list):
        _fail(where, key, "a list", value)
    return value


def _number(item: Mapping[str, Any], key: str) -> float:
    value = item.get(key)
    if not _is_finite(value):
        _fail("damaged model", key, "a finite number", value)
    return float(value)  # type: ignore[arg-type]


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _feature(item: object, number: int) -> Feature:
    where = f"damaged model, feature {number}"
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        raise ModelFileError(f"{where}: it must be an object with a name")
    _check_keys(item, ("name", "type", "categories"), where)
    try:
        kind = FeatureType(item.get("type"))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        _fail(where, "type", "a feature type", item.get("type"))
    if not kind.is_categorical:
        _check_keys(item, ("name", "type"), where)
        return Feature(item["name"], kind)
    categories = _list(item, "categories", where)
    if not all(isinstance(c, str) for c in categories) or sorted(set(categories)) != categories:
        _fail(where, "categories", "sorted, distinct strings", categories)
    return Feature(item["name"], kind, tuple(categories))


def _tree(item: object, number: int, features: Sequence[Feature]) -> Tree:
    where = f"damaged model, tree {number}"
    if not isinstance(item, dict):
        raise ModelFileError(f"{where}: it must be an object")
    _check_keys(item, _TREE_FIELDS, where)
    columns = {field: _list(item, field, where) for field in _TREE_FIELDS}
    size = len(columns["feature"])
    if size == 0:
        raise ModelFileError(f"{where}: it has no nodes")
    for field, values in columns.items():
        if len(values) != size:
            raise ModelFileError(f'{where}: "{field}" has {len(values)} entries, "feature" has {size}')

    def each(field: str, wanted: str, is_valid: Callable[[Any], bool]) -> list[Any]:
        for node, value in enumerate(columns[field]):
            if not is_valid(value):
                _fail(f"{where}, node {node}", field, wanted, value)
        return columns[field]

    feature = each("feature", f"{LEAF} or a feature's number", lambda v: _is_integer(v) and LEAF <= v < len(features))
    missing_left = each("missing_left", "true or false", lambda v: isinstance(v, bool))
    sums = {
        field: tuple(map(float, each(field, "a finite number", _is_finite))) for field in ("gain", "cover", "value")
    }
    _check_children(columns, feature, where)
    threshold, categories = [], []
    for node, asked in enumerate(feature):
        place = f"{where}, node {node}"
        t, c = columns["threshold"][node], columns["categories"][node]
        if asked == LEAF and (t is not None or c is not None or missing_left[node] or sums["gain"][node]):
            raise ModelFileError(f"{place}: a leaf has no threshold, no categories, no missing_left and no gain")
        threshold.append(_threshold(t, features[asked], place) if asked != LEAF else None)
        categories.append(_categories(c, features[asked], place) if asked != LEAF else None)
        if asked != LEAF and t is None and c is None and missing_left[node]:
            raise ModelFileError(f"{place}: a split on whether the value is present sends missing right")
    return Tree(
        feature=tuple(feature),
        threshold=tuple(threshold),
        categories=tuple(categories),
        missing_left=tuple(missing_left),
        left=tuple(columns["left"]),
        right=tuple(columns["right"]),
        **sums,
    )


def _check_children(columns: Mapping[str, list[Any]], feature: Sequence[int], where: str) -> None:
    """Make sure that the nodes form one tree: each but the root has one parent, which comes before it."""
    size = len(feature)
    parents = [0] * size
    for node, asked in enumerate(feature):
        for side in ("left", "right"):
            child = columns[side][node]
            if asked == LEAF:
                if child != LEAF or isinstance(child, bool):
                    _fail(f"{where}, node {node}", side, f"{LEAF} in a leaf", child)
            elif not _is_integer(child) or not node < child < size:
                _fail(f"{where}, node {node}", side, f"a node after it and below {size}", child)
            else:
                parents[child] += 1
    for node in range(1, size):
        if parents[node] != 1:
            raise ModelFileError(f"{where}, node {node}: it has {parents[node]} parents, and must have 1")


def _check_sums(base_margin: float, trees: Sequence[Tree]) -> None:
    """Make sure that every sum of leaves is finite and exact, so that it is the same wherever it is taken."""
    largest = [abs(base_margin), *(max(abs(tree.value[leaf]) for leaf in tree.leaves()) for tree in trees)]
    if not math.isfinite(sum(largest)):
        raise ModelFileError("damaged model: its margins are not finite")
    leaves = [
        replace(tree, value=tuple(v if tree.is_leaf(node) else 0.0 for node, v in enumerate(tree.value)))
        for tree in trees
    ]
    base_on_grid, on_grid = on_leaf_grid(base_margin, leaves)
    if base_on_grid != base_margin:
        _fail("damaged model", "base_margin", "on the grid of the leaf values", base_margin)
    for number, (tree, rounded) in enumerate(zip(leaves, on_grid, strict=True)):
        for node, value in enumerate(tree.value):
            if rounded.value[node] != value:
                _fail(f"damaged model, tree {number}, node {node}", "value", "on the grid of the leaf values", value)


def _threshold(value: object, feature: Feature, where: str) -> Physical | None:
    if value is None:
        return None
    kind = feature.type
    if kind.is_float and value in ("Infinity", "-Infinity"):
        return _INFINITE[str(value)]
    if kind.is_float and _is_finite(value):
        value = float(value)  # type: ignore[arg-type]
        if kind.at_least(Fraction(value)) != value:
            _fail(where, "threshold", f"a value of type {kind}", value)
    if kind.is_categorical or not kind.accepts(value):
        _fail(where, "threshold", f"a value of type {kind}", value)
    return value  # type: ignore[return-value]


def _categories(value: object, feature: Feature, where: str) -> tuple[int, ...] | None:
    if value is None:
        if feature.type.is_categorical:
            _fail(where, "categories", "a list of category numbers", value)
        return None
    size = len(feature.categories)
    valid = (
        feature.type.is_categorical
        and isinstance(value, list)
        and len(value) > 0
        and all(_is_integer(code) and 0 <= code < size for code in value)
        and sorted(set(value)) == value
    )
    if not valid:
        _fail(where, "categories", f"sorted, distinct numbers below {size}, on a string feature", value)
    return tuple(value)  # type: ignore[arg-type]

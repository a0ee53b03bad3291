"""The trees of a model file, checked node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import lt
from typing import Any

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list
from frameboost.ensemble.linear_file import check_linear, linear_field, read_linear
from frameboost.errors import ModelFileError
from frameboost.schema.types import Feature, FeatureType, Physical
from frameboost.trees.tree import LEAF, Tree

__all__ = ["check_tree", "read_float", "read_tree", "tree_fields", "writable"]

_FLOAT64 = FeatureType("float64")
_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}
_FIELDS = (
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


def tree_fields(tree: Tree, n_outputs: int) -> dict[str, Any]:
    """Return a tree as an object for JSON; in a model with one output the tree does not name it."""
    return (
        ({} if n_outputs == 1 else {"output": tree.output})
        | {field: getattr(tree, field) for field in _FIELDS}
        | {"threshold": list(map(writable, tree.threshold))}
        | ({"with_missing": tree.with_missing} if any(tree.with_missing) else {})
        | ({"linear": linear_field(tree)} if tree.linear else {})
    )


def writable(value: Physical | None) -> Physical | None:
    """Return a threshold or a category for JSON, which has no infinities; data with infinities lead to such ones."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def read_float(kind: FeatureType, value: object) -> float | None:
    """Return a number of JSON as `writable` writes it; None of what is no value of a type of floats."""
    if value in ("Infinity", "-Infinity"):
        return _INFINITE[str(value)]
    if not is_finite(value):
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if kind.holds(number) else None


def read_tree(item: object, number: int, features: Sequence[Feature], n_outputs: int) -> Tree:
    """Return the tree of that number; raise `ModelFileError` that names the node and field that are wrong."""
    where = f"damaged model, tree {number}"
    if not isinstance(item, dict):
        raise ModelFileError(f"{where}: it must be an object")
    check_keys(item, (*_FIELDS, "with_missing", "linear", *(("output",) if n_outputs > 1 else ())), where)
    output = item.get("output", 0)
    if not is_integer(output) or not 0 <= output < n_outputs:
        fail(where, "output", f"a number from 0 to {n_outputs - 1}", output)
    fields = (*_FIELDS, "with_missing") if "with_missing" in item else _FIELDS
    columns = {field: read_list(item, field, where) for field in fields}
    size = len(columns["feature"])
    if size == 0:
        raise ModelFileError(f"{where}: it has no nodes")
    for field, values in columns.items():
        if len(values) != size:
            raise ModelFileError(f'{where}: "{field}" has {len(values)} entries, "feature" has {size}')
    if _is_plain(columns, features):
        tree = Tree(**{field: tuple(values) for field, values in columns.items()}, output=output)
    else:
        tree = _read_nodes(columns, features, output, where)
    if "linear" in item:
        tree = replace(tree, linear=read_linear(item, size, where))
        check_linear(tree, features, where)
    return tree


def check_tree(tree: Tree, number: int, features: Sequence[Feature], n_outputs: int) -> Tree:
    """Return a tree that was read from columns, looked at node by node as `read_tree` does."""
    fields = tree_fields(tree, n_outputs) | ({"output": tree.output} if tree.output else {})
    return read_tree(_as_parsed(fields), number, features, n_outputs)


def _as_parsed(value: Any) -> Any:
    """Return fields as they come from JSON, which has lists only."""
    if isinstance(value, dict):
        return {key: _as_parsed(item) for key, item in value.items()}
    return list(map(_as_parsed, value)) if isinstance(value, list | tuple) else value


def _is_plain(columns: Mapping[str, list[Any]], features: Sequence[Feature]) -> bool:
    """Whether a tree obeys all rules and has splits by floats only, in a third of the time of a look at each node.

    If not, it may still be right; `_read_nodes` finds the node that is not.
    """
    feature, threshold, left, right = (columns[field] for field in ("feature", "threshold", "left", "right"))
    size = len(feature)
    if set(map(type, feature)) | set(map(type, left)) | set(map(type, right)) != {int}:
        return False
    if min(feature) < LEAF or max(feature) >= len(features):
        return False
    inner = [node for node, asked in enumerate(feature) if asked != LEAF]
    leaves = [node for node, asked in enumerate(feature) if asked == LEAF]
    lefts, rights = [left[node] for node in inner], [right[node] for node in inner]
    return (
        "with_missing" not in columns
        and columns["categories"].count(None) == size
        and set(map(type, columns["missing_left"])) == {bool}
        and all(_are_finite_floats(columns[field]) for field in ("gain", "cover", "value"))
        # Each node but the root has one parent, which comes before it.
        and sorted(lefts + rights) == list(range(1, size))
        and all(map(lt, inner, map(min, lefts, rights)))
        and all(left[node] == right[node] == LEAF and threshold[node] is None for node in leaves)
        and not any(columns["missing_left"][node] or columns["gain"][node] for node in leaves)
        and {features[feature[node]].type.name for node in inner} <= {"float32", "float64"}
        and (not inner or _are_finite_floats([threshold[node] for node in inner]))
    )


def _read_nodes(columns: dict[str, list[Any]], features: Sequence[Feature], output: int, where: str) -> Tree:
    """Return the tree with those nodes, each of which is checked by itself."""

    def each(field: str, wanted: str, is_valid: Callable[[Any], bool]) -> list[Any]:
        for node, value in enumerate(columns[field]):
            if not is_valid(value):
                fail(f"{where}, node {node}", field, wanted, value)
        return columns[field]

    feature = each("feature", f"{LEAF} or a feature's number", lambda v: is_integer(v) and LEAF <= v < len(features))
    missing_left = each("missing_left", "true or false", lambda v: isinstance(v, bool))
    for field in ("gain", "cover", "value"):
        if not _are_finite_floats(columns[field]):
            columns[field] = list(map(float, each(field, "a finite number", is_finite)))
    sums = {field: tuple(columns[field]) for field in ("gain", "cover", "value")}
    with_missing = (
        each("with_missing", "true or false", lambda v: isinstance(v, bool)) if "with_missing" in columns else []
    )
    _check_children(columns, feature, where)
    threshold, categories = [], []
    of_nodes = zip(feature, columns["threshold"], columns["categories"], missing_left, sums["gain"], strict=True)
    for node, (asked, t, c, is_left, gain) in enumerate(of_nodes):
        if asked == LEAF and (t is not None or c is not None or is_left or gain):
            raise ModelFileError(
                f"{where}, node {node}: a leaf has no threshold, no categories, no missing_left and no gain"
            )
        threshold.append(_threshold(t, features[asked], where, node) if asked != LEAF else None)
        categories.append(_categories(c, features[asked], where, node) if asked != LEAF else None)
        if asked != LEAF and t is None and c is None and is_left:
            raise ModelFileError(f"{where}, node {node}: a split on whether the value is present sends missing right")
        if with_missing and with_missing[node] and c is None:
            raise ModelFileError(f'{where}, node {node}: only a split by categories may have "with_missing"')
    return Tree(
        feature=tuple(feature),
        threshold=tuple(threshold),
        categories=tuple(categories),
        missing_left=tuple(missing_left),
        left=tuple(columns["left"]),
        right=tuple(columns["right"]),
        **sums,
        output=output,
        with_missing=tuple(with_missing),
    )


def _are_finite_floats(values: list[Any]) -> bool:
    """Whether all are finite floats, in a fifth of the time that a look at each takes."""
    return set(map(type, values)) == {float} and all(map(math.isfinite, values))


def _check_children(columns: Mapping[str, list[Any]], feature: Sequence[int], where: str) -> None:
    """Make sure that the nodes form one tree: each but the root has one parent, which comes before it."""
    size = len(feature)
    parents = [0] * size
    for node, asked in enumerate(feature):
        for side in ("left", "right"):
            child = columns[side][node]
            if asked == LEAF:
                if child != LEAF or isinstance(child, bool):
                    fail(f"{where}, node {node}", side, f"{LEAF} in a leaf", child)
            elif not is_integer(child) or not node < child < size:
                fail(f"{where}, node {node}", side, f"a node after it and below {size}", child)
            else:
                parents[child] += 1
    for node in range(1, size):
        if parents[node] != 1:
            raise ModelFileError(f"{where}, node {node}: it has {parents[node]} parents, and must have 1")


def _threshold(value: object, feature: Feature, where: str, node: int) -> Physical | None:
    if value is None:
        return None
    kind = feature.type
    if kind.is_float and not kind.is_categorical and (number := read_float(_FLOAT64, value)) is not None:
        return number  # of float32 too it may be any number between two of them
    if kind.is_float or kind.is_categorical or not kind.accepts(value):
        fail(f"{where}, node {node}", "threshold", f"a value of type {kind}", value)
    return value  # type: ignore[return-value]


def _categories(value: object, feature: Feature, where: str, node: int) -> tuple[int, ...] | None:
    if value is None:
        if feature.type.is_categorical:
            fail(f"{where}, node {node}", "categories", "a list of category numbers", value)
        return None
    size = len(feature.categories)
    valid = (
        feature.type.is_categorical
        and isinstance(value, list)
        and len(value) > 0
        and all(is_integer(code) and 0 <= code < size for code in value)
        and sorted(set(value)) == value
    )
    if not valid:
        wanted = f"sorted, distinct numbers below {size}, on a feature with categories"
        fail(f"{where}, node {node}", "categories", wanted, value)
    return tuple(value)  # type: ignore[arg-type]

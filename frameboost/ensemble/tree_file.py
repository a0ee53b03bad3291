"""The trees of a model file, in both forms: JSON objects, and arrays over the nodes of all trees.

All rules are checked when a file is read: by numpy over the nodes of all trees, of arrays and of lines of JSON as they
are written here; and node by node, with the node in the message, if something is wrong, and of JSON in any other form.
Linear leaves are checked leaf by leaf.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.checks.json_files import check_keys, fail, is_finite, is_integer, read_list, to_text
from frameboost.errors import ModelFileError
from frameboost.schema.types import Feature, FeatureType, Physical
from frameboost.trees.linear_leaves import MAX_STEPS, MAX_TERMS, LinearColumns, LinearLeaf, LinearTerm, may_have_slope
from frameboost.trees.tree import FLAGS, LEAF, NODE_TYPES, ColumnTrees, Tree, TreeColumns

__all__ = [
    "are_plain", "check_tree", "parse_tree_lines", "read_float", "read_tree", "read_tree_arrays", "read_trees",
    "tree_arrays", "tree_fields", "tree_lines", "writable",
]  # fmt: skip

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
_FLOAT64 = FeatureType("float64")
_INFINITE = {"Infinity": math.inf, "-Infinity": -math.inf}
# The lists of a tree, with the types of their values.
_TYPES: dict[str, Any] = {
    "feature": pl.Int64, "threshold": pl.Float64, "categories": pl.List(pl.Int64), "missing_left": pl.Boolean,
    "left": pl.Int64, "right": pl.Int64, "gain": pl.Float64, "cover": pl.Float64, "value": pl.Float64,
}  # fmt: skip
_FIELDS = tuple(_TYPES)


def read_trees(items: TreeColumns | Sequence[object], features: Sequence[Feature], n_outputs: int) -> Sequence[Tree]:
    """Return the validated trees of either form."""
    if not isinstance(items, TreeColumns):
        return tuple(read_tree(item, i, features, n_outputs) for i, item in enumerate(items))
    if not are_plain(items, features, n_outputs):
        return tuple(check_tree(tree, i, features, n_outputs) for i, tree in enumerate(items.trees()))
    if not items.linear:
        return ColumnTrees(items)
    trees = items.trees()
    for i, tree in enumerate(trees):
        _check_linear(tree, features, f"damaged model, tree {i}")
    return trees


# --- JSON -------------------------------------------------------------------------------------------------------------


def tree_fields(tree: Tree, n_outputs: int) -> dict[str, Any]:
    """Return a tree as a JSON object; the output is omitted if the model has only one."""
    return (
        ({} if n_outputs == 1 else {"output": tree.output})
        | {field: getattr(tree, field) for field in _FIELDS}
        | {"threshold": list(map(writable, tree.threshold))}
        | ({"with_missing": tree.with_missing} if any(tree.with_missing) else {})
        | ({"linear": _linear_field(tree)} if tree.linear else {})
    )


def tree_lines(trees: TreeColumns, n_outputs: int) -> str:
    """Return a line of JSON for each tree, with the fields of `tree_fields`; polars writes the numbers of all trees."""
    nodes = trees.nodes
    if trees.linear or "with_missing" in nodes or np.isinf(nodes["threshold"]).any() or not len(trees):
        return _LINE_END.join(_compact(tree_fields(tree, n_outputs)) for tree in trees.trees())
    columns = {field: pl.Series(values, dtype=_TYPES[field]) for field, values in nodes.items()}
    columns["categories"] = pl.Series(trees.node_categories().tolist(), dtype=_TYPES["categories"])
    columns["threshold"] = columns["threshold"].fill_nan(None)
    of_trees = pl.Series("output", np.repeat(np.arange(len(trees)), trees.sizes))
    lists = pl.DataFrame(columns).group_by(of_trees, maintain_order=True).agg(_FIELDS)
    lists = lists.drop("output") if n_outputs == 1 else lists.with_columns(output=trees.output)
    if not len(trees.integer_at):
        return lists.write_ndjson().removesuffix("\n").replace("\n", _LINE_END)
    lines, thresholds = lists.drop("threshold").write_ndjson().split("\n"), trees.thresholds().tolist()
    parts = zip(lines, trees.roots.tolist(), trees.sizes.tolist(), strict=False)  # the last line is empty
    fields = ((line.partition(_NEXT), _compact(thresholds[start : start + size])) for line, start, size in parts)
    return _LINE_END.join(f'{head},"threshold":{values}{_NEXT}{tail}' for (head, _, tail), values in fields)


def _compact(value: object) -> str:
    """Return JSON without blanks, as polars writes it."""
    return to_text(value, separators=(",", ":"))


# A line as polars writes it: each list has the characters of its type.
_LINE_END, _NEXT = ",\n", ',"categories"'
_CHARACTERS = {pl.Int64: "-0-9", pl.Float64: "-+.eE0-9", pl.Boolean: "aeflrstu", pl.List(pl.Int64): r"\[\]0-9nul"}
_LISTS = {field: rf'"{field}":\[[{_CHARACTERS[kind]},]*\]' for field, kind in _TYPES.items()}
_LISTS["threshold"] = r'"threshold":\[(?P<thresholds>[-+.eE0-9nul,]*)\]'
_LINE = re.compile(r'\{(?:"output":[0-9]+,)?' + ",".join(_LISTS.values()) + r"\}")


def parse_tree_lines(lines: bytes) -> TreeColumns | None:
    """Return the trees in lines that polars wrote for `tree_lines`; None for any other JSON.

    The values have their types, but are not checked otherwise (see `read_trees`).
    """
    matches = [_LINE.fullmatch(line) for line in lines.decode("latin-1").split(_LINE_END)]
    if not all(matches):
        return None
    thresholds = ",".join(match["thresholds"] for match in matches if match)
    schema = {"output": pl.Int64} | {field: pl.List(kind) for field, kind in _TYPES.items()}
    try:
        lists = pl.read_json(b"[" + lines + b"]", schema=schema)
        nodes = lists.drop("output").explode(_FIELDS)
        tokens = pl.Series([thresholds]).str.split(",").explode()
        is_integer = ~tokens.str.contains("[.eEn]")
        integers = [int(token) for token in tokens.filter(is_integer)]
    except (pl.exceptions.PolarsError, ValueError):  # not JSON, lists of different lengths, numbers beyond a type
        return None
    sizes, codes = lists["feature"].list.len(), nodes["categories"].drop_nulls()
    has_missing = any(nodes.drop("categories", "threshold").null_count().row(0)) or codes.explode().null_count()
    if has_missing or not sizes.min() or codes.list.len().min() == 0:
        return None
    if lists["output"].max() == 0:  # a model of one output has no such field
        return None
    arrays = {field: nodes[field].to_numpy(writable=True) for field in NODE_TYPES if field in _FIELDS}  # NULL as NaN
    integer_at = _integers(is_integer.arg_true())
    arrays["threshold"][integer_at] = np.nan
    return TreeColumns(
        _integers(sizes), _integers(lists["output"].fill_null(0)), arrays, integer_at, integers,
        _integers(nodes["categories"].is_not_null().arg_true()), _integers(codes.list.len()),
        _integers(codes.explode()),
    )  # fmt: skip


def _integers(values: pl.Series) -> IntArray:
    return values.cast(pl.Int64).to_numpy(writable=True)


def writable(value: Physical | None) -> Physical | None:
    """Return a threshold or a category for JSON; infinities in data lead to infinite ones, which JSON lacks."""
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def read_float(kind: FeatureType, value: object) -> float | None:
    """Parse a JSON number written by `writable`; None for anything else."""
    if value in ("Infinity", "-Infinity"):
        return _INFINITE[str(value)]
    if not is_finite(value):
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if kind.holds(number) else None


def read_tree(item: object, number: int, features: Sequence[Feature], n_outputs: int) -> Tree:
    """Return a tree by index; raise `ModelFileError` with the node and field at fault."""
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
    tree = _read_nodes(columns, features, output, where)
    if "linear" in item:
        tree = replace(tree, linear=_read_linear(item, size, where))
        _check_linear(tree, features, where)
    return tree


def check_tree(tree: Tree, number: int, features: Sequence[Feature], n_outputs: int) -> Tree:
    """Return a tree from columns, checked node by node like `read_tree`."""
    fields = tree_fields(tree, n_outputs) | ({"output": tree.output} if tree.output else {})
    return read_tree(_as_parsed(fields), number, features, n_outputs)


def _as_parsed(value: Any) -> Any:
    """Return fields in the form of parsed JSON, which has only lists."""
    if isinstance(value, dict):
        return {key: _as_parsed(item) for key, item in value.items()}
    return list(map(_as_parsed, value)) if isinstance(value, list | tuple) else value


def _read_nodes(columns: dict[str, list[Any]], features: Sequence[Feature], output: int, where: str) -> Tree:
    """Return the tree with these nodes, checked one by one."""

    def checked(field: str, expected: str, is_valid: Callable[[Any], bool]) -> list[Any]:
        for node, value in enumerate(columns[field]):
            if not is_valid(value):
                fail(f"{where}, node {node}", field, expected, value)
        return columns[field]

    feature = checked("feature", f"{LEAF} or a feature's number", lambda v: is_integer(v) and LEAF <= v < len(features))
    missing_left = checked("missing_left", "true or false", lambda v: isinstance(v, bool))
    for field in ("gain", "cover", "value"):
        if not _are_finite_floats(columns[field]):
            columns[field] = list(map(float, checked(field, "a finite number", is_finite)))
    sums = {field: tuple(columns[field]) for field in ("gain", "cover", "value")}
    with_missing = (
        checked("with_missing", "true or false", lambda v: isinstance(v, bool)) if "with_missing" in columns else []
    )
    _check_children(columns, feature, where)
    threshold, categories = [], []
    of_nodes = zip(feature, columns["threshold"], columns["categories"], missing_left, sums["gain"], strict=True)
    for node, (number, t, c, is_left, gain) in enumerate(of_nodes):
        if number == LEAF and (t is not None or c is not None or is_left or gain):
            raise ModelFileError(
                f"{where}, node {node}: a leaf has no threshold, no categories, no missing_left and no gain"
            )
        threshold.append(_threshold(t, features[number], where, node) if number != LEAF else None)
        categories.append(_categories(c, features[number], where, node) if number != LEAF else None)
        if number != LEAF and t is None and c is None and is_left:
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
    """Whether all are finite floats, five times as fast as checking each."""
    return set(map(type, values)) == {float} and all(map(math.isfinite, values))


def _check_children(columns: Mapping[str, list[Any]], feature: Sequence[int], where: str) -> None:
    """Check that the nodes form one tree: each except the root has one parent, which precedes it."""
    size = len(feature)
    parents = [0] * size
    for node, number in enumerate(feature):
        for side in ("left", "right"):
            child = columns[side][node]
            if number == LEAF:
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
        expected = f"sorted, distinct numbers below {size}, on a feature with categories"
        fail(f"{where}, node {node}", "categories", expected, value)
    return tuple(value)  # type: ignore[arg-type]


# --- arrays of the binary form ----------------------------------------------------------------------------------------

_WHERE = "damaged model, trees"
_INT64 = np.iinfo(np.int64)
_INTEGERS = re.compile(r"-?\d{1,39}(?: -?\d{1,39})*", re.ASCII)
# Besides those with an entry for each node.
_ARRAYS = ("sizes", "output", "integer_at", "integers", "categories_at", "categories_size", "categories")


def tree_arrays(trees: TreeColumns, n_outputs: int) -> dict[str, Any]:
    """Return the fields of a binary file: numeric arrays, and one of text; unused fields are omitted."""
    nodes = {field: values.astype(NODE_TYPES[field], copy=False) for field, values in trees.nodes.items()}
    fields: dict[str, Any] = {"sizes": trees.sizes, "output": trees.output, **nodes}
    if n_outputs == 1:
        del fields["output"]
    if len(trees.integer_at):
        is_small = _INT64.min <= min(trees.integers) and max(trees.integers) <= _INT64.max
        integers = np.array(trees.integers, dtype=np.int64) if is_small else " ".join(map(str, trees.integers))
        fields |= {"integer_at": trees.integer_at, "integers": integers}
    if len(trees.categories_at):
        fields |= {field: getattr(trees, field) for field in ("categories_at", "categories_size", "categories")}
    return fields | _linear_arrays(trees.linear)


def read_tree_arrays(item: Mapping[str, Any]) -> TreeColumns:
    """Return the trees of a binary file; raise `ModelFileError` if its arrays are inconsistent."""
    check_keys(item, (*NODE_TYPES, *_ARRAYS, *_LINEAR_TYPES), _WHERE)
    sizes = _array(item, "sizes", "iu")
    n_nodes = len(_array(item, "feature", "iu"))
    if (sizes < 1).any() or (sizes > n_nodes).any() or sizes.sum() != n_nodes:
        raise ModelFileError(f'{_WHERE}: "sizes" must be the numbers of nodes of trees with {n_nodes:,} in all')
    nodes = {field: _array(item, field, _kinds(kind), n_nodes)
             for field, kind in NODE_TYPES.items() if field in item or field != "with_missing"}  # fmt: skip
    for field in FLAGS & nodes.keys():
        if (nodes[field] & ~1).any():
            raise ModelFileError(f'{_WHERE}: "{field}" must be 0 or 1 in each node')
        nodes[field] = nodes[field].astype(np.bool_)
    if "with_missing" in nodes and not nodes["with_missing"].any():
        del nodes["with_missing"]
    nodes["threshold"][np.isnan(nodes["threshold"])] = np.nan  # equal models have equal files; there are many NaN
    integers, codes = _read_integers(item), _array(item, "categories", "iu", is_optional=True)
    counts = _array(item, "categories_size", "iu", is_optional=True)
    if (counts < 0).any() or (counts > len(codes)).any() or counts.sum() != len(codes):
        raise ModelFileError(f'{_WHERE}: "categories_size" must be the lengths of lists with {len(codes):,} codes')
    integer_at = _indices(item, "integer_at", len(integers), n_nodes)
    if not np.isnan(nodes["threshold"][integer_at]).all():
        raise ModelFileError(f"{_WHERE}: a node has two thresholds, one of them an integer")
    return TreeColumns(
        sizes, _array(item, "output", "iu", len(sizes), is_optional=True), nodes, integer_at, integers,
        _indices(item, "categories_at", len(counts), n_nodes), counts, codes,
        _read_linear_arrays(item, n_nodes),
    )  # fmt: skip


def _array(
    item: Mapping[str, Any], field: str, kinds: str, size: int | None = None, *, is_optional: bool = False
) -> npt.NDArray[Any]:
    """Return a field that must be a numeric array of that size; zeros if absent."""
    if is_optional and field not in item:
        return np.zeros(size or 0, dtype=np.int64)
    values = item.get(field)
    if not isinstance(values, np.ndarray) or values.dtype.kind not in kinds:
        fail(_WHERE, field, "an array of numbers of its type", None if values is None else "something else")
    if size is not None and len(values) != size:
        raise ModelFileError(f'{_WHERE}: "{field}" has {len(values):,} entries, and must have {size:,}')
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)


def _indices(item: Mapping[str, Any], field: str, size: int, n_nodes: int) -> IntArray:
    """Return a field that must be node indices in ascending order."""
    nodes = _array(item, field, "iu", size, is_optional=True)
    _check_ascending(field, nodes, n_nodes)
    return nodes


def _check_ascending(field: str, nodes: IntArray, n_nodes: int) -> None:
    if len(nodes) and not (nodes[0] >= 0 and nodes[-1] < n_nodes and (np.diff(nodes) > 0).all()):
        raise ModelFileError(f'{_WHERE}: "{field}" must be nodes in ascending order, below {n_nodes:,}')


def _kinds(dtype: npt.DTypeLike) -> str:
    """Return the array kinds accepted for a type."""
    return "f" if dtype is np.float64 else "iu"


def _read_integers(item: Mapping[str, Any]) -> list[int]:
    """Return the integer thresholds: an array, or text if one has more than 64 bits."""
    text = item.get("integers")
    if not isinstance(text, str):
        return _array(item, "integers", "iu", is_optional=True).tolist()  # type: ignore[no-any-return]
    if not _INTEGERS.fullmatch(text):
        fail(_WHERE, "integers", "whole numbers with blanks between them", text)
    return list(map(int, text.split(" ")))


def are_plain(trees: TreeColumns, features: Sequence[Feature], n_outputs: int) -> bool:
    """Whether all trees obey all rules, checked by numpy over all nodes, 20 times as fast.

    If not, trees may still be valid by the node-wise check of `read_tree`, which locates the fault.
    """
    feature = trees.nodes["feature"]
    if not len(feature) or feature.min() < LEAF or feature.max() >= len(features):
        return False
    return bool(
        ((trees.output >= 0) & (trees.output < n_outputs)).all()
        and all(np.isfinite(trees.nodes[field]).all() for field in ("gain", "cover", "value"))
        and _are_trees(trees)
        and _are_splits(trees)
        and _have_thresholds_of_types(trees, features)
        and _have_categories(trees, features)
    )


def _are_trees(trees: TreeColumns) -> bool:
    """Whether each node except the root has one parent, which precedes it, and leaves have no children."""
    left, right, is_leaf = trees.nodes["left"], trees.nodes["right"], trees.nodes["feature"] == LEAF
    root = np.repeat(trees.roots, trees.sizes)
    node, size = np.arange(len(left)) - root, np.repeat(trees.sizes, trees.sizes)
    is_above = (node < np.minimum(left, right)) & (np.maximum(left, right) < size)
    if not np.where(is_leaf, (left == LEAF) & (right == LEAF), is_above).all():
        return False
    parents = np.bincount(np.concatenate([(left + root)[~is_leaf], (right + root)[~is_leaf]]), minlength=len(left))
    return bool((parents == (node != 0)).all())


def _are_splits(trees: TreeColumns) -> bool:
    """Whether leaves have no conditions, and flags are set only where allowed."""
    is_leaf, missing_left = trees.nodes["feature"] == LEAF, trees.nodes["missing_left"]
    by_categories = _marked(trees, trees.categories_at)
    has_condition = ~np.isnan(trees.nodes["threshold"]) | _marked(trees, trees.integer_at) | by_categories
    return not (
        (has_condition & is_leaf).any()
        or (trees.nodes["gain"] != 0)[is_leaf].any()
        or (missing_left & ~has_condition).any()  # a split on whether the value is present sends missing right
        or ("with_missing" in trees.nodes and (trees.nodes["with_missing"] & ~by_categories).any())
    )


def _have_thresholds_of_types(trees: TreeColumns, features: Sequence[Feature]) -> bool:
    """Whether thresholds fit the types of their features."""
    has_float = ~np.isnan(trees.nodes["threshold"])
    number = trees.nodes["feature"][has_float]
    kinds = [feature.type for feature in features]
    if not np.array([kind.is_float and not kind.is_categorical for kind in kinds])[number].all():
        return False
    numbers = trees.nodes["feature"][trees.integer_at].tolist()
    bounds = [(1, 0) if kind.bounds is None or kind.is_categorical else kind.bounds for kind in kinds]
    return not has_float[trees.integer_at].any() and all(
        bounds[number][0] <= value <= bounds[number][1] for number, value in zip(numbers, trees.integers, strict=True)
    )


def _have_categories(trees: TreeColumns, features: Sequence[Feature]) -> bool:
    """Whether splits on categorical features list sorted, distinct categories, and no other splits do."""
    is_inner = trees.nodes["feature"] != LEAF
    by_categories = _marked(trees, trees.categories_at)
    is_categorical = np.array([f.type.is_categorical for f in features])[trees.nodes["feature"]] & is_inner
    if not np.array_equal(by_categories, is_categorical) or (trees.categories_size < 1).any():
        return False
    if not len(trees.categories):
        return True
    ends = np.cumsum(trees.categories_size)
    starts = ends - trees.categories_size
    n_known = np.array([len(f.categories) for f in features])[trees.nodes["feature"][trees.categories_at]]
    ascends = np.diff(trees.categories, prepend=-1) > 0
    ascends[starts] = trees.categories[starts] >= 0
    return bool(ascends.all() and (trees.categories[ends - 1] < n_known).all())


def _marked(trees: TreeColumns, nodes: npt.NDArray[np.int64]) -> BoolArray:
    marks = np.zeros(len(trees.nodes["feature"]), dtype=np.bool_)
    marks[nodes] = True
    return marks


# --- linear leaves ----------------------------------------------------------------------------------------------------

_NUMBERS = LinearTerm._fields[1:]
# The types in a binary file of what has an entry for each linear leaf, and for each of their terms.
_OF_LEAVES: dict[str, npt.DTypeLike] = {
    "linear_at": np.int32, "linear_constant": np.float64, "linear_size": np.int32,
}  # fmt: skip
_OF_TERMS: dict[str, npt.DTypeLike] = {
    f"linear_{field}": np.int32 if field == "feature" else np.float64 for field in LinearTerm._fields
}
_LINEAR_TYPES = _OF_LEAVES | _OF_TERMS
# Beyond these, products of slopes and numbers may leave the range of float64.
_LEAST_STEP, _LARGEST_STEP = 2.0**-400, 2.0**400
# From the zero of a feature to the centre of a grid: so its numbers round to the grid, not to a coarser one.
_MAX_TO_CENTRE = 2.0**50


def _linear_field(tree: Tree) -> list[dict[str, Any] | None]:
    """Return the field ``linear`` of a tree."""
    return [leaf and {"constant": leaf.constant, "terms": [term._asdict() for term in leaf.terms]}
            for leaf in tree.linear]  # fmt: skip


def _read_linear(item: Mapping[str, Any], size: int, where: str) -> tuple[LinearLeaf | None, ...]:
    """Return the field ``linear`` of a tree of that size; `_check_linear` checks its values."""
    leaves = read_list(item, "linear", where)
    if len(leaves) != size:
        raise ModelFileError(f'{where}: "linear" has {len(leaves)} entries, "feature" has {size}')
    if all(leaf is None for leaf in leaves):
        raise ModelFileError(f'{where}: "linear" has no linear leaf')
    return tuple([_read_leaf(leaf, f"{where}, node {node}") for node, leaf in enumerate(leaves)])


def _read_leaf(item: object, where: str) -> LinearLeaf | None:
    if item is None:
        return None
    if not isinstance(item, dict):
        fail(where, "linear", "null or an object", item)
    check_keys(item, LinearLeaf._fields, f"{where}, linear")
    if not is_finite(item.get("constant")):
        fail(f"{where}, linear", "constant", "a finite number", item.get("constant"))
    terms = []
    for term in read_list(item, "terms", f"{where}, linear"):
        if not isinstance(term, dict):
            fail(f"{where}, linear", "terms", "a list of objects", term)
        check_keys(term, LinearTerm._fields, f"{where}, linear, terms")
        if not is_integer(term.get("feature")):
            fail(f"{where}, linear, terms", "feature", "a feature's number", term.get("feature"))
        for field in _NUMBERS:
            if not is_finite(term.get(field)):
                fail(f"{where}, linear, terms", field, "a finite number", term.get(field))
        terms.append(LinearTerm(term["feature"], *(float(term[field]) for field in _NUMBERS)))
    return LinearLeaf(float(item["constant"]), tuple(terms))


def _linear_arrays(linear: LinearColumns | None) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of linear leaves; empty without any."""
    if not linear:
        return {}
    sizes = linear.sizes()
    is_term = np.arange(MAX_TERMS) < sizes[:, None]
    arrays = linear.node, linear.constant, sizes, linear.feature[is_term], *linear.terms[is_term].T
    return {name: values.astype(dtype) for (name, dtype), values in zip(_LINEAR_TYPES.items(), arrays, strict=True)}


def _read_linear_arrays(item: Mapping[str, Any], n_nodes: int) -> LinearColumns | None:
    """Return the linear leaves of a binary file by node index over all trees."""
    if not item.keys() & _LINEAR_TYPES:
        return None
    columns = {name: _array(item, name, _kinds(dtype)) for name, dtype in _LINEAR_TYPES.items()}
    for names in (_OF_LEAVES, _OF_TERMS):
        if len({len(columns[name]) for name in names}) > 1:
            raise ModelFileError(f"{_WHERE}: the arrays {', '.join(names)} must have equally many entries")
    nodes, constant, sizes, *terms = columns.values()
    if (sizes < 1).any() or (sizes > MAX_TERMS).any() or int(sizes.sum()) != len(terms[0]):
        raise ModelFileError(
            f'{_WHERE}: "linear_size" must be the numbers of terms of leaves with {len(terms[0]):,} in all'
        )
    _check_ascending("linear_at", nodes, n_nodes)
    return LinearColumns.of_sizes(nodes, constant, sizes, terms[0], np.stack(terms[1:], axis=1))


def _check_linear(tree: Tree, features: Sequence[Feature], where: str) -> None:
    """Raise `ModelFileError` unless the linear leaves are leaves with exact products."""
    for node, leaf in tree.linear_leaves().items():
        at = f"{where}, node {node}"
        if not tree.is_leaf(node):
            raise ModelFileError(f"{at}: only a leaf may be linear")
        if not 1 <= len(leaf.terms) <= MAX_TERMS or len({term.feature for term in leaf.terms}) < len(leaf.terms):
            raise ModelFileError(f"{at}: a linear leaf has 1 to {MAX_TERMS} terms, of different features")
        if not math.isfinite(leaf.constant):
            fail(at, "constant", "a finite number", leaf.constant)
        for term in leaf.terms:
            _check_term(term, features, at)


def _check_term(term: LinearTerm, features: Sequence[Feature], where: str) -> None:
    if not 0 <= term.feature < len(features) or not may_have_slope(features[term.feature]):
        fail(where, "feature", "the number of a feature of floats or integers", term.feature)
    if not all(map(math.isfinite, term[1:])):
        raise ModelFileError(f"{where}: the numbers of a term must be finite")
    if not _LEAST_STEP <= term.step <= _LARGEST_STEP or math.frexp(term.step)[0] != 0.5:
        fail(where, "step", "a power of two", term.step)
    if abs(term.centre) > _MAX_TO_CENTRE * term.step or not (term.centre / term.step).is_integer():
        fail(where, "centre", "a multiple of the step", term.centre)
    for field, value in (("low", term.low), ("high", term.high)):
        if abs(value) > MAX_STEPS * term.step or not (value / term.step).is_integer():
            fail(where, field, f"a multiple of the step, {MAX_STEPS:,} at most", value)
    if term.low > term.high:
        fail(where, "low", "not above high", term.low)

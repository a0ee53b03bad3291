"""The parser of LightGBM's text format, line by line; `frameboost.interop.lightgbm.reader` translates the result."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from frameboost.checks.json_fields import shown_json
from frameboost.checks.messages import reason
from frameboost.errors import ModelFileError
from frameboost.interop.ensemble_checks import checked_names

__all__ = ["LightGBMFile", "LightGBMTree", "parse_lightgbm"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|inf)")
_WHOLE = re.compile(r"-?\d{1,18}")
_VERSIONS = ("v2", "v3", "v4")
_BLANKS = 3  # bytes of the empty lines after a tree
# What follows the trees: releases before 2.1.1, and tools that write models, leave out the first line.
_AFTER_TREES = ("end of trees", "feature importances:", "feature_importances:", "parameters:", "pandas_categorical:")
# The fields of a tree with one entry for each split, and whether old releases leave them out.
_OF_SPLITS = {
    "split_feature": True, "threshold": True, "decision_type": True, "left_child": True, "right_child": True,
    "split_gain": False, "internal_value": False, "internal_count": False,
}  # fmt: skip


@dataclass(frozen=True)
class LightGBMTree:
    """A tree: lists over its splits, lists over its leaves, and the category sets of its splits.

    A child of 0 or more is a split's number; a negative child is the leaf ``~child``. Of a linear tree ``linear`` has
    for each leaf a constant, and slopes by feature.
    """

    split_feature: list[int]
    threshold: list[float]
    decision_type: list[int]
    left_child: list[int]
    right_child: list[int]
    split_gain: list[float]
    internal_value: list[float]
    internal_count: list[float]
    leaf_value: list[float]
    leaf_count: list[float]
    sets: list[tuple[int, ...]]
    linear: list[tuple[float, dict[int, float]]]


@dataclass(frozen=True)
class LightGBMFile:
    """A model; ``objective`` may be empty, and ``pandas_categories`` has a list for each such column."""

    objective: str
    n_outputs: int
    is_average: bool
    names: tuple[str, ...]
    infos: tuple[str, ...]
    trees: tuple[LightGBMTree, ...]
    parameters: Mapping[str, str]
    pandas_categories: tuple[list[Any], ...]


def parse_lightgbm(data: bytes) -> LightGBMFile:
    """Read and check the text of a model.

    Raises
    ------
    ModelFileError
        Which says what is wrong, and where.
    """
    try:
        lines = [line.rstrip("\r") for line in data.decode("utf-8").split("\n")]
    except UnicodeDecodeError as error:
        raise ModelFileError(f"not a LightGBM model: the file is not text ({reason(error)})") from error
    if lines[0].strip() != "tree":
        raise ModelFileError("not a LightGBM model: its text does not start with the line 'tree'")
    end = next((i for i, line in enumerate(lines) if line.startswith(_AFTER_TREES)), len(lines))
    starts = [i for i in range(end) if lines[i].startswith("Tree=")]
    head = _Fields(lines[1 : starts[0] if starts else end], "damaged LightGBM model")
    if head.text("version") not in _VERSIONS:
        raise ModelFileError(
            f"the LightGBM model has version {shown_json(head.text('version'))}, not one of {', '.join(_VERSIONS)}"
        )
    names = checked_names(head.text("feature_names").split(" ") if head.text("feature_names") else [])
    infos = tuple(head.text("feature_infos").split(" ")) if "feature_infos" in head else ("none",) * len(names)
    if head.whole("max_feature_idx") != len(names) - 1 or len(infos) != len(names):
        raise ModelFileError("damaged LightGBM model: feature_names, feature_infos and max_feature_idx disagree")
    trees = []
    for number, (start, stop) in enumerate(pairwise([*starts, end])):
        trees.append(_tree(lines[start:stop], number, len(names)))
    n_outputs = head.whole("num_tree_per_iteration")
    if n_outputs < 1 or len(trees) % n_outputs:
        raise ModelFileError(f"damaged LightGBM model: {len(trees)} trees are not whole rounds of {n_outputs}")
    if "tree_sizes" in head:
        sizes = head.wholes("tree_sizes", len(head.text("tree_sizes").split()), 0)
        if len(sizes) != len(trees):
            raise ModelFileError(
                f"damaged LightGBM model: it has {len(trees)} trees, but tree_sizes has another number"
            )
        if end == len(lines) and len(data) - data.find(b"\nTree=") < sum(sizes) - _BLANKS:
            raise ModelFileError("damaged LightGBM model: its last tree is cut off")
    return LightGBMFile(
        head.text("objective") if "objective" in head else "", n_outputs, "average_output" in head, names, infos,
        tuple(trees), _parameters(lines[end:]), _pandas_categories(lines[end:]),
    )  # fmt: skip


class _Fields:
    """The ``key=value`` lines of a section; a line without = is a key with an empty value. No key occurs twice."""

    def __init__(self, lines: Iterable[str], where: str) -> None:
        self.where = where
        self._values: dict[str, str] = {}
        for line in lines:
            key, _, value = line.partition("=")
            if key in self._values:
                raise ModelFileError(f"{where}: {shown_json(key)} comes twice")
            if line.strip():
                self._values[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def text(self, key: str) -> str:
        if key not in self._values:
            raise ModelFileError(f"{self.where}: {key} is missing")
        return self._values[key]

    def whole(self, key: str) -> int:
        return self.wholes(key, 1)[0]

    def wholes(self, key: str, size: int, low: int = -(2**31), high: int = 2**32 - 1) -> list[int]:
        """Return a field of ``size`` integers from ``low`` to ``high``."""
        parts = self._parts(key, size)
        if not all(_WHOLE.fullmatch(part) and low <= int(part) <= high for part in parts):
            raise ModelFileError(f"{self.where}: {key} must be whole numbers from {low} to {high}")
        return list(map(int, parts))

    def numbers(self, key: str, size: int, *, finite: bool = True) -> list[float]:
        """Return a field of ``size`` numbers."""
        parts = self._parts(key, size)
        if not all(_NUMBER.fullmatch(part) for part in parts):
            raise ModelFileError(f"{self.where}: {key} must be numbers")
        values = list(map(float, parts))
        if finite and any(abs(value) == float("inf") for value in values):
            raise ModelFileError(f"{self.where}: {key} must be finite")
        return values

    def _parts(self, key: str, size: int) -> list[str]:
        parts = self.text(key).split()
        if len(parts) != size:
            raise ModelFileError(f"{self.where}: {key} has {len(parts)} numbers, not {size}")
        return parts


def _tree(lines: list[str], number: int, n_features: int) -> LightGBMTree:
    fields = _Fields(lines, f"damaged LightGBM model, tree {number}")
    if fields.text("Tree") != str(number):
        raise ModelFileError(f"damaged LightGBM model: tree {number} calls itself {shown_json(fields.text('Tree'))}")
    n_leaves = fields.whole("num_leaves")
    if n_leaves < 1:
        raise ModelFileError(f"{fields.where}: it has no leaves")
    n = n_leaves - 1
    for key, needed in _OF_SPLITS.items():
        if n and needed and key not in fields:
            raise ModelFileError(f"{fields.where}: {key} is missing")
    split_feature = fields.wholes("split_feature", n, 0, n_features - 1) if n else []
    left, right = ([], []) if n == 0 else (fields.wholes(f"{side}_child", n) for side in ("left", "right"))
    _check_children(left, right, n_leaves, fields.where)

    def of_splits(key: str, otherwise: float) -> list[float]:
        return fields.numbers(key, n) if n and key in fields else [otherwise] * n

    return LightGBMTree(
        split_feature=split_feature,
        threshold=fields.numbers("threshold", n, finite=False) if n else [],
        decision_type=fields.wholes("decision_type", n, -128, 127) if n else [],
        left_child=left,
        right_child=right,
        split_gain=of_splits("split_gain", 0.0),
        internal_value=of_splits("internal_value", 0.0),
        internal_count=of_splits("internal_count", 1.0),
        leaf_value=fields.numbers("leaf_value", n_leaves),
        leaf_count=_leaf_counts(fields, n_leaves),
        sets=_sets(fields),
        linear=_linear(fields, n_leaves, n_features),
    )


def _linear(fields: _Fields, n_leaves: int, n_features: int) -> list[tuple[float, dict[int, float]]]:
    """Return the constants and slopes of leaves; an empty list if the tree is not linear."""
    if "is_linear" not in fields or fields.whole("is_linear") == 0:
        return []
    sizes = fields.wholes("num_features", n_leaves, 0)
    features = fields.wholes("leaf_features", sum(sizes), 0, n_features - 1)
    slopes = fields.numbers("leaf_coeff", sum(sizes))
    pairs = iter(zip(features, slopes, strict=True))
    found = [
        (constant, dict(islice(pairs, size)))
        for constant, size in zip(fields.numbers("leaf_const", n_leaves), sizes, strict=True)
    ]
    if any(len(own) < size for (_, own), size in zip(found, sizes, strict=True)):
        raise ModelFileError(f"{fields.where}: leaf_features names a feature twice in a leaf")
    return found


def _leaf_counts(fields: _Fields, n_leaves: int) -> list[float]:
    if "leaf_count" not in fields or not fields.text("leaf_count").strip():
        return [1.0] * n_leaves
    return fields.numbers("leaf_count", n_leaves)


def _check_children(left: list[int], right: list[int], n_leaves: int, where: str) -> None:
    """Check that each leaf, and each split but the root, is the child of exactly one split with a smaller number."""
    children = [*left, *right]
    if n_leaves > 1 and sorted(children) != [*range(-n_leaves, 0), *range(1, n_leaves - 1)]:
        raise ModelFileError(f"{where}: left_child and right_child must name every leaf and every split but the first")
    if any(0 <= child <= node for side in (left, right) for node, child in enumerate(side)):
        raise ModelFileError(f"{where}: a split must come after the one that leads to it")


def _sets(fields: _Fields) -> list[tuple[int, ...]]:
    """Return the category sets, which are stored as bit sets of 32-bit words."""
    n_sets = fields.whole("num_cat") if "num_cat" in fields else 0
    if n_sets <= 0:
        return []
    ends = fields.wholes("cat_boundaries", n_sets + 1, 0)
    words = fields.wholes("cat_threshold", ends[-1], 0)
    if ends[0] != 0 or ends != sorted(ends):
        raise ModelFileError(f"{fields.where}: cat_boundaries must be {n_sets + 1} ascending numbers from 0 on")
    return [
        tuple(32 * i + bit for i, word in enumerate(words[start:stop]) for bit in range(32) if word >> bit & 1)
        for start, stop in pairwise(ends)
    ]


def _parameters(lines: list[str]) -> dict[str, str]:
    """Return the training parameters, which follow the trees in lines such as ``[alpha: 0.9]``."""
    found = (re.fullmatch(r"\[(\w+): (.*)\]", line) for line in lines)
    return {match[1]: match[2].strip() for match in found if match}


def _pandas_categories(lines: list[str]) -> tuple[list[Any], ...]:
    texts = [line.removeprefix("pandas_categorical:") for line in lines if line.startswith("pandas_categorical:")]
    try:
        lists = json.loads(texts[0]) if texts else None
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"damaged LightGBM model: pandas_categorical is not JSON ({reason(error)})") from error
    if lists is None:
        return ()
    if not isinstance(lists, list) or not all(isinstance(item, list) for item in lists):
        raise ModelFileError("damaged LightGBM model: pandas_categorical must be lists of categories")
    return tuple(lists)

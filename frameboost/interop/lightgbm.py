"""Read LightGBM models from text, with the same trees and predictions.

Differences to frameboost, and how each is translated:

- Splits are ``x <= t`` in float64, which is ``x < u`` with u the next float64 above t. LightGBM first replaces numbers
  within 1e-35 of 0 by 0.
- Each split has a missing type. NaN: NaN goes to the default side. None: NaN is replaced by 0.0. Zero: NaN and numbers
  within 1e-35 of 0 go to the default side.
- Categories are integers, and a split is a bit set: categories in the set go left, all others and NaN right.
- A linear leaf has a constant and slopes for raw numbers; rows with a missing number get the leaf's plain value. Here
  numbers are rounded to 2^-22 of their range in training, and clipped some way outside it.
- A random forest averages its trees; here each leaf is divided by the number of trees.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from frameboost.checks.json_files import is_finite, shown_json
from frameboost.checks.messages import reason, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.expressions.grid import bit_step
from frameboost.interop.ensembles import (
    LeafNode,
    SplitNode,
    at_most,
    build_tree,
    category_codes,
    checked_ensemble,
    checked_names,
    native_loss,
)
from frameboost.interop.files import bytes_of_file, comes_from, unreadable
from frameboost.losses.custom import foreign_loss
from frameboost.losses.loss import Loss, margin_names
from frameboost.schema.types import ZERO, Feature, FeatureType
from frameboost.trees.linear_leaves import MAX_STEPS, MAX_TERMS, LinearLeaf, LinearTerm, may_have_slope
from frameboost.trees.tree import Tree

__all__ = ["read_lightgbm"]

_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_WIDEST = 2.0**350  # range of a feature that linear leaves have slopes of
_RANGE = re.compile(r"\[([^:]+):([^:]+)\]")
_NONE, _ZERO, _NAN = 0, 1, 2

# Objectives of one output whose prediction is the margin itself, and which frameboost does not have.
_IDENTITIES = ("huber", "fair", "mape", "lambdarank", "rank_xendcg", "custom")
# Objectives that frameboost has too: its name, and its parameters by LightGBM's names.
_COUNTERPARTS: dict[str, tuple[str, dict[str, str]]] = {
    "regression": ("reg:squarederror", {}),
    "regression_l1": ("reg:absoluteerror", {}),
    "quantile": ("reg:quantileerror", {"quantile_alpha": "alpha"}),
    "poisson": ("count:poisson", {"max_delta_step": "poisson_max_delta_step"}),
    "gamma": ("reg:gamma", {}),
    "tweedie": ("reg:tweedie", {"tweedie_variance_power": "tweedie_variance_power"}),
    "cross_entropy": ("reg:logistic", {}),
}
# Other names of objectives that LightGBM takes in a file, as in its parameters.
_ALIASES = {
    alias: name
    for name, aliases in {
        "regression": (
            "regression_l2", "l2", "mean_squared_error", "mse", "l2_root", "root_mean_squared_error", "rmse",
        ),
        "regression_l1": ("l1", "mean_absolute_error", "mae"),
        "mape": ("mean_absolute_percentage_error",),
        "multiclass": ("softmax",),
        "multiclassova": ("multiclass_ova", "ova", "ovr"),
        "cross_entropy": ("xentropy",),
        "cross_entropy_lambda": ("xentlambda",),
        "rank_xendcg": ("xendcg", "xe_ndcg", "xe_ndcg_mart", "xendcg_mart"),
        "custom": ("none", "null", "na"),
    }.items()
    for alias in aliases
}  # fmt: skip
_DEFAULTS = {"alpha": 0.9, "poisson_max_delta_step": 0.7, "tweedie_variance_power": 1.5}
# ln(1 + e^margin) without loss of digits where e^margin is small: ln(1 + u) u / ((1 + u) - 1) (Kahan).
_U = "EXP(-ABS(margin))"
_SOFT_PLUS = f"GREATEST(margin, 0) + CASE WHEN 1 + {_U} = 1 THEN {_U} ELSE LN(1 + {_U}) * {_U} / ((1 + {_U}) - 1) END"


def read_lightgbm(model: Any) -> Ensemble:
    """Return a LightGBM model as an ensemble with the same predictions (see `frameboost.from_lightgbm`)."""
    file = _parsed(_model_text(model))
    columns = _columns(file)
    terms = _terms(file, columns)
    share = len(file.trees) // file.n_outputs if file.is_average else 1
    trees = [
        _tree(tree, columns, terms, share, number % file.n_outputs, f"damaged LightGBM model, tree {number}")
        for number, tree in enumerate(file.trees)
    ]
    loss, parameters = _loss(file)
    features = [column.feature for column in columns]
    labels = getattr(model, "classes_", None)  # of an estimator; the file has none
    return checked_ensemble(loss, parameters, features, (0.0,) * file.n_outputs, trees, labels, library="lightgbm")


def _model_text(model: Any) -> bytes:
    if (data := bytes_of_file(model, "lightgbm")) is not None:
        return data
    is_booster = hasattr(model, "model_to_string")
    if not comes_from(model, "lightgbm") or isinstance(model, type) or not (is_booster or hasattr(model, "fit")):
        raise unreadable(model, "a Booster or an estimator of LightGBM's, or a file of one")
    if not is_booster and not model.__sklearn_is_fitted__():
        raise ParameterError(f"the {type(model).__name__} is not fitted")
    booster = model if is_booster else model.booster_
    return str(booster.model_to_string()).encode()


# --- columns ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """A feature; ``codes`` maps LightGBM's category numbers to positions in `Feature.categories`."""

    feature: Feature
    codes: Mapping[int, int]


def _columns(file: _File) -> list[_Column]:
    missing_types: list[set[int]] = [
        set() for _ in file.names
    ]  # missing types of the splits; -1 for a split by category
    named: list[set[int]] = [set() for _ in file.names]
    for number, tree in enumerate(file.trees):
        for f, kind, threshold in zip(tree.split_feature, tree.decision_type, tree.threshold, strict=True):
            missing_types[f].add(-1 if kind & _CATEGORICAL else kind >> 2 & 3)
            if kind & _CATEGORICAL:
                if threshold not in range(len(tree.sets)):
                    raise ModelFileError(f"damaged LightGBM model, tree {number}: it lacks a set of categories")
                named[f].update(tree.sets[int(threshold)])
    declared = _declared_categorical(file)
    lists = _pandas_categories_of(file, declared)
    columns = []
    for f, name in enumerate(file.names):
        if -1 in missing_types[f] and len(missing_types[f]) > 1:
            raise ModelFileError(f"damaged LightGBM model: feature {shown(name)} is split by order and by category")
        if f in lists:
            columns.append(_pandas_column(name, lists[f], named[f]))
        elif -1 in missing_types[f] or (f in declared and not missing_types[f]):
            codes = tuple(sorted(named[f]))
            feature = Feature(name, FeatureType("codes"), codes)
            columns.append(_Column(feature, {code: index for index, code in enumerate(codes)}))
        else:
            columns.append(
                _Column(Feature(name, FeatureType("float64"), zero_is_missing=_ZERO in missing_types[f]), {})
            )
    return columns


def _declared_categorical(file: _File) -> list[int]:
    """Return the indices of the features that are categorical.

    feature_infos has ``[min:max]`` for a number, and the categories for a categorical feature. The parameter, which
    LightGBM ignores in some calls but writes, tells of features without either, which have one value.
    """
    named = file.parameters.get("categorical_feature", "").split(",")
    declared = {int(part) for part in named if re.fullmatch(r"[0-9]{1,9}", part)}
    return [
        f for f, info in enumerate(file.infos)
        if (f in declared if info == "none" else not info.startswith("["))
    ]  # fmt: skip


def _pandas_categories_of(file: _File, declared: Sequence[int]) -> dict[int, list[Any]]:
    """Return the pandas categories by feature; the file lists them in order without feature names."""
    if not file.pandas_categories:
        return {}
    if len(file.pandas_categories) != len(declared):
        raise ParameterError(
            f"the LightGBM model has {len(file.pandas_categories)} columns of pandas categories and {len(declared)} "
            "categorical features, and their order is ambiguous; train it with all of them as unordered categories"
        )
    lists = dict(zip(declared, file.pandas_categories, strict=True))
    for f, names in lists.items():
        codes = [int(part) for part in file.infos[f].split(":") if part.isdecimal()]
        if codes and max(codes) >= len(names):
            raise ParameterError(
                f"the LightGBM model has a column of pandas categories that is not categorical, as feature "
                f"{shown(file.names[f])} has category {max(codes)} and the column {len(names)} categories; train it "
                "with all of them as unordered categories"
            )
    return lists


def _pandas_column(name: str, values: list[Any], named: set[int]) -> _Column:
    if any(code >= len(values) for code in named):
        raise ModelFileError(f"damaged LightGBM model: a split names a category that {shown(name)} does not have")
    feature, indices = category_codes(values, name)
    return _Column(feature, dict(enumerate(indices)))


# --- trees ------------------------------------------------------------------------------------------------------------


def _terms(file: _File, columns: Sequence[_Column]) -> dict[int, LinearTerm]:
    """Return the grid of each feature with slopes, as a term of slope 1 (see `LinearTerm`).

    It covers the range of training, and as much beside it.
    """
    terms = {}
    for f in sorted({f for tree in file.trees for _, slopes in tree.linear for f in slopes}):
        feature, span = columns[f].feature, _RANGE.fullmatch(file.infos[f])
        if span is None or not may_have_slope(feature):
            raise ParameterError(
                f"the LightGBM model has linear leaves (linear_tree) over feature {shown(feature.name)}, with an "
                "unknown range"
            )
        try:
            low, high = map(float, span.groups())
        except ValueError:
            low = high = math.nan
        if not is_finite(high - low) or high - low > _WIDEST:
            raise ModelFileError(f"damaged LightGBM model: feature_infos of {shown(feature.name)} is not a range")
        # A step for which both the numbers and the centre of the grid have few enough steps.
        step = bit_step(max(high - low, max(abs(low), abs(high)) * 2.0**-29, 1 / _WIDEST), MAX_STEPS.bit_length() - 1)
        most = MAX_STEPS * step
        terms[f] = LinearTerm(f, 1.0, step, round((low / 2 + high / 2) / step) * step, -most, most)
    return terms


def _linear_leaf(
    constant: float, slopes: Mapping[int, float], terms: Mapping[int, LinearTerm], share: int
) -> LinearLeaf:
    if len(slopes) > MAX_TERMS:
        raise ParameterError(
            f"the LightGBM model has linear leaves (linear_tree) over {len(slopes)} features, and at most {MAX_TERMS} "
            "are supported; train it with fewer leaves, or a max_depth"
        )
    slope_terms = tuple(terms[f]._replace(slope=slope / share) for f, slope in slopes.items())
    return LinearLeaf((constant + sum(slope * terms[f].centre for f, slope in slopes.items())) / share, slope_terms)


def _tree(
    tree: _SavedTree, columns: Sequence[_Column], terms: Mapping[int, LinearTerm], share: int, output: int,
    where: str,
) -> Tree:  # fmt: skip
    def leaf(number: int) -> LeafNode:
        value, linear = tree.leaf_value[number], None
        if tree.linear:
            constant, slopes = tree.linear[number]
            if slopes:
                linear = _linear_leaf(constant, slopes, terms, share)
            else:
                value = constant
        return LeafNode(value / share, tree.leaf_count[number], linear)

    def look_up(number: int) -> SplitNode | LeafNode:
        condition: dict[str, Any] | bool = True
        while number >= 0:
            condition = _condition(tree, number, columns[tree.split_feature[number]], where)
            if not isinstance(condition, bool):
                break
            number = (tree.left_child if condition else tree.right_child)[number]
        if isinstance(condition, bool):
            return leaf(~number)
        return SplitNode(
            tree.split_feature[number], tree.left_child[number], tree.right_child[number], **condition,
            gain=tree.split_gain[number], cover=tree.internal_count[number],
            value=tree.internal_value[number] / share,
        )  # fmt: skip

    return build_tree(0 if tree.split_feature else -1, look_up, output)


def _condition(tree: _SavedTree, number: int, column: _Column, where: str) -> dict[str, Any] | bool:
    """Return the fields of a `SplitNode`, or the side (True: left) to which all rows go."""
    kind, threshold = tree.decision_type[number], tree.threshold[number]
    if kind & _CATEGORICAL:
        codes = tuple(sorted(column.codes[code] for code in tree.sets[int(threshold)]))
        return {"categories": codes} if codes else False
    missing = kind >> 2 & 3
    if missing not in (_NONE, _ZERO, _NAN):
        raise ModelFileError(f"{where}: decision_type {kind} has an unknown kind of missing values")
    missing_left = threshold >= 0.0 if missing == _NONE else bool(kind & _DEFAULT_LEFT)
    # If another split of the feature treats zeros as missing, zeros must go with NaN here too.
    if column.feature.zero_is_missing and missing != _ZERO and (threshold >= 0.0) != missing_left:
        raise ParameterError(
            f"feature {shown(column.feature.name)} of the LightGBM model has zeros that are missing in some splits only"
        )
    # LightGBM has replaced numbers within 1e-35 of 0 by 0 before it compares.
    bound = threshold if abs(threshold) > ZERO else ZERO if threshold >= 0.0 else math.nextafter(-ZERO, -math.inf)
    return at_most(bound, missing_left=missing_left)


# --- the objective ----------------------------------------------------------------------------------------------------


def _loss(file: _File) -> tuple[Loss, dict[str, Any]]:
    """Return the loss and the parameters that it takes."""
    name, *words = file.objective.split() or ["custom"]
    name = _ALIASES.get(name, name)
    options = dict(option.partition(":")[::2] for option in words)
    n = file.n_outputs
    margins = margin_names(n)
    if name == "custom":
        return foreign_loss("lightgbm:custom", margins), {}
    if name in ("multiclass", "multiclassova"):
        if options.get("num_class") != str(n) or n < 2:
            raise ModelFileError(f"damaged LightGBM model: {shown(file.objective)} does not match {n} trees a round")
        if name == "multiclass":
            return native_loss("multi:softprob", {"num_class": n})
        links = [_sigmoid(_number(options, "sigmoid", 1.0), margin) for margin in margins]
        return foreign_loss("lightgbm:multiclassova", links, classes=n), {}
    if n > 1:
        raise ModelFileError(f"damaged LightGBM model: {shown(file.objective)} does not match {n} trees a round")
    if name == "binary":
        steepness = _number(options, "sigmoid", 1.0)
        if steepness == 1.0:
            return native_loss("binary:logistic", {})
        return foreign_loss("lightgbm:binary", [_sigmoid(steepness, "margin")], classes=2), {}
    if "sqrt" in options:
        return foreign_loss(f"lightgbm:{name} sqrt", ["SIGN(margin) * margin * margin"]), {}
    if name == "cross_entropy_lambda":
        return foreign_loss("lightgbm:cross_entropy_lambda", [_SOFT_PLUS]), {}
    if name in _IDENTITIES:
        return foreign_loss(f"lightgbm:{name}", margins), {}
    if name not in _COUNTERPARTS:
        raise ParameterError(f"the LightGBM model has the objective {shown(name)}, which is not supported")
    counterpart, options_by_name = _COUNTERPARTS[name]
    return native_loss(counterpart, {ours: _number(file.parameters, theirs, _DEFAULTS[theirs])
                              for ours, theirs in options_by_name.items()})  # fmt: skip


def _sigmoid(steepness: float, margin: str) -> str:
    return f"1 / (1 + EXP(-{steepness!r} * {margin}))"


def _number(options: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ModelFileError(
            f"damaged LightGBM model: {name} must be a number greater than 0, not {shown(options[name])}"
        )
    return value


# --- the text, line by line -------------------------------------------------------------------------------------------

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
class _SavedTree:
    """A tree: lists over its splits, lists over its leaves, and the category sets of its splits.

    A child of 0 or more is a split index; a negative child is the leaf ``~child``. In a linear tree ``linear`` has a
    constant and slopes by feature for each leaf.
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
class _File:
    """A model; ``objective`` may be empty, and ``pandas_categories`` has a list for each such column."""

    objective: str
    n_outputs: int
    is_average: bool
    names: tuple[str, ...]
    infos: tuple[str, ...]
    trees: tuple[_SavedTree, ...]
    parameters: Mapping[str, str]
    pandas_categories: tuple[list[Any], ...]


def _parsed(data: bytes) -> _File:
    """Parse and validate the text of a model.

    Raises
    ------
    ModelFileError
        With the fault and the line.
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
        trees.append(_parsed_tree(lines[start:stop], number, len(names)))
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
    return _File(
        head.text("objective") if "objective" in head else "", n_outputs, "average_output" in head, names, infos,
        tuple(trees), _parameters(lines[end:]), _pandas_categories(lines[end:]),
    )  # fmt: skip


class _Fields:
    """The ``key=value`` lines of a section; a line without = is a key with an empty value. Keys are unique."""

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


def _parsed_tree(lines: list[str], number: int, n_features: int) -> _SavedTree:
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

    return _SavedTree(
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
    """Return the constants and slopes of leaves; empty if the tree is not linear."""
    if "is_linear" not in fields or fields.whole("is_linear") == 0:
        return []
    sizes = fields.wholes("num_features", n_leaves, 0)
    features = fields.wholes("leaf_features", sum(sizes), 0, n_features - 1)
    slopes = fields.numbers("leaf_coeff", sum(sizes))
    pairs = iter(zip(features, slopes, strict=True))
    leaves = [
        (constant, dict(islice(pairs, size)))
        for constant, size in zip(fields.numbers("leaf_const", n_leaves), sizes, strict=True)
    ]
    if any(len(slopes_of_leaf) < size for (_, slopes_of_leaf), size in zip(leaves, sizes, strict=True)):
        raise ModelFileError(f"{fields.where}: leaf_features names a feature twice in a leaf")
    return leaves


def _leaf_counts(fields: _Fields, n_leaves: int) -> list[float]:
    if "leaf_count" not in fields or not fields.text("leaf_count").strip():
        return [1.0] * n_leaves
    return fields.numbers("leaf_count", n_leaves)


def _check_children(left: list[int], right: list[int], n_leaves: int, where: str) -> None:
    """Check that each leaf, and each split but the root, is the child of exactly one split with a smaller index."""
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
    matches = (re.fullmatch(r"\[(\w+): (.*)\]", line) for line in lines)
    return {match[1]: match[2].strip() for match in matches if match}


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

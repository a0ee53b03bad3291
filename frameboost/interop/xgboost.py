"""Models of XGBoost, from a booster, an estimator or a file: every row ends in the same leaf.

A file is JSON or UBJSON, of which all that is read is checked. Differences to frameboost, and how each is translated:

- Splits are ``float32(x) < t``, that is ``x < u`` with u the smallest float64 that rounds to t or above.
- Categories are codes, of which a split names those that go right. XGBoost 3.1 and later store their names.
- A leaf may hold a vector; here each output has separate trees.
- Base scores are on the scale of the prediction; here they are margins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from frameboost.checks.json_files import fail, is_integer, parse_json, read_list, read_ubjson
from frameboost.checks.messages import reason, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.ensembles import (
    as_float32,
    category_codes,
    checked_ensemble,
    checked_names,
    float64_thresholds,
    log32,
    logit32,
    shortest,
)
from frameboost.interop.files import bytes_of_file, comes_from, unreadable
from frameboost.losses.built_in import LOSSES, get_loss
from frameboost.losses.custom import foreign_loss
from frameboost.losses.loss import Loss, multi_target_loss
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import LEAF, Tree

__all__ = ["LOGARITHMIC", "LOGISTIC", "MAX_CATEGORIES", "OBJECTIVE_PARAMETERS", "best_round", "read_xgboost"]

_DAMAGED = "damaged XGBoost model"
_WANTED = "a Booster or an estimator of XGBoost's, or a file of one"


def read_xgboost(model: Any) -> Ensemble:
    """Return a model of XGBoost's as an ensemble that predicts the same (see `frameboost.from_xgboost`).

    Of an estimator that stopped early it has the rounds up to the best one (see `best_round`).
    """
    if (data := bytes_of_file(model, "xgboost")) is not None:
        return _ensemble(data)
    if not comes_from(model, "xgboost") or isinstance(model, type):
        raise unreadable(model, _WANTED)
    if not hasattr(model, "get_booster"):
        return _ensemble(_saved(model))
    if hasattr(model, "__sklearn_is_fitted__") and not model.__sklearn_is_fitted__():
        raise ParameterError(f"the {type(model).__name__} is not fitted yet")
    missing = getattr(model, "missing", None)
    if missing is not None and not (isinstance(missing, float) and missing != missing):
        raise ParameterError(
            f"the {type(model).__name__} takes {shown(missing)} for a missing value (missing=), which no column here "
            "does; pass its get_booster(), and score rows that have NULL in its place"
        )
    best, _ = best_round(model)
    return _ensemble(_saved(model.get_booster()), callable(getattr(model, "objective", None)), best)


def best_round(model: Any) -> tuple[int | None, float | None]:
    """Return the best round, from 1, and its score, of a fitted estimator that stopped early; otherwise None twice.

    A booster has them too, but its ``predict`` uses all rounds.
    """
    booster = model.get_booster() if hasattr(model, "get_booster") else None
    best = None if booster is None else booster.attr("best_iteration")
    if booster is None or best is None:
        return None, None
    return int(best) + 1, float(booster.attr("best_score"))


def _saved(booster: Any) -> bytes:
    if not hasattr(booster, "save_raw"):
        raise unreadable(booster, _WANTED)
    try:
        return bytes(booster.save_raw(raw_format="ubj"))
    except ValueError as error:  # XGBoostError is one
        raise ParameterError(f"XGBoost can't save the model, which may not be trained yet: {reason(error)}") from error


def _ensemble(data: bytes, is_custom: bool = False, n_rounds: int | None = None) -> Ensemble:
    learner = _read_learner(data)
    booster = _read_object(learner, "gradient_booster")
    name = booster.get("name")
    if name == "gblinear":
        raise ParameterError("a model of gblinear has no trees")
    if name not in ("gbtree", "dart"):
        raise ParameterError(f"XGBoost's booster {shown(name)} is not supported")
    model_object = _read_object(_read_object(booster, "gbtree") if "gbtree" in booster else booster, "model")
    n_features, n_outputs = _count_features(learner), _count_outputs(learner)
    items = read_list(model_object, "trees", _DAMAGED)
    trees = [_read_tree(item, i, n_features, n_outputs) for i, item in enumerate(items)]
    side_by_side = max(1, _read_count(_read_object(model_object, "gbtree_model_param"), "num_parallel_tree", 1))
    # Checked first, because a damaged file may declare very many outputs.
    in_rounds = _rounds(model_object, trees, n_outputs, side_by_side)
    loss, parameters, base_margins = _read_objective(learner, is_custom)
    features, indices = _read_features(learner, model_object, trees)
    # The weights of dart are beside the trees up to XGBoost 3.4, and in the trees' object later.
    weights = _weights(booster if "weight_drop" in booster else model_object, len(trees))
    if weights is not None:
        parameters["booster"] = "dart"
    parameters["num_parallel_tree"] = side_by_side
    ours = []
    for number, output in in_rounds:
        weight = 1.0 if weights is None else weights[number]
        ours.append(_translated(trees[number], features, indices, output, weight))
    if n_rounds is not None:
        count = n_rounds * n_outputs * side_by_side
        if count > len(ours):
            _refuse(f"its best round would have {count} trees, and there are {len(ours)}")
        ours = ours[:count]
    return checked_ensemble(loss, parameters, features, base_margins, ours, library="xgboost")


def _weights(holder: Mapping[str, Any], n_trees: int) -> list[float] | None:
    if "weight_drop" not in holder:
        return None
    weights = _read_numbers(holder["weight_drop"], "weight_drop") if holder["weight_drop"] else ()
    if len(weights) != n_trees:
        _refuse(f'"weight_drop" has {len(weights)} numbers, for {n_trees} trees')
    return list(map(float, weights))


def _rounds(
    model_object: Mapping[str, Any], trees: Sequence[_SavedTree], n_outputs: int, side_by_side: int
) -> list[tuple[int, int]]:
    """Return (tree, output) pairs in the order of an ensemble: by round, within a round by output.

    A tree with a vector in each leaf occurs once for each output.
    """
    if not trees:
        raise ModelFileError("the model has no trees")
    outputs = _integers(model_object, "tree_info", len(trees), "").tolist()
    widths = {tree.values.shape[1] for tree in trees}
    if len(widths) > 1:
        _refuse("some of its trees have one value in a leaf, and some several")
    if widths == {n_outputs} and n_outputs > 1:
        starts = range(0, len(trees), side_by_side)
        pairs = [(i, k) for start in starts for k in range(n_outputs)
                 for i in range(start, min(start + side_by_side, len(trees)))]  # fmt: skip
    else:
        pairs = list(enumerate(outputs))
    in_order = all(output == i // side_by_side % n_outputs for i, (_, output) in enumerate(pairs))
    if len(pairs) % (side_by_side * n_outputs) or not in_order:
        _refuse(
            f"its {len(trees)} trees are not whole rounds of {side_by_side} for each of {n_outputs} outputs in turn"
        )
    return pairs


# --- features ---------------------------------------------------------------------------------------------------------

_MAX_WITHOUT_NAMES = 100_000  # with names, the file has one for each feature


def _count_features(learner: Mapping[str, Any]) -> int:
    """Return the number of features."""
    count = _read_count(_read_object(learner, "learner_model_param"), "num_feature")
    if count == 0:
        _refuse("it has no features")
    if count > _MAX_WITHOUT_NAMES and not learner.get("feature_names"):
        raise ParameterError(
            f"the XGBoost model has {count:,} features without names, and at most {_MAX_WITHOUT_NAMES:,} are "
            "supported; set its feature_names"
        )
    return count


def _read_features(
    learner: Mapping[str, Any], model: Mapping[str, Any], trees: Sequence[_SavedTree]
) -> tuple[tuple[Feature, ...], dict[int, dict[int, int]]]:
    """Return the features, and for each categorical one the position of each code in `Feature.categories`.

    Raises
    ------
    ModelFileError
        If the document is damaged.
    ParameterError
        If a feature has no counterpart in frameboost.
    """
    count = _count_features(learner)
    names = checked_names(_texts(learner, "feature_names", count) or [f"f{i}" for i in range(count)])
    types = _texts(learner, "feature_types", count) or ["float"] * count
    codes: dict[int, set[int]] = {i: set() for i, kind in enumerate(types) if kind == "c"}
    compared: set[int] = set()
    no_booleans: set[int] = set()
    for tree in trees:
        for node, chosen in tree.chosen.items():
            codes.setdefault(int(tree.feature[node]), set()).update(chosen)
        for node in tree.numeric.tolist():
            compared.add(int(tree.feature[node]))
            if not _fits_boolean(float(tree.threshold[node]), bool(tree.missing_left[node])):
                no_booleans.add(int(tree.feature[node]))
    features, indices = [], {}
    names_of_categories = _category_names(model, names)
    for i, (name, kind) in enumerate(zip(names, types, strict=True)):
        if i in codes:
            if i in compared:
                raise ParameterError(f"feature {shown(name)} is compared with numbers and with categories")
            feature, indices[i] = _categorical(name, sorted(codes[i]), names_of_categories.get(i))
            features.append(feature)
        else:
            is_boolean = kind == "i" and i not in no_booleans
            features.append(Feature(name, FeatureType("boolean" if is_boolean else "float64")))
    return tuple(features), indices


def _fits_boolean(threshold: float, missing_left: bool) -> bool:
    """Whether a threshold separates false from true, or present from missing values.

    For the latter XGBoost writes 2.000001: twice the largest value and a little more.
    """
    return threshold <= 1 or (2 < threshold < 2.1 and not missing_left)


def _texts(learner: Mapping[str, Any], key: str, count: int) -> list[str]:
    """Return a field that has a string for each feature; an empty list if the field is empty or not there."""
    texts = read_list(learner, key, _DAMAGED) if key in learner else []
    if not all(isinstance(text, str) for text in texts) or len(texts) not in (0, count):
        _refuse(f'"{key}" must be a list of {count} strings')
    return texts


def _categorical(name: str, codes: list[int], category_names: list[Any] | None) -> tuple[Feature, dict[int, int]]:
    if category_names is None:
        return Feature(name, FeatureType("codes"), tuple(codes)), {code: index for index, code in enumerate(codes)}
    if codes and codes[-1] >= len(category_names):
        _refuse(f"feature {shown(name)} has {len(category_names)} categories, and a split by number {codes[-1]}")
    feature, codes_of_names = category_codes(category_names, name)
    return feature, dict(enumerate(codes_of_names))


def _category_names(model: Mapping[str, Any], names: Sequence[str]) -> dict[int, list[Any]]:
    """Return the names of categories by feature; XGBoost 3.1 and later keep them if trained on a frame."""
    if "cats" not in model:
        return {}
    encodings = read_list(_read_object(model, "cats"), "enc", f"{_DAMAGED}, cats")
    if len(encodings) not in (0, len(names)):
        _refuse(f'"enc" must have an entry for each of {len(names)} features', "cats")
    by_feature = {}
    for i, item in enumerate(encodings):
        where = f"categories of feature {shown(names[i])}"
        if not isinstance(item, dict):
            _refuse("they must be an object", where)
        values = _integers(item, "values", None, where)
        if "offsets" in item:
            by_feature[i] = _strings(values, _integers(item, "offsets", None, where).tolist(), where)
        else:
            by_feature[i] = values.tolist()
    return {i: values for i, values in by_feature.items() if values}


def _strings(values: np.ndarray[Any, Any], offsets: list[int], where: str) -> list[str]:
    """Return UTF-8 strings from their concatenated bytes, written as signed numbers, and their offsets.

    Returns an empty list if an offset is within a character: for pandas names that are not ASCII, XGBoost 3.1 and 3.2
    write offsets in characters instead of bytes, and the names are lost.
    """
    if len(values) and (values.min() < -128 or values.max() > 255):
        _refuse("their text is no bytes", where)
    text = (values % 256).astype(np.uint8).tobytes()
    if offsets and (offsets[0] != 0 or sorted(offsets) != offsets or offsets[-1] != len(text)):
        _refuse("their text has the wrong length", where)
    try:
        return [text[start:end].decode("utf-8") for start, end in pairwise(offsets)]
    except UnicodeDecodeError:
        return []


# --- trees ------------------------------------------------------------------------------------------------------------

# A float32 holds all integers below this exactly; XGBoost treats a larger category as an unknown one.
MAX_CATEGORIES = 2**24


@dataclass(frozen=True)
class _SavedTree:
    """An XGBoost tree as arrays without unreachable nodes: entry i of each belongs to node i.

    Attributes
    ----------
    left, right
        int64: children, which come after their parent; ``LEAF`` in a leaf.
    feature
        int64: the feature that is split on.
    threshold
        float32: ``x < threshold`` goes left, in float32.
    chosen
        By node, for categorical splits: the codes that go right.
    missing_left
        bool.
    gain, cover
        float32.
    values
        float32 (nodes, outputs): leaf values.
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    threshold: npt.NDArray[np.float32]
    chosen: Mapping[int, tuple[int, ...]]
    missing_left: npt.NDArray[np.bool_]
    gain: npt.NDArray[np.float32]
    cover: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]

    @property
    def inner(self) -> npt.NDArray[np.int64]:
        """The inner nodes."""
        return np.flatnonzero(self.left != LEAF)

    @property
    def numeric(self) -> npt.NDArray[np.int64]:
        """The nodes that are split at a threshold."""
        return np.array([node for node in self.inner.tolist() if node not in self.chosen], dtype=np.int64)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_tree(item: object, number: int, n_features: int, n_outputs: int) -> _SavedTree:
    """Return the tree of that number.

    Raises
    ------
    ModelFileError
        If it is damaged.
    """
    where = f"tree {number}"
    if not isinstance(item, dict):
        _refuse("it must be an object", where)
    of_tree = _read_object(item, "tree_param", where)
    size = _read_count(of_tree, "num_nodes", where=where)
    vector = max(1, _read_count(of_tree, "size_leaf_vector", 1, where=where))
    if vector > 1 and vector != n_outputs:
        _refuse(f"its leaves have {vector} values, for {n_outputs} outputs", where)
    left, right = (_integers(item, f"{side}_children", size, where) for side in ("left", "right"))
    reached = _in_order(left, right, where)
    index = np.full(size + 1, LEAF)  # the last entry is for the children of leaves, -1
    index[reached] = np.arange(len(reached))
    is_leaf = left[reached] == LEAF
    feature = np.where(is_leaf, LEAF, _integers(item, "split_indices", size, where)[reached])
    if (feature >= n_features).any() or (feature[~is_leaf] < 0).any():
        _refuse(f"it splits on a feature that is not one of the {n_features}", where)
    # Before XGBoost 3.2, trees with leaf vectors had neither of these.
    gain, cover = (
        _floats(item, key, size, where)[reached] if key in item or vector == 1 else np.zeros(len(reached), np.float32)
        for key in ("loss_changes", "sum_hessian")
    )
    threshold = _floats(item, "split_conditions", size, where)
    values = _vectors(item, vector, left, right, where) if vector > 1 else threshold[:, None]
    if not all(np.isfinite(a).all() for a in (gain, cover, values[reached][is_leaf])):
        _refuse("its leaves, gains and covers must be finite", where)
    chosen = _categories(item, size, where)
    return _SavedTree(
        left=index[left[reached]],
        right=np.where(is_leaf, LEAF, index[np.where(is_leaf, LEAF, right[reached])]),
        feature=feature,
        threshold=threshold[reached],
        chosen={int(index[node]): codes for node, codes in chosen.items() if index[node] >= 0 and left[node] != LEAF},
        missing_left=_integers(item, "default_left", size, where)[reached].astype(np.bool_) & ~is_leaf,
        gain=np.where(is_leaf, np.float32(0), gain),
        cover=cover,
        values=values[reached],
    )


def _in_order(left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], where: str) -> list[int]:
    """Return the reachable nodes, parents before children; pruning leaves unreachable ones in the arrays."""
    lefts, rights = left.tolist(), right.tolist()
    if not lefts:
        _refuse("it has no nodes", where)
    order, seen, ascending = [0], {0}, True
    for node in order:
        if lefts[node] == LEAF:
            continue
        for child in (lefts[node], rights[node]):
            if not 0 <= child < len(lefts) or child in seen:
                _refuse(f"node {node} has the child {child}, which is not a node or has another parent", where)
            ascending &= child > node
            seen.add(child)
            order.append(child)
    return sorted(order) if ascending else order


def _vectors(
    item: Mapping[str, Any], width: int, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64], where: str
) -> npt.NDArray[np.float32]:
    """Return the leaf vectors of a tree for several outputs, float32 (nodes, outputs)."""
    if "leaf_weights" not in item:  # before XGBoost 3.2
        return _floats(item, "base_weights", len(left) * width, where).reshape(-1, width)
    is_leaf = left == LEAF
    weights = _floats(item, "leaf_weights", int(is_leaf.sum()) * width, where).reshape(-1, width)
    at = np.where(is_leaf, right, 0)  # in a leaf the right child is the index of its vector
    if (at < 0).any() or (at >= len(weights)).any():
        _refuse("a leaf has no values", where)
    return weights[at]


def _categories(item: Mapping[str, Any], size: int, where: str) -> dict[int, tuple[int, ...]]:
    """Return the codes that go right, by node; before XGBoost 1.3 there were no categories."""
    if "split_type" not in item:
        return {}
    is_categorical = _integers(item, "split_type", size, where) == 1
    codes = _integers(item, "categories", None, where)
    nodes = _integers(item, "categories_nodes", None, where)
    starts, sizes = (_integers(item, f"categories_{key}", len(nodes), where) for key in ("segments", "sizes"))
    if sorted(set(nodes.tolist())) != np.flatnonzero(is_categorical).tolist() or len(set(nodes.tolist())) < len(nodes):
        _refuse('"categories_nodes" must name the nodes that are split by categories', where)
    chosen = {}
    for node, start, n in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        named = set(codes[start : start + n].tolist())
        if start < 0 or n <= 0 or start + n > len(codes) or min(named) < 0 or max(named) >= MAX_CATEGORIES:
            _refuse(f"node {node} has no categories, or unknown ones", where)
        chosen[node] = tuple(sorted(named))
    return chosen


# --- translating ------------------------------------------------------------------------------------------------------


def _translated(
    tree: _SavedTree, features: Sequence[Feature], indices: Mapping[int, Mapping[int, int]], output: int, weight: float
) -> Tree:
    """Return the tree of one output, as frameboost has it.

    Parameters
    ----------
    tree
        The tree that was read.
    features
        The model's features.
    indices
        By categorical feature: the position of each code in `Feature.categories`.
    output
        The margin that the tree adds to; also the entry of leaf vectors that it takes.
    weight
        A factor for leaf values, from dart.
    """
    n_outputs = tree.values.shape[1]
    of_output = tree.values[:, output if n_outputs > 1 else 0].astype(np.float64) * weight
    thresholds = float64_thresholds(tree.threshold).tolist()
    split_at: list[Any] = [None] * len(tree.left)
    for node in tree.numeric.tolist():
        is_boolean = features[tree.feature[node]].type.name == "boolean"
        split_at[node] = _of_boolean(float(tree.threshold[node])) if is_boolean else thresholds[node]
    named: list[Any] = [None] * len(tree.left)
    for node, codes in tree.chosen.items():
        index = indices[int(tree.feature[node])]
        named[node] = tuple(sorted(index[code] for code in codes))
    missing_left = tree.missing_left.tolist()
    return Tree(
        feature=tuple(tree.feature.tolist()),
        threshold=tuple(split_at),
        categories=tuple(named),
        missing_left=tuple(missing_left),
        left=tuple(tree.left.tolist()),
        right=tuple(tree.right.tolist()),
        # A tree for all outputs becomes one tree per output; their gains and covers sum to those of the tree.
        gain=tuple((tree.gain.astype(np.float64) / n_outputs).tolist()),
        cover=tuple((tree.cover.astype(np.float64) / n_outputs).tolist()),
        value=tuple(_means(tree, of_output.tolist())),
        output=output,
        # The chosen codes go right, whichever way missing goes.
        with_missing=tuple(names is not None and not left for names, left in zip(named, missing_left, strict=True)),
    )


def _of_boolean(threshold: float) -> int | None:
    """Return the threshold of a Boolean feature: 1 separates false from true, None present from missing values."""
    return None if threshold > 1 else int(threshold > 0)


def _means(tree: _SavedTree, values: list[float]) -> list[float]:
    """Return the node values; an inner node's is the mean of the leaves below it, weighted by cover.

    XGBoost keeps an inner node's leaf weight before shrinkage, but not the learning rate to shrink it by.
    """
    lefts, rights, covers = tree.left.tolist(), tree.right.tolist(), tree.cover.tolist()
    for node in reversed(tree.inner.tolist()):
        left, right = lefts[node], rights[node]
        total = covers[left] + covers[right]
        share = covers[left] / total if min(covers[left], covers[right]) >= 0 and total > 0 else 0.5
        values[node] = share * values[left] + (1 - share) * values[right]
    return values


# --- objectives and base margins --------------------------------------------------------------------------------------

# By objective: the document's object with its parameters, and their names, which are frameboost's too.
_OF_RANKING = (
    "lambdarank_param",
    ("lambdarank_pair_method", "lambdarank_num_pair_per_sample", "lambdarank_normalization",
     "lambdarank_score_normalization", "ndcg_exp_gain"),
)  # fmt: skip
_OF_POSITIVES = ("reg_loss_param", ("scale_pos_weight",))
_OF_CLASSES = ("softmax_multiclass_param", ("num_class",))
OBJECTIVE_PARAMETERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "reg:squarederror": _OF_POSITIVES,
    "reg:logistic": _OF_POSITIVES,
    "binary:logistic": _OF_POSITIVES,
    "binary:logitraw": _OF_POSITIVES,
    "reg:gamma": _OF_POSITIVES,
    "reg:pseudohubererror": ("pseudo_huber_param", ("huber_slope",)),
    "reg:quantileerror": ("quantile_loss_param", ("quantile_alpha",)),
    "reg:expectileerror": ("expectile_loss_param", ("expectile_alpha",)),
    "reg:tweedie": ("tweedie_regression_param", ("tweedie_variance_power",)),
    "count:poisson": ("poisson_regression_param", ("max_delta_step",)),
    "multi:softmax": _OF_CLASSES,
    "multi:softprob": _OF_CLASSES,
    "survival:aft": ("aft_loss_param", ("aft_loss_distribution", "aft_loss_distribution_scale")),
    "rank:pairwise": _OF_RANKING,
    "rank:ndcg": _OF_RANKING,
    "rank:map": _OF_RANKING,
}
# Objectives whose base margin is the logit or the logarithm of the base score; for all others both are equal.
LOGISTIC = frozenset({"reg:logistic", "binary:logistic"})
LOGARITHMIC = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"})

_OLD_NAMES = {"reg:linear": "reg:squarederror"}
_MAX_OUTPUTS = 10_000
_NO_LIMIT = 2**32 - 1
_POISSON_STEP = 0.7


def _count_outputs(learner: Mapping[str, Any]) -> int:
    """Return the number of margins.

    Raises
    ------
    ModelFileError
        If there are too many.
    """
    of_model = _read_object(learner, "learner_model_param")
    n_outputs = max(_read_count(of_model, "num_class", 0), _read_count(of_model, "num_target", 1), 1)
    if n_outputs > _MAX_OUTPUTS:
        _refuse(f"it has {n_outputs} outputs")
    return n_outputs


def _read_objective(
    learner: Mapping[str, Any], is_custom: bool = False
) -> tuple[Loss, dict[str, Any], tuple[float, ...]]:
    """Return the loss, the training parameters that the document has, and the base margin of each output.

    The loss has only a link, and no gradients, if frameboost cannot train it: for objectives and parameters that it
    does not have, and for a function of the user (``is_custom``), whose document names only the objective of the link.

    Raises
    ------
    ModelFileError
        If the document is damaged.
    ParameterError
        If the objective is not known.
    """
    objective = _read_object(learner, "objective")
    of_model = _read_object(learner, "learner_model_param")
    n_outputs = _count_outputs(learner)
    name = objective.get("name")
    if not isinstance(name, str):
        fail(f"{_DAMAGED}, objective", "name", "a string", name)
    name = _OLD_NAMES.get(name, name)
    if name == "reg:expectileerror" and n_outputs > 1:
        raise ParameterError(
            f"XGBoost's models of {n_outputs} expectiles are not read, as their predictions are not sums of trees; "
            "those of one are"
        )
    if name not in LOSSES:
        raise ParameterError(f"XGBoost's objective {shown(name)} is not supported")
    parameters, same_training = _read_parameters(objective, name)
    if name.startswith("multi:"):
        parameters["num_class"] = _read_count(of_model, "num_class", 0)
    loss = _loss(name, parameters, same_training, n_outputs)
    if is_custom and not loss.link_terms:
        loss = _known_by_link("xgboost:custom", loss)
    return loss, parameters if loss.is_trainable else {}, _base_margins(of_model, name, n_outputs)


def _loss(name: str, parameters: Mapping[str, Any], same_training: bool, n_outputs: int) -> Loss:
    try:
        loss = get_loss(name, Parameters(**parameters).as_dict())
    except ParameterError:  # a parameter out of frameboost's range
        if name.startswith("multi:"):
            raise
        same_training, loss = False, get_loss(name, Parameters(max_delta_step=_POISSON_STEP).as_dict())
    if loss.n_outputs == 1 < n_outputs:
        loss = multi_target_loss(loss, n_outputs)
    if loss.n_outputs != n_outputs:
        _refuse(f"objective {shown(name)} has {loss.n_outputs} outputs, the model {n_outputs}")
    return loss if same_training else _known_by_link(f"xgboost:{name}", loss)


def _known_by_link(name: str, loss: Loss) -> Loss:
    return foreign_loss(name, [link.text for link in loss.links], loss.classes)


def _base_margins(of_model: Mapping[str, Any], name: str, n_outputs: int) -> tuple[float, ...]:
    """Return the base margins of base scores, which documents of all versions have on the scale of the prediction.

    Before XGBoost 3.1 one score stood for all outputs. The inverse link is computed in float32, as in XGBoost.
    """
    scores = _read_numbers(of_model.get("base_score"), "base_score")
    if len(scores) not in (1, n_outputs):
        _refuse(f'"base_score" has {len(scores)} numbers, for {n_outputs} outputs')
    if name in LOGISTIC and not ((scores >= 0) & (scores <= 1)).all():
        _refuse(f'"base_score" must be from 0 to 1 for {shown(name)}')
    margins = logit32(scores) if name in LOGISTIC else log32(scores) if name in LOGARITHMIC else scores
    if not np.isfinite(margins).all():
        _refuse(f'"base_score" leads to no finite margin for {shown(name)}')
    return tuple(map(float, margins)) * (n_outputs // len(scores))


# --- parameters -------------------------------------------------------------------------------------------------------


def _read_parameters(objective: Mapping[str, Any], name: str) -> tuple[dict[str, Any], bool]:
    """Return the objective's parameters, and whether they are all that frameboost needs to train it."""
    holder, names = OBJECTIVE_PARAMETERS.get(name, ("", ()))
    values = _read_object(objective, holder, "objective") if holder in objective else {}
    parameters = {key: _READERS.get(key, _number)(values[key], key) for key in names if key in values}
    if name == "count:poisson" and "max_delta_step" not in parameters:
        parameters["max_delta_step"] = _POISSON_STEP
    # Before XGBoost 2 pairs were drawn at random; such documents have another object.
    same = values.get("lambdarank_unbiased", "0") in ("0", 0)
    return {
        key: value for key, value in parameters.items() if value is not None
    }, same and "lambda_rank_param" not in objective


def _number(text: object, key: str) -> float:
    """Return a float32 as the float64 with its shortest decimal text: ``0.699999988`` becomes 0.7."""
    numbers = _read_numbers(text, key)
    if len(numbers) > 1:
        fail(f"{_DAMAGED}, objective", key, "one number", text)
    return shortest(float(numbers[0]))


def _numbers(text: object, key: str) -> list[float]:
    return [shortest(float(number)) for number in _read_numbers(text, key)]


def _flag(text: object, key: str) -> bool:
    if text not in ("0", "1"):
        fail(f"{_DAMAGED}, objective", key, "0 or 1", text)
    return text == "1"


def _pairs(text: object, key: str) -> int | None:
    count = _read_count({key: text}, key)
    return None if count == _NO_LIMIT else count


_READERS: dict[str, Callable[[object, str], Any]] = {
    "quantile_alpha": _numbers,
    "expectile_alpha": _numbers,
    "num_class": lambda text, key: _read_count({key: text}, key),
    "aft_loss_distribution": lambda text, key: text,
    "lambdarank_pair_method": lambda text, key: text,
    "lambdarank_num_pair_per_sample": _pairs,
    "lambdarank_normalization": _flag,
    "lambdarank_score_normalization": _flag,
    "ndcg_exp_gain": _flag,
}


# --- checked fields of the document -----------------------------------------------------------------------------------

# The first bytes of XGBoost's binary format, the default before XGBoost 1.6.
_OLD_BINARY = b"binf"


def _read_learner(data: bytes) -> dict[str, Any]:
    """Return the ``learner`` of an XGBoost document: all but the version.

    Raises
    ------
    ModelFileError
        If it is neither JSON nor UBJSON, or has no learner.
    """
    document = _parse(data)
    if not isinstance(document, dict) or not isinstance(document.get("learner"), dict):
        raise ModelFileError('not an XGBoost model: the file holds no object with a "learner"')
    learner: dict[str, Any] = document["learner"]
    return learner


def _parse(data: bytes) -> Any:
    if data.startswith(_OLD_BINARY):
        raise ModelFileError(
            "the file is of XGBoost's old binary format; load it in XGBoost 3.0 or before, and save it as .json or .ubj"
        )
    if re.match(rb"\{[iUIlL#]", data):
        return read_ubjson(data, "not an XGBoost model: the file is not UBJSON")
    return parse_json(data, "not an XGBoost model: the file is neither JSON nor UBJSON", _DAMAGED)


def _refuse(what: str, where: str = "") -> NoReturn:
    """Raise `ModelFileError`: the model is damaged."""
    raise ModelFileError(f"{_located(where)}: {what}")


def _located(where: str) -> str:
    return f"{_DAMAGED}, {where}" if where else _DAMAGED


def _read_object(item: Mapping[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """Return a field that must be an object."""
    value = item.get(key)
    if not isinstance(value, dict):
        fail(_located(where), key, "an object", value)
    return value


def _read_count(item: Mapping[str, Any], key: str, default: int | None = None, where: str = "") -> int:
    """Return a field that must be an integer of at least 0, which XGBoost writes as text."""
    value = item.get(key, default)
    if isinstance(value, str) and re.fullmatch(r"\d{1,10}", value, re.ASCII):
        return int(value)
    if not is_integer(value) or value < 0:
        fail(_located(where), key, "a number from 0", value)
    return int(value)


def _read_numbers(text: object, what: str) -> npt.NDArray[np.float32]:
    """Return the numbers, float32, of a text such as ``5E-1``, ``[5E-1]`` or ``[1E0,2E0]``."""
    try:
        parsed = json.loads(re.sub(r"^\((.*)\)$", r"[\1]", text)) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        parsed = None
    values: list[Any] = parsed if isinstance(parsed, list) else [parsed]
    if not values or not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        fail(_DAMAGED, what, "a number or a list of numbers", text)
    try:
        return as_float32(values)
    except OverflowError:
        fail(_DAMAGED, what, "a number that a float32 can hold", text)


def _integers(item: Mapping[str, Any], key: str, size: int | None, where: str) -> npt.NDArray[np.int64]:
    """Return a field that must be a list of that many integers (Booleans are 0 and 1)."""
    return _array(item, key, size, where, "bi", "integers").astype(np.int64)


def _floats(item: Mapping[str, Any], key: str, size: int, where: str) -> npt.NDArray[np.float32]:
    """Return a field that must be a list of that many numbers, as float32, perhaps NaN or infinite."""
    return as_float32(_array(item, key, size, where, "if", "numbers"))


def _array(item: Mapping[str, Any], key: str, size: int | None, where: str, kinds: str, what: str) -> npt.NDArray[Any]:
    values = read_list(item, key, _located(where))
    if size is not None and len(values) != size:
        raise ModelFileError(f'{_located(where)}: "{key}" must have {size} entries, not {len(values)}')
    try:
        array = np.array(values) if values else np.empty(0, dtype=np.int64)
    except ValueError:  # lists of different lengths
        array = np.empty((0, 0))
    if array.dtype.kind not in kinds or array.ndim != 1:
        fail(_located(where), key, f"a list of {what}", values)
    return array

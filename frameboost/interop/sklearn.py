"""Read scikit-learn models: gradient boosting, histogram gradient boosting, forests and single trees.

Differences to frameboost, and how each is translated:

- Splits are ``x <= t``, which is ``x < u`` with u the next float64 above t. All but histogram gradient boosting convert
  x to float32 first; then u is the smallest float64 that rounds to a float32 above t.
- `GradientBoostingRegressor` and `GradientBoostingClassifier` send NaN right; the others to the split's missing side.
- Forests and single trees predict means or class shares, without a link. Each leaf is divided by the number of trees;
  class shares so that ties have equal sums, and the first class wins.
- A leaf may hold several values (targets, or more than two classes). Here each output has separate trees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.interop.ensembles import (
    LeafNode,
    SplitNode,
    above_float32,
    at_most,
    build_tree,
    category_codes,
    checked_ensemble,
    checked_names,
    class_labels,
    native_loss,
)
from frameboost.interop.files import comes_from, unreadable
from frameboost.losses.custom import foreign_loss
from frameboost.losses.loss import Loss, margin_names
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree

__all__ = ["read_sklearn"]

# Losses of regressors that frameboost has too.
_COUNTERPARTS = {
    "squared_error": "reg:squarederror",
    "absolute_error": "reg:absoluteerror",
    "poisson": "count:poisson",
    "gamma": "reg:gamma",
}
# The grid of class shares in leaves, which sums of them keep, and the most units of which shares are.
_VOTE, _MAX_PARTS = 2.0**-51, 1 << 12
_EPSILON = float(np.finfo(np.float64).eps)


def read_sklearn(estimator: Any) -> Ensemble:
    """Return a scikit-learn model as an ensemble with the same predictions (see `frameboost.from_sklearn`)."""
    kinds = {kind.__name__ for kind in type(estimator).__mro__ if kind.__module__.startswith("sklearn.")}
    for kind, (fitted, read) in _READERS.items():
        if comes_from(estimator, "sklearn") and kinds & {kind, f"{kind}Regressor", f"{kind}Classifier"}:
            if not hasattr(estimator, fitted):
                raise ParameterError(f"the {type(estimator).__name__} is not fitted")
            ensemble = read(estimator)
            return replace(ensemble, labels=class_labels(getattr(estimator, "classes_", None), ensemble.loss))
    raise unreadable(estimator, "a gradient boosting, forest or tree estimator of scikit-learn's", "estimator")


def _names(estimator: Any) -> tuple[str, ...]:
    names = getattr(estimator, "feature_names_in_", None)
    return checked_names([f"x{i}" for i in range(estimator.n_features_in_)] if names is None else list(map(str, names)))


def _float_features(names: Sequence[str]) -> list[Feature]:
    return [Feature(name, FeatureType("float64")) for name in names]


def _loss(estimator: Any, n_outputs: int) -> tuple[Loss, dict[str, Any]]:
    """Return the loss of a boosted model, and the parameters that it takes."""
    name = estimator.loss if isinstance(estimator.loss, str) else type(estimator.loss).__name__
    if name == "log_loss":
        if n_outputs == 1:
            return native_loss("binary:logistic", {})
        return native_loss("multi:softprob", {"num_class": n_outputs})
    if name == "exponential":
        return foreign_loss("sklearn:exponential", ["1 / (1 + EXP(-2 * margin))"], classes=2), {}
    if name == "quantile":
        alpha = float(estimator.quantile if hasattr(estimator, "quantile") else estimator.alpha)
        if 0 < alpha < 1:
            return native_loss("reg:quantileerror", {"quantile_alpha": alpha})
    if name == "poisson":
        return native_loss("count:poisson", {"max_delta_step": 0.7})  # XGBoost's default; only further training uses it
    if name in _COUNTERPARTS:
        return native_loss(_COUNTERPARTS[name], {})
    if name in ("huber", "quantile"):
        return foreign_loss(f"sklearn:{name}", ["margin"]), {}
    raise ParameterError(f"the {type(estimator).__name__} has the loss {shown(name)}, which is not supported")


# --- trees that compare float32 ---------------------------------------------------------------------------------------


def _read_boosting(estimator: Any) -> Ensemble:
    names = _names(estimator)
    n_outputs = estimator.estimators_.shape[1]
    loss, parameters = _loss(estimator, n_outputs)
    trees = []
    for round_ in estimator.estimators_:
        for output, member in enumerate(round_):
            values = member.tree_.value[:, 0, 0] * estimator.learning_rate
            trees.append(_tree(member.tree_, values, output, follows_missing=False))
    return checked_ensemble(
        loss, parameters, _float_features(names), _base_margins(estimator, n_outputs), trees, library="scikit-learn"
    )


def _base_margins(estimator: Any, n_outputs: int) -> list[float]:
    """Return the margins that boosting started from."""
    init = estimator.init_
    if isinstance(init, str):  # "zero"
        return [0.0] * n_outputs
    dummy = type(init).__name__
    if dummy not in ("DummyRegressor", "DummyClassifier") or getattr(init, "strategy", None) == "stratified":
        raise ParameterError(f"the {type(estimator).__name__} starts from another model (init), not from a constant")
    nothing = np.zeros((1, estimator.n_features_in_))
    if dummy == "DummyRegressor":
        return [float(init.predict(nothing)[0])]
    shares = np.clip(init.predict_proba(nothing)[0], _EPSILON, 1 - _EPSILON)
    if n_outputs > 1:
        logarithms = np.log(shares)
        return list(map(float, logarithms - logarithms.mean()))
    logit = math.log(shares[1] / (1 - shares[1]))
    return [logit / 2 if estimator.loss == "exponential" else logit]


def _read_forest(estimator: Any) -> Ensemble:
    return _read_averaged(estimator, estimator.estimators_)


def _read_tree(estimator: Any) -> Ensemble:
    return _read_averaged(estimator, [estimator])


def _read_averaged(estimator: Any, members: Sequence[Any]) -> Ensemble:
    """Return an ensemble that sums to the mean of trees with means or class shares in their leaves."""
    is_classifier = hasattr(estimator, "classes_")
    if is_classifier and estimator.n_outputs_ > 1:
        raise ParameterError(f"the {type(estimator).__name__} predicts {estimator.n_outputs_} columns of classes")
    n_classes = int(estimator.n_classes_) if is_classifier else 0
    if n_classes == 1:
        raise ParameterError(f"the {type(estimator).__name__} was fitted on one class")
    n_outputs = (1 if n_classes == 2 else n_classes) if is_classifier else estimator.n_outputs_
    names = _names(estimator)
    if is_classifier:
        values_of = _votes([_class_shares(member.tree_.value[:, 0, :]) for member in members], members)
    else:
        values_of = [member.tree_.value[:, :, 0] / len(members) for member in members]
    trees = [
        _tree(member.tree_, values[:, 1 if n_classes == 2 else output], output, follows_missing=True)
        for member, values in zip(members, values_of, strict=True)
        for output in range(n_outputs)
    ]
    loss = foreign_loss(f"sklearn:{type(estimator).__name__}", margin_names(n_outputs), n_classes)
    return checked_ensemble(loss, {}, _float_features(names), [0.0] * n_outputs, trees, library="scikit-learn")


def _votes(shares: Sequence[npt.NDArray[np.float64]], members: Sequence[Any]) -> list[npt.NDArray[np.float64]]:
    """Return the class shares of each tree's nodes divided by the number of trees, preserving ties.

    If the classes of a leaf have a few rows each, its shares are multiples of 1/d for some d, in many forests 1. Then
    all shares are integers times one factor, about 1/(d n), so that equal votes of n trees have equal sums. Otherwise
    they are rounded down, and a tie of two classes is slightly less than a half, so that the first class wins it.
    """
    n, denominator = len(members), 1
    for shares_of_tree, member in zip(shares, members, strict=True):
        is_leaf = member.tree_.children_left < 0
        rows = np.round(shares_of_tree * member.tree_.weighted_n_node_samples[:, None])[is_leaf].astype(np.int64)
        total = rows.sum(axis=1)
        is_exact = bool((total > 0).all() and (rows / np.maximum(total, 1)[:, None] == shares_of_tree[is_leaf]).all())
        needed = total // np.maximum(np.gcd.reduce(rows, axis=1), 1) if is_exact else np.array([_MAX_PARTS])
        denominator = reduce(math.lcm, np.unique(needed).tolist(), denominator)
        if denominator * n > _MAX_PARTS:
            return [np.floor(shares_of_tree / n / _VOTE) * _VOTE for shares_of_tree in shares]
    unit = math.floor(1 / (denominator * n) / _VOTE) * _VOTE
    return [np.round(shares_of_tree * denominator, 9) * unit for shares_of_tree in shares]


def _class_shares(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return class shares; before scikit-learn 1.3 a node held class weights instead."""
    totals = values.sum(axis=1, keepdims=True)
    return values if np.allclose(totals, 1.0) else values / np.where(totals == 0, 1.0, totals)


def _tree(nodes: Any, values: npt.NDArray[np.float64], output: int, *, follows_missing: bool) -> Tree:
    """Return a tree of scikit-learn's ``Tree``; missing values go right unless ``follows_missing``."""
    go_left = getattr(nodes, "missing_go_to_left", None) if follows_missing else None
    missing_left = np.zeros(nodes.node_count, dtype=bool) if go_left is None else np.asarray(go_left, dtype=bool)
    thresholds = above_float32(nodes.threshold)
    weight, impurity = nodes.weighted_n_node_samples, nodes.impurity * nodes.weighted_n_node_samples

    def look_up(number: int) -> SplitNode | LeafNode:
        while (left := int(nodes.children_left[number])) >= 0:
            right = int(nodes.children_right[number])
            condition: dict[str, Any] = {}
            if nodes.threshold[number] < math.inf:
                condition = {"threshold": float(thresholds[number]), "missing_left": bool(missing_left[number])}
            elif missing_left[number]:
                number = left
                continue
            return SplitNode(
                int(nodes.feature[number]), left, right, **condition, cover=float(weight[number]),
                value=float(values[number]), gain=float(impurity[number] - impurity[left] - impurity[right]),
            )  # fmt: skip
        return LeafNode(float(values[number]), float(weight[number]))

    return build_tree(0, look_up, output)


# --- histogram gradient boosting --------------------------------------------------------------------------------------


def _read_histogram_boosting(estimator: Any) -> Ensemble:
    names = _names(estimator)
    is_categorical = getattr(estimator, "is_categorical_", None)
    if is_categorical is None:
        is_categorical = np.zeros(len(names), dtype=bool)
    features, codes = _float_features(names), {}
    order = [int(i) for i in (*np.flatnonzero(is_categorical), *np.flatnonzero(~is_categorical))]
    if is_categorical.any():
        encoder = estimator._preprocessor.named_transformers_["encoder"]
        for number, categories in zip(order, encoder.categories_, strict=False):
            present = [_plain(value) for value in categories if value is not None and value == value]
            features[number], codes[number] = category_codes(present, names[number])
    n_outputs = estimator.n_trees_per_iteration_
    loss, parameters = _loss(estimator, n_outputs)
    trees = [
        _histogram_tree(member, order, codes, estimator.learning_rate, output)
        for round_ in estimator._predictors
        for output, member in enumerate(round_)
    ]
    starts = list(map(float, np.ravel(estimator._baseline_prediction)))
    return checked_ensemble(loss, parameters, features, starts, trees, library="scikit-learn")


def _plain(value: Any) -> Any:
    is_time = isinstance(value, np.datetime64 | np.timedelta64)  # numpy converts them to integers
    return value.item() if isinstance(value, np.generic) and not is_time else value


def _histogram_tree(
    member: Any, order: Sequence[int], codes: dict[int, tuple[int, ...]], learning_rate: float, output: int
) -> Tree:
    nodes, sets = member.nodes, member.raw_left_cat_bitsets

    def look_up(number: int) -> SplitNode | LeafNode:
        while not (node := nodes[number])["is_leaf"]:
            feature, missing_left = order[node["feature_idx"]], bool(node["missing_go_to_left"])
            if node["is_categorical"]:
                condition = _split_categories(codes[feature], sets[node["bitset_idx"]], missing_left=missing_left)
            else:
                condition = at_most(float(node["num_threshold"]), missing_left=missing_left)
            if not isinstance(condition, bool):
                # Only leaves are multiplied by the learning rate and renewed; inner nodes keep their first value.
                value = float(node["value"]) * learning_rate
                return SplitNode(
                    feature, int(node["left"]), int(node["right"]), **condition, gain=float(node["gain"]),
                    cover=float(node["count"]), value=value if math.isfinite(value) else 0.0,
                )  # fmt: skip
            number = int(node["left" if condition else "right"])
        return LeafNode(float(node["value"]), float(node["count"]))

    return build_tree(0, look_up, output)


def _split_categories(
    codes: Sequence[int], words: npt.NDArray[np.uint32], *, missing_left: bool
) -> dict[str, Any] | bool:
    """Return the categories opposite to the missing direction; the words' bits are those that go left."""
    goes_left = [bool(int(words[code // 32]) >> code % 32 & 1) for code in range(len(codes))]
    named = tuple(sorted(codes[code] for code, left in enumerate(goes_left) if left != missing_left))
    return {"categories": named, "missing_left": missing_left} if named else missing_left


_READERS: dict[str, tuple[str, Callable[[Any], Ensemble]]] = {
    "BaseGradientBoosting": ("estimators_", _read_boosting),
    "BaseHistGradientBoosting": ("_predictors", _read_histogram_boosting),
    "RandomForest": ("estimators_", _read_forest),
    "ExtraTrees": ("estimators_", _read_forest),
    "DecisionTree": ("tree_", _read_tree),
}

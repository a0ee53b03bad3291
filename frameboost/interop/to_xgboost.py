"""Write models for XGBoost: JSON that XGBoost 3.2 loads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np

from frameboost.checks.messages import advice, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ParameterError
from frameboost.interop.ensembles import as_float32, log32, logit32, nearest_float32, shortest
from frameboost.interop.xgboost import LOGARITHMIC, LOGISTIC, MAX_CATEGORIES, OBJECTIVE_PARAMETERS
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, Physical
from frameboost.trees.linear_leaves import refuse_linear
from frameboost.trees.tree import Tree

__all__ = ["to_xgboost"]

_VERSION = [3, 2, 0]
_NO_PARENT = 2**31 - 1
# XGBoost's numbers for the types of categories that are integers. It writes files of others that it can't read.
_INTEGERS = {"int8": 9, "uint8": 10, "int16": 11, "int32": 13, "int64": 15}


def to_xgboost(ensemble: Ensemble) -> str:
    """Return the model as JSON in the format of XGBoost 3.2.

    XGBoost computes in float32. Pass it the features as numbers: Booleans as 0 and 1, decimals by value, dates and
    times as days or units since 1970-01-01, durations in their units, codes unchanged. Categories that
    are strings or integers are written with their values; pass them as a Categorical of pandas (strings of polars too),
    or in an array as their indices in ``Feature.categories``. NULL and NaN are missing.

    - Values of float32 columns, and integers up to 2^24, reach the same leaves.
    - Other values and thresholds are rounded, so that a value near a threshold may change sides; a value equal to the
      threshold never does.
    - Leaf values are rounded to float32, and XGBoost rounds the sum again after each tree.
    - reg:huber, reg:fair and reg:mape, which XGBoost lacks, are written as reg:squarederror, which also predicts the
      margin.

    Parameters
    ----------
    ensemble
        The model.

    Returns
    -------
    str
        JSON, for ``xgboost.Booster(model_file=...)`` or ``load_model``.

    Raises
    ------
    ParameterError
        If XGBoost lacks something that the model has: a loss that the user wrote or of another library, a calibration,
        an offset, zeros that are missing, categories that are neither strings nor integers, codes below 0 or
        from 2^24, two thresholds of a feature that are the same float32, leaf values beyond a float32.

    Examples
    --------
    >>> # needs xgboost
    >>> import polars as pl, frameboost as fb, numpy as np, xgboost
    >>> df = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})
    >>> model = fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0)
    >>> text = to_xgboost(model.ensemble)
    >>> booster = xgboost.Booster(model_file=bytearray(text, "utf-8"))
    >>> booster.predict(xgboost.DMatrix(df.select("x"))).tolist()
    [0.0, 0.0, 8.0, 8.0]
    """
    _check(ensemble)
    n_outputs, names = ensemble.loss.n_outputs, [feature.name for feature in ensemble.features]
    scores, margins = _base_scores(ensemble.loss.name, ensemble.base_margins)
    # The rounding error of the float32 base score is added to the leaves of the output's first tree.
    rest = [base - margin for base, margin in zip(ensemble.base_margins, margins, strict=True)]
    conditions = [_conditions(feature, i, ensemble.trees) for i, feature in enumerate(ensemble.features)]
    trees, started = [], set[int]()
    for number, tree in enumerate(ensemble.trees):
        shift = 0.0 if tree.output in started else rest[tree.output]
        started.add(tree.output)
        trees.append(_tree(tree, number, ensemble.features, conditions, shift))
    a_round = n_outputs * int(ensemble.parameters.get("num_parallel_tree", 1))
    model = {
        "cats": _cats(ensemble.features),
        "gbtree_model_param": {"num_parallel_tree": str(a_round // n_outputs), "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, a_round)),
        "tree_info": [tree.output for tree in ensemble.trees],
        "trees": trees,
    }
    of_classes = ensemble.loss.name.startswith("multi:")
    learner = {
        "attributes": {},
        "feature_names": names,
        "feature_types": [_type(feature) for feature in ensemble.features],
        "gradient_booster": {"model": model, "name": "gbtree"},
        "learner_model_param": {
            "base_score": json.dumps(scores),
            "boost_from_average": "0",
            "num_class": str(n_outputs if of_classes else 0),
            "num_feature": str(len(names)),
            "num_target": str(1 if of_classes else n_outputs),
        },
        "objective": _objective(ensemble.loss.name, n_outputs, ensemble.parameters),
    }
    return json.dumps({"learner": learner, "version": _VERSION}, ensure_ascii=False)


def _check(ensemble: Ensemble) -> None:
    if ensemble.offset is not None:
        raise ParameterError(
            f"the model adds its {ensemble.offset} to the margins, and a file of XGBoost names no such column; there "
            "base_margin replaces the base score, so that a score without it would silently be another one"
        )
    refuse_linear("a model of XGBoost", is_linear=ensemble.is_linear)
    if ensemble.loss.definition is not None or ensemble.loss.is_distribution:
        raise ParameterError(f"XGBoost has no objective {shown(ensemble.loss.name)}")
    if ensemble.loss.transform is not None:
        raise ParameterError(f"XGBoost has no target_transform={shown(ensemble.loss.transform.name)}")
    if ensemble.loss.threshold != 0.5:
        raise ParameterError(
            f"XGBoost decides at 0.5, and the model at {ensemble.loss.threshold:g}"
            + advice("; use model.with_threshold(0.5)")
        )
    if ensemble.calibration is not None:
        raise ParameterError("the model is calibrated, which XGBoost's format can't hold")
    for feature in ensemble.features:
        if feature.zero_is_missing:
            raise ParameterError(
                f"zeros of feature {shown(feature.name)} are missing, which XGBoost's format can't hold"
            )
        if any(sign in feature.name for sign in "[]<"):
            raise ParameterError(
                f"XGBoost takes no feature whose name has [, ] or < in it, such as {shown(feature.name)}"
            )
        if (
            feature.type.name.startswith("category(")
            and not _has_integers(feature)
            and feature.type.family != "boolean"
        ):
            raise ParameterError(
                f"feature {shown(feature.name)} has categories of type {feature.type.values}, which XGBoost can't "
                "hold; train on integers or strings"
            )
        codes = feature.categories if feature.type.name == "codes" else ()
        if any(not 0 <= int(code) < MAX_CATEGORIES for code in codes):
            raise ParameterError(
                f"feature {shown(feature.name)} has codes that XGBoost can't have: it takes 0 to 16777215"
            )


# --- the head ---------------------------------------------------------------------------------------------------------

# Objectives that XGBoost lacks, each with one of the same prediction, the margin.
_SCORED_ALIKE = dict.fromkeys(("reg:huber", "reg:fair", "reg:mape"), "reg:squarederror")


def _base_scores(name: str, margins: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return base scores, on the scale of the prediction, and the margins that XGBoost computes from them."""
    if name in LOGISTIC:
        scores = as_float32([1 / (1 + math.exp(-max(-700.0, margin))) for margin in margins])
        read = logit32(scores)
    elif name in LOGARITHMIC:
        scores = as_float32([math.exp(max(-80.0, min(margin, 80.0))) for margin in margins])
        read = log32(scores)
    else:
        scores = read = as_float32(margins)
    return [shortest(float(score)) for score in scores], [float(margin) for margin in read]


def _objective(name: str, n_outputs: int, parameters: Mapping[str, Any]) -> dict[str, Any]:
    name = _SCORED_ALIKE.get(name, name)
    if name == "reg:expectileerror" and n_outputs > 1:  # XGBoost's predictions of it are not sums of trees
        name = "reg:squarederror"
    holder, names = OBJECTIVE_PARAMETERS.get(name, ("", ()))
    if not holder:
        return {"name": name}
    values = Parameters().as_dict() | dict(parameters)
    texts = {key: _text(values[key]) for key in names if values[key] is not None}
    return {"name": name, holder: texts}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return json.dumps(value) if isinstance(value, list | tuple) else str(value)


def _type(feature: Feature) -> str:
    if feature.type.is_categorical:
        return "c"
    if feature.type.name == "boolean":
        return "i"
    return "float" if feature.type.is_float or feature.type.precision_and_scale else "int"


def _has_integers(feature: Feature) -> bool:
    """Whether the categories are integers with names of their own, rather than codes or strings."""
    return feature.type.name.startswith("category(") and feature.type.values.name.lstrip("u").startswith("int")


def _cats(features: Sequence[Feature]) -> dict[str, Any]:
    """Return the categories in XGBoost's format: integers, or concatenated bytes and offsets; and the sort order.

    XGBoost sorts bytes as signed numbers, so that characters outside ASCII come first.
    """
    encodings, segments, order = [], [0], list[int]()
    for feature in features:
        keys: list[Any] = []
        if _has_integers(feature):
            keys = [int(category) for category in feature.categories]
            kind = _INTEGERS.get(feature.type.values.name, _INTEGERS["int64"])
            encodings.append({"type": kind, "values": keys})
        else:
            names = [str(category).encode() for category in feature.categories if feature.type.name == "string"]
            offsets = np.cumsum([0, *map(len, names)]).tolist() if names else []
            encodings.append({"offsets": offsets, "values": np.frombuffer(b"".join(names), dtype=np.int8).tolist()})
            keys = [np.frombuffer(name, dtype=np.int8).tolist() for name in names]
        segments.append(segments[-1] + len(keys))
        order += sorted(range(len(keys)), key=keys.__getitem__)
    if not order:
        return {"enc": [], "feature_segments": [], "sorted_idx": []}
    return {"enc": encodings, "feature_segments": segments, "sorted_idx": order}


# --- trees ------------------------------------------------------------------------------------------------------------


def _conditions(feature: Feature, number: int, trees: Sequence[Tree]) -> dict[Physical, float]:
    """Return the float32 of each threshold of a feature; raise `ParameterError` if two become equal."""
    used = {t for tree in trees for f, t in zip(tree.feature, tree.threshold, strict=True)
            if f == number and t is not None}  # fmt: skip
    conditions: dict[Physical, float] = {}
    threshold_of: dict[float, Physical] = {}
    for threshold in sorted(used):
        value = _condition(feature, threshold)
        if value in threshold_of:
            raise ParameterError(
                f"feature {shown(feature.name)} has thresholds {shown(threshold_of[value])} and {shown(threshold)}, "
                "which are the same in XGBoost, whose numbers are float32"
            )
        conditions[threshold], threshold_of[value] = value, threshold
    return conditions


def _condition(feature: Feature, threshold: Physical) -> float:
    """Return a threshold as a float32.

    In a column of float32 it is the first one that is not below: no value lies between the two. In others it is the
    nearest: a value equal to the threshold rounds to the same float32, and so goes right, as it should.
    """
    if isinstance(threshold, float) and math.isinf(threshold):
        return threshold
    number = feature.type.as_fraction(threshold) if feature.type.precision_and_scale else Fraction(threshold)
    if feature.type.name == "float32":
        return cast(float, feature.type.at_least(number))
    return nearest_float32(number)


def _tree(
    tree: Tree, number: int, features: Sequence[Feature], conditions: Sequence[Mapping[Physical, float]], shift: float
) -> dict[str, Any]:
    """Return a tree, renumbered so that siblings have consecutive numbers, as XGBoost requires."""
    numbers, swapped = [0], [_is_swapped(tree, node) for node in range(len(tree))]
    for node in numbers:
        if not tree.is_leaf(node):
            children = (tree.left[node], tree.right[node])
            numbers += children[::-1] if swapped[node] else children
    index = {node: i for i, node in enumerate(numbers)}
    lefts = [-1 if tree.is_leaf(n) else index[tree.right[n] if swapped[n] else tree.left[n]] for n in numbers]
    parents = [_NO_PARENT] * len(numbers)
    for i, left in enumerate(lefts):
        if left >= 0:
            parents[left] = parents[left + 1] = i
    named = {i: _codes(features[tree.feature[n]], tree.categories[n]) for i, n in enumerate(numbers)
             if tree.categories[n] is not None}  # fmt: skip
    sizes = [len(codes) for codes in named.values()]
    floats = {
        "base_weights": [tree.value[n] for n in numbers],
        "loss_changes": [tree.gain[n] for n in numbers],
        "split_conditions": [
            tree.value[n] + shift if tree.is_leaf(n) else _split_condition(tree, n, conditions) for n in numbers
        ],
        "sum_hessian": [tree.cover[n] for n in numbers],
    }
    if not np.isfinite(as_float32([floats["split_conditions"][index[leaf]] for leaf in tree.leaves()])).all():
        raise ParameterError(f"tree {number} has leaf values that are too large for XGBoost, whose numbers are float32")
    return {
        **{key: [shortest(value) for value in values] for key, values in floats.items()},
        "categories": [code for codes in named.values() for code in codes],
        "categories_nodes": list(named),
        "categories_segments": [sum(sizes[:i]) for i in range(len(sizes))],
        "categories_sizes": sizes,
        "default_left": [int(not tree.is_leaf(n) and tree.missing_left[n] != swapped[n]) for n in numbers],
        "id": number,
        "left_children": lefts,
        "parents": parents,
        "right_children": [left + 1 if left >= 0 else -1 for left in lefts],
        "split_indices": [max(0, tree.feature[n]) for n in numbers],
        "split_type": [int(i in named) for i in range(len(numbers))],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(features)),
            "num_nodes": str(len(numbers)),
            "size_leaf_vector": "1",
        },
    }


def _is_swapped(tree: Tree, node: int) -> bool:
    """Whether left and right are exchanged.

    In XGBoost the listed categories go right and all others left. A split on presence becomes ``x < -inf``, which sends
    all values right and missing left.
    """
    if tree.is_leaf(node) or tree.threshold[node] is not None:
        return False
    return tree.categories[node] is None or tree.named_left(node)


def _split_condition(tree: Tree, node: int, conditions: Sequence[Mapping[Physical, float]]) -> float:
    threshold = tree.threshold[node]
    if threshold is not None:
        return conditions[tree.feature[node]][threshold]
    return 0.0 if tree.categories[node] is not None else -math.inf


def _codes(feature: Feature, indices: Sequence[int] | None) -> list[int]:
    """Return XGBoost's codes of categories: the codes themselves for codes, of all other types positions."""
    return [int(feature.categories[index]) if feature.type.name == "codes" else index for index in indices or ()]

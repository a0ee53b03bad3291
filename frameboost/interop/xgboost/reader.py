"""The reader of XGBoost's models, from a booster, an estimator or a file: every row ends in the same leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.checks.json_fields import read_list
from frameboost.checks.messages import reason, shown
from frameboost.ensemble.ensemble import Ensemble
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.ensemble_checks import checked_ensemble
from frameboost.interop.model_argument import bytes_of_file, comes_from, unreadable
from frameboost.interop.xgboost.document import (
    fail_damaged,
    integers,
    read_count,
    read_learner,
    read_numbers,
    read_object,
)
from frameboost.interop.xgboost.features import count_features, read_features
from frameboost.interop.xgboost.objectives import count_outputs, read_objective
from frameboost.interop.xgboost.trees import XGBoostTree, read_xgboost_tree, translate_tree
from frameboost.trees.tree import Tree

__all__ = ["best_round", "read_xgboost"]

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
            "does; give its get_booster(), and score rows that have NULL in its place"
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
    learner = read_learner(data)
    booster = read_object(learner, "gradient_booster")
    name = booster.get("name")
    if name == "gblinear":
        raise ParameterError("a model of gblinear has no trees")
    if name not in ("gbtree", "dart"):
        raise ParameterError(f"XGBoost's booster {shown(name)} is not known here")
    held = read_object(read_object(booster, "gbtree") if "gbtree" in booster else booster, "model")
    n_features, n_outputs = count_features(learner), count_outputs(learner)
    items = read_list(held, "trees", "damaged XGBoost model")
    trees = [read_xgboost_tree(item, i, n_features, n_outputs) for i, item in enumerate(items)]
    side_by_side = max(1, read_count(read_object(held, "gbtree_model_param"), "num_parallel_tree", 1))
    # Checked first, because a damaged file may declare very many outputs.
    in_rounds = _rounds(held, trees, n_outputs, side_by_side)
    loss, parameters, base_margins = read_objective(learner, is_custom)
    features, indices = read_features(learner, held, trees)
    # The weights of dart are beside the trees up to XGBoost 3.4, and in the trees' object later.
    weights = _weights(booster if "weight_drop" in booster else held, len(trees))
    if weights is not None:
        parameters["booster"] = "dart"
    parameters["num_parallel_tree"] = side_by_side
    ours = []
    for number, output in in_rounds:
        weight = 1.0 if weights is None else weights[number]
        ours.append(translate_tree(trees[number], features, indices, output, weight))
    if n_rounds is not None:
        ours = _first_trees(ours, n_rounds * n_outputs * side_by_side)
    return checked_ensemble(loss, parameters, features, base_margins, ours)


def _weights(held: Mapping[str, Any], n_trees: int) -> list[float] | None:
    if "weight_drop" not in held:
        return None
    weights = read_numbers(held["weight_drop"], "weight_drop") if held["weight_drop"] else ()
    if len(weights) != n_trees:
        fail_damaged(f'"weight_drop" has {len(weights)} numbers, for {n_trees} trees')
    return list(map(float, weights))


def _rounds(
    held: Mapping[str, Any], trees: Sequence[XGBoostTree], n_outputs: int, side_by_side: int
) -> list[tuple[int, int]]:
    """Return (tree, output) pairs in the order of an ensemble: by round, within a round by output.

    A tree with a vector in each leaf occurs once for each output.
    """
    if not trees:
        raise ModelFileError("the model has no trees")
    outputs = integers(held, "tree_info", len(trees), "").tolist()
    widths = {tree.values.shape[1] for tree in trees}
    if len(widths) > 1:
        fail_damaged("some of its trees have one value in a leaf, and some several")
    if widths == {n_outputs} and n_outputs > 1:
        starts = range(0, len(trees), side_by_side)
        found = [(i, k) for start in starts for k in range(n_outputs)
                 for i in range(start, min(start + side_by_side, len(trees)))]  # fmt: skip
    else:
        found = list(enumerate(outputs))
    in_order = all(output == i // side_by_side % n_outputs for i, (_, output) in enumerate(found))
    if len(found) % (side_by_side * n_outputs) or not in_order:
        fail_damaged(
            f"its {len(trees)} trees are not whole rounds of {side_by_side} for each of {n_outputs} outputs in turn"
        )
    return found


def _first_trees(trees: list[Tree], count: int) -> list[Tree]:
    if count > len(trees):
        fail_damaged(f"its best round would have {count} trees, and there are {len(trees)}")
    return trees[:count]

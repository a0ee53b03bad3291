"""Models of XGBoost: read from a booster, an estimator or a file, and the same to the last decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frameboost.checks.json_fields import read_list
from frameboost.checks.messages import reason, shown
from frameboost.errors import ModelFileError, ParameterError
from frameboost.interop.given import comes_from, refuse, text_of
from frameboost.interop.parts import finished
from frameboost.interop.xgboost.document import integers, read_count, read_learner, read_numbers, read_object, wrong
from frameboost.interop.xgboost.features import count_features, read_features
from frameboost.interop.xgboost.objectives import count_outputs, read_objective
from frameboost.interop.xgboost.trees import XGBoostTree, read_xgboost_tree, translated
from frameboost.model.model import Model
from frameboost.trees.tree import Tree

__all__ = ["from_xgboost"]

_WANTED = "a Booster or an estimator of XGBoost's, or a file of one"


def from_xgboost(model: Any) -> Model:
    """Return the model that XGBoost trained.

    Every row ends in the leaf in which XGBoost has it, and the margin is the sum of XGBoost's own leaf values, which
    XGBoost rounds to float32 after each tree; here it is exact. XGBoost need not be installed to read a file.

    The columns of the data that is scored:

    - *Numbers*, of any type, under the booster's ``feature_names``; without names they are ``f0``, ``f1`` and so on.
      XGBoost rounds every number to a float32 before it compares it. Thresholds are moved so that a float64 comes to
      the same side without (``x < 0.5`` becomes ``x < 0.49999998509883881``).
    - *Booleans*, of feature type ``i``, which XGBoost gives to columns of Booleans. (If a split on one makes no sense
      for Booleans, they are numbers.)
    - *Categories*: strings, where the model has their names, as XGBoost 3.1 and later keep them if it is trained on a
      pandas or polars frame (but of a pandas frame XGBoost 3.2 spoils names that are not ASCII: check
      ``Model.trees``). Otherwise the codes, whole numbers, with which XGBoost was trained. A category that is new goes
      where XGBoost sends a code that is new, if it does not refuse the frame. (XGBoost cuts off what a code has behind
      the point; here 1.5 is a category that is new.)
    - *Missing* are NULL and NaN; another value given as ``missing`` to XGBoost must be made NULL.

    Parameters
    ----------
    model
        An ``xgboost.Booster``, an estimator for scikit-learn (``xgboost.XGBClassifier``, ...), the path of a JSON or
        UBJSON file, or what is in such a file as bytes. Of an estimator that stopped early, the trees up to the best
        round, as its ``predict`` has it; otherwise all trees, as `xgboost.Booster.predict` has it.

    Returns
    -------
    frameboost.Model
        With a loss of the same name; where XGBoost trained in a way that frameboost has not, with a loss of that name
        after ``xgboost:`` of which only the link is known (``xgboost:custom`` for an estimator whose objective is a
        function; a booster does not keep that it had one). Gains and covers are XGBoost's; the value of an inner node
        is the mean of the leaves below it, as XGBoost does not keep what it would be as a leaf.

    Raises
    ------
    ModelFileError
        If it is no model of XGBoost, or a damaged one.
    ParameterError
        If the model can't be had here, such as a linear one (``gblinear``), or is not trained yet.
    OSError
        If the file can't be read.

    Examples
    --------
    >>> import numpy as np, polars as pl, xgboost
    >>> x = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> booster = xgboost.train({"eta": 1, "lambda": 0}, xgboost.DMatrix(x, label=[0, 0, 8, 8]), num_boost_round=1)
    >>> model = from_xgboost(booster)
    >>> model
    Model: reg:squarederror, 1 tree (depth 1, 2 leaves), 1 feature
      f0  float64
    >>> model.predict(pl.DataFrame({"f0": [1, 2, 3, None]})).to_list()
    [0.0, 0.0, 8.0, 8.0]
    """
    if (data := text_of(model, "xgboost")) is not None:
        return _model(data)
    if not comes_from(model, "xgboost") or isinstance(model, type):
        raise refuse(model, _WANTED)
    if not hasattr(model, "get_booster"):
        return _model(_saved(model))
    if hasattr(model, "__sklearn_is_fitted__") and not model.__sklearn_is_fitted__():
        raise ParameterError(f"the {type(model).__name__} is not fitted yet")
    booster, is_custom = model.get_booster(), callable(getattr(model, "objective", None))
    best = booster.attr("best_iteration")
    if best is None:
        return _model(_saved(booster), is_custom)
    return _model(_saved(booster), is_custom, int(best) + 1, float(booster.attr("best_score")))


def _saved(booster: Any) -> bytes:
    if not hasattr(booster, "save_raw"):
        raise refuse(booster, _WANTED)
    try:
        return bytes(booster.save_raw(raw_format="ubj"))
    except ValueError as error:  # XGBoostError is one
        raise ParameterError(f"XGBoost can't save the model, which may not be trained yet: {reason(error)}") from error


def _model(
    data: bytes, is_custom: bool = False, best_round: int | None = None, best_score: float | None = None
) -> Model:
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
    # Before anything is made for each of the outputs, of which a damaged file may say that there are many.
    in_rounds = _in_rounds(held, trees, n_outputs, side_by_side)
    loss, parameters, base_margins = read_objective(learner, is_custom)
    features, places = read_features(learner, held, trees)
    # Up to XGBoost 3.4 the weights of dart stand beside its trees, later among them.
    weights = _weights(booster if "weight_drop" in booster else held, len(trees))
    if weights is not None:
        parameters["booster"] = "dart"
    parameters["num_parallel_tree"] = side_by_side
    ours = []
    for number, output in in_rounds:
        weight = 1.0 if weights is None else weights[number]
        ours.append(translated(trees[number], features, places, output, weight))
    if best_round is not None:
        ours = _first(ours, best_round * n_outputs * side_by_side)
    base_margins, on_grid = finished(base_margins, ours)
    return Model(loss, parameters, features, base_margins, on_grid, best_round=best_round, best_score=best_score)


def _weights(held: Mapping[str, Any], n_trees: int) -> list[float] | None:
    if "weight_drop" not in held:
        return None
    weights = read_numbers(held["weight_drop"], "weight_drop") if held["weight_drop"] else ()
    if len(weights) != n_trees:
        wrong(f'"weight_drop" has {len(weights)} numbers, for {n_trees} trees')
    return list(map(float, weights))


def _in_rounds(
    held: Mapping[str, Any], trees: Sequence[XGBoostTree], n_outputs: int, side_by_side: int
) -> list[tuple[int, int]]:
    """Return the trees, by number and output, round by round and in each output by output.

    A tree with a value for each output in its leaves is there once for each.
    """
    if not trees:
        raise ModelFileError("the model has no trees")
    outputs = integers(held, "tree_info", len(trees), "").tolist()
    widths = {tree.values.shape[1] for tree in trees}
    if len(widths) > 1:
        wrong("some of its trees have one value in a leaf, and some several")
    if widths == {n_outputs} and n_outputs > 1:
        starts = range(0, len(trees), side_by_side)
        found = [(i, k) for start in starts for k in range(n_outputs)
                 for i in range(start, min(start + side_by_side, len(trees)))]  # fmt: skip
    else:
        found = list(enumerate(outputs))
    in_order = all(output == i // side_by_side % n_outputs for i, (_, output) in enumerate(found))
    if len(found) % (side_by_side * n_outputs) or not in_order:
        wrong(f"its {len(trees)} trees are not whole rounds of {side_by_side} for each of {n_outputs} outputs in turn")
    return found


def _first(trees: list[Tree], count: int) -> list[Tree]:
    if count > len(trees):
        wrong(f"its best round would have {count} trees, and there are {len(trees)}")
    return trees[:count]

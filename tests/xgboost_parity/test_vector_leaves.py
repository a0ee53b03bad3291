"""Trees for all outputs at once (`multi_strategy="multi_output_tree"`) beside XGBoost's, node for node."""

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
import sklearn.datasets
import xgboost

import frameboost as fb
from tests.support.cases import cases, some_pairs

NAMES = {"learning_rate": "eta", "reg_lambda": "lambda", "reg_alpha": "alpha"}


def compare(x, y, objective, settings, weight=None) -> Counter:
    """Train both round by round from the same margins; assert that each difference is a tie; count the nodes."""
    matrix = xgboost.QuantileDMatrix(x, y, max_bin=settings["max_bin"], weight=weight, nthread=1)
    indptr, values = matrix.get_quantile_cut()
    cuts = {f"x{i}": values[indptr[i] + 1 : indptr[i + 1] - 1] for i in range(x.shape[1])}
    targets = [f"y{k}" for k in range(y.shape[1])] if y.ndim == 2 else "y"
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(x.shape[1])}).hstack(
        [pl.Series(f"y{k}", y[:, k]) for k in range(y.shape[1])] if y.ndim == 2 else [pl.Series("y", y)]
    )
    if weight is not None:
        frame = frame.with_columns(w=weight)
    model = fb.fit(frame, targets, objective=objective, weight=None if weight is None else "w", cuts=cuts,
                   multi_strategy="multi_output_tree", verbose=False, **settings)  # fmt: skip
    K = model.ensemble.n_outputs
    theirs = {NAMES.get(key, key): value for key, value in settings.items() if key != "n_estimators"}
    theirs |= {"objective": objective, "multi_strategy": "multi_output_tree", "tree_method": "hist", "nthread": 1}
    theirs |= {"num_class": K} if objective.startswith("multi") else {}
    counts: Counter = Counter()
    for round_ in range(settings["n_estimators"]):
        before = model[:round_].predict(frame, output="margin").to_numpy() if round_ else None
        margins = np.tile(model.ensemble.base_margins, (len(x), 1)) if before is None else before
        matrix = xgboost.QuantileDMatrix(x, y, max_bin=settings["max_bin"], weight=weight, nthread=1,
                                         base_margin=margins.astype(np.float32))  # fmt: skip
        booster = xgboost.train(theirs, matrix, num_boost_round=1)
        (tree,) = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
        _compare(model.ensemble.trees[round_ * K : (round_ + 1) * K], tree, x, counts)
    return counts


def _compare(ours, theirs, x, counts) -> None:
    vectors = np.array(theirs["leaf_weights"]).reshape(-1, len(ours))
    pairs = [(0, 0, np.arange(len(x)))]
    for i, j, rows in pairs:  # grows
        assert len({(tree.feature[i], tree.threshold[i], tree.missing_left[i]) for tree in ours}) == 1
        gain, cover = (sum(getattr(tree, field)[i] for tree in ours) for field in ("gain", "cover"))
        assert cover == pytest.approx(theirs["sum_hessian"][j], rel=1e-5)
        is_leaf = theirs["left_children"][j] < 0
        if ours[0].is_leaf(i) or is_leaf:
            assert ours[0].is_leaf(i) == is_leaf or abs(gain - theirs["loss_changes"][j]) < 1e-3
            if is_leaf and ours[0].is_leaf(i):
                own = [tree.value[i] for tree in ours]
                np.testing.assert_allclose(own, vectors[theirs["right_children"][j]], rtol=2e-4, atol=2e-6)
                counts["leaves"] += 1
            continue
        assert gain == pytest.approx(theirs["loss_changes"][j], rel=1e-4, abs=1e-3)
        counts["splits"] += 1
        threshold = np.inf if ours[0].threshold[i] is None else ours[0].threshold[i]
        is_left = _goes_left(x[rows, ours[0].feature[i]], threshold, ours[0].missing_left[i])
        column = x[rows, theirs["split_indices"][j]]
        is_left_there = _goes_left(column, np.float32(theirs["split_conditions"][j]), theirs["default_left"][j])
        # Between the same rows XGBoost takes another threshold where it scans from above; a split on presence may be
        # the other way round.
        children = [theirs["left_children"][j], theirs["right_children"][j]]
        if is_same := bool((is_left == is_left_there).all() or (is_left != is_left_there).all()):
            children = children if (is_left == is_left_there).all() else children[::-1]
            pairs += [(ours[0].left[i], children[0], rows[is_left]), (ours[0].right[i], children[1], rows[~is_left])]
        counts["equal"] += is_same


def _goes_left(column: np.ndarray, threshold: float, missing_left: bool) -> np.ndarray:
    return np.where(np.isnan(column), bool(missing_left), column < threshold)


def rows(seed: int, n: int = 600) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Return features, some of whose values are missing, and a signal."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5)).astype(np.float32)
    x[:, 1] = np.round(x[:, 1], 1)
    signal = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=n) / 2
    x[rng.random(x.shape) < 0.15] = np.nan
    return x, signal, rng


SHAPES = [
    {},
    {"min_child_weight": 12.0, "reg_alpha": 0.4, "reg_lambda": 0.0},
    {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0, "gamma": 0.5},
    {"max_leaves": 7, "gamma": 1.5, "learning_rate": 1.0},
]


@pytest.mark.slow
@cases("shape, weighted", some_pairs(SHAPES, [False, True]))
def test_trees_for_all_outputs_are_xgboosts(shape, weighted):
    settings = {"n_estimators": 3, "max_depth": 5, "max_bin": 32} | shape
    total: Counter = Counter()
    for seed, objective in enumerate(["multi:softprob", "reg:squarederror", "binary:logistic"]):
        x, signal, rng = rows(seed)
        weight = rng.integers(1, 5, len(x)) / 4 if weighted else None
        if objective == "multi:softprob":
            y = np.digitize(signal, [-1.5, 0.0, 1.0]).astype(float)
        else:
            y = np.column_stack([signal, signal**2 - signal, rng.normal(size=len(x)) + signal])
            y = (y > 0.3).astype(float) if objective == "binary:logistic" else y
        total += compare(x, y, objective, settings, weight)
    assert total["splits"] > 40
    assert total["equal"] / total["splits"] > 0.95, total


def test_a_child_that_is_light_in_an_output_has_no_say_there():
    """H of rare classes is below min_child_weight in most nodes: there they get 0, and no split is refused for it."""
    x, y = sklearn.datasets.load_iris(return_X_y=True)
    y[y == 2] = (np.arange(50) >= 42) + 1.0  # 92 rows of class 1 or 0 to 8 of class 2
    settings = {"n_estimators": 3, "max_depth": 4, "max_bin": 16, "min_child_weight": 4.0, "reg_lambda": 1.0}
    counts = compare(x.astype(np.float32), y, "multi:softprob", settings)
    assert counts["equal"] == counts["splits"] > 5


def test_digits_are_xgboosts():
    x, y = sklearn.datasets.load_digits(return_X_y=True)
    counts = compare(x.astype(np.float32), y.astype(float), "multi:softprob",
                     {"n_estimators": 2, "max_depth": 4, "max_bin": 16})  # fmt: skip
    assert counts["equal"] / counts["splits"] > 0.95, counts

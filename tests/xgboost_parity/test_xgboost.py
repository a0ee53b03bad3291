"""Our trees are XGBoost's, node for node, on real and on random rows, and where float32 is at its limits."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest
import sklearn.datasets
import xgboost

import frameboost as fb
from tests.support.cases import some_pairs
from tests.support.xgboost_trees import (
    Case,
    compare_models,
    our_trees,
    quantile_cuts,
    random_case,
    share_equal,
    to_frame,
)

SQUARED, LOGISTIC = "reg:squarederror", "binary:logistic"
ALL_IN_ONE_TREE = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}


@cache
def data(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return features (float32), labels and loss of a data set."""
    rng = np.random.default_rng(7)
    if name == "diabetes":
        x, y = sklearn.datasets.load_diabetes(return_X_y=True)
        return x.astype(np.float32), y, SQUARED
    if name == "breast cancer":
        x, y = sklearn.datasets.load_breast_cancer(return_X_y=True)
        return x.astype(np.float32), y.astype(float), LOGISTIC
    if name == "digits":  # small integers, many of them 0
        x, y = sklearn.datasets.load_digits(return_X_y=True)
        return x[:700].astype(np.float32), (y[:700] % 2).astype(float), LOGISTIC
    if name == "wine":
        x, y = sklearn.datasets.load_wine(return_X_y=True)
        return x.astype(np.float32), x[:, -1] / 100, SQUARED
    if name == "diabetes with gaps":
        x, y, loss = data("diabetes")
        return np.where(rng.random(x.shape) < 0.2, np.float32(np.nan), x), y, loss
    if name == "breast cancer with gaps":
        x, y, loss = data("breast cancer")
        # What is missing tells something, so that directions matter.
        gone = rng.random(x.shape) < np.where(y > 0, 0.3, 0.1)[:, None]
        return np.where(gone, np.float32(np.nan), x), y, loss
    if name == "mostly missing":
        x = rng.integers(-4, 5, size=(600, 8)).astype(np.float32)
        x[rng.random(x.shape) < 0.7] = np.nan
        y = np.nansum(x, axis=1) + 3 * np.isnan(x[:, 0]) + rng.normal(size=600)
        return x, y, SQUARED
    assert name == "steep"
    x = rng.normal(size=(800, 6)).astype(np.float32) ** 5
    return x, (np.sin(x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=800) > 0).astype(float), LOGISTIC


DATA = ["diabetes", "breast cancer", "digits", "wine", "diabetes with gaps", "breast cancer with gaps",
        "mostly missing", "steep"]  # fmt: skip
# Two of them are enough while working.
SETTINGS = {
    "defaults": {},
    "shallow, no λ": {"max_depth": 2, "reg_lambda": 0.0, "learning_rate": 1.0},
    "deep, heavy children": {"max_depth": 8, "min_child_weight": 5.0, "learning_rate": 0.1},
    "light children": {"max_depth": 5, "min_child_weight": 0.0},
    "γ": {"max_depth": 6, "gamma": 2.0, "reg_lambda": 3.0},
    "α": {"max_depth": 4, "reg_alpha": 1.5},
    "small steps": {"max_depth": 4, "max_delta_step": 0.5},
}


def check(counts, least: int) -> None:
    """Assert that the comparison was one: many equal splits, and next to no ties."""
    assert counts["equal"] >= least, counts
    assert counts["tied"] <= 0.01 * counts["equal"] + 2, counts
    assert counts["same rows"] <= 0.4 * counts["equal"], counts


@pytest.mark.parametrize(("name", "settings"), [
    pytest.param(*pair, marks=() if pair[0] in ("diabetes", "breast cancer with gaps") else pytest.mark.slow)
    for pair in some_pairs(reversed(DATA), SETTINGS, 3)
])  # fmt: skip
def test_exact_trees_are_xgboosts(name, settings):
    x, y, objective = data(name)
    case = Case(x, y, objective, {"n_estimators": 4, "max_depth": 6} | SETTINGS[settings])
    counts = compare_models(case, "exact")
    check(counts, least=4)
    assert counts["same rows"] == 0  # there is one candidate between two values
    if np.isnan(x).any():
        assert counts["default direction"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "settings"), some_pairs(DATA, SETTINGS, 3))
def test_hist_trees_on_xgboosts_cuts_are_xgboosts(name, settings):
    x, y, objective = data(name)
    case = Case(x, y, objective, {"n_estimators": 4, "max_depth": 6, "max_bin": 32} | SETTINGS[settings])
    counts = compare_models(replace(case, cuts=quantile_cuts(case)), "hist")
    check(counts, least=4)
    if np.isnan(x).any():
        assert counts["default direction"] > 0


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
@pytest.mark.parametrize("name", ["diabetes with gaps", "breast cancer"])
def test_weighted_trees_are_xgboosts(name, tree_method):
    x, y, objective = data(name)
    weight = np.random.default_rng(3).integers(0, 4, len(y)) / 2  # some rows count for nothing
    case = Case(x, y, objective, {"n_estimators": 3, "max_depth": 5, "max_bin": 32}, weight)
    case = replace(case, cuts=quantile_cuts(case) if tree_method == "hist" else None)
    check(compare_models(case, tree_method), least=20)


# With γ, since XGBoost would spend leaves of its budget on gains that are float32 noise.
SHAPES = (
    {},
    {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0, "gamma": 0.5},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 4, "gamma": 0.5},
    {"grow_policy": "depthwise", "max_leaves": 7, "gamma": 0.5},
)


@pytest.mark.slow
@pytest.mark.parametrize(("tree_method", "n_splits", "n_missing"), [("exact", 300, 50), ("hist", 100, 30)])
def test_random_trees_are_xgboosts(tree_method, n_splits, n_missing):
    counts = Counter()
    for seed in range(8):
        case = random_case(seed, SHAPES if tree_method == "hist" else ({},))
        case = replace(case, cuts=quantile_cuts(case) if tree_method == "hist" else None)
        counts += compare_models(case, tree_method)
    assert counts["splits"] > n_splits
    assert counts["default direction"] > n_missing
    assert share_equal(counts) > 0.95, counts


@pytest.mark.parametrize("max_bin", [2, 256])
def test_cuts_below_and_above_all_values_change_nothing(max_bin):
    x, y = data("diabetes")[0].copy(), data("diabetes")[1]
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    case = Case(x, y, "reg:squarederror", {"n_estimators": 2, "max_depth": 4, "max_bin": max_bin})
    trimmed, whole = quantile_cuts(case), quantile_cuts(case, trimmed=False)
    assert [len(whole[name]) - len(cuts) for name, cuts in trimmed.items()] == [2] * 10
    counts = compare_models(replace(case, cuts=trimmed), "hist")
    assert share_equal(counts) > 0.95, counts
    assert compare_models(replace(case, cuts=whole), "hist") == counts


@pytest.mark.parametrize("start", [1.0, -1.0, 0.0, 2.0**24, -3e-39])
def test_between_neighbouring_float32_the_threshold_parts_them(start):
    # Nothing in float32 lies between them: the midpoint rounds up to the upper one or down to the lower one, in turn.
    values = [np.float32(start)]
    while len(values) < 48:
        values.append(np.nextafter(values[-1], np.float32(np.inf)))
    values = np.array(values)
    y = np.random.default_rng(1).normal(size=48)
    case = Case(values[:, None], y, SQUARED, ALL_IN_ONE_TREE | {"max_depth": 6})
    counts = compare_models(case, "exact")
    assert counts["equal"] == counts["splits"] > 20
    # Where missing goes right XGBoost takes the lower one, which sends its rows to the wrong side; ours parts them.
    frame = pl.DataFrame({"x": [*values.tolist()[:2], None], "y": [0.0, 1.0, 1.0]}, schema_overrides={"x": pl.Float32})
    (root, *leaves), = our_trees(fb.fit(frame, "y", tree_method="exact", **ALL_IN_ONE_TREE))  # fmt: skip
    assert float(values[0]) < root.threshold <= float(values[1])
    assert not root.missing_left
    assert [leaf.cover for leaf in leaves] == [1.0, 2.0]


@pytest.mark.parametrize(
    "low, high, expected", [(1, 2, 2), (1, 4, 3), (-2, -1, -1), (-3, 0, -1), (2**62, 2**62 + 1, 2**62 + 1)]
)
def test_the_threshold_of_integers_is_the_least_above_the_midpoint(low, high, expected):
    frame = pl.DataFrame({"x": [low, high], "y": [0.0, 1.0]})
    assert fb.fit(frame, "y", tree_method="exact", n_estimators=1).ensemble.trees[0].threshold[0] == expected


@pytest.mark.parametrize("gamma, least", [(0.0, 10), (1.0, 6), (40.0, 3)])
def test_splits_are_pruned_from_the_bottom_as_xgboost_prunes_them(gamma, least):
    # An exclusive or: the first split of each branch gains next to nothing, the one below it nearly everything.
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, size=(400, 4)).astype(np.float32)
    y = 3 * (x[:, 0] != x[:, 1]) + 0.3 * x[:, 2] + rng.normal(size=400) / 5
    case = Case(x, y, SQUARED, {"n_estimators": 2, "max_depth": 4, "gamma": gamma, "learning_rate": 1.0})
    counts = compare_models(case, "exact")
    assert counts["equal"] == counts["splits"] >= least
    weakest = min(node.gain for tree in our_trees(_fit(case)) for node in tree if not node.is_leaf)
    assert (weakest < gamma) == (gamma > 0), "a weak split is kept for the strong ones below it"


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
@pytest.mark.parametrize("weight, leaf", [(0.25, 0.0), (0.5, 4 / 3)])
def test_a_root_lighter_than_min_child_weight_has_no_say(tree_method, weight, leaf):
    # G = ∓3w at base score 1, H = 3w: with w = ¼ that is less than 1, with w = ½ it is not, but a child's is.
    x, y = np.array([[1.0], [2.0], [3.0]], dtype=np.float32), np.array([2.0, 3.0, 2.0])
    options = {"tree_method": tree_method, "base_score": 1.0, "reg_lambda": 0.0, "learning_rate": 1.0}
    frame = pl.DataFrame({"x": x[:, 0], "y": y, "w": [weight] * 3})
    model = fb.fit(frame, "y", weight="w", n_estimators=1, **options)
    matrix = xgboost.DMatrix(x, y, weight=[weight] * 3)
    booster = xgboost.train(options | {"lambda": 0.0, "eta": 1.0}, matrix, 1)
    assert model.trees["feature"].to_list() == [None]
    np.testing.assert_allclose(model.predict(frame), np.full(3, 1 + leaf), rtol=1e-12)
    np.testing.assert_allclose(booster.predict(matrix), np.full(3, 1 + leaf), rtol=1e-6)


@pytest.mark.parametrize("objective", [SQUARED, LOGISTIC])
def test_a_whole_ensemble_is_xgboosts(objective):
    # Each library on its own, from the base score on: the trees above were grown on common margins.
    x, y, _ = data("diabetes")
    y = (y > 140).astype(float) if objective == LOGISTIC else y
    case = Case(x, y, objective, {"n_estimators": 20, "max_depth": 3})
    margins = _fit(case).predict(to_frame(case), output="margin")
    matrix = xgboost.DMatrix(x, y)
    booster = xgboost.train({"objective": objective, "tree_method": "exact", "max_depth": 3}, matrix, 20)
    np.testing.assert_allclose(margins, booster.predict(matrix, output_margin=True), rtol=1e-5, atol=1e-5)


def _fit(case: Case) -> fb.Model:
    return fb.fit(to_frame(case), "y", objective=case.objective, tree_method="exact", **case.settings)


def test_importance_is_xgboosts():
    x, y, objective = data("diabetes")
    settings = {"n_estimators": 1, "max_depth": 4}
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(10)}).with_columns(pl.Series("y", y))
    model = fb.fit(frame, "y", objective=objective, tree_method="exact", **settings)
    matrix = xgboost.DMatrix(x, y, feature_names=model.features)
    booster = xgboost.train({"objective": objective, "tree_method": "exact", "max_depth": 4}, matrix, 1)
    for kind in ("weight", "gain", "total_gain", "cover", "total_cover"):
        theirs = booster.get_score(importance_type=kind)
        ours = {name: value for name, value in model.importance(kind).rows() if value > 0}
        assert ours == pytest.approx(theirs, rel=1e-4), kind

"""Our trees are XGBoost's, node for node."""

import json
from functools import cache

import numpy as np
import polars as pl
import pytest
import sklearn.datasets
import xgboost

import frameboost as fb
from tests.support.cases import cases, some_pairs
from tests.support.xgboost_trees import Case, compare_models

SQUARED, LOGISTIC = "reg:squarederror", "binary:logistic"


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


def xgboost_cuts(x: np.ndarray, y: np.ndarray, max_bin: int, weight: np.ndarray | None = None) -> dict:
    matrix = xgboost.QuantileDMatrix(x, y, max_bin=max_bin, weight=weight)
    indptr, values = matrix.get_quantile_cut()
    # The first value lies below, the last above all of the column's.
    return {f"x{i}": values[indptr[i] + 1 : indptr[i + 1] - 1] for i in range(x.shape[1])}


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
    case = Case(
        x, y, objective, {"n_estimators": 4, "max_depth": 6, "max_bin": 32} | SETTINGS[settings],
        cuts=xgboost_cuts(x, y, 32),
    )  # fmt: skip
    counts = compare_models(case, "hist")
    check(counts, least=4)
    if np.isnan(x).any():
        assert counts["default direction"] > 0


@pytest.mark.slow
@cases("shape", [
    {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 4},
    {"grow_policy": "depthwise", "max_leaves": 9, "max_depth": 6},
])  # fmt: skip
@cases("name", ["breast cancer with gaps", "steep"])
def test_trees_limited_by_leaves_are_xgboosts(name, shape):
    x, y, objective = data(name)
    case = Case(
        x, y, objective, {"n_estimators": 4, "max_bin": 64, "min_child_weight": 0.5} | shape,
        cuts=xgboost_cuts(x, y, 64),
    )  # fmt: skip
    check(compare_models(case, "hist"), least=20)


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
@pytest.mark.parametrize("name", ["diabetes with gaps", "breast cancer"])
def test_weighted_trees_are_xgboosts(name, tree_method):
    x, y, objective = data(name)
    weight = np.random.default_rng(3).integers(0, 4, len(y)) / 2  # some rows count for nothing
    cuts = xgboost_cuts(x, y, 32, weight) if tree_method == "hist" else None
    settings = {"n_estimators": 3, "max_depth": 5} | ({"max_bin": 32} if cuts else {})
    check(compare_models(Case(x, y, objective, settings, weight, cuts), tree_method), least=20)


@pytest.mark.parametrize("name", ["diabetes", "steep"])
@pytest.mark.parametrize("weighted", [False, True])
def test_base_score_is_xgboosts(name, weighted):
    x, y, objective = data(name)
    weight = np.random.default_rng(3).integers(1, 5, len(y)).astype(float) if weighted else None
    booster = xgboost.train({"objective": objective}, xgboost.DMatrix(x, y, weight=weight), 1)
    text = json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"]
    theirs = float(text.strip("[]"))
    frame = pl.DataFrame({"x": x[:, 0], "y": y, "w": np.ones(len(y)) if weight is None else weight})
    ours = fb.fit(frame, "y", weight="w", objective=objective, n_estimators=1).base_margin
    if objective == LOGISTIC:
        ours = 1 / (1 + np.exp(-ours))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert ours == pytest.approx(np.average(y, weights=weight), rel=1e-12)


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

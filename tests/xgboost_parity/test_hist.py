"""`hist` on XGBoost's own cuts grows XGBoost's trees, on rows, settings and shapes drawn at random."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import sklearn.datasets

from tests.support.xgboost_trees import Case, compare_models, quantile_cuts, random_case, share_equal

# With γ, since XGBoost would spend leaves of its budget on gains that are float32 noise.
SHAPES = (
    {},
    {"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 0, "gamma": 0.5},
    {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 4, "gamma": 0.5},
    {"grow_policy": "depthwise", "max_leaves": 7, "gamma": 0.5},
)


@pytest.mark.slow
def test_random_trees_are_xgboosts():
    counts = Counter()
    for seed in range(6):
        case = random_case(seed, SHAPES)
        counts += compare_models(replace(case, cuts=quantile_cuts(case)), "hist")
    assert counts["splits"] > 100
    assert counts["default direction"] > 30
    assert share_equal(counts) > 0.95, counts


@pytest.mark.parametrize("shape", SHAPES)
def test_trees_on_iris_are_xgboosts(shape):
    x, species = sklearn.datasets.load_iris(return_X_y=True)  # a quarter of the rows are duplicates
    y = (species == 1).astype(float)
    settings = {"n_estimators": 4, "max_bin": 16, "min_child_weight": 0.25, "max_depth": 6}
    case = Case(x.astype(np.float32), y, "binary:logistic", settings | shape)
    counts = compare_models(replace(case, cuts=quantile_cuts(case)), "hist")
    assert counts["splits"] >= 15
    assert share_equal(counts) > 0.95, counts


@pytest.mark.parametrize("max_bin", [2, 256])
def test_cuts_below_and_above_all_values_change_nothing(max_bin):
    x, y = sklearn.datasets.load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    case = Case(x, y, "reg:squarederror", {"n_estimators": 2, "max_depth": 4, "max_bin": max_bin})
    trimmed, whole = quantile_cuts(case), quantile_cuts(case, trimmed=False)
    assert [len(whole[name]) - len(cuts) for name, cuts in trimmed.items()] == [2] * 10
    counts = compare_models(replace(case, cuts=trimmed), "hist")
    assert share_equal(counts) > 0.95, counts
    assert compare_models(replace(case, cuts=whole), "hist") == counts

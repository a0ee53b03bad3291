"""`exact` grows XGBoost's trees on rows and settings drawn at random, and where float32 is at its limits."""

from collections import Counter

import numpy as np
import polars as pl
import pytest
import sklearn.datasets
import xgboost

import frameboost as fb
from tests.support.xgboost_trees import Case, compare_models, our_trees, random_case, share_equal

SQUARED, LOGISTIC = "reg:squarederror", "binary:logistic"
ALL_IN_ONE_TREE = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}


@pytest.mark.slow
def test_random_trees_are_xgboosts():
    counts = sum((compare_models(random_case(seed), "exact") for seed in range(8)), Counter())
    assert counts["splits"] > 300
    assert counts["default direction"] > 50
    assert share_equal(counts) > 0.95, counts


@pytest.mark.parametrize("options", [{}, {"gamma": 1.0}, {"reg_alpha": 0.5, "reg_lambda": 0.0}, {"max_depth": 10}])
def test_trees_on_iris_are_xgboosts(options):
    x, species = sklearn.datasets.load_iris(return_X_y=True)  # a quarter of the rows are duplicates
    x = x[species > 0].astype(np.float32)
    y = (species[species > 0] == 2).astype(float)
    counts = compare_models(Case(x, y, LOGISTIC, {"n_estimators": 5, "min_child_weight": 0.25} | options), "exact")
    assert counts["splits"] >= 15
    assert share_equal(counts) > 0.95, counts


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
    x, y = sklearn.datasets.load_diabetes(return_X_y=True)
    x = x.astype(np.float32)
    y = (y > 140).astype(float) if objective == LOGISTIC else y
    case = Case(x, y, objective, {"n_estimators": 20, "max_depth": 3})
    margins = _fit(case).predict(pl.DataFrame({f"x{i}": x[:, i] for i in range(10)}), output="margin")
    matrix = xgboost.DMatrix(x, y)
    booster = xgboost.train({"objective": objective, "tree_method": "exact", "max_depth": 3}, matrix, 20)
    np.testing.assert_allclose(margins, booster.predict(matrix, output_margin=True), rtol=1e-5, atol=1e-5)


def _fit(case: Case) -> fb.Model:
    frame = pl.DataFrame({f"x{i}": case.x[:, i] for i in range(case.x.shape[1])} | {"y": case.y})
    return fb.fit(frame, "y", objective=case.objective, tree_method="exact", **case.settings)

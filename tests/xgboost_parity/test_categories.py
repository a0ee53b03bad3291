"""Trees on categorical columns are XGBoost's, node for node, in both tree methods."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from tests.support.cases import cases

METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])
SIZES = (2, 3, 5, 30)


def random_rows(seed: int, sizes: tuple[int, ...] = SIZES) -> tuple[np.ndarray, np.ndarray]:
    """Return codes of categories, a column each, a column of small integers, and labels on a grid of 1/8.

    Sums of gradients are then exact in float32 too, and only scores are rounded.
    """
    rng = np.random.default_rng(seed)
    n = 600
    x = np.column_stack([*(rng.integers(0, size, n) for size in sizes), rng.integers(0, 9, n)]).astype(np.float32)
    effects = [rng.normal(size=size) * 2 for size in (*sizes, 9)]
    y = sum(effect[x[:, i].astype(int)] for i, effect in enumerate(effects)) + rng.normal(size=n)
    gone = rng.random(x.shape) < rng.choice([0.0, 0.0, 0.2], x.shape[1])
    y = np.round((y + 2 * gone.sum(axis=1)) * 8) / 8
    x[gone] = np.nan
    for i, size in enumerate(sizes):
        x[:size, i] = np.arange(size)  # no category without rows
    return x, y


def as_frame(x: np.ndarray, y: np.ndarray) -> pl.DataFrame:
    names = [f"{code:03}" for code in range(1000)]  # in the order of their codes
    columns = [pl.Series(f"x{i}", [None if c != c else names[int(c)] for c in x[:, i]]) for i in range(x.shape[1] - 1)]
    numbers = pl.Series(f"x{x.shape[1] - 1}", x[:, -1])
    return pl.DataFrame([*columns, numbers, pl.Series("y", y)])


def xgboosts_tree(x: np.ndarray, y: np.ndarray, settings: dict) -> dict:
    kinds = ["c"] * (x.shape[1] - 1) + ["q"]
    data = xgboost.DMatrix(x, y, feature_types=kinds, enable_categorical=True, nthread=1)
    given = {"eta": 1.0, "base_score": 0.0, "tree_method": "hist", "nthread": 1, **settings}
    booster = xgboost.train(given, data, num_boost_round=1)
    (tree,) = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    return tree


def their_left(tree: dict, node: int, x: np.ndarray) -> np.ndarray:
    column = x[:, tree["split_indices"][node]]
    if tree["split_type"][node]:
        at = tree["categories_nodes"].index(node)
        first = tree["categories_segments"][at]
        left = ~np.isin(column, tree["categories"][first : first + tree["categories_sizes"][at]])
    else:
        left = column < tree["split_conditions"][node]
    return np.where(np.isnan(column), bool(tree["default_left"][node]), left)


def our_left(row: dict, x: np.ndarray) -> np.ndarray:
    column = x[:, int(row["feature"][1:])]
    missing_left = row["missing"] == "left"
    if row["categories"] is not None:
        left = np.isin(column, [int(name) for name in row["categories"]]) != missing_left
    elif row["threshold"] is None:
        left = np.ones(len(column), dtype=bool)
    else:
        left = column < row["threshold"]
    return np.where(np.isnan(column), missing_left, left)


def compare(x: np.ndarray, y: np.ndarray, tree_method: str, **settings) -> Counter:
    """Grow a tree in each library; count nodes that are equal, and assert that all others are ties in float32."""
    options = {"n_estimators": 1, "learning_rate": 1.0, "base_score": 0.0, "cat_smooth": 0.0, **settings}
    ours = fb.fit(as_frame(x, y), "y", tree_method=tree_method, **options).trees.rows(named=True)
    theirs = xgboosts_tree(x, y, settings)
    counts: Counter = Counter()
    stack = [(0, 0, np.arange(len(y)))]
    while stack:
        i, j, rows = stack.pop()
        row, their_child = ours[i], theirs["left_children"][j]
        assert row["cover"] == len(rows)
        if row["feature"] is None or their_child < 0:
            assert row["feature"] is None and their_child < 0, (row, j)
            assert row["value"] == pytest.approx(theirs["split_conditions"][j], rel=1e-5, abs=1e-6)
            counts["leaves"] += 1
            continue
        left, other = our_left(row, x[rows]), their_left(theirs, j, x[rows])
        gone = np.isnan(x[rows, int(row["feature"][1:])])
        if np.array_equal(left, other) or np.array_equal(left, ~other):
            assert row["gain"] == pytest.approx(theirs["loss_changes"][j], rel=1e-4)
            counts["equal"] += 1
            counts["categorical"] += row["categories"] is not None
            counts["missing"] += bool(gone.any())
            a, b = theirs["left_children"][j], theirs["right_children"][j]
            a, b = (a, b) if np.array_equal(left, other) else (b, a)
            stack += [(row["left"], a, rows[left]), (row["right"], b, rows[~left])]
        elif row["categories"] is not None and np.array_equal(left, ~gone):
            counts["presence"] += 1  # which XGBoost has only where a category is absent
            assert row["gain"] >= theirs["loss_changes"][j] * (1 - 1e-5)
        else:
            counts["tied"] += 1
            assert row["gain"] == pytest.approx(theirs["loss_changes"][j], rel=1e-4)
    return counts


@pytest.mark.slow
@METHODS
@cases("settings", [
    {}, {"max_cat_to_onehot": 1}, {"max_cat_to_onehot": 100}, {"reg_lambda": 0.0, "min_child_weight": 0.0},
    {"reg_lambda": 10.0, "min_child_weight": 8.0}, {"reg_alpha": 3.0, "max_cat_to_onehot": 6},
])  # fmt: skip
def test_trees_on_categories_are_xgboosts(tree_method, settings):
    counts = Counter()
    for seed in range(4):
        counts += compare(*random_rows(seed), tree_method, max_depth=4, **settings)
    assert counts["categorical"] > 5
    assert counts["missing"] > 3
    assert counts["equal"] > 10 * (counts["tied"] + counts["presence"]), counts


@METHODS
@cases("max_cat_threshold", [2, 29, 64])
def test_sets_of_limited_size_are_xgboosts(tree_method, max_cat_threshold):
    # Only the root, which has rows of all categories: XGBoost counts absent ones towards the limit.
    counts = Counter()
    for seed in range(6):
        x, y = random_rows(seed, (100, 30, 2))
        y += 4 * (x[:, seed % 2] % 7 < 3)  # many categories on each side
        counts += compare(x, y, tree_method, max_depth=1, max_cat_threshold=max_cat_threshold)
    assert counts["equal"] >= 5
    assert counts["categorical"] >= 3

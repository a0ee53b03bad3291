"""Symmetric trees: each level has one split, the one that gains most over all of its nodes."""

import itertools

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.frames import FEATURES_BY_TYPE, every_type

SHAPE = {"grow_policy": "symmetric", "n_estimators": 4, "max_depth": 4}


def levels(model: fb.Model, tree: int = 0) -> list[list[tuple]]:
    """Return the distinct questions of each level of a tree, but for the last."""
    frame = model.trees.filter((pl.col("tree") == tree) & pl.col("feature").is_not_null())
    return [
        by_depth.select("condition", "missing").unique().rows()
        for _, by_depth in sorted(frame.group_by("depth"), key=lambda item: item[0])
    ]


def test_every_level_asks_one_question():
    frame = every_type(400, seed=3)
    model = fb.fit(frame, "amount", features=list(FEATURES_BY_TYPE), weight="w", **SHAPE)
    for tree in range(model.n_trees):
        assert [len(questions) for questions in levels(model, tree)] == [1, 1, 1, 1]
        assert model.trees.filter(tree=tree).height == 2**5 - 1


def gain(g: np.ndarray, h: np.ndarray, groups: list[np.ndarray], left: np.ndarray, reg_lambda: float) -> float:
    def score(rows: np.ndarray) -> float:
        return g[rows].sum() ** 2 / (h[rows].sum() + reg_lambda)

    total = 0.0
    for rows in groups:
        if (rows & left).any() and (rows & ~left).any():
            total += score(rows & left) + score(rows & ~left) - score(rows)
    return total


def test_the_split_of_a_level_is_the_best_of_all():
    rng = np.random.default_rng(5)
    x = rng.integers(0, 6, size=(80, 3)).astype(float)
    y = x[:, 0] * (x[:, 1] > 2) + rng.normal(size=80)
    frame = pl.DataFrame({f"x{i}": x[:, i] for i in range(3)}).with_columns(y=pl.Series(y))
    options = {"n_estimators": 1, "learning_rate": 1, "min_child_weight": 0, "grow_policy": "symmetric"}
    model = fb.fit(frame, "y", max_depth=3, **options)
    g, h = y.mean() - y, np.ones(80)
    groups = [np.ones(80, dtype=bool)]
    for depth in range(3):
        best = max(
            gain(g, h, groups, x[:, feature] < cut, 1.0) for feature, cut in itertools.product(range(3), range(1, 6))
        )
        taken = model.trees.filter(pl.col("depth") == depth)
        left = x[:, int(taken["feature"][0][1])] < taken["threshold"][0]
        assert gain(g, h, groups, left, 1.0) == pytest.approx(best)
        assert taken["gain"].sum() == pytest.approx(best)
        groups = [rows & side for rows in groups for side in (left, ~left)]
    for rows, value in zip(groups, model.trees.filter(pl.col("depth") == 3)["value"], strict=True):
        if rows.any():
            assert value == pytest.approx(-g[rows].sum() / (rows.sum() + 1.0))


def test_a_leaf_below_min_child_weight_has_its_parents_value():
    frame = pl.DataFrame({"x": [0] * 8 + [1] * 8, "z": [0] * 8 + [0] * 4 + [1] * 4,
                          "y": [0.0] * 8 + [5.0] * 4 + [9.0] * 4})  # fmt: skip
    model = fb.fit(frame, "y", n_estimators=1, learning_rate=1, reg_lambda=0, max_depth=2, min_child_weight=2,
                   grow_policy="symmetric")  # fmt: skip
    assert [q[0][0] for q in levels(model)] == ['"x" < 1', '"z" < 1']
    assert model.trees["cover"].to_list()[3:] == [8.0, 0.0, 4.0, 4.0]
    assert (model.trees["value"] + model.base_margin).to_list()[3:] == [0.0, 0.0, 5.0, 9.0]


def test_max_leaves_and_gamma_end_a_tree_by_whole_levels():
    frame = every_type(600, seed=3)
    options = {"features": list(FEATURES_BY_TYPE), **SHAPE}
    assert set(fb.fit(frame, "amount", max_leaves=7, **options).trees["depth"]) == {0, 1, 2}
    assert set(fb.fit(frame, "amount", gamma=1e12, **options).trees["depth"]) == {0}
    with pytest.raises(fb.ParameterError, match=r"needs a max_depth from 1 to 16, .* not 0"):
        fb.fit(frame, "amount", **options | {"max_depth": 0})
    with pytest.raises(fb.ParameterError, match="can't be combined with tree_method='exact'"):
        fb.fit(frame, "amount", tree_method="exact", **options)

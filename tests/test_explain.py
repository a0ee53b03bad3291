"""Explanations as users see them, and beside XGBoost's of the same trees."""

from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from tests.frames import every_type
from tests.from_xgboost import from_xgboost

SHARP = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
# XGBoost adds up in float32, relative to the largest margin.
XGBOOST = 1e-6


@cache
def same_trees(name: str) -> tuple[fb.Model, pl.DataFrame, xgboost.Booster, xgboost.DMatrix, float]:
    """Return a model, rows, an XGBoost booster of the same trees, the same rows for it, and the largest margin."""
    rng = np.random.default_rng(len(name))
    n, m = 400, 7
    x = rng.normal(size=(n, m)).astype(np.float32)
    x[:, 3] = rng.integers(0, 3, n)
    features = [(f"x{i}", ()) for i in range(m)]
    if name == "missing":
        x[rng.random(x.shape) < 0.3] = np.nan
    if name == "categories":
        x[:, 0], x[:, 1] = rng.integers(0, 12, n), rng.integers(0, 3, n)
        x[rng.random(x.shape) < 0.1] = np.nan
        features[:2] = [("x0", tuple("abcdefghijkl")), ("x1", tuple("pqr"))]
    y = np.nan_to_num(x[:, 0] * x[:, 2] + np.sin(3 * x[:, 1]) + x[:, 3]) + rng.normal(size=n) / 4
    weight = rng.integers(0, 3, n) if name == "weights" else None  # leaves many covers below 1, some roots' rows at 0
    matrix = xgboost.DMatrix(x, y, weight=weight, enable_categorical=True,
                             feature_types=["c" if categories else "q" for _, categories in features])  # fmt: skip
    settings = {"max_depth": 4, "base_score": 0.75, "nthread": 1, "max_cat_to_onehot": 2, "min_child_weight": 0.1}
    settings |= {"logistic": {"objective": "binary:logistic", "base_score": 0.5}, "deep": {"max_depth": 9}}.get(
        name, {}
    )
    if name == "logistic":
        matrix.set_label(y > np.median(y))
    booster = xgboost.train(settings, matrix, 8)
    model = from_xgboost(booster, features, 0.0 if name == "logistic" else 0.75)
    columns = {}
    for i, (column, categories) in enumerate(features):
        columns[column] = (
            [None if np.isnan(v) else categories[int(v)] for v in x[:, i]] if categories else x[:, i].copy()
        )
    frame = pl.DataFrame(columns)
    assert (model.trees["categories"].null_count() < len(model.trees)) == (name == "categories")
    margins = model.predict(frame, output="margin").to_numpy()
    np.testing.assert_allclose(margins, booster.predict(matrix, output_margin=True), rtol=0, atol=2e-5)
    return model, frame, booster, matrix, np.abs(margins).max()


DATA = ["numbers", "missing", "categories", "weights", "logistic", "deep"]


@pytest.mark.parametrize("approx", [False, True])
@pytest.mark.parametrize("name", DATA)
def test_contributions_are_xgboosts(name, approx):
    model, frame, booster, matrix, largest = same_trees(name)
    theirs = booster.predict(matrix, pred_contribs=True, approx_contribs=approx)
    ours = model.explain(frame, approx=approx)
    assert ours.columns == [*model.features, "bias"]
    assert np.abs(theirs[:, :-1]).max() > 0.1 * largest  # there is something to compare
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=0, atol=XGBOOST * largest)


@pytest.mark.parametrize("name", DATA)
def test_interactions_are_xgboosts(name):
    model, frame, booster, matrix, largest = same_trees(name)
    theirs = booster.predict(matrix, pred_interactions=True)
    m = len(model.features)
    ours = model.explain_interactions(frame)["value"].to_numpy().reshape(len(frame), m * m + 1)
    assert np.abs(theirs[:, 0, 2]).max() > 0.01 * largest
    np.testing.assert_allclose(ours[:, :-1].reshape(-1, m, m), theirs[:, :m, :m], rtol=0, atol=XGBOOST * largest)
    np.testing.assert_allclose(ours[:, -1], theirs[:, m, m], rtol=0, atol=XGBOOST * largest)


# --- explain ----------------------------------------------------------------------------------------------------------


def test_a_tree_by_hand():
    # One row each of (0, 0), (0, 1), (1, ·), (1, ·), labels 0, 4, 8, 8 of mean 5: x is asked first, then z for x = 0.
    frame = pl.DataFrame({"x": [0, 0, 1, 1], "z": [0, 1, 0, 1], "y": [0.0, 4.0, 8.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    assert model.trees["feature"].to_list() == ["x", "z", None, None, None]
    # v() = 5, v(x=0) = 2, v(x=1) = 8, v(z=0) = ½·0 + ½·8 = 4, v(z=1) = ½·4 + ½·8 = 6.
    assert model.explain(frame).rows() == [
        ((2 - 5 + 0 - 4) / 2, (4 - 5 + 0 - 2) / 2, 5.0),
        ((2 - 5 + 4 - 6) / 2, (6 - 5 + 4 - 2) / 2, 5.0),
        ((8 - 5 + 8 - 4) / 2, (4 - 5 + 8 - 8) / 2, 5.0),
        ((8 - 5 + 8 - 6) / 2, (6 - 5 + 8 - 8) / 2, 5.0),
    ]
    assert model.explain(frame, approx=True).rows() == [(-3, -2, 5), (-3, 2, 5), (3, 0, 5), (3, 0, 5)]
    # Φ_xz of the first row is ½ (v(xz) − v(x) − v(z) + v()) = ½ (0 − 2 − 4 + 5).
    assert model.explain_interactions(frame)[:5].rows() == [
        (0, "x", "x", -3.0), (0, "x", "z", -0.5), (0, "z", "x", -0.5), (0, "z", "z", -1.0), (0, "bias", "bias", 5.0),
    ]  # fmt: skip


def test_frames_have_the_promised_columns():
    frame = pl.DataFrame({"z": [1, 1, 1, 1], "x": [1, 2, 3, 4], "s": list("abab"), "y": [0.0, 0.0, 8.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    for approx in (False, True):
        found = model.explain(frame.lazy(), approx=approx)
        assert found.schema == {"z": pl.Float64, "x": pl.Float64, "s": pl.Float64, "bias": pl.Float64}
        assert found["z"].to_list() == found["s"].to_list() == [0.0] * 4
        assert model.explain(frame.clear(), approx=approx).shape == (0, 4)
    pairs = model.explain_interactions(frame)
    assert pairs.schema == {"row": pl.UInt32, "feature": pl.String, "other": pl.String, "value": pl.Float64}
    assert pairs["row"].to_list() == [row for row in range(4) for _ in range(10)]
    assert pairs["feature"].to_list()[:10] == ["z"] * 3 + ["x"] * 3 + ["s"] * 3 + ["bias"]
    assert pairs["other"].to_list()[:10] == ["z", "x", "s"] * 3 + ["bias"]
    wide = (
        pairs.filter(pl.col("feature") != "bias")
        .group_by("row", "feature", maintain_order=True)
        .agg(pl.col("value").sum())
    )
    assert wide.filter(pl.col("feature") == "x")["value"].to_list() == model.explain(frame)["x"].to_list()
    assert model.explain_interactions(frame.clear()).shape == (0, 4)


def test_a_model_without_splits_has_only_a_bias():
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [0.0, 6.0]})
    model = fb.fit(frame, "y", n_estimators=3, gamma=1e9)
    for approx in (False, True):
        assert model.explain(frame, approx=approx).rows() == [(0.0, 3.0), (0.0, 3.0)]
    assert model.explain_interactions(frame)["value"].to_list() == [0.0, 3.0, 0.0, 3.0]


@pytest.mark.parametrize("objective", ["reg:squarederror", "binary:logistic"])
def test_every_type_of_column_is_explained(objective):
    frame = every_type(300)
    label = "amount" if objective == "reg:squarederror" else "late"
    others = [name for name in ("amount", "late", "w") if name != label]
    model = fb.fit(frame.drop(others), label, objective=objective, n_estimators=6, max_depth=5)
    margins = model.predict(frame, output="margin").to_numpy()
    shap, approx = model.explain(frame), model.explain(frame, approx=True)
    for found in (shap, approx):
        np.testing.assert_allclose(found.sum_horizontal(), margins, rtol=0, atol=1e-13 * np.abs(margins).max())
    # The root's rows are those of training, all of weight 1 for squared error: the means are those of the rows.
    if objective == "reg:squarederror":
        means = approx.mean().row(0)
        np.testing.assert_allclose(means[:-1], [0.0] * len(model.features), atol=1e-12)
        assert means[-1] == pytest.approx(margins.mean())


def test_a_relation_is_explained_as_a_frame_is():
    frame = pl.DataFrame({"x": [1.5, None, 3.0, 4.0], "s": ["a", "b", None, "a"], "y": [0.0, 4.0, 8.0, 1.0]})
    model = fb.fit(frame, "y", **SHARP)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    for approx in (False, True):
        assert model.explain(con.table("t"), approx=approx).equals(model.explain(frame, approx=approx))


def test_a_column_called_bias_has_no_place():
    frame = pl.DataFrame({"bias": [1, 2], "y": [0.0, 1.0]})
    model = fb.fit(frame, "y", n_estimators=1)
    for method in (model.explain, model.explain_interactions):
        with pytest.raises(
            fb.ParameterError,
            match=r"^a feature is itself named 'bias', which is what the column of the mean margin is called; "
            r"rename the feature$",
        ):
            method(frame)


def test_data_is_checked_as_for_predict():
    model = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0.0, 1.0]}), "y", n_estimators=1)
    for method in (model.explain, model.explain_interactions):
        with pytest.raises(fb.DataError, match="the data lacks 1 feature of the model: 'x'"):
            method(pl.DataFrame({"z": [1]}))
        with pytest.raises(fb.DataError, match="feature 'x' has type String"):
            method(pl.DataFrame({"x": ["1"]}))
        with pytest.raises(fb.DataError, match="data is a list"):
            method([1])

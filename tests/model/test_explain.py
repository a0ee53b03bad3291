"""Explanations through the public API, compared with XGBoost's of the same trees."""

import datetime as dt
import random
from dataclasses import replace
from functools import cache

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.frames import every_type
from tests.support.from_xgboost import from_xgboost
from tests.support.naive_shap import with_covers
from tests.support.random_models import NAMES, TYPES, frame_of, random_model, random_values, to_duckdb

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
    parameters = {"max_depth": 4, "base_score": 0.75, "nthread": 1, "max_cat_to_onehot": 2, "min_child_weight": 0.1}
    special = {"logistic": {"objective": "binary:logistic", "base_score": 0.5}, "deep": {"max_depth": 9}}
    parameters |= special.get(name, {})
    if name == "logistic":
        matrix.set_label(y > np.median(y))
    booster = xgboost.train(parameters, matrix, 8)
    model = from_xgboost(booster, features, 0.0 if name == "logistic" else 0.75)
    frame = pl.DataFrame({
        column: [None if np.isnan(v) else categories[int(v)] for v in x[:, i]] if categories else x[:, i].copy()
        for i, (column, categories) in enumerate(features)
    })  # fmt: skip
    assert (model.trees["categories"].null_count() < len(model.trees)) == (name == "categories")
    margins = model.predict(frame, output="margin").to_numpy()
    np.testing.assert_allclose(margins, booster.predict(matrix, output_margin=True), rtol=0, atol=2e-5)
    return model, frame, booster, matrix, np.abs(margins).max()


DATA = ["numbers", "missing", "categories", "weights", "logistic", "deep"]


@cases("approx", [False, True])
@cases("name", DATA)
def test_contributions_are_xgboosts(name, approx):
    model, frame, booster, matrix, largest = same_trees(name)
    theirs = booster.predict(matrix, pred_contribs=True, approx_contribs=approx)
    ours = model.explain(frame, approx=approx)
    assert ours.columns == [*model.features, "bias"]
    assert np.abs(theirs[:, :-1]).max() > 0.1 * largest  # there is something to compare
    np.testing.assert_allclose(ours.to_numpy(), theirs, rtol=0, atol=XGBOOST * largest)


@cases("name", DATA)
def test_interactions_are_xgboosts(name):
    model, frame, booster, matrix, largest = same_trees(name)
    frame, theirs = frame[:50], booster.predict(matrix.slice(range(50)), pred_interactions=True)
    m = len(model.features)
    ours = model.explain(frame, interactions=True)["value"].to_numpy().reshape(len(frame), m * m + 1)
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
    assert model.explain(frame, interactions=True)[:5].rows() == [
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
    pairs = model.explain(frame, interactions=True)
    assert pairs.schema == {"row": pl.UInt32, "feature": pl.String, "other": pl.String, "value": pl.Float64}
    assert pairs["row"].to_list() == [row for row in range(4) for _ in range(10)]
    assert pairs["feature"].to_list()[:10] == ["z"] * 3 + ["x"] * 3 + ["s"] * 3 + ["bias"]
    assert pairs["other"].to_list()[:10] == ["z", "x", "s"] * 3 + ["bias"]
    assert model.explain(frame.clear(), interactions=True).shape == (0, 4)


def test_a_model_without_splits_has_only_a_bias():
    frame = pl.DataFrame({"x": [1.0, 2.0], "y": [0.0, 6.0]})
    model = fb.fit(frame, "y", n_estimators=3, gamma=1e9)
    for approx in (False, True):
        assert model.explain(frame, approx=approx).rows() == [(0.0, 3.0), (0.0, 3.0)]
    assert model.explain(frame, interactions=True)["value"].to_list() == [0.0, 3.0, 0.0, 3.0]


def test_every_type_of_column_is_explained():
    frame = every_type(300)
    model = fb.fit(frame.drop("late", "w"), "amount", n_estimators=3, max_depth=5)
    margins = model.predict(frame, output="margin").to_numpy()
    shap, approx = model.explain(frame), model.explain(frame, approx=True)
    for found in (shap, approx):
        np.testing.assert_allclose(found.sum_horizontal(), margins, rtol=0, atol=1e-13 * np.abs(margins).max())
    # The root's rows are those of training, all of weight 1 for squared error: the means are those of the rows.
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


def test_a_column_called_bias_has_no_place_and_approx_no_interactions():
    frame = pl.DataFrame({"bias": [1, 2], "y": [0.0, 1.0]})
    model = fb.fit(frame, "y", n_estimators=1)
    for how, message in (
        ({}, "feature 'bias' has the name of the bias column; rename"),
        ({"interactions": True}, "feature 'bias' has the name of the bias column; rename"),
        (
            {"interactions": True, "approx": True},
            "approx can't be combined with interactions, which are shares of Shapley",
        ),
    ):
        with pytest.raises(fb.ParameterError, match=f"^{message}"):
            model.explain(frame, **how)


# --- in a database ----------------------------------------------------------------------------------------------------


def bits(frame: pl.DataFrame) -> list:
    # + 0.0: the sign of a zero says nothing.
    return (frame.to_numpy() + 0.0).view(np.int64).tolist()


def reasons(model: fb.Model, explained: pl.DataFrame, top: int) -> list[tuple]:
    rows = []
    for row in explained.drop("bias", strict=False).iter_rows():
        order = sorted(range(len(row)), key=lambda i: (-abs(row[i]), i))[:top]
        rows.append(tuple(value for i in order for value in (model.features[i], row[i])))
    return rows


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
@settings(max_examples=examples(10), deadline=None)
def test_sql_says_what_python_says_to_the_last_bit(seed, type_names):
    rng = random.Random(seed)
    kinds = [FeatureType(name) for name in type_names]
    names = rng.sample([name for name in NAMES if name], len(kinds))
    model = with_covers(random_model(kinds, names, rng, n_trees=3, depth=4), rng)
    frame = frame_of(model, {name: random_values(kind, 40, rng) for name, kind in zip(names, kinds, strict=True)})
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    expected = model.explain(frame, approx=True)
    found = con.sql(model.database().explain_query("t", keep=["position"], approx=True)).order("position").pl()
    assert found.columns == ["position", *names, "bias"]
    assert bits(found.drop("position")) == bits(expected)
    top = rng.randint(1, len(kinds))
    query = model.database().explain_query("t", keep=["position"], top=top, approx=True)
    found = con.sql(query).order("position").pl().drop("position")
    assert found.columns == [f"{name}_{k}" for k in range(1, top + 1) for name in ("reason", "contribution")]
    assert found.rows() == reasons(model, expected, top)
    assert found.schema == {name: pl.String if name[0] == "r" else pl.Float64 for name in found.columns}


def test_ties_go_to_the_first_feature_and_nothing_contributes_nothing():
    frame = pl.DataFrame({"z": [0, 0], "b": [0, 1], "a": [0, 1], "y": [0.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    assert con.sql(model.database().explain_query("t", keep=[], top=3, approx=True)).fetchall() == [
        ("b", -4.0, "z", 0.0, "a", 0.0), ("b", 4.0, "z", 0.0, "a", 0.0),
    ]  # fmt: skip
    assert con.sql(model.database().explain_query("t", approx=True)).fetchall() == [
        (0.0, -4.0, 0.0, 4.0),
        (0.0, 4.0, 0.0, 4.0),
    ]


def test_the_users_default_order_changes_no_reason():
    frame = pl.DataFrame({"x": [0, 1, 2, 3], "z": [1, 1, 1, 1], "y": [0.0, 2.0, 8.0, 10.0]})
    model = fb.fit(frame, "y", max_depth=2, **SHARP)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    con.execute("SET default_order = 'DESC'")
    found = con.sql(model.database().explain_query("t", top=1, approx=True)).fetchall()
    assert found == [("x", -5.0), ("x", -3.0), ("x", 3.0), ("x", 5.0)]


def test_kept_columns_never_clash():
    frame = pl.DataFrame({"x": [0, 1], "c_0": [0, 1], "CC_ranked": [1, 2], "y": [0.0, 8.0]})
    model = fb.fit(frame, "y", features=["x", "CC_ranked"], **SHARP)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS FROM frame")
    query = model.database().explain_query("t", keep=["c_0", "CC_ranked", "x"], top=1, approx=True)
    assert con.sql(query).fetchall() == [(0, 1, 0, "x", -4.0), (1, 2, 1, "x", 4.0)]
    for keep, top, name in [(["X"], None, "X"), (["bias"], None, "bias"), (["y", "Y"], 1, "y"),
                            (["reason_1"], 1, "reason_1"), (["contribution_2"], 2, "contribution_2")]:  # fmt: skip
        with pytest.raises(fb.ParameterError, match=f"^the query would have column '{name}' twice; leave it out of"):
            model.database().explain_query("t", keep=keep, top=top, approx=True)


def test_wrong_parameters_of_a_query():
    frame = pl.DataFrame({"Bias": [0, 1], "y": [0.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    assert model.explain(frame).columns == ["Bias", "bias"]  # polars tells them apart, SQL does not
    with pytest.raises(fb.ParameterError, match=r"^feature 'Bias' has the name"):
        model.database().explain_query("t", approx=True)
    assert "reason_1" in model.database().explain_query("t", top=1, approx=True)
    for top in (0, 2, True, 1.0, "1"):
        with pytest.raises(fb.ParameterError, match=r"^top must be an integer from 1 to 1, the number of features"):
            model.database().explain_query("t", top=top, approx=True)
    with pytest.raises(fb.ParameterError, match=r"^keep must be a list of column names, not the string 'y'$"):
        model.database().explain_query("t", keep="y", approx=True)
    frame = pl.DataFrame({"a": [1, 2], "A": [1, 2], "y": [0.0, 1.0]})
    with pytest.raises(fb.ParameterError, match="differ only in case"):
        fb.fit(frame, "y", **SHARP).database().explain_query("t", approx=True)


# --- partial dependence -----------------------------------------------------------------------------------------------


def by_brute_force(model: fb.Model, frame: pl.DataFrame, name: str, values: pl.Series, output: str) -> list[float]:
    changed = (frame.with_columns(pl.lit(value, dtype=values.dtype).alias(name)) for value in values)
    return [model.predict(rows, output=output).mean() for rows in changed]


@pytest.mark.slow
@cases(("name", "output"), [
    (name, ("mean", "margin")[i % 2]) for i, name in enumerate((
        "int8", "uint64", "float32", "decimal", "boolean", "date", "datetime_ns", "datetime_tz", "duration_us",
        "int128", "string", "enum", "categorical",
    ))
])  # fmt: skip
def test_partial_dependence_is_the_mean_of_predictions(name, output):
    frame = every_type(150).select(name, "int16", "late")
    model = fb.fit(frame, "late", objective="binary:logistic", n_estimators=3)
    found = model.partial_dependence(frame, name, output=output)
    assert found.schema == {name: frame.schema[name], "prediction": pl.Float64}
    values = found[name]
    assert found["prediction"].to_list() == pytest.approx(by_brute_force(model, frame, name, values, output))
    assert found["prediction"].n_unique() > 1
    present = frame[name].drop_nulls()
    if frame.schema[name].is_float():
        present = present.drop_nans()
    assert set(values.to_list()) <= set(present.to_list())
    if name in ("string", "enum", "categorical", "boolean"):
        assert len(values) == present.n_unique()
    else:
        assert 18 <= len(values) <= 20
        assert (values[0], values[-1]) == (present.min(), present.max())
        assert values.is_sorted()


def test_partial_dependence_on_codes_that_no_tree_splits_on():
    frame = pl.DataFrame({"x": [0, 0, 1, 1], "k": [7, 5, 5, None], "y": [0.0, 0.0, 4.0, 4.0]})
    ensemble = fb.fit(frame, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0).ensemble
    model = fb.Model(replace(ensemble, features=(*ensemble.features, Feature("k", FeatureType("codes")))))
    assert model.partial_dependence(frame, "k").rows() == [(5, 2.0), (7, 2.0)]


def test_partial_dependence_by_hand():
    frame = pl.DataFrame({"x": [0, 0, 1, None], "s": ["a", "b", "b", "b"], "y": [0.0, 4.0, 8.0, 12.0]})
    model = fb.fit(frame, "y", max_depth=3, **SHARP)
    assert model.predict(frame).to_list() == [0.0, 4.0, 8.0, 12.0]
    cells = {(x, s): model.predict(pl.DataFrame({"x": [x], "s": [s]}, schema_overrides={"x": pl.Int64})).item()
             for x in (0, 1, None) for s in "ab"}  # fmt: skip
    of_x = {x: (cells[x, "a"] + 3 * cells[x, "b"]) / 4 for x in (0, 1, None)}
    assert model.partial_dependence(frame, "x").rows() == [(0, of_x[0]), (1, of_x[1])]
    assert model.partial_dependence(frame, "x", grid=[None, 1]).rows() == [(None, of_x[None]), (1, of_x[1])]
    assert model.partial_dependence(frame, "x", grid=pl.Series([1])).rows() == [(1, of_x[1])]
    of_s = {s: (2 * cells[0, s] + cells[1, s] + cells[None, s]) / 4 for s in "ab"}
    assert model.partial_dependence(frame.lazy(), "s").rows() == list(of_s.items())
    unseen = model.partial_dependence(frame, "s", grid=["z", None])
    assert unseen["prediction"][0] == unseen["prediction"][1]


def test_few_values_are_all_taken_and_many_at_even_ranks():
    frame = pl.DataFrame({"x": [float(i) for i in range(1001)], "k": [i % 20 for i in range(1001)]})
    frame = frame.with_columns(pl.col("x").alias("y"))
    model = fb.fit(frame, "y", n_estimators=2)
    assert model.partial_dependence(frame, "k")["k"].to_list() == list(range(20))
    grid = model.partial_dependence(frame, "x")["x"].to_list()
    assert grid == [round(i * 1000 / 19) for i in range(20)]


def test_a_feature_that_no_tree_asks_about_makes_no_difference():
    frame = pl.DataFrame({"x": [0, 1], "one": [1, 1], "y": [0.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    assert model.partial_dependence(frame, "one", grid=[1, 2, 3]).rows() == [(1, 4.0), (2, 4.0), (3, 4.0)]
    con = duckdb.connect()
    assert model.partial_dependence(con.sql("FROM frame"), "x").rows() == [(0, 0.0), (1, 8.0)]


def test_wrong_parameters_of_partial_dependence():
    frame = pl.DataFrame({"x": [0, 1], "d": [dt.date(2013, 1, 1)] * 2, "prediction": [1, 2], "y": [0.0, 8.0]})
    model = fb.fit(frame, "y", **SHARP)
    pd = model.partial_dependence
    for call, message in (
        (lambda: pd(frame, "z"), "feature must be one of the model's, 'x', 'd', 'prediction', not"),
        (lambda: pd(frame, "prediction"), "feature 'prediction' has the name of"),
        (lambda: pd(frame, "x", output="leaf"), "output must be one of 'mean', 'margin', not 'leaf'$"),
        *((lambda grid=grid: pd(frame, "x", grid=grid), "grid must hold values of column 'x', which has type Int64")
          for grid in ([1.5], ["a"], [2**70])),
        (lambda: pd(frame, "x", grid="ab"), "grid must be a list of values, not 'ab'$"),
        (lambda: pd(frame, "x", grid=3), "grid must be a list of values, not 3$"),
        (lambda: pd(frame, "x", grid=[]), "grid is empty; pass at least one value$"),
        (lambda: pd(frame.clear(), "x"), "the data has no rows to take the mean over$"),
        (lambda: pd(frame.with_columns(x=pl.lit(None, dtype=pl.Int64)), "x"), "feature 'x' has no value in any row"),
        (lambda: pd(frame.drop("d"), "x"), "the data lacks 1 feature"),
    ):  # fmt: skip
        with pytest.raises((fb.ParameterError, fb.DataError), match=f"^{message}"):
            call()


# --- several outputs --------------------------------------------------------------------------------------------------


def test_each_class_is_explained_by_its_own_trees():
    frame = every_type(300, seed=2).with_columns(level=(pl.col("amount").rank() * 3 // 301).cast(pl.Int8))
    features = ["float64", "string", "int16", "boolean"]
    model = fb.fit(frame, "level", objective="multi:softprob", features=features, n_estimators=4, max_depth=4)
    margins = np.array(model.predict(frame, "margin").to_list())
    con = duckdb.connect()
    con.register("rows", frame.select(features))
    for k in range(3):
        for approx in (False, True):
            explained = model.explain(frame, approx=approx, output=k)
            np.testing.assert_allclose(explained.sum_horizontal(), margins[:, k], atol=1e-9)
        in_sql = con.sql(model.database().explain_query("rows", output=k, approx=True)).pl()
        np.testing.assert_array_equal(in_sql.to_numpy(), model.explain(frame, approx=True, output=k).to_numpy())
    pairs = model.explain(frame[:5], output=1, interactions=True)
    totals = pairs.group_by("row", maintain_order=True).agg(pl.sum("value"))
    np.testing.assert_allclose(totals["value"], margins[:5, 1], atol=1e-9)
    for wrong in (-1, 3, True):
        with pytest.raises(fb.ParameterError, match="output must be the number of a margin, from 0 to 2"):
            model.explain(frame, output=wrong)


def test_all_classes_are_explained_in_a_long_frame():
    frame = every_type(60, seed=2).with_columns(level=(pl.col("amount").rank() * 3 // 61).cast(pl.Int8))
    features = ["float64", "string", "int16"]
    model = fb.fit(frame, "level", objective="multi:softprob", features=features, n_estimators=2)
    for data in (frame, frame.select(features).to_arrow().to_reader()):  # which can be read once
        found = model.explain(data)
        assert found.schema == {"row": pl.UInt32, "output": pl.Int64, "feature": pl.String, "value": pl.Float64}
        for k in range(3):
            wide = model.explain(frame, output=k).with_row_index("row")
            long = wide.unpivot(index="row", variable_name="feature").sort("row", maintain_order=True)
            assert found.filter(output=k).drop("output").equals(long)
    rows = [(row, k) for row in range(60) for k in range(3) for _ in range(4)]
    assert found.select("row", "output").rows() == rows
    assert model.explain(frame.clear()).shape == (0, 4)
    pairs = model.explain(frame[:4], interactions=True)
    assert pairs.columns == ["row", "output", "feature", "other", "value"]
    for k in range(3):
        assert pairs.filter(output=k).drop("output").equals(model.explain(frame[:4], interactions=True, output=k))


def test_partial_dependence_on_two_features():
    frame = every_type(80, seed=2)
    model = fb.fit(frame, "amount", features=["float64", "string", "boolean"], n_estimators=3)
    found = model.partial_dependence(frame, ["boolean", "float64"], grid={"float64": [0.5, None]})
    assert found.columns == ["boolean", "float64", "prediction"]
    assert found.select("boolean", "float64").rows() == [(b, x) for b in (False, True) for x in (0.5, None)]
    for boolean, number, mean in found.rows():
        changed = frame.with_columns(boolean=pl.lit(boolean), float64=pl.lit(number, pl.Float64))
        assert mean == pytest.approx(model.predict(changed).mean(), rel=1e-12)
    for features, message in (
        (["boolean", "boolean"], "feature must be one of the model's or two different ones, not"),
        (["boolean", "float64", "string"], "feature must be one of the model's or two different ones, not"),
        (["boolean", "flaot"], "feature must be one of the model's, 'float64', 'string', 'boolean', not 'flaot'"),
    ):
        with pytest.raises(fb.ParameterError) as error:
            model.partial_dependence(frame, features)
        assert message in str(error.value)
    with pytest.raises(fb.ParameterError, match=r"^grid of two features must be a dict of feature to a list of values"):
        model.partial_dependence(frame, ["boolean", "float64"], grid=[1])
    with pytest.raises(fb.ParameterError, match=r"^grid names 'string', which is none of 'boolean', 'float64'$"):
        model.partial_dependence(frame, ["boolean", "float64"], grid={"string": ["a"]})


def test_partial_dependence_of_classes_is_an_array():
    frame = every_type(200, seed=2).with_columns(level=(pl.col("amount").rank() * 3 // 201).cast(pl.Int8))
    model = fb.fit(frame, "level", objective="multi:softprob", features=["float64", "boolean"], n_estimators=2)
    table = model.partial_dependence(frame, "boolean")
    for value, means in table.rows():
        rows = np.array(model.predict(frame.with_columns(boolean=pl.lit(value))).to_list())
        np.testing.assert_allclose(means, rows.mean(axis=0))

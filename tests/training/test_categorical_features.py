"""Columns of numbers and times whose values are categories, by ``categorical_features``."""

import datetime as dt
import sqlite3
from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost
from sklearn.metrics import log_loss

import frameboost as fb
from tests.support.cases import cases
from tests.support.engines import as_relation

EFFECTS = [3, -1, 4, 1, -5, 9, 2, -6, 5, 3, 5, 8]
FEATURES = ["i", "f", "day", "dec", "ts", "big", "flag", "x"]
CATEGORIES = FEATURES[:-1]
SHAPE = {"n_estimators": 3, "max_depth": 4, "min_child_weight": 0, "max_cat_to_onehot": 4, "features": FEATURES}


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(0), 300
    level, gone = rng.integers(0, 12, n), rng.random((2, n)) < 0.1
    x = rng.normal(size=n).round(2)
    return pl.DataFrame({
        "i": [None if g else int(k) * 3 - 5 for g, k in zip(gone[0], level, strict=True)],
        "f": np.where(gone[1], np.nan, level % 7 / 2 - 1), "day": [dt.date(2020, 1, 1 + k) for k in level % 5],
        "dec": [Decimal(int(k)) / 4 for k in level % 6],
        "ts": [dt.datetime(2020, 1, 1, int(k)) for k in level % 8], "big": level.astype(np.int64) * 2**59 + 1,
        "flag": level % 2 == 0, "x": x, "y": (np.array(EFFECTS)[level] + x).round(2), "id": range(n),
    })  # fmt: skip


@pytest.fixture(scope="module")
def model(frame):
    return fb.fit(frame, "y", categorical_features=CATEGORIES, **SHAPE)


def in_strings(frame):
    """Return the columns as strings in the order of their values."""

    def text(name):
        ranks = pl.when(pl.col(name).is_not_nan()).then(name) if name == "f" else pl.col(name)
        return (ranks.rank("dense") + 100).cast(pl.String).alias(name)

    return frame.with_columns(text(name) for name in CATEGORIES)


def test_splits_are_those_of_strings_in_the_order_of_the_values(frame, model):
    expected = fb.fit(in_strings(frame).with_columns(frame["flag"]), "y", **SHAPE)
    assert model.predict(frame).equals(expected.predict(in_strings(frame).with_columns(frame["flag"])))
    splits = ["tree", "node", "feature", "missing", "left", "right", "gain"]
    assert model.trees.select(splits).equals(expected.trees.select(splits))
    by_name = {each.name: each for each in model.ensemble.features}
    assert by_name["i"].categories == tuple(range(-5, 31, 3))
    assert by_name["f"].categories == tuple(k / 2 - 1 for k in range(7))
    assert (str(by_name["day"].type), str(by_name["flag"].type)) == ("category(date)", "boolean")


def test_a_category_is_a_number_and_missing_what_was_never_seen(frame, model):
    expected, wide = (
        model.predict(frame),
        frame.with_columns(pl.col("i").cast(pl.Float64), pl.col("f").cast(pl.Float32)),
    )
    assert model.predict(wide).equals(expected)
    assert frame.select(model.expr()).to_series().equals(expected)
    one = frame.head(40)
    missing = model.predict(one.with_columns(i=pl.lit(None, pl.Int64), f=pl.lit(None, pl.Float64)))
    assert model.predict(one.with_columns(i=pl.lit(9_999), f=pl.lit(0.3))).equals(missing)
    assert not missing.equals(model.predict(one))


def test_sql_compares_numbers_with_numbers(frame, model):
    columns = ["i", "f", "x"]
    small = fb.fit(frame, "y", categorical_features=["i", "f"], **SHAPE | {"features": columns})
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (i REAL, f REAL, x REAL)")  # 3.0 is the category 3
    rows = frame.select(columns).with_columns(pl.col("f").fill_nan(None))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows.rows())
    database = small.database("sqlite")
    text = database.sql()
    found = [value for (value,) in connection.execute(f"SELECT {text} FROM t")]
    assert found == small.predict(frame).to_list()
    assert "'" not in text, "numbers are not compared as texts"
    con = duckdb.connect()
    con.register("rows", frame)
    scored = con.sql(f"SELECT {model.database('duckdb').sql()} AS p FROM rows").pl()
    assert scored["p"].to_list() == model.predict(frame).to_list()


@pytest.mark.slow
@cases("way", [
    "duckdb", "relation", "relation in memory", "shards", "shards of a relation", "approx", "approx in duckdb", "local",
    "exact", "database", "sql", "parquet", "star",
])  # fmt: skip
def test_every_way_grows_the_same_trees(frame, model, tmp_path_factory, way):
    con = duckdb.connect()
    con.register("frame", frame)
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    path = tmp_path_factory.mktemp("rows") / "t.parquet"
    frame.write_parquet(path)
    facts, dimension = frame.drop("day", "dec"), frame.select("id", "day", "dec")
    data, more = {
        "duckdb": (frame, {"engine": "duckdb"}), "relation": (con.table("t"), {"engine": "duckdb"}),
        "relation in memory": (con.table("t"), {"engine": "numba"}), "shards": (frame, {"shards": 3}),
        "shards of a relation": (con.table("t"), {"shards": 2, "engine": "duckdb"}),
        "approx": (frame, {"tree_method": "approx"}),
        "approx in duckdb": (con.table("t"), {"tree_method": "approx", "engine": "duckdb"}),
        "local": (con.table("t"), {"tree_method": "approx", "proposal": "local", "engine": "duckdb"}),
        "exact": (frame, {"tree_method": "exact"}), "database": (fb.table(con, "t", key="id"), {}),
        "sql": (fb.table(con, "t", key="id"), {"engine": "sql"}), "parquet": (path, {}),
        "star": (fb.join(facts, dimension, on="id"), {}),
    }[way]  # fmt: skip
    found = fb.fit(data, "y", categorical_features=CATEGORIES, **SHAPE | more)
    assert {each.name: each.type for each in found.ensemble.features} == {
        each.name: each.type for each in model.ensemble.features
    }
    if way not in ("exact", "local"):  # whose thresholds of x are others
        splits = ["tree", "node", "feature", "categories", "missing", "value"]
        assert found.trees.select(splits).equals(model.trees.select(splits))


@pytest.mark.parametrize(
    "choice",
    [["i", "f"], ("f", "i"), [0, 1], (1, -5), np.array([True, True, False, False, False]), "name:i,f", "0,1"],
    ids=str,
)
def test_columns_are_chosen_by_name_by_position_or_by_a_mask(frame, choice):
    features = ["i", "f", "dec", "x", "big"]
    model = fb.fit(frame, "y", features=features, n_estimators=1, categorical_features=choice)
    assert [each.name for each in model.ensemble.features if each.type.is_categorical] == ["i", "f"]
    assert sorted(model.parameters["categorical_features"]) == ["f", "i"]


def test_names_of_other_libraries(frame):
    options = {"features": ["i", "x"], "n_estimators": 1}
    expected = fb.fit(frame, "y", categorical_features=["i"], **options)
    for named in (
        {"cat_features": ["i"]}, {"categorical_feature": [0]}, {"categorical_feature": 0},
        {"feature_types": ["c", "q"]},
    ):  # fmt: skip
        assert fb.fit(frame, "y", **named, **options) == expected
    plain = fb.fit(frame, "y", **options)
    for nothing in ({"categorical_features": "from_dtype"}, {"categorical_feature": "auto"}, {"feature_types": None}):
        assert fb.fit(frame, "y", **nothing, **options) == plain


@cases(("given", "message"), [
    ({"categorical_features": "i"}, "must be a list of column names, of positions or of Booleans, .*, not 'i'$"),
    ({"categorical_features": ["i", 1]}, "must be a list of column names, of positions or of Booleans"),
    ({"categorical_features": [0.5]}, "must be a list of column names, of positions or of Booleans"),
    ({"categorical_features": ["j"]}, r"^categorical_features names 'j', which is not a feature; the features are 'i'"),
    ({"categorical_features": ["y"]}, r"^categorical_features names 'y', which is not a feature"),
    ({"categorical_features": [8]}, r"^categorical_features has the position 8, but there are 8 features, from 0 on$"),
    ({"categorical_features": [True]}, r"^categorical_features has 1 Booleans, for 8 features; pass one for each$"),
    ({"feature_types": ["c", "number"]}, r"^feature_types must be a list of .*, not with 'number'$"),
    ({"categorical_features": ["i"], "monotone_constraints": {"i": 1}}, "^monotone_constraints names 'i', which holds"),
    ({"categorical_features": ["i"], "cuts": {"i": [1]}}, "'i'"),
])  # fmt: skip
def test_what_is_no_column_is_refused(frame, given, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.fit(frame, "y", features=FEATURES, **given)


def test_estimators_take_arrays(frame):
    # A column without a value is no feature; positions count it all the same.
    X = np.column_stack([np.full(len(frame), np.nan), frame["x"], frame["big"] // 2**59, frame["f"]])
    options = {"n_estimators": 3, "max_depth": 3, "cat_smooth": 0.0}
    fitted = fb.FrameBoostRegressor(categorical_features=[2, 0], **options).fit(X, frame["y"])
    expected = fb.fit(pl.DataFrame(X[:, 1:], schema=["x1", "x2", "x3"]).with_columns(frame["y"]), "y",
                      categorical_features=["x2"], **options)  # fmt: skip
    assert fitted.model_.trees.equals(expected.trees)
    np.testing.assert_array_equal(fitted.predict(X), expected.predict(pl.DataFrame(X, schema=["x0", "x1", "x2", "x3"])))
    mask = fb.FrameBoostRegressor(categorical_features=[False, False, True, False], **options).fit(X, frame["y"])
    assert mask.model_ == fitted.model_


def test_predictions_are_xgboosts(frame):
    X = frame.select(pl.col("big") // 2**59, pl.col("i").fill_null(-5) // 3 + 2, "x").to_numpy()
    shape = {"max_depth": 4, "learning_rate": 0.3, "feature_types": ["c", "c", "q"]}
    data = xgboost.DMatrix(X, frame["y"].to_numpy(), feature_types=shape["feature_types"], enable_categorical=True)
    theirs = xgboost.train({"max_depth": 4, "eta": 0.3, "tree_method": "hist", "nthread": 1}, data, 5).predict(data)
    ours = fb.FrameBoostRegressor(n_estimators=5, cat_smooth=0.0, **shape).fit(X, frame["y"]).predict(X)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@cases("trees", ["one_output_per_tree", "multi_output_tree"])
def test_rules_over_categories_are_learnt_as_well_as_by_xgboost(trees):
    # p(1 - p) of a class vanishes long before the rule is learnt; its categories must be named all the same.
    codes = np.random.default_rng(3).integers(0, [8, 9, 6, 7], (2_000, 4))
    y = np.where(codes[:, 0] % 3 == 0, 0, 1 + ((codes[:, 1] > 5) & (codes[:, 2] < 2)))
    settings = {"learning_rate": 0.3, "max_depth": 5}
    data = xgboost.DMatrix(codes, y, feature_types=["c"] * 4, enable_categorical=True)
    theirs = xgboost.train({"objective": "multi:softprob", "num_class": 3, "nthread": 1, **settings}, data, 60)
    shape = {"n_estimators": 60, "feature_types": ["c"] * 4, "multi_strategy": trees}
    ours = log_loss(y, fb.FrameBoostClassifier(**shape, **settings).fit(codes, y).predict_proba(codes))
    assert ours < 1.05 * log_loss(y, theirs.predict(data))


@pytest.mark.slow
def test_what_is_made_of_a_model_keeps_its_categories(frame, model, tmp_path):
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == model
    assert model.parameters["categorical_features"] == CATEGORIES
    longer = fb.fit(frame, "y", init_model=model, **SHAPE | {"n_estimators": 2})
    whole = fb.fit(frame, "y", categorical_features=CATEGORIES, **SHAPE | {"n_estimators": 5})
    splits = ["tree", "node", "feature", "threshold", "categories", "missing"]
    assert longer.ensemble.features == model.ensemble.features
    for options in ({}, {"categorical_features": CATEGORIES}, {"engine": "duckdb"}):  # the numbers of a relation too
        on = fb.fit(as_relation(frame), "y", init_model=model, **SHAPE | {"n_estimators": 2} | options)
        assert on.ensemble.trees == longer.ensemble.trees
    assert longer.trees.select(splits).equals(whole.trees.select(splits))
    refitted = model.refit(frame, "y")
    np.testing.assert_allclose(refitted.predict(frame), model.predict(frame), atol=1e-9)
    path = tmp_path / "checkpoint"
    kept = fb.fit(frame, "y", categorical_features=CATEGORIES, checkpoint=path, checkpoint_every=1, **SHAPE)
    assert fb.fit(frame, "y", categorical_features=CATEGORIES, checkpoint=path, checkpoint_every=1, **SHAPE) == kept
    folds = fb.cv(frame, "y", folds=2, categorical_features=["i"], **SHAPE | {"n_estimators": 2})
    assert folds.height > 0

"""Estimators train the model of `frameboost.fit`, from X and y in any kind of table or array."""

import copy

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import COLUMNS, ESTIMATORS, SHAPE, as_pandas, numbers


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "duckdb"])
def test_the_model_is_that_of_fit(frame, X, engine):
    expected = fb.fit(frame, "amount", features=COLUMNS, weight="w", **SHAPE)
    regressor = fb.FrameBoostRegressor(engine=engine, **SHAPE).fit(X, frame["amount"], sample_weight=frame["w"])
    assert regressor.model_ == expected
    predicted = regressor.predict(X)
    assert predicted.flags.writeable
    np.testing.assert_array_equal(predicted, expected.predict(frame).to_numpy())

    expected = fb.fit(frame, "late", features=COLUMNS, objective="binary:logistic", **SHAPE)
    classifier = fb.FrameBoostClassifier(engine=engine, **SHAPE).fit(X, frame["late"])
    assert classifier.model_ == expected
    np.testing.assert_array_equal(classifier.predict_proba(X)[:, 1], expected.predict(X).to_numpy())
    np.testing.assert_array_equal(classifier.decision_function(X), expected.predict(X, "margin").to_numpy())
    np.testing.assert_array_equal(classifier.predict(X), expected.predict(X).to_numpy() > 0.5)


def test_other_parameters_reach_fit(frame, X):
    other = {"learning_rate": 0.1, "max_leaves": 5, "grow_policy": "lossguide", "gamma": 1.0, "max_bin": 20,
             "n_jobs": 1, "base_score": 3.0, "reg_lambda": 2.0, "min_child_weight": 3.0}  # fmt: skip
    expected = fb.fit(frame, "amount", features=COLUMNS, **SHAPE, **other)
    assert fb.FrameBoostRegressor(**SHAPE, **other).fit(X, frame["amount"]).model_ == expected
    assert fb.FrameBoostRegressor(**SHAPE, **{**other, "n_jobs": -1}).fit(X, frame["amount"]).model_ == expected
    logistic = fb.FrameBoostRegressor(objective="binary:logistic", **SHAPE).fit(X, frame["late"])
    numbers = frame.with_columns(pl.col("late").cast(int))
    assert logistic.model_ == fb.fit(numbers, "late", features=COLUMNS, objective="binary:logistic", **SHAPE)


def test_tables_of_every_kind_are_one(frame, X):
    y = frame["amount"].to_list()
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, y)
    expected = regressor.predict(X)
    assert regressor.n_features_in_ == len(COLUMNS)
    assert regressor.feature_names_in_.tolist() == regressor.model_.features == COLUMNS
    for table in (X.lazy(), X.to_arrow(), as_pandas(X)):
        assert clone(regressor).fit(table, y).model_ == regressor.model_
        np.testing.assert_array_equal(regressor.predict(table), expected)


def test_the_users_data_stays_as_it_is():
    frames = [pl.DataFrame({"y": [1.0, None, 3.0, 4.0] * 10, "sample_weight": ["a", "b"] * 20})]
    frames.append(frames[0].to_pandas())
    weight = np.array([0.0, 1.0, 2.0, 3.0] * 10)
    y = np.arange(40)
    for X in frames:
        before, before_y, before_weight = copy.deepcopy(X), y.copy(), weight.copy()
        regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, y, sample_weight=weight)
        regressor.predict(X)
        assert regressor.model_.features == ["y", "sample_weight"]
        assert before.equals(X)
        np.testing.assert_array_equal(before_y, y)
        np.testing.assert_array_equal(before_weight, weight)


def test_arrays_have_columns_by_number():
    X, y = numbers()
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, y)
    assert not hasattr(regressor, "feature_names_in_")
    assert regressor.model_.features == ["x0", "x1", "x2", "x3", "x4"]
    data = pl.DataFrame(X, schema=regressor.model_.features)
    assert regressor.model_ == fb.fit(data.with_columns(y=y), "y", **SHAPE)
    for same in (X.tolist(), np.asfortranarray(X), X.astype(object), X.astype(">f8"), X.astype(np.longdouble),
                 pd.DataFrame(X)):  # fmt: skip
        assert clone(regressor).fit(same, y).model_ == regressor.model_
        np.testing.assert_array_equal(regressor.predict(same), regressor.predict(X))
    np.testing.assert_array_equal(regressor.predict(X > 0), regressor.predict((X > 0) * 1.0))  # true is a number


def test_nan_and_infinities_are_values_of_an_array():
    X = np.array([[np.nan], [-np.inf], [0.0], [np.inf]] * 10)
    y = np.array([0.0, 10.0, 20.0, 30.0] * 10)
    regressor = fb.FrameBoostRegressor(n_estimators=1, learning_rate=1, reg_lambda=0).fit(X, y)
    np.testing.assert_allclose(regressor.predict(X), y)


def test_a_column_without_values_is_not_split_on():
    X = pl.DataFrame({"none": [None] * 40, "nan": [np.nan] * 40, "x": range(40)}, schema_overrides={"nan": pl.Float32})
    y = np.arange(40.0)
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, y)
    assert regressor.model_.features == ["x"]
    assert regressor.feature_importances_.tolist() == [0.0, 0.0, 1.0]
    assert regressor.predict(X).shape == (40,)
    with pytest.warns(fb.FrameboostWarning, match="no tree has a split"):
        alone = fb.FrameBoostRegressor(**SHAPE).fit(X[["nan"]], y)
    assert alone.predict(X[["nan"]]).tolist() == pytest.approx([19.5] * 40)


def test_a_row_of_weight_zero_is_not_there(frame, X):
    weight = frame["w"].to_numpy() * (np.arange(300) % 3 > 0)
    counts = pl.Series(weight > 0)
    for kind, target in ((fb.FrameBoostRegressor, "amount"), (fb.FrameBoostClassifier, "late")):
        with_zeros = kind(**SHAPE).fit(X, frame[target], sample_weight=weight)
        without = kind(**SHAPE).fit(X.filter(counts), frame[target].filter(counts), sample_weight=weight[weight > 0])
        assert with_zeros.model_ == without.model_
    with pytest.warns(fb.FrameboostWarning, match="constant"):
        one = fb.FrameBoostClassifier(n_estimators=1).fit(X, weight > 0, sample_weight=weight)
    assert one.predict(X).all()


@cases("weight, message", [
    (np.zeros(40), "^sample_weight is zero in every row"), (np.full(40, np.nan), "^Input sample_weight contains NaN"),
    (-np.ones(40), "^sample_weight has negative weights, the lowest -1; a weight must be 0 or more$"),
    (np.ones(39), "inconsistent numbers of samples"),
])  # fmt: skip
def test_bad_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRegressor().fit(np.arange(40).reshape(-1, 1), np.arange(40), sample_weight=weight)


@cases("y, message", [
    (None, "requires y to be passed, but the target y is None"), (pl.Series([1, None] * 20), "Input y contains NaN"),
    (["a", "b"] * 20, "y has type <U1; a target must be numeric"),
    (pd.date_range("2020-01-01", periods=40), "a target must be numeric"),
])  # fmt: skip
def test_bad_targets(y, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRegressor().fit(np.arange(40).reshape(-1, 1), y)


@cases("y", [[3.0] * 40, np.full((40, 2), 3.0)])
def test_a_constant_target_is_predicted_with_a_warning(y):
    X = np.arange(40).reshape(-1, 1)
    with pytest.warns(fb.FrameboostWarning, match=r"is constant \(always 3\)"):
        assert np.array_equal(fb.FrameBoostRegressor(n_estimators=2).fit(X, y).predict(X), y)


NO_WORDS = [pl.DataFrame({"x": [1, 2]}), pd.DataFrame({"x": [1, 2]}), pl.Series([1, 2]), np.array([1, 2]), "", 0, []]


@cases("value", NO_WORDS)
@cases("parameter", ["objective", "n_jobs", "early_stopping", "eval_metric"])
@cases("kind", ESTIMATORS)
def test_parameters_of_a_wrong_type_are_refused_by_name(kind, parameter, value):
    estimator = kind(**{**SHAPE, parameter: value})
    with pytest.raises(fb.ParameterError, match=f"^{parameter} "):
        estimator.fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


def test_importances_are_shares_of_the_mean_gain(frame, X):
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, frame["amount"])
    gains = dict(regressor.model_.importance("gain").rows())
    total = sum(gains.values())
    np.testing.assert_allclose(regressor.feature_importances_, [gains[name] / total for name in COLUMNS], rtol=1e-12)
    stump = fb.FrameBoostRegressor(n_estimators=1, gamma=1e12).fit(X, frame["amount"])
    assert stump.feature_importances_.tolist() == [0.0] * len(COLUMNS)
    selected = SelectFromModel(fb.FrameBoostRegressor(**SHAPE), max_features=2, threshold=-np.inf).fit(*numbers())
    assert selected.get_support().sum() == 2


def test_names_must_match_as_scikit_learn_words_it(frame, X):
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, frame["amount"])
    for bad, message in (
        (X.rename({"date": "day"}), "Feature names unseen at fit time:\n- day\nFeature names seen at fit time, yet now "
                                    "missing:\n- date\n"),
        (X.drop("date"), "Feature names seen at fit time, yet now missing:\n- date\n"),
        (X.select(reversed(COLUMNS)), "Feature names must be in the same order as they were in fit.\n"),
    ):  # fmt: skip
        for table in (bad, as_pandas(bad)):
            with pytest.raises(ValueError, match="The feature names should match those that were passed") as error:
                regressor.predict(table)
            assert str(error.value).endswith(message)


def test_columns_of_the_same_name_are_refused():
    numbers = pd.DataFrame({"x": [1.0, 2.0, 3.0], "z": [1.0, 2.0, 3.0]})
    twice, y = pd.concat([numbers, numbers["x"]], axis=1), [0.0, 1.0, 2.0]
    regressor = fb.FrameBoostRegressor(n_estimators=1)
    message = "column 'x' occurs 2 times"
    for use in (
        lambda: regressor.fit(twice, y), lambda: regressor.fit(numbers, y).predict(twice),
        lambda: regressor.fit(numbers, y, eval_set=[(twice, y)]),
    ):  # fmt: skip
        with pytest.raises(fb.DataError, match=message):
            use()


def test_a_relation_has_no_order():
    with pytest.raises(TypeError, match="the rows of a DuckDB relation have no order"):
        fb.FrameBoostRegressor().fit(duckdb.sql("SELECT i FROM range(40) AS r(i)"), np.arange(40))


def test_a_star_is_refused():
    star = fb.join(pl.DataFrame({"k": [1, 2]}), pl.DataFrame({"k": [1, 2], "x": [0.5, 1.5]}), on="k")
    with pytest.raises(fb.DataError, match=r"X is a Star, .*; pass its collect\(\)"):
        fb.FrameBoostRegressor().fit(star, [0.0, 1.0])

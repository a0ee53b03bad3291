"""Calibration, thresholds, displays and routed metadata of scikit-learn, as a user calls them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import partial_dependence
from sklearn.model_selection import GridSearchCV, GroupKFold, TunedThresholdClassifierCV, cross_validate

import frameboost as fb
from tests.support.estimator_frames import SHAPE


@pytest.fixture(scope="module", name="X")
def features() -> pl.DataFrame:
    kinds = pl.Series(["a", "b", None] * 40)
    return pl.DataFrame({"x": [i * 37 % 100 / 10 for i in range(120)], "z": range(120), "kind": kinds})


@pytest.fixture(scope="module", name="y")
def labels(X) -> np.ndarray:
    return np.where(X["x"] + 3 * (X["kind"] == "a").fill_null(False).cast(int) > 6, "late", "on time")


@pytest.fixture(scope="module")
def fitted(X, y) -> fb.FrameBoostClassifier:
    return fb.FrameBoostClassifier(**SHAPE).fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("as_table", [lambda X: X, lambda X: X.to_pandas()], ids=["polars", "pandas"])
def test_calibration_and_thresholds_take_strings_and_nulls(X, y, fitted, as_table):
    table = as_table(X)
    for made in (
        CalibratedClassifierCV(FrozenEstimator(fitted), method="isotonic"),
        TunedThresholdClassifierCV(fb.FrameBoostClassifier(**SHAPE), cv=2),
    ):
        made.fit(table, y)
        assert made.predict_proba(table).shape == (120, 2)
        assert made.score(table, y) > 0.8


def test_partial_dependence_of_scikit_learn_is_ours(X, y):
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(X, y == "late")
    theirs = partial_dependence(regressor, X.to_pandas(), ["x"], custom_values={"x": np.array([1.0, 5.0, 9.0])})
    ours = regressor.model_.partial_dependence(X, "x", grid=[1.0, 5.0, 9.0])
    np.testing.assert_allclose(theirs["average"][0], ours["prediction"])


def test_metadata_is_routed_where_it_is_requested(X, y):
    weight, qid = np.arange(120) % 3 + 1.0, np.arange(120) // 20
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = fb.FrameBoostClassifier(**SHAPE).set_fit_request(sample_weight=True)
        requesting.set_score_request(sample_weight=False)
        search = GridSearchCV(requesting, {"max_depth": [2]}, cv=2, error_score="raise").fit(X, y, sample_weight=weight)
        whole = fb.FrameBoostClassifier(**SHAPE).set_params(max_depth=2).fit(X, y, weight)
        assert search.best_estimator_.model_ == whole.model_
        ranker = fb.FrameBoostRanker(n_estimators=2).set_fit_request(qid=True).set_score_request(qid=True)
        scores = cross_validate(
            ranker, X, np.arange(120) % 3, cv=GroupKFold(2), params={"qid": qid, "groups": qid}, error_score="raise"
        )
        assert (scores["test_score"] > 0).all()


def test_sparse_columns_of_pandas_are_read():
    dense = pd.DataFrame({"a": [0.0, 0.0, 1.0, 2.0] * 10, "b": [0, 1, 0, 0] * 10})
    y = dense["a"] + dense["b"]
    sparse = dense.astype({"a": pd.SparseDtype("float64", 0.0), "b": pd.SparseDtype("int64", 0)})
    expected = fb.FrameBoostRegressor(**SHAPE).fit(dense, y)
    assert fb.FrameBoostRegressor(**SHAPE).fit(sparse, y).model_ == expected.model_
    np.testing.assert_array_equal(expected.predict(sparse), expected.predict(dense))

"""Base margins of rows: in fit, of rows to validate on, and in everything that predicts."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.model_selection import cross_val_score

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import SHAPE, numbers

xgboost = pytest.importorskip("xgboost")

X, Y = numbers()
X = np.round(X * 3) / 3  # few values, so that the cuts are XGBoost's
MARGIN = np.linspace(-80, 80, 200)
KINDS = [np.asarray, pl.DataFrame, pd.DataFrame, sparse.csr_matrix]


@pytest.fixture(scope="module")
def regressor() -> fb.FrameBoostRegressor:
    return fb.FrameBoostRegressor(base_score=0.0, **SHAPE).fit(X, Y, base_margin=MARGIN)


def test_predictions_are_xgboosts(regressor):
    theirs = xgboost.XGBRegressor(**SHAPE).fit(X, Y, base_margin=MARGIN)
    ours = regressor.predict(X, base_margin=MARGIN)
    np.testing.assert_allclose(ours, theirs.predict(X, base_margin=MARGIN), rtol=1e-4, atol=1e-3)
    other = np.arange(200.0)
    np.testing.assert_allclose(regressor.predict(X, init_score=other), ours - MARGIN + other)
    np.testing.assert_allclose(regressor.predict(X, base_margin=2), ours - MARGIN + 2)
    # Without base margins in fit they are in place of the base score, as in XGBoost.
    plain, theirs = fb.FrameBoostRegressor(**SHAPE).fit(X, Y), xgboost.XGBRegressor(**SHAPE).fit(X, Y)
    expected = theirs.predict(X, base_margin=MARGIN)
    np.testing.assert_allclose(plain.predict(X, base_margin=MARGIN), expected, rtol=1e-4, atol=1e-3)


@cases("as_table", KINDS)
def test_all_that_predicts_takes_them(as_table):
    table = as_table(X)
    regressor = fb.FrameBoostRegressor(base_score=0.0, **SHAPE).fit(table, Y, init_score=MARGIN)
    expected = regressor.predict(table, base_margin=MARGIN)
    trees = regressor.predict(table, base_margin=0)
    np.testing.assert_allclose(expected, trees + MARGIN)
    assert regressor.apply(table).shape == (200, SHAPE["n_estimators"])  # which no margin moves
    *_, last = regressor.staged_predict(table, MARGIN)
    np.testing.assert_array_equal(last, expected)
    np.testing.assert_allclose(regressor.explain(table, base_margin=MARGIN).sum_horizontal(), expected)
    residual = ((Y - expected) ** 2).sum() / ((Y - Y.mean()) ** 2).sum()
    assert regressor.score(table, Y, base_margin=MARGIN) == pytest.approx(1 - residual)
    regressor.conform(table, Y, base_margin=MARGIN, coverage=0.5)
    ends = regressor.predict_interval(table, base_margin=MARGIN)
    np.testing.assert_allclose(ends.mean(axis=1), expected)
    assert 0.5 <= np.mean((ends[:, 0] <= Y) & (ends[:, 1] >= Y)) < 0.52


def test_classes_have_margins_each():
    y, margins = np.arange(200) % 3, np.column_stack([MARGIN / 99, np.zeros(200), -MARGIN / 50])
    classifier = fb.FrameBoostClassifier(**SHAPE).fit(X, y, base_margin=margins)
    shares = classifier.predict_proba(X, base_margin=margins)
    trees = classifier.predict(X, base_margin=0, output_margin=True)
    powers = np.exp(trees + margins)
    np.testing.assert_allclose(shares, powers / powers.sum(axis=1, keepdims=True))
    # As LightGBM has them, those of one class after those of another.
    flat = fb.FrameBoostClassifier(**SHAPE).fit(X, y, init_score=margins.T.ravel())
    assert flat.model_ == classifier.model_
    np.testing.assert_array_equal(flat.predict_proba(X, init_score=margins.T.ravel()), shares)
    np.testing.assert_array_equal(classifier.predict(X, base_margin=margins), shares.argmax(axis=1))
    np.testing.assert_allclose(classifier.decision_function(X, base_margin=margins), trees + margins)
    two = fb.FrameBoostClassifier(base_score=0.5, **SHAPE).fit(X, y > 0, base_margin=MARGIN / 50)
    theirs = xgboost.XGBClassifier(**SHAPE).fit(X, y > 0, base_margin=MARGIN / 50)
    ours, expected = (each.predict_proba(X, base_margin=MARGIN / 50) for each in (two, theirs))
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_rows_to_validate_on_have_their_own():
    options = SHAPE | {"n_estimators": 50, "early_stopping_rounds": 3, "base_score": 0.0}
    rows, rest = slice(0, 120), slice(120, None)
    regressor = fb.FrameBoostRegressor(**options)
    regressor.fit(X[rows], Y[rows], base_margin=MARGIN[rows], eval_set=[(X[rest], Y[rest])],
                  base_margin_eval_set=[MARGIN[rest]])  # fmt: skip
    predicted = regressor.predict(X[rest], base_margin=MARGIN[rest])
    assert regressor.best_score_ == pytest.approx(np.sqrt(np.mean((predicted - Y[rest]) ** 2)))
    same = fb.FrameBoostRegressor(**options)
    same.fit(X[rows], Y[rows], init_score=MARGIN[rows], eval_set=[(X[rest], Y[rest])], eval_init_score=[MARGIN[rest]])
    assert same.model_ == regressor.model_


def test_routed_metadata_reaches_fit_predict_and_score():
    with sklearn.config_context(enable_metadata_routing=True):
        kind = fb.FrameBoostRegressor(**SHAPE)
        regressor = kind.set_fit_request(base_margin=True).set_score_request(base_margin=True)
        regressor = regressor.set_predict_request(base_margin=True)
        scores = cross_val_score(regressor, X, Y, cv=2, params={"base_margin": MARGIN}, error_score="raise")
    halves = slice(0, 100), slice(100, None)
    for (train, test), score in zip((halves[::-1], halves), scores, strict=True):
        fold = fb.FrameBoostRegressor(**SHAPE).fit(X[train], Y[train], base_margin=MARGIN[train])
        assert fold.score(X[test], Y[test], base_margin=MARGIN[test]) == score


@cases(("fitted_with", "arguments", "message"), [
    (MARGIN, {}, "^the estimator was fitted with base_margin, which is added to its trees; pass base_margin="),
    (MARGIN, {"base_margin": MARGIN[:9]}, "^base_margin must have a number for each of 200 rows"),
    (MARGIN, {"base_margin": np.ones((200, 2))}, "^base_margin has 2 columns, and the model has 1 margin$"),
    (MARGIN, {"base_margin": MARGIN, "init_score": MARGIN}, "^base_margin and init_score are the same argument"),
    (None, {"base_margin": np.full(200, np.nan)}, "^Input base_margin contains NaN"),
    (None, {"base_margin": ["much"] * 200}, "^base_margin must hold finite numbers, not "),
    (None, {"base_margin": 10**400}, "^base_margin must hold finite numbers, not "),
    (None, {"output_margin": pd.Series([1, 2])}, "^output_margin must be True or False, not "),
    (None, {"raw_score": "yes"}, "^raw_score must be True or False, not 'yes'$"),
])  # fmt: skip
def test_missing_and_wrong_margins_are_refused(fitted_with, arguments, message):
    regressor = fb.FrameBoostRegressor(n_estimators=1).fit(X, Y, base_margin=fitted_with)
    with pytest.raises(ValueError, match=message):
        regressor.predict(X, **arguments)


@cases(("arguments", "message"), [
    ({"base_margin": MARGIN, "init_score": MARGIN}, "^base_margin and init_score are the same argument, base_margin; "),
    ({"base_margin": MARGIN, "eval_set": [(X, Y)]}, r"^base_margin_eval_set has no base margin for eval_set\[0\]"),
    ({"base_margin_eval_set": [MARGIN], "eval_set": [(X, Y)]}, r"_eval_set has a base margin for eval_set\[0\]"),
    ({"base_margin_eval_set": [MARGIN]}, "^base_margin_eval_set is for the rows of eval_set, which is missing$"),
    ({"base_margin": np.full(200, np.inf)}, "^Input base_margin contains infinity"),
])  # fmt: skip
def test_arguments_of_fit_that_contradict_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRegressor(n_estimators=1).fit(X, Y, **arguments)

"""Sparse matrices: an entry that is not stored is 0, so all is as of the dense array."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

import frameboost as fb
import frameboost.binning.bins as bins
import frameboost.data.sparse_matrix as sparse_matrix
import frameboost.sklearn.data as tables
from tests.support.cases import cases
from tests.support.estimator_frames import SHAPE
from tests.support.examples import examples

KINDS = [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.csr_array, sp.csc_array, sp.coo_array, sp.lil_array]


@pytest.fixture(scope="module")
def dense() -> np.ndarray:
    rng = np.random.default_rng(0)
    dense = rng.integers(1, 5, (200, 6)) * (rng.random((200, 6)) < 0.2) * 1.0
    dense[::17, 0] = np.nan
    dense[:, 5] = 0.0
    return dense


@pytest.fixture(scope="module", name="y")
def target(dense) -> np.ndarray:
    return np.nan_to_num(dense[:, 0], nan=9.0) + dense[:, 1] * dense[:, 2]


@pytest.mark.slow
@cases("kind", KINDS)
def test_a_sparse_matrix_is_the_dense_array(dense, y, kind):
    expected = fb.FrameBoostRegressor(**SHAPE).fit(dense, y)
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(kind(dense), y, eval_set=[(kind(dense), y)])
    assert regressor.model_ == expected.model_
    assert regressor.n_features_in_ == 6
    np.testing.assert_array_equal(regressor.predict(kind(dense)), expected.predict(dense))
    np.testing.assert_array_equal(regressor.apply(kind(dense)), expected.apply(dense))
    np.testing.assert_array_equal(list(regressor.staged_predict(kind(dense))), list(expected.staged_predict(dense)))
    assert regressor.explain(kind(dense)).equals(expected.explain(dense))


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(6), deadline=None)
def test_any_sparse_matrix_is_the_dense_array(seed):
    rng = np.random.default_rng(seed)
    n, density = int(rng.integers(20, 300)), rng.random(7) * rng.choice([0.3, 1.0])
    entries = [-2.0, -0.0, 0.0, 0.5, 1.0, 3.0, np.nan, np.inf] if seed % 2 else rng.normal(size=60)
    dtype = rng.choice(["f4", "f8"])
    X = np.where(rng.random((n, 7)) < density, rng.choice(entries, (n, 7)), 0.0).astype(dtype)
    X[:, 6] = np.nan  # no feature
    stored = np.argwhere((X != 0) | (rng.random((n, 7)) < 0.1))  # some zeros too
    stored = rng.permutation(stored)
    matrix = sp.coo_matrix((X[tuple(stored.T)], tuple(stored.T)), X.shape)
    y, weight = rng.normal(size=n), rng.integers(0, 3, n).astype(float)
    shape = {"n_estimators": 2, "max_bin": int(rng.choice([3, 20, 256])), "random_state": seed}
    more = [{}, {"subsample": 0.5}, {"colsample_bynode": 0.5}, {"engine": "polars"}, {"tree_method": "exact"}]
    shape |= {"min_child_samples": int(rng.choice([0, 5]))}
    shape |= more[seed % 5]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bins, "SAMPLE_LIMIT", int(rng.choice([150, 1 << 22])))
        found, expected = (
            fb.FrameBoostRegressor(**shape).fit(given, y, weight, eval_set=[(X, y), (matrix, y)])
            for given in (matrix, X)
        )
    assert found.model_ == expected.model_
    assert found.evals_result_ == expected.evals_result_
    assert found.evals_result_["validation_0"] == found.evals_result_["validation_1"]


def test_zero_is_no_missing_value():
    # 0 is a value below 1, and NaN goes its own way: a stump tells all three apart.
    dense = np.repeat([[0.0], [1.0], [np.nan]], 20, axis=0)
    y = np.repeat([0.0, 10.0, 30.0], 20)
    regressor = fb.FrameBoostRegressor(n_estimators=1, learning_rate=1, reg_lambda=0).fit(sp.csr_array(dense), y)
    np.testing.assert_allclose(regressor.predict(sp.csr_array(dense)), y, atol=1e-9)


@cases("dtype", [np.float32, np.int64, np.uint8, np.bool_])
def test_numbers_of_any_type(dense, y, dtype):
    X = np.nan_to_num(dense).astype(dtype)
    expected = fb.FrameBoostClassifier(**SHAPE).fit(X, y > 2)
    classifier = fb.FrameBoostClassifier(**SHAPE).fit(sp.csc_matrix(X), y > 2)
    assert classifier.model_ == expected.model_
    np.testing.assert_array_equal(classifier.predict_proba(sp.csr_array(X)), expected.predict_proba(X))


def test_rows_are_scored_a_few_at_a_time(dense, y, monkeypatch):
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(dense, y)
    monkeypatch.setattr(tables, "_DENSE_AT_ONCE", 7 * 6 * 8)
    assert [len(part) for part in tables.read_parts(regressor, sp.csr_array(dense))] == [7] * 28 + [4]
    np.testing.assert_array_equal(regressor.predict(sp.csr_array(dense)), regressor.predict(dense))
    np.testing.assert_array_equal(regressor.apply(sp.coo_array(dense)), regressor.apply(dense))


@pytest.mark.slow
def test_what_is_made_dense_and_does_not_fit_into_memory_is_refused(monkeypatch):
    X = sp.csr_array((2_000_000, 20_000))
    message = r"^X is a sparse matrix of 2,000,000 rows and 20,000 columns, which would take 400.0 GB of memory .*"
    with pytest.raises(fb.DataError, match=message + "are free; choose fewer columns"):
        fb.FrameBoostRegressor(engine="polars").fit(X, np.arange(2_000_000))
    monkeypatch.setattr(sparse_matrix, "available_memory", lambda: None)  # where the system does not say
    small = sp.csr_array(np.arange(40.0).reshape(20, 2))
    assert fb.FrameBoostRegressor(n_estimators=1, engine="polars").fit(small, np.arange(20)).n_features_in_ == 2


@cases("vectorizer", [CountVectorizer(), TfidfVectorizer()])
def test_behind_a_vectorizer(vectorizer):
    texts = ["the train was late", "the train was on time", "late again", "on time"] * 20
    y = ["late" if "late" in text else "on time" for text in texts]
    pipeline = make_pipeline(vectorizer, fb.FrameBoostClassifier(n_estimators=2)).fit(texts, y)
    assert pipeline.predict(["so late", "in time"]).tolist() == ["late", "on time"]

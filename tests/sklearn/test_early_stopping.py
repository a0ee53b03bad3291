"""Early stopping within ``fit(X, y)``: which rows are held out, what goes with them, when it is on, and in searches."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_regression
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import frameboost as fb
from frameboost.sklearn import estimator as module
from tests.support.cases import cases
from tests.support.estimator_frames import ESTIMATORS

N = 300
X, Y = make_regression(N, 3, noise=30.0, random_state=0)
X[:, 0] = np.arange(N)  # by which a row is told
FAST = {"n_estimators": 200, "learning_rate": 0.5, "max_depth": 3, "early_stopping": True, "n_iter_no_change": 5}


@pytest.fixture
def parts(monkeypatch):
    """Return the frames that `fit` is given: those to train on and those to validate on."""
    seen = []

    def fit(data, *, valid, **options):
        seen.append((data, (valid or {}).get("validation_0")))
        return fb.fit(data, valid=valid, **options)

    monkeypatch.setattr(module, "fit", fit)
    return seen


@cases("share, n_held_out", [(0.1, 30), (0.25, 75), (17, 17), (1e-9, 1)])
def test_so_many_rows_are_held_out_and_all_that_is_theirs_goes_with_them(parts, share, n_held_out):
    weight, margin = np.arange(N) + 1.0, np.arange(N) / 7
    options = FAST | {"n_estimators": 2, "validation_fraction": share}
    fb.FrameBoostRegressor(**options).fit(X, Y, sample_weight=weight, base_margin=margin)
    training, held_out = parts.pop()
    assert held_out.height == n_held_out
    rows = pl.concat([training, held_out]).sort("x0")
    np.testing.assert_array_equal(rows.to_numpy(), np.column_stack([X, Y, weight, margin]))
    for random_state, is_same in ((0, True), (1, False)):
        again = fb.FrameBoostRegressor(**options, random_state=random_state)
        again.fit(X, Y, sample_weight=weight, base_margin=margin)
        assert parts.pop()[1].equals(held_out) == is_same or n_held_out == 1


@cases("labels", [["a", "b", "c"], [7, -1, 3], [False, True, False]])
def test_each_class_has_its_share(parts, labels):
    y = np.array(labels)[np.searchsorted([200, 280], np.arange(N), side="right")]
    fb.FrameBoostClassifier(**FAST | {"n_estimators": 1}).fit(X, y)
    training, held_out = parts.pop()
    sizes = {True: [80, 220]}.get(labels[1] is True, [200, 80, 20])
    assert sorted(held_out["y"].value_counts()["count"]) == sorted(size // 10 for size in sizes)
    assert training.height + held_out.height == N
    # A class of one row stays to be trained on.
    y = np.array([labels[1]] + [labels[0]] * (N - 1))
    classifier = fb.FrameBoostClassifier(**FAST | {"n_estimators": 1, "validation_fraction": 0.9}).fit(X, y)
    assert classifier.classes_.tolist() == sorted(labels[:2])
    assert parts.pop()[0]["y"].n_unique() == 2


def test_several_labels_are_held_out_by_their_combination(parts):
    y = np.column_stack([np.arange(N) % 2, np.arange(N) % 3 == 0])
    fb.FrameBoostClassifier(**FAST | {"n_estimators": 1}).fit(X, y)
    assert set(parts.pop()[1].select("y0", "y1").to_series(0).to_list()) == {0.0, 1.0}


def test_queries_are_held_out_as_a_whole(parts):
    qid, y = np.arange(N) % 20, np.arange(N) % 3
    ranker = fb.FrameBoostRanker(**FAST).fit(X, y, qid=qid)
    training, held_out = parts.pop()
    assert held_out["qid"].n_unique() == 2
    assert not set(training["qid"]) & set(held_out["qid"])
    assert held_out.height == 30
    assert ranker.n_iter_ < 200


def test_the_model_is_that_of_the_same_rows_in_eval_set(parts):
    for kind, y in ((fb.FrameBoostRegressor, Y), (fb.FrameBoostClassifier, np.where(Y > 0, "late", "early"))):
        stopped = kind(**FAST).fit(X, y)
        assert stopped.n_iter_ == stopped.best_iteration_ < 200
        rows, held_out = (part["x0"].to_numpy().astype(int) for part in parts.pop())
        given = kind(**FAST | {"early_stopping": None}).fit(X[rows], y[rows], eval_set=[(X[held_out], y[held_out])])
        assert given.model_ == stopped.model_
        assert given.evals_result_ == stopped.evals_result_


@cases("as_table", [pl.DataFrame, pd.DataFrame, sparse.csr_array, lambda X: pl.DataFrame(X).lazy(), np.asfortranarray])
def test_tables_of_every_kind_stop_alike(as_table):
    values = np.round(X)
    expected = fb.FrameBoostRegressor(**FAST).fit(values, Y)
    stopped = fb.FrameBoostRegressor(**FAST).fit(as_table(values), Y)
    assert stopped.n_iter_ == expected.n_iter_ < 200
    np.testing.assert_array_equal(stopped.predict(as_table(values)), expected.predict(values))


def test_when_it_is_on():
    def rounds(n=N, eval_set=False, **options):
        data = np.arange(n)[:, None] % 50, np.arange(n) % 7 * 1.0
        regressor = fb.FrameBoostRegressor(n_estimators=40, learning_rate=1.0, max_depth=2, **options)
        return regressor.fit(*data, eval_set=[data] if eval_set else None).n_iter_

    assert rounds() == rounds(early_stopping=False) == rounds(early_stopping="auto") == 40
    assert rounds(early_stopping=False, early_stopping_rounds=1, eval_set=True, min_delta=9.0) == 40
    assert rounds(early_stopping=True, min_delta=9.0) == 1  # where no round is better than the first
    assert rounds(early_stopping="auto", eval_set=True, min_delta=9.0) == 1
    # scikit-learn's "auto": from more than 10,000 rows.
    for n in (10_000, 10_001):
        theirs = HistGradientBoostingClassifier(max_iter=1).fit(np.zeros((n, 1)), np.arange(n) % 2).do_early_stopping_
        assert (rounds(n, early_stopping="auto", min_delta=9.0) == 1) == theirs == (n > 10_000)


def test_the_last_metric_decides_and_the_training_rows_may_be_watched():
    options = FAST | {"eval_metric": ["mae", "rmse"], "validation_fraction": None, "tol": 1.0}
    regressor = fb.FrameBoostRegressor(**options).fit(X, Y)
    metrics = regressor.evals_result_["validation_0"]
    assert regressor.best_score_ == metrics["rmse"][regressor.best_iteration_ - 1]
    np.testing.assert_allclose(regressor.best_score_, np.sqrt(np.mean((regressor.predict(X) - Y) ** 2)))
    best = metrics["rmse"][0]
    for number, value in enumerate(metrics["rmse"][1:], start=2):
        if value < best - 1.0:
            best, expected = value, number
    assert regressor.best_iteration_ == expected
    assert len(metrics["rmse"]) == expected + 5


@pytest.mark.slow
@cases("kind", ESTIMATORS[:2])
def test_searches_and_pipelines_stop(kind):
    y = Y if kind is fb.FrameBoostRegressor else np.where(Y > 0, "late", "early")
    found = cross_validate(kind(**FAST), X, y, cv=3, return_estimator=True, error_score="raise")
    assert all(fold.n_iter_ < 200 for fold in found["estimator"])
    pipeline = make_pipeline(StandardScaler(), kind(**FAST))
    grid = {f"{kind.__name__.lower()}__max_depth": [2, 3]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_[-1].n_iter_ < 200
    assert clone(search.best_estimator_[-1]).get_params() == search.best_estimator_[-1].get_params()


def test_a_pipeline_transforms_rows_to_validate_on():
    rows, rest = slice(0, 200), slice(200, None)
    options = FAST | {"n_estimators": 100}
    for kind in (fb.FrameBoostRegressor, HistGradientBoostingRegressor):
        theirs = {"max_iter": 100, "learning_rate": 0.5, "early_stopping": True}
        made = kind(**(options if kind is fb.FrameBoostRegressor else theirs))
        with sklearn.config_context(enable_metadata_routing=True):
            made.set_fit_request(X_val=True, y_val=True)
            pipeline = Pipeline([("scaled", StandardScaler()), ("boosted", made)], transform_input=["X_val"])
            pipeline.fit(X[rows], Y[rows], X_val=X[rest], y_val=Y[rest])
        scaler = StandardScaler().fit(X[rows])
        alone = clone(made).fit(scaler.transform(X[rows]), Y[rows], X_val=scaler.transform(X[rest]), y_val=Y[rest])
        assert pipeline[-1].n_iter_ == alone.n_iter_ < 100
        np.testing.assert_array_equal(pipeline.predict(X), alone.predict(scaler.transform(X)))


@cases(("options", "message"), [
    ({"early_stopping": "yes"}, "^early_stopping must be True, False, 'auto' or None, not 'yes'$"),
    ({"validation_fraction": 1.5}, "^validation_fraction must be a share between 0 and 1, a number of rows or None"),
    ({"validation_fraction": 0}, "^validation_fraction must be a share"),
    ({"validation_fraction": True}, "^validation_fraction must be a share"),
    ({"validation_fraction": "10%"}, "^validation_fraction must be a share"),
    ({"validation_fraction": 300}, "^validation_fraction=300 holds out 300 of 300 rows, which leaves none to train on"),
    ({"early_stopping": None}, "^early_stopping_rounds needs an evaluation set; .*, or the constructor early_stop"),
])  # fmt: skip
def test_what_can_not_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRegressor(**FAST | options).fit(X, Y)

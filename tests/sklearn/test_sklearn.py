"""The estimators keep scikit-learn's contract, know its classes, and get on with its pipelines and searches."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import make_classification
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import frameboost as fb
from frameboost.parameters.parameters import Parameters
from frameboost.sklearn.estimator import FROM_THE_DATA
from tests.support.cases import cases, some_pairs
from tests.support.estimator_frames import ESTIMATORS, SHAPE, numbers

ROOT = Path(__file__).parents[2]


# Without queries all rows are of one, whose weight is one: scikit-learn's checks give each row another.
OF_QUERIES = ("not_overwritten", "equivalence_on_dense_data", "equivalence_on_sparse_data")
WEIGHTS = {f"check_sample_weight{'s' if name == 'not_overwritten' else ''}_{name}": "of queries" for name in OF_QUERIES}
EXPECTED = {kind: WEIGHTS if kind is fb.FrameBoostRanker else {} for kind in ESTIMATORS}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learns_own_checks(kind):
    # Of few trees, as the checks fit hundreds of models.
    checks = check_estimator(kind(n_estimators=3), on_skip=None, on_fail=None, expected_failed_checks=EXPECTED[kind])
    assert len(checks) > 40
    assert [(check["check_name"], check["exception"]) for check in checks if check["status"] == "failed"] == []


@cases("kind", ESTIMATORS)
def test_the_parameters_are_those_of_fit(kind):
    signature = inspect.signature(kind.__init__).parameters
    defaults = {name: p.default for name, p in signature.items() if name != "self"}
    assert defaults["engine"] == inspect.signature(fb.fit).parameters["engine"].default == "auto"
    assert kind().get_params() == defaults
    others = {"objective": None, "engine": "auto", "eval_metric": None, "random_state": None}
    others |= {"early_stopping": None, "validation_fraction": 0.1, "warm_start": False, "importance_type": None}
    others |= {"verbose": None, "callbacks": None}
    others |= {"class_weight": None} if kind is fb.FrameBoostClassifier else {}
    declared = {item.name: item.default for item in fields(Parameters) if item.name not in FROM_THE_DATA}
    assert defaults == others | declared


@cases("kind", ESTIMATORS)
def test_the_parameters_are_documented(kind):
    text = inspect.getdoc(kind)
    for name in kind().get_params():
        assert f"\n{name} : " in text
    for name in FROM_THE_DATA - set(kind().get_params()):
        assert f"\n{name} : " not in text
    assert "model_ : Model\n" in text
    assert "<" not in text


@pytest.mark.slow
def test_without_scikit_learn_the_message_says_what_to_install():
    code = """
import sys, types
import frameboost as fb
old = types.ModuleType("sklearn")
old.__version__ = "1.8.2"
for sys.modules["sklearn"] in (None, old):
    for take in (lambda: fb.FrameBoostRegressor, lambda: __import__("frameboost.sklearn")):
        try:
            take()
        except ImportError as error:
            print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    message = "frameboost's estimators need scikit-learn 1.9 or newer: pip install 'frameboost[sklearn]'\n"
    assert done.stdout == message * 4


def test_what_kind_of_estimators_they_are():
    assert is_regressor(fb.FrameBoostRegressor())
    assert is_classifier(fb.FrameBoostClassifier())
    ranker = fb.FrameBoostRanker()
    assert not is_regressor(ranker)
    assert not is_classifier(ranker)
    assert ranker.__sklearn_tags__().estimator_type == "ranker"


def test_parameters_are_checked_when_fitting():
    X, y = numbers()
    with pytest.raises(fb.ParameterError, match=r"n_estimators must be an integer of at least 1 and .*, not 0"):
        fb.FrameBoostRegressor(n_estimators=0).fit(X, y)
    with pytest.raises(fb.ParameterError, match=r"objective must be an fb\.Objective or one of"):
        fb.FrameBoostRegressor(objective="reg:no").fit(X, y)
    with pytest.raises(fb.ParameterError, match="is not for a classifier"):
        fb.FrameBoostClassifier(objective="reg:squarederror").fit(X, y > 0)
    with pytest.raises(fb.ParameterError, match="is for two classes; y has 3 classes"):
        fb.FrameBoostClassifier(objective="binary:hinge").fit(X, np.arange(len(y)) % 3)
    # XGBoost's default, which is of several classes there too.
    three = fb.FrameBoostClassifier(n_estimators=1, objective="binary:logistic").fit(X, np.arange(len(y)) % 3)
    assert three.model_.objective == "multi:softprob"


@cases("labels, kind", some_pairs([["no", "yes"], [True, False], [3, -1], [1.0, 2.0]],
                                  [list, np.array, pl.Series, pd.Series, pd.Categorical]))  # fmt: skip
def test_labels_of_any_kind(labels, kind):
    X = pl.DataFrame({"x": range(40)})
    y = kind([labels[i // 10 % 2] for i in range(40)])
    classifier = fb.FrameBoostClassifier(n_estimators=2, min_child_weight=0).fit(X, y)
    assert classifier.classes_.tolist() == sorted(labels)
    assert classifier.predict(X).tolist() == list(y)
    assert classifier.score(X, y) == 1.0
    probabilities = classifier.predict_proba(X)
    assert (classifier.classes_[probabilities.argmax(axis=1)] == np.asarray(y)).all()


@cases("y, message", [
    (pl.Series(["a", "b", None, "a"] * 10), "Input y contains missing values"),
    (pd.array(["a", "b", pd.NA, "a"] * 10, dtype="string"), "Input y contains missing values"),
    ([1.0, np.nan] * 20, "Input y contains NaN"), ([1.0, 0.5] * 20, "Unknown label type: continuous"),
])  # fmt: skip
def test_bad_labels(y, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostClassifier().fit(pl.DataFrame({"x": range(40)}), y)


@cases("ids", [[7, 3, 5], ["q1", "q3", "q2"]])
def test_the_ranker_orders_each_query(ids):
    rng = np.random.default_rng(0)
    X = pl.DataFrame(rng.normal(size=(300, 3)), schema=["a", "b", "c"])
    y = np.clip(np.round(X["a"].to_numpy() + 1), 0, 3)
    qid = np.array(ids)[rng.integers(0, 3, 300)]
    ranker = fb.FrameBoostRanker(**SHAPE).fit(X, y, qid=qid)
    data = X.with_columns(y=y, qid=np.unique(qid, return_inverse=True)[1])
    assert ranker.model_ == fb.fit(data, "y", objective="rank:ndcg", group="qid", **SHAPE)
    np.testing.assert_array_equal(ranker.predict(X), ranker.model_.predict(X).to_numpy())
    assert np.corrcoef(ranker.predict(X), y)[0, 1] > 0.8
    watched = fb.fit(data, "y", objective="rank:ndcg", group="qid", eval_metric="ndcg", **SHAPE)
    assert ranker.score(X, y, qid=qid) == pytest.approx(watched.history["train_ndcg"][-1])
    assert 0.8 < ranker.score(X, y, qid=qid) < 1
    # Without queries all rows are of one.
    together = fb.FrameBoostRanker(**SHAPE).fit(X, y)
    assert together.model_ == fb.FrameBoostRanker(**SHAPE).fit(X, y, qid=["all"] * len(y)).model_ != ranker.model_
    assert together.score(X, y) == together.score(X, y, qid=np.ones(len(y)))


@cases("output", ["polars", "pandas", "default"])
def test_behind_a_transformer_with_any_output(output):
    X, y = numbers()
    pipeline = make_pipeline(StandardScaler(), fb.FrameBoostRegressor(**SHAPE)).set_output(transform=output)
    names = [f"n{i}" for i in range(5)]
    pipeline.fit(pl.DataFrame(X, schema=names), y)
    assert pipeline[-1].model_.features == (names if output != "default" else ["x0", "x1", "x2", "x3", "x4"])
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(pipeline.predict(pl.DataFrame(X, schema=names)),
                                  fb.FrameBoostRegressor(**SHAPE).fit(scaled, y).predict(scaled))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("table", [pl.DataFrame, pd.DataFrame])
def test_grid_search_and_cross_validation(table):
    numbers, y = make_classification(200, 5, random_state=0)
    X, y = table(numbers, **{"columns": list("abcde")} if table is pd.DataFrame else {}), np.array(["no", "yes"])[y]
    search = GridSearchCV(fb.FrameBoostClassifier(n_estimators=2), {"max_depth": [1, 3], "learning_rate": [0.5]},
                          cv=3, scoring="roc_auc", error_score="raise").fit(X, y)  # fmt: skip
    assert search.best_params_.keys() == {"max_depth", "learning_rate"}
    assert search.best_score_ > 0.8
    best = fb.FrameBoostClassifier(n_estimators=2, **search.best_params_)
    assert cross_val_score(best, X, y, cv=3, scoring="roc_auc", error_score="raise").mean() == search.best_score_
    assert cross_val_predict(best, X, y, cv=3, method="predict_proba").shape == (200, 2)
    if table is pl.DataFrame:
        return  # which scikit-learn's permutation_importance takes for an array, and warns of it
    importance = permutation_importance(search.best_estimator_, X, y, n_repeats=2, random_state=0)
    assert importance.importances_mean.shape == (5,)


def test_classes_to_validate_on_are_those_of_training(frame, X):
    labels = frame["late"].replace_strict({True: "late", False: "on time"})
    classifier = fb.FrameBoostClassifier(n_estimators=5)
    classifier.fit(X, labels, eval_set=[(X, labels), (X[:100], labels[:100])])
    assert classifier.model_.history.columns == ["round", "validation_0_logloss", "validation_1_logloss"]
    alone = fb.FrameBoostClassifier(n_estimators=5, eval_metric="logloss").fit(X, labels)
    history = classifier.model_.history["validation_0_logloss"].to_list()
    assert alone.model_.history["train_logloss"].to_list() == history
    with pytest.raises(ValueError, match=r"y of eval_set\[0\] has the label 'early', which is not among the classes"):
        classifier.fit(X, labels, eval_set=[(X, ["early"] * len(X))])
    with pytest.raises(fb.ParameterError, match=r"eval_set must be a list of pairs \(X, y\)"):
        classifier.fit(X, labels, eval_set=X)
    with pytest.raises(fb.ParameterError, match=r"^early_stopping_rounds needs an evaluation set; pass fit eval_"):
        fb.FrameBoostClassifier(early_stopping_rounds=3).fit(X, labels)

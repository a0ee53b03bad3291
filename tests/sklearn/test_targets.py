"""y of two dimensions, and of one class."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.multioutput import MultiOutputClassifier

import frameboost as fb
from tests.support.cases import cases, some_pairs
from tests.support.estimator_frames import ESTIMATORS, SHAPE, numbers


@cases(
    ("kind", "as_column"),
    some_pairs(ESTIMATORS, [lambda y: y.reshape(-1, 1), pl.DataFrame, pd.DataFrame, lambda y: [[v] for v in y]]),
)
def test_a_column_is_raveled_with_scikit_learns_warning(kind, as_column):
    X, y = numbers()[0], np.arange(200) % 3
    expected = kind(**SHAPE).fit(X, y)
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed when a 1d array was expected"):
        found = kind(**SHAPE).fit(X, as_column(y))
    assert found.model_ == expected.model_
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


@cases("as_table", [np.asarray, pl.DataFrame, pd.DataFrame])
def test_a_regressor_predicts_several_targets(as_table):
    X, first = numbers()
    y = np.column_stack([first, -2 * first])
    regressor = fb.FrameBoostRegressor(early_stopping_rounds=2, **SHAPE)
    regressor.fit(X, as_table(y), eval_set=[(X, as_table(y))])
    data = pl.DataFrame(X, schema=regressor.model_.features).with_columns(a=y[:, 0], b=y[:, 1])
    expected = fb.fit(data, ["a", "b"], early_stopping_rounds=2, valid=data, **SHAPE)
    np.testing.assert_array_equal(regressor.predict(X), expected.predict(data).to_numpy())
    assert regressor.predict(X).shape == (200, 2)
    # Of squared error each target's trees are those of its own fit.
    alone = fb.FrameBoostRegressor(**SHAPE).fit(X, first)
    np.testing.assert_allclose(regressor.predict(X)[:, 0], alone.predict(X))
    assert regressor.apply(X).shape == (200, 2 * SHAPE["n_estimators"])
    assert 0 < regressor.score(X, y) < 1


def test_values_that_are_no_numbers_or_missing_are_refused():
    X, y = numbers()
    with pytest.raises(ValueError, match=r"^y holds a value that is not a number; a target must be numeric$"):
        fb.FrameBoostRegressor().fit(X, np.array([*y[:-1], "late"], dtype=object))
    for missing, message in ((None, "contains missing values"), (np.nan, "contains NaN")):
        qid = np.array([missing, *["a"] * 199], dtype=object) if missing is None else np.full(200, missing)
        with pytest.raises(ValueError, match=f"^Input qid {message}"):
            fb.FrameBoostRanker().fit(X, np.arange(200) % 3, qid=qid)


def test_a_classifier_has_one_target():
    X, y = numbers()[0], np.column_stack([np.arange(200) % 2, np.arange(200) % 3])
    message = r"^y should be a 1d array, got .* shape \(200, 2\) instead: .* sklearn.multioutput.MultiOutputClassifier "
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"a FrameBoostRanker has one target$"):
        fb.FrameBoostRanker().fit(X, y)
    assert MultiOutputClassifier(fb.FrameBoostClassifier(**SHAPE)).fit(X, y).predict(X).shape == (200, 2)


@cases("objective, labels", some_pairs(["binary:logistic", "binary:logitraw", "binary:hinge", "multi:softmax"],
                                       [[0, 1, 2], ["a", "b", "c"], [False, True], [5, 7, 9]]))  # fmt: skip
def test_probabilities_and_margins_of_every_objective_are_those_of_the_classes(objective, labels):
    n_classes = 2 if objective.startswith("binary") else len(labels)
    X, place = numbers()[0], np.arange(200) % n_classes
    X[:, 0], y = place, np.array(labels)[place]
    classifier = fb.FrameBoostClassifier(objective=objective, **SHAPE).fit(X, y)
    probabilities, margins = classifier.predict_proba(X), classifier.decision_function(X)
    assert classifier.classes_.tolist() == labels[:n_classes]
    assert probabilities.shape == (200, n_classes)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert probabilities.min() >= 0
    by_margin = margins.argmax(axis=1) if n_classes > 2 else margins > 0  # scikit-learn: of the second class
    for found in (classifier.predict(X), classifier.classes_[probabilities.argmax(axis=1)]):
        np.testing.assert_array_equal(found, y)
    np.testing.assert_array_equal(classifier.classes_[np.asarray(by_margin, dtype=int)], y)
    *_, last = classifier.staged_predict_proba(X)
    np.testing.assert_array_equal(last, probabilities)
    *_, last = classifier.staged_decision_function(X)
    np.testing.assert_array_equal(last, margins)
    if objective == "multi:softmax":
        table = pl.DataFrame(X, schema=classifier.model_.features).with_columns(y=place)
        plain = fb.fit(table, "y", objective=objective, num_class=n_classes, **SHAPE)
        assert plain.trees.equals(classifier.model_.trees)
        as_shares = fb.FrameBoostClassifier(objective="multi:softprob", **SHAPE).fit(X, y)
        np.testing.assert_array_equal(as_shares.predict_proba(X), probabilities)


@cases(("objective", "label"), [(None, "a"), (None, True), ("binary:logistic", 5), ("multi:softmax", "a")])
def test_one_class_is_predicted(label, objective):
    X, y = numbers()[0], np.array([label] * 200)
    with pytest.warns(fb.FrameboostWarning, match="target 'y' is constant, so there is nothing to learn"):
        classifier = fb.FrameBoostClassifier(objective=objective, **SHAPE).fit(X, y)
    assert classifier.classes_.tolist() == [label]
    assert classifier.predict(X).tolist() == [label] * 200
    assert classifier.predict_proba(X).tolist() == [[1.0]] * 200
    assert classifier.score(X, y) == 1.0

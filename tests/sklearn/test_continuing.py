"""Training on from a model, files of estimators, and multilabel targets."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.metrics import roc_auc_score

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import ESTIMATORS, SHAPE, numbers

X, Y = numbers()
TARGETS = {fb.FrameBoostRegressor: Y, fb.FrameBoostClassifier: np.array(["a", "b", "c"])[np.digitize(Y, [-50, 50])],
           fb.FrameBoostRanker: np.digitize(Y, [-50, 50])}  # fmt: skip


@pytest.mark.slow
@cases("kind", ESTIMATORS)
def test_rounds_are_added(kind):
    y = TARGETS[kind]
    whole = kind(**SHAPE | {"n_estimators": 6}).fit(X, y)
    warm = kind(**SHAPE | {"n_estimators": 2}, warm_start=True).fit(X, y)
    first = clone(warm).fit(X, y)
    for n_estimators in (5, 6, 6):
        warm.set_params(n_estimators=n_estimators).fit(X, y)
        assert warm.n_iter_ == n_estimators
    np.testing.assert_allclose(warm.predict(X, output_margin=True), whole.predict(X, output_margin=True), rtol=1e-6)
    assert warm.predict(X).dtype == whole.predict(X).dtype
    with pytest.raises(fb.ParameterError, match=r"^warm_start must be True or False, not 'yes'$"):
        clone(warm).set_params(warm_start="yes").fit(X, y)
    with pytest.raises(fb.ParameterError, match=r"^n_estimators=3 is less than the 6 rounds that there are"):
        warm.set_params(n_estimators=3).fit(X, y)
    # By init_model so many rounds are added, whatever they were before.
    for given in ({"init_model": first}, {"xgb_model": first.model_}):
        on = kind(**SHAPE | {"n_estimators": 4}).fit(X, y, **given)
        assert on.n_iter_ == 6
        np.testing.assert_allclose(on.predict(X, output_margin=True), whole.predict(X, output_margin=True), rtol=1e-6)


def test_the_file_of_a_model_is_trained_on(tmp_path):
    first = fb.FrameBoostRegressor(**SHAPE).fit(X, Y)
    first.save_model(tmp_path / "first.json")
    on = fb.FrameBoostRegressor(**SHAPE).fit(X, Y, xgb_model=str(tmp_path / "first.json"))
    assert on.model_ == fb.FrameBoostRegressor(**SHAPE).fit(X, Y, init_model=first).model_
    with pytest.raises(
        fb.ParameterError, match=r"^init_model was trained with objective 'reg:squarederror' and its par"
    ):
        fb.FrameBoostRegressor(objective="reg:absoluteerror").fit(X, Y, init_model=first)


def test_a_class_that_is_not_there_is_kept_or_refused():
    y = TARGETS[fb.FrameBoostClassifier]
    warm = fb.FrameBoostClassifier(**SHAPE, warm_start=True).fit(X, y).set_params(n_estimators=9)
    some = y != "b"
    assert warm.fit(X[some], y[some]).classes_.tolist() == ["a", "b", "c"]
    assert warm.predict_proba(X).shape == (200, 3)
    with pytest.raises(
        fb.ParameterError, match=r"^init_model was trained on the classes 'a', 'b', 'c', and y has 'a', 'c', 'd'$"
    ):
        warm.set_params(n_estimators=12).fit(X, np.where(some, y, "d"))
    # Of labels that a model does not know they are numbers from 0.
    numbered = fb.FrameBoostClassifier(**SHAPE).fit(X, NUMBERS[np.searchsorted(WORDS, y)])
    on = fb.FrameBoostClassifier(**SHAPE).fit(X, NUMBERS[np.searchsorted(WORDS, y)], init_model=numbered.model_)
    assert on.classes_.tolist() == [-2, 5, 9]


@pytest.mark.parametrize("generator", [np.random.RandomState, np.random.default_rng])
def test_warm_start_goes_on_with_the_seed_that_was_drawn(generator):
    shape = {"max_depth": 2, "subsample": 0.5, "early_stopping": True}
    warm = fb.FrameBoostRegressor(n_estimators=2, random_state=generator(0), warm_start=True, **shape).fit(X, Y)
    seed = warm.model_.parameters["seed"]
    warm.set_params(n_estimators=4).fit(X, Y)
    at_once = fb.FrameBoostRegressor(n_estimators=4, random_state=seed, **shape).fit(X, Y)
    assert warm.model_.parameters["seed"] == seed
    np.testing.assert_allclose(warm.predict(X), at_once.predict(X), rtol=1e-12)


def test_warm_start_stops_early():
    warm = fb.FrameBoostRegressor(n_estimators=3, max_depth=2, warm_start=True, early_stopping=True).fit(X, Y)
    assert warm.set_params(n_estimators=500).fit(X, Y).n_iter_ < 500


NUMBERS, WORDS = np.array([5, -2, 9]), np.array(["a", "b", "c"])
FRAME = pl.DataFrame({"x": X[:, 0], "none": [None] * 200, "s": ["u", "v"] * 100, "it's": X[:, 1]})


@pytest.mark.slow
@cases(("kind", "table", "y"), [
    (fb.FrameBoostRegressor, X, Y), (fb.FrameBoostRegressor, FRAME, Y), (fb.FrameBoostRegressor, FRAME.to_pandas(), Y),
    (fb.FrameBoostRegressor, X, np.column_stack([Y, -Y])), (fb.FrameBoostRanker, FRAME, np.arange(200) % 3),
    (fb.FrameBoostClassifier, X, np.arange(200) % 3), (fb.FrameBoostClassifier, FRAME, NUMBERS[np.arange(200) % 3]),
    (fb.FrameBoostClassifier, FRAME, WORDS[np.arange(200) % 3]), (fb.FrameBoostClassifier, X, Y > 0),
    (fb.FrameBoostClassifier, X, np.arange(200) % 2),
    (fb.FrameBoostClassifier, X, np.column_stack([Y > 0, Y > 50]) * 1),
])  # fmt: skip
def test_a_file_holds_a_fitted_estimator(kind, table, y, tmp_path):
    estimator = kind(**SHAPE).fit(table, y)
    estimator.save_model(tmp_path / "m.json")
    loaded = kind(max_depth=9)
    assert loaded.load_model(tmp_path / "m.json") is loaded
    np.testing.assert_array_equal(loaded.predict(table), estimator.predict(table))
    assert loaded.predict(table).dtype == estimator.predict(table).dtype
    assert loaded.model_ == estimator.model_ == fb.load(tmp_path / "m.json")
    assert loaded.n_features_in_ == estimator.n_features_in_
    assert getattr(loaded, "feature_names_in_", [None])[0] == getattr(estimator, "feature_names_in_", [None])[0]
    if kind is fb.FrameBoostClassifier:
        np.testing.assert_array_equal(loaded.classes_, estimator.classes_)
        np.testing.assert_array_equal(loaded.predict_proba(table), estimator.predict_proba(table))
    if isinstance(table, pl.DataFrame):
        with pytest.raises(ValueError, match=r"feature names should match"):
            loaded.predict(table.rename({"x": "z"}))


def test_a_file_holds_many_names_and_classes(tmp_path):
    names = [f'a column\'s \n number "{i}" ü' for i in range(99)]
    table = pl.DataFrame({name: np.arange(200) * 7 % (i + 2) for i, name in enumerate(names)})
    table = table.with_columns(pl.lit(None).alias(names[5]))
    for path, model in (("a.json", None), ("b.json", "a.json")):  # saved, and what was loaded saved again
        if model is None:
            classifier = fb.FrameBoostClassifier(n_estimators=1, max_depth=2).fit(table, np.arange(200) // 10 * 12_345)
        classifier.save_model(tmp_path / path)
        loaded = fb.FrameBoostClassifier().load_model(tmp_path / path)
        assert loaded.classes_.tolist() == [i * 12_345 for i in range(20)]
        assert loaded.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(loaded.predict(table), classifier.predict(table))
        classifier = loaded
    damaged = fb.load(tmp_path / "a.json")
    damaged = damaged.with_metadata(tags={**damaged.metadata.tags, "scikit-learn 0": "{"})
    with pytest.raises(
        fb.ModelFileError, match=r"^the tags scikit-learn 0, \.\.\. of the model are not those that save_"
    ):
        fb.FrameBoostClassifier().load_model(damaged)


def test_what_was_measured_is_in_the_file(tmp_path):
    options = {"n_estimators": 60, "max_depth": 2, "early_stopping_rounds": 2}
    pairs = [(X[:150], Y[:150]), (X[150:], Y[150:])]
    regressor = fb.FrameBoostRegressor(**options).fit(*pairs[0], eval_set=pairs, eval_names=["train", "a_b"])
    regressor.save_model(tmp_path / "m.json")
    loaded = fb.FrameBoostRegressor().load_model(tmp_path / "m.json")
    assert loaded.evals_result_ == regressor.evals_result_
    assert list(loaded.evals_result_) == ["train", "a_b"]
    assert (loaded.best_iteration, loaded.best_score) == (regressor.best_iteration, regressor.best_score)
    for other in (fb.FrameBoostClassifier, fb.FrameBoostRanker):
        with pytest.raises(
            fb.ParameterError, match=r"^the model is that of a regressor, not of a (classifier|ranker)$"
        ):
            other().load_model(tmp_path / "m.json")


def test_files_of_other_libraries_are_loaded(tmp_path):
    xgboost, lightgbm = pytest.importorskip("xgboost"), pytest.importorskip("lightgbm")
    y = TARGETS[fb.FrameBoostRanker]
    for kind, theirs, target in (
        (fb.FrameBoostRegressor, xgboost.XGBRegressor(n_estimators=3), Y),
        (fb.FrameBoostClassifier, xgboost.XGBClassifier(n_estimators=3), y),
        (fb.FrameBoostClassifier, xgboost.XGBClassifier(n_estimators=3), y > 0),
    ):
        theirs.fit(X, target).save_model(tmp_path / "theirs.json")
        loaded = kind().load_model(tmp_path / "theirs.json")
        np.testing.assert_allclose(loaded.predict(X), theirs.predict(X), rtol=1e-5)
        assert not hasattr(loaded, "feature_names_in_")
    named = pd.DataFrame(X, columns=list("abcde"))
    theirs = lightgbm.LGBMClassifier(n_estimators=3, verbosity=-1).fit(named, y)
    theirs.booster_.save_model(tmp_path / "theirs.txt")
    loaded = fb.FrameBoostClassifier().load_model(tmp_path / "theirs.txt")
    np.testing.assert_allclose(loaded.predict_proba(named), theirs.predict_proba(named), rtol=1e-6)
    assert loaded.feature_names_in_.tolist() == list("abcde")
    assert (
        fb.FrameBoostClassifier(**SHAPE).fit(X, y).feature_name_
        == loaded.fit(X, y).feature_name_
        == [f"x{i}" for i in range(5)]
    )


def test_models_of_other_kinds_are_loaded_or_refused(tmp_path):
    frame = pl.DataFrame({"x": X[:, 0], "y": np.where(Y > 0, "late", "early")})
    model = fb.fit(frame, "y", n_estimators=2)
    classifier = fb.FrameBoostClassifier().load_model(model)
    assert classifier.classes_.tolist() == ["early", "late"]
    np.testing.assert_array_equal(classifier.predict(frame[["x"]]), model.predict(frame, "class").to_numpy())
    with pytest.raises(
        fb.ParameterError, match=r"^the model has objective 'reg:squarederror', which is not for a clas"
    ):
        fb.FrameBoostClassifier().load_model(fb.FrameBoostRegressor(n_estimators=1).fit(X, Y).model_)


@pytest.fixture(scope="module")
def labels() -> tuple[np.ndarray, np.ndarray]:
    return make_multilabel_classification(200, 5, n_classes=3, random_state=0)


@pytest.mark.slow
@cases("as_y", [np.asarray, pl.DataFrame, pd.DataFrame, lambda y: y.astype(bool), lambda y: y.tolist()])
def test_each_label_has_trees_of_its_own(labels, as_y):
    table, y = labels
    classifier = fb.FrameBoostClassifier(**SHAPE).fit(table, as_y(y))
    shares, margins = classifier.predict_proba(table), classifier.decision_function(table)
    np.testing.assert_allclose(shares, 1 / (1 + np.exp(-margins)))
    np.testing.assert_array_equal(classifier.predict(table), shares > 0.5)
    assert [values.tolist() for values in classifier.classes_] == [[0, 1]] * 3
    assert classifier.n_classes_ == 3
    for k in range(3):
        alone = fb.FrameBoostClassifier(**SHAPE).fit(table, y[:, k]).predict_proba(table)[:, 1]
        np.testing.assert_allclose(shares[:, k], alone)
    assert classifier.score(table, y) == pytest.approx(np.mean(((shares > 0.5) == y).all(axis=1)))
    *_, last = classifier.staged_predict(table)
    np.testing.assert_array_equal(last, classifier.predict(table))
    assert roc_auc_score(y, shares) > 0.8


def test_labels_to_validate_on_are_as_many(labels):
    table, y = labels
    classifier = fb.FrameBoostClassifier(n_estimators=60, max_depth=2, early_stopping_rounds=2, class_weight="balanced")
    assert classifier.fit(table[:150], y[:150], eval_set=[(table[150:], y[150:])]).n_iter_ < 60
    with pytest.raises(ValueError, match=r"^y of eval_set\[0\] has shape \(50,\), and y \(150, 3\)$"):
        classifier.fit(table[:150], y[:150], eval_set=[(table[150:], y[150:, 0])])
    with pytest.raises(fb.ParameterError, match=r"is not for a multilabel y; set 'binary:...'$"):
        fb.FrameBoostClassifier(objective="multi:softprob").fit(table, y)

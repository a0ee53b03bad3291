"""What a fitted estimator knows: leaves, stages, metrics, contributions."""

import numpy as np
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

import frameboost as fb
from tests.support.cases import cases
from tests.support.estimator_frames import COLUMNS, ESTIMATORS, SHAPE, numbers

ROUNDS = SHAPE["n_estimators"]


@pytest.fixture(scope="module")
def classifiers(frame, X) -> list[fb.FrameBoostClassifier]:
    """Return classifiers of two and of three classes."""
    three = pl.Series(["a", "b", "c"] * 100)
    return [fb.FrameBoostClassifier(**SHAPE).fit(X, y) for y in (frame["late"], three)]


def test_apply_gives_the_leaf_in_each_tree(X, classifiers):
    for classifier, n_trees in zip(classifiers, (ROUNDS, 3 * ROUNDS), strict=True):
        leaves = classifier.apply(X)
        assert leaves.shape == (300, n_trees)
        nodes = classifier.model_.trees
        # The margin of a row is the sum of the values of its leaves.
        value = {(tree, node): v for tree, node, v in nodes.select("tree", "node", "value").rows()}
        assert set(nodes.filter(pl.col("feature").is_not_null()).select("tree", "node").rows()).isdisjoint(
            (tree, leaf) for row in leaves for tree, leaf in enumerate(row)
        )
        margins = np.array([[value[tree, leaf] for tree, leaf in enumerate(row)] for row in leaves])
        n_outputs = n_trees // ROUNDS
        summed = margins.reshape(300, ROUNDS, n_outputs).sum(axis=1) + classifier.model_.base_margin
        np.testing.assert_allclose(summed.squeeze(), classifier.decision_function(X))


def test_xgboosts_apply_is_in_the_same_shape():
    xgboost = pytest.importorskip("xgboost")
    X, y = numbers()
    theirs = xgboost.XGBClassifier(n_estimators=3, max_depth=1).fit(X, np.arange(200) % 3)
    ours = fb.FrameBoostClassifier(n_estimators=3, max_depth=1).fit(X, np.arange(200) % 3)
    assert theirs.apply(X).shape == ours.apply(X).shape == (200, 9)
    one = fb.FrameBoostRegressor(n_estimators=1, max_depth=1).fit(X, y)
    assert one.apply(X).shape == xgboost.XGBRegressor(n_estimators=1, max_depth=1).fit(X, y)\
        .apply(X).reshape(200, -1).shape == (200, 1)  # fmt: skip


def test_stages_are_those_of_the_first_rounds(X, classifiers):
    for classifier in classifiers:
        stages = zip(
            classifier.staged_predict(X), classifier.staged_predict_proba(X), classifier.staged_decision_function(X),
            strict=True,
        )  # fmt: skip
        for rounds, (labels, probabilities, margins) in enumerate(stages, start=1):
            first = classifier.model_[:rounds]
            np.testing.assert_array_equal(margins, first.predict(X, "margin").to_numpy())
            mean = first.predict(X).to_numpy()
            np.testing.assert_array_equal(probabilities, mean if mean.ndim == 2 else np.column_stack([1 - mean, mean]))
            np.testing.assert_array_equal(labels, classifier.classes_[probabilities.argmax(axis=1)])
        assert rounds == ROUNDS
        np.testing.assert_array_equal(labels, classifier.predict(X))
        np.testing.assert_array_equal(probabilities, classifier.predict_proba(X))
        np.testing.assert_array_equal(margins, classifier.decision_function(X))


@cases("parameters", [{}, {"booster": "dart", "rate_drop": 0.5}, {"num_parallel_tree": 2, "subsample": 0.5}])
def test_stages_of_other_boosters_and_of_arrays(parameters):
    X, y = numbers()
    regressor = fb.FrameBoostRegressor(**SHAPE, **parameters).fit(X, y)
    stages = list(regressor.staged_predict(X))
    assert len(stages) == ROUNDS
    np.testing.assert_array_equal(stages[-1], regressor.predict(X))
    columns = pl.DataFrame(X, schema=regressor.model_.features)
    np.testing.assert_array_equal(stages[1], regressor.model_[:2].predict(columns).to_numpy())


def test_nothing_is_known_before_fit(X):
    for kind in ESTIMATORS:
        for method in ("predict", "apply", "explain"):
            with pytest.raises(NotFittedError):
                getattr(kind(), method)(X)
        with pytest.raises(NotFittedError):
            kind().score(X, range(len(X)))
        with pytest.raises(NotFittedError):
            next(kind().staged_predict(X))
        for name in ("best_iteration_", "best_score_", "evals_result_", "feature_importances_"):
            assert not hasattr(kind(), name)
    for method in ("predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(fb.FrameBoostClassifier(), method)(X)


def test_metrics_of_each_round_are_known(frame, X):
    options = {"n_estimators": 30, "max_depth": 3, "early_stopping_rounds": 2, "eval_metric": ["mae", "rmse"]}
    train, other, last = slice(0, 150), slice(150, 200), slice(200, None)
    y, w = frame["amount"], frame["w"]
    regressor = fb.FrameBoostRegressor(**options).fit(
        X[train], y[train], w[train], eval_set=[(X[other], y[other]), (X[last], y[last])],
        sample_weight_eval_set=[None, w[last]],
    )  # fmt: skip
    weighted = frame.with_columns(w=pl.col("w").cast(pl.Float64))
    expected = fb.fit(
        weighted[train], "amount", features=COLUMNS, weight="w",
        valid={"a": weighted[other].with_columns(w=pl.lit(1.0)), "b": weighted[last]}, **options,
    )  # fmt: skip
    assert regressor.model_ == expected
    assert regressor.best_iteration_ == expected.best_iteration < 30
    assert regressor.best_score_ == expected.best_score
    history = expected.history
    assert regressor.evals_result_ == regressor.evals_result() == {
        ours: {metric: history[f"{theirs}_{metric}"].to_list() for metric in ("mae", "rmse")}
        for ours, theirs in {"validation_0": "a", "validation_1": "b"}.items()
    }  # fmt: skip
    assert min(regressor.evals_result_["validation_1"]["rmse"]) == regressor.best_score_


@cases("kind", ESTIMATORS)
def test_rows_to_validate_on_have_weights_where_those_to_train_on_have_none(kind):
    X, first = numbers()
    y, qid = np.arange(200) % 2 if kind is not fb.FrameBoostRegressor else first, np.repeat([0, 1], 100)
    queries = {"qid": qid, "eval_qid": [qid]} if kind is fb.FrameBoostRanker else {}
    plain = kind(**SHAPE).fit(X, y, eval_set=[(X, y)], **queries)
    weight = np.where(qid == 0, 1.0, 9.0)
    weighted = kind(**SHAPE).fit(X, y, eval_set=[(X, y)], sample_weight_eval_set=[weight], **queries)
    np.testing.assert_array_equal(weighted.predict(X), plain.predict(X))
    both = kind(**SHAPE).fit(X, y, sample_weight=np.full(200, 1.0), eval_set=[(X, y)], sample_weight_eval_set=[weight],
                             **queries)  # fmt: skip
    assert weighted.evals_result_ == both.evals_result_ != plain.evals_result_


def test_without_rows_to_validate_on_there_is_no_best_round(X, classifiers):
    assert classifiers[0].best_iteration_ is classifiers[0].best_score_ is None
    assert classifiers[0].evals_result_ == {}


def test_a_ranker_stops_early():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    qid = np.repeat(np.arange(10), 20)
    ranker = fb.FrameBoostRanker(n_estimators=20, max_depth=2, eval_metric="ndcg", early_stopping_rounds=2)
    ranker.fit(X[:100], y[:100], qid=qid[:100], eval_set=[(X[100:], y[100:])], eval_qid=[qid[100:]])
    assert ranker.model_.n_rounds == ranker.best_iteration_ < 20
    assert ranker.best_score_ == max(ranker.evals_result_["validation_0"]["ndcg"])
    assert ranker.score(X[100:], y[100:], qid=qid[100:]) == pytest.approx(ranker.best_score_)


X_40, Y_40 = np.arange(40.0).reshape(-1, 1), np.arange(40.0)


@cases(
    ("arguments", "message"),
    [
        ({"eval_set": [(X_40, Y_40[:-1])]}, "inconsistent numbers of samples"),
        ({"eval_set": [(X_40, np.full(40, np.nan))]}, r"^Input y of eval_set\[0\] contains NaN"),
        ({"eval_set": [(X_40, np.ones((40, 2)))]}, r"^y of eval_set\[0\] has shape \(40, 2\), and y \(40,\)$"),
        ({"eval_set": [(X_40, Y_40)], "sample_weight_eval_set": [-Y_40]},
         r"^sample_weight_eval_set\[0\] has negative weights, the lowest -39; a weight must be 0 or more$"),
        ({"eval_set": [(X_40, Y_40)], "sample_weight_eval_set": Y_40},
         "^sample_weight_eval_set must be a list with an item for each pair of eval_set, not "),
        ({"sample_weight_eval_set": [Y_40]}, "^sample_weight_eval_set is for the rows of eval_set, which is missing"),
    ],
)  # fmt: skip
def test_messages_about_rows_to_validate_on_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        fb.FrameBoostRegressor().fit(X_40, Y_40, **arguments)


def test_a_column_of_another_type_is_found_in_eval_set():
    X = pl.DataFrame({"x": ["a", "b"] * 20})
    with pytest.raises(fb.DataError, match=r"^column 'x' has type Int64 in X of eval_set\[0\], but String in X; cast "):
        fb.FrameBoostRegressor().fit(X, Y_40, eval_set=[(pl.DataFrame({"x": range(40)}), Y_40)])


def test_contributions_are_those_of_the_model(X, classifiers):
    for classifier in classifiers:
        assert classifier.explain(X[:5]).equals(classifier.model_.explain(X[:5]))
        how = {"top": 2, "sign": 1, "output": 0, "texts": {classifier.model_.features[0]: "a text"}}
        assert classifier.explain(X[:5], **how).equals(classifier.model_.explain(X[:5], **how))
    array, y = numbers()
    regressor = fb.FrameBoostRegressor(**SHAPE).fit(array, y)
    contributions = regressor.explain(array, approx=True)
    assert contributions.columns == ["x0", "x1", "x2", "x3", "x4", "bias"]
    np.testing.assert_allclose(contributions.sum_horizontal().to_numpy(), regressor.predict(array))


def test_intervals_are_those_of_the_model():
    rng = np.random.default_rng(3)
    X, noise = rng.normal(size=(300, 2)), rng.normal(size=300)
    y = X[:, 0] + noise
    regressor = fb.FrameBoostRegressor(n_estimators=5).fit(X[:100], y[:100])
    with pytest.raises(fb.ParameterError, match="interval"):
        regressor.predict_interval(X[200:])
    distances = np.sort(np.abs(y[100:200] - regressor.predict(X[100:200])))
    ends = regressor.conform(X[100:200], y[100:200], coverage=0.8).predict_interval(X[200:])
    expected = distances[80]  # the 81st of 100: 101 times 0.8, rounded up
    np.testing.assert_allclose(ends, regressor.predict(X[200:])[:, None] + [-expected, expected], rtol=1e-12)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor.conform(X[100:200], y[100:199])


def test_tables_of_any_kind_score_as_by_the_model_if_their_columns_are_those_of_fit():
    rng = np.random.default_rng(0)
    X = pl.DataFrame(rng.normal(size=(40, 2)), schema=["a", "b"]).with_columns(
        a=pl.when(pl.int_range(40) % 7 > 0).then("a"), c=pl.int_range(40) % 3
    )
    estimator = fb.FrameBoostRegressor(n_estimators=3, max_depth=3).fit(X, X["b"] + X["c"])
    others = X.select("b", "a", "c"), X.drop("c")
    for convert in (pl.DataFrame, pl.DataFrame.lazy, pl.DataFrame.to_arrow, pl.DataFrame.to_pandas):
        for rows in (X, X[:1], X[:5]):
            expected = estimator.model_.predict(rows).to_list()
            assert [estimator.predict(convert(rows)).tolist() for _ in range(2)] == [expected] * 2
        for other in others:
            with pytest.raises(ValueError, match="feature names should match"):
                estimator.predict(convert(other))

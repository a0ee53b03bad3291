"""Imported scikit-learn models: the same predictions and leaves as in scikit-learn."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from threadpoolctl import threadpool_limits

import frameboost as fb
from frameboost.loading import from_sklearn
from tests.interop import agreement
from tests.interop.agreement import assert_close, assert_consistent, assert_same_leaves, towns
from tests.support.cases import cases, some_pairs

# scikit-learn adds numbers up to see whether they are finite, which makes inf - inf of the largest ones.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in reduce")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Threads of OpenMP wait for each other in a loop, for seconds where cores are scarce."""
    with threadpool_limits(1):
        yield


LARGEST = float(np.finfo(np.float32).max)


def numbers(seed, n=150, missing=False):
    return agreement.numbers(seed, n, 1e-40, missing)


def rows_near(model, X, seed, *, single, missing):
    """Return rows on thresholds and around them; those libraries that make them float32 refuse what is too large."""
    rows = agreement.rows_near(model, 500, seed, single=single)
    if single:
        rows = np.clip(rows, -LARGEST, LARGEST)
    return np.concatenate([rows if missing else np.nan_to_num(rows), X])


def frame_of(model, X):
    return pl.DataFrame(np.asarray(X), schema=model.features)


def labels(y, n_classes):
    return np.array(["no", "yes", "maybe", "never"])[
        np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1] ** 1.5))  # of different sizes
    ]


# --- gradient boosting ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(
    ("loss", "init"),
    [("squared_error", None), ("squared_error", "zero"), ("absolute_error", DummyRegressor(strategy="median")),
     ("huber", None), ("huber", DummyRegressor(strategy="median")), ("quantile", "zero"), ("quantile", None)],
)  # fmt: skip
def test_gradient_boosting_regressor(loss, init):
    X, y = numbers(1)
    estimator = GradientBoostingRegressor(loss=loss, init=init, n_estimators=5, max_depth=3, random_state=0, alpha=0.7)
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, 2, single=True, missing=False)
    frame = frame_of(model, rows)
    assert_close(model, frame, estimator.predict(rows))
    assert_same_leaves(model, frame, estimator.apply(rows))
    assert_consistent(model, frame)
    if loss == "quantile":
        assert (model.objective, model.parameters) == ("reg:quantileerror", {"quantile_alpha": [0.7]})


@cases("seed", range(3))
def test_thresholds_of_float32(seed):
    X, y = numbers(seed)
    X[:, 0] *= 10.0 ** np.random.default_rng(seed).integers(-40, 38)
    estimator = GradientBoostingRegressor(n_estimators=12, max_depth=4, random_state=seed)
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, seed, single=True, missing=False)
    assert_close(model, frame_of(model, rows), estimator.predict(rows))
    assert_same_leaves(model, frame_of(model, rows), estimator.apply(rows))


@pytest.mark.slow
@cases(
    ("loss", "classes", "init"),
    [("log_loss", 2, None), ("log_loss", 2, DummyClassifier(strategy="uniform")), ("exponential", 2, None),
     ("exponential", 2, "zero"), ("log_loss", 3, None), ("log_loss", 3, "zero")],
)  # fmt: skip
def test_gradient_boosting_classifier(loss, classes, init):
    X, y = numbers(3)
    y = labels(y, classes)
    estimator = GradientBoostingClassifier(loss=loss, init=init, n_estimators=4, random_state=0, subsample=0.8)
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, 4, single=True, missing=False)
    frame = frame_of(model, rows)
    assert_close(model, frame, estimator.decision_function(rows))
    probabilities = estimator.predict_proba(rows)
    ours = model.predict(frame).to_numpy()
    np.testing.assert_allclose(ours, probabilities[:, 1] if classes == 2 else probabilities, rtol=1e-12)
    even = (probabilities == 0.5).all(axis=1)  # there scikit-learn takes the second class
    ours = model.predict(frame, "class").to_numpy()
    assert (ours == estimator.predict(rows))[~even].all() and even.mean() < 0.1
    assert_same_leaves(model, frame, estimator.apply(rows))
    assert_consistent(model, frame)


# --- histogram gradient boosting --------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("loss, missing", some_pairs(["squared_error", "absolute_error", "poisson", "gamma", "quantile"], [False, True]))
def test_histogram_boosting_regressor(loss, missing):
    X, y = numbers(5, missing=missing)
    y = np.abs(y) + 0.1
    estimator = HistGradientBoostingRegressor(
        loss=loss, max_iter=4, min_samples_leaf=3, max_leaf_nodes=10, quantile=0.3 if loss == "quantile" else None
    )
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, 6, single=False, missing=True)
    frame = frame_of(model, rows)
    assert_close(model, frame, estimator._raw_predict(rows)[:, 0])
    np.testing.assert_allclose(model.predict(frame), estimator.predict(rows), rtol=1e-11, atol=1e-13)
    assert_consistent(model, frame)


@pytest.mark.parametrize("classes", [2, 3])
def test_histogram_boosting_classifier(classes):
    X, y = numbers(7, missing=True)
    y = labels(y, classes)
    estimator = HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3, max_leaf_nodes=8).fit(X, y)
    model = from_sklearn(estimator)
    rows = rows_near(model, X, 8, single=False, missing=True)
    frame = frame_of(model, rows)
    assert_close(model, frame, estimator.decision_function(rows))
    probabilities = estimator.predict_proba(rows)
    ours = model.predict(frame).to_numpy()
    np.testing.assert_allclose(ours, probabilities[:, 1] if classes == 2 else probabilities, rtol=1e-11, atol=1e-13)
    assert model.predict(frame, "class").to_list() == estimator.predict(rows).tolist()
    assert_consistent(model, frame)


def test_splits_on_whether_a_value_is_present():
    X, _ = numbers(7, missing=True)
    for estimator in (HistGradientBoostingClassifier(max_iter=3), DecisionTreeClassifier(), RandomForestClassifier(5)):
        estimator.fit(X, np.isnan(X[:, 0]))
        model = from_sklearn(estimator)
        tree = model.ensemble.trees[0]
        assert any(t is None and f == 0 for f, t in zip(tree.feature, tree.threshold, strict=True))
        rows = X.copy()
        rows[:3, 0] = [LARGEST, -LARGEST, 0.0]
        np.testing.assert_allclose(model.predict(frame_of(model, rows)), estimator.predict_proba(rows)[:, 1])
        assert_consistent(model, frame_of(model, rows))


@pytest.mark.slow
@cases("seed, categorical", enumerate(["from_dtype", ["town"], ["code"], ["code", "town"]]))
def test_categories(seed, categorical):
    frame, y = towns(seed, 300)
    if categorical == ["code"]:
        frame["town"] = frame["town"].cat.codes.astype(float)
    if categorical == ["town"]:
        frame["code"] = frame["code"].astype(float)
    estimator = HistGradientBoostingRegressor(
        max_iter=4, min_samples_leaf=3, max_leaf_nodes=15, categorical_features=categorical
    )
    model = from_sklearn(estimator.fit(frame, y))
    test = frame.copy()
    columns = {"x": test["x"].to_numpy(), "wide name": test["wide name"].to_numpy()}
    for name, new in (("town", "never seen"), ("code", 12345)):
        if isinstance(test[name].dtype, pd.CategoricalDtype):
            values = list(test[name].astype(object))
            values[::9] = [new] * len(values[::9])
            columns[name] = [None if value != value else value for value in values]
            test[name] = pd.Series(values, dtype=object)
            [kind] = [f.type.name for f in model.ensemble.features if f.name == name]
            assert kind == {"town": "string", "code": "codes"}[name]
        else:
            columns[name] = test[name].to_numpy()
    ours = pl.DataFrame(columns)
    assert_close(model, ours, estimator.predict(test))
    assert_consistent(model, ours)


def test_categories_that_are_numbers():
    X, y = numbers(9, 300)
    X[:, 1] = np.random.default_rng(9).integers(0, 40, len(X))
    X[::17, 1] = np.nan
    estimator = HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=3, categorical_features=[1]).fit(X, y)
    model = from_sklearn(estimator)
    rows = X.copy()
    rows[:, 1] = np.random.default_rng(10).choice([*range(-2, 45), np.nan], len(X))
    assert model.ensemble.features[1].categories == tuple(range(40))
    assert_close(model, frame_of(model, rows), estimator.predict(rows))
    assert_consistent(model, frame_of(model, rows))
    with pytest.raises(fb.ParameterError, match="categories of feature 'x1' must be all strings or all whole numbers"):
        from_sklearn(estimator.fit(X / [1, 2, 1, 1, 1], y))


# --- forests and trees ------------------------------------------------------------------------------------------------


REGRESSORS = [
    RandomForestRegressor(n_estimators=4, random_state=0, min_samples_leaf=2),
    RandomForestRegressor(n_estimators=3, criterion="poisson", random_state=1, max_leaf_nodes=9),
    ExtraTreesRegressor(n_estimators=4, random_state=0, min_samples_leaf=4),
    DecisionTreeRegressor(random_state=0),
    ExtraTreeRegressor(random_state=0, max_depth=5),
]


@pytest.mark.slow
@cases(("estimator", "of_data"), some_pairs(REGRESSORS, [(1, False), (1, True), (2, True), (2, False)], 4))
def test_regressors_of_means(estimator, of_data):
    targets, missing = of_data
    X, y = numbers(11, missing=missing)
    y = np.abs(y if targets == 1 else np.c_[y, X[:, 1]]) + 0.1
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, 12, single=True, missing=True)
    frame = frame_of(model, rows)
    assert_close(model, frame, estimator.predict(rows))
    leaves = np.reshape(estimator.apply(rows), (len(rows), -1))
    assert_same_leaves(model, frame, np.repeat(leaves, targets, axis=1))
    assert_consistent(model, frame)


CLASSIFIERS = [
    RandomForestClassifier(n_estimators=4, random_state=0, max_depth=6, class_weight="balanced"),
    ExtraTreesClassifier(n_estimators=4, random_state=0, min_samples_leaf=3),
    DecisionTreeClassifier(random_state=0, max_depth=6),
    ExtraTreeClassifier(random_state=0, max_depth=5),
]


@pytest.mark.slow
@cases(("estimator", "of_data"), some_pairs(CLASSIFIERS, [(2, False), (2, True), (3, True), (3, False)], 4))
def test_classifiers_of_shares(estimator, of_data):
    classes, missing = of_data
    X, y = numbers(13, missing=missing)
    y = labels(y, classes)
    model = from_sklearn(estimator.fit(X, y))
    rows = rows_near(model, X, 14, single=True, missing=True)
    frame = frame_of(model, rows)
    probabilities = estimator.predict_proba(rows)
    assert_close(model, frame, probabilities[:, 1] if classes == 2 else probabilities)
    assert model.predict(frame).equals(model.predict(frame, "margin"))
    # Where classes are equally likely, rounding decides.
    two = np.sort(probabilities, axis=1)[:, -2:]
    clear = two[:, 1] - two[:, 0] > 1e-9
    ours = model.predict(frame, "class").to_numpy()
    assert clear.mean() > 0.5
    assert (ours == estimator.predict(rows))[clear].all()
    leaves = np.reshape(estimator.apply(rows), (len(rows), -1))
    assert_same_leaves(model, frame, np.repeat(leaves, 1 if classes == 2 else classes, axis=1))
    assert_consistent(model, frame)


def test_gains_and_covers_are_those_of_scikit_learn():
    X, y = numbers(15)
    estimator = DecisionTreeRegressor(max_depth=4).fit(X, y)
    model = from_sklearn(estimator)
    gains = dict(model.importance("total_gain").rows())
    gains = np.array([gains[name] for name in model.features])
    np.testing.assert_allclose(gains / gains.sum(), estimator.feature_importances_, atol=1e-12)
    assert model.trees["cover"][0] == len(X)


@pytest.mark.parametrize(("n_trees", "n_classes"), [(10, 2), (12, 3)])
def test_votes_that_tie_go_to_the_first_class(n_trees, n_classes):
    rng = np.random.default_rng(n_trees)
    X, rows = rng.normal(size=(200, 3)).round(1), rng.normal(size=(600, 3)).round(1)
    y = np.clip(X[:, 0] + rng.normal(size=200) > 0, 0, 1) + (X[:, 1] > 0.5 if n_classes > 2 else 0)
    forest = RandomForestClassifier(n_trees, random_state=0).fit(X, y)
    ordered = np.sort(forest.predict_proba(rows), axis=1)
    assert (np.abs(ordered[:, -1] - ordered[:, -2]) < 1e-9).sum() > 5
    model, frame = from_sklearn(forest), pl.DataFrame(rows, schema=["x0", "x1", "x2"])
    np.testing.assert_array_equal(model.predict(frame, output="class"), forest.predict(rows))
    np.testing.assert_array_equal(frame.select(model.expr(output="class")).to_series(), forest.predict(rows))
    con = duckdb.connect()
    con.register("rows", frame.to_arrow())
    found = con.sql(model.query("rows", keep=[], output="class")).fetchnumpy()["prediction"]
    np.testing.assert_array_equal(found, forest.predict(rows))


@pytest.mark.parametrize("missing", [False, True])
def test_booleans_are_categories(missing):
    rng = np.random.default_rng(5)
    code = rng.integers(-missing, 2, 200)
    as_category = pd.Categorical.from_codes(code, categories=[False, True])
    frame = pd.DataFrame({"c": as_category, "x": rng.normal(size=200)})
    given = [(frame, "from_dtype")] if missing else [(frame, "from_dtype"), (frame.astype({"c": bool}), ["c"])]
    for rows, which in given:
        boosting = HistGradientBoostingRegressor(max_iter=4, max_leaf_nodes=5, categorical_features=which)
        boosting.fit(rows, np.where(code == 1, 5.0, code) + frame["x"])
        for scored in (rows, pl.from_pandas(rows)):
            np.testing.assert_allclose(from_sklearn(boosting).predict(scored), boosting.predict(rows), rtol=1e-12)


def test_names_of_columns():
    frame, y = towns(0, 300)
    frame = frame[["x", "wide name"]].fillna(0)
    model = from_sklearn(RandomForestRegressor(n_estimators=3).fit(frame, y))
    assert model.features == ["x", "wide name"]
    assert from_sklearn(RandomForestRegressor(n_estimators=3).fit(frame.to_numpy(), y)).features == ["x0", "x1"]


def test_what_is_not_supported():
    X, y = numbers(17)
    with pytest.raises(fb.ParameterError, match=r"not a sklearn\.ensemble\._iforest\.IsolationForest$"):
        from_sklearn(IsolationForest(n_estimators=3).fit(X))
    for estimator in (*REGRESSORS, GradientBoostingClassifier(), HistGradientBoostingRegressor()):
        with pytest.raises(fb.ParameterError, match="is not fitted"):
            from_sklearn(type(estimator)())
    drawn = DummyClassifier(strategy="stratified")
    for estimator, label, says in [
        (GradientBoostingRegressor(init=LinearRegression(), n_estimators=2), y, "starts from another model"),
        (GradientBoostingClassifier(init=drawn, n_estimators=2), y > 0, "starts from another model"),
        (RandomForestClassifier(n_estimators=2), np.c_[y > 0, y > 1], "predicts 2 columns of classes"),
        (RandomForestClassifier(n_estimators=2), np.zeros(len(X)), "was fitted on one class"),
    ]:
        with pytest.raises(fb.ParameterError, match=says):
            from_sklearn(estimator.fit(X, label))

"""Objectives that are Python functions: the trees of the same formulas, in every engine that can call them."""

import pickle
import re
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.engines import external_memory, query_costs
from frameboost.engines.external_memory import ExternalMemoryEngine
from frameboost.engines.memory import engine as memory_engine
from frameboost.losses.functions import ArrayCall
from frameboost.runtime import storage
from frameboost.runtime.storage import Storage
from tests.support.cases import cases
from tests.support.engines import ENGINES

N = 400
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 3)).astype(np.float32).astype(np.float64)
AMOUNT = (2 * X[:, 0] + X[:, 1] ** 2 + RNG.normal(size=N) / 3).astype(np.float32).astype(np.float64)
CLASS = np.digitize(AMOUNT, [0.0, 2.0])
WEIGHT = RNG.integers(1, 5, N).astype(np.float64)
FEATURES = ["x0", "x1", "x2"]
ROWS = pl.DataFrame({f"x{i}": X[:, i] for i in range(3)}).with_columns(
    amount=AMOUNT, other=-AMOUNT, w=WEIGHT, grade=CLASS, late=AMOUNT > 1,
    name=pl.Series(np.array(["a", "b", "c"])[CLASS]), yes=pl.Series(np.where(AMOUNT > 1, "yes", "no")),
)  # fmt: skip
OPTIONS = {"features": FEATURES, "n_estimators": 4, "max_depth": 3, "base_score": 0.5}


def squared(label, margin):
    return margin - label, np.ones_like(margin)


def squared_and_weighted(label, margin, weight):
    return (margin - label) * weight, weight


def squared_of_xgboost(predt: np.ndarray, dtrain: xgboost.DMatrix):
    weight = dtrain.get_weight()
    weight = np.ones_like(predt) if weight.size == 0 else weight
    return (predt - dtrain.get_label()) * weight, weight


def squared_of_lightgbm(preds, train_data):
    return squared(train_data.get_label(), preds)


def squared_by_keyword(y_true, y_pred, *, sample_weight=None):
    gradient, hessian = squared(y_true, y_pred)
    return (gradient, hessian) if sample_weight is None else (gradient * sample_weight, hessian * sample_weight)


def relative(label, margin):
    """Depends on all rows, and on their order: an engine that passes parts of them, or sorts them, has other trees."""
    assert np.array_equal(label, AMOUNT)
    distance = margin - label
    return distance / np.abs(distance).mean() * np.linspace(0.5, 1.5, N), np.ones_like(margin)


def logistic(label, margin):
    p = 1 / (1 + np.exp(-margin))
    return p - label, np.maximum(p * (1 - p), 1e-16)


def softmax(label, margin):
    powers = np.exp(margin - margin.max(axis=1, keepdims=True))
    p = powers / powers.sum(axis=1, keepdims=True)
    return p - np.eye(margin.shape[1])[label.astype(int)], np.maximum(2 * p * (1 - p), 1e-16)


@pytest.fixture
def queries(monkeypatch):
    """Have polars and DuckDB run queries over few rows too."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)


# --- the same trees ---------------------------------------------------------------------------------------------------


@cases("function", [squared, squared_and_weighted, squared_of_xgboost, squared_by_keyword, partial(squared)])
def test_every_form_gives_the_trees_of_squared_error_whatever_the_weights(function):
    for weight in (None, "w"):
        expected = fb.fit(ROWS, "amount", objective="reg:squarederror", weight=weight, **OPTIONS)
        assert fb.fit(ROWS, "amount", objective=function, weight=weight, **OPTIONS).trees.equals(expected.trees)


def test_a_form_of_lightgbm_is_told_by_the_names_of_its_parameters():
    expected = fb.fit(ROWS, "amount", objective="reg:squarederror", **OPTIONS)
    assert fb.fit(ROWS, "amount", objective=squared_of_lightgbm, **OPTIONS).trees.equals(expected.trees)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_passes_all_rows_in_their_order(engine, queries, monkeypatch):
    monkeypatch.setattr(memory_engine, "MIN_SORTED", 10)  # or so few rows would keep their order anyway
    expected = _trees_of(relative)
    for more in ({}, {"subsample": 0.8}, {"tree_method": "approx"}, {"num_parallel_tree": 2}):
        model = fb.fit(ROWS, "amount", objective=relative, engine=engine, **OPTIONS | more)
        assert more or model.trees.equals(expected)
        assert model.to_json() == fb.fit(ROWS, "amount", objective=relative, **OPTIONS | more).to_json()


def test_rows_of_a_relation_and_in_shards_are_passed_whole(queries):
    expected = _trees_of(relative)
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        assert fb.fit(con.table("rows"), "amount", objective=relative, **OPTIONS).trees.equals(expected)
        assert con.execute("SELECT COUNT(*) FROM duckdb_tables() WHERE temporary").fetchone() == (0,)
    assert fb.fit(ROWS, "amount", objective=relative, shards=3, **OPTIONS).trees.equals(expected)


def test_a_connection_that_reads_no_arrays_says_so(queries):
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        con.execute("SET python_enable_replacements = false")
        with pytest.raises(fb.ParameterError, match="SET python_enable_replacements = true"):
            fb.fit(con.table("rows"), "amount", objective=squared, **OPTIONS)
        assert con.execute("SELECT COUNT(*) FROM duckdb_tables() WHERE temporary").fetchone() == (0,)


def test_rows_in_files_are_passed_whole(tmp_path, monkeypatch):
    ROWS.write_parquet(tmp_path / "rows.parquet", row_group_size=100)
    monkeypatch.setattr(storage, "available_memory", lambda: 0)
    monkeypatch.setattr(external_memory, "ROWS", 64)
    monkeypatch.setattr(Storage, "room", 2000)
    stored = []
    keep = ExternalMemoryEngine.store_arrays
    monkeypatch.setattr(ExternalMemoryEngine, "store_arrays", lambda *args: (stored.append(args), keep(*args)))
    model = fb.fit(tmp_path / "rows.parquet", "amount", objective=relative, shards=2, **OPTIONS)
    assert model.trees.equals(_trees_of(relative))
    assert len(stored) == 2 * OPTIONS["n_estimators"]


def _trees_of(function) -> pl.DataFrame:
    return fb.fit(ROWS, "amount", objective=function, tree_method="hist", **OPTIONS).trees


def test_an_objective_of_xgboost_gives_its_trees():
    def robust(predt: np.ndarray, dtrain: xgboost.DMatrix):
        residual = predt - dtrain.get_label()
        return np.tanh(residual), 1.1 - np.tanh(residual) ** 2

    settings = {"max_depth": 3, "eta": 0.3, "tree_method": "exact", "base_score": 0.25}
    booster = xgboost.train(settings, xgboost.DMatrix(X, AMOUNT), 6, obj=robust)
    model = fb.fit(ROWS, "amount", objective=robust, tree_method="exact",
                   **OPTIONS | {"n_estimators": 6, "base_score": 0.25})  # fmt: skip
    theirs = booster.trees_to_dataframe()
    assert model.trees.filter(pl.col("feature").is_not_null()).height == (theirs["Feature"] != "Leaf").sum() > 20
    np.testing.assert_allclose(model.predict(ROWS), booster.predict(xgboost.DMatrix(X)), atol=1e-5)


def test_a_start_without_a_base_score_is_a_newton_step():
    model = fb.fit(ROWS, "amount", objective=squared, weight="w", **OPTIONS | {"base_score": None})
    assert model.base_margin == pytest.approx(np.average(AMOUNT, weights=WEIGHT), rel=1e-12)


def test_leaves_of_rows_without_hessian_add_nothing():
    def of_half(label, margin):
        counted = np.arange(N) % 2 == 0
        return (margin - label) * counted, counted

    half = fb.fit(ROWS, "amount", objective=of_half, **OPTIONS)
    weighted = ROWS.with_columns(w=pl.Series((np.arange(N) % 2 == 0) * 1.0))
    expected = fb.fit(weighted, "amount", weight="w", objective="reg:squarederror", **OPTIONS)
    np.testing.assert_allclose(half.predict(ROWS), expected.predict(ROWS), rtol=1e-12)


# --- links, classes, targets ------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("target", "function", "link", "named"), [
    ("yes", logistic, "logit", "binary:logistic"),
    ("late", logistic, "logit", "binary:logistic"),
    ("name", softmax, "softmax", "multi:softprob"),
    ("grade", softmax, "softmax", "multi:softprob"),
])  # fmt: skip
def test_links_make_classes_whose_model_is_loaded_without_the_function(target, function, link, named, tmp_path):
    objective = fb.Objective(function, link=link)
    model = fb.fit(ROWS, target, objective=objective, valid=0.2, **OPTIONS)
    expected = fb.fit(ROWS, target, objective=named, valid=0.2, **OPTIONS)
    np.testing.assert_allclose(model.predict(ROWS).to_numpy(), expected.predict(ROWS).to_numpy(), rtol=1e-9)
    assert model.history.columns == expected.history.columns
    np.testing.assert_allclose(model.history.to_numpy(), expected.history.to_numpy(), rtol=1e-9)
    model.save(tmp_path / "model.json")
    loaded = fb.load(tmp_path / "model.json")
    assert loaded == model == pickle.loads(pickle.dumps(model))
    for output in ("class", "probability"):
        ours, theirs = loaded.predict(ROWS, output=output), expected.predict(ROWS, output=output)
        assert output == "probability" or ours.equals(theirs)
        assert ours.dtype == theirs.dtype
    assert loaded.objective == f"python:{function.__name__}"
    assert loaded.evaluate(ROWS, target).metrics["metric"].to_list() == (
        expected.evaluate(ROWS, target).metrics["metric"].to_list()
    )


def test_a_link_of_sql_or_of_a_name_is_that_of_the_predictions_everywhere():
    def poisson(label, margin):
        return np.exp(margin) - label, np.exp(margin)

    rows = ROWS.with_columns(count=pl.col("grade") * 3.0)
    named, own = (
        fb.fit(rows, "count", objective=fb.Objective(poisson, link=link), **OPTIONS | {"base_score": None})
        for link in ("log", "EXP(margin)")
    )
    margins = named.predict(rows, output="margin").to_numpy()
    for model in (named, own):
        np.testing.assert_allclose(model.predict(rows), np.exp(margins), rtol=1e-12)
        np.testing.assert_allclose(rows.select(model.expr()).to_series(), np.exp(margins), rtol=1e-12)
        scored = duckdb.sql(f"SELECT {model.sql()} AS prediction FROM rows").pl()
        np.testing.assert_allclose(scored["prediction"].sort(), np.sort(np.exp(margins)), rtol=1e-12)
    start = fb.fit(rows, "count", objective=fb.Objective(poisson, link="log"), **OPTIONS | {"base_score": 2.0})
    assert start.base_margin == pytest.approx(np.log(2.0))


def test_a_named_link_of_an_objective_in_sql_is_that_of_classes_too():
    sigmoid = "1 / (1 + EXP(-margin))"
    own = fb.Objective(f"{sigmoid} - label", f"GREATEST({sigmoid} * (1 - {sigmoid}), 1e-16)", "logit")
    model = fb.fit(ROWS, "yes", objective=own, **OPTIONS)
    expected = fb.fit(ROWS, "yes", objective="binary:logistic", **OPTIONS)
    np.testing.assert_allclose(model.predict(ROWS), expected.predict(ROWS), rtol=1e-9)
    assert model.predict(ROWS, output="class").equals(expected.predict(ROWS, output="class"))


def test_several_targets_are_columns_of_one_array(tmp_path):
    shapes = []

    def of_both(label, margin):
        shapes.append((label.shape, margin.shape))
        return squared(label, margin)

    targets = ["amount", "other"]
    model = fb.fit(ROWS, targets, objective=of_both, **OPTIONS)
    expected = fb.fit(ROWS, targets, objective="reg:squarederror", **OPTIONS)
    assert model.trees.equals(expected.trees)
    assert set(shapes) == {((N, 2), (N, 2))}
    model.save(tmp_path / "model.json")
    assert fb.load(tmp_path / "model.json").predict(ROWS).equals(expected.predict(ROWS))


def test_estimators_take_functions_and_the_link_of_their_classes():
    expected = fb.FrameBoostClassifier(n_estimators=4).fit(X, CLASS).predict_proba(X)
    classifier = fb.FrameBoostClassifier(objective=softmax, n_estimators=4, base_score=0.5).fit(X, CLASS)
    assert classifier.predict_proba(X).shape == expected.shape
    two = fb.FrameBoostClassifier(objective=logistic, n_estimators=4, base_score=0.5).fit(X, AMOUNT > 1)
    named = fb.FrameBoostClassifier(objective="binary:logistic", n_estimators=4, base_score=0.5).fit(X, AMOUNT > 1)
    np.testing.assert_allclose(two.predict_proba(X), named.predict_proba(X), rtol=1e-9)
    regressor = fb.FrameBoostRegressor(objective=squared, n_estimators=4).fit(X, AMOUNT)
    named = fb.FrameBoostRegressor(n_estimators=4).fit(X, AMOUNT)
    np.testing.assert_allclose(regressor.predict(X), named.predict(X), rtol=1e-12)


def test_folds_and_continued_fits_take_functions():
    mean = fb.fit(ROWS, "amount", objective=squared, folds=3, **OPTIONS)
    expected = fb.fit(ROWS, "amount", objective="reg:squarederror", folds=3, **OPTIONS)
    assert mean.trees.equals(expected.trees)
    more = fb.fit(ROWS, "amount", objective=squared, init_model=mean[:2], **OPTIONS)
    assert more.n_rounds == 6
    with pytest.raises(fb.ParameterError, match="'python:squared' and its parameters, not with 'reg:squarederror'"):
        fb.fit(ROWS, "amount", init_model=mean, **OPTIONS)


def test_a_model_of_a_function_is_not_refitted():
    model = fb.fit(ROWS, "amount", objective=squared, **OPTIONS)
    with pytest.raises(fb.ParameterError, match="was trained with an objective that is a Python function"):
        model.refit(ROWS, "amount")


# --- what is refused --------------------------------------------------------------------------------------------------


@cases(("function", "error", "message"), [
    (lambda label, margin: None, fb.ParameterError, "two arrays of shape (400,), not NoneType"),
    (lambda label, margin: (margin,) * 3, fb.ParameterError, "two arrays of shape (400,), not 3 values"),
    (lambda label, margin: (margin, 1.0), fb.ParameterError, "the hessian has shape ()"),
    (lambda label, margin: (margin[1:], margin), fb.ParameterError, "the gradient has shape (399,)"),
    (lambda label, margin: (margin[:, None] * [[1, 1]], margin), fb.ParameterError, "the gradient has shape (400, 2)"),
    (lambda label, margin: (margin.astype(str), margin), fb.ParameterError, "the gradient has dtype <U32, which is"),
    (lambda label, margin: (margin * np.nan, margin), fb.DataError,
     "the gradient of objective 'python:<lambda>' is nan in row 0 (from 0), and not finite in 400 of 400 rows"),
    (lambda label, margin: (margin, -1.0 * (np.arange(N) == 7)), fb.DataError,
     "is -1 in row 7 (from 0), and not finite and 0 or more in 1 of 400 rows"),
    (lambda label, margin: (margin, np.where(np.arange(N) > 397, np.inf, 1.0)), fb.DataError,
     "is inf in row 398 (from 0), and not finite and 0 or more in 2 of 400 rows"),
    (lambda margin: None, fb.ParameterError, "takes (margin); write it as f(label, margin) or f(label, margin, wei"),
    (lambda preds, labels: None, fb.ParameterError, "takes (preds, labels); write it as f(label, margin)"),
    (lambda a, b, c, d: None, fb.ParameterError, "takes (a, b, c, d); write it as f(label, margin)"),
    (lambda a, b, *, alpha: None, fb.ParameterError, "takes (a, b, *, alpha)"),
])  # fmt: skip
def test_what_a_function_takes_and_returns_is_checked(function, error, message):
    with pytest.raises(error, match=re.escape(message)):
        fb.fit(ROWS, "amount", objective=function, **OPTIONS)


def test_what_a_function_raises_is_raised_as_it_is():
    class OwnError(Exception):
        pass

    raised = OwnError("whatever it is")

    def fails(label, margin):
        raise raised

    for engine in ENGINES:
        with pytest.raises(OwnError) as caught:
            fb.fit(ROWS, "amount", objective=fails, engine=engine, **OPTIONS)
        assert caught.value is raised


def test_arrays_are_the_functions_to_write_to():
    def rude(label, margin, weight):
        gradient = (margin - label) * weight
        label[:], margin[:] = 7.0, 7.0
        return gradient, weight

    polite = fb.fit(ROWS, "amount", objective=squared, weight="w", **OPTIONS)
    assert fb.fit(ROWS, "amount", objective=rude, weight="w", **OPTIONS).trees.equals(polite.trees)


@cases(("options", "message"), [
    ({"objective": fb.Objective(squared), "target": "name"}, "set its link, 'logit' or 'softmax'"),
    ({"objective": squared, "checkpoint": "never.written"}, "checkpoint can't be combined with an objective that is"),
    ({"objective": fb.Objective(logistic, link="logit"), "target": "name"}, "is for two classes; target 'name' has 3"),
    ({"objective": fb.Objective(logistic, link="logit"), "target": "amount"}, "holds other values than 0 and 1"),
])  # fmt: skip
def test_what_does_not_go_with_a_function_is_refused(options, message):
    with pytest.raises(fb.FrameboostError, match=re.escape(message)):
        fb.fit(ROWS, **{"target": "amount"} | OPTIONS | options)
    assert not Path("never.written").exists()


@cases(("arguments", "message"), [
    ((squared, "1 + margin"), "hessian can't be combined with a function"),
    (("margin - label", "1", "softmax"), "link='softmax' is for a function"),
    ((squared, "1", ["margin"]), "link must be a SQL expression, a string, not ['margin']"),
    ((squared, "1", "logits"), "logits"),
])  # fmt: skip
def test_an_objective_is_checked_when_it_is_made(arguments, message):
    with pytest.raises(fb.ParameterError, match=re.escape(message)):
        fb.Objective(*arguments)


def test_engines_whose_rows_are_elsewhere_refuse_functions_before_any_work():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        table = fb.table(con, "rows", dialect="duckdb")
        for options in ({"objective": squared}, {"eval_metric": lambda label, prediction: 0.0}):
            with pytest.raises(fb.ParameterError, match="is a Python function, which engine 'sql' can't call"):
                fb.fit(table, "amount", engine="sql", **OPTIONS | options)
        expected = fb.fit(ROWS, "amount", objective="reg:squarederror", **OPTIONS)
        assert fb.fit(table, "amount", objective=squared, **OPTIONS).trees.equals(expected.trees)


@cases(("function", "takes_weight"), [
    (lambda y_true, y_pred: 0, False),
    (lambda y_true, y_pred, gamma=2.0: 0, False),
    (lambda y_true, y_pred, w: 0, True),
    (lambda y_true, y_pred, anything: 0, True),
    (lambda y_true, y_pred, sample_weight=None: 0, True),
    (lambda predt, dtrain: 0, True),
    (lambda predt, lgb_data: 0, True),
    (np.subtract, False),
])  # fmt: skip
def test_functions_that_are_told_weights_multiply_by_them_themselves(function, takes_weight):
    assert ArrayCall(function, "f", "margin", "number").takes_weight is takes_weight

"""Metrics that are Python functions or scorers of scikit-learn's: their values on the model's own predictions."""

import math
import re
from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pytest
from sklearn import metrics
from sklearn.metrics import make_scorer

import frameboost as fb
from frameboost.engines import query_costs
from frameboost.metrics.functions import function_metric
from frameboost.metrics.metric import larger_is_better
from tests.support.cases import cases
from tests.support.engines import ENGINES

N = 300
RNG = np.random.default_rng(2)


def grades(amounts: pl.Series) -> pl.Series:
    return pl.Series(np.array(["a", "b", "c"])[np.digitize(amounts, [-1, 1])])


ROWS = pl.DataFrame({"x": RNG.normal(size=N), "z": RNG.normal(size=N)}).with_columns(
    amount=pl.col("x") * 2 + pl.col("z"), w=pl.Series(RNG.integers(1, 4, N).astype(float)),
    held=pl.Series(np.arange(N) % 3 == 0),
).with_columns(
    late=pl.col("amount") > 0.5, grade=pl.col("amount").map_batches(grades)
)  # fmt: skip
HELD = ROWS.filter("held")
OPTIONS = {"features": ["x", "z"], "valid": "held", "n_estimators": 3, "max_depth": 2}


def bias(label, prediction):
    return float(np.mean(prediction - label))


def largest(y_true, y_pred, sample_weight):
    return "of_lightgbm", float(np.max(sample_weight * (y_true - y_pred))), True


def share_near(predt, dtrain):
    return "of_xgboost", float(np.mean(np.abs(predt - dtrain.get_label()) < 1))


def last(model: fb.Model, name: str) -> float:
    return model.history[f"valid_{name}"][-1]


@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_those_of_the_predictions_in_every_engine(engine, monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)
    functions = [bias, largest, share_near, metrics.mean_absolute_error, "neg_mean_squared_error", "mae"]
    model = fb.fit(ROWS, "amount", weight="w", engine=engine, eval_metric=functions, **OPTIONS)
    label, predicted, weight = HELD["amount"].to_numpy(), model.predict(HELD).to_numpy(), HELD["w"].to_numpy()
    off = predicted - label
    assert last(model, "bias") == pytest.approx(off.mean())
    assert last(model, "of_lightgbm") == pytest.approx((-off * weight).max())
    assert last(model, "of_xgboost") == pytest.approx((np.abs(off) < 1).mean())
    assert last(model, "mean_absolute_error") == pytest.approx(np.average(np.abs(off), weights=weight))
    assert last(model, "mae") == pytest.approx(np.average(np.abs(off), weights=weight))
    assert last(model, "neg_mean_squared_error") == pytest.approx(-np.average(off**2, weights=weight))


@cases(("target", "names"), [
    ("late", ["accuracy", "roc_auc", "neg_log_loss", "f1", "average_precision", "neg_brier_score"]),
    ("grade", ["accuracy", "neg_log_loss", "f1_macro", "roc_auc_ovr"]),
    ("amount", ["r2", "neg_median_absolute_error", "neg_max_error"]),
])  # fmt: skip
def test_scorers_are_those_of_an_estimator(target, names):
    model = fb.fit(ROWS, target, eval_metric=names, **OPTIONS)
    X, labels = HELD["x", "z"].to_numpy(), HELD[target].to_numpy()
    training = ROWS.filter(~pl.col("held"))
    kind = fb.FrameBoostRegressor if target == "amount" else fb.FrameBoostClassifier
    estimator = kind(n_estimators=3, max_depth=2).fit(training["x", "z"].to_numpy(), training[target].to_numpy())
    for name in names:
        expected = metrics.get_scorer(name)(estimator, X, labels)
        assert last(model, name) == pytest.approx(expected, rel=1e-9), name


def test_scorers_that_are_made_have_the_keywords_and_the_sign_of_theirs():
    scorers = [make_scorer(metrics.fbeta_score, beta=2), make_scorer(metrics.zero_one_loss, greater_is_better=False)]
    model = fb.fit(ROWS, "late", eval_metric=scorers, **OPTIONS)
    label, predicted = HELD["late"].to_numpy(), model.predict(HELD, output="class").to_numpy()
    assert last(model, "fbeta_score") == pytest.approx(metrics.fbeta_score(label, predicted, beta=2))
    assert last(model, "neg_zero_one_loss") == pytest.approx(-metrics.zero_one_loss(label, predicted))


@pytest.mark.slow
@cases(("metric", "maximize"), [
    (bias, False), (metrics.mean_absolute_error, False), (metrics.r2_score, True), ("neg_log_loss", True),
    (make_scorer(metrics.mean_absolute_error, greater_is_better=False), True),
    (fb.Metric("m", bias, maximize=True), True), (fb.Metric("m", metrics.r2_score), False), (largest, True),
])  # fmt: skip
def test_early_stopping_knows_which_way_is_better(metric, maximize):
    target = "late" if metric == "neg_log_loss" else "amount"
    model = fb.fit(ROWS, target, weight="w", eval_metric=metric, early_stopping_rounds=30,
                   **OPTIONS | {"n_estimators": 30})  # fmt: skip
    values = model.history[:, -1].to_numpy()
    best = values.max() if maximize else values.min()
    assert model.best_score == best
    table = fb.cv(ROWS, target, folds=2, weight="w", eval_metric=metric, early_stopping_rounds=30, features=["x", "z"],
                  n_estimators=10)  # fmt: skip
    means = table[f"valid_{model.history.columns[-1].removeprefix('valid_')}_mean"]
    assert means[-1] == (means.max() if maximize else means.min())


def gained(*, says_so):
    """Return a function that was never called, whose larger values are better, in LightGBM's form or plain."""

    def r2(label, prediction):
        value = 1 - float(np.mean((label - prediction) ** 2))
        return ("r2", value, True) if says_so else value

    return r2


@dataclass
class Gained:  # which can't be hashed
    scale: float

    def __call__(self, label, prediction):
        return "Gained", 1 - self.scale * float(np.mean((label - prediction) ** 2)), True


KNOWN = fb.Metric("r2", gained(says_so=False), maximize=True)
STOPS = OPTIONS | {"n_estimators": 30, "early_stopping_rounds": 3}


@cases("metric", [gained(says_so=True), fb.Metric("r2", gained(says_so=True)), Gained(1.0)])
def test_early_stopping_knows_it_from_the_first_call(metric):
    expected = fb.fit(ROWS, "amount", eval_metric=KNOWN, **STOPS)
    assert expected.n_rounds > 3
    assert fb.fit(ROWS, "amount", eval_metric=metric, **STOPS).best_score == expected.best_score


def test_a_checkpoint_is_read_before_any_call(tmp_path):
    rounds = {"checkpoint": tmp_path / "rounds", "checkpoint_every": 1}
    expected = fb.fit(ROWS, "amount", eval_metric=KNOWN, **STOPS)
    for _ in range(2):
        model = fb.fit(ROWS, "amount", eval_metric=gained(says_so=True), **rounds, **STOPS)
        assert (model.best_score, model.sha256) == (expected.best_score, expected.sha256)


@pytest.mark.filterwarnings("ignore:eval_metric")
def test_a_history_has_the_name_that_a_function_returns(tmp_path):
    hostile = "a 'b' \"c\", d_e\n"

    def named(label, prediction):
        return hostile, float(np.mean(np.abs(label - prediction))), False

    def changing(label, prediction):
        changing.calls += 1
        return f"call {changing.calls}", math.nan, True

    changing.calls = 0
    metrics, columns = ["mae", named, changing], ["round", "valid_mae", f"valid_{hostile}", "valid_call 1"]
    model = fb.fit(ROWS, "amount", eval_metric=metrics, **OPTIONS)
    assert model.history.columns == columns  # the first name is that of all rounds
    assert model.history[f"valid_{hostile}"].to_list() == pytest.approx(model.history["valid_mae"].to_list())
    rounds = {"checkpoint": tmp_path / "rounds", "checkpoint_every": 1, "eval_metric": ["mae", named]}
    fb.fit(ROWS, "amount", **rounds, **OPTIONS | {"n_estimators": 2})
    gone_on = fb.fit(ROWS, "amount", **rounds, **OPTIONS)
    assert gone_on == fb.fit(ROWS, "amount", eval_metric=["mae", named], **OPTIONS)
    assert gone_on.history.columns == columns[:-1] and len(gone_on.history) == 3
    chosen = fb.fit(ROWS, "amount", eval_metric=[fb.Metric("own", named), "r2"], **OPTIONS)
    assert chosen.history.columns == ["round", "valid_own", "valid_r2"]
    validated = fb.cv(
        ROWS, "amount", folds=2, eval_metric=named, features=["x"], n_estimators=9, early_stopping_rounds=1
    )
    assert validated.columns[-2:] == [f"valid_{hostile}_mean", f"valid_{hostile}_std"]

    def other(label, prediction):
        return hostile, 0.0

    with pytest.raises(fb.ParameterError, match=r"^the history would have two columns"):
        fb.fit(ROWS, "amount", eval_metric=[named, other], **OPTIONS)


@pytest.mark.slow
def test_what_several_calls_have_said_is_known_after_all_of_them():
    model, both = fb.fit(ROWS, "amount", **OPTIONS), (KNOWN, gained(says_so=True))
    importances = [model.importance("permutation", ROWS, "amount", eval_metric=each) for each in both]
    assert importances[0].equals(importances[1])
    assert importances[0]["importance"].min() > 0
    columns = {"features": ["x", "z"], "early_stopping_rounds": 3}
    tables = [fb.cv(ROWS, "amount", folds=2, n_estimators=20, eval_metric=each, **columns) for each in both]
    assert tables[0].equals(tables[1])
    assert len(tables[0]) > 3
    models = [fb.auto(ROWS, "amount", features=["x", "z"], quality=1, eval_metric=each, verbose=False) for each in both]
    assert models[0].sha256 == models[1].sha256


@cases(("name", "is_larger"), [
    ("neg_log_loss", True), ("accuracy", True), ("r2_score", True), ("r2", True), ("ndcg@5", True), ("auc", True),
    ("rmse", False), ("mean_absolute_error", False), ("log_loss", False), ("of_a_user", False), ("my_score", False),
])  # fmt: skip
def test_charts_and_reports_know_it_by_the_name(name, is_larger):
    assert larger_is_better(name) is is_larger


def test_evaluate_takes_functions_of_frames_relations_and_groups():
    model = fb.fit(ROWS, "amount", **OPTIONS)
    functions = [bias, "neg_mean_absolute_error"]
    off = model.predict(ROWS).to_numpy() - ROWS["amount"].to_numpy()
    expected = [off.mean(), -np.abs(off).mean()]
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows AS SELECT * FROM ROWS")
        for data in (ROWS, con.table("rows")):
            evaluated = model.evaluate(data, "amount", eval_metric=functions)
            np.testing.assert_allclose(evaluated.metrics["value"], expected, rtol=1e-9)
            groups = model.evaluate(data, "amount", by="held", eval_metric=bias).metrics
            held = ROWS["held"].to_numpy()
            np.testing.assert_allclose(groups.sort("held")["value"], [off[~held].mean(), off[held].mean()], rtol=1e-9)


@pytest.mark.slow
def test_auto_may_decide_by_a_function():
    rows = ROWS.select("x", "z", "amount")
    by_score, by_error = (fb.auto(rows, "amount", eval_metric=by, quality=1) for by in (metrics.r2_score, "rmse"))
    assert by_score.to_json() == by_error.to_json()


@cases(("metric", "message"), [
    (lambda label, prediction: "much", "eval_metric '<lambda>' must return a number, or a tuple (name, value)"),
    (lambda label, prediction: ("name", None), "must return a number, or a tuple"),
    (lambda label: 0, "takes (label); write it as f(label, prediction)"),
    ([bias, bias], "eval_metric has 'bias' 2 times"),
])  # fmt: skip
def test_what_a_metric_takes_and_returns_is_checked(metric, message):
    with pytest.raises(fb.ParameterError, match=re.escape(message)):
        fb.fit(ROWS, "amount", eval_metric=metric, **OPTIONS)


def test_what_a_metric_raises_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        fb.fit(ROWS, "amount", eval_metric=lambda label, prediction: 1 / 0, **OPTIONS)


def test_an_error_of_a_metric_of_classes_says_what_it_was_called_with():
    with pytest.raises(ValueError, match="mix of binary and continuous") as error:
        fb.fit(ROWS, "late", eval_metric=metrics.f1_score, **OPTIONS)
    assert (
        "eval_metric 'f1_score' is called with classes by number, from 0, as labels and their prob"
        in error.value.__notes__[0]
    )


def test_queries_in_a_database_refuse_functions():
    model = fb.fit(ROWS, "amount", **OPTIONS)
    with pytest.raises(
        fb.ParameterError, match="'bias' is a Python function, which a query can't call; write it as SQL"
    ):
        model.database("duckdb").evaluate_query("rows", "amount", eval_metric=bias)


def test_a_function_without_a_name_has_that_of_its_class():
    class Distance:
        def __call__(self, label, prediction):
            return 0.0

    assert function_metric(Distance()).name == "Distance"


@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_the_score_of_an_estimator_is_its_metric(kind):
    """As scikit-learn's `check_scoring` gives it to estimators without a `scoring`."""
    from sklearn.metrics import check_scoring

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200)
    y = np.where(y > 0, "high", "low") if kind == "Classifier" else y
    estimator = getattr(fb, f"FrameBoost{kind}")(n_estimators=3)
    estimator.set_params(eval_metric=check_scoring(estimator)).fit(X, y, eval_set=[(X, y)])
    (values,) = estimator.evals_result_["validation_0"].values()
    assert values[-1] == pytest.approx(estimator.score(X, y), rel=1e-12)

"""Metrics: equal to XGBoost's, and the same in all engines; a user's own evaluates its SQL aggregate."""

import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.metrics.metric import METRICS, get_metrics
from frameboost.parameters.parameters import Parameters
from tests.support.cases import cases, some_pairs
from tests.support.engines import ENGINES
from tests.support.losses import RENEWED, fit, loss_of
from tests.support.objectives import CASES, FEATURES, labelled_rows, matrix, train_xgboost

OF_OBJECTIVE = {
    "reg:squarederror": ["rmse", "mae", "mape", "mphe"],
    "reg:squaredlogerror": ["rmsle", "rmse"],
    "reg:logistic": ["logloss", "rmse", "auc", "aucpr"],
    "reg:pseudohubererror": ["mphe"],
    "reg:absoluteerror": ["mae"],
    "reg:quantileerror": ["quantile"],
    "binary:logistic": ["logloss", "error", "error@0.7", "auc", "aucpr", "rmse", "mae"],
    "binary:logitraw": ["auc", "aucpr"],
    "binary:hinge": ["error", "auc", "aucpr"],
    "count:poisson": ["poisson-nloglik", "rmse"],
    "reg:gamma": ["gamma-nloglik", "gamma-deviance", "mape"],
    "reg:tweedie": ["tweedie-nloglik@1.25", "tweedie-nloglik@1.75"],
    "multi:softprob": ["mlogloss", "merror", "auc", "aucpr"],
    "multi:softmax": ["mlogloss", "merror", "auc", "aucpr"],
    "survival:cox": ["cox-nloglik"],
    "survival:aft": ["aft-nloglik", "interval-regression-accuracy"],
}
VARIED = ["reg:quantileerror [0.125, 0.5, 0.875]", "count:poisson"]
TIMES = pl.DataFrame({"x": [1, 1, 2, 2, 3, 3], "low": [1.0, 2, 0, 3, 4, 0], "high": [1.0, None, 2, 5, math.inf, 1]})


@pytest.mark.slow
@cases(("case", "weight"), some_pairs(CASES, [None, "w"]))
def test_metrics_are_xgboosts(case, weight):
    rows, names = labelled_rows(), OF_OBJECTIVE[case.objective]
    # Values of training: between two of them thresholds may differ.
    held_out = labelled_rows(200, seed=9).with_columns(rows.select(FEATURES).sample(200, seed=1))
    # A stump a round: many rows have the same score.
    options = {"tree_method": "hist" if case.objective in RENEWED else "exact", "max_bin": 1000, "max_depth": 2}
    train, valid = matrix(case, rows, weight), matrix(case, held_out, weight)
    watched = [(train, "train"), (valid, "valid")]
    _, theirs = train_xgboost(case, train, 3, watched, eval_metric=names, **options)
    options |= {"weight": weight, "eval_metric": names, "n_estimators": 3, "train_metrics": True}
    ours = fit(case, rows, valid=held_out, **options).history
    assert ours.columns == ["round", *(f"{of}_{name}" for of in ("train", "valid") for name in names)]
    assert ours["round"].to_list() == [1, 2, 3]
    for of in ("train", "valid"):
        for name in names:
            np.testing.assert_allclose(ours[f"{of}_{name}"], theirs[of][name], rtol=2e-6, atol=1e-6, err_msg=name)


def test_every_metric_is_tested_and_documented():
    assert {name.partition("@")[0] for names in OF_OBJECTIVE.values() for name in names} == (
        # tests/losses/test_expectile.py, test_lightgbm.py and test_distributions.py, test_lightgbm_metrics.py
        set(METRICS)
        - {"expectile", "huber", "fair", "l2", "auc_mu", "normal-nloglik", "lognormal-nloglik", "negbinomial-nloglik"}
    )
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)", page, re.M)) == set(METRICS)
    up = set(re.findall(r"^\| `([\w-]+)` ↑", page, re.M))
    losses = {case.objective: loss_of(case) for case in CASES}
    settings = {name: item.default for name, item in Parameters.__dataclass_fields__.items()}
    for objective, names in OF_OBJECTIVE.items():
        for metric in get_metrics(names, losses[objective], settings):
            assert metric.maximize == (metric.name in up)


@pytest.mark.slow  # `test_same_in_engines.py` has other objectives
@cases("case", [c for c in CASES if (c.objective.startswith("survival:") and not c.parameters) or str(c) in VARIED])
def test_engines_measure_alike(case):
    rows, held_out = labelled_rows(), labelled_rows(100, seed=9)
    options = {"weight": "w", "eval_metric": OF_OBJECTIVE[case.objective], "n_estimators": 1, "max_depth": 1}
    one, other = (fit(case, rows, valid=held_out, engine=e, **options).history for e in ("numba", "duckdb"))
    np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol=1e-11)


@pytest.mark.slow
def test_the_default_metric_is_the_objectives_own():
    for case in CASES:
        rows = labelled_rows()
        ours = fit(case, rows, valid=rows, n_estimators=1).history.columns[1]
        _, theirs = train_xgboost(case, matrix(case, rows), 1, [(matrix(case, rows), "train")], tree_method="hist")
        assert [ours] == [f"valid_{name}" for name in theirs["train"]]


def test_the_raw_margins_log_loss_is_that_of_the_probability():
    """XGBoost 3.2 takes the margin of binary:logitraw itself for the probability."""
    rows = labelled_rows()
    options = {"features": FEATURES, "n_estimators": 2, "eval_metric": ["logloss", "error@0.25", "rmse"]}
    raw = fb.fit(rows, "late", objective="binary:logitraw", base_score=0.0, **options).history
    assert raw.equals(fb.fit(rows, "late", objective="binary:logistic", base_score=0.5, **options).history)


@pytest.mark.slow
@cases(("name", "engine", "label"), [("auc", "numba", 0.0), ("aucpr", "polars", 0.0), ("aucpr", "duckdb", 1.0)])
def test_a_curve_needs_both_classes(name, engine, label):
    rows = labelled_rows()
    options = {"features": FEATURES, "objective": "binary:logistic", "n_estimators": 1, "engine": engine}
    with pytest.warns(fb.FrameboostWarning, match=f"'{name}' is nan on 'valid'.*rows of each class"):
        model = fb.fit(rows, "late", valid=rows.filter(pl.col("late") == label), eval_metric=name, **options)
    assert math.isnan(model.history[f"valid_{name}"][0])


@pytest.mark.parametrize("engine", ENGINES)
def test_the_factorial_is_right_for_any_count(engine):
    counts = [0, 1, 2, 3, 10, 30, 170, 1000, 1_000_000]
    rows = pl.DataFrame({"x": counts, "y": counts})
    model = fb.fit(rows, "y", objective="count:poisson", n_estimators=1, valid=rows, engine=engine)
    p = model.predict(rows).to_list()
    each = [math.lgamma(y + 1) + mean - y * math.log(mean) for y, mean in zip(counts, p, strict=True)]
    assert model.history["valid_poisson-nloglik"][0] == pytest.approx(np.mean(each), rel=1e-12)


OWN = {
    "SUM(weight * ABS(label - prediction)) / SUM(weight)": lambda y, p, w: np.average(np.abs(y - p), weights=w),
    "sum((label - prediction) * (label - prediction)) / count(*)": lambda y, p, w: np.mean((y - p) ** 2),
    "AVG(label - prediction)": lambda y, p, w: np.mean(y - p),
    "AVG(CASE WHEN label > 1 THEN label - prediction END)": lambda y, p, w: np.mean((y - p)[y > 1]),
    "MAX(ABS(label - prediction))": lambda y, p, w: np.abs(y - p).max(),
    "MIN(margin) - MAX(CASE WHEN label < 0 THEN label ELSE -9 END)": lambda y, p, w: p.min() - y[y < 0].max(),
    "COUNT(*)": lambda y, p, w: len(y),
    "SQRT(SUM(weight)) + 1": lambda y, p, w: np.sqrt(w.sum()) + 1,
    "CASE WHEN AVG(label) > 1e9 THEN 1 ELSE -1 END": lambda y, p, w: -1,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_own_metrics_are_what_they_spell(engine):
    rows = labelled_rows()
    metrics = [fb.Metric(sql, sql) for sql in OWN]
    options = {"features": FEATURES, "weight": "w", "n_estimators": 2, "max_depth": 2, "engine": engine}
    model = fb.fit(rows, "amount", eval_metric=metrics, **options)
    y, w = rows["amount"].to_numpy(), rows["w"].to_numpy()
    for k in (1, 2):
        p = model[:k].predict(rows).to_numpy()
        wanted = {f"train_{sql}": function(y, p, w) for sql, function in OWN.items()}
        assert model.history.row(k - 1, named=True) == pytest.approx({"round": k} | wanted, rel=1e-12)


def test_own_metrics_know_every_prediction_margin_and_bound():
    rows, case = labelled_rows(), next(c for c in CASES if str(c) == "multi:softprob 3")
    third = fb.Metric("third", "AVG(prediction_2 - EXP(margin_2) / (EXP(margin_0) + EXP(margin_1) + EXP(margin_2)))")
    assert fit(case, rows, eval_metric=third, n_estimators=1).history["train_third"][0] == pytest.approx(0, abs=1e-15)
    open_ended = fb.Metric("open", "AVG(CASE WHEN upper IS NULL THEN 1 ELSE 0 END)")
    options = {"objective": "survival:aft", "label_upper_bound": "high", "n_estimators": 1}
    model = fb.fit(TIMES, "low", eval_metric=[open_ended], **options)
    assert model.history["train_open"][0] == 1 / 6  # an infinite bound is a number


@cases(("sql", "message"), [
    ("label", "is not an aggregate; write SUM(...), AVG(...), MIN or MAX"),
    ("1", "is not an aggregate"),
    ("MEDIAN(label)", "is not an aggregate"),
    ("SUM(label", "is not a SQL expression"),
    ("", "is not "),
    (3, "a metric's sql must be a string or a function, not 3"),
    ("COUNT(label)", "counts values; only COUNT(*) can be used"),
    ("COUNT(DISTINCT label)", "counts values; only COUNT(*) can be used"),
    ("MIN(label, 2)", "has an aggregate of something else than one expression"),
    ("SUM(DISTINCT label)", "has an aggregate of something else than one expression"),
    ("SUM(label) + label", "is more than arithmetic over SUM, AVG, MIN, MAX and COUNT(*) over all rows"),
    ("SUM(label) OVER ()", "is more than arithmetic over SUM"),
    ("SUM(label) FILTER (WHERE label > 0)", "is more than arithmetic over SUM"),
    ("SUM(label); DROP TABLE t", "is not one SQL expression"),
])  # fmt: skip
def test_what_is_no_metric_is_refused(sql, message):
    with pytest.raises(fb.ParameterError) as error:
        fb.Metric("own", sql)
    assert message in str(error.value)
    assert "\x1b" not in str(error.value)
    assert "aggregate_0" not in str(error.value)
    for name in ("", 3, None):
        with pytest.raises(fb.ParameterError, match="a metric's name must be a string"):
            fb.Metric(name, "SUM(label)")


@cases(("metric", "objective", "message"), [
    ("rsme", "reg:squarederror", "eval_metric must be an fb.Metric or one of 'rmse', 'rmsle'"),
    (3, "reg:squarederror", "eval_metric must be an fb.Metric or one of 'rmse', 'rmsle'"),
    ([], "reg:squarederror", "eval_metric is an empty list"),
    (["rmse", "rmse"], "reg:squarederror", "eval_metric has 'rmse' 2 times"),
    (["error", "error@0.5"], "binary:logistic", "eval_metric has 'error' 2 times"),
    ("error@", "binary:logistic", "after the @ comes a number, not ''"),
    ("error@high", "binary:logistic", "after the @ comes a number, not 'high'"),
    ("error@nan", "binary:logistic", "after the @ comes a number, not 'nan'"),
    ("error@inf", "binary:logistic", "after the @ comes a number, not 'inf'"),
    ("rmse@2", "reg:squarederror", "eval_metric 'rmse' takes no @, as in 'rmse@2'"),
    ("tweedie-nloglik", "reg:tweedie", "needs a variance power, such as 'tweedie-nloglik@1.5'"),
    ("tweedie-nloglik@1", "reg:tweedie", "the variance power must be greater than 1 and less than 2"),
    ("tweedie-nloglik@2", "reg:tweedie", "the variance power must be greater than 1 and less than 2"),
    ("mlogloss", "binary:logistic", "eval_metric 'mlogloss' is for the multi:* objectives"),
    ("cox-nloglik", "reg:squarederror", "eval_metric 'cox-nloglik' is for objective 'survival:cox'"),
    ("rmse", "multi:softprob", "eval_metric 'rmse' is for one prediction a row; 'multi:softprob' makes 2"),
    ("auc", "survival:cox", "eval_metric 'auc' is for classes, or for one prediction a row, not for 'survival:cox'"),
    ("aucpr", "dist:normal", "eval_metric 'aucpr' is for classes, or for one prediction a row, not for 'dist:normal'"),
    (fb.Metric("own", "SUM(other)"), "reg:squarederror", "uses 'other'; it may use label, weight, margin, prediction"),
    (fb.Metric("own", "SUM(SUM(label))"), "reg:squarederror", "which not every engine has"),
    (fb.Metric("own", "SUM(prediction)"), "multi:softprob", "it may use label, weight, margin_0, margin_1"),
])  # fmt: skip
def test_metrics_that_can_not_be_taken_are_refused(metric, objective, message):
    rows = pl.DataFrame({"x": [1, 2, 3, 4], "y": [1, 0, 1, 1]})
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(rows, "y", objective=objective, eval_metric=metric)
    assert message in str(error.value)


def test_error_at_one_half_is_error():
    rows = labelled_rows()
    options = {"features": FEATURES, "objective": "binary:logistic", "n_estimators": 1}
    assert fb.fit(rows, "late", eval_metric="error@0.5", **options).history.columns == ["round", "train_error"]
    model = fb.fit(rows, "late", eval_metric=["error", "error@0.70", "error@1e-1"], **options)
    assert model.history.columns == ["round", "train_error", "train_error@0.7", "train_error@0.1"]


def test_a_metric_that_yields_no_number_is_refused_or_not_a_number():
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 1.0, 0.0, 1.0]})
    with pytest.raises(fb.ParameterError, match=r"what is aggregated, 'label > 0' is true or false, not a number$"):
        fb.fit(frame, "y", eval_metric=fb.Metric("m", "SUM(label > 0)"), n_estimators=1)
    with pytest.raises(fb.ParameterError, match=r"^metric 'm', 'SUM\(label\) > 0', is true or false, not a number$"):
        fb.Metric("m", "SUM(label) > 0")
    never = fb.Metric("m", "CASE WHEN SUM(label) > 100 THEN 1 END")
    for engine in ("numba", "polars", "duckdb"):
        with pytest.warns(fb.FrameboostWarning, match="'m' is nan on 'train' in round 1$"):
            history = fb.fit(frame, "y", eval_metric=never, n_estimators=1, engine=engine).history
        assert math.isnan(history["train_m"].item())


@pytest.mark.slow
@cases(("objective", "label"), [
    ("reg:squarederror", "late"), ("reg:squarederror", "amount"), ("count:poisson", "count"), ("rank:ndcg", "kind"),
    ("reg:absoluteerror", "amount"),
])  # fmt: skip
def test_areas_of_regressions_and_rankings_are_of_the_positive_labels(objective, label):
    metrics = pytest.importorskip("sklearn.metrics")
    rows = labelled_rows().with_columns(q=pl.int_range(pl.len()) // 10)
    more = {"group": "q"} if objective.startswith("rank") else {"weight": "w"}
    options = {"objective": objective, "features": FEATURES, "eval_metric": ["auc", "aucpr"], "n_estimators": 2} | more
    for engine in ENGINES:
        model = fb.fit(rows, label, train_metrics=True, engine=engine, **options)
        margin, weight = (
            model.predict(rows, "margin").to_numpy(),
            None if "q" in more.values() else rows["w"].to_numpy(),
        )
        expected = metrics.roc_auc_score(rows[label].to_numpy() > 0, margin, sample_weight=weight)
        assert model.history["train_auc"][-1] == pytest.approx(expected, rel=1e-9)
        assert 0 < model.history["train_aucpr"][-1] <= 1


@cases(("objective", "label"), [
    ("reg:squarederror", "amount"), ("binary:logistic", "late"), ("count:poisson", "count"), ("multi:softprob", "kind"),
])  # fmt: skip
def test_training_rows_alone_have_the_metric_of_the_objective(objective, label):
    """Without held-out rows and ``eval_metric``, too; its last value is that of the trained model."""
    rows = labelled_rows()
    for engine in ENGINES:
        options = {"objective": objective, "features": FEATURES, "n_estimators": 2, "engine": engine, "verbose": False}
        model, silent = fb.fit(rows, label, train_metrics=True, **options), fb.fit(rows, label, **options)
        name, value = model.evaluate(rows, label).metrics.row(0)[-2:]
        assert model.history.columns == ["round", f"train_{name}"]
        assert model.history[-1, 1] == pytest.approx(value, rel=1e-12)
        assert model == silent
        assert silent.history.columns == ["round"]


@cases(("objective", "alpha"), [
    ("reg:squarederror", 0.3), ("reg:absoluteerror", 0.9), ("count:poisson", 0.2), ("reg:quantileerror", 0.7),
])  # fmt: skip
def test_the_quantile_of_any_objective_is_that_of_quantile_alpha(objective, alpha):
    rng = np.random.default_rng(6)
    rows = pl.DataFrame({"x": rng.normal(size=90), "w": rng.uniform(0.5, 2.0, 90)})
    rows = rows.with_columns(y=(pl.col("x") * 2).exp())
    model = fb.fit(
        rows, "y", weight="w", objective=objective, quantile_alpha=alpha, eval_metric="quantile", n_estimators=3,
        valid={"held": rows},
    )  # fmt: skip
    off = rows["y"].to_numpy() - model.predict(rows).to_numpy()
    expected = np.average(np.where(off >= 0, alpha, alpha - 1) * off, weights=rows["w"].to_numpy())
    assert model.history["held_quantile"][-1] == pytest.approx(expected)
    ((_, evaluated),) = model.evaluate(rows, "y", weight="w", eval_metric="quantile").metrics.rows()
    assert evaluated == pytest.approx(expected)
    if objective != "reg:quantileerror":
        with pytest.raises(
            fb.ParameterError, match=r"^eval_metric 'quantile' of several quantile_alpha is for objective"
        ):
            fb.fit(rows, "y", objective=objective, quantile_alpha=[0.2, 0.8], eval_metric="quantile")

"""Intervals of the differences of two models: each draw's metrics are those of its rows, written out."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.evaluation.bootstrap import compare_models
from frameboost.prediction.predictor import Predictor
from tests.support.cases import cases

N = 120


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    x, z = rng.integers(0, 12, N), rng.integers(0, 6, N)
    y = x + 2 * z + rng.normal(size=N).round(2)
    kind = np.array(["low", "mid", "top"])[(y > 8).astype(int) + (y > 14)]
    return pl.DataFrame({"x": x, "z": z, "y": y, "late": y > 10, "kind": kind, "w": rng.integers(1, 4, N) / 2.0,
                         "relevance": (y > 8).astype(int), "query": rng.integers(0, 9, N)})  # fmt: skip


def pair(rows, target, **options):
    """Return a model of one feature and one of two."""
    shape = {"n_estimators": 3, "max_depth": 2, "learning_rate": 0.5} | options
    return [fb.fit(rows, target, features=features, **shape) for features in (["x"], ["x", "z"])]


def compared(models, rows, target, **options):
    return compare_models(*(Predictor(model.ensemble) for model in models), rows, target, **options)


def draws(resamples, seed=0, n=N):
    random = np.random.default_rng(seed)
    return [random.integers(0, n, n) for _ in range(resamples)]


@pytest.mark.slow
@cases(("target", "weight"), [("y", None), ("late", "w"), ("kind", None)])
def test_each_draw_has_the_metrics_of_its_rows(rows, target, weight):
    models = pair(rows, target)
    found = compared(models, rows, target, weight=weight, resamples=4, seed=5)
    assert "nan" not in str(found.rows())
    for column, model in zip(("first", "second"), models, strict=True):
        metrics = dict(model.evaluate(rows, target, weight=weight).metrics.rows())
        assert found[column].to_list() == [metrics[name] for name in found["metric"]]
    differences = []
    for drawn in draws(4, seed=5):
        first, second = (model.evaluate(rows[drawn], target, weight=weight).metrics for model in models)
        differences.append((second["value"] - first["value"]).to_list()[: len(found)])
    expected = np.quantile(np.array(differences), (0.025, 0.975), axis=0)
    np.testing.assert_allclose(found.select("low", "high").to_numpy().T, expected, rtol=1e-9, atol=1e-12)


def test_queries_are_drawn_as_a_whole(rows):
    models = pair(rows, "relevance", objective="rank:ndcg", group="query")
    found = compared(models, rows, "relevance", group="query", resamples=4, eval_metric=["ndcg@3", "map"])
    differences = []
    for drawn in draws(4, n=9):
        copies = [rows.filter(query=query).with_columns(query=pl.lit(i)) for i, query in enumerate(drawn)]
        options = {"group": "query", "eval_metric": ["ndcg@3", "map"]}
        metrics = [model.evaluate(pl.concat(copies), "relevance", **options).metrics["value"] for model in models]
        differences.append((metrics[1] - metrics[0]).to_list())
    expected = np.quantile(np.array(differences), (0.025, 0.975), axis=0)
    np.testing.assert_allclose(found.select("low", "high").to_numpy().T, expected, rtol=1e-9, atol=1e-12)


def test_what_is_no_mean_over_rows_has_no_interval(rows):
    models = pair(rows.with_columns(pl.col("y").abs() + 1), "y", objective="survival:cox")
    found = compared(models, rows.with_columns(pl.col("y").abs() + 1), "y", resamples=3)
    assert found["metric"].to_list()[0] == "cox-nloglik"
    assert np.isnan(found["low"][0])
    assert np.isfinite(found["difference"][0])


def test_other_metrics_and_no_draws(rows):
    models = pair(rows, "y")
    worst = fb.Metric("worst", "MAX(ABS(label - prediction))")
    mean = fb.Metric("plain mean", "AVG(ABS(label - prediction)) + 0 * COUNT(*)")
    found = compared(models, rows, "y", eval_metric=[worst, mean], resamples=5)
    assert np.isnan(found["low"].to_list()).tolist() == [True, False]
    without = compared(models, rows, "y", resamples=0)
    assert np.isnan(without.select("low", "high").to_numpy()).all()
    with pytest.raises(fb.ParameterError, match="resamples must be an integer from 0 to 100000, not -1"):
        compared(models, rows, "y", resamples=-1)

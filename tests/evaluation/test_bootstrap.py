"""Intervals by the bootstrap, against standard errors that formulas give, and against the metrics of an engine."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.sources import FrameSource
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.evaluation.bootstrap import metric_intervals
from frameboost.evaluation.metrics_by_group import metric_values, scored_columns
from frameboost.metrics.draws import can_be_drawn, of_draws
from frameboost.metrics.metric import define_predictions, define_terms, evaluation_metrics
from frameboost.prediction.predictor import Predictor
from tests.support.cases import cases

RNG = np.random.default_rng(11)
N = 1500
ROWS = pl.DataFrame({"x": RNG.normal(size=N), "who": np.repeat(np.arange(N // 10), 10), "w": RNG.integers(1, 4, N)})
ROWS = ROWS.with_columns(
    y=pl.col("x") + pl.Series(RNG.normal(size=N)),
    own=pl.col("x") + pl.Series(np.repeat(RNG.normal(size=N // 10), 10)),  # the same for each row of a customer
).with_columns(
    late=(pl.col("y") > 0).cast(int), kind=(pl.col("y").clip(-1.9, 1.9) + 2).floor().cast(pl.Int64) % 3,
    rank=pl.col("y").clip(0, 3).floor().cast(pl.Int64),
)  # fmt: skip


def scored(model: fb.Model, *by: str, **roles: str) -> pl.DataFrame:
    return scored_columns(Predictor(model.ensemble), FrameSource(ROWS.lazy()), roles, by)


def intervals(model: fb.Model, *by: str, share: float = 1.0, most_rows: int = 5_000, draws: int = 400, **roles: str):
    rows = scored(model, *by, **roles)
    metrics = evaluation_metrics(model.ensemble.loss, model.ensemble.parameters, None)
    values = dict(model.evaluate(ROWS, roles["label"], group=roles.get("qid")).metrics.rows())
    found = metric_intervals(
        model.ensemble, rows, metrics, values=values, share=share, most_rows=most_rows, draws=draws
    )
    return values, {name: (low, high) for name, low, high in found.rows()}


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fb.fit(ROWS, "y", features=["x"], n_estimators=2, max_depth=2)


def test_the_interval_of_a_mean_is_that_of_its_standard_error(model):
    values, found = intervals(model, label="y")
    error = (ROWS["y"] - model.predict(ROWS)).abs()
    low, high = found["mae"]
    assert low < values["mae"] < high
    assert high - low == pytest.approx(2 * 1.96 * error.std() / N**0.5, rel=0.1)
    residual = ROWS["y"] - model.predict(ROWS)
    of_squares = (residual**2).std() / N**0.5 / (2 * values["rmse"])  # the delta method
    assert found["rmse"][1] - found["rmse"][0] == pytest.approx(2 * 1.96 * of_squares, rel=0.1)
    assert found["r2"][0] < values["r2"] < found["r2"][1]


def test_a_sample_of_the_rows_gives_the_same_width(model):
    _, whole = intervals(model, label="y")
    values, few = intervals(model, label="y", most_rows=500)
    for name in whole:
        assert few[name][1] - few[name][0] == pytest.approx(whole[name][1] - whole[name][0], rel=0.25)
        assert few[name][0] < values[name] < few[name][1]
    _, quarter = intervals(model, label="y", share=0.25)  # of rows that are a quarter of all
    assert quarter["mae"][1] - quarter["mae"][0] == pytest.approx((whole["mae"][1] - whole["mae"][0]) / 2, rel=1e-9)


def test_rows_of_a_group_are_drawn_together():
    model = fb.fit(ROWS, "own", features=["x"], n_estimators=2, max_depth=2)
    _, by_row = intervals(model, label="own")
    _, by_group = intervals(model, "who", label="own")
    error = ROWS.select("who", error=(pl.col("own") - model.predict(ROWS)).abs()).group_by("who").mean()["error"]
    width = 2 * 1.96 * error.std() / len(error) ** 0.5
    assert by_group["mae"][1] - by_group["mae"][0] == pytest.approx(width, rel=0.15)
    assert by_row["mae"][1] - by_row["mae"][0] < 0.6 * width


@pytest.mark.slow
def test_queries_are_drawn_whole():
    model = fb.fit(ROWS, "rank", features=["x"], group="who", objective="rank:ndcg", n_estimators=1, max_depth=2)
    values, found = intervals(model, draws=30, label="rank", qid="who")
    gains = ROWS.select("who", gain=2.0 ** pl.col("rank") - 1, score=model.predict(ROWS)).with_row_index()
    discounts = 1 / np.log2(np.arange(2, 7))

    def of_order(*by: str) -> np.ndarray:
        first = gains.sort("who", *by, descending=[False, *[name != "index" for name in by]]).group_by("who").head(5)
        return first.sort("who", maintain_order=True)["gain"].to_numpy().reshape(-1, 5) @ discounts

    best = of_order("gain")
    queries = np.where(best > 0, of_order("score", "index") / np.maximum(best, 1e-9), 1.0)
    assert values["ndcg@5"] == pytest.approx(queries.mean(), rel=1e-9)
    low, high = found["ndcg@5"]
    assert low < values["ndcg@5"] < high
    assert high - low == pytest.approx(2 * 1.96 * np.std(queries, ddof=1) / (N / 10) ** 0.5, rel=0.4)


def test_one_row_has_no_interval(model):
    one = scored(model, label="y")[:1]
    metrics = evaluation_metrics(model.ensemble.loss, model.ensemble.parameters, ["rmse"])
    assert metric_intervals(model.ensemble, one, metrics, values={"rmse": 1.0}).rows() == [("rmse", None, None)]


@cases("target, objective", [("y", "reg:squarederror"), ("late", "binary:logistic"), ("kind", "multi:softprob")])
def test_draws_have_the_metrics_of_rows_that_are_repeated(target, objective):
    model = fb.fit(ROWS, target, features=["x"], objective=objective, n_estimators=2, max_depth=2)
    rows = scored(model, label=target, weight="w")
    metrics = evaluation_metrics(model.ensemble.loss, model.ensemble.parameters, None)
    drawn = RNG.integers(N, size=N)
    counts = np.bincount(drawn, minlength=N).astype(float)[None, :]
    names = {name: name for name in rows.columns}
    engine = PolarsEngine(rows.lazy(), (), names)
    define_predictions(engine, model.ensemble.loss)
    expected = metric_values(PolarsEngine(rows[drawn].lazy(), (), names), model.ensemble, metrics, r2=False)
    for metric in metrics:
        assert can_be_drawn(metric)
        define_terms(engine, metric.terms)
        assert of_draws(metric, engine, counts)[0] == pytest.approx(expected[metric.name], rel=1e-9)

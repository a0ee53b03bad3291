"""Sums by programs, windows and scores on arrays are those of polars, to the last bit."""

from contextlib import closing

import numpy as np
import polars as pl
import pytest

from frameboost.engines.contract import QueryWindow
from frameboost.engines.frame import ScoreTable, window_expr
from frameboost.engines.memory import terms
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.memory.scores import ScoreArrays, distinct_scores
from frameboost.engines.memory.terms import ExactSums
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Rounded, exact_sum, exact_sum_in_two, grid_offset
from frameboost.losses.built_in import get_loss
from frameboost.metrics.metric import get_metrics
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from tests.support.cases import cases

NAMES = ("label", "margin", "weight")
TERMS = {
    "logloss": Expression("weight * LN(1 + EXP(-margin)) * label", NAMES),
    "count": Expression("CASE WHEN margin > label THEN 1 ELSE 0 END", NAMES),
    "weights": Expression("weight", NAMES),
    "ones": Expression("1", ()),
}


def engine_of(n_rows, workers, **columns):
    rng = np.random.default_rng(n_rows)
    frame = pl.DataFrame(
        {"y": rng.random(n_rows), "w": rng.random(n_rows) * 9, "m": rng.normal(size=n_rows), **columns}
    )
    roles = {"label": "y", "weight": "w", "base_margin": "m"}
    engine = MemoryEngine(frame.lazy(), (), roles, workers)
    engine.load()
    engine.start_margins({"margin": Expression("base_margin", ("base_margin",))})
    return engine


@cases("n_rows", [0, 1, 5, 3000, 20_000])
def test_sums_are_those_of_two_aggregations_by_polars(n_rows):
    with closing(Workers(2)) as workers:
        engine = engine_of(n_rows, workers)
        for scale in (1.0, 1000.0):  # the grids of the first time are too fine for the second
            engine.margins("margin")[:] *= scale
            assert exact_sum(engine, TERMS) == exact_sum_in_two(engine, TERMS)


def test_numpy_sums_as_the_kernel_does(monkeypatch):
    with closing(Workers(1)) as workers:
        engine = engine_of(500, workers)
        expected = exact_sum_in_two(engine, TERMS)
        for is_for_numpy in (True, False):
            monkeypatch.setattr(terms, "is_for_numpy", lambda _, is_it=is_for_numpy: is_it)
            assert ExactSums(500, workers, {}).of(TERMS, engine) == expected
            values = engine.values_of(list(TERMS.values()))
            by_polars = engine.by_row(TERMS)
            assert all(np.array_equal(found, by_polars[name]) for name, found in zip(TERMS, values, strict=True))


def test_a_sum_with_nan_is_left_to_polars():
    with closing(Workers(1)) as workers:
        engine = engine_of(50, workers)
        term = {"t": Expression("LN(label - 0.5)", NAMES)}
        assert ExactSums(50, workers, {}).of(term, engine) is None
        assert np.isnan(exact_sum(engine, term)["t"])


def test_aggregates_of_roles_are_kept_and_those_of_margins_are_not():
    with closing(Workers(1)) as workers:
        engine = engine_of(50, workers)
        wanted = {name: Aggregate("max", Expression(name, NAMES)) for name in ("label", "margin")}
        first = engine.aggregate(wanted)
        engine.margins("margin")[:] += 1.0
        engine.rows = engine.rows.with_columns(label=pl.lit(7.0))  # which no engine does
        assert engine.aggregate(wanted) == {"label": first["label"], "margin": engine.margins("margin").max()}


@cases("seed", range(20))
def test_windows_over_queries_are_those_of_polars(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, 12)
    queries = np.repeat(np.arange(12), lengths) if seed % 2 else rng.permutation(np.repeat(np.arange(12), lengths))
    n_rows = len(queries)
    offset = grid_offset(9.0, n_rows)
    value = (np.round(rng.normal(size=n_rows), 1) + offset) - offset  # with ties, on a grid
    frame = pl.DataFrame({"qid": queries, "label": value, "margin": rng.permutation(n_rows) * 1.0})
    laid_out, order = Queries(queries, Workers(1)), Expression("margin")
    for function in ("rank", "sum", "min", "max", "running"):
        window = QueryWindow(function, Expression("label"), order if function == "running" else None)
        expected = frame.select(window_expr(window).alias("found"))["found"].to_numpy()
        given = frame["margin"].to_numpy() if function == "running" else None
        np.testing.assert_array_equal(laid_out.window(function, value, given), expected)
    places = laid_out.window("rank", value, None)
    for given in (places, places.copy()):  # the last ones, which are known, and others
        assert laid_out.by_rank(given).tolist() == laid_out.ranked(value).tolist()
    assert laid_out.ranked(value).tolist() == np.lexsort((np.arange(n_rows), -value, queries)).tolist()


@pytest.mark.parametrize("n_rows", [1, 2, 700, 20_000])
@pytest.mark.parametrize("kind", ["weights", "rows", "few scores", "scores that are no probabilities"])
def test_areas_over_arrays_are_those_over_frames(n_rows, kind):
    rng = np.random.default_rng(n_rows)
    weight, label = rng.random(n_rows) * 3 if kind == "weights" else np.ones(n_rows), (rng.random(n_rows) < 0.4) * 1.0
    score = np.round(rng.random(n_rows), 1 if kind == "few scores" else 3 if n_rows < 1000 else 7)
    if kind == "scores that are no probabilities":
        score = 5 * score - 2
    offset = grid_offset(3.0, n_rows)
    positive, negative = (((weight * side) + offset) - offset for side in (label, 1 - label))
    sums = pl.DataFrame({"score": score, "positive": positive, "negative": negative}).group_by("score").sum()
    table = ScoreTable(sums, n_rows)
    parameters = Parameters()
    values = {name: getattr(parameters, name) for name in Parameters.__dataclass_fields__}
    loss = get_loss("binary:logistic", values)
    with closing(Workers(2)) as workers:
        steps = distinct_scores(score, positive, negative)
        assert steps is not None
        assert sum(steps[2]) == sum(positive)
        arrays = ScoreArrays(steps, score, n_rows, workers, {})
        middle = Expression(
            "CASE WHEN positive_above < positive_total / 2 THEN score END",
            ("score", "positive_above", "positive_total"),
        )
        lowest = {"lowest": Aggregate("min", middle)}
        assert arrays.aggregate(lowest) == table.aggregate(lowest)
        for curve in get_metrics(["auc", "aucpr"], loss, values):
            assert exact_sum(arrays, {"area": curve.area}) == exact_sum(table, {"area": curve.area})
            largest = {"total": Aggregate("max", curve.total), "sum": Aggregate("sum", Rounded(curve.total, offset))}
            assert arrays.aggregate(largest) == table.aggregate(largest)


@pytest.mark.parametrize("share_of_equals", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("width", [1, 10, 40, 64])
def test_equals_within_queries_stay_in_the_order_of_the_rows(share_of_equals, width):
    rng = np.random.default_rng(5)
    value = rng.normal(size=(2000, width))
    tied = rng.random(2000) < share_of_equals
    value[tied] = np.round(value[tied], 1)  # some are 0.0 and -0.0
    value[7] = np.nextafter(0.3, rng.choice([-np.inf, np.inf], width))  # different in the lowest bit alone
    value[8] = rng.choice([np.inf, -np.inf, 1.0], width)
    expected = np.argsort(-value, axis=1, kind="stable") + width * np.arange(2000)[:, None]
    with closing(Workers(2)) as workers:
        queries = Queries(np.repeat(np.arange(2000), width), workers)
        ranked, places = queries.ranked(value.ravel()), queries.window("rank", value.ravel(), None)
    assert ranked.tolist() == expected.ravel().tolist()
    assert places[ranked].tolist() == np.tile(np.arange(width), 2000).tolist()

"""Ranking: XGBoost's trees and metrics, the same in every engine, from queries in any order."""

import math
from contextlib import closing
from dataclasses import asdict

import duckdb
import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from frameboost.engines.ranking.pairs import pair_sums
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, grid_offset
from frameboost.losses.built_in import get_loss
from frameboost.losses.loss import RankingPairs
from frameboost.metrics.metric import define_terms
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.engines import open_engine
from tests.support.naive_kernels import naive_sum_pairs

ENGINES = ["numba", "polars", "duckdb"]
FEATURES = list("abcd")
SHAPE = {"n_estimators": 3, "max_depth": 3, "min_child_weight": 0.1, "features": FEATURES, "group": "query"}
LOSSES = ["rank:pairwise", "rank:ndcg", "rank:map"]


def data(levels: int = 4, seed: int = 0, n: int = 300, n_queries: int = 20) -> pl.DataFrame:
    """Return rows sorted by query, as XGBoost wants them, with labels below ``levels`` and a weight a query."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 60, size=(n, 4)).astype(np.float32)
    query = np.sort(rng.integers(0, n_queries, n))
    label = np.clip(np.digitize(x[:, 0] / 10 + rng.normal(size=n), [2, 3.5, 5]), 0, levels - 1)
    weight = rng.uniform(0.5, 2.0, n_queries)[query]
    return pl.DataFrame(x, schema=FEATURES).with_columns(y=label, query=query, w=weight)


def of_loss(objective: str) -> pl.DataFrame:
    return data(levels=2 if objective == "rank:map" else 4)


def xgboosts(frame: pl.DataFrame, objective: str, metrics: list[str], weighted: bool, valid: pl.DataFrame | None = None,
             **settings) -> tuple[np.ndarray, dict[str, list[float]]]:  # fmt: skip
    """Return XGBoost's predictions and its metrics by round."""

    def matrix(rows: pl.DataFrame) -> xgboost.DMatrix:
        made = xgboost.DMatrix(rows.select(FEATURES).to_numpy(), rows["y"].to_numpy(), qid=rows["query"].to_numpy())
        if weighted:
            made.set_weight(rows.group_by("query", maintain_order=True).first()["w"].to_numpy())
        return made

    rows, results = matrix(frame), {}
    parameters = {"objective": objective, "tree_method": "exact", "max_depth": 3, "min_child_weight": 0.1, "eta": 0.3,
                  "base_score": 0.0, "eval_metric": metrics, "nthread": 1} | settings  # fmt: skip
    sets = [(rows, "train")] + ([] if valid is None else [(matrix(valid), "valid")])
    booster = xgboost.train(
        parameters, rows, SHAPE["n_estimators"], evals=sets, evals_result=results, verbose_eval=False
    )
    return booster.predict(rows), {f"{s}_{m}": values for s, of_set in results.items() for m, values in of_set.items()}


# --- XGBoost's trees --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(
    ("objective", "settings", "weighted"),
    [
        ("rank:pairwise", {}, True),
        ("rank:pairwise", {"lambdarank_normalization": False}, False),
        ("rank:pairwise", {"lambdarank_score_normalization": False}, True),
        ("rank:ndcg", {}, False),
        ("rank:ndcg", {"lambdarank_score_normalization": False}, True),
        ("rank:ndcg", {"lambdarank_normalization": False, "ndcg_exp_gain": False}, False),
        ("rank:ndcg", {"lambdarank_num_pair_per_sample": 12}, True),
        ("rank:map", {"lambdarank_normalization": False, "lambdarank_score_normalization": False}, True),
        ("rank:map", {"lambdarank_num_pair_per_sample": 12}, False),
    ],
)
def test_predictions_and_metrics_are_xgboosts(objective, settings, weighted):
    frame = of_loss(objective)
    metrics = ["ndcg", "ndcg@3", "ndcg@5-"] + (["map", "map@4", "map@6-", "pre@3"] if objective == "rank:map" else [])
    expected, history = xgboosts(frame, objective, metrics, weighted, **settings)
    model = fb.fit(frame, "y", objective=objective, weight="w" if weighted else None, eval_metric=metrics,
                   tree_method="hist" if weighted else "exact", **SHAPE, **settings)  # fmt: skip
    np.testing.assert_allclose(model.predict(frame).to_numpy(), expected, rtol=1e-5, atol=1e-6)
    for name, values in history.items():
        np.testing.assert_allclose(model.history[name].to_numpy(), values, rtol=1e-7, err_msg=name)


@cases("truncation", [1, 3])
@cases("objective", LOSSES)
def test_the_first_tree_is_xgboosts_if_few_rows_are_paired(objective, truncation):
    # Of many rows the gradient is 0, and so a split between them has a tie; but sums and leaves are the same.
    frame = of_loss(objective)
    settings = {"lambdarank_num_pair_per_sample": truncation}
    booster = xgboost.train(
        {"objective": objective, "tree_method": "exact", "max_depth": 3, "min_child_weight": 0.1, "base_score": 0.0}
        | settings,
        xgboost.DMatrix(frame.select(FEATURES).to_numpy(), frame["y"].to_numpy(), qid=frame["query"].to_numpy()), 1,
    )  # fmt: skip
    theirs = booster.trees_to_dataframe()
    ours = fb.fit(frame, "y", objective=objective, **SHAPE | {"n_estimators": 1}, **settings).trees
    leaves = theirs.loc[theirs["Feature"] == "Leaf", "Gain"]
    np.testing.assert_allclose(
        ours.filter(pl.col("feature").is_null())["value"].sort().to_numpy(), np.sort(leaves), rtol=1e-5, atol=1e-7
    )


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "engine"), list(zip(LOSSES, ENGINES, strict=True)))
def test_validation_stops_early_at_the_best_round(objective, engine):
    frame = of_loss(objective)
    valid = data(levels=frame["y"].max() + 1, seed=5, n=150)
    expected, history = xgboosts(frame, objective, ["ndcg@3"], weighted=True, valid=valid)
    options = {"objective": objective, "weight": "w", "valid": valid, "eval_metric": "ndcg@3", **SHAPE}
    model = fb.fit(frame, "y", tree_method="exact", **options)
    np.testing.assert_allclose(model.history["valid_ndcg@3"].to_numpy(), history["valid_ndcg@3"], rtol=1e-7)
    np.testing.assert_allclose(model.predict(frame).to_numpy(), expected, rtol=1e-5, atol=1e-6)
    stopped = fb.fit(frame, "y", engine=engine, early_stopping_rounds=2, **options)
    values = stopped.history["valid_ndcg@3"].to_list()
    assert stopped.best_score == max(values)
    assert stopped.best_iteration == values.index(max(values)) + 1 == stopped.n_trees


def test_the_default_metric_is_that_of_the_pairs():
    frame = data()
    part = {"valid": data(seed=9), **SHAPE}
    assert fb.fit(frame, "y", objective="rank:pairwise", **part).history.columns[-1] == "valid_ndcg@32"
    model = fb.fit(frame, "y", objective="rank:ndcg", lambdarank_num_pair_per_sample=7, **part)
    assert model.history.columns[-1] == "valid_ndcg@7"
    binary = {**part, "valid": data(levels=2, seed=9)}
    assert fb.fit(data(levels=2), "y", objective="rank:map", **binary).history.columns[-1] == "valid_map@32"


# --- the same in every engine -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_queries_of_any_type_whose_rows_lie_anywhere():
    frame, options = data(n=100), {"objective": "rank:ndcg", **SHAPE, "n_estimators": 1}
    expected = fb.fit(frame, "y", **options)
    # Another order of the queries, but not of the rows of each, since ties go to the first of them.
    shuffled = frame.with_columns(pl.int_range(pl.len()).over("query").alias("i")).sort(
        "i", "query", descending=[False, True]
    )
    types = [pl.Int8, pl.Float64, pl.String, pl.Categorical, pl.Int128, pl.Date, pl.Duration("us"), pl.Decimal(10, 2)]
    for i, kind in enumerate(types):
        typed = shuffled.with_columns(
            pl.col("query").cast(pl.String if kind == pl.Categorical else pl.Int64).cast(kind)
        )
        rows = [(typed, "numba")]
        if kind != pl.Int128 and i % 2:
            rows.append((duckdb.connect().from_arrow(typed.to_arrow()), "auto"))
        elif i % 4 == 0:
            rows.append((typed, "polars"))
        for given, engine in rows:
            assert fb.fit(given, "y", engine=engine, **options) == expected, (kind, engine)


@pytest.mark.slow
def test_ties_go_to_the_first_row_however_many_threads_read_them():
    # More rows than DuckDB gives to one thread; in the first round all of them are tied.
    frame = data(n=130_000, n_queries=2500, seed=3)
    shape = SHAPE | {"n_estimators": 1, "max_depth": 1, "features": ["a"]}
    expected = fb.fit(frame, "y", objective="rank:ndcg", **shape)
    other = fb.fit(frame, "y", objective="rank:ndcg", engine="duckdb", **shape)
    assert other.trees.select("feature", "threshold").equals(expected.trees.select("feature", "threshold"))
    np.testing.assert_allclose(other.trees["value"].to_numpy(), expected.trees["value"].to_numpy(), rtol=1e-9)


# --- pairs ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases(("objective", "by_difference"), [*((objective, True) for objective in LOSSES), ("rank:ndcg", False)])
def test_sums_over_pairs_are_those_of_the_book(engine, objective, by_difference):
    rng = np.random.default_rng(2)
    n, levels = 60, 2 if objective == "rank:map" else 5
    frame = pl.DataFrame({
        "x": range(n), "i": range(n), "y": rng.integers(0, levels, n), "query": rng.integers(0, 7, n).astype(str),
        "m": rng.integers(-8, 8, n) / 4,  # with ties
    })  # fmt: skip
    settings = {"lambdarank_num_pair_per_sample": 4, "lambdarank_score_normalization": by_difference}
    parameters = Parameters(**settings, ndcg_exp_gain=False)
    loss = get_loss(objective, asdict(parameters))
    roles = {"label": "y", "base_margin": "m", "number": "i", "qid": "query"}
    features = (Feature("x", FeatureType("int64")),)
    with closing(open_engine(engine, frame.lazy(), features, roles, parameters)) as rows:
        rows.bin_columns(rows.propose_bins(256, {}))
        rows.start_margins({"margin": Expression("base_margin", ("base_margin",))})
        define_terms(rows, loss.terms)
        sums = rows.aggregate({
            f"{name} {i}": Aggregate("max", Expression(f"CASE WHEN number = {i} THEN {name} END", ("number", name)))
            for i in range(n) for name in ("pair_g", "pair_h", "pair_size", "scale")
        })  # fmt: skip
    for (_,), query in frame.group_by("query"):
        expected = naive_sum_pairs(
            query["y"].to_list(), query["m"].to_list(), objective.removeprefix("rank:"), 4, by_difference=by_difference
        )
        pull = sum(size for _, _, size in expected)
        for i, of_row in zip(query["i"], expected, strict=True):
            found = [sums[f"{name} {i}"] for name in ("pair_g", "pair_h", "pair_size")]
            np.testing.assert_allclose(found, of_row, rtol=1e-9, atol=1e-9)
            assert sums[f"scale {i}"] == pytest.approx(math.log2(1 + pull) / pull if pull else 1.0, rel=1e-9)


@cases("n_labels", [2, 16, 17, 60])
def test_queries_of_many_labels_have_the_sums_of_their_pairs(n_labels):
    rng = np.random.default_rng(n_labels)
    label, margin = rng.permutation(np.arange(80) % n_labels) * 1.0, rng.normal(size=80)
    queries = Queries(np.zeros(80, np.int64), Workers(1))
    columns = {"label": label, "margin": margin, "rank": queries.window("rank", margin, None)}
    with closing(Workers(1)) as workers:
        found = pair_sums(
            queries, columns, RankingPairs("pairwise", 70, by_difference=True), grid_offset(50.0, 11200), workers
        )
    expected = naive_sum_pairs(label.tolist(), margin.tolist(), "pairwise", 70, by_difference=True)
    np.testing.assert_allclose(found.T, expected, rtol=1e-9, atol=1e-9)


# --- drawn pairs ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("objective", LOSSES)
@cases("settings", [{}, {"lambdarank_num_pair_per_sample": 3}, {"lambdarank_normalization": False,
                    "lambdarank_num_pair_per_sample": 2, "lambdarank_score_normalization": False}])  # fmt: skip
def test_where_there_is_one_partner_to_draw_predictions_are_xgboosts(objective, settings):
    # Queries of two rows with the labels 0 and 1.
    frame = data(n=200).with_columns(query=pl.int_range(200) // 2)
    frame = frame.with_columns(y=(pl.int_range(200) + pl.col("query") % 3 // 2) % 2, w=1.0 + pl.col("query") % 2)
    settings = settings | {"lambdarank_pair_method": "mean"}
    metric = "map" if objective == "rank:map" else "ndcg"
    expected, history = xgboosts(frame, objective, [metric], weighted=True, **settings)
    model = fb.fit(frame, "y", objective=objective, weight="w", train_metrics=True, valid=frame, tree_method="exact",
                   **SHAPE, **settings)  # fmt: skip
    np.testing.assert_allclose(model.predict(frame).to_numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.history[f"train_{metric}"].to_numpy(), history[f"train_{metric}"], rtol=1e-7)


@pytest.mark.slow
def test_partners_are_drawn_evenly_from_the_rows_of_other_labels():
    label, margin = np.array([2.0, 0.0, 1.0, 0.0, 1.0, 0.0]), np.array([0.3, -0.5, 0.1, 0.9, -1.0, 0.2])
    size = 1 / (1 + np.exp(np.subtract.outer(margin, margin) * np.sign(np.subtract.outer(label, label))))
    is_pair = np.not_equal.outer(label, label)
    # Row i draws each of its n_i others with the probability 1 / n_i, and is drawn by row j with 1 / n_j.
    often = is_pair * (1 / is_pair.sum(axis=1)[:, None] + 1 / is_pair.sum(axis=1)[None, :])
    expected = np.stack([
        -(often * size * np.sign(np.subtract.outer(label, label))).sum(axis=1),
        (often * 2 * size * (1 - size)).sum(axis=1), (often * size).sum(axis=1),
    ])  # fmt: skip
    n = 6000
    with closing(Workers(1)) as workers:
        queries = Queries(np.zeros(6, np.int64), workers)
        columns = {"label": label, "margin": margin, "rank": queries.window("rank", margin, None),
                   "highest": np.full(6, 0.9), "lowest": np.full(6, -1.0)}  # fmt: skip
        drawn = [RankingPairs("pairwise", n, by_difference=False, seed=seed) for seed in (1, 2)]
        found = [pair_sums(queries, columns, pairs, grid_offset(1.0, 12 * n), workers) / n for pairs in drawn]
    for each in found:
        np.testing.assert_allclose(each, expected, atol=6 / np.sqrt(n))
    assert not np.array_equal(*found)


@pytest.mark.slow
@pytest.mark.parametrize("objective", LOSSES)
def test_drawn_pairs_are_the_same_everywhere(objective):
    frame = of_loss(objective)
    options = {"objective": objective, "lambdarank_pair_method": "mean", "weight": "w", **SHAPE}
    model = fb.fit(frame, "y", **options)
    moved = frame.sort(pl.col("query").hash(), maintain_order=True)  # queries in another order
    engines = [(frame, {"engine": engine}) for engine in ("polars", "duckdb")]
    for rows, more in (*engines, (moved, {}), (frame, {"shards": 3}), (duckdb.sql("FROM moved"), {})):
        other = fb.fit(rows, "y", **options, **more)
        assert other.trees["feature"].to_list() == model.trees["feature"].to_list()
        np.testing.assert_allclose(other.predict(frame), model.predict(frame), rtol=1e-9, atol=1e-9)
    assert fb.fit(frame, "y", seed=1, **options).trees.to_dicts() != model.trees.to_dicts()
    # They help: from round to round the order is better.
    longer = fb.fit(frame, "y", train_metrics=True, valid=frame, **options | {"n_estimators": 30}).history
    assert longer[:, 1][-1] > longer[:, 1][0]


def test_a_database_does_not_draw_pairs():
    con = duckdb.connect()
    con.register("rows_", data().with_row_index("id").to_arrow())
    con.execute("CREATE TABLE t AS FROM rows_")
    table = fb.table(con, "t", key="id", dialect="duckdb")
    with pytest.raises(fb.ParameterError, match=r"^lambdarank_pair_method='mean' draws pairs of rows in memory, and "):
        fb.fit(table, "y", objective="rank:ndcg", lambdarank_pair_method="mean", engine="sql", **SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows", [1, 3, 1000])
def test_queries_of_one_row_or_one_label_have_no_gradient(n_rows):
    lonely = pl.DataFrame({"a": [float(i % 7) for i in range(n_rows)], "y": [0] * n_rows}).with_columns(
        query=pl.int_range(pl.len()).cast(pl.Int64) if n_rows < 1000 else pl.lit(0, dtype=pl.Int64)
    )
    pair = pl.DataFrame({"a": [1.0, 5.0], "y": [1, 0], "query": [-1, -1]})
    frame = pl.concat([lonely, pair])
    for engine in ENGINES:
        model = fb.fit(frame, "y", objective="rank:ndcg", group="query", n_estimators=1, min_child_weight=0,
                       eval_metric=["ndcg", "ndcg-"], engine=engine)  # fmt: skip
        low, high = model.predict(pl.DataFrame({"a": [5.0, 1.0]}))
        assert low < 0 < high
        n_queries = frame["query"].n_unique()
        assert model.history["train_ndcg"].to_list() == [1.0]
        assert model.history["train_ndcg-"].to_list() == pytest.approx([1 / n_queries])


# --- metrics ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_metrics_of_other_objectives_take_queries_too(engine):
    frame = data(levels=2)
    names = ["ndcg@2", "map@3", "pre@5", "auc"]
    _, expected = xgboosts(frame, "binary:logistic", names[:3], weighted=False, base_score=0.5)
    model = fb.fit(frame, "y", objective="binary:logistic", eval_metric=names, engine=engine, base_score=0.5, **SHAPE)
    for name in names[:3]:
        np.testing.assert_allclose(model.history[f"train_{name}"].to_numpy(), expected[f"train_{name}"], rtol=1e-7)


@pytest.mark.slow
def test_a_query_without_relevant_rows_counts_with_its_weight():
    # XGBoost counts it in ndcg (but not in map) as if its weight were 1, which may take the mean above 1.
    frame = pl.DataFrame(
        {"a": [1.0, 2.0, 1.0, 2.0], "y": [0, 1, 0, 0], "query": [1, 1, 2, 2], "w": [3.0, 3.0, 1.0, 1.0]}
    )
    names = ["ndcg", "ndcg-", "map", "map-"]
    for engine in ENGINES:
        model = fb.fit(frame, "y", objective="rank:map", group="query", weight="w", eval_metric=names, n_estimators=1,
                       min_child_weight=0, engine=engine)  # fmt: skip
        assert model.history.row(0)[1:] == (1.0, 0.75, 1.0, 0.75)


@pytest.mark.slow
def test_small_gains_are_kept_beside_very_large_ones():
    # 2^31 - 1 and 1 on one grid of gains would leave little of the 1.
    frame = pl.DataFrame({
        "a": [1.0, 2.0, 3.0] * 500, "y": [0, 31, 5] + [0, 1, 0] * 499, "query": [i // 3 for i in range(1500)],
    })  # fmt: skip
    histories = [
        fb.fit(
            frame, "y", objective="rank:ndcg", group="query", n_estimators=2, eval_metric="ndcg", engine=engine
        ).history
        for engine in ENGINES
    ]
    rows = xgboost.DMatrix(frame.select("a").to_numpy(), frame["y"].to_numpy(), qid=frame["query"].to_numpy())
    results = {}
    xgboost.train({"objective": "rank:ndcg", "base_score": 0.0}, rows, 2, evals=[(rows, "train")], evals_result=results,
                  verbose_eval=False)  # fmt: skip
    for history in histories:
        np.testing.assert_allclose(history["train_ndcg"].to_numpy(), results["train"]["ndcg@32"], rtol=1e-7)


# --- the model, and what is refused -----------------------------------------------------------------------------------


@pytest.mark.slow
@cases(
    ("options", "error", "message"),
    [
        ({"group": None}, fb.ParameterError, "objective 'rank:ndcg' needs group, the column of query ids"),
        ({"group": "nowhere"}, fb.DataError, "group column 'nowhere' is not in the data"),
        ({"group": "y"}, fb.ParameterError, "group 'y' is also the target"),
        ({"group": "a", "features": ["a"]}, fb.ParameterError, "feature 'a' is also the group"),
        ({"group": "list"}, fb.DataError, r"group column 'list' has type List\(Int64\), which can't identify"),
        ({"group": "holes"}, fb.DataError, "group 'holes' is NULL or NaN in 2 of 4 rows; set a query in every row"),
        ({"weight": "w"}, fb.DataError, "weight 'w' differs between rows of one query; in ranking weights are"),
        ({"target": "half"}, fb.DataError, r"target 'half' holds other values than the integers 0 to 31 \("),
        ({"target": "huge"}, fb.DataError, "target 'huge' holds other values than the integers 0 to 31"),
        ({"target": "below", "ndcg_exp_gain": False}, fb.DataError, "holds other values than numbers of 0 or more"),
        ({"objective": "rank:map"}, fb.DataError, "target 'y' holds other values than 0 and 1"),
        ({"eval_metric": "map@2"}, fb.DataError, "holds other values than 0 and 1.* eval_metric 'map@2' needs those"),
        ({"eval_metric": "ndcg@0"}, fb.ParameterError, "'ndcg@0': after the @ comes a number of rows, 1 or more"),
        ({"eval_metric": "ndcg@x"}, fb.ParameterError, "'ndcg@x': after the @ comes a number of rows, 1 or more"),
        ({"objective": "reg:squarederror"}, fb.ParameterError, "group is for the rank:\\* objectives, for the metrics"),
        ({"objective": "reg:squarederror", "group": None, "eval_metric": "ndcg"}, fb.ParameterError,
         "eval_metric 'ndcg' needs group"),
        ({"lambdarank_pair_method": "means"}, fb.ParameterError, "must be one of 'topk', 'mean', not 'means'"),
        ({"lambdarank_normalization": 1}, fb.ParameterError, "lambdarank_normalization must be True or False, not 1"),
        ({"lambdarank_num_pair_per_sample": 0}, fb.ParameterError, "must be an integer of at least 1 and at most"),
        ({"lambdarank_unbiased": True}, fb.ParameterError, "unknown parameter 'lambdarank_unbiased'"),
        ({"qid": "query"}, fb.ParameterError, "unknown parameter 'qid'; here it is called 'group'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ENGINES)
def test_bad_input_is_refused(engine, options, error, message):
    frame = pl.DataFrame({
        "a": [1, 2, 3, 4], "y": [0, 1, 2, 1], "query": [1, 1, 2, 2], "list": [[1]] * 4, "w": [1, 2, 3, 3],
        "holes": [1.0, None, math.nan, 1.0], "half": [0, 0.5, 1, 2], "huge": [0, 1, 32, 2], "below": [0, 1, -1, 2],
    }, strict=False)  # fmt: skip
    given = {"target": "y", "objective": "rank:ndcg", "group": "query", "features": ["a"], "engine": engine} | options
    with pytest.raises(error, match=message):
        fb.fit(frame, **given)


def test_held_out_rows_are_checked_too():
    frame = data()
    bad = frame.with_columns(query=pl.when(pl.col("a") > 10).then("query"))
    with pytest.raises(fb.DataError, match="group 'query' is NULL or NaN"):
        fb.fit(frame, "y", objective="rank:ndcg", valid=bad, **SHAPE)
    with pytest.raises(fb.DataError, match="column 'query' is not in 'valid'"):
        fb.fit(frame, "y", objective="rank:ndcg", valid=frame.drop("query"), **SHAPE)
    with pytest.raises(fb.DataError, match=r"group column 'query' has type .* in 'valid'"):
        fb.fit(frame, "y", objective="rank:ndcg", valid=frame.with_columns(query=pl.concat_list("query")), **SHAPE)


def test_pairs_need_an_order_of_labels_and_no_more():
    frame = data()
    other = frame.with_columns(y=pl.col("y") / 2 - 3)
    model = fb.fit(other, "y", objective="rank:pairwise", **SHAPE)
    assert model == fb.fit(frame, "y", objective="rank:pairwise", **SHAPE)
    with pytest.raises(fb.DataError, match="eval_metric 'ndcg@32' needs those"):
        fb.fit(other, "y", objective="rank:pairwise", valid=other, **SHAPE)


def test_the_progress_bar_evaluates_metrics_with_terms():
    frame = data()
    assert fb.fit(frame, "y", objective="rank:ndcg", verbose=True, **SHAPE).n_trees == 3

"""Validation rows in every form that ``valid=`` takes; history, early stopping and callbacks."""

from __future__ import annotations

import math
import re
from itertools import pairwise

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases
from tests.support.engines import ENGINES

METHODS = [*((engine, "hist") for engine in ENGINES), ("numba", "exact")]
SHAPE = {"n_estimators": 3, "max_depth": 3, "verbose": False}
FEATURES = ["x", "gaps", "n", "carrier"]


def rows(n: int = 240, seed: int = 0, carriers=("AA", "it's", "UA")) -> pl.DataFrame:
    """Return rows with a column of each kind of feature; ``gaps`` has some only where there are other carriers."""
    rng = np.random.default_rng(seed)
    x, k = rng.normal(size=n), rng.integers(0, len(carriers), n)
    frame = pl.DataFrame({
        "x": x, "gaps": rng.normal(size=n), "n": rng.integers(-5, 5, n), "carrier": [carriers[i] for i in k],
        "y": np.sin(2 * x) * 3 + k + rng.normal(size=n) / 2,
    })  # fmt: skip
    return frame.with_columns(late=pl.col("y") > 1, w=pl.Series(rng.uniform(0.5, 2, n)))


TRAIN = rows()
# Categories that training never saw, and missing values where training had none.
ODD = (
    rows(90, 1, ("UA", "new", "", "AA"))
    .with_columns(
        pl.when(pl.int_range(pl.len()) % 4 > 0).then("gaps"),
        pl.when(pl.int_range(pl.len()) % 5 > 0).then("carrier"),
        pl.when(pl.int_range(pl.len()) % 7 > 0).then("x").otherwise(float("nan")),
        pl.when(pl.int_range(pl.len()) % 6 > 0).then("n"),
    )
)  # fmt: skip


def rmse(model: fb.Model, frame: pl.DataFrame, weight: str | None = None) -> float:
    errors = (model.predict(frame) - frame["y"]).to_numpy()
    return float(np.sqrt(np.average(errors**2, weights=None if weight is None else frame[weight])))


# --- history ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "method", "weight"), [
    ("numba", "hist", None), ("numba", "exact", "w"), ("polars", "hist", None), ("duckdb", "hist", "w")
])  # fmt: skip
def test_history_is_the_metric_of_the_models_so_far(engine, method, weight):
    options = {"features": FEATURES, "weight": weight, "engine": engine, "tree_method": method, **SHAPE}
    model = fb.fit(TRAIN, "y", valid=ODD, train_metrics=True, **options)
    assert model.trees.filter(pl.col("feature") == "carrier").height > 0
    for k in (1, 2, 3):
        wanted = {"round": k, "train_rmse": rmse(model[:k], TRAIN, weight), "valid_rmse": rmse(model[:k], ODD, weight)}
        assert model.history.row(k - 1, named=True) == pytest.approx(wanted, rel=1e-12)
    assert model == fb.fit(TRAIN, "y", **options), "what is held out has no say"
    assert model.best_score == model.history["valid_rmse"].min()
    assert model.history["valid_rmse"][model.best_iteration - 1] == model.best_score
    assert fb.fit(TRAIN, "y", eval_metric="mae", **options).best_score is None


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "method"), METHODS)
def test_only_held_out_rows_may_be_missing_or_new(engine, method):
    """Each odd column alone, so that each must be split on."""
    for name in FEATURES:
        options = {"features": [name], "engine": engine, "tree_method": method, **SHAPE}
        model = fb.fit(TRAIN, "y", valid=ODD, **options)
        assert model.trees["feature"].count() > 0
        assert model.history["valid_rmse"][-1] == pytest.approx(rmse(model, ODD), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases("metric, options", [
    ("rmse", {"base_margin": "start"}),
    ("mae", {"objective": "reg:absoluteerror"}),  # leaves are quantiles
    ("mlogloss", {"target": "kind", "objective": "multi:softprob", "num_parallel_tree": 2, "subsample": 0.7}),
])  # fmt: skip
def test_margins_quantiles_and_parallel_trees_move_held_out_rows_too(engine, metric, options):
    train, odd = (
        frame.with_columns(start=pl.col("w") * 2 - 1, kind=(pl.col("y") > 0).cast(pl.Int8) + (pl.col("y") > 2))
        for frame in (TRAIN, ODD)
    )
    model = fb.fit(train, valid=odd, features=FEATURES, engine=engine, **{"target": "y"} | options | SHAPE)
    for k in (1, 3):
        found = model[:k].predict(odd, base_margin=options.get("base_margin")).to_numpy()
        error = found - odd["y"].to_numpy() if metric != "mlogloss" else np.log(found[range(len(odd)), odd["kind"]])
        wanted = np.sqrt(np.mean(error**2)) if metric == "rmse" else np.abs(error).mean()
        assert model.history[f"valid_{metric}"][k - 1] == pytest.approx(wanted, rel=1e-12)


def test_history_is_of_the_training_rows_where_only_a_metric_is_asked_for():
    model = fb.fit(TRAIN, "y", features=FEATURES, eval_metric=["mae", "rmse"], **SHAPE)
    assert model.history.columns == ["round", "train_mae", "train_rmse"]
    assert fb.fit(TRAIN, "y", features=FEATURES, **SHAPE).history.columns == ["round"]


# --- forms ------------------------------------------------------------------------------------------------------------


def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("frame", pl.concat([TRAIN.with_columns(held=False), ODD.with_columns(held=True)]))
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    con.unregister("frame")
    return con


def contents(con) -> list:
    tables = con.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
    views = con.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()
    return [tables, views, con.execute("SELECT * FROM t").fetchall()]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_all_forms_give_one_history(engine):
    con = connection()
    before = contents(con)
    whole = con.table("t").select("*")
    both = pl.concat([TRAIN.with_columns(held=False), ODD.with_columns(held=True)])
    untouched = both.clone()
    train, held = con.sql("FROM t WHERE NOT held"), con.sql("FROM t WHERE held")
    forms = [
        (TRAIN, ODD), (TRAIN.lazy(), ODD.lazy()), (TRAIN, held), (train, ODD), (train, held),
        (TRAIN, ODD.sample(fraction=1, shuffle=True, seed=3)), (both, "held"), (both.lazy(), "held"), (whole, "held"),
        (both, "held = TRUE"), (whole, "held = TRUE"), (whole, "NOT NOT held"),
    ]  # fmt: skip
    options = {"features": FEATURES, "weight": "w", "engine": engine, **SHAPE, "n_estimators": 2, "max_depth": 2}
    chosen = forms if engine == "numba" else forms[::4]
    models = [fb.fit(data, "y", valid=valid, **options) for data, valid in chosen]
    assert len({model.to_json() for model in models}) == 1
    for model in models[1:]:
        np.testing.assert_allclose(model.history.to_numpy(), models[0].history.to_numpy(), rtol=1e-12)
    assert str(contents(con)) == str(before)  # NaN is not equal to itself
    assert both.equals(untouched)


def test_the_column_that_marks_held_out_rows_is_no_feature():
    both = pl.concat([TRAIN.with_columns(held=False), ODD.with_columns(held=True)]).drop("w", "late")
    assert fb.fit(both, "y", valid="held", **SHAPE).features == FEATURES
    with pytest.raises(fb.ParameterError, match="feature 'held' is also the column of held-out rows"):
        fb.fit(both, "y", valid="held", features=["x", "held"])


@pytest.mark.slow
@cases(("predicate", "holds"), [
    ("carrier = 'it''s'", pl.col("carrier") == "it's"),
    ("carrier IN ('it''s', 'UA') AND x > 0", pl.col("carrier").is_in(["it's", "UA"]) & (pl.col("x") > 0)),
    ("gaps > 0.5", (pl.col("gaps") > 0.5).fill_null(False)),
    ("gaps IS NULL", pl.col("gaps").is_null()),
    ("n % 3 = 0 OR x < -1", (pl.col("n") % 3 == 0) | (pl.col("x") < -1)), ("held", pl.col("held").fill_null(False)),
])  # fmt: skip
def test_predicates_choose_rows_and_where_they_are_null_rows_train(predicate, holds):
    data = TRAIN.with_columns(pl.when(pl.int_range(pl.len()) % 4 > 0).then("gaps"),
                              held=pl.when(pl.col("n") < 3).then(pl.col("n") > 0))  # fmt: skip
    parts = data.filter(~holds), data.filter(holds)
    assert min(map(len, parts)) > 20
    con = duckdb.connect()
    con.register("data", data)
    options = {"features": FEATURES, **SHAPE, "n_estimators": 1}
    by_hand = fb.fit(parts[0], "y", valid=parts[1], **options)
    for rows in (data, con.sql("FROM data")):
        model = fb.fit(rows, "y", valid=predicate, **options)
        assert model == by_hand
        np.testing.assert_allclose(model.history.to_numpy(), by_hand.history.to_numpy(), rtol=1e-12)


def test_several_sets_are_measured_and_the_last_is_watched():
    sets = {"odd": ODD, "like training": rows(80, 5)}
    options = {"features": FEATURES, "eval_metric": ["rmse", "mae"], **SHAPE}
    model = fb.fit(TRAIN, "y", valid=sets, early_stopping_rounds=50, **options)
    names = [f"{of}_{metric}" for of in sets for metric in ("rmse", "mae")]
    assert model.history.columns == ["round", *names]
    with_training = fb.fit(TRAIN, "y", valid=sets, early_stopping_rounds=50, train_metrics=True, **options)
    assert with_training == model
    assert with_training.history.columns == ["round", "train_rmse", "train_mae", *names]
    assert with_training.history.select("round", *names).equals(model.history)
    assert model.history["odd_rmse"][-1] == pytest.approx(rmse(model, ODD), rel=1e-12)
    assert model.history["like training_rmse"][-1] == pytest.approx(rmse(model, sets["like training"]), rel=1e-12)
    assert model.best_score == model.history["like training_mae"].min()


# --- early stopping ---------------------------------------------------------------------------------------------------


def naive_stop(scores: list[float], patience: int, *, maximize: bool, min_delta: float = 0.0) -> tuple[int, int]:
    """Return the best round and the last, both from 1."""
    best = 0
    for i, score in enumerate(scores):
        if score > scores[best] + min_delta if maximize else score < scores[best] - min_delta:
            best = i
        if i - best >= patience:
            return best + 1, i + 1
    return best + 1, len(scores)


@pytest.mark.slow
@cases("patience", [1, 5])
@cases(("metric", "objective"), [
    ("rmse", "reg:squarederror"), ("auc", "binary:logistic"), ("error", "binary:logistic")
])  # fmt: skip
def test_it_stops_where_a_plain_loop_would(metric, objective, patience):
    target = "y" if objective == "reg:squarederror" else "late"
    options = {"features": FEATURES, "objective": objective, "eval_metric": metric, "max_depth": 4}
    options |= {"n_estimators": 30, "valid": ODD, "learning_rate": 0.7, "verbose": False}
    whole = fb.fit(TRAIN, target, **options)
    best, last = naive_stop(whole.history[f"valid_{metric}"].to_list(), patience, maximize=metric.startswith("auc"))
    assert last < 30, "it must stop early"
    for engine in ENGINES if patience == 1 and metric in ("rmse", "auc") else ["numba"]:
        model = fb.fit(TRAIN, target, early_stopping_rounds=patience, engine=engine, **options)
        assert model.best_iteration == best
        assert model.best_score == pytest.approx(whole.history[f"valid_{metric}"][best - 1], rel=1e-9)
        assert model.history.height == last
        assert model.n_rounds == model.n_trees == best
        np.testing.assert_allclose(model.predict(ODD), whole[:best].predict(ODD), rtol=1e-9)


@pytest.mark.slow
@cases(("metric", "objective"), [("rmse", "reg:squarederror"), ("auc", "binary:logistic")])
def test_a_round_is_better_by_more_than_min_delta(metric, objective):
    options = {"features": FEATURES, "objective": objective, "eval_metric": metric, "max_depth": 4, "valid": ODD}
    target, more = "y" if metric == "rmse" else "late", {"n_estimators": 30, "learning_rate": 0.2}
    scores = fb.fit(TRAIN, target, **options, **more).history[f"valid_{metric}"].to_list()
    steps = sorted(abs(a - b) for a, b in pairwise(scores))
    for min_delta in (0.0, steps[len(steps) // 2], 2 * (max(scores) - min(scores))):
        best, last = naive_stop(scores, 3, maximize=metric == "auc", min_delta=min_delta)
        for engine, name in zip(ENGINES, ("min_delta", "tol", "early_stopping_min_delta"), strict=True):
            model = fb.fit(
                TRAIN, target, engine=engine, early_stopping_rounds=3, **{name: min_delta}, **options, **more
            )
            assert (model.best_iteration, model.n_rounds, model.history.height) == (best, best, last)
    assert best == 1
    assert "min_delta" not in model.parameters  # which decides on the number of rounds alone


def test_it_keeps_all_trees_of_the_best_round():
    train, odd = (f.with_columns(kind=(pl.col("y") > 0).cast(pl.Int8) + (pl.col("y") > 2)) for f in (TRAIN, ODD))
    options = {"objective": "multi:softprob", "features": FEATURES, "num_parallel_tree": 2, "subsample": 0.5}
    model = fb.fit(train, "kind", valid=odd, early_stopping_rounds=2, learning_rate=1, **options)
    assert model.history.height < 100
    assert model.n_rounds == model.best_iteration
    assert model.n_trees == 6 * model.best_iteration
    assert model.best_score == model.history["valid_mlogloss"].min()


@pytest.mark.parametrize(("sql", "maximize"), [("AVG(prediction)", False), ("-AVG(prediction)", True)])
def test_a_users_metric_says_which_way_is_better(sql, maximize):
    metric = fb.Metric("own", sql, maximize=maximize)
    model = fb.fit(TRAIN, "y", features=FEATURES, valid=ODD, eval_metric=metric, early_stopping_rounds=3)
    scores = model.history["valid_own"]
    assert model.best_score == (scores.max() if maximize else scores.min())
    assert (model.best_iteration, model.history.height) == naive_stop(scores.to_list(), 3, maximize=maximize)


def test_a_score_that_is_no_number_is_never_the_best():
    # √ of a negative number in the first rounds: predictions start at the mean and move away from it.
    metric = fb.Metric("own", "SQRT(MAX(prediction) - 3.5) - MAX(prediction)")
    options = {"features": FEATURES, "valid": ODD, "eval_metric": metric, "n_estimators": 12, "learning_rate": 0.2}
    with pytest.warns(fb.FrameboostWarning, match="'own' is nan on 'valid' in round 1"):
        model = fb.fit(TRAIN, "y", early_stopping_rounds=12, **options)
    scores = model.history["valid_own"].to_list()
    assert math.isnan(scores[0])
    assert not math.isnan(scores[-1])
    assert model.best_score == min(s for s in scores if not math.isnan(s))


def test_a_slice_of_the_model_has_no_history():
    model = fb.fit(TRAIN, "y", features=FEATURES, valid=ODD, early_stopping_rounds=2, **SHAPE)
    assert model[:1].history.is_empty()
    assert model[:1].best_iteration is None
    assert model[1:].n_rounds == model.n_rounds - 1


# --- callbacks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_callbacks_are_told_of_each_round_and_may_stop(engine):
    seen = []
    options = {"features": FEATURES, "valid": ODD, "engine": engine, "max_depth": 2}
    callbacks = [lambda number, scores: seen.append((number, dict(scores))), lambda _, scores: scores.clear(),
                 lambda *_: 1, lambda *_: "yes", lambda number, _: number == 3]  # only True stops  # fmt: skip
    model = fb.fit(TRAIN, "y", callbacks=callbacks, **options)
    assert model.n_rounds == 3
    assert [number for number, _ in seen] == [1, 2, 3]
    assert [{"round": number} | scores for number, scores in seen] == model.history.rows(named=True)
    assert model.best_iteration == model.history["valid_rmse"].arg_min() + 1


def test_a_callback_that_stops_leaves_the_best_round():
    options = {"features": FEATURES, "valid": ODD, "learning_rate": 1, "early_stopping_rounds": 50}
    model = fb.fit(TRAIN, "y", callbacks=[lambda number, _: number == 20], **options)
    assert model.history.height == 20
    assert model.n_rounds == model.best_iteration == int(model.history["valid_rmse"].arg_min()) + 1


# --- errors -----------------------------------------------------------------------------------------------------------


@cases(("options", "message"), [
    ({"early_stopping_rounds": 3}, "early_stopping_rounds needs held-out rows"),
    ({"early_stopping_rounds": 0, "valid": ODD}, "early_stopping_rounds must be an integer of at least 1"),
    ({"valid": {}}, "valid is an empty dict"),
    ({"valid": {"train": ODD}}, "valid names a set 'train'"),
    ({"valid": {3: ODD}}, "valid names a set 3"),
    ({"valid": "x"}, "valid column 'x' has type Float64; it must be Boolean"),
    ({"callbacks": print}, "callbacks must be a list of functions"),
    ({"callbacks": [3]}, "callbacks must be a list of functions, not [3]"),
])  # fmt: skip
def test_conflicting_validation_options_are_refused(options, message):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(TRAIN, "y", features=FEATURES, **options)
    assert message in str(error.value)


@pytest.mark.slow
@cases("predicate", ["nope > 3", "x + 1", "SUM(x) > 0", "COUNT(*) > 1", "x > (FIRST(x))", "x = MAX(x) OVER ()",
                     "ROW_NUMBER() OVER () > 3", "x > 0; DROP TABLE t", "x >"])  # fmt: skip
def test_what_is_no_predicate_is_refused_with_the_words_of_a_database(predicate):
    con, message = connection(), f"valid={predicate!r} is neither a column of the data nor a SQL predicate "
    for data, words in ((TRAIN, ""), (con.table("t"), ".* Error: ")):
        with pytest.raises(fb.ParameterError, match=re.escape(message) + words):
            fb.fit(data, "y", features=FEATURES, valid=predicate)
    assert con.execute("SELECT COUNT(*) FROM t").fetchone() == (330,)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
@cases(("valid", "message"), [
    (ODD.clear(), "'valid', the held-out data, has no rows; it needs at least 1"),
    ("x > 99", "'valid', the held-out data, has no rows; it needs at least 1"),
    ("x > -99", "the data has no rows; training needs at least 2"),
    (ODD.drop("y"), "column 'y' is not in 'valid', the held-out data"),
    (ODD.drop("n"), "column 'n' is not in 'valid', the held-out data"),
    (ODD.cast({"n": pl.Int8}), "feature 'n' has type Int8 in 'valid', the held-out data, but Int64 in training"),
    (ODD.cast({"y": pl.String}), "column 'y' has type String in 'valid', the held-out data; it must be numeric"),
    (ODD.with_columns(y=pl.lit(None, pl.Float64)), "target 'y' has no label in any row"),
    (ODD.with_columns(w=-pl.col("w")), "weight 'w' holds negative values"),
    ({"a": ODD, "b": ODD.drop("n")}, "column 'n' is not in 'b', the held-out data"),
])  # fmt: skip
def test_rows_that_can_not_be_validated_on_are_refused(valid, message, engine):
    with pytest.raises(fb.DataError) as error:
        fb.fit(TRAIN, "y", features=FEATURES, weight="w", valid=valid, engine=engine)
    assert message in str(error.value)


def test_held_out_labels_must_be_the_objectives():
    with pytest.raises(fb.DataError, match="holds other values than 0 and 1"):
        fb.fit(TRAIN, "late", features=FEATURES, objective="binary:logistic",
               valid=ODD.with_columns(late=pl.lit(3)))  # fmt: skip


def test_two_columns_of_a_history_never_have_one_name():
    valid = {"a": ODD, "a_b": ODD}
    metrics = [fb.Metric("b_c", "AVG(label)"), fb.Metric("c", "AVG(label)")]
    with pytest.raises(fb.ParameterError, match=r"^the history would have two columns 'a_b_c': metric 'c' of 'a_b'"):
        fb.fit(TRAIN, "y", features=FEATURES, valid=valid, eval_metric=metrics, **SHAPE)
    assert fb.fit(TRAIN, "y", features=FEATURES, valid=valid, eval_metric=metrics[0], **SHAPE).history.width == 3

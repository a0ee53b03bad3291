"""`fb.auto`: a mean over folds of the settings that held-out rows chose, the same from every engine."""

import time

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.folds import fold_parts
from frameboost.data.sources import open_source
from frameboost.tuning.recipes import PLANS

QUICK = {"n_estimators": 12, "learning_rate": 0.3, "max_depth": 3}


def rows(n: int = 300, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(size=(2, n))
    y = x + np.where(z > 0, x, -x) + 0.3 * rng.normal(size=n)
    return pl.DataFrame({
        "x": x, "z": z, "s": rng.choice(["a", "b", "c", None], n), "y": y, "day": rng.permutation(n) // 2,
        "who": rng.integers(0, 20, n), "w": rng.integers(1, 4, n),
    })  # fmt: skip


FEATURES = {"features": ["x", "z", "s"]}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return rows()


@pytest.fixture(scope="module")
def model(frame) -> fb.Model:
    return fb.auto(frame, "y", **FEATURES, **QUICK)


def fits_of(frame: pl.DataFrame, recipe, **more) -> list[tuple[fb.Model, pl.DataFrame]]:
    settings = {**PLANS[3].settings, **recipe.settings, **QUICK}
    parts = [(a.collect(), b.collect()) for a, b in fold_parts(open_source(frame), 5, None, 0, None)]
    return [(fb.fit(a, "y", valid=b, **FEATURES, **settings, **more), b) for a, b in parts]


def test_the_model_is_the_weighted_mean_of_fits_over_folds(frame, model):
    board = model.leaderboard
    assert board.columns == ["trial", "rmse", "weight", "fits", "rounds", "seconds", "settings"]
    assert board["weight"].sum() == pytest.approx(1.0)
    expected = 0.0
    for recipe in PLANS[3].recipes:
        fits = fits_of(frame, recipe)
        (row,) = board.filter(trial=recipe.name).rows(named=True)
        rmse = [np.sqrt(np.mean((fit.predict(held) - held["y"]).to_numpy() ** 2)) for fit, held in fits]
        assert row["rmse"] == pytest.approx(np.mean(rmse), rel=1e-9)
        assert row["rounds"] == np.mean([fit.n_rounds for fit, _ in fits])
        assert row["fits"] == 5
        expected = expected + row["weight"] * np.mean([fit.predict(frame).to_numpy() for fit, _ in fits], axis=0)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_every_engine_gives_the_same_model(frame, model, engine):
    assert fb.auto(frame, "y", engine=engine, **FEATURES, **QUICK) == model


def test_a_relation_gives_the_same_model(frame, model):
    with duckdb.connect() as con:
        con.register("frame", frame)
        con.execute("CREATE TABLE rows AS FROM frame")
        assert fb.auto(con.table("rows"), "y", **FEATURES, **QUICK) == model
        assert con.sql("SHOW TABLES").fetchall() == [("frame",), ("rows",)]


def test_threads_change_nothing(frame, model):
    assert fb.auto(frame.lazy(), "y", n_jobs=1, **FEATURES, **QUICK) == model
    assert fb.auto(frame, "y", seed=1, **FEATURES, **QUICK) != model


@pytest.mark.parametrize(
    ("target", "objective", "labels"),
    [
        (pl.col("y") > 0, "binary:logistic", [False, True]),
        (pl.col("y").gt(0).cast(pl.Int8), "binary:logistic", [0, 1]),
        (pl.when(pl.col("y") > 0).then(pl.lit("yes")).otherwise(pl.lit("no")), "binary:logistic", ["no", "yes"]),
        (pl.col("y").clip(-1, 1).round().cast(pl.Int8).cast(pl.String), "multi:softprob", ["-1", "0", "1"]),
        (pl.col("y").round().cast(pl.Int32), "reg:squarederror", []),
    ],
)
def test_the_objective_fits_the_target(frame, target, objective, labels):
    made = fb.auto(frame.with_columns(t=target), "t", quality=2, **FEATURES, **QUICK)
    assert (made.objective, made.classes) == (objective, labels)
    if labels:
        best = made.evaluate(frame.with_columns(t=target), "t", eval_metric="auc").metrics["value"][0]
        assert best > 0.8


def test_several_targets_and_rankings(frame):
    made = fb.auto(frame, ["y", "w"], quality=2, **FEATURES, **QUICK)
    assert made.predict(frame).dtype == pl.Array(pl.Float64, 2)
    queries = frame.with_columns(rank=pl.col("y").rank("ordinal").over("who").clip(0, 4).cast(pl.Int32))
    ranked = fb.auto(queries, "rank", group="who", objective="rank:ndcg", **FEATURES, **QUICK)
    assert ranked.leaderboard["ndcg@32"].is_between(0.5, 1).all()


def test_the_better_of_two_settings_has_the_larger_weight():
    # Each level of a symmetric tree is one split, so it can't tell by z which of x and s counts; here many ask.
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 4))
    y = np.where(x[:, 0] > 0, np.where(x[:, 1] > 0, 3.0, -3.0), np.where(x[:, 2] > 0, 3.0, -3.0))
    frame = pl.DataFrame(x).with_columns(y=pl.Series(y))
    board = fb.auto(frame, "y", n_estimators=4, learning_rate=0.5, max_depth=2).leaderboard
    assert board["trial"][0] == "depthwise"
    assert board["weight"][0] > 0.5


def test_later_rows_are_held_out_by_time(frame):
    made = fb.auto(frame, "y", time="day", quality=1, **FEATURES, **QUICK)
    late = frame.with_columns(before=pl.col("day").rank("min") - 1).select(pl.col("before") >= 0.8 * 300).to_series()
    settings = {**PLANS[1].settings, **PLANS[1].recipes[0].settings, **QUICK}
    found = fb.fit(frame.filter(~late), "y", valid=frame.filter(late), **FEATURES, **settings)
    assert made.leaderboard["rmse"][0] == pytest.approx(found.best_score)
    settings |= {"n_estimators": found.n_rounds, "early_stopping_rounds": None}
    again = fb.fit(frame, "y", **FEATURES, **settings)
    np.testing.assert_allclose(made.predict(frame), again.predict(frame), rtol=1e-12)


@pytest.mark.parametrize(("many", "rate"), [(0, 0.1), (500, 0.05)])
def test_the_learning_rate_is_smaller_where_few_rounds_are_enough(frame, monkeypatch, many, rate):
    monkeypatch.setattr("frameboost.tuning.auto.MANY_ROUNDS", many)
    board = fb.auto(frame, "y", n_estimators=5, **FEATURES).leaderboard
    assert all(f"learning_rate={rate}," in settings for settings in board["settings"])
    assert board["fits"].to_list() == [5, 5]


def test_groups_are_held_out_as_a_whole_and_are_no_feature(frame):
    made = fb.auto(frame, "y", groups="who", quality=2, exclude=["day", "w"], **QUICK)
    assert made.features == ["x", "z", "s"]
    parts = fold_parts(open_source(frame), 5, None, 0, "who")
    settings = {**PLANS[2].settings, **PLANS[2].recipes[0].settings, **QUICK}
    fits = [fb.fit(a, "y", valid=b, **FEATURES, **settings) for a, b in parts]
    assert made.leaderboard["rmse"][0] == pytest.approx(np.mean([fit.best_score for fit in fits]))


def test_a_time_limit_ends_the_search(frame):
    fb.auto(frame, "y", quality=1, **FEATURES, **QUICK)  # compiles
    start = time.monotonic()
    slow = {"n_estimators": 10**6, "early_stopping_rounds": 10**6, "learning_rate": 1e-4, "max_depth": 3}
    made = fb.auto(frame, "y", time_limit=1.0, **FEATURES, **slow)
    assert time.monotonic() - start < 10  # of a busy machine
    assert made.leaderboard["fits"].to_list() == [1]
    assert made.n_rounds > 1


def test_a_search_goes_on_from_its_checkpoint(frame, model, tmp_path):
    count = 0

    def interrupt(round_: int, metrics: dict[str, float]) -> None:
        nonlocal count
        count += 1
        if count == 40:
            raise KeyboardInterrupt

    from frameboost.tuning import deadline

    before = deadline.Stop.__call__
    deadline.Stop.__call__ = lambda self, *args: interrupt(*args) or before(self, *args)
    try:
        with pytest.raises(KeyboardInterrupt):
            fb.auto(frame, "y", checkpoint=tmp_path / "search", n_jobs=1, **FEATURES, **QUICK)
    finally:
        deadline.Stop.__call__ = before
    saved = sorted(path.name for path in (tmp_path / "search").iterdir())
    assert "symmetric-0.3-0.checkpoint" in saved
    assert fb.auto(frame, "y", checkpoint=tmp_path / "search", **FEATURES, **QUICK) == model
    with pytest.raises(fb.ParameterError, match="checkpoint"):
        fb.auto(frame, "y", checkpoint=tmp_path / "search", **FEATURES, **QUICK | {"max_depth": 2})


def test_intervals_are_those_of_margins_on_held_out_rows(frame, model):
    weights = dict(model.leaderboard.select("trial", "weight").iter_rows())
    recipes = {recipe.name: recipe for recipe in PLANS[3].recipes}
    fits = {name: fits_of(frame, recipes[name]) for name, weight in weights.items() if weight}
    scores = []
    for k in range(5):
        held = next(iter(fits.values()))[k][1]
        predicted = sum(weights[name] * each[k][0].predict(held).to_numpy() for name, each in fits.items())
        scores += list(np.abs(held["y"].to_numpy() - predicted))
    expected = sorted(scores)[int(np.ceil(301 * 0.9)) - 1]
    ends = model.predict(frame, output="interval").struct.unnest()
    np.testing.assert_allclose(ends["upper"] - ends["lower"], 2 * expected, rtol=1e-9)


def test_ten_rows_are_enough():
    frame = rows(10)
    made = fb.auto(frame, "y", features=["x"], quality=1, **QUICK)
    assert made.ensemble.interval is None
    assert fb.auto(frame, "y", features=["x"], **QUICK).predict(frame).is_finite().all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quality": 6}, "quality must be an integer from 1 to 5, not 6"),
        ({"time_limit": 0}, "time_limit must be a number from 0.001 to 1e"),
        ({"coverage": 1}, "coverage must be between 0 and 1"),
        ({"valid": 0.2}, "auto takes no valid; it holds out rows by itself"),
        ({"callbacks": []}, "auto takes no callbacks"),
        ({"groups": "nobody"}, "groups column 'nobody' is not in the data"),
        ({"time": "who", "groups": "who"}, "groups does not go with time"),
        ({"max_dept": 3}, "max_dept.*max_depth"),
    ],
)
def test_arguments_that_will_not_do(frame, options, message):
    with pytest.raises(ValueError, match=message):
        fb.auto(frame, "y", **FEATURES, **options)


def test_data_that_will_not_do(frame):
    with pytest.raises(fb.DataError, match="the data has 9 rows; auto holds out 5 folds of at least 2 rows"):
        fb.auto(frame.head(9), "y", **FEATURES)
    with pytest.raises(fb.DataError, match="there must be at least two classes"):
        fb.auto(frame.with_columns(y=pl.lit("a")), "y", **FEATURES)

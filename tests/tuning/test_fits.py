"""The size of a model's SQL as a budget: `fit(max_sql=)` keeps rounds, `auto(fits=)` models or rounds."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.errors import ParameterError
from tests.support.cases import cases
from tests.support.stars import random_star

RNG = np.random.default_rng(0)
FRAME = pl.DataFrame({"x": RNG.normal(size=500), "z": RNG.normal(size=500)}).with_columns(
    y=pl.col("x").sin() * 3 + pl.col("z") ** 2, kind=pl.Series(["a", "b", None, "c"] * 125)
)
SETTINGS = {"n_estimators": 40, "max_depth": 4}


def size_of(model: fb.Model, dialect: str = "postgres") -> int:
    return len(model.database(dialect).query("t", keep=[]).encode())


def test_a_fit_keeps_the_most_first_rounds_that_fit():
    whole = FRAME.pipe(fb.fit, "y", **SETTINGS)

    @cases("most", [3_000, 10_000, size_of(whole) - 1, size_of(whole)])
    def fits(most):
        model = FRAME.pipe(fb.fit, "y", max_sql=most, **SETTINGS)
        n = model.n_rounds
        assert model.to_json() == whole[:n].with_metadata().to_json() or model == whole[:n]
        assert size_of(model) <= most
        if n < whole.n_rounds:
            assert size_of(whole[: n + 1]) > most
            assert repr(model).splitlines()[-1].startswith(f"{n} of 40 rounds, which fit into {most:,} bytes of SQL")
        else:
            assert model == whole

    fits()


def test_what_the_rounds_cost_is_said_by_the_last_metric():
    model = FRAME.pipe(fb.fit, "y", max_sql=5_000, valid=0.3, **SETTINGS)
    values = model.history["valid_rmse"]
    said = f"valid_rmse is {values[model.n_rounds - 1]:.6g}, and {values[-1]:.6g} after all of them"
    assert repr(model).endswith(said)
    assert model.n_rounds < len(values) == 40


@pytest.mark.slow
def test_a_search_keeps_the_models_that_fit_or_the_rounds_of_one():
    options = {"quality": 2, "n_estimators": 60, "linear_tree": False}
    whole = FRAME.pipe(fb.auto, "y", **options)
    assert "fit into" not in repr(whole)
    assert FRAME.pipe(fb.auto, "y", **options, fits="duckdb") == whole
    size = size_of(whole)
    some = FRAME.pipe(fb.auto, "y", **options, fits=size * 3 // 4)
    assert size_of(some) <= size * 3 // 4
    assert "the mean of 2 of 3 trained models, as fit into" in repr(some)
    one = FRAME.pipe(fb.auto, "y", **options, fits=size // 6)
    assert size_of(one) <= size // 6
    assert "one of 3 models, of" in repr(one)
    assert some.leaderboard["weight"].sum() == one.leaderboard["weight"].sum() == 1
    # Intervals are of the rounds that are kept: they hold about as many labels as they are to.
    ends = one.predict(FRAME, output="interval").struct.unnest()
    inside = (FRAME["y"] >= ends["lower"]) & (FRAME["y"] <= ends["upper"])
    assert 0.8 < inside.mean() < 0.99


@pytest.mark.slow
@pytest.mark.parametrize("target", ["two", "three"])
def test_rounds_of_the_winner_of_a_race_fit_too(target):
    """Their margins are sharpened by the held-out rows of what is left of the model."""
    frame = FRAME.with_columns(x=pl.Series(np.random.default_rng(0).normal(size=len(FRAME))))
    three = (pl.col("x") > -0.5).cast(pl.Int64) + (pl.col("x") > 0.5)
    frame = frame.with_columns(y={"two": pl.col("x") > 0, "three": three.cast(pl.String)}[target])
    whole = frame.pipe(fb.auto, "y", n_estimators=30, fits=10**9)
    model = frame.pipe(fb.auto, "y", n_estimators=30, fits=size_of(whole) // 8)
    assert whole.leaderboard["trial"][0] != "symmetric and leafwise"
    assert size_of(model) <= size_of(whole) // 8
    assert "one of 5 models, of" in repr(model)


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:quantileerror"])
def test_other_outputs_fit_too(objective):
    more = {"quantile_alpha": [0.1, 0.9]} if objective == "reg:quantileerror" else {}
    labels = {"binary:logistic": pl.col("y") > 1, "multi:softprob": (pl.col("y") // 2).cast(pl.String)}
    frame = FRAME.with_columns(y=labels.get(objective, pl.col("y")))
    model = frame.pipe(fb.fit, "y", objective=objective, max_sql=12_000, **SETTINGS, **more)
    assert 0 < model.n_rounds < 40
    assert size_of(model) <= 12_000


def test_a_star_fits_with_its_joins():
    star = random_star(2)
    model = star.of_frames().pipe(fb.fit, target="y", features=star.features(), max_sql=8_000, **SETTINGS)
    assert len(model.database("postgres").query("facts", keep=[]).encode()) <= 8_000


@cases(
    "options, message",
    [
        ({"max_sql": "snowflak"}, "max_sql must be one of .*did you mean 'snowflake'"),
        ({"max_sql": 0}, "max_sql must be the name of a database, such as 'snowflake', or a positive number of bytes"),
        ({"max_sql": 100}, "not even the trees of one round fit into 100 bytes of SQL"),
        ({"max_sql": 9_000, "folds": 3}, "folds can't be combined with max_sql"),
    ],
)
def test_what_can_not_be_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        FRAME.pipe(fb.fit, "y", **SETTINGS, **options)


def test_names_that_a_database_can_not_have_are_refused_before_any_work_starts():
    frame = FRAME.rename({"x": 'say "x"'})
    for fit, name in ((fb.fit, "max_sql"), (fb.auto, "fits")):
        with pytest.raises(ParameterError, match=f"{name}='oracle': the name"):
            frame.pipe(fit, "y", **{name: "oracle"})

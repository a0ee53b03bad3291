"""A learning rate that grows from round to round, `max_learning_rate`."""

import numpy as np
import polars as pl
import pytest
import xgboost

import frameboost as fb
from tests.support.cases import cases

ROWS = pl.DataFrame({"x": [0, 1] * 8, "y": [0.0, 8.0] * 8})
RATES = {"learning_rate": 0.5, "max_learning_rate": 0.513, "reg_lambda": 0.0, "base_score": 0.0}
# Growing by 1 % of 0.5 a round, up to 0.513.
BY_ROUND = [0.5, 0.505, 0.51, 0.513, 0.513]


def left_over(n_rounds: int) -> float:
    """Return the share of the label that so many rounds have not learnt."""
    share = 1.0
    for rate in BY_ROUND[:n_rounds]:
        share *= 1.0 - rate
    return share


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"grow_policy": "symmetric"},
        {"tree_method": "exact"},
        {"tree_method": "approx"},
        {"monotone_constraints": {"x": 1}},  # trees are grown level by level
        {"objective": "reg:absoluteerror"},  # leaves are medians
    ],
)
def test_each_round_has_a_larger_rate_than_the_one_before(how):
    model = fb.fit(ROWS, "y", n_estimators=5, **RATES, **how)
    for n_rounds in range(1, 6):
        low, high = model[:n_rounds].predict(ROWS[:2])
        assert (low, high) == pytest.approx((0.0, 8.0 * (1.0 - left_over(n_rounds))), abs=1e-12)


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_engines_agree(engine):
    assert fb.fit(ROWS, "y", n_estimators=4, engine=engine, **RATES) == fb.fit(ROWS, "y", n_estimators=4, **RATES)


def test_a_fit_that_goes_on_from_a_model_goes_on_with_its_rate():
    whole = fb.fit(ROWS, "y", n_estimators=5, **RATES)
    first = fb.fit(ROWS, "y", n_estimators=2, **RATES)
    later = fb.fit(ROWS, "y", n_estimators=3, init_model=first, **RATES)
    assert later.predict(ROWS).to_list() == pytest.approx(whole.predict(ROWS).to_list(), abs=1e-12)


def test_refit_repeats_the_rates():
    model = fb.fit(ROWS, "y", n_estimators=5, **RATES)
    again = model.refit(ROWS.with_columns(pl.col("y") * 2.0), "y")
    assert again.predict(ROWS[1:2])[0] == pytest.approx(16.0 * (1.0 - left_over(5)), abs=1e-12)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"learning_rate": 0.3, "max_learning_rate": 0.2}, "max_learning_rate=0.2 is less than learning_rate=0.3"),
        ({"booster": "dart", "max_learning_rate": 0.5}, "max_learning_rate can't be combined with booster='dart'"),
        ({"max_learning_rate": 1.5}, "max_learning_rate"),
    ],
)
def test_what_will_not_do(how, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.fit(ROWS, "y", **how)


# --- a rate for each round --------------------------------------------------------------------------------------------


SCHEDULE = [0.5, 0.25, 0.125, 1.0]
PLAIN = {"reg_lambda": 0.0, "base_score": 0.0, "n_estimators": 4}


def halved(round_: int) -> float:
    return SCHEDULE[round_]


@cases("given", [
    {"learning_rates": SCHEDULE}, {"learning_rates": halved}, {"learning_rate": SCHEDULE}, {"eta": halved},
    {"learning_rates": np.array(SCHEDULE), "grow_policy": "symmetric"}, {"learning_rates": halved, "engine": "polars"},
    {"learning_rates": halved, "engine": "duckdb"}, {"learning_rates": halved, "tree_method": "exact"},
    {"learning_rates": halved, "monotone_constraints": {"x": 1}}, {"learning_rates": (*SCHEDULE, 0.1)},
    {"learning_rates": halved, "objective": "reg:absoluteerror"},
])  # fmt: skip
def test_each_round_has_its_rate(given):
    model = fb.fit(ROWS, "y", **PLAIN, **given)
    left = 1.0
    for n_rounds, rate in enumerate(SCHEDULE, 1):
        left *= 1.0 - rate
        assert model[:n_rounds].predict(ROWS[:2]).to_list() == pytest.approx([0.0, 8.0 * (1.0 - left)], abs=1e-12)
    assert model.parameters["learning_rates"][:4] == SCHEDULE


def test_a_schedule_is_xgboosts():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 30, (200, 2)).astype(float)
    y = (X[:, 0] * 2 + X[:, 1] ** 2 / 9 + rng.normal(size=200)).round(2)
    frame = pl.DataFrame(X, schema=["a", "b"]).with_columns(y=pl.Series(y))
    schedule = [0.5, 0.3, 0.1, 0.05, 0.9]
    booster = xgboost.train(
        {"max_depth": 3, "tree_method": "exact", "nthread": 1, "eta": schedule[0]}, xgboost.DMatrix(X, y), 5,
        # XGBoost sets the rate after a round, for the next one.
        callbacks=[xgboost.callback.LearningRateScheduler([*schedule[1:], 1.0])],
    )  # fmt: skip
    ours = fb.fit(frame, "y", max_depth=3, tree_method="exact", n_estimators=5, learning_rates=schedule)
    np.testing.assert_allclose(ours.predict(frame), booster.predict(xgboost.DMatrix(X)), rtol=1e-5)


def test_models_remember_the_rates(tmp_path):
    model = fb.fit(ROWS, "y", **PLAIN, learning_rates=halved)
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == model
    twice = ROWS.with_columns(pl.col("y") * 2.0)
    assert model.refit(twice, "y").predict(ROWS).to_list() == pytest.approx((model.predict(ROWS) * 2.0).to_list())
    first = fb.fit(ROWS, "y", **PLAIN | {"n_estimators": 2}, learning_rates=SCHEDULE[:2])
    for start in (first, fb.fit(ROWS, "y", **PLAIN | {"n_estimators": 2}, learning_rate=0.4)):
        later = fb.fit(ROWS, "y", **PLAIN | {"n_estimators": 2}, learning_rates=SCHEDULE[2:], init_model=start)
        again = later.refit(twice, "y").predict(ROWS)
        assert again.to_list() == pytest.approx((later.predict(ROWS) * 2.0).to_list(), abs=1e-12)
        if start is first:
            assert later.predict(ROWS).to_list() == pytest.approx(model.predict(ROWS).to_list(), abs=1e-12)
    path = tmp_path / "rounds"
    kept = fb.fit(ROWS, "y", **PLAIN, learning_rates=halved, checkpoint=path, checkpoint_every=1)
    assert fb.fit(ROWS, "y", **PLAIN, learning_rates=SCHEDULE, checkpoint=path, checkpoint_every=1) == kept == model


@cases(("how", "message"), [
    ({"learning_rates": [0.5]}, "learning_rates has fewer numbers than n_estimators=4; set one for each round"),
    ({"learning_rates": [0.5, 0.5, 2, 0.5]}, "learning_rates must be a number greater than 0 .*, not 2"),
    ({"learning_rates": lambda round_: "x"}, "learning_rates must be a number greater than 0 .*, not 'x'"),
    ({"learning_rates": 0.5}, "learning_rates must be a number greater than 0"),
    ({"learning_rates": halved, "learning_rate": halved}, "both set a rate for each round; set one of them"),
    ({"learning_rates": halved, "max_learning_rate": 0.5}, "learning_rates and max_learning_rate=0.5 can't be"),
    ({"learning_rates": halved, "booster": "dart"}, "learning_rates can't be combined with booster='dart'"),
])  # fmt: skip
def test_schedules_that_are_none_are_refused(how, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.fit(ROWS, "y", **PLAIN, **how)

"""A learning rate that grows from round to round, `max_learning_rate`."""

import polars as pl
import pytest

import frameboost as fb

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
        ({"booster": "dart", "max_learning_rate": 0.5}, "max_learning_rate does not go with booster='dart'"),
        ({"max_learning_rate": 1.5}, "max_learning_rate"),
    ],
)
def test_what_will_not_do(how, message):
    with pytest.raises(fb.ParameterError, match=message):
        fb.fit(ROWS, "y", **how)

"""Rows to score as dicts, and times at midnight where a model has dates."""

import datetime as dt
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

DAYS = [dt.date(2013, 1, 1) + dt.timedelta(i) for i in range(60)]
FRAME = pl.DataFrame({
    "x": [i % 7 / 2 for i in range(60)], "n": [i % 5 for i in range(60)], "kind": ["a", "b", None] * 20, "day": DAYS,
    "late": [i % 2 == 0 for i in range(60)], "y": [i // 30 for i in range(60)], "w": [1.0] * 60,
}).with_columns(cost=pl.col("n").cast(pl.Decimal(9, 2)) / 4)  # fmt: skip
FEATURES = ["x", "n", "kind", "day", "late", "cost"]


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fb.fit(FRAME, "y", features=FEATURES, objective="binary:logistic", n_estimators=4)


def test_a_row_is_a_dict_and_several_are_a_list(model):
    rows = FRAME.to_dicts()
    assert model.predict(rows).equals(model.predict(FRAME))
    assert model.predict(rows[7]).to_list() == model.predict(FRAME)[7:8].to_list()
    assert model.predict(rows[7], "leaf").to_list() == model.predict(FRAME[7], "leaf").to_list()
    assert model.predict(rows, base_margin="w").equals(model.predict(FRAME, base_margin="w"))
    assert model.explain(rows[3]).equals(model.explain(FRAME[3]))
    assert model.explain(rows[:2], interactions=True).equals(model.explain(FRAME[:2], interactions=True))
    assert model.partial_dependence(rows, "x").equals(model.partial_dependence(FRAME, "x"))
    assert model.calibrate(rows, "y") == model.calibrate(FRAME, "y")
    assert model.refit(rows, "y") == model.refit(FRAME, "y")


def test_values_are_what_a_frame_would_have(model):
    row = {"x": 1, "n": np.int64(2), "kind": "unseen", "day": None, "late": None, "cost": Decimal("0.5")}
    frame = pl.DataFrame(
        {"x": [1.0], "n": [2], "kind": ["unseen"], "day": [None], "late": [None], "cost": [Decimal("0.5")]},
        schema_overrides={"day": pl.Date, "late": pl.Boolean},
    )
    assert model.predict(row).equals(model.predict(frame))
    assert model.predict([row, row | {"x": 2.5, "cost": 1}]).to_list()[0] == model.predict(frame)[0]
    midnight, day = (row | {"day": day} for day in (dt.datetime(2013, 2, 1), dt.date(2013, 2, 1)))
    assert model.predict(midnight).equals(model.predict(day))


_REFUSED = {
    "a column missing": ({"x": 1.0}, "the data lacks 5 features of the model: 'n', 'kind', 'day', 'late', 'cost'"),
    "columns": ({"x": [1.0, 2.0]}, "column 'x' of a row is [1.0, 2.0], which is not a single value; a dict is one"),
    "unequal rows": ([{"x": 1.0, "n": 3}, {"x": 2.0}], "rows 0 and 1 have different columns: only one has 'n'; "),
    "two types": ([{"x": 1.0}, {"x": "a"}], "column 'x' has values of types 'float', 'str'; convert them to one type"),
    "a type": (FRAME.to_dicts()[0] | {"x": "1"}, "feature 'x' has type String, but the model was trained on float64"),
    "no name": ({1: 2}, "a row names a column 1; a name is a string"),
    "no midnight": (FRAME.to_dicts()[0] | {"day": dt.datetime(2013, 1, 1, 12)}, "feature 'day' has type Datetime"),
}


@cases("name", _REFUSED)
def test_what_is_no_row_is_refused(model, name):
    data, message = _REFUSED[name]
    for use in (model.predict, model.explain):
        with pytest.raises(fb.DataError) as error:
            use(data)
        assert message in str(error.value), str(error.value)


@pytest.mark.slow
def test_midnights_stand_for_dates(model):
    expected = model.predict(FRAME)
    pandas = FRAME.to_pandas()
    pandas["day"] = pd.to_datetime(pandas["day"])
    con = duckdb.connect()
    con.register("arrived", FRAME.to_arrow())
    relation = con.sql("SELECT * REPLACE (CAST(day AS TIMESTAMP) AS day) FROM arrived")
    for data in (pandas, FRAME.with_columns(pl.col("day").cast(pl.Datetime("ns"))), relation,
                 FRAME.lazy().with_columns(pl.col("day").cast(pl.Datetime("ms")))):  # fmt: skip
        assert model.predict(data).equals(expected)
    assert model.explain(pandas).equals(model.explain(FRAME))
    pandas.loc[3, "day"] += pd.Timedelta(seconds=1)
    late = con.sql("SELECT * REPLACE (day + INTERVAL 1 SECOND AS day) FROM arrived")
    for data in (pandas, late, FRAME.with_columns(pl.col("day").cast(pl.Datetime("us", "UTC")))):
        with pytest.raises(fb.DataError, match=r"^feature 'day' has type .* trained on date; cast it to a date$"):
            model.predict(data)
    missing = FRAME.with_columns(day=pl.lit(None, pl.Datetime("us")))
    assert model.predict(missing).equals(model.predict(FRAME.with_columns(day=pl.lit(None, pl.Date))))


@pytest.mark.slow
def test_booleans_stand_for_the_numbers_0_and_1():
    """XGBoost, LightGBM and scikit-learn take them where a model was trained on numbers."""
    rows = pl.DataFrame({"a": [0.0, 1.0, None, 1.0] * 10, "i": [0, 1, 1, 0] * 10, "y": [1.0, 4.0, 3.0, 2.0] * 10})
    model = fb.fit(rows, "y", n_estimators=3)
    flags = rows.with_columns(pl.col("a", "i").cast(pl.Boolean))
    con = duckdb.connect()
    con.register("arrived", flags.to_arrow())
    assert model.predict(rows).n_unique() == 4
    for data in (flags, flags.lazy(), flags.to_pandas(), flags.to_arrow(), con.sql("FROM arrived"), flags.to_dicts()):
        assert model.predict(data).equals(model.predict(rows))
        assert model.predict(data, "leaf").equals(model.predict(rows, "leaf"))
        assert model.explain(data).equals(model.explain(rows))
        assert model.evaluate(data, "y").metrics.equals(model.evaluate(rows, "y").metrics)
    estimator = fb.FrameBoostRegressor(n_estimators=3).fit(rows[["i"]].to_numpy(), rows["y"])
    assert estimator.predict(flags[["i"]].to_numpy()).tolist() == estimator.predict(rows[["i"]].to_numpy()).tolist()

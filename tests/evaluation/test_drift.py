"""The drift of features by period, compared with the query that measures it in DuckDB."""

import datetime as dt

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.evaluation.drift import drift_frame, periods_of

RNG = np.random.default_rng(5)
N = 600
DAYS = pl.Series([dt.date(2024, 1, 1) + dt.timedelta(days=i * 91 // N) for i in range(N)])
TRAINED = pl.DataFrame({
    "number": [None if i % 11 == 0 else float(v) for i, v in enumerate(RNG.normal(size=N))],
    "whole": RNG.integers(0, 5, N),
    "text": [None if i % 13 == 0 else "abcdefgh"[v] for i, v in enumerate(RNG.integers(0, 8, N))],
    "flag": RNG.random(N) < 0.3, "day": DAYS, "y": RNG.normal(size=N),
})  # fmt: skip
FEATURES = ["number", "whole", "text", "flag", "day"]


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fb.fit(TRAINED, "y", features=FEATURES, n_estimators=3)


def test_drift_is_that_of_the_query(model):
    database = model.database()
    baseline = database.baseline(TRAINED, bins=4)
    later = TRAINED.with_columns(
        number=pl.col("number") * 1.5 + pl.col("day").dt.month(),
        text=pl.when(pl.col("day").dt.month() == 2).then(pl.lit("new")).otherwise("text"),
    )
    found = drift_frame(model.ensemble, later, baseline, "day")
    assert found["period"].unique().sort().to_list() == [dt.date(2024, 1, 1), dt.date(2024, 2, 1), dt.date(2024, 3, 1)]
    con = duckdb.connect()
    con.execute("CREATE TABLE later AS SELECT * FROM later")
    for month in (1, 2, 3):
        query = database.drift_query("later", baseline, where=f"month(day) = {month}")
        expected = {row[0]: row[-1] for row in con.sql(query).fetchall()}
        rows = found.filter(period=dt.date(2024, month, 1))
        assert set(rows["feature"]) == set(expected) == set(FEATURES)
        assert rows["rows"].unique().to_list() == [later.filter(pl.col("day").dt.month() == month).height]
        for feature, psi in rows.select("feature", "psi").rows():
            assert psi == pytest.approx(expected[feature], abs=1e-12), (month, feature)


def test_periods_may_be_values_of_a_column(model):
    baseline = model.database().baseline(TRAINED).filter(feature="whole")
    data = TRAINED.with_columns(season=pl.when(pl.int_range(N) < 300).then(pl.lit("a")).otherwise(None))
    found = drift_frame(model.ensemble, data, baseline, "season")
    assert found.select("period", "feature", "rows").rows() == [("a", "whole", 300)]
    itself = drift_frame(model.ensemble, TRAINED.with_columns(one=1), baseline, "one")
    assert itself.rows() == [(1, "whole", 0.0, N)]


def test_what_has_no_drift_is_refused(model):
    baseline = model.database().baseline(TRAINED)

    def message(data: pl.DataFrame = TRAINED, time: str = "day", every: str = "1mo", baseline=baseline) -> str:
        with pytest.raises(fb.FrameboostError) as error:
            drift_frame(model.ensemble, data, baseline, time, every)
        return str(error.value)

    assert message(time="when").startswith("time column 'when' is not in the data, which has 'number', ")
    assert message(every="sometimes") == "every must be a period such as '1d', '1w' or '1mo', not 'sometimes'"
    assert message(time="number").startswith("time column 'number' has ")
    assert message(TRAINED.with_columns(t=pl.lit(None, pl.Date)), "t") == "time column 't' has no value in any row"
    assert message(baseline=TRAINED) == "baseline must be a frame that DatabaseModel.baseline returned"
    assert "cast it to the same type" in message(TRAINED.with_columns(pl.col("whole").cast(pl.Float64)))


def test_periods_are_few_whatever_the_times():
    hours = pl.select(at=pl.datetime_range(pl.datetime(2013, 1, 1), pl.datetime(2013, 12, 31), "1h"))
    starts = periods_of(hours, "at").unique().sort()
    assert starts.to_list() == [dt.datetime(2013, month, 1) for month in range(1, 13)]
    assert periods_of(hours[:30], "at").equals(hours["at"][:30].alias("period"))
    seasons = pl.DataFrame({"season": ["dry", "wet", None]})
    assert periods_of(seasons, "season").to_list() == ["dry", "wet", None]

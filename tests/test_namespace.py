"""`df.boost` and `lf.boost` give the results of the functions and methods."""

import polars as pl
import pytest

import frameboost as fb
from tests.support.frames import every_type

COLUMNS = ["int16", "float64", "boolean", "date", "string", "amount"]
SHAPE = {"n_estimators": 3, "max_depth": 4}


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(300).select(COLUMNS)


@pytest.fixture(scope="module")
def model(frame) -> fb.Model:
    return fb.fit(frame, "amount", **SHAPE)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_fit_is_fit(frame, model, engine):
    assert frame.boost.fit(target="amount", engine=engine, **SHAPE) == model
    assert frame.lazy().boost.fit("amount", engine=engine, **SHAPE) == model
    assert frame.boost.fit("amount", features=["date"], engine=engine, n_estimators=1).features == ["date"]


@pytest.mark.parametrize("output", ["mean", "margin"])
def test_predict_adds_a_column(frame, model, output):
    expected = frame.with_columns(model.predict(frame, output).alias("guess"))
    assert frame.boost.predict(model, output, name="guess").equals(expected)
    lazy = frame.lazy().boost.predict(model, output, name="guess")
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().equals(expected)
    assert frame.columns == COLUMNS


def test_predict_replaces_a_column_of_that_name(frame, model):
    for rows in (frame, frame.lazy()):
        scored = rows.boost.predict(model, name="amount").lazy().collect()
        assert scored.columns == COLUMNS
        assert scored["amount"].equals(model.predict(frame).alias("amount"))


def test_leaves_need_the_rows(frame, model):
    assert frame.boost.predict(model, "leaf")["prediction"].equals(model.predict(frame, "leaf"))
    with pytest.raises(fb.ParameterError, match="output must be one of 'mean', 'margin', not 'leaf'"):
        frame.lazy().boost.predict(model, "leaf")

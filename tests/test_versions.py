"""What must hold with every version of Python and of the libraries; `.ci/pythons` runs this file with each Python."""

from datetime import date, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

import frameboost as fb

GOLDEN = Path(__file__).parent / "golden" / "model.json"
# Made by arithmetic, because generators of random numbers differ between versions.
ROWS = pl.DataFrame({
    "x": [None if i % 11 == 3 else i * 37 % 101 / 8 for i in range(120)],
    "kind": [None if i % 13 == 5 else "abcd"[i * i % 4] + "é" * (i % 3) for i in range(120)],
    "day": [date(2013, 1, 1) + timedelta(days=i * 29 % 97) for i in range(120)],
    "y": [float(i * 17 % 23 + i % 4 * 5) for i in range(120)],
})  # fmt: skip
OPTIONS = {"n_estimators": 3, "max_depth": 3, "subsample": 0.75, "seed": 7, "cat_smooth": 0.0}


def fitted(engine: str) -> fb.Model:
    if engine != "duckdb":
        return fb.fit(ROWS, "y", engine=engine, **OPTIONS)
    con = duckdb.connect()
    con.register("rows_", ROWS.to_arrow())
    return fb.fit(con.table("rows_"), "y", **OPTIONS)


@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_each_engine_writes_the_stored_file(engine):
    assert fitted(engine).to_json() == GOLDEN.read_text(encoding="utf-8")


def test_predictions_are_those_of_sql_and_of_the_expression():
    model = fb.load(GOLDEN)
    scores = model.predict(ROWS).to_list()
    assert ROWS.select(model.expr()).to_series().to_list() == scores
    con = duckdb.connect()
    con.register("t", ROWS.to_arrow())
    assert con.sql(model.query("t")).fetchnumpy()["prediction"].tolist() == scores
    assert model.explain(ROWS).sum_horizontal().to_list() == pytest.approx(scores)


def test_an_estimator_predicts_as_the_model_of_fit():
    pytest.importorskip("sklearn")
    estimator = fb.FrameBoostRegressor(**OPTIONS).fit(ROWS.drop("y"), ROWS["y"])
    assert estimator.predict(ROWS.drop("y")).tolist() == fb.load(GOLDEN).predict(ROWS).to_list()

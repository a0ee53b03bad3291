"""500 trees of depth 8 run in DuckDB and in polars with default settings."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb

pytestmark = pytest.mark.slow  # trees of depth 8 by the hundred


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 6))
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=600)
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(6)]).with_columns(
        pl.Series("place", rng.choice(["A", "B", "it's", None], size=600)), pl.Series("y", y)
    )


@pytest.fixture(scope="module")
def model(data) -> fb.Model:
    model = fb.fit(data, "y", n_estimators=500, max_depth=8, learning_rate=0.05, min_child_weight=2)
    assert model.n_trees == 500
    assert model.trees["depth"].max() == 8
    assert len(model.trees) > 30_000
    return model


def test_a_large_model_runs_in_duckdb(model, data):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM data")
    before = con.execute("FROM duckdb_settings()").fetchall()
    scores = con.execute(model.query("t", keep=[])).fetchnumpy()["prediction"]
    assert scores.tolist() == model.predict(data).to_list()
    assert con.execute("FROM duckdb_settings()").fetchall() == before


def test_a_large_model_is_a_polars_expression(model, data):
    predicted = model.predict(data).to_list()
    assert data.select(model.expr()).to_series().to_list() == predicted
    assert data.lazy().select(model.expr()).collect(engine="streaming").to_series().to_list() == predicted


def test_a_large_model_explains_itself_in_duckdb(model, data):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM data")
    part = model[:50]  # as text, contributions are several times a prediction
    found = con.execute(part.database().explain_query("t")).fetchnumpy()
    assert {name: values.tolist() for name, values in found.items()} == part.explain(data, approx=True).to_dict(
        as_series=False
    )

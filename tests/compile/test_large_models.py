"""Hundreds of trees of depth 8 run in every installed database, in the form that fits its limits, and in polars."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.warehouses import ALL, Warehouse, open_warehouse

N_ROWS = 20
N_TREES = 200

pytestmark = pytest.mark.slow  # trees of depth 8 by the hundred


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 4))
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=1500)
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(4)]).with_columns(
        pl.Series("place", rng.choice(["A", "B", "it's", None], size=1500).tolist(), dtype=pl.String), pl.Series("y", y)
    )


@pytest.fixture(scope="module")
def model(data) -> fb.Model:
    model = fb.fit(data, "y", n_estimators=N_TREES, max_depth=8, learning_rate=0.03, min_child_weight=4, verbose=False)
    assert model.trees["depth"].max() == 8
    assert len(model.trees) > 80 * N_TREES
    return model


def fill(warehouse: Warehouse, data: pl.DataFrame) -> None:
    columns = {f"x{i}": (FeatureType("float64"), data[f"x{i}"].to_list()) for i in range(4)}
    warehouse.fill("t", columns | {"place": (FeatureType("string"), data["place"].to_list())})


@pytest.mark.parametrize("name", ALL)
def test_hundreds_of_trees_run(name, model, data, tmp_path):
    warehouse = open_warehouse(name)
    data = data[:N_ROWS]
    fill(warehouse, data)
    warehouse.load_trees("trees", model, tmp_path)
    # These would take the trees as text, which DataFusion plans for ten seconds, and Spark for minutes.
    form = "table" if name in ("duckdb", "datafusion", "spark") else "auto"
    fitting = model.query("t", name, keep=["id"], trees="trees", form=form)
    assert (warehouse.dialect.quote("trees") in fitting) == (name in ("duckdb", "clickhouse", "datafusion", "spark"))
    for query in [fitting] + ([model.query("t", keep=["id"])] if name == "duckdb" else []):
        rows = sorted(warehouse.rows(query))
        assert [value for _, value in rows] == model.predict(data).to_list()


def test_the_frame_of_a_table_is_what_the_statements_make(model):
    warehouse = open_warehouse("duckdb")
    small = model[:2]
    for statement in small.database("duckdb").table_statements("made"):
        warehouse.run(statement)
    warehouse.con.register("framed", small.database().table_frame())
    assert warehouse.rows("SELECT * FROM made ORDER BY ALL") == warehouse.rows("SELECT * FROM framed ORDER BY ALL")
    warehouse.con.unregister("framed")


def test_a_large_model_explains_itself_and_leaves_the_settings(model, data):
    warehouse, part, data = open_warehouse("duckdb"), model[:10], data[:100]
    fill(warehouse, data)
    before = warehouse.rows("FROM duckdb_settings()")
    # As text, contributions are several times a prediction.
    found = warehouse.rows(part.database().explain_query("t", keep=["id"], approx=True))
    assert [row[1:] for row in sorted(found)] == part.explain(data, approx=True).rows()
    assert warehouse.rows("FROM duckdb_settings()") == before


def test_a_large_model_is_a_polars_expression(model, data):
    model, data = model[:80], data[:200]
    predicted = model.predict(data).to_list()
    assert data.select(model.expr()).to_series().to_list() == predicted
    assert data.lazy().select(model.expr()).collect(engine="streaming").to_series().to_list() == predicted

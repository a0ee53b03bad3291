"""1,000 trees of depth 8 run in every installed database, in the form that fits its limits."""

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.warehouses import ALL, open_warehouse

N_ROWS = 60

pytestmark = pytest.mark.slow  # trees of depth 8 by the hundred


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    y = np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2] + rng.normal(size=3000)
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(4)]).with_columns(
        pl.Series("place", rng.choice(["A", "B", "it's", None], size=3000).tolist(), dtype=pl.String), pl.Series("y", y)
    )


@pytest.fixture(scope="module")
def model(data) -> fb.Model:
    model = fb.fit(data, "y", n_estimators=1000, max_depth=8, learning_rate=0.03, min_child_weight=8, verbose=False)
    assert model.n_trees == 1000
    assert model.trees["depth"].max() == 8
    assert len(model.trees) > 80_000
    return model


@pytest.mark.parametrize("name", ALL)
def test_a_thousand_trees_run(name, model, data, tmp_path):
    warehouse = open_warehouse(name)
    data = data[:N_ROWS]
    columns = {f"x{i}": (FeatureType("float64"), data[f"x{i}"].to_list()) for i in range(4)}
    warehouse.fill("t", columns | {"place": (FeatureType("string"), data["place"].to_list())})
    warehouse.load_trees("trees", model, tmp_path)
    query = model.query("t", name, keep=["id"], trees="trees", form="table" if name == "duckdb" else "auto")
    rows = sorted(warehouse.rows(query))
    assert [value for _, value in rows] == model.predict(data).to_list()


def test_the_frame_of_a_table_is_what_the_statements_make(model):
    warehouse = open_warehouse("duckdb")
    small = model[:5]
    for statement in small.database("duckdb").table_statements("made"):
        warehouse.run(statement)
    warehouse.con.register("framed", small.database().table_frame())
    assert warehouse.rows("SELECT * FROM made ORDER BY ALL") == warehouse.rows("SELECT * FROM framed ORDER BY ALL")
    warehouse.con.unregister("framed")

"""Few values are read into memory, whatever engine is asked for; the model is that of queries."""

from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from frameboost.engines import query_costs
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.duckdb.memory import DuckDBMemoryEngine
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.parameters.parameters import Parameters
from frameboost.schema.types import Feature, FeatureType
from tests.fuzz.same_models import difference
from tests.support.engines import open_engine

FEATURES = [Feature("x", FeatureType("float64")), Feature("k", FeatureType("string"))]


def rows(n: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": rng.normal(size=n), "k": rng.choice(["a", "b", "it's"], n), "w": rng.integers(1, 4, n)})
    frame = frame.with_columns(x=pl.when(pl.col("x") > 1.5).then(None).otherwise("x"), q=pl.int_range(pl.len()) // 10)
    return frame.with_columns(
        y=pl.col("x").fill_null(0) + (pl.col("k") == "a"), late=pl.int_range(pl.len()) >= n - 100,
        rank=pl.Series(rng.integers(0, 4, n)), hours=pl.duration(hours=pl.Series(rng.integers(0, 9, n))),
    )  # fmt: skip


@pytest.mark.parametrize(("engine", "kind"), [("duckdb", DuckDBMemoryEngine), ("polars", PolarsEngine)])
@pytest.mark.parametrize(("most", "is_read"), [(600, True), (599, False)])
def test_the_limit_is_of_rows_times_features(monkeypatch, engine, kind, most, is_read):
    monkeypatch.setattr(query_costs, "MAX_VALUES", most)
    con = duckdb.connect()
    con.register("frame", rows())
    for data in (rows(), *([con.sql("FROM frame")] if engine == "duckdb" else [])):
        opened = open_engine(engine, data, FEATURES, {"label": "y"}, Parameters())
        assert type(opened) is (MemoryEngine if is_read else kind)
        assert opened.n_rows == 300
        opened.close()


def test_no_value_of_a_larger_table_is_read(monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 20)
    con = duckdb.connect()
    read = []
    con.create_function("seen", lambda i: read.append(i) or i, ["BIGINT"], "DOUBLE", side_effects=True)
    source = open_source(con.sql("SELECT seen(i) AS x, i AS y FROM range(100000) AS r(i)"))
    request = query_costs.EngineRequest(source, (FEATURES[0],), {"label": "y"}, Parameters(), None)
    assert query_costs.read_few(request) is None
    assert not read
    few = query_costs.read_few(replace(request, source=open_source(con.sql("SELECT 1.5 AS x, 2 AS y FROM range(20)"))))
    assert few.frame().collect().rows() == [(1.5, 2)] * 20


WAYS = {
    "held-out rows": {"valid": "late", "eval_metric": "mae", "weight": "w", "exclude": ["rank", "q"]},
    "classes": {"target": "k", "features": ["x", "y", "hours"]},
    "ranking": {"target": "rank", "objective": "rank:ndcg", "group": "q", "features": ["x", "k"]},
    "local": {"tree_method": "approx", "proposal": "local", "max_bin": 16, "features": ["x", "k"], "subsample": 0.5},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_the_model_is_that_of_queries(monkeypatch, name):
    how = {"target": "y", "n_estimators": 2, "max_depth": 3} | WAYS[name]
    con = duckdb.connect()
    con.register("frame", rows())
    fits = [(rows(), "polars"), (rows(), "duckdb"), (con.sql("FROM frame"), "auto")]
    by_queries = [fb.fit(data, engine=engine, **how) for data, engine in fits[::2]]
    monkeypatch.setattr(query_costs, "MAX_VALUES", 1 << 19)
    read = [fb.fit(data, engine=engine, **how) for data, engine in fits]
    for model, other in zip(by_queries, read[::2], strict=True):
        assert difference(model, other, exact=False) == ""
    assert all(model == read[0] for model in read[1:])


@pytest.mark.slow
def test_a_fit_in_shards_stays_with_its_engine(monkeypatch):
    """Each shard of few rows would be read, but the engine was asked for by name, and its shards answer together."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", 1 << 19)
    opened = []
    init = DuckDBEngine.__init__
    monkeypatch.setattr(DuckDBEngine, "__init__", lambda *args, **how: opened.append(1) or init(*args, **how))
    assert fb.fit(rows(), "y", features=["x"], engine="duckdb", shards=2, n_estimators=1).n_trees == 1
    assert len(opened) == 2

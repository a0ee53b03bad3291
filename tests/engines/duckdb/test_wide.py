"""Tables of many columns are binned in groups of columns: the model is that of the other engines."""

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines import query_costs
from frameboost.engines.duckdb import binning, engine, opening
from tests.support.frames import every_type

SHAPE = {"n_estimators": 2, "max_depth": 3, "verbose": False}


@pytest.fixture
def frame() -> pl.DataFrame:
    return every_type(300, seed=5).select("float64", "int16", "string", "datetime_us", "late", "w", "amount", "decimal")


@pytest.fixture
def con(frame, monkeypatch):
    """Return a connection with the frame as a table; three columns are many."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", -1)
    for module in (binning, engine, opening):
        monkeypatch.setattr(module, "MAX_AT_ONCE", 3)
    con = duckdb.connect()
    con.register("arrived", frame.to_arrow())
    con.execute("CREATE TABLE t AS FROM arrived; SET threads = 2")
    con.unregister("arrived")
    return con


@pytest.mark.parametrize("options", [
    pytest.param({}, id="hist"),
    pytest.param({"subsample": 0.5, "seed": 3}, id="subsample"),
    pytest.param({"weight": "w", "valid": "float64 > 0.5"}, id="valid", marks=pytest.mark.slow),
    pytest.param({"tree_method": "approx", "proposal": "local"}, id="local", marks=pytest.mark.slow),
    pytest.param({"tree_method": "approx", "subsample": 0.5}, id="approx of a sample", marks=pytest.mark.slow),
])  # fmt: skip
def test_many_columns_give_the_same_model(con, frame, options):
    expected = fb.fit(frame, "amount", **SHAPE, **options)
    con.execute("SET memory_limit = '2GB'")
    assert fb.fit(con.table("t"), "amount", **SHAPE, **options) == expected
    if not options:
        assert fb.fit(frame, "amount", engine="duckdb", **SHAPE) == expected


@pytest.mark.slow
def test_rows_of_many_columns_may_come_in_any_order(con, frame):
    expected = fb.fit(frame, "amount", **SHAPE)
    con.execute("CREATE TABLE other AS SELECT rowid AS id, float64, w FROM t")
    con.execute("CREATE TABLE rest AS SELECT rowid AS id, * EXCLUDE (float64, w) FROM t")
    joined = con.sql(f"SELECT {', '.join(frame.columns)} FROM other JOIN rest USING (id)")
    assert fb.fit(joined, "amount", **SHAPE) == expected
    con.execute("SET preserve_insertion_order = false")
    assert fb.fit(con.table("t"), "amount", **SHAPE) == expected
    left = "SELECT table_name FROM duckdb_tables() WHERE temporary"
    assert con.sql(left).fetchall() == []


@pytest.mark.slow
def test_a_large_table_of_many_columns_is_read_in_place(con, frame, monkeypatch):
    monkeypatch.setattr(opening, "_SHARE_COPIED", 0.0)
    made = []
    monkeypatch.setattr(DuckDBSession, "read_table", lambda *table: made.append(table))
    expected = fb.fit(frame, "amount", subsample=0.5, **SHAPE)
    assert fb.fit(con.table("t"), "amount", subsample=0.5, **SHAPE) == expected
    assert made == []


@pytest.mark.slow
def test_a_star_of_many_columns(con, frame):
    con.execute("CREATE TABLE keyed AS SELECT *, (rowid % 10)::INT AS id FROM t")
    columns = ", ".join(f"range * {k} % 7 AS k{k}" for k in range(1, 6))
    con.execute(f"CREATE TABLE keys AS SELECT range::INT AS id, {columns} FROM range(10)")
    star = fb.join(con.table("keyed"), con.table("keys"), on="id")
    models = [fb.fit(rows, "amount", **SHAPE) for rows in (star, star.collect())]
    assert models[0].ensemble.trees == models[1].ensemble.trees


def test_few_statements_read_many_columns(con, frame, monkeypatch):
    read = []
    run = DuckDBSession._run

    def counted(session, statement):
        if session._view in statement:
            read.append(statement)
        return run(session, statement)

    monkeypatch.setattr(DuckDBSession, "_run", counted)
    fb.fit(con.sql("SELECT * FROM t WHERE float64 > 0"), "amount", **SHAPE)
    assert len(read) == 1

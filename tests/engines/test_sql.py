"""The engine inside DuckDB: on the caller's connection, leaving nothing behind, whatever happens."""

import os
import signal
import subprocess
import sys
import threading

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.engines.session import DuckDBSession
from tests.frames import every_type

SHAPE = {"n_estimators": 3, "max_depth": 3, "verbose": False}


@pytest.fixture
def frame() -> pl.DataFrame:
    return every_type(500, seed=1).select("float64", "int16", "string", "datetime_us", "decimal", "amount", "late", "w")


@pytest.fixture
def con(frame):
    con = duckdb.connect()
    con.execute("CREATE TABLE flights AS SELECT * FROM frame")
    return con


def catalog(con) -> list[list]:
    """Return all that a connection shows of its database."""
    queries = [
        "SELECT database_name, schema_name, table_name, sql FROM duckdb_tables() ORDER BY ALL",
        "SELECT database_name, schema_name, view_name, sql FROM duckdb_views() ORDER BY ALL",
        "SELECT database_name, function_name FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
        "SELECT name, value FROM duckdb_settings() ORDER BY ALL",
        "SELECT schema_name FROM duckdb_schemas() ORDER BY ALL",
        "SELECT database_name FROM duckdb_databases() ORDER BY ALL",
    ]
    return [con.execute(query).fetchall() for query in queries]


# --- where the rows may be --------------------------------------------------------------------------------------------


def test_tables_views_queries_and_files_give_one_model(con, frame, tmp_path):
    expected = fb.fit(frame, "amount", **SHAPE)
    con.execute("CREATE VIEW seen AS SELECT * FROM flights")
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other")
    con.execute("CREATE SCHEMA other.s; CREATE TABLE other.s.kept AS FROM flights; DETACH other")
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other (READ_ONLY)")
    for i in range(3):
        con.execute(f"COPY (SELECT * FROM flights WHERE rowid % 3 = {i}) TO '{tmp_path}/part{i}.parquet'")
    relations = {
        "table": con.table("flights"),
        "view": con.view("seen"),
        "query": con.sql("SELECT a.* FROM flights AS a JOIN flights AS b ON a.rowid = b.rowid"),
        "files": con.read_parquet(f"{tmp_path}/part*.parquet"),
        "read-only database": con.table("other.s.kept"),
        "relational": con.table("flights").filter("TRUE").order("amount"),
        "frame": con.from_arrow(frame.to_arrow()),
    }
    for kind, relation in relations.items():
        assert fb.fit(relation, "amount", **SHAPE) == expected, kind


def test_the_default_connection_works(frame):
    assert fb.fit(duckdb.sql("SELECT * FROM frame"), "amount", **SHAPE) == fb.fit(frame, "amount", **SHAPE)


def test_columns_may_have_the_names_that_the_engine_uses():
    rng = np.random.default_rng(0)
    names = ["label", "weight", "margin", "node", "bin", "bin_0", "bin_1", "g", "h", "source", "value", "value_0", "n",
             "cuts", "cuts_0", "rowid", "category_0", "first_key", "key", "feature", "frameboost_position", "part",
             "select", 'a"b', "it's", "x.y", "né\n", "{bin}", "?", "$1", "%s"]  # fmt: skip
    x = rng.normal(size=(300, len(names))).round(1)
    frame = pl.DataFrame(x, schema=names).with_columns(pl.Series("y", x @ rng.normal(size=len(names))))
    expected = fb.fit(frame, "y", **SHAPE)
    assert fb.fit(frame, "y", engine="duckdb", **SHAPE) == expected
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    assert fb.fit(con.table("t"), "y", **SHAPE) == expected


def test_strings_may_have_the_names_that_the_engine_uses():
    frame = pl.DataFrame({"code": ["a", "b", "c", None] * 20, "category": ["x", "y", "{z}", "'"] * 20})
    frame = frame.with_columns(y=pl.int_range(80) % 4 + (pl.col("code") == "b").fill_null(False))
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    assert fb.fit(con.table("t"), "y", **SHAPE) == fb.fit(frame, "y", **SHAPE)


def test_a_frame_with_names_that_differ_only_in_case_trains_in_duckdb():
    frame = pl.DataFrame({"x": [1, 2, 3, 4] * 9, "X": [4, 4, 1, 1] * 9, "y": [1.0, 2.0, 3.0, 5.0] * 9})
    model = fb.fit(frame, "y", engine="duckdb", **SHAPE)
    assert model == fb.fit(frame, "y", **SHAPE)


def test_rows_written_in_any_order_still_meet(con, frame):
    big = pl.concat([frame] * 400)  # more than one row group
    con.execute("CREATE TABLE big AS SELECT * FROM big")
    con.execute("SET preserve_insertion_order = false")
    assert fb.fit(con.table("big"), "amount", weight="w", **SHAPE) == fb.fit(big, "amount", weight="w", **SHAPE)


def test_data_larger_than_memory(tmp_path):
    con = duckdb.connect(str(tmp_path / "large.db"))
    con.execute("SET memory_limit = '150MB'; SET threads = 2")
    con.execute(f"SET temp_directory = '{tmp_path / 'spilled'}'")
    # 3 million rows: 24 MB a DOUBLE column, and as much again for margins, for gradients and for hessians.
    columns = ", ".join(f"hash(i * 7 + {k}) % 1000 / 1000 AS x{k}" for k in range(8))
    con.execute(f"CREATE TABLE t AS SELECT {columns}, hash(i) % 100 + i / 1e6 AS y FROM range(3000000) AS r(i)")
    model = fb.fit(con.table("t"), "y", n_estimators=2, max_depth=3, max_bin=32)
    assert model.n_trees == 2
    assert not leftovers(con)


# --- nothing is left behind -------------------------------------------------------------------------------------------


def leftovers(con) -> list:
    names = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()"
    return con.execute(f"SELECT * FROM ({names}) WHERE table_name ILIKE '%frameboost%'").fetchall()


def test_a_fit_leaves_the_database_as_it_was(con):
    con.execute("CREATE TEMP TABLE mine AS SELECT 1; CREATE MACRO twice(x) AS 2 * x")
    before = catalog(con), repr(con.table("flights").fetchall())
    fb.fit(con.table("flights"), "amount", **SHAPE)
    assert (catalog(con), repr(con.table("flights").fetchall())) == before


def test_a_fit_works_in_a_transaction_and_goes_with_it(con, frame):
    con.execute("BEGIN")
    con.execute("INSERT INTO flights SELECT * FROM flights")
    model = fb.fit(con.table("flights"), "amount", **SHAPE)
    assert model == fb.fit(pl.concat([frame, frame]), "amount", **SHAPE)
    con.execute("ROLLBACK")
    assert con.execute("SELECT count(*) FROM flights").fetchall() == [(500,)]
    assert not leftovers(con)


def test_refused_data_leaves_nothing(con):
    before = catalog(con)
    con.execute("INSERT INTO flights (amount) VALUES (NULL)")
    with pytest.raises(fb.DataError, match="NULL or NaN in 1 of 501 rows"):
        fb.fit(con.table("flights"), "amount", **SHAPE)
    assert catalog(con) == before


@pytest.mark.parametrize(
    "step", ["bin_columns", "start_margins", "gradients", "histograms", "apply_splits", "add_leaves"]
)
@pytest.mark.parametrize("error", [RuntimeError("no more"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_failure_at_any_step_leaves_nothing(con, monkeypatch, step, error):
    from frameboost.engines import sql, sql_binning

    before, render = catalog(con), sql.render
    done = []

    def failing(name, **parts):
        done.append(name)
        if done.count(step) == 2 or (name == step and step in ("bin_columns", "start_margins")):
            raise error
        return render(name, **parts)

    monkeypatch.setattr(sql, "render", failing)
    monkeypatch.setattr(sql_binning, "render", failing)
    with pytest.raises(type(error)):
        fb.fit(con.table("flights"), "amount", **SHAPE)
    assert done[-1] == step
    assert catalog(con) == before


def test_a_query_that_fails_late_leaves_nothing(con):
    before = catalog(con)
    # Only when the columns are binned is `text` cast where it can't be.
    con.execute("CREATE VIEW late AS SELECT amount, CASE WHEN float64 > 0 THEN error('no such plane') END::DOUBLE AS x "
                "FROM flights")  # fmt: skip
    with pytest.raises(duckdb.Error, match="no such plane"):
        fb.fit(con.table("late"), "amount", **SHAPE)
    con.execute("DROP VIEW late")
    assert catalog(con) == before


def test_a_failure_in_a_transaction_leaves_it_to_the_user(con):
    con.execute("BEGIN")
    relation = con.sql("SELECT amount, CASE WHEN int16 > 0 THEN error('no such plane') END::DOUBLE AS x FROM flights")
    with pytest.raises(duckdb.Error, match="no such plane"):
        fb.fit(relation, "amount", **SHAPE)
    con.execute("ROLLBACK")
    assert not leftovers(con)


_INTERRUPTED = """
import os, signal, sys, threading, time
import duckdb, frameboost as fb
con = duckdb.connect()
con.execute("SELECT setseed(0.5)")
con.execute("CREATE TABLE t AS SELECT random() AS x, random() AS z, random() AS y FROM range(300000)")
fb.fit(con.table("t"), "y", n_estimators=1)
threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    fb.fit(con.table("t"), "y", n_estimators=100000)
except KeyboardInterrupt:
    print("interrupted", con.execute("SELECT count(*) FROM duckdb_tables()").fetchall(),
          con.execute("SELECT count(*) FROM t").fetchall())
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("after", ["0.11", "0.83", "1.37"])
def test_ctrl_c_stops_a_fit_and_leaves_nothing(after, pytestconfig):
    done = subprocess.run([sys.executable, "-c", _INTERRUPTED, after], cwd=pytestconfig.rootpath, check=False,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.stdout == "interrupted [(1,)] [(300000,)]\n", done.stderr


# --- nothing large leaves the database --------------------------------------------------------------------------------


def test_rows_stay_in_the_database(monkeypatch):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 50 AS a, (i * 7 % 1000) / 10 AS b, 'k' || i % 5 AS c, i % 13 AS y "
                "FROM range(100000) AS r(i)")  # fmt: skip
    sizes = []
    run, columns = DuckDBSession.run, DuckDBSession.columns

    def counted_run(self, statement):
        rows = run(self, statement)
        sizes.append(len(rows))
        return rows

    def counted_columns(self, statement):
        result = columns(self, statement)
        sizes.append(len(next(iter(result.values()))))
        return result

    monkeypatch.setattr(DuckDBSession, "run", counted_run)
    monkeypatch.setattr(DuckDBSession, "columns", counted_columns)
    forbidden = ["df", "pl", "arrow", "fetch_arrow_table", "to_arrow_table", "fetchdf", "to_df"]
    for name in forbidden:
        if hasattr(duckdb.DuckDBPyRelation, name):
            monkeypatch.setattr(duckdb.DuckDBPyRelation, name, None)
    fb.fit(con.table("t"), "y", n_estimators=2, max_depth=3, max_bin=16)
    # At most 2 nodes are asked for at a time (their siblings are what is left): 3 features of at most 17 bins.
    assert 17 < max(sizes) <= 2 * 3 * 17


def test_two_fits_at_once_on_one_database(con, frame):
    expected = fb.fit(frame, "amount", **SHAPE)
    models = []

    def fit(cursor):
        models.append(fb.fit(cursor.table("flights"), "amount", **SHAPE))

    threads = [threading.Thread(target=fit, args=(con.cursor(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert models == [expected, expected]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_training_needs_no_pyarrow(pytestconfig):
    code = """
import sys
sys.modules["pyarrow"] = None
sys.modules["pandas"] = None
import duckdb, polars as pl, frameboost as fb
con = duckdb.connect()
con.execute("CREATE TABLE t AS SELECT i % 7 AS x, 'k' || i % 3 AS s, i % 7 + i % 3 AS y FROM range(100) AS r(i)")
model = fb.fit(con.table("t"), "y", n_estimators=2)
assert model == fb.fit(con.table("t"), "y", n_estimators=2, engine="numba")
assert model.predict(con.table("t")).len() == 100
frame = pl.DataFrame({"x": [1, 2] * 5, "s": ["a", None] * 5, "y": [1, 2] * 5})
assert fb.fit(frame, "y", n_estimators=2, engine="duckdb") == fb.fit(frame, "y", n_estimators=2)
model.register(con, "score")
print(len(con.execute("SELECT score(x, s) FROM t").fetchall()), model.features)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=pytestconfig.rootpath, check=False,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout == "100 ['x', 's']\n", done.stderr

"""Rows in a database follow the splits of very many nodes."""

import duckdb
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import RowNodes
from frameboost.splits.split import Split, Stats


@pytest.mark.slow
def test_a_long_chain_of_splits_that_nobody_asks_for_is_no_deep_expression():
    con = duckdb.connect()
    con.execute("CREATE TABLE bins AS SELECT CAST(i % 9 AS UTINYINT) AS bin_0 FROM range(600) AS r(i)")
    nodes = RowNodes(DuckDBSession(con.table("bins")), "bins", lambda s: f"bin_{s.feature} < {s.bin}", "")
    half = Stats(0.0, 1.0)
    for i in range(600):  # all rows go right each time
        nodes.move({2 * i: (Split(0, 1.0, half, half, missing_left=False, bin=0), 2 * i + 1, 2 * i + 2)})
    table, node_of = nodes.table()
    assert {node_of[number] for (number,) in con.execute(f"SELECT node FROM {table}").fetchall()} == {1200}


@pytest.mark.slow
def test_more_nodes_than_a_byte_can_number():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 1024 AS x, i % 1024 AS y FROM range(4096) AS r(i)")
    shape = {"n_estimators": 1, "max_depth": 10, "min_child_weight": 0, "reg_lambda": 0, "max_bin": 1024}
    model = fb.fit(con.table("t"), "y", engine="duckdb", **shape)
    assert len(model.trees) > 1024
    assert model == fb.fit(con.table("t"), "y", engine="numba", **shape)

"""Rows in a database follow the splits, also of very many nodes."""

import duckdb
import numpy as np
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import RowNodes
from frameboost.splits.split import Split, Stats

HALF = Stats(0.0, 1.0)


def opened(con: duckdb.DuckDBPyConnection) -> RowNodes:
    con.execute("CREATE TABLE bins AS SELECT CAST(hash(i) % 9 AS UTINYINT) AS bin_0, CAST(hash(-i) % 9 AS UTINYINT) AS "
                "bin_1 FROM range(600) AS r(i)")  # fmt: skip
    return RowNodes(DuckDBSession(con.table("bins")), "bins", lambda s: f"bin_{s.feature} < {s.bin}", "")


@pytest.mark.slow
def test_a_long_chain_of_splits_that_nobody_asks_for_is_no_deep_expression():
    con = duckdb.connect()
    nodes = opened(con)
    for i in range(600):  # all rows go right each time
        nodes.move({2 * i: (Split(0, 1.0, HALF, HALF, missing_left=False, bin=0), 2 * i + 1, 2 * i + 2)})
    table, node_of = nodes.table()
    assert {node_of[number] for (number,) in con.execute(f"SELECT node FROM {table}").fetchall()} == {1200}


@pytest.mark.parametrize("n_before", [0, 1, 2, 12])
def test_nodes_asked_for_get_numbers_in_a_row(n_before):
    con, rng, expected = duckdb.connect(), np.random.default_rng(2), np.zeros(600, dtype=int)
    nodes = opened(con)
    bins = con.execute("SELECT bin_0, bin_1 FROM bins ORDER BY rowid").fetchnumpy()
    for i in range(14):
        node, feature, code = int(rng.choice(expected)), int(rng.integers(2)), int(rng.integers(1, 9))
        nodes.move({node: (Split(feature, 1.0, HALF, HALF, missing_left=False, bin=code), 2 * i + 1, 2 * i + 2)})
        expected = np.where(expected == node, np.where(bins[f"bin_{feature}"] < code, 2 * i + 1, 2 * i + 2), expected)
        if i >= n_before:  # first of many splits, in a walk from the root, then of one and of old nodes
            asked = np.unique(expected)[::-2].tolist()
            first = nodes.settle(asked)
            (table,) = nodes.tables
            found = con.execute(f"SELECT node FROM {table} ORDER BY rowid").fetchnumpy()["node"]
            for place, node in enumerate(asked):
                assert (found == first + place).tolist() == (expected == node).tolist()


@pytest.mark.slow
def test_more_nodes_than_a_byte_can_number():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 1024 AS x, i % 1024 AS y FROM range(4096) AS r(i)")
    shape = {"n_estimators": 1, "max_depth": 10, "min_child_weight": 0, "reg_lambda": 0, "max_bin": 1024}
    model = fb.fit(con.table("t"), "y", engine="duckdb", **shape)
    assert len(model.trees) > 1024
    assert model == fb.fit(con.table("t"), "y", engine="numba", **shape)

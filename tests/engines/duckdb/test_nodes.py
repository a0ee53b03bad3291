"""Rows in a database follow the splits, whether they walk from the root again or go on from the table."""

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import RowNodes
from frameboost.splits.split import Split, Stats

N_ROWS = 600


@pytest.fixture
def bins() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 9, (2, N_ROWS))


@pytest.fixture
def con(bins) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("arrived", pl.DataFrame(bins.T, schema=["bin_0", "bin_1"]).to_arrow())
    con.execute("CREATE TABLE bins AS SELECT bin_0::UTINYINT AS bin_0, bin_1::UTINYINT AS bin_1 FROM arrived")
    return con


def grown_tree(bins: np.ndarray, rng: np.random.Generator, n_splits: int):
    """Yield, one after the other, a split of some leaf, and the node that each row is in afterwards."""
    node_of = np.zeros(N_ROWS, dtype=int)
    for i in range(n_splits):
        node = int(rng.choice(np.unique(node_of)))
        feature, code = int(rng.integers(2)), int(rng.integers(1, 9))
        rows = np.flatnonzero(node_of == node)
        is_left = bins[feature, rows] < code
        sides = Stats(0.0, float(is_left.sum())), Stats(0.0, float((~is_left).sum()))
        node_of[rows] = np.where(is_left, 2 * i + 1, 2 * i + 2)
        yield {node: (Split(feature, 1.0, *sides, missing_left=False, bin=code), 2 * i + 1, 2 * i + 2)}, node_of.copy()


def nodes_of(con: duckdb.DuckDBPyConnection, nodes: RowNodes) -> list[int]:
    table, node_of = nodes.table()
    return [node_of[number] for (number,) in con.execute(f"SELECT node FROM {table} ORDER BY rowid").fetchall()]


@pytest.mark.slow
@pytest.mark.parametrize("at_a_time", [1, 5, 36])
def test_every_row_is_where_the_splits_send_it(con, bins, at_a_time):
    rng = np.random.default_rng(1)
    nodes = RowNodes(DuckDBSession(con.table("bins")), "bins", lambda s: f"bin_{s.feature} < {s.bin}", "")
    for _ in range(2):  # the next tree starts with all rows in its root
        nodes.restart()
        assert nodes.is_root
        for i, (split, expected) in enumerate(grown_tree(bins, rng, 40), start=1):
            nodes.move(split)
            if i % at_a_time == 0:
                value_of = nodes.case({node: f"{node * 10}" for node in range(2 * i + 1)})
                values = con.execute(f"SELECT {value_of} FROM {' POSITIONAL JOIN '.join(nodes.sources)}").fetchall()
                assert [value for (value,) in values] == (expected * 10).tolist()
                assert nodes_of(con, nodes) == expected.tolist()


@pytest.mark.parametrize("n_before", [0, 1, 2, 12])
def test_nodes_asked_for_get_numbers_in_a_row(con, bins, n_before):
    nodes = RowNodes(DuckDBSession(con.table("bins")), "bins", lambda s: f"bin_{s.feature} < {s.bin}", "")
    for i, (split, expected) in enumerate(grown_tree(bins, np.random.default_rng(2), 14)):
        nodes.move(split)
        if i >= n_before:
            asked = np.unique(expected)[::-2].tolist()
            first = nodes.settle(asked)
            (table,) = nodes.tables
            found = np.array(con.execute(f"SELECT node FROM {table} ORDER BY rowid").fetchall())[:, 0]
            for place, node in enumerate(asked):
                assert (found == first + place).tolist() == (expected == node).tolist()


@pytest.mark.slow
def test_a_long_chain_of_splits_that_nobody_asks_for_is_no_deep_expression(con):
    session = DuckDBSession(con.table("bins"))
    nodes = RowNodes(session, "bins", lambda s: f"bin_{s.feature} < {s.bin}", "")
    half = Stats(0.0, 1.0)
    for i in range(600):  # all rows go right each time
        nodes.move({2 * i: (Split(0, 1.0, half, half, missing_left=False, bin=0), 2 * i + 1, 2 * i + 2)})
    assert set(nodes_of(con, nodes)) == {1200}


@pytest.mark.slow
def test_more_nodes_than_a_byte_can_number():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 1024 AS x, i % 1024 AS y FROM range(4096) AS r(i)")
    shape = {"n_estimators": 1, "max_depth": 10, "min_child_weight": 0, "reg_lambda": 0, "max_bin": 1024}
    model = fb.fit(con.table("t"), "y", engine="duckdb", **shape)
    assert len(model.trees) > 1024
    assert model == fb.fit(con.table("t"), "y", engine="numba", **shape)

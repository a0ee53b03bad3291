"""The example of sql/README.md, step by step."""

import duckdb
import numpy as np
import pytest

import frameboost as fb
from frameboost.binning.bins import Bins
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.binning import SqlColumn
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.expressions.expression import Expression
from frameboost.schema.types import Feature, FeatureType
from frameboost.splits.split import Split, Stats


@pytest.fixture
def con():
    con = duckdb.connect()
    con.execute("CREATE TABLE flights (dep_delay INTEGER, arr_delay DOUBLE)")
    con.execute("INSERT INTO flights VALUES (0, 0), (0, 2), (10, 7), (20, 24), (20, 27), (NULL, 30)")
    return con


def histograms(engine, nodes):
    """Return the histograms of some nodes, which the engine writes last node first, to an array that has another."""
    out = np.full((len(nodes) + 1, 4, 2), 7.0)
    engine.histograms(nodes, out, np.arange(len(nodes))[::-1])
    assert out[-1].tolist() == [[7.0, 7.0]] * 4
    return out[-2::-1].tolist()


def test_every_step_is_as_on_the_page(con):
    feature = Feature("dep_delay", FeatureType("int32"))
    session = DuckDBSession(con.table("flights"))
    engine = DuckDBEngine(session, [feature], [SqlColumn('"dep_delay"', feature.type)], {"label": '"arr_delay"'})
    assert (engine.n_rows, engine.count_missing()) == (6, [1])
    (bins,) = engine.propose_bins(256, {})
    assert bins == Bins(feature, (10, 20), has_missing=True)
    engine.bin_columns([bins])
    [(table,)] = con.execute("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE '%_bins'").fetchall()
    assert con.execute(f'FROM "{table}"').fetchall() == [
        (0, 0.0), (0, 2.0), (1, 7.0), (2, 24.0), (2, 27.0), (3, 30.0),
    ]  # fmt: skip
    engine.start_margins({"margin": Expression("15")})
    engine.compute_gradients({"g_0": Expression("margin - label"), "h_0": Expression("1")}, {})
    assert engine.start_tree(0) == Stats(0.0, 6.0)
    assert histograms(engine, [0]) == [[[28, 2], [8, 1], [-21, 2], [-15, 1]]]
    root = Split(0, 864.0, Stats(36.0, 3.0), Stats(-36.0, 3.0), missing_left=False, bin=2, threshold=20)
    engine.apply_splits({0: (root, 1, 2)})
    assert histograms(engine, [1]) == [[[28, 2], [8, 1], [0, 0], [0, 0]]]
    assert histograms(engine, [2, 1])[0] == [[0, 0], [0, 0], [-21, 2], [-15, 1]]
    engine.add_leaf_values({1: -1.0, 2: 1.0}, "margin")
    engine._may_sort = True  # as with many rows; those of node 2, which was asked for first, come first
    engine.compute_gradients({"g_0": Expression("margin - label"), "h_0": Expression("1")}, {})
    sorted_bins = "SELECT table_name FROM duckdb_columns() WHERE table_name LIKE '%_in_order' AND column_name = 'bin_0'"
    [(table,)] = con.execute(sorted_bins).fetchall()
    assert con.execute(f'FROM "{table}"').fetchall() == [
        (2, 24.0), (2, 27.0), (3, 30.0), (0, 0.0), (0, 2.0), (1, 7.0),
    ]  # fmt: skip
    assert engine.start_tree(0) == Stats(0.0, 6.0)
    assert histograms(engine, [0]) == [[[26, 2], [7, 1], [-19, 2], [-14, 1]]]
    engine.close()
    assert con.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(1,)]


def test_the_tree_is_the_pages(con):
    model = fb.fit(con.table("flights"), "arr_delay", n_estimators=1, max_depth=2, learning_rate=1, reg_lambda=0)
    assert model.base_margin == 15.0
    assert model.trees.select("threshold", "missing", "gain", "cover").rows()[:3] == [
        (20.0, "right", 864.0, 6.0), (10.0, "right", 24.0, 3.0), (None, "right", 13.5, 3.0)
    ]  # fmt: skip
    assert model.trees["value"].to_list()[3:] == [-14.0, -8.0, 10.5, 15.0]
    scored = con.execute(model.query("flights", keep=[])).fetchall()
    assert [margin for (margin,) in scored] == [1.0, 1.0, 7.0, 25.5, 25.5, 30.0]

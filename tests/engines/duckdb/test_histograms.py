"""Histograms by SQL, compared with numpy's sums over the same rows."""

import duckdb
import numpy as np
import pytest

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import HistogramQuery
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases

N_ROWS = 5_000
# of each feature: bins, and whether it is ever missing; the third has one code in all, the last more than a byte holds
SHAPES = [(256, False), (255, True), (1, False), (7, True), (300, True)]


@pytest.fixture
def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = {f"bin_{i}": rng.integers(0, n + missing, N_ROWS) for i, (n, missing) in enumerate(SHAPES)}
    # Sums of sixteenths are exact.
    g, h = rng.integers(-40, 40, N_ROWS) / 16, rng.integers(0, 40, N_ROWS) / 16
    return {**codes, "node": rng.integers(0, 26, N_ROWS), "g": g, "h": h}


def query(con: duckdb.DuckDBPyConnection, rows: dict[str, np.ndarray]) -> HistogramQuery:
    types = {"g": "DOUBLE", "h": "DOUBLE", "bin_4": "INTEGER"}
    columns = ", ".join(f"CAST({name} AS {types.get(name, 'UTINYINT')}) AS {name}" for name in rows)
    con.execute(f"CREATE TABLE made AS SELECT {columns} FROM rows")
    bins = [
        Bins(Feature(str(i), FeatureType("float64")), tuple(range(1, n)), has_missing=missing)
        for i, (n, missing) in enumerate(SHAPES)
    ]
    return HistogramQuery(DuckDBSession(con.table("made")), SlotLayout(bins), "made", {"g": "g", "h": "h"})


@cases(("n_nodes", "key_bits", "is_empty"), [
    (1, 12, False), (2, 10, True), (2, 0, False), (16, 12, True), (16, 10, False), (20, 0, True), (20, 12, False),
])  # fmt: skip
def test_sums_of_every_node_and_code_are_its_rows(rows, n_nodes, key_bits, is_empty):
    if is_empty:
        rows = rows | {"node": rows["node"] // 3 * 3}
    con = duckdb.connect()
    con.execute(f"SET perfect_ht_threshold = {key_bits}")
    made = query(con, rows)
    pair = np.stack([rows["g"], rows["h"]], axis=1)
    expected = np.zeros((26, made.layout.n_slots, 2))
    for i in range(len(SHAPES)):
        np.add.at(expected, (rows["node"], made.layout.offsets[i] + rows[f"bin_{i}"]), pair)
    totals = np.zeros((26, 2))
    np.add.at(totals, rows["node"], pair)
    asked = slice(3, 3 + n_nodes)
    assert made.run(n_nodes, totals[asked], 3, is_root=False).tolist() == expected[asked].tolist()
    assert made.run(n_nodes, None, 3, is_root=False).tolist() == expected[asked].tolist()


def test_sixteen_nodes_of_256_codes_take_one_statement(rows, monkeypatch):
    made, statements = query(duckdb.connect(), rows), []

    def columns(_, statement):
        statements.append(statement)
        return {name: np.empty(0, dtype=int) for name in ("feature", "key", "g", "h")}

    monkeypatch.setattr(DuckDBSession, "columns", columns)
    made.run(16, np.zeros((16, 2)), 3, is_root=False)
    assert len(statements) == 1
    made.run(17, np.zeros((17, 2)), 3, is_root=False)
    assert len(statements) == 3

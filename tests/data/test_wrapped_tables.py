"""Ibis tables over DuckDB, narwhals frames and PyArrow datasets."""

import duckdb
import ibis
import narwhals
import narwhals.stable.v1
import polars as pl
import pyarrow.dataset
import pytest

import frameboost as fb
from frameboost.data.foreign_tables import table_behind
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, RelationSource

FRAME = pl.DataFrame({"x": [i % 7 / 2 for i in range(80)], "kind": ["a", "b"] * 40, "id": range(80)}).with_columns(
    y=pl.col("x") * 2 + pl.col("id") % 3
)
# Ibis 12 calls a method of DuckDB 2 by its old name.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
SHAPE = {"features": ["x", "kind"], "n_estimators": 2}


def connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.register("arrived", FRAME.to_arrow())
    con.execute('CREATE TABLE "my rows" AS FROM arrived')
    return con


@pytest.mark.slow
def test_an_ibis_table_stays_in_duckdb():
    con = connection()
    table = ibis.duckdb.from_connection(con).table("my rows")
    late = table.filter(table.id >= 10).mutate(double=table.x * 2)
    source = open_source(late)
    assert isinstance(source, RelationSource)
    assert source.names() == [*FRAME.columns, "double"]
    expected = fb.fit(FRAME.filter(pl.col("id") >= 10), "y", **SHAPE)
    assert fb.fit(late, "y", **SHAPE) == expected
    held = fb.fit(table, "y", valid=0.3, **SHAPE)
    assert held == fb.fit(con.table("my rows"), "y", valid=0.3, **SHAPE)
    assert expected.predict(late).to_list() == expected.predict(FRAME[10:]).to_list()
    assert expected.evaluate(late, "y").metrics.equals(expected.evaluate(FRAME[10:], "y").metrics)


def test_an_ibis_table_that_duckdb_cannot_read_says_what_to_do():
    con = connection()
    table = ibis.duckdb.from_connection(con).table("my rows")
    con.execute('DROP TABLE "my rows"')
    with pytest.raises(fb.DataError, match=r"^valid is an Ibis table whose query DuckDB can't run \(Catalog Error: .*"):
        fb.fit(FRAME, "y", valid=table, **SHAPE)


def test_narwhals_frames_are_what_they_wrap():
    con = connection()
    for wrap in (narwhals.from_native, narwhals.stable.v1.from_native):
        for frame in (FRAME, FRAME.lazy(), FRAME.to_pandas()):
            assert table_behind(wrap(frame)) is frame
    expected = fb.fit(FRAME, "y", **SHAPE)
    for data in (FRAME, FRAME.lazy(), FRAME.to_pandas(), FRAME.to_arrow(), con.table("my rows")):
        wrapped = narwhals.from_native(data)
        assert fb.fit(wrapped, "y", **SHAPE) == expected
        assert expected.predict(wrapped).to_list() == expected.predict(FRAME).to_list()
    assert isinstance(open_source(narwhals.from_native(con.table("my rows"))), RelationSource)


def test_datasets_of_pyarrow_are_scanned(tmp_path):
    FRAME[:30].write_parquet(tmp_path / "1.parquet")
    FRAME[30:].write_parquet(tmp_path / "2.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path)
    assert isinstance(open_source(dataset), FrameSource)
    expected = fb.fit(FRAME, "y", valid="id >= 50", **SHAPE)
    assert fb.fit(dataset, "y", valid="id >= 50", **SHAPE) == expected
    assert expected.predict(dataset).to_list() == expected.predict(FRAME).to_list()
    reader = FRAME.to_arrow().to_reader()
    assert fb.fit(reader, "y", valid="id >= 50", **SHAPE) == expected


def test_an_ibis_table_of_another_database_is_binned_there(tmp_path):
    pytest.importorskip("regex", reason="Ibis needs it for SQLite")
    rows = pl.DataFrame({"x": [0.5, 1.5, 2.5, 3.5] * 5, "k": ["a", "b"] * 10, "y": [1.0, 2.0, 4.0, 3.0] * 5})
    backend = ibis.sqlite.connect(tmp_path / "rows.db")
    backend.con.execute("CREATE TABLE t (x REAL, k TEXT, y REAL)")
    backend.con.executemany("INSERT INTO t VALUES (?, ?, ?)", rows.rows())
    table = backend.table("t")
    kept = table.filter(table.x < 3)
    assert "leaves" in str(fb.plan(kept, "y"))
    model, expected = (
        fb.fit(data, "y", n_estimators=2, min_child_weight=0) for data in (kept, rows.filter(pl.col("x") < 3))
    )
    assert model.trees.equals(expected.trees)
    assert model.predict(kept).equals(expected.predict(rows.filter(pl.col("x") < 3)))
    backend.disconnect()

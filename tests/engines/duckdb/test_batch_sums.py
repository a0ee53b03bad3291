"""Facts in batches: the batches of a query's result, and their sums by bin and by key."""

import gc
import threading
import tracemalloc

import duckdb
import numpy as np
import pytest

from frameboost.data import duckdb_session
from frameboost.data.duckdb_session import DuckDBSession, read_batches
from frameboost.engines.duckdb.engine import MAX_CACHED_KEYS, sums_by_key_pay
from frameboost.engines.duckdb.star.keys import StarDimension


def test_sums_by_key_pay_with_many_rows_for_each_and_few_keys():
    assert sums_by_key_pay(MAX_CACHED_KEYS, 2, 4.0 * MAX_CACHED_KEYS)
    assert not sums_by_key_pay(MAX_CACHED_KEYS, 2, 4.0 * MAX_CACHED_KEYS - 1)
    assert not sums_by_key_pay(MAX_CACHED_KEYS + 1, 1, 1e12)
    assert not sums_by_key_pay(MAX_CACHED_KEYS, 1000, 1e12), "half a gigabyte of sums"


@pytest.fixture
def con():
    with duckdb.connect() as con:
        yield con


def test_batches_have_all_rows_and_take_little_memory(con):
    con.execute("SET threads = 2")
    n_rows = 1_500_000
    session = DuckDBSession(con.sql("SELECT 1 AS one"))
    query = f"SELECT CAST(i % 200 AS UTINYINT), CAST(i AS UINTEGER), i / 4 FROM range({n_rows}) AS r(i) WHERE i % 3 < 2"
    places = np.arange(n_rows)[np.arange(n_rows) % 3 < 2]
    total, n_batches, seen = np.zeros(3), 0, []
    tracemalloc.start()
    for codes, keys, values in session.batches(query, [np.uint8, np.uint32, np.float64]):
        assert (codes.dtype, keys.dtype, values.dtype) == (np.uint8, np.uint32, np.float64)
        assert not codes.flags.writeable
        np.testing.assert_array_equal(codes, keys % 200)
        np.testing.assert_array_equal(values, keys / 4)
        total += [codes.sum(dtype=int), keys.sum(dtype=int), len(keys)]
        n_batches, seen = n_batches + 1, [*seen, len(keys)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total.tolist() == [(places % 200).sum(), places.sum(), len(places)]
    assert n_batches > 5
    assert peak < 8 * max(seen) * 8
    assert session.rows("SELECT 7")[0] == (7,), "the connection is free"
    assert list(session.batches("SELECT 1e0 WHERE 1 = 2", [np.float64])) in ([], [[]])
    session.close()


def test_a_batch_that_fails_and_one_that_is_not_read(con):
    session = DuckDBSession(con.sql("SELECT 1 AS one"))
    query = (
        "SELECT CASE WHEN i = 900000 THEN CAST(error('row 900000') AS DOUBLE) ELSE i END FROM range(1000000) AS r(i)"
    )
    with pytest.raises(duckdb.Error, match="row 900000"):
        for _ in session.batches(query, [np.float64]):
            pass
    with pytest.raises(duckdb.Error, match="nothing_of_that_name"):
        list(session.batches("SELECT a FROM nothing_of_that_name", [np.float64]))
    before = threading.active_count()
    batches = session.batches("SELECT CAST(i AS DOUBLE) FROM range(1000000) AS r(i)", [np.float64])
    assert next(batches)[0][0] == 0.0
    batches.close()
    gc.collect()
    assert threading.active_count() == before
    assert session.rows("SELECT 7")[0] == (7,), "the connection is free"
    session.close()
    assert con.sql("SELECT COUNT(*) FROM duckdb_views() WHERE temporary AND NOT internal").fetchall() == [(0,)]


@pytest.mark.parametrize("place", ["_pointer_of", "ThreadPoolExecutor", "_values_of"])
def test_the_connection_is_free_after_ctrl_c(con, monkeypatch, place):
    def interrupt(*arguments):
        del arguments  # as Ctrl-C has no frame of its own
        raise KeyboardInterrupt

    monkeypatch.setattr(duckdb_session, place, interrupt)
    result = con.sql("SELECT CAST(i AS DOUBLE) FROM range(1000000) AS r(i)")
    with pytest.raises(KeyboardInterrupt) as error:
        list(read_batches(result, [np.float64]))
    assert con.execute("SELECT 7").fetchall() == [(7,)], "while the traceback, and so all frames, are still there"
    assert error.value.__traceback__ is not None


@pytest.mark.parametrize(
    "value", ["CAST(CASE WHEN i = 900000 THEN 'x' ELSE '1' END AS BIGINT)", "i + 9223372036853975807",
              "CASE WHEN i = 900000 THEN error('boom') ELSE i END"],
)  # fmt: skip
def test_an_error_is_of_the_kind_that_the_connection_raises(con, value):
    query = f"SELECT {value} FROM range(1000000) AS r(i)"
    with pytest.raises(duckdb.Error) as expected:
        con.execute(query).fetchall()
    with pytest.raises(duckdb.Error) as found:
        list(read_batches(con.sql(query), [np.int64]))
    assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))
    assert type(found.value) is not duckdb.Error


def test_an_interrupt_while_batches_are_read_is_one(con):
    batches = read_batches(con.sql("SELECT i FROM range(1_000_000_000) AS r(i)"), [np.int64])
    next(batches)
    con.interrupt()
    with pytest.raises(duckdb.InterruptException):
        list(batches)


def test_slices_start_where_they_start():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": polars.Series(range(10), dtype=polars.UInt16)})
    (batch,) = read_batches(frame.slice(3, 4), [np.uint16])
    assert batch[0].tolist() == [3, 4, 5, 6]


# Rows are numbered from -1 on, which is the row of facts whose key finds none.
@pytest.mark.parametrize(
    ("n_distinct", "row_ids", "n_keys", "is_merged"),
    [(2, "10 * i - 1", 2, True), (6, "10 * i - 1", 6, False), (6, "2 * i - 1", 11, False), (6, "i - 1", 6, False)],
)
def test_the_key_of_a_row(con, n_distinct, row_ids, n_keys, is_merged):
    """Rows with equal codes are one key where many are; otherwise the row itself is, where few numbers are not used."""
    session = DuckDBSession(con.sql("SELECT 1 AS one"))
    table = session.table("bins")
    session.run(
        f"CREATE TEMP TABLE {table} AS SELECT {row_ids} AS row_id, CAST(i % {n_distinct} AS UTINYINT) AS bin_3, "
        f"CAST(300 + i % {n_distinct} AS INTEGER) AS bin_5 FROM range(6) AS r(i)"
    )
    found = StarDimension.of_codes(session, "key_0", table, (3, 5), 1000)
    assert (found.n_keys, found.is_merged, found.has_codes) == (n_keys, is_merged, False)
    assert found.codes.dtype == np.uint32
    join, columns = found.join("branch", "facts.row_0")
    assert bool(join) == (found.unknown is None) == row_ids.startswith("10")
    facts = f"(SELECT {row_ids} AS row_0, i FROM range(6) AS r(i)) AS facts"
    rows = session.rows(f"SELECT facts.i, {columns['key_0']} FROM {facts} {join}")
    assert {i: found.codes[key].tolist() for i, key in rows} == {
        i: [i % n_distinct, 300 + i % n_distinct] for i in range(6)
    }
    session.close()

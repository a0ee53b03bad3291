"""A fit leaves the connection as it found it: after success, after an error, after Ctrl-C at any moment."""

import gc
import os
import re
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pytest
import sqlglot
from sqlglot import exp

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines import query_costs
from frameboost.engines.duckdb import binning, memory
from frameboost.engines.duckdb import engine as sql
from frameboost.expressions import duckdb_sql
from frameboost.runtime import interrupts
from tests.support.cases import some_pairs
from tests.support.frames import every_type

SHAPE = {"n_estimators": 2, "max_depth": 2, "verbose": False}
STATEMENTS = sorted(path.stem for path in (Path(__file__).parents[2] / "sql").glob("*.sql"))


@cache
def rows() -> pl.DataFrame:
    return every_type(400, seed=3).select("float64", "int16", "string", "amount", "late", "w")


@cache
def expected(**how) -> fb.Model:
    """Return the model of the rows as a frame."""
    return fb.fit(rows(), "amount", **how, **SHAPE)


@pytest.fixture
def con():
    con = duckdb.connect()
    con.register("arrived", rows().to_arrow())
    con.execute("CREATE TABLE flights AS FROM arrived; CREATE TEMP TABLE mine AS SELECT 1 AS x")
    con.execute("CREATE VIEW seen AS FROM flights; CREATE MACRO twice(x) AS 2 * x; SET threads = 2")
    con.unregister("arrived")
    return con


def catalog(con: duckdb.DuckDBPyConnection) -> list[list]:
    """Return all that a connection shows of itself: what it holds, and how it is set."""
    queries = [
        "SELECT database_name, schema_name, table_name, temporary, estimated_size FROM duckdb_tables() ORDER BY ALL",
        "SELECT database_name, schema_name, view_name, sql FROM duckdb_views() ORDER BY ALL",
        "SELECT database_name, schema_name, sequence_name FROM duckdb_sequences() ORDER BY ALL",
        "SELECT database_name, schema_name, type_name FROM duckdb_types() WHERE NOT internal ORDER BY ALL",
        "SELECT database_name, function_name FROM duckdb_functions() WHERE NOT internal ORDER BY ALL",
        "SELECT database_name, schema_name FROM duckdb_schemas() ORDER BY ALL",
        "SELECT database_name, path FROM duckdb_databases() ORDER BY ALL",
        "SELECT name, value FROM duckdb_settings() ORDER BY ALL",
        "SELECT name FROM duckdb_prepared_statements() ORDER BY ALL",
    ]
    return [con.execute(query).fetchall() for query in queries]


def render_as(monkeypatch, render) -> None:
    """Replace `duckdb_sql.render` wherever it has been imported."""
    original = duckdb_sql.render
    for name, module in list(sys.modules.items()):
        if name.startswith("frameboost") and getattr(module, "render", None) is original:
            monkeypatch.setattr(module, "render", render)


# --- success ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fits_one_after_the_other_leave_the_connection_as_it_was(con):
    before = catalog(con)
    first, second = (fb.fit(con.table("seen"), "amount", weight="w", **SHAPE) for _ in range(2))
    assert first == second == expected(weight="w")
    assert catalog(con) == before


def test_everything_a_fit_makes_is_temporary_and_bears_its_name(con, monkeypatch):
    made = set()  # another connection must not see it

    def render(name, **parts):
        assert con.cursor().execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("flights",)]
        made.update(con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall())
        return original(name, **parts)

    original = duckdb_sql.render
    render_as(monkeypatch, render)
    fb.fit(con.table("flights"), "amount", **SHAPE)
    assert len(made) > 1
    assert all(name.startswith("frameboost_") for (name,) in made - {("mine",)})


def test_a_database_that_may_only_be_read_can_be_trained_on(con, tmp_path):
    con.execute(f"ATTACH '{tmp_path / 'd.db'}' AS d; CREATE TABLE d.flights AS FROM flights; DETACH d")
    with duckdb.connect(tmp_path / "d.db", read_only=True) as reader:
        before = catalog(reader)
        assert fb.fit(reader.table("flights"), "amount", **SHAPE) == expected()
        assert catalog(reader) == before


def test_a_frame_trained_in_duckdb_does_not_touch_the_default_connection():
    before = catalog(duckdb.default_connection())
    fb.fit(rows(), "amount", engine="duckdb", **SHAPE)
    assert catalog(duckdb.default_connection()) == before


def test_a_file_that_was_trained_on_is_closed_at_once(con, tmp_path):
    con.execute(f"ATTACH '{tmp_path / 'd.duckdb'}' AS d; CREATE TABLE d.flights AS FROM flights; DETACH d")
    gc.disable()
    try:
        fb.fit(f"{tmp_path / 'd.duckdb'}::flights", "amount", **SHAPE)
        duckdb.connect(tmp_path / "d.duckdb").close()  # with another configuration: the fit only reads
    finally:
        gc.enable()


def test_statements_that_do_not_read_the_source_do_not_need_it(con):
    session = DuckDBSession(con.table("flights"))
    assert session.rows(f"SELECT count(*) FROM {session.source}") == [(400,)]
    assert session.rows("SELECT 1") == [(1,)]
    con.execute("ALTER TABLE flights RENAME TO gone")
    assert session.rows("SELECT 2") == [(2,)]
    assert session.columns("SELECT 3 AS x")["x"].tolist() == [3]
    with pytest.raises(duckdb.CatalogException):
        session.rows(f"SELECT count(*) FROM {session.source}")
    con.execute("ALTER TABLE gone RENAME TO flights")
    session.close()


# --- errors -----------------------------------------------------------------------------------------------------------


MEDIAN = {"objective": "reg:absoluteerror"}
AREA = {"target": "late", "objective": "binary:logistic", "eval_metric": "auc"}
RANKS = {"source": "ranked", "target": "late", "objective": "rank:pairwise", "group": "string", "eval_metric": "ndcg"}
FITS = [
    {"source": "star"}, {**MEDIAN, "subsample": 0.5, "max_bin": 8, "by_cells": True}, {**MEDIAN, "weight": "w"}, AREA,
    RANKS, {**RANKS, "threads": 7}, {"tree_method": "approx"}, {"tree_method": "approx", "threads": 7},
    {"tree_method": "approx", "proposal": "local"}, {**MEDIAN, "engine": "duckdb", "shards": 2},
    {**AREA, "engine": "duckdb", "shards": 2}, {"linear_tree": True},
]  # fmt: skip


def fit_as(con, source="flights", target="amount", by_cells=False, threads=2, **how):
    """Fit to flights, or to a star of them; with seven threads by group-bys, from tables."""
    data = con.table("flights")
    if source == "ranked":
        data = data.filter("string IS NOT NULL")
    elif source == "star":
        dimension = con.sql("SELECT i AS number, i // 3 AS a, -(i // 3) AS b FROM range(5) AS r(i)")  # two keys, NULL
        data = fb.join(con.sql("SELECT *, CAST(amount AS BIGINT) % 6 AS number FROM flights"), dimension, on="number")
    con.execute(f"SET threads = {threads}")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(binning, "MIN_ROWS", 0 if by_cells else 1 << 17)
            patch.setattr(memory, "_SHARE", 0.0 if threads == 7 else 0.25)
            fb.fit(data, target, **how, **SHAPE)
    finally:
        con.execute("SET threads = 2")


@pytest.mark.slow
def test_every_statement_is_whole_and_a_failure_before_it_leaves_nothing(con, monkeypatch):
    """In each fit the last statement fails of those that no fit before it has run; these run all that there are."""
    monkeypatch.setattr(sql, "MIN_SORTED", 1)
    monkeypatch.setattr(binning, "_CELLS", 40)
    monkeypatch.setattr(binning, "MAX_AT_ONCE", 3)
    before, original = catalog(con), duckdb_sql.render
    failing, seen = "", {}

    def render(name, **parts):
        if name == failing:
            raise MemoryError
        seen[name] = original(name, **parts)
        return seen[name]

    render_as(monkeypatch, render)
    for how in FITS:
        failing, known = "", len(seen)
        fit_as(con, **how)
        failing = [*seen][known:][-1]
        with pytest.raises(MemoryError):
            fit_as(con, **how)
        assert catalog(con) == before, failing
    assert {*seen} == set(STATEMENTS)
    for name, statement in seen.items():
        assert "--" not in statement, f"{name}: the header is not sent to the database"
        parsed = sqlglot.parse_one(statement, read="duckdb")
        assert isinstance(parsed, exp.Create if statement.startswith("CREATE") else exp.Query), name


def test_data_refused_late_and_a_row_that_cannot_be_read_leave_nothing(con):
    before = catalog(con)
    with pytest.raises(fb.DataError, match="holds other values"):
        fb.fit(con.table("flights"), "amount", objective="binary:logistic", **SHAPE)
    assert catalog(con) == before
    relation = con.sql("SELECT amount, CAST(string AS INTEGER) AS x FROM flights")
    with pytest.raises(duckdb.ConversionException, match="Could not convert string"):
        fb.fit(relation, "amount", **SHAPE)
    assert catalog(con) == before


def test_a_stream_that_can_be_read_only_once_is_read_once(con):
    before = catalog(con)
    reader = con.table("flights").to_arrow_table().to_reader()
    assert fb.fit(con.from_arrow(reader), "amount", **SHAPE) == expected()
    assert catalog(con) == before


def test_a_failure_in_a_transaction_does_not_end_it(con):
    con.execute("BEGIN; CREATE TABLE begun AS SELECT 1 AS x")
    with pytest.raises(fb.DataError):
        fb.fit(con.sql("SELECT * REPLACE (CAST(NULL AS DOUBLE) AS amount) FROM flights"), "amount", **SHAPE)
    con.execute("COMMIT")
    assert con.table("begun").fetchall() == [(1,)]
    con.execute("DROP TABLE begun")


# --- what callbacks do ------------------------------------------------------------------------------------------------


class UsersError(Exception):
    """What a callback raises."""


@pytest.fixture
def sources(con, tmp_path):
    """Return kinds of relations over the same rows: the relation, and what makes its source vanish."""
    path = tmp_path / "flights.parquet"
    con.execute(f"COPY flights TO '{path}'; CREATE VIEW other AS FROM flights; CREATE TABLE copied AS FROM flights")
    con.register("registered", rows().to_arrow())
    return {
        "table": (con.table("copied"), lambda: con.execute("DROP TABLE copied")),
        "renamed": (con.table("copied"), lambda: con.execute("ALTER TABLE copied RENAME TO elsewhere")),
        "view": (con.table("other"), lambda: con.execute("DROP VIEW other")),
        "registered": (con.table("registered"), lambda: con.unregister("registered")),
        "file": (con.read_parquet(str(path)), path.unlink),
        "join": (con.sql("SELECT a.* FROM copied a JOIN mine ON true"), lambda: con.execute("DROP TABLE copied")),
    }


def made_by_fits(con) -> list[str]:
    """Return what is there of fits, of all kinds."""
    names = con.sql("SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views()").fetchall()
    return [name for (name,) in names if name.startswith("frameboost_")]


KINDS = ["table", "renamed", "view", "registered", "file", "join"]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "in_transaction"), some_pairs(KINDS, [False, True]))
def test_a_source_that_vanishes_once_it_is_read_is_not_missed(con, sources, kind, in_transaction):
    relation, vanish = sources[kind]
    held_out = relation.filter("int16 % 3 = 0")
    if in_transaction:
        con.execute("BEGIN; CREATE TABLE begun AS SELECT 1 AS x")
    how = {"valid": held_out, "callbacks": [lambda number, _: vanish() if number == 1 else None]}
    assert fb.fit(relation, "amount", **how, **SHAPE) == expected()
    if in_transaction:
        con.execute("COMMIT")
        assert con.table("begun").fetchall() == [(1,)]
    assert made_by_fits(con) == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["view", "file"])
def test_the_first_error_is_raised_when_the_source_vanishes(con, sources, kind):
    relation, vanish = sources[kind]

    def fail(*_):
        vanish()
        raise UsersError("mine")

    with pytest.raises(UsersError, match="mine") as error:
        fb.fit(relation, "amount", valid=relation.filter("int16 > 0"), callbacks=[fail], **SHAPE)
    assert not hasattr(error.value, "__notes__")
    assert made_by_fits(con) == []


UNFINISHED = r"^temporary tables named (frameboost_[0-9a-f]{12}_)\* stay on the connection .*: Resource In Use Error: "


@pytest.fixture
def impatient(monkeypatch):
    """Have statements wait for only a moment until a result is read to its end."""
    monkeypatch.setattr(interrupts, "_UNREAD_SECONDS", 0.02)


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("own", "message"), [(UsersError, "mine"), (None, "unfinished result from execute")])
def test_an_unfinished_result_is_told_in_a_note_and_cleared_up_by_the_next_fit(con, own, message):
    before = catalog(con)

    def leave(*_):
        con.execute("FROM range(1000000)").fetchone()
        if own is not None:
            raise own("mine")

    with pytest.raises(own or duckdb.Error, match=message) as error:
        fb.fit(con.table("flights"), "amount", callbacks=[leave], **SHAPE)
    (note,) = error.value.__notes__
    prefix = re.match(UNFINISHED, note)[1]
    assert con.fetchone() == (1,), "the result stays the user's"
    con.execute("SELECT 1").fetchall()
    left = made_by_fits(con)
    assert {name.startswith(prefix) for name in left} == {True}
    if own is not None:
        with con.cursor() as cursor:  # another connection has tables of its own
            fb.fit(cursor.table("flights"), "amount", **SHAPE)
            assert made_by_fits(con) == left
    assert fb.fit(con.table("flights"), "amount", **SHAPE) == expected()
    assert catalog(con) == before


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_model_is_not_lost_for_what_its_last_callback_left(con):
    def query(number, _):
        if number == SHAPE["n_estimators"]:
            con.execute("FROM range(1000000)").fetchone()

    with pytest.warns(RuntimeWarning, match=UNFINISHED) as told:
        model = fb.fit(con.table("flights"), "amount", callbacks=[query], **SHAPE)
    assert told[0].filename == __file__
    assert model == expected()


@pytest.mark.usefixtures("impatient")
def test_a_result_that_is_not_read_to_its_end_is_told_before_any_work(con):
    con.execute("FROM range(1000000)").fetchone()
    star = fb.join(con.table("flights"), con.table("mine"), left_on="int16", right_on="x")
    for data in (con.table("flights"), con.table("flights").filter("random() < 2")):
        with pytest.raises(fb.DataError, match="has a pending result, as after") as error:
            fb.fit(data, "amount", **SHAPE)
        assert not hasattr(error.value, "__notes__")
    with pytest.raises(fb.DataError):
        fb.fit(star, "amount", **SHAPE)
    assert con.fetchone() == (1,), "the result stays the user's"
    con.execute("SELECT 1").fetchall()
    assert made_by_fits(con) == []


@pytest.mark.slow
def test_another_thread_may_use_the_connection(con):
    stopped = threading.Event()

    def count():
        while not stopped.wait(0.02):
            try:
                con.execute("SELECT COUNT(*) FROM flights").fetchall()
            except duckdb.Error as error:  # it does not wait for the fit
                assert "connection" in str(error)

    flights = con.table("flights")
    thread = threading.Thread(target=count)
    thread.start()
    try:
        model = fb.fit(flights, "amount", valid="int16 % 3 = 0", **SHAPE)
        scores, shares = model.predict(flights), model.evaluate(flights, "amount").metrics
    finally:
        stopped.set()
        thread.join()
    assert model == expected(valid="int16 % 3 = 0")
    assert scores.equals(model.predict(rows()))
    assert shares["value"].to_list() == pytest.approx(model.evaluate(rows(), "amount").metrics["value"].to_list())
    assert made_by_fits(con) == []


def test_a_connection_that_a_callback_closes_is_what_is_told(con):
    with pytest.raises(duckdb.ConnectionException) as error:
        fb.fit(con.table("flights"), "amount", callbacks=[lambda *_: con.close()], **SHAPE)
    assert not hasattr(error.value, "__notes__")


def test_a_transaction_that_a_callback_aborts_takes_all_with_it(con):
    con.execute("BEGIN; CREATE TABLE begun AS SELECT 1 AS x")
    with pytest.raises(duckdb.InvalidInputException, match="mine") as error:
        fb.fit(con.table("flights"), "amount", callbacks=[lambda *_: con.execute("SELECT error('mine')")], **SHAPE)
    assert not hasattr(error.value, "__notes__")
    con.execute("ROLLBACK")
    assert made_by_fits(con) == []
    assert con.execute("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'begun'").fetchall() == [(0,)]


@pytest.mark.slow
def test_what_is_older_than_an_aborted_transaction_goes_with_the_next_fit(con):
    def fail(*_):
        con.execute("BEGIN")
        con.execute("SELECT error('mine')")

    with pytest.raises(duckdb.InvalidInputException, match="mine"):
        fb.fit(con.table("flights"), "amount", callbacks=[fail], **SHAPE)
    con.execute("ROLLBACK")
    fb.fit(con.table("flights"), "amount", **SHAPE)
    assert made_by_fits(con) == []


@pytest.mark.slow
def test_fits_on_two_cursors_in_two_threads(con):
    with ThreadPoolExecutor(2) as pool, con.cursor() as one, con.cursor() as other:
        fits = [pool.submit(fb.fit, each.table("flights"), "amount", **SHAPE) for each in (one, other)]
        assert [fit.result() for fit in fits] == [expected()] * 2
        assert made_by_fits(con) == made_by_fits(one) == made_by_fits(other) == []


# --- interrupts -------------------------------------------------------------------------------------------------------


def test_an_interrupt_from_another_thread_leaves_nothing(con):
    con.execute("CREATE TABLE large AS SELECT random() AS x, random() AS y FROM range(200000)")
    before = catalog(con)
    stopped = threading.Event()

    def interrupt():
        while not stopped.wait(0.05):
            con.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(duckdb.InterruptException):
            fb.fit(con.table("large"), "y", n_estimators=100_000, verbose=False)
    finally:
        stopped.set()
        thread.join()
    assert catalog(con) == before


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("mode", ["autocommit", "transaction", "few values"])
def test_ctrl_c_at_any_moment_leaves_nothing(mode, monkeypatch):
    """Fits are interrupted at moments spread evenly over the time that one takes, clearing up included."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", 10**6 if mode == "few values" else -1)
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT hash(i) % 1000 AS x, 'k' || i % 7 AS s, hash(-i) % 1000 AS y "
                "FROM range(2000) AS r(i)")  # fmt: skip

    def fit():
        return fb.fit(con.table("t"), "y", **SHAPE)

    whole = fit()
    start = time.perf_counter()
    fit()
    took = time.perf_counter() - start
    for i in range(6):
        if mode == "transaction":
            con.execute("BEGIN")
        timer = threading.Timer(took * i / 6, os.kill, (os.getpid(), signal.SIGINT))
        # At some moments it first shows as an aborted transaction.
        with pytest.raises((KeyboardInterrupt, duckdb.TransactionException)):
            timer.start()
            fit()
            timer.join()
            time.sleep(5)
        if mode == "transaction":
            con.execute("ROLLBACK")
        names = con.execute("SELECT table_name FROM duckdb_tables() UNION ALL "
                            "SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall()  # fmt: skip
        assert names == [("t",)], f"after {i}/6 of the time"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert fit() == whole

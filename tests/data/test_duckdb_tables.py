"""Tables written to DuckDB files: what is there after Ctrl-C."""

import os
import signal
import threading
import time
from pathlib import Path

import duckdb
import polars as pl
import pytest

from frameboost.data.written_files import write_table


@pytest.fixture
def ctrl_c(tmp_path, monkeypatch):
    """Work in an empty folder, and press Ctrl-C as soon as something is written there."""
    monkeypatch.chdir(tmp_path)
    before, done = signal.signal(signal.SIGINT, signal.default_int_handler), threading.Event()

    def press(is_written):
        while not done.is_set():
            if is_written():
                os.kill(os.getpid(), signal.SIGINT)
                return
            time.sleep(0.001)

    threads = []

    def when(is_written):
        threads.append(threading.Thread(target=press, args=(is_written,)))
        threads[-1].start()

    yield when
    done.set()
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_ctrl_c_leaves_no_new_database_and_the_old_one_as_it_was(ctrl_c):
    numbers = pl.LazyFrame({"x": pl.int_range(2_000_000, eager=True)})
    rows = numbers.with_columns(y=pl.col("x") * 7919 % 1_000_003, z=pl.col("x") / 3, s=pl.col("x").cast(pl.String))
    ctrl_c(lambda: [file for folder in Path().glob(".*.partial") for file in folder.iterdir()])
    with pytest.raises(KeyboardInterrupt):
        write_table(rows, "new.duckdb::t")
    assert list(Path().iterdir()) == []
    with duckdb.connect("old.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
    size = Path("old.duckdb").stat().st_size
    ctrl_c(lambda: Path("old.duckdb").stat().st_size > size)  # DuckDB writes blocks before it commits
    with pytest.raises(KeyboardInterrupt):
        write_table(rows, "old.duckdb::t", replace=True)
    assert [path.name for path in Path().iterdir()] == ["old.duckdb"]
    with duckdb.connect("old.duckdb") as con:
        assert con.sql("FROM t").fetchall() == [(1,)]

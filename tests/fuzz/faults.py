"""Kind of case: fits stopped by signals, callbacks or a source that disappears.

Afterwards the database is as it was before, and the next fit gives the same model.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import frameboost as fb
from tests.fuzz.killed import check_killed_fit, check_killed_save

__all__ = ["MAX_MEGABYTES", "MAX_SECONDS", "Case", "check", "generate", "shrink"]

MAX_SECONDS, MAX_MEGABYTES = 60, 2000

FAULTS = ["SIGINT", "SIGALRM", "SIGINT twice", "interrupt()", "callback raises", "callback exits", "callback queries",
          "callback fits", "callback drops ours", "callback drops the source", "callback closes", "file goes",
          "kill", "kill while saving"]  # fmt: skip
_SOURCES = ["table", "view", "join", "file database", "parquet", "frame", "transaction"]
_OPTIONS = [
    {}, {"objective": "binary:logistic", "target": "late"}, {"tree_method": "approx"}, {"subsample": 0.5},
    {"objective": "reg:absoluteerror"}, {"valid": "x > 900", "early_stopping_rounds": 9}, {"weight": "w"},
    {"objective": "rank:pairwise", "target": "late", "group": "s", "features": ["x"]},
    {"tree_method": "approx", "proposal": "local"},
    {"objective": "multi:softprob", "target": "late"}, {"grow_policy": "lossguide", "max_leaves": 4},
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A fault, the source of the rows, the options of the fit, and when the fault occurs: a share of a fit's time."""

    fault: str
    source: str
    options: dict
    moment: float


def generate(rng: np.random.Generator) -> Case:
    python = random.Random(int(rng.integers(2**62)))
    weights = [0.3 if fault.startswith("kill") else 4 if fault.startswith("SIG") else 1 for fault in FAULTS]
    fault = python.choices(FAULTS, weights)[0]
    source = "file database" if fault == "kill" else "parquet" if fault == "file goes" else python.choice(_SOURCES)
    return Case(fault, source, python.choice(_OPTIONS), round(python.random(), 4))


class Stopped(Exception):  # noqa: N818, as it is no error
    """Raised by the handler of a signal and by callbacks."""


_ROWS = """
    SELECT hash(i) % 1000 AS x, 'k' || i % 7 AS s, hash(-i) % 1000 / 7 AS y, hash(i * 3) % 2 = 0 AS late,
        1 + i % 3 AS w FROM range(2000) AS r(i)
"""
_CATALOG = """
    SELECT 'table', table_name, temporary FROM duckdb_tables() UNION ALL
    SELECT 'view', view_name, temporary FROM duckdb_views() WHERE NOT internal UNION ALL
    SELECT 'function', function_name, false FROM duckdb_functions() WHERE NOT internal UNION ALL
    SELECT 'setting', name || '=' || value, false FROM duckdb_settings() ORDER BY ALL
"""


class Workspace:
    """A database that holds the rows, and a folder with its file and a Parquet file."""

    def __init__(self, source: str, folder: Path) -> None:
        self.source, self.folder = source, folder
        self.con = duckdb.connect(folder / "d.db" if source == "file database" else ":memory:")
        self.con.execute("SET enable_progress_bar = false")
        self.con.execute(f"CREATE TABLE t AS {_ROWS}; CREATE VIEW seen AS FROM t")
        self.con.execute("CREATE TEMP TABLE mine AS SELECT 1 AS x")
        self.con.execute("CREATE TABLE k AS SELECT DISTINCT s AS key, length(s) AS z FROM t")
        self.con.execute(f"COPY t TO '{folder / 't.parquet'}'")
        self.frame = pl.read_parquet(folder / "t.parquet")
        if source == "transaction":
            self.con.execute("BEGIN")

    def data(self) -> object:
        if self.source == "frame":
            return self.frame
        if self.source == "join":
            return self.con.sql("SELECT t.*, k.z FROM t JOIN k ON t.s = k.key")
        if self.source == "parquet":
            return self.con.read_parquet(str(self.folder / "*.parquet"))
        return self.con.table("seen" if self.source == "view" else "t")

    def state(self) -> tuple:
        """Return everything that a fit must leave unchanged: catalog and settings, the rows, the files."""
        sums = self.con.execute("SELECT count(*), sum(hash(t)) FROM t").fetchall()
        return self.con.execute(_CATALOG).fetchall(), sums, sorted(path.name for path in self.folder.iterdir())

    def recover(self) -> None:
        """Roll back, as a user does after an error in a transaction, and begin another one."""
        if self.source == "transaction":
            self.con.execute("ROLLBACK")
            self.con.execute("BEGIN")


def fit(data: object, options: dict, **more: object) -> fb.Model:
    given = {"target": "y", "features": ["x", "s"], "n_estimators": 3, "max_depth": 3, "verbose": False} | options
    return fb.fit(data, **given, **more)


def check(case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        if case.fault == "kill":
            return check_killed_fit(Path(name), case.options, case.moment)
        if case.fault == "kill while saving":
            return check_killed_save(Path(name), case.moment)
        workspace = Workspace(case.source, Path(name))
        expected = fit(workspace.data(), case.options)
        start = time.perf_counter()
        assert fit(workspace.data(), case.options) == expected
        moment = (time.perf_counter() - start) * case.moment
        before = workspace.state()
        found = _with_fault(case, workspace, moment)
        if case.fault != "callback closes":
            workspace.recover()
        if case.fault not in ("callback drops the source", "callback closes", "file goes"):
            after = workspace.state()
            differ = [set(map(str, a)) ^ set(map(str, b)) for a, b in zip(before, after, strict=True)]
            assert after == before, f"left behind: {differ}"
            assert fit(workspace.data(), case.options) == expected, "the next fit gives another model"
        elif case.fault != "callback closes":
            left = [row for row in workspace.con.execute(_CATALOG).fetchall() if "frameboost_" in str(row[1])]
            assert not left, f"left behind: {left}"
        assert found is None or found == expected, "the fit gives another model"
    return None


def _with_fault(case: Case, workspace: Workspace, moment: float) -> fb.Model | None:
    """Return the model, or None if the fit raised an error that the fault may cause."""
    kind = case.fault.partition(" ")[0]
    expected = _EXPECTED[case.fault] + (duckdb.TransactionException,) * (workspace.source == "transaction")
    with _Signals(case.fault, moment, workspace) as signals:
        more = {"callbacks": [_callback(case, workspace)]} if kind in ("callback", "file") else {}
        try:
            try:
                signals.arm()
                return fit(workspace.data(), case.options, **more)
            finally:
                signals.disarm()
        except expected:
            return None


# The errors that a fit may raise for each fault.
_EXPECTED: dict[str, tuple[type[BaseException], ...]] = {
    "SIGINT": (KeyboardInterrupt,), "SIGINT twice": (KeyboardInterrupt,),
    "SIGALRM": (Stopped,), "interrupt()": (duckdb.InterruptException,),
    "callback raises": (Stopped,), "callback exits": (SystemExit,), "callback queries": (), "callback fits": (),
    # Errors about dropped tables and closed connections come from DuckDB.
    "callback drops ours": (fb.FrameboostError, duckdb.Error),
    "callback drops the source": (fb.FrameboostError, duckdb.Error),
    "callback closes": (fb.FrameboostError, duckdb.Error),
    "file goes": (fb.FrameboostError, duckdb.Error, OSError),
}  # fmt: skip


class _Signals:
    """A thread that sends a fault's signals ``moment`` seconds after `arm`; handlers raise only until `disarm`."""

    def __init__(self, fault: str, moment: float, workspace: Workspace) -> None:
        self.armed = False
        self._fault, self._moment, self._con = fault, moment, workspace.con
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._send) if fault.startswith(("SIG", "interrupt")) else None

    def _send(self) -> None:
        while not self.armed and not self._done.wait(0.0001):
            pass
        for _ in range(2 if self._fault == "SIGINT twice" else 1):
            if self._done.wait(self._moment) or not self.armed:
                return
            if self._fault == "interrupt()":
                self._con.interrupt()
            else:
                os.kill(os.getpid(), signal.SIGALRM if self._fault == "SIGALRM" else signal.SIGINT)

    def arm(self) -> None:
        """Start sending. One Ctrl-C is handled by Python's own handler, two by a handler of the user's."""
        self.armed = True
        if self._fault == "SIGINT":
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def disarm(self) -> None:
        """Stop sending; a signal that was sent just before may be raised here."""
        self.armed = False
        signal.signal(signal.SIGINT, self._stop)

    def _stop(self, number: int, frame: object) -> None:
        if self.armed:
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped

    def __enter__(self) -> _Signals:
        self._before = [(number, signal.signal(number, self._stop)) for number in (signal.SIGALRM, signal.SIGINT)]
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        time.sleep(0.001)  # a signal that was sent just before arrives here
        for number, handler in self._before:
            signal.signal(number, handler)


def _callback(case: Case, workspace: Workspace) -> Callable[[int, dict], None]:
    at, con = 1 + int(case.moment * 3), workspace.con

    def drop(kind: str, names: str) -> None:
        for (name,) in con.execute(names).fetchall():
            con.execute(f'DROP {kind} IF EXISTS "{name}"')

    def called(number: int, values: dict) -> None:
        if number != at:
            return
        if case.fault == "callback raises":
            raise Stopped
        if case.fault == "callback exits":
            sys.exit(3)
        if case.fault == "callback queries":
            assert con.execute("SELECT count(*) FROM t").fetchall() == [(2000,)]
            assert con.table("t").filter("x >= 0").aggregate("count(*)").fetchall() == [(2000,)]
        elif case.fault == "callback fits":
            fit(con.table("t"), {}).register(con, "inner_model")
            con.execute("DROP MACRO IF EXISTS inner_model")
        elif case.fault == "callback drops ours":
            drop("TABLE", "SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'frameboost_%'")
        elif case.fault == "callback drops the source":
            con.execute("DROP VIEW seen; DROP TABLE t")
        elif case.fault == "callback closes":
            con.close()
        else:
            (workspace.folder / "t.parquet").unlink()

    return called


def shrink(case: Case) -> Iterator[Case]:
    """Yield the case with default options, and on a plain table."""
    if case.options and not case.fault.startswith("kill"):
        yield replace(case, options={})
    if case.source not in ("table", "parquet") and not case.fault.startswith("kill"):
        yield replace(case, source="table")

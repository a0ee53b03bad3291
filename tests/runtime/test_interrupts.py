"""Signals during a fit: the exceptions of their handlers are raised, also while kernels run or compile."""

import contextlib
import gc
import io
import os
import signal
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import duckdb
import numba
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.cli.deployment import _rows_of_duckdb
from frameboost.data.predicates import _run_apart
from frameboost.engines.memory import trees
from frameboost.runtime.interrupts import defer_in_callbacks, defer_signals, unwrap_handler_errors
from frameboost.runtime.progress import announce_compilation

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")


class AlarmError(RuntimeError):
    """What a user's handler raises; a class of DuckDB's own errors must not be taken for it."""


def ring(*_):
    raise AlarmError("time is up")


@pytest.fixture
def alarm():
    """Return a context in which an alarm goes off after so many seconds, whose handler raises."""

    @contextlib.contextmanager
    def goes_off(seconds):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, ring)
    yield goes_off
    assert signal.getsignal(signal.SIGALRM) is ring, "a fit has to put handlers back"
    signal.signal(signal.SIGALRM, before)


@numba.njit(nogil=True)
def slow(n):
    total = 0.0
    for i in range(n):
        total += np.sqrt(i)
    return np.full(3, total), np.full(2, total)


def press_ctrl_c(*_):
    threading.Timer(0.02, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    return slow(60_000_000)


@pytest.mark.slow
def test_ctrl_c_in_a_fit_raises_keyboard_interrupt(monkeypatch):
    slow(1)
    monkeypatch.setattr(trees, "grow_tree", press_ctrl_c)
    frame = pl.DataFrame({"x": range(10), "y": range(10)})
    with pytest.raises(KeyboardInterrupt):
        fb.fit(frame, "y", verbose=False)


def test_other_errors_are_not_unwrapped():
    with pytest.raises(SystemError, match="another"), unwrap_handler_errors():
        raise SystemError("another") from ValueError("it")
    with pytest.raises(ValueError, match="it"), unwrap_handler_errors():
        raise ValueError("it")


@pytest.mark.slow
def test_an_alarm_in_a_kernel(alarm):
    slow(1)
    with pytest.raises(AlarmError), alarm(0.02), unwrap_handler_errors():
        slow(60_000_000)


@pytest.mark.slow
def test_an_alarm_in_duckdb(alarm):
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT i % 1000 AS x, i % 7 AS y FROM range(20000) AS r(i)")
    fb.fit(con.table("t"), "y", n_estimators=1, verbose=False)
    con.execute("BEGIN")
    # A query that DuckDB looks up from often; in a cross join it does not.
    endless = con.sql("SELECT x, sin(i) AS y FROM (SELECT unnest(range(2000)) AS i, x FROM t)")
    with pytest.raises(AlarmError, match="time is up"), alarm(0.2):
        fb.fit(endless, "y", n_estimators=1, verbose=False)
    con.execute("ROLLBACK")
    names = con.execute(
        "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
    )
    assert names.fetchall() == [("t",)]


@pytest.mark.slow
@pytest.mark.parametrize("read", ["a condition's functions", "a file"])
def test_an_alarm_in_a_database_that_was_opened_for_one_query(alarm, tmp_path, read):
    # A second of work, as threads of DuckDB may carry on to the end although its main one has seen the signal.
    long = "SELECT count(*) FROM (SELECT sin(unnest(range(2000)) + i) AS y FROM range(30000) AS r(i)) WHERE y > 2"
    path = str(tmp_path / "rows.duckdb")
    duckdb.connect(path).close()
    with pytest.raises(AlarmError, match="time is up"), alarm(0.2):
        _run_apart(long) if read == "a condition's functions" else _rows_of_duckdb(path, long)


def test_all_deferred_signals_are_handled(alarm):
    handled = []
    with pytest.raises(KeyboardInterrupt) as error, defer_signals():
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGINT)
        handled.append("all of it")
    assert handled == ["all of it"]
    assert isinstance(error.value.__context__, AlarmError)


@pytest.mark.slow
def test_ctrl_c_as_a_block_ends_leaves_no_handler_and_no_table(monkeypatch):
    """Python looks for signals where a function begins, so also just before what is to restore the handlers."""
    con, n_exits = duckdb.connect(), 0
    con.execute("CREATE TABLE t AS SELECT i % 1000 AS x, i % 7 AS y FROM range(200) AS r(i)")

    def fit(interrupted_at):
        nonlocal n_exits
        n_exits = 0

        def watched(function):
            def call(*args):
                nonlocal n_exits
                n_exits += 1
                if n_exits == interrupted_at:
                    signal.raise_signal(signal.SIGINT)
                return function(*args)

            return call

        with monkeypatch.context() as patch:
            for kind in (contextlib.ExitStack, contextlib._GeneratorContextManager):
                patch.setattr(kind, "__exit__", watched(kind.__exit__))
            fb.fit(con.table("t"), "y", n_estimators=1, max_depth=1, verbose=False)
            return n_exits

    fit(0)  # imports and compiles
    in_all = fit(0)
    assert in_all > 20
    gc.freeze()  # what other tests have left takes a second to look through
    for at in (*range(1, in_all - 12, in_all // 4), *range(in_all - 12, in_all + 1)):
        with pytest.raises(KeyboardInterrupt) as error:  # whose traceback keeps what was interrupted alive
            fit(at)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, f"at {at}: {error}"
        assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("t",)]
        del error
        gc.collect()  # of a generator that is closed during the next fit, Python would drop an interrupt


@contextlib.contextmanager
def ctrl_c_in_llvm(monkeypatch):
    """Press Ctrl-C while LLVM calls Python back, as where it has worked for seconds."""
    engine = numba.core.registry.cpu_target.target_context.codegen()._engine._ee
    original, pressed = engine._object_cache_notify, []

    def notify(module, buffer):
        if not pressed:
            pressed.append(True)
            signal.raise_signal(signal.SIGINT)
        return original(module, buffer)

    monkeypatch.setattr(engine, "_object_cache_notify", notify)
    yield
    assert pressed


def test_ctrl_c_while_llvm_calls_back_is_not_lost(monkeypatch):
    kernel, before = numba.njit(lambda x: x + 1), signal.getsignal(signal.SIGINT)
    with ctrl_c_in_llvm(monkeypatch), pytest.raises(KeyboardInterrupt), defer_in_callbacks():
        kernel(1)
        time.sleep(60)
    assert kernel(1) == 2
    assert signal.getsignal(signal.SIGINT) is before


class Pressing:
    """An object that presses Ctrl-C as it dies."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


def dies():
    Pressing()


def dies_as_a_weak_key():
    key, value = (type("Plain", (), {})() for _ in range(2))
    kept = weakref.WeakKeyDictionary({key: value})
    pressing = weakref.ref(value, lambda _: signal.raise_signal(signal.SIGINT))
    del value, key  # the dictionary's callback lets go of the value
    assert (len(kept), pressing()) == (0, None)


class PressingQueue(SimpleQueue):
    """The queue of a pool's threads; it presses Ctrl-C as it wakes them up, without work, because the pool died."""

    def put(self, item):
        super().put(item)
        # A thread that wakes up passes it on, at a time when the test may be over.
        if item is None and threading.current_thread() is threading.main_thread():
            signal.raise_signal(signal.SIGINT)


def dies_as_a_pool():
    pool = ThreadPoolExecutor(1)
    pool._work_queue = PressingQueue()
    assert pool.submit(int).result() == 0


@pytest.mark.parametrize("finalize", [dies, dies_as_a_weak_key, dies_as_a_pool])
def test_ctrl_c_in_a_finalizer_is_not_lost(finalize):
    with pytest.raises(KeyboardInterrupt), defer_in_callbacks():
        finalize()
        time.sleep(60)


def test_ctrl_c_is_acknowledged_while_a_kernel_compiles(monkeypatch):
    class Answered(io.StringIO):
        heard = threading.Event()

        def write(self, text):
            if "Ctrl-C" in text:
                self.heard.set()
            return super().write(text)

    stream = Answered()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("frameboost.runtime.progress._HEARD_SECONDS", 0.0)
    monkeypatch.setattr("frameboost.runtime.progress._said_of_compiling", set())
    signal.signal(signal.SIGINT, lambda *_: None)  # which has to wait for LLVM; the answer does not

    def source(x):
        return x + 1

    source.__module__ = "frameboost.made_up"
    from numba.core import event

    class Press(event.Listener):
        def on_start(self, about):
            """The other listener is told first."""

        def on_end(self, about):
            signal.raise_signal(signal.SIGINT)
            assert stream.heard.wait(60)

    try:
        with event.install_listener("numba:compile", Press()), announce_compilation(True):
            numba.njit(source)(1)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    assert stream.getvalue().splitlines() == [
        "frameboost: compiling kernels, once on this machine ...",
        "frameboost: interrupted (Ctrl-C); the fit stops when the kernel is compiled ...",
    ]
    assert signal.set_wakeup_fd(-1) == -1


def test_ctrl_c_is_not_acknowledged_without_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with announce_compilation(None), pytest.raises(KeyboardInterrupt):
        numba.njit(lambda x: x + 2)(1)
        signal.raise_signal(signal.SIGINT)
    assert sys.stderr.getvalue() == ""

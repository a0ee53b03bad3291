"""Signals such as Ctrl-C or an alarm: exceptions of handlers are neither lost nor raised at a bad moment."""

from __future__ import annotations

import _thread
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar, cast

import duckdb

from frameboost.checks.arguments import once_in_call, when_call_returns
from frameboost.checks.messages import shortened, warn

__all__ = [
    "LeftBehindError",
    "closed_after",
    "defer_in_callbacks",
    "defer_signals",
    "first_duckdb_error",
    "has_unread_result",
    "plain_relation",
    "record_handler_errors",
    "unwrap_handler_errors",
    "waiting",
    "when_free",
]

_Handler = Callable[[int, FrameType | None], Any]

# Signals that programs handle in Python. To look at all signals would take as long as a short query.
_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2",
                 "SIGXCPU", "SIGBREAK")
    if hasattr(signal, name)
)  # fmt: skip


@contextmanager
def unwrap_handler_errors() -> Iterator[None]:
    """Raise the exception of a signal handler, such as `KeyboardInterrupt`, instead of numba's `SystemError`.

    Python calls the handler after a kernel returns, possibly while numba converts the returned arrays. With several
    arrays numba continues, and Python raises `SystemError` ("returned a result with an exception set").
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError) and "exception set" in str(cause):
            cause = cause.__cause__
        if cause is None or isinstance(cause, SystemError):
            raise
        raise cause from None


# What `_with_handlers` has replaced, the outermost first: the number, the handler and its replacement.
_layers: list[list[tuple[int, _Handler, _Handler]]] = []


@contextmanager
def _with_handlers(wrap: Callable[[_Handler], _Handler | None]) -> Iterator[None]:
    """Replace the Python handlers of signals by ``wrap(handler)``; None keeps a handler.

    Only the main thread receives signals; in other threads this does nothing. If a handler raises just as the block is
    left, the handlers are restored when the public function returns.
    """
    replaced: list[tuple[int, _Handler, _Handler]] = []
    depth = None
    try:
        if threading.current_thread() is threading.main_thread():
            once_in_call(_put_back_to, lambda: when_call_returns(_put_back_to, len(_layers)))
            depth = len(_layers)
            _layers.append(replaced)
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                new = wrap(handler) if callable(handler) else None
                if new is not None and callable(handler):
                    replaced.append((number, handler, new))
                    signal.signal(number, new)
        yield
    finally:
        if depth is not None and any(layer is replaced for layer in _layers[depth : depth + 1]):
            _put_back_to(depth)


def _put_back_to(depth: int) -> None:
    """Restore all handlers except those of the outermost ``depth`` layers."""
    while len(_layers) > depth:
        _put_back(_layers[-1])
        del _layers[-1:]


def _put_back(replaced: list[tuple[int, _Handler, _Handler]]) -> None:
    """Restore the handlers, even if one of them raises meanwhile; a handler that others set since then stays."""
    if replaced:
        number, handler, new = replaced[-1]
        try:
            if signal.getsignal(number) is new:
                signal.signal(number, handler)
        finally:
            _put_back(replaced[:-1])


@contextmanager
def record_handler_errors() -> Iterator[list[BaseException]]:
    """Yield a list that collects the exceptions of handlers, for code that converts them.

    Python's default handler of Ctrl-C is excluded: it raises `KeyboardInterrupt`.
    """
    raised: list[BaseException] = []

    def noting(handler: _Handler) -> _Handler | None:
        def handle(number: int, frame: FrameType | None) -> Any:
            try:
                return handler(number, frame)
            except BaseException as error:
                raised.append(error)
                raise

        return None if handler is signal.default_int_handler else handle

    with _with_handlers(noting):
        yield raised


@contextmanager
def defer_signals() -> Iterator[None]:
    """Defer the handlers of signals to the end of the block."""
    came: list[tuple[_Handler, int, FrameType | None]] = []

    def later(handler: _Handler) -> _Handler:
        return lambda number, frame: came.append((handler, number, frame))

    try:
        with _with_handlers(later):
            yield
    finally:
        _handle(came)


# How long a signal waits before it is sent again.
_AGAIN_SECONDS = 0.01


@contextmanager
def defer_in_callbacks() -> Iterator[None]:
    """Defer the handlers of signals while C code calls back into Python and drops exceptions (LLVM, finalizers).

    After seconds of compiling in LLVM, such a callback is the first Python code to run, and would handle signals from
    that time; the compiled kernel would be lost, too. Exceptions in weak reference callbacks or in `__del__` are
    printed as "Exception ignored" and dropped.
    """

    def beside(handler: _Handler) -> _Handler:
        def handle(number: int, frame: FrameType | None) -> Any:
            if not _drops_exceptions(frame):
                return handler(number, frame)
            again = threading.Timer(_AGAIN_SECONDS, _send, [number])
            again.daemon = True
            again.start()
            return None

        return handle

    with _with_handlers(beside):
        yield


def _send(number: int) -> None:
    """Send a signal to the main thread; unlike `_thread.interrupt_main` it ends a wait there."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


# Modules whose functions are called by LLVM, and when an object dies that is a key of a weak dictionary or set.
_CALLED_BACK = {"llvmlite", "weakref", "_weakrefset"}
# Functions that Python calls when an object dies; the second is that of a thread pool.
_FINALIZERS = {"__del__", "weakref_cb"}


def _drops_exceptions(frame: FrameType | None) -> bool:
    while frame is not None:
        module = str(frame.f_globals.get("__name__")).partition(".")[0]
        if module in _CALLED_BACK or frame.f_code.co_name in _FINALIZERS:
            return True
        frame = frame.f_back
    return False


def _handle(came: list[tuple[_Handler, int, FrameType | None]]) -> None:
    """Call the handlers of the deferred signals, all of them even if one raises."""
    if came:
        handler, number, frame = came[0]
        try:
            handler(number, frame)
        finally:
            _handle(came[1:])


# --- Ctrl-C during a statement of DuckDB, and the error that it failed with -------------------------------------------


Result = TypeVar("Result")
# How long to wait for another thread's call, and for it to read the result of one to its end, if there is one.
_BUSY_SECONDS, _UNREAD_SECONDS = 60.0, 2.0


def when_free(call: Callable[[], Result]) -> Result:
    """Return the result of a DuckDB call after those of other threads on the connection, as DuckDB does not wait.

    The first error is raised (see `first_duckdb_error`).
    """
    start, pause = time.monotonic(), 0.001
    while True:
        try:
            with first_duckdb_error():
                return call()
        except duckdb.Error as error:
            longest = _BUSY_SECONDS if "busy with another call" in str(error) else _UNREAD_SECONDS
            if has_unread_result(error) and threading.active_count() == 1:  # it is the caller's
                raise
            if not _is_in_use(error) or time.monotonic() - start > longest:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def has_unread_result(error: duckdb.Error) -> bool:
    """Whether a call failed because the user has not read a pending result of the connection."""
    return _is_in_use(error) and re.search("(unfinished|open) result", str(error)) is not None


class _Waiting:
    """A relation with methods and properties that wait until the connection is free (see `when_free`)."""

    __slots__ = ("relation",)

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self.relation = relation

    def __getattr__(self, name: str) -> Any:
        value = when_free(lambda: getattr(self.relation, name))
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:
            given = [plain_relation(arg) for arg in args]
            return waiting(when_free(lambda: value(*given, **options)))

        return call


def waiting(relation: Result) -> Result:
    """Return a relation that waits for other users of the connection, and so do the results of its methods."""
    return cast(Result, _Waiting(relation)) if isinstance(relation, duckdb.DuckDBPyRelation) else relation


def plain_relation(relation: Result) -> Result:
    """Return the argument of `waiting`."""
    return cast(Result, relation.relation) if isinstance(relation, _Waiting) else relation


def _is_in_use(error: duckdb.Error) -> bool:
    return str(error).startswith("Resource In Use Error:")  # of several classes


@contextmanager
def first_duckdb_error() -> Iterator[None]:
    """Raise the first error, and for a signal that of its handler (`KeyboardInterrupt` for Ctrl-C).

    In a transaction DuckDB's clean-up after an error fails too, and hides the first error.
    """
    before = sys.exception()
    with record_handler_errors() as raised:
        try:
            yield
        except (RuntimeError, duckdb.Error) as error:
            chain: list[BaseException] = [error]
            while (cause := chain[-1].__context__) is not None and cause is not before:
                chain.append(cause)
            if any(isinstance(each, RuntimeError) and str(each) == "Query interrupted" for each in chain):
                raise (raised[0] if raised else KeyboardInterrupt) from error
            raise chain[-1] from None


# --- clean-up that does not hide an earlier error ---------------------------------------------------------------------


Resource = TypeVar("Resource", bound=Any)


class LeftBehindError(Exception):
    """A clean-up left something behind; the work itself succeeded."""


@contextmanager
def closed_after(resource: Resource) -> Iterator[Resource]:
    """Close a resource at the end like `contextlib.closing`, but raise the first error.

    An error of the clean-up becomes a note on the first error; a `LeftBehindError` alone becomes a warning, so that the
    work is kept.
    """
    try:
        yield resource
    except BaseException as first:
        try:
            resource.close()
        except LeftBehindError as left:
            first.add_note(str(left))
        except Exception as error:
            first.add_note(f"then the clean-up failed: {type(error).__name__}: {shortened(str(error), 200)}")
        raise
    try:
        resource.close()
    except LeftBehindError as left:
        warn(str(left), RuntimeWarning)

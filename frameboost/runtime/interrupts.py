"""Signals such as Ctrl-C or an alarm: exceptions of their handlers are neither lost nor raised at a bad moment."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from frameboost.checks.arguments import once_in_call, when_call_returns

__all__ = ["defer_in_callbacks", "defer_signals", "record_handler_errors", "unwrap_handler_errors"]

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
    """Raise the exception of a signal's handler, such as `KeyboardInterrupt`, in place of numba's `SystemError`.

    Python calls the handler after a kernel has returned, perhaps while numba converts the returned arrays. With several
    arrays numba carries on, and Python raises `SystemError` ("returned a result with an exception set").
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

    Only the main thread receives signals; in other threads this does nothing. A handler may raise when the block is
    left, just before this goes on: then the handlers are restored when the public function returns.
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
    """Restore all handlers but those of the outermost layers, ``depth`` of them."""
    while len(_layers) > depth:
        _put_back(_layers[-1])
        del _layers[-1:]


def _put_back(replaced: list[tuple[int, _Handler, _Handler]]) -> None:
    """Restore the handlers, even if one of them raises meanwhile; a handler set by others since then stays."""
    if replaced:
        number, handler, new = replaced[-1]
        try:
            if signal.getsignal(number) is new:
                signal.signal(number, handler)
        finally:
            _put_back(replaced[:-1])


@contextmanager
def record_handler_errors() -> Iterator[list[BaseException]]:
    """Yield a list that collects the exceptions of handlers, for code that turns them into others.

    Python's own handler of Ctrl-C is left out: it raises `KeyboardInterrupt`.
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
    """Postpone the handlers of signals until the end of the block."""
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
    """Postpone the handlers of signals while C code calls back into Python and drops exceptions: LLVM, and finalizers.

    After LLVM has compiled for seconds, such a callback is the first Python code to run, so a signal from that time is
    handled there. The compiled kernel would be lost too. Of an exception in a weak reference's callback or in `__del__`
    Python prints "Exception ignored" and goes on.
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
    """Call the handlers of the postponed signals, all of them even if one raises."""
    if came:
        handler, number, frame = came[0]
        try:
            handler(number, frame)
        finally:
            _handle(came[1:])

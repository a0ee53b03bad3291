"""Signals, such as Ctrl-C or an alarm, where what their handlers raise must not be lost, or not come in between."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["noting_what_handlers_raise", "signals_beside_compiler", "signals_later", "unwrapping_signals"]

_Handler = Callable[[int, FrameType | None], Any]

# Those that programs have handlers for in Python; to ask for all that there are would take as long as a short query.
_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2",
                 "SIGXCPU", "SIGBREAK")
    if hasattr(signal, name)
)  # fmt: skip


@contextmanager
def unwrapping_signals() -> Iterator[None]:
    """Raise `KeyboardInterrupt`, or what else a signal's handler raises, where numba makes something else of it.

    Python calls the handler once a kernel is done. That may be while numba turns the arrays that the kernel returns
    into Python's; if there are several, it goes on, and Python says `SystemError`: a result with an exception set.
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


@contextmanager
def _with_handlers(wrap: Callable[[_Handler], _Handler | None]) -> Iterator[None]:
    """Put other handlers in the place of those in Python; ``wrap`` returns None for one that is to stay.

    Python tells the main thread alone of signals; in others nothing is done.
    """
    replaced: list[tuple[int, _Handler, _Handler]] = []
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                handler = signal.getsignal(number)
                new = wrap(handler) if callable(handler) else None
                if new is not None and callable(handler):
                    replaced.append((number, handler, new))
                    signal.signal(number, new)
        yield
    finally:
        _put_back(replaced)


def _put_back(replaced: list[tuple[int, _Handler, _Handler]]) -> None:
    """Put the handlers back, also if one of them raises meanwhile; one that has been set since then stays."""
    if replaced:
        number, handler, new = replaced[-1]
        try:
            if signal.getsignal(number) is new:
                signal.signal(number, handler)
        finally:
            _put_back(replaced[:-1])


@contextmanager
def noting_what_handlers_raise() -> Iterator[list[BaseException]]:
    """Yield a list to which is added what handlers raise, for code that makes another exception of it.

    Python's own handler for Ctrl-C is not among them, as what it raises is known.
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
def signals_later() -> Iterator[None]:
    """Let the handlers of signals wait until this is done."""
    came: list[tuple[_Handler, int, FrameType | None]] = []

    def later(handler: _Handler) -> _Handler:
        return lambda number, frame: came.append((handler, number, frame))

    try:
        with _with_handlers(later):
            yield
    finally:
        _handle(came)


# How long a signal waits for LLVM to come back.
_AGAIN_SECONDS = 0.01


@contextmanager
def signals_beside_compiler() -> Iterator[None]:
    """Let the handlers of signals wait while LLVM calls Python back, where what they raise is lost.

    Such a call is the first piece of Python that runs after LLVM has worked for seconds, so that is where a signal from
    that time ends up. The kernel would be lost too.
    """

    def beside(handler: _Handler) -> _Handler:
        def handle(number: int, frame: FrameType | None) -> Any:
            if not _is_in_llvm(frame):
                return handler(number, frame)
            again = threading.Timer(_AGAIN_SECONDS, _send, [number])
            again.daemon = True
            again.start()
            return None

        return handle

    with _with_handlers(beside):
        yield


def _send(number: int) -> None:
    """Send a signal to the main thread; unlike Python's own simulation of one it ends a wait there."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _is_in_llvm(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "llvmlite":
            return True
        frame = frame.f_back
    return False


def _handle(came: list[tuple[_Handler, int, FrameType | None]]) -> None:
    """Call handlers for what came, all of them even if one raises."""
    if came:
        handler, number, frame = came[0]
        try:
            handler(number, frame)
        finally:
            _handle(came[1:])

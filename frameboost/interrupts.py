"""Ctrl-C where it must not be lost, or not come in between."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["as_keyboard_interrupt", "interrupts_later"]


@contextmanager
def as_keyboard_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` where numba makes something else of it.

    Python looks whether Ctrl-C was pressed once a kernel is done. That may be while numba turns the arrays that the
    kernel returns into Python's; if there are several, it goes on, and Python says `SystemError`: a result with an
    exception set.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from None
        raise


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Let Ctrl-C wait until this is done. Python tells the main thread alone of signals."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)

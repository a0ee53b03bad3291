"""Ctrl-C while a kernel runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["as_keyboard_interrupt"]


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

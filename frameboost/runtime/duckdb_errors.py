"""The error that a statement of DuckDB failed with, and Ctrl-C during one."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import duckdb

from frameboost.runtime.interrupts import record_handler_errors

__all__ = ["first_duckdb_error", "has_unread_result", "when_free"]

Result = TypeVar("Result")
# How long to wait for another thread's call, and for it to read the result of one to its end.
_BUSY_SECONDS, _UNREAD_SECONDS = 60.0, 0.1


def when_free(call: Callable[[], Result]) -> Result:
    """Return what a call of DuckDB returns, after calls of other threads on the connection: DuckDB refuses to wait."""
    start, pause = time.monotonic(), 0.001
    while True:
        try:
            return call()
        except duckdb.Error as error:
            longest = _BUSY_SECONDS if "busy with another call" in str(error) else _UNREAD_SECONDS
            if not _is_in_use(error) or time.monotonic() - start > longest:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def has_unread_result(error: duckdb.Error) -> bool:
    """Whether a call was refused because the user has not read a result of the connection to its end."""
    return _is_in_use(error) and "unfinished result" in str(error)


def _is_in_use(error: duckdb.Error) -> bool:
    return str(error).startswith("Resource In Use Error:")  # of several classes


@contextmanager
def first_duckdb_error() -> Iterator[None]:
    """Raise the error that came first, and for a signal that of its handler (`KeyboardInterrupt` for Ctrl-C).

    In a transaction DuckDB's clean-up after an error fails too, and its own error hides the first.
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

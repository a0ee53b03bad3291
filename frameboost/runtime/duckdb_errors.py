"""The error that a statement of DuckDB failed with, and Ctrl-C during one."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import duckdb

from frameboost.runtime.interrupts import record_handler_errors

__all__ = ["first_duckdb_error", "has_unread_result", "plain_relation", "waiting", "when_free"]

Result = TypeVar("Result")
# How long to wait for another thread's call, and for it to read the result of one to its end, if there is one.
_BUSY_SECONDS, _UNREAD_SECONDS = 60.0, 2.0


def when_free(call: Callable[[], Result]) -> Result:
    """Return what a call of DuckDB returns, after calls of other threads on the connection: DuckDB refuses to wait.

    An error is the one that came first (see `first_duckdb_error`).
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
    """Whether a call was refused because the user has not read a result of the connection to its end."""
    return _is_in_use(error) and re.search("(unfinished|open) result", str(error)) is not None


class _Waiting:
    """A relation whose methods and properties wait until the connection is free (see `when_free`)."""

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
    """Return a relation, and all that its methods return, such that they wait for other users of the connection."""
    return cast(Result, _Waiting(relation)) if isinstance(relation, duckdb.DuckDBPyRelation) else relation


def plain_relation(relation: Result) -> Result:
    """Return what `waiting` was given."""
    return cast(Result, relation.relation) if isinstance(relation, _Waiting) else relation


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

"""The error that a statement of DuckDB failed with, and Ctrl-C during one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from frameboost.runtime.interrupts import record_handler_errors

__all__ = ["first_duckdb_error"]


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

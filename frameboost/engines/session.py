"""A DuckDB connection, known only through one of its relations, and temporary tables that don't outlive a fit."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import sys
from collections.abc import Iterator
from typing import Any

import duckdb

from frameboost.interrupts import interrupts_later
from frameboost.sql_text import quote_identifier, string_literal

__all__ = ["DuckDBSession"]


class DuckDBSession:
    """Runs statements where a relation lives, and keeps track of the temporary tables that it makes.

    Parameters
    ----------
    relation
        The relation; statements may read from it by the name ``session.source``.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation) -> None:
        self._relation = relation
        self._prefix = f"frameboost_{secrets.token_hex(6)}_"
        self.source = quote_identifier(f"{self._prefix}source")
        self._nothing = quote_identifier(f"{self._prefix}nothing")
        self._aside: duckdb.DuckDBPyRelation | None = None
        self._numbers = itertools.count()
        self._tables: list[str] = []
        self._settings: dict[str, Any] = {}
        self._closed = False

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement; return its rows (for DDL, what DuckDB reports)."""
        with _interrupts():
            return self._query(statement).fetchall()

    def columns(self, statement: str) -> dict[str, Any]:
        """Run one query; return its columns as numpy arrays."""
        with _interrupts():
            # A query run by a relation is read by the parser and the planner several times over; a call is run at once.
            return dict(self._query(f"CALL query({string_literal(statement)})").fetchnumpy())

    def _query(self, statement: str) -> duckdb.DuckDBPyRelation:
        if self.source in statement:
            result = self._relation.query(self.source[1:-1], statement)
        else:
            result = self._beside().query(self._nothing[1:-1], statement)
        assert result is not None
        return result

    def _beside(self) -> duckdb.DuckDBPyRelation:
        """Return a relation to run statements by that do not read the source.

        A relation is bound for each, made a view and dropped, which takes longer than many a statement, of files or
        joins longer still. This one is a row, and no view is made of it, as its name is taken by a view that stays.
        """
        if self._aside is None:
            name = self.source[1:-1]
            self._relation.query(name, f"CREATE OR REPLACE TEMP VIEW {self._nothing} AS SELECT NULL AS nothing")
            self._aside = self._relation.query(name, "CALL query('SELECT NULL AS nothing')")
        assert self._aside is not None
        return self._aside

    def table(self, name: str) -> str:
        """Return the quoted name of a temporary table that the caller is about to create."""
        quoted = quote_identifier(f"{self._prefix}{next(self._numbers)}_{name}")
        self._tables.append(quoted)
        return quoted

    def column(self, name: str) -> str:
        """Return a quoted column name that no column of the relation has."""
        return quote_identifier(f"{self._prefix}{name}")

    def drop(self, table: str) -> None:
        """Drop a table made under a name from `table`."""
        self.run(f"DROP TABLE IF EXISTS {table}")
        self._tables.remove(table)

    def setting(self, name: str) -> Any:
        """Return a setting of the connection, as it was when first asked for."""
        if name not in self._settings:
            self._settings[name] = self.run(f"SELECT current_setting('{name}')")[0][0]
        return self._settings[name]

    def close(self) -> None:
        """Drop every table that is left, even if Ctrl-C comes while doing so: then it has to wait."""
        interrupt = None
        while not self._closed:
            try:
                with interrupts_later():  # one that comes while DuckDB drops a relation's view it forgets, and the view
                    self._drop_all()
                    self._closed = True
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _drop_all(self) -> None:
        # In a transaction that an error has aborted nothing can be dropped, nor need be: none of it is kept.
        with _interrupts(), contextlib.suppress(duckdb.TransactionException):
            while self._tables:
                self.drop(self._tables[-1])
            # The view of the source is there for the length of a call, and stays if that call was interrupted.
            for view in (self._nothing, self.source):
                self._relation.query(f"{self._prefix}last", f"DROP VIEW IF EXISTS {view}")


@contextlib.contextmanager
def _interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C, which DuckDB reports as an error of its own."""
    before = sys.exception()
    try:
        yield
    except (RuntimeError, duckdb.Error) as error:
        cause: BaseException | None = error
        # In a transaction DuckDB's own clearing up after the interrupt fails too, and hides it.
        while cause is not None and cause is not before:
            if isinstance(cause, RuntimeError) and str(cause) == "Query interrupted":
                raise KeyboardInterrupt from error
            cause = cause.__context__
        raise

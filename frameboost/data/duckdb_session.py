"""Run statements on the connection of a user's relation, with temporary tables that are dropped after the fit."""

from __future__ import annotations

import ctypes
import itertools
import secrets
import weakref
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

from frameboost.checks.arguments import when_call_returns
from frameboost.checks.messages import shortened
from frameboost.data.plans import estimated_rows
from frameboost.expressions.duckdb_sql import quote_identifier, string_literal
from frameboost.runtime.interrupts import LeftBehindError, defer_signals, first_duckdb_error, plain_relation, when_free

__all__ = ["SHOWN", "Batch", "DuckDBSession", "OwnDatabaseSession", "read_batches"]


# The name under which statements read arrays in memory: a variable of the function that runs them, which DuckDB scans.
SHOWN = "frameboost_rows_in_memory"

# Prefixes of the tables that sessions could not drop. A connection has only the temporary tables made on it, so a later
# session drops those it finds, and needs not know which connection it is on.
_left_behind: set[str] = set()
_ATTEMPTS = 10
# As DuckDB shows its settings.
_BYTES_IN = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50, "EiB": 1 << 60}


class DuckDBSession:
    """Runs statements on the connection of a relation, and drops the temporary tables that it creates.

    Parameters
    ----------
    relation
        The relation; statements refer to it as ``session.source``.
    is_table
        Whether it is a table; a query or a file may take long to read.
    """

    owns_database = False  # whether the database is the session's

    def __init__(self, relation: duckdb.DuckDBPyRelation, *, is_table: bool = False) -> None:
        self._relation = plain_relation(relation)  # its frame has the variables that DuckDB looks up
        self.is_table = is_table
        self._prefix = f"frameboost_{secrets.token_hex(6)}_"
        self.source = quote_identifier(f"{self._prefix}source")
        self._view = self.source  # under which statements read the relation
        self.other = quote_identifier(f"{self._prefix}other")
        self._nothing = quote_identifier(f"{self._prefix}nothing")
        self._aside: duckdb.DuckDBPyRelation | None = None
        self._numbers = itertools.count()
        self._tables: list[str] = []
        self._settings: dict[str, Any] = {}
        self.shown: dict[str, npt.NDArray[Any]] = {}  # the columns of `SHOWN`, which have equal lengths
        self._closed = False
        self._reason: duckdb.Error | None = None  # why a table could not be dropped
        when_call_returns(_close, weakref.ref(self))

    def run(self, command: str) -> None:
        """Run a statement that returns no rows, such as CREATE TABLE."""
        commands = itertools.chain(
            [command], itertools.repeat(command.replace("CREATE TEMP TABLE", "CREATE OR REPLACE TEMP TABLE", 1))
        )
        when_free(lambda: self._query(next(commands)))  # one that is refused may have been run

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Run a query; return its rows."""
        rows: list[tuple[Any, ...]] = when_free(lambda: self._result(query).fetchall())
        return rows

    def estimated_rows(self) -> int | None:
        """Return the approximate number of rows of the source, None if unknown."""
        return when_free(
            lambda: estimated_rows(lambda statement: self._relation.query(self.source[1:-1], statement), self.source)
        )

    def columns(self, query: str) -> dict[str, Any]:
        """Run a query; return its columns as numpy arrays."""
        return when_free(lambda: dict(self._result(query).fetchnumpy()))

    def batches(self, query: str, dtypes: Sequence[npt.DTypeLike]) -> Generator[Batch, None, None]:
        """Run a query over tables of the session; yield its columns in batches (see `read_batches`).

        All batches must be read before the next statement.
        """
        with first_duckdb_error():
            result = when_free(lambda: self._query(query, self._relation_of))
            yield from read_batches(result, dtypes)

    def _result(self, query: str) -> Any:
        # The relation API parses and plans a CALL once, and a SELECT several times.
        return self._query(f"CALL query({string_literal(query)})")

    def show(self, **columns: npt.NDArray[Any]) -> None:
        """Expose arrays to statements, as columns of the table `SHOWN` beside those that it has."""
        self.shown |= columns

    def hide(self, *names: str) -> None:
        """Remove columns of `SHOWN`."""
        for name in names:
            del self.shown[name]

    def can_show(self) -> bool:
        """Whether statements can read `SHOWN`: no table has that name, and replacement scans are enabled."""
        token, shown = secrets.randbits(62), self.shown
        self.shown = {"token": np.array([token])}
        try:
            return self.rows(f"SELECT token FROM {SHOWN}") == [(token,)]
        except duckdb.Error:
            return False
        finally:
            self.shown = shown

    def _query(self, statement: str, run: Callable[[str], Any] | None = None) -> Any:
        run = run or self._run
        if SHOWN not in statement:
            return run(statement)
        with defer_signals():  # DuckDB drops what a handler raises while it looks for the variable, and finds none
            return run(statement)

    def _run(self, statement: str) -> Any:
        return self._relation_of(statement)

    def _relation_of(self, statement: str) -> Any:
        beside = self._beside()
        frameboost_rows_in_memory = self.shown  # noqa: F841 - DuckDB finds this variable by the name in a statement
        if self._view in statement:
            result = self._relation.query(self._view[1:-1], statement)
        else:
            result = beside.query(self._nothing[1:-1], statement)
        assert result is not None
        return result

    def _beside(self) -> duckdb.DuckDBPyRelation:
        """Return a relation that runs statements that do not read the source.

        Running a statement on a relation makes DuckDB bind the relation, create a view of it and drop that. For files
        or joins this takes longer than many statements, and it fails once the source is gone. This relation is a single
        row, and needs no view, because a lasting view already has its name. It is created first, so that it can drop
        all else.
        """
        if self._aside is None:
            name = self.source[1:-1]
            self._relation.query(name, f"CREATE OR REPLACE TEMP VIEW {self._nothing} AS SELECT NULL AS nothing")
            self._aside = self._relation.query(name, "CALL query('SELECT NULL AS nothing')")
            assert self._aside is not None
            if _left_behind:
                self._drop_left_behind(self._aside)
        return self._aside

    def _drop_left_behind(self, beside: duckdb.DuckDBPyRelation) -> None:
        """Drop tables that earlier sessions on the connection could not drop."""
        result = beside.query(
            self._nothing[1:-1],
            "SELECT 'TABLE', table_name FROM duckdb_tables() WHERE temporary UNION ALL "
            "SELECT 'VIEW', view_name FROM duckdb_views() WHERE temporary",
        )
        assert result is not None
        for kind, name in result.fetchall():
            if any(name.startswith(prefix) for prefix in list(_left_behind)):
                beside.query(self._nothing[1:-1], f"DROP {kind} IF EXISTS {quote_identifier(name)}")

    def table(self, name: str) -> str:
        """Return a quoted name for a temporary table to create."""
        quoted = quote_identifier(f"{self._prefix}{next(self._numbers)}_{name}")
        self._tables.append(quoted)
        return quoted

    def column(self, name: str) -> str:
        """Return a quoted column name that is unused in the relation."""
        return quote_identifier(f"{self._prefix}{name}")

    def relation_of(self, table: str) -> duckdb.DuckDBPyRelation:
        """Return a table of the session as a relation, which does not read the source."""
        relation = when_free(lambda: self._beside().query(self._nothing[1:-1], f"FROM {table}"))
        assert relation is not None
        return relation

    def read_table(self, table: str) -> None:
        """Make a table of the session the source from now on."""
        self.source, self.is_table = table, True

    @property
    def has_copy(self) -> bool:
        """Whether the source is a table of the session."""
        return self.source in self._tables

    def run_over(self, relation: duckdb.DuckDBPyRelation, command: str) -> None:
        """Run a statement over another relation of the same connection, named ``session.other``."""
        when_free(self._beside)
        when_free(lambda: plain_relation(relation).query(self.other[1:-1], command))

    def drop(self, table: str) -> None:
        """Drop a table with a name from `table`."""
        self.run(f"DROP TABLE IF EXISTS {table}")
        self._tables.remove(table)

    def setting(self, name: str) -> Any:
        """Return a setting of the connection, memoised."""
        if name not in self._settings:
            self._settings[name] = self.rows(f"SELECT current_setting('{name}')")[0][0]
        return self._settings[name]

    @property
    def memory_limit(self) -> float:
        """The memory limit of the database in bytes."""
        number, unit = str(self.setting("memory_limit")).split()
        return float(number) * _BYTES_IN[unit]

    def close(self) -> None:
        """Drop all remaining tables and views; signals such as Ctrl-C are deferred meanwhile.

        Raises
        ------
        LeftBehindError
            If something can't be dropped now, for example while the user reads a result on the connection. The next
            session on the connection drops it, or it is dropped with the connection.
        """
        came: BaseException | None = None
        while not self._closed:
            try:
                with defer_signals():  # DuckDB loses one that comes while it drops a view, and the view too
                    self._drop_all()
            except BaseException as error:  # from a handler, before or after the block
                came = error
        if came is not None:
            raise came
        if self._reason is not None:
            raise LeftBehindError(
                f"temporary tables named {self._prefix}* stay on the connection until the next fit on it, as DuckDB "
                f"can't drop them now: {shortened(str(self._reason), 300)}"
            ) from self._reason

    def _drop_all(self) -> None:
        self._closed = True
        dropped = [("TABLE", table) for table in reversed(self._tables)]
        # The view of a relation exists during a call only, but stays if that call was interrupted.
        # So may that of these statements, if another thread came in between.
        last = quote_identifier(f"{self._prefix}last")
        dropped += [("VIEW", name) for name in (self._nothing, self._view, self.other, last)]
        for kind, name in dropped:
            try:
                self._drop(kind, name)
            except duckdb.ConnectionException:  # the connection is closed: nothing is left
                return
            except duckdb.Error as error:
                _left_behind.add(self._prefix)
                # In an aborted transaction nothing can be dropped, and its tables are rolled back. Without `_aside` no
                # table has been made.
                if self._aside is not None and not isinstance(error, duckdb.TransactionException):
                    self._reason = self._reason or error

    def _drop(self, kind: str, name: str) -> None:
        """Drop a table or a view; retry if another thread interrupts the connection meanwhile."""
        for attempt in range(_ATTEMPTS):
            try:
                beside = self._relation if self._aside is None else self._aside  # a relation's truth counts its rows
                when_free(partial(beside.query, f"{self._prefix}last", f"DROP {kind} IF EXISTS {name}"))
                return
            except duckdb.InterruptException:
                if attempt == _ATTEMPTS - 1:
                    raise


def _close(reference: weakref.ref[DuckDBSession]) -> None:
    """Close a session that Ctrl-C left open."""
    session = reference()
    if session is not None and not session._closed:
        session.close()


class OwnDatabaseSession(DuckDBSession):
    """A session in a private database, which is discarded at the end.

    Its source is a frame; a statement that needs one column reads all of them.

    The connection runs statements, as a relation would parse each and create views for it, which takes twice as long.

    Parameters
    ----------
    connection
        The only connection to the database.
    query
        The rows.
    """

    owns_database = True

    def __init__(self, connection: duckdb.DuckDBPyConnection, query: str) -> None:
        relation = connection.sql(query)
        super().__init__(relation)
        self.is_table = True
        self._connection = connection
        relation.create_view(self.source[1:-1])

    def _run(self, statement: str) -> Any:
        frameboost_rows_in_memory = self.shown  # noqa: F841
        return self._connection.execute(statement)

    def _result(self, query: str) -> Any:
        return self._query(query)

    def _drop_all(self) -> None:
        self._connection.close()
        self._closed = True


# --- batches of a query's result as numpy arrays ----------------------------------------------------------------------


Batch = Sequence[npt.NDArray[Any]]


class _Array(ctypes.Structure):
    """``struct ArrowArray``."""


_Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_Array))), ("dictionary", ctypes.c_void_p),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Array))), ("private_data", ctypes.c_void_p),
]  # fmt: skip


class _Stream(ctypes.Structure):
    """``struct ArrowArrayStream``."""


_Stream._fields_ = [
    ("get_schema", ctypes.c_void_p),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Stream), ctypes.POINTER(_Array))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(_Stream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(_Stream))),
    ("private_data", ctypes.c_void_p),
]

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def read_batches(result: Any, dtypes: Sequence[npt.DTypeLike]) -> Generator[Batch, None, None]:
    """Yield the columns of each batch; the arrays are valid until the next batch.

    Parameters
    ----------
    result
        A result with ``__arrow_c_stream__``.
    dtypes
        The dtypes of its columns, which are numeric without NULL.

    Raises
    ------
    duckdb.Error
        If the database can't compute a batch.
    """
    kinds = [np.dtype(dtype) for dtype in dtypes]
    source = _Source()
    try:
        source.capsule = when_free(result.__arrow_c_stream__)
        with ThreadPoolExecutor(1, "frameboost-batches") as reader:
            ahead = reader.submit(source.read)
            try:
                while (batch := ahead.result()).release:
                    ahead = reader.submit(source.read)
                    try:
                        yield [_values_of(batch.children[i].contents, kind) for i, kind in enumerate(kinds)]
                    finally:
                        batch.release(ctypes.byref(batch))
            finally:
                if not ahead.exception() and (rest := ahead.result()).release:
                    rest.release(ctypes.byref(rest))
    finally:
        source.close()


class _Source:
    """A stream that one thread reads and another may close, even if Ctrl-C hit the thread as it started.

    Attributes
    ----------
    capsule
        The stream, released with the capsule; None once closed.
    """

    def __init__(self) -> None:
        self.capsule: Any = None
        self._lock = Lock()

    def read(self) -> Any:
        """Return the next batch; at the end it is a released one.

        ctypes releases the GIL while the database works.
        """
        batch = _Array()
        with self._lock:
            if self.capsule is None:
                return batch
            stream = _Stream.from_address(_pointer_of(self.capsule, b"arrow_array_stream"))

            def read() -> None:
                if stream.get_next(ctypes.byref(stream), ctypes.byref(batch)):
                    raise _error_of((stream.get_last_error(ctypes.byref(stream)) or b"").decode())

            when_free(read)
        return batch

    def close(self) -> None:
        """Release the stream, after a read that is under way."""
        with self._lock:
            self.capsule = None


def _error_of(message: str) -> duckdb.Error:
    """Return the exception for a message that starts with the exception's kind.

    "Out of Range Error: ..." is a `duckdb.OutOfRangeException`.
    """
    name = message.partition(" Error:")[0].replace(" ", "").lower() + "exception"
    for kind in vars(duckdb).values():
        if isinstance(kind, type) and issubclass(kind, duckdb.Error) and kind.__name__.lower() == name:
            return kind(message)
    return duckdb.Error(message)


class _Memory:
    """Memory of the database as a numpy array (array interface protocol, version 3)."""

    def __init__(self, address: int, length: int, dtype: np.dtype[Any]) -> None:
        self.__array_interface__ = {"version": 3, "shape": (length,), "typestr": dtype.str, "data": (address, True)}


def _values_of(column: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not column.length:
        return np.empty(0, dtype)
    return np.asarray(_Memory(column.buffers[1] + column.offset * dtype.itemsize, column.length, dtype))

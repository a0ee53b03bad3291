"""Connections to databases: run queries with each kind of driver, and derive the column types of the results.

Kinds of drivers: cursors of PEP 249, which return rows or Arrow; sessions with a method ``sql``, with results that
convert to Arrow; clients that return Arrow bytes. Wrappers, such as an engine of SQLAlchemy, are unwrapped. `_DRIVERS`
lists all kinds.

Arrow has column types. For rows, types come from the cursor's description, which differs by driver (`_TYPES`). SQLite
has types by value only, so the values of each column are counted by type.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl
from duckdb import ColumnExpression

from frameboost.checks.messages import listed, reason, shown
from frameboost.dialects.built_in import DIALECTS, get_dialect
from frameboost.dialects.dialect import Dialect
from frameboost.errors import DataError, ParameterError
from frameboost.schema.types import FeatureType, Physical, typed_column

__all__ = ["ColumnType", "Connection", "OpenedConnection", "connect", "dialect_called", "values_of"]

T = TypeVar("T")

# Rows of Python that are held at once, before they become columns.
_ROWS_AT_ONCE = 50_000
_EPOCH = dt.datetime(1970, 1, 1)
_TIMES = ("date", "timestamp", "timestamptz")
_SECONDS = re.compile(r"-?(\d+(\.\d+)?|Infinity)")


@dataclass(frozen=True)
class ColumnType:
    """The type of a column: as a feature, None if it can't be one, and by its name in the database.

    ``sql`` is a template for reading and comparing the column ``{x}``: unbounded numerics as floats, for example.
    """

    type: FeatureType | None
    name: str
    sql: str = "{x}"


class _WrongValueError(DataError):
    """A value that does not fit the type of its column."""

    def __init__(self, column: str, problem: str) -> None:
        self.problem = problem
        super().__init__(f"column {shown(column)} {problem}")


@contextmanager
def values_of(column: str) -> Iterator[None]:
    """Name the original column in errors of queries that return its values under other names."""
    try:
        yield
    except _WrongValueError as error:
        raise _WrongValueError(column, error.problem) from error


class Connection(Protocol):
    """A database that runs queries."""

    def types(self, query: str) -> dict[str, ColumnType]:
        """Return the columns of a query with their types, without reading rows."""

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """Return the rows of a query with columns of these types, in order."""

    def run(self, statement: str) -> None:
        """Run a statement that returns no rows."""

    def one_session(self) -> AbstractContextManager[Connection]:
        """Return a connection with all statements in one session, so that temporary tables work."""

    def another_session(self) -> AbstractContextManager[Connection] | None:
        """Return a connection in a new session; None if only the user can open one."""


def connect(connection: Any, dialect: str | None) -> tuple[Connection, Dialect]:
    """Return the connection and the SQL dialect of a user's connection, or of a function that opens one.

    Raises
    ------
    ParameterError
        If the kind of connection is unknown, or its dialect can't be derived.
    """
    if inspect.isroutine(connection) or isinstance(connection, partial):
        opened, known = _connected(connection(), dialect)
        return OpenedConnection(connection, known.name, opened), known
    return _connected(connection, dialect)


def _connected(connection: Any, dialect: str | None) -> tuple[Connection, Dialect]:
    chosen = None if dialect is None else get_dialect(dialect)
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    for begins, unwrap in _WRAPPERS.items():
        if kind.startswith(begins):
            return _connected(unwrap(connection), dialect)
    if any(inspect.iscoroutinefunction(getattr(connection, name, None)) for name in ("execute", "raw_connection")):
        raise ParameterError(f"connection is a {shown(kind)}, which is asynchronous; pass a synchronous connection")
    for driver in _DRIVERS:
        if driver.recognises(kind, connection):
            told = driver.dialect if isinstance(driver.dialect, str | None) else driver.dialect(connection)
            if chosen is None and told is None:
                raise ParameterError(
                    f"pass dialect, as a {shown(kind)} does not say which database it is: one of "
                    f"{listed(DIALECTS, None)}"
                )
            known = get_dialect(str(told)) if chosen is None else chosen
            return driver.opened(connection, known), known
    raise ParameterError(
        f"connection is a {shown(kind)}; it must be a connection of PEP 249 (psycopg, sqlite3, pymysql, ...) or ADBC, "
        "an engine of SQLAlchemy, a backend of Ibis, a Spark session, a SessionContext of DataFusion, a session or "
        "client of ClickHouse, or a function that opens one of these"
    )


# What only holds a connection of another kind, and how that is taken from it.
_WRAPPERS: Mapping[str, Callable[[Any], Any]] = {
    "sqlalchemy.orm.": lambda session: session.connection(),
    "sqlalchemy.pool.": lambda pooled: pooled.driver_connection,
    "snowflake.snowpark.": lambda session: session.connection,
}


class OpenedConnection:
    """Connections opened by the user's function, one per thread, here and on the workers of a cluster.

    Parameters
    ----------
    open_one
        The function.
    dialect
        The name of the database.
    first
        The connection of this thread.
    """

    def __init__(self, open_one: Callable[[], Any], dialect: str, first: Connection | None = None) -> None:
        self._open_one = open_one
        self._dialect = dialect
        self._of_threads = threading.local()
        if first is not None:
            self._of_threads.connection = first

    def __reduce__(self) -> tuple[type[OpenedConnection], tuple[Callable[[], Any], str]]:
        """Pickle the function alone."""
        return OpenedConnection, (self._open_one, self._dialect)

    @property
    def _here(self) -> Connection:
        if not hasattr(self._of_threads, "connection"):
            self._of_threads.connection = _connected(self._open_one(), self._dialect)[0]
        connection: Connection = self._of_threads.connection
        return connection

    def types(self, query: str) -> dict[str, ColumnType]:
        """See `Connection.types`."""
        return self._here.types(query)

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        return self._here.frame(query, types)

    def run(self, statement: str) -> None:
        """See `Connection.run`."""
        self._here.run(statement)

    def one_session(self) -> AbstractContextManager[Connection]:
        """See `Connection.one_session`."""
        return self._here.one_session()

    def another_session(self) -> AbstractContextManager[Connection]:
        """See `Connection.another_session`; the thread keeps it."""
        self._of_threads.connection = _connected(self._open_one(), self._dialect)[0]
        return self.one_session()


class _OneSession:
    """A connection that is itself a session."""

    def one_session(self) -> AbstractContextManager[Any]:
        """See `Connection.one_session`."""
        return nullcontext(self)

    def another_session(self) -> None:
        """See `Connection.another_session`."""


@contextmanager
def _reading(query: str) -> Iterator[None]:
    """Convert a driver's exceptions for a query to `DataError`."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # each driver has other classes
        text = " ".join(query.split())
        raise DataError(f"the database can't run {shown(text)}: {reason(error)}") from error


# --- results in Arrow -------------------------------------------------------------------------------------------------


# Types of Arrow and of DuckDB that polars does not import, not even in a list.
_UNREAD = re.compile("interval|union|run_end_encoded", re.IGNORECASE)


@dataclass(frozen=True)
class _ArrowConnection(_OneSession):
    """A database with a driver that returns Arrow; ``read`` returns data for a polars frame, ``start`` nothing."""

    read: Callable[[str], Any]
    start: Callable[[str], Any]

    def types(self, query: str) -> dict[str, ColumnType]:
        """See `Connection.types`."""
        with _reading(query):
            result = self.read(f"SELECT * FROM ({query}) AS described WHERE 1 = 0")
            kinds = _type_names(result)
            unread = {name for name, kind in kinds.items() if _UNREAD.search(re.sub("'[^']*'", "", kind))}
            schema = pl.DataFrame(_without(result, unread) if unread else result).schema
        return {
            name: ColumnType(None, kinds[name]) if name in unread else self.column_type(schema[name])
            for name in kinds or schema
        }

    @staticmethod
    def column_type(dtype: pl.DataType) -> ColumnType:
        """Return the type of a column from its polars type; ADBC returns PostgreSQL's unbounded numerics as text."""
        name = str(dtype)
        if '"type_name":"numeric"' in name:
            return ColumnType(FeatureType("float64"), "numeric", "CAST({x} AS DOUBLE PRECISION)")
        return ColumnType(FeatureType.from_polars(dtype), name)

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        with _reading(query):
            read = pl.DataFrame(self.read(query))
            return pl.DataFrame(
                [
                    column.cast(kind.to_polars()).alias(name)
                    for column, (name, kind) in zip(read.iter_columns(), types.items(), strict=True)
                ]
            )

    def run(self, statement: str) -> None:
        """See `Connection.run`."""
        with _reading(statement):
            self.start(statement)


def _type_names(result: Any) -> dict[str, str]:
    """Return the column types of an Arrow table or a DuckDB relation; empty for a polars frame."""
    if isinstance(result, pl.DataFrame):
        return {}
    names, types = (
        (result.schema.names, result.schema.types) if hasattr(result, "schema") else (result.columns, result.types)
    )
    return dict(zip(names, map(str, types), strict=True))


def _without(result: Any, names: Collection[str]) -> Any:
    """Return a table or relation without some columns."""
    if hasattr(result, "schema"):
        return result.drop_columns(list(names))
    kept = [ColumnExpression(name) for name in result.columns if name not in names]
    return result.select(*kept) if kept else pl.DataFrame()


# --- results in rows of Python ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _CursorConnection(_OneSession):
    """A connection of PEP 249.

    Attributes
    ----------
    connection, dialect
        The connection, and its SQL dialect.
    column_types
        A function of this connection, the query and a cursor that ran it, which returns the types of the columns.
    """

    connection: Any
    dialect: Dialect
    column_types: Callable[[_CursorConnection, str, Any], list[ColumnType]]

    def types(self, query: str) -> dict[str, ColumnType]:
        """See `Connection.types`."""
        alias = f"{self.dialect.statements.alias}{self.dialect.quote('described')}"
        with self.cursor(f"SELECT * FROM ({query}) {alias} WHERE 1 = 0") as cursor:
            cursor.fetchall()
            types = self.column_types(self, query, cursor)
            names = [str(column[0]) for column in cursor.description]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise DataError(f"column {listed(twice)} occurs more than once; column names must be unique")
        return dict(zip(names, types, strict=True))

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        batches = []
        with self.cursor(query) as cursor:
            while rows := _tuples(cursor.fetchmany(_ROWS_AT_ONCE)):
                columns = zip(types.items(), zip(*rows, strict=True), strict=True)
                batches.append(pl.DataFrame([_series(name, kind, values) for (name, kind), values in columns]))
        empty = pl.DataFrame(schema={name: kind.to_polars() for name, kind in types.items()})
        return pl.concat(batches or [empty], rechunk=True)

    def run(self, statement: str) -> None:
        """See `Connection.run`."""
        with self.cursor(statement):
            pass

    @contextmanager
    def cursor(self, query: str) -> Iterator[Any]:
        """Run a query, and close its cursor at the end of the block."""
        with _reading(query), closing(self.connection.cursor()) as cursor:
            cursor.execute(query)
            yield cursor


class _PostgresConnection(_CursorConnection):
    """A connection to PostgreSQL; dates and times are read as seconds, as Python's can't be infinite."""

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        if all(kind.family not in _TIMES for kind in types.values()):
            return super().frame(query, types)
        names, sources = self.sources(query, len(types))
        selected = [
            f"CAST(EXTRACT(EPOCH FROM {x}) AS TEXT) AS {x}" if kind.family in _TIMES else x
            for x, kind in zip(names, types.values(), strict=True)
        ]
        return super().frame(f"SELECT {', '.join(selected)} FROM {sources}", types)

    def sources(self, query: str, n_columns: int) -> tuple[list[str], str]:
        """Return the names of a query's columns, and the FROM clause of a query over them."""
        names = [self.dialect.quote(f"column_{number}") for number in range(n_columns)]
        return names, f"({query}) AS {self.dialect.quote('described')} ({', '.join(names)})"


class _CopyingConnection(_PostgresConnection):
    """A psycopg connection, which reads numeric columns by COPY, five times as fast as rows."""

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        if not all(kind.name in _COPIED for kind in types.values()):
            return super().frame(query, types)
        names, sources = self.sources(query, len(types))
        selected = ", ".join(_COPIED[kind.name][1].format(x=x) for kind, x in zip(types.values(), names, strict=True))
        statement = f"COPY (SELECT {selected} FROM {sources}) TO STDOUT (FORMAT BINARY)"
        with _reading(query), closing(self.connection.cursor()) as cursor, cursor.copy(statement) as copy:
            data = b"".join(bytes(block) for block in copy)
        fields = [(f"size_{number}", ">i4") for number in range(len(types))]
        values = [(f"value_{number}", _COPIED[kind.name][0]) for number, kind in enumerate(types.values())]
        row = np.dtype([("n", ">i2"), *(field for pair in zip(fields, values, strict=True) for field in pair)])
        body = data[_HEAD:_TAIL]
        if len(body) % row.itemsize:  # a NULL has no bytes
            return super().frame(query, types)
        rows = np.frombuffer(body, row)
        if any((rows[name] != 8).any() for name, _ in fields):
            return super().frame(query, types)
        columns = []
        for number, (name, kind) in enumerate(types.items()):
            column = pl.Series(name, rows[f"value_{number}"].astype(rows[f"value_{number}"].dtype.newbyteorder("=")))
            columns.append((column.fill_nan(None) if kind.is_float else column).cast(kind.to_polars()))
        return pl.DataFrame(columns)


# Types that are copied as 8 bytes, and how; what is missing in a float is NaN.
_COPIED = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), (">i8", "{x}::int8")),
    **dict.fromkeys(("float32", "float64"), (">f8", "COALESCE({x}::float8, 'NaN')")),
}
# Bytes before the first row, and behind the last one. https://www.postgresql.org/docs/current/sql-copy.html
_HEAD, _TAIL = 19, -2


def _tuples(rows: Sequence[Any]) -> Sequence[Any]:
    """Return rows as tuples, from cursors with named rows such as ``DictCursor`` too."""
    return [tuple(row.values()) for row in rows] if rows and isinstance(rows[0], Mapping) else rows


def _series(name: str, kind: FeatureType, values: Sequence[Any]) -> pl.Series:
    """Return the values of a column from a driver in the type of the column."""
    if kind.is_integer or (kind.is_float and kind.name != "float32"):
        try:
            return pl.Series(name, values, kind.to_polars())
        except TypeError:  # decimals, or texts
            pass
    try:
        return typed_column(name, kind, [None if value is None else _physical(kind, value) for value in values])
    except (TypeError, ValueError, ArithmeticError, OverflowError) as error:
        raise _WrongValueError(name, f"has a value that is no {kind} ({reason(error)})") from error


def _physical(kind: FeatureType, value: Any) -> Physical:
    """Return the physical value of a driver's value."""
    if isinstance(value, bytes):
        value = value.decode()
    if kind.name == "string":
        return str(value)
    if kind.is_float:
        return float(value)
    if kind.precision_and_scale:
        return int(Decimal(str(value)).scaleb(kind.precision_and_scale[1]).to_integral_value())
    if kind.family in _TIMES and isinstance(value, str) and _SECONDS.fullmatch(value):
        if "Infinity" in value:
            assert kind.bounds is not None
            return kind.bounds[1] if value == "Infinity" else -kind.bounds[1]
        return int(Decimal(value) / 86_400) if kind.family == "date" else int(Decimal(value).scaleb(6))
    if kind.family in _TIMES:
        moment = value if isinstance(value, dt.date) else dt.datetime.fromisoformat(str(value))
        if kind.family == "date":
            return (dt.date(moment.year, moment.month, moment.day) - _EPOCH.date()).days
        if not isinstance(moment, dt.datetime):
            moment = dt.datetime(moment.year, moment.month, moment.day)
        if moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        return (moment - _EPOCH) // dt.timedelta(microseconds=1)
    return int(value)


# --- the types that cursors describe ----------------------------------------------------------------------------------

# Types by their names in SQL, without what is in parentheses, in lower case.
_BY_NAME = {
    **dict.fromkeys(("smallint", "int2"), "int16"), **dict.fromkeys(("integer", "int", "int4", "mediumint"), "int32"),
    **dict.fromkeys(("bigint", "int8", "long"), "int64"), "tinyint": "int8",
    **dict.fromkeys(("real", "float4"), "float32"),
    **dict.fromkeys(("double precision", "double", "float8"), "float64"),
    **dict.fromkeys(("boolean", "bool"), "boolean"), "date": "date",
    **dict.fromkeys(("timestamp without time zone", "timestamp", "datetime"), "timestamp[us]"),
    **dict.fromkeys(("timestamp with time zone", "timestamptz"), "timestamptz[us]"),
    **dict.fromkeys(("text", "character varying", "varchar", "character", "bpchar", "char", "name", "citext", "string",
                     "nvarchar", "nchar"), "string"),
}  # fmt: skip
_DECIMALS = ("numeric", "decimal", "number")
_MOST_DIGITS = 38


def _named(dialect: Dialect, name: str, precision: Any = None, scale: Any = None) -> ColumnType:
    """Return the type of a name such as ``numeric(9, 2)``; numerics that no decimal type holds are read as float64."""
    bare, _, rest = name.lower().partition("(")
    bare = " ".join([bare.strip(), rest.partition(")")[2].strip()]).strip()
    if bare in _DECIMALS:
        digits = [int(text) for text in re.findall(r"\d+", rest)] or [precision, scale]
        n_digits, decimals = (*digits, 0)[:2]
        if n_digits and 0 <= (decimals or 0) <= n_digits <= _MOST_DIGITS:
            return ColumnType(FeatureType(f"decimal({n_digits},{decimals or 0})"), name)
        return ColumnType(FeatureType("float64"), name, dialect.cast("{x}", "float64"))
    known = _BY_NAME.get(bare)
    return ColumnType(None if known is None else FeatureType(known), name)


def _of_postgres(connection: _CursorConnection, query: str, cursor: Any) -> list[ColumnType]:
    """Return types by their OIDs; a user-defined type is a string if it is an enum or a domain of text."""
    oids = sorted({int(column[1]) for column in cursor.description})
    catalog = f"SELECT oid, format_type(oid, NULL), typcategory FROM pg_type WHERE oid IN ({', '.join(map(str, oids))})"
    with connection.cursor(catalog) as of_catalog:
        known = {int(oid): (str(name), str(category)) for oid, name, category in _tuples(of_catalog.fetchall())}
    types = []
    for column in cursor.description:
        name, category = known[int(column[1])]
        kind = _named(connection.dialect, name, column[4], column[5])
        if kind.type is None and category in ("E", "S"):
            kind = ColumnType(FeatureType("string"), name)
        types.append(kind)
    return types


# https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html
_OF_MYSQL = {
    1: "tinyint", 2: "smallint", 3: "integer", 8: "bigint", 9: "integer", 13: "smallint", 4: "float", 5: "double",
    0: "decimal", 246: "decimal", 10: "date", 14: "date", 7: "timestamptz", 12: "datetime", 15: "varchar",
    11: "time", 16: "bit", 247: "varchar", 248: "varchar", 249: "text", 250: "text", 251: "text", 252: "text",
    253: "varchar", 254: "char",
}  # fmt: skip
_UNSIGNED = 32  # of a column's flags


def _of_mysql(connection: _CursorConnection, query: str, cursor: Any) -> list[ColumnType]:
    """Return types by their numbers in the protocol, and unsigned integers by flags, if the driver has them."""
    flags = getattr(cursor, "description_flags", None)
    if flags is None:
        described = getattr(getattr(cursor, "_result", None), "fields", None)  # of PyMySQL
        flags = (
            [field.flags for field in described] if described else [(*column, 0)[7] for column in cursor.description]
        )
    types = []
    for column, flag in zip(cursor.description, flags, strict=True):
        name = _OF_MYSQL.get(int(column[1]), f"type {column[1]}")
        precision, scale = column[4], column[5]
        if precision and name == "decimal":  # which is the length of its text, with a point and a sign
            precision -= (scale > 0) + (not flag & _UNSIGNED)
        kind = _named(connection.dialect, name, precision, scale)
        if name == "bit":
            kind = ColumnType(FeatureType("uint64"), name, "CAST({x} AS UNSIGNED)")
        elif name == "float":  # which is sent with six digits
            kind = ColumnType(FeatureType("float64"), name, connection.dialect.cast("{x}", "float64"))
        elif kind.type is not None and kind.type.is_integer and flag & _UNSIGNED:
            kind = ColumnType(FeatureType(f"u{kind.type}"), f"{name} unsigned")
        types.append(kind)
    return types


_DAY = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"
# Conditions that the values of a column of SQLite are counted by; dates and times are text there.
_OF_SQLITE = {
    **{kind: f"TYPEOF({{x}}) = '{kind}'" for kind in ("integer", "real", "text", "blob")},
    "date": f"{{x}} GLOB '{_DAY}'", "timestamp[us]": f"{{x}} GLOB '{_DAY}[ T][0-9][0-9]:[0-9][0-9]:[0-9][0-9]*'",
}  # fmt: skip


def _of_sqlite(connection: _CursorConnection, query: str, cursor: Any) -> list[ColumnType]:
    """Return types from the values of each column; integers mixed with floats are floats."""
    names = [connection.dialect.quote(column[0]) for column in cursor.description]
    counts = [f"SUM({condition.format(x=name)})" for name in names for condition in _OF_SQLITE.values()]
    with connection.cursor(f"SELECT {', '.join(counts)} FROM ({query})") as counting:
        [counted] = _tuples(counting.fetchall())
    types = []
    for number in range(len(names)):
        of_column = counted[len(_OF_SQLITE) * number : len(_OF_SQLITE) * (number + 1)]
        n = {kind: count or 0 for kind, count in zip(_OF_SQLITE, of_column, strict=True)}
        numbers = n["integer"] + n["real"]
        if n["blob"] or (n["text"] and numbers):
            types.append(ColumnType(None, "a mixture of text and numbers" if n["text"] else "BLOB"))
            continue
        name = "int64" if n["integer"] and not n["real"] else "float64"
        if n["text"]:
            name = next((kind for kind in ("date", "timestamp[us]") if n[kind] == n["text"]), "string")
        is_mixed = n["integer"] > 0 and n["real"] > 0
        types.append(ColumnType(FeatureType(name), name, "CAST({x} AS REAL)" if is_mixed else "{x}"))
    return types


def _of_names(connection: _CursorConnection, query: str, cursor: Any) -> list[ColumnType]:
    """Return types from the names in the cursor's description.

    Raises
    ------
    DataError
        If the cursor has no description.
    """
    types = []
    for column in cursor.description:
        name = column[1] if isinstance(column[1], str) else getattr(column[1], "name", None)
        if not isinstance(name, str):
            raise DataError(
                f"the type of column {shown(column[0])} can't be determined: the driver describes it as "
                f"{shown(column[1])}; pass an engine of SQLAlchemy, or a driver that returns Arrow, such as ADBC's"
            )
        nullable = re.fullmatch(r"(?:Nullable|LowCardinality)\((.*)\)", name)
        bare = nullable[1] if nullable else name.removeprefix("DB_TYPE_")
        types.append(_named(connection.dialect, bare, column[4], column[5]))
    return types


# --- drivers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Driver:
    """A kind of connection.

    Attributes
    ----------
    recognises
        A predicate of a connection and the qualified name of its class.
    dialect
        The name of the dialect, a function that returns it, or None if it is not derivable.
    opened
        Returns what runs queries.
    """

    recognises: Callable[[str, Any], bool]
    dialect: str | Callable[[Any], str | None] | None
    opened: Callable[[Any, Dialect], Connection]


def _module(*names: str) -> Callable[[str, Any], bool]:
    return lambda kind, _: kind.startswith(tuple(f"{name}." for name in names))


def _cursors(types: Callable[[_CursorConnection, str, Any], list[ColumnType]]) -> Any:
    return lambda connection, dialect: _CursorConnection(connection, dialect, types)


def _arrow_of_cursor(method: str) -> Callable[[Any, Dialect], Connection]:
    """Return an opener of connections with a cursor that returns Arrow by the method of that name."""

    def opened(connection: Any, _: Dialect) -> Connection:
        def read(query: str) -> Any:
            with closing(connection.cursor()) as cursor:
                cursor.execute(query)
                return getattr(cursor, method)()

        def start(statement: str) -> None:
            with closing(connection.cursor()) as cursor:
                cursor.execute(statement)

        return _ArrowConnection(read, start)

    return opened


def _arrow_of_sql(method: str, start: str) -> Callable[[Any, Dialect], Connection]:
    """Return an opener of sessions with a method ``sql``; its results have these methods, for Arrow and to run it."""
    return lambda session, _: _ArrowConnection(
        lambda query: getattr(session.sql(query), method)(), lambda query: getattr(session.sql(query), start)()
    )


# Types of ClickHouse that Arrow has as others, or that queries can't store: by the name that they begin with, in
# Nullable and LowCardinality or not.
_OF_CLICKHOUSE = {
    "Enum": ("string", "CAST({x} AS Nullable(String))"), "FixedString": ("string", "CAST({x} AS Nullable(String))"),
    "DateTime64": (None, "{x}"), "DateTime": ("timestamptz[ms]", "toDateTime64({x}, 3, 'UTC')"),
    **dict.fromkeys(("IPv", "UUID", "Int128", "Int256", "UInt128", "UInt256"), ("", "{x}")),
}  # fmt: skip


class _ClickHouse(_ArrowConnection):
    """A session or client of ClickHouse, which describes the column types of queries itself."""

    def types(self, query: str) -> dict[str, ColumnType]:
        """See `Connection.types`."""
        types = super().types(query)
        with _reading(query):
            described = pl.DataFrame(self.read(f"DESCRIBE TABLE ({query})"))
        for name, kind in described.select(pl.first(), pl.nth(1)).iter_rows():
            bare = kind.removeprefix("LowCardinality(").removeprefix("Nullable(")
            as_it_is = "{x}" if bare == kind or kind.startswith("N") else f"CAST({{x}} AS Nullable({bare.rstrip(')')}))"
            known = next((each for begins, each in _OF_CLICKHOUSE.items() if bare.startswith(begins)), (None, as_it_is))
            feature = types[name].type if known[0] is None else FeatureType(known[0]) if known[0] else None
            types[name] = ColumnType(feature, kind, known[1])
        return types


def _of_chdb(session: Any, _: Dialect) -> Connection:
    return _ClickHouse(lambda query: pl.read_ipc_stream(session.query(query, "ArrowStream").bytes()), session.query)


def _mysql_or_mariadb(connection: Any) -> str:
    with closing(connection.cursor()) as cursor:
        cursor.execute("SELECT VERSION()")
        [[version]] = _tuples(cursor.fetchall())
    return "mariadb" if "mariadb" in str(version).lower() else "mysql"


def _dialect_of_adbc(connection: Any) -> str | None:
    """Return the dialect of an ADBC connection from its driver's vendor name."""
    vendor = str(connection.adbc_get_info().get("vendor_name", "")).lower()
    return next((name for name in ("postgres", "sqlite", "snowflake", "bigquery", "duckdb", "redshift")
                 if name in vendor), None)  # fmt: skip


def _of_adbc(connection: Any, dialect: Dialect) -> Connection:
    if dialect.name == "sqlite":  # its driver knows only the types of the first rows
        return _CursorConnection(connection, dialect, _of_sqlite)
    return _arrow_of_cursor("fetch_arrow_table")(connection, dialect)


# SQLAlchemy's and Ibis' names of databases that are called otherwise here.
_OTHER_NAMES = {"postgresql": "postgres", "mssql": "tsql", "pyspark": "spark", "awsathena": "athena"}


def dialect_called(name: str) -> str | None:
    """Return the dialect for a name of SQLAlchemy or Ibis; None if unknown."""
    name = _OTHER_NAMES.get(name, name)
    return name if name in DIALECTS else None


def _dialect_of_sqlalchemy(engine: Any) -> str | None:
    dialect = engine.dialect
    return "mariadb" if getattr(dialect, "is_mariadb", False) else dialect_called(str(dialect.name))


@dataclass(frozen=True)
class _PooledConnection:
    """A SQLAlchemy engine: each query takes a connection from its pool.

    If a connection is lost, its query is retried once on another.
    """

    engine: Any
    dialect: Dialect

    def types(self, query: str) -> dict[str, ColumnType]:
        """See `Connection.types`."""
        return self._read(lambda connection: connection.types(query))

    def frame(self, query: str, types: Mapping[str, FeatureType]) -> pl.DataFrame:
        """See `Connection.frame`."""
        return self._read(lambda connection: connection.frame(query, types))

    def run(self, statement: str) -> None:
        """See `Connection.run`."""
        with self.one_session() as session:
            session.run(statement)

    @contextmanager
    def one_session(self) -> Iterator[Connection]:
        """See `Connection.one_session`."""
        with closing(self.engine.raw_connection()) as pooled:
            yield connect(pooled.driver_connection, self.dialect.name)[0]
            pooled.commit()

    @contextmanager
    def another_session(self) -> Iterator[Connection]:
        """See `Connection.another_session`; it uses a new pool, as all connections of this one may be lost."""
        pool = self.engine.pool.recreate()
        try:
            with closing(pool.connect()) as pooled:
                yield connect(pooled.driver_connection, self.dialect.name)[0]
                pooled.commit()
        finally:
            pool.dispose()

    def _read(self, read: Callable[[Connection], T], attempts: int = 2) -> T:
        with closing(self.engine.raw_connection()) as pooled:
            try:
                return read(connect(pooled.driver_connection, self.dialect.name)[0])
            except DataError as error:
                is_lost = self.engine.dialect.is_disconnect(error.__cause__, pooled.dbapi_connection, None)
                if not is_lost or attempts == 1:
                    raise
                pooled.invalidate()
        return self._read(read, attempts - 1)


def _of_sqlalchemy(engine: Any, dialect: Dialect) -> Connection:
    if hasattr(engine, "raw_connection"):
        return _PooledConnection(engine, dialect)
    return connect(engine.connection.driver_connection, dialect.name)[0]


def _of_ibis(backend: Any, dialect: Dialect) -> Connection:
    """Return the connection of the driver below Ibis, or Ibis' own if its kind is unknown."""
    below = getattr(backend, "con", None)
    kind = f"{type(below).__module__}.{type(below).__qualname__}"
    if any(driver.recognises(kind, below) for driver in _DRIVERS):
        return connect(below, dialect.name)[0]
    return _ArrowConnection(lambda query: backend.sql(query, dialect=backend.name).to_pyarrow(), backend.raw_sql)


_DRIVERS: tuple[_Driver, ...] = (
    _Driver(
        _module("psycopg"), "postgres",
        lambda connection, dialect: _CopyingConnection(connection, dialect, _of_postgres),
    ),
    _Driver(
        _module("psycopg2", "pg8000"), "postgres",
        lambda connection, dialect: _PostgresConnection(connection, dialect, _of_postgres),
    ),
    _Driver(_module("redshift_connector"), "redshift", _cursors(_of_postgres)),
    _Driver(_module("sqlite3"), "sqlite", _cursors(_of_sqlite)),
    _Driver(_module("pymysql", "MySQLdb", "mysql", "mariadb"), _mysql_or_mariadb, _cursors(_of_mysql)),
    _Driver(
        _module("duckdb", "_duckdb"), "duckdb",
        lambda connection, _: _ArrowConnection(connection.sql, connection.execute),
    ),
    _Driver(lambda kind, _: kind.startswith("adbc_driver_"), _dialect_of_adbc, _of_adbc),
    _Driver(_module("snowflake"), "snowflake", _arrow_of_cursor("fetch_arrow_all")),
    _Driver(_module("databricks"), "databricks", _arrow_of_cursor("fetchall_arrow")),
    _Driver(_module("trino"), "trino", _cursors(_of_names)),
    _Driver(_module("oracledb"), "oracle", _cursors(_of_names)),
    _Driver(_module("pyspark"), "spark", _arrow_of_sql("toArrow", "count")),
    _Driver(_module("datafusion"), "datafusion", _arrow_of_sql("to_arrow_table", "collect")),
    _Driver(_module("chdb"), "clickhouse", _of_chdb),
    _Driver(
        _module("clickhouse_connect"), "clickhouse",
        lambda client, _: _ClickHouse(client.query_arrow, client.command),
    ),
    _Driver(
        lambda kind, client: kind.startswith("google.cloud.bigquery.") and hasattr(client, "query"), "bigquery",
        lambda client, _: _ArrowConnection(
            lambda query: client.query(query).to_arrow(), lambda query: client.query(query).result()
        ),
    ),
    _Driver(_module("sqlalchemy"), _dialect_of_sqlalchemy, _of_sqlalchemy),
    _Driver(
        lambda kind, backend: kind.startswith("ibis.") and hasattr(type(backend), "raw_sql"),
        lambda backend: dialect_called(str(backend.name)), _of_ibis,
    ),
    _Driver(lambda _, connection: callable(getattr(connection, "cursor", None)), None, _cursors(_of_names)),
)  # fmt: skip

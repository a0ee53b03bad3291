"""Register a model as a function of a DuckDB connection: a macro of its SQL, or a udf over compiled kernels.

Existing functions are looked up by name first, so that none of the user's is replaced or hidden.
"""

from __future__ import annotations

import re
import secrets
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from frameboost.checks.messages import shortened, shown
from frameboost.database.database_model import database_model, read_columns
from frameboost.database.udf import udf_of
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import ParameterError
from frameboost.expressions.duckdb_sql import string_literal
from frameboost.losses.outputs import OutputName
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.interrupts import defer_signals, has_unread_result, when_free

__all__ = ["register"]

# The start of the comment on each macro that `register` makes. A user's CREATE OR REPLACE removes the comment.
_MARK = "frameboost model"
_TEMP = ("temp", "main")
# The udfs that `register` has made: DuckDB's function numbers by name. A udf cannot have a comment.
_udfs: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, dict[bytes, int]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _QualifiedName:
    """The qualified name of a function: database, schema and name."""

    database: str
    schema: str
    name: str

    @property
    def sql(self) -> str:
        """The quoted qualified name."""
        return ".".join(map(DUCKDB.quote, (self.database, self.schema, self.name)))


@dataclass(frozen=True)
class _Function:
    """An existing function, and whether `register` created it."""

    at: _QualifiedName
    is_macro: bool
    is_ours: bool

    @property
    def is_stored(self) -> bool:
        """Whether it is a macro stored in a database, which outlives the connection."""
        return self.is_macro and self.at.database not in ("temp", "system")

    def __str__(self) -> str:
        where = f"{self.at.database}.{self.at.schema}"
        if self.is_macro and self.at.database != "system":
            return f"a macro {shown(self.at.name)} exists in {where}"
        return f"DuckDB has a function {shown(self.at.name)}"


# --- a model ------------------------------------------------------------------------------------------------------


def register(
    predictor: Predictor, con: duckdb.DuckDBPyConnection, name: str, output: OutputName, form: str, *,
    temporary: bool, replace: bool,
) -> None:  # fmt: skip
    """Register the model as a function of a connection; the arguments are those of `frameboost.Model.register`."""
    if form == "udf" and not temporary:
        raise ParameterError("a udf is dropped with the connection; temporary=False needs form='macro'")
    ensemble = predictor.ensemble
    database = database_model(ensemble, "duckdb")
    connection = _as_connection(con)
    target = _qualified_name(connection, name, temporary=temporary)
    if form == "udf":
        _create_udf(connection, target.name, udf_of(predictor, connection, output), replace=replace)
        return
    about = f"output {output}, {ensemble.loss.name}, {len(ensemble.trees):,} trees"
    arguments = [column.name for column in read_columns(database, output)]
    _create_macro(connection, target, arguments, database.sql(output, form="auto"), about, replace=replace)


# --- where --------------------------------------------------------------------------------------------------------


def _as_connection(con: Any) -> duckdb.DuckDBPyConnection:
    """Return an open connection; for the module `duckdb`, its default connection.

    Raises
    ------
    ParameterError
        If it is something else, closed, or has a pending result.
    """
    if con is duckdb:
        con = duckdb.default_connection()
    if not isinstance(con, duckdb.DuckDBPyConnection):
        raise ParameterError(f"con must be a DuckDB connection, not {shown(con)}")
    try:
        # Not by con.execute, which drops a result that the caller has not read to its end.
        when_free(lambda: con.sql("SELECT 1").fetchall())
    except duckdb.ConnectionException as error:
        raise ParameterError("con is a connection that has been closed; pass an open one") from error
    except duckdb.Error as error:
        if not has_unread_result(error):
            raise
        raise ParameterError(
            "con has a pending result, as after con.execute(...).fetchone(); fetch the rest of it "
            "first, or con.execute('SELECT 1') to drop it"
        ) from error
    return con


def _qualified_name(con: duckdb.DuckDBPyConnection, name: Any, *, temporary: bool) -> _QualifiedName:
    """Resolve the name of a new function; stored functions may have a qualified name, such as ``sales.score``.

    Raises
    ------
    ParameterError
        If the name is empty, its schema does not exist, or the database is read-only.
    """
    if not isinstance(name, str):
        raise ParameterError(f"name must be a string, not {shown(name)}")
    *path, last = DUCKDB.parts_of(name)
    if not last or not all(path):
        raise ParameterError(f"name={shown(name)} has an empty part; name the function")
    if temporary:
        if path:
            raise ParameterError(
                f"name={shown(name)} names a schema, and a temporary function is in none; put a name with a dot into "
                "double quotes, or use temporary=False"
            )
        return _QualifiedName(*_TEMP, last)
    database, schema = _schema(con, path, name)
    state = con.execute("SELECT readonly FROM duckdb_databases() WHERE database_name = ?", [database]).fetchall()
    if state != [(False,)] or database in ("temp", "system"):
        raise ParameterError(f"nothing can be stored in database {shown(database)}, which is read-only; use "
                             "temporary=True, or another database")  # fmt: skip
    return _QualifiedName(database, schema, last)


def _schema(con: duckdb.DuckDBPyConnection, path: Sequence[str], name: str) -> tuple[str, str]:
    """Return the database and the schema of a qualified name."""
    ((database, schema),) = con.execute("SELECT current_database(), current_schema()").fetchall()
    if not path:
        return database, schema
    known = con.execute("SELECT database_name, schema_name FROM duckdb_schemas()").fetchall()
    candidates = [(database, path[0]), (path[0], "main")] if len(path) == 1 else [tuple(path)]
    for candidate in candidates:
        for other in known:
            if list(map(_key, candidate)) == list(map(_key, other)):
                return other
    raise ParameterError(f"name={shown(name)} is in no schema that the connection knows; create that schema first")


def _key(name: str) -> bytes:
    return name.encode().lower()  # DuckDB compares ASCII letters without case, and all others with


# --- what is there ------------------------------------------------------------------------------------------------


def _named(con: duckdb.DuckDBPyConnection, name: str) -> list[_Function]:
    """Return the functions of that name in all databases; table functions have a separate namespace."""
    rows = con.execute(
        "SELECT DISTINCT database_name, schema_name, function_name, function_type = 'macro', function_oid, "
        "COALESCE(comment, '') FROM duckdb_functions() WHERE lower(function_name) = lower(?) "
        "AND function_type IN ('scalar', 'aggregate', 'window', 'macro')",
        [name],
    ).fetchall()
    ours = _udfs.get(con, {})
    return [
        _Function(
            _QualifiedName(database, schema, exact),
            is_macro,
            comment.startswith(_MARK) or ours.get(_key(exact)) == number,
        )
        for database, schema, exact, is_macro, number, comment in rows
        if _key(exact) == _key(name)
    ]


def _number(con: duckdb.DuckDBPyConnection, name: str) -> int:
    """Return DuckDB's function number of a udf."""
    query = "SELECT function_oid FROM duckdb_functions() WHERE database_name = 'system' AND function_name = ?"
    ((number,),) = con.execute(query, [name]).fetchall()
    return int(number)


def _search_path(con: duckdb.DuckDBPyConnection) -> list[tuple[str, ...]]:
    """Return DuckDB's search path for unqualified names; an entry may be a schema or a database alone."""
    ((path, *current),) = con.execute(
        "SELECT current_setting('search_path'), current_database(), current_schema()"
    ).fetchall()
    entries = re.findall(r'(?:"(?:[^"]|"")*"|[^,"])+', path)
    return [_TEMP, tuple(current), *(tuple(DUCKDB.parts_of(entry.strip())) for entry in entries), ("system",)]


def _rank(path: Sequence[tuple[str, ...]], target: _QualifiedName) -> int | None:
    """Return the position of a name's schema on the search path, or None."""
    spelled = [tuple(map(_key, parts)) for parts in path]
    schema = tuple(map(_key, (target.database, target.schema)))
    spellings = (schema, schema[:1], schema[1:])
    return next((i for i, parts in enumerate(spelled) if parts in spellings), None)


@dataclass(frozen=True)
class _Namesakes:
    """The functions with a name: in the same schema, before it on the search path (hiding) and after it (hidden)."""

    same: list[_Function]
    hiding: list[_Function]
    hidden: list[_Function]

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection, target: _QualifiedName) -> _Namesakes:
        """Look up the functions of the name in all schemas."""
        path = _search_path(con)
        reached = _rank(path, target)
        namesakes = cls([], [], [])
        for function in _named(con, target.name):
            rank = _rank(path, function.at)
            if (function.at.database, function.at.schema) == (target.database, target.schema):
                namesakes.same.append(function)
            elif reached is not None and rank is not None:
                (namesakes.hiding if rank < reached else namesakes.hidden).append(function)
        return namesakes

    def check(self, what: str) -> None:
        """Raise `ParameterError` if ``what`` would replace, hide or be hidden by a function of others."""
        for functions, consequence in (
            (self.same, "which {what} would replace; use replace=True if it may"),
            (self.hiding, "which would hide {what}; use replace=True to drop it"),
            # A function that one of ours hides already was accepted when ours was made.
            ([] if self.same else self.hidden, "which {what} would hide; use replace=True if it may"),
        ):
            for function in functions:
                if not function.is_ours:
                    raise ParameterError(f"{function}, {consequence.format(what=what)}, or set another name")


# --- putting one there --------------------------------------------------------------------------------------------


def _create_macro(
    con: duckdb.DuckDBPyConnection, target: _QualifiedName, arguments: Sequence[str], body: str, about: str, *,
    replace: bool,
) -> None:  # fmt: skip
    """Create a macro, or replace the one of that name.

    Parameters
    ----------
    con, target
        Where.
    arguments, body
        The quoted parameters and the expression.
    about
        The text of its comment.
    replace
        Whether functions not created by `register` may be replaced, hidden, or dropped because they hide this one.

    Raises
    ------
    ParameterError
        If such a function exists and ``replace`` is false, or the macro's expression calls it.
    """
    namesakes = _Namesakes.of(con, target)
    # A stored macro earlier on the search path hides another only from the unqualified name.
    namesakes = _Namesakes(namesakes.same, [f for f in namesakes.hiding if not f.is_stored], namesakes.hidden)
    if not replace:
        namesakes.check("the model's macro")
    if namesakes.hidden and _calls(body, target.name):
        raise ParameterError(
            f"the model's SQL calls {shown(target.name)} itself, so its macro can't have that name; set another name"
        )
    kind = "TEMPORARY MACRO" if target.database == "temp" else "MACRO"
    comment = string_literal(f"{_MARK}: {about}")
    with defer_signals():
        con.execute(f"CREATE OR REPLACE {kind} {target.sql}({', '.join(arguments)}) AS {body}").fetchall()
        con.execute(f"COMMENT ON MACRO {target.sql} IS {comment}").fetchall()
        for function in namesakes.hiding:
            con.execute(f"DROP MACRO {function.at.sql}").fetchall()
        for function in namesakes.hidden:
            if function.is_ours and not function.is_macro:
                _remove_udf(con, function.at.name)


def _calls(body: str, name: str) -> bool:
    """Whether an expression calls a function or an operator of that name."""
    unquoted = re.sub(r"""'(?:[^']|'')*'|"(?:[^"]|"")*[\"]""", " ", body)
    return any(_key(name) == _key(called) for called in re.findall(r"\w+(?=\()|[^\w\s(),.\[\]]+", unquoted))


def _create_udf(con: duckdb.DuckDBPyConnection, name: str, create: Callable[[str], object], *, replace: bool) -> None:
    """Create a udf, or replace the one of that name.

    Parameters
    ----------
    con, name
        The connection, and the name.
    create
        Creates the udf under an unused name.
    replace
        Whether a udf or a temporary macro not created by `register` may be replaced.

    Raises
    ------
    ParameterError
        If such a function exists and ``replace`` is false; if it is built into DuckDB, was created by another
        connection, or a stored macro would hide the udf.
    """
    namesakes = _Namesakes.of(con, _QualifiedName("system", "main", name))
    stored = [function for function in namesakes.hiding if function.is_stored]
    if stored:
        drop = f"DROP MACRO {stored[0].at.sql}"
        raise ParameterError(
            f"{stored[0]}, which would hide a udf; drop it first ({shortened(drop)}), or set another name"
        )
    if any(not function.is_ours and _is_builtin(con, name) for function in namesakes.same):
        raise ParameterError(
            f"DuckDB has a function {shown(name)} built in, which no udf can replace; choose another name"
        )
    if not replace:
        namesakes.check("the udf")
    trial = f"frameboost_{secrets.token_hex(6)}"
    create(trial)
    con.remove_function(trial)
    with defer_signals():
        _make_free(con, name, namesakes.same)
        for function in namesakes.hiding:
            con.execute(f"DROP MACRO {function.at.sql}").fetchall()
        create(name)
        _udfs.setdefault(con, {})[_key(name)] = _number(con, name)


def _make_free(con: duckdb.DuckDBPyConnection, name: str, udfs: Sequence[_Function]) -> None:
    """Remove the udf of that name, if it exists."""
    for udf in [function.at.name for function in udfs] or [name]:
        try:
            _remove_udf(con, udf)
        except duckdb.InvalidInputException as error:  # not made on this connection
            if udfs:
                raise ParameterError(
                    f"the udf {shown(udf)} was made by another connection to the database, as a cursor's parent is; "
                    "replace it there, or set another name"
                ) from error
        except duckdb.CatalogException as error:  # known to the connection, but not to the database
            raise ParameterError(
                f"a udf {shown(udf)} was made in a transaction that was rolled back, and DuckDB keeps its name taken; "
                "set another name, or use another connection"
            ) from error


def _remove_udf(con: duckdb.DuckDBPyConnection, name: str) -> None:
    con.remove_function(name)
    _udfs.get(con, {}).pop(_key(name), None)


def _is_builtin(con: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Whether a function of that name is built into DuckDB or one of its extensions."""
    query = "SELECT count(*) FROM duckdb_functions() WHERE lower(function_name) = lower(?) AND database_name = 'system'"
    if con.execute(f"{query} AND extension_name IS NOT NULL", [name]).fetchall() != [(0,)]:
        return True
    with duckdb.connect() as pristine:
        return pristine.execute(query, [name]).fetchall() != [(0,)]

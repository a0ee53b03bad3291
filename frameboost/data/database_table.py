"""`table`: a table or a query of any SQL database as training data.

`DatabaseTable` has the methods of the other sources. If a fit bins the columns in the database, only codes, labels and
weights leave it (`frameboost.engines.memory.database`); everything else reads column values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar

import polars as pl

from frameboost.checks.arguments import anything, checked, column, name_of
from frameboost.checks.messages import did_you_mean, listed, reason, shown
from frameboost.data.connections import ColumnType, Connection, connect, values_of
from frameboost.data.predicates import check_repeatable, unusable, words_of
from frameboost.dialects.columns import DatabaseColumn
from frameboost.dialects.dialect import Dialect
from frameboost.dialects.draws import draw_query
from frameboost.errors import DataError, ParameterError
from frameboost.schema.types import Feature, FeatureType, Physical, free_name, physical_values

__all__ = ["DatabaseTable", "table"]

# What a query begins with, behind comments and parentheses; anything else is the name of a table.
_QUERY = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|WITH|FROM|VALUES)\s", re.IGNORECASE | re.DOTALL)
_CODES = FeatureType("int16")
# Functions by which a query's rows are drawn anew in each statement.
_DRAWN = {"random", "rand", "randn", "uniform", "newid", "uuid", "gen_random_uuid", "generate_uuid"}


@dataclass(frozen=True, eq=False)
class DatabaseTable:
    """A table or a query of a database, returned by `table`; data for `frameboost.fit` and the other functions.

    Attributes
    ----------
    connection, dialect
        The connection that runs queries, and its SQL dialect.
    name
        The name of the table, or the query.
    relation
        The SQL that follows FROM.
    key
        The unique column that identifies and orders the rows, or None.
    scratch
        The schema of the tables that a fit creates, or None for temporary tables.
    columns
        The columns with their types.
    expressions
        The SQL of columns that are computed, by name.
    conditions
        Predicates that restrict the rows.
    """

    connection: Connection
    dialect: Dialect
    name: str
    relation: str
    key: str | None
    scratch: str | None
    columns: Mapping[str, ColumnType]
    expressions: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[str, ...] = ()

    categorical: ClassVar[frozenset[str]] = frozenset()  # its categories are strings

    def __repr__(self) -> str:
        kinds = (f"  {name}  {kind.name}" for name, kind in self.columns.items())
        return "\n".join([f"DatabaseTable: {self.name} ({self.dialect.name})", *kinds])

    # --- columns ------------------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return list(self.columns)

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        return {name: kind.type for name, kind in self.columns.items()}

    def type_names(self) -> dict[str, str]:
        """Return the name of each column's type in the database."""
        return {name: kind.name for name, kind in self.columns.items()}

    def sql(self, name: str) -> str:
        """Return a column as SQL over `relation`."""
        return self.expressions.get(name) or self.dialect.quote(name)

    def present(self, name: str) -> str:
        """Return a column of any type in the form that is compared; missing values are NULL."""
        kind = self.columns[name].type
        assert kind is not None
        column = DatabaseColumn(Feature(name, kind), self.dialect, self.sql(name))
        return f"CASE WHEN {column.is_present()} THEN {column.unsigned} END"

    def with_columns(self, columns: Mapping[str, str]) -> DatabaseTable:
        """Return the table with additional numeric columns, each from its SQL."""
        kinds = dict.fromkeys(columns, ColumnType(FeatureType("float64"), "float64"))
        return replace(self, columns={**self.columns, **kinds}, expressions={**self.expressions, **columns})

    def labels(self, name: str, most: int) -> list[str]:
        """See `frameboost.data.sources.FrameSource.labels`."""
        return self.distinct_texts(name)[:most]

    def with_codes(self, name: str, labels: Sequence[str]) -> DatabaseTable:
        """See `frameboost.data.sources.FrameSource.with_codes`."""
        column = DatabaseColumn(Feature(name, FeatureType("string"), tuple(labels)), self.dialect, self.sql(name))
        return replace(
            self, columns={**self.columns, name: ColumnType(_CODES, str(_CODES))},
            expressions={**self.expressions, name: column.code(range(len(labels)))},
        )  # fmt: skip

    # --- rows ---------------------------------------------------------------------------------------------------------

    def where(self, predicate: str, *, is_column: bool, negated: bool) -> DatabaseTable:
        """Return the rows where a Boolean column or a SQL predicate is true; with ``negated``, all other rows."""
        holds = self.dialect.expressions.is_true.format(x=self.sql(predicate)) if is_column else predicate
        condition = f"CASE WHEN ({holds}\n) THEN 1 ELSE 0 END = {int(not negated)}"  # it may end in a comment
        rows = replace(self, conditions=(*self.conditions, condition))
        if not (is_column or negated):  # once for both parts
            try:
                rows.connection.types(rows.select({rows.alias("one"): "1"}))
            except DataError as error:
                raise unusable(predicate, error) from error
        return rows

    def split_by_draw(
        self, share: float, draw_key: int, group: str | None = None
    ) -> tuple[DatabaseTable, DatabaseTable]:  # fmt: skip
        """Return the rows with a draw of at least ``share``, and the others.

        Draws are hashes of row positions, which take a key, or of the ranks of queries.
        """
        if group is None:
            self.check_key()
            number = self.position
        else:
            number = f"DENSE_RANK() OVER (ORDER BY {self.present(group)} ASC) - 1"
        quote = self.dialect.quote
        position, draw = (free_name(name, self.columns) for name in ("position", "draw"))
        drawn = draw_query(
            self._besides(f"{number} AS {quote(position)}"), quote(position), draw_key, draw, self.dialect
        )
        return self._over(drawn)._split(f"{quote(draw)} < {self.dialect.number(share)}")

    def times(self, name: str, share: Fraction) -> tuple[int, Physical | None, Physical | None]:
        """Return the number of rows without a time, the first time after ``share`` of the rows, and the last time.

        Times are physical values (integers).
        """
        kind, quote, alias = self.columns[name].type, self.dialect.quote, self.dialect.statements.alias
        assert kind is not None
        column = DatabaseColumn(Feature(name, kind), self.dialect, self.sql(name))
        value, counted, total = self.alias("time"), quote("counted"), self.count_rows()
        present = replace(self, conditions=(*self.conditions, column.is_present()))
        known = f"({present.select({value: column.value})}) {alias}{quote('known')}"
        ranked = f"SELECT {value}, RANK() OVER (ORDER BY {value} ASC) - 1 AS {counted} FROM {known}"
        least = math.ceil(total * share)  # of rows before it
        first = f"MIN(CASE WHEN {counted} >= {least} THEN {value} END)"
        n = f"{self.dialect.statements.count[0]} AS {quote('n')}"
        selected = f"{n}, {first} AS {quote('first')}, MAX({value}) AS {quote('last')}"
        with values_of(name):
            read = self.connection.frame(
                f"SELECT {selected} FROM ({ranked}) {alias}{quote('ranked')}",
                {"n": FeatureType("int64"), "first": kind, "last": kind},
            )
        bounds = [physical_values(read[side], kind)[0] for side in ("first", "last")]
        return total - int(read["n"][0]), bounds[0], bounds[1]

    def split_at(self, name: str, first: Physical, group: str | None = None) -> tuple[DatabaseTable, DatabaseTable]:
        """Return the rows before a time, and those from it on; rows of one group are where its last one is."""
        kind = self.columns[name].type
        assert kind is not None
        condition = DatabaseColumn(Feature(name, kind), self.dialect, self.sql(name)).is_at_least(first)
        if group is None:
            return self._split(condition)
        held = self.alias("held")
        window = f"MAX(CASE WHEN {condition} THEN 1 ELSE 0 END) OVER (PARTITION BY {self.present(group)})"
        return self._over(self._besides(f"{window} AS {held}"))._split(f"{held} = 1")

    def _split(self, is_held_out: str) -> tuple[DatabaseTable, DatabaseTable]:
        """Return the rows where a condition is not true, and those where it is."""
        training, held_out = (self.where(is_held_out, is_column=False, negated=negated) for negated in (True, False))
        return training, held_out

    def _besides(self, expression: str) -> str:
        """Return a query of the columns of `relation` and one more, of the rows that fulfil the conditions."""
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return self.dialect.select_besides(f"SELECT * FROM {self.relation}{where}", expression, "chosen")

    def _over(self, query: str) -> DatabaseTable:
        """Return the table with the rows of a query that has all its columns."""
        relation = f"({query}) {self.dialect.statements.alias}{self.dialect.quote('drawn_rows')}"
        return replace(self, relation=relation, conditions=())

    def divided(self, starts: Sequence[int]) -> list[DatabaseTable]:
        """Return the rows as consecutive ranges of the key, split at row positions.

        Raises
        ------
        ParameterError
            If there is no key, or its type has no order.
        """
        if self.key is None:
            raise ParameterError(
                "the rows of a database are divided by ranges of a key, which this table lacks: fb.table(..., key='id')"
            )
        kind, quote = self.columns[self.key].type, self.dialect.quote
        if kind is None:
            raise ParameterError(
                f"the rows can't be divided by ranges of key {shown(self.key)}, which has type "
                f"{self.columns[self.key].name}; pass a key of numbers, strings, dates or times"
            )
        value, position = self.alias("value"), self.alias("position")
        read_as = self.selected([self.key])[0][self.key]
        numbered = self.select({value: read_as, position: self.position})
        rows = f"({numbered}) {self.dialect.statements.alias}{quote('numbered')}"
        chosen = f"{position} IN ({', '.join(map(str, starts))})"
        query = f"SELECT {value} AS {quote('first')} FROM {rows} WHERE {chosen} ORDER BY {position} ASC"
        read = self.connection.frame(query, {"first": kind})["first"] if starts else pl.Series(dtype=kind.to_polars())
        bounds = [None, *physical_values(read, kind), None]
        return [
            replace(self, conditions=(
                *self.conditions,
                *([] if first is None else [self._key.is_at_least(first)]),
                *([] if end is None else [self._key.is_below(end)]),
            ))
            for first, end in pairwise(bounds)
        ]  # fmt: skip

    def check_repeatable(self, predicate: str | None) -> None:
        """Raise `ParameterError` if a predicate may have another value when a row is read again."""
        if predicate is not None:
            check_repeatable(predicate, f"valid={shown(predicate)}")

    def count_rows(self) -> int:
        """Return the number of rows."""
        return int(self.rows({"n": self.dialect.statements.count[0]}, {"n": FeatureType("int64")})["n"][0])

    def changed(self) -> DataError:
        """Return the error for data that changed between two reads."""
        return DataError(
            f"the rows of {shown(self.name)} changed while they were read; train on a copy, or in a transaction that "
            "sees one state of the table"
        )

    def check_positions(self, use: str) -> None:
        """Raise `ParameterError` if the rows have no positions; ``use``, what needs them, begins the message."""
        if self.key is None:
            raise ParameterError(f"{use}, which those of a database have by a key: fb.table(..., key='id')")

    def check_key(self) -> None:
        """Raise `DataError` if the key has duplicates or NULLs."""
        if self.key is None:
            return
        counts = {"rows": self.dialect.statements.count[0], "keys": f"COUNT(DISTINCT {self._key.value})"}
        n_rows, n_keys = self.rows(counts, dict.fromkeys(counts, FeatureType("int64"))).row(0)
        if n_rows != n_keys:
            raise DataError(
                f"key column {shown(self.key)} has {n_keys:,} distinct values in {n_rows:,} rows; keys must be unique, "
                "as they order the rows"
            )

    def check_apart(self, role: str, name: str) -> None:
        """Raise `DataError` if distinct values of a column become equal when read, as long integers may as floats."""
        if name not in self.expressions or self.columns[name].sql == "{x}":
            return
        columns = {"as they are": self.dialect.quote(name), "as they are read": self.sql(name)}
        counts = {which: f"COUNT(DISTINCT {sql})" for which, sql in columns.items()}
        n_values, n_read = self.rows(counts, dict.fromkeys(counts, FeatureType("int64"))).row(0)
        if n_values != n_read:
            raise DataError(
                f"{role} column {shown(name)} has {n_values:,} values of type {self.columns[name].name}, which are "
                f"{n_read:,} as float64; cast it to an integer, a string or a decimal of up to 38 digits in a query"
            )

    # --- queries ------------------------------------------------------------------------------------------------------

    def alias(self, name: str) -> str:
        """Return a quoted name that no column has: in some databases an alias hides a column in all of a SELECT."""
        return self.dialect.quote(free_name(name, self.columns))

    def select(self, columns: Mapping[str, str], end: str = "") -> str:
        """Return a SELECT of columns, SQL by alias, over all rows, followed by ``clauses``."""
        selected = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return f"SELECT {selected} FROM {self.relation}{where}{end}"

    @property
    def in_order(self) -> str:
        """The ORDER BY clause of the key, empty without one."""
        return "" if self.key is None else f" ORDER BY {self._key.value} ASC"

    @property
    def position(self) -> str:
        """The row position in the order of the key, from 0, as SQL; arbitrary without a key."""
        return f"ROW_NUMBER() OVER ({self.in_order.strip()}) - 1"

    @property
    def _key(self) -> DatabaseColumn:
        """The column of the key; text is compared by bytes, not by a collation."""
        assert self.key is not None
        kind = self.columns[self.key].type or FeatureType("int64")
        return DatabaseColumn(Feature(self.key, kind), self.dialect, self.dialect.quote(self.key))

    def rows(self, columns: Mapping[str, str], types: Mapping[str, FeatureType], end: str = "") -> pl.DataFrame:
        """Read columns, SQL by name, with these types, for all rows."""
        aliased = {self.alias(f"value_{number}"): sql for number, sql in enumerate(columns.values())}
        return self.connection.frame(self.select(aliased, end), types)

    def distinct_texts(self, name: str) -> list[str]:
        """Return the distinct values of a string column in order."""
        kind = FeatureType("string")
        value = DatabaseColumn(Feature(name, kind), self.dialect, self.sql(name)).value
        # The form that compares exactly may have other characters than the column.
        distinct = value if self.dialect.expressions.text_is_value else f"MIN({self.sql(name)})"
        with values_of(name):
            read = self.rows({"value": distinct}, {"value": kind}, f" GROUP BY {value}")
        return sorted(read["value"].drop_nulls().to_list())

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Read the columns into memory, in the order of the key.

        Raises
        ------
        DataError
            If one of them has a type that can't be read.
        """
        return self.rows(*self.selected(names), self.in_order).lazy()

    def selected(self, names: Sequence[str]) -> tuple[dict[str, str], dict[str, FeatureType]]:
        """Return columns in the form in which they are read, and their types.

        Raises
        ------
        DataError
            If one of them has a type that can't be read.
        """
        types, columns = {}, {}
        for name in names:
            kind = self.columns[name].type
            if kind is None:
                raise DataError(f"column {shown(name)} has type {self.columns[name].name}, which can't be read")
            types[name], columns[name] = kind, self.sql(name)
            # A time may be one of the session's zone, and a string have blanks that don't count.
            is_text = kind.name == "string" and self.dialect.expressions.text_is_value
            if kind.family == "timestamptz" or is_text:
                columns[name] = DatabaseColumn(Feature(name, kind), self.dialect, columns[name]).value
        return columns, types

    def readable(self) -> list[str]:
        """Return the names of the columns with a type that can be read."""
        return [name for name, kind in self.columns.items() if kind.type is not None]


@checked(
    connection=anything, source=name_of("the name of a table or a query"), dialect=anything, key=column,
    scratch=name_of("the name of a schema"),
)  # fmt: skip
def table(
    connection: Any, source: str, *, dialect: str | None = None, key: str | None = None, scratch: str | None = None
) -> DatabaseTable:  # fmt: skip
    """Use a table or a query of a SQL database as data for `fit` and all other functions that take data.

    `fit` with ``tree_method="hist"`` bins the columns in the database, by SELECTs alone, and trains in this process.
    The database computes ranks, from which cuts follow; one query then fetches codes, label and weight of each row,
    packed. With ``engine="sql"`` only histograms leave the database. The model equals that of the same rows in memory.
    Linear leaves, other tree methods and other functions need values, and read the columns.

    Parameters
    ----------
    connection
        A connection of PEP 249 (psycopg, sqlite3, pymysql, ...) or ADBC, an engine of SQLAlchemy, a backend of Ibis, a
        Spark session, a SessionContext of DataFusion, or a session or client of ClickHouse. It is used in this thread
        and in its current transaction, and stays open. Or a function without arguments that opens a connection; each
        thread, and each worker of a Dask cluster (``engine=fb.Dask(client)``), then opens a separate one.
    source
        The name of a table or view, optionally qualified, or a query that begins with SELECT or WITH. It must return
        the same rows each time.
    dialect
        The SQL dialect, by the names of `frameboost.Model.database`; by default derived from the connection.
    key
        A unique column without NULLs, which orders the rows. Required for sampling by row position (``subsample``) and
        for more than four million rows.
    scratch
        The schema in which ``fit(engine="sql")`` creates its tables; they are dropped at the end. By default they are
        temporary tables.

    Raises
    ------
    ParameterError
        If the kind of connection is unknown, or its dialect can't be derived.
    DataError
        If the table does not exist or can't be read, or has no column ``key``.

    Examples
    --------
    >>> import sqlite3, frameboost as fb
    >>> con = sqlite3.connect(":memory:")
    >>> _ = con.execute("CREATE TABLE orders (x REAL, y REAL)")
    >>> _ = con.executemany("INSERT INTO orders VALUES (?, ?)", [(1.0, 0.0), (2.0, 0.0), (3.0, 8.0), (4.0, 8.0)])
    >>> model = fb.fit(fb.table(con, "orders"), "y", n_estimators=1, learning_rate=1, reg_lambda=0)
    >>> con.execute(model.database("sqlite").query("orders")).fetchall()
    [(0.0, 1.0, 0.0), (0.0, 2.0, 0.0), (8.0, 3.0, 8.0), (8.0, 4.0, 8.0)]
    """
    opened, known = connect(connection, dialect)
    is_query = _QUERY.match(source) is not None
    words = words_of(source)
    if is_query and (drawn := words.called & _DRAWN | words.all & {"tablesample"}):
        raise DataError(
            f"source calls {listed(sorted(drawn))}, so its rows change each time that they are read; store "
            "them in a table first"
        )
    text = source.strip().rstrip(";")
    alias = known.quote("source")
    relation = f"({text}\n) {known.statements.alias}{alias}" if is_query else known.quote_path(source)
    try:
        columns = opened.types(f"SELECT * FROM {relation}")
    except DataError as error:
        raise DataError(f"source={shown(source)} can't be read in {known.name} ({reason(error)})") from error
    if key is not None and key not in columns:
        raise DataError(f"key column {shown(key)} is not in the table{did_you_mean(key, columns)}")
    cast = {name: kind.sql.format(x=known.quote(name)) for name, kind in columns.items() if kind.sql != "{x}"}
    return DatabaseTable(opened, known, source, relation, key, scratch, columns, cast)

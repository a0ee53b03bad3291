"""Aggregate a table with many rows per key, such as orders per customer, in polars and as SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from frameboost.checks.arguments import anything, checked
from frameboost.checks.arguments import columns as column_names
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.foreign_tables import table_name
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.dialects.dialect import Dialect
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.types import FeatureType, column

__all__ = [
    "COUNT",
    "FUNCTIONS",
    "KEY",
    "Aggregates",
    "Aggregation",
    "Value",
    "aggregate",
    "aggregated",
    "aggregates_sql",
    "equal_keys",
    "facts_sql",
    "key_sql",
    "rows_sql",
]


COUNT = "count"
FUNCTIONS = (COUNT, "sum", "mean", "min", "max", "last")


@dataclass(frozen=True, slots=True)
class Value:
    """A function of `FUNCTIONS` and the column that it aggregates; empty for the number of rows."""

    function: str
    column: str


@dataclass(frozen=True, slots=True)
class Aggregation:
    """Aggregates of the rows of each key.

    Aggregates ignore NULL and NaN, except ``last``, the value of the latest row; an aggregate of no values is NULL.
    Rows with a NULL in the key are ignored.

    Attributes
    ----------
    by
        The columns of the key.
    values
        The aggregated values, by the name of the result.
    time
        The column of times for ``last``, or None; rows without a time are then ignored. Ties at the latest time are
        broken by the largest value.
    is_before
        Whether to aggregate only the rows before the time of each fact; that time is then the last column of the key.
    types
        The types of the aggregated columns, by name; absent in files of older versions. Databases sort NaN and text
        differently, so both are aggregated in a form with one order.
    """

    by: tuple[str, ...]
    values: Mapping[str, Value]
    time: str | None = None
    is_before: bool = False
    types: Mapping[str, FeatureType] = field(default_factory=dict)

    @property
    def floats(self) -> list[str]:
        """The aggregated columns that may have NaN."""
        return [name for name, kind in self.types.items() if kind.is_float]

    @property
    def columns(self) -> list[str]:
        """The aggregated columns, each once."""
        return list(dict.fromkeys(value.column for value in self.values.values() if value.column))

    @property
    def key(self) -> tuple[str, ...]:
        """The key columns of the result, in which the time is that of the fact."""
        return (*self.by, self.time) if self.is_before and self.time is not None else self.by


# --- `frameboost.aggregate` -------------------------------------------------------------------------------------------

_TO_ADD = ("number", "boolean")
# Columns of running aggregates, which no table has: the time of the matched row, and numbers of values.
_MATCHED, _VALUES_COUNTED = "\0found", "\0counted "


@dataclass(frozen=True)
class Aggregates:
    """Aggregates of a table by a key, made by `frameboost.aggregate`; a dimension for `frameboost.join`."""

    source: LocalSource
    aggregation: Aggregation
    name: str | None = None  # that of the table, if it has one

    def __repr__(self) -> str:
        return f"Aggregates: {listed(self.aggregation.values, None)} by {listed(self.aggregation.by)}"


@checked(table=anything, by=column_names, columns=anything)
def aggregate(
    table: Any, by: str | Sequence[str], columns: Mapping[str, str | Sequence[str]] | None = None, *,
    time: str | None = None,
) -> Aggregates:  # fmt: skip
    """Aggregate a table with many rows per key, such as orders per customer, for `frameboost.join`.

    Joining the table itself would duplicate facts. The model's scoring query contains the aggregates as a subquery with
    GROUP BY. ``fb.join(..., before=)`` restricts them to the rows before the time of each fact.

    Parameters
    ----------
    table : polars frame, DuckDB relation, or anything else that `fit` takes
        The rows to aggregate.
    by : str or list of str
        The key columns. Rows with a NULL in the key are ignored.
    columns : dict of column to function or list of functions, optional
        The aggregates of each column: ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, and ``"last"``, the value of the
        latest row by ``time``. Results are named ``price_sum`` and so on. ``count``, the number of rows, is always
        included. NULL and NaN are ignored, except by ``"last"``. Sums are float64, and their last bits depend on the
        order of addition in the database, unless the values are integers or decimals.
    time : str, optional
        The column of times, for ``"last"`` and for ``fb.join(..., before=)``. Rows without a time are ignored.

    Returns
    -------
    Aggregates

    Raises
    ------
    DataError
        If a column does not exist, or the function does not accept its type.
    ParameterError
        If a function is unknown, or ``"last"`` is used without ``time``.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> customers = pl.DataFrame({"id": [1, 2], "churned": [True, False]})
    >>> orders = pl.DataFrame({"customer": [1, 1, 1], "price": [3, 5, None], "day": [1, 2, 3]})
    >>> of_customers = fb.aggregate(orders, by="customer", columns={"price": ["sum", "last"]}, time="day")
    >>> of_customers
    Aggregates: 'count', 'price_sum', 'price_last' by 'customer'
    >>> fb.join(customers, of_customers, left_on="id", prefix="orders_").collect().rows()
    [(1, True, 3, 8.0, None), (2, False, None, None, None)]
    """
    source = open_source(table, "table", once=False)
    keys = (by,) if isinstance(by, str) else tuple(by)
    values = {COUNT: Value(COUNT, "")}
    for name, functions in _functions(columns).items():
        for function in functions:
            values[f"{name}_{function}"] = Value(function, name)
    if time is None and any(value.function == "last" for value in values.values()):
        raise ParameterError("'last' needs time, the column of times by which a row is the last")
    types = _checked_types(source, (*keys, *([] if time is None else [time])), values)
    return Aggregates(source, Aggregation(keys, values, time, types=types), table_name(table))


def _functions(columns: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(columns, Mapping | None):
        raise ParameterError(f"columns must be a dict of columns to functions, not {shown(columns)}")
    functions_of = {}
    for name, value in (columns or {}).items():
        functions = tuple(value) if isinstance(value, list | tuple) else (value,)
        for function in functions:
            if function not in FUNCTIONS[1:]:
                raise ParameterError(
                    f"columns has {shown(function)} for {shown(name)}, not one of {listed(FUNCTIONS[1:])}"
                )
        functions_of[name] = functions
    return functions_of


def _checked_types(source: LocalSource, keys: Sequence[str], values: Mapping[str, Value]) -> dict[str, FeatureType]:
    """Check the key and the aggregated columns; return the types of the latter."""
    types = source.types()
    for name in (*keys, *(value.column for value in values.values() if value.column)):
        if name not in types:
            raise DataError(f"column {shown(name)} is not in the table to aggregate{did_you_mean(name, types)}")
        if types[name] is None:
            raise DataError(f"column {shown(name)} has type {source.type_names()[name]}, which can't be aggregated")
    for result, value in values.items():
        if result in keys:
            raise DataError(f"the aggregate {shown(result)} has the name of a column of the key; rename that")
        if value.function in ("sum", "mean", "min", "max"):
            kind = types[value.column]
            takes = _TO_ADD if value.function in ("sum", "mean") else (*_TO_ADD, "date", "timestamp", "duration")
            if kind is None or kind.family not in takes:
                raise DataError(
                    f"column {shown(value.column)} has type {source.type_names()[value.column]}, which has no "
                    f"{value.function}"
                )
    aggregated = ((value.column, types.get(value.column)) for value in values.values())
    return {name: kind for name, kind in aggregated if kind is not None}


# --- a row for each key: of frames by polars, of relations by SQL -----------------------------------------------------


def aggregated(aggregates: Aggregates, pairs: LocalSource | None) -> LocalSource:
    """Return one row per key: the columns of `Aggregation.key` and the values.

    ``pairs`` are the distinct keys and times of the facts, named as in `Aggregation.key`, if only rows before these
    times count.
    """
    aggregation = replace(aggregates.aggregation, is_before=pairs is not None)
    if isinstance(aggregates.source, RelationSource):
        assert not isinstance(pairs, FrameSource)
        return _of_relation(aggregates.source, aggregation, pairs)
    frame = aggregates.source.frame.with_columns(column(name).fill_nan(None) for name in aggregation.floats)
    if isinstance(pairs, FrameSource):
        return FrameSource(_before(frame, aggregation, pairs.frame))
    return FrameSource(_of_frame(frame, aggregation))


def _of_relation(source: RelationSource, aggregation: Aggregation, pairs: RelationSource | None) -> RelationSource:
    """Return the aggregates as a relation, by the SQL of scoring queries."""
    are_text = [False] * len(aggregation.by)  # DuckDB compares all text exactly
    rows = source.relation.query("many", rows_sql(aggregation, "many", are_text, DUCKDB))
    assert rows is not None
    if pairs is not None:
        left_keys = [quote_identifier(name) for name in aggregation.key]
        facts = pairs.relation.query("facts", facts_sql(aggregation, "facts", left_keys, are_text, DUCKDB))
        assert facts is not None
        rows = rows.union(facts)
    results = {name: quote_identifier(name) for name in aggregation.values}
    grouped = rows.query("events", aggregates_sql(aggregation, "events", DUCKDB, results))
    assert grouped is not None
    renamed = [f"{KEY.format(k)} AS {quote_identifier(name)}" for k, name in enumerate(aggregation.key, start=1)]
    return RelationSource(grouped.project(", ".join([*renamed, *results.values()])))


def _of_frame(frame: pl.LazyFrame, aggregation: Aggregation) -> pl.LazyFrame:
    keys = [column(name) for name in aggregation.by]
    present = [*keys, *([] if aggregation.time is None else [column(aggregation.time)])]
    return (
        frame.filter(pl.all_horizontal(key.is_not_null() for key in present))
        .group_by(keys)
        .agg(_of_key_expr(value, aggregation).alias(name) for name, value in aggregation.values.items())
    )


def _of_key_expr(value: Value, aggregation: Aggregation) -> pl.Expr:
    if value.function == COUNT:
        return pl.len().cast(pl.Int64)
    values = column(value.column)
    if value.function == "last":
        assert aggregation.time is not None
        time = column(aggregation.time)
        return values.filter(time == time.max()).max()
    if value.function in ("min", "max"):
        return values.min() if value.function == "min" else values.max()
    total, count = values.cast(pl.Float64).sum(), values.count()
    return pl.when(count > 0).then(total if value.function == "sum" else total / count)


def _before(frame: pl.LazyFrame, aggregation: Aggregation, pairs: pl.LazyFrame) -> pl.LazyFrame:
    """Return the aggregates of the rows before each time, as running aggregates at the latest earlier row.

    A customer's orders at days 1, 4 and 4 of 10, 20 and 30 have the running counts 1 at day 1 and 3 at day 4; at day 4
    a fact is joined to the row of day 1, and at day 5 to that of day 4.
    """
    assert aggregation.time is not None
    keys, time = list(aggregation.by), aggregation.time
    types = pairs.collect_schema()
    typed = frame.with_columns(column(name).cast(types[name]) for name in (*keys, time))
    present = pl.all_horizontal(column(name).is_not_null() for name in (*keys, time))
    of_times = typed.filter(present).group_by(*keys, time).agg(
        expr.alias(name) for name, expr in _at_one_time(aggregation).items()
    )  # fmt: skip
    running = of_times.with_columns(
        *(
            _running_expr(name, value).over(keys, order_by=time).alias(name)
            for name, value in aggregation.values.items()
        ),
        column(time).alias(_MATCHED),
    )
    matched = pairs.sort(time).join_asof(
        running.sort(time), on=time, by=keys, strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    return matched.filter(pl.col(_MATCHED).is_not_null()).select(*keys, time, *aggregation.values)


def _at_one_time(aggregation: Aggregation) -> dict[str, pl.Expr]:
    """Return the aggregates of the rows at each time, from which `_running_expr` makes running aggregates."""
    exprs = {}
    for name, value in aggregation.values.items():
        values = column(value.column)
        if value.function == COUNT:
            exprs[name] = pl.len().cast(pl.Int64)
        elif value.function in ("sum", "mean"):
            exprs |= {name: values.cast(pl.Float64).sum(), f"{_VALUES_COUNTED}{name}": values.count().cast(pl.Int64)}
        else:
            exprs[name] = values.min() if value.function == "min" else values.max()
    return exprs


def _running_expr(name: str, value: Value) -> pl.Expr:
    values = column(name)
    if value.function in ("sum", "mean"):
        total, count = values.cum_sum(), pl.col(f"{_VALUES_COUNTED}{name}").cum_sum()
        return pl.when(count > 0).then(total if value.function == "sum" else total / count)
    if value.function in ("min", "max"):
        running = values.cum_min() if value.function == "min" else values.cum_max()
        return running.forward_fill()  # a row without a value has none, and those before it have
    return values.cum_sum() if value.function == COUNT else values


# --- SQL: in DuckDB for a fit, in every dialect for a scoring query ---------------------------------------------------

# The columns of the rows that are aggregated: of the key, from 1; what is aggregated, from 1; and the time.
KEY, VALUE, TIME = "key_{}", "value_{}", "at_time"
# Of events: 1 in a row of the table, 0 in a fact that comes after some of them.
_IS_ROW = "is_row"
_LATEST, _N, _SUM, _COUNTED = "latest", "n_rows", "sum_{}", "counted_{}"


def key_sql(column: str, dialect: Dialect, *, is_text: bool) -> str:
    """Return a key column in the form that is compared: text by bytes, whatever the collation."""
    return dialect.expressions.text.format(x=column) if is_text else column


def equal_keys(left: str, right: str, dialect: Dialect, *, is_text: bool) -> str:
    """Return the condition that two key columns are equal."""
    if is_text and dialect.expressions.equal_texts is not None:
        return dialect.expressions.equal_texts.format(x=left, y=right)
    return f"{key_sql(left, dialect, is_text=is_text)} = {key_sql(right, dialect, is_text=is_text)}"


def rows_sql(aggregation: Aggregation, table: str, are_text: Sequence[bool], dialect: Dialect) -> str:
    """Return a query of the rows to aggregate; the table's name is quoted."""
    keys = _keys([dialect.quote(name) for name in aggregation.by], are_text, dialect)
    columns = [
        f"{_value_sql(dialect.quote(name), aggregation.types.get(name), dialect)} AS {VALUE.format(k)}"
        for k, name in enumerate(aggregation.columns, start=1)
    ]
    time = [] if aggregation.time is None else [f"{dialect.quote(aggregation.time)} AS {TIME}"]
    is_row = [f"1 AS {_IS_ROW}"] if aggregation.is_before else []
    present = [*aggregation.by, *([] if aggregation.time is None else [aggregation.time])]
    condition = " AND ".join(f"{dialect.quote(name)} IS NOT NULL" for name in present)
    return f"SELECT {', '.join([*keys, *columns, *time, *is_row])} FROM {table} WHERE {condition}"


def _value_sql(column: str, kind: FeatureType | None, dialect: Dialect) -> str:
    """Return a column in the form to aggregate: NaN as NULL, as databases sort it differently; text by bytes."""
    if kind is not None and kind.is_float and dialect.expressions.is_number is not None:
        return f"CASE WHEN {dialect.expressions.is_number.format(x=column)} THEN {column} END"
    if kind is not None and kind.name == "string" and dialect.expressions.text_is_value:
        return dialect.expressions.text.format(x=column)
    return column


def facts_sql(
    aggregation: Aggregation, facts: str, left: Sequence[str], are_text: Sequence[bool], dialect: Dialect
) -> str:
    """Return a query of the facts by key and time, the ``left`` columns, in the form of `rows_sql`.

    With `Aggregation.is_before`, `aggregates_sql` reads both as events. Names are quoted.
    """
    keys = _keys(left[:-1], are_text, dialect)
    nulls = [f"NULL AS {VALUE.format(k + 1)}" for k in range(len(aggregation.columns))]
    condition = " AND ".join(f"{name} IS NOT NULL" for name in left)
    columns = [*keys, *nulls, f"{left[-1]} AS {TIME}", f"0 AS {_IS_ROW}"]
    return f"SELECT {', '.join(columns)} FROM {facts} WHERE {condition}"


def aggregates_sql(aggregation: Aggregation, source: str, dialect: Dialect, names: Mapping[str, str]) -> str:
    """Return a query of one row per key: ``key_1`` and so on, and each value under its quoted name in ``names``.

    ``source`` is what FROM reads: a table in the form of `rows_sql`, with `Aggregation.is_before` followed by rows of
    `facts_sql`, or such a query in parentheses with its alias.
    """
    if aggregation.is_before:
        return _before_sql(aggregation, source, dialect, names)
    keys = ", ".join(_names_of_keys(aggregation))
    if any(value.function == "last" for value in aggregation.values.values()):
        columns = [VALUE.format(k + 1) for k in range(len(aggregation.columns))]
        latest = f"MAX({TIME}) OVER (PARTITION BY {keys}) AS {_LATEST}"
        inner = f"SELECT {', '.join([keys, *columns, TIME])}, {latest} FROM {source}"
        source = f"({inner}) {dialect.statements.alias}rows_in_time"
    values = (f"{_of_key(value, aggregation, dialect)} AS {names[n]}" for n, value in aggregation.values.items())
    return f"SELECT {', '.join([keys, *values])} FROM {source} GROUP BY {keys}"


def _keys(names: Sequence[str], are_text: Sequence[bool], dialect: Dialect) -> list[str]:
    """Return the key columns in the form that is compared, by the names that aggregates read."""
    columns = enumerate(zip(names, are_text, strict=False), start=1)
    return [f"{key_sql(name, dialect, is_text=is_text)} AS {KEY.format(k)}" for k, (name, is_text) in columns]


def _names_of_keys(aggregation: Aggregation) -> list[str]:
    return [KEY.format(k + 1) for k in range(len(aggregation.by))]


def _of_key(value: Value, aggregation: Aggregation, dialect: Dialect) -> str:
    if value.function == COUNT:
        return "COUNT(*)"
    column = VALUE.format(aggregation.columns.index(value.column) + 1)
    if value.function == "last":
        return f"MAX(CASE WHEN {TIME} = {_LATEST} THEN {column} END)"
    if value.function in ("min", "max"):
        return f"{value.function.upper()}({column})"
    total = f"SUM({dialect.cast(column, 'float64')})"
    return total if value.function == "sum" else f"{total} / COUNT({column})"


# --- before a time ----------------------------------------------------------------------------------------------------


def _before_sql(aggregation: Aggregation, events: str, dialect: Dialect, names: Mapping[str, str]) -> str:
    """Return the aggregates of the rows before each fact, by running sums over the events of a key in order of time.

    A customer's orders at days 1, 4 and 4 of 10, 20 and 30, and visits at days 4 and 5, are the events below. A visit
    comes before the orders of its day, so that it has the sums of those before; the rows of a day are added up first::

        day      1  4      4  5
        is_row   1  0      1  0
        sum     10  .     50  .
        running 10  10    60  60
    """
    keys, called = _names_of_keys(aggregation), dialect.statements.alias
    by, parts = ", ".join(keys), _parts(aggregation, dialect)
    grouped = f"SELECT {by}, {TIME}, {_IS_ROW}, {', '.join(f'{sql} AS {name}' for name, (sql, _) in parts.items())} "
    grouped += f"FROM {events} GROUP BY {by}, {TIME}, {_IS_ROW}"
    window = f"(PARTITION BY {by} ORDER BY {TIME}, {_IS_ROW} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    running = [f"{function}({name}) OVER {window} AS {name}" for name, (_, function) in parts.items() if function]
    running.append(f"MAX(CASE WHEN {_IS_ROW} = 1 THEN {TIME} END) OVER {window} AS {_LATEST}")
    inner = f"SELECT {by}, {TIME}, {_IS_ROW}, {', '.join(running)} FROM ({grouped}) {called}of_times"
    source = f"({inner}) {called}running"
    if len(running) <= len(parts):  # of the latest time before, some values are looked up
        equal = [f"running.{key} = latest_rows.{key}" for key in keys]
        equal += [f"running.{_LATEST} = latest_rows.{TIME}", f"latest_rows.{_IS_ROW} = 1"]
        source += f" JOIN ({grouped}) {called}latest_rows ON {' AND '.join(equal)}"
    values = (f"{_running(value, aggregation, dialect)} AS {names[name]}" for name, value in aggregation.values.items())
    selected = [*(f"running.{key} AS {key}" for key in keys), f"running.{TIME} AS {KEY.format(len(keys) + 1)}", *values]
    return f"SELECT {', '.join(selected)} FROM {source} WHERE running.{_IS_ROW} = 0 AND running.{_LATEST} IS NOT NULL"


def _parts(aggregation: Aggregation, dialect: Dialect) -> dict[str, tuple[str, str]]:
    """Return the aggregates of the events at one time and their running functions, by name; "" for a lookup."""
    parts = {_N: (f"SUM({_IS_ROW})", "SUM")}
    for value in aggregation.values.values():
        if value.function == COUNT:
            continue
        number = aggregation.columns.index(value.column) + 1
        column = VALUE.format(number)
        if value.function in ("sum", "mean"):
            parts[_SUM.format(number)] = f"SUM({dialect.cast(column, 'float64')})", "SUM"
            parts[_COUNTED.format(number)] = f"COUNT({column})", "SUM"
        elif value.function == "last":
            parts[f"last_{number}"] = f"MAX({column})", ""
        else:
            function = value.function.upper()
            parts[f"{value.function}_{number}"] = f"{function}({column})", function
    return parts


def _running(value: Value, aggregation: Aggregation, dialect: Dialect) -> str:
    if value.function == COUNT:
        return dialect.cast(f"running.{_N}", "int64")  # a sum of integers may be of a wider type
    number = aggregation.columns.index(value.column) + 1
    if value.function == "last":
        return f"latest_rows.last_{number}"
    if value.function in ("min", "max"):
        return f"running.{value.function}_{number}"
    total, count = (f"running.{name.format(number)}" for name in (_SUM, _COUNTED))
    return f"CASE WHEN {count} > 0 THEN {total}{'' if value.function == 'sum' else f' / {count}'} END"

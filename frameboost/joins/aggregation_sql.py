"""Aggregates of a table with many rows a key, as SQL: in DuckDB for a fit, in every dialect for a scoring query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from frameboost.dialects.dialect import Dialect
from frameboost.joins.aggregation import COUNT, Aggregation, Value
from frameboost.schema.types import FeatureType

__all__ = ["KEY", "aggregates_sql", "equal_keys", "facts_sql", "key_sql", "rows_sql"]

# The columns of the rows that are aggregated: of the key, from 1; what is aggregated, from 1; and the time.
KEY, VALUE, TIME = "key_{}", "value_{}", "at_time"
# Of events: 1 in a row of the table, 0 in a fact that comes after some of them.
_IS_ROW = "is_row"
_LATEST, _N, _SUM, _COUNTED = "latest", "n_rows", "sum_{}", "counted_{}"


def key_sql(column: str, dialect: Dialect, *, is_text: bool) -> str:
    """Return a column of a key as it is compared: text exactly, whatever the collation of a column."""
    return dialect.expressions.text.format(x=column) if is_text else column


def equal_keys(left: str, right: str, dialect: Dialect, *, is_text: bool) -> str:
    """Return the condition that two columns of keys are equal."""
    if is_text and dialect.expressions.equal_texts is not None:
        return dialect.expressions.equal_texts.format(x=left, y=right)
    return f"{key_sql(left, dialect, is_text=is_text)} = {key_sql(right, dialect, is_text=is_text)}"


def rows_sql(aggregation: Aggregation, table: str, are_text: Sequence[bool], dialect: Dialect) -> str:
    """Return a query of the rows that are aggregated; the name of the table is quoted."""
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
    """Return a column as it is aggregated: NULL for NaN, which sorts here or there, and text that sorts by bytes."""
    if kind is not None and kind.is_float and dialect.expressions.is_number is not None:
        return f"CASE WHEN {dialect.expressions.is_number.format(x=column)} THEN {column} END"
    if kind is not None and kind.name == "string" and dialect.expressions.text_is_value:
        return dialect.expressions.text.format(x=column)
    return column


def facts_sql(
    aggregation: Aggregation, facts: str, left: Sequence[str], are_text: Sequence[bool], dialect: Dialect
) -> str:
    """Return a query of the facts by their key and time, the ``left`` columns, in the form of `rows_sql`.

    With `Aggregation.is_before`, both are the events that `aggregates_sql` reads. Names are quoted.
    """
    keys = _keys(left[:-1], are_text, dialect)
    nulls = [f"NULL AS {VALUE.format(k + 1)}" for k in range(len(aggregation.columns))]
    condition = " AND ".join(f"{name} IS NOT NULL" for name in left)
    columns = [*keys, *nulls, f"{left[-1]} AS {TIME}", f"0 AS {_IS_ROW}"]
    return f"SELECT {', '.join(columns)} FROM {facts} WHERE {condition}"


def aggregates_sql(aggregation: Aggregation, source: str, dialect: Dialect, names: Mapping[str, str]) -> str:
    """Return a query of one row a key: ``key_1`` and so on, and each value under its quoted name in ``names``.

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
    """Return the columns of a key as they are compared, by the names that aggregates read."""
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
    """Return what is aggregated of the events of one time, and how it runs on, by name; "" for what is looked up."""
    found = {_N: (f"SUM({_IS_ROW})", "SUM")}
    for value in aggregation.values.values():
        if value.function == COUNT:
            continue
        number = aggregation.columns.index(value.column) + 1
        column = VALUE.format(number)
        if value.function in ("sum", "mean"):
            found[_SUM.format(number)] = f"SUM({dialect.cast(column, 'float64')})", "SUM"
            found[_COUNTED.format(number)] = f"COUNT({column})", "SUM"
        elif value.function == "last":
            found[f"last_{number}"] = f"MAX({column})", ""
        else:
            function = value.function.upper()
            found[f"{value.function}_{number}"] = f"{function}({column})", function
    return found


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

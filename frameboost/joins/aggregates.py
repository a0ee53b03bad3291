"""`aggregate`: a table with many rows a key, such as orders of customers, as one row a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from frameboost.checks.arguments import anything, checked
from frameboost.checks.arguments import columns as column_names
from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.dialects.duckdb import DUCKDB
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.aggregation import COUNT, FUNCTIONS, Aggregation, Value
from frameboost.joins.aggregation_sql import KEY, aggregates_sql, facts_sql, rows_sql
from frameboost.joins.table_names import table_name
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = ["Aggregates", "aggregate", "aggregated"]

_TO_ADD = ("number", "boolean")
# Columns of running aggregates, which no table has: the time of the row that was found, and numbers of values.
_FOUND, _COUNTED = "\0found", "\0counted "


@dataclass(frozen=True)
class Aggregates:
    """Aggregates of a table by a key, a dimension for `frameboost.join`; made by `frameboost.aggregate`."""

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
    """Aggregate a table with many rows a key, such as the orders of customers, for `frameboost.join`.

    A join with the table itself would repeat the facts. The aggregates are part of the model's scoring query, as a
    subquery with GROUP BY. With ``fb.join(..., before=)`` they see only the rows before the time of each fact.

    Parameters
    ----------
    table : polars frame, DuckDB relation, or anything else that `fit` takes
        The rows to aggregate.
    by : str or list of str
        The columns of the key. Rows with a NULL in it belong to no key.
    columns : dict of column to function or list of functions, optional
        What is aggregated: ``"sum"``, ``"mean"``, ``"min"``, ``"max"``, and ``"last"``, the value of the latest row by
        ``time``. The results are named ``price_sum``, and so on. ``count``, the number of rows, is always there. NULLs
        and NaN are left out, but not of the latest row. Sums are float64, whose last bits depend on the database's
        order of additions, unless the values are integers or decimals.
    time : str, optional
        The column of the rows' times, for ``"last"`` and for ``fb.join(..., before=)``. Rows without one are left out.

    Returns
    -------
    Aggregates

    Raises
    ------
    DataError
        If a column is not in the table, or has no type that the function takes.
    ParameterError
        If there is no such function, or ``"last"`` has no ``time``.

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
    found = {}
    for name, given in (columns or {}).items():
        functions = tuple(given) if isinstance(given, list | tuple) else (given,)
        for function in functions:
            if function not in FUNCTIONS[1:]:
                raise ParameterError(
                    f"columns asks for {shown(function)} of {shown(name)}; there are {listed(FUNCTIONS[1:])}"
                )
        found[name] = functions
    return found


def _checked_types(source: LocalSource, keys: Sequence[str], values: Mapping[str, Value]) -> dict[str, FeatureType]:
    """Return the types of the columns that are aggregated; check these and the keys."""
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


# --- the rows of a key ------------------------------------------------------------------------------------------------


def aggregated(aggregates: Aggregates, pairs: LocalSource | None) -> LocalSource:
    """Return one row a key: the columns of `Aggregation.key` and the values.

    ``pairs`` has the distinct keys and times of the facts, under the names of `Aggregation.key`, if aggregates see only
    rows before these times.
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
    """Return the aggregates as a relation, by the same SQL that scoring queries have."""
    are_text = [False] * len(aggregation.by)  # DuckDB compares all text exactly
    rows = source.relation.query("many", rows_sql(aggregation, "many", are_text, DUCKDB))
    assert rows is not None
    if pairs is not None:
        left = [quote_identifier(name) for name in aggregation.key]
        facts = pairs.relation.query("facts", facts_sql(aggregation, "facts", left, are_text, DUCKDB))
        assert facts is not None
        rows = rows.union(facts)
    results = {name: quote_identifier(name) for name in aggregation.values}
    found = rows.query("events", aggregates_sql(aggregation, "events", DUCKDB, results))
    assert found is not None
    renamed = [f"{KEY.format(k)} AS {quote_identifier(name)}" for k, name in enumerate(aggregation.key, start=1)]
    return RelationSource(found.project(", ".join([*renamed, *results.values()])))


def _of_frame(frame: pl.LazyFrame, aggregation: Aggregation) -> pl.LazyFrame:
    keys = [column(name) for name in aggregation.by]
    present = [*keys, *([] if aggregation.time is None else [column(aggregation.time)])]
    return (
        frame.filter(pl.all_horizontal(key.is_not_null() for key in present))
        .group_by(keys)
        .agg(_of_key(value, aggregation).alias(name) for name, value in aggregation.values.items())
    )


def _of_key(value: Value, aggregation: Aggregation) -> pl.Expr:
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
    """Return the aggregates of the rows before each time, as running ones at the latest row before it.

    A customer's orders at days 1, 4 and 4 of 10, 20 and 30 have the running counts 1 at day 1 and 3 at day 4; at day 4
    a fact finds the row of day 1, and at day 5 that of day 4.
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
        *(_running(name, value).over(keys, order_by=time).alias(name) for name, value in aggregation.values.items()),
        column(time).alias(_FOUND),
    )
    found = pairs.sort(time).join_asof(
        running.sort(time), on=time, by=keys, strategy="backward", allow_exact_matches=False, check_sortedness=False
    )
    return found.filter(pl.col(_FOUND).is_not_null()).select(*keys, time, *aggregation.values)


def _at_one_time(aggregation: Aggregation) -> dict[str, pl.Expr]:
    """Return what is aggregated of the rows of one time, from which `_running` makes running aggregates."""
    found = {}
    for name, value in aggregation.values.items():
        values = column(value.column)
        if value.function == COUNT:
            found[name] = pl.len().cast(pl.Int64)
        elif value.function in ("sum", "mean"):
            found |= {name: values.cast(pl.Float64).sum(), f"{_COUNTED}{name}": values.count().cast(pl.Int64)}
        else:
            found[name] = values.min() if value.function == "min" else values.max()
    return found


def _running(name: str, value: Value) -> pl.Expr:
    values = column(name)
    if value.function in ("sum", "mean"):
        total, count = values.cum_sum(), pl.col(f"{_COUNTED}{name}").cum_sum()
        return pl.when(count > 0).then(total if value.function == "sum" else total / count)
    if value.function in ("min", "max"):
        running = values.cum_min() if value.function == "min" else values.cum_max()
        return running.forward_fill()  # a row without a value has none, and those before it have
    return values.cum_sum() if value.function == COUNT else values

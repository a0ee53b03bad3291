"""Join facts and their dimensions as a star, without carrying out the join before it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import duckdb
import polars as pl

from frameboost.checks.arguments import anything, checked, is_text, name_of
from frameboost.checks.arguments import column as column_name
from frameboost.checks.arguments import columns as column_names
from frameboost.checks.messages import counted, listed, shortened, shown
from frameboost.data.foreign_tables import table_name
from frameboost.data.opening import open_source, repeatable_source
from frameboost.data.sources import FrameSource, LocalSource, RelationSource
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.joins.aggregates import Aggregates, Aggregation, aggregated
from frameboost.joins.star_sources import DIMENSION_NAME, FACTS, Dimension, needed, star_frame, star_relation
from frameboost.schema.types import FeatureType, column, free_name

__all__ = ["Star", "check_unique", "join", "join_type", "key_types"]


P = ParamSpec("P")
R = TypeVar("R")
On = str | Sequence[str] | None


def _prefix(argument: str, value: object) -> None:
    if not isinstance(value, str) or not is_text(value):
        raise ParameterError(f"{argument} must be a prefix of column names, a string, not {shown(value)}")


_CHECKS = {
    "left": anything, "right": anything, "on": anything, "left_on": anything, "right_on": anything,
    "prefix": _prefix, "name": name_of("the name of a dimension"), "before": column_name,
}  # fmt: skip


@checked(**_CHECKS)
def join(
    left: Any, right: Any, on: On = None, *, left_on: On = None, right_on: On = None, prefix: str = "",
    name: str | None = None, before: str | None = None,
) -> Star:  # fmt: skip
    """Join a table of facts and a dimension, a table with one row per key, as data to train on and to score.

    The result is a star, a left join in the order of ``left``; where the key is NULL or not in ``right``, the columns
    of ``right`` are missing. The join is lazy. The engines in memory and in DuckDB never carry it out: they bin each
    attribute once per row of the dimension, and grow the trees of the joined table.

    Parameters
    ----------
    left : polars frame, DuckDB relation, or anything else that `fit` takes; or a Star
        The facts: one example per row.
    right : polars frame, DuckDB relation, or anything else that `fit` takes; or Aggregates
        The dimension: at most one row per key. Aggregate a table with many rows per key first (`frameboost.aggregate`).
        Relations must belong to the same connection.
    on : str or list of str, optional
        The key columns, if they have the same names in both tables.
    left_on, right_on : str or list of str, optional
        The key columns if their names differ. Those of ``right`` are dropped, as they repeat the others.
    prefix : str, default ""
        A prefix for the names of the columns from ``right``: ``"weather."`` turns ``temp`` into ``weather.temp``. If a
        later dimension is joined on such a column, its key includes the prefix.
    name : str, optional
        The name of the dimension in messages and queries; by default the table or view of a relation, its alias, or a
        number. If the dimension is no table but, for example, a filtered one, queries need the name of a table with
        these rows (``Model.query(tables=...)``).
    before : str, optional
        For aggregates: the time column of the facts. Only rows before the time of a fact are aggregated for it, so that
        the future does not leak into training.

    Returns
    -------
    Star
        Data for `fit`, `cv`, `Model.predict` and all other functions; its method ``join`` adds a dimension.

    Raises
    ------
    DataError
        If a key column is missing in a table, has incompatible types in the two, or if both have another column of the
        same name. When the data is read: if keys are duplicated in ``right``, with examples.
    ParameterError
        If ``on`` is passed together with ``left_on`` or ``right_on``, or these have different lengths.

    Examples
    --------
    >>> import polars as pl, frameboost as fb
    >>> flights = pl.DataFrame({"plane": ["N1", "N2", "N1", None], "delay": [10.0, 0.0, 10.0, 2.0]})
    >>> planes = pl.DataFrame({"plane": ["N1", "N2"], "seats": [55, 200]})
    >>> star = fb.join(flights, planes, on="plane")
    >>> star.collect().rows()
    [('N1', 10.0, 55), ('N2', 0.0, 200), ('N1', 10.0, 55), (None, 2.0, None)]
    >>> fb.fit(star, target="delay", n_estimators=1).features
    ['plane', 'seats']
    """
    star = left if isinstance(left, Star) else Star(open_source(left, "left", once=False), ())
    return star.join(right, on, left_on=left_on, right_on=right_on, prefix=prefix, name=name, before=before)


class Star:
    """Facts with joined dimensions; made by `frameboost.join`."""

    def __init__(self, facts: LocalSource, dimensions: Sequence[Dimension]) -> None:
        self._facts = facts
        self._dimensions = tuple(dimensions)
        self._tables_of = dict.fromkeys(facts.names(), FACTS) | {
            name: number for number, dimension in enumerate(self._dimensions) for name in dimension.columns
        }

    def __repr__(self) -> str:
        tables = ", ".join(shortened(dimension.name) for dimension in self._dimensions)
        return f"Star: {counted(len(self.columns), 'column')} of the facts and of {tables}"

    @property
    def columns(self) -> list[str]:
        """The column names of the join: those of the facts, then those from each dimension.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> fb.join(pl.DataFrame({"id": [1], "y": [0.5]}), pl.DataFrame({"id": [1], "x": [2]}), on="id").columns
        ['id', 'y', 'x']
        """
        return list(self._tables_of)

    @checked(**_CHECKS)
    def join(
        self, right: Any, on: On = None, *, left_on: On = None, right_on: On = None, prefix: str = "",
        name: str | None = None, before: str | None = None,
    ) -> Star:  # fmt: skip
        """Return the star with another dimension; its key may be in a dimension (a snowflake). See `frameboost.join`.

        Examples
        --------
        >>> import polars as pl, frameboost as fb
        >>> flights = pl.DataFrame({"to": ["SEA"], "from": ["JFK"]})
        >>> airports = pl.DataFrame({"code": ["JFK", "SEA"], "alt": [13, 433]})
        >>> star = fb.join(flights, airports, left_on="to", right_on="code", prefix="to.")
        >>> star.join(airports, left_on="from", right_on="code", prefix="from.").collect().rows()
        [('SEA', 'JFK', 433, 13)]
        """
        table = right.source if isinstance(right, Aggregates) else right
        dimension_name = name or (right.name if isinstance(right, Aggregates) else table_name(right))
        dimension_name = dimension_name or DIMENSION_NAME.format(len(self._dimensions) + 1)
        source = _of_kind(open_source(table, "right", once=False), self._facts, dimension_name)
        if isinstance(right, Aggregates):
            right = replace(right, source=source)
            left_names, right_names = _keys_of_aggregates(right.aggregation, on, left_on, right_on, before)
        else:
            if before is not None:
                raise ParameterError("before is for aggregates; pass fb.aggregate(...) as right")
            left_names, right_names = _keys(on, left_on, right_on)
        types = key_types(self._tables_with(left_names), source, left_names, right_names, dimension_name)
        parents = {self._tables_of[key] for key in left_names}
        parent = parents.pop() if len(parents) == 1 else None
        aggregation, rows_for = None, None
        if isinstance(right, Aggregates):
            aggregation = replace(right.aggregation, is_before=before is not None)
            if before is not None:
                if parent != FACTS:
                    raise DataError(f"with before, the columns {listed(left_names)} must be columns of the facts")
                rows_for = partial(_aggregated_before, right, left_names, right_names, types)
            source = aggregated(right, None) if rows_for is None else rows_for(self._facts)
        columns = {
            prefix + column_name: column_name for column_name in source.names() if column_name not in right_names
        }
        self._refuse_repeated(columns, dimension_name, prefix)
        added = Dimension(
            dimension_name, source, left_names, right_names, types, columns, parent, aggregation, rows_for
        )
        return Star(self._facts, (*self._dimensions, added))

    def _tables_with(self, names: Sequence[str]) -> LocalSource:
        """Return the join of the tables that have these columns, or of all tables if a column is in none."""
        if not set(names) <= self._tables_of.keys():
            return self.open_tables(check=False)
        return Star(self._facts, needed(self._dimensions, names)).open_tables(check=False)

    def _refuse_repeated(self, columns: dict[str, str], name: str, prefix: str) -> None:
        # DuckDB ignores the case of names; a star of frames may be scored there.
        folds = str.lower if isinstance(self._facts, RelationSource) else str
        known = {folds(joined): number for joined, number in self._tables_of.items()}
        for joined, original in columns.items():
            if folds(joined) in known:
                number = known[folds(joined)]
                other = "the facts" if number == FACTS else self._dimensions[number].name
                way = f"prefix={shown(f'{name}.')}" if not prefix else "another prefix"
                raise DataError(
                    f"column {shown(original)} of {name} would be a second {shown(joined)} beside that of {other}; "
                    f"set {way}, or drop it from {name}"
                )

    def pipe(self, function: Callable[Concatenate[Star, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return ``function(star, ...)``, as frames do: ``star.pipe(fb.fit, target="delay")``."""
        return function(self, *args, **kwargs)

    @checked()
    def lazy(self) -> pl.LazyFrame:
        """Return the join as a lazy frame; relations are read into memory.

        Raises
        ------
        DataError
            If a key is duplicated in a dimension.
        """
        return self.open_tables().to_frame(self.columns)

    def collect(self) -> pl.DataFrame:
        """Return the join as a frame; see `lazy`."""
        return self.lazy().collect()

    def relation(self) -> duckdb.DuckDBPyRelation:
        """Return the join as a DuckDB relation, if its tables are relations.

        Raises
        ------
        DataError
            If its tables are frames, or a key is duplicated in a dimension.
        """
        source = self.open_tables(check=False)
        if not isinstance(source, RelationSource):
            raise DataError("the tables of the star are frames; its lazy() and collect() are the join of frames")
        _check_keys(self._dimensions)
        return source.relation

    def open_tables(self, argument: str = "data", *, check: bool = True) -> LocalSource:
        """Return the join as data of a fit; by default check first that keys are unique in each dimension."""
        facts, dimensions = self._facts, self._dimensions
        if check:
            facts = _once(facts)
            dimensions = tuple(replace(dimension, source=_once_for(facts, dimension)) for dimension in dimensions)
            _check_keys(dimensions)
        if isinstance(facts, RelationSource):
            return star_relation(facts, dimensions)
        return star_frame(facts, dimensions)


def _check_keys(dimensions: Sequence[Dimension]) -> None:
    for dimension in dimensions:
        if dimension.aggregation is None:
            check_unique(dimension)


def _once(source: LocalSource) -> LocalSource:
    """Return a table that reads the same rows each time."""
    return repeatable_source(source.relation) if isinstance(source, RelationSource) else source


def _once_for(facts: LocalSource, dimension: Dimension) -> LocalSource:
    """Return the rows of a dimension in the form of `_once`, if the facts are in it."""
    is_other = dimension.rows_for is not None and isinstance(facts, RelationSource) and facts.is_copy
    return _once(dimension.rows_for(facts) if dimension.rows_for and is_other else dimension.source)


def _aggregated_before(
    aggregates: Aggregates, left: Sequence[str], right: Sequence[str], types: Sequence[pl.DataType], facts: LocalSource
) -> LocalSource:
    """Return the aggregates of the rows before the times of the facts, for their distinct keys and times."""
    if isinstance(facts, RelationSource):
        named = (f"{quote_identifier(a)} AS {quote_identifier(b)}" for a, b in zip(left, right, strict=True))
        return aggregated(aggregates, RelationSource(facts.relation.project(", ".join(named)).distinct()))
    named_exprs = (column(a).cast(t).alias(b) for a, b, t in zip(left, right, types, strict=True))
    return aggregated(aggregates, FrameSource(facts.frame.select(named_exprs).unique()))


def _keys(on: On, left_on: On, right_on: On) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key columns of both tables."""
    if on is not None and (left_on is not None or right_on is not None):
        raise ParameterError("pass on, the columns of the key in both tables, or left_on and right_on")
    arguments = {"on": on} if on is not None else {"left_on": left_on, "right_on": right_on}
    keys = [_names(argument, value) for argument, value in arguments.items()]
    if len(keys[0]) != len(keys[-1]):
        raise ParameterError(
            f"left_on names {counted(len(keys[0]), 'column')} and right_on {len(keys[1])}; a key has the same number "
            "of columns in both"
        )
    return keys[0], keys[-1]


def _keys_of_aggregates(
    aggregation: Aggregation, on: On, left_on: On, right_on: On, before: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key columns of the facts and of the aggregates, by default `Aggregation.by`."""
    if on is None and right_on is None:
        right_on = aggregation.by
        left_on = aggregation.by if left_on is None else left_on
    left, right = _keys(on, left_on, right_on)
    if set(right) != set(aggregation.by):
        raise ParameterError(f"the key of the aggregates is {listed(aggregation.by)}, not {listed(right)}")
    if before is None:
        return left, right
    if aggregation.time is None:
        raise ParameterError("before needs the times of the rows; pass them as fb.aggregate(..., time=)")
    in_order = dict(zip(right, left, strict=True))
    return (*(in_order[name] for name in aggregation.by), before), (*aggregation.by, aggregation.time)


def _names(argument: str, value: On) -> tuple[str, ...]:
    if value is None:
        raise ParameterError(
            "a join needs the columns of its key: on='id', or left_on and right_on where their names differ"
        )
    column_names(argument, value)
    names = (value,) if isinstance(value, str) else tuple(value)
    if len(set(names)) < len(names):
        raise ParameterError(f"{argument} names a column twice: {listed(names)}")
    return names


def _of_kind(dimension: LocalSource, facts: LocalSource, name: str) -> LocalSource:
    """Return a dimension in the form of the facts: a relation is read into memory if they are a frame."""
    if isinstance(facts, RelationSource):
        if not isinstance(dimension, RelationSource):
            raise DataError(
                f"the facts are a DuckDB relation, and {name} is a frame; pass con.from_arrow(frame), or a table of "
                "the same connection"
            )
        return dimension
    if isinstance(dimension, RelationSource):
        return FrameSource(dimension.to_frame(dimension.names()))
    return dimension


# --- checks of keys, before any work starts: types that can be equal, and values that occur once ----------------------

# Keys with more rows than one that a message names.
_MAX_NAMED = 3


def join_type(left: FeatureType | None, right: FeatureType | None) -> pl.DataType | None:
    """Return the polars type in which two key columns are compared, None if their values can't be equal.

    Integers of all widths are comparable, and so are times of all units if both or none have a time zone. Floats need
    the same type, as 0.1 differs in 32 and 64 bits.

    >>> join_type(FeatureType("int32"), FeatureType("uint64"))
    Int128
    >>> join_type(FeatureType("int32"), FeatureType("string")) is None
    True
    """
    if left is None or right is None or left.family != right.family:
        return None
    if left == right:
        return left.to_polars()
    are_integers = all(kind.name.startswith(("int", "uint")) for kind in (left, right))
    if left.family == "number":
        if not are_integers:
            return None
        names = {left.name, right.name}
        return pl.Int128() if names & {"uint64", "int128", "uint128"} else pl.Int64()
    finest = next(unit for unit in ("ns", "us", "ms") if unit in (left.unit, right.unit))
    return (left if left.unit == finest else right).to_polars()


def key_types(
    left: LocalSource, right: LocalSource, left_on: Sequence[str], right_on: Sequence[str], name: str
) -> tuple[pl.DataType, ...]:
    """Return the types in which key columns are compared.

    ``left`` are the tables joined so far, ``right`` is the next one, ``name`` its name in messages.

    Raises
    ------
    DataError
        If a column is missing, or two columns have types that are never equal.
    """
    left_types, right_types = left.types(), right.types()
    for key in left_on:
        if key not in left_types:
            raise DataError(
                f"key column {shown(key)} is not among the columns that {name} is joined to: {listed(left_types)}"
            )
    for key in right_on:
        if key not in right_types:
            raise DataError(f"key column {shown(key)} is not in {name}, which has {listed(right_types)}")
    types = []
    for left_key, right_key in zip(left_on, right_on, strict=True):
        left_type, right_type = left_types[left_key], right_types[right_key]
        compared = join_type(left_type, right_type)
        if compared is None:
            raise DataError(
                f"key {shown(left_key)} has type {left.type_names()[left_key]}, and {shown(right_key)} of {name} has "
                f"type {right.type_names()[right_key]}; cast one of them to the type of the other"
                f"{_way(left_type, right_type)}"
            )
        types.append(compared)
    return tuple(types)


def _way(left: FeatureType | None, right: FeatureType | None) -> str:
    """Return a likely reason for floats in an integer key column, or ""."""
    kinds = [kind.name if kind is not None and kind.family == "number" else "" for kind in (left, right)]
    if any(kind.startswith("float") for kind in kinds) and any(kind.startswith(("int", "uint")) for kind in kinds):
        return " (pandas makes integers floats where one is missing; its astype('Int64') makes them integers again)"
    return ""


def check_unique(dimension: Dimension) -> None:
    """Raise `DataError` if a key is duplicated in a dimension, as the join would multiply facts.

    Rows with a NULL in the key match no facts, and are not checked.
    """
    repeated = _several(dimension.source, dimension.right_on)
    if not repeated:
        return
    keys = [f"{', '.join(map(shown, key))} ({counted(n, 'row')})" for *key, n in repeated[:_MAX_NAMED]]
    more = " and others" if len(repeated) > _MAX_NAMED else ""
    columns = listed(dimension.right_on)
    by = shown(dimension.right_on[0] if len(dimension.right_on) == 1 else list(dimension.right_on))
    raise DataError(
        f"{dimension.name} has several rows for one key of {columns}: {'; '.join(keys)}{more}; a join would repeat the "
        f"rows that have these keys, so aggregate {dimension.name} to one row a key first, with "
        f"fb.aggregate({dimension.name}, by={by}, columns=...)"
    )


def _several(source: LocalSource, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some duplicated keys with their numbers of rows, in the order of the keys."""
    most = _MAX_NAMED + 1
    if isinstance(source, RelationSource):
        quoted = ", ".join(map(quote_identifier, names))
        present = source.relation.filter(" AND ".join(f"{quote_identifier(name)} IS NOT NULL" for name in names))
        n = quote_identifier(free_name("n", names))
        counts = present.aggregate(f"{quoted}, COUNT(*) AS {n}", quoted)
        return counts.filter(f"{n} > 1").order(quoted).limit(most).fetchall()
    keys = source.frame.select(column(name).alias(str(i)) for i, name in enumerate(names)).drop_nulls().collect()
    if keys.n_unique() == keys.height:
        return []
    repeated = keys.group_by(pl.all()).agg(pl.len().alias("n")).filter(pl.col("n") > 1)
    return repeated.sort(pl.exclude("n")).head(most).rows()

"""Held-out rows: ``fit(valid=...)``, part of the data or other data with the same columns; and folds.

Part of the data is selected by a column or a predicate, as the last rows by a column of times, or by a hash of row
positions, the same in every engine, or of queries. Row positions must be the same each time that a relation is read,
and in each fit. DuckDB guarantees an order for some queries only (see `frameboost.data.plans`); others are errors.
"""

from __future__ import annotations

import numbers
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl

from frameboost.checks.arguments import is_iterable, is_text
from frameboost.checks.messages import counted, did_you_mean, listed, shown
from frameboost.data.dask_source import PartitionedSource
from frameboost.data.database_table import DatabaseTable
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.data.feature_columns import example_of_text
from frameboost.data.file_formats import is_table
from frameboost.data.opening import open_source
from frameboost.data.sources import FrameSource, LocalSource, RelationSource, Source, check_numeric
from frameboost.data.spark_source import SparkSource
from frameboost.data.sparse_matrix import SparseSource
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.draws import draw_expr, draw_key, draw_sql
from frameboost.expressions.duckdb_sql import is_missing, literal, physical_sql, quote_identifier
from frameboost.schema.types import Feature, FeatureType, Physical, column, free_name, physical_expr

__all__ = [
    "HeldOut",
    "LastRows",
    "count_groups",
    "count_missing",
    "deals_groups",
    "draws_of_groups",
    "fold_parts",
    "held_out_sources",
    "is_splitter",
    "queries_of",
    "split_by_draw",
    "split_by_queries",
    "split_by_query_draw",
    "split_by_splitter",
    "with_draws",
    "with_positions",
    "with_window",
]


_HELD_OUT = 21  # the purpose of a random key; `cross_validation` and `training.growths` have others


@dataclass(frozen=True)
class HeldOut:
    """A set of held-out rows."""

    source: Source

    def like(self, training: Source, features: Sequence[Feature], roles: Mapping[str, str], name: str) -> Source:
        """Return the rows after checking that they have the columns of training.

        Raises
        ------
        DataError
            If a column is missing, or its type differs.
        """
        if self.source is training:
            return self.source
        types = self.source.types()
        columns = [*(f.name for f in features), *roles.values()]
        for column_name in columns:
            if column_name not in types:
                raise DataError(f"column {shown(column_name)} is not in {shown(name)}, the held-out data")
        group = roles.get("qid")
        for role in roles.values():
            if role == group and types[role] is None:
                raise DataError(
                    f"group column {shown(group)} has type {self.source.type_names()[group]} in {shown(name)}, the "
                    "held-out data, which can't identify queries; convert it to an integer or a string"
                )
            if role != group:
                check_numeric(self.source, role, "column", f" in {shown(name)}, the held-out data")
        for feature in features:
            if types[feature.name] != feature.type.values:
                example = example_of_text(self.source, feature)
                raise DataError(
                    f"feature {shown(feature.name)} has type {self.source.type_names()[feature.name]}{example} in "
                    f"{shown(name)}, the held-out data, but {training.type_names()[feature.name]} in training; "
                    "cast it to the same type"
                )
        in_database = isinstance(self.source, DatabaseTable) and not isinstance(training, DatabaseTable)
        if isinstance(self.source, SparkSource) or in_database:  # a fit in Spark leaves no tasks for others
            return FrameSource(self.source.to_frame(list(dict.fromkeys(columns))))
        return self.source


def held_out_sources(
    source: Source, valid: Any, time: str | None = None, group: str | None = None, seed: int = 0
) -> tuple[Source, dict[str, HeldOut]]:
    """Return the training rows, and the held-out sets by name."""
    last = _read_last_rows(source, valid, time)
    if valid is None:
        return source, {}
    if last is not None or _is_number(valid):
        training, part = _split_off(source, valid, last, time, group, seed)
        return training, {"valid": HeldOut(part)}
    if isinstance(valid, str) and (valid in source.names() or not is_table(valid)):
        training, part = _split(source, valid)
        return training, {"valid": HeldOut(part)}
    if not isinstance(valid, Mapping):
        return source, {"valid": _other_rows(valid, "valid", source)}
    for name in valid:
        if not isinstance(name, str) or name == "train":
            raise ParameterError(f"valid names a set {shown(name)}; a name must be a string other than 'train'")
    if not valid:
        raise ParameterError("valid is an empty dict; pass at least one set of rows, or None")
    return source, {name: _other_rows(data, f"valid[{shown(name)}]", source) for name, data in valid.items()}


def deals_groups(source: Source, valid: Any) -> bool:
    """Whether ``valid`` is a share or the last rows, which keep groups together."""
    is_text_of_rows = isinstance(valid, str) and valid not in source.names() and LastRows.read(valid) is not None
    return _is_number(valid) or is_text_of_rows


def _split(source: Source, valid: str) -> tuple[Source, Source]:
    """Return the training rows, and the held-out rows, where a Boolean column or a predicate is true.

    Raises
    ------
    ParameterError
        If ``valid`` is neither, or may split the rows differently each time they are read.
    """
    if not is_text(valid):
        raise ParameterError(f"valid holds an unpaired surrogate: {shown(valid)}")
    types = source.types()
    if valid in types and (types[valid] is None or types[valid].family != "boolean"):  # type: ignore[union-attr]
        raise ParameterError(
            f"valid column {shown(valid)} has type {source.type_names()[valid]}; it must be Boolean, true for "
            "held-out rows"
        )
    source.check_repeatable(None if valid in types else valid)
    parts = [source.where(valid, is_column=valid in types, negated=negated) for negated in (True, False)]
    return parts[0], parts[1]


def _other_rows(valid: Any, argument: str, training: Source) -> HeldOut:
    """Return separate held-out data; columns of text files have the types of training.

    Raises
    ------
    ParameterError
        If it seems to refer to part of the training data.
    """
    if isinstance(valid, pl.Expr | pl.Series | np.ndarray | bool):
        raise ParameterError(
            f"{argument} is {shown(type(valid).__name__)}, and must be data; to hold out training rows, add"
            " a Boolean column to it and pass its name"
        )
    if _is_number(valid) or (isinstance(valid, str) and not is_table(valid)):
        raise ParameterError(
            f"{argument}={shown(valid)} is not data; pass a share, a column or a condition on the training data "
            "alone, not in a dict"
        )
    return HeldOut(open_source(valid, argument, types=training.types(), clusters=True))


def _is_number(valid: object) -> bool:
    return isinstance(valid, numbers.Real) and not isinstance(valid, bool)


def _read_last_rows(source: Source, valid: object, time: str | None) -> LastRows | None:
    """Return the parsed ``valid="last 20%"``; None for anything else, such as a column of that name."""
    last = LastRows.read(valid) if isinstance(valid, str) and valid not in source.names() else None
    if last is None and time is not None:
        raise ParameterError(f"time is for valid='last 20%' or 'last 4 weeks', not for valid={shown(valid)}")
    if last is not None and time is None:
        raise ParameterError(f"valid={shown(valid)} needs time, the column that orders the rows: time='day'")
    return last


def _split_off(
    source: Source, valid: Any, last: LastRows | None, time: str | None, group: str | None, seed: int
) -> tuple[Source, Source]:
    """Return the training rows, and a share of the rows or the last ones."""
    if last is None and not 0 < valid < 1:
        raise ParameterError(
            f"valid={shown(valid)} is not a share of the rows; it must be between 0 and 1, such as 0.2"
        )
    if group is not None and group not in source.names():
        nearest = did_you_mean(group, source.names())
        raise DataError(f"group column {shown(group)} is not in the data{nearest}")
    if group is not None and source.types()[group] is None:  # which will be refused
        group = None
    key = draw_key(seed, _HELD_OUT)
    if isinstance(source, DatabaseTable) and last is None and (group is not None or source.key is not None):
        return source.split_by_draw(float(valid), key, group)
    if isinstance(source, DatabaseTable) and last is not None:
        assert time is not None
        return last.split(source, time, group)
    if isinstance(source, SparkSource | PartitionedSource | DatabaseTable):
        drawn = "id" if group is None else group
        where, way = "those of a Dask DataFrame are on its workers", f"{drawn} % 5 = 0"
        if isinstance(source, SparkSource):
            where, way = "those of a Spark DataFrame are on its workers", f"pmod(xxhash64({drawn}), 5) = 0"
        if isinstance(source, DatabaseTable):
            where, way = "those of a database are there", "MOD(id, 5) = 0"
        if last is not None:
            way = "day >= '2013-10-01'"
        raise ParameterError(
            f"valid={shown(valid)} depends on the order of the rows, and {where} without an order; name a Boolean "
            f"column, or pass a condition on each row alone, such as valid={shown(way)}"
        )
    rows = source.fact_rows()
    if rows is not source and {time, group} - {None} <= set(rows.names()):  # by the facts alone
        training, part = _split_off(rows, valid, last, time, group, seed)
        assert isinstance(training, FrameSource | RelationSource) and isinstance(part, FrameSource | RelationSource)
        return source.with_fact_rows(training), source.with_fact_rows(part)
    source.check_repeatable(None)
    if last is not None:
        assert time is not None
        return last.split(source, time, group)
    if group is None:
        return split_by_draw(source, float(valid), key)
    return split_by_query_draw(source, group, float(valid), key)


# --- the last rows by a column of times, ``valid="last 20%"`` and ``valid="last 4 weeks"`` with ``time="day"`` --------

# A row is held out if its time is at least the first one that follows all but that share of the rows, so rows of one
# time stay together, and a row is on the same side each time that it is read. Of the rows of days 1 1 2 3 4 5 5 5 6 6
# the last 20% are those of day 6, and so are the last 40%: day 5 follows half of the rows, not 60% of them.

TimedSource = LocalSource | DatabaseTable
_TEXT = re.compile(r"last\s+(\d+(?:\.\d+)?)\s*(%|hours?|days?|weeks?|months?|quarters?|years?)", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_PER_HOUR = {"ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}


@dataclass(frozen=True)
class LastRows:
    """A specification of the last rows by time.

    Attributes
    ----------
    text
        The user's text, such as ``last 20%``.
    amount
        The amount, such as 20.
    unit
        ``%``, ``hour``, ``day``, ``week``, ``month``, ``quarter`` or ``year``.
    """

    text: str
    amount: Fraction
    unit: str

    @classmethod
    def read(cls, text: str) -> LastRows | None:
        """Parse a text; return None if it is something else.

        >>> LastRows.read("last 12.5%").amount, LastRows.read("last 2 weeks").unit, LastRows.read("day > 3")
        (Fraction(25, 2), 'week', None)
        """
        match = _TEXT.fullmatch(text.strip())
        return None if match is None else cls(text, Fraction(match[1]), match[2].lower().rstrip("s"))

    def split(
        self, source: TimedSource, time: str, group: str | None, *, or_last_time: bool = False
    ) -> tuple[TimedSource, TimedSource]:
        """Return the rows before, and the last rows; in ranking queries with one of these are held out as a whole.

        ``or_last_time`` holds out the rows of the last time where these are a larger share.

        Raises
        ------
        ParameterError
            If the amount is not a valid share, or its unit does not fit the column.
        DataError
            If the column does not exist, is no time, or has missing values; or if no rows are held out, or all are.
        """
        kind = _kind_of(source, time)
        if self.unit == "%" and not 0 < self.amount < 100:
            raise ParameterError(f"valid={shown(self.text)} must name a share between 0% and 100%")
        is_share = self.unit == "%"
        if not is_share:
            self._check_span(source, time, kind)
        times = _times(source, time, kind, 1 - self.amount / 100 if is_share else 0)
        if times.n_missing:
            raise DataError(
                f"time column {shown(time)} is NULL or NaN in {times.n_missing:,} rows; set a time in every row"
            )
        if times.last is None or (times.first is None and not or_last_time):
            raise DataError(
                f"valid={shown(self.text)} holds out no row: the last value of time column {shown(time)} is in more "
                "rows than that, and rows of one time stay together; set a larger share"
            )
        if is_share:
            first = times.last if times.first is None else times.first
        else:
            first = self._before(int(times.last), kind) + 1
        parts = _split_at(source, time, kind, first, group)
        if group is None and times.first is None and not parts[0].count_rows():
            raise DataError(
                f"time column {shown(time)} has one value in all rows, so that none are before the last ones"
            )
        if group is not None and not parts[0].count_rows():
            raise DataError(
                f"valid={shown(self.text)} holds out all rows: each group of {shown(group)} has rows among the last "
                f"by {shown(time)}, and a group stays together; use groups that end at different times"
            )
        return parts

    def _length(self, kind: FeatureType) -> Fraction:
        """Return a span in physical units of the column, or in months."""
        if self.unit in _MONTHS:
            return self.amount * _MONTHS[self.unit]
        hours = self.amount * _HOURS[self.unit]
        return hours * _PER_HOUR[kind.unit] if kind.unit else hours / 24

    def _before(self, last: int, kind: FeatureType) -> int:
        """Return the last time minus the span; months go back to the same day of the month, if it exists."""
        length = int(self._length(kind))
        if self.unit not in _MONTHS:
            return last - length
        times = pl.Series([last]).cast(kind.physical_dtype).cast(kind.to_polars())
        return int(times.dt.offset_by(f"-{length}mo").to_physical().item())

    def _check_span(self, source: TimedSource, time: str, kind: FeatureType) -> None:
        is_time = kind.family in ("date", "timestamp", "timestamptz")
        length = self._length(kind) if is_time else Fraction(0)
        if length.denominator > 1 or not length:
            raise ParameterError(
                f"valid={shown(self.text)} can't be combined with time column {shown(time)} of type "
                f"{source.type_names()[time]}; set a share, such as 'last 20%'"
            )


class _Times(NamedTuple):
    """The number of rows without a time, the first held-out time of a share, and the last time, as physical values."""

    n_missing: int
    first: Physical | None
    last: Physical | None


def _kind_of(source: TimedSource, time: str) -> FeatureType:
    if time not in source.names():
        names = source.names()
        raise DataError(
            f"time column {shown(time)} is not in the data{did_you_mean(time, names) or f', which has {listed(names)}'}"
        )
    kind = source.types()[time]
    if kind is None or kind.family in ("string", "boolean"):
        raise DataError(
            f"time column {shown(time)} has type {source.type_names()[time]}; it must be a date, a timestamp or a "
            "number"
        )
    return kind


def _times(source: TimedSource, time: str, kind: FeatureType, share: Fraction | int) -> _Times:
    """Return the times of a source; the first to hold out is the first after at least that share of the rows."""
    share = Fraction(share)
    if isinstance(source, FrameSource):
        times = source.frame.select(physical_expr(time, kind).alias("time"))
        counts = times.group_by("time").len("n").collect()
        known = counts.drop_nulls("time").sort("time").with_columns(before=pl.col("n").cum_sum() - pl.col("n"))
        total = int(counts["n"].sum())
        held_out = known.filter(pl.col("before") * share.denominator >= total * share.numerator)["time"]
        bounds: tuple[Any, Any] = held_out.first(), known["time"].last()
        return _Times(total - int(known["n"].sum()), *bounds)
    if isinstance(source, DatabaseTable):
        return _Times(*source.times(time, share))
    quoted = quote_identifier(time)
    first = f"MIN({quoted}) FILTER (counted * {share.denominator} >= total * {share.numerator})"
    row = source.relation.project(
        f"{quoted}, rank() OVER (ORDER BY {quoted} ASC) - 1 AS counted, COUNT(*) OVER () AS total"
    ).aggregate(
        f"COUNT(*) FILTER ({is_missing(kind, quoted)}), {physical_sql(kind, first)}, "
        f"{physical_sql(kind, f'MAX({quoted})')}"
    ).fetchall()[0]  # fmt: skip
    return _Times(row[0], _physical_value(kind, row[1]), _physical_value(kind, row[2]))


def _physical_value(kind: FeatureType, value: Any) -> Physical | None:
    """Return a physical value from DuckDB, see `physical_sql`."""
    if value is None or kind.is_float:
        return value  # type: ignore[no-any-return]
    return int(Decimal(value).scaleb(kind.precision_and_scale[1] if kind.precision_and_scale else 0))


def _split_at(
    source: TimedSource, time: str, kind: FeatureType, first: Physical, group: str | None
) -> tuple[TimedSource, TimedSource]:
    """Return the rows before a time, and the others; rows of one query go with its last one."""
    if isinstance(source, FrameSource):
        held_out = physical_expr(time, kind) >= pl.lit(first, kind.physical_dtype)
        if group is not None:
            return split_by_queries(source, group, queries_of(source.map(lambda f: f.filter(held_out)), group))
        return source.map(lambda f: f.filter(~held_out)), source.map(lambda f: f.filter(held_out))
    if isinstance(source, DatabaseTable):
        return source.split_at(time, first, group)
    condition = f"{quote_identifier(time)} >= {literal(kind, first)}"
    if group is None:
        return (source.derived(source.relation.filter(f"NOT ({condition})")),
                source.derived(source.relation.filter(condition)))  # fmt: skip
    name = free_name("held", source.names())
    is_held_out = f"CAST(bool_or({condition}) OVER (PARTITION BY {quote_identifier(group)}) AS TINYINT)"
    return _parts_by(with_window(source, is_held_out, name), name, "<>", "=", 1)


# --- folds: each part of the rows once to validate on, and the rest to train on ---------------------------------------

_MAX_FOLDS = 1_000_000
_FOLDS = (
    f"folds must be an integer from 2 to {_MAX_FOLDS:,}, a column name, a splitter of scikit-learn, or pairs of "
    "positions of rows to train on and to validate on"
)
_FOLD = 20  # the purpose of a random key; `frameboost.training.growths` has others
# With more rows a fold than this, none draws half of its share by chance.
_FEW_ROWS = 256


def fold_parts(
    source: LocalSource, folds: Any, time: str | None, seed: int, groups: str | None = None,
    strata: str | None = None,
) -> Iterator[tuple[Any, Any]]:  # fmt: skip
    """Yield training rows and held-out rows for each fold.

    Parameters
    ----------
    source
        The rows.
    folds
        A number of folds, or a column of fold labels, or for each fold a pair of integer arrays: the positions of the
        training rows and of the held-out rows.
    time
        A column to order the rows by; each part except the first is held out from a fit on those before it.
    seed
        The seed of the hash that assigns rows or groups to folds.
    groups
        A column of groups to keep together.
    strata
        A column to stratify the folds by.

    Raises
    ------
    ParameterError, DataError
        If there are fewer than 2 folds, a column or positions are invalid, or the rows are a sparse matrix.
    """
    if isinstance(source, SparseSource):
        raise DataError(
            "the rows of a sparse matrix can't be assigned to folds; pass a frame, or a table of a database"
        )
    rows = source.fact_rows()
    needed = {time, groups, strata, folds if isinstance(folds, str) else None} - {None}
    if rows is not source and needed <= set(rows.names()):
        for training, held_out in fold_parts(rows, folds, time, seed, groups, strata):  # of the facts alone
            yield source.with_fact_rows(open_source(training)), source.with_fact_rows(open_source(held_out))
        return
    if isinstance(folds, str):
        if time is not None:
            raise ParameterError("time can't be combined with a column of folds; pass the number of folds")
        yield from _by_column(source, folds)
        return
    if not isinstance(folds, int) and is_iterable(folds):
        yield from _by_positions(source, folds)
        return
    if not isinstance(folds, int) or isinstance(folds, bool) or not 2 <= folds <= _MAX_FOLDS:
        raise ParameterError(f"{_FOLDS}, not {shown(folds)}")
    if time is not None:
        yield from _by_time(source, time, folds)
    else:
        if groups is not None:
            numbered, name = _with_folds_of_groups(source, groups, folds, seed)
        elif strata is not None:
            numbered, name = _with_folds_of_strata(source, strata, folds, seed)
        else:
            numbered, name = _with_folds(source, folds, seed)
        for number in range(folds):
            yield _fold(numbered, name, number)


def _fold(source: LocalSource, name: str, number: int, others: str = "<>") -> tuple[Any, Any]:
    """Return the rows of other folds, or with ``<`` of earlier ones, and those of this fold.

    The fold column is dropped.
    """
    training, part = _parts_by(source, name, others, "=", number)
    if isinstance(training, FrameSource) and isinstance(part, FrameSource):
        return _rows_of(source, training.frame), _rows_of(source, part.frame)
    return training, part


def _rows_of(source: LocalSource, rows: pl.LazyFrame) -> pl.LazyFrame | FrameSource:
    """Return some rows of a source, with its categorical columns, which the frame does not have."""
    return FrameSource(rows, categorical=source.categorical) if source.categorical else rows


def _with_folds(source: LocalSource, folds: int, seed: int) -> tuple[LocalSource, str]:
    """Return the rows with a fold index drawn by position, and that column's name.

    If a fold drew half of its share or less, as happens with few rows, the rows are dealt round-robin by their draws.
    """
    name = free_name("fold", source.names())
    drawn = with_draws(source, draw_key(seed, _FOLD), name)
    n_rows = drawn.count_rows()
    if n_rows < folds:
        raise DataError(f"the data has {counted(n_rows, 'row')}; {folds} folds need as many")
    if isinstance(drawn, FrameSource):
        number = (pl.col(name) * folds).floor().cast(pl.Int64)
        numbered: LocalSource = drawn.map(lambda frame: frame.with_columns(number))
    else:
        quoted = quote_identifier(name)
        replaced = f"* REPLACE (CAST(FLOOR({quoted} * {folds}) AS BIGINT) AS {quoted})"
        numbered = drawn.derived(drawn.relation.project(replaced))
    if n_rows < _FEW_ROWS * folds and 2 * _smallest_fold(numbered, name, folds) <= n_rows // folds:
        return _with_folds_of_strata(source, None, folds, seed)
    return numbered, name


def _smallest_fold(source: LocalSource, name: str, folds: int) -> int:
    if isinstance(source, FrameSource):
        sizes = source.frame.group_by(name).len().collect()["len"].to_list()
    else:
        sizes = [row[0] for row in source.relation.aggregate("COUNT(*)", quote_identifier(name)).fetchall()]
    return min(sizes) if len(sizes) == folds else 0


def _with_folds_of_strata(source: LocalSource, strata: str | None, folds: int, seed: int) -> tuple[LocalSource, str]:
    """Return the rows with a fold index, and that column's name: round-robin by stratum, if there are any, and draw."""
    name = free_name("position", source.names())
    fold = free_name("fold", [*source.names(), name])
    rows, key = with_positions(source, name), draw_key(seed, _FOLD)
    if isinstance(rows, FrameSource):
        by_stratum = [] if strata is None else [column(strata)]
        order = pl.arg_sort_by([*by_stratum, draw_expr(pl.col(name), key), pl.col(name)])
        numbered = rows.frame.with_columns((order.arg_sort().cast(pl.Int64) % folds).alias(fold)).drop(name)
        return FrameSource(numbered.collect().lazy(), categorical=rows.categorical), fold
    quoted = quote_identifier(name)
    by = "" if strata is None else f"{quote_identifier(strata)} ASC, "
    rank = f"row_number() OVER (ORDER BY {by}{draw_sql(quoted, key)} ASC, {quoted} ASC) - 1"
    ranked = with_window(rows, f"({rank}) % {folds}", fold)
    return ranked.derived(_without(ranked.relation, quoted)), fold


def count_groups(source: LocalSource, groups: str) -> int:
    """Return the number of groups; raise `DataError` if a column can't identify any."""
    _check_groups(source, groups)
    if isinstance(source, FrameSource):
        return len(queries_of(source, groups))
    kind = source.types()[groups]
    assert kind is not None
    return int(source.relation.aggregate(f"COUNT(DISTINCT {_comparable_sql(groups, kind)})").fetchall()[0][0])


def _check_groups(source: LocalSource, groups: str) -> None:
    if groups not in source.names():
        raise DataError(f"groups column {shown(groups)} is not in the data{did_you_mean(groups, source.names())}")
    if source.types()[groups] is None:
        raise DataError(
            f"groups column {shown(groups)} has type {source.type_names()[groups]}, which can't identify groups; "
            "convert it to an integer or a string"
        )


def _with_folds_of_groups(source: LocalSource, groups: str, folds: int, seed: int) -> tuple[LocalSource, str]:
    """Return the rows with the fold index of their group, and that column's name; groups are assigned in draw order."""
    _check_groups(source, groups)
    name = free_name("fold", source.names())
    drawn, n_groups, n_missing = draws_of_groups(source, groups, draw_key(seed, _FOLD), name)
    if n_missing:
        raise DataError(f"groups column {shown(groups)} is NULL or NaN in {n_missing:,} rows; set a group in every row")
    if n_groups < folds:
        has = "one value in all rows" if n_groups == 1 else f"{n_groups} distinct values"
        raise DataError(f"groups column {shown(groups)} has {has}; {folds} folds need as many groups")
    if isinstance(drawn, FrameSource):
        number = (pl.col(name).rank("dense").cast(pl.Int64) - 1) % folds
        return FrameSource(drawn.frame.with_columns(number), categorical=drawn.categorical), name
    quoted, number_name = quote_identifier(name), free_name("number", drawn.names())
    numbered = with_window(drawn, f"(dense_rank() OVER (ORDER BY {quoted} ASC) - 1) % {folds}", number_name)
    return numbered.derived(_without(numbered.relation, quoted)), number_name


def _by_column(source: LocalSource, name: str) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"column {shown(name)}, of folds, is not in the data")
    if isinstance(source, FrameSource):
        values = source.frame.select(column(name)).unique().collect().to_series().sort(nulls_last=True)
        _check_count(len(values), name)
        for value in values:
            is_part = column(name).eq_missing(pl.lit(value, dtype=values.dtype))
            yield _rows_of(source, source.frame.filter(~is_part)), _rows_of(source, source.frame.filter(is_part))
        return
    by, fold = quote_identifier(name), free_name("fold", source.names())
    ranked = with_window(source, f"dense_rank() OVER (ORDER BY {by} ASC)", fold)
    count = ranked.relation.aggregate(f"MAX({quote_identifier(fold)})").fetchall()[0][0] or 0
    _check_count(count, name)
    for number in range(1, count + 1):
        yield _fold(ranked, fold, number)


def _by_positions(source: LocalSource, folds: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    if not isinstance(source, FrameSource):
        raise DataError(
            "folds of positions are for rows in memory; for a table in a database pass a number of folds, or a column"
        )
    pairs = list(folds)
    if not pairs or not all(isinstance(pair, list | tuple | np.ndarray) and len(pair) == 2 for pair in pairs):
        raise ParameterError(f"{_FOLDS}, not {shown(folds)}")
    rows = source.frame.collect()
    parts = [[_checked_positions(each, number, len(rows)) for each in pair] for number, pair in enumerate(pairs, 1)]
    for training, held_out in parts:
        yield _rows_of(source, rows[training].lazy()), _rows_of(source, rows[held_out].lazy())


def _checked_positions(values: Any, number: int, n_rows: int) -> np.ndarray:
    positions = np.asarray(values)
    if positions.ndim != 1 or not len(positions) or not np.issubdtype(positions.dtype, np.integer):
        raise ParameterError(
            f"fold {number} of folds must have arrays of integers, positions of rows, not {shown(values)}"
        )
    if positions.min() < 0 or positions.max() >= n_rows:
        wrong = positions[(positions < 0) | (positions >= n_rows)][0]
        raise ParameterError(
            f"fold {number} of folds has position {wrong}; the data has those from 0 to {n_rows - 1:,}"
        )
    return positions


def is_splitter(folds: object) -> bool:
    """Whether folds are a scikit-learn splitter, or an object like one."""
    return not isinstance(folds, str) and hasattr(folds, "split")


def split_by_splitter(
    source: LocalSource, splitter: Any, labels: Sequence[str], groups: str | None
) -> list[tuple[Any, Any]]:
    """Return the positions of the training and held-out rows of each fold of a scikit-learn splitter.

    Raises
    ------
    ParameterError
        If it can't split these labels or groups.
    """
    frame = source.to_frame([*labels, *([] if groups is None else [groups])]).collect()
    y = frame.select(labels).to_numpy()
    try:
        return list(
            splitter.split(
                np.zeros((len(frame), 1)),
                y[:, 0] if len(labels) == 1 else y,
                None if groups is None else frame[groups].to_numpy(),
            )
        )
    except (TypeError, ValueError) as error:
        raise ParameterError(f"folds={shown(splitter)} can't split the rows: {error}") from error


def _by_time(source: LocalSource, name: str, folds: int) -> Iterator[tuple[Any, Any]]:
    if name not in source.names():
        raise DataError(f"time column {shown(name)} is not in the data")
    part = free_name("fold", source.names())
    if isinstance(source, FrameSource):
        rank = column(name).rank("min") - 1  # rows of one time stay together
        frame = source.frame.collect()
        if frame[name].null_count():
            raise DataError(f"time column {shown(name)} is NULL in {frame[name].null_count():,} rows")
        parted = frame.lazy().with_columns((rank.cast(pl.Int64) * (folds + 1) // pl.len()).alias(part))
        for fold in range(1, folds + 1):
            yield _fold(FrameSource(parted, categorical=source.categorical), part, fold, "<")
        return
    by = quote_identifier(name)
    if missing := source.relation.filter(f"{by} IS NULL").aggregate("COUNT(*)").fetchall()[0][0]:
        raise DataError(f"time column {shown(name)} is NULL in {missing:,} rows")
    rank_text = f"(rank() OVER (ORDER BY {by} ASC) - 1) * {folds + 1} // COUNT(*) OVER ()"
    parted_rows = with_window(source, rank_text, part)
    for fold in range(1, folds + 1):
        yield _fold(parted_rows, part, fold, "<")


def _check_count(count: int, name: str) -> None:
    if count < 2:
        raise DataError(f"column {shown(name)}, of folds, has {count} distinct value; it must have at least 2")


# --- rows drawn by a hash of their positions or of their queries ------------------------------------------------------


def split_by_draw(source: LocalSource, share: float, key: int) -> tuple[LocalSource, LocalSource]:
    """Return the training rows, and about that share of the rows, drawn by a hash of row position.

    A lazy frame is collected first, unless it only reads files, as its row order may change.

    Raises
    ------
    DataError
        If it is a relation without a guaranteed row order.
    """
    name = free_name("draw", source.names())
    return _parts_by(with_draws(source, key, name), name, ">=", "<", share)


def split_by_query_draw(source: LocalSource, group: str, share: float, key: int) -> tuple[LocalSource, LocalSource]:
    """Return the rows of other queries, and of about that share of the queries, drawn by query rank."""
    kind = source.types()[group]
    assert kind is not None
    if isinstance(source, FrameSource):
        queries = queries_of(source, group)
        return split_by_queries(source, group, queries.filter(_draws_by_rank(queries, key) < share))
    name = free_name("draw", source.names())
    return _parts_by(_with_draws_of_groups(source, group, kind, key, name), name, ">=", "<", share)


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, ">=": operator.ge, "=": operator.eq, "<>": operator.ne
}  # fmt: skip


def _parts_by(
    source: LocalSource, name: str, rest: str, part: str, value: float
) -> tuple[LocalSource, LocalSource]:  # fmt: skip
    """Return the rows where a column compares with a number in one way, and where in another, without the column."""
    if isinstance(source, FrameSource):
        conditions = [_COMPARISONS[sign](pl.col(name), value) for sign in (rest, part)]
        first, second = (source.map(lambda frame, c=c: frame.filter(c).drop(name)) for c in conditions)  # type: ignore[misc]
        return first, second
    quoted, text = quote_identifier(name), f"{value!r}::DOUBLE" if isinstance(value, float) else str(value)
    parts = (source.relation.filter(f"{quoted} {sign} {text}") for sign in (rest, part))
    training, held_out = (source.derived(_without(rows, quoted)) for rows in parts)
    return training, held_out


def draws_of_groups(source: LocalSource, group: str, key: int, name: str) -> tuple[LocalSource, int, int]:
    """Return the rows with a number in [0, 1) for their group, drawn by the group's rank.

    The numbers of groups and of rows without a group are returned as well.
    """
    kind = source.types()[group]
    assert kind is not None
    if isinstance(source, FrameSource):
        frame = source.frame.collect().lazy()
        groups = queries_of(FrameSource(frame), group)
        n_missing = count_missing(FrameSource(frame), group)
        with_draw = _comparable(group, kind).replace_strict(groups, _draws_by_rank(groups, key), default=None)
        drawn = FrameSource(frame.with_columns(with_draw.alias(name)), categorical=source.categorical)
        return drawn, len(groups), n_missing
    n_groups = count_groups(source, group)
    return _with_draws_of_groups(source, group, kind, key, name), n_groups, count_missing(source, group)


def count_missing(source: LocalSource | DatabaseTable, name: str) -> int:
    """Return the number of rows in which a column is NULL or NaN."""
    kind = source.types()[name]
    assert kind is not None
    if isinstance(source, DatabaseTable):
        counts = {"rows": source.dialect.statements.count[0], "present": f"COUNT({source.present(name)})"}
        n_rows, n_present = source.rows(counts, dict.fromkeys(counts, FeatureType("int64"))).row(0)
        return int(n_rows - n_present)
    if isinstance(source, FrameSource):
        values = column(name).fill_nan(None) if kind.is_float else column(name)
        return int(source.frame.select(values.is_null().sum()).collect().item())
    condition = is_missing(kind, quote_identifier(name))
    return int(source.relation.aggregate(f"COUNT(*) FILTER ({condition})").fetchall()[0][0])


def _with_draws_of_groups(
    source: RelationSource, group: str, kind: FeatureType, key: int, name: str
) -> RelationSource:  # fmt: skip
    rank = f"dense_rank() OVER (ORDER BY {_comparable_sql(group, kind)} ASC NULLS LAST) - 1"
    return with_window(source, draw_sql(rank, key), name)


def with_window(source: RelationSource, sql: str, name: str) -> RelationSource:
    """Return the rows with the column of a window function, in their original order, which windows change.

    Sampling and ranking of equal margins depend on row positions.
    """
    position = quote_identifier(free_name("position", [*source.names(), name]))
    numbered = source.relation.project(f"*, row_number() OVER () AS {position}")
    ordered = numbered.project(f"*, {sql} AS {quote_identifier(name)}").order(position)
    return source.derived(_without(ordered, position))


def queries_of(source: FrameSource, group: str) -> pl.Series:
    """Return the queries of the rows, in row order; categories as text."""
    kind = source.types()[group]
    assert kind is not None
    return source.frame.select(_comparable(group, kind).unique()).collect().to_series().drop_nulls().sort()


def split_by_queries(source: FrameSource, group: str, queries: pl.Series) -> tuple[FrameSource, FrameSource]:
    """Return the rows of all queries but ``queries``, and those of ``queries``."""
    kind = source.types()[group]
    assert kind is not None
    held_out = _comparable(group, kind).is_in(queries.implode()).fill_null(False)
    return source.map(lambda f: f.filter(~held_out)), source.map(lambda f: f.filter(held_out))


def with_draws(source: LocalSource, key: int, name: str) -> LocalSource:
    """Return the rows with a number in [0, 1) drawn by row position."""
    rows = with_positions(source, name)
    if isinstance(rows, FrameSource):
        draw = draw_expr(pl.col(name), key).alias(name)
        return rows.map(lambda frame: frame.with_columns(draw))
    quoted = quote_identifier(name)
    return rows.derived(rows.relation.project(f"* REPLACE ({draw_sql(quoted, key)} AS {quoted})"))


def with_positions(source: LocalSource, name: str) -> LocalSource:
    """Return the rows with their position (Int64, from 0), which is the same in all reads.

    A lazy frame is collected, unless it only reads files.

    Raises
    ------
    DataError
        If it is a relation without a guaranteed row order.
    """
    if isinstance(source, FrameSource):
        parts = source.parts or (source.frame,)
        if not source.are_files:
            parts = tuple(part.collect().lazy() for part in parts)
        counts = [int(part.select(pl.len()).collect().item()) for part in parts[:-1]]
        numbered = tuple(
            part.with_row_index(name, offset).with_columns(pl.col(name).cast(pl.Int64))
            for part, offset in zip(parts, accumulate(counts, initial=0), strict=True)
        )
        whole = pl.concat(numbered) if len(numbered) > 1 else numbered[0]
        return replace(source, frame=whole, parts=numbered if source.parts else ())
    _check_order(source)
    return source.derived(source.relation.project(f"*, row_number() OVER () - 1 AS {quote_identifier(name)}"))


def _draws_by_rank(queries: pl.Series, key: int) -> pl.Series:
    """Return a number in [0, 1) for each query, drawn by its rank."""
    return pl.select(draw_expr(pl.int_range(len(queries), dtype=pl.Int64), key)).to_series()


def _comparable(group: str, kind: FeatureType) -> pl.Expr:
    """Return the queries of the rows; categories are compared as text."""
    return column(group).cast(pl.String) if kind.is_categorical else column(group)


def _comparable_sql(group: str, kind: FeatureType) -> str:
    """Return `_comparable` in SQL."""
    by = quote_identifier(group)
    return f"CAST({by} AS VARCHAR)" if kind.is_categorical else by


def _without(relation: duckdb.DuckDBPyRelation, quoted: str) -> duckdb.DuckDBPyRelation:
    return relation.project(f"* EXCLUDE ({quoted})")


def _check_order(source: RelationSource) -> None:
    """Raise `DataError` if the row order of a relation may change between reads."""
    with closing(DuckDBSession(source.relation)) as session:
        if not session.setting("preserve_insertion_order"):
            raise DataError(
                "rows have no fixed position while preserve_insertion_order is off; SET preserve_insertion_order = "
                "true, or pass a Boolean column of the held-out rows"
            )
    step = source.unordered
    if step:
        raise DataError(
            f"the rows of this query have no fixed order (its plan has {shown(step)}), so a second read "
            "may draw other rows; store them first, as relation.create('rows') does, and pass "
            "con.table('rows'), or pass a Boolean column of the held-out rows"
        )

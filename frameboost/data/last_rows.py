"""The last rows by a column of times, ``fit(valid="last 20%", time="day")`` and ``valid="last 4 weeks"``.

A row is held out if its time is at least the first one that follows all but that share of the rows, so rows of one
time stay together, and a row is on the same side each time that it is read. Of the rows of days 1 1 2 3 4 5 5 5 6 6 the
last 20% are those of day 6, and so are the last 40%: day 5 follows half of the rows, not 60% of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import polars as pl

from frameboost.checks.messages import did_you_mean, listed, shown
from frameboost.data.shares import free_name, queries_of, split_by_queries, with_window
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.duckdb_sql import is_missing, literal, physical_sql, quote_identifier
from frameboost.schema.polars_columns import physical_expr
from frameboost.schema.types import FeatureType, Physical

__all__ = ["LastRows"]

_TEXT = re.compile(r"last\s+(\d+(?:\.\d+)?)\s*(%|hours?|days?|weeks?)", re.IGNORECASE)
_HOURS = {"hour": 1, "day": 24, "week": 168}
_PER_HOUR = {"ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}


@dataclass(frozen=True)
class LastRows:
    """Which rows are the last: those of the last times.

    Attributes
    ----------
    text
        What the user wrote, such as ``last 20%``.
    amount
        How many, 20.
    unit
        Of what: ``%``, ``hour``, ``day`` or ``week``.
    """

    text: str
    amount: Fraction
    unit: str

    @classmethod
    def read(cls, text: str) -> LastRows | None:
        """Return what a text means, None if it is something else.

        >>> LastRows.read("last 12.5%").amount, LastRows.read("last 2 weeks").unit, LastRows.read("day > 3")
        (Fraction(25, 2), 'week', None)
        """
        found = _TEXT.fullmatch(text.strip())
        return None if found is None else cls(text, Fraction(found[1]), found[2].lower().rstrip("s"))

    def split(self, source: LocalSource, time: str, group: str | None) -> tuple[LocalSource, LocalSource]:
        """Return the rows before, and the last rows; of ranking the queries that have one of these, as a whole.

        Raises
        ------
        ParameterError
            If the amount is no share, or not one of this column.
        DataError
            If the column is not there, is no time, or has no value in some row; or if no row is held out.
        """
        kind = _kind_of(source, time)
        if self.unit == "%" and not 0 < self.amount < 100:
            raise ParameterError(f"valid={shown(self.text)} must name a share between 0% and 100%")
        length = 0 if self.unit == "%" else self._span(source, time, kind)
        times = _times(source, time, kind, 0 if length else 1 - self.amount / 100)
        if times.n_missing:
            raise DataError(
                f"time column {shown(time)} is NULL or NaN in {times.n_missing:,} rows; give every row its time"
            )
        if times.last is None or times.first is None:
            raise DataError(
                f"valid={shown(self.text)} holds out no row: the last value of time column {shown(time)} is in more "
                "rows than that, and rows of one time stay together; give a larger share"
            )
        return _split_at(source, time, kind, int(times.last) - length + 1 if length else times.first, group)

    def _span(self, source: LocalSource, time: str, kind: FeatureType) -> int:
        """Return the number of physical units of hours, days or weeks."""
        hours = self.amount * _HOURS[self.unit]
        length = hours * _PER_HOUR[kind.unit] if kind.unit else hours / 24
        if kind.family not in ("date", "timestamp", "timestamptz") or length.denominator > 1 or not length:
            raise ParameterError(
                f"valid={shown(self.text)} does not go with time column {shown(time)} of type "
                f"{source.type_names()[time]}; give a share, such as 'last 20%'"
            )
        return int(length)


class _Times(NamedTuple):
    """How many rows have no time, the first time to hold out if a share is, and the last time, in physical form."""

    n_missing: int
    first: Physical | None
    last: Physical | None


def _kind_of(source: LocalSource, time: str) -> FeatureType:
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


def _times(source: LocalSource, time: str, kind: FeatureType, share: Fraction | int) -> _Times:
    """Return the times of a source; the first to hold out is the first that follows at least that share of the rows."""
    share = Fraction(share)
    if isinstance(source, FrameSource):
        times = source.frame.select(physical_expr(time, kind).alias("time"))
        counts = times.group_by("time").len("n").collect()
        known = counts.drop_nulls("time").sort("time").with_columns(before=pl.col("n").cum_sum() - pl.col("n"))
        total = int(counts["n"].sum())
        held = known.filter(pl.col("before") * share.denominator >= total * share.numerator)["time"]
        bounds: tuple[Any, Any] = held.first(), known["time"].last()
        return _Times(total - int(known["n"].sum()), *bounds)
    quoted = quote_identifier(time)
    first = f"MIN({quoted}) FILTER (counted * {share.denominator} >= total * {share.numerator})"
    found = source.relation.project(
        f"{quoted}, rank() OVER (ORDER BY {quoted} ASC) - 1 AS counted, COUNT(*) OVER () AS total"
    ).aggregate(
        f"COUNT(*) FILTER ({is_missing(kind, quoted)}), {physical_sql(kind, first)}, "
        f"{physical_sql(kind, f'MAX({quoted})')}"
    ).fetchall()[0]  # fmt: skip
    return _Times(found[0], _read(kind, found[1]), _read(kind, found[2]))


def _read(kind: FeatureType, value: Any) -> Physical | None:
    """Return a physical value as DuckDB sends it, see `physical_sql`."""
    if value is None or kind.is_float:
        return value  # type: ignore[no-any-return]
    return int(Decimal(value).scaleb(kind.precision_and_scale[1] if kind.precision_and_scale else 0))


def _split_at(
    source: LocalSource, time: str, kind: FeatureType, first: Physical, group: str | None
) -> tuple[LocalSource, LocalSource]:
    """Return the rows before a time, and the others; rows of one query stay together with its last one."""
    if isinstance(source, FrameSource):
        held = physical_expr(time, kind) >= pl.lit(first, kind.physical_dtype)
        if group is not None:
            return split_by_queries(source, group, queries_of(source.map(lambda f: f.filter(held)), group))
        return source.map(lambda f: f.filter(~held)), source.map(lambda f: f.filter(held))
    condition = f"{quote_identifier(time)} >= {literal(kind, first)}"
    if group is None:
        return (source.derived(source.relation.filter(f"NOT ({condition})")),
                source.derived(source.relation.filter(condition)))  # fmt: skip
    place = free_name("held", source.names())
    name, is_held = quote_identifier(place), f"bool_or({condition}) OVER (PARTITION BY {quote_identifier(group)})"
    marked = with_window(source, is_held, place).relation
    parts = (marked.filter(f"{no}{name}").project(f"* EXCLUDE ({name})") for no in ("NOT ", ""))
    training, part = map(source.derived, parts)
    return training, part

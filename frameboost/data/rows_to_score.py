"""Rows to score as they come: all that `open_source` reads, a row as a dict, several as a list, midnights for dates."""

from __future__ import annotations

import datetime as dt
import numbers
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import polars as pl

from frameboost.checks.messages import listed, shown
from frameboost.data.opening import open_source
from frameboost.data.several_files import TableFiles
from frameboost.data.sources import FrameSource, LocalSource, with_types_of_nulls
from frameboost.data.typed_files import open_files_as
from frameboost.errors import DataError
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.schema.polars_columns import column
from frameboost.schema.types import Feature, FeatureType

__all__ = ["open_rows"]

# What one value of a row may be; anything else may be a column of values.
_SCALARS = (str, bool, numbers.Number, Decimal, dt.date, dt.timedelta, dt.time, bytes)


def open_rows(
    data: Any, features: Sequence[Feature], argument: str = "data", *, exactly: bool = False
) -> LocalSource:  # fmt: skip
    """Return rows for a model with these features; ``argument`` is their name in messages.

    A dict is one row, by the names of the columns; a list of dicts is several rows. Where the model was trained on
    dates and the data have times that are all at midnight, as pandas has dates, these are read as dates. A column of a
    file of text has the type of training where its values are of that type (see `typed_files`), and so has a column
    without values, whatever its type; if ``exactly``, not another one of the same family.

    Raises
    ------
    DataError
        As `open_source`; if the rows of a list differ in their columns, or a column has values of several types.

    Examples
    --------
    >>> x = Feature("x", FeatureType("int64"))
    >>> open_rows([{"x": 1, "y": None}, {"x": 2, "y": 0.5}], [x]).frame.collect().rows()
    [(1, None), (2, 0.5)]
    """
    if isinstance(data, Mapping):
        source: LocalSource = _of_dicts([data], features)
    elif isinstance(data, list | tuple) and data and all(isinstance(row, Mapping) for row in data):
        source = _of_dicts(data, features)
    elif (files := TableFiles.of(data)) is not None:
        source = open_files_as(files, {feature.name: feature.type for feature in features}, argument)
    elif isinstance(data, pl.LazyFrame):  # `open_source` looks at its plan, for fits that divide it
        source = FrameSource(data)
    else:
        source = open_source(data, argument)
    source = with_types_of_nulls(source, {feature.name: feature.type for feature in features}, exactly=exactly)
    return _with_dates(source, features)


def _of_dicts(rows: Sequence[Mapping[str, Any]], features: Sequence[Feature]) -> FrameSource:
    types = {feature.name: feature.type for feature in features}
    for number, row in enumerate(rows):
        for name in row:
            if not isinstance(name, str):
                raise DataError(f"a row names a column {shown(name)}; a name is a string")
        if row.keys() != rows[0].keys():
            odd = sorted(row.keys() ^ rows[0].keys())
            raise DataError(
                f"rows 0 and {number:,} have different columns: only one has {listed(odd)}; give None where a value is "
                "missing"
            )
    return FrameSource(pl.LazyFrame([_series(name, [row[name] for row in rows], types.get(name)) for name in rows[0]]))


def _series(name: str, values: list[Any], kind: FeatureType | None) -> pl.Series:
    """Return the values of a column; one without any has the type of training."""
    for value in values:
        if value is not None and not isinstance(value, _SCALARS):
            raise DataError(
                f"column {shown(name)} of a row is {shown(value)}, which is no single value; a dict is one row, of "
                "columns give pl.DataFrame(...)"
            )
    known = [value for value in values if value is not None]
    if not known:
        return pl.Series(name, values, None if kind is None else kind.to_polars())
    try:
        are_numbers = all(isinstance(value, numbers.Number) and not isinstance(value, bool) for value in known)
        return pl.Series(name, values, strict=not are_numbers)  # integers among floats become floats
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        several = sorted({type(value).__name__ for value in known})
        raise DataError(f"column {shown(name)} has values of types {listed(several)}; give them one type") from error


def _with_dates(source: LocalSource, features: Sequence[Feature]) -> LocalSource:
    """Return the source with times as dates where the model has dates, if they are all at midnight."""
    of_dates = [feature.name for feature in features if feature.type.family == "date"]
    given = source.types() if of_dates else {}
    names = [name for name in of_dates if (kind := given.get(name)) and kind.family == "timestamp"]
    for name in names:
        if isinstance(source, FrameSource):
            found = source.frame.select((column(name) != column(name).dt.truncate("1d")).any()).collect().item()
            if not found:
                dates = column(name).cast(pl.Date).alias(name)
                source = source.map(lambda frame, dates=dates: frame.with_columns(dates))  # type: ignore[misc]
            continue
        quoted = quote_identifier(name)
        times = source.relation.filter(f"{quoted} <> date_trunc('day', {quoted})").aggregate("COUNT(*)")
        if not times.fetchall()[0][0]:
            source = source.derived(source.relation.project(f"* REPLACE (CAST({quoted} AS DATE) AS {quoted})"))
    return source

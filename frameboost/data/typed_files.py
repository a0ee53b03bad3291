"""Files of text with the column types of training, where their values alone would tell others.

A file of text has no types of its own: the prices 3, 4, 7 look like integers in one file, the codes 01, 02 like
numbers, and a column without a value like anything. So the types of other data, or of a model, decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from frameboost.data.opening import open_source
from frameboost.data.several_files import TableFiles
from frameboost.data.sources import FrameSource, LocalSource
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType

__all__ = ["open_files_as"]


def open_files_as(files: TableFiles, wanted: Mapping[str, FeatureType | None], argument: str = "data") -> LocalSource:
    """Return the table in files; columns of text have the wanted types where all their values are of these.

    A column whose values are not of the type that is wanted keeps its own, which callers then refuse by name.

    Raises
    ------
    DataError
        As `open_source`.
    """
    files = replace(files, are_typed=True)
    source = open_source(files, argument)
    if not isinstance(source, FrameSource) or source.are_columnar:
        return source
    if types := _types_to_read(source, wanted):
        source = open_source(replace(files, types=types), argument)
        assert isinstance(source, FrameSource)
    casts = _casts(source, wanted)
    return source.map(lambda frame: frame.with_columns(casts)) if casts else source


def _types_to_read(source: FrameSource, wanted: Mapping[str, FeatureType | None]) -> dict[str, pl.DataType]:
    """Return the types to read columns as, whose values look like those of another family."""
    types: dict[str, pl.DataType] = {}
    for name, own in source.frame.collect_schema().items():
        kind = wanted.get(name)
        if kind is None:
            continue
        is_text, is_time = own == pl.String, kind.family in ("timestamp", "timestamptz")
        if (
            own == pl.Null  # a column without values in this file, of NDJSON
            or (kind.name == "string" and not is_text)  # strings that look like numbers in this file
            or (is_text and (is_time or kind.family in ("boolean", "date")))
            or (own == pl.Date and is_time)
        ):
            types[name] = kind.to_polars()
    return types


def _casts(source: FrameSource, wanted: Mapping[str, FeatureType | None]) -> list[pl.Expr]:
    """Return the columns whose numbers or times have another type of the wanted family, as that type."""
    casts = []
    for name, own in source.types().items():
        kind = wanted.get(name)
        if own is None or kind is None or own == kind:
            continue
        if own.name == "string" and kind.family == "number":
            casts += _numbers_in_text(source.frame, name, kind)
        elif own.family == kind.family:
            cast = column(name).cast(kind.to_polars(), strict=False)
            back = cast.cast(own.to_polars(), strict=False)
            if kind.is_float or _holds(source.frame, back.eq_missing(column(name))):
                casts.append(cast)
    return casts


def _numbers_in_text(frame: pl.LazyFrame, name: str, kind: FeatureType) -> list[pl.Expr]:
    """Return a column of text as numbers, such as decimals in NDJSON and a column without values in CSV, if it is."""
    exact, number = (column(name).cast(dtype, strict=False) for dtype in (kind.to_polars(), pl.Float64()))
    if not _holds(frame, number.is_null() == column(name).is_null()):
        return []
    return [exact if _holds(frame, exact.cast(pl.Float64).eq_missing(number)) else number]


def _holds(frame: pl.LazyFrame, condition: pl.Expr) -> bool:
    """Whether a condition holds in every row."""
    return bool(frame.select(condition.all()).collect().item())

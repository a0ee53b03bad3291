"""What data comes in as: a polars frame, anything that speaks Arrow, or a DuckDB relation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from frameboost.errors import DataError
from frameboost.polars_names import column
from frameboost.sql_text import quote_identifier
from frameboost.types import FeatureType

__all__ = ["FrameSource", "RelationSource", "Source", "open_source"]


@dataclass(frozen=True)
class FrameSource:
    """A polars frame, lazy."""

    frame: pl.LazyFrame

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return self.frame.collect_schema().names()

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        return {name: FeatureType.from_polars(dtype) for name, dtype in self.frame.collect_schema().items()}

    def type_names(self) -> dict[str, str]:
        """Return each column's type as the user knows it."""
        return {name: str(dtype) for name, dtype in self.frame.collect_schema().items()}

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Return the columns as a lazy frame."""
        return self.frame.select(column(name) for name in names)


@dataclass(frozen=True)
class RelationSource:
    """A DuckDB relation: a table, a view, a query, files."""

    relation: duckdb.DuckDBPyRelation

    def names(self) -> list[str]:
        """Return the column names, in order."""
        return list(self.relation.columns)

    def types(self) -> dict[str, FeatureType | None]:
        """Return each column's type, None for one that can't be a feature."""
        return {name: FeatureType.from_duckdb(type_) for name, type_ in self.type_names().items()}

    def type_names(self) -> dict[str, str]:
        """Return each column's type as the user knows it."""
        return dict(zip(self.relation.columns, map(str, self.relation.types), strict=True))

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Read the columns into memory; types that polars lacks become those with the same physical values."""
        types = self.types()
        selected, casts = [], []
        for name in names:
            quoted, kind = quote_identifier(name), types[name]
            if kind is not None and kind.family == "duration":
                selected.append(f"epoch_us({quoted}) AS {quoted}")
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.name in ("int128", "uint128"):
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")  # through Arrow it would be a decimal(38,0)
                casts.append(column(name).cast(kind.to_polars()))
            elif kind is not None and kind.is_categorical:
                selected.append(f"CAST({quoted} AS VARCHAR) AS {quoted}")
            else:
                selected.append(quoted)
        frame: pl.DataFrame = self.relation.project(", ".join(selected)).pl()
        return frame.lazy().with_columns(casts)


Source = FrameSource | RelationSource


def open_source(data: Any) -> Source:
    """Return the user's data as a source.

    Raises
    ------
    DataError
        If it is none of the kinds of data that can be read.
    """
    if isinstance(data, pl.LazyFrame):
        return FrameSource(data)
    if isinstance(data, pl.DataFrame):
        return FrameSource(data.lazy())
    if isinstance(data, duckdb.DuckDBPyRelation):
        return RelationSource(data)
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        _refuse_duplicates([str(name) for name in data.columns])
        return FrameSource(pl.from_pandas(data).lazy())
    if hasattr(data, "__arrow_c_stream__"):
        return FrameSource(_from_arrow(data).lazy())
    raise DataError(
        f"data is a {type(data).__name__}; it must be a polars DataFrame or LazyFrame, a DuckDB relation "
        "(such as con.table('flights')), a pandas DataFrame, or a table that speaks the Arrow PyCapsule interface"
    )


def _from_arrow(data: Any) -> pl.DataFrame:
    names = getattr(data, "column_names", None)
    if names is not None:
        _refuse_duplicates(list(names))
    frame = pl.DataFrame(data)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _refuse_duplicates(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise DataError(f"column {name!r} occurs {names.count(name)} times; column names must be unique")

"""A Dask DataFrame as training data: columns are known here, and the workers read the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from frameboost.checks.messages import shown
from frameboost.data.foreign_tables import is_frame_of, no_strings, open_arrow, open_pandas, table_behind
from frameboost.data.sources import FrameSource, distinct_strings, in_order, with_typed_nulls
from frameboost.errors import DataError
from frameboost.schema.types import FeatureType, column

__all__ = ["PartitionReader", "PartitionedSource", "open_dask_frame"]

# From here on not every integer is a float64, so that one may have been rounded.
_FIRST_ROUNDED = 1 << 53


@dataclass(frozen=True)
class PartitionedSource(FrameSource):
    """A Dask DataFrame as a source.

    Its ``frame`` has columns but no rows.

    Attributes
    ----------
    collection
        The Dask DataFrame.
    schema
        The columns of a partition, as polars reads them.
    steps
        The functions passed to `map`, in order, which workers apply to each partition.
    """

    collection: Any = None
    schema: pl.Schema = field(default_factory=pl.Schema)
    steps: tuple[Callable[[pl.LazyFrame], pl.LazyFrame], ...] = ()

    def map(self, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> PartitionedSource:
        """See `FrameSource.map`."""
        return replace(self, frame=function(self.frame), steps=(*self.steps, function))

    def labels(self, name: str, most: int) -> list[str]:
        """See `FrameSource.labels`; the workers compute those of each partition."""
        from dask.base import compute
        from dask.delayed import delayed

        partitions, reader = self.read_by([name])
        parts = compute(*(
            delayed(_labels_of)(replace(reader, first=number), partition, name, most)  # type: ignore[no-untyped-call]
            for number, partition in enumerate(partitions, start=1)
        ))  # fmt: skip
        return in_order((label for part in parts for label in part), self.frame.collect_schema()[name])[:most]

    def to_frame(self, names: Sequence[str]) -> pl.LazyFrame:
        """Raise `DataError`: rows are not read into this process."""
        raise DataError("the rows of a Dask DataFrame are read by its workers; set engine=fb.Dask(client)")

    def read_by(self, names: Sequence[str]) -> tuple[list[Any], PartitionReader]:
        """Return the partitions as delayed objects, and the reader of these columns for workers."""
        original = {str(name): name for name in self.collection.columns}
        to_read = list(self.schema) if self.steps else list(names)
        delayed = self.collection[[original[name] for name in to_read]].to_delayed()
        return list(delayed), PartitionReader({name: self.schema[name] for name in to_read}, self.steps, tuple(names))


@dataclass(frozen=True)
class PartitionReader:
    """Reads pandas partitions as one polars frame.

    Attributes
    ----------
    schema
        The types of the columns.
    steps
        The functions to apply to the frame of each partition.
    names
        The columns to return.
    first
        The number of the first partition, from 1, for messages.
    """

    schema: dict[str, pl.DataType]
    steps: tuple[Callable[[pl.LazyFrame], pl.LazyFrame], ...]
    names: tuple[str, ...]
    first: int = 1

    def read(self, partitions: Sequence[Any]) -> pl.LazyFrame:
        """Return the rows of consecutive partitions.

        Raises
        ------
        DataError
            If a partition lacks a column, or a column's type differs from the Dask DataFrame's metadata.
        """
        frames = []
        for number, partition in enumerate(partitions, start=self.first):
            frame = self._typed(partition, number)
            for step in self.steps:
                frame = step(frame)
            frames.append(FrameSource(frame).to_frame(self.names))
        return pl.concat(frames)

    def _typed(self, partition: Any, number: int) -> pl.LazyFrame:
        """Return a partition as a polars frame with columns of the types in ``schema``."""
        frame = _read(partition, number)
        dtypes, values = frame.schema, []
        for name, dtype in self.schema.items():
            if name not in dtypes:
                raise DataError(f"partition {number} of the Dask DataFrame has no column {shown(name)}")
            if dtypes[name] == dtype or _kind(dtypes[name]) == _kind(dtype):
                values.append(column(name).cast(dtype))
            elif frame[name].null_count() == len(frame):
                values.append(pl.lit(None, dtype).alias(name))
            elif _is_same_number(frame[name], dtype):
                values.append(column(name).cast(dtype))
            else:
                raise DataError(
                    f"column {shown(name)} has type {dtypes[name]} in partition {number} of the Dask DataFrame, which "
                    f"says {dtype}; {_remedy(name)}"
                )
        return frame.lazy().with_columns(values).select(map(column, self.schema))


def _is_same_number(values: pl.Series, dtype: pl.DataType) -> bool:
    """Whether only the numeric type differs: pandas makes floats of integers in a partition with NULL."""
    if not (values.dtype.is_numeric() and dtype.is_numeric()):
        return False
    if values.dtype.is_float() and not values.is_between(-_FIRST_ROUNDED, _FIRST_ROUNDED, closed="none").all():
        return False
    return values.cast(dtype, strict=False).cast(values.dtype, strict=False).eq_missing(values).all()


def _labels_of(reader: PartitionReader, partition: Any, name: str, most: int) -> list[str]:
    return distinct_strings(reader.read([partition]), name, most)


def open_dask_frame(collection: Any) -> PartitionedSource:
    """Return a Dask DataFrame as a source.

    The types are those of the same pandas frame in polars. Dask's metadata determines them except for object columns
    and unknown categories; these columns are computed.

    Raises
    ------
    DataError
        If polars can't read it, or an object column has different types in two partitions.
    """
    schema = _read(collection._meta, None).schema
    dtypes = list(collection.dtypes.items())
    objects = [name for name, dtype in dtypes if str(dtype) == "object" or _is_unknown(dtype)]
    if objects:
        schema = pl.Schema(dict(schema) | _types_of_objects(collection[objects]))
    source = PartitionedSource(pl.LazyFrame(schema=schema), collection=collection, schema=schema)
    return replace(source, categorical=no_strings(source, (str(n) for n, dtype in dtypes if str(dtype) == "category")))


def _is_unknown(dtype: Any) -> bool:
    """Whether this is a categorical type with categories unknown to Dask."""
    return str(dtype) == "category" and list(dtype.categories) == ["__UNKNOWN_CATEGORIES__"]


def _types_of_objects(collection: Any) -> dict[str, pl.DataType]:
    """Return the types of object columns, from partitions with values."""
    from dask.base import compute
    from dask.delayed import delayed

    parts = enumerate(collection.to_delayed(), start=1)
    schemas = compute(*(delayed(_schema_of)(part, number) for number, part in parts))  # type: ignore[no-untyped-call]
    types: dict[str, pl.DataType] = {}
    indices: dict[str, int] = {}
    for number, schema in enumerate(schemas, start=1):
        for name, dtype in schema.items():
            if types.setdefault(name, dtype) != dtype:
                raise DataError(
                    f"column {shown(name)} has type {types[name]} in partition {indices[name]} of the Dask DataFrame "
                    f"and {dtype} in partition {number}; {_remedy(name)}"
                )
            indices.setdefault(name, number)
    return types


def _schema_of(partition: Any, number: int) -> dict[str, pl.DataType]:
    """Return the types of the columns of a partition that are not entirely NULL."""
    frame = _read(partition, number)
    return {name: dtype for name, dtype in frame.schema.items() if frame[name].null_count() < len(frame)}


def _read(partition: Any, number: int | None) -> pl.DataFrame:
    """Return a pandas frame as a polars frame; ``number`` is that of the partition, None for one without rows."""
    try:
        table = table_behind(partition)
        source = with_typed_nulls(open_pandas(table) if is_frame_of("pandas", table) else open_arrow(table))
    except DataError as error:
        what = "the Dask DataFrame" if number is None else f"partition {number} of the Dask DataFrame"
        raise DataError(f"{what} can't be read: {error}") from error
    return source.frame.collect()


def _kind(dtype: pl.DataType) -> object:
    return FeatureType.from_polars(dtype) or dtype


def _remedy(name: str) -> str:
    return f"cast it to one type, such as by ddf.astype({{{shown(name)}: ...}})"

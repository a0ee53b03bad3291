"""The dimensions of a star as facts refer to them: the attributes of each, and the row that each fact has there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.codes import sample_of
from frameboost.engines.memory.star.kernels import count_rows, look_up
from frameboost.joins.star_sources import FACTS, StarFrame, dimension_frame, joined, key_exprs, key_names, needed
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.schema.polars_columns import physical_values
from frameboost.schema.types import Feature

__all__ = ["StarTable", "fact_columns", "open_tables"]

Rows = npt.NDArray[np.uint32]

# A lookup table of integer keys may have so many places for each row of the two tables.
_MAX_PLACES = 4
_ROW = "\0row"


class SampledRows:
    """The rows of the facts that cuts come from, which are found when they are first asked for."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    @cached_property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """Their numbers; None for all."""
        sample = sample_of(self._n_rows)
        return None if sample is None else np.flatnonzero(sample.to_numpy())


@dataclass
class StarTable:
    """A dimension that facts refer to, with the dimensions of its own joined to it.

    Attributes
    ----------
    values
        The physical values of the attributes by feature, one a row of the dimension; and a last row, all missing.
    rows
        The row of each fact, the last one where the key is NULL or unknown.
    sample
        The facts that cuts come from.
    """

    values: Mapping[int, pl.Series]
    rows: Rows
    sample: SampledRows

    @property
    def n_rows(self) -> int:
        """The number of rows, with the last."""
        return len(next(iter(self.values.values())))

    @cached_property
    def references(self) -> npt.NDArray[np.int64]:
        """How many facts refer to each row."""
        return self._counted(None)

    @cached_property
    def sampled_references(self) -> npt.NDArray[np.int64]:
        """How many facts of those that cuts come from refer to each row."""
        sample = self.sample.rows
        return self.references if sample is None else self._counted(sample)

    def _counted(self, of: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        counts = np.zeros(self.n_rows, np.int64)
        count_rows(self.rows, of, counts)
        return counts

    def count_missing(self, feature: int) -> int:
        """Return in how many facts a feature is missing."""
        values = self.values[feature]
        if values.null_count() == 1:  # the last
            return int(self.references[-1])
        return int(self.references[values.is_null().to_numpy()].sum())


def fact_columns(source: StarFrame, features: Sequence[str]) -> list[str]:
    """Return the columns of the facts that are features, or keys of the dimensions that have features."""
    own = source.facts.collect_schema()
    keys = [name for dimension in needed(source.dimensions, features) for name in dimension.left_on]
    return [name for name in dict.fromkeys([*features, *keys]) if name in own]


def open_tables(
    source: StarFrame, features: Sequence[Feature], facts: pl.DataFrame, workers: Workers
) -> list[StarTable]:
    """Return the dimensions that features come from, given the columns of the facts that these need."""
    wanted = needed(source.dimensions, [feature.name for feature in features])
    read = {feature.name for feature in features}.union(*(dimension.left_on for dimension in wanted))
    frames: dict[int, pl.DataFrame] = {}  # the attributes, by the number of the dimension that facts refer to
    rows: dict[int, Rows] = {}
    roots: dict[int | None, int] = {FACTS: FACTS, None: FACTS}  # of each dimension, what facts refer to to find it
    for number, dimension in enumerate(source.dimensions):
        if not any(dimension is each for each in wanted):
            continue
        narrow = replace(dimension, columns={name: own for name, own in dimension.columns.items() if name in read})
        root = roots[dimension.parent]
        if root != FACTS:
            frames[root], roots[number] = joined(frames[root].lazy(), [narrow]).collect(), root
            continue
        own, keys = dimension_frame(narrow).collect(), key_names(dimension)
        refering = _columns(dimension.left_on, facts, frames, rows).select(key_exprs(dimension)).collect()
        rows[number] = _rows_of(refering, own.select(keys), workers)
        frames[number], roots[number] = own.drop(keys), number
    found, sample = [], SampledRows(len(facts))
    for number, frame in frames.items():
        own_features = {i: feature for i, feature in enumerate(features) if feature.name in frame.columns}
        if own_features:
            values = {i: _with_missing(frame[feature.name], feature) for i, feature in own_features.items()}
            found.append(StarTable(values, rows[number], sample))
    return found


def _columns(
    names: Sequence[str], facts: pl.DataFrame, frames: Mapping[int, pl.DataFrame], rows: Mapping[int, Rows]
) -> pl.LazyFrame:
    """Return columns of the facts, and of dimensions that were found before, by fact."""
    found = []
    for name in names:
        if name in facts.columns:
            found.append(facts[name])
            continue
        number = next(number for number, frame in frames.items() if name in frame.columns)
        values = frames[number][name]
        found.append(_with_null(values)[pl.Series(rows[number])])
    return pl.LazyFrame(found)


def _with_missing(values: pl.Series, feature: Feature) -> pl.Series:
    return physical_values(_with_null(values), feature.type)


def _with_null(values: pl.Series) -> pl.Series:
    return pl.concat([values, values.clear(1)])


def _rows_of(keys: pl.DataFrame, own: pl.DataFrame, workers: Workers) -> Rows:
    """Return for each key its row among ``own``, or their number where it is NULL or not among them.

    Columns have the same names and types in both.
    """
    if own.width == 1:
        found = _looked_up(keys.to_series(), own.to_series(), workers)
        if found is not None:
            return found
    numbered = own.with_row_index(_ROW)
    matched = keys.join(numbered, on=own.columns, how="left", maintain_order="left")[_ROW]
    return np.asarray(matched.fill_null(own.height).to_numpy())


def _looked_up(keys: pl.Series, own: pl.Series, workers: Workers) -> Rows | None:
    """Return what `_rows_of` does by a table of the rows by key; None if keys are no integers, or too far apart."""
    physical = own.to_physical()
    known = physical.drop_nulls()
    if physical.dtype not in (pl.Int64, pl.Int32, pl.Int16, pl.Int8) or not len(known):
        return None
    lowest, highest = int(known.min()), int(known.max())  # type: ignore[arg-type]
    if highest - lowest >= _MAX_PLACES * (len(keys) + len(own)):
        return None
    unknown = len(own)
    table = np.full(highest - lowest + 1, unknown, np.uint32)
    table[known.to_numpy().astype(np.int64) - lowest] = np.flatnonzero(physical.is_not_null().to_numpy())
    found = np.empty(len(keys), np.uint32)
    values = keys.to_physical()
    present = values.fill_null(0).to_numpy()

    def write(first: int, last: int) -> None:
        look_up(present[first:last], np.int64(lowest), table, np.uint32(unknown), found[first:last])

    workers.over(len(keys), write, smallest=VALUES_PER_TASK)
    if values.null_count():
        found[values.is_null().to_numpy()] = unknown
    return found

"""The dimensions of a star, and their attributes in bins and codes, once per row of the dimension.

- `open_tables`: the attributes of each dimension, and the dimension row of each fact
- `propose_attribute`, `code_table`: their bins and codes, equal to those of the joined column
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, gaps_by_cells
from frameboost.binning.bins import Bins, gaps_of_distinct
from frameboost.binning.codes import category_values, count_distinct, in_numpy, sample_of, with_one_zero
from frameboost.engines.memory.limits import MAX_KEY_SPREAD, MAX_REFERRED
from frameboost.engines.memory.partition import take_all
from frameboost.joins.star_sources import FACTS, StarFrame, dimension_frame, joined, key_exprs, key_names, needed
from frameboost.runtime.kernel import kernel
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.schema.types import Feature, physical_values
from frameboost.splits.split import IntArray

__all__ = [
    "CodedTable",
    "StarTable",
    "code_table",
    "fact_columns",
    "gaps_of",
    "open_tables",
    "order_by_key",
    "part_keys",
    "propose_attribute",
]


Rows = npt.NDArray[np.uint32]

_ROW = "\0row"


class SampledRows:
    """The rows of the facts that cuts come from, drawn at the first use."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    @cached_property
    def rows(self) -> npt.NDArray[np.int64] | None:
        """Their row numbers; None for all rows."""
        sample = sample_of(self._n_rows)
        return None if sample is None else np.flatnonzero(sample.to_numpy())


@dataclass
class StarTable:
    """A dimension of the facts, joined with the dimensions that it refers to.

    Attributes
    ----------
    values
        The physical values of the attributes by feature, one per row of the dimension, and a last row of missing
        values.
    rows
        The dimension row of each fact; the last one if the key is NULL or unknown.
    sample
        The facts that cuts come from.
    """

    values: Mapping[int, pl.Series]
    rows: Rows
    sample: SampledRows

    @property
    def n_rows(self) -> int:
        """The number of rows, including the last."""
        return len(next(iter(self.values.values())))

    @cached_property
    def references(self) -> npt.NDArray[np.int64]:
        """The number of facts that refer to each row."""
        return self._counted(None)

    @cached_property
    def sampled_references(self) -> npt.NDArray[np.int64]:
        """The number of facts that refer to each row, of those that cuts come from."""
        sample = self.sample.rows
        return self.references if sample is None else self._counted(sample)

    def _counted(self, of: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
        counts = np.zeros(self.n_rows, np.int64)
        count_rows(self.rows, of, counts)
        return counts

    def count_missing(self, feature: int) -> int:
        """Return the number of facts with a missing value of a feature."""
        values = self.values[feature]
        if values.null_count() == 1:  # the last
            return int(self.references[-1])
        return int(self.references[values.is_null().to_numpy()].sum())


def fact_columns(source: StarFrame, features: Sequence[str]) -> list[str]:
    """Return the columns of the facts that are features, or keys of dimensions with features."""
    columns = source.facts.collect_schema()
    keys = [name for dimension in needed(source.dimensions, features) for name in dimension.left_on]
    return [name for name in dict.fromkeys([*features, *keys]) if name in columns]


def open_tables(
    source: StarFrame, features: Sequence[Feature], facts: pl.DataFrame, workers: Workers
) -> list[StarTable]:
    """Return the dimensions with features; ``facts`` has the columns that they need."""
    used = needed(source.dimensions, [feature.name for feature in features])
    read = {feature.name for feature in features}.union(*(dimension.left_on for dimension in used))
    frames: dict[int, pl.DataFrame] = {}  # the attributes, by the number of the dimension that facts refer to
    rows: dict[int, Rows] = {}
    roots: dict[int | None, int] = {FACTS: FACTS, None: FACTS}  # of each dimension, what facts refer to to find it
    for number, dimension in enumerate(source.dimensions):
        if not any(dimension is each for each in used):
            continue
        columns = {name: original for name, original in dimension.columns.items() if name in read}
        narrow = replace(dimension, columns=columns)
        root = roots[dimension.parent]
        if root != FACTS:
            frames[root], roots[number] = joined(frames[root].lazy(), [narrow]).collect(), root
            continue
        keyed_rows, keys = dimension_frame(narrow).collect(), key_names(dimension)
        refering = _columns(dimension.left_on, facts, frames, rows).select(key_exprs(dimension)).collect()
        rows[number] = _rows_of(refering, keyed_rows.select(keys), workers)
        frames[number], roots[number] = keyed_rows.drop(keys), number
    tables, sample = [], SampledRows(len(facts))
    for number, frame in frames.items():
        attributes = {i: feature for i, feature in enumerate(features) if feature.name in frame.columns}
        if attributes:
            values = {i: _with_missing(frame[feature.name], feature) for i, feature in attributes.items()}
            tables.append(StarTable(values, rows[number], sample))
    return tables


def _columns(
    names: Sequence[str], facts: pl.DataFrame, frames: Mapping[int, pl.DataFrame], rows: Mapping[int, Rows]
) -> pl.LazyFrame:
    """Return columns of the facts, and of dimensions that are already joined, by fact."""
    columns = []
    for name in names:
        if name in facts.columns:
            columns.append(facts[name])
            continue
        number = next(number for number, frame in frames.items() if name in frame.columns)
        values = frames[number][name]
        columns.append(_with_null(values)[pl.Series(rows[number])])
    return pl.LazyFrame(columns)


def _with_missing(values: pl.Series, feature: Feature) -> pl.Series:
    return physical_values(_with_null(values), feature.type)


def _with_null(values: pl.Series) -> pl.Series:
    return pl.concat([values, values.clear(1)])


def _rows_of(keys: pl.DataFrame, known: pl.DataFrame, workers: Workers) -> Rows:
    """Return the row of each key among ``known``; their number if the key is NULL or unknown.

    Columns have the same names and types in both.
    """
    if known.width == 1:
        rows = _rows_by_table(keys.to_series(), known.to_series(), workers)
        if rows is not None:
            return rows
    numbered = known.with_row_index(_ROW)
    matched = keys.join(numbered, on=known.columns, how="left", maintain_order="left")[_ROW]
    return np.asarray(matched.fill_null(known.height).to_numpy())


def _rows_by_table(keys: pl.Series, known: pl.Series, workers: Workers) -> Rows | None:
    """Do the work of `_rows_of` by a table of the rows by key; return None if keys are not integers, or too sparse."""
    physical = known.to_physical()
    present_keys = physical.drop_nulls()
    if physical.dtype not in (pl.Int64, pl.Int32, pl.Int16, pl.Int8) or not len(present_keys):
        return None
    lowest, highest = int(present_keys.min()), int(present_keys.max())  # type: ignore[arg-type]
    if highest - lowest >= MAX_KEY_SPREAD * (len(keys) + len(known)):
        return None
    unknown = len(known)
    table = np.full(highest - lowest + 1, unknown, np.uint32)
    table[present_keys.to_numpy().astype(np.int64) - lowest] = np.flatnonzero(physical.is_not_null().to_numpy())
    rows = np.empty(len(keys), np.uint32)
    values = keys.to_physical()
    present = values.fill_null(0).to_numpy()

    def write(first: int, last: int) -> None:
        look_up(present[first:last], np.int64(lowest), table, np.uint32(unknown), rows[first:last])

    workers.over(len(keys), write, smallest=VALUES_PER_TASK)
    if values.null_count():
        rows[values.is_null().to_numpy()] = unknown
    return rows


# --- bins and codes, once a row of the dimension ----------------------------------------------------------------------


_Values = npt.NDArray[Any]


def propose_attribute(feature: Feature, number: int, table: StarTable, max_bin: int) -> Bins:
    """Return the bins of the joined column: values are weighted by the number of facts that refer to them."""
    values = table.values[number]
    missing = table.count_missing(number)
    if feature.type.is_categorical:
        referred = values.filter(pl.Series(table.references > 0))
        categories = tuple(category_values(referred).sort().to_list())
        return Bins(Feature(feature.name, feature.type, categories), has_missing=missing > 0)
    counts = table.sampled_references
    is_seen = (counts > 0) & values.is_not_null().to_numpy()
    seen = in_numpy(values.filter(pl.Series(is_seen)))
    return Bins.of_gaps(feature, gaps_of(seen, counts[is_seen], max_bin - (missing > 0)), has_missing=missing > 0)


def gaps_of(values: _Values, counts: IntArray, max_bin: int) -> _Values:
    """Return the gaps at the cuts of a column, from its values and their counts (see `gaps_of_distinct`)."""
    by_cells = gaps_by_cells(values, counts, max_bin)
    if by_cells is not None:
        return by_cells
    distinct, counts = count_distinct(values, counts)
    return gaps_of_distinct(distinct if distinct.dtype.hasobject else with_one_zero(distinct), counts, max_bin)


# Columns of codes that are compared before all are.
_N_SAMPLED = 1 << 15


class CodedTable:
    """The codes of the attributes of a dimension by key, and the key of each fact.

    Dimension rows without facts have no key, and rows with equal codes in all attributes share one.

    Attributes
    ----------
    counts
        int64 (keys,): the number of facts of each key.

    Parameters
    ----------
    features
        The attributes.
    codes
        (features, keys).
    keys
        uint32 (facts,).
    counts
        Counted by default.
    """

    def __init__(
        self, features: Sequence[int], codes: Codes, keys: npt.NDArray[np.uint32], counts: IntArray | None = None
    ) -> None:
        self.features = list(features)
        self.codes = codes
        self.keys = keys
        self.counts = np.bincount(keys, minlength=self.n_keys) if counts is None else counts

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.codes.shape[1])


def code_table(table: StarTable, bins: Sequence[Bins], most_keys: int, workers: Workers) -> CodedTable:
    """Return the codes of a dimension.

    If more than ``most_keys`` rows have facts, and attributes have more combinations of codes than that, rows are not
    compared: each row is a key, also rows without facts.
    """
    features = list(table.values)
    dtype = np.min_scalar_type(max(bins[i].largest_code for i in features))
    codes: Codes = np.empty((len(features), table.n_rows), dtype)

    def write(index: int) -> None:
        bin_column(bins[features[index]], table.values[features[index]], codes[index])

    workers.each(range(len(features)), write, alone=codes.size < VALUES_PER_TASK)
    referred = np.flatnonzero(table.references)
    if len(referred) > most_keys < prod(bins[i].largest_code + 1 for i in features):
        return CodedTable(features, codes, table.rows, table.references)
    are_all_kept = len(referred) >= MAX_REFERRED * table.n_rows
    selected = slice(None) if are_all_kept else referred
    codes, counts = codes[:, selected], table.references[selected]
    distinct = _distinct(codes)
    if distinct is None and are_all_kept:
        return CodedTable(features, codes, table.rows, counts)
    key_of = np.zeros(table.n_rows, np.uint32)
    if distinct is None:
        key_of[selected] = np.arange(len(counts))
    else:
        firsts, key_of[selected] = distinct
        codes, counts = codes[:, firsts], np.bincount(key_of[selected], counts).astype(np.int64)  # exact: below 2^53
    keys = np.empty_like(table.rows)
    take_all(key_of, table.rows, keys, workers)
    return CodedTable(features, codes, keys, counts)


def part_keys(table: CodedTable, most: int) -> CodedTable:
    """Return the table with keys of more than ``most`` facts divided into several with the same codes.

    For at most 2 facts per key, the keys 0, 1, 0, 0, 0, 0 of facts become 0, 1, 0, 2, 2, 3, and the keys 2 and 3 have
    the codes of key 0.
    """
    frequent = np.flatnonzero(table.counts > most)
    if not len(frequent):
        return table
    keys, sources = table.keys.copy(), list(range(table.n_keys))
    for key in frequent.tolist():
        rows = np.flatnonzero(keys == key)
        parts = np.arange(len(rows)) // most
        keys[rows[most:]] = parts[most:] - 1 + len(sources)
        sources += [key] * int(parts[-1])
    return CodedTable(table.features, np.ascontiguousarray(table.codes[:, sources]), keys)


def _distinct(codes: Codes) -> tuple[IntArray, npt.NDArray[np.uint32]] | None:
    """Return the first occurrence of each distinct column, and the index of every column among the distinct ones.

    Columns are compared by 64-bit hashes. Return None if two different columns have the same hash, or if all columns
    are distinct, or all of a sample: then hardly one in a thousand is equal to another.
    """
    count = codes.shape[1]
    if count > 4 * _N_SAMPLED:
        sampled = [*range(_N_SAMPLED), *range(_N_SAMPLED, count, count // _N_SAMPLED)]  # also equal ones side by side
        if _are_distinct(_mixed(codes[:, sampled])):
            return None
    mixed = _mixed(codes)
    if _are_distinct(mixed):
        return None
    _, firsts, indices = np.unique(mixed, return_index=True, return_inverse=True)
    in_order = np.sort(firsts)  # so that keys are in the order of the rows
    index_of = np.empty(codes.shape[1], np.uint32)
    index_of[in_order] = np.arange(len(firsts))
    numbers = index_of[firsts[indices]]
    return (in_order, numbers) if (codes[:, in_order[numbers]] == codes).all() else None


def _mixed(codes: Codes) -> npt.NDArray[np.uint64]:
    """Return a 64-bit hash of each column."""
    mixed = np.zeros(codes.shape[1], np.uint64)
    for row in codes:
        mixed = (mixed ^ row) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _are_distinct(values: npt.NDArray[np.uint64]) -> bool:
    return pl.Series(values).n_unique() == len(values)  # a tenth of the time of `numpy.unique`


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def look_up(values, lowest, table, unknown, out):  # type: ignore[no-untyped-def]
    """Write the row of each key to ``out`` (uint32): ``table[value - lowest]``, or ``unknown`` outside the table."""
    size = np.uint64(len(table))
    for i in range(len(values)):
        index = np.uint64(np.int64(values[i]) - lowest)  # of a value below, a large number
        out[i] = table[index] if index < size else unknown


@kernel
def count_rows(rows, of, counts):  # type: ignore[no-untyped-def]
    """Add the occurrences of each row in ``rows`` (uint32), or in ``rows[of]`` if not None, to ``counts`` (int64)."""
    if of is None:
        for i in range(np.uint64(0), np.uint64(len(rows))):
            counts[np.uint64(rows[i])] += 1
    else:
        for i in range(np.uint64(0), np.uint64(len(of))):
            counts[np.uint64(rows[np.uint64(of[i])])] += 1


@kernel
def order_by_key(keys, first, last, starts, order):  # type: ignore[no-untyped-def]
    """Write the row numbers of the keys ``first`` to ``last - 1`` to ``order`` (uint32) by ascending key.

    Those of equal keys are in order. ``starts`` (int64) is where the rows of each key start, and is changed.
    """
    n_keys = np.uint32(last - first)
    for row in range(np.uint64(0), np.uint64(len(keys))):
        index = np.uint32(np.uint32(keys[row]) - np.uint32(first))  # of a key below, a large number
        if index < n_keys:
            key = np.uint64(keys[row])
            order[np.uint64(starts[key])] = row
            starts[key] += 1

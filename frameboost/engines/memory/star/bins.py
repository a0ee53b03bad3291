"""Bins and codes of the attributes of a dimension, once a row: they are those of the joined column."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, gaps_by_cells
from frameboost.binning.bins import Bins, gaps_of_distinct
from frameboost.binning.codes import category_values, with_one_zero
from frameboost.binning.value_counts import count_distinct, in_numpy
from frameboost.engines.memory.row_order import take_all
from frameboost.engines.memory.star.tables import StarTable
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import IntArray

_Values = npt.NDArray[Any]

__all__ = ["CodedTable", "code_table", "gaps_of", "part_keys", "propose_attribute"]


def propose_attribute(feature: Feature, number: int, table: StarTable, max_bin: int) -> Bins:
    """Return the bins of the joined column: values count as often as facts refer to them."""
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
    """Return the gaps at the cuts of a column that has each of the values so many times (see `gaps_of_distinct`)."""
    by_cells = gaps_by_cells(values, counts, max_bin)
    if by_cells is not None:
        return by_cells
    distinct, counts = count_distinct(values, counts)
    return gaps_of_distinct(distinct if distinct.dtype.hasobject else with_one_zero(distinct), counts, max_bin)


# Share of the rows of a dimension from which on those that no fact refers to are kept: to leave them out takes a copy.
_MAX_REFERRED = 0.95
# Columns of codes that are looked at before all are compared.
_LOOKED_AT = 1 << 15


class CodedTable:
    """The codes of the attributes of a dimension by key, and the key of each fact.

    Rows to which no fact refers have no key, and rows of equal codes in all attributes have one.

    Attributes
    ----------
    counts
        int64 (keys,): how many facts have each key.

    Parameters
    ----------
    features
        The attributes.
    codes
        (features, keys).
    keys
        uint32 (facts,).
    counts
        By default, they are counted.
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

    Where more than ``most_keys`` rows are referred to, and attributes have more combinations of codes than that, rows
    are not compared: each is a key, also those that no fact refers to.
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
    are_all_kept = len(referred) >= _MAX_REFERRED * table.n_rows
    kept = slice(None) if are_all_kept else referred
    codes, counts = codes[:, kept], table.references[kept]
    distinct = _distinct(codes)
    if distinct is None and are_all_kept:
        return CodedTable(features, codes, table.rows, counts)
    key_of = np.zeros(table.n_rows, np.uint32)
    if distinct is None:
        key_of[kept] = np.arange(len(counts))
    else:
        firsts, key_of[kept] = distinct
        codes, counts = codes[:, firsts], np.bincount(key_of[kept], counts).astype(np.int64)  # exact: below 2^53
    keys = np.empty_like(table.rows)
    take_all(key_of, table.rows, keys, workers)
    return CodedTable(features, codes, keys, counts)


def part_keys(table: CodedTable, most: int) -> CodedTable:
    """Return the table with keys of more than ``most`` facts in several, which have the same codes.

    Of at most 2 facts, the keys 0, 1, 0, 0, 0, 0 of facts become 0, 1, 0, 2, 2, 3, and the codes of the keys 2 and 3
    are those of key 0.
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
    """Return the first column of each distinct one, and for each column which of the distinct ones it is.

    Columns are compared by 64 bits made of them. Should two that differ have the same, all columns are kept apart:
    then, and where all are distinct, return None; also where all of the many that are looked at first are: then hardly
    one in a thousand is equal to another.
    """
    count = codes.shape[1]
    if count > 4 * _LOOKED_AT:
        looked_at = [*range(_LOOKED_AT), *range(_LOOKED_AT, count, count // _LOOKED_AT)]  # also equal ones side by side
        if _are_distinct(_mixed(codes[:, looked_at])):
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
    """Return 64 bits of each column."""
    mixed = np.zeros(codes.shape[1], np.uint64)
    for row in codes:
        mixed = (mixed ^ row) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _are_distinct(values: npt.NDArray[np.uint64]) -> bool:
    return pl.Series(values).n_unique() == len(values)  # a tenth of the time of `numpy.unique`

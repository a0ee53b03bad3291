"""Bins and codes of the attributes of a dimension, once a row: they are those of the joined column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column
from frameboost.binning.bins import Bins, cut_positions
from frameboost.binning.codes import with_one_zero
from frameboost.binning.value_counts import in_numpy
from frameboost.engines.memory.star_tables import StarTable
from frameboost.schema.feature import Feature
from frameboost.splits.split import IntArray

__all__ = ["CodedTable", "code_table", "propose_attribute"]


def propose_attribute(feature: Feature, number: int, table: StarTable, max_bin: int) -> Bins:
    """Return the bins of the joined column: values count as often as facts refer to them."""
    values = table.values[number]
    missing = table.count_missing(number)
    if feature.type.is_categorical:
        referred = values.filter(pl.Series(table.references > 0))
        categories = tuple(referred.drop_nulls().unique().sort().to_list())
        return Bins(Feature(feature.name, feature.type, categories), has_missing=missing > 0)
    counts = table.sampled_references
    is_seen = (counts > 0) & values.is_not_null().to_numpy()
    distinct, counts = _counted(values.filter(pl.Series(is_seen)), counts[is_seen])
    below = np.cumsum(counts) - counts
    chosen = cut_positions(below, int(counts.sum()), max_bin - (missing > 0))
    return Bins(feature, tuple(distinct[chosen].tolist()), has_missing=missing > 0)


def _counted(values: pl.Series, counts: IntArray) -> tuple[npt.NDArray[np.generic], IntArray]:
    """Return the distinct values in ascending order, and the sum of the counts of each."""
    array = in_numpy(values)
    order = np.argsort(array)
    ordered = array[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    totals = np.add.reduceat(counts[order], starts) if len(starts) else np.empty(0, np.int64)
    distinct = ordered[starts]
    return (distinct if distinct.dtype.hasobject else with_one_zero(distinct)), totals


class CodedTable:
    """The codes of the attributes of a dimension by key, and the key of each fact.

    Rows to which no fact refers have no key, and rows of equal codes in all attributes have one.

    Parameters
    ----------
    features
        The attributes.
    codes
        (features, keys).
    keys
        uint32 (facts,).
    """

    def __init__(self, features: Sequence[int], codes: Codes, keys: npt.NDArray[np.uint32]) -> None:
        self.features = list(features)
        self.codes = codes
        self.keys = keys

    @property
    def n_keys(self) -> int:
        """The number of keys."""
        return int(self.codes.shape[1])


def code_table(table: StarTable, bins: Sequence[Bins]) -> CodedTable:
    """Return the codes of a dimension."""
    features = list(table.values)
    dtype = np.min_scalar_type(max(bins[i].largest_code for i in features))
    codes: Codes = np.empty((len(features), table.n_rows), dtype)
    for place, i in enumerate(features):
        bin_column(bins[i], table.values[i], codes[place])
    key_of = np.zeros(table.n_rows, np.uint32)
    referred = np.flatnonzero(table.references)
    firsts, key_of[referred] = _distinct(codes[:, referred])
    return CodedTable(features, np.ascontiguousarray(codes[:, referred[firsts]]), key_of[table.rows])


def _distinct(codes: Codes) -> tuple[IntArray, npt.NDArray[np.uint32]]:
    """Return the first column of each distinct one, and for each column which of the distinct ones it is.

    Columns are compared by 64 bits made of them. Should two that differ have the same, all columns are kept apart.
    """
    mixed = np.zeros(codes.shape[1], np.uint64)
    for row in codes:
        mixed = (mixed ^ row) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    _, firsts, places = np.unique(mixed, return_index=True, return_inverse=True)
    in_order = np.sort(firsts)  # so that keys are in the order of the rows
    place_of = np.empty(codes.shape[1], np.uint32)
    place_of[in_order] = np.arange(len(firsts))
    numbers = place_of[firsts[places]]
    if (codes[:, in_order[numbers]] != codes).any():
        return np.arange(codes.shape[1]), np.arange(codes.shape[1], dtype=np.uint32)
    return in_order, numbers

"""Cuts and codes in memory: columns are cut and coded by threads, one column each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from threading import local

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import (
    Codes,
    RareValues,
    indices_by_type,
    propose_column,
)
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import sample_of
from frameboost.engines.memory.bundled_codes import BundledCodes, find_bundles
from frameboost.engines.memory.dense_codes import DenseCodes
from frameboost.engines.memory.sparse.codes import SparseCodes, StoredCodes
from frameboost.engines.memory.split_tables import SplitColumns
from frameboost.engines.memory.star.codes import KeyedColumns
from frameboost.runtime.storage import returned
from frameboost.runtime.task_sizes import CALLED_ROWS_PER_TASK, CODES_PER_TREE, VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["BinnedColumns", "is_small", "propose_bins"]


def propose_bins(
    features: Sequence[Feature],
    values: Callable[[int], pl.Series],
    n_rows: int,
    max_bin: int,
    given: Mapping[int, Bins],
    workers: Workers,
    rare: Callable[[int], RareValues | None],
    known: Mapping[int, RareValues | None],
) -> list[Bins]:
    """Return the bins of every feature, whose physical values ``values`` gives; those in ``given`` as they are.

    ``rare`` gives the `rare_values` of a feature; ``known`` has those that have been looked for.
    """
    sample = sample_of(n_rows)
    found = dict(given)
    rooms = local()  # each thread's own

    def propose(number: int) -> None:
        if not hasattr(rooms, "own"):
            rooms.own = returned(n_rows)
        rare_ones = rare(number) if sample is None else None
        found[number] = propose_column(features[number], values(number), max_bin, sample, rare_ones, rooms.own)

    wanted = [i for i in range(len(features)) if i not in given]
    for number in wanted:
        own = known.get(number)
        if own is not None and sample is None and len(own.rows) < CALLED_ROWS_PER_TASK:
            propose(number)
    workers.each([i for i in wanted if i not in found], propose, alone=n_rows * len(features) < VALUES_PER_TASK)
    return [found[i] for i in range(len(features))]


class BinnedColumns:
    """The codes of all features, for histograms and for partitions.

    Features are grouped by the type of their codes, so one with many categories makes no other's codes wider. Sparse
    features, bundles of features of few bins, and those of dimensions are apart.

    Attributes
    ----------
    layout
        The slots of the histograms.
    by_row
        For each group its codes, (rows, features of the group), and the first slot of each of its features.
    sparse
        The sparse features, None if there are none.
    bundled
        The codes by row of features of few bins, which are in no group of ``by_row``; None if there are none.
    keyed
        The features of dimensions whose codes are stored by key; None if there are none.
    """

    _dense: list[DenseCodes]

    def __init__(
        self,
        bins: Sequence[Bins],
        n_rows: int,
        common: Mapping[int, int] | None = None,
        room: BinnedColumns | None = None,
        keyed: KeyedColumns | None = None,
    ) -> None:
        """Lay out the codes; ``common`` has the sparse features with the code of most rows (see `find_sparse`).

        The codes take the place of those in ``room`` where they have the same types: fresh memory is slow. Those of
        ``keyed`` are stored by key alone.
        """
        self.layout = SlotLayout(bins)
        self.n_rows = n_rows
        self.keyed = keyed
        elsewhere = {*(common or ()), *(keyed.features if keyed is not None else ())}
        self.sparse = SparseCodes(self.layout, common, n_rows) if common else None
        free = {} if room is None else {group.columns.dtype: group for group in room._dense}
        bundles = find_bundles(bins, n_rows, elsewhere) if keyed is None else []  # records are as narrow
        bundled = [feature for bundle in bundles for feature in bundle]
        self.bundled = BundledCodes(self.layout, bundles, n_rows) if bundles else None
        least = np.uint16 if is_small(n_rows, len(bins)) else np.uint8
        self._dense = [
            # Own codes of one byte are in the records of keys.
            DenseCodes(indices, dtype, n_rows, by_row=keyed is None or dtype != np.uint8, room=free.get(dtype))
            for dtype, indices in indices_by_type(bins, {*elsewhere, *bundled}, least)
        ]
        if bundled:
            self._dense.append(DenseCodes(_indices(bundled, len(bins)), np.uint8, n_rows, by_row=False))
        self.by_row = [
            (group.rows, self.layout.offsets[group.features]) for group in self._dense if group.rows is not None
        ]

    @property
    def columns(self) -> dict[int, Codes]:
        """The codes of each feature that is in a group, or bundled, by its number."""
        groups = [zip(group.features.tolist(), group.columns, strict=True) for group in self._dense]
        return {feature: codes for group in groups for feature, codes in group}

    @cached_property
    def by_column(self) -> SplitColumns:
        """The columns that splits compare, once they are written."""
        sparse = None if self.sparse is None else self.sparse.by_column
        return SplitColumns([], np.diff(self.layout.offsets), self._dense, sparse, self.keyed)

    @property
    def in_one(self) -> tuple[Codes, Codes] | None:
        """The codes of all features in one array by row and one by column, of few rows; None where there is no such."""
        is_one = len(self.by_row) == len(self._dense) == 1 and self.sparse is None and self.keyed is None
        if not is_one or not is_small(self.n_rows, len(self.layout.bins)) or self.by_row[0][0].dtype != np.uint16:
            return None
        return self.by_row[0][0], self._dense[0].columns

    @property
    def are_keyed(self) -> bool:
        """Whether the codes of all features are stored by key, or in records."""
        return self.keyed is not None and not self.by_row and self.sparse is None

    @cached_property
    def additions_per_row(self) -> int:
        """How many sums a row is added to, on average, at least 1, once the codes are written."""
        groups = [codes for codes, _ in self.by_row] + ([] if self.bundled is None else [self.bundled.codes])
        of_sparse = 0 if self.sparse is None else self.sparse.additions_per_row
        of_dense = sum(int(codes.shape[1]) for codes in groups)
        return max(1, of_dense + of_sparse + (0 if self.keyed is None else self.keyed.additions_per_row))

    def fill(self, write: Callable[[int, Bins, Codes], None], workers: Workers, stored: StoredCodes) -> None:
        """Write the codes of all columns: ``write`` those of a feature, ``stored`` is what `SparseCodes.fill` takes."""
        for group in self._dense:
            group.fill(lambda i, codes: write(i, self.layout.bins[i], codes), workers)
        if self.sparse is not None:
            self.sparse.fill(stored, workers)
        self._fill_copies(workers)

    def sort(self, order: npt.NDArray[np.uint32], buffer: FloatArray, workers: Workers) -> None:
        """Put the rows into another order; ``buffer`` has room for a float64 of each, and is written."""
        for group in self._dense:
            group.sort(order, buffer, workers)
        if self.sparse is not None:
            self.sparse.sort(order, workers)
        if self.keyed is not None:
            self.keyed.sort(order)
        self._fill_copies(workers)

    def _fill_copies(self, workers: Workers) -> None:
        """Write the codes of bundles, and the records of keys, by those of their columns."""
        columns = self.columns
        if self.bundled is not None:
            self.bundled.fill(columns, workers)
        if self.keyed is not None:
            self.keyed.forget_records([columns[i] for i in self.keyed.own])


def is_small(n_rows: int, n_features: int) -> bool:
    """Whether a tree is grown in one call: if all codes are in one array, of one type for all data."""
    return n_rows * n_features <= CODES_PER_TREE


def _indices(features: Sequence[int], n_features: int) -> IntArray:
    """Return the place of each feature among some of them, -1 of the others."""
    found = np.full(n_features, -1, np.int64)
    found[features] = range(len(features))
    return found

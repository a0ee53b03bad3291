"""Cuts and codes in memory: columns are cut and coded by threads, one column each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, places_by_type, propose_column
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import sample_of
from frameboost.binning.kernels import interleave
from frameboost.engines.memory.partition_kernels import take_rows
from frameboost.engines.memory.split_tables import SplitColumns
from frameboost.engines.memory.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.splits.split import IntArray

__all__ = ["BinnedColumns", "propose_bins"]


def propose_bins(
    features: Sequence[Feature],
    values: Callable[[int], pl.Series],
    n_rows: int,
    max_bin: int,
    given: Mapping[int, Bins],
    workers: Workers,
) -> list[Bins]:
    """Return the bins of every feature, whose physical values ``values`` gives; those in ``given`` as they are."""
    sample = sample_of(n_rows)
    found = dict(given)

    def propose(number: int) -> None:
        found[number] = propose_column(features[number], values(number), max_bin, sample)

    is_small = n_rows * len(features) < VALUES_PER_TASK
    workers.each([i for i in range(len(features)) if i not in given], propose, alone=is_small)
    return [found[i] for i in range(len(features))]


class BinnedColumns:
    """The codes of all features, twice: by column for partitions, and by row for histograms.

    A partition reads one feature of all rows, a histogram all features of a row. Features
    are grouped by the type of their codes, so one with many categories makes no other's codes wider.

    Attributes
    ----------
    layout
        The slots of the histograms.
    columns
        The codes of each feature, of the smallest unsigned type that holds them.
    by_column
        The groups of columns, (features of the group, rows).
    by_row
        For each group its codes, (rows, features of the group), and the first slot of each of its features.
    """

    def __init__(self, bins: Sequence[Bins], n_rows: int) -> None:
        self.layout = SlotLayout(bins)
        groups: list[tuple[IntArray, Codes]] = [
            (places, np.empty((int(places.max()) + 1, n_rows), dtype)) for dtype, places in places_by_type(bins)
        ]
        self.by_column = SplitColumns(groups, np.diff(self.layout.offsets))
        of_features = zip(*([None if k < 0 else codes[k] for k in places] for places, codes in groups), strict=True)
        self.columns: list[Codes] = [column for own in of_features for column in own if column is not None]
        self.by_row = [
            (np.empty((0, 0), codes.dtype), self.layout.offsets[:-1][places >= 0]) for places, codes in groups
        ]

    def fill(self, values: Callable[[int], pl.Series], workers: Workers) -> None:
        """Write the codes of all columns, given each feature's physical values."""

        def bin_(i: int) -> None:
            bin_column(self.layout.bins[i], values(i), self.columns[i])

        is_small = sum(len(column) for column in self.columns) < VALUES_PER_TASK
        workers.each(range(len(self.columns)), bin_, alone=is_small)
        self.interleave(workers)

    def sort(self, order: npt.NDArray[np.uint32], workers: Workers) -> None:
        """Put the rows into another order."""
        workers.each(self.columns, lambda column: _sort_column(column, order))
        self.interleave(workers)

    def interleave(self, workers: Workers) -> None:
        """Write the codes by row, once the columns are written."""
        for k, ((_, columns), (codes, slots)) in enumerate(zip(self.by_column.groups, self.by_row, strict=True)):
            if codes.shape != columns.shape[::-1]:
                codes = np.empty(columns.shape[::-1], columns.dtype)
                self.by_row[k] = codes, slots
            workers.over(columns.shape[1], partial(interleave, columns, codes, 0), smallest=VALUES_PER_TASK)


def _sort_column(column: Codes, order: npt.NDArray[np.uint32]) -> None:
    in_order = np.empty_like(column)
    take_rows(column, order, in_order)
    column[:] = in_order

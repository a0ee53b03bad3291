"""Binned columns by row only, so that a pass over the rows reads each code once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, indices_by_type
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.kernels import interleave
from frameboost.engines.external_memory.blocks import blocks
from frameboost.engines.memory.split_tables import SplitColumns
from frameboost.runtime.storage import Storage
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import IntArray

__all__ = ["CodesByRow"]


class CodesByRow:
    """The codes of all features, in an array for each type of codes.

    Attributes
    ----------
    groups
        For each type its codes, (rows, features of the type), and the first slot of each of these features.
    columns
        What splits compare.
    """

    def __init__(self, bins: Sequence[Bins], n_rows: int, storage: Storage) -> None:
        self._bins = bins
        self._storage = storage
        layout = SlotLayout(bins)
        self.groups: list[tuple[Codes, IntArray]] = []
        by_column = []
        for dtype, indices in indices_by_type(bins):
            codes = storage.empty((n_rows, int(indices.max()) + 1), dtype)
            self.groups.append((codes, layout.offsets[:-1][indices >= 0]))
            by_column.append((indices, codes.T))
        self.columns = SplitColumns(by_column, np.diff(layout.offsets))

    def fill(self, values: Callable[[int], pl.Series], workers: Workers) -> None:
        """Write the codes of all columns, given each feature's physical values.

        As many columns as there is room for are binned side by side, in memory, and then written by row. One at a time,
        they would write each page as often as there are columns.
        """
        for (indices, _), (codes, _) in zip(self.columns.groups, self.groups, strict=True):
            features = np.flatnonzero(indices >= 0).tolist()
            n_rows, at_once = len(codes), max(1, self._storage.room // max(1, len(codes) * codes.itemsize))
            for at in range(0, len(features), at_once):
                own = features[at : at + at_once]
                columns = np.empty((len(own), n_rows), codes.dtype)
                workers.each(range(len(own)), partial(self._bin, own, columns, values))
                for block in blocks(0, n_rows):
                    part = columns[:, block.start : block.stop], codes[block.start : block.stop]
                    workers.over(block.stop - block.start, partial(interleave, *part, at), smallest=VALUES_PER_TASK)
                    self._storage.release_pages()

    def _bin(self, features: Sequence[int], columns: Codes, values: Callable[[int], pl.Series], index: int) -> None:
        bin_column(self._bins[features[index]], values(features[index]), columns[index])

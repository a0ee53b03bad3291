"""Codes of sparse features by row: of each row those that differ from the code of most rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import SAMPLE_SIZE, Codes, RareValues, bin_array, bin_column
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.memory.sparse.columns import RowNumbers, SparseColumns
from frameboost.engines.memory.sparse.exclusive_bundles import ExclusiveBundles, bundle_exclusive
from frameboost.engines.memory.sparse.kernels import gather_entries, write_entries
from frameboost.runtime.task_sizes import CALLED_ROWS_PER_TASK, VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import IntArray

__all__ = ["MAX_ENTRIES", "SparseCodes", "StoredCodes", "coded", "find_sparse"]

# Some rows, ascending, None for all; and the codes of a feature in them.
StoredCodes = Callable[[int, Bins], tuple[RowNumbers | None, Codes]]

# A column is sparse if at most this share of the rows has another code than the most frequent one. To add an entry
# takes two to three times as long as to add a code of a dense column, and it takes 8 bytes in place of 2.
MAX_ENTRIES = 0.25
# The share of the rows with one number of entries from which a loop over them is mostly predicted; and entries of a row
# from which its end does not matter.
_ALIKE, _FEW_ENTRIES = 0.9, 16
# Fewer sparse columns, or values, are not worth finding the entries of each row.
_MIN_COLUMNS = 8
_MIN_VALUES = 1 << 17
# With fewer entries in a row, or fewer rows, bundles are not looked for.
_MIN_BUNDLED, _MIN_ROWS = 8, 1 << 15


def find_sparse(
    bins: Sequence[Bins],
    values: Callable[[int], pl.Series],
    n_rows: int,
    workers: Workers,
    rare: Callable[[int], RareValues | None],
) -> dict[int, int]:
    """Return the sparse features, each with the code of most of its rows.

    That is the code of its most frequent value, if three quarters of the rows have that (see `rare_values`); else it is
    found by some rows, evenly spaced.
    """
    if n_rows * len(bins) < _MIN_VALUES or len(bins) < _MIN_COLUMNS:
        return {}
    step = max(1, n_rows // SAMPLE_SIZE)

    def most_frequent(feature: int) -> int:
        found = rare(feature)
        if found is not None and len(found.rows) <= MAX_ENTRIES * n_rows:
            of_common: Codes = np.empty(1, np.uint32)
            bin_array(bins[feature], np.array([found.common]), of_common)
            return int(of_common[0])
        counts = np.bincount(coded(bins[feature], values(feature).gather_every(step)))
        code = int(counts.argmax())
        return code if counts[code] >= (1 - MAX_ENTRIES) * counts.sum() else -1

    codes = workers.each(range(len(bins)), most_frequent, alone=n_rows < CALLED_ROWS_PER_TASK)
    found = {i: code for i, code in enumerate(codes) if code >= 0}
    return found if len(found) >= _MIN_COLUMNS else {}


class SparseCodes:
    """The entries of all sparse features, in compressed sparse rows.

    An entry is a slot of the histogram: that of a code of a feature. The code of most rows has none; its sum is that of
    all rows without those of the feature's other slots, which is exact (see `frameboost.expressions.grid`).

    Say the features 1 and 3 own the slots 3 to 5 and 9 to 11, and most rows have the codes 0 and 2. Four rows of the
    codes (0, 2), (1, 2), (0, 2), (2, 0) have ``starts`` 0, 0, 1, 1, 3 and the entries 4, 5, 9.

    Parameters
    ----------
    layout
        The slots.
    common
        The sparse features, each with the code of most of its rows.
    n_rows
        The number of rows.

    Attributes
    ----------
    features
        int64 (sparse features,), ascending.
    firsts, stops
        int64 (sparse features,): the slots that each owns.
    common
        int64 (sparse features,): the slot of the code of most rows.
    starts
        uint32 or uint64 (rows + 1,): the first entry of each row.
    entries
        uint16 or uint32 (entries,): ascending in each row.
    steps
        unsigned (entries,): how many rows the entry's row comes after that of the entry before, or after row 0. In the
        example: 1, 2, 0. None where a loop over each row's entries is faster than one over all: most rows have as many
        as the others, as one-hot columns have, or rows have many.
    bundles
        The same codes as bundles, where rows have many entries and these are of features that exclude each other, as
        one-hot columns do; there are no ``starts``, ``entries`` and ``steps`` then. None elsewhere.
    by_column
        The same codes by column.
    """

    steps: npt.NDArray[np.unsignedinteger] | None
    starts: npt.NDArray[np.unsignedinteger]
    entries: npt.NDArray[np.unsignedinteger]
    bundles: ExclusiveBundles | None = None
    by_column: SparseColumns

    def __init__(self, layout: SlotLayout, common: Mapping[int, int], n_rows: int) -> None:
        self.features: IntArray = np.array(list(common), dtype=np.int64)
        self.firsts, self.stops = layout.offsets[self.features], layout.offsets[self.features + 1]
        self.common = self.firsts + np.array(list(common.values()), dtype=np.int64)
        self._layout = layout
        self._n_rows = n_rows

    @property
    def additions_per_row(self) -> int:
        """How many entries a row has, on average, or codes of bundles."""
        if self.bundles is not None:
            return int(self.bundles.codes.shape[1])
        return len(self.entries) // max(1, self._n_rows)

    def fill(self, stored: StoredCodes, workers: Workers) -> None:
        """Write the entries, given the codes of each feature in all rows that have an entry, and maybe in others."""
        common = self.common - self.firsts

        def entries_of(index: int) -> tuple[RowNumbers, Codes]:
            feature = int(self.features[index])
            rows, codes = stored(feature, self._layout.bins[feature])
            differs = codes != common[index]
            if rows is not None and differs.all():
                return rows, codes
            differs = np.flatnonzero(differs)
            return (differs.astype(np.uint32) if rows is None else rows[differs]), codes[differs]

        columns = workers.each(range(len(self.features)), entries_of, alone=self._n_rows < 4 * CALLED_ROWS_PER_TASK)
        self.by_column = SparseColumns(self.features, common, columns, len(self._layout.bins), self._n_rows)
        per_row = sum(len(rows) for rows, _ in columns) // max(1, self._n_rows)
        if per_row >= _MIN_BUNDLED and self._n_rows >= _MIN_ROWS:
            most = per_row * 3 // 4
            slots = self.firsts, self.stops, self.common
            self.bundles = bundle_exclusive(columns, *slots, self._n_rows, most, workers)
            if self.bundles is not None:
                return
        counts = np.zeros(self._n_rows, np.uint32)
        for rows, _ in columns:
            counts[rows] += np.uint32(1)
        self._start(counts)
        self.entries = np.empty(int(self.starts[-1]), np.uint16 if self._layout.n_slots <= 1 << 16 else np.uint32)
        workers.over(self._n_rows, self._write, smallest=2 * CALLED_ROWS_PER_TASK)

    def _write(self, first: int, last: int) -> None:
        """Write the entries of the rows ``first`` to ``last - 1``."""
        free = self.starts[first:last].copy()
        for slot, (rows, codes) in zip(self.firsts.tolist(), self.by_column.columns, strict=True):
            start, stop = np.searchsorted(rows, [first, last])
            write_entries(rows[start:stop], codes[start:stop], slot, first, free, self.entries)

    def sort(self, order: RowNumbers, workers: Workers) -> None:
        """Put the rows into another order."""
        self.by_column.sort(order)
        if self.bundles is not None:
            self.bundles.sort(order)
            return
        starts, entries = self.starts, self.entries
        self._start((starts[1:] - starts[:-1])[order])
        self.entries = np.empty_like(entries)
        gather = partial(gather_entries, starts, entries, order, self.starts, self.entries)
        workers.over(len(order), gather, smallest=VALUES_PER_TASK)

    def _start(self, counts: npt.NDArray[np.unsignedinteger]) -> None:
        """Set `starts` and `steps`, given the number of entries of each row."""
        ends = np.cumsum(counts, dtype=np.uint64)
        n_entries = int(counts.sum(dtype=np.uint64))
        rows_of_count = np.bincount(counts.astype(np.uint32, copy=False), minlength=1)  # not of uint64
        most = int(rows_of_count.argmax())
        are_alike = most > 0 and rows_of_count[most] >= _ALIKE * len(counts)
        self.steps = None
        if not are_alike and n_entries < _FEW_ENTRIES * len(counts):
            rows = np.flatnonzero(counts)
            steps = np.diff(rows, prepend=0)
            self.steps = np.zeros(n_entries, np.min_scalar_type(steps.max(initial=0)))
            self.steps[(ends - counts)[rows]] = steps
        is_small = len(ends) == 0 or ends[-1] < 1 << 32
        self.starts = np.append(np.zeros(1, np.uint64), ends).astype(np.uint32 if is_small else np.uint64)


def coded(bins: Bins, values: pl.Series) -> Codes:
    """Return the codes of a column of physical values."""
    codes: Codes = np.empty(len(values), np.min_scalar_type(bins.largest_code))
    bin_column(bins, values, codes)
    return codes

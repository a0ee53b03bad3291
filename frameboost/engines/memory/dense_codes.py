"""The codes of features most of whose rows differ: by row for histograms, and of few rows by column too.

A histogram reads all codes of a row, a partition one code of each row. By row, three features of four rows lie in
memory as a0 b0 c0, a1 b1 c1, ..., by column as a0 a1 a2 a3, b0 ... A partition that steps over the codes of each row
reads more bytes, but not more cache lines where the rows of a node are scattered, as from the third level on. A copy by
column of all codes would be half of the memory, so large data has one only of what the first levels are split on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import MAX_IN_NUMPY, Codes
from frameboost.binning.kernels import interleave, take_codes
from frameboost.engines.memory.partition_kernels import take_rows
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["DenseCodes", "WriteCodes"]

# Writes the codes of a feature to an array of its own.
WriteCodes = Callable[[int, Codes], None]

# Bytes of codes up to which there is a copy by column.
MAX_TWICE = 1 << 24
# Of larger data columns are copied that nodes of many rows are split on: those of steps of so few splits, until one
# column in six is.
_FIRST_SPLITS, _COPIED = 4, 6
# Features whose columns are written at once.
_WIDTH = 8


class DenseCodes:
    """The codes of some features, all of one type.

    Attributes
    ----------
    indices
        int64 (all features,): the place of each of these features among them, -1 of the others.
    features
        int64: their numbers.
    columns
        (features, rows): the codes by column; a view of ``rows`` where there is no copy.
    rows
        (rows, features): the codes by row; None if nobody reads them so.

    Parameters
    ----------
    indices
        See above.
    dtype
        The type.
    n_rows
        The number of rows.
    by_row
        Whether there are codes by row.
    room
        Codes whose memory to take if it has the same shape: fresh memory is slow.
    """

    columns: Codes
    rows: Codes | None
    _copies: Codes  # (copied features, rows)
    _copied: IntArray  # the place among them of each feature, -1 of others; last, of a split on none of these features

    def __init__(
        self,
        indices: IntArray,
        dtype: npt.DTypeLike,
        n_rows: int,
        *,
        by_row: bool = True,
        room: DenseCodes | None = None,
    ) -> None:
        self.indices = indices
        self.features = np.flatnonzero(indices >= 0)
        shape = len(self.features), n_rows
        is_alike = room is not None and (room.columns.shape, room.columns.dtype) == (shape, dtype)
        if room is not None and is_alike and (room.rows is not None) == by_row:
            self.columns, self.rows = room.columns, room.rows
        else:
            self.rows = np.empty(shape[::-1], dtype) if by_row else None
            has_copy = self.rows is None or self.rows.nbytes <= MAX_TWICE
            self.columns = np.empty(shape, dtype) if self.rows is None or has_copy else self.rows.T
        self._forget_copies()

    @property
    def has_columns(self) -> bool:
        """Whether the columns have memory of their own."""
        return self.columns.base is None

    def fill(self, write: WriteCodes, workers: Workers) -> None:
        """Write all codes; ``write`` writes those of a feature to a column."""
        columns, width = self.columns, len(self.features)
        if not self.has_columns:
            width = min(width, max(_WIDTH, workers.n_jobs))
            columns = np.empty((width, columns.shape[1]), columns.dtype)
        for first in range(0, len(self.features), width):
            numbers = self.features[first : first + width].tolist()
            columns = columns[: len(numbers)]
            alone = columns.size < VALUES_PER_TASK
            workers.each(list(zip(numbers, columns, strict=True)), lambda each: write(*each), alone=alone)
            if self.rows is not None:
                self._interleave(columns, first, workers)

    def _interleave(self, columns: Codes, at: int, workers: Workers) -> None:
        assert self.rows is not None
        if len(self.rows) <= MAX_IN_NUMPY:
            self.rows[:, at : at + len(columns)] = columns.T
            return
        workers.over(len(self.rows), partial(interleave, columns, self.rows, at), smallest=VALUES_PER_TASK)

    def sort(self, order: npt.NDArray[np.uint32], buffer: FloatArray, workers: Workers) -> None:
        """Put the rows into another order; ``buffer`` has room for a float64 of each, and is written."""
        if self.has_columns:
            workers.each(list(self.columns), lambda column: _sort_column(column, order))
            if self.rows is not None:
                self._interleave(self.columns, 0, workers)
            return
        rows = self.rows
        assert rows is not None
        room = buffer.view(rows.dtype)
        width = len(room) // len(rows)
        for at in range(0, rows.shape[1], width):
            own = rows[:, at : at + width]
            in_order = room[: own.size].reshape(own.shape)
            take = partial(take_codes, rows, order, at, in_order)
            workers.over(len(rows), take, smallest=VALUES_PER_TASK)
            workers.over(len(rows), partial(_put, own, in_order), smallest=VALUES_PER_TASK)
        self._forget_copies()

    # --- what splits compare ------------------------------------------------------------------------------------------

    def compared(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield columns, and which of them each split compares (-1 for none), for splits on some features."""
        indices = self.indices[features]
        if self.has_columns:
            yield self.columns, indices
            return
        if len(features) <= _FIRST_SPLITS:
            self._copy(set(indices[indices >= 0].tolist()))
        copied = self._copied[indices]
        yield self._copies, copied
        yield self.columns, np.where(copied < 0, indices, -1)

    def _copy(self, indices: set[int]) -> None:
        """Copy the columns of some features, as long as there is room."""
        for index in indices:
            at = int(self._copied.max()) + 1
            if self._copied[index] < 0 and at < len(self._copies):
                self._copies[at] = self.columns[index]
                self._copied[index] = at

    def _forget_copies(self) -> None:
        n_features, n_rows = self.columns.shape
        self._copies = np.empty((-(-n_features // _COPIED), n_rows), self.columns.dtype)
        self._copied = np.full(n_features + 1, -1)


def _put(rows: Codes, values: Codes, first: int, last: int) -> None:
    rows[first:last] = values[first:last]


def _sort_column(column: Codes, order: npt.NDArray[np.uint32]) -> None:
    in_order = np.empty_like(column)
    take_rows(column, order, in_order)
    column[:] = in_order

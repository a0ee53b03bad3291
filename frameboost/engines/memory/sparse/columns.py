"""Sparse columns: the rows whose code differs from that of most rows; dense columns are made where splits need them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.splits.split import IntArray

__all__ = ["RowNumbers", "SparseColumns"]

RowNumbers = npt.NDArray[np.uint32]

# Bytes of dense columns, and their number where that many bytes are fewer columns.
_BYTES = 1 << 26
_MIN_COLUMNS = 32


class SparseColumns:
    """The codes of sparse columns, in compressed sparse columns.

    A split of a sparse column is that of a dense one, which is written when a split needs it and kept for later splits,
    as many columns as there is room for; those that have not been used for longest make room for others.

    Say the column of code 2 in most rows has the rows 1 and 4 with the codes 0 and 3. The dense column of five rows is
    2, 0, 2, 2, 3.

    Parameters
    ----------
    features
        int64 (columns,): the feature of each column, ascending.
    common
        int64 (columns,): the code of most of its rows.
    columns
        For each column the rows of other codes, uint32, and these codes, (rows,).
    n_features, n_rows
        The number of all features, and of rows.
    """

    def __init__(
        self,
        features: IntArray,
        common: IntArray,
        columns: Sequence[tuple[RowNumbers, Codes]],
        n_features: int,
        n_rows: int,
    ) -> None:
        self.columns = list(columns)
        self._common = common
        self._index_of = np.full(n_features, -1, dtype=np.int64)  # feature -> its column
        self._index_of[features] = range(len(features))
        dtype = np.result_type(np.uint8, *(codes.dtype for _, codes in columns), *map(np.min_scalar_type, common))
        room = min(len(columns), max(_MIN_COLUMNS, _BYTES // max(1, n_rows * dtype.itemsize)))
        self._dense: Codes = np.empty((room, n_rows), dtype)
        self._kept: dict[int, int] = {}  # column -> its place in `_dense`; used last comes last

    def sort(self, order: RowNumbers) -> None:
        """Put the rows into another order."""
        index = np.empty_like(order)
        index[order] = np.arange(len(order), dtype=order.dtype)
        self.columns = [(index[rows], codes) for rows, codes in self.columns]
        self._kept.clear()

    def dense(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield dense columns until each of the ``features`` that is sparse was among them.

        With the columns, (columns, rows), comes the place of each feature among them, -1 of those that are not. The
        array is written again afterwards.
        """
        wanted = self._index_of[features].tolist()
        distinct = sorted({column for column in wanted if column >= 0})
        for start in range(0, len(distinct), len(self._dense)):
            at_once = distinct[start : start + len(self._dense)]
            self._keep(at_once)
            indices = {column: self._kept[column] for column in at_once}
            yield self._dense, np.array([indices.get(column, -1) for column in wanted], np.int64)

    def _keep(self, wanted: Sequence[int]) -> None:
        """Make these columns dense."""
        for column in wanted:
            if column in self._kept:
                self._kept[column] = self._kept.pop(column)
        for column in wanted:
            if column in self._kept:
                continue
            is_full = len(self._kept) == len(self._dense)
            index = self._kept.pop(next(iter(self._kept))) if is_full else len(self._kept)
            rows, codes = self.columns[column]
            self._dense[index] = self._common[column]
            self._dense[index, rows] = codes
            self._kept[column] = index

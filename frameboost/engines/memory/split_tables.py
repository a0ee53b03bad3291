"""Splits of several nodes as tables for kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.dense_codes import DenseCodes
from frameboost.engines.memory.partition_kernels import fill_sides
from frameboost.engines.memory.piece_arrays import sides_of
from frameboost.engines.memory.sparse.columns import SparseColumns
from frameboost.engines.memory.star.codes import KeyedColumns
from frameboost.runtime.workers import Pieces
from frameboost.splits.split import BoolArray, IntArray, Split

__all__ = ["SplitColumns", "SplitTables"]


@dataclass(frozen=True)
class SplitColumns:
    """The columns of codes, or ranks, that splits compare.

    Attributes
    ----------
    groups
        For each type of codes: int64 (features,), the place of each feature's column among them, -1 if it is of another
        type; and the columns, (columns, rows).
    dense
        The same, by groups that choose columns.
    n_codes
        int64 (features,): the number of codes of each feature. The last is that of a missing value.
    sparse
        Columns that are in no group, because few of their codes are stored.
    keyed
        Columns that are in no group, because their codes are stored by key.
    """

    groups: Sequence[tuple[IntArray, Codes]]
    n_codes: IntArray
    dense: Sequence[DenseCodes] = ()
    sparse: SparseColumns | None = None
    keyed: KeyedColumns | None = None


class SplitTables:
    """Splits of several nodes as tables for kernels.

    Attributes
    ----------
    nodes, children
        The nodes, and int64 (nodes, 2): the left and the right child of each.
    goes_left, starts
        Whether each code goes left, one split after the other, and where each split's codes start. Of columns that are
        stored by key, whether each key does.

    Parameters
    ----------
    splits
        Of each node, with its left and right child.
    columns
        The columns that are compared.
    in_numpy
        Whether to write the tables by numpy, in place of a kernel that would have to be compiled.
    """

    def __init__(
        self, splits: Mapping[int, tuple[Split, int, int]], columns: SplitColumns, *, in_numpy: bool = False
    ) -> None:
        self.nodes = list(splits)
        self.children: Pieces = np.array([(left, right) for _, left, right in splits.values()])
        chosen = [split for split, _, _ in splits.values()]
        features = np.array([split.feature for split in chosen])
        n_codes = columns.n_codes[features]
        missing_left = np.array([split.missing_left for split in chosen])
        numeric = np.array([split.bin for split in chosen]), missing_left, n_codes
        sides: tuple[BoolArray, IntArray] = sides_of(*numeric) if in_numpy else fill_sides(*numeric)
        self.goes_left, self.starts = sides
        for split, start, n in zip(chosen, self.starts.tolist(), n_codes.tolist(), strict=False):
            if split.categories is not None:
                self.goes_left[start : start + n] = split.goes_left(n)
        if columns.keyed is not None:
            self.goes_left, self.starts = columns.keyed.sides_of_keys(features, self.goes_left, self.starts)
        self._features, self._columns = features, columns

    def columns(self) -> Iterator[tuple[Codes, IntArray]]:
        """Yield columns, and which of them each split compares (-1 for none), until each split had its column."""
        for indices, codes in self._columns.groups:
            yield codes, indices[self._features]
        for group in self._columns.dense:
            yield from group.compared(self._features)
        if self._columns.sparse is not None:
            yield from self._columns.sparse.dense(self._features)
        if self._columns.keyed is not None:
            yield from self._columns.keyed.columns(self._features)

"""The last splits of a tree that was grown in one call: they move no rows until some are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.tree_kernels import FEATURE, LEFT, TABLE
from frameboost.engines.memory.walk_kernels import add_grown_leaves
from frameboost.runtime.workers import Pieces
from frameboost.splits.split import BoolArray, FloatArray, IntArray

__all__ = ["GrownSplits"]


@dataclass(frozen=True)
class GrownSplits:
    """The splits, with what `frameboost.engines.memory.split_tables.SplitTables` has of splits.

    Attributes
    ----------
    pieces, n_parted
        int64 (pieces, 3): the node, start and stop of ``n_parted`` ranges of leaves, then of the nodes that are split.
    fields, goes_left
        The nodes of the tree and the tables of its splits, as `grow_tree` leaves them.
    codes
        uint16 (features, rows).
    """

    pieces: Pieces
    n_parted: int
    fields: IntArray
    goes_left: BoolArray
    codes: Codes

    @property
    def nodes(self) -> Sequence[int]:
        """The nodes that are split."""
        return list(map(int, self.pieces[self.n_parted :, 0]))

    @property
    def children(self) -> Pieces:
        """int64 (nodes, 2): the left and the right child of each."""
        return np.stack([self._fields_of_nodes(LEFT), self._fields_of_nodes(LEFT) + 1], axis=1)

    @property
    def starts(self) -> IntArray:
        """int64 (nodes,): where the table of each starts in ``goes_left``."""
        return self._fields_of_nodes(TABLE)

    def columns(self) -> Iterator[tuple[Codes, IntArray]]:
        """Yield the columns, and which of them each split compares."""
        yield self.codes, self._fields_of_nodes(FEATURE)

    def _fields_of_nodes(self, field: int) -> IntArray:
        of_nodes: IntArray = self.fields[self.pieces[self.n_parted :, 0], field]
        return of_nodes

    def add_values(self, values: FloatArray, rows: npt.NDArray[np.uint32], margins: FloatArray) -> None:
        """Add ``values``, float64 (nodes of the tree,), of leaves to the margins of their rows."""
        add_grown_leaves(self.codes, self.fields, self.goes_left, rows, self.pieces, self.n_parted, values, margins)

"""Splits of several nodes as tables for kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.partition_kernels import fill_sides
from frameboost.runtime.workers import Pieces
from frameboost.splits.split import IntArray, Split

__all__ = ["SplitColumns", "SplitTables"]


@dataclass(frozen=True)
class SplitColumns:
    """The columns of codes, or ranks, that splits compare.

    Attributes
    ----------
    groups
        For each type of codes: int64 (features,), the place of each feature's column among them, -1 if it is of another
        type; and the columns, (columns, rows).
    n_codes
        int64 (features,): the number of codes of each feature. The last is that of a missing value.
    """

    groups: Sequence[tuple[IntArray, Codes]]
    n_codes: IntArray


class SplitTables:
    """Splits of several nodes as tables for kernels.

    Attributes
    ----------
    nodes, children
        The nodes, and int64 (nodes, 2): the left and the right child of each.
    goes_left, starts
        Whether each code goes left, one split after the other, and where each split's codes start.
    columns
        For each type of codes: the columns, and the one that each split compares (-1 for a column of another type).
    """

    def __init__(self, splits: Mapping[int, tuple[Split, int, int]], columns: SplitColumns) -> None:
        self.nodes = list(splits)
        self.children: Pieces = np.array([(left, right) for _, left, right in splits.values()])
        chosen = [split for split, _, _ in splits.values()]
        features = np.array([split.feature for split in chosen])
        n_codes = columns.n_codes[features]
        missing_left = np.array([split.missing_left for split in chosen])
        self.goes_left, self.starts = fill_sides(np.array([split.bin for split in chosen]), missing_left, n_codes)
        for split, start, n in zip(chosen, self.starts.tolist(), n_codes.tolist(), strict=False):
            if split.categories is not None:
                self.goes_left[start : start + n] = split.goes_left(n)
        self.columns = [(codes, places[features]) for places, codes in columns.groups]

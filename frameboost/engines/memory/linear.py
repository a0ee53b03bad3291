"""Linear leaves over arrays: each leaf's rows are read by one call of a kernel, leaves in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.linear_contract import LeafGrid, linear_role
from frameboost.engines.memory.linear_kernels import add_linear, range_of_leaf, sum_leaf
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LinearLeaf, LinearTerm

__all__ = ["LeafRows", "Numbers", "grids_of"]

LeafRows = Mapping[int, npt.NDArray[np.uint32]]


class Numbers:
    """The numbers that leaves may have slopes of.

    Parameters
    ----------
    rows
        The roles of all rows, in their order.
    workers
        Threads.
    """

    def __init__(self, rows: pl.DataFrame, workers: Workers) -> None:
        self.rows = rows
        self._workers = workers
        names = [name for name in rows.columns if name.startswith(linear_role(""))]
        self._index = {int(name.removeprefix(linear_role(""))): index for index, name in enumerate(names)}
        self._numbers = np.empty((len(names), len(rows)))
        for index, name in enumerate(names):
            self._numbers[index] = rows[name].to_numpy()  # NULL becomes NaN

    def ranges(self, features: Mapping[int, Sequence[int]], leaves: LeafRows, gh: FloatArray) -> dict[int, FloatArray]:
        """Return `LinearEngine.leaf_ranges`."""

        def of_leaf(node: int) -> FloatArray:
            out = np.empty(3 + 2 * len(features[node]))
            range_of_leaf(leaves[node], gh, self._numbers, self._indices(features[node]), out)
            return out

        return self._each([node for node in features if node in leaves], of_leaf)

    def sums(self, grids: Mapping[int, LeafGrid], leaves: LeafRows, gh: FloatArray) -> dict[int, FloatArray]:
        """Return `LinearEngine.leaf_sums`."""

        def of_leaf(node: int) -> FloatArray:
            terms = grids[node].terms
            out = np.empty(2 + 2 * len(terms) + len(terms) * (len(terms) + 1) // 2)
            indices = self._indices([term.feature for term in terms])
            offsets = grids[node].g_offset, grids[node].h_offset
            sum_leaf(leaves[node], gh, self._numbers, indices, grids_of(terms), *offsets, out)
            return out

        return self._each([node for node in grids if node in leaves], of_leaf)

    def add(self, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], leaves: LeafRows,
            margins: FloatArray) -> None:  # fmt: skip
        """Add the values of linear leaves to the margins of their rows."""

        def add_leaf(node: int) -> None:
            leaf = linear[node]
            indices = self._indices([term.feature for term in leaf.terms])
            slopes = np.array([term.slope for term in leaf.terms])
            grids = grids_of(leaf.terms)
            add_linear(leaves[node], self._numbers, indices, grids, slopes, leaf.constant, values[node], margins)

        self._each([node for node in linear if node in leaves], add_leaf)

    def _indices(self, features: Sequence[int]) -> npt.NDArray[np.int64]:
        return np.array([self._index[feature] for feature in features], np.int64)

    def _each(self, nodes: Sequence[int], function: Callable[[int], Any]) -> dict[int, Any]:
        found = self._workers.each(nodes, function, alone=len(self.rows) < VALUES_PER_TASK)
        return dict(zip(nodes, found, strict=True))


def grids_of(terms: Sequence[LinearTerm]) -> FloatArray:
    """Return offset, shift, low and high of each term, float64 (terms, 4)."""
    return np.array([(term.offset, term.shift, term.low, term.high) for term in terms])

"""Linear leaves over arrays: each leaf's rows are read by one call of a kernel, leaves in parallel.

In kernels, ``numbers`` is float64 (features, rows), NaN where a value is missing; ``indices`` are its rows of
the features of the leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.engines.contract import LeafGrid, linear_role
from frameboost.runtime.kernel import kernel
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray
from frameboost.trees.tree import LinearLeaf, LinearTerm

__all__ = ["LeafRows", "Numbers", "add_linear", "grids_of", "range_of_leaf", "sum_leaf"]


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
        results = self._workers.each(nodes, function, alone=len(self.rows) < VALUES_PER_TASK)
        return dict(zip(nodes, results, strict=True))


def grids_of(terms: Sequence[LinearTerm]) -> FloatArray:
    """Return offset, shift, low and high of each term, float64 (terms, 4)."""
    return np.array([(term.offset, term.shift, term.low, term.high) for term in terms])


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def range_of_leaf(rows, gh, numbers, indices, out):  # type: ignore[no-untyped-def]
    """Write the number of rows, the largest |g| and h, and the least and largest number of each feature to ``out``.

    ``rows`` is uint32, ``gh`` float64 (rows, 2). Rows with h = 0 or a missing number do not count.
    """
    n_terms = len(indices)
    for k in range(3):
        out[k] = 0.0
    for k in range(n_terms):
        out[3 + 2 * k] = np.inf
        out[4 + 2 * k] = -np.inf
    for i in range(len(rows)):
        row = rows[i]
        is_complete = gh[row, 1] > 0.0
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
        if not is_complete:
            continue
        out[0] += 1.0
        out[1] = max(out[1], abs(gh[row, 0]))
        out[2] = max(out[2], gh[row, 1])
        for k in range(n_terms):
            x = numbers[indices[k], row]
            out[3 + 2 * k] = min(out[3 + 2 * k], x)
            out[4 + 2 * k] = max(out[4 + 2 * k], x)


@kernel
def sum_leaf(rows, gh, numbers, indices, grids, g_offset, h_offset, out):  # type: ignore[no-untyped-def]
    """Write the sums of `LinearEngine.leaf_sums` to ``out``.

    ``grids`` is float64 (terms, 4): offset, shift, low and high of each feature.
    """
    n_terms = len(indices)
    u = np.empty(n_terms)
    for k in range(len(out)):
        out[k] = 0.0
    for i in range(len(rows)):
        row = rows[i]
        is_complete = gh[row, 1] > 0.0
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
            u[k] = min(max((x + grids[k, 0]) - grids[k, 1], grids[k, 2]), grids[k, 3])
        if not is_complete:
            continue
        g = (gh[row, 0] + g_offset) - g_offset
        h = (gh[row, 1] + h_offset) - h_offset
        out[0] += g
        out[1] += h
        at = 2 + 2 * n_terms
        for k in range(n_terms):
            hu = h * u[k]
            out[2 + k] += g * u[k]
            out[2 + n_terms + k] += hu
            for j in range(k + 1):
                out[at] += hu * u[j]
                at += 1


@kernel
def add_linear(rows, numbers, indices, grids, slopes, constant, value, margins):  # type: ignore[no-untyped-def]
    """Add the value of a linear leaf to the margins of its rows; ``value`` where a number is missing."""
    n_terms = len(indices)
    for i in range(len(rows)):
        row = rows[i]
        total, is_complete = constant, True
        for k in range(n_terms):
            x = numbers[indices[k], row]
            is_complete &= x == x
            total += slopes[k] * min(max((x + grids[k, 0]) - grids[k, 1], grids[k, 2]), grids[k, 3])
        margins[row] += total if is_complete else value

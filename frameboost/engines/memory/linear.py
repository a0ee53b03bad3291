"""Linear leaves over arrays: one kernel call reads the rows of all leaves, or of one leaf per thread.

In kernels, ``pieces`` are those of leaves (see `frameboost.engines.memory.partition`), ``gh`` is float64 (outputs,
rows, 2), ``numbers`` is float64 (rows * features,), row-major, NaN for missing values, and ``columns`` is int64
(leaves, terms): the features of a leaf's terms, padded with -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import polars as pl

from frameboost.engines.contract import linear_role
from frameboost.engines.memory.partition import RowPartition
from frameboost.runtime.intrinsics import AHEAD, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.workers import VALUES_PER_TASK, Pieces, Workers
from frameboost.splits.split import FloatArray, IntArray
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["Numbers", "add_linear", "range_leaves", "sum_leaves_on_grids"]


class Numbers:
    """The numeric columns of linear leaves.

    Parameters
    ----------
    rows
        The roles of all rows, in their order.
    partition
        The rows of the leaves.
    workers
        Threads.
    """

    def __init__(self, rows: pl.DataFrame, partition: RowPartition, workers: Workers) -> None:
        self.rows = rows
        self._partition, self._workers = partition, workers
        roles = {int(name.removeprefix(linear_role(""))): rows[name] for name in rows.columns
                 if name.startswith(linear_role(""))}  # fmt: skip
        self._column_of = np.full(max(roles) + 2, -1)  # the last one of -1, which is no feature
        self._column_of[list(roles)] = np.arange(len(roles))
        numbers = np.empty((len(rows), len(roles)))
        for index, each in enumerate(roles.values()):
            numbers[:, index] = each.to_numpy()  # NULL becomes NaN
        self._numbers = numbers.ravel()

    def ranges(self, leaves: IntArray, features: IntArray, gh: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_ranges`."""
        out = np.zeros((len(gh), len(leaves), 3 + 2 * features.shape[1]))
        out[..., 3::2], out[..., 4::2] = np.inf, -np.inf
        pieces, _ = self._partition.shares(leaves)
        arrays = self._partition.rows, gh, self._numbers, self._column_of[features], out
        self._over(pieces, lambda some: range_leaves(some, *arrays))
        return out

    def sums(self, grids: LinearColumns, offsets: FloatArray, gh: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_sums`."""
        n_leaves, n_terms = grids.feature.shape
        out = np.zeros((len(gh), n_leaves, n_terms + 2, n_terms + 1))
        pieces, _ = self._partition.shares(grids.node)
        columns, terms = self._column_of[grids.feature], grids.read_terms()
        arrays = self._partition.rows, gh, self._numbers, columns, terms, offsets, out
        self._over(pieces, lambda some: sum_leaves_on_grids(some, *arrays))
        return out

    def add(
        self, leaves: IntArray, values: FloatArray, linear: Sequence[LinearColumns | None], margins: FloatArray,
        node_of: IntArray | None = None,
    ) -> None:  # fmt: skip
        """Add the values of all leaves of a tree to the margins of their rows.

        Parameters
        ----------
        leaves
            The leaves, ascending, int64 (leaves,).
        values
            Their plain values, float64 (outputs, leaves).
        linear
            The linear leaves of each output, of some output at least one.
        margins
            float64 (outputs, rows).
        node_of
            The leaf of each row; None for the leaves of the partition.
        """
        if node_of is None:
            pieces, _ = self._partition.shares(leaves, drawn_only=False)
            rows = self._partition.rows
        else:
            rows = np.argsort(node_of, kind="stable").astype(np.uint32)
            starts, stops = (np.searchsorted(node_of, leaves, side, rows) for side in ("left", "right"))
            pieces = np.stack([np.arange(len(leaves)), starts, stops], axis=1)
        firsts = np.arange(len(linear)) * (leaves[-1] + 1)  # of the leaves of all outputs in a row
        of_all = LinearColumns.joined(linear, firsts)
        assert of_all is not None
        at = np.full(values.shape, -1)
        at.ravel()[np.searchsorted((firsts[:, None] + leaves).ravel(), of_all.node)] = np.arange(len(of_all))
        columns, terms = self._column_of[of_all.feature], of_all.read_terms()
        arrays = rows, self._numbers, at, columns, terms, of_all.constant, values, margins
        self._over(pieces, lambda some: add_linear(some, *arrays))

    def _over(self, pieces: Pieces, run: Callable[[Pieces], object]) -> None:
        """Call a kernel on the pieces of all leaves, or of one leaf at a time where threads share them."""
        if self._workers.n_jobs == 1 or len(self.rows) < VALUES_PER_TASK:
            run(pieces)
        else:
            by_leaf = pieces[np.argsort(pieces[:, 0], kind="stable")]
            self._workers.each(np.split(by_leaf, np.flatnonzero(np.diff(by_leaf[:, 0])) + 1), run)


# --- kernels ----------------------------------------------------------------------------------------------------------

# Rows of a leaf that are read at once, to be computed on side by side.
_BLOCK = 256


@kernel
def range_leaves(pieces, rows, gh, numbers, columns, out):  # type: ignore[no-untyped-def]
    """Write `LinearEngine.leaf_ranges` to ``out``, which starts as the ranges of no rows."""
    block = np.empty((3 + columns.shape[1], _BLOCK))
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        n_terms = _n_terms(columns, leaf)
        for first in range(start, stop, _BLOCK):
            for output in range(len(gh)):
                n = _read_block(rows[first:stop], gh[output], numbers, columns, leaf, n_terms, block)
                ranges = out[output, leaf]
                ranges[0] += n
                least_g, largest_g = _ends_of(block[0], n)
                ranges[1] = max(ranges[1], -least_g, largest_g)
                ranges[2] = max(ranges[2], _ends_of(block[1], n)[1])
                for k in range(n_terms):
                    least, largest = _ends_of(block[3 + k], n)
                    ranges[3 + 2 * k] = min(ranges[3 + 2 * k], least)
                    ranges[4 + 2 * k] = max(ranges[4 + 2 * k], largest)


@kernel
def sum_leaves_on_grids(pieces, rows, gh, numbers, columns, terms, offsets, out):  # type: ignore[no-untyped-def]
    """Add `LinearEngine.leaf_sums` to ``out``, which starts as zero.

    ``terms`` is what `LinearColumns.read_terms` returns.
    """
    block, hu = np.ones((3 + columns.shape[1], _BLOCK)), np.empty(_BLOCK)
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        n_terms = _n_terms(columns, leaf)
        for first in range(start, stop, _BLOCK):
            for output in range(len(gh)):
                n = _read_block(rows[first:stop], gh[output], numbers, columns, leaf, n_terms, block)
                for side in range(2):
                    offset = offsets[output, leaf, side]
                    for j in range(n):
                        block[side, j] = (block[side, j] + offset) - offset
                for k in range(n_terms):
                    _put_on_grid(block[3 + k], n, terms[leaf, k])
                sums = out[output, leaf]
                for k in range(n_terms + 1):
                    sums[0, k] += _dot(block[0], block[2 + k], n)
                    for j in range(n):
                        hu[j] = block[1, j] * block[2 + k, j]
                    for j in range(k + 1):
                        sums[1 + k, j] += _dot(hu, block[2 + j], n)


@kernel
def add_linear(pieces, rows, numbers, at, columns, terms, constants, values, margins):  # type: ignore[no-untyped-def]
    """Add the values of leaves to the margins of their rows, float64 (outputs, rows).

    ``at`` is int64 (outputs, leaves): the index in ``columns``, ``terms`` and ``constants``, -1 of constant leaves.
    ``values`` is float64 (outputs, leaves): those of constant leaves, and of rows with a missing number.
    """
    u, totals = np.empty((columns.shape[1], _BLOCK)), np.empty(_BLOCK)
    width = np.uint64(len(numbers) // max(margins.shape[1], 1))
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        for first in range(start, stop, _BLOCK):
            some, n = rows[first:stop], min(_BLOCK, stop - first)
            last = np.uint64(len(some) - 1)
            for output in range(len(margins)):
                of_output, added = margins[output], at[output, leaf]
                if added < 0:
                    for row in some[:n]:
                        of_output[row] += values[output, leaf]
                    continue
                n_terms = _n_terms(columns, added)
                for j in range(np.uint64(n)):
                    row, later = np.uint64(some[j]), np.uint64(some[min(j + AHEAD, last)])
                    prefetch(of_output, later)
                    for k in range(n_terms):
                        column = np.uint64(columns[added, k])
                        prefetch(numbers, later * width + column)
                        u[k, j] = numbers[row * width + column]
                for j in range(n):
                    totals[j] = constants[added]
                for k in range(n_terms):
                    _put_on_grid(u[k], n, terms[added, k])
                    for j in range(n):
                        totals[j] += terms[added, k, 0] * u[k, j]
                for j in range(n):
                    of_output[some[j]] += values[output, leaf] if np.isnan(totals[j]) else totals[j]


@kernel
def _read_block(rows, gh, numbers, columns, leaf, n_terms, block):  # type: ignore[no-untyped-def]
    """Write g, h and the numbers of complete rows, packed; return how many rows are complete."""
    n, last, width = np.uint64(0), np.uint64(len(rows) - 1), np.uint64(len(numbers) // len(gh))
    for i in range(np.uint64(min(len(rows), _BLOCK))):
        row, later = np.uint64(rows[i]), np.uint64(rows[min(i + AHEAD, last)])
        prefetch(gh, later)
        block[0, n], block[1, n] = gh[row, 0], gh[row, 1]
        is_complete = gh[row, 1] > 0.0
        for k in range(n_terms):
            column = np.uint64(columns[leaf, k])
            prefetch(numbers, later * width + column)
            x = numbers[row * width + column]
            block[3 + k, n] = x
            is_complete &= x == x
        n += np.uint64(is_complete)
    return np.int64(n)


@kernel
def _n_terms(columns, leaf):  # type: ignore[no-untyped-def]
    size = 0
    while size < columns.shape[1] and columns[leaf, size] >= 0:
        size += 1
    return size


@kernel
def _put_on_grid(x, n, term):  # type: ignore[no-untyped-def]
    """Replace ``n`` numbers by u (see `LinearTerm.on_grid`); NaN stays."""
    offset, shift, low, high = term[1], term[2], term[3], term[4]
    for j in range(n):
        u = (x[j] + offset) - shift
        x[j] = low if u < low else high if u > high else u


@kernel(fastmath={"nnan", "nsz"})
def _ends_of(x, n):  # type: ignore[no-untyped-def]
    least, largest = np.inf, -np.inf
    for j in range(n):
        least, largest = min(least, x[j]), max(largest, x[j])
    return least, largest


@kernel(fastmath={"reassoc"})
def _dot(a, b, n):  # type: ignore[no-untyped-def]
    """Return a sum of products, which is exact in any order."""
    total = 0.0
    for j in range(n):
        total += a[j] * b[j]
    return total

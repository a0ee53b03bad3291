"""Linear leaves over arrays: one call of a kernel reads the rows of all leaves, or of one where threads share them.

In kernels, ``pieces`` are those of leaves (see `frameboost.engines.memory.partition`), ``numbers`` is float64 (rows,
features), NaN where a value is missing, and ``columns`` int64 (leaves, terms): those of a leaf's features, then -1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from frameboost.engines.contract import linear_role
from frameboost.engines.memory.partition import RowPartition
from frameboost.runtime.kernel import kernel
from frameboost.runtime.workers import VALUES_PER_TASK, Workers
from frameboost.splits.split import FloatArray, IntArray
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["Numbers", "add_linear", "range_leaves", "sum_leaves_on_grids"]


class Numbers:
    """The numbers that leaves may have slopes of.

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
        self._numbers = np.empty((len(rows), len(roles)))
        for index, each in enumerate(roles.values()):
            self._numbers[:, index] = each.to_numpy()  # NULL becomes NaN

    def ranges(self, leaves: IntArray, features: IntArray, gh: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_ranges`."""
        out = np.empty((len(leaves), 3 + 2 * features.shape[1]))
        arrays = self._partition.rows, gh, self._numbers, self._column_of[features]
        self._over(leaves, lambda pieces, some: range_leaves(pieces, some, *arrays, out))
        return out

    def sums(self, grids: LinearColumns, offsets: FloatArray, gh: FloatArray) -> FloatArray:
        """Return `LinearEngine.leaf_sums`."""
        n_leaves, n_terms = grids.feature.shape
        out = np.empty((n_leaves, n_terms + 2, n_terms + 1))
        arrays = self._partition.rows, gh, self._numbers, self._column_of[grids.feature], grids.read_terms(), offsets
        self._over(grids.node, lambda pieces, some: sum_leaves_on_grids(pieces, some, *arrays, out))
        return out

    def add(self, values: Mapping[int, float], linear: LinearColumns, margins: FloatArray) -> None:
        """Add the values of leaves, of which some are linear, to the margins of their rows."""
        leaves = linear.among(values)
        arrays = (
            self._partition.rows, self._numbers, self._column_of[leaves.feature], leaves.read_terms(), leaves.constant,
            np.array(list(values.values())), margins,
        )  # fmt: skip
        self._over(leaves.node, lambda pieces, some: add_linear(pieces, some, *arrays), drawn_only=False)

    def _over(
        self, leaves: IntArray, run: Callable[[IntArray, tuple[int, int]], object], *, drawn_only: bool = True
    ) -> None:
        """Call a kernel on the pieces of leaves and a range of leaves: of all, or of one where threads share them."""
        pieces, _ = self._partition.shares(leaves, drawn_only=drawn_only)
        if self._workers.n_jobs == 1 or len(self._numbers) < VALUES_PER_TASK:
            run(pieces, (0, len(leaves)))
        else:
            self._workers.each(range(len(leaves)), lambda leaf: run(pieces, (leaf, leaf + 1)))


# --- kernels ----------------------------------------------------------------------------------------------------------


@kernel
def range_leaves(pieces, leaves, rows, gh, numbers, columns, out):  # type: ignore[no-untyped-def]
    """Write `LinearEngine.leaf_ranges` of the leaves from one number up to another to ``out``."""
    for leaf in range(*leaves):
        out[leaf, :3], out[leaf, 3::2], out[leaf, 4::2] = 0.0, np.inf, -np.inf
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        if not leaves[0] <= leaf < leaves[1]:
            continue
        n_terms = _n_terms(columns[leaf])
        for at in range(start, stop):
            row = rows[at]
            is_complete = gh[row, 1] > 0.0
            for k in range(n_terms):
                x = numbers[row, columns[leaf, k]]
                is_complete &= x == x
            if not is_complete:
                continue
            out[leaf, 0] += 1.0
            out[leaf, 1] = max(out[leaf, 1], abs(gh[row, 0]))
            out[leaf, 2] = max(out[leaf, 2], gh[row, 1])
            for k in range(n_terms):
                x = numbers[row, columns[leaf, k]]
                out[leaf, 3 + 2 * k] = min(out[leaf, 3 + 2 * k], x)
                out[leaf, 4 + 2 * k] = max(out[leaf, 4 + 2 * k], x)


@kernel
def sum_leaves_on_grids(pieces, leaves, rows, gh, numbers, columns, terms, offsets, out):  # type: ignore[no-untyped-def]
    """Write `LinearEngine.leaf_sums` of the leaves from one number up to another to ``out``.

    ``terms`` is what `LinearColumns.read_terms` returns.
    """
    u = np.ones(columns.shape[1] + 1)
    for leaf in range(*leaves):
        out[leaf] = 0.0
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        if not leaves[0] <= leaf < leaves[1]:
            continue
        n_terms, sums = _n_terms(columns[leaf]), out[leaf]
        for at in range(start, stop):
            row = rows[at]
            is_complete = gh[row, 1] > 0.0
            for k in range(n_terms):
                x = numbers[row, columns[leaf, k]]
                is_complete &= x == x
                u[1 + k] = _on_grid(x, terms[leaf, k])
            if not is_complete:
                continue
            g = (gh[row, 0] + offsets[leaf, 0]) - offsets[leaf, 0]
            h = (gh[row, 1] + offsets[leaf, 1]) - offsets[leaf, 1]
            for k in range(n_terms + 1):
                sums[0, k] += g * u[k]
                hu = h * u[k]
                for j in range(k + 1):
                    sums[1 + k, j] += hu * u[j]


@kernel
def add_linear(pieces, leaves, rows, numbers, columns, terms, constants, values, margins):  # type: ignore[no-untyped-def]
    """Add the values of the leaves from one number up to another to the margins of their rows, float64 (rows,).

    ``constants`` and ``values`` are float64 (leaves,): the latter are for rows that lack a number.
    """
    for i in range(len(pieces)):
        leaf, start, stop = pieces[i]
        if not leaves[0] <= leaf < leaves[1]:
            continue
        n_terms = _n_terms(columns[leaf])
        for at in range(start, stop):
            row = rows[at]
            total, is_complete = constants[leaf], True
            for k in range(n_terms):
                x = numbers[row, columns[leaf, k]]
                is_complete &= x == x
                total += terms[leaf, k, 0] * _on_grid(x, terms[leaf, k])
            margins[row] += total if is_complete else values[leaf]


@kernel(inline="always")
def _on_grid(x, term):  # type: ignore[no-untyped-def]
    return min(max((x + term[1]) - term[2], term[3]), term[4])


@kernel(inline="always")
def _n_terms(columns):  # type: ignore[no-untyped-def]
    return np.sum(columns >= 0)

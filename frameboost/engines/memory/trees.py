"""Trees of few rows, each grown in one call of a kernel, once that is worth compiling.

The kernel has all steps of `frameboost.training.grower` in it, and takes three seconds longer to compile than those of
single steps. So a process that finds it in no cache grows its first trees level by level. They are the same trees.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.contract import FeatureDraws, GrownNodes, TreeShape
from frameboost.engines.memory.binning import BinnedColumns
from frameboost.engines.memory.grown_splits import GrownSplits
from frameboost.engines.memory.nodes import RowPartition
from frameboost.engines.memory.tree_kernels import (
    BIN,
    DEPTHWISE,
    FEATURE,
    GAIN,
    LEFT,
    LOSSGUIDE,
    MISSING_LEFT,
    N_FIELDS,
    N_SUMS,
    NODES,
    PLACES,
    SUM_G,
    SUM_H,
    SYMMETRIC,
    TABLE,
    VALUE,
    grow_tree,
)
from frameboost.runtime.compile_later import CompileLater
from frameboost.runtime.task_sizes import ADDITIONS_PER_LEVEL, CODES_PER_TEAM, MOVED_ROWS_PER_LEVEL
from frameboost.runtime.workers import Workers
from frameboost.splits.split import BoolArray, FloatArray, IntArray, Penalties, Stats

__all__ = ["FIRST_NODES", "TreeKernels", "are_in_levels"]

# A tree takes 0.1 (a stump) to 2 ms longer in levels.
_compiling_later = CompileLater(grow_tree, most=2000)
# Nodes that there is room for at first: twice as many as a tree of depth 6 has.
FIRST_NODES = 255
_POLICIES = {"depthwise": DEPTHWISE, "lossguide": LOSSGUIDE, "symmetric": SYMMETRIC}


def are_in_levels(n_trees: int) -> bool:
    """Whether to grow the trees of a fit level by level, as `grow_tree` is not worth compiling for them yet.

    A fit that may stop early counts with all its trees.
    """
    return _compiling_later.spend(n_trees)


class TreeKernels:
    """Grows the trees of a fit, and keeps the room for them from tree to tree: fresh memory is slow.

    Parameters
    ----------
    binned
        The columns, whose codes are in one array.
    shape, penalties
        The limits of the trees, and what gains depend on.
    workers
        The threads, which share the work of levels.
    """

    def __init__(self, binned: BinnedColumns, shape: TreeShape, penalties: Penalties, workers: Workers) -> None:
        layout = binned.layout
        assert binned.in_one is not None
        self._codes, self._columns = binned.in_one
        self._workers = workers
        self._n_threads = workers.n_jobs if self._codes.size >= CODES_PER_TEAM else 1
        self._ranges = _ranges_of(np.diff(layout.offsets), layout.is_categorical, len(self._codes), self._n_threads)
        self._offsets = layout.offsets
        self._is_categorical = layout.is_categorical if layout.is_categorical.any() else None
        self._monotone = np.zeros(len(layout.bins), np.int8) if penalties.max_delta_step else None
        p, no_limit = penalties, np.iinfo(np.int64).max
        self._shape = shape.max_depth or no_limit, shape.max_leaves or no_limit, _POLICIES[shape.grow_policy]
        self._scoring = (
            p.max_cat_to_onehot, p.max_cat_threshold, p.cat_smooth,
            p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
        )  # fmt: skip
        # The operating system gives memory to a place when it is first written to.
        self._histograms = np.empty((FIRST_NODES // 4 + 1, layout.n_slots, 2))
        self._splits_alone = None if shape.grow_policy == "symmetric" else True
        self._summed = None if self._splits_alone else np.empty((layout.n_slots, 2))
        self._tables = np.empty(FIRST_NODES // 2 * int(np.diff(layout.offsets).max(initial=0)) + 1, np.bool_)
        self._make_room(FIRST_NODES)

    def _make_room(self, n_nodes: int) -> None:
        self._nodes, self._sums = np.empty((n_nodes, N_FIELDS), np.int64), np.empty((n_nodes, N_SUMS))
        self._bounds = None if self._monotone is None else np.tile([-np.inf, np.inf], (n_nodes, 1))
        self._allowed = np.ones((n_nodes, len(self._offsets) - 1), np.bool_)
        self._leaves = np.empty((n_nodes, 3), np.int64)

    def grow(
        self, totals: Stats, gh: FloatArray, draws: FeatureDraws | None, partition: RowPartition, least_gain: float,
        shrinkage: float,
    ) -> GrownNodes:  # fmt: skip
        """Grow a tree from the pairs of all rows and their ``totals``; the partition has its leaves afterwards.

        ``least_gain`` is that of its splits, which differs between outputs; ``shrinkage`` the factor of leaf values.
        """
        scoring = *self._scoring, least_gain, shrinkage
        drawn = None if draws is None else (draws.shares, draws.keys)
        team = self._workers.team(self._n_threads) if self._n_threads > 1 else None
        while True:
            self._sums[0, SUM_G], self._sums[0, SUM_H] = totals
            rows = partition.rows_to_write()
            n_nodes, n_parted, n_waiting = grow_tree(
                team, self._ranges, (ADDITIONS_PER_LEVEL, MOVED_ROWS_PER_LEVEL), self._codes, self._columns, rows,
                gh, self._offsets, self._is_categorical, self._monotone, self._bounds, drawn, self._allowed,
                self._shape, scoring, self._histograms, self._splits_alone, self._summed, self._tables, self._nodes,
                self._sums, self._leaves,
            )  # fmt: skip
            if n_nodes:
                break
            if n_parted == NODES:
                self._make_room(2 * len(self._nodes))
            elif n_parted == PLACES:
                self._histograms = np.empty((2 * len(self._histograms), *self._histograms.shape[1:]))
            else:
                self._tables = np.empty(2 * len(self._tables), np.bool_)
        nodes, sums = self._nodes[:n_nodes], self._sums[:n_nodes]
        pieces = self._leaves[: n_parted + n_waiting]
        partition.set_leaves(GrownSplits(pieces, n_parted, nodes, self._tables, self._columns))
        return GrownNodes(
            feature=nodes[:, FEATURE],
            bin=nodes[:, BIN],
            missing_left=nodes[:, MISSING_LEFT],
            left=nodes[:, LEFT],
            table=nodes[:, TABLE],
            goes_left=self._tables,
            gain=sums[:, GAIN],
            cover=sums[:, SUM_H],
            value=sums[:, VALUE],
        )


def _ranges_of(n_slots: IntArray, is_categorical: BoolArray, n_rows: int, n_threads: int) -> IntArray:
    """Return the first feature of each thread's range, and the number of features, so that all have about equal work.

    In a tree of depth 6, a feature's rows are added to histograms some three times, which takes 2 ns a row, and each of
    its slots is scanned 63 times, which takes 60 ns for a slot of numbers, and 400 ns for a category.

    >>> _ranges_of(np.array([256, 256, 20, 20, 20, 20]), np.zeros(6, bool), 6400, 2)
    array([0, 2, 6])
    """
    work = n_slots * np.where(is_categorical, 6.0, 1.0) + n_rows / 32
    middles, wanted = np.cumsum(work) - work / 2, work.sum() * np.arange(1, n_threads) / n_threads
    return np.unique([0, *np.searchsorted(middles, wanted), len(work)])

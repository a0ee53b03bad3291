"""Whole trees of few rows, each grown in one kernel call, if compiling it pays off.

The kernel, `grow_tree`, has the steps of `frameboost.training.grower.TreeGrower`, where the overhead of calls per level
dominates if nodes have few rows. Nodes are numbered in the order of creation; a right child follows its left sibling.
The kernel takes three seconds longer to compile than those of single steps, so a process without a cached kernel grows
its first trees level by level. The trees are identical.

Threads share the histograms and splits of a level, in ranges of features. For its features, a work item sums the
lighter of two siblings from its rows, subtracts these sums from the parent's to get the other sibling's, and searches
all nodes of the level for splits. Items are independent, and a thread mostly gets the same range as in the level
before, with its histograms still in the cache. There is one range per thread, as each item reads g and h of all rows.

Example: two threads have the features 0 to 4 and 5 to 9 of a level with nodes 1 and 2, and node 2 has fewer rows::

    item 0    sums of node 2, features 0-4; node 1: parent - node 2; best splits of nodes 1 and 2 on features 0-4
    item 1    the same with features 5-9
    then      the split of each node with the larger gain; the first if equal

A node of few rows has no histogram: for each feature, the bins of its rows are summed and searched in order. To clear,
subtract and scan a histogram takes as long for 10 rows as for 10,000.

A tree for all outputs has a histogram for each output in each node, one after the other, and sums gains over outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.engines.contract import FeatureDraws, GrownNodes, TreeShape
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.memory.histograms import add_rows
from frameboost.engines.memory.limits import ADDITIONS_PER_LEVEL, CODES_PER_TEAM, MOVED_ROWS_PER_LEVEL, SLOTS_PER_ROW
from frameboost.engines.memory.partition import GrownSplits, RowPartition, fill_side, number_rows, parting
from frameboost.engines.memory.sampling import hash_of, keep_drawn
from frameboost.runtime.intrinsics import lowest_bit
from frameboost.runtime.kernel import CompileLater, kernel
from frameboost.runtime.team import do_alone, outlined, share_out
from frameboost.runtime.workers import Workers
from frameboost.splits.search import (
    best_of_sums,
    best_score,
    category_room,
    fill_named,
    fill_opposite,
    keep_split,
    leaf_weight,
    scan_categories,
    scan_histograms,
    subtract_slots,
)
from frameboost.splits.split import BoolArray, FloatArray, IntArray, Penalties, Stats
from frameboost.splits.symmetric import scan_level
from frameboost.splits.vector import gain_of_output, named_by_outputs, scan_outputs

__all__ = ["TreeKernels", "add_tree", "are_in_levels", "grow_tree", "grow_vector_tree"]


# Nodes that there is room for at first: twice as many as a tree of depth 6 has.
FIRST_NODES = 255
# The shares of `FeatureDraws` that leave all features.
_ALL_FEATURES, _NO_KEYS = (1.0, 1.0, 1.0), (0, 0, 0)


def are_in_levels(n_trees: int, *, for_all_outputs: bool = False) -> bool:
    """Whether to grow the trees of a fit level by level, because compiling the kernel does not pay off for them.

    A fit with early stopping counts with all its trees.
    """
    return (_compiling_vectors_later if for_all_outputs else _compiling_later).spend(n_trees)


class TreeKernels:
    """Grows the trees of a fit in memory that is reused from tree to tree, as fresh memory is slow.

    Parameters
    ----------
    binned
        The columns, with all codes in one array.
    shape, penalties
        The limits of the trees, and the parameters of gains.
    workers
        The threads, which share levels.
    n_outputs
        The number of outputs of each tree.
    """

    def __init__(
        self, binned: BinnedColumns, shape: TreeShape, penalties: Penalties, workers: Workers, n_outputs: int
    ) -> None:
        layout = binned.layout
        assert binned.in_one is not None
        self._codes, self._columns = binned.in_one
        self._workers, self._n_outputs = workers, n_outputs
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
        # The operating system allocates a histogram when it is first written to.
        self._histograms = np.empty((FIRST_NODES // 4 + 1, n_outputs * layout.n_slots, 2))
        self._splits_alone = None if shape.grow_policy == "symmetric" else True
        self._summed = None if self._splits_alone else np.empty((layout.n_slots, 2))
        self._tables = np.empty(FIRST_NODES // 2 * int(np.diff(layout.offsets).max(initial=0)) + 1, np.bool_)
        self._make_room(FIRST_NODES)

    def _make_room(self, n_nodes: int) -> None:
        self._nodes, self._sums = np.empty((n_nodes, N_FIELDS), np.int64), np.empty((n_nodes, N_SUMS))
        self._outputs = None if self._n_outputs == 1 else np.empty((4, self._n_outputs, n_nodes))
        self._results = np.empty((3, self._n_outputs, n_nodes))
        self._bounds = None if self._monotone is None else np.tile([-np.inf, np.inf], (self._n_outputs * n_nodes, 1))
        self._allowed = np.ones((n_nodes, len(self._offsets) - 1), np.bool_)
        self._leaves = np.empty((n_nodes, 3), np.int64)

    def grow(
        self, totals: Sequence[Stats], gh: FloatArray, draws: FeatureDraws | None, partition: RowPartition,
        least_gain: float, shrinkage: float,
    ) -> GrownNodes:  # fmt: skip
        """Grow a tree from the pairs of all rows and their ``totals``, and store its leaves in the partition.

        ``gh`` is float64 (outputs, rows, 2); ``totals`` are the sums of each output.

        ``least_gain`` is the minimum gain of its splits, which differs between outputs; ``shrinkage`` is the factor of
        leaf values.
        """
        scoring = *self._scoring, least_gain, shrinkage
        drawn = (_ALL_FEATURES, _NO_KEYS) if draws is None else (draws.shares, draws.keys)
        team, grow = self._workers.team(self._n_threads), grow_tree if self._outputs is None else grow_vector_tree
        while True:
            if self._outputs is None:
                self._sums[0, SUM_G], self._sums[0, SUM_H] = totals[0]
            else:
                self._sums[0, SUM_G : SUM_H + 1] = np.sum(totals, axis=0)
                self._outputs[_G : _H + 1, :, 0] = np.transpose(totals)
            rows = partition.rows_to_write()
            n_nodes, n_parted, n_waiting = grow(
                team, self._ranges, (ADDITIONS_PER_LEVEL, MOVED_ROWS_PER_LEVEL), self._codes, self._columns, rows,
                gh, self._offsets, self._is_categorical, self._monotone, self._bounds, drawn, self._allowed,
                self._shape, scoring, self._histograms, self._splits_alone, self._summed, self._tables, self._nodes,
                self._sums, self._outputs, self._results, self._leaves,
            )  # fmt: skip
            if n_nodes:
                break
            if n_parted == NODES:
                self._make_room(2 * len(self._nodes))
            elif n_parted == HISTOGRAMS:
                self._histograms = np.empty((2 * len(self._histograms), *self._histograms.shape[1:]))
            else:
                self._tables = np.empty(2 * len(self._tables), np.bool_)
        nodes, (gain, cover, value) = self._nodes[:n_nodes], self._results[:, :, :n_nodes]
        grown = GrownNodes(
            feature=nodes[:, FEATURE],
            bin=nodes[:, BIN],
            missing_left=nodes[:, MISSING_LEFT],
            left=nodes[:, LEFT],
            table=nodes[:, TABLE],
            goes_left=self._tables,
            gain=gain,
            cover=cover,
            value=value,
        )
        partition.set_leaves(GrownSplits(self._leaves[: n_parted + n_waiting], n_parted, grown, self._columns))
        return grown


def _ranges_of(n_slots: IntArray, is_categorical: BoolArray, n_rows: int, n_threads: int) -> IntArray:
    """Return the first feature of each thread's range, and the number of features, with about equal work per range.

    In a tree of depth 6, the rows of a feature are added to histograms about three times, which takes 2 ns per row, and
    each slot is scanned 63 times, which takes 60 ns for a numeric slot and 400 ns for a category.

    >>> _ranges_of(np.array([256, 256, 20, 20, 20, 20]), np.zeros(6, bool), 6400, 2)
    array([0, 2, 6])
    """
    work = n_slots * np.where(is_categorical, 6.0, 1.0) + n_rows / 32
    middles, targets = np.cumsum(work) - work / 2, work.sum() * np.arange(1, n_threads) / n_threads
    return np.unique([0, *np.searchsorted(middles, targets), len(work)])


# --- the growth of a tree ---------------------------------------------------------------------------------------------


# The fields of a node: its split, its left child (-1 in a leaf), where its table starts, its rows, and for the growth
# its depth and the index of its histogram.
FEATURE, BIN, MISSING_LEFT, LEFT, TABLE, _START, _STOP, _DEPTH, _HISTOGRAM, N_FIELDS = range(10)
_ABOVE = _HISTOGRAM  # of a grown node: its parent
# Where the rows of a node start and stop that are still where its parent's are.
_NOWHERE = np.int64(-1)
# Its gain, the sums of its left child and those of its rows, over all outputs.
GAIN, _LEFT_G, _LEFT_H, SUM_G, SUM_H, N_SUMS = range(6)
# The sums of a tree for all outputs in each, and the results in each: gain, H, and value as a leaf.
_G, _H, _GL, _HL = range(4)
_GAINS, _COVERS, _VALUES = range(3)
# Counts of the growth: histograms that are free again, nodes, histograms that have been used, the end of the
# tables, nodes that have a split; and of this step nodes that may be split, those with histograms that are summed from
# their rows, and those of few rows, which have none.
_FREE, NODES, HISTOGRAMS, TABLES, _CANDIDATES, _OPEN, _SUMMED, _FEW, _N_COUNTS = range(9)
# To index bits by unsigned numbers.
_ONE, _SIX, _LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)
# The order of the splits.
DEPTHWISE, LOSSGUIDE, SYMMETRIC = range(3)
_POLICIES = {"depthwise": DEPTHWISE, "lossguide": LOSSGUIDE, "symmetric": SYMMETRIC}


@kernel
def grow_tree(*arguments):  # type: ignore[no-untyped-def]
    """Grow a tree for one output: see `_grow`."""
    return _grow(*arguments)


@kernel
def grow_vector_tree(*arguments):  # type: ignore[no-untyped-def]
    """Grow a tree for all outputs: see `_grow`."""
    return _grow(*arguments)


@kernel(no_cpython_wrapper=True)
def _grow(  # type: ignore[no-untyped-def]
    team, ranges, fewest, codes, columns, rows, gh, offsets, is_categorical, monotone, bounds, draws, allowed,
    shape, scoring, histograms, splits_alone, summed, tables, nodes, sums, outputs, results, leaves,
):  # fmt: skip
    """Grow a tree; return the number of nodes, of ranges of leaves, and of splits left to carry out.

    The last splits do not move their rows: only leaf values are added. If an array is too small, return 0 and the
    array: `NODES`, `HISTOGRAMS` or `TABLES`.

    Parameters
    ----------
    team, ranges
        The threads (see `frameboost.runtime.team`), and int64 (ranges + 1,): the first feature of each range that a
        thread may take, and the number of features.
    fewest
        The minimum work for threads to share a level: additions to histograms plus slots to scan, and rows to move.
    codes, columns
        uint16 (rows, features) and (features, rows): the same codes.
    rows
        uint32 (2 rows,), written: row numbers, contiguous by leaf, or by two leaves, in one half.
    gh
        float64 (outputs, rows, 2): g and h.
    offsets, is_categorical, monotone, bounds
        As for `scan_histograms`. The last two are None, or 0 for all features and infinite for the maximum number of
        nodes times outputs.
    draws
        The shares and keys of `frameboost.engines.contract.FeatureDraws`.
    allowed
        bool (nodes, features), all True, or written if a share is below 1: the features that nodes may be split on.
    shape
        The maximum depth, the maximum number of leaves, and `DEPTHWISE`, `LOSSGUIDE` or `SYMMETRIC`.
    scoring
        The parameters max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
        min_child_weight, the minimum gain of a split, and the factor of leaf values.
    histograms
        float64 (histograms, outputs x slots, 2), written.
    splits_alone, summed
        True and None if splits differ between nodes; for a symmetric tree None and float64 (slots, 2), written: the
        histogram of a level. None excludes code from compilation.
    tables
        bool, written: for each split whether a code goes left, starting at the `TABLE` of its node. The nodes of a
        level of a symmetric tree share one table.
    nodes, sums
        int64 (nodes, `N_FIELDS`) and float64 (nodes, `N_SUMS`), written; the caller sets G and H of the root.
    outputs
        None for a tree for one output; otherwise float64 (4, outputs, nodes), written: G and H of each node and of its
        left child. The caller sets those of the root.
    results
        float64 (3, outputs, nodes), written: gain, H, and value as a leaf.
    leaves
        int64 (nodes, 3), written: node, start and stop of the ranges of leaves, then of the nodes with splits left to
        carry out.
    """
    max_depth, max_leaves, policy = shape
    lightest = 0.0 if policy == SYMMETRIC else 2.0 * scoring[6]
    half, counts = len(rows) >> 1, np.zeros(_N_COUNTS, dtype=np.int64)
    number_rows(rows, 0, half)
    _add_leaf(nodes, counts, np.int64(0), np.int64(0), half)
    room, parts = np.empty((7, len(nodes)), dtype=np.int64), np.empty((len(nodes), 3), dtype=np.int64)
    few, most_of_few = np.empty((len(nodes), 3), dtype=np.int64), -1
    if monotone is None and splits_alone is not None and outputs is None:
        most_of_few = offsets[-1] // (len(offsets) - 1) // SLOTS_PER_ROW
    n_ranges = len(ranges) - 1
    best, stats = np.empty((n_ranges, len(nodes), 3), dtype=np.int64), np.empty((n_ranges, len(nodes), 3))
    free, candidates, batch, opened = room[0], room[1], room[2], room[3]
    each = np.arange(len(nodes) + 1)
    n_batch, n_leaves = each[0], 1
    are_drawn = draws[0][0] < 1.0 or draws[0][1] < 1.0 or draws[0][2] < 1.0
    of_tree = np.ones(len(offsets) - 1, dtype=np.bool_)
    keep_drawn(of_tree, draws[0][0], draws[1][0])
    while n_leaves < max_leaves:
        _open_nodes(nodes, sums, batch, n_batch, max_depth, lightest, most_of_few, counts, free, room[3:], parts, few)
        if are_drawn and counts[_OPEN] > 0:
            _draw_by_node(draws, of_tree, nodes, opened[: counts[_OPEN]], policy, allowed)
        search_level(
            team, ranges, fewest[0], codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring,
            histograms, splits_alone, summed, outputs, parts, room[4, : counts[_SUMMED]], room[5],
            room[6, : counts[_OPEN]], few[: counts[_FEW]], best, stats,
        )  # fmt: skip
        _keep_splits(policy, scoring, nodes, sums, opened, best[0], stats[0], counts, free, candidates)
        n_batch = _take(candidates, policy, max_leaves - n_leaves, sums, counts, batch)
        if n_batch == 0:
            break
        lacking = _lacking(policy, offsets, counts, n_batch, nodes, histograms, tables)
        if lacking > 0:
            return 0, lacking, 0
        n_leaves += n_batch
        is_last = n_leaves >= max_leaves or (policy != LOSSGUIDE and nodes[batch[0], _DEPTH] + 1 >= max_depth)
        _fill_tables(
            codes, rows, gh[0], is_categorical, offsets, scoring, histograms, summed, nodes, batch[:n_batch], counts,
            tables, parts, room[3:], outputs,
        )  # fmt: skip
        if not is_last:
            _part(team, fewest[1], columns, rows, tables, parts[:n_batch], room[3:], each)
        if summed is not None or outputs is not None:
            _sum_left(offsets, histograms, nodes, batch[:n_batch], tables, sums, outputs)
        _divide(nodes, sums, batch[:n_batch], counts, room[5], half, is_last, outputs)
        if is_last:
            break
    n_parted, n_waiting = _close(nodes, counts, leaves)
    if outputs is None:
        _set_results(nodes, sums, scoring, counts, results)
    else:
        _set_results_of_outputs(nodes, outputs, scoring, counts, results)
    return counts[NODES], n_parted, n_waiting


# A tree takes 0.1 (a stump) to 2 ms longer in levels, one for all outputs 1 to 4 ms.
_compiling_later = CompileLater(grow_tree, most=2000)
_compiling_vectors_later = CompileLater(grow_vector_tree, most=500)


@kernel(no_cpython_wrapper=True)
def _lacking(policy, offsets, counts, n_batch, nodes, histograms, tables):  # type: ignore[no-untyped-def]
    """Return which array may be too small for the splits of a batch and the search in their children, 0 if none."""
    widest = 0
    for feature in range(len(offsets) - 1):
        widest = max(widest, offsets[feature + 1] - offsets[feature])
    if counts[NODES] + 2 * n_batch > len(nodes):
        return NODES
    if counts[HISTOGRAMS] - counts[_FREE] + n_batch > len(histograms):
        return HISTOGRAMS
    n_tables = 1 if policy == SYMMETRIC else n_batch
    return TABLES if counts[TABLES] + n_tables * widest > len(tables) else 0


@kernel(no_cpython_wrapper=True)
def _add_leaf(nodes, counts, depth, start, stop):  # type: ignore[no-untyped-def]
    node = nodes[counts[NODES]]
    counts[NODES] += 1
    node[FEATURE], node[LEFT], node[_START], node[_STOP] = -1, -1, start, stop
    node[_DEPTH], node[_HISTOGRAM] = depth, -1


@kernel(no_cpython_wrapper=True)
def _free_histogram(index, free, counts):  # type: ignore[no-untyped-def]
    """Free a histogram for other nodes; -1 is none."""
    if index >= 0:
        free[counts[_FREE]] = index
        counts[_FREE] += 1


@kernel(no_cpython_wrapper=True)
def _open_nodes(  # type: ignore[no-untyped-def]
    nodes, sums, batch, n_batch, max_depth, lightest, most_of_few, counts, free, room, parts, few
):
    """Open the root, or the splittable children of a batch, with a histogram each unless they have few rows.

    A child needs H of at least min_child_weight, so a node with less than twice that, ``lightest``, is a leaf, unless
    the tree is symmetric. Open nodes are written to ``room[0]``, and the indices of their histograms to ``room[3]``.
    The lighter of two siblings is summed from its rows: they are written to ``parts``, its index to ``room[1]``, and
    the index of its sibling, which takes over the parent's, to ``room[2]``, -1 for none.

    Siblings of at most ``most_of_few`` rows each are written to ``few`` instead: the position in ``room[0]``, start and
    stop.
    """
    counts[_OPEN] = counts[_SUMMED] = counts[_FEW] = 0
    for k in range(max(n_batch, 1)):
        left = nodes[batch[k], LEFT] if n_batch > 0 else 0
        right = left + (n_batch > 0)
        above = nodes[batch[k], _HISTOGRAM] if n_batch > 0 else -1
        if nodes[left, _DEPTH] >= max_depth or (lightest > sums[left, SUM_H] and lightest > sums[right, SUM_H]):
            _free_histogram(above, free, counts)
            continue
        most_rows = max(nodes[left, _STOP] - nodes[left, _START], nodes[right, _STOP] - nodes[right, _START])
        if most_rows <= most_of_few:
            _free_histogram(above, free, counts)
            for node in range(left, right + 1):
                n, at = counts[_OPEN], few[counts[_FEW]]
                room[0, n], room[3, n], nodes[node, _HISTOGRAM] = node, -1, -1
                at[0], at[1], at[2] = n, nodes[node, _START], nodes[node, _STOP]
                counts[_OPEN] += 1
                counts[_FEW] += 1
            continue
        if counts[_FREE] > 0:
            counts[_FREE] -= 1
            index = free[counts[_FREE]]
        else:
            index = counts[HISTOGRAMS]
            counts[HISTOGRAMS] += 1
        light = left if sums[left, SUM_H] <= sums[right, SUM_H] else right
        nodes[left, _HISTOGRAM] = nodes[right, _HISTOGRAM] = above
        nodes[light, _HISTOGRAM] = index
        for node in range(left, right + 1):
            room[0, counts[_OPEN]], room[3, counts[_OPEN]] = node, nodes[node, _HISTOGRAM]
            counts[_OPEN] += 1
        n = counts[_SUMMED]
        counts[_SUMMED] += 1
        parts[n, 0], parts[n, 1], parts[n, 2] = n, nodes[light, _START], nodes[light, _STOP]
        room[1, n], room[2, n] = index, above


@kernel(no_cpython_wrapper=True)
def _draw_by_node(draws, of_tree, nodes, open_, policy, allowed):  # type: ignore[no-untyped-def]
    """Write the features that open nodes, all on one level, may be split on: the same for a symmetric tree.

    ``of_tree``, bool (features,), are the features to draw from.
    """
    (_, by_level, by_node), (_, level_key, node_key) = draws
    of_level = of_tree.copy()
    keep_drawn(of_level, by_level, hash_of(nodes[open_[0], _DEPTH] + 1, level_key))
    for k in range(len(open_)):
        for feature in range(len(of_level)):
            allowed[k, feature] = of_level[feature]
        keep_drawn(allowed[k], by_node, hash_of(open_[k] + 1, node_key))
    if policy == SYMMETRIC:
        for k in range(1, len(open_)):
            for feature in range(len(of_level)):
                allowed[0, feature] &= allowed[k, feature]


@kernel(no_cpython_wrapper=True)
def _keep_splits(  # type: ignore[no-untyped-def]
    policy, scoring, nodes, sums, open_, best, stats, counts, free, candidates
):
    """Append the open nodes with a split to the candidates; the others are leaves, and their histograms are freed."""
    n_sharing = counts[_OPEN] if policy == SYMMETRIC else 1
    for k in range(counts[_OPEN]):
        node = open_[k]
        if best[k, 0] >= 0 and stats[k, 0] >= scoring[7]:
            for i in range(3):
                nodes[node, FEATURE + i], sums[node, GAIN + i] = best[k, i], stats[k, i]
            sums[node, GAIN] /= n_sharing
            candidates[counts[_CANDIDATES]] = node
            counts[_CANDIDATES] += 1
        else:
            _free_histogram(nodes[node, _HISTOGRAM], free, counts)


@kernel(no_cpython_wrapper=True)
def _take(candidates, policy, most, sums, counts, batch):  # type: ignore[no-untyped-def]
    """Move at most ``most`` nodes to split next from the candidates to the batch; return their number.

    A level of a symmetric tree is split entirely or not at all.
    """
    n = counts[_CANDIDATES]
    if policy != LOSSGUIDE:
        counts[_CANDIDATES], n = 0, 0 if policy == SYMMETRIC and n > most else min(n, most)
        for k in range(n):
            batch[k] = candidates[k]
        return n
    largest = 0
    for k in range(1, n):  # in the order of creation, so the first of equal ones is the first created
        if sums[candidates[k], GAIN] > sums[candidates[largest], GAIN]:
            largest = k
    batch[0] = candidates[largest]
    for k in range(largest + 1, n):
        candidates[k - 1] = candidates[k]
    counts[_CANDIDATES] = max(n - 1, 0)
    return min(n, 1)


@kernel(no_cpython_wrapper=True)
def _fill_tables(  # type: ignore[no-untyped-def]
    codes, rows, gh, is_categorical, offsets, scoring, histograms, summed, nodes, batch, counts, tables, parts, room,
    outputs,
):  # fmt: skip
    """Write which codes go left for each split of a batch, and the arguments of `part_share`."""
    onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, _ = scoring
    for k in range(len(batch)):
        node = nodes[batch[k]]
        feature, missing_left = node[FEATURE], node[MISSING_LEFT] != 0
        first, last = offsets[feature], offsets[feature + 1]
        is_shared = summed is not None and k > 0
        node[TABLE] = nodes[batch[0], TABLE] if is_shared else counts[TABLES]
        parts[k, 0], parts[k, 1], parts[k, 2] = k, node[_START], node[_STOP]
        room[0, k], room[1, k] = feature, node[TABLE]
        if is_shared:
            continue
        counts[TABLES] += last - first
        table = tables[node[TABLE] : counts[TABLES]]
        if is_categorical is None or not is_categorical[feature]:
            fill_side(table, node[BIN], missing_left)
        elif summed is None and outputs is not None:
            of_outputs = histograms[node[_HISTOGRAM]].reshape((outputs.shape[1], -1, 2))
            named = named_by_outputs(
                of_outputs[:, first:last], node[BIN], missing_left, onehot, threshold, smooth,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight,
            )  # fmt: skip
            fill_opposite(table, named, missing_left)
        else:
            histogram = histograms[node[_HISTOGRAM], first:last]
            if summed is not None:
                histogram = summed[first:last]
            if node[_HISTOGRAM] < 0:
                of_rows, alone = np.zeros((last - first, 2)), np.zeros_like(offsets)
                add_rows(codes, rows, node[_START], node[_STOP], gh, alone, feature, feature + 1, of_rows.ravel())
                histogram = of_rows
            fill_named(
                table, histogram, node[BIN], missing_left, onehot, smooth,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight,
            )  # fmt: skip


@kernel(no_cpython_wrapper=True)
def _part(team, fewest, columns, rows, tables, parts, room, each):  # type: ignore[no-untyped-def]
    """Partition the rows of the nodes of a batch, and write the number of rows of each that go left to ``room[2]``."""
    n_rows = 0
    for k in range(len(parts)):
        n_rows += parts[k, 2] - parts[k, 1]
    item = parting((columns, room[0], tables, room[1], rows, parts, each, room[2]))
    if n_rows >= fewest and len(parts) > 1:
        share_out(team, item, len(parts))
    else:
        do_alone(item, len(parts))


@kernel(no_cpython_wrapper=True)
def _sum_left(offsets, histograms, nodes, batch, tables, sums, outputs):  # type: ignore[no-untyped-def]
    """Write the sums of the left child of each node of a batch, by its table."""
    for k in range(len(batch)):
        node, histogram = nodes[batch[k]], histograms[nodes[batch[k], _HISTOGRAM]]
        first, is_left = offsets[node[FEATURE]], tables[node[TABLE] :]
        n_outputs, of_all = len(histogram) // offsets[-1], sums[batch[k], _LEFT_G : _LEFT_H + 1]
        of_all[0] = of_all[1] = 0.0
        for output in range(n_outputs):
            G, H, start = 0.0, 0.0, output * offsets[-1] + first
            for code in range(offsets[node[FEATURE] + 1] - first):
                if is_left[code]:
                    G += histogram[start + code, 0]
                    H += histogram[start + code, 1]
            of_all[0] += G
            of_all[1] += H
            if outputs is not None:
                outputs[_GL, output, batch[k]], outputs[_HL, output, batch[k]] = G, H


@kernel(no_cpython_wrapper=True)
def _divide(nodes, sums, batch, counts, n_left, half, is_last, outputs):  # type: ignore[no-untyped-def]
    """Create the children of each node of a batch; its rows have been partitioned, unless the batch is the last."""
    for k in range(len(batch)):
        node, of_node, left = nodes[batch[k]], sums[batch[k]], counts[NODES]
        there = half if node[_START] < half else -half
        middle = node[_START] + there + n_left[k]
        node[LEFT] = left
        first, last = (_NOWHERE, _NOWHERE) if is_last else (node[_START] + there, node[_STOP] + there)
        _add_leaf(nodes, counts, node[_DEPTH] + 1, first, _NOWHERE if is_last else middle)
        _add_leaf(nodes, counts, node[_DEPTH] + 1, _NOWHERE if is_last else middle, last)
        for i in range(2):
            sums[left, SUM_G + i] = of_node[_LEFT_G + i]
            sums[left + 1, SUM_G + i] = of_node[SUM_G + i] - of_node[_LEFT_G + i]
        if outputs is not None:
            for i in range(2):
                for output in range(outputs.shape[1]):
                    of_left = outputs[_GL + i, output, batch[k]]
                    outputs[_G + i, output, left] = of_left
                    outputs[_G + i, output, left + 1] = outputs[_G + i, output, batch[k]] - of_left


@kernel(no_cpython_wrapper=True)
def _close(nodes, counts, leaves):  # type: ignore[no-untyped-def]
    """Write the rows of the leaves, then of nodes whose rows have not been moved; return the number of each.

    Candidate splits that were not made are removed.
    """
    n_parted, n_waiting = 0, 0
    for k in range(counts[NODES]):
        node = nodes[k]
        if node[LEFT] >= 0:
            nodes[node[LEFT], _ABOVE] = nodes[node[LEFT] + 1, _ABOVE] = k
        else:
            node[FEATURE], node[MISSING_LEFT] = -1, 0
            if node[_START] >= 0:
                leaves[n_parted, 0], leaves[n_parted, 1], leaves[n_parted, 2] = k, node[_START], node[_STOP]
                n_parted += 1
    for k in range(counts[NODES]):
        node = nodes[k]
        if node[LEFT] >= 0 and nodes[node[LEFT], _START] < 0:
            at = n_parted + n_waiting
            leaves[at, 0], leaves[at, 1], leaves[at, 2] = k, node[_START], node[_STOP]
            n_waiting += 1
    return n_parted, n_waiting


@kernel(no_cpython_wrapper=True)
def _set_results(nodes, sums, scoring, counts, results):  # type: ignore[no-untyped-def]
    """Write gain, H and value of each node.

    Only a symmetric tree has children below min_child_weight; they predict the value of their parent.
    """
    _, _, _, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, shrinkage = scoring
    gains, covers, values = results[_GAINS, 0], results[_COVERS, 0], results[_VALUES, 0]
    for k in range(counts[NODES]):
        gains[k], covers[k], weight = 0.0, sums[k, SUM_H], 0.0
        if nodes[k, LEFT] >= 0:
            gains[k] = sums[k, GAIN]
        if min_child_weight <= sums[k, SUM_H]:
            weight = leaf_weight(sums[k, SUM_G], sums[k, SUM_H], reg_lambda, reg_alpha, max_delta_step)
        values[k] = weight * shrinkage + 0.0  # + 0.0 turns -0.0 into 0.0
        if k > 0 and min_child_weight > sums[k, SUM_H]:
            values[k] = values[nodes[k, _ABOVE]]


@kernel(no_cpython_wrapper=True)
def _set_results_of_outputs(nodes, outputs, scoring, counts, results):  # type: ignore[no-untyped-def]
    """Write gain, H and value of each node in each output; the value is 0 where H is below min_child_weight."""
    _, _, _, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, shrinkage = scoring
    penalties = reg_lambda, reg_alpha, max_delta_step, min_child_weight
    for output in range(outputs.shape[1]):
        (G, H, GL, HL), (gains, covers, values) = outputs[:, output], results[:, output]
        for k in range(counts[NODES]):
            gains[k], covers[k], weight = 0.0, H[k], 0.0
            if nodes[k, LEFT] >= 0:
                gains[k] = gain_of_output(GL[k], HL[k], G[k], H[k], penalties)
            if min_child_weight <= H[k]:
                weight = leaf_weight(G[k], H[k], reg_lambda, reg_alpha, max_delta_step)
            values[k] = weight * shrinkage + 0.0


# --- the work of a level ----------------------------------------------------------------------------------------------


@kernel(no_cpython_wrapper=True)
def search_level(  # type: ignore[no-untyped-def]
    team, ranges, fewest, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms,
    splits_alone, summed, outputs, parts, indices, above, of_open, few, best, stats,
):  # fmt: skip
    """Write the histograms of a level's open nodes, and their best splits to ``best[0]`` and ``stats[0]``.

    Parameters
    ----------
    team, ranges, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms
        As for `_grow`; rows of ``allowed`` and ``bounds`` are open nodes.
    splits_alone, summed, outputs
        As there.
    fewest
        The minimum of additions to histograms plus slots to scan for threads to share the level.
    parts
        int64 (pairs, 3): the range of ``rows`` of each pair's lighter sibling, in the last two columns.
    indices, above
        int64 (pairs,): the index of its histogram, and the index of the parent's, which becomes the other sibling's; -1
        for the root, which has no sibling.
    of_open
        int64 (open nodes,): the indices of their final histograms, -1 for nodes of few rows.
    few
        int64 (nodes of few rows, 3): the position in ``of_open``, and the range of ``rows``.
    best, stats
        int64 and float64 (ranges, nodes, 3), written: see `frameboost.splits.search.scan_histograms`.
    """
    if len(of_open) == 0:
        return
    n_features, work = len(offsets) - 1, (len(of_open) - len(few)) * histograms.shape[1]
    for k in range(len(indices)):
        work += (parts[k, 2] - parts[k, 1]) * n_features * len(gh)
    for k in range(len(few)):
        work += (few[k, 2] - few[k, 1]) * n_features
    used_ranges = ranges
    if len(ranges) > 2 and work < fewest:
        used_ranges = np.empty(2, dtype=np.int64)
        used_ranges[0], used_ranges[1] = 0, n_features
    n_ranges = len(used_ranges) - 1
    item = _searching((
        used_ranges, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms,
        splits_alone, summed, outputs, parts, indices, above, of_open, few, best, stats,
    ))  # fmt: skip
    if n_ranges > 1:
        share_out(team, item, n_ranges)
    else:
        do_alone(item, 1)
    _keep_first(best, stats, len(of_open), n_ranges)


@kernel
def _search_range(  # type: ignore[no-untyped-def]
    ranges, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms, splits_alone,
    summed, outputs, parts, indices, above, of_open, few, best, stats, item,
):  # fmt: skip
    first, last = ranges[item], ranges[item + 1]
    n, n_slots, n_outputs = len(of_open), offsets[-1], len(gh)
    for k in range(len(indices)):
        light = histograms[indices[k]].ravel()
        for output in range(n_outputs):
            start = output * n_slots
            slots = slice(2 * (start + offsets[first]), 2 * (start + offsets[last]))
            cleared = light[slots]
            for i in range(len(cleared)):
                cleared[i] = 0.0
            add_rows(codes, rows, parts[k, 1], parts[k, 2], gh[output], offsets, first, last, light[2 * start :])
            subtract_slots(histograms, indices, above, k, slots)
    range_categorical, range_monotone, range_bounds = is_categorical, monotone, bounds
    if is_categorical is not None:
        range_categorical = is_categorical[first:last]
    if monotone is not None:
        range_monotone, range_bounds = monotone[first:last], bounds[: n * n_outputs]
    range_offsets, range_best, range_stats = offsets[first : last + 1], best[item], stats[item]
    onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, _ = scoring
    if splits_alone is not None:
        if outputs is None:
            scan_histograms(
                histograms, of_open, range_offsets, range_categorical, allowed, first, range_monotone, range_bounds,
                None, None, onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
                range_best, range_stats,
            )  # fmt: skip
            _scan_few(
                few, codes, rows, gh[0], range_offsets, range_categorical, allowed, first, onehot, threshold, smooth,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight, range_best, range_stats,
            )  # fmt: skip
        if outputs is not None:
            scan_outputs(
                histograms.reshape((-1, n_outputs, n_slots, 2)), of_open, range_offsets, range_categorical, allowed,
                first, None, onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
                range_best, range_stats[:, 0],
            )  # fmt: skip
        for k in range(n):
            range_best[k, 0] += first if range_best[k, 0] >= 0 else 0
    if summed is not None:
        of_outputs = histograms.reshape((-1, n_slots, 2))
        if n == 1:  # the root; every level has all rows, and sums are exact
            _sum_root(of_outputs[n_outputs * of_open[0] :][:n_outputs], range_offsets, range_categorical, summed)
        scanned = np.empty(n * n_outputs, dtype=np.int64)
        for k in range(len(scanned)):
            scanned[k] = of_open[k // n_outputs] * n_outputs + k % n_outputs
        gain, feature, position, missing_left = scan_level(
            of_outputs, scanned, summed, range_offsets, range_categorical, allowed[0, first:last], range_monotone,
            range_bounds, None, onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
        )  # fmt: skip
        for k in range(n):
            range_best[k, 0] = feature + first if feature >= 0 else -1
            range_best[k, 1], range_best[k, 2] = position, missing_left
            range_stats[k, 0] = gain


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _scan_few(  # type: ignore[no-untyped-def]
    few, codes, rows, gh, offsets, is_categorical, allowed, first, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats,
):  # fmt: skip
    """Do the work of `scan_histograms` for nodes of few rows, from these; ``gh`` is float64 (rows, 2)."""
    widest = 0
    for feature in range(len(offsets) - 1):
        widest = max(widest, offsets[feature + 1] - offsets[feature])
    sums, is_summed = np.zeros((widest, 2)), np.zeros(widest // 64 + 1, dtype=np.uint64)  # a bit for each slot
    left, gains, positions = np.empty((2, widest)), np.empty(widest), np.empty(widest, dtype=np.int64)
    room, alone = category_room(0 if is_categorical is None else widest), np.zeros(codes.shape[1], dtype=np.int64)
    for i in range(len(few)):
        node, start, stop = few[i]
        G, H = 0.0, 0.0
        for row in rows[start:stop]:
            G += gh[row, 0]
            H += gh[row, 1]
        parent = best_score(G, H, reg_lambda, reg_alpha) if H > 0.0 else 0.0
        best[node, 0], stats[node, 0] = -1, 0.0
        for feature in range(len(offsets) - 1):
            if not allowed[node, first + feature]:
                continue
            n_slots = offsets[feature + 1] - offsets[feature]
            if is_categorical is not None and is_categorical[feature]:
                at = first + feature
                add_rows(codes, rows, start, stop, gh, alone, at, at + 1, sums.ravel())
                candidate = scan_categories(
                    sums[:n_slots], None, room, G, H, parent, None, node, max_cat_to_onehot, max_cat_threshold,
                    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
                keep_split(candidate, feature, best[node], stats[node])
                sums[:n_slots] = 0.0
                continue
            words = is_summed[: n_slots // 64 + 1]
            for row in rows[start:stop]:
                code = np.uint64(codes[row, first + feature])
                sums[code, 0] += gh[row, 0]
                sums[code, 1] += gh[row, 1]
                words[code >> _SIX] |= _ONE << (code & _LOW_SIX)
            missing_G, missing_H = sums[n_slots - 1, 0], sums[n_slots - 1, 1]
            sums[n_slots - 1, 0] = sums[n_slots - 1, 1] = 0.0
            n = _prefix_sums_of_few(sums, words, left, positions)
            candidate = best_of_sums(
                left, n, positions, missing_G, missing_H, None, G, H, parent, reg_lambda, reg_alpha, min_child_weight,
                stats[node, 0], gains,
            )  # fmt: skip
            keep_split(candidate, feature, best[node], stats[node])


@kernel(no_cpython_wrapper=True)
def _prefix_sums_of_few(sums, words, left, positions):  # type: ignore[no-untyped-def]
    """Write the prefix sums of the bins whose bits are set in ``words``, and the next positions; return their number.

    The sums, float64 (slots, 2), and the bits become 0.
    """
    n, G, H = np.uint64(0), 0.0, 0.0
    for word in range(np.uint64(len(words))):
        bits = words[word]
        words[word] = 0
        while bits != 0:
            bin_ = (word << _SIX) + lowest_bit(bits)
            bits &= bits - _ONE
            g, h = sums[bin_, 0], sums[bin_, 1]
            sums[bin_, 0] = sums[bin_, 1] = 0.0
            G += g
            H += h
            left[0, n], left[1, n], positions[n] = G, H, bin_ + _ONE
            n += np.uint64(abs(g) + abs(h) > 0.0)
    return n


@kernel(no_cpython_wrapper=True)
def _sum_root(root, offsets, is_categorical, summed):  # type: ignore[no-untyped-def]
    """Write the sums over outputs of the root's histograms, float64 (outputs, slots, 2), to ``summed``.

    For a categorical feature those of the output with the largest gradients: they sum to 0 over the classes of a row,
    so categories could not be sorted by the sum.
    """
    for feature in range(len(offsets) - 1):
        first, last, most = 0, len(root), -1.0
        if is_categorical is not None and is_categorical[feature]:
            for output in range(len(root)):
                total = 0.0
                for slot in range(offsets[feature], offsets[feature + 1]):
                    total += abs(root[output, slot, 0])
                if total > most:
                    first, last, most = output, output + 1, total
        for slot in range(offsets[feature], offsets[feature + 1]):
            summed[slot, 0], summed[slot, 1] = root[first, slot, 0], root[first, slot, 1]
            for output in range(first + 1, last):
                summed[slot, 0] += root[output, slot, 0]
                summed[slot, 1] += root[output, slot, 1]


_searching = outlined(_search_range)


@kernel(no_cpython_wrapper=True)
def _keep_first(best, stats, n_nodes, n_ranges):  # type: ignore[no-untyped-def]
    """Write each node's best split over all ranges to the first range; the lowest feature wins ties.

    If two ranges have gains of 2.5 (feature 1) and 2.5 (feature 7), the split is on feature 1.
    """
    for number in range(1, n_ranges):
        for k in range(n_nodes):
            if stats[number, k, 0] > stats[0, k, 0]:
                for i in range(3):
                    best[0, k, i], stats[0, k, i] = best[number, k, i], stats[number, k, i]


# --- the values of a tree, added to other rows ------------------------------------------------------------------------


# Rows that go down a tree together.
_WALKED = np.uint64(128)


@kernel
def _walk_share(codes, feature, left, table, goes_left, values, margins, count, share):  # type: ignore[no-untyped-def]
    """Add the leaf values for one of ``count`` shares of the rows; blocks of rows descend together, without branches.

    The descent of a single row would wait for memory at each level.
    """
    n_blocks, nodes = (np.uint64(len(codes)) + _WALKED - np.uint64(1)) // _WALKED, np.empty(_WALKED, dtype=np.uint64)
    first = _WALKED * (n_blocks * np.uint64(share) // np.uint64(count))
    last = min(np.uint64(len(codes)), _WALKED * (n_blocks * np.uint64(share + 1) // np.uint64(count)))
    for start in range(first, last, _WALKED):
        size = min(_WALKED, last - start)
        for i in range(size):
            nodes[i] = 0
        is_moving = True
        while is_moving:
            is_moving = False
            for i in range(size):
                node = nodes[i]
                child = left[node]
                is_inner = child >= 0
                column, at = np.uint64(feature[node] if is_inner else 0), np.uint64(table[node] if is_inner else 0)
                is_right = not goes_left[at + np.uint64(codes[start + i, column])]
                nodes[i] = child + is_right if is_inner else node
                is_moving |= is_inner
        for output in range(len(values)):
            for i in range(size):
                margins[output, start + i] += values[output, nodes[i]]


_walking = outlined(_walk_share)


@kernel
def add_tree(team, count, codes, feature, left, table, goes_left, values, margins):  # type: ignore[no-untyped-def]
    """Add the leaf values that other rows reach, by their codes, to their margins.

    Parameters
    ----------
    team, count
        The threads (see `frameboost.runtime.team`), and the number of shares.
    codes
        uint16 (rows, features).
    feature, left, table, goes_left
        See `frameboost.engines.contract.GrownNodes`.
    values, margins
        float64 (outputs, nodes), and float64 (outputs, rows), added to.
    """
    if left[0] < 0:
        for output in range(len(values)):
            for row in range(len(codes)):
                margins[output, row] += values[output, 0]
        return
    share_out(team, _walking((codes, feature, left, table, goes_left, values, margins, count)), count)

"""A whole tree in one call, for few rows: the kernels of histograms, splits and partitions.

The steps are those of `frameboost.training.grower.TreeGrower`, whose calls for each level take longer than the work
where nodes have few rows. Nodes are numbered in the order of their creation; a right child follows its left sibling.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.level_kernels import search_level
from frameboost.engines.memory.partition_kernels import fill_side, number_rows, parting
from frameboost.engines.memory.sampling_kernels import hash_of, keep_drawn
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_kernels import do_alone, share_out
from frameboost.splits.category_kernels import fill_named
from frameboost.splits.gain import leaf_weight

__all__ = [
    "BIN", "DEPTHWISE", "FEATURE", "GAIN", "LEFT", "LOSSGUIDE", "MISSING_LEFT", "NODES", "N_FIELDS", "N_SUMS", "PLACES",
    "SUM_G", "SUM_H", "SYMMETRIC", "TABLE", "TABLES", "VALUE", "grow_tree",
]  # fmt: skip

# The fields of a node: its split, its left child (-1 in a leaf), where its table starts, its rows, and for the growth
# its depth and the place of its histogram.
FEATURE, BIN, MISSING_LEFT, LEFT, TABLE, _START, _STOP, _DEPTH, _PLACE, N_FIELDS = range(10)
_ABOVE = _PLACE  # of a grown node: its parent
# Where the rows of a node start and stop that are still where its parent's are.
_NOWHERE = np.int64(-1)
# Its gain, the sums of its left child, its own, and its value as a leaf.
GAIN, _LEFT_G, _LEFT_H, SUM_G, SUM_H, VALUE, N_SUMS = range(7)
# What is counted during the growth: places that are free again, nodes, places that have been used, the end of the
# tables, nodes that have a split; and of this step nodes that may be split, and those that are summed from their rows.
_FREE, NODES, PLACES, TABLES, _CANDIDATES, _OPEN, _SUMMED, _N_COUNTS = range(8)
# The order of the splits.
DEPTHWISE, LOSSGUIDE, SYMMETRIC = range(3)


@kernel
def grow_tree(  # type: ignore[no-untyped-def]
    team, ranges, fewest, codes, columns, rows, gh, offsets, is_categorical, monotone, bounds, draws, allowed,
    shape, scoring, histograms, splits_alone, summed, tables, nodes, sums, leaves,
):  # fmt: skip
    """Grow a tree; return the number of its nodes, of ranges of leaves, and of splits that are left to carry out.

    The last splits leave their rows where they are: only the values of the leaves are added to them. If there is too
    little room, return 0 and what lacks it: `NODES`, `PLACES` or `TABLES`.

    Parameters
    ----------
    team, ranges
        The threads (see `frameboost.runtime.team_kernels`), None for this one alone, and int64 (ranges + 1,): the first
        feature of each range that a thread may take, and the number of features.
    fewest
        The work from which on threads share a level: additions to histograms and slots to scan, and rows to move.
    codes, columns
        uint16 (rows, features) and (features, rows): the same codes.
    rows
        uint32 (2 rows,), written: row numbers, those of a leaf, or of two leaves, side by side in one half.
    gh
        float64 (rows, 2): g and h.
    offsets, is_categorical, monotone, bounds
        As for `scan_histograms`. The last two are None, or 0 for all features and infinite for as many nodes as the
        tree can have.
    draws
        The shares and keys of `frameboost.engines.contract.FeatureDraws`; None for all features.
    allowed
        bool (nodes, features), all True, or written if there are draws: the features that nodes may be split on.
    shape
        The largest depth, the most leaves, and `DEPTHWISE`, `LOSSGUIDE` or `SYMMETRIC`.
    scoring
        The parameters max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
        min_child_weight, the least gain of a split, and the factor of leaf values.
    histograms
        float64 (histograms, slots, 2), written.
    splits_alone, summed
        True and None, where each node has a split of its own; for a symmetric tree None and float64 (slots, 2),
        written: the histogram of a level. Kernels are compiled without what None stands for.
    tables
        bool, written: for each split whether a code goes left, from the `TABLE` of its node on. The nodes of a level of
        a symmetric tree have one table.
    nodes, sums
        int64 (nodes, `N_FIELDS`) and float64 (nodes, `N_SUMS`), written. G and H of the root are given.
    leaves
        int64 (nodes, 3), written: the node, start and stop of the ranges of leaves, then of the nodes whose splits are
        left to carry out.
    """
    max_depth, max_leaves, policy = shape
    lightest = 0.0 if policy == SYMMETRIC else 2.0 * scoring[6]
    half, counts = len(rows) >> 1, np.zeros(_N_COUNTS, dtype=np.int64)
    number_rows(rows, 0, half)
    _add_leaf(nodes, counts, np.int64(0), np.int64(0), half)
    room, parts = np.empty((7, len(nodes)), dtype=np.int64), np.empty((len(nodes), 3), dtype=np.int64)
    n_ranges = len(ranges) - 1
    best, stats = np.empty((n_ranges, len(nodes), 3), dtype=np.int64), np.empty((n_ranges, len(nodes), 3))
    free, candidates, batch, opened = room[0], room[1], room[2], room[3]
    each = np.arange(len(nodes) + 1)
    n_batch, n_leaves = each[0], 1
    if draws is not None:
        of_tree = np.ones(len(offsets) - 1, dtype=np.bool_)
        keep_drawn(of_tree, draws[0][0], draws[1][0])
    while n_leaves < max_leaves:
        _open_nodes(nodes, sums, batch, n_batch, max_depth, lightest, counts, free, room[3:], parts)
        if draws is not None and counts[_OPEN] > 0:
            _draw_by_node(draws, of_tree, nodes, opened[: counts[_OPEN]], policy, allowed)
        search_level(
            team, ranges, fewest[0], codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring,
            histograms, splits_alone, summed, parts, room[4, : counts[_SUMMED]], room[5], room[6, : counts[_OPEN]],
            best, stats,
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
            is_categorical,
            offsets,
            scoring,
            histograms,
            summed,
            nodes,
            batch[:n_batch],
            counts,
            tables,
            parts,
            room[3:],
        )
        if not is_last:
            _part(team, fewest[1], columns, rows, tables, parts[:n_batch], room[3:], each)
        _divide(nodes, sums, batch[:n_batch], counts, room[5], half, is_last)
        if is_last:
            break
    n_parted, n_waiting = _close(nodes, sums, scoring, counts, leaves)
    return counts[NODES], n_parted, n_waiting


@kernel(no_cpython_wrapper=True)
def _lacking(policy, offsets, counts, n_batch, nodes, histograms, tables):  # type: ignore[no-untyped-def]
    """Return what may have too little room for the splits of a batch and the search in their children, 0 if nothing."""
    widest = 0
    for feature in range(len(offsets) - 1):
        widest = max(widest, offsets[feature + 1] - offsets[feature])
    if counts[NODES] + 2 * n_batch > len(nodes):
        return NODES
    if counts[PLACES] - counts[_FREE] + n_batch > len(histograms):
        return PLACES
    n_tables = 1 if policy == SYMMETRIC else n_batch
    return TABLES if counts[TABLES] + n_tables * widest > len(tables) else 0


@kernel(no_cpython_wrapper=True)
def _add_leaf(nodes, counts, depth, start, stop):  # type: ignore[no-untyped-def]
    node = nodes[counts[NODES]]
    counts[NODES] += 1
    node[FEATURE], node[LEFT], node[_START], node[_STOP], node[_DEPTH], node[_PLACE] = -1, -1, start, stop, depth, -1


@kernel(no_cpython_wrapper=True)
def _open_nodes(  # type: ignore[no-untyped-def]
    nodes, sums, batch, n_batch, max_depth, lightest, counts, free, room, parts
):
    """Open the root, or of the children of a batch those that may be split, and give them places for histograms.

    A child needs H of at least min_child_weight, so a node with less than twice that, ``lightest``, is a leaf, unless
    the tree is symmetric. Open nodes are written to ``room[0]``, and the places of their histograms to ``room[3]``. The
    lighter one of two siblings is to be summed from its rows: these are written to ``parts``, its place to ``room[1]``,
    and to ``room[2]`` that of its sibling, which is its parent's, -1 for none.
    """
    counts[_OPEN] = counts[_SUMMED] = 0
    for k in range(max(n_batch, 1)):
        left = nodes[batch[k], LEFT] if n_batch > 0 else 0
        right = left + (n_batch > 0)
        above = nodes[batch[k], _PLACE] if n_batch > 0 else -1
        if nodes[left, _DEPTH] >= max_depth or (lightest > sums[left, SUM_H] and lightest > sums[right, SUM_H]):
            if above >= 0:
                free[counts[_FREE]] = above
                counts[_FREE] += 1
            continue
        if counts[_FREE] > 0:
            counts[_FREE] -= 1
            index = free[counts[_FREE]]
        else:
            index = counts[PLACES]
            counts[PLACES] += 1
        light = left if sums[left, SUM_H] <= sums[right, SUM_H] else right
        nodes[left, _PLACE] = nodes[right, _PLACE] = above
        nodes[light, _PLACE] = index
        for node in range(left, right + 1):
            room[0, counts[_OPEN]], room[3, counts[_OPEN]] = node, nodes[node, _PLACE]
            counts[_OPEN] += 1
        n = counts[_SUMMED]
        counts[_SUMMED] += 1
        parts[n, 0], parts[n, 1], parts[n, 2] = n, nodes[light, _START], nodes[light, _STOP]
        room[1, n], room[2, n] = index, above


@kernel(no_cpython_wrapper=True)
def _draw_by_node(draws, of_tree, nodes, open_, policy, allowed):  # type: ignore[no-untyped-def]
    """Write the features that open nodes, which are on one level, may be split on: for a symmetric tree all the same.

    ``of_tree``, bool (features,), are those to draw from.
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
    """Append the open nodes that have a split to the candidates; the others are leaves, whose places are free."""
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
            free[counts[_FREE]] = nodes[node, _PLACE]
            counts[_FREE] += 1


@kernel(no_cpython_wrapper=True)
def _take(candidates, policy, most, sums, counts, batch):  # type: ignore[no-untyped-def]
    """Take the next nodes to split, ``most`` at most, from the candidates to the batch; return their number.

    A level of a symmetric tree is split whole or not at all.
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
    is_categorical, offsets, scoring, histograms, summed, nodes, batch, counts, tables, parts, room
):
    """Write which codes go left, for each split of a batch, and what `part_share` needs."""
    onehot, _, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, _ = scoring
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
        own = tables[node[TABLE] : counts[TABLES]]
        if is_categorical is not None and is_categorical[feature]:
            histogram = histograms[node[_PLACE]]
            if summed is not None:
                histogram = summed
            fill_named(
                own, histogram[first:last], node[BIN], missing_left, onehot, smooth,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight,
            )  # fmt: skip
        else:
            fill_side(own, node[BIN], missing_left)


@kernel(no_cpython_wrapper=True)
def _part(team, fewest, columns, rows, tables, parts, room, each):  # type: ignore[no-untyped-def]
    """Partition the rows of the nodes of a batch; how many of each go left is written to ``room[2]``."""
    n_rows = 0
    for k in range(len(parts)):
        n_rows += parts[k, 2] - parts[k, 1]
    item = parting((columns, room[0], tables, room[1], rows, parts, each, room[2]))
    if n_rows >= fewest and len(parts) > 1:
        share_out(team, item, len(parts))
    else:
        do_alone(item, len(parts))


@kernel(no_cpython_wrapper=True)
def _divide(nodes, sums, batch, counts, n_left, half, is_last):  # type: ignore[no-untyped-def]
    """Create the children of each node of a batch, whose rows have been parted, or stay there in the last one."""
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


@kernel(no_cpython_wrapper=True)
def _close(nodes, sums, scoring, counts, leaves):  # type: ignore[no-untyped-def]
    """Write the value of each node, and the rows of the leaves, then of nodes whose rows stay where they are.

    Return how many there are of each. Splits that were not made are taken back. Only a symmetric tree has a child below
    min_child_weight; it predicts what its parent does.
    """
    _, _, _, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, shrinkage = scoring
    n_parted, n_waiting = 0, 0
    for k in range(counts[NODES]):
        node, weight = nodes[k], 0.0
        if min_child_weight <= sums[k, SUM_H]:
            weight = leaf_weight(sums[k, SUM_G], sums[k, SUM_H], reg_lambda, reg_alpha, max_delta_step)
        sums[k, VALUE] = weight * shrinkage + 0.0  # + 0.0 turns -0.0 into 0.0
        if k > 0 and min_child_weight > sums[k, SUM_H]:
            sums[k, VALUE] = sums[node[_ABOVE], VALUE]
        if node[LEFT] >= 0:
            nodes[node[LEFT], _ABOVE] = nodes[node[LEFT] + 1, _ABOVE] = k
        else:
            node[FEATURE], node[MISSING_LEFT], sums[k, GAIN] = -1, 0, 0.0
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

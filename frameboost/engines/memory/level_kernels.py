"""The work of a level of a tree that is grown in one call: histograms and splits, in ranges of features.

Of its features an item of work sums the lighter one of each two siblings from its rows, takes these sums from the
parent's, which leaves those of the other sibling, and searches all nodes of the level for splits. No item waits for
another, and in each level a thread mostly gets the range that it had in the one before, whose histograms are in its
cache. There is one range for each thread, as each item reads the pairs of all rows.

Say two threads have the features 0 to 4 and 5 to 9 of a level with nodes 1 and 2, of which node 2 has fewer rows::

    item 0    sums of node 2, features 0-4; node 1: parent - node 2; best splits of nodes 1 and 2 on features 0-4
    item 1    the same with features 5-9
    then      of the two splits of each node, the one that gains more; of equal ones the first
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.histogram_kernels import add_rows
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import do_alone, share_out
from frameboost.splits.search_kernels import scan_histograms
from frameboost.splits.subtraction_kernels import subtract_slots
from frameboost.splits.symmetric_kernels import scan_level, split_level

__all__ = ["search_level"]


@kernel(no_cpython_wrapper=True)
def search_level(  # type: ignore[no-untyped-def]
    team, ranges, fewest, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms,
    splits_alone, summed, parts, indices, above, of_open, best, stats,
):  # fmt: skip
    """Write the histograms of a level's open nodes, and their best splits to ``best[0]`` and ``stats[0]``.

    Parameters
    ----------
    team, ranges, codes, rows, pairs, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms
        As for `frameboost.engines.memory.tree_kernels.grow_tree`; rows of ``allowed`` and ``bounds`` are open nodes.
    splits_alone, summed
        As there.
    fewest
        The additions to histograms and slots to scan from which on threads share the level.
    parts
        int64 (pairs, 3): in the last two columns the range of ``rows`` that the lighter sibling of each pair has.
    places, above
        int64 (pairs,): where its histogram goes, and where that of the parent is, which becomes the other sibling's; -1
        for the root, which has no sibling.
    of_open
        int64 (open nodes,): where their histograms are in the end.
    best, stats
        int64 and float64 (ranges, nodes, 3), written: see `frameboost.splits.search_kernels.scan_histograms`.
    """
    if len(of_open) == 0:
        return
    n_features, work = len(offsets) - 1, len(of_open) * histograms.shape[1]
    for k in range(len(indices)):
        work += (parts[k, 2] - parts[k, 1]) * n_features
    own_ranges = ranges
    if len(ranges) > 2 and work < fewest:
        own_ranges = np.empty(2, dtype=np.int64)
        own_ranges[0], own_ranges[1] = 0, n_features
    n_ranges = len(own_ranges) - 1
    item = _searching((
        own_ranges, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms,
        splits_alone, summed, parts, indices, above, of_open, best, stats,
    ))  # fmt: skip
    if n_ranges > 1:
        share_out(team, item, n_ranges)
    else:
        do_alone(item, 1)
    _keep_first(best, stats, len(of_open), n_ranges)
    if summed is not None:
        onehot, _, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, _ = scoring
        split_level(
            histograms, of_open, summed, offsets, is_categorical, best[0], stats[0], onehot, smooth, reg_lambda,
            reg_alpha, max_delta_step, min_child_weight,
        )  # fmt: skip


@kernel
def _search_range(  # type: ignore[no-untyped-def]
    ranges, codes, rows, gh, offsets, is_categorical, allowed, monotone, bounds, scoring, histograms, splits_alone,
    summed, parts, indices, above, of_open, best, stats, item,
):  # fmt: skip
    first, last = ranges[item], ranges[item + 1]
    slots, n = slice(2 * offsets[first], 2 * offsets[last]), len(of_open)
    for k in range(len(indices)):
        light = histograms[indices[k]].ravel()
        own = light[slots]
        for i in range(len(own)):
            own[i] = 0.0
        add_rows(codes, rows, parts[k, 1], parts[k, 2], gh, offsets, first, last, light)
        subtract_slots(histograms, indices, above, k, slots)
    own_categorical, own_monotone, own_bounds = is_categorical, monotone, bounds
    if is_categorical is not None:
        own_categorical = is_categorical[first:last]
    if monotone is not None:
        own_monotone, own_bounds = monotone[first:last], bounds[:n]
    own_offsets, found, found_stats = offsets[first : last + 1], best[item], stats[item]
    onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, _, _ = scoring
    if splits_alone is not None:
        scan_histograms(
            histograms, of_open, own_offsets, own_categorical, allowed[:n, first:last], own_monotone, own_bounds, None,
            onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, found, found_stats,
        )  # fmt: skip
        for k in range(n):
            found[k, 0] += first if found[k, 0] >= 0 else 0
    if summed is not None:
        if n == 1:  # the root; every level has all rows, and sums are exact
            of_root, of_level = histograms[of_open[0]].ravel()[slots], summed.ravel()[slots]
            for i in range(len(of_root)):
                of_level[i] = of_root[i]
        gain, feature, position, missing_left = scan_level(
            histograms, of_open, summed, own_offsets, own_categorical, allowed[0, first:last], own_monotone, own_bounds,
            onehot, threshold, smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
        )  # fmt: skip
        for k in range(n):
            found[k, 0], found[k, 1], found[k, 2] = feature + first if feature >= 0 else -1, position, missing_left
            found_stats[k, 0] = gain


_searching = outlined(_search_range)


@kernel(no_cpython_wrapper=True)
def _keep_first(best, stats, n_nodes, n_ranges):  # type: ignore[no-untyped-def]
    """Write each node's best split over all ranges to the first one's place: of equal gains that of the lowest feature.

    Say two ranges find gains of 2.5 (feature 1) and 2.5 (feature 7): the split is that on feature 1.
    """
    for number in range(1, n_ranges):
        for k in range(n_nodes):
            if stats[number, k, 0] > stats[0, k, 0]:
                for i in range(3):
                    best[0, k, i], stats[0, k, i] = best[number, k, i], stats[number, k, i]

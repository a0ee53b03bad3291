"""Kernels that search one split for all nodes of a level: symmetric trees, as in CatBoost.

The candidates are those of `frameboost.splits.search`. A candidate's gain is the sum of its gains over
the nodes of the level. Categories are ordered by their weights in the level as a whole.

For each feature, the gains of all candidates are summed over the nodes. Example: two nodes and three candidates; the
second has too light a child in node 0::

    node 0    0.5  0    1.5
    node 1    1.0  2.5  0.5
    gains     1.5  2.5  2.0     the split is the second candidate
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.search import (
    NAMED_LEFT,
    NAMED_RIGHT,
    bounded_gain,
    bounded_score,
    category_candidates,
    category_room,
    refuse_few_rows,
    refuse_small_sets,
    split_gain,
)

__all__ = ["scan_level"]

# The H of left sums that are refused: too light for any child.
_REFUSED = -np.inf


@kernel
def scan_level(  # type: ignore[no-untyped-def]
    histograms, indices, summed, offsets, is_categorical, allowed, monotone, bounds, least_rows, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
):  # fmt: skip
    """Search the split with the largest gain over all nodes of a level.

    Parameters
    ----------
    histograms, indices
        float64 (histograms, slots, 2): sums of g and h; and int64 (nodes,), the index of each node's histogram.
    summed
        float64 (slots, 2): their sum over the nodes.
    allowed
        bool (features,): the features that the level may be split on.
    offsets, is_categorical, monotone, bounds, least_rows
        As for `frameboost.splits.search.scan_histograms`.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.

    Returns
    -------
    tuple
        Gain, feature (-1: no split gains anything), position and whether missing goes left, as there. A node in which a
        child would have less than ``min_child_weight``, or fewer than ``least_rows`` rows, adds no gain.
    """
    penalties = reg_lambda, reg_alpha, max_delta_step, min_child_weight
    level = _divisible(histograms, indices, offsets[0], offsets[1], bounds, penalties)
    widest = 0
    for f in range(len(allowed)):
        widest = max(widest, offsets[f + 1] - offsets[f])
    # One more than the bins: see the last candidate of `_scan_numbers`, and that of `_scan_categories`.
    left, gains = np.empty((2, 2, widest + 1)), np.empty((2, widest + 1))
    positions, room = np.empty(widest, dtype=np.int64), category_room(0 if is_categorical is None else widest)
    best, feature, position, missing_left = 0.0, -1, 0, 0
    for f in range(len(allowed)):
        if not allowed[f]:
            continue
        first, total = np.uint64(offsets[f]), summed[offsets[f] : offsets[f + 1]]
        if is_categorical is not None and is_categorical[f]:
            gain, at, side = _scan_categories(
                histograms, first, indices, total, room, level, bounds, least_rows, max_cat_to_onehot,
                max_cat_threshold, cat_smooth, penalties, best, left, gains,
            )  # fmt: skip
        else:
            gain, at, side = _scan_numbers(
                histograms, first, indices, total, level, f, monotone, bounds, least_rows, penalties, best, left, gains,
                positions,
            )  # fmt: skip
        if gain > best:
            best, feature, position, missing_left = gain, f, at, side
    return best, feature, position, missing_left


@kernel(no_cpython_wrapper=True)
def _divisible(histograms, indices, start, end, bounds, penalties):  # type: ignore[no-untyped-def]
    """Return the nodes that a split can divide into two heavy enough children, and G, H and the score of each node.

    Other nodes add no gain. Sums are on grids, so H is bitwise equal to the sum over two children.
    """
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    nodes, n = np.empty(len(indices), dtype=np.int64), 0
    sums, parent = np.empty((len(indices), 2)), np.empty(len(indices))
    for k in range(len(indices)):
        G, H = 0.0, 0.0
        for slot in range(start, end):
            G += histograms[indices[k], slot, 0]
            H += histograms[indices[k], slot, 1]
        lower, upper = -np.inf, np.inf
        if bounds is not None:
            lower, upper = bounds[k, 0], bounds[k, 1]
        sums[k, 0], sums[k, 1] = G, H
        parent[k] = bounded_score(G, H, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        if H > 0.0 and 2.0 * min_child_weight <= H:
            nodes[n] = k
            n += 1
    return nodes[:n], sums, parent


@kernel(inline="always")
def _rows_of(counts, first, last, least_rows):  # type: ignore[no-untyped-def]
    """Return the numbers of rows of a node by bin of a feature, as arguments of `refuse_few_rows`."""
    of_feature, n_rows = counts[first : last + np.uint64(1)], 0.0
    for slot in range(len(of_feature)):
        n_rows += of_feature[slot, 0]
    return of_feature, n_rows, least_rows


@kernel(no_cpython_wrapper=True)
def _scan_numbers(  # type: ignore[no-untyped-def]
    histograms, first, indices, total, level, feature, monotone, bounds, least_rows, penalties, least, left, gains,
    positions,
):  # fmt: skip
    """Return gain, position and missing direction of a numeric feature's best split (see `scan_level`)."""
    (nodes, sums, parent), count, n = level, len(total) - 1, 0
    last = first + np.uint64(count)
    for i in range(count):  # to split behind an empty bin parts the rows as to split before it does
        positions[n] = i + 1
        n += total[i, 1] != 0.0 or total[i, 0] != 0.0
    has_missing = total[count, 1] != 0.0 or total[count, 0] != 0.0
    for i in range(n + 1):
        gains[0, i] = gains[1, i] = 0.0
    for k in nodes:
        index, G, H = np.uint64(indices[k]), 0.0, 0.0
        for i in range(np.uint64(n)):
            slot = first + np.uint64(positions[i] - 1)
            G += histograms[index, slot, 0]
            H += histograms[index, slot, 1]
            left[0, 0, i], left[0, 1, i] = G, H
        # Another copy of the left sums, with those of missing values, is needed where some are refused on one side.
        missing, added_G, added_H = 0, histograms[index, last, 0], histograms[index, last, 1]
        if least_rows is not None:
            missing = 1
            for i in range(n):
                left[1, 0, i], left[1, 1, i] = left[0, 0, i] + added_G, left[0, 1, i] + added_H
            added_G = added_H = 0.0
            positions[n] = count
            rows = _rows_of(histograms[index + np.uint64(1)], first, last, least_rows)
            for side in range(2):
                refuse_few_rows(rows, positions, 0, n, side, left[side, 1], _REFUSED)
        if monotone is None:
            _add_gains(left, 0, n, 0.0, 0.0, sums[k, 0], sums[k, 1], parent[k], penalties, gains, 0)
            if has_missing:
                _add_gains(left, missing, n, added_G, added_H, sums[k, 0], sums[k, 1], parent[k], penalties, gains, 1)
            continue
        limits = monotone[feature], bounds[k, 0], bounds[k, 1]
        _add_bounded_gains(left[0], 0, n, 0.0, 0.0, sums[k], parent[k], limits, penalties, gains[0])
        if has_missing:
            _add_bounded_gains(left[missing], 0, n, added_G, added_H, sums[k], parent[k], limits, penalties, gains[1])
        # One more candidate, which no direction holds for: present values left, missing ones right.
        left[0, 0, n], left[0, 1, n] = G, H
        if least_rows is not None:
            refuse_few_rows(rows, positions, n, n + 1, 0, left[0, 1], _REFUSED)
        _add_bounded_gains(
            left[0], n, n + 1, 0.0, 0.0, sums[k], parent[k], (np.int8(0), limits[1], limits[2]), penalties, gains[0]
        )
    best, position, missing_left = least, 0, 0
    for i in range(n + 1):
        for side in range(1 + has_missing):
            if gains[side, i] > best:
                best, position, missing_left = gains[side, i], positions[i] if i < n else count, side
    return best, position, missing_left


@kernel(no_cpython_wrapper=True)
def _scan_categories(  # type: ignore[no-untyped-def]
    histograms, first, indices, total, room, level, bounds, least_rows, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, penalties, least, left, gains,
):  # fmt: skip
    """Return the same for a categorical feature, with the candidates of `scan_categories`."""
    nodes, sums, parent = level
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    one_hot, steps, n, lowest, highest = category_candidates(
        total, room, max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
        min_child_weight,
    )  # fmt: skip
    sides, last = 1 if one_hot and steps == n else 2, first + np.uint64(len(total) - 1)
    for i in range(steps):
        gains[0, i] = gains[1, i] = 0.0
    for k in nodes:
        index = np.uint64(indices[k])
        for i in range(np.uint64(2)):  # G and H
            named_right, named_left = 0.0, 0.0
            for step in range(steps):
                if one_hot:
                    of_category = histograms[index, first + np.uint64(lowest[step]), i] if step < n else 0.0
                    left[NAMED_RIGHT, i, step] = sums[k, i] - of_category
                    left[NAMED_LEFT, i, step] = sums[k, i] - of_category - histograms[index, last, i]
                else:
                    named_right += histograms[index, first + np.uint64(lowest[step]), i]
                    named_left += histograms[index, first + np.uint64(highest[step]), i]
                    left[NAMED_RIGHT, i, step] = sums[k, i] - named_right
                    left[NAMED_LEFT, i, step] = named_left
        if least_rows is not None:
            rows = _rows_of(histograms[index + np.uint64(1)], first, last, least_rows)
            refuse_small_sets(rows, one_hot, steps, n, lowest, highest, left[:, 1], _REFUSED)
        for side in range(sides):
            if bounds is None:
                _add_gains(left, side, steps, 0.0, 0.0, sums[k, 0], sums[k, 1], parent[k], penalties, gains, side)
            else:
                limits = np.int8(0), bounds[k, 0], bounds[k, 1]
                _add_bounded_gains(left[side], 0, steps, 0.0, 0.0, sums[k], parent[k], limits, penalties, gains[side])
    best, position, best_side = least, 0, NAMED_RIGHT
    for step in range(steps):
        for side in range(sides):
            if side == NAMED_RIGHT and step + 1 == n + one_hot:
                continue
            if gains[side, step] > best:
                best, position, best_side = gains[side, step], step + 1, side
    return best, position, 1 - best_side


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_gains(left, at, n, added_G, added_H, G, H, parent, penalties, gains, side):  # type: ignore[no-untyped-def]
    """Add the gains of ``n`` sums in ``left[at]`` plus ``added_G`` and ``added_H`` to ``gains[side]``, 0 if too light.

    The loop has no branch, so that it compiles to SIMD instructions. Arrays are passed whole: making a view takes as
    long as the gains of ten categories.
    """
    reg_lambda, reg_alpha, _, min_child_weight = penalties
    at, side = np.uint64(at), np.uint64(side)
    for i in range(np.uint64(n)):
        GL, HL = left[at, np.uint64(0), i] + added_G, left[at, np.uint64(1), i] + added_H
        gains[side, i] += split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)


@kernel(no_cpython_wrapper=True)
def _add_bounded_gains(  # type: ignore[no-untyped-def]
    left, first, n, added_G, added_H, sums, parent, limits, penalties, gains
):
    """Add the gains from ``first`` on with bounded weights; ``limits``: direction, minimum and maximum weight."""
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    direction, lower, upper = limits
    for i in range(first, n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        gains[i] += bounded_gain(
            GL, HL, sums[0], sums[1], parent, direction, lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight,
        )  # fmt: skip

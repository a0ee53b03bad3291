"""The kernel that finds one split for all nodes of a level: symmetric trees, as CatBoost grows them.

The candidates are those of `numeric_kernels` and `category_kernels`. A candidate's gain is the sum of its gains over
the nodes of the level. Categories are ordered by their weights in the level as a whole.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.category_kernels import NAMED_LEFT, NAMED_RIGHT, category_candidates
from frameboost.splits.gain import bounded_score, split_score

__all__ = ["scan_level"]


@kernel
def scan_level(  # type: ignore[no-untyped-def]
    histograms, summed, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
):  # fmt: skip
    """Find the split that gains most over all nodes of a level, each of which it divides.

    Parameters
    ----------
    histograms
        float64 (nodes, slots, 2): sums of g and h.
    summed
        float64 (slots, 2): their sum over the nodes.
    allowed
        bool (features,): the features that the level may be split on.
    offsets, is_categorical, monotone, bounds
        As for `frameboost.splits.search_kernels.scan_histograms`.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.

    Returns
    -------
    tuple
        Gain, feature (-1: no split gains anything), position and whether missing goes left, as there. A node in which a
        child would have less than ``min_child_weight`` adds no gain.
    """
    n = histograms.shape[0]
    sums, parent = np.empty((n, 2)), np.empty(n)
    for k in range(n):
        sums[k, 0] = histograms[k, : offsets[1], 0].sum()
        sums[k, 1] = histograms[k, : offsets[1], 1].sum()
        parent[k] = bounded_score(
            sums[k, 0], sums[k, 1], reg_lambda, reg_alpha, max_delta_step, bounds[k, 0], bounds[k, 1]
        )
    best, feature, position, missing_left = 0.0, -1, 0, 0
    for f in range(len(is_categorical)):
        if not allowed[f]:
            continue
        own = histograms[:, offsets[f] : offsets[f + 1]]
        total = summed[offsets[f] : offsets[f + 1]]
        if is_categorical[f]:
            gain, at, side = _scan_categories(
                own, total, sums, parent, bounds, max_cat_to_onehot, max_cat_threshold, cat_smooth,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
            )  # fmt: skip
        else:
            gain, at, side = _scan_numbers(
                own, total, sums, parent, bounds, monotone[f],
                reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
            )  # fmt: skip
        if gain > best:
            best, feature, position, missing_left = gain, f, at, side
    return best, feature, position, missing_left


@kernel
def _scan_numbers(  # type: ignore[no-untyped-def]
    own, total, sums, parent, bounds, direction, reg_lambda, reg_alpha, max_delta_step, min_child_weight, least
):
    """Return gain, position and whether missing goes left of a numeric feature's best split (see `scan_level`)."""
    count = len(total) - 1
    has_missing = total[count, 1] != 0.0 or total[count, 0] != 0.0
    best, position, missing_left = least, 0, 0
    left = np.zeros((len(own), 2))
    # Under a monotone constraint one more candidate, past the last bin: present or missing, which has no order.
    for i in range(count + (direction != 0)):
        if i == count:
            direction = np.int8(0)
        elif total[i, 1] == 0.0 and total[i, 0] == 0.0:
            continue
        else:
            left += own[:, i]
        for side in range(1 + has_missing):
            at = left + side * own[:, count]
            gain = _level_gain(
                at, sums, parent, bounds, direction, reg_lambda, reg_alpha, max_delta_step, min_child_weight
            )
            if gain > best:
                best, position, missing_left = gain, min(i + 1, count), side
    return best, position, missing_left


@kernel
def _scan_categories(  # type: ignore[no-untyped-def]
    own, total, sums, parent, bounds, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
):  # fmt: skip
    """Return the same of a categorical feature, step by step as `scan_categories` of `category_kernels` does."""
    one_hot, steps, n, lowest, highest = category_candidates(
        total, max_cat_to_onehot, max_cat_threshold, cat_smooth,
        reg_lambda, reg_alpha, max_delta_step, min_child_weight,
    )  # fmt: skip
    sides = 1 if one_hot and steps == n else 2
    best, position, best_side = least, 0, NAMED_RIGHT
    of_named, at = np.zeros((2, len(own), 2)), np.empty((len(own), 2))
    for step in range(1, steps + 1):
        for side in range(sides):
            if side == NAMED_RIGHT and step == n + one_hot:
                continue
            if one_hot:
                for k in range(len(sums)):
                    for i in range(2):  # G and H
                        of_category = own[k, lowest[step - 1], i] if step <= n else 0.0
                        at[k, i] = sums[k, i] - side * own[k, -1, i] - of_category
            else:
                code = lowest[step - 1] if side == NAMED_RIGHT else highest[step - 1]
                for k in range(len(sums)):
                    for i in range(2):
                        of_named[side, k, i] += own[k, code, i]
                        at[k, i] = of_named[side, k, i] if side == NAMED_LEFT else sums[k, i] - of_named[side, k, i]
            gain = _level_gain(
                at, sums, parent, bounds, np.int8(0), reg_lambda, reg_alpha, max_delta_step, min_child_weight
            )
            if gain > best:
                best, position, best_side = gain, step, side
    return best, position, 1 - best_side


@kernel
def _level_gain(  # type: ignore[no-untyped-def]
    left, sums, parent, bounds, direction, reg_lambda, reg_alpha, max_delta_step, min_child_weight
):
    """Return the sum of the nodes' gains if their left children have the sums ``left``, float64 (nodes, 2)."""
    gain = 0.0
    for k in range(len(left)):
        GL, HL = left[k, 0], left[k, 1]
        GR, HR = sums[k, 0] - GL, sums[k, 1] - HL
        if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
            continue
        score = split_score(
            GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, bounds[k, 0], bounds[k, 1]
        )
        gain += score - parent[k]
    return gain

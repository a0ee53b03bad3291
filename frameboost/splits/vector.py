"""Kernels that search splits for trees with vector leaves: one tree for several outputs.

A candidate's gain is the sum over the outputs of score(left) + score(right) − score(parent), each by the output's G and
H (Zhang & Jung 2021, "GBDT-MO"). As in XGBoost, a child with H below ``min_child_weight`` in an output has weight 0 and
score 0 in that output, and may have weights in others.

Example with two outputs, λ = 0 and ``min_child_weight`` 1: G = (−2, 1) and H = (2, 0.5) on the left, G = (1, 1) and H =
(1, 2) on the right, so G = (−1, 2) and H = (3, 2.5) in the node. The gain is 4/2 + 1/1 − 1/3 in the first output, and 0
+ 1/2 − 4/2.5 in the second, where the left child is too light: 1.567 in total.

Categories are sorted along the axis on which their weights differ most: the first principal component of the vectors of
weights, each weighted by its H, by power iteration (Golub & Van Loan, section 8.2). For one output that is the order by
weight. XGBoost 3.4 sorts them by their products with the node's weights instead, which are 0 in the first tree.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.splits.search import (
    NAMED_LEFT,
    NAMED_RIGHT,
    best_score,
    bounded_smoothing,
    leaf_score,
    leaf_weight,
    refuse_few_rows,
    refuse_small_sets,
    sort_codes,
)

__all__ = ["find_vector_splits", "gain_of_output", "gains_of_outputs", "named_by_outputs", "scan_outputs"]

# Steps of power iteration: the axis need not be exact.
_ITERATIONS = 4


@kernel(inline="always")
def _score(G, H, penalties):  # type: ignore[no-untyped-def]
    """Return the score of a leaf in one output, 0 if it is too light there."""
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    return leaf_score(G, H, reg_lambda, reg_alpha, max_delta_step) if min_child_weight <= H else 0.0


@kernel(inline="always")
def _weight(G, H, smoothing, penalties):  # type: ignore[no-untyped-def]
    """Return the weight of a leaf in one output, with a number added to H, and 0 if it is too light there."""
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    return leaf_weight(G, H + smoothing, reg_lambda, reg_alpha, max_delta_step) if min_child_weight <= H else 0.0


@kernel(inline="always")
def gain_of_output(GL, HL, G, H, penalties):  # type: ignore[no-untyped-def]
    """Return the gain of a split in one output, from the sums of the left child and of the node."""
    return _score(GL, HL, penalties) + _score(G - GL, H - HL, penalties) - _score(G, H, penalties)


@kernel
def gains_of_outputs(left, total, reg_lambda, reg_alpha, max_delta_step, min_child_weight):  # type: ignore[no-untyped-def]
    """Return the gain of a split in each output, float64 (outputs,); their sum is the gain of the split.

    ``left`` and ``total`` are float64 (outputs, 2): G and H of the left child and of the node.
    """
    penalties = reg_lambda, reg_alpha, max_delta_step, min_child_weight
    gains = np.empty(len(total))
    for k in range(len(total)):
        (G, H), (GL, HL) = total[k], left[k]
        gains[k] = gain_of_output(GL, HL, G, H, penalties)
    return gains


@kernel
def scan_outputs(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, first_feature, least_rows, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, gains,
):  # fmt: skip
    """Search each node's best split over its allowed features.

    Parameters
    ----------
    histograms
        float64 (histograms, outputs, slots, 2): sums of g and h; after those of the outputs, the numbers of rows
        instead of g, if counted.
    indices
        int64 (nodes,): the index of each node's histograms.
    offsets, is_categorical, allowed, first_feature, least_rows
        As for `frameboost.splits.search.scan_histograms`.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    best
        int64 (nodes, 3), written: feature (-1: no split gains anything), position and whether missing goes left, as
        there.
    gains
        float64 (nodes,), written: the gain.
    """
    penalties = reg_lambda, reg_alpha, max_delta_step, min_child_weight
    n_features, widest = len(offsets) - 1, 0
    for feature in range(n_features):
        widest = max(widest, offsets[feature + 1] - offsets[feature])
    # One more than the bins, see the last candidate of `_scan_categories`.
    space = np.empty((2, 2, widest + 1)), np.empty((2, widest + 1)), np.empty(widest, dtype=np.int64)
    for node in range(len(indices)):
        sums = histograms[indices[node]]
        counts, n_rows = sums[0], 0.0
        if least_rows is not None:
            counts, sums = sums[len(sums) - 1], sums[: len(sums) - 1]
            for slot in range(offsets[0], offsets[1]):
                n_rows += counts[slot, 0]
        totals = _totals(sums, offsets[0], offsets[1])
        best[node, 0], gains[node] = -1, 0.0
        for feature in range(n_features):
            if not allowed[node, first_feature + feature]:
                continue
            first, last = offsets[feature], offsets[feature + 1] - 1
            rows = None
            if least_rows is not None:
                rows = counts[first : last + 1], n_rows, least_rows
            if is_categorical is not None and is_categorical[feature]:
                settings = max_cat_to_onehot, max_cat_threshold, cat_smooth
                candidate = _scan_categories(sums, rows, first, last, totals, settings, penalties, gains[node], space)
            else:
                candidate = _scan_numbers(sums, rows, first, last, totals, penalties, gains[node], space)
            if candidate[0] > gains[node]:
                gains[node], best[node, 0], best[node, 1], best[node, 2] = (
                    candidate[0],
                    feature,
                    candidate[1],
                    candidate[2],
                )


@kernel(no_cpython_wrapper=True)
def _totals(sums, start, end):  # type: ignore[no-untyped-def]
    """Return G and H of a node in each output, float64 (outputs, 2), by the slots of one feature."""
    totals = np.zeros((len(sums), 2))
    for k in range(len(sums)):
        for slot in range(start, end):
            totals[k, 0] += sums[k, slot, 0]
            totals[k, 1] += sums[k, slot, 1]
    return totals


@kernel(inline="always")
def _has_rows(sums, slot):  # type: ignore[no-untyped-def]
    """Return whether the bin of a slot has rows with gradients in some output."""
    has_rows = False
    for k in range(len(sums)):
        has_rows |= (sums[k, slot, 1] != 0.0) | (sums[k, slot, 0] != 0.0)
    return has_rows


@kernel(no_cpython_wrapper=True)
def _scan_numbers(sums, rows, first, last, totals, penalties, least, space):  # type: ignore[no-untyped-def]
    """Return gain, position and missing direction of a numeric feature's best split.

    Its bins are the slots from ``first`` to ``last``, the missing bin.
    """
    left, gains, positions = space
    n = 0
    for slot in range(first, last):  # to split behind an empty bin parts the rows as to split before it does
        positions[n] = slot - first + 1
        n += _has_rows(sums, slot)
    sides = 1 + _has_rows(sums, last)
    gains[:, :n] = 0.0
    for k in range(len(sums)):
        G, H = 0.0, 0.0
        for i in range(n):
            G += sums[k, first + positions[i] - 1, 0]
            H += sums[k, first + positions[i] - 1, 1]
            left[0, 0, i], left[0, 1, i] = G, H
        for side in range(sides):
            _add_gains(left, 0, n, side * sums[k, last, 0], side * sums[k, last, 1], totals[k], penalties, gains, side)
    if rows is not None:
        for side in range(sides):
            refuse_few_rows(rows, positions, 0, n, side, gains[side], 0.0)
    best, position, missing_left = least, 0, 0
    for i in range(n):
        for side in range(sides):
            if gains[side, i] > best:
                best, position, missing_left = gains[side, i], positions[i], side
    return best, position, missing_left


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _add_gains(left, at, n, added_G, added_H, total, penalties, gains, side):  # type: ignore[no-untyped-def]
    """Add one output's gains of ``n`` sums in ``left[at]`` plus ``added_G`` and ``added_H`` to ``gains[side]``."""
    reg_lambda, reg_alpha, max_delta_step, min_child_weight = penalties
    (G, H), parent = total, _score(total[0], total[1], penalties)
    if max_delta_step != 0.0:
        for i in range(n):
            GL, HL = left[at, 0, i] + added_G, left[at, 1, i] + added_H
            gains[side, i] += _score(GL, HL, penalties) + _score(G - GL, H - HL, penalties) - parent
        return
    for i in range(n):  # without a branch, so that it compiles to vector instructions
        GL, HL = left[at, 0, i] + added_G, left[at, 1, i] + added_H
        GR, HR = G - GL, H - HL
        left_score = best_score(GL, HL, reg_lambda, reg_alpha)
        right_score = best_score(GR, HR, reg_lambda, reg_alpha)
        is_left, is_right = (HL > 0.0) & (min_child_weight <= HL), (HR > 0.0) & (min_child_weight <= HR)
        gains[side, i] += (left_score if is_left else 0.0) + (right_score if is_right else 0.0) - parent


# --- categories -------------------------------------------------------------------------------------------------------


@kernel(no_cpython_wrapper=True)
def _present(sums, first, last, lightest):  # type: ignore[no-untyped-def]
    """Return the ascending codes of categories with rows and a mean H over outputs of at least ``lightest``."""
    codes, n = np.empty(last - first, dtype=np.int64), 0
    for slot in range(first, last):
        H = 0.0
        for k in range(len(sums)):
            H += sums[k, slot, 1]
        codes[n] = slot - first
        n += _has_rows(sums, slot) & (lightest * len(sums) <= H)
    return codes[:n]


@kernel(no_cpython_wrapper=True)
def _by_weight(sums, first, codes, smoothing, penalties):  # type: ignore[no-untyped-def]
    """Return categories in ascending order along the axis of largest variance of their weights; ties by code."""
    n, K, codes = len(codes), len(sums), codes.copy()
    weights, mass = np.empty((n, K)), np.zeros(n)
    for i in range(n):
        for k in range(K):
            G, H = sums[k, first + codes[i], 0], sums[k, first + codes[i], 1]
            weights[i, k] = _weight(G, H, smoothing, penalties)
            mass[i] += H
    total, axis, furthest = 0.0, np.zeros(K), -1.0
    for i in range(n):
        total += mass[i]
    for k in range(K):
        mean = 0.0
        for i in range(n):
            mean += mass[i] * weights[i, k]
        for i in range(n):
            weights[i, k] -= mean / total if total > 0.0 else 0.0
    for i in range(n):
        distance = 0.0
        for k in range(K):
            distance += mass[i] * weights[i, k] * weights[i, k]
        if distance > furthest:
            furthest, axis = distance, weights[i].copy()
    for _ in range(_ITERATIONS):
        axis = _turned(weights, mass, axis)
    keys = np.zeros(n)
    for i in range(n):
        for k in range(K):
            keys[i] += weights[i, k] * axis[k]
    sort_codes(keys, codes, n)
    return codes


@kernel(no_cpython_wrapper=True)
def _turned(weights, mass, axis):  # type: ignore[no-untyped-def]
    """Return an axis after a step of power iteration, its largest entry ±1; the sums are in a fixed order."""
    turned, most = np.zeros(len(axis)), 0.0
    for i in range(len(weights)):
        product = 0.0
        for k in range(len(axis)):
            product += weights[i, k] * axis[k]
        for k in range(len(axis)):
            turned[k] += mass[i] * product * weights[i, k]
    for k in range(len(axis)):
        most = max(most, abs(turned[k]))
    return turned / most if most > 0.0 else axis


@kernel(no_cpython_wrapper=True)
def _candidates(sums, first, last, settings, penalties):  # type: ignore[no-untyped-def]
    """Return the result of `frameboost.splits.search.category_candidates` for several outputs."""
    max_cat_to_onehot, max_cat_threshold, cat_smooth = settings
    sees_missing, present = _has_rows(sums, last), _present(sums, first, last, 0.0)
    if last - first < max_cat_to_onehot:
        return True, len(present) + sees_missing, len(present), present, present
    H = 0.0
    for k in range(len(sums)):
        for slot in range(first, last + 1):
            H += sums[k, slot, 1]
    smoothing = bounded_smoothing(cat_smooth, H / len(sums))
    named = _by_weight(sums, first, _present(sums, first, last, smoothing), smoothing, penalties)
    n = len(named)
    most = min(max_cat_threshold - 1, n)
    # Where no row is missing or in a category too light to be named, naming the other side is the same split.
    steps = most if sees_missing or n < len(present) else min(most, n // 2)
    return False, max(steps, 0), n, named, named[::-1].copy()


@kernel(no_cpython_wrapper=True)
def _scan_categories(sums, rows, first, last, totals, settings, penalties, least, space):  # type: ignore[no-untyped-def]
    """Return the same for a categorical feature, with the candidates of `scan_categories`."""
    left, gains, _ = space
    one_hot, steps, n, lowest, highest = _candidates(sums, first, last, settings, penalties)
    sides = 1 if one_hot and steps == n else 2
    gains[:, :steps] = 0.0
    for k in range(len(sums)):
        for i in range(2):  # G and H
            named_right, named_left = 0.0, 0.0
            for step in range(steps):
                if one_hot:
                    of_category = sums[k, first + lowest[step], i] if step < n else 0.0
                    left[NAMED_RIGHT, i, step] = totals[k, i] - of_category
                    left[NAMED_LEFT, i, step] = totals[k, i] - of_category - sums[k, last, i]
                else:
                    named_right += sums[k, first + lowest[step], i]
                    named_left += sums[k, first + highest[step], i]
                    left[NAMED_RIGHT, i, step] = totals[k, i] - named_right
                    left[NAMED_LEFT, i, step] = named_left
        for side in range(sides):
            _add_gains(left, side, steps, 0.0, 0.0, totals[k], penalties, gains, side)
    if rows is not None:
        refuse_small_sets(rows, one_hot, steps, n, lowest, highest, gains, 0.0)
    best, position, best_side = least, 0, NAMED_RIGHT
    for step in range(steps):
        for side in range(sides):
            if side == NAMED_RIGHT and step + 1 == n + one_hot:
                continue
            if gains[side, step] > best:
                best, position, best_side = gains[side, step], step + 1, side
    return best, position, 1 - best_side


@kernel
def named_by_outputs(  # type: ignore[no-untyped-def]
    sums, position, missing_left, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight,
):  # fmt: skip
    """Return the codes of the categories that a split names, int64 (see `categories.named_categories`).

    ``sums`` are those of the feature, float64 (outputs, categories + 1, 2), the missing bin last.
    """
    penalties, last = (reg_lambda, reg_alpha, max_delta_step, min_child_weight), sums.shape[1] - 1
    settings = max_cat_to_onehot, max_cat_threshold, cat_smooth
    one_hot, _, _, lowest, highest = _candidates(sums, 0, last, settings, penalties)
    if not one_hot:
        return lowest[:position] if missing_left else highest[:position]
    if missing_left:
        return lowest[position - 1 : position]
    return np.array([code for i, code in enumerate(lowest) if i != position - 1], dtype=np.int64)


# --- on several threads -----------------------------------------------------------------------------------------------


@kernel
def _find_share(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, least_rows, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, gains, count, share,
):  # fmt: skip
    nodes = slice(len(indices) * share // count, len(indices) * (share + 1) // count)
    scan_outputs(
        histograms, indices[nodes], offsets, is_categorical, allowed[nodes], 0, least_rows, max_cat_to_onehot,
        max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best[nodes],
        gains[nodes],
    )  # fmt: skip


_finding = outlined(_find_share)


@kernel
def find_vector_splits(  # type: ignore[no-untyped-def]
    team, histograms, indices, offsets, is_categorical, allowed, least_rows, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, gains, count,
):  # fmt: skip
    """Do the work of `scan_outputs` in ``count`` shares on a team of threads (see `runtime.team`)."""
    values = (
        histograms, indices, offsets, is_categorical, allowed, least_rows, max_cat_to_onehot, max_cat_threshold,
        cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, gains, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)

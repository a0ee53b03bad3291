"""The best split of a node, as kernels: the gain of a split, and the scan of histograms for the largest.

**The gain** follows from the weight and the score of a leaf (Chen & Guestrin 2016, section 2.2):

=====================  ============================================  ======================
weight of a leaf       w* = −T(G)/(H+λ)                              equation 5
score of a leaf        T(G)²/(H+λ)                                   equation 6, without ½
gain of a split        score(left) + score(right) − score(parent)    equation 7, without ½
=====================  ============================================  ======================

T(G) = sign(G)·max(|G| − α, 0) is G itself unless there is an L1 penalty α. A leaf of weight w reduces the objective by
½ of its score. Gains are reported and compared without the ½, as in XGBoost.

`max_delta_step` limits |w|, and `monotone_constraints` bound w from below and above (XGBoost,
src/tree/split_evaluator.h). The weight is then clipped to the nearest allowed one, and scored there.

**The scan** goes over every feature's histogram, node by node. Ties go to the lowest feature, then to the lowest
threshold (for categories see `scan_categories`), then to missing going right: candidates are scanned in this order, and
the first of equals wins.

A numeric feature takes prefix sums over its histogram, and the gain at each cut. Example: a histogram of four bins and
the missing bin, with sums G = −4 and H = 7; λ = 1:

=====  =====  =====  =====  =====  =======
bin        0      1      2      3  missing
=====  =====  =====  =====  =====  =======
G         -4     -2      0      3       -1
H          2      1      0      3        1
=====  =====  =====  =====  =====  =======

The prefix sums are those of the left children if missing goes right; with the missing bin added, those of the left
children if missing goes left. The right child has the node's sums minus the left. Bin 2 is empty, so a split after it
is the same as one after bin 1, and has no entry. The gain is GL²/(HL+λ) + GR²/(HR+λ) − G²/(H+λ), where G²/(H+λ) = 2:

========  ========  =====================================  ========================================
position  (GL, HL)  gain with missing right                gain with missing left
========  ========  =====================================  ========================================
1         (-4, 2)   16/3 + 0/6 - 2 = 3.33                  25/4 + 1/5 - 2 = 4.45
2         (-6, 3)   36/4 + 4/5 - 2 = 7.8                   49/5 + 9/4 - 2 = **10.05**
4         (-3, 6)   9/7 + 1/2 - 2 = -0.21                  0 (no row is left for the right child)
========  ========  =====================================  ========================================

The split is at position 2: bins 0 and 1 and missing values go left. Position 4, past the last bin, is the split of
present from missing values.

**A categorical feature** is split by one category against the rest, or by a sorted partition, both as in XGBoost
(src/tree/hist/evaluate_splits.h, EnumerateOneHot and EnumeratePart). A split *names* some categories; everything else
goes to the other side: missing values, and categories without rows in the node.

*One category against the rest*, for features of fewer than ``max_cat_to_onehot`` categories: one category goes right,
with the missing values on either side.

*Sorted partition*, for all others: categories are sorted by their weight as leaves, and the candidates are the prefixes
of that order from either end. With λ = 0, and nothing missing, four categories of a node with G = 1 and H = 10:

=============  ====  ====  ====  ====
category          a     b     c     d
=============  ====  ====  ====  ====
G                 6    -2    -6     3
H                 2     2     3     3
weight -G/H      -3     1     2    -1
=============  ====  ====  ====  ====

Sorted by weight: a, d, b, c. The candidates, each with its gain GL²/HL + GR²/HR − 1²/10:

====  ==========  ==========  ==================  ====================================
step  goes right  goes left   gain
====  ==========  ==========  ==================  ====================================
1     **a**       b, c, d     3.125 + 18 - 0.1    21.025
1     a, b, d     **c**       12 + 7 - 0.1        18.9
2     **a, d**    b, c        12.8 + 16.2 - 0.1   28.9
====  ==========  ==========  ==================  ====================================

The named categories are in bold. The split is position 2, missing left: the two lowest, a and d, go right. Naming b and
c would be the same split, so half of the steps suffice if nothing is missing.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.splits.split import FloatArray, Penalties, Split, Stats

__all__ = [
    "MIN_GAIN",
    "NAMED_LEFT",
    "NAMED_RIGHT",
    "best_of_sums",
    "best_score",
    "bounded_gain",
    "bounded_score",
    "bounded_smoothing",
    "bounded_weight",
    "bounded_weights",
    "categorical_split",
    "category_candidates",
    "category_room",
    "ends_by_weight",
    "fill_named",
    "find_splits",
    "keep_split",
    "leaf_score",
    "leaf_weight",
    "named_categories",
    "present_categories",
    "refuse_few_rows",
    "refuse_small_sets",
    "scan_bounded_numbers",
    "scan_categories",
    "scan_histograms",
    "scan_numbers",
    "smoothing_of",
    "sort_codes",
    "split_gain",
    "split_score",
    "subtract_from_parents",
    "subtract_slots",
]

# XGBoost's kRtEps: a split that gains no more is rounding noise.
MIN_GAIN = 1e-6


@kernel(inline="always")
def _soft_threshold(G: float, reg_alpha: float) -> float:
    """Return T(G), as G − clip(G, −α, α): without a branch it compiles to SIMD instructions."""
    above = G if -reg_alpha < G else -reg_alpha
    return G - (above if above < reg_alpha else reg_alpha)


@kernel(inline="always")
def leaf_weight(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return w* = −T(G)/(H+λ), clipped to ±``max_delta_step`` unless that is 0."""
    if H <= 0.0:
        return 0.0
    weight = -_soft_threshold(G, reg_alpha) / (H + reg_lambda)
    if max_delta_step != 0.0 and abs(weight) > max_delta_step:
        return max_delta_step if weight > 0.0 else -max_delta_step
    return weight


@kernel(inline="always")
def _score_at(w: float, G: float, H: float, reg_lambda: float, reg_alpha: float) -> float:
    """Return −(2Gw + (H+λ)w² + 2α|w|), the score of a leaf of any weight w."""
    return -(2.0 * G * w + (H + reg_lambda) * w * w + 2.0 * reg_alpha * abs(w))


@kernel(inline="always")
def best_score(G: float, H: float, reg_lambda: float, reg_alpha: float) -> float:
    """Return T(G)²/(H+λ), the score at w*."""
    T = _soft_threshold(G, reg_alpha)
    return T * T / (H + reg_lambda)


@kernel(inline="always")
def leaf_score(G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float) -> float:
    """Return the score of a leaf at its weight: T(G)²/(H+λ), less if ``max_delta_step`` clips the weight."""
    if H <= 0.0:
        return 0.0
    if max_delta_step == 0.0:
        return best_score(G, H, reg_lambda, reg_alpha)
    return _score_at(leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step), G, H, reg_lambda, reg_alpha)


@kernel(inline="always")
def bounded_weight(
    G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float, lower: float, upper: float
) -> float:
    """Return `leaf_weight`, clipped to the bounds."""
    weight = leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step)
    if weight < lower:
        return lower
    if weight > upper:
        return upper
    return weight


@kernel
def bounded_weights(
    G: FloatArray, H: FloatArray, bounds: FloatArray,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, min_child_weight: float,
) -> FloatArray:  # fmt: skip
    """Return each node's weight, 0 for nodes with H below ``min_child_weight``: float64 (nodes,).

    ``G`` and ``H`` are float64 (nodes,), ``bounds`` float64 (nodes, 2): the minimum and maximum weight.
    """
    weights = np.empty(len(G))
    for i in range(len(G)):
        weights[i] = 0.0
        if min_child_weight <= H[i]:
            lower, upper = bounds[i, 0], bounds[i, 1]
            weights[i] = bounded_weight(G[i], H[i], reg_lambda, reg_alpha, max_delta_step, lower, upper)
    return weights


@kernel(inline="always")
def bounded_score(
    G: float, H: float, reg_lambda: float, reg_alpha: float, max_delta_step: float, lower: float, upper: float
) -> float:
    """Return `leaf_score`, or the score at the bound that the weight is clipped to."""
    weight = leaf_weight(G, H, reg_lambda, reg_alpha, max_delta_step)
    if weight < lower:
        return _score_at(lower, G, H, reg_lambda, reg_alpha)
    if weight > upper:
        return _score_at(upper, G, H, reg_lambda, reg_alpha)
    return leaf_score(G, H, reg_lambda, reg_alpha, max_delta_step)


@kernel
def split_score(
    GL: float, HL: float, GR: float, HR: float,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, direction: np.int8, lower: float, upper: float,
) -> float:  # fmt: skip
    """Return the sum of two children's scores within their parent's bounds; −∞ if their weights break ``direction``.

    ``direction`` is 1 if the right weight must be at least the left one, −1 if it must be at most that, else 0.
    """
    if direction != 0:
        left = bounded_weight(GL, HL, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        right = bounded_weight(GR, HR, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        if (direction > 0 and left > right) or (direction < 0 and left < right):
            return -np.inf
    return bounded_score(GL, HL, reg_lambda, reg_alpha, max_delta_step, lower, upper) + bounded_score(
        GR, HR, reg_lambda, reg_alpha, max_delta_step, lower, upper
    )


@kernel(inline="always")
def split_gain(
    GL: float, HL: float, G: float, H: float, parent: float,
    reg_lambda: float, reg_alpha: float, min_child_weight: float,
) -> float:  # fmt: skip
    """Return the gain of a split without bounds on weights, 0 if a child is too light.

    ``GL`` and ``HL`` are the sums of the left child, ``G`` and ``H`` those of the node; ``parent`` is its score
    unsplit. There is no branch, so that loops over candidates compile to SIMD instructions. Kernels that call this need
    the option ``error_model="numpy"``: results of a division by zero are discarded.
    """
    GR, HR = G - GL, H - HL
    gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
    is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
    return gain if is_heavy else 0.0


@kernel
def bounded_gain(
    GL: float, HL: float, G: float, H: float, parent: float, direction: np.int8, lower: float, upper: float,
    reg_lambda: float, reg_alpha: float, max_delta_step: float, min_child_weight: float,
) -> float:  # fmt: skip
    """Return `split_gain` with bounded weights (see `split_score`), −∞ if they break ``direction``."""
    GR, HR = G - GL, H - HL
    if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
        return 0.0
    if direction == 0 and lower == -np.inf and upper == np.inf:
        left_score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step)
        return left_score + leaf_score(GR, HR, reg_lambda, reg_alpha, max_delta_step) - parent
    return split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper) - parent


# --- the split of each node -------------------------------------------------------------------------------------------


@kernel(error_model="numpy")
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, first, monotone, bounds, has_two_bins, least_rows,
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
    stats,
):  # fmt: skip
    """Search each node's best split over its allowed features.

    Parameters
    ----------
    histograms
        float64 (histograms, slots, 2): sums of g and h.
    indices
        int64 (nodes,): the index of each node's histogram, -1 for a node to skip.
    offsets
        int64 (features + 1,): the slots of each feature, its missing bin last; a slice of it selects adjacent features.
    is_categorical
        bool (features,); None without categorical features, to compile kernels without categories.
    allowed, first
        bool (nodes, features): the features that a node may be split on; and the column of the first of these features.
    monotone
        int8 (features,): 1 if weights must not decrease from left to right, -1 if they must not increase, else 0.
    bounds
        float64 (nodes, 2): the minimum and maximum weight in each node, infinite without constraints. Both are None if
        no weight of the tree is bounded (see `frameboost.splits.split.SplitLimits.bounding`).
    has_two_bins
        Whether many features have two bins, for which there is a shortcut; None instead of False, to compile kernels
        without it. There is none if rows are counted.
    least_rows
        The minimum number of rows of a child; each node's histogram is then followed by one with the number of rows of
        each bin instead of g. None if rows are not counted, to compile kernels without counts.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    best
        int64 (nodes, 3), written: feature (-1: no split gains anything), position (a row goes left where its code is
        less than it; for categories see `categorical_split`) and whether missing goes left.
    stats
        float64 (nodes, 3), written: gain, G and H of the left child.
    """
    n_features, widest = len(offsets) - 1, 0
    for feature in range(n_features):
        widest = max(widest, offsets[feature + 1] - offsets[feature])
    left, gains, positions = np.empty((2, widest)), np.empty(widest), np.empty(widest, dtype=np.int64)
    room = category_room(0 if is_categorical is None else widest)
    for node in range(len(indices)):
        if indices[node] < 0:
            continue
        sums = histograms[indices[node]]
        G, H = 0.0, 0.0
        for slot in range(offsets[0], offsets[1]):
            G += sums[slot, 0]
            H += sums[slot, 1]
        lower, upper = -np.inf, np.inf
        # Branches on None are dropped before numba compiles the kernels that they call.
        if bounds is None:
            parent = best_score(G, H, reg_lambda, reg_alpha) if H > 0.0 else 0.0
        else:
            lower, upper = bounds[node, 0], bounds[node, 1]
            parent = bounded_score(G, H, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        counts, n_rows = sums, 0.0
        if least_rows is not None:
            counts = histograms[indices[node] + 1]
            for slot in range(offsets[0], offsets[1]):
                n_rows += counts[slot, 0]
        best[node, 0] = -1
        stats[node, 0] = 0.0
        for feature in range(n_features):
            if not allowed[node, first + feature]:
                continue
            histogram = sums[offsets[feature] : offsets[feature + 1]]
            rows = None
            if least_rows is not None:
                rows = counts[offsets[feature] : offsets[feature + 1]], n_rows, least_rows
            if is_categorical is not None and is_categorical[feature]:
                candidate = scan_categories(
                    histogram, rows, room, G, H, parent, bounds, node, max_cat_to_onehot, max_cat_threshold,
                    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
                keep_split(candidate, feature, best[node], stats[node])
                continue
            if monotone is not None:
                direction = monotone[feature]
                if direction != 0 or max_delta_step != 0.0 or lower > -np.inf or upper < np.inf:
                    candidate = scan_bounded_numbers(
                        histogram, rows, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step,
                        min_child_weight, stats[node, 0], left, gains, positions,
                    )  # fmt: skip
                    keep_split(candidate, feature, best[node], stats[node])
                    continue
            if has_two_bins is not None and len(histogram) == 3 and histogram[2, 0] == 0.0 and histogram[2, 1] == 0.0:
                # `scan_numbers` returns the same split, but takes longer to start than this one gain takes.
                GL, HL = histogram[0, 0], histogram[0, 1]
                gain = split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)
                if gain > stats[node, 0]:
                    keep_split((True, 1, 0, gain, GL, HL), feature, best[node], stats[node])
                continue
            candidate = scan_numbers(
                histogram, rows, G, H, parent, reg_lambda, reg_alpha, min_child_weight, stats[node, 0], left, gains,
                positions,
            )  # fmt: skip
            keep_split(candidate, feature, best[node], stats[node])


@kernel(inline="always")
def keep_split(candidate, feature, best, stats):  # type: ignore[no-untyped-def]
    """Write a feature's split, if any, as the split of the node."""
    if candidate[0]:
        best[0], best[1], best[2] = feature, candidate[1], candidate[2]
        stats[0], stats[1], stats[2] = candidate[3], candidate[4], candidate[5]


@kernel
def _find_share(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, least_rows,
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
    stats, count, share,
):  # fmt: skip
    nodes = slice(len(indices) * share // count, len(indices) * (share + 1) // count)
    node_bounds = bounds
    if bounds is not None:
        node_bounds = bounds[nodes]
    scan_histograms(
        histograms, indices[nodes], offsets, is_categorical, allowed[nodes], 0, monotone, node_bounds, has_two_bins,
        least_rows, max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
        min_child_weight, best[nodes], stats[nodes],
    )  # fmt: skip


_finding = outlined(_find_share)


@kernel
def find_splits(  # type: ignore[no-untyped-def]
    team, histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, least_rows,
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
    stats, count,
):  # fmt: skip
    """Do the work of `scan_histograms` in ``count`` shares on a team of threads (see `frameboost.runtime.team`)."""
    values = (
        histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, least_rows,
        max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
        stats, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)


# --- numeric features -------------------------------------------------------------------------------------------------


_ONE = np.uint64(1)  # indices are unsigned: for a signed one numba checks whether it counts from the end


@kernel(no_cpython_wrapper=True)
def _prefix_sums(histogram, left, positions):  # type: ignore[no-untyped-def]
    """Write the prefix sums of G and H, (2, slots), at the ends of nonempty bins, and the next positions.

    Returns
    -------
    uint64
        Their number. The entry after them has the sums over all bins, and the position past the last bin.
    """
    count = len(histogram) - 1
    n, G, H = np.uint64(0), 0.0, 0.0
    for i in range(count):
        g, h = histogram[i, 0], histogram[i, 1]
        G += g
        H += h
        left[0, n], left[1, n], positions[n] = G, H, i + 1
        n += np.uint64(abs(g) + abs(h) > 0.0)  # the next bin overwrites the entry of an empty one: no branch
    left[0, n], left[1, n], positions[n] = G, H, count
    return n


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _unbounded_gains(  # type: ignore[no-untyped-def]
    left, n, added_G, added_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains
):
    """Write the gains of the first ``n`` left sums, ``added_G`` and ``added_H`` added; 0 if a child is too light.

    The loop has no branch, so that it compiles to SIMD instructions.
    """
    for i in range(n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        gains[i] = split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _may_score(left, n, added_G, added_H, G, H, least, reg_lambda, min_child_weight):  # type: ignore[no-untyped-def]
    """Return whether one of these left sums may score ``least`` or more.

    With a = HL+λ and b = HR+λ, GL²/a + GR²/b ≥ s only if GL²·b + GR²·a ≥ s·a·b, a comparison without the divisions that
    take most of the time of a gain. A penalty α decreases scores. The relative rounding error of both sides is below
    2⁻⁴⁸, and underflow loses less than 1e-290.
    """
    may_score, least = False, least * (1.0 - 2.0**-48)
    for i in range(n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        GR, HR = G - GL, H - HL
        a, b = HL + reg_lambda, HR + reg_lambda
        is_heavy = (min_child_weight <= HL) & (min_child_weight <= HR)
        may_score |= is_heavy & (GL * GL * b + GR * GR * a + 1e-290 >= least * a * b)
    return may_score


@kernel
def _bounded_gains(  # type: ignore[no-untyped-def]
    left, first, n, added_G, added_H, G, H, parent, direction, lower, upper,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
):  # fmt: skip
    """Write the gains from ``first`` on with weights bounded by ``max_delta_step`` or a monotone constraint."""
    for i in range(first, n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        gains[i] = bounded_gain(
            GL, HL, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        )


@kernel(no_cpython_wrapper=True)
def _keep_largest(gains, n, side, previous):  # type: ignore[no-untyped-def]
    """Return the largest gain of a side, its number from 1 and the side, or the ``previous`` largest.

    Ties go to the lowest number, then to the previous one.
    """
    most, number, best_side = previous
    for i in range(n):
        if gains[i] > most or (gains[i] == most and i + _ONE < number):
            most, number, best_side = gains[i], i + _ONE, side
    return most, number, best_side


@kernel
def scan_numbers(  # type: ignore[no-untyped-def]
    histogram, rows, G, H, parent, reg_lambda, reg_alpha, min_child_weight, least, left, gains, positions
):
    """Search a node's best split on one numeric feature, without bounds on weights.

    Ties go to the lowest position, then to missing going right.

    Parameters
    ----------
    histogram
        float64 (bins + 1, 2), the missing bin last.
    rows
        The numbers of rows: of each bin, of the node, and the minimum of a child (see `refuse_few_rows`); None if rows
        are not counted.
    G, H, parent
        The sums over the node, and its score unsplit.
    reg_lambda, reg_alpha, min_child_weight
        The parameters of those names.
    least
        0 or more; a split must gain more.
    left, gains, positions
        Scratch space: float64 (2, slots), float64 (slots,) and int64 (slots,), with at least the slots of the
        histogram.

    Returns
    -------
    tuple
        Whether there is such a split; then, as in `scan_histograms`, its position, whether missing goes left, its gain,
        and G and H of the left child.
    """
    n = _prefix_sums(histogram, left, positions)
    return best_of_sums(
        left, n, positions, histogram[-1, 0], histogram[-1, 1], rows, G, H, parent, reg_lambda, reg_alpha,
        min_child_weight, least, gains,
    )  # fmt: skip


@kernel
def best_of_sums(  # type: ignore[no-untyped-def]
    left, n, positions, missing_G, missing_H, rows, G, H, parent, reg_lambda, reg_alpha, min_child_weight, least, gains
):
    """Return the result of `scan_numbers` from ``n`` prefix sums, of which `_prefix_sums` writes those of a histogram.

    ``missing_G`` and ``missing_H`` are the sums of rows without a value.
    """
    largest = least, np.uint64(0), np.int64(0)
    for side in range(_sides(missing_G, missing_H)):
        added_G, added_H = side * missing_G, side * missing_H
        if _may_score(left, n, added_G, added_H, G, H, parent + largest[0], reg_lambda, min_child_weight):
            _unbounded_gains(left, n, added_G, added_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains)
            if rows is not None:
                refuse_few_rows(rows, positions, np.uint64(0), n, side, gains, 0.0)
            largest = _keep_largest(gains, n, side, largest)
    return _candidate(missing_G, missing_H, left, positions, largest)


@kernel
def scan_bounded_numbers(  # type: ignore[no-untyped-def]
    histogram, rows, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
    least, left, gains, positions,
):  # fmt: skip
    """Do the work of `scan_numbers` with bounded weights.

    Parameters
    ----------
    direction
        int8: 1 if weights must not decrease from left to right, -1 if they must not increase, else 0.
    lower, upper
        The minimum and maximum weight in the node.
    max_delta_step
        The parameter of that name.
    """
    n = _prefix_sums(histogram, left, positions)
    largest = least, np.uint64(0), np.int64(0)
    missing_G, missing_H = histogram[-1, 0], histogram[-1, 1]
    for side in range(_sides(missing_G, missing_H)):
        _bounded_gains(
            left, np.uint64(0), n, side * missing_G, side * missing_H, G, H, parent, direction, lower,
            upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        if rows is not None:
            refuse_few_rows(rows, positions, np.uint64(0), n, side, gains, 0.0)
        largest = _keep_largest(gains, n, side, largest)
    if direction != 0:
        # One more candidate, without a direction: present values left, missing ones right.
        _bounded_gains(
            left, n, n + _ONE, 0.0, 0.0, G, H, parent, np.int8(0), lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        if rows is not None:
            refuse_few_rows(rows, positions, n, n + _ONE, 0, gains, 0.0)
        if gains[n] > largest[0]:
            largest = gains[n], n + _ONE, np.int64(0)
    return _candidate(missing_G, missing_H, left, positions, largest)


@kernel(inline="always")
def _sides(missing_G: float, missing_H: float) -> int:
    """Return the number of sides that missing values can go to: 1 without missing values."""
    return 1 + (missing_H != 0.0 or missing_G != 0.0)


@kernel(inline="always")
def _candidate(missing_G, missing_H, left, positions, largest):  # type: ignore[no-untyped-def]
    """Return the result of `_keep_largest` in the form of `scan_numbers`."""
    gain, number, missing_left = largest
    if number == 0:
        return False, 0, 0, 0.0, 0.0, 0.0
    best = number - _ONE
    GL, HL = left[0, best] + missing_left * missing_G, left[1, best] + missing_left * missing_H
    return True, positions[best], missing_left, gain, GL, HL


# --- the rows of a child, where they are counted ----------------------------------------------------------------------

# ``rows`` is a tuple: float64 (bins + 1, 2), the number of rows of each bin of a feature instead of g, the missing bin
# last; the number of rows of the node; and the least of a child.


@kernel(no_cpython_wrapper=True)
def refuse_few_rows(rows, positions, first, n, side, out, value):  # type: ignore[no-untyped-def]
    """Write a value for the candidates ``first`` to ``n - 1`` of a side with too few rows in a child.

    Candidate i has the bins before ``positions[i]`` on the left, ascending, and on side 1 the missing values.
    """
    counts, n_rows, least_rows = rows
    n_left, at = side * counts[-1, 0], 0
    for i in range(n):
        while at < positions[i]:
            n_left += counts[at, 0]
            at += 1
        if i >= first and (n_left < least_rows or n_rows - n_left < least_rows):
            out[i] = value


@kernel(no_cpython_wrapper=True)
def refuse_small_sets(rows, one_hot, steps, n, lowest, highest, out, value):  # type: ignore[no-untyped-def]
    """Write a value to ``out``, (sides, steps), for such candidates of a categorical feature.

    ``one_hot``, ``steps``, ``n``, ``lowest`` and ``highest`` are the results of `category_candidates`.
    """
    counts, n_rows, least_rows = rows
    n_right = n_left = 0.0
    for step in range(steps):
        if one_hot:
            n_right = counts[lowest[step], 0] if step < n else 0.0
            n_left = n_rows - n_right - counts[-1, 0]
        else:
            n_right += counts[lowest[step], 0]
            n_left += counts[highest[step], 0]
        if n_right < least_rows or n_rows - n_right < least_rows:
            out[NAMED_RIGHT, step] = value
        if n_left < least_rows or n_rows - n_left < least_rows:
            out[NAMED_LEFT, step] = value


# --- subtraction: the sibling of a child ------------------------------------------------------------------------------


@kernel(inline="always")
def subtract_slots(histograms, indices, parents, item, slots):  # type: ignore[no-untyped-def]
    """Do the work of `subtract_from_parents` for one child, in a slice of its contiguous sums, g and h in turn."""
    # The sums are on the exact grid (see `frameboost.expressions.grid`), so the difference is exact, too.
    if parents[item] >= 0:
        child, parent = histograms[indices[item]].ravel()[slots], histograms[parents[item]].ravel()[slots]
        for i in range(len(child)):
            parent[i] -= child[i]


@kernel
def _subtract_one(histograms, indices, parents, item):  # type: ignore[no-untyped-def]
    subtract_slots(histograms, indices, parents, item, slice(0, 2 * histograms.shape[1]))


_subtracting = outlined(_subtract_one)


@kernel
def subtract_from_parents(team, histograms, indices, parents):  # type: ignore[no-untyped-def]
    """Turn the histograms of parents into those of the other child, in place.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team`).
    histograms
        float64 (histograms, slots, 2): sums of g and h.
    indices, parents
        int64 (nodes,): the index of each child's histogram, and of its parent's; -1 to skip.
    """
    share_out(team, _subtracting((histograms, indices, parents)), len(indices))


# --- splits of categories ---------------------------------------------------------------------------------------------


# The side that the named categories go to; missing values go to the other. At equal gains the first of these is taken.
NAMED_RIGHT, NAMED_LEFT = 0, 1
# The longest ends of an order that are sorted by insertion, in time proportional to their length times its insertions;
# for longer ones everything is sorted.
_MAX_INSERTED = 256
# The rows of `category_room`: codes, and the two ends of their order.
_CODES, _LOWEST, _HIGHEST = range(3)


@kernel
def category_room(n_categories):  # type: ignore[no-untyped-def]
    """Return memory for the search over this many categories: int64 (3, categories) and float64 (2, categories).

    It is allocated once for many searches: an allocation takes longer than searching ten categories.
    """
    return np.empty((3, n_categories), dtype=np.int64), np.empty((2, n_categories))


@kernel(inline="always")
def bounded_smoothing(cat_smooth, H):  # type: ignore[no-untyped-def]
    """Return ``cat_smooth``, or a twentieth of a node's H if that is less.

    The H of every row vanishes as predictions of classes become certain: a constant would then leave no category heavy
    enough to be named, and end the training of rules that categories determine.
    """
    return min(cat_smooth, H / 20.0)


@kernel
def smoothing_of(histogram, cat_smooth):  # type: ignore[no-untyped-def]
    """Return `bounded_smoothing` for the histogram of a categorical feature, float64 (categories + 1, 2)."""
    H = 0.0
    for slot in range(len(histogram)):
        H += histogram[slot, 1]
    return bounded_smoothing(cat_smooth, H)


@kernel
def present_categories(histogram, lightest, codes):  # type: ignore[no-untyped-def]
    """Write the ascending codes of a node's categories with rows and an H of at least ``lightest``.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    lightest
        The minimum H.
    codes
        int64 (categories,) or longer, written.

    Returns
    -------
    tuple
        The number of these categories, and of all with rows.
    """
    n, n_present = np.uint64(0), np.uint64(0)
    for code in range(len(histogram) - 1):
        G, H = histogram[code, 0], histogram[code, 1]
        is_present = (H != 0.0) | (G != 0.0)
        codes[n] = code
        n += np.uint64(is_present & (lightest <= H))  # the next code overwrites one without: no branch
        n_present += np.uint64(is_present)
    return np.int64(n), np.int64(n_present)


@kernel(error_model="numpy")
def ends_by_weight(  # type: ignore[no-untyped-def]
    histogram, n, room, most, smoothing, reg_lambda, reg_alpha, max_delta_step, min_child_weight
):
    """Return the categories with the lowest weights, and those with the highest.

    A category's weight is its weight as a leaf, with ``smoothing`` added to its H; a category too light for a leaf has
    weight 0. Without penalties and smoothing the best of all subsets is a prefix of this order (Fisher 1958; Hastie,
    Tibshirani & Friedman, section 9.2.4).

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    n, room
        The number of categories, and `category_room` with their codes, in ascending order; written.
    most
        The maximum number to return from each end, at least 1.
    smoothing
        `smoothing_of` the histogram.
    reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.

    Returns
    -------
    tuple of int64 arrays
        Codes from the lowest weight upwards, and from the highest downwards, in the room; at most ``most`` of each. In
        the ascending order, the lower code comes first among equal weights. Only two short ends are sorted: of 100,000
        categories a full sort would take longer than the rest of the search.
    """
    (codes, lowest, highest), (weight, keys) = room
    most = min(most, n)
    for i in range(n):
        code = codes[i]
        G, H = histogram[code, 0], histogram[code, 1]
        if min_child_weight > H:
            weight[i] = 0.0
        else:
            weight[i] = leaf_weight(G, H + smoothing, reg_lambda, reg_alpha, max_delta_step)
    if most == n or most > _MAX_INSERTED:
        for i in range(n):
            lowest[i] = codes[i]
        sort_codes(weight, lowest, n)
        for i in range(most):
            highest[i] = lowest[n - 1 - i]
        return lowest[:most], highest[:most]
    for i in range(n):
        if i < most or weight[i] < keys[most - 1]:  # which is seldom so
            _insert(weight[i], codes[i], keys, lowest, min(i, most), most)
    for i in range(n):
        key = -weight[n - 1 - i]
        if i < most or key < keys[most - 1]:
            _insert(key, codes[n - 1 - i], keys, highest, min(i, most), most)
    return lowest[:most], highest[:most]


@kernel
def sort_codes(keys, codes, n):  # type: ignore[no-untyped-def]
    """Sort the first ``n`` keys (float64) and their codes (int64) in place, by key and then by code, with Shellsort.

    It is Shell's sort (1959), with gaps that shrink by 9/4.
    """
    gap = n
    while gap > 1:
        gap = max(gap * 4 // 9, 1)
        for i in range(gap, n):
            key, code, at = keys[i], codes[i], i
            while at >= gap and (keys[at - gap] > key or (keys[at - gap] == key and codes[at - gap] > code)):
                keys[at], codes[at] = keys[at - gap], codes[at - gap]
                at -= gap
            keys[at], codes[at] = key, code


@kernel
def _insert(key, code, keys, codes, n, most):  # type: ignore[no-untyped-def]
    """Insert a code among the ``n`` smallest keys, after equal ones (insertion sort).

    If there are ``most``, the largest is dropped, which may be this one. numba takes four seconds to compile numpy's
    partition and argsort instead.
    """
    i = n
    while i > 0 and key < keys[i - 1]:
        if i < most:
            keys[i], codes[i] = keys[i - 1], codes[i - 1]
        i -= 1
    if i < most:
        keys[i], codes[i] = key, code


@kernel
def named_categories(  # type: ignore[no-untyped-def]
    histogram, position, missing_left, max_cat_to_onehot, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
    min_child_weight,
):  # fmt: skip
    """Return the codes of the categories that a split names, int64, in any order.

    They are on the side that missing values do not go to; all others go with missing values.

    ==================  =======================================  ========================================
    the split is of     named where missing goes left            named where missing goes right
    ==================  =======================================  ========================================
    one category        the one at ``position`` (from 1, among   all that are present but that one
                        those present)
    a sorted partition  the ``position`` lowest by weight        the ``position`` highest by weight
    ==================  =======================================  ========================================

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    position, missing_left
        The results of `scan_categories`.
    max_cat_to_onehot, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    """
    room = category_room(len(histogram) - 1)
    present = room[0][_CODES]
    if len(histogram) - 1 < max_cat_to_onehot:
        n, _ = present_categories(histogram, 0.0, present)
        if missing_left:
            return present[position - 1 : position]
        for i in range(position, n):
            present[i - 1] = present[i]
        return present[: n - (position <= n)]
    smoothing = smoothing_of(histogram, cat_smooth)
    n, _ = present_categories(histogram, smoothing, present)
    lowest, highest = ends_by_weight(
        histogram, n, room, position, smoothing, reg_lambda, reg_alpha, max_delta_step, min_child_weight
    )
    return lowest if missing_left else highest


@kernel
def fill_named(  # type: ignore[no-untyped-def]
    goes_left, histogram, position, missing_left, max_cat_to_onehot, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
    min_child_weight,
):  # fmt: skip
    """Write to ``goes_left``, bool (categories + 1,), whether each code goes left, by a split of `named_categories`."""
    named = named_categories(
        histogram, position, missing_left, max_cat_to_onehot, cat_smooth,
        reg_lambda, reg_alpha, max_delta_step, min_child_weight,
    )  # fmt: skip
    fill_opposite(goes_left, named, missing_left)


@kernel(inline="always")
def fill_opposite(goes_left, named, missing_left):  # type: ignore[no-untyped-def]
    """Write whether each code goes left: the ``named`` ones opposite to missing values, the others with them."""
    for code in range(len(goes_left)):
        goes_left[code] = missing_left
    for i in range(len(named)):
        goes_left[named[i]] = not missing_left


@kernel
def category_candidates(  # type: ignore[no-untyped-def]
    histogram, room, max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
    min_child_weight,
):  # fmt: skip
    """Return the candidate splits of a categorical feature.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    room
        `category_room`, written.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.

    Returns
    -------
    tuple
        Whether candidates are single categories; the number of steps to scan; the number of categories that can be
        named; and their codes in the order of the steps, an int64 array for `NAMED_RIGHT`, from the lowest weight, and
        one for `NAMED_LEFT`, from the highest. Single categories are in ascending order in both. The arrays are views
        of the room.
    """
    sees_missing, codes = histogram[-1, 0] != 0.0 or histogram[-1, 1] != 0.0, room[0][_CODES]
    is_one_hot = len(histogram) - 1 < max_cat_to_onehot
    smoothing = 0.0 if is_one_hot else smoothing_of(histogram, cat_smooth)
    n, n_present = present_categories(histogram, smoothing, codes)
    if is_one_hot:
        return True, n + sees_missing, n, codes[:n], codes[:n]
    most = min(max_cat_threshold - 1, n)
    # Where no row is missing or in a category too light to be named, naming the other side is the same split.
    has_rest = sees_missing or n < n_present
    steps = most if has_rest else min(most, n // 2)
    if steps <= 0:
        return False, 0, n, codes[:n], codes[:n]
    lowest, highest = ends_by_weight(
        histogram, n, room, most, smoothing, reg_lambda, reg_alpha, max_delta_step, min_child_weight
    )
    return False, steps, n, lowest, highest


@kernel(error_model="numpy")
def scan_categories(  # type: ignore[no-untyped-def]
    histogram, rows, room, G, H, parent, bounds, node, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
):  # fmt: skip
    """Search a node's best split on one categorical feature.

    Ties go to the lowest single category, to the smallest set, then to the set that goes right.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    rows
        As for `scan_numbers`.
    room
        `category_room`, written.
    G, H, parent
        The sums over the node, and its score unsplit.
    bounds, node
        float64 (nodes, 2), the minimum and maximum weight in each node, None if no weight of the tree is bounded; and
        the index of this node.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    least
        0 or more; a split must gain more.

    Returns
    -------
    tuple
        Whether there is such a split; then, as in `scan_histograms`, its position (the step from 1, see
        `categorical_split`), whether missing goes left, its gain, and G and H of the left child.
    """
    one_hot, steps, n, lowest, highest = category_candidates(
        histogram, room, max_cat_to_onehot, max_cat_threshold, cat_smooth,
        reg_lambda, reg_alpha, max_delta_step, min_child_weight,
    )  # fmt: skip
    missing_G, missing_H = histogram[-1, 0], histogram[-1, 1]
    sides = 1 if one_hot and steps == n else 2  # without missing values, a single category only goes right
    has_split, position, best_side, gain, best_GL, best_HL = False, 0, NAMED_RIGHT, least, 0.0, 0.0
    lower, upper = -np.inf, np.inf
    if bounds is not None:
        lower, upper = bounds[node, 0], bounds[node, 1]
    right_G, right_H, left_G, left_H = 0.0, 0.0, 0.0, 0.0  # of the categories that are named
    few = room[1]  # where the weights were
    if rows is not None:
        for step in range(steps):
            few[NAMED_RIGHT, step] = few[NAMED_LEFT, step] = 0.0
        refuse_small_sets(rows, one_hot, steps, n, lowest, highest, few, 1.0)
    for step in range(1, steps + 1):
        for side in range(2):  # a constant, so that the loop is unrolled
            if side == sides:
                break
            if side == NAMED_RIGHT and step == n + one_hot:
                continue  # with every category on one side the missing values go right: a candidate of `NAMED_LEFT`
            if one_hot:
                # The category goes right, and with it on side 1 the missing values; past the last category, they alone.
                GL = G - side * missing_G - (histogram[lowest[step - 1], 0] if step <= n else 0.0)
                HL = H - side * missing_H - (histogram[lowest[step - 1], 1] if step <= n else 0.0)
            elif side == NAMED_RIGHT:
                right_G += histogram[lowest[step - 1], 0]
                right_H += histogram[lowest[step - 1], 1]
                GL, HL = G - right_G, H - right_H
            else:
                left_G += histogram[highest[step - 1], 0]
                left_H += histogram[highest[step - 1], 1]
                GL, HL = left_G, left_H
            if rows is not None and few[side, step - 1] != 0.0:
                continue
            if bounds is None:
                gained = split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)
            else:
                gained = bounded_gain(
                    GL, HL, G, H, parent, np.int8(0), lower, upper,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight,
                )  # fmt: skip
            if gained > gain:
                has_split, position, best_side, gain, best_GL, best_HL = True, step, side, gained, GL, HL
    return has_split, position, 1 - best_side, gain, best_GL, best_HL


def categorical_split(
    histogram: FloatArray,
    feature: int,
    position: int,
    missing_left: bool,
    gain: float,
    left: Stats,
    node: Stats,
    penalties: Penalties,
) -> Split:
    """Return the split of `scan_categories`."""
    p = penalties
    named = named_categories(
        histogram, position, missing_left, p.max_cat_to_onehot,
        p.cat_smooth, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
    )  # fmt: skip
    return Split(feature, gain, left, node - left, missing_left, categories=tuple(sorted(named.tolist())))

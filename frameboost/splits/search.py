"""Kernels that choose each open node's split: a scan of every feature's histogram, node by node.

Equal gains are tied to the lowest feature, then the lowest threshold (for categories see `scan_categories`), then to
missing going right: candidates are scanned in that order, and the first of equals wins.

A numeric feature takes prefix sums over its histogram, and the gain at each cut. A histogram of four bins and the
missing one, whose rows sum to G = −4 and H = 7; λ = 1:

=====  =====  =====  =====  =====  =======
bin        0      1      2      3  missing
=====  =====  =====  =====  =====  =======
G         -4     -2      0      3       -1
H          2      1      0      3        1
=====  =====  =====  =====  =====  =======

The prefix sums are the left children where missing goes right. With the missing bin added they are the left children
where missing goes left; right is the node's sums less left. Bin 2 is empty, so to split behind it parts the rows as to
split behind bin 1 does, and there is no entry for it. The gain is GL²/(HL+λ) + GR²/(HR+λ) − G²/(H+λ), where
G²/(H+λ) = 2:

========  ========  =====================================  ========================================
position  (GL, HL)  gain with missing right                gain with missing left
========  ========  =====================================  ========================================
1         (-4, 2)   16/3 + 0/6 - 2 = 3.33                  25/4 + 1/5 - 2 = 4.45
2         (-6, 3)   36/4 + 4/5 - 2 = 7.8                   49/5 + 9/4 - 2 = **10.05**
4         (-3, 6)   9/7 + 1/2 - 2 = -0.21                  0 (no row is left for the right child)
========  ========  =====================================  ========================================

The split is at position 2, so bins 0 and 1 go left, and missing goes left, too. Position 4, past the last bin, is the
split on whether there is a value at all.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.splits.categories import category_room, scan_categories
from frameboost.splits.gain import best_score, bounded_gain, bounded_score, split_gain

__all__ = [
    "find_splits",
    "scan_bounded_numbers",
    "scan_histograms",
    "scan_numbers",
    "subtract_from_parents",
    "subtract_slots",
]


@kernel(error_model="numpy")
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, first, monotone, bounds, has_two_bins,
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best,
    stats,
):  # fmt: skip
    """Find each node's best split over its allowed features.

    Parameters
    ----------
    histograms
        float64 (histograms, slots, 2): sums of g and h.
    indices
        int64 (nodes,): the index of each node's histogram.
    offsets
        int64 (features + 1,): the slots of each feature, its missing bin last. Some features are a slice of it.
    is_categorical
        bool (features,); None where no feature is, for which kernels are compiled without categories.
    allowed, first
        bool (nodes, features): the features that a node may be split on; and the column of the first of these features.
    monotone
        int8 (features,): 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (nodes, 2): the least and the largest weight in each node, infinite without constraints. Both are None
        where no weight of the tree is bounded (see `frameboost.splits.split.SplitLimits.bounding`).
    has_two_bins
        Whether many features have two bins, for which there is a shortcut; None instead of False, for which kernels are
        compiled without it.
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
        best[node, 0] = -1
        stats[node, 0] = 0.0
        for feature in range(n_features):
            if not allowed[node, first + feature]:
                continue
            histogram = sums[offsets[feature] : offsets[feature + 1]]
            if is_categorical is not None and is_categorical[feature]:
                candidate = scan_categories(
                    histogram, room, G, H, parent, bounds, node, max_cat_to_onehot, max_cat_threshold, cat_smooth,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
                _keep(candidate, feature, best[node], stats[node])
                continue
            if monotone is not None:
                direction = monotone[feature]
                if direction != 0 or max_delta_step != 0.0 or lower > -np.inf or upper < np.inf:
                    candidate = scan_bounded_numbers(
                        histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step,
                        min_child_weight, stats[node, 0], left, gains, positions,
                    )  # fmt: skip
                    _keep(candidate, feature, best[node], stats[node])
                    continue
            if has_two_bins is not None and len(histogram) == 3 and histogram[2, 0] == 0.0 and histogram[2, 1] == 0.0:
                # `scan_numbers` returns the same split, but takes longer to start than this one gain takes.
                GL, HL = histogram[0, 0], histogram[0, 1]
                gain = split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)
                if gain > stats[node, 0]:
                    _keep((True, 1, 0, gain, GL, HL), feature, best[node], stats[node])
                continue
            candidate = scan_numbers(
                histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight, stats[node, 0], left, gains, positions
            )
            _keep(candidate, feature, best[node], stats[node])


@kernel(inline="always")
def _keep(candidate, feature, best, stats):  # type: ignore[no-untyped-def]
    """Write a feature's split, if it has one, as that of the node."""
    if candidate[0]:
        best[0], best[1], best[2] = feature, candidate[1], candidate[2]
        stats[0], stats[1], stats[2] = candidate[3], candidate[4], candidate[5]


@kernel
def _find_share(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count, share,
):  # fmt: skip
    nodes = slice(len(indices) * share // count, len(indices) * (share + 1) // count)
    node_bounds = bounds
    if bounds is not None:
        node_bounds = bounds[nodes]
    scan_histograms(
        histograms, indices[nodes], offsets, is_categorical, allowed[nodes], 0, monotone, node_bounds, has_two_bins,
        max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
        best[nodes], stats[nodes],
    )  # fmt: skip


_finding = outlined(_find_share)


@kernel
def find_splits(  # type: ignore[no-untyped-def]
    team, histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
):  # fmt: skip
    """Do the work of `scan_histograms` in ``count`` shares on a team of threads (see `frameboost.runtime.team`)."""
    values = (
        histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
        max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)


# --- numeric features -------------------------------------------------------------------------------------------------


_ONE = np.uint64(1)  # indices are unsigned: for a signed one numba checks whether it counts from the end


@kernel(no_cpython_wrapper=True)
def _prefix_sums(histogram, left, positions):  # type: ignore[no-untyped-def]
    """Write the prefix sums of G and H, (2, slots), at the ends of the bins that have rows, and the next positions.

    Returns
    -------
    uint64
        How many there are. The entry behind them has the sums over all bins, and the position past the last bin.
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
    """Write the gains of the first ``n`` left sums, ``added_G`` and ``added_H`` added; 0 where a child is too light.

    The loop has no branch, so that it compiles to vector instructions.
    """
    for i in range(n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        gains[i] = split_gain(GL, HL, G, H, parent, reg_lambda, reg_alpha, min_child_weight)


@kernel(error_model="numpy", no_cpython_wrapper=True)
def _may_score(left, n, added_G, added_H, G, H, least, reg_lambda, min_child_weight):  # type: ignore[no-untyped-def]
    """Return whether one of the same left sums may score ``least`` or more.

    With a = HL+λ and b = HR+λ, GL²/a + GR²/b ≥ s only where GL²·b + GR²·a ≥ s·a·b: to compare these takes no division,
    which is most of the time that a gain takes. A penalty α makes scores less. Both sides are rounded by less than 2⁻⁴⁸
    of them, and underflow loses less than 1e-290.
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
    """Write the same from ``first`` on where weights are bounded, by ``max_delta_step`` or a monotone constraint."""
    for i in range(first, n):
        GL, HL = left[0, i] + added_G, left[1, i] + added_H
        gains[i] = bounded_gain(
            GL, HL, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        )


@kernel(no_cpython_wrapper=True)
def _keep_largest(gains, n, side, previous):  # type: ignore[no-untyped-def]
    """Return the largest of the gains of a side, its number from 1 on and the side, or the ``previous`` largest.

    Equal gains are tied to the lowest number, then to the previous one.
    """
    most, number, best_side = previous
    for i in range(n):
        if gains[i] > most or (gains[i] == most and i + _ONE < number):
            most, number, best_side = gains[i], i + _ONE, side
    return most, number, best_side


@kernel
def scan_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight, least, left, gains, positions
):
    """Find a node's best split on one numeric feature, where no weight is bounded.

    Ties go to the lowest position, then to missing going right.

    Parameters
    ----------
    histogram
        float64 (bins + 1, 2), the missing bin last.
    G, H, parent
        The sums over the node, and its score unsplit.
    reg_lambda, reg_alpha, min_child_weight
        The parameters of those names.
    least
        0 or more; a split must gain more.
    left, gains, positions
        Scratch space: float64 (2, slots), float64 (slots,) and int64 (slots,), of no fewer slots than the histogram.

    Returns
    -------
    tuple
        Whether there is such a split; then, as in `scan_histograms`, its position, whether missing goes left, its gain,
        and G and H of the left child.
    """
    n = _prefix_sums(histogram, left, positions)
    largest = least, np.uint64(0), np.int64(0)
    for side in range(_sides(histogram)):
        added_G, added_H = side * histogram[-1, 0], side * histogram[-1, 1]
        if _may_score(left, n, added_G, added_H, G, H, parent + largest[0], reg_lambda, min_child_weight):
            _unbounded_gains(left, n, added_G, added_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains)
            largest = _keep_largest(gains, n, side, largest)
    return _candidate(histogram, left, positions, largest)


@kernel
def scan_bounded_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
    left, gains, positions,
):  # fmt: skip
    """Do the same as `scan_numbers` where weights are bounded.

    Parameters
    ----------
    direction
        int8: 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    lower, upper
        The least and the largest weight in the node.
    max_delta_step
        The parameter of that name.
    """
    n = _prefix_sums(histogram, left, positions)
    largest = least, np.uint64(0), np.int64(0)
    for side in range(_sides(histogram)):
        _bounded_gains(
            left, np.uint64(0), n, side * histogram[-1, 0], side * histogram[-1, 1], G, H, parent, direction, lower,
            upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        largest = _keep_largest(gains, n, side, largest)
    if direction != 0:
        # One more candidate, without a direction: present values left, missing ones right.
        _bounded_gains(
            left, n, n + _ONE, 0.0, 0.0, G, H, parent, np.int8(0), lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
        )  # fmt: skip
        if gains[n] > largest[0]:
            largest = gains[n], n + _ONE, np.int64(0)
    return _candidate(histogram, left, positions, largest)


@kernel(inline="always")
def _sides(histogram):  # type: ignore[no-untyped-def]
    """Return to how many sides missing values can go: 1 if there are none."""
    return 1 + (histogram[-1, 1] != 0.0 or histogram[-1, 0] != 0.0)


@kernel(inline="always")
def _candidate(histogram, left, positions, largest):  # type: ignore[no-untyped-def]
    """Return the result of `_keep_largest` as `scan_numbers` returns it."""
    gain, number, missing_left = largest
    if number == 0:
        return False, 0, 0, 0.0, 0.0, 0.0
    best = number - _ONE
    GL, HL = left[0, best] + missing_left * histogram[-1, 0], left[1, best] + missing_left * histogram[-1, 1]
    return True, positions[best], missing_left, gain, GL, HL


# --- subtraction: the sibling of a child ------------------------------------------------------------------------------


@kernel(inline="always")
def subtract_slots(histograms, indices, parents, item, slots):  # type: ignore[no-untyped-def]
    """Do what `subtract_from_parents` does for one child, in a slice of its sums in a row: g and h of a slot, ..."""
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
    """Turn the histograms of parents into those of the other child, in the same memory.

    Parameters
    ----------
    team
        The threads that share the work (see `frameboost.runtime.team`).
    histograms
        float64 (histograms, slots, 2): sums of g and h.
    indices, parents
        int64 (nodes,): the index of each child's histogram, and of its parent's; -1 to leave the parent's alone.
    """
    share_out(team, _subtracting((histograms, indices, parents)), len(indices))

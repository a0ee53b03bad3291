"""Kernels over the histograms of open nodes: subtraction from their parents', and the scan for the best splits.

Ties in gain go to the lowest feature, then the lowest threshold (for categories see `scan_categories`), then to missing
going right; scanning in that order and keeping the first of equals does it.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out
from frameboost.splits.category_kernels import scan_categories
from frameboost.splits.gain import best_score, bounded_score, bounded_weight, leaf_score, split_score

__all__ = ["bounded_weights", "find_splits", "scan_histograms", "subtract_from_parents"]


@kernel
def _subtract_one(histograms, places, parents, item):  # type: ignore[no-untyped-def]
    if parents[item] >= 0:
        own, parent = histograms[places[item]].ravel(), histograms[parents[item]].ravel()
        for slot in range(len(own)):
            parent[slot] -= own[slot]


_subtracting = outlined(_subtract_one)


@kernel
def subtract_from_parents(team, histograms, places, parents):  # type: ignore[no-untyped-def]
    """Turn the histograms of parents into those of the other child.

    Parameters
    ----------
    team
        Who does it (see `frameboost.runtime.team_kernels`).
    histograms
        float64 (places, slots, 2): sums of g and h.
    places, parents
        int64 (nodes,): where each child's is, and its parent's; -1 if that is not wanted.
    """
    share_out(team, _subtracting((histograms, places, parents)), len(places))


@kernel
def _add_up(histogram, left, positions):  # type: ignore[no-untyped-def]
    """Write the running sums of G and H, (2, slots), over the bins that have rows, and the positions behind those bins.

    Returns
    -------
    int
        How many there are. A bin without rows parts them as the bin before it does. Behind them are the sums over all
        bins, and the last position.
    """
    count = len(histogram) - 1
    n, G, H = np.uint64(0), 0.0, 0.0
    for i in range(count):
        g, h = histogram[i, 0], histogram[i, 1]
        G += g
        H += h
        left[0, n], left[1, n], positions[n] = G, H, i + 1
        n += np.uint64((g != 0.0) | (h != 0.0))  # what an empty bin has left is written over: cheaper than a branch
    left[0, n], left[1, n], positions[n] = G, H, count
    return np.int64(n)


@kernel(error_model="numpy")
def _free_gains(  # type: ignore[no-untyped-def]
    left, n, more_G, more_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains
):
    """Write the gains of the first ``n`` left sums, each with something more, 0 where a child is too light.

    There is no branch in it, so it is compiled to vector instructions.
    """
    for i in range(n):
        GL, HL = left[0, i] + more_G, left[1, i] + more_H
        GR, HR = G - GL, H - HL
        gain = best_score(GL, HL, reg_lambda, reg_alpha) + best_score(GR, HR, reg_lambda, reg_alpha) - parent
        is_heavy = (HL > 0.0) & (HR > 0.0) & (min_child_weight <= HL) & (min_child_weight <= HR)
        gains[i] = gain if is_heavy else 0.0


@kernel
def _bounded_gains(  # type: ignore[no-untyped-def]
    left, n, more_G, more_H, G, H, parent, direction, lower, upper,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains,
):  # fmt: skip
    """Do the same where weights are limited, or must keep to a direction."""
    is_bounded = direction != 0 or lower > -np.inf or upper < np.inf
    for i in range(n):
        GL, HL = left[0, i] + more_G, left[1, i] + more_H
        GR, HR = G - GL, H - HL
        gains[i] = 0.0
        if HL > 0.0 and HR > 0.0 and min_child_weight <= HL and min_child_weight <= HR:
            if is_bounded:
                score = split_score(GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper)
            else:
                left_score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step)
                score = left_score + leaf_score(GR, HR, reg_lambda, reg_alpha, max_delta_step)
            gains[i] = score - parent


@kernel
def _first_of_largest(gains, sides, n, least):  # type: ignore[no-untyped-def]
    """Return the place and the side of the first of the largest gains, -1 if none is more than ``least`` (0 or more).

    Numbers above 0 are in order by their bits, and integers are compared many at a time.
    """
    bits, most = gains.view(np.int64), np.float64(least).view(np.int64)
    found = most
    for side in range(sides):
        for i in range(n):
            found = max(found, bits[side, i])
    if found > most:
        for i in range(n):
            for side in range(sides):
                if bits[side, i] == found:
                    return i, side
    return -1, 0


@kernel
def _scan_numbers(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
    left, gains, positions,
):  # fmt: skip
    """Return whether a split of a numeric feature gains more than ``least``, and that split; see `scan_histograms`.

    ``left`` and ``gains``, float64 (2, slots), and ``positions``, int64 (slots,), are room to work in.
    """
    n = _add_up(histogram, left, positions)
    missing_G, missing_H = histogram[-1, 0], histogram[-1, 1]
    sides = 1 + (missing_H != 0.0 or missing_G != 0.0)
    is_free = direction == 0 and max_delta_step == 0.0 and lower == -np.inf and upper == np.inf
    for side in range(sides):
        more_G, more_H = side * missing_G, side * missing_H
        if is_free:
            _free_gains(left, n, more_G, more_H, G, H, parent, reg_lambda, reg_alpha, min_child_weight, gains[side])
        else:
            _bounded_gains(
                left, n, more_G, more_H, G, H, parent, direction, lower, upper,
                reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains[side],
            )  # fmt: skip
    if direction != 0:  # whether a value is present at all goes by no order
        _bounded_gains(
            left[:, n:], 1, 0.0, 0.0, G, H, parent, 0, lower, upper,
            reg_lambda, reg_alpha, max_delta_step, min_child_weight, gains[0, n:],
        )  # fmt: skip
        gains[1, n] = 0.0
        n += 1
    best, missing_left = _first_of_largest(gains, sides, n, least)
    if best < 0:
        return False, 0, 0, 0.0, 0.0, 0.0
    GL, HL = left[0, best] + missing_left * missing_G, left[1, best] + missing_left * missing_H
    return True, positions[best], missing_left, gains[missing_left, best], GL, HL


@kernel
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats,
):  # fmt: skip
    """Find each node's best split.

    Parameters
    ----------
    histograms
        float64 (places, slots, 2): sums of g and h.
    places
        int64 (nodes,): where among them each node's are.
    offsets
        int64 (features + 1,): the slots of each feature, its missing bin last.
    is_categorical
        bool (features,).
    allowed
        bool (nodes, features): the features that a node may be split on.
    monotone
        int8 (features,): 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (nodes, 2): the least and the largest weight in each node, infinite without constraints.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    best
        int64 (nodes, 3), written: feature (-1: no split gains anything), position (a row goes left where its code is
        less than it; for categories see `categorical_split`) and whether missing goes left.
    stats
        float64 (nodes, 3), written: gain, G and H of the left child.
    """
    widest = np.max(np.diff(offsets))
    left, gains, positions = np.empty((2, widest)), np.empty((2, widest)), np.empty(widest, dtype=np.int64)
    for node in range(len(places)):
        sums = histograms[places[node]]
        G, H = sums[: offsets[1], 0].sum(), sums[: offsets[1], 1].sum()
        lower, upper = bounds[node, 0], bounds[node, 1]
        parent = bounded_score(G, H, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        best[node, 0] = -1
        stats[node, 0] = 0.0
        for feature in range(len(is_categorical)):
            if not allowed[node, feature]:
                continue
            histogram = sums[offsets[feature] : offsets[feature + 1]]
            if is_categorical[feature]:
                found, position, missing_left, gain, GL, HL = scan_categories(
                    histogram, G, H, parent, lower, upper, max_cat_to_onehot, max_cat_threshold, cat_smooth,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
            else:
                found, position, missing_left, gain, GL, HL = _scan_numbers(
                    histogram, G, H, parent, monotone[feature], lower, upper,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0], left, gains, positions,
                )  # fmt: skip
            if found:
                best[node, 0], best[node, 1], best[node, 2] = feature, position, missing_left
                stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL


@kernel
def _find_share(  # type: ignore[no-untyped-def]
    histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count, share,
):  # fmt: skip
    own = slice(len(places) * share // count, len(places) * (share + 1) // count)
    scan_histograms(
        histograms, places[own], offsets, is_categorical, allowed[own], monotone, bounds[own], max_cat_to_onehot,
        max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best[own], stats[own],
    )  # fmt: skip


_finding = outlined(_find_share)


@kernel
def find_splits(  # type: ignore[no-untyped-def]
    team, histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
):  # fmt: skip
    """Do as `scan_histograms`, a team in ``count`` shares (see `frameboost.runtime.team_kernels`)."""
    values = (
        histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
        cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)


@kernel
def bounded_weights(G, H, bounds, reg_lambda, reg_alpha, max_delta_step, min_child_weight):  # type: ignore[no-untyped-def]
    """Return each node's weight, 0 of one whose H is below ``min_child_weight``: float64 (nodes,).

    ``G`` and ``H`` are float64 (nodes,), ``bounds`` float64 (nodes, 2): the least and the largest weight.
    """
    weights = np.zeros(len(G))
    for i in range(len(G)):
        if min_child_weight <= H[i]:
            lower, upper = bounds[i]
            weights[i] = bounded_weight(G[i], H[i], reg_lambda, reg_alpha, max_delta_step, lower, upper)
    return weights

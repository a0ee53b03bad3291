"""Kernels that choose each open node's split: a scan of every feature's histogram, node by node.

Equal gains are tied to the lowest feature, then the lowest threshold (for categories see `scan_categories`), then to
missing going right: candidates are scanned in that order, and the first of equals is kept.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out
from frameboost.splits.category_kernels import category_room, scan_categories
from frameboost.splits.gain import best_score, bounded_score
from frameboost.splits.numeric_kernels import gain_of_two, scan_bounded_numbers, scan_numbers

__all__ = ["find_splits", "scan_histograms"]


@kernel
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats,
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
    allowed
        bool (nodes, features): the features that a node may be split on.
    monotone
        int8 (features,): 1 where weights must not fall from left to right, -1 where they must not rise, else 0.
    bounds
        float64 (nodes, 2): the least and the largest weight in each node, infinite without constraints. Both are None
        where no weight of the tree is bounded (see `frameboost.splits.split.SplitLimits.bounding`).
    has_pairs
        Whether many features have two bins, for which there is a shortcut; None in place of False, for which kernels
        are compiled without it.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    best
        int64 (nodes, 3), written: feature (-1: no split gains anything), position (a row goes left where its code is
        less than it; for categories see `categorical_split`) and whether missing goes left.
    stats
        float64 (nodes, 3), written: gain, G and H of the left child.
    """
    n_features, widest = allowed.shape[1], 0
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
            if not allowed[node, feature]:
                continue
            histogram = sums[offsets[feature] : offsets[feature + 1]]
            if is_categorical is not None and is_categorical[feature]:
                found = scan_categories(
                    histogram, room, G, H, parent, bounds, node, max_cat_to_onehot, max_cat_threshold, cat_smooth,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
                _keep(found, feature, best[node], stats[node])
                continue
            if monotone is not None:
                direction = monotone[feature]
                if direction != 0 or max_delta_step != 0.0 or lower > -np.inf or upper < np.inf:
                    found = scan_bounded_numbers(
                        histogram, G, H, parent, direction, lower, upper, reg_lambda, reg_alpha, max_delta_step,
                        min_child_weight, stats[node, 0], left, gains, positions,
                    )  # fmt: skip
                    _keep(found, feature, best[node], stats[node])
                    continue
            if has_two_bins is not None and len(histogram) == 3 and histogram[2, 0] == 0.0 and histogram[2, 1] == 0.0:
                gain = gain_of_two(histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight)
                if gain > stats[node, 0]:
                    _keep((True, 1, 0, gain, histogram[0, 0], histogram[0, 1]), feature, best[node], stats[node])
                continue
            found = scan_numbers(
                histogram, G, H, parent, reg_lambda, reg_alpha, min_child_weight, stats[node, 0], left, gains, positions
            )
            _keep(found, feature, best[node], stats[node])


@kernel(inline="always")
def _keep(found, feature, best, stats):  # type: ignore[no-untyped-def]
    """Write a feature's split, if it has one, as that of the node."""
    if found[0]:
        best[0], best[1], best[2] = feature, found[1], found[2]
        stats[0], stats[1], stats[2] = found[3], found[4], found[5]


@kernel
def _find_share(  # type: ignore[no-untyped-def]
    histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count, share,
):  # fmt: skip
    own = slice(len(indices) * share // count, len(indices) * (share + 1) // count)
    own_bounds = bounds
    if bounds is not None:
        own_bounds = bounds[own]
    scan_histograms(
        histograms, indices[own], offsets, is_categorical, allowed[own], monotone, own_bounds, has_two_bins,
        max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight,
        best[own], stats[own],
    )  # fmt: skip


_finding = outlined(_find_share)


@kernel
def find_splits(  # type: ignore[no-untyped-def]
    team, histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
    max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
):  # fmt: skip
    """Do the work of `scan_histograms` in ``count`` shares on a team of threads (see `runtime.team_kernels`)."""
    values = (
        histograms, indices, offsets, is_categorical, allowed, monotone, bounds, has_two_bins, max_cat_to_onehot,
        max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)

"""Kernels that choose each open node's split: a scan of every feature's histogram, node by node.

Equal gains are tied to the lowest feature, then the lowest threshold (for categories see `scan_categories`), then to
missing going right: candidates are scanned in that order, and the first of equals is kept.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out
from frameboost.splits.category_kernels import scan_categories
from frameboost.splits.gain import bounded_score
from frameboost.splits.numeric_kernels import scan_numbers

__all__ = ["find_splits", "scan_histograms"]


@kernel
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats,
):  # fmt: skip
    """Find each node's best split over its allowed features.

    Parameters
    ----------
    histograms
        float64 (places, slots, 2): sums of g and h.
    places
        int64 (nodes,): the index of each node's histogram.
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
                found, position, missing_left, gain, GL, HL = scan_numbers(
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
    """Do the work of `scan_histograms` in ``count`` shares on a team of threads (see `runtime.team_kernels`)."""
    values = (
        histograms, places, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold,
        cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats, count,
    )  # fmt: skip
    share_out(team, _finding(values), count)

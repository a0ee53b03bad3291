"""Kernels that scan histograms for the best split.

Ties in gain go to the lowest feature, then the lowest threshold (for categories see `scan_categories`), then to missing
going right; scanning in that order and keeping the first of equals does it.
"""

from __future__ import annotations

import numba
import numpy as np

from frameboost.category_kernels import scan_categories
from frameboost.gain import bounded_score, leaf_score, split_score

__all__ = ["scan_histograms"]


@numba.njit(nogil=True, cache=True)
def scan_histograms(  # type: ignore[no-untyped-def]
    histograms, offsets, is_categorical, allowed, monotone, bounds, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, best, stats,
):  # fmt: skip
    """Find each node's best split.

    Parameters
    ----------
    histograms
        float64 (nodes, slots, 2): sums of g and h.
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
        less than it; for categories see `frameboost.categorical.categorical_split`) and whether missing goes left.
    stats
        float64 (nodes, 3), written: gain, G and H of the left child.
    """
    for node in range(histograms.shape[0]):
        G = histograms[node, : offsets[1], 0].sum()
        H = histograms[node, : offsets[1], 1].sum()
        lower, upper = bounds[node, 0], bounds[node, 1]
        is_bounded = lower > -np.inf or upper < np.inf
        parent = bounded_score(G, H, reg_lambda, reg_alpha, max_delta_step, lower, upper)
        best[node, 0] = -1
        stats[node, 0] = 0.0
        for feature in range(len(is_categorical)):
            if not allowed[node, feature]:
                continue
            histogram = histograms[node, offsets[feature] : offsets[feature + 1]]
            if is_categorical[feature]:
                found, position, missing_left, gain, GL, HL = scan_categories(
                    histogram, G, H, parent, lower, upper, max_cat_to_onehot, max_cat_threshold, cat_smooth,
                    reg_lambda, reg_alpha, max_delta_step, min_child_weight, stats[node, 0],
                )  # fmt: skip
                if found:
                    best[node, 0], best[node, 1], best[node, 2] = feature, position, missing_left
                    stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL
                continue
            count = len(histogram) - 1
            missing_G, missing_H = histogram[count, 0], histogram[count, 1]
            direction = monotone[feature]
            left_G, left_H = 0.0, 0.0
            # Under a constraint once more, past the last bin: whether a value is present goes by no order.
            for i in range(count + (direction != 0)):
                if i == count:
                    direction = 0
                elif histogram[i, 1] == 0.0 and histogram[i, 0] == 0.0:
                    continue  # the same rows on each side as one position earlier
                else:
                    left_G += histogram[i, 0]
                    left_H += histogram[i, 1]
                for missing_left in range(2):
                    if missing_left == 1 and missing_H == 0.0 and missing_G == 0.0:
                        break
                    GL = left_G + missing_left * missing_G
                    HL = left_H + missing_left * missing_H
                    GR, HR = G - GL, H - HL
                    if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
                        continue
                    if is_bounded or direction != 0:
                        score = split_score(
                            GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, lower, upper
                        )
                    else:
                        score = leaf_score(GL, HL, reg_lambda, reg_alpha, max_delta_step) + leaf_score(
                            GR, HR, reg_lambda, reg_alpha, max_delta_step
                        )
                    gain = score - parent
                    if gain > stats[node, 0]:
                        best[node, 0], best[node, 1], best[node, 2] = feature, min(i + 1, count), missing_left
                        stats[node, 0], stats[node, 1], stats[node, 2] = gain, GL, HL

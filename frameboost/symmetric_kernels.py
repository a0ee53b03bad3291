"""The kernel that finds one split for all nodes of a level."""

from __future__ import annotations

import numba
import numpy as np

from frameboost.gain import bounded_score, split_score
from frameboost.split_kernels import sorted_categories

__all__ = ["scan_level"]


@numba.njit(nogil=True, cache=True)
def scan_level(  # type: ignore[no-untyped-def]
    histograms, summed, offsets, is_categorical, allowed, monotone, bounds,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight,
):  # fmt: skip
    """Find the split that gains most over all nodes of a level, each of which it divides.

    Parameters
    ----------
    histograms
        float64 (nodes, slots, 2): sums of g and h.
    summed
        float64 (slots, 2): their sum over the nodes.
    offsets, is_categorical, monotone, bounds, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        As for `frameboost.split_kernels.scan_histograms`.
    allowed
        bool (features,): the features that the level may be split on.

    Returns
    -------
    tuple
        Gain, feature (-1: no split gains anything), position and whether missing goes left, as there. A node that the
        split would leave a child of less than ``min_child_weight`` gains nothing by it.
    """
    n = histograms.shape[0]
    best_gain, best_feature, best_position, best_missing = 0.0, -1, 0, 0
    G = np.array([histograms[k, : offsets[1], 0].sum() for k in range(n)])
    H = np.array([histograms[k, : offsets[1], 1].sum() for k in range(n)])
    parent = np.empty(n)
    for k in range(n):
        parent[k] = bounded_score(G[k], H[k], reg_lambda, reg_alpha, max_delta_step, bounds[k, 0], bounds[k, 1])
    left = np.empty((n, 2))
    for feature in range(len(is_categorical)):
        if not allowed[feature]:
            continue
        start, missing = offsets[feature], offsets[feature + 1] - 1
        if is_categorical[feature]:
            order = sorted_categories(summed[start : missing + 1])
        else:
            order = np.arange(missing - start)
        has_missing = summed[missing, 1] != 0.0 or summed[missing, 0] != 0.0
        direction = monotone[feature]
        left[:] = 0.0
        # Under a constraint once more, past the last bin: whether a value is present goes by no order.
        for i in range(len(order) + (direction != 0)):
            if i == len(order):
                direction = 0
            else:
                slot = start + order[i]
                if summed[slot, 1] == 0.0 and summed[slot, 0] == 0.0:
                    continue
                for k in range(n):
                    left[k, 0] += histograms[k, slot, 0]
                    left[k, 1] += histograms[k, slot, 1]
            for missing_left in range(1 + has_missing):
                gain = 0.0
                for k in range(n):
                    GL = left[k, 0] + missing_left * histograms[k, missing, 0]
                    HL = left[k, 1] + missing_left * histograms[k, missing, 1]
                    GR, HR = G[k] - GL, H[k] - HL
                    if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
                        continue
                    gain += split_score(
                        GL, HL, GR, HR, reg_lambda, reg_alpha, max_delta_step, direction, bounds[k, 0], bounds[k, 1]
                    ) - parent[k]  # fmt: skip
                if gain > best_gain:
                    best_gain, best_feature, best_missing = gain, feature, missing_left
                    best_position = min(i + 1, len(order))
    return best_gain, best_feature, best_position, best_missing

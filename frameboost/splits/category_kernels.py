"""Kernels that find the best split of a categorical feature: one category against the rest, or a sorted partition.

Both are XGBoost's (src/tree/hist/evaluate_splits.h, EnumerateOneHot and EnumeratePart). Either way some categories are
*named*, and everything else, the missing values among it, goes to the other side.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.gain import bounded_score, leaf_weight

__all__ = ["ends_by_weight", "present_categories", "scan_categories"]


@kernel
def present_categories(histogram, lightest):  # type: ignore[no-untyped-def]
    """Return the codes, int64 in ascending order, of a node's categories with rows, and an H of ``lightest`` or more.

    ``histogram`` is float64 (categories + 1, 2), the missing bin last.
    """
    G, H = histogram[:-1, 0], histogram[:-1, 1]
    return np.flatnonzero(((H != 0.0) | (G != 0.0)) & (lightest <= H))


@kernel
def ends_by_weight(  # type: ignore[no-untyped-def]
    histogram, codes, most, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
):
    """Return those of the categories that have the lowest weights, and those that have the highest.

    A category's weight is what it would have as a leaf, with ``cat_smooth`` more to its H; one too light for a leaf has
    the weight 0. Without penalties and smoothing this is the order in which the best of all subsets is a prefix (Fisher
    1958; Hastie, Tibshirani & Friedman, section 9.2.4).

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    codes
        int64: the categories, in ascending order.
    most
        How many of each end are wanted, at least 1.
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.

    Returns
    -------
    tuple of int64 arrays
        Codes from the lowest weight upwards and from the highest downwards, of equal weights the lower code before the
        higher one in the whole order; no more than ``most`` of each. Sorting 100,000 categories for their ends alone
        would take longer than all the rest.
    """
    weight = np.empty(len(codes))
    for i, code in enumerate(codes):
        G, H = histogram[code, 0], histogram[code, 1]
        if min_child_weight > H:
            weight[i] = 0.0
        else:
            weight[i] = leaf_weight(G, H + cat_smooth, reg_lambda, reg_alpha, max_delta_step)
    if len(codes) <= 2 * most:
        order = codes[np.argsort(weight, kind="mergesort")]
        return order[:most], order[::-1][:most]
    low = np.flatnonzero(weight <= np.partition(weight, most - 1)[most - 1])
    high = np.flatnonzero(weight >= np.partition(weight, len(weight) - most)[len(weight) - most])
    low = low[np.argsort(weight[low], kind="mergesort")][:most]
    high = high[np.argsort(weight[high], kind="mergesort")][::-1][:most]
    return codes[low], codes[high]


@kernel
def scan_categories(  # type: ignore[no-untyped-def]
    histogram, G, H, parent, lower, upper, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
):  # fmt: skip
    """Find a node's best split on one categorical feature.

    Ties go to the lowest category on its own, to the smallest set, then to the set that goes right.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    G, H, parent
        The sums over the node, and its score unsplit.
    lower, upper
        The least and the largest weight in the node.
    max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
        The parameters of those names.
    least
        What a split must gain more than.

    Returns
    -------
    tuple
        Whether there is such a split; for the rest see `scan_histograms`: position, whether missing goes left, gain,
        and G and H of the left child.
    """
    missing_G, missing_H = histogram[-1, 0], histogram[-1, 1]
    sees_missing = missing_G != 0.0 or missing_H != 0.0
    one_hot = len(histogram) - 1 < max_cat_to_onehot
    present = present_categories(histogram, 0.0)
    if one_hot:
        named = lowest = highest = present
        n = len(present)
        steps = n + sees_missing
    else:
        named = present_categories(histogram, cat_smooth)
        n = len(named)
        most = min(max_cat_threshold - 1, n)
        # Where nothing is missing, and nothing too light to be named, to name the other side is the same split.
        has_rest = sees_missing or n < len(present)
        steps = most if has_rest else min(most, n // 2)
        lowest = highest = named
        if steps > 0:
            lowest, highest = ends_by_weight(
                histogram, named, most, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
            )
    found, position, best_missing_left, gain, best_GL, best_HL = False, 0, 1, least, 0.0, 0.0
    named_G, named_H = np.zeros(2), np.zeros(2)
    for step in range(1, steps + 1):
        for side in range(2):  # 0: named ones go right, missing left; 1: named ones go left, missing right
            if side == 0 and step == n + one_hot:
                continue  # all are named: missing goes right
            if one_hot:
                # One category goes right. Missing goes with all the others, or with it: then those are what is named.
                # Past the last category missing goes right alone.
                if side == 1 and not sees_missing:
                    break
                GL = G - side * missing_G - (histogram[present[step - 1], 0] if step <= n else 0.0)
                HL = H - side * missing_H - (histogram[present[step - 1], 1] if step <= n else 0.0)
            else:
                code = lowest[step - 1] if side == 0 else highest[step - 1]
                named_G[side] += histogram[code, 0]
                named_H[side] += histogram[code, 1]
                GL = named_G[1] if side == 1 else G - named_G[0]
                HL = named_H[1] if side == 1 else H - named_H[0]
            GR, HR = G - GL, H - HL
            if HL <= 0.0 or HR <= 0.0 or min_child_weight > HL or min_child_weight > HR:
                continue
            score = bounded_score(GL, HL, reg_lambda, reg_alpha, max_delta_step, lower, upper) + bounded_score(
                GR, HR, reg_lambda, reg_alpha, max_delta_step, lower, upper
            )
            if score - parent > gain:
                found, position, best_missing_left, gain = True, step, 1 - side, score - parent
                best_GL, best_HL = GL, HL
    return found, position, best_missing_left, gain, best_GL, best_HL

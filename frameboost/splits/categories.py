"""The best split of a categorical feature: one category against the rest, or a sorted partition.

Both are XGBoost's (src/tree/hist/evaluate_splits.h, EnumerateOneHot and EnumeratePart). Either way some categories are
*named*, and everything else goes to the other side: the missing values, and categories without rows in the node.

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

The named ones are in bold. The split is position 2, missing left: the two lowest, a and d, go right. Naming b and c
instead would be the same split, so half of the steps are enough where everything has a position in the order.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel
from frameboost.splits.gain import bounded_gain, leaf_weight, split_gain
from frameboost.splits.split import FloatArray, Penalties, Split, Stats

__all__ = [
    "NAMED_LEFT",
    "NAMED_RIGHT",
    "categorical_split",
    "category_candidates",
    "category_room",
    "ends_by_weight",
    "fill_named",
    "named_categories",
    "present_categories",
    "scan_categories",
    "sort_codes",
]


# The side that the named categories go to; missing values go to the other. At equal gains the first of these is taken.
NAMED_RIGHT, NAMED_LEFT = 0, 1
# The longest ends of an order that are sorted by insertion, in time proportional to their length times its insertions;
# for longer ones everything is sorted.
_MAX_INSERTED = 256
# The rows of `category_room`: codes, and the two ends of their order.
_CODES, _LOWEST, _HIGHEST = range(3)


@kernel
def category_room(n_categories):  # type: ignore[no-untyped-def]
    """Return memory for the search in so many categories: int64 (3, categories) and float64 (2, categories).

    A node has a search for each categorical feature, in which to allocate memory would take longer than ten categories.
    """
    return np.empty((3, n_categories), dtype=np.int64), np.empty((2, n_categories))


@kernel
def present_categories(histogram, lightest, codes):  # type: ignore[no-untyped-def]
    """Write the codes, in ascending order, of a node's categories with rows, and an H of ``lightest`` or more.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    lightest
        The least H.
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
    histogram, n, room, most, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
):
    """Return the categories of the lowest weights, and those of the highest.

    A category's weight is its weight as a leaf, with ``cat_smooth`` added to its H; a category too light for a leaf has
    weight 0. Without penalties and smoothing the best of all subsets is a prefix of this order (Fisher 1958; Hastie,
    Tibshirani & Friedman, section 9.2.4).

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    n, room
        The number of categories, and `category_room` with their codes, in ascending order; written.
    most
        How many to return from each end, at least 1.
    cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
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
            weight[i] = leaf_weight(G, H + cat_smooth, reg_lambda, reg_alpha, max_delta_step)
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
    """Sort the first ``n`` keys (float64) and their codes (int64) in place, by key and then by code.

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
    """Insert a code among the ``n`` of the smallest keys so far, behind equal ones (insertion sort).

    If there are ``most``, the largest is dropped, which may be this one. numpy's partition and argsort do the same, but
    take numba four seconds to compile.
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
    n, _ = present_categories(histogram, cat_smooth, present)
    lowest, highest = ends_by_weight(
        histogram, n, room, position, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
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
    for code in range(len(goes_left)):
        goes_left[code] = missing_left
    for i in range(len(named)):
        goes_left[named[i]] = not missing_left


@kernel
def category_candidates(  # type: ignore[no-untyped-def]
    histogram, room, max_cat_to_onehot, max_cat_threshold, cat_smooth, reg_lambda, reg_alpha, max_delta_step,
    min_child_weight,
):  # fmt: skip
    """Return what the candidate splits of a categorical feature are made of.

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
        Whether candidates are single categories; how many steps to scan; how many categories can be named; and their
        codes in the order in which the steps take them, an int64 array for `NAMED_RIGHT`, from the lowest weight, and
        one for `NAMED_LEFT`, from the highest. Single categories are in ascending order in both. The arrays are views
        of the room.
    """
    sees_missing, codes = histogram[-1, 0] != 0.0 or histogram[-1, 1] != 0.0, room[0][_CODES]
    is_one_hot = len(histogram) - 1 < max_cat_to_onehot
    n, n_present = present_categories(histogram, 0.0 if is_one_hot else cat_smooth, codes)
    if is_one_hot:
        return True, n + sees_missing, n, codes[:n], codes[:n]
    most = min(max_cat_threshold - 1, n)
    # Where no row is missing or in a category too light to be named, naming the other side is the same split.
    has_rest = sees_missing or n < n_present
    steps = most if has_rest else min(most, n // 2)
    if steps <= 0:
        return False, 0, n, codes[:n], codes[:n]
    lowest, highest = ends_by_weight(
        histogram, n, room, most, cat_smooth, reg_lambda, reg_alpha, max_delta_step, min_child_weight
    )
    return False, steps, n, lowest, highest


@kernel(error_model="numpy")
def scan_categories(  # type: ignore[no-untyped-def]
    histogram, room, G, H, parent, bounds, node, max_cat_to_onehot, max_cat_threshold, cat_smooth,
    reg_lambda, reg_alpha, max_delta_step, min_child_weight, least,
):  # fmt: skip
    """Find a node's best split on one categorical feature.

    Ties go to the lowest single category, to the smallest set, then to the set that goes right.

    Parameters
    ----------
    histogram
        float64 (categories + 1, 2), the missing bin last.
    room
        `category_room`, written.
    G, H, parent
        The sums over the node, and its score unsplit.
    bounds, node
        float64 (nodes, 2), the least and the largest weight in each node, None where no weight of the tree is bounded;
        and which of them is this one.
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

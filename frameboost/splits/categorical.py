"""The set of categories that a split names, from the position that the scan of a categorical feature found."""

from __future__ import annotations

import numpy as np

from frameboost.splits.category_kernels import ends_by_weight, present_categories
from frameboost.splits.split import FloatArray, Penalties, Split, Stats

__all__ = ["categorical_split"]


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
    """Return the split that `frameboost.splits.category_kernels.scan_categories` found.

    The split names the categories on the side that missing values do not go to; all others go with missing values.

    ==================  =======================================  ========================================
    the split is of     named where missing goes left            named where missing goes right
    ==================  =======================================  ========================================
    one category        the one at ``position`` (from 1, among   all that are present but that one
                        those present)
    a sorted partition  the ``position`` lowest by weight        the ``position`` highest by weight
    ==================  =======================================  ========================================
    """
    p = penalties
    if len(histogram) - 1 < p.max_cat_to_onehot:
        present = present_categories(histogram, 0.0)
        chosen = present[position - 1 : position]
        named = chosen if missing_left else np.setdiff1d(present, chosen)
    else:
        lowest, highest = ends_by_weight(
            histogram, present_categories(histogram, p.cat_smooth), position,
            p.cat_smooth, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
        )  # fmt: skip
        named = lowest if missing_left else highest
    return Split(feature, gain, left, node - left, missing_left, categories=tuple(sorted(named.tolist())))

"""Splits of a categorical feature: a set of categories goes one way, everything else the other."""

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

    It names the categories on the side that missing does not go to, so that all others go with missing. Of a sorted
    partition they are the ``position`` lowest by weight, where missing goes left, or the highest, where it goes right.
    Of a feature of few categories: the one at ``position`` (counted from 1 among those present), where missing goes
    left, or all but that one, where it goes right.
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

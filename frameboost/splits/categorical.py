"""The categories that a split names, from the position that the scan of a categorical feature found."""

from __future__ import annotations

from frameboost.splits.category_kernels import named_categories
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
    """Return the split that `frameboost.splits.category_kernels.scan_categories` found."""
    p = penalties
    named = named_categories(
        histogram, position, missing_left, p.max_cat_to_onehot,
        p.cat_smooth, p.reg_lambda, p.reg_alpha, p.max_delta_step, p.min_child_weight,
    )  # fmt: skip
    return Split(feature, gain, left, node - left, missing_left, categories=tuple(sorted(named.tolist())))

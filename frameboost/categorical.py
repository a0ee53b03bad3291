"""Splits of a categorical feature: a set of categories goes one way, everything else the other."""

from __future__ import annotations

from frameboost.engines.contract import FloatArray, Split, Stats
from frameboost.split_kernels import sorted_categories

__all__ = ["categorical_split"]


def categorical_split(
    histogram: FloatArray,
    feature: int,
    prefix: int,
    missing_left: bool,
    gain: float,
    left: Stats,
    node: Stats,
) -> Split:
    """Return the split that sends the first ``prefix`` of the sorted categories left.

    It names the categories on the side that missing does not go to, so that all others go with missing.
    """
    order = sorted_categories(histogram)
    named = order[prefix:] if missing_left else order[:prefix]
    return Split(feature, gain, left, node - left, missing_left, categories=tuple(sorted(named.tolist())))

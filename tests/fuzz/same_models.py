"""The comparison of two models of one fit.

They are equal if the loss is exact (`ARITHMETIC`); with exp or ln their trees are equal and their leaves close.
"""

from __future__ import annotations

import math

import numpy as np

import frameboost as fb
from tests.support.objectives import ARITHMETIC

__all__ = ["ARITHMETIC", "difference"]

_SHAPE = ["tree", "node", "feature", "threshold", "categories", "missing", "left", "right", "condition"]
_TOLERANCE = 1e-9


def difference(first: fb.Model, other: fb.Model, *, exact: bool) -> str:
    """Return the difference between two models that should be the same, or an empty text."""
    if exact:
        if first != other:
            return f"{first.to_json()}\nis not\n{other.to_json()}"
        return _history(first, other)
    for one, two in zip(first.ensemble.trees, other.ensemble.trees, strict=False):
        pairs = zip(_splits_of(one), _splits_of(two), strict=False)
        at = next((i for i, pair in enumerate(pairs) if len(set(pair)) > 1), None)
        if at is not None:
            # Gains that differ only in the last bits may be ranked differently; from there on the trees may differ.
            return "" if math.isclose(one.gain[at], two.gain[at], rel_tol=1e-6) else f"{one}\nis not\n{two}"
        # A leaf whose gradients sum to 0 holds the rounding errors of exp.
        least = max(_TOLERANCE * max(map(abs, one.value), default=0.0), 1e-12)
        if len(one) != len(two) or not np.allclose(one.value, two.value, rtol=_TOLERANCE, atol=least):
            return f"{one}\nis not\n{two}"
    if len(first.ensemble.trees) != len(other.ensemble.trees):
        return f"{len(first.ensemble.trees)} trees are not {len(other.ensemble.trees)}"
    if not np.allclose(first.base_margin, other.base_margin, rtol=_TOLERANCE, atol=1e-12):
        return f"base margin {first.base_margin} is not {other.base_margin}"
    return _history(first, other)


def _splits_of(tree) -> list[tuple]:
    parts = tree.feature, tree.threshold, tree.categories, tree.missing_left, tree.left, tree.right
    return list(zip(*parts, strict=True))


def _history(first: fb.Model, other: fb.Model) -> str:
    one, two = first.history, other.history
    if one.columns != two.columns or len(one) != len(two):
        return f"history {one} is not {two}"
    for name in one.columns:
        if not np.allclose(one[name], two[name], rtol=1e-7, atol=1e-9, equal_nan=True):
            return f"history's {name} {one[name].to_list()} is not {two[name].to_list()}"
    return ""

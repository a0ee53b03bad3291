"""Leaf values on a grid, so that the sum of a row's leaves is exact and every back end agrees to the last bit.

The same idea as for gradients (see `frameboost.grid`): with B = |base| + Σ over trees of the largest |leaf|, every leaf
is rounded to a multiple of 2^(⌈log2 B⌉ − 53). Any sum of leaves, in any order, is then exact in float64: a polars
expression may add them side by side, a SQL query as a balanced tree of additions, a warehouse as an aggregate over
rows. What the rounding changes is below the last bit of B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frameboost.grid import ceil_log2
from frameboost.tree import LEAF, Tree

__all__ = ["on_leaf_grid"]

_SMALLEST_EXPONENT = -1022


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return the base margins and the trees with their values rounded to the grid of their output."""
    base_on_grid, on_grid = [], list(trees)
    for output, base in enumerate(base_margins):
        own = [i for i, tree in enumerate(trees) if tree.output == output]
        largest = [abs(base), *(_largest_leaf(trees[i]) for i in own)]
        step = _step(largest)
        base_on_grid.append(_steps(base, step) * step)
        for i in own:
            on_grid[i] = replace(trees[i], value=_rounded(trees[i].value, step))
    return tuple(base_on_grid), tuple(on_grid)


def _rounded(values: Sequence[float], step: float) -> tuple[float, ...]:
    with np.errstate(over="ignore"):
        steps = np.rint(np.array(values) / step)
    if not np.isfinite(steps).all():
        raise OverflowError  # as of an inner node whose value is beyond all leaves
    return tuple((steps * step + 0.0).tolist())  # + 0.0: no -0.0 in a model


def _largest_leaf(tree: Tree) -> float:
    return max(abs(value) for value, feature in zip(tree.value, tree.feature, strict=True) if feature == LEAF)


def _step(largest: Sequence[float]) -> float:
    """Return the grid's step for numbers of those magnitudes, each of which may be in the sum."""
    if not any(largest):
        return 1.0
    step = float(2.0 ** max(ceil_log2(sum(largest)) - 53, _SMALLEST_EXPONENT))
    # Rounding may carry the bound across a power of two; then one bit less has to do.
    while sum(_steps(value, step) for value in largest) > 2**53:
        step *= 2
    return step


def _steps(value: float, step: float) -> int:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step)

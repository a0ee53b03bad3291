"""Leaf values on a grid, so that the sum of a row's leaves is exact and every back end agrees to the last bit.

As for gradients (see `frameboost.expressions.grid`): with B = |base| + Σ over trees of the largest |leaf|, every leaf
is rounded to a multiple of 2^(⌈log2 B⌉ − 53). Any sum of leaves, in any order, is then exact in float64: a polars
expression may add them side by side, a SQL query as a balanced tree of additions, a warehouse as an aggregate over
rows. What the rounding changes is below the last bit of B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frameboost.expressions.grid import bit_step
from frameboost.trees.tree import LEAF, Tree

__all__ = ["on_leaf_grid"]

FloatArray = npt.NDArray[np.float64]


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return the base margins and the trees with their values rounded to the grid of their output."""
    base_on_grid, on_grid = [], list(trees)
    for output, base in enumerate(base_margins):
        own = [i for i, tree in enumerate(trees) if tree.output == output]
        values = [np.array(trees[i].value) for i in own]
        is_leaf = [np.array(trees[i].feature) == LEAF for i in own]
        step = _step([abs(base), *_largest(values, is_leaf)])
        base_on_grid.append(_steps(base, step) * step)
        for i, rounded in zip(own, _rounded(values, step), strict=True):
            on_grid[i] = replace(trees[i], value=rounded)
    return tuple(base_on_grid), tuple(on_grid)


def _largest(values: Sequence[FloatArray], is_leaf: Sequence[npt.NDArray[np.bool_]]) -> list[float]:
    """Return the largest magnitude among each tree's leaves."""
    if not values:
        return []
    magnitudes = np.where(np.concatenate(is_leaf), np.abs(np.concatenate(values)), 0.0)
    found: list[float] = np.maximum.reduceat(magnitudes, _starts(values)).tolist()
    return found


def _rounded(values: Sequence[FloatArray], step: float) -> list[tuple[float, ...]]:
    """Return each tree's values on the grid; all at once, as there may be thousands of trees."""
    if not values:
        return []
    with np.errstate(over="ignore"):
        steps = np.rint(np.concatenate(values) / step)
    if not np.isfinite(steps).all():
        raise OverflowError  # as of an inner node whose value is beyond all leaves
    on_grid = steps * step + 0.0  # + 0.0: no -0.0 in a model
    return [tuple(own.tolist()) for own in np.split(on_grid, _starts(values)[1:])]


def _starts(values: Sequence[FloatArray]) -> npt.NDArray[np.int64]:
    """Return where each tree's values start among all of them."""
    return np.cumsum([0, *map(len, values[:-1])])


def _step(largest: Sequence[float]) -> float:
    """Return the grid's step for numbers of those magnitudes, each of which may be in the sum."""
    if not any(largest):
        return 1.0
    step = bit_step(sum(largest), 53)
    # Rounding may carry the bound across a power of two; then one bit less has to do.
    while sum(_steps(value, step) for value in largest) > 2**53:
        step *= 2
    return step


def _steps(value: float, step: float) -> int:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step)

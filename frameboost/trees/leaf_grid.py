"""Leaf values on an exact grid: scores are the same to the last bit in every order of addition.

A polars expression adds leaves one after the other, a SQL query as a balanced tree of additions, a warehouse as an
aggregate over rows. As for gradients (see `frameboost.expressions.grid`), every leaf is rounded to a multiple of one
step, 2^(⌈log2 B⌉ − 53) with B = |base| + Σ over trees of the largest |leaf|. Any sum of leaves is then at most 2^53
steps, which float64 holds exactly. The rounding is below the last bit of B.

Base margin 0.5 and two stumps with leaves ±0.1 and ±0.3: B = 0.9, so the step is 2^-53, of which 0.1 is not a multiple.

>>> from frameboost.trees.tree import Tree
>>> def stump(value):
...     return Tree((0, -1, -1), (2, None, None), (None,) * 3, (False,) * 3, (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0),
...                 (2.0, 1.0, 1.0), (0.0, -value, value))
>>> _, (first, second) = on_leaf_grid([0.5], [stump(0.1), stump(0.3)])
>>> [leaf * 2**53 for leaf in (0.1, 0.3, first.value[2], second.value[2])]
[900719925474099.2, 2702159776422297.5, 900719925474099.0, 2702159776422298.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from frameboost.expressions.grid import bit_step
from frameboost.trees.tree import LEAF, Tree

__all__ = ["largest_leaves", "on_leaf_grid"]

FloatArray = npt.NDArray[np.float64]


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return the base margins and the trees with their values rounded; each output has a grid of its own."""
    base_on_grid, on_grid = [], list(trees)
    of_outputs: list[list[int]] = [[] for _ in base_margins]
    for i, tree in enumerate(trees):
        of_outputs[tree.output].append(i)
    for base, own in zip(base_margins, of_outputs, strict=True):
        values = [np.array(trees[i].value) for i in own]
        step = _step([abs(base), *largest_leaves([trees[i] for i in own])])
        base_on_grid.append(_steps(base, step) * step)
        for i, rounded in zip(own, _rounded(values, step), strict=True):
            on_grid[i] = replace(trees[i], value=rounded)
    return tuple(base_on_grid), tuple(on_grid)


def largest_leaves(trees: Sequence[Tree]) -> list[float]:
    """Return the largest magnitude among each tree's leaves."""
    if not trees:
        return []
    values, is_leaf = ([np.array(getattr(tree, field)) for tree in trees] for field in ("value", "feature"))
    magnitudes = np.where(np.concatenate(is_leaf) == LEAF, np.abs(np.concatenate(values)), 0.0)
    found: list[float] = np.maximum.reduceat(magnitudes, _starts(values)).tolist()
    return found


def _rounded(values: Sequence[FloatArray], step: float) -> list[tuple[float, ...]]:
    """Return each tree's values on the grid, in one pass over all trees, of which there may be thousands."""
    if not values:
        return []
    with np.errstate(over="ignore"):
        steps = np.rint(np.concatenate(values) / step)
    if not np.isfinite(steps).all():
        raise OverflowError  # the value of an inner node may be far beyond those of the leaves
    on_grid = steps * step + 0.0  # + 0.0: no -0.0 in a model
    return [tuple(own.tolist()) for own in np.split(on_grid, _starts(values)[1:])]


def _starts(values: Sequence[FloatArray]) -> npt.NDArray[np.int64]:
    """Return the index of each tree's first value among the values of all trees."""
    return np.cumsum([0, *map(len, values[:-1])])


def _step(largest: Sequence[float]) -> float:
    """Return the step on which a sum of numbers up to those magnitudes is exact."""
    if not any(largest):
        return 1.0
    step = bit_step(sum(largest), 53)
    # Rounding up may carry the sum past 2^53 steps; then the step is doubled.
    while sum(_steps(value, step) for value in largest) > 2**53:
        step *= 2
    return step


def _steps(value: float, step: float) -> int:
    """Return the multiple of ``step``, a power of two, that is nearest to ``value``."""
    return round(value / step)

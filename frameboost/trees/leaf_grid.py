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
from itertools import chain

import numpy as np
import numpy.typing as npt

from frameboost.expressions.grid import bit_step
from frameboost.trees.tree import LEAF, Tree

__all__ = ["are_on_leaf_grid", "largest_leaves", "on_leaf_grid"]

FloatArray = npt.NDArray[np.float64]


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return the base margins and the trees with their values rounded; each output has a grid of its own."""
    steps = _steps_of_outputs(base_margins, trees, largest_leaves(trees))
    base_on_grid = tuple(_steps(base, step) * step for base, step in zip(base_margins, steps, strict=True))
    on_grid = _rounded(_flat(trees, "value"), _step_of_nodes(steps, trees)).tolist()
    ends = np.cumsum([len(tree) for tree in trees]).tolist()
    return base_on_grid, tuple(
        replace(tree, value=tuple(on_grid[start:end]))
        for tree, start, end in zip(trees, [0, *ends], ends, strict=False)
    )


def are_on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree], largest: Sequence[float]) -> bool:
    """Whether `on_leaf_grid` changes nothing; ``largest`` is what `largest_leaves` returns."""
    steps, values = _steps_of_outputs(base_margins, trees, largest), _flat(trees, "value")
    return all(_steps(base, step) * step == base for base, step in zip(base_margins, steps, strict=True)) and bool(
        (_rounded(values, _step_of_nodes(steps, trees)) == values).all()
    )


def largest_leaves(trees: Sequence[Tree]) -> list[float]:
    """Return the largest magnitude among each tree's leaves."""
    if not trees:
        return []
    magnitudes = np.where(_flat(trees, "feature") == LEAF, np.abs(_flat(trees, "value")), 0.0)
    starts = np.cumsum([0, *(len(tree) for tree in trees[:-1])])
    found: list[float] = np.maximum.reduceat(magnitudes, starts).tolist()
    return found


def _flat(trees: Sequence[Tree], field: str) -> FloatArray:
    """Return a field of the nodes of all trees, of which there may be thousands: one pass over all is fast."""
    return np.fromiter(chain.from_iterable([getattr(tree, field) for tree in trees]), np.float64)


def _steps_of_outputs(base_margins: Sequence[float], trees: Sequence[Tree], largest: Sequence[float]) -> list[float]:
    """Return the step of each output's grid."""
    magnitudes = [[abs(base)] for base in base_margins]
    for tree, value in zip(trees, largest, strict=True):
        magnitudes[tree.output].append(value)
    return list(map(_step, magnitudes))


def _step_of_nodes(steps: Sequence[float], trees: Sequence[Tree]) -> FloatArray:
    return np.repeat([steps[tree.output] for tree in trees], [len(tree) for tree in trees])


def _rounded(values: FloatArray, step: FloatArray) -> FloatArray:
    """Return values on the grid."""
    with np.errstate(over="ignore"):
        steps = np.rint(values / step)
    if not np.isfinite(steps).all():
        raise OverflowError  # the value of an inner node may be far beyond those of the leaves
    return steps * step + 0.0  # + 0.0: no -0.0 in a model


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

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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from frameboost.expressions.grid import bit_step
from frameboost.trees.tree import LEAF, LinearLeaf, Tree

__all__ = [
    "NodeValues", "are_on_leaf_grid", "largest_leaves", "largest_values", "on_leaf_grid", "values_on_grid",
]  # fmt: skip

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


class NodeValues(NamedTuple):
    """The values of the nodes of all trees, of which there may be thousands: one pass over all is fast.

    Attributes
    ----------
    sizes, output
        int64 (trees,): the number of nodes of each tree, and the margin that it adds to.
    is_leaf
        bool (nodes,).
    value
        float64 (nodes,).
    """

    sizes: IntArray
    output: IntArray
    is_leaf: npt.NDArray[np.bool_]
    value: FloatArray

    @classmethod
    def of(cls, trees: Sequence[Tree]) -> NodeValues:
        """Return the values of trees."""
        sizes, output = ([of(tree) for tree in trees] for of in (len, lambda tree: tree.output))
        feature = np.fromiter(chain.from_iterable([tree.feature for tree in trees]), np.int64, sum(sizes))
        value = np.fromiter(chain.from_iterable([tree.value for tree in trees]), np.float64, sum(sizes))
        return cls(np.array(sizes, np.int64), np.array(output, np.int64), feature == LEAF, value)


def on_leaf_grid(base_margins: Sequence[float], trees: Sequence[Tree]) -> tuple[tuple[float, ...], tuple[Tree, ...]]:
    """Return the base margins and the trees with their values rounded; each output has a separate grid."""
    nodes = NodeValues.of(trees)
    steps = _steps_of_outputs(base_margins, nodes, largest_values(nodes, trees))
    while wider := _too_narrow(base_margins, nodes, trees, steps):
        steps = [2 * step if output in wider else step for output, step in enumerate(steps)]
    base_on_grid, values = _on_steps(base_margins, nodes, steps)
    on_grid, ends = values.tolist(), np.cumsum(nodes.sizes).tolist()
    return base_on_grid, tuple(
        replace(tree, value=tuple(on_grid[start:end]), linear=_linear_on_grid(tree, steps))
        for tree, start, end in zip(trees, [0, *ends], ends, strict=False)
    )


def values_on_grid(base_margins: Sequence[float], nodes: NodeValues) -> tuple[tuple[float, ...], FloatArray]:
    """Return the base margins and the values of the nodes rounded, as `on_leaf_grid` does; no leaf is linear."""
    return _on_steps(base_margins, nodes, _steps_of_outputs(base_margins, nodes, largest_leaves(nodes)))


def _on_steps(
    base_margins: Sequence[float], nodes: NodeValues, steps: Sequence[float]
) -> tuple[tuple[float, ...], FloatArray]:
    base_on_grid = tuple(_steps(base, step) * step for base, step in zip(base_margins, steps, strict=True))
    return base_on_grid, _rounded(nodes.value, _step_of_nodes(steps, nodes))


def _linear_on_grid(tree: Tree, steps: Sequence[float]) -> tuple[LinearLeaf | None, ...]:
    return tuple([leaf and leaf.rounded(steps[tree.output]) for leaf in tree.linear])


def _too_narrow(
    base_margins: Sequence[float], nodes: NodeValues, trees: Sequence[Tree], steps: Sequence[float]
) -> set[int]:
    """Return the outputs whose linear leaves, once their slopes are rounded, may sum to more than 2^53 steps."""
    if not any(tree.is_linear for tree in trees):
        return set()
    rounded = [replace(tree, linear=_linear_on_grid(tree, steps)) for tree in trees]
    needed = _steps_of_outputs(base_margins, nodes, largest_values(nodes, rounded))
    return {output for output, (step, least) in enumerate(zip(steps, needed, strict=True)) if least > step}


def are_on_leaf_grid(
    base_margins: Sequence[float], nodes: NodeValues, trees: Sequence[Tree], largest: Sequence[float]
) -> bool:
    """Whether `on_leaf_grid` changes nothing; ``largest`` is what `largest_values` returns.

    ``trees`` may be left empty where no leaf is linear.
    """
    steps = _steps_of_outputs(base_margins, nodes, largest)
    if any(tree.is_linear and tree.linear != _linear_on_grid(tree, steps) for tree in trees):
        return False
    return all(_steps(base, step) * step == base for base, step in zip(base_margins, steps, strict=True)) and bool(
        (_rounded(nodes.value, _step_of_nodes(steps, nodes)) == nodes.value).all()
    )


def largest_leaves(nodes: NodeValues) -> list[float]:
    """Return the largest magnitude among each tree's leaves."""
    if not len(nodes.sizes):
        return []
    starts = np.cumsum(nodes.sizes) - nodes.sizes
    magnitudes: list[float] = np.maximum.reduceat(np.where(nodes.is_leaf, np.abs(nodes.value), 0.0), starts).tolist()
    return magnitudes


def largest_values(nodes: NodeValues, trees: Sequence[Tree]) -> list[float]:
    """Return the largest magnitude that each tree may add to a margin; of a linear leaf an upper bound."""
    return [
        max([largest, *(leaf.largest() for leaf in tree.linear if leaf is not None)])
        for tree, largest in zip(trees, largest_leaves(nodes), strict=True)
    ]


def _steps_of_outputs(base_margins: Sequence[float], nodes: NodeValues, largest: Sequence[float]) -> list[float]:
    """Return the step of each output's grid."""
    magnitudes = [[abs(base)] for base in base_margins]
    for output, value in zip(nodes.output.tolist(), largest, strict=True):
        magnitudes[output].append(value)
    return list(map(_step, magnitudes))


def _step_of_nodes(steps: Sequence[float], nodes: NodeValues) -> FloatArray:
    return np.repeat(np.array(steps)[nodes.output], nodes.sizes)


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

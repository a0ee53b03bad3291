"""Symmetric trees as tables: a dimension for each feature, and a cell for each combination of their intervals.

A symmetric tree over ``x < 1``, ``x < 3`` and ``y < 5`` has eight leaves, of which rows reach six, because x has three
intervals and y two::

    [a, b, c, d, e, f][CASE WHEN x < 1 THEN 1 WHEN x < 3 THEN 3 ELSE 5 END + CASE WHEN y < 5 THEN 0 ELSE 1 END]

Trees over the same features share a table of the sums of their leaves, which are exact because leaf values are on a
grid, as long as it has no more cells than they have leaves. So their text is not longer, and a row takes one lookup.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from frameboost.compile.sql.conditions import FeatureColumn
from frameboost.schema.types import Physical
from frameboost.trees.tree import Tree

__all__ = ["SymmetricTable", "shared_tables"]


class _Dimension(NamedTuple):
    """Conditions that imply each other in the order of their thresholds.

    Attributes
    ----------
    split
        A split without its threshold.
    holds_left
        Whether rows go left where a condition holds; then it implies those with larger thresholds, otherwise smaller.
    """

    split: Hashable
    holds_left: bool


@dataclass(frozen=True)
class SymmetricTable:
    """The table of symmetric trees with the same dimensions.

    Attributes
    ----------
    levels
        The dimension and threshold of each level of each tree; 0 without a threshold.
    conditions
        By dimension and threshold.
    """

    trees: Sequence[Tree]
    levels: Sequence[Sequence[tuple[_Dimension, Physical]]]
    conditions: Mapping[_Dimension, Mapping[Physical, str]]

    @classmethod
    def of(cls, tree: Tree, levels: Sequence[int], columns: Sequence[FeatureColumn]) -> SymmetricTable:
        """Return the table of one tree; ``levels`` are a node of each level."""
        cuts: list[tuple[_Dimension, Physical]] = []
        conditions: dict[_Dimension, dict[Physical, str]] = defaultdict(dict)
        for node in levels:
            condition, holds_left = columns[tree.feature[node]].test(tree, node)
            threshold, missing_left = tree.threshold[node], tree.missing_left[node]
            compares = threshold is not None
            split = (tree.feature[node], missing_left, compares, tree.categories[node], tree.with_missing[node])
            cuts.append((_Dimension(split, holds_left), 0 if threshold is None else threshold))
            conditions[cuts[-1][0]][cuts[-1][1]] = condition
        return cls([tree], [cuts], conditions)

    def joined(self, other: SymmetricTable) -> SymmetricTable:
        """Return the table of the trees of both."""
        conditions = {dimension: {**of, **other.conditions[dimension]} for dimension, of in self.conditions.items()}
        return SymmetricTable([*self.trees, *other.trees], [*self.levels, *other.levels], conditions)

    def n_cells(self) -> int:
        """Return the number of cells."""
        return math.prod(len(conditions) + 1 for conditions in self.conditions.values())

    def dimensions(self) -> list[tuple[list[str], list[int]]]:
        """Return the conditions of each dimension, and the intervals of the first that holds; the last one if none."""
        found = []
        for dimension, of in self.conditions.items():
            step = 1 if dimension.holds_left else -1
            found.append(([of[cut] for cut in sorted(of)][::step], list(range(len(of) + 1))[::step]))
        return found

    def leaves(self, number: int) -> list[int]:
        """Return the leaf of a tree in each cell, from left to right; intervals of the last dimension alternate."""
        intervals = np.indices([len(of) + 1 for of in self.conditions.values()])
        axes = dict(zip(self.conditions, intervals, strict=True))
        leaf = np.zeros(1, dtype=np.int64)
        for dimension, cut in self.levels[number]:
            leaf = 2 * leaf + (axes[dimension] > sorted(self.conditions[dimension]).index(cut))
        in_order = self.trees[number].leaves_in_order()
        return [in_order[i] for i in leaf.ravel().tolist()]

    def values(self) -> list[float]:
        """Return the sum of the trees in each cell."""
        of_trees = [[tree.value[leaf] for leaf in self.leaves(number)] for number, tree in enumerate(self.trees)]
        return [math.fsum(of_cell) for of_cell in zip(*of_trees, strict=True)]


def shared_tables(tables: Iterable[SymmetricTable], most: int | None) -> list[SymmetricTable]:
    """Join tables with the same dimensions while they have no more cells than leaves, and at most ``most``."""
    joined: dict[frozenset[_Dimension], list[SymmetricTable]] = defaultdict(list)
    for table in tables:
        of_dimensions = joined[frozenset(table.conditions)]
        for i, other in enumerate(of_dimensions):
            both = other.joined(table)
            if both.n_cells() <= min(sum(tree.n_leaves for tree in both.trees), most or math.inf):
                of_dimensions[i] = both
                break
        else:
            of_dimensions.append(table)
    return [table for of_dimensions in joined.values() for table in of_dimensions]

"""Predictions of trees with linear leaves: each row's leaves, and then their values by the numbers of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray, TreeArrays
from frameboost.compile.arrays.linear_arrays import CHUNK, LinearArrays
from frameboost.compile.arrays.linear_kernels import add_linear_trees
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree

__all__ = ["LinearScorer"]


@dataclass(frozen=True)
class LinearScorer:
    """An ensemble with linear leaves.

    Attributes
    ----------
    arrays
        The trees, for the leaves of rows.
    linear
        The values of leaves.
    """

    arrays: TreeArrays
    linear: LinearArrays

    @classmethod
    def compile(cls, arrays: TreeArrays, trees: Sequence[Tree], features: Sequence[Feature]) -> LinearScorer:
        """Return the scorer of trees whose arrays are given."""
        return cls(arrays, LinearArrays.compile(arrays, [tree.linear_leaves() for tree in trees], features))

    def margins(
        self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[float | FloatArray],
        workers: Workers,
    ) -> list[FloatArray]:  # fmt: skip
        """Return float64 (rows,) for each output: its base plus the values of each row's leaves.

        Leaf values are on a grid, so that the order of additions does not matter. A base that is one number is on it
        too; those of rows are added last.
        """
        codes, numbers = self.linear.read(self.arrays, frame, types)
        sums = [np.zeros(len(codes)) for _ in bases]
        trees = [np.flatnonzero(self.arrays.outputs == output) for output in range(len(bases))]
        a = self.linear

        def score(first: int) -> None:
            some = slice(first, first + CHUNK)
            leaves = self.arrays.leaves(codes[some], in_parallel=False)
            for own, total in zip(trees, sums, strict=True):
                add_linear_trees(
                    leaves, own, self.arrays.roots, self.arrays.value, a.linear_at, a.constant, a.starts, a.indices,
                    a.terms, numbers, first, total[some],
                )  # fmt: skip

        workers.each(range(0, len(codes), CHUNK), score)
        return [base + total for base, total in zip(bases, sums, strict=True)]

"""Predictions of trees with linear leaves: each row's leaves, and then their values by the numbers of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray, IntArray, TreeArrays
from frameboost.compile.arrays.linear_kernels import add_linear_trees
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import column
from frameboost.schema.types import FeatureType
from frameboost.trees.tree import Tree

__all__ = ["LinearScorer"]

# Rows whose leaves are found together.
_CHUNK = 1 << 12
_TERM = "slope", "offset", "shift", "low", "high"


@dataclass(frozen=True)
class LinearScorer:
    """An ensemble with linear leaves.

    Attributes
    ----------
    arrays
        The trees, for the leaves of rows.
    names
        The features that leaves have slopes of.
    linear_at, constant, starts, places, terms
        See `add_linear_trees`.
    """

    arrays: TreeArrays
    names: tuple[str, ...]
    linear_at: IntArray
    constant: FloatArray
    starts: IntArray
    places: IntArray
    terms: FloatArray

    @classmethod
    def compile(cls, arrays: TreeArrays, trees: Sequence[Tree], features: Sequence[Feature]) -> LinearScorer:
        """Return the scorer of trees whose arrays are given."""
        linear_at = np.full(len(arrays.value), -1, np.int64)
        leaves = [(root + node, leaf) for root, tree in zip(arrays.roots.tolist(), trees, strict=True)
                  for node, leaf in tree.linear_leaves().items()]  # fmt: skip
        linear_at[[node for node, _ in leaves]] = np.arange(len(leaves))
        terms = [term for _, leaf in leaves for term in leaf.terms]
        asked = sorted({term.feature for term in terms})
        return cls(
            arrays,
            tuple(features[number].name for number in asked),
            linear_at,
            np.array([leaf.constant for _, leaf in leaves]),
            np.cumsum([0, *(len(leaf.terms) for _, leaf in leaves)], dtype=np.int64),
            np.array([asked.index(term.feature) for term in terms], np.int64),
            np.array([[getattr(term, name) for name in _TERM] for term in terms]),
        )

    def margins(
        self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[float | FloatArray],
        workers: Workers,
    ) -> list[FloatArray]:  # fmt: skip
        """Return float64 (rows,) for each output: its base plus the values of each row's leaves.

        Leaf values are on a grid, so that the order of additions does not matter. A base that is one number is on it
        too; those of rows are added last.
        """
        numbers = [column(name).cast(pl.Float64).alias(f"number {i}") for i, name in enumerate(self.names)]
        read = frame.select(*self.arrays.code_exprs(types), *numbers).collect()  # once: the rows keep their order
        n_codes = read.width - len(numbers)
        codes = np.ascontiguousarray(read[:, :n_codes].to_numpy())
        values = np.empty((len(numbers), len(read)))
        for place, column_ in enumerate(read[:, n_codes:].iter_columns()):
            values[place] = column_.to_numpy()  # NULL becomes NaN
        sums = [np.zeros(len(read)) for _ in bases]
        trees = [np.flatnonzero(self.arrays.outputs == output) for output in range(len(bases))]

        def score(first: int) -> None:
            some = slice(first, first + _CHUNK)
            leaves = self.arrays.leaves(codes[some], in_parallel=False)
            for own, total in zip(trees, sums, strict=True):
                add_linear_trees(
                    leaves, own, self.arrays.roots, self.arrays.value, self.linear_at, self.constant, self.starts,
                    self.places, self.terms, values, first, total[some],
                )  # fmt: skip

        workers.each(range(0, len(read), _CHUNK), score)
        return [base + total for base, total in zip(bases, sums, strict=True)]

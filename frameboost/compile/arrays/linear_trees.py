"""Linear leaves as flat arrays, and predictions by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray, IntArray, TreeArrays
from frameboost.compile.arrays.score_kernels import add_linear_trees
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType, column
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.tree import LEAF, Tree, linear_columns

__all__ = ["CHUNK", "LinearArrays", "LinearScorer"]

# Rows whose leaves are looked up together.
CHUNK = 1 << 12


@dataclass(frozen=True)
class LinearArrays:
    """The linear leaves of an ensemble.

    Attributes
    ----------
    names
        The features with slopes.
    linear_at, constant, starts, indices, terms
        See `frameboost.compile.arrays.score_kernels.add_linear_trees`.
    """

    names: tuple[str, ...]
    linear_at: IntArray
    constant: FloatArray
    starts: IntArray
    indices: IntArray
    terms: FloatArray

    @classmethod
    def compile(cls, arrays: TreeArrays, linear: LinearColumns, features: Sequence[Feature]) -> LinearArrays:
        """Return the arrays of linear leaves, by node number over all trees."""
        linear_at = np.full(len(arrays.feature), -1, np.int64)
        linear_at[linear.node] = np.arange(len(linear))
        is_term = linear.feature != LEAF
        used, indices = np.unique(linear.feature[is_term], return_inverse=True)
        starts = np.cumsum([0, *linear.sizes()], dtype=np.int64)
        names = tuple(features[number].name for number in used.tolist())
        return cls(names, linear_at, linear.constant, starts, indices, linear.read_terms()[is_term])

    def read(
        self, arrays: TreeArrays, frame: pl.LazyFrame, types: Mapping[str, FeatureType]
    ) -> tuple[npt.NDArray[np.unsignedinteger], FloatArray]:
        """Return the codes of rows, (rows, features), and the numeric columns of slopes, float64 (names, rows)."""
        numbers = [column(name).cast(pl.Float64).alias(f"number {i}") for i, name in enumerate(self.names)]
        read = frame.select(*arrays.code_exprs(types), *numbers).collect()  # once: the rows keep their order
        n_codes = read.width - len(numbers)
        codes = np.ascontiguousarray(read[:, :n_codes].to_numpy())
        values = np.empty((len(numbers), len(read)))
        for index, column_ in enumerate(read[:, n_codes:].iter_columns()):
            values[index] = column_.to_numpy()  # NULL becomes NaN
        return codes, values


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
        """Return the scorer of trees with these arrays."""
        linear = linear_columns(trees)
        assert linear is not None
        return cls(arrays, LinearArrays.compile(arrays, linear, features))

    def margins(
        self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[float | FloatArray],
        workers: Workers,
    ) -> list[FloatArray]:  # fmt: skip
        """Return float64 (rows,) for each output: its base plus the leaf values of each row.

        Leaf values are on a grid, so that the order of additions does not matter. A scalar base is on it too; bases per
        row are added last.
        """
        codes, numbers = self.linear.read(self.arrays, frame, types)
        sums = [np.zeros(len(codes)) for _ in bases]
        trees = [np.flatnonzero(self.arrays.outputs == output) for output in range(len(bases))]
        a = self.linear

        def score(first: int) -> None:
            some = slice(first, first + CHUNK)
            leaves = self.arrays.leaves(codes[some], in_parallel=False)
            for trees_of_output, total in zip(trees, sums, strict=True):
                add_linear_trees(
                    leaves, trees_of_output, self.arrays.roots, self.arrays.value[0], a.linear_at, a.constant, a.starts,
                    a.indices, a.terms, numbers, first, total[some],
                )  # fmt: skip

        workers.each(range(0, len(codes), CHUNK), score)
        return [base + total for base, total in zip(bases, sums, strict=True)]

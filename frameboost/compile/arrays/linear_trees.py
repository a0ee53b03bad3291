"""Linear leaves as flat arrays, and predictions by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.arrays.flat_trees import FloatArray, IntArray, TreeArrays
from frameboost.compile.arrays.score_kernels import sum_linear_leaves
from frameboost.schema.types import Feature, FeatureType, column
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.tree import LEAF, Tree, TreeColumns

__all__ = ["LinearArrays", "LinearScorer"]


@dataclass(frozen=True)
class LinearArrays:
    """The linear leaves of an ensemble.

    Attributes
    ----------
    names
        The features with slopes.
    linear_at, constant, starts, indices, terms
        See `frameboost.compile.arrays.score_kernels.sum_linear_leaves`.
    """

    names: tuple[str, ...]
    linear_at: IntArray
    constant: FloatArray
    starts: IntArray
    indices: IntArray
    terms: FloatArray

    @classmethod
    def compile(
        cls, arrays: TreeArrays, linear: LinearColumns, features: Sequence[Feature], output: IntArray | int = 0
    ) -> LinearArrays:
        """Return the arrays of linear leaves, by node number over all trees of ``arrays``.

        ``output`` is the row of `TreeArrays.value` of each leaf, int64 (leaves,) or one.
        """
        linear_at = np.full(arrays.value.shape, -1, np.int64)
        linear_at[output, linear.node] = np.arange(len(linear))
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
        columns = TreeColumns.of(trees)
        linear = columns.linear
        assert linear is not None
        if arrays.number_of is None:
            return cls(arrays, LinearArrays.compile(arrays, linear, features))
        # Trees of all outputs that share their splits are one.
        tree = np.searchsorted(columns.roots, linear.node, "right") - 1
        node = linear.node - columns.roots[tree] + arrays.roots[arrays.number_of[tree]]
        return cls(arrays, LinearArrays.compile(arrays, replace(linear, node=node), features, columns.output[tree]))

    def margins(
        self, frame: pl.LazyFrame, types: Mapping[str, FeatureType], bases: Sequence[float | FloatArray]
    ) -> list[FloatArray]:
        """Return float64 (rows,) for each output: its base plus the leaf values of each row.

        Leaf values are on a grid, so that the order of additions does not matter. A scalar base is on it too; bases per
        row are added last.
        """
        codes, numbers = self.linear.read(self.arrays, frame, types)
        a = self.linear
        leaves = self.arrays.value, a.linear_at, a.constant, a.starts, a.indices, a.terms, numbers

        def score(first: int, last: int, sums: FloatArray) -> None:
            for outputs, conditions in self.arrays.conditions_of_outputs:
                sum_linear_leaves(codes, *conditions, *leaves, first, last, sums[outputs])  # type: ignore[call-arg]

        sums = np.zeros((len(bases), len(codes)))
        self.arrays.over_rows(len(codes), score, sums)
        return [base + total for base, total in zip(bases, sums, strict=True)]

"""Contributions of features to margins, by kernels over the flat arrays of the trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.compile.arrays.flat_trees import TreeArrays
from frameboost.compile.arrays.linear_trees import LinearArrays
from frameboost.compile.arrays.shap_kernels import add_interactions, add_shap, add_slopes, add_steps, link_nodes
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.linear_leaves import LinearColumns
from frameboost.trees.node_means import leaf_slopes, means_on_grid, node_shares
from frameboost.trees.tree import Tree

__all__ = ["Contributions"]

# A row's Shapley values take tens of times as long as its prediction.
_SMALLEST_BLOCK = 64
# Rows whose leaves are looked up together.
_CHUNK = 1 << 12

Codes = npt.NDArray[np.unsignedinteger]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Contributions:
    """An ensemble with the additional arrays for contributions.

    Attributes
    ----------
    arrays
        The trees; a column of the results is one of ``arrays.features``.
    bias
        The mean margin, which is not attributed to a feature.
    mean
        float64 (nodes,): the mean of the leaf values below, weighted by cover, on a grid (see `means_on_grid`).
    links
        int64, int64, float64 (nodes,): see `link_nodes`.
    rule
        Points and weights of the quadrature, float64.
    linear
        The contributions of slopes in leaves, None without slopes.
    """

    arrays: TreeArrays
    bias: float
    mean: Floats
    links: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Floats]
    rule: tuple[Floats, Floats]
    linear: LinearArrays | None = None

    @classmethod
    def compile(
        cls,
        arrays: TreeArrays,
        base_margin: float,
        trees: Sequence[Tree],
        features: Sequence[Feature],
        *,
        on_grid: bool = False,
    ) -> Contributions:
        """Add covers to the arrays of ``trees``; with ``on_grid``, contributions of slopes equal those of SQL."""
        bias, means, slopes = means_on_grid(base_margin, trees)
        slopes = slopes if on_grid else [leaf_slopes(tree) for tree in trees]
        linear = LinearColumns.joined(list(map(LinearColumns.of, slopes)), arrays.roots.tolist())
        share = np.array([share for tree in trees for share in node_shares(tree)])
        parent, above = np.empty(len(share), dtype=np.int64), np.empty(len(share), dtype=np.int64)
        zero = np.empty(len(share))
        distinct = link_nodes(arrays.roots, arrays.feature, arrays.left, arrays.right, share, parent, above, zero)
        # A product of d − 1 linear factors; n points integrate polynomials of a degree up to 2n − 1 exactly.
        points, weights = np.polynomial.legendre.leggauss(max(1, (int(distinct) + 1) // 2))
        return cls(
            arrays=arrays,
            bias=bias,
            mean=np.array([mean for of_tree in means for mean in of_tree]),
            links=(parent, above, zero),
            rule=((points + 1.0) / 2.0, weights / 2.0),
            linear=LinearArrays.compile(arrays, linear, features) if linear else None,
        )

    def read(self, frame: pl.LazyFrame, types: Mapping[str, FeatureType]) -> tuple[Codes, Floats | None]:
        """Return the codes of rows, and the numeric columns of slopes."""
        return (
            (self.arrays.codes(frame, types), None)
            if self.linear is None
            else self.linear.read(self.arrays, frame, types)
        )

    def shap(self, codes: Codes) -> Floats:
        """Return the Shapley values, (rows, features)."""
        out = np.zeros(codes.shape)
        a = self.arrays
        arguments = (codes, a.roots, a.sizes, a.missing, self._conditions_of(), a.value[0], self.links, self.rule)
        _over_rows(len(codes), lambda first, last: add_shap(*arguments, first, last, out))
        return out

    def interactions(self, codes: Codes) -> Floats:
        """Return the Shapley interaction values, (rows, features, features).

        The entries (i, j) and (j, i) each have half of a pair's interaction; the diagonal has the remainder of each
        feature's Shapley value.
        """
        n_rows, n_features = codes.shape
        out = np.zeros((n_rows, n_features, n_features))
        a = self.arrays
        arguments = (codes, a.roots, a.sizes, a.missing, self._conditions_of(), a.value[0], self.links, self.rule)
        _over_rows(n_rows, lambda first, last: add_interactions(*arguments, first, last, out))
        diagonal = np.arange(n_features)
        out[:, diagonal, diagonal] = self.shap(codes) - out.sum(axis=2)
        return out

    def steps(self, codes: Codes) -> Floats:
        """Return Saabas' contributions, (rows, features): exact, as `mean` is on a grid."""
        out = np.zeros(codes.shape)
        a = self.arrays
        arguments = (codes, a.roots, a.missing, self._conditions_of(), self.mean)
        _over_rows(len(codes), lambda first, last: add_steps(*arguments, first, last, out))
        return out

    def slopes(self, codes: Codes, numbers: Floats) -> Floats:
        """Return the contributions of slopes in leaves to margins, (rows, ``linear.names``)."""
        assert self.linear is not None
        out, a = np.zeros((len(codes), len(self.linear.names))), self.linear
        for first in range(0, len(codes), _CHUNK):
            leaves = self.arrays.leaves(codes[first : first + _CHUNK])
            add_slopes(
                leaves, self.arrays.roots, a.linear_at[0], a.constant, a.starts, a.indices, a.terms, numbers, first, out
            )
        return out

    def _conditions_of(self) -> tuple[npt.NDArray[np.generic], ...]:
        a = self.arrays
        return a.feature, a.bound, a.missing_left, a.table_at, a.tables, a.left, a.right


def _over_rows(n_rows: int, run: Callable[[int, int], object]) -> None:
    with closing(Workers()) as workers:
        workers.over(n_rows, run, smallest=_SMALLEST_BLOCK)

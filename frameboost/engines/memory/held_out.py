"""The engine of `Model.refit` and of evaluation sets of ``exact`` and ``approx``: splits compare physical values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.binning.codes import code_expr
from frameboost.engines.memory.engine import ArrayEngine
from frameboost.expressions.grid import Scalar
from frameboost.splits.split import FloatArray, Split

__all__ = ["HeldOutEngine"]


class HeldOutEngine(ArrayEngine):
    """`RefitEngine`: rows that follow trees grown on other rows, stored as physical values."""

    def keep_columns(self, bins: Sequence[Bins]) -> None:
        """Store the columns; of the training ``bins``, only the categories are used."""
        self.bins = list(bins)
        self._physical = [
            self.values(i)
            if not b.feature.type.is_categorical
            else self.values(i)
            .to_frame(str(i))
            .select(code_expr(pl.col(str(i)), b.feature.type, b.feature.categories, b.missing).alias(str(i)))
            .to_series()
            for i, b in enumerate(bins)
        ]
        self.columns.drop()

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.node_of = np.zeros(self.n_rows, dtype=np.int64)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        moved = self.node_of.copy()
        for node, (split, left, right) in splits.items():
            rows = np.flatnonzero(self.node_of == node)
            moved[rows] = np.where(self._goes_left(split, self._physical[split.feature].gather(rows)), left, right)
        self.node_of = moved

    def _goes_left(self, split: Split, values: pl.Series) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        feature = self.bins[split.feature].feature
        if split.categories is not None:
            return np.asarray(split.goes_left(self.bins[split.feature].count + 1)[values.to_numpy()])
        if split.threshold is None:
            return values.is_not_null().to_numpy()
        below = values < pl.Series(feature.type.edges([split.threshold]), dtype=feature.type.physical_dtype)
        return below.fill_null(split.missing_left).to_numpy()

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        table = np.zeros(max(values) + 1)
        table[list(values)] = list(values.values())
        self.margins(margin)[:] += table[self.node_of]

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self.node_of), self.hessians(), value, weight, alpha)

    def node_sums(self, n_nodes: int) -> FloatArray:
        """See `RefitEngine.node_sums`."""
        numbers = (*self.tree_gh.T, self.counted_gh[:, 0])
        return np.array([np.bincount(self.node_of, each, minlength=n_nodes) for each in numbers])

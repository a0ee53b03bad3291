"""The base class of the engines over presorted columns: each row's rank in every column, and its node."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl

from frameboost.binning.arrays import sort_column
from frameboost.binning.bins import Bins
from frameboost.engines.memory.exact_kernels import move_rows
from frameboost.engines.memory.rows import ArrayEngine
from frameboost.expressions.grid import Scalar
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.schema.types import Physical, float32_at_least
from frameboost.splits.split import Split

__all__ = ["PresortedEngine", "rank_of"]


class PresortedEngine(ArrayEngine):
    """Rows as ranks, (features, rows): the place of each value among the distinct values of its column.

    The values 2.5, NULL, 1.0, 2.5 have the ranks 1, 2, 0, 1: a missing value comes after the largest. Splits compare
    ranks, so every distinct value is a bin of its own.
    """

    def presort(self) -> list[Bins]:
        """See `ColumnBlockEngine.presort`."""
        self.load()
        n_features = len(self.features)
        self.ranks = np.empty((n_features, self.n_rows), dtype=np.uint32)
        self.sorted_rows = np.empty_like(self.ranks)  # the missing first, then by ascending value
        found = self.workers.each(
            range(n_features),
            lambda i: sort_column(self.features[i], self.values(i), self.ranks[i], self.sorted_rows[i]),
        )
        self.bins: list[Bins] = [bins for bins, _ in found]
        self.distinct: list[pl.Series] = [distinct for _, distinct in found]
        self.drop_columns()
        self.node_of = np.zeros(self.n_rows, dtype=np.int32)
        return self.bins

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.node_of[:] = 0
        self.n_nodes = 1

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        split_of = np.full(self.n_nodes, -1, dtype=np.int64)
        split_of[list(splits)] = np.arange(len(splits))
        chosen = [split for split, _, _ in splits.values()]
        tables = [
            np.empty(0, np.bool_) if s.categories is None else s.goes_left(self.bins[s.feature].count + 1)
            for s in chosen
        ]
        ends = np.cumsum([len(table) for table in tables])
        arguments = (
            self.ranks, self.node_of, split_of,
            np.array([s.feature for s in chosen]),
            np.array([s.bin for s in chosen]),
            np.array([len(self.distinct[s.feature]) for s in chosen]),
            np.array([s.missing_left for s in chosen]),
            np.array([left for _, left, _ in splits.values()], dtype=np.int32),
            np.array([right for _, _, right in splits.values()], dtype=np.int32),
            np.array([end - len(t) if len(t) else -1 for t, end in zip(tables, ends, strict=True)]),
            np.concatenate(tables),
        )  # fmt: skip
        self.workers.over(self.n_rows, lambda a, b: move_rows(*arguments, a, b), smallest=VALUES_PER_TASK)
        self.n_nodes = max(self.n_nodes, *(child + 1 for _, left, right in splits.values() for child in (left, right)))

    def rank_of(self, feature: int, threshold: Physical | None) -> int:
        """See `ColumnBlockEngine.rank_of`."""
        return rank_of(self.distinct[feature], threshold)

    def merge_nodes(self, nodes: Mapping[int, int]) -> None:
        """See `ColumnBlockEngine.merge_nodes`."""
        table = np.arange(self.n_nodes, dtype=np.int32)
        table[list(nodes)] = list(nodes.values())
        self.node_of = table[self.node_of]

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        table = np.zeros(self.n_nodes)
        table[list(values)] = list(values.values())
        self.margins(margin)[:] += table[self.node_of]

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(pl.Series(self.node_of), self.hessians(), value, weight, alpha)


def rank_of(distinct: pl.Series, threshold: Physical | None) -> int:
    """Return the rank of the lowest of the distinct values that is not below a threshold; past all ranks for None."""
    if threshold is None:
        return len(distinct)
    edge = float32_at_least([threshold])[0] if distinct.dtype == pl.Float32 else threshold
    return int(distinct.search_sorted(pl.Series([edge], dtype=distinct.dtype), side="left").item())

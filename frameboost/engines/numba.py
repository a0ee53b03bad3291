"""The engine for frames that fit in memory: binned columns in arrays, sums by compiled kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from frameboost.binning import Bins, SlotLayout
from frameboost.columns import code_dtype, code_expr, propose_bins, sample_of
from frameboost.engines.arrays import SMALLEST_TASK, ArrayEngine
from frameboost.engines.contract import FloatArray, Scalar, Split
from frameboost.engines.histogram_kernels import add_by_node, build_histograms, partition_rows

__all__ = ["NumbaEngine"]


class NumbaEngine(ArrayEngine):
    """`Engine` over binned columns; rows are kept grouped by node through one array of row indices."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        values = self.load()
        sample = sample_of(len(values))
        return [
            given[i] if i in given else propose_bins(feature, values[str(i)], max_bin, sample)
            for i, feature in enumerate(self.features)
        ]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.layout = SlotLayout(bins)
        dtypes = [code_dtype(b) for b in bins]
        columns = self.load().select(
            code_expr(pl.col(str(i)), b.feature.type, b.feature.categories or b.cuts, b.missing)
            .cast(dtype)
            .alias(str(i))
            for i, (b, dtype) in enumerate(zip(bins, dtypes, strict=True))
        )
        self._values = pl.DataFrame()
        # Two copies: a histogram reads all features of a row, a partition one feature of all rows. The former keeps
        # features by the size of their codes, so that one with many categories makes no other column wider.
        self.columns = [column.to_numpy() for column in columns]
        self.code_groups = []
        for dtype in dict.fromkeys(dtypes):
            members = [i for i, own in enumerate(dtypes) if own == dtype]
            codes = columns.select(map(str, members)).to_numpy(order="c")
            self.code_groups.append((codes, self.layout.offsets[members]))
        self.row_order = np.arange(len(columns), dtype=np.uint32)
        self.buffer = np.empty_like(self.row_order)

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        self.row_order[:] = np.arange(self.n_rows, dtype=np.uint32)
        self.ranges = {0: (0, self.n_rows)}  # node -> its part of row_order

    def histograms(self, nodes: Sequence[int]) -> FloatArray:
        """See `Engine.histograms`."""
        starts, stops = self._ranges(nodes)
        out = np.zeros((len(nodes), self.layout.n_slots, 2))
        n_rows = max(int((stops - starts).sum()), 1)
        for codes, slots in self.code_groups:
            build = partial(build_histograms, codes, self.row_order, starts, stops, self.gradient_pairs, slots, out)
            self.workers.over(len(slots), build, smallest=SMALLEST_TASK // n_rows)
        return out

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        moves = list(splits.items())

        def partition(first: int, last: int) -> None:
            for node, (split, left, right) in moves[first:last]:
                start, stop = self.ranges[node]
                goes_left = split.goes_left(self.layout.bins[split.feature].count + 1)
                column = self.columns[split.feature]
                n_left = partition_rows(column, self.row_order, start, stop, goes_left, self.buffer)
                self.ranges[left] = (start, start + n_left)
                self.ranges[right] = (start + n_left, stop)

        starts, stops = self._ranges([node for node, _ in moves])
        n_rows = int((stops - starts).sum())
        self.workers.over(len(moves), partition, smallest=len(moves) * SMALLEST_TASK // max(n_rows, 1))

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        starts, stops = self._ranges(list(values))
        margins = self.margins(margin)
        add_by_node(margins, self.row_order, starts, stops, np.array(list(values.values())))
        self.publish_margins(margin, margins)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        node_of = np.empty(self.n_rows, dtype=np.int32)
        for node, (start, stop) in self.ranges.items():  # children come after their parents, and overwrite them
            node_of[self.row_order[start:stop]] = node
        return self.quantiles_by_node(pl.Series(node_of), value, weight, alpha)

    def _ranges(self, nodes: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        ranges = np.array([self.ranges[node] for node in nodes], dtype=np.int64).reshape(-1, 2)
        return np.ascontiguousarray(ranges[:, 0]), np.ascontiguousarray(ranges[:, 1])

"""The engine of compiled kernels: binned columns in arrays, and rows partitioned by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.engines.contract import Capabilities, FeatureDraws, GrownNodes, Sample, TreeShape
from frameboost.engines.frame import leaf_quantile
from frameboost.engines.linear_contract import LeafGrid
from frameboost.engines.memory.columns import BinnedColumns
from frameboost.engines.memory.limits import MIN_SORTED
from frameboost.engines.memory.linear import Numbers
from frameboost.engines.memory.partition import RowPartition, SplitColumns, take_all
from frameboost.engines.memory.rows import ArrayEngine
from frameboost.engines.memory.trees import TreeKernels, add_tree, are_in_levels
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Scalar
from frameboost.runtime.workers import ROWS_PER_TASK, VALUES_PER_TASK, RowNumbers
from frameboost.splits.split import FloatArray, IntArray, Penalties, Split, Stats
from frameboost.trees.tree import LinearLeaf

__all__ = ["MemoryEngine"]


class MemoryEngine(ArrayEngine):
    """`HistogramEngine` over binned columns."""

    binned: BinnedColumns
    partition: RowPartition
    _trees: TreeKernels | None = None
    _grown: GrownNodes | None = None
    _kept_numbers: Numbers | None = None
    _vector_gh: FloatArray  # g and h of a tree for all outputs, (outputs, rows, 2)
    _vector_sample: FloatArray | None = None  # the memory of those of samples

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.load()
        may_sort = self.n_rows >= MIN_SORTED and "qid" not in self.row_names  # queries stay together
        self.binned, order = self.columns.bin(bins, may_sort=may_sort)
        self.columns.drop()
        self.partition = RowPartition(self.n_rows, self.workers)
        self._may_sort = may_sort
        if order is not None:
            self.put_in_order(order, np.empty(self.n_rows))
            self.partition.add_in_blocks = self.binned.sparse is None
        elif not may_sort:
            self.gradients.keep_order(self.binned.records)

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        if self._may_sort and len(self.gradients.gh) and self.partition.is_split:
            self.sort_rows()
        return super().compute_gradients(gradients, others, offsets)

    def sort_rows(self) -> None:
        """Put the rows in the order of the first tree's leaves, once.

        Later trees split in similar places, so the rows of a node then lie close together in memory. No sum depends on
        the order of its rows (see `frameboost.expressions.grid`).
        """
        # The pairs are about to be computed anew: their memory is free until then.
        buffer, free = np.split(self.gradients.gh.ravel()[: 2 * self.n_rows], 2)
        order = free.view(np.uint32)[: self.n_rows]
        self.partition.write_order(order)
        self.put_in_order(order, buffer)

    def put_in_order(self, order: RowNumbers, buffer: FloatArray) -> None:
        """Put the rows in another order for the rest of the fit; ``buffer`` has room for a number of each."""
        assert self.rows is not None
        self._may_sort = False
        self.forget_order(order)
        columns, self.rows = self.rows.get_columns(), pl.DataFrame()
        self.rows = pl.DataFrame([self._in_order(columns.pop(0), order) for _ in range(len(columns))])
        for margins in self.margin_arrays.values():
            take_all(margins, order, buffer, self.workers)
            margins[:] = buffer
        self.binned.sort(order, buffer, self.workers)
        self.gradients.keep_order(self.binned.records)

    def _in_order(self, values: pl.Series, order: RowNumbers) -> pl.Series:
        """Return a column's rows in another order."""
        if values.dtype != pl.Float64 or values.null_count():
            return values[pl.Series(order)]
        sorted_values = np.empty(len(values))
        take_all(values.to_numpy(), order, sorted_values, self.workers)
        return pl.Series(values.name, sorted_values)

    # --- once a tree --------------------------------------------------------------------------------------------------

    @property
    def split_columns(self) -> SplitColumns:
        """The columns that splits compare."""
        return self.binned

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self._totals = totals = super().start_tree(output, sample)
        if sample is not None and self._trees is None:
            self.partition.set_apart(self.tree_gh)
        self.binned.start_tree(self.summed_gh, lambda: self.gradients.scale(output))
        return totals

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        self._vector_gh, totals = self.gradients.gh, list(self.gradients.totals)
        if sample is not None:
            if self._vector_sample is None:  # kept from tree to tree: fresh memory is slow
                self._vector_sample = self.storage.empty(self._vector_gh.shape, np.float64, is_rewritten=True)
            both = zip(self._vector_gh, self._vector_sample, strict=True)
            totals = [self.draw_sample(sample, gh, out) for gh, out in both]
            self._vector_gh = self._vector_sample
        self.drawn_gh = self._vector_gh[0]  # which rows are in the sample
        self.give_to_root()
        self.may_have_samples = sample is not None
        self.binned.start_tree(self.tree_gh, lambda: None)
        return totals

    def give_to_root(self) -> None:
        """See `ArrayEngine.give_to_root`; a tree that is grown in one call begins with it."""
        if self._trees is None:
            super().give_to_root()

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`; histograms of many nodes are summed by one call, as most are too small for threads."""
        takes_trees = self.binned.in_one is not None
        return Capabilities(
            takes_batches=True, takes_trees=takes_trees,
            grows_trees=takes_trees and n_trees > 0 and not are_in_levels(n_trees),
        )  # fmt: skip

    def grow_tree(
        self, shape: TreeShape, penalties: Penalties, shrinkage: float, draws: FeatureDraws | None
    ) -> GrownNodes:
        """See `TreeEngine.grow_tree`."""
        if self._trees is None:
            self._trees = TreeKernels(self.binned, shape, penalties, self.workers)
        self._grown = self._trees.grow(self._totals, self.tree_gh, draws, self.partition, shape.least_gain, shrinkage)
        return self._grown

    def add_grown(self, grown: GrownNodes, margin: str) -> None:
        """See `TreeEngine.add_grown`."""
        if grown is self._grown:
            self.partition.add_values(grown.value, self.margins(margin))
            return
        assert self.binned.in_one is not None
        codes, _ = self.binned.in_one
        count = self.workers.count(len(codes), ROWS_PER_TASK)
        add_tree(
            self.workers.team(count), count, codes, grown.feature, grown.left, grown.table, grown.goes_left,
            grown.value, self.margins(margin),
        )  # fmt: skip

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.partition.start_tree()
        self.may_have_samples = True  # the tree may be one of a checkpoint, and the one before that of the base margins

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        self.binned.sum_by_bin(self.partition, nodes, self.summed_gh, out, indices, self.workers)

    @property
    def summed_gh(self) -> FloatArray:
        """The pairs that histograms add up, float64 (rows, 2); none where records of keys have them."""
        return self.gradients.summed(self._output) if self.drawn_gh is None else self.drawn_gh

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        of_outputs = out.reshape(-1, *out.shape[2:])
        for k, gh in enumerate(self._vector_gh):
            at = indices * out.shape[1] + k
            self.binned.sum_by_bin(self.partition, nodes, gh, of_outputs, at, self.workers)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.partition.apply_splits(splits, self.split_columns)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self.partition.add_leaf_values(values, self.margins(margin))
        self.gradients.expire()

    # --- linear leaves ------------------------------------------------------------------------------------------------

    @property
    def _numbers(self) -> Numbers:
        assert self.rows is not None
        if self._kept_numbers is None or self._kept_numbers.rows is not self.rows:  # in another order by now
            self._kept_numbers = Numbers(self.rows, self.workers)
        return self._kept_numbers

    def leaf_ranges(self, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_ranges`."""
        return self._numbers.ranges(features, self.partition.leaves(), self.tree_gh)

    def leaf_sums(self, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_sums`."""
        return self._numbers.sums(grids, self.partition.leaves(), self.tree_gh)

    def add_linear_leaves(self, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        margins, leaves = self.margins(margin), self.partition.leaves(drawn_only=False)
        self._numbers.add(values, linear, leaves, margins)
        constant = {node: 0.0 if node in linear else value for node, value in values.items()}
        self.partition.add_leaf_values(constant, margins)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        computed = self.computed({"value": value} if weight is None else {"value": value, "weight": weight})
        values, weights, h = computed["value"], computed.get("weight"), self.tree_gh[:, 1]
        leaves = self.partition.leaves()
        if (h <= 0).any():
            leaves = {node: drawn for node, rows in leaves.items() if len(drawn := rows[h[rows] > 0])}

        def quantile(rows: RowNumbers) -> float:
            return leaf_quantile(values[rows], None if weights is None else weights[rows], alpha)

        quantiles = self.workers.each(list(leaves.values()), quantile, alone=self.n_rows < VALUES_PER_TASK)
        return dict(zip(leaves, quantiles, strict=True))

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        computed = self.computed({"value": value} if weight is None else {"value": value, "weight": weight})
        leaves, h = dict(sorted(self.partition.leaves().items())), self.tree_gh[:, 1]
        if (h <= 0).any():
            leaves = {node: rows[h[rows] > 0] for node, rows in leaves.items()}
        nodes = np.repeat(np.array(list(leaves), np.int32), [len(rows) for rows in leaves.values()])
        rows = np.concatenate([np.empty(0, np.uint32), *leaves.values()])
        return pl.DataFrame({"node": nodes, **{name: each[rows] for name, each in computed.items()}})

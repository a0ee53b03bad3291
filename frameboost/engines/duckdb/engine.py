"""The engine inside a database: each step of training is a statement from ``sql/``, run on the user's connection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.value_counts import ValueCounts
from frameboost.engines.contract import Capabilities, Sample
from frameboost.engines.duckdb.batch_sums import BatchSums
from frameboost.engines.duckdb.binning import (
    MAX_AT_ONCE,
    CountedRows,
    batches_of,
    count_values,
    propose_bins,
    read_categories,
    sample_columns,
)
from frameboost.engines.duckdb.codes import store_bins
from frameboost.engines.duckdb.gradients import TreeGradients
from frameboost.engines.duckdb.histograms import HistogramQuery
from frameboost.engines.duckdb.linear import LeafQuery, leaf_sql
from frameboost.engines.duckdb.nodes import MAX_WALKED_AGAIN, Nodes, RowNodes, code_goes_left
from frameboost.engines.duckdb.rows import TableEngine
from frameboost.engines.linear_contract import LeafGrid
from frameboost.engines.query_costs import kernel_pays
from frameboost.expressions.duckdb_sql import render
from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.grid import Scalar
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.trees.tree import LinearLeaf

__all__ = ["MIN_SORTED", "DuckDBEngine"]

# With fewer rows sorting does not pay; more might not fit in memory.
MIN_SORTED, _MAX_SORTED = 1 << 17, 1 << 22


class DuckDBEngine(TableEngine):
    """`HistogramEngine` over a DuckDB relation."""

    layout: SlotLayout
    gh: TreeGradients
    _codes: str | None = None  # the table of codes, where it is not that of the bins
    _nodes: RowNodes | None = None
    _stats: dict[int, Stats]  # of each node of the tree
    _outputs: dict[int, FloatArray]  # these of each output, (outputs, 2), in a tree for all
    _gh_of_outputs: list[TreeGradients]  # of each output
    _may_sort: bool = False

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`."""
        return Capabilities(takes_batches=True)

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        n_missing, found = self.count_missing(), dict(given)
        for rows, features in self.tables_of_features():
            wanted = [i for i in features if i not in found]
            for group in batches_of(wanted):
                own, columns = rows, [self.columns[i] for i in group]
                if len(features) > MAX_AT_ONCE:
                    own, columns = rows.copied(self.session, dict(zip(group, columns, strict=True)))
                table = None if own is rows and rows.n is None else own.source  # of all rows, not only those sampled
                samples = sample_columns(self.session, columns, max_bin, table)
                for i, column, sample in zip(group, columns, samples, strict=True):
                    found[i] = propose_bins(
                        self.session, own, self.features[i], column, max_bin, missing=n_missing[i] > 0, sample=sample
                    )
                if own is not rows:
                    self.session.drop(own.source)
        return [found[i] for i in range(len(self.features))]

    def tables_of_features(self) -> list[tuple[CountedRows, Sequence[int]]]:
        """Return the tables that have the values of the features, each with the numbers of its own."""
        return [(CountedRows.of_source(self.session, self.n_rows), range(len(self.features)))]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.layout = SlotLayout(bins)
        self._bins = self.store_bins(bins)
        if self.session.has_copy:  # that nothing reads any more
            self.session.drop(self.session.source)
        self._may_sort = not self.in_source_order and MIN_SORTED <= self.n_rows <= _MAX_SORTED

    def store_bins(self, bins: Sequence[Bins]) -> str:
        """Store the codes and the roles of every row; return the table's name."""
        return store_bins(self.session, bins, self.columns, self.roles, in_order=self.in_source_order)

    def close(self) -> None:
        """See `Engine.close`."""
        self._nodes = None  # it holds a method of this object: the connection would stay open until the next gc.collect
        super().close()

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        self._sort_rows_once()
        super().compute_gradients(gradients, others)

    def compute_gradients_on(
        self, offsets: Mapping[str, float], gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
    ) -> dict[str, float]:
        """See `ShardEngine.compute_gradients_on`."""
        self._sort_rows_once()
        return super().compute_gradients_on(offsets, gradients, others)

    def _sort_rows_once(self) -> None:
        if self._may_sort and self._nodes is not None:
            self.gradients.drop()
            self._sort_rows()

    def _sort_rows(self) -> None:
        """Put the rows in the order of the first tree's leaves, once.

        Later trees split in similar places, so the rows of a node then lie in few chunks, and DuckDB skips the others.
        """
        self._may_sort = False
        nodes, _ = self.nodes.table()
        self._margins = {name: self._sorted(table, nodes) for name, table in self._margins.items()}
        self._bins = self._sorted(self.bins, nodes)
        self.nodes.drop()
        self._nodes = None

    def _sorted(self, table: str, nodes: str) -> str:
        in_order = self.replace_table(None, "in_order", "sort_rows", table=table, nodes=nodes)
        self.session.drop(table)
        return in_order

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.gh = self.gradients.of_tree(output, sample, self.positions, self._tree_order)
        self.reset_nodes()
        self._stats = {0: self.gradients.sums(self.gh)}
        return self._stats[0]

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        outputs = range(self.gradients.n_outputs)
        self._gh_of_outputs = self.gradients.of_outputs(outputs, sample, self.positions, self._tree_order)
        self.gh = self._gh_of_outputs[0]  # to tell which rows are in the sample
        self.reset_nodes()
        totals = [self.gradients.sums(gh) for gh in self._gh_of_outputs]
        self._outputs = {0: np.array(totals)}
        return totals

    @property
    def _tree_order(self) -> str:
        return "" if self.keeps_order else "ORDER BY position ASC"

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        if self._nodes is None:
            self._nodes = RowNodes(self.session, self.bins, self.goes_left, self.in_bin_order, self.most_walked_again)
        self._nodes.restart()
        self._stats = {}
        self._outputs = {}

    @property
    def most_walked_again(self) -> int:
        """The most old splits for each new one to walk from the root again (see `RowNodes`)."""
        return MAX_WALKED_AGAIN

    @property
    def nodes(self) -> Nodes:
        """The nodes of the rows."""
        return self.row_nodes

    @property
    def row_nodes(self) -> RowNodes:
        """The same in a table."""
        assert self._nodes is not None
        return self._nodes

    @property
    def n_threads(self) -> int:
        """The threads of the database."""
        return int(self.session.setting("threads"))

    @property
    def sums_by_kernel(self) -> bool:
        """Whether histograms are summed by kernels, and not by group-bys."""
        return kernel_pays(self.n_threads)

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        if self.sums_by_kernel:
            out[indices] = self.sums_of_batches(nodes, BatchSums(self.session, self.layout, range(len(self.features))))
            return
        # The sums of a shard's own rows are not known.
        totals = None if self.is_shard else np.array([(self._stats[node].G, self._stats[node].H) for node in nodes])
        out[indices] = self._sums_by_bin(nodes, self.gh.numbers, totals)

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        numbers = {name: name for gh in self._gh_of_outputs for name in (gh.g, gh.h)}
        sums = self._sums_by_bin(nodes, numbers, np.stack([self._outputs[node].ravel() for node in nodes]))
        out[indices] = sums.reshape(*sums.shape[:2], -1, 2).swapaxes(1, 2)

    def sums_of_batches(self, nodes: Sequence[int], sums: BatchSums, n_rows: float = 0.0) -> FloatArray:
        """Return the histograms of nodes, of about ``n_rows`` rows, that are read in batches."""
        first, rows = self._rows_of(nodes)
        gh = self.gh.g, self.gh.h
        return sums.histograms(rows, gh, first, len(nodes), n_rows, everywhere=self.row_nodes.is_root)

    def _sums_by_bin(self, nodes: Sequence[int], numbers: Mapping[str, str], totals: FloatArray | None) -> FloatArray:
        """Return the sums of numbers by bin, (nodes, slots, numbers)."""
        first, rows = self._rows_of(nodes)
        query = HistogramQuery(self.session, self.layout, rows, numbers)
        return query.run(len(nodes), totals, first, everywhere=self.row_nodes.is_root)

    def _rows_of(self, nodes: Sequence[int]) -> tuple[int, str]:
        """Return the first of the numbers that the nodes get in a row, and the tables of codes, pairs and nodes."""
        first = self.row_nodes.settle(nodes)
        return first, " POSITIONAL JOIN ".join([self._codes or self.bins, self.gh.table, *self.row_nodes.tables])

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.nodes.move(splits)
        for node, (split, left, right) in splits.items():
            self._stats |= {left: split.left, right: split.right}
            if split.left_outputs is not None and node in self._outputs:
                of_left = split.left_outputs
                self._outputs |= {left: of_left, right: self._outputs[node] - of_left}

    def goes_left(self, split: Split) -> str:
        """Return the condition, over the columns of the bins, that a row goes left."""
        return code_goes_left(split, f"bin_{split.feature}", self.layout.bins[split.feature].missing)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self._add({node: float_literal(value) for node, value in values.items()}, margin)

    def _add(self, values: Mapping[int, str], margin: str) -> None:
        """Add the value of each row's leaf, as SQL, to its margin."""
        self._add_to(margin, self.nodes.case(values), self.nodes.sources)

    def _add_to(self, margin: str, leaves: str, sources: Sequence[str]) -> None:
        """Add an expression over tables that are joined by position to a margin."""
        old = self._margins[margin]
        self._margins[margin] = self.replace_table(
            old, "margins", "add_leaves", rows=" POSITIONAL JOIN ".join([*sources, old]),
            table=old, margin=margin, leaves=leaves, in_order=self.in_bin_order,
        )  # fmt: skip

    def leaf_ranges(self, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_ranges`."""
        return LeafQuery(self.session, self.nodes, self.gh).ranges(features)

    def leaf_sums(self, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_sums`."""
        return LeafQuery(self.session, self.nodes, self.gh).sums(grids)

    def add_linear_leaves(self, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        self._add({node: leaf_sql(linear.get(node), value) for node, value in values.items()}, margin)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        rows, names, node_of = self._rows_by_node()
        parts = {"rows": rows, "value": value.to_sql(names), "alpha": float_literal(alpha)}
        if weight is None:
            statement = render("node_quantiles", **parts)
        else:
            statement = render("node_weighted_quantiles", weight=weight.to_sql(names), **parts)
        return {node_of[number]: quantile for number, quantile in self.session.rows(statement)}

    def _rows_by_node(self) -> tuple[str, dict[str, str], Mapping[int, int]]:
        """Return a query of all rows with ``node`` and ``h``, its columns, and the node of each number in ``node``."""
        table, node_of = self.nodes.table()
        rows, names = self.query(more={"node": table, self.gh.h: self.gh.table})
        return f"SELECT *, {self.gh.h} AS h FROM ({rows})", names, node_of

    # --- as a shard ---------------------------------------------------------------------------------------------------

    def count_values(self, features: Sequence[int]) -> list[ValueCounts]:
        """See `ShardEngine.count_values`."""
        session, indices, n_rows = self.session, self.positions, self.n_all_rows
        return [count_values(session, self.columns[feature], n_rows, indices) for feature in features]

    def categories(self, feature: int) -> list[Physical]:
        """See `ShardEngine.categories`."""
        bins = read_categories(self.session, self.features[feature], self.columns[feature], missing=False)
        return list(bins.feature.categories)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        rows, names, node_of = self._rows_by_node()
        named = {"value": value, **({} if weight is None else {"weight": weight})}
        numbers = ", ".join(f"CAST({each.to_sql(names)} AS DOUBLE) AS {name}" for name, each in named.items())
        found = pl.DataFrame(self.session.columns(render("node_values", rows=rows, numbers=numbers)))
        return found.with_columns(pl.col("node").cast(pl.Int32).replace_strict(dict(node_of), return_dtype=pl.Int32))

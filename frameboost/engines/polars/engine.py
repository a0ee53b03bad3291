"""The engine of lazy group-bys: training as polars expressions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import polars as pl
import polars.selectors as cs

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import Cumulative, QueryWindow, Sample
from frameboost.engines.fixed_terms import FixedTerms
from frameboost.engines.frame.aggregation import in_polars
from frameboost.engines.frame.engine import FrameEngine
from frameboost.engines.frame.gradients import tree_gh
from frameboost.engines.frame.ranking import window_expr
from frameboost.engines.linear_contract import LeafGrid, linear_role
from frameboost.engines.pairs.queries import Queries
from frameboost.engines.polars.binning import code_columns, propose_bins
from frameboost.engines.polars.gradients import gradient_columns
from frameboost.engines.polars.histograms import sum_by_bin
from frameboost.engines.polars.linear import leaf_ranges, leaf_sums, linear_value
from frameboost.engines.polars.nodes import child_of_row, code_goes_left, leaf_value, root_of_rows
from frameboost.expressions.expression import Expression
from frameboost.expressions.ranking_terms import PAIR_SUMS, RankingPairs
from frameboost.losses.exact_sums import Aggregate, Scalar, largest_magnitudes, rounded_on
from frameboost.runtime.workers import kept_workers
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import physical_expr
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.trees.linear_leaf import LinearLeaf

__all__ = ["PolarsEngine"]


class PolarsEngine(FrameEngine):
    """`HistogramEngine` over a LazyFrame, which is read column by column for cuts and once more for codes."""

    takes_batches = True

    def __init__(self, frame: pl.LazyFrame, features: tuple[Feature, ...], roles: Mapping[str, str]) -> None:
        super().__init__(frame, features, roles)
        self.gradients = pl.DataFrame()  # g_0, h_0, ...
        self._fixed = FixedTerms(self.row_names)
        self._fixed_columns: dict[Hashable, pl.Series] = {}  # their values, by key
        self._named: dict[str, Hashable] = {}  # the keys of those that are defined, by name
        self._queries: Queries | None = None  # the rows of each, once there are pairs
        self.gh = pl.DataFrame()  # g and h of the current tree
        self.vector_gh = pl.DataFrame()  # g_0, h_0, ... of a tree for all outputs

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        return propose_bins(self.frame, self.features, max_bin, given, self.n_rows)

    def feature_values(self, number: int) -> pl.Series:
        """See `FrameEngine.feature_values`."""
        feature = self.features[number]
        return self.frame.select(physical_expr(feature.name, feature.type).alias("value")).collect().to_series()

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.layout = SlotLayout(bins)
        codes = code_columns(bins, [physical_expr(b.feature.name, b.feature.type) for b in bins])
        # Labels and codes in one pass: a lazy frame promises no row order that two passes could share.
        everything = self.frame.select(*codes, *self.row_exprs).collect()
        self.rows = everything.select(self.row_names)
        self.codes = everything.drop(self.row_names)

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(e.to_polars().alias(name) for name, e in margins.items())

    # --- once a round -------------------------------------------------------------------------------------------------

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`; of ranking, columns that are the same in every round are computed once."""
        for name, term in terms.items():
            key = self._fixed.define(name, term)
            self._named.pop(name, None)
            if self.rows is None or key is None or "qid" not in self.row_names:
                super().add_columns({name: term})
                continue
            self.terms.pop(name, None)
            if key not in self._fixed_columns:
                assert not isinstance(term, Cumulative)
                value = window_expr(term) if isinstance(term, QueryWindow) else in_polars(term)
                self._fixed_columns[key] = self.all_rows().with_columns(value.alias(name)).select(name).collect()[name]
            self._named[name] = key

    def store_terms(self) -> None:
        """Compute the terms that are defined, once for all that follows: for rows whose margins stay as they are."""
        if self.rows is None:
            self.rows = self.frame.select(self.row_exprs).collect()
        self.rows = self.rows.hstack(self.all_rows().select(list(self.terms)).collect())
        self.terms.clear()
        self._fixed = FixedTerms(self.rows.columns)

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; what is the same in every round is kept."""
        return self._fixed.aggregated(aggregates, super().aggregate)

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        # It needs numba, as what the package imports at once does not.
        from frameboost.engines.pairs.pair_sums import columns_read, pair_sums

        names = columns_read(pairs)
        table = self.all_rows().select("qid", *dict.fromkeys(names)).collect()
        columns = {name: np.ascontiguousarray(table[name].to_numpy(), np.float64) for name in names}
        if self._queries is None:
            self._queries = Queries(table["qid"].to_numpy(), kept_workers())
        sums = pair_sums(self._queries, columns, pairs, offset, kept_workers())
        self.store_pairs(pl.DataFrame(dict(zip(PAIR_SUMS, sums, strict=True))))

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`."""
        self.gradients = pl.DataFrame()
        self.gradients = gradient_columns(self, gradients, others)

    def compute_gradients_on(
        self, offsets: Mapping[str, float], gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
    ) -> dict[str, float]:
        """See `ShardEngine.compute_gradients_on`."""
        self.gradients = pl.DataFrame()
        self.gradients = self.by_row({**rounded_on(offsets, gradients), **others})
        return largest_magnitudes(self, gradients)

    def computed_columns(self) -> list[pl.Series]:
        """See `FrameEngine.computed_columns`."""
        fixed = [self._fixed_columns[key].alias(name) for name, key in self._named.items()]
        return [*self.gradients.get_columns(), *fixed]

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.gh = tree_gh(self.gradients.lazy(), output, sample, self.positions)
        self.reset_nodes()
        return Stats(float(self.gh["g"].sum()), float(self.gh["h"].sum()))

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        n_outputs = sum(name.startswith("g_") for name in self.gradients.columns)
        of_outputs = [tree_gh(self.gradients.lazy(), k, sample, self.positions) for k in range(n_outputs)]
        self.gh = of_outputs[0]  # to tell which rows are in the sample
        self.vector_gh = pl.concat(
            [gh.rename({"g": f"g_{k}", "h": f"h_{k}"}) for k, gh in enumerate(of_outputs)], how="horizontal"
        )
        self.reset_nodes()
        return [Stats(float(gh["g"].sum()), float(gh["h"].sum())) for gh in of_outputs]

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.node = root_of_rows(self.n_rows)
        self._is_root = True

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        rows = pl.concat([self.codes, self.gh, self.node.to_frame()], how="horizontal")
        sum_by_bin(rows, self.layout, nodes, out, indices, everywhere=self._is_root)

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        rows = pl.concat([self.codes, self.vector_gh, self.node.to_frame()], how="horizontal")
        sum_by_bin(rows, self.layout, nodes, out, indices, everywhere=self._is_root)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.node = child_of_row(self.codes, self.node, splits, self.goes_left)
        self._is_root = False

    def goes_left(self, split: Split) -> pl.Expr:
        """Return which rows go left, as a condition over the columns of ``codes``."""
        return code_goes_left(split, pl.col(str(split.feature)), self.layout.bins[split.feature].missing)

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(pl.col(margin) + leaf_value(self.node, values))

    def leaf_ranges(self, features: Mapping[int, Sequence[int]]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_ranges`."""
        return leaf_ranges(self._numbers_by_node(), features)

    def leaf_sums(self, grids: Mapping[int, LeafGrid]) -> dict[int, FloatArray]:
        """See `LinearEngine.leaf_sums`."""
        return leaf_sums(self._numbers_by_node(), grids)

    def _numbers_by_node(self) -> pl.LazyFrame:
        assert self.rows is not None
        return self.rows.select(cs.starts_with(linear_role(""))).hstack([*self.gh, self.node]).lazy()

    def add_linear_leaves(self, values: Mapping[int, float], linear: Mapping[int, LinearLeaf], margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        assert self.rows is not None
        rows = self.rows.hstack([self.node])
        added = rows.lazy().select(pl.col(margin) + linear_value(values, linear)).collect().to_series()
        self.rows = self.rows.with_columns(added.alias(margin))

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(self.node, self.gh["h"], value, weight, alpha)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        return self.values_by_node(self.node, self.gh["h"], value, weight).collect()

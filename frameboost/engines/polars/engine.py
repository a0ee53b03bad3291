"""Gradient boosting by group-bys: each step of training as polars expressions over a LazyFrame.

1. Cuts: the columns of the frame are read one by one, to choose the lowest values of bins. 2. Codes: one pass over the
frame computes the bin index of every value, and reads labels and weights. 3. For each round, g and h of every row are
computed from its label and margin, and rounded so that sums are exact. 4. For each level of a tree, g and h are summed
by node and bin: a group-by for each feature. From these histograms
   training chooses splits.
5. Rows move to the children: the column ``node`` is recomputed from itself and the codes. 6. The leaf value of every
row is added to its margin.

`PolarsEngine` has these steps in this order, followed by histograms and row movement. `frameboost.engines.frame` has
the common parts of engines over frames: evaluation of labels, metrics and terms.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce

import numpy as np
import polars as pl
import polars.selectors as cs

from frameboost.binning import codes
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.contract import Capabilities, Cumulative, QueryWindow, Sample, linear_role
from frameboost.engines.fixed_terms import FixedTerms
from frameboost.engines.frame import FrameEngine, in_polars, window_expr
from frameboost.engines.polars.linear import leaf_ranges, leaf_sums, linear_value
from frameboost.engines.query_costs import kernel_pays
from frameboost.engines.ranking.queries import Queries
from frameboost.expressions.draws import draw_expr
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Scalar, grid_offsets, largest_magnitudes, rounded_on
from frameboost.losses.loss import PAIR_SUMS, RankingPairs
from frameboost.runtime.workers import kept_workers
from frameboost.schema.types import Feature, physical_expr
from frameboost.splits.split import FloatArray, IntArray, Split, Stats
from frameboost.trees.linear_leaves import LinearColumns

__all__ = ["PolarsEngine", "child_of_row", "sum_by_bin"]

# The rows per pass of histograms, as rows of some nodes are copied.
_ROWS_AT_ONCE = 1 << 22
# The streaming engine sums some 4,096 groups of rows as they come, and sets rows of others aside. Not each key finds
# room, so with more than half as many keys it takes longer than for the nodes in two parts.
_MAX_KEYS, _MAX_PARTS = 1 << 11, 8
# Types for numbers of nodes, and the largest of each. Rows move in a fraction of the time where they are narrow.
_LARGEST: dict[pl.DataType, int] = {pl.UInt8(): 2**8 - 1, pl.UInt16(): 2**16 - 1, pl.UInt32(): 2**32 - 1}


class PolarsEngine(FrameEngine):
    """`HistogramEngine` over a LazyFrame, which is read column by column for cuts and once more for codes.

    Attributes
    ----------
    rows
        The roles and margins of every row.
    codes
        The bin index of every value, in columns "0", "1", ... by feature.
    gradients
        ``g_0``, ``h_0``, ... of every row, by output.
    gh
        ``g`` and ``h`` of the current tree; 0 in rows outside of its sample.
    vector_gh
        ``g_0``, ``h_0``, ... of a tree for all outputs.
    node
        The node of every row in that tree.
    """

    def __init__(self, frame: pl.LazyFrame, features: tuple[Feature, ...], roles: Mapping[str, str]) -> None:
        super().__init__(frame, features, roles)
        self.gradients = pl.DataFrame()
        self.gh = pl.DataFrame()
        self.vector_gh = pl.DataFrame()
        self._gh_of_outputs: list[pl.DataFrame] = []  # of a tree for all outputs, or of the one output
        self._fixed = FixedTerms(self.row_names)
        self._fixed_columns: dict[Hashable, pl.Series] = {}  # their values, by key
        self._named: dict[str, Hashable] = {}  # the keys of those that are defined, by name
        self._queries: Queries | None = None  # the rows of each, once there are pairs

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`."""
        return Capabilities(takes_batches=True)

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        sample = codes.sample_of(self.n_rows)
        return [
            user_bins[i] if i in user_bins else codes.propose_bins(feature, self.feature_values(i), max_bin, sample)
            for i, feature in enumerate(self.features)
        ]

    def feature_values(self, number: int) -> pl.Series:
        """See `FrameEngine.feature_values`."""
        feature = self.features[number]
        return self.frame.select(physical_expr(feature.name, feature.type).alias("value")).collect().to_series()

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self.layout = SlotLayout(bins)
        coded = []
        for i, b in enumerate(bins):
            value, kind = physical_expr(b.feature.name, b.feature.type), b.feature.type
            code = codes.code_expr(value, kind, b.feature.categories or b.cuts, b.missing)
            coded.append(code.cast(codes.code_dtype(b)).alias(str(i)))
        # Labels and codes in one pass: a lazy frame promises no row order that two passes could share.
        everything = self.frame.select(*coded, *self.row_exprs).collect()
        self.rows = everything.select(self.row_names)
        self.codes = everything.drop(self.row_names)

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        assert self.rows is not None
        self.rows = self.rows.with_columns(e.to_polars().alias(name) for name, e in margins.items())

    # --- once a round -------------------------------------------------------------------------------------------------

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar],
        offsets: Mapping[str, float] | None = None,
    ) -> dict[str, float]:  # fmt: skip
        """See `ShardEngine.compute_gradients`."""
        self.gradients = pl.DataFrame()  # expressions must not refer to columns of the previous round
        largest = largest_magnitudes(self, gradients)
        on_grids = rounded_on(offsets or grid_offsets(largest, self.n_rows), gradients)
        self.gradients = self.by_row({**on_grids, **others})
        return largest

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        self.gh, self.vector_gh = self._gh_of(output, sample), pl.DataFrame()
        self._gh_of_outputs = [self.gh]
        self.reset_nodes()
        return _total(self.gh)

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """See `VectorEngine.start_vector_tree`."""
        n_outputs = sum(name.startswith("g_") for name in self.gradients.columns)
        self._gh_of_outputs = [self._gh_of(k, sample) for k in range(n_outputs)]
        self.vector_gh = pl.concat(
            [gh.rename({"g": f"g_{k}", "h": f"h_{k}"}) for k, gh in enumerate(self._gh_of_outputs)], how="horizontal"
        )
        self.gh = self._gh_of_outputs[0]  # h of any output tells which rows are in the sample
        self.reset_nodes()
        return [_total(gh) for gh in self._gh_of_outputs]

    def _gh_of(self, output: int, sample: Sample | None) -> pl.DataFrame:
        """Return ``g`` and ``h`` of one output, zero in rows outside of the sample."""
        gh = self.gradients.lazy().with_columns(pl.col(f"g_{output}").alias("g"), pl.col(f"h_{output}").alias("h"))
        if sample is not None:  # which is drawn by positions among the rows of all shards
            draw = draw_expr(self.positions.expr(pl.int_range(pl.len(), dtype=pl.Int64)), sample.key).alias("draw")
            sampled = [sample.g.to_polars().alias("g"), sample.h.to_polars().alias("h")]
            gh = gh.with_columns(draw).with_columns(sampled)
        return gh.select("g", "h").collect()

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self.node = pl.repeat(0, self.n_rows, dtype=pl.UInt8, eager=True).alias("node")
        self._is_root = True

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        self._sum_by_bin(self.gh, nodes, out, indices)

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `VectorEngine.vector_histograms`."""
        self._sum_by_bin(self.vector_gh, nodes, out, indices)

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        gh = self.vector_gh if self.vector_gh.width else self.gh
        has_gradient = pl.any_horizontal(pl.all() != 0.0).cast(pl.Float64).alias("g")
        self._sum_by_bin(gh.select(has_gradient, h=pl.lit(0.0)), nodes, out, indices)

    def _sum_by_bin(self, gh: pl.DataFrame, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        rows = pl.concat([self.codes, gh, self.node.to_frame()], how="horizontal")
        sum_by_bin(rows, self.layout, nodes, out, indices, is_root=self._is_root)

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self.node = child_of_row(self.codes, self.node, splits, self.goes_left)
        self._is_root = False

    def goes_left(self, split: Split) -> pl.Expr:
        """Return the condition for a row to go left, over the columns of ``codes``."""
        code = pl.col(str(split.feature))
        if split.categories is not None:
            is_named = code.is_in(list(split.categories))
            return ~is_named if split.missing_left else is_named
        is_below, missing = code < split.bin, self.layout.bins[split.feature].missing
        return is_below | (code == missing) if split.missing_left else is_below

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        assert self.rows is not None
        by_node = np.zeros(max(values) + 1)
        by_node[list(values)] = list(values.values())
        added = pl.lit(pl.Series(by_node)).gather(self.node.cast(pl.UInt32))
        self.rows = self.rows.with_columns(pl.col(margin) + added)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(self.node, self.gh["h"], value, weight, alpha)

    def node_values(self, value: Scalar, weight: Scalar | None) -> pl.DataFrame:
        """See `ShardEngine.node_values`."""
        return self.values_by_node(self.node, self.gh["h"], value, weight).collect()

    # --- linear leaves ------------------------------------------------------------------------------------------------

    def leaf_ranges(self, leaves: IntArray, features: IntArray) -> FloatArray:
        """See `LinearEngine.leaf_ranges`."""
        return np.stack([leaf_ranges(rows, leaves, features) for rows in self._numbers_by_output()])

    def leaf_sums(self, grids: LinearColumns, offsets: FloatArray) -> FloatArray:
        """See `LinearEngine.leaf_sums`."""
        of_outputs = zip(self._numbers_by_output(), offsets, strict=True)
        return np.stack([leaf_sums(rows, grids, of_output) for rows, of_output in of_outputs])

    def _numbers_by_output(self) -> Iterator[pl.LazyFrame]:
        assert self.rows is not None
        numbers = self.rows.select(cs.starts_with(linear_role(""))).hstack([self.node])
        for gh in self._gh_of_outputs:
            yield numbers.hstack(gh).lazy()

    def add_linear_leaves(self, values: Mapping[int, float], linear: LinearColumns, margin: str) -> None:
        """See `LinearEngine.add_linear_leaves`."""
        assert self.rows is not None
        rows = self.rows.hstack([self.node])
        added = rows.lazy().select(pl.col(margin) + linear_value(values, linear)).collect().to_series()
        self.rows = self.rows.with_columns(added.alias(margin))

    # --- terms of metrics and ranking, of which some are the same in every round --------------------------------------

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`; columns of ranking that are constant over rounds are computed once."""
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
        """Compute the defined terms for all later calls, for rows with constant margins."""
        if self.rows is None:
            self.rows = self.frame.select(self.row_exprs).collect()
        self.rows = self.rows.hstack(self.all_rows().select(list(self.terms)).collect())
        self.terms.clear()
        self._fixed = FixedTerms(self.rows.columns)

    def computed_columns(self) -> list[pl.Series]:
        """See `FrameEngine.computed_columns`."""
        fixed = [self._fixed_columns[key].alias(name) for name, key in self._named.items()]
        return [*self.gradients.get_columns(), *fixed]

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`; results that are constant over rounds are cached."""
        return self._fixed.aggregated(aggregates, super().aggregate)

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        # It needs numba, as what the package imports at once does not.
        from frameboost.engines.ranking.pairs import columns_read, pair_sums

        names = columns_read(pairs)
        table = self.all_rows().select("qid", *dict.fromkeys(names)).collect()
        columns = {name: np.ascontiguousarray(table[name].to_numpy(), np.float64) for name in names}
        if self._queries is None:
            self._queries = Queries(table["qid"].to_numpy(), kept_workers())
        sums = pair_sums(self._queries, columns, pairs, offset, kept_workers())
        self.store_arrays(dict(zip(PAIR_SUMS, sums, strict=True)))


def _total(gh: pl.DataFrame) -> Stats:
    return Stats(float(gh["g"].sum()), float(gh["h"].sum()))


# --- histograms: a group-by for each feature, by a key of node and bin ------------------------------------------------


def sum_by_bin(
    rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray, *, is_root: bool
) -> None:
    """Write the histograms of some nodes to their ``indices`` in ``out``.

    With few threads, polars filters the rows and a kernel sums them (see `kernel_pays`).

    Parameters
    ----------
    rows
        The codes of feature i as the column "i", ``node``, and ``g`` and ``h``, or ``g_0``, ``h_0``, ... of each
        output.
    layout
        The bins of the features.
    nodes, out, indices
        See `HistogramEngine.histograms` and `VectorEngine.vector_histograms`.
    is_root
        Whether all rows are in the only node.
    """
    out[indices] = 0.0
    by_kernel = out.ndim == 3 and kernel_pays(pl.thread_pool_size())
    for some in rows.iter_slices(_ROWS_AT_ONCE):
        for part in [slice(None)] if is_root or by_kernel else _parts(len(nodes), min(layout.strides())):
            # As a frame: group-bys of one lazy frame would each filter the rows.
            of_nodes = some if is_root else some.filter(pl.col("node").is_in(list(nodes[part])))
            add = _add_rows if by_kernel else _add_group_bys
            add(of_nodes, layout, nodes[part], out, indices[part])


def _parts(n_nodes: int, stride: int) -> Iterator[slice]:
    """Yield the parts of the nodes to sum at a time."""
    size = max(1, _MAX_KEYS // stride, -(-n_nodes // _MAX_PARTS))
    return (slice(start, start + size) for start in range(0, n_nodes, size))


def _add_group_bys(
    rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray
) -> None:
    """Sum the rows, all of them in the nodes, by parallel group-bys.

    The key is one small integer, index of the node * stride + code: grouping by it is much faster than by two columns.
    Features with few bins share a stride, so that a feature with many categories does not widen the keys of others.
    """
    strides = layout.strides()
    keys = [pl.col(str(i)) for i in range(len(strides))]
    if len(nodes) > 1:
        rows = rows.with_columns(_first_key(nodes, stride).alias(f"first_{stride}") for stride in set(strides))
        keys = [pl.col(f"first_{stride}") + key for stride, key in zip(strides, keys, strict=True)]
    names = ["g", "h"] if out.ndim == 3 else [name for name in rows.columns if name.startswith(("g_", "h_"))]
    tables = pl.collect_all(
        [rows.lazy().group_by(key.alias("key")).agg(pl.col(names).sum()) for key in keys], engine="streaming"
    )
    for offset, stride, table in zip(layout.offsets[:-1], strides, tables, strict=True):
        key = table["key"].to_numpy().astype(np.int64)
        sums = table.select(names).to_numpy()
        if out.ndim == 3:
            out[indices[key // stride], offset + key % stride] += sums
        else:
            of_outputs = sums.reshape(len(key), -1, 2)
            out[indices[key // stride], : of_outputs.shape[1], offset + key % stride] += of_outputs


def _first_key(nodes: Sequence[int], stride: int) -> pl.Expr:
    """Return the first key of each row's node: the node's index in ``nodes`` times ``stride``."""
    keys = [0] * (max(nodes) + 1)
    for index, node in enumerate(nodes):
        keys[node] = index * stride
    dtype = pl.UInt16 if len(nodes) * stride <= 2**16 else pl.UInt32 if len(nodes) * stride <= 2**32 else pl.UInt64
    return pl.lit(pl.Series(keys, dtype=dtype)).gather(pl.col("node").cast(pl.UInt32))


def _add_rows(rows: pl.DataFrame, layout: SlotLayout, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
    """Sum the rows, all of them in the nodes, by the kernel."""
    from frameboost.binning.arrays import add_codes

    index_of = np.zeros(max(nodes) + 1, np.uint32)
    index_of[list(nodes)] = indices
    index = index_of[rows["node"].to_numpy()]
    g, h = rows["g"].to_numpy(), rows["h"].to_numpy()
    for feature, offset in enumerate(layout.offsets[:-1]):
        add_codes(index, rows[str(feature)].to_numpy(), offset, g, h, out)


# --- nodes ------------------------------------------------------------------------------------------------------------


def child_of_row(
    columns: pl.DataFrame,
    node: pl.Series,
    splits: Mapping[int, tuple[Split, int, int]],
    goes_left: Callable[[Split], pl.Expr],
) -> pl.Series:
    """Return the node of every row after the splits (node -> split, left child, right child).

    ``goes_left`` returns the condition of a split over ``columns``.
    """
    largest = max((child for _, *children in splits.values() for child in children), default=0)
    kind = next(kind for kind, most in _LARGEST.items() if max(largest, _LARGEST[node.dtype]) <= most)
    # One truth value a row, then a lookup: a CASE would copy all rows for each split.
    before = pl.col("node")
    are_left = [(before == _number(parent, node.dtype)) & goes_left(split) for parent, (split, *_) in splits.items()]
    is_left = reduce(operator.or_, are_left, pl.lit(value=False)).fill_null(value=False)
    child_of = np.repeat(np.arange(max(largest, node.to_numpy().max(initial=0)) + 1), 2)  # a node without split stays
    for parent, (_, *children) in splits.items():
        child_of[2 * parent : 2 * parent + 2] = children[::-1]
    after = pl.lit(pl.Series(child_of, dtype=kind)).gather(before.cast(pl.UInt32) * 2 + is_left.cast(pl.UInt32))
    rows = pl.concat([columns, node.to_frame()], how="horizontal")
    return rows.lazy().select(after.alias("node")).collect().to_series()


@lru_cache(maxsize=1024)
def _number(node: int, kind: pl.DataType) -> pl.Expr:
    """Return a node number as an expression, memoised: all trees have the same numbers."""
    return pl.lit(node, dtype=kind)

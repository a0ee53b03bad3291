"""The engine of lazy group-bys: what training is, in polars' own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import code_dtype, code_expr, propose_bins, sample_of
from frameboost.engines.frame.engine import FrameEngine
from frameboost.losses.exact_sums import Scalar
from frameboost.schema.polars_columns import physical_expr
from frameboost.splits.split import FloatArray, IntArray, Split

__all__ = ["PolarsEngine"]


class PolarsEngine(FrameEngine):
    """`Engine` over a LazyFrame: the data is read column by column for cuts, and once more to be binned."""

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `Engine.propose_bins`."""
        sample = sample_of(self.n_rows)
        bins = []
        for i, feature in enumerate(self.features):
            if i in given:
                bins.append(given[i])
                continue
            values = self.frame.select(physical_expr(feature.name, feature.type).alias("value")).collect().to_series()
            bins.append(propose_bins(feature, values, max_bin, sample))
        return bins

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `Engine.bin_columns`."""
        self.layout = SlotLayout(bins)
        codes = [
            code_expr(
                physical_expr(b.feature.name, b.feature.type),
                b.feature.type,
                b.feature.categories or b.cuts,
                b.missing,
            )
            .cast(code_dtype(b))
            .alias(str(i))
            for i, b in enumerate(bins)
        ]
        # Labels and codes in one pass: a lazy frame promises no row order that two passes could share.
        everything = self.frame.select(*codes, *self.row_exprs).collect()
        self.rows = everything.select(self.row_names)
        self.codes = everything.drop(self.row_names)

    def follow_tree(self) -> None:
        """See `Engine.follow_tree`."""
        self.node = pl.repeat(0, self.n_rows, dtype=pl.Int32, eager=True).alias("node")

    def histograms(self, nodes: Sequence[int], out: FloatArray, places: IntArray) -> None:
        """See `Engine.histograms`: a group-by a feature, all in one `collect_all`."""
        # One small integer as key, place · stride + code: grouping by it is much faster than by two columns. Features
        # of few bins share a stride, so that one of many categories makes no other's keys larger.
        strides = self.layout.strides()
        rows = pl.concat([self.codes, self.pairs, self.node.to_frame()], how="horizontal").lazy()
        rows = rows.filter(pl.col("node").is_in(list(nodes)))
        rows = rows.with_columns(_first_key(nodes, stride).alias(f"place_{stride}") for stride in set(strides))
        sums = pl.collect_all(
            [
                rows.group_by((pl.col(f"place_{s}") + pl.col(str(i))).alias("key")).agg(pl.col("g", "h").sum())
                for i, s in enumerate(strides)
            ],
            engine="streaming",
        )
        out[places] = 0.0
        for offset, stride, sum_ in zip(self.layout.offsets[:-1], strides, sums, strict=True):
            key = sum_["key"].to_numpy().astype(np.int64)
            out[places[key // stride], offset + key % stride] = sum_.select("g", "h").to_numpy()

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        node = pl.col("node")
        moved = reduce(
            lambda other, move: pl.when(node == move[0]).then(self._child(*move[1])).otherwise(other),
            splits.items(),
            node,
        )
        rows = pl.concat([self.codes, self.node.to_frame()], how="horizontal")
        self.node = rows.lazy().select(moved.cast(pl.Int32).alias("node")).collect().to_series()

    def _child(self, split: Split, left: int, right: int) -> pl.Expr:
        sides = pl.lit(left, dtype=pl.Int32), pl.lit(right, dtype=pl.Int32)
        return pl.when(self.goes_left(split)).then(sides[0]).otherwise(sides[1])

    def goes_left(self, split: Split) -> pl.Expr:
        """Return, over the columns of ``codes``, which rows go left."""
        code = pl.col(str(split.feature))
        if split.categories is not None:
            is_named = code.is_in(list(split.categories))
            return ~is_named if split.missing_left else is_named
        goes_left = code < split.bin
        missing = self.layout.bins[split.feature].missing
        return goes_left | (code == missing) if split.missing_left else goes_left

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        assert self.rows is not None
        table = np.zeros(max(values) + 1)
        table[list(values)] = list(values.values())
        leaf = pl.lit(pl.Series(table)).gather(self.node.cast(pl.UInt32))
        self.rows = self.rows.with_columns(pl.col(margin) + leaf)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        return self.quantiles_by_node(self.node, value, weight, alpha)


def _first_key(nodes: Sequence[int], stride: int) -> pl.Expr:
    """Return the first key of each row's node: its place in ``nodes`` times ``stride``; rows of others are left out."""
    keys = [0] * (max(nodes) + 1)
    for place, node in enumerate(nodes):
        keys[node] = place * stride
    dtype = pl.UInt16 if len(nodes) * stride <= 2**16 else pl.UInt32 if len(nodes) * stride <= 2**32 else pl.UInt64
    return pl.lit(pl.Series(keys, dtype=dtype)).gather(pl.col("node").cast(pl.UInt32))

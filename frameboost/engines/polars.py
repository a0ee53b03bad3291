"""The engine of lazy group-bys: what training is, in polars' own words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import polars as pl

from frameboost.binning import Bins, SlotLayout
from frameboost.columns import code_dtype, code_expr, physical_expr, propose_bins, sample_of
from frameboost.engines.contract import FloatArray, Scalar, Split
from frameboost.engines.frame import FrameEngine

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
        dtype = code_dtype(bins)
        codes = [
            code_expr(
                physical_expr(b.feature.name, b.feature.type),
                b.feature.type,
                b.feature.categories or b.cuts,
                b.missing,
            )
            .cast(dtype)
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

    def histograms(self, nodes: Sequence[int]) -> FloatArray:
        """See `Engine.histograms`: a group-by a feature, all in one `collect_all`."""
        n_codes = max(b.count for b in self.layout.bins) + 1
        key_dtype = pl.UInt16 if len(nodes) * n_codes <= 2**16 else pl.UInt64
        place = pl.lit(pl.Series(_places(nodes), dtype=key_dtype)).gather(pl.col("node").cast(pl.UInt32))
        # One small integer as key, place · codes + code: grouping by it is much faster than by two columns.
        rows = pl.concat([self.codes, self.pairs, self.node.to_frame()], how="horizontal").lazy()
        rows = rows.filter(pl.col("node").is_in(list(nodes))).with_columns((place * n_codes).alias("place"))
        sums = pl.collect_all(
            [
                rows.group_by((pl.col("place") + pl.col(str(i))).alias("key")).agg(pl.col("g", "h").sum())
                for i in range(len(self.layout.bins))
            ],
            engine="streaming",
        )
        out = np.zeros((len(nodes), self.layout.n_slots, 2))
        for offset, sum_ in zip(self.layout.offsets[:-1], sums, strict=True):
            key = sum_["key"].to_numpy().astype(np.int64)
            out[key // n_codes, offset + key % n_codes] = sum_.select("g", "h").to_numpy()
        return out

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


def _places(nodes: Sequence[int]) -> list[int]:
    """Return for each node number up to the largest its place in ``nodes`` (0 for the others, which are left out)."""
    places = [0] * (max(nodes) + 1)
    for place, node in enumerate(nodes):
        places[node] = place
    return places

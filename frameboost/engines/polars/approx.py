"""The polars engine of ``tree_method="approx"``: cuts proposed for each tree or each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, NodeBins, SlotLayout, codes_by_rank, collect_bins, weighted_cuts_of
from frameboost.binning.codes import code_dtype, code_expr, propose_bins, rank_column
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.schema.types import physical_expr
from frameboost.splits.split import Split

__all__ = ["PolarsApproxEngine"]


class PolarsApproxEngine(PolarsEngine):
    """`RebinningEngine` and `NodeBinningEngine` over a frame of values, read once.

    ``values`` has a column ``value_i`` for feature i: its physical values, or the codes of a categorical feature.
    Numeric splits compare values with a threshold.
    """

    def load_columns(self) -> list[Bins]:
        """See `RebinningEngine.load_columns`."""
        read = [physical_expr(f.name, f.type).alias(f"value_{i}") for i, f in enumerate(self.features)]
        values_and_roles = self.frame.select(*read, *self.row_exprs).collect()
        self.rows = values_and_roles.select(self.row_names)
        self.values = values_and_roles.drop(self.row_names)
        self.bins = []
        for i, feature in enumerate(self.features):
            values = self.values[f"value_{i}"]
            if feature.type.is_categorical:
                bins = propose_bins(feature, values, max_bin=2)
                codes = code_expr(pl.col(values.name), feature.type, bins.feature.categories, bins.missing)
                self.values = self.values.with_columns(codes)
            else:
                bins = Bins(feature, has_missing=values.null_count() > 0)
            self.bins.append(bins)
        self.codes = self.values
        self._ranked: dict[int, tuple[pl.Series, npt.NDArray[np.uint32]]] = {}
        return list(self.bins)

    def rebin(self, max_bin: int) -> list[Bins]:
        """See `RebinningEngine.rebin`: each column is ranked once, and h is summed by rank."""
        h, bins, codes = self.gh["h"].to_numpy(), list(self.bins), []
        for i, each in enumerate(self.bins):
            values = self.values[f"value_{i}"]
            if not each.feature.type.is_categorical:
                distinct, ranks = self._ranks(i)
                at = weighted_cuts_of(np.bincount(ranks, h, len(distinct) + 1)[:-1], max_bin - each.has_missing)
                below = tuple(_plain(distinct.gather(at - 1))) if each.feature.type.is_float else ()
                bins[i] = replace(each, cuts=tuple(_plain(distinct.gather(at))), below=below)
                values = pl.Series(codes_by_rank(at, len(distinct), bins[i].missing)[ranks])
            codes.append(values.cast(code_dtype(bins[i])).alias(str(i)))
        self.layout = SlotLayout(bins)
        self.codes = self.values.with_columns(codes)
        return bins

    def _ranks(self, feature: int) -> tuple[pl.Series, npt.NDArray[np.uint32]]:
        """Return the distinct values of a feature and the rows' ranks among them (see `rank_column`)."""
        if feature not in self._ranked:
            self._ranked[feature] = rank_column(self.features[feature], self.values[f"value_{feature}"])[1:]
        return self._ranked[feature]

    def node_bins(self, nodes: Sequence[int], max_bin: int) -> list[NodeBins]:
        """See `NodeBinningEngine.node_bins`: two group-bys per feature, by value and by bin."""
        rows = pl.concat([self.values, self.gh, self.node.to_frame()], how="horizontal").lazy()
        rows = rows.filter(pl.col("node").is_in(list(nodes)))
        has_gradient = (pl.col("g") != 0.0) | (pl.col("h") != 0.0)
        tables = pl.collect_all([
            _bins_of_nodes(
                rows.select("node", pl.col(f"value_{i}").alias("value"), "g", "h", n=has_gradient.cast(pl.Float64)),
                # Every category is a bin, and so is the code of missing values.
                b.count + 1 if b.feature.type.is_categorical else max_bin - b.has_missing,
            )
            for i, b in enumerate(self.bins)
        ])  # fmt: skip
        return [
            collect_bins(
                b,
                nodes,
                zip(
                    table["node"],
                    _plain(table["start"]),
                    _plain(table["stop"]),
                    *table.select("g", "h", "n"),
                    strict=True,
                ),
            )
            for b, table in zip(self.bins, tables, strict=True)
        ]

    def goes_left(self, split: Split) -> pl.Expr:
        """See `PolarsEngine.goes_left`."""
        value, kind = pl.col(f"value_{split.feature}"), self.features[split.feature].type
        if split.categories is not None:
            is_named = value.is_in(list(split.categories))
            return ~is_named if split.missing_left else is_named
        if split.threshold is None:
            return value.is_not_null()
        (edge,), dtype = kind.edges([split.threshold]), kind.physical_dtype
        return (value < pl.lit(pl.Series([edge], dtype=dtype)).first()).fill_null(split.missing_left)


def _bins_of_nodes(rows: pl.LazyFrame, max_bin: int) -> pl.LazyFrame:
    """Return the bins of each node, with cuts as of `binning.bins.weighted_cut_positions`.

    Columns: ``node``; ``start`` and ``stop``, the lowest and the highest value, NULL if missing; ``g``, ``h``, ``n``.
    """
    # Missing values form a separate group in each node.
    group = ["node", "is_missing"]
    by_value = rows.group_by("node", "value").agg(pl.col("g", "h", "n").sum()).sort("node", "value")
    by_value = by_value.with_columns(is_missing=pl.col("value").is_null())
    before, total = pl.col("h").cum_sum().over(group) - pl.col("h"), pl.col("h").sum().over(group)
    share = (before * float(max_bin) / total).floor().clip(upper_bound=max_bin - 1.0).cast(pl.Int64)
    part = (
        pl.when(pl.len().over(group) <= max_bin)
        .then(pl.int_range(pl.len(), dtype=pl.Int64).over(group))
        .when(total > 0)
        .then(share)
        .otherwise(0)
    )
    parts = by_value.with_columns(part=part).group_by(*group, "part", maintain_order=True)
    ends = pl.col("value").first().alias("start"), pl.col("value").last().alias("stop")
    return parts.agg(*ends, pl.col("g", "h", "n").sum())


def _plain(values: pl.Series) -> list[Any]:
    """Return physical values as Python objects, with -0.0 replaced by 0.0, which is the same value."""
    if not values.dtype.is_float():
        return values.to_list()
    return [value if value is None else value + 0.0 for value in values.to_list()]  # polars drops a + 0.0

"""Cuts and codes of a lazy frame: columns are read one by one for their cuts, then all together for their codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from frameboost.binning import codes
from frameboost.binning.bins import Bins
from frameboost.schema.feature import Feature
from frameboost.schema.polars_columns import physical_expr

__all__ = ["code_columns", "propose_bins"]


def propose_bins(
    frame: pl.LazyFrame, features: Sequence[Feature], max_bin: int, given: Mapping[int, Bins], n_rows: int
) -> list[Bins]:
    """Return the bins of every feature; those in ``given`` as they are."""
    sample = codes.sample_of(n_rows)
    bins = []
    for i, feature in enumerate(features):
        if i in given:
            bins.append(given[i])
            continue
        value = physical_expr(feature.name, feature.type).alias("value")
        bins.append(codes.propose_bins(feature, frame.select(value).collect().to_series(), max_bin, sample))
    return bins


def code_columns(bins: Sequence[Bins], values: Sequence[pl.Expr]) -> list[pl.Expr]:
    """Return each feature's codes, named by its number, given its physical values."""
    return [
        codes.code_expr(value, b.feature.type, b.feature.categories or b.cuts, b.missing)
        .cast(codes.code_dtype(b))
        .alias(str(i))
        for i, (b, value) in enumerate(zip(bins, values, strict=True))
    ]

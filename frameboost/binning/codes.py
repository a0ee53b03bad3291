"""Bins of polars columns, and their codes, by polars expressions: of every column type.

`frameboost.binning.arrays` does the same by kernels for the types that numpy has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, cut_positions, sample_condition
from frameboost.expressions.draws import RowPositions
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = [
    "category_values",
    "code_dtype",
    "code_expr",
    "distinct_values",
    "propose_bins",
    "rank_column",
    "read_only",
    "sample_of",
    "with_one_zero",
]


_NOT_IN_NUMPY = (pl.Int128, pl.UInt128)
_FEW = 1_000


def code_dtype(bins: Bins) -> pl.DataType:
    """Return the smallest unsigned type that holds the codes of a feature."""
    if bins.largest_code <= 255:
        return pl.UInt8()
    return pl.UInt16() if bins.largest_code <= 65_535 else pl.UInt32()


def code_expr(
    values: pl.Expr, kind: FeatureType, edges: Sequence[Physical], missing: int, other: int | None = None,
    scored: FeatureType | None = None,
) -> pl.Expr:  # fmt: skip
    """Return the code of each physical value, UInt32; ``edges`` are cuts, or categories.

    A value outside the categories has the code ``other``, by default that of missing values. The values may be of
    another type of the family than categories are, ``scored``.
    """
    if kind.is_categorical:
        codes = _category_codes(values, kind, edges, scored or kind.values)
        if other is not None:
            codes = pl.when(values.is_not_null()).then(codes.fill_null(other))
        return codes.fill_null(missing)
    sorted_edges = pl.Series(kind.edges(edges), dtype=kind.physical_dtype)
    codes = pl.lit(sorted_edges).search_sorted(values, side="right").cast(pl.UInt32)
    return pl.when(values.is_null()).then(pl.lit(missing, dtype=pl.UInt32)).otherwise(codes)


def _category_codes(values: pl.Expr, kind: FeatureType, categories: Sequence[Physical], scored: FeatureType) -> pl.Expr:
    """Return the index of each value among the categories, null of any other value."""
    if kind.name == "string":
        return values.cast(pl.Enum(list(map(str, categories))), strict=False).to_physical().cast(pl.UInt32)
    held = {code: scored.holding(kind, category) for code, category in enumerate(categories)}
    held = {code: value for code, value in held.items() if value is not None}
    known = pl.Series(list(held.values()), dtype=scored.physical_dtype)
    return values.replace_strict(known, pl.Series(list(held), dtype=pl.UInt32), default=None, return_dtype=pl.UInt32)


def sample_of(n_rows: int, positions: RowPositions | None = None, count: int | None = None) -> pl.Series | None:
    """Return a mask of the rows that cuts are proposed from, None for all rows.

    With ``positions`` and ``count``, the part of the mask for so many of the ``n_rows`` rows, at these positions.
    """
    sample = sample_condition(n_rows)
    if sample is None:
        return None
    if positions is None and count is None:
        return _whole_mask(n_rows, sample)
    return _mask((positions or RowPositions()).expr(_positions(n_rows if count is None else count)), sample)


def _positions(count: int) -> pl.Expr:
    return pl.int_range(count, dtype=pl.Int64)


def _mask(position: pl.Expr, sample: tuple[int, int, int]) -> pl.Series:
    modulus, multiplier, bound = sample
    return pl.select(position % modulus * multiplier % 2**32 < bound).to_series()


@lru_cache(maxsize=1)
def _whole_mask(n_rows: int, sample: tuple[int, int, int]) -> pl.Series:
    """Return the mask of all rows, a bit each, which a fit reads several times."""
    return _mask(_positions(n_rows), sample)


def distinct_values(values: pl.Series) -> tuple[pl.Series, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the distinct present values in ascending order, and how many present rows lie below each."""
    present = values.drop_nulls()
    if present.dtype in _NOT_IN_NUMPY:
        counts = present.value_counts(name="n").sort(values.name)
        before = counts["n"].cast(pl.Int64).cum_sum().to_numpy() - counts["n"].to_numpy()
        return counts[values.name], before
    ordered = np.sort(present.to_numpy())
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    before = np.concatenate([np.zeros(min(len(ordered), 1), dtype=np.int64), starts])
    distinct = with_one_zero(ordered[before])
    return pl.Series(values.name, distinct, dtype=values.dtype), before


def with_one_zero(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the numbers with -0.0 replaced by 0.0, as the two are equal."""
    return values + values.dtype.type(0) if values.dtype.kind == "f" else values


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that can't be written, as some arrays can't be anyway: one type for the compiler of kernels."""
    view = array.view()
    view.flags.writeable = False
    return view


def propose_bins(feature: Feature, values: pl.Series, max_bin: int, sample: pl.Series | None = None) -> Bins:
    """Return the bins of a column of physical values (see `cut_positions`).

    If there is a ``sample``, cuts come from the rows where it is true. Categories, and whether any value is missing,
    come from all rows.
    """
    missing = values.null_count()
    if feature.type.is_categorical:
        # By Python, in the order of code points, as polars': to wake its threads takes longer than to sort a few.
        distinct = category_values(values)
        categories = tuple(sorted(distinct.to_list()) if len(distinct) <= _FEW else distinct.sort().to_list())
        return Bins(Feature(feature.name, feature.type, categories), has_missing=missing > 0)
    sampled = values if sample is None else values.filter(sample)
    distinct, before = distinct_values(sampled)
    chosen = cut_positions(before, len(sampled) - sampled.null_count(), max_bin - (missing > 0))
    below = tuple(distinct.gather(chosen - 1).to_list()) if feature.type.is_float else ()
    return Bins(feature, tuple(distinct.gather(chosen).to_list()), missing > 0, below)


def category_values(values: pl.Series) -> pl.Series:
    """Return the distinct values of a column of categories, in any order; -0.0 is 0.0."""
    present = values.drop_nulls()
    return (present + 0.0 if present.dtype.is_float() else present).unique()


def rank_column(
    feature: Feature, values: pl.Series
) -> tuple[Bins, pl.Series, np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    """Return a column's bins without cuts, its distinct present values in ascending order, and the rows' ranks.

    A rank, uint32, is the index of the value among the distinct values; missing values have the number of them. Of a
    categorical feature the ranks are the codes of its categories, and no distinct values are returned.
    """
    edges: Sequence[Physical]
    if feature.type.is_categorical:
        bins = propose_bins(feature, values, max_bin=2)
        distinct, edges, missing = pl.Series(dtype=pl.String), bins.feature.categories, bins.missing
    else:
        bins = Bins(feature, has_missing=values.null_count() > 0)
        distinct, _ = distinct_values(values)
        edges, missing = distinct[1:].to_list(), len(distinct)
    ranks = values.to_frame("x").select(code_expr(pl.col("x"), feature.type, edges, missing)).to_series()
    return bins, distinct, ranks.to_numpy()

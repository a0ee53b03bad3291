"""Cuts and codes of one column in an array, by kernels; what kernels can't read goes through polars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning import Bins
from frameboost.binning_kernels import bin_values, cut_starts
from frameboost.columns import code_expr
from frameboost.schema import Feature
from frameboost.types import Physical

__all__ = ["Codes", "bin_column", "is_in_numpy", "padded", "propose_by_sort", "rank_by_sort"]

Codes = npt.NDArray[np.unsignedinteger]


def is_in_numpy(values: pl.Series) -> bool:
    """Whether a column of physical values is an array of the same numbers: NULL can only be said among floats."""
    if values.dtype in (pl.Int128, pl.UInt128, pl.String):
        return False
    return values.dtype.is_float() or values.null_count() == 0


def propose_by_sort(feature: Feature, values: pl.Series, max_bin: int, sample: pl.Series | None = None) -> Bins:
    """Do as `frameboost.columns.propose_bins` does, for a numeric column that `is_in_numpy`."""
    has_missing = values.null_count() > 0
    looked_at = values if sample is None else values.filter(sample)
    ordered = np.sort(looked_at.drop_nulls().to_numpy())
    cuts = ordered[cut_starts(ordered, max_bin - has_missing)]
    if cuts.dtype.kind == "f":
        cuts = cuts + cuts.dtype.type(0)  # -0.0 and 0.0 are one value; write it as 0.0
    return Bins(feature, tuple(cuts.tolist()), has_missing=has_missing)


def rank_by_sort(
    feature: Feature,
    values: pl.Series,
    ranks: npt.NDArray[np.uint32],
    sorted_rows: npt.NDArray[np.uint32],
) -> tuple[Bins, pl.Series]:
    """Do as `frameboost.columns.rank_column` does, for a numeric column that `is_in_numpy`.

    Writes each row's rank to ``ranks``, and to ``sorted_rows`` the rows, the missing first, then by ascending value;
    returns the bins, without cuts, and the distinct values.
    """
    array = values.to_numpy()
    order = np.argsort(array)  # NaN last
    n_missing = values.null_count()
    present, absent = np.split(order, [len(order) - n_missing])
    ordered = array[present]
    is_new = np.append(np.full(min(len(ordered), 1), fill_value=True), ordered[1:] != ordered[:-1])
    distinct = ordered[is_new]
    if distinct.dtype.kind == "f":
        distinct = distinct + distinct.dtype.type(0)  # -0.0 and 0.0 are one value
    ranks[present] = np.cumsum(is_new, dtype=np.uint32) - 1
    ranks[absent] = len(distinct)
    sorted_rows[:n_missing], sorted_rows[n_missing:] = absent, present
    return Bins(feature, has_missing=n_missing > 0), pl.Series(values.name, distinct, dtype=values.dtype)


def bin_column(bins: Bins, values: pl.Series, codes: Codes) -> None:
    """Write the codes of a column of physical values to ``codes``."""
    feature = bins.feature
    if feature.type.is_categorical or not is_in_numpy(values):
        expr = code_expr(pl.col(values.name), feature.type, feature.categories or bins.cuts, bins.missing)
        codes[:] = values.to_frame().select(expr).to_series().to_numpy()
        return
    array = values.to_numpy()
    bin_values(array, padded(bins.cuts, array.dtype), len(bins.cuts), bins.missing, 0, len(array), codes)


def padded(cuts: Sequence[Physical], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return ascending cuts as `frameboost.binning_kernels.bin_values` takes them."""
    largest = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    edges = np.full((1 << len(cuts).bit_length()) - 1, largest, dtype=dtype)
    edges[: len(cuts)] = cuts
    return edges

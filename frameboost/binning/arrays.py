"""Cuts, codes and sorted rows of one column, by kernels over its numpy array.

Columns that have no such array (strings, wide integers, integers with NULL) go through `frameboost.binning.codes`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, gaps_at, gaps_of_distinct, thresholds_between
from frameboost.binning.codes import (
    code_expr,
    count_distinct,
    cut_targets,
    propose_bins,
    rank_column,
    with_one_zero,
)
from frameboost.runtime.intrinsics import AHEAD, add_pair, prefetch
from frameboost.runtime.kernel import kernel, read_only
from frameboost.runtime.workers import RowNumbers
from frameboost.schema.types import Feature, Physical, float32_at_least

__all__ = [
    "MIN_IN_CELLS",
    "SAMPLE_SIZE",
    "Codes",
    "RareValues",
    "add_codes",
    "bin_array",
    "bin_column",
    "bin_entries",
    "bin_rare_values",
    "bin_together",
    "bin_values",
    "count_cells",
    "cut_starts",
    "frequent_value",
    "gaps_beside",
    "gaps_by_cells",
    "indices_by_type",
    "interleave",
    "is_in_numpy",
    "padded",
    "propose_column",
    "rare_values",
    "rows_of_cells",
    "sort_column",
    "take_codes",
    "write_cells",
]

Codes = npt.NDArray[np.unsignedinteger]

# The number of values by which a column is judged to be mostly one value.
SAMPLE_SIZE = 1 << 10
# The number of values by which most others are told apart from those.
_FIRST_SAMPLE = 1 << 6
# The maximum values to code in numpy: 8,192 take 0.5 ms instead of 0.1, and the kernel takes 0.8 s to compile.
_MAX_IN_NUMPY = 1 << 13
# Rows that are transposed at once, which stay in the L2 cache.
_ROWS_AT_ONCE = 1 << 14
# The largest range of integers of which each is counted.
_MAX_COUNTED = 1 << 16


def is_in_numpy(feature: Feature, values: pl.Series) -> bool:
    """Whether numpy holds a column of physical values unchanged; numpy's integers have no NULL."""
    if feature.type.is_categorical or values.dtype in (pl.Int128, pl.UInt128, pl.String):
        return False
    return values.dtype.is_float() or values.null_count() == 0


class RareValues(NamedTuple):
    """The most frequent value of a column; the rows with other or missing values, uint32 ascending; their values."""

    common: Any
    rows: npt.NDArray[np.uint32]
    values: npt.NDArray[Any]


def rare_values(feature: Feature, values: pl.Series) -> RareValues | None:
    """Return the rare values of a column of physical values, None if no value is frequent (see `frequent_value`)."""
    if not is_in_numpy(feature, values):
        return None
    array = values.to_numpy()
    common = frequent_value(array)
    if common is None:
        return None
    rows = np.flatnonzero(array != common).astype(np.uint32)
    return RareValues(common, rows, array[rows])


def propose_column(
    feature: Feature,
    values: pl.Series,
    max_bin: int,
    sample: pl.Series | None = None,
    rare: RareValues | None = None,
    room: npt.NDArray[Any] | None = None,
) -> Bins:
    """Propose bins like `frameboost.binning.codes.propose_bins`, by a kernel if possible.

    ``rare`` are the column's `rare_values` if known and there is no sample; ``room`` is scratch space of 8 bytes per
    row for sorting.
    """
    if not is_in_numpy(feature, values):
        return propose_bins(feature, values, max_bin, sample)
    has_missing = values.null_count() > 0
    if rare is not None:
        rest = rare.values[rare.values == rare.values] if has_missing else rare.values
        gaps = gaps_beside(rest, rare.common, len(values) - len(rare.rows), max_bin - has_missing)
        return Bins.of_gaps(feature, gaps, has_missing=has_missing)
    sampled = values if sample is None else values.filter(sample)
    array = (sampled.drop_nulls() if has_missing else sampled).to_numpy()
    common = frequent_value(array)
    if common is not None:
        rest = array[np.flatnonzero(array != common)]  # faster than by the mask
        gaps = gaps_beside(rest, common, len(array) - len(rest), max_bin - has_missing)
    else:
        gaps = _gaps(array, max_bin - has_missing, room)
    return Bins.of_gaps(feature, gaps, has_missing=has_missing)


def bin_together(
    features: Sequence[Feature], values: npt.NDArray[np.floating[Any]], max_bin: int
) -> list[tuple[Bins, Codes]]:
    """Return the bins of several columns of floats, (columns, rows), with thresholds, and the codes of the values.

    They are those of `propose_column` and `with_thresholds`. NaN is missing. A call for each column takes longer than
    the work of a few rows.
    """
    order = np.argsort(values, axis=1)  # NaN last
    ordered = with_one_zero(np.take_along_axis(values, order, axis=1))
    is_missing = np.isnan(values)
    has_missing = is_missing.any(axis=1)
    n_present, max_bins = values.shape[1] - is_missing.sum(axis=1), max_bin - has_missing
    # Whether a bin starts at a position; at first at each distinct value but the lowest.
    starts = np.zeros(values.shape, np.bool_)
    starts[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]) & (np.arange(1, values.shape[1]) < n_present[:, None])
    many = np.flatnonzero(starts.sum(axis=1) >= max_bins)
    starts[many] = _starts_at_targets(starts[many], n_present[many], max_bins[many])
    n_cuts = starts.sum(axis=1)
    codes: Codes = np.empty(values.shape, np.min_scalar_type(int(n_cuts.max(initial=0)) + 1))
    np.put_along_axis(codes, order, np.cumsum(starts, axis=1, dtype=codes.dtype), axis=1)
    codes = np.where(is_missing, (n_cuts + 1).astype(codes.dtype)[:, None], codes)
    gaps = gaps_at(ordered.ravel(), np.flatnonzero(starts))
    return list(zip(_bins_at(features, gaps, n_cuts, has_missing), codes, strict=True))


def bin_entries(
    features: Sequence[Feature], entries: Sequence[npt.NDArray[np.floating[Any]]], n_rows: int
) -> list[tuple[Bins, Codes]]:
    """Return the bins of sparse columns of floats, by the entries of each, and the codes of the entries.

    They are those of `bin_together` for columns of fewer values than bins: each distinct value is a bin. Rows without
    an entry are 0. NaN is missing.
    """
    sizes, number = np.array([*map(len, entries)], np.int64), np.arange(len(entries))
    with_zeros = number[sizes < n_rows]
    column = np.concatenate([np.repeat(number, sizes), with_zeros])
    values = np.concatenate([*entries, np.zeros(len(with_zeros), entries[0].dtype)])
    order = np.lexsort((values, column))  # NaN last
    column, ordered = column[order], with_one_zero(values[order])
    is_missing, is_cut = np.isnan(ordered), np.zeros(len(order), np.bool_)
    is_cut[1:] = (column[1:] == column[:-1]) & (ordered[1:] != ordered[:-1]) & ~is_missing[1:]
    n_cuts, n_missing = (np.bincount(column[chosen], minlength=len(entries)) for chosen in (is_cut, is_missing))
    codes: Codes = np.empty(len(order), np.min_scalar_type(int(n_cuts.max()) + 1))
    cuts_before = np.cumsum(n_cuts) - n_cuts
    codes[order] = np.where(is_missing, n_cuts[column] + 1, np.cumsum(is_cut) - cuts_before[column])
    gaps, ends = gaps_at(ordered, np.flatnonzero(is_cut)), np.cumsum(sizes).tolist()
    of_columns = [codes[end - size : end] for size, end in zip(sizes.tolist(), ends, strict=True)]
    return list(zip(_bins_at(features, gaps, n_cuts, n_missing > 0), of_columns, strict=True))


def _bins_at(
    features: Sequence[Feature],
    gaps: npt.NDArray[Any],
    n_cuts: npt.NDArray[np.int64],
    has_missing: npt.NDArray[np.bool_],
) -> list[Bins]:
    """Return the bins of columns of floats, with a threshold in each gap, column after column."""
    thresholds = iter(thresholds_between(*gaps).tolist())
    of_columns = zip(features, n_cuts.tolist(), has_missing.tolist(), strict=True)
    return [Bins(feature, tuple(islice(thresholds, count)), is_any) for feature, count, is_any in of_columns]


def _starts_at_targets(
    starts: npt.NDArray[np.bool_], n_present: npt.NDArray[np.int64], max_bins: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return where bins start (see `cut_starts`) from where distinct values do, both (columns, rows)."""
    n_rows = starts.shape[1]
    due = cut_targets(n_present[:, None], max_bins[:, None])
    positions = np.where(starts, np.arange(n_rows), n_rows)
    following = np.minimum.accumulate(positions[:, ::-1], axis=1)[:, ::-1]  # the next start, from each position on
    at = np.where(due < n_present[:, None], np.take_along_axis(following, np.minimum(due, n_rows - 1), axis=1), n_rows)
    chosen = np.zeros((len(starts), n_rows + 1), np.bool_)
    np.put_along_axis(chosen, at, values=True, axis=1)
    return chosen[:, :-1]


def _gaps(array: npt.NDArray[Any], max_bin: int, room: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the gaps at the cuts of numbers (see `gaps_at`) by the fastest method."""
    gaps = _gaps_of_counts(array, max_bin)
    if gaps is None:
        gaps = gaps_by_cells(array, None, max_bin, room)
    return _gaps_in_order(array, max_bin, room) if gaps is None else gaps


def _gaps_of_counts(array: npt.NDArray[Any], max_bin: int) -> npt.NDArray[Any] | None:
    """Return the gaps at the cuts of integers in a narrow range by counting; None for others."""
    if array.dtype.kind not in "iu" or not len(array):
        return None
    lowest = array.min()
    if int(array.max()) - int(lowest) > min(len(array), _MAX_COUNTED):
        return None
    # Modulo 2^bits, so no difference overflows.
    counts = np.bincount((array - lowest).view(f"u{array.itemsize}").astype(np.int64))
    distinct = np.flatnonzero(counts)
    gaps: npt.NDArray[Any] = gaps_of_distinct(distinct, counts[distinct], max_bin).astype(array.dtype) + lowest
    return gaps


def _gaps_in_order(array: npt.NDArray[Any], max_bin: int, room: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return the gaps at the cuts of numbers by sorting them."""
    ordered = np.empty_like(array) if room is None else room.view(array.dtype)[: len(array)]
    ordered[:] = array
    ordered.sort()
    return with_one_zero(gaps_at(ordered, cut_starts(ordered, max_bin)))


def cut_starts(ordered: npt.NDArray[Any], max_bin: int) -> npt.NDArray[np.int64]:
    """Return the positions of the cuts among sorted numbers (see `frameboost.binning.bins.cut_positions`)."""
    is_new = ordered[1:] != ordered[:-1]
    if np.count_nonzero(is_new) < max_bin:  # each value is a bin
        return np.flatnonzero(is_new) + 1
    due = cut_targets(len(ordered), max_bin)
    starts = np.where(is_new[due - 1], due, np.searchsorted(ordered, ordered[due], side="right"))  # ascending
    return starts[(np.diff(starts, prepend=0) > 0) & (starts < len(ordered))]


def frequent_value(array: npt.NDArray[Any]) -> Any:
    """Return the value of three quarters of the numbers, from an evenly spaced sample; None if there is none.

    A value that half of them have is the median. Most columns without such a value show that in a few numbers.
    """
    if len(array) < SAMPLE_SIZE:
        return None
    for size, share in ((_FIRST_SAMPLE, 0.5), (SAMPLE_SIZE, 0.75)):
        sampled = np.sort(array[:: len(array) // size])
        median = sampled[len(sampled) // 2]
        if np.count_nonzero(sampled == median) < share * len(sampled):
            return None
    return median


def gaps_beside(rest: npt.NDArray[Any], common: Any, n_common: int, max_bin: int) -> npt.NDArray[Any]:
    """Return the gaps at the cuts of the numbers ``rest`` and ``n_common`` times ``common``, sorting only ``rest``."""
    if _are_equal(rest):
        distinct, counts = rest[:1], np.array([len(rest)])
    else:
        distinct, counts = np.unique(rest, return_counts=True)
    at = np.searchsorted(distinct, common)
    if n_common and (at == len(distinct) or distinct[at] != common):
        # `numpy.insert` takes as long as all else.
        inserted = np.array([common], distinct.dtype), np.zeros(1, counts.dtype)
        distinct, counts = (
            np.concatenate([each[:at], new, each[at:]]) for each, new in zip((distinct, counts), inserted, strict=True)
        )
    counts[at : at + 1] += n_common
    return gaps_of_distinct(with_one_zero(distinct), counts, max_bin)


def _are_equal(values: npt.NDArray[Any]) -> bool:
    """Return whether all values are equal, like those beside the zeros of a column of 0 and 1."""
    return len(values) > 0 and bool((values == values[0]).all())


def sort_column(
    feature: Feature,
    values: pl.Series,
    ranks: npt.NDArray[np.uint32],
    sorted_rows: npt.NDArray[np.uint32],
) -> tuple[Bins, pl.Series]:
    """Rank a column as `frameboost.binning.codes.rank_column` does, and sort its rows.

    Writes the rows' ranks to ``ranks``, and the row numbers to ``sorted_rows``, missing values first, then by ascending
    value. Returns the bins, without cuts, and the distinct values. The column 7, NULL, 5, 7 has the distinct values 5
    and 7, the ranks 1, 2, 0, 1 and the sorted rows 1, 2, 0, 3.
    """
    if not is_in_numpy(feature, values):
        bins, distinct_values, ranks[:] = rank_column(feature, values)
        missing = bins.missing if feature.type.is_categorical else len(distinct_values)
        # Modulo (missing + 1), adding 1 moves the rank of missing values from the end to the front.
        sorted_rows[:] = np.argsort((ranks + 1) % (missing + 1))
        return bins, distinct_values
    array = values.to_numpy()
    order = np.argsort(array)  # NaN last
    n_missing = values.null_count()
    present, absent = np.split(order, [len(order) - n_missing])
    ordered = array[present]
    is_new = np.append(np.full(min(len(ordered), 1), fill_value=True), ordered[1:] != ordered[:-1])
    distinct = with_one_zero(ordered[is_new])
    ranks[present] = np.cumsum(is_new, dtype=np.uint32) - 1
    ranks[absent] = len(distinct)
    sorted_rows[:n_missing], sorted_rows[n_missing:] = absent, present
    return Bins(feature, has_missing=n_missing > 0), pl.Series(values.name, distinct, dtype=values.dtype)


def indices_by_type(
    bins: Sequence[Bins], without: Collection[int] = (), least: type[np.unsignedinteger[Any]] = np.uint8
) -> list[tuple[np.dtype[Any], npt.NDArray[np.int64]]]:
    """Return the types of codes, and for each type the index of every feature among those of the type, or -1.

    A type is the smallest unsigned one for a feature's codes. Two features with 256 bins and one with 300 categories
    between them have the types uint8, with the indices 0, -1, 1, and uint16, with -1, 0, -1. Features ``without`` have
    no index. No type is smaller than ``least``.
    """
    types = [
        None if i in without else np.promote_types(np.min_scalar_type(each.largest_code), least)
        for i, each in enumerate(bins)
    ]
    indices = []
    for dtype in dict.fromkeys(filter(None, types)):
        is_member = np.array([of_feature == dtype for of_feature in types])
        indices.append((dtype, np.where(is_member, np.cumsum(is_member) - 1, -1)))
    return indices


def bin_rare_values(bins: Bins, rare: RareValues) -> Codes:
    """Return the codes of the rare values of a column."""
    are_equal = _are_equal(rare.values)
    values = rare.values[:1] if are_equal else rare.values
    codes: Codes = np.empty(len(values), np.min_scalar_type(bins.largest_code))
    bin_array(bins, values, codes)
    return np.full(len(rare.values), codes[0]) if are_equal else codes


def bin_column(bins: Bins, values: pl.Series, codes: Codes) -> None:
    """Write the codes of a column of physical values to ``codes``."""
    feature = bins.feature
    if not is_in_numpy(feature, values):
        expr = code_expr(pl.col(values.name), feature.type, feature.categories or bins.cuts, bins.missing)
        codes[:] = values.to_frame().select(expr).to_series().to_numpy()
        return
    bin_array(bins, values.to_numpy(), codes)


def bin_array(bins: Bins, array: npt.NDArray[Any], codes: Codes) -> None:
    """Write the codes of the numbers of a column, with NaN as missing, to ``codes``."""
    if len(array) <= _MAX_IN_NUMPY:
        edges = _edges(bins.cuts, array.dtype)
        codes[:] = np.where(array == array, np.searchsorted(edges, array, side="right"), bins.missing)
        return
    bin_values(read_only(array), padded(bins.cuts, array.dtype), len(bins.cuts), bins.missing, 0, len(array), codes)


def interleave(columns: Codes, rows: Codes, at: int, first: int, last: int) -> None:
    """Transpose the rows ``first`` to ``last - 1`` of ``columns`` (features, rows) into ``rows`` (rows, features).

    The first of the columns goes to the feature ``at`` of ``rows``.
    """
    for start in range(first, last, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, last)
        for feature, column in enumerate(columns, at):
            rows[start:stop, feature] = column[start:stop]


def padded(cuts: Sequence[Physical], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return ascending cuts, padded to a length of 2^k - 1 for `frameboost.binning.arrays.bin_values`."""
    largest = np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    edges = np.full((1 << len(cuts).bit_length()) - 1, largest, dtype=dtype)
    edges[: len(cuts)] = _edges(cuts, dtype)
    return edges


def _edges(cuts: Sequence[Physical], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return cuts as numbers of a type that divide its numbers alike."""
    return float32_at_least(cuts) if dtype == np.float32 else np.array(cuts, dtype)


# --- cuts of many numbers without sorting them all: by counts in cells of equal width ---------------------------------


MIN_IN_CELLS = 1 << 15  # with fewer values, to sort takes no longer
_CELLS = 1 << 16
# The values that the range is estimated from, evenly spaced, without a few at each end, which may be outliers.
_CELL_SAMPLE, _OUTLYING = 1 << 12, 4
# The largest share of the values that may have to be sorted.
_MAX_SORTED = 0.5


def gaps_by_cells(
    values: npt.NDArray[Any],
    counts: npt.NDArray[np.int64] | None,
    max_bin: int,
    room: npt.NDArray[Any] | None = None,
) -> npt.NDArray[Any] | None:
    """Return the gaps at the cuts of numbers without missing ones (see `frameboost.binning.bins`).

    A cut is the lowest value with a given number of rows below it, so only the values of cells that may contain a cut
    are sorted. Example: the cells [.., 3), [3, 7), [7, 9) and [9, ..] have 4, 5, 0 and 6 rows, and a cut has 6 rows
    below: it is in [3, 7), or, if less than 6 rows are below the highest value there, it is the lowest value from 9 on.
    In either case the preceding value was sorted, too, as at most 4 rows are below the lowest value of [3, 7).

    Parameters
    ----------
    values
        The numbers.
    counts
        The count of each; None for 1.
    max_bin
        The largest number of bins.
    room
        Scratch space of 4 bytes or more for each value.

    Returns
    -------
    array or None
        None if all should be sorted: they are few, have few values, or are mostly in a few cells.
    """
    if len(values) < MIN_IN_CELLS or values.dtype.kind not in "fiu":
        return None
    sampled = np.sort(values[:: max(1, len(values) // _CELL_SAMPLE)])
    low = float(sampled[_OUTLYING])
    width = (float(sampled[-_OUTLYING - 1]) - low) / _CELLS
    if len(np.unique(sampled)) <= max_bin or not 0.0 < width < np.inf or 1.0 / width == np.inf:
        return None
    from frameboost.binning.arrays import count_cells, rows_of_cells, write_cells

    fixed, per_width, totals = read_only(values), 1.0 / width, np.zeros(_CELLS, np.int64)
    count_cells(fixed, counts, low, per_width, totals)
    ends = np.cumsum(totals)
    targets = cut_targets(int(ends[-1]), max_bin)
    may_have_cut = _may_have_cuts(totals, ends, targets)
    if totals[may_have_cut].sum() > _MAX_SORTED * ends[-1]:
        return None
    rows = np.empty(len(values), np.uint32) if room is None else room.view(np.uint32)[: len(values)]
    sorted_rows = rows[: rows_of_cells(fixed, low, per_width, may_have_cut, rows)]
    distinct, counted = count_distinct(values[sorted_rows], None if counts is None else counts[sorted_rows])
    cells = np.empty(len(distinct), np.uint32)
    write_cells(read_only(distinct), low, per_width, _CELLS, cells)
    # The rows below a value: those of the cells below it that were not sorted, and the others.
    below = np.cumsum(np.where(may_have_cut, 0, totals))[cells] + np.cumsum(counted) - counted
    cut_indices = np.unique(np.searchsorted(below, targets))
    return with_one_zero(gaps_at(distinct, cut_indices[cut_indices < len(distinct)]))


def _may_have_cuts(
    totals: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], targets: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which cells may contain a cut: for each target the cell with that row, and the next non-empty one."""
    holding, filled = np.searchsorted(ends, targets), np.flatnonzero(totals)
    behind = filled[np.minimum(np.searchsorted(filled, holding, side="right"), len(filled) - 1)]
    may_have_cut = np.zeros(len(totals), np.bool_)
    may_have_cut[holding] = may_have_cut[behind] = True
    return may_have_cut


# --- kernels ----------------------------------------------------------------------------------------------------------


# Values that go through a binary search together, or whose cells are computed together. Each step is a loop over the
# block without a branch, which compiles to vector instructions.
_BLOCK = 256
# Cuts that all values are compared with before the search, 2^k - 1.
_PIVOTS = 7


@kernel
def bin_values(values, edges, n_cuts, missing, first, last, codes):  # type: ignore[no-untyped-def]
    """Write the codes of the rows ``first`` to ``last - 1``: the number of cuts at or below each value.

    The binary search of the value 7 among the cuts 2, 5, 9: a step of 2 finds 5 ≤ 7 and goes to position 2, a step of 1
    finds 9 > 7 and stays. The code is 2. Instead of the first three steps, which read one cut each, the
    value is compared with all seven cuts that these may read.

    Parameters
    ----------
    values
        (rows,) of any numeric type; NaN is missing.
    edges
        The cuts in ascending order, padded by the largest number of their type to a length of 2^k - 1.
    n_cuts
        The number of cuts.
    missing
        The code of missing values.
    codes
        uint8, uint16 or uint32 (last - first,), written.
    """
    position = np.empty(_BLOCK, dtype=np.uint32)  # unsigned, as numba checks signed indices for being negative
    n_pivots = min(len(edges), _PIVOTS)
    apart = (len(edges) + 1) // (n_pivots + 1)
    for start in range(first, last, _BLOCK):
        block = values[start : min(start + _BLOCK, last)]
        for i in range(len(block)):
            position[i] = 0
        for pivot in range(n_pivots):
            edge = edges[(pivot + 1) * apart - 1]
            for i in range(len(block)):
                position[i] += np.uint32(edge <= block[i])
        for i in range(len(block)):
            position[i] *= np.uint32(apart)
        step = apart >> 1
        while step > 0:
            ahead = edges[step - 1 :]
            for i in range(len(block)):
                position[i] += np.uint32(step) if ahead[position[i]] <= block[i] else np.uint32(0)
            step >>= 1
        for i in range(len(block)):
            is_present = block[i] == block[i]
            codes[start - first + i] = min(np.int64(position[i]), n_cuts) if is_present else missing


@kernel
def take_codes(rows, order, at, out, first, last):  # type: ignore[no-untyped-def]
    """Copy the codes of reordered rows to ``out`` (rows, some features), for its rows ``first`` to ``last - 1``.

    They are those of the features from ``at`` on of ``rows`` (rows, features); ``order`` has the row numbers (uint32).
    """
    all_codes, copies = rows.ravel(), out.ravel()
    n_features, width, last = np.uint64(rows.shape[1]), np.uint64(out.shape[1]), np.uint64(last)
    for i in range(np.uint64(first), last):
        if i + AHEAD < last:
            prefetch(all_codes, np.uint64(order[i + AHEAD]) * n_features + np.uint64(at))
        start = np.uint64(order[i]) * n_features + np.uint64(at)
        for k in range(width):
            copies[i * width + k] = all_codes[start + k]


# --- cells of equal width: how many values are in each, and which values are in some of them --------------------------


@kernel(error_model="numpy")
def write_cells(block, low, per_width, n_cells, cells):  # type: ignore[no-untyped-def]
    """Write the cell of each value to ``cells`` (uint32): the first of those below ``low``, the last of the largest."""
    last = np.float64(n_cells - 1)
    for i in range(len(block)):
        index = (np.float64(block[i]) - low) * per_width
        cells[i] = np.uint32(min(max(index, 0.0), last))


@kernel
def count_cells(values, weights, low, per_width, counts):  # type: ignore[no-untyped-def]
    """Add the weights (int64, or None: 1 each) of the values in each cell to ``counts``, int64 (cells,).

    No value is missing. A cell has a width of 1 / ``per_width``, and the first one starts at ``low``.
    """
    cells = np.empty(_BLOCK, dtype=np.uint32)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        write_cells(block, low, per_width, len(counts), cells)
        for i in range(len(block)):
            if weights is None:
                counts[cells[i]] += 1
            else:
                counts[cells[i]] += weights[start + i]


@kernel
def rows_of_cells(values, low, per_width, may_have_cut, rows):  # type: ignore[no-untyped-def]
    """Write the rows of the cells that may have a cut to ``rows`` (uint32, with room for all); return their number."""
    cells, n = np.empty(_BLOCK, dtype=np.uint32), np.uint64(0)
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        write_cells(block, low, per_width, len(may_have_cut), cells)
        for i in range(len(block)):
            rows[n] = start + i  # overwritten by the next row if its cell has no cut: no branch
            n += np.uint64(may_have_cut[cells[i]])
    return n


# --- sums by code of the rows that a query reads (see `frameboost.engines.query_costs`) -------------------------------


_ONE = np.uint64(1)


def add_codes(
    indices: RowNumbers, codes: Codes, first_slot: int, g: npt.NDArray[Any], h: npt.NDArray[Any], sums: npt.NDArray[Any]
) -> None:
    """Add g and h of each row to the slot ``first_slot`` + its code of ``sums[index]``: (histograms, slots, 2)."""
    _add_codes(read_only(indices), read_only(codes), first_slot, read_only(g), read_only(h), sums)


@kernel
def _add_codes(indices, codes, first_slot, g, h, sums):  # type: ignore[no-untyped-def]
    """Do it. Indices are unsigned: for a signed one numba checks at each access whether it counts from the end."""
    flat, width, first = sums.ravel(), np.uint64(sums.shape[1]), np.uint64(first_slot)
    for i in range(np.uint64(0), np.uint64(len(codes))):
        slot = np.uint64(indices[i]) * width + first + np.uint64(codes[i])
        add_pair(flat, slot << _ONE, g[i], h[i])

"""Bins of polars columns, and their codes, by polars expressions, for every column type.

`frameboost.binning.arrays` does the same by kernels for the types that numpy has.

The cuts of a column in several shards come from counts of its values (`ValueCounts`). Each shard first sends a
*summary*: some of its distinct values, with the exact number of rows below each. Between two summary points the number
of rows below a value is known within bounds, which determine an interval for each cut. Then only the values in these
intervals are sent, so that cuts equal those of a single shard, and few values are transferred.

Two shards hold 1, 2, 3, 4, 5, 6 and 4, 5, 6, 7, 8, 9, and each summarises by every second value and its last:

>>> first = ValueCounts(np.arange(1, 7), np.ones(6, dtype=np.int64))
>>> second = ValueCounts(np.arange(4, 10), np.ones(6, dtype=np.int64))
>>> summaries = [first.summary(4), second.summary(4)]
>>> summaries[0].values.tolist(), summaries[0].below.tolist()
([1, 3, 5, 6], [0, 2, 4, 5])

In two bins of 12 rows the cut is the lowest value with 6 rows below it. Below 6 are at least 5 + 1 rows, below 4 at
most 4 + 0, so it lies in (4, 6]. The shards send 5 and 6, below which there are 4 + 1 and 5 + 2 rows: 6 is the cut, and
5 the value before it.

>>> (interval,) = cut_intervals(summaries, 12, 2)
>>> interval
Interval(after=4, last=6, targets=(6,))
>>> gaps_within([interval], [first.within([interval]), second.within([interval])]).tolist()
[[5], [6]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, cut_positions, gaps_of_distinct, sample_condition
from frameboost.expressions.draws import RowPositions
from frameboost.schema.types import Feature, FeatureType, Physical

__all__ = [
    "Interval",
    "Summary",
    "ValueCounts",
    "Within",
    "category_values",
    "code_dtype",
    "code_expr",
    "count_distinct",
    "cut_intervals",
    "cut_targets",
    "distinct_values",
    "gaps_of_counts",
    "gaps_within",
    "in_numpy",
    "propose_bins",
    "rank_column",
    "sample_of",
    "with_one_zero",
]

_NOT_IN_NUMPY = (pl.Int128, pl.UInt128)
_FEW = 1_000


def code_dtype(bins: Bins) -> pl.DataType:
    """Return the smallest unsigned type for the codes of a feature."""
    if bins.largest_code <= 255:
        return pl.UInt8()
    return pl.UInt16() if bins.largest_code <= 65_535 else pl.UInt32()


def code_expr(
    values: pl.Expr, kind: FeatureType, edges: Sequence[Physical], missing: int, other: int | None = None,
    scored: FeatureType | None = None,
) -> pl.Expr:  # fmt: skip
    """Return the code of each physical value, UInt32; ``edges`` are cuts, or categories.

    A value outside the categories has the code ``other``, by default that of missing values. The values may have
    another type of the family than the categories, ``scored``.
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
    """Return the index of each value among the categories, null for other values."""
    if kind.name == "string":
        return values.cast(pl.Enum(list(map(str, categories))), strict=False).to_physical().cast(pl.UInt32)
    held = {code: scored.holding(kind, category) for code, category in enumerate(categories)}
    held = {code: value for code, value in held.items() if value is not None}
    known = pl.Series(list(held.values()), dtype=scored.physical_dtype)
    return values.replace_strict(known, pl.Series(list(held), dtype=pl.UInt32), default=None, return_dtype=pl.UInt32)


def sample_of(n_rows: int, positions: RowPositions | None = None, count: int | None = None) -> pl.Series | None:
    """Return a mask of the rows for proposing cuts, None for all rows.

    With ``positions`` and ``count``, the part of the mask for ``count`` of the ``n_rows`` rows, at these positions.
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
    """Return the mask of all rows as bits; a fit reads it several times."""
    return _mask(_positions(n_rows), sample)


def distinct_values(values: pl.Series) -> tuple[pl.Series, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return the distinct non-missing values in ascending order, and the number of non-missing rows below each."""
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
    """Return the numbers with -0.0 replaced by 0.0, as they are equal."""
    return values + values.dtype.type(0) if values.dtype.kind == "f" else values


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
    """Return the distinct values of a categorical column, in any order; -0.0 becomes 0.0."""
    present = values.drop_nulls()
    return (present + 0.0 if present.dtype.is_float() else present).unique()


def rank_column(
    feature: Feature, values: pl.Series
) -> tuple[Bins, pl.Series, np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    """Return a column's bins without cuts, its distinct values in ascending order, and the rows' ranks.

    A rank, uint32, is the index of a value among the distinct values, or their number for missing values. For a
    categorical feature, ranks are category codes, and no distinct values are returned.
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


# --- cuts of rows in several shards -----------------------------------------------------------------------------------


_Counts = npt.NDArray[np.int64]
_Values = npt.NDArray[Any]  # of a numeric type; of Python's integers where numpy's have too few bits


@dataclass(frozen=True, slots=True)
class Summary:
    """Some of a column's distinct values in ascending order, including the first and the last.

    Attributes
    ----------
    values
        The values.
    below
        The number of rows below each.
    n_rows
        Number of rows with any value.
    is_complete
        Whether these are all distinct values.
    """

    values: _Values
    below: _Counts
    n_rows: int
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """The values v with ``after`` < v ≤ ``last``; ``after`` is a value of the column.

    It contains a cut for each of ``targets``: the lowest value with that many rows below it.
    """

    after: Any
    last: Any
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """The distinct values in some disjoint intervals, ascending, with the number of rows of each.

    ``below`` has the number of rows below each interval.
    """

    values: _Values
    counts: _Counts
    below: _Counts


@dataclass(frozen=True)
class ValueCounts:
    """The distinct non-missing values of a column, ascending, with the number of rows of each."""

    values: _Values
    counts: _Counts

    @property
    def n_rows(self) -> int:
        """Number of rows with any value."""
        return int(self.counts.sum())

    def _below(self) -> _Counts:
        """Return the number of rows below each value, then the total."""
        return np.append(0, np.cumsum(self.counts))

    def summary(self, most: int) -> Summary:
        """Return about ``most`` evenly spaced values; all of them if there are fewer."""
        below, n = self._below()[:-1], len(self.values)
        if n <= most:
            return Summary(self.values, below, self.n_rows, is_complete=True)
        chosen = np.unique(np.append(np.arange(0, n, -(-n // (most - 1))), n - 1))
        return Summary(self.values[chosen], below[chosen], self.n_rows, is_complete=False)

    def within(self, intervals: Sequence[Interval]) -> Within:
        """Return the values in disjoint ascending intervals."""
        first, last = (
            np.searchsorted(self.values, np.array(ends, dtype=self.values.dtype), side="right")
            for ends in ([each.after for each in intervals], [each.last for each in intervals])
        )
        opened = np.zeros(len(self.values) + 1, dtype=np.int64)
        np.add.at(opened, first, 1)
        np.subtract.at(opened, last, 1)
        chosen = np.cumsum(opened[:-1]) > 0
        return Within(self.values[chosen], self.counts[chosen], self._below()[first])


def in_numpy(values: pl.Series) -> _Values:
    """Return physical values as an array; 128-bit integers, which numpy lacks, as Python integers."""
    if values.dtype in (pl.Int128, pl.UInt128):
        return np.array(values.to_list(), dtype=object)
    return values.to_numpy()


def gaps_of_counts(parts: Sequence[Summary], max_bin: int) -> _Values:
    """Return the gaps at the cuts from complete summaries, as `frameboost.binning.bins.cut_positions` finds them."""
    merged = _merged([(part.values, np.diff(np.append(part.below, part.n_rows))) for part in parts])
    return gaps_of_distinct(merged.values, merged.counts, max_bin)


def cut_intervals(summaries: Sequence[Summary], n_rows: int, max_bin: int) -> list[Interval]:
    """Return disjoint ascending intervals that contain the cuts of a column with more than ``max_bin`` values."""
    summaries = [summary for summary in summaries if summary.n_rows]
    points = np.unique(np.concatenate([summary.values for summary in summaries]))
    fewest, most = np.zeros(len(points), dtype=np.int64), np.zeros(len(points), dtype=np.int64)
    for summary in summaries:
        below = np.append(summary.below, summary.n_rows)
        after = np.searchsorted(summary.values, points, side="left")  # the first point that is not lower
        most += below[after]
        is_equal = np.append(summary.values, summary.values[-1:])[after] == points
        # Of the point before, the value itself lies below, too, at least once.
        fewest += np.where(is_equal | (after == len(summary.values)), below[after],
                           np.where(after > 0, below[np.maximum(after - 1, 0)] + 1, 0))  # fmt: skip
    targets = cut_targets(n_rows, max_bin)
    lasts = np.searchsorted(fewest, targets, side="left")
    afters = np.searchsorted(most, targets, side="left") - 1
    intervals: list[tuple[int, int, tuple[int, ...]]] = []  # in numbers of points
    for target, after, last in zip(targets.tolist(), afters.tolist(), lasts.tolist(), strict=True):
        if last == len(points):  # no value has this many rows below it
            break
        if intervals and after < intervals[-1][1]:
            intervals[-1] = intervals[-1][0], last, (*intervals[-1][2], target)
        else:
            intervals.append((after, last, (target,)))
    bounds = points.tolist()
    return [Interval(bounds[after], bounds[last], of_interval) for after, last, of_interval in intervals]


def gaps_within(intervals: Sequence[Interval], parts: Sequence[Within]) -> _Values:
    """Return the gaps at the cuts, from each shard's values within the intervals.

    The number of rows below a value increases over the intervals, so one search finds all targets.
    """
    merged = _merged([(part.values, part.counts) for part in parts])
    lasts = np.array([each.last for each in intervals], dtype=merged.values.dtype)
    interval = np.searchsorted(lasts, merged.values, side="left")  # of each value
    before = np.cumsum(merged.counts) - merged.counts
    first = np.searchsorted(interval, np.arange(len(intervals)), side="left")
    below_intervals = np.sum([part.below for part in parts], axis=0)
    below = before + (below_intervals - before[first])[interval]
    targets = np.concatenate([each.targets for each in intervals])
    at = np.unique(np.searchsorted(below, targets))
    # Before the lowest value of an interval is the value that the interval starts after.
    afters = np.array([each.after for each in intervals], dtype=merged.values.dtype)[interval[at]]
    is_lowest = at == first[interval[at]]
    return np.stack([np.where(is_lowest, afters, merged.values[at - 1]), merged.values[at]])


def cut_targets(n_rows: int | _Counts, max_bin: int | _Counts) -> _Counts:
    """Return the row counts at which cuts are due (see `cut_positions`); for several columns (columns, cuts).

    Of these the last ones of columns with a smaller ``max_bin`` than others are all rows, or more.

    Value v is a cut if ⌊below(v) · max_bin / n⌋ is greater than for the value before it (`cut_positions`): if it is the
    first with below(v) ≥ ⌈k · n / max_bin⌉ for some k.
    """
    k: _Counts = np.arange(1, np.max(max_bin, initial=1), dtype=np.int64)
    return -(-k * n_rows // max_bin)


def count_distinct(values: _Values, counts: _Counts | None = None) -> tuple[_Values, _Counts]:
    """Return the distinct values in ascending order, and the number of rows of each.

    Parameters
    ----------
    values
        Sortable values without missing ones.
    counts
        The count of each; by default 1.
    """
    if counts is None:
        ordered = np.sort(values)
    else:
        order = np.argsort(values)
        ordered = values[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, np.int64)
    if counts is None:
        return ordered[starts], np.diff(np.append(starts, len(ordered)))
    totals = np.add.reduceat(counts[order], starts) if len(starts) else np.empty(0, np.int64)
    return ordered[starts], totals


def _merged(parts: Sequence[tuple[_Values, _Counts]]) -> ValueCounts:
    values = np.concatenate([values for values, _ in parts])
    counts = np.concatenate([counts for _, counts in parts])
    return ValueCounts(*count_distinct(values, counts))

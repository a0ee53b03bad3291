"""Bins of a feature: the cuts between them, the proposal of cuts, and the layout of histograms.

A numeric feature with cuts c1 < c2 < ... has the bins x < c1, c1 ≤ x < c2, ..., numbered from 0. A categorical feature
has a bin for each category, numbered by code. The last bin is for missing values. The index of a value's bin is its
*code*.

Cuts are proposed once per fit (``hist``), or for each tree or node from the hessians of its rows (``approx``; Chen &
Guestrin 2016, sections 3.2 and 3.3). They are values of the data, never interpolated, so that every engine finds the
same ones. Float cuts then become thresholds between these values and the preceding ones (`with_thresholds`).

Example: eight rows in at most three bins. The distinct values 1, 2, 5, 9 have 0, 3, 4, 6 rows below them. An even split
of the ranks into three parts has boundaries at 8/3 and 16/3, so the value 2, which starts at rank 3, is the first in
the second part, and 9, which starts at rank 6, the first in the third:

>>> column = np.array([1, 1, 1, 2, 5, 5, 9, 9])
>>> values, before = np.unique(column, return_index=True)
>>> before.tolist(), cut_positions(before, total=8, max_bin=3).tolist()
([0, 3, 4, 6], [1, 3])
>>> cuts = values[[1, 3]]
>>> np.searchsorted(cuts, column, side="right").tolist()  # the codes
[0, 0, 0, 1, 1, 1, 2, 2]

A float threshold is the shortest decimal between two neighbouring values, so that converted copies of the data go the
same way. A float cut is a gap between the largest value below it and the lowest value from it on; every t with below <
t <= value divides these rows alike. The value itself is the worst choice: rounded to float32, or printed with 15
digits, it may become smaller and change sides. The threshold is the shortest decimal in the gap, and of several the one
nearest its middle:

>>> thresholds_between([3.17, 0.0, -1.25], [3.24, 4e-05, 17.5]).tolist()
[3.2, 2e-05, 0.0]

The gap is narrowed by rounding to float32, so that x < t has the same result for every number that equals x as float32.
3.2 is in the gap of 3.19 and 3.2, and 2.9999999 rounds to 3:

>>> thresholds_between([3.19, 2.9999999], [3.2, 3.3]).tolist()
[3.195, 3.1]

Whole numbers are exact, so they may be thresholds themselves, as in integer columns:

>>> thresholds_between([1.0, 28.0], [2.0, 30.0]).tolist()
[2.0, 30.0]

In a gap narrower than a step of float32, any number of the gap is used:

>>> thresholds_between([1.0], [1.000000001]).tolist()
[1.000000001]

The choice depends on the two numbers only, by IEEE 754 operations, so it is the same in every engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.checks.messages import shown
from frameboost.schema.types import Feature, Physical

__all__ = [
    "SAMPLE_LIMIT",
    "Bins",
    "NodeBins",
    "SlotLayout",
    "codes_by_rank",
    "collect_bins",
    "cut_positions",
    "gaps_at",
    "gaps_of_distinct",
    "sample_condition",
    "thresholds_between",
    "thresholds_of_gaps",
    "weighted_cut_positions",
    "weighted_cuts_of",
    "with_thresholds",
]

# Cuts of more rows come from a sample. Quantiles of a sample of four million are off by less than a thousandth of the
# ranks, far less than a bin of 1/256; sorting more rows costs time and, in a database, memory.
SAMPLE_LIMIT = 1 << 22

# 2^32 / golden ratio: multiples of it modulo 2^32 spread evenly (Knuth, TAOCP 3, section 6.4).
_GOLDEN = 2_654_435_769


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of one feature.

    Attributes
    ----------
    feature
        The feature.
    cuts
        The starts of all bins but the first; empty for a categorical feature.
    has_missing
        Whether any value is missing.
    below
        The largest value below each cut of a float feature, while cuts are values of the data; otherwise empty.
    """

    feature: Feature
    cuts: tuple[Physical, ...] = ()
    has_missing: bool = True
    below: tuple[Physical, ...] = ()

    @classmethod
    def of_gaps(cls, feature: Feature, gaps: npt.NDArray[Any], *, has_missing: bool) -> Bins:
        """Return the bins of a feature from its `gaps_at` the cuts."""
        below, cuts = map(tuple, gaps.tolist())
        return cls(feature, cuts, has_missing, below if feature.type.is_float else ())

    @property
    def largest_code(self) -> int:
        """The largest code that occurs in training."""
        return self.count if self.has_missing else self.count - 1

    @property
    def count(self) -> int:
        """The number of bins of non-missing values; also the code of the missing bin."""
        return len(self.feature.categories) if self.feature.type.is_categorical else len(self.cuts) + 1

    @property
    def missing(self) -> int:
        """The code of the bin for missing values."""
        return self.count

    def bin_of(self, threshold: Physical | None) -> int:
        """Return the first bin that starts at ``threshold`` or above, the index past the last one for None.

        Raises
        ------
        ValueError
            If the threshold is not a cut.

        >>> from frameboost.schema.types import FeatureType
        >>> bins = Bins(Feature("x", FeatureType("int64")), cuts=(2, 9))
        >>> bins.bin_of(2), bins.bin_of(9), bins.bin_of(None)
        (1, 2, 3)
        """
        if threshold is None:
            return self.count
        position = bisect_left(self.cuts, threshold)
        if self.cuts[position : position + 1] != (threshold,):
            raise ValueError(f"{shown(threshold)} is not a cut of feature {shown(self.feature.name)}")
        return position + 1

    def threshold_of(self, bin_: int) -> Physical | None:
        """Return the cut at the start of a bin other than the first, None past the last one (see `bin_of`)."""
        return self.cuts[bin_ - 1] if bin_ <= len(self.cuts) else None


class SlotLayout:
    """The layout of a histogram: the bins of all features in one row of slots.

    Feature f has the slots ``offsets[f] : offsets[f + 1]``, the last one for missing values. For two features with two
    cuts and one cut, slots 0 to 2 are the bins of the first, 3 its missing bin, 4 and 5 the bins of the second, and 6
    its missing bin: ``offsets`` is 0, 4, 7.
    """

    def __init__(self, bins: Sequence[Bins]) -> None:
        self.bins = tuple(bins)
        self.offsets: npt.NDArray[np.int64] = np.cumsum([0, *(b.count + 1 for b in bins)], dtype=np.int64)
        self.n_slots = int(self.offsets[-1])  # in one histogram row
        self.is_categorical: npt.NDArray[np.bool_] = np.array([b.feature.type.is_categorical for b in bins])

    def strides(self) -> list[int]:
        """Return each feature's stride, for engines that group by one key, ``node * stride + code``.

        Features with codes of one byte share the largest of their strides; every other feature has a separate one.
        """
        small = max((b.largest_code + 1 for b in self.bins if b.largest_code <= 255), default=0)
        return [small if b.largest_code <= 255 else b.largest_code + 1 for b in self.bins]


def gaps_at(distinct: npt.NDArray[Any], positions: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Return the gaps at some of a column's ascending distinct values: the preceding values, and these: (2, cuts)."""
    return np.stack([distinct[positions - 1], distinct[positions]])


def gaps_of_distinct(distinct: npt.NDArray[Any], counts: npt.NDArray[np.int64], max_bin: int) -> npt.NDArray[Any]:
    """Return the gaps at the cuts of ascending distinct numbers, from their counts."""
    return gaps_at(distinct, cut_positions(np.cumsum(counts) - counts, int(counts.sum()), max_bin))


def cut_positions(before: npt.NDArray[np.int64], total: int, max_bin: int) -> npt.NDArray[np.int64]:
    """Return which of a column's sorted distinct values are cuts.

    Parameters
    ----------
    before
        int64 array (distinct,): the number of non-missing rows below each distinct value, in ascending order.
    total
        Number of present rows.
    max_bin
        The largest number of bins.

    Returns
    -------
    int64 array
        Positions in ascending order. With at most ``max_bin`` distinct values, all but the lowest are cuts. Otherwise
        value i is a cut if an even split of the ranks into ``max_bin`` parts has a boundary in (before[i-1],
        before[i]]. Integer arithmetic makes cuts equal in every engine.
    """
    if len(before) <= max_bin:
        return np.arange(1, len(before), dtype=np.int64)
    part = before * max_bin // total
    return np.flatnonzero(np.diff(part)) + 1


def weighted_cut_positions(before: npt.NDArray[np.float64], total: float, max_bin: int) -> npt.NDArray[np.int64]:
    """Return which of a column's sorted distinct values are cuts if rows are weighted.

    Parameters
    ----------
    before
        float64 array (distinct,): the weight of the non-missing rows below each distinct value, in ascending order.
    total
        Weight of all present rows.
    max_bin
        The largest number of bins.

    Returns
    -------
    int64 array
        Positions in ascending order. With at most ``max_bin`` distinct values, all but the lowest are cuts. Otherwise
        value i is a cut if its rank r = before / total (Chen & Guestrin 2016, equation 8) is in another of ``max_bin``
        equal parts than the rank of the preceding value. So no part weighs more than 1/``max_bin`` plus one value
        (equation 9 with ε = 1/``max_bin``). Weights are on a grid, so their sums are exact, and the three operations
        here follow IEEE 754, so that every engine finds the same cuts.
    """
    if len(before) <= max_bin:
        return np.arange(1, len(before), dtype=np.int64)
    if not total > 0.0:
        return np.empty(0, dtype=np.int64)

    def part(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        parts: npt.NDArray[np.float64] = np.floor(before[indices] * float(max_bin) / total)
        return parts

    # The first value of each part, by binary search; as the operations of a rank round, it may be a neighbour. Values
    # of weight 0 at the end have rank 1, which would be another part; it is left out.
    part_numbers, last = np.arange(1.0, max_bin), len(before) - 1
    starts = np.searchsorted(before, part_numbers * (total / max_bin))
    while (is_late := (starts > 0) & (part(np.maximum(starts - 1, 0)) >= part_numbers)).any():
        starts -= is_late
    while (is_early := (starts <= last) & (part(np.minimum(starts, last)) < part_numbers)).any():
        starts += is_early
    return np.unique(starts[starts <= last])


def weighted_cuts_of(weights: npt.NDArray[Any], max_bin: int) -> npt.NDArray[np.int64]:
    """Return `weighted_cut_positions` from the weight of each distinct value in ascending order, float64.

    >>> weighted_cuts_of(np.array([2.0, 1.0, 1.0, 2.0]), 2).tolist()
    [2]
    """
    ends = np.cumsum(weights)
    return weighted_cut_positions(ends - weights, float(ends[-1]) if len(ends) else 0.0, max_bin)


def codes_by_rank(starts: npt.NDArray[np.int64], n_distinct: int, missing: int) -> npt.NDArray[np.unsignedinteger]:
    """Return the code of each rank, with cuts at the distinct values ``starts``, and the code of missing values.

    >>> codes_by_rank(np.array([2, 3]), 5, 3).tolist()
    [0, 0, 1, 2, 2, 3]
    """
    sizes = np.diff(starts, prepend=0, append=n_distinct)
    codes = np.append(np.arange(len(sizes)), missing).astype(np.min_scalar_type(missing))
    return np.repeat(codes, np.append(sizes, 1))


def sample_condition(n_rows: int) -> tuple[int, int, int] | None:
    """Return (modulus, multiplier, bound) of the sample for proposing cuts, None to use every row.

    The row at position p (from 0) is in the sample where ``(p % modulus) * multiplier % 2^32 < bound``.
    """
    if n_rows <= SAMPLE_LIMIT:
        return None
    return 2**31, _GOLDEN, 2**32 * SAMPLE_LIMIT // n_rows


# --- cuts of every node (``approx`` with local proposals) -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeBins:
    """The bins of one feature in each open node, with their sums of gradients.

    Attributes
    ----------
    histogram
        float64 (nodes, most bins of a node + 1, 3): sums of g and h by bin, and the number of rows with a gradient (see
        `frameboost.engines.contract.CountingEngine`), zero in bins that a node lacks. The last bin is for missing
        values. A categorical feature has a bin for each category in every node.
    cuts
        The lowest value of each bin but the first, by node; empty for a categorical feature.
    below
        The highest value of each bin but the last, by node: the value before a cut.
    """

    histogram: npt.NDArray[np.float64]
    cuts: Sequence[Sequence[Physical]]
    below: Sequence[Sequence[Physical]]

    def gap(self, index: int, bin_: int) -> tuple[Physical, Physical] | None:
        """Return the gap at the start of a bin in a node; None past the last bin (a split on missingness)."""
        below, cuts = self.below[index], self.cuts[index]
        return (below[bin_ - 1], cuts[bin_ - 1]) if bin_ <= len(cuts) else None


def collect_bins(
    bins: Bins, nodes: Sequence[int],
    entries: Iterable[tuple[int, Physical | None, Physical | None, float, float, float]],
) -> NodeBins:  # fmt: skip
    """Return the bins of a feature from a table with a row for each bin.

    Parameters
    ----------
    bins
        The bins without cuts, which tell whether the feature is categorical.
    nodes
        The open nodes.
    entries
        For each bin its node, lowest and highest value (None for missing values; the code for a categorical feature),
        G, H and number of rows. The bins of a node are in ascending order.
    """
    starts: dict[int, list[Physical]] = {node: [] for node in nodes}
    stops: dict[int, list[Physical]] = {node: [] for node in nodes}
    indices, slots, sums = [], [], []
    index_of = {node: index for index, node in enumerate(nodes)}
    for node, start, stop, *of_bin in entries:
        indices.append(index_of[node])
        sums.append(of_bin)
        if start is None or stop is None:
            slots.append(-1)
        elif bins.feature.type.is_categorical:
            slots.append(int(start))
        else:
            slots.append(len(starts[node]))
            starts[node].append(start)
            stops[node].append(stop)
    most = bins.count if bins.feature.type.is_categorical else max(map(len, starts.values()))
    histogram = np.zeros((len(nodes), most + 1, 3))
    histogram[indices, slots] = np.array(sums).reshape(-1, 3)
    return NodeBins(histogram, [starts[node][1:] for node in nodes], [stops[node][:-1] for node in nodes])


# --- thresholds of floats ---------------------------------------------------------------------------------------------


FloatArray = npt.NDArray[np.float64]

# The powers of ten that a float64 holds exactly: a whole number times or through one of them is rounded once.
_POWERS = 10.0 ** np.arange(23)
_LARGEST_POWER = 22
# Up to this many digits the integer is exact, too; 17 digits identify every float64.
_MAX_EXACT_DIGITS, _MAX_DIGITS = 15, 17
_LARGEST_SINGLE, _LARGEST = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
# Half the distance of float32 numbers, in relation to them, where float32 is infinite.
_HALF_STEP = 2.0**-24
_GAPS_AT_ONCE = 1 << 12  # what is computed of them stays in the processor's cache


def with_thresholds(bins: Sequence[Bins]) -> list[Bins]:
    """Return bins that start at thresholds, from float bins that start at values (see `Bins.below`).

    Rows are coded by thresholds, so that rows that did not take part in the proposal, outside the sample or held out,
    are in the bin on the side on which they are scored.
    """
    chosen = [i for i, each in enumerate(bins) if each.below]
    below, values = (
        np.fromiter(chain.from_iterable(ends(bins[i]) for i in chosen), np.float64)
        for ends in (attrgetter("below"), attrgetter("cuts"))
    )
    thresholds = iter(thresholds_between(below, values).tolist())
    changed = list(bins)
    for i in chosen:
        changed[i] = replace(bins[i], cuts=tuple(islice(thresholds, len(bins[i].cuts))), below=())
    return changed


def thresholds_of_gaps(gaps: Sequence[tuple[Physical, Physical] | None]) -> list[Physical | None]:
    """Return a threshold for each gap of floats, the upper value for a gap of other values, and None for None."""
    floats = [index for index, gap in enumerate(gaps) if gap is not None and isinstance(gap[1], float)]
    results: list[Physical | None] = [gap and gap[1] for gap in gaps]
    chosen = thresholds_between(*np.array([gaps[index] for index in floats], np.float64).reshape(-1, 2).T)
    for index, threshold in zip(floats, chosen.tolist(), strict=True):
        results[index] = threshold
    return results


def thresholds_between(below: npt.ArrayLike, values: npt.ArrayLike) -> FloatArray:
    """Return the threshold of each gap, below < t <= value.

    Parameters
    ----------
    below, values
        float64 (gaps,): neighbouring values of a column, the lower and the greater; ±inf may be among them.
    """
    low, high = np.asarray(below, np.float64), np.asarray(values, np.float64)
    if len(low) <= _GAPS_AT_ONCE:
        return _thresholds_between(low, high)
    parts = (slice(start, start + _GAPS_AT_ONCE) for start in range(0, len(low), _GAPS_AT_ONCE))
    return np.concatenate([_thresholds_between(low[part], high[part]) for part in parts])


def _thresholds_between(below: FloatArray, values: FloatArray) -> FloatArray:
    # A number beyond float32 is infinite in it, so the threshold is within, if one of the two is.
    furthest = np.where(np.minimum(np.abs(below), np.abs(values)) < _LARGEST_SINGLE, _LARGEST_SINGLE, _LARGEST)
    low, high = np.maximum(below, -furthest), np.minimum(values, furthest)
    with np.errstate(over="ignore"):
        low32, high32 = (ends.astype(np.float32).astype(np.float64) for ends in (low, high))
    may_be_value = ((np.floor(low) == low) & (np.floor(high) == high)) | (high == 0.0)
    in_float32 = np.maximum(low, low32), np.minimum(high, high32)
    with np.errstate(over="ignore"):
        apart = low + _half_step(low), high - _half_step(high)
    middle, no_number = low / 2 + high / 2, np.full(len(low), np.nan)
    # From the widest margin to none; the float32 of a number below the second one may be that of the value below.
    first = tuple(np.where(may_be_value, *ends) for ends in zip(in_float32, apart, strict=True))
    with np.errstate(invalid="ignore"):  # of float32 that are infinite
        second = np.maximum(in_float32[0], low32 + _half_step(low32)), in_float32[1]
        middle_of_second = second[0] / 2 + second[1] / 2
    gaps = (*first, middle, low32), (*second, middle_of_second, low32), (low, high, middle, no_number)
    results = np.full(len(low), np.nan)
    for gap in gaps:
        left = np.flatnonzero(np.isnan(results) & (gap[0] < gap[1]))
        if len(left):
            results[left] = _shortest(*(each[left] for each in gap))
    # Between the largest float and infinity there is nothing but the latter.
    return np.where(np.isnan(results), values, results) + 0.0


def _half_step(numbers: FloatArray) -> FloatArray:
    """Return half the distance from each number to the next float32; nearer numbers round to the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.spacing(np.abs(numbers).astype(np.float32)).astype(np.float64) / 2
    return np.where(np.isfinite(steps), steps, np.abs(numbers) * _HALF_STEP)


def _shortest(low: FloatArray, high: FloatArray, middle: FloatArray, low32: FloatArray) -> FloatArray:
    """Return the shortest decimal t nearest to each middle, with low < t <= high; NaN if there is none.

    If ``low32`` is a number, float32(t) is above it as well.

    It is the middle rounded to as few digits as keep it in the gap: the nearest multiple of a power of ten. If that is
    not in the gap, no other multiple is.
    """

    def is_held(t: FloatArray, at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        with np.errstate(over="ignore"):
            held: npt.NDArray[np.bool_] = (low[at] < t) & (t <= high[at]) & ~(t.astype(np.float32) <= low32[at])
        return held

    results = np.where(is_held(np.zeros(len(low)), np.arange(len(low))), 0.0, np.nan)
    left = np.flatnonzero(np.isnan(results))
    with np.errstate(divide="ignore"):
        first = np.floor(np.log10(np.abs(middle)))
    exponent = np.where(np.isfinite(first), first, 0.0).astype(np.int64)
    for digits in range(1, _MAX_EXACT_DIGITS + 1):
        indices = digits - 1 - exponent[left]  # after the point
        usable = np.abs(indices) <= _LARGEST_POWER
        at, power, is_fraction = left[usable], _POWERS[np.abs(indices[usable])], indices[usable] > 0
        whole = np.floor(np.where(is_fraction, middle[at] * power, middle[at] / power) + 0.5)
        t = np.where(is_fraction, whole / power, whole * power)
        held = is_held(t, at)
        results[at[held]] = t[held]
        left = left[np.isnan(results[left])]
        if not len(left):
            break
    with np.errstate(over="ignore"):
        for index in left.tolist():  # beyond 1e±22, or of more digits: by way of texts, which round as exactly
            least, most, about, least32 = (float(each[index]) for each in (low, high, middle, low32))
            rounded = (float(f"{about:.{digits - 1}e}") for digits in range(1, _MAX_DIGITS + 1))
            tried = (t for t in chain(rounded, [most]) if least < t <= most and not np.float32(t) <= least32)
            results[index] = next(tried, np.nan)
    return results

"""Thresholds of floats: the shortest decimal between two neighbouring values, so that copies go the same way.

A cut of a float column is known by two numbers, the largest value below it and the lowest value from it on. Every t
with below < t <= value divides these rows alike. The value itself is the worst of them: rounded to float32, or written
with 15 digits and read again, it may be a little less, and goes to the other side. Written is the shortest decimal of
the gap, and of several the one nearest its middle:

>>> thresholds_between([3.17, 0.0, -1.25], [3.24, 4e-05, 17.5]).tolist()
[3.2, 2e-05, 0.0]

The gap is narrowed by rounding to float32, so x < t has the answer of x for every number that a float32 can't tell
from x. 3.2 is in the gap of 3.19 and 3.2, and 2.9999999 rounds to 3:

>>> thresholds_between([3.19, 2.9999999], [3.2, 3.3]).tolist()
[3.195, 3.1]

Whole numbers are exact, so one may be a threshold itself, as it is in a column of integers:

>>> thresholds_between([1.0, 28.0], [2.0, 30.0]).tolist()
[2.0, 30.0]

Only in a gap narrower than a step of float32 is it some number of the gap:

>>> thresholds_between([1.0], [1.000000001]).tolist()
[1.000000001]

The choice is a function of the two numbers, by operations that round by IEEE 754, so it is the same in every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.schema.types import Physical

__all__ = ["thresholds_between", "thresholds_of_gaps", "with_thresholds"]

FloatArray = npt.NDArray[np.float64]

# The powers of ten that a float64 holds exactly: a whole number times or through one of them is rounded once.
_POWERS = 10.0 ** np.arange(23)
_LARGEST_POWER = 22
# Up to so many digits the whole number is exact, too; every float64 is the only one near its 17 digits.
_MAX_EXACT_DIGITS, _MAX_DIGITS = 15, 17
_LARGEST_SINGLE, _LARGEST = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
# Half the distance of float32 numbers, in relation to them, where float32 is infinite.
_HALF_STEP = 2.0**-24


def with_thresholds(bins: Sequence[Bins]) -> list[Bins]:
    """Return bins that start at thresholds, for those of floats that start at values (see `Bins.below`).

    Rows are coded by them, so a row that cuts were not proposed from, as one outside the sample or a held-out one, is
    in the bin on whose side of the threshold it is scored.
    """
    chosen = [i for i, each in enumerate(bins) if each.below]
    below, values = (
        [end for i in chosen for end in ends(bins[i])] for ends in (attrgetter("below"), attrgetter("cuts"))
    )
    thresholds = iter(thresholds_between(below, values).tolist())
    changed = list(bins)
    for i in chosen:
        changed[i] = replace(bins[i], cuts=tuple(next(thresholds) for _ in bins[i].cuts), below=())
    return changed


def thresholds_of_gaps(gaps: Sequence[tuple[Physical, Physical] | None]) -> list[Physical | None]:
    """Return a threshold for each gap of floats, and for a gap of other values the upper one; None for None."""
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
    # A number beyond float32 is infinite in it, so the threshold is within, if one of the two is.
    furthest = np.where(np.minimum(np.abs(low), np.abs(high)) < _LARGEST_SINGLE, _LARGEST_SINGLE, _LARGEST)
    low, high = np.maximum(low, -furthest), np.minimum(high, furthest)
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
    return np.where(np.isnan(results), np.asarray(values, np.float64), results) + 0.0


def _half_step(numbers: FloatArray) -> FloatArray:
    """Return half the distance from each number to the next float32: what is nearer rounds to the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        steps = np.spacing(np.abs(numbers).astype(np.float32)).astype(np.float64) / 2
    return np.where(np.isfinite(steps), steps, np.abs(numbers) * _HALF_STEP)


def _shortest(low: FloatArray, high: FloatArray, middle: FloatArray, low32: FloatArray) -> FloatArray:
    """Return the shortest decimal t nearest to each middle, of low < t <= high; NaN for none.

    Where ``low32`` is a number, float32(t) is above it as well.

    That is the middle, rounded to as few digits as leave it in the gap: of the multiples of a power of ten the nearest
    one. If it is not in the gap, no other is.
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

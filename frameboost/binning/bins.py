"""Bins: where a feature's values are cut, so that a column becomes small integers.

A numeric feature with cuts c1 < c2 < ... has the bins x < c1, c1 ≤ x < c2, ..., numbered from 0. A categorical
feature has a bin for each category, numbered by code. One more bin, the last, takes the missing values.

Cuts are proposed once for the whole fit, or anew for each tree or node by the weights of the rows then (Chen & Guestrin
2016, sections 3.2 and 3.3); always at values that occur in the data and without interpolation, so that every engine
finds the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.schema.feature import Feature
from frameboost.schema.types import Physical

__all__ = ["SAMPLE_LIMIT", "Bins", "SlotLayout", "cut_positions", "sample_condition", "weighted_cut_positions"]

# Past this many rows the cuts come from a sample. Quantiles of four million rows are off by at most one in some
# thousand ranks, far less than a bin of 1/256; sorting more costs time and, in a database, memory.
SAMPLE_LIMIT = 1 << 22

# 2^32 / golden ratio: multiples of it modulo 2^32 spread evenly (Knuth, TAOCP 3, section 6.4).
_GOLDEN = 2_654_435_769


@dataclass(frozen=True, slots=True)
class Bins:
    """The bins of one feature."""

    feature: Feature
    cuts: tuple[Physical, ...] = ()
    has_missing: bool = True

    @property
    def largest_code(self) -> int:
        """The largest code that occurs in training."""
        return self.count if self.has_missing else self.count - 1

    @property
    def count(self) -> int:
        """The number of bins for values that are present; also the code of the missing bin."""
        return len(self.feature.categories) if self.feature.type.is_categorical else len(self.cuts) + 1

    @property
    def missing(self) -> int:
        """The code of the bin for missing values."""
        return self.count


class SlotLayout:
    """How the bins of all features lie side by side in one histogram row.

    Feature f owns the slots ``offsets[f] : offsets[f + 1]``; the last of them is for missing values.
    """

    def __init__(self, bins: Sequence[Bins]) -> None:
        self.bins = tuple(bins)
        self.offsets: npt.NDArray[np.int64] = np.cumsum([0, *(b.count + 1 for b in bins)], dtype=np.int64)
        self.n_slots = int(self.offsets[-1])  # in one histogram row
        self.is_categorical: npt.NDArray[np.bool_] = np.array([b.feature.type.is_categorical for b in bins])

    def strides(self) -> list[int]:
        """Return by how much the keys of neighbouring nodes differ, where engines make one key of node and code.

        Features whose codes fit a byte share the largest number of codes that occur, all others have their own.
        """
        small = max((b.largest_code + 1 for b in self.bins if b.largest_code <= 255), default=0)
        return [small if b.largest_code <= 255 else b.largest_code + 1 for b in self.bins]


def cut_positions(before: npt.NDArray[np.int64], total: int, max_bin: int) -> npt.NDArray[np.int64]:
    """Return which of a column's sorted distinct values are cuts.

    Parameters
    ----------
    before
        int64 array (distinct,): for each distinct value in ascending order, how many present rows are below it.
    total
        Number of present rows.
    max_bin
        Most bins.

    Returns
    -------
    int64 array
        Positions in ascending order. Up to ``max_bin`` distinct values, every value but the lowest is a cut; otherwise
        value i is one where an even split of the ranks into ``max_bin`` parts has a boundary in
        (before[i-1], before[i]]. The arithmetic is on integers, so every engine gets the same cuts.
    """
    if len(before) <= max_bin:
        return np.arange(1, len(before), dtype=np.int64)
    part = before * max_bin // total
    return np.flatnonzero(np.diff(part)) + 1


def weighted_cut_positions(before: npt.NDArray[np.float64], total: float, max_bin: int) -> npt.NDArray[np.int64]:
    """Return which of a column's sorted distinct values are cuts where rows count by weight.

    Parameters
    ----------
    before
        float64 array (distinct,): for each distinct value in ascending order, the weight of the present rows below it.
    total
        Weight of all present rows.
    max_bin
        Most bins.

    Returns
    -------
    int64 array
        Positions in ascending order. Up to ``max_bin`` distinct values, every value but the lowest is a cut; otherwise
        value i is one where its rank r = before / total (Chen & Guestrin 2016, equation 8) lies in another of
        ``max_bin`` equal parts than the rank of the value before it, so that no part weighs more than 1/``max_bin``
        plus one value (equation 9 with ε = 1/``max_bin``). With weights on a grid their sums are exact, and of the
        three roundings left IEEE 754 says how they come out, so every engine gets the same cuts.
    """
    if len(before) <= max_bin:
        return np.arange(1, len(before), dtype=np.int64)
    if not total > 0.0:
        return np.empty(0, dtype=np.int64)
    # Values without weight at the end have rank 1, which would be a part of its own.
    part = np.minimum(np.floor(before * float(max_bin) / total), max_bin - 1.0)
    return np.flatnonzero(np.diff(part)) + 1


def sample_condition(n_rows: int) -> tuple[int, int, int] | None:
    """Return (modulus, multiplier, bound) of the sample that cuts are proposed from, None to use every row.

    The row at position p (from 0) is in the sample where ``(p % modulus) * multiplier % 2^32 < bound``.
    """
    if n_rows <= SAMPLE_LIMIT:
        return None
    return 2**31, _GOLDEN, 2**32 * SAMPLE_LIMIT // n_rows

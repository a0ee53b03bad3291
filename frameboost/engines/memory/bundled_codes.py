"""Codes of several features of few bins as one code, so that a row is added to fewer sums."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.kernels import interleave
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import IntArray

__all__ = ["BundledCodes", "Bundles", "find_bundles"]

# Codes of a bundle, which are bytes, and of a feature in one.
_MAX_CODES, _MAX_OF_FEATURE = 256, 16
# With fewer rows, or with fewer additions saved for each, the kernels take longer to compile.
_MIN_ROWS, _MIN_SAVED = 1 << 15, 4


def find_bundles(bins: Sequence[Bins], n_rows: int, without: Collection[int] = ()) -> list[list[int]]:
    """Return the features of each bundle, in order; features ``without`` are in none.

    Of the features of 10, 10, 2, 300, 2 and 16 codes the first three are a bundle of 200 codes, and the last two one of
    32.
    """
    found: list[list[int]] = []
    size = _MAX_CODES + 1
    for i, each in enumerate(bins):
        count = each.largest_code + 1
        if i in without or count > _MAX_OF_FEATURE:
            continue
        if size * count > _MAX_CODES:
            found.append([])
            size = 1
        found[-1].append(i)
        size *= count
    found = [bundle for bundle in found if len(bundle) > 1]
    pays = n_rows >= _MIN_ROWS and sum(map(len, found)) - len(found) >= _MIN_SAVED
    return found if pays else []


class Bundles:
    """Codes of several features as one, by row, and how their sums become those of the features.

    Attributes
    ----------
    codes
        uint8 (rows, bundles).
    offsets
        int64 (bundles + 1,): the first slot of each bundle in histograms of their own; last, the number of slots.
    sources, targets
        int64: slots of the bundles, and the features' slots that their sums are added to.
    slots
        int64: all slots of the features.
    """

    codes: Codes
    offsets: IntArray
    sources: IntArray
    targets: IntArray
    slots: IntArray


class BundledCodes(Bundles):
    """The codes of bundles by row, each a number whose digits are the codes of the bundle's features.

    Features of 3 and 4 codes have 12 codes together, 4 a + b. Their sums by code are the sums of each feature's codes
    in turn, which is exact (see `frameboost.expressions.grid`): that of b = 1 is the sum of 1, 5 and 9.

    Parameters
    ----------
    layout
        The slots of the features.
    bundles
        The features of each bundle (see `find_bundles`).
    n_rows
        The number of rows.
    """

    def __init__(self, layout: SlotLayout, bundles: Sequence[Sequence[int]], n_rows: int) -> None:
        self._bundles = bundles
        self._counts = [[layout.bins[i].largest_code + 1 for i in bundle] for bundle in bundles]
        self.offsets = np.cumsum([0, *(int(np.prod(counts)) for counts in self._counts)])
        sources, targets, slots = [], [], []
        for bundle, counts, first in zip(bundles, self._counts, self.offsets.tolist(), strict=False):
            for feature, digits in zip(bundle, np.indices(counts).reshape(len(counts), -1), strict=True):
                sources.append(first + np.arange(len(digits)))
                targets.append(layout.offsets[feature] + digits)
                slots.append(np.arange(*layout.offsets[feature : feature + 2]))
        self.sources, self.targets, self.slots = (np.concatenate(each) for each in (sources, targets, slots))
        self.codes = np.empty((n_rows, len(bundles)), np.uint8)

    def fill(self, columns: Mapping[int, Codes], workers: Workers) -> None:
        """Write the codes, given each feature's."""
        by_column = np.empty(self.codes.shape[::-1], np.uint8)

        def combine(index: int) -> None:
            own = by_column[index]
            own[:] = 0
            for feature, count in zip(self._bundles[index], self._counts[index], strict=True):
                own *= count
                own += columns[feature]

        workers.each(range(len(self._bundles)), combine)
        workers.over(len(self.codes), partial(interleave, by_column, self.codes, 0), smallest=VALUES_PER_TASK)

"""Several features as one, whose code stands for the codes of all: a row is added to fewer sums.

Two kinds of features are bundled: neighbours of few bins (`BundledCodes`), and sparse features that exclude each other
(`ExclusiveBundles`). Sums by the code of a bundle are added to the bins of its features, which is exact.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np

from frameboost.binning.arrays import Codes, interleave
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.memory.histograms import add_more, build_histograms, may_block
from frameboost.engines.memory.limits import (
    MAX_CODES_OF_BUNDLE,
    MAX_CODES_OF_FEATURE,
    MAX_COMBINATIONS,
    MIN_BUNDLED_ROWS,
    MIN_SAVED,
)
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import VALUES_PER_TASK, Pieces, RowNumbers, Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["BundledCodes", "Bundles", "ExclusiveBundles", "bundle_exclusive", "find_bundles"]


class Bundles:
    """Codes of several features as one, by row, and how their sums become those of the features.

    Attributes
    ----------
    codes
        uint8 (rows, bundles).
    offsets
        int64 (bundles + 1,): the first slot of each bundle in the bundles' histograms; last, the number of slots.
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

    def sum_by_bin(
        self, team: IntArray, rows: RowNumbers, parts: Pieces, firsts: IntArray, gh: FloatArray, out: FloatArray,
        indices: IntArray,
    ) -> None:  # fmt: skip
        """Write the sums of the bundles' features to histograms (see `build_histograms`)."""
        nodes, n_slots = np.arange(len(indices)), int(self.offsets[-1])
        sums, more = np.empty((len(nodes), n_slots, 2)), np.zeros((len(firsts) - 2, n_slots, 2))
        build_histograms(
            team, self.codes, rows, parts, firsts, gh, self.offsets[:-1], sums, nodes, more, True,
            may_block(self.codes, n_slots),
        )  # fmt: skip
        if len(more):
            add_more(parts, firsts, more, sums, nodes)
        add_by_feature(team, sums, self.sources, self.targets, self.slots, out, indices)


@kernel
def _add_one_by_feature(sums, sources, targets, slots, histograms, indices, item):  # type: ignore[no-untyped-def]
    bundle_sums, histogram = sums[item], histograms[indices[item]]
    for i in range(len(slots)):
        histogram[slots[i], 0] = histogram[slots[i], 1] = 0.0
    for i in range(len(sources)):
        histogram[targets[i], 0] += bundle_sums[sources[i], 0]
        histogram[targets[i], 1] += bundle_sums[sources[i], 1]


_adding_by_feature = outlined(_add_one_by_feature)


@kernel
def add_by_feature(team, sums, sources, targets, slots, histograms, indices):  # type: ignore[no-untyped-def]
    """Write the sums of features from those of their bundles.

    Parameters
    ----------
    team, histograms, indices
        As for `build_histograms`.
    sums
        float64 (nodes, slots of bundles, 2).
    sources, targets, slots
        See `Bundles`.
    """
    share_out(team, _adding_by_feature((sums, sources, targets, slots, histograms, indices)), len(indices))


# --- features of few bins ---------------------------------------------------------------------------------------------


def find_bundles(bins: Sequence[Bins], n_rows: int, without: Collection[int] = ()) -> list[list[int]]:
    """Return the features of each bundle, in order; features ``without`` are in none.

    Of the features of 10, 10, 2, 300, 2 and 16 codes the first three are a bundle of 200 codes, and the last two one of
    32.
    """
    bundles: list[list[int]] = []
    size = MAX_CODES_OF_BUNDLE + 1
    for i, each in enumerate(bins):
        count = each.largest_code + 1
        if i in without or count > MAX_CODES_OF_FEATURE:
            continue
        if size * count > MAX_CODES_OF_BUNDLE:
            bundles.append([])
            size = 1
        bundles[-1].append(i)
        size *= count
    bundles = [bundle for bundle in bundles if len(bundle) > 1]
    pays = n_rows >= MIN_BUNDLED_ROWS and sum(map(len, bundles)) - len(bundles) >= MIN_SAVED
    return bundles if pays else []


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
        """Write the codes, from those of each feature."""
        by_column = np.empty(self.codes.shape[::-1], np.uint8)

        def combine(index: int) -> None:
            codes = by_column[index]
            codes[:] = 0
            for feature, count in zip(self._bundles[index], self._counts[index], strict=True):
                codes *= count
                codes += columns[feature]

        workers.each(range(len(self._bundles)), combine)
        workers.over(len(self.codes), partial(interleave, by_column, self.codes, 0), smallest=VALUES_PER_TASK)


# --- sparse features that exclude each other --------------------------------------------------------------------------


class ExclusiveBundles(Bundles):
    """The codes of sparse features by row, each code a combination of codes that occurs in the bundle's features.

    LightGBM's exclusive feature bundling (Ke et al. 2017, section 4), but exact: rows with entries of several features
    are not conflicts, they have other codes. Columns that are made of a string of ten values have ten
    combinations, those of two such strings at most a hundred.

    Say two features have the slots 0 to 1 and 2 to 4, and the codes 0 and 2 in most rows. Rows of the codes (0, 2),
    (1, 2), (0, 0), (1, 0), (0, 2) have the combinations 0, 1, 2, 3, 0, which stand for no entry, slot 1,
    slot 2, and both.

    The sums of a combination are added to its entries, and those of the first bundle to the slot ``total`` besides.
    """

    def __init__(self, codes: Codes, combinations: Sequence[Sequence[IntArray]], slots: IntArray, total: int) -> None:
        """Take the codes, the entries of each bundle's combinations, and the slot that all rows are added to."""
        self.codes = codes
        self.slots = slots
        self.offsets = np.cumsum([0, *map(len, combinations)])
        entries = [entry for bundle in combinations for entry in bundle]
        of_total = np.arange(self.offsets[1])
        self.sources = np.append(of_total, np.repeat(np.arange(len(entries)), [len(entry) for entry in entries]))
        self.targets = np.concatenate([np.full_like(of_total, total), *entries])

    def sort(self, order: RowNumbers) -> None:
        """Put the rows into another order."""
        self.codes = self.codes[order]


def bundle_exclusive(
    columns: Sequence[tuple[RowNumbers, Codes]],
    firsts: IntArray,
    stops: IntArray,
    common: IntArray,
    n_rows: int,
    most: int,
    workers: Workers,
) -> ExclusiveBundles | None:
    """Return at most ``most`` bundles of neighbouring sparse features; None if there would be more.

    Parameters
    ----------
    columns
        For each feature the rows that have entries, uint32 ascending, and their codes.
    firsts, stops, common
        int64 (features,): the slots of each, and the one of most rows.
    """
    if not columns or (stops - firsts).max() > MAX_COMBINATIONS:
        return None
    bundles: list[_Bundle] = []
    for (rows, codes), first, stop in zip(columns, firsts.tolist(), stops.tolist(), strict=True):
        if bundles and bundles[-1].take(rows, codes, first, stop - first):
            continue
        if len(bundles) == most:
            return None
        bundles.append(_Bundle(n_rows))
        bundles[-1].take(rows, codes, first, stop - first)
    by_column, by_row = np.stack([each.codes for each in bundles]), np.empty((n_rows, len(bundles)), np.uint8)
    workers.over(n_rows, partial(interleave, by_column, by_row, 0), smallest=VALUES_PER_TASK)
    slots = np.concatenate([np.arange(*each) for each in zip(firsts, stops, strict=True)])
    return ExclusiveBundles(by_row, [each.combinations for each in bundles], slots, int(common[0]))


class _Bundle:
    """The combination of each row, and the entries of each combination; at first the one without entries."""

    def __init__(self, n_rows: int) -> None:
        self.codes = np.zeros(n_rows, np.uint8)
        self.combinations: list[IntArray] = [np.empty(0, np.int64)]

    def take(self, rows: RowNumbers, codes: Codes, first: int, n_codes: int) -> bool:
        """Add a feature with its first slot, and return True; do nothing if there are too many combinations then."""
        # combination * n_codes + code -> the combination of both
        numbers = np.zeros(MAX_COMBINATIONS * n_codes, np.uint16)
        if not combine_codes(rows, codes, n_codes, self.codes, len(self.combinations), numbers):
            return False
        pairs = np.flatnonzero(numbers)
        for pair in pairs[np.argsort(numbers[pairs])].tolist():
            self.combinations.append(np.append(self.combinations[pair // n_codes], first + pair % n_codes))
        return True


@kernel
def combine_codes(rows, codes, n_codes, combined, n_combinations, numbers):  # type: ignore[no-untyped-def]
    """Add a feature to a bundle (see `ExclusiveBundles`) if that is possible.

    Combinations are numbered from 0; new ones in the order of the rows.

    Parameters
    ----------
    rows, codes
        uint32 and unsigned (entries,): the feature's codes in the rows that have an entry.
    n_codes
        One more than the largest code.
    combined
        uint8 (rows,): each row's combination of the other features' codes; changed to that of this feature's as well.
    n_combinations
        How many there are.
    numbers
        uint16 (`MAX_COMBINATIONS` * n_codes,), written, 0 before: the combination of a combination and a code, 0 if
        no row has both.

    Returns
    -------
    Whether there are at most `MAX_COMBINATIONS`; nothing in ``combined`` is changed if not.
    """
    for i in range(len(rows)):
        pair = combined[rows[i]] * n_codes + codes[i]
        if numbers[pair] == 0:
            if n_combinations == MAX_COMBINATIONS:
                return False
            numbers[pair] = n_combinations
            n_combinations += 1
    for i in range(len(rows)):
        combined[rows[i]] = numbers[combined[rows[i]] * n_codes + codes[i]]
    return True

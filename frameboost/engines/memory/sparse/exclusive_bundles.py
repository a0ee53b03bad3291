"""Sparse features that exclude each other, bundled: a row has one code for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.binning.kernels import interleave
from frameboost.engines.memory.bundled_codes import Bundles
from frameboost.engines.memory.sparse.columns import RowNumbers
from frameboost.engines.memory.sparse.kernels import MAX_COMBINATIONS, combine_codes
from frameboost.runtime.task_sizes import VALUES_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import IntArray

__all__ = ["ExclusiveBundles", "bundle_exclusive"]


class ExclusiveBundles(Bundles):
    """The codes of sparse features by row, each code a combination of codes that occurs in the bundle's features.

    LightGBM's exclusive feature bundling (Ke et al. 2017, section 4), but exact: rows with entries of several features
    are not conflicts, they have codes of their own. Columns that are made of a string of ten values have ten
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
        entries = [own for bundle in combinations for own in bundle]
        of_total = np.arange(self.offsets[1])
        self.sources = np.append(of_total, np.repeat(np.arange(len(entries)), [len(own) for own in entries]))
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
        found = np.zeros(MAX_COMBINATIONS * n_codes, np.uint16)
        if not combine_codes(rows, codes, n_codes, self.codes, len(self.combinations), found):
            return False
        pairs = np.flatnonzero(found)
        for pair in pairs[np.argsort(found[pairs])].tolist():
            self.combinations.append(np.append(self.combinations[pair // n_codes], first + pair % n_codes))
        return True

"""Sparse columns: only codes that differ from the common code of the feature are stored.

- `SparseCodes`: these codes by row, as histograms read them
- `SparseColumns`: these codes by column, as splits compare them

In kernels, indices are unsigned: numba checks signed ones at each access for wraparound.

A bundle merges several features into one, with a code for each combination of their codes, so that a row is added to
fewer sums. Two kinds of features are bundled: adjacent features with few bins (`BundledCodes`), and mutually exclusive
sparse features (`ExclusiveBundles`). Sums by the code of a bundle are added to the bins of its features, which is
exact.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.arrays import Codes, bin_column, interleave
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.engines.memory.histograms import add_more, build_histograms, clearing, gh_totals, may_block
from frameboost.engines.memory.limits import (
    MAX_CODES_OF_BUNDLE,
    MAX_CODES_OF_FEATURE,
    MAX_COMBINATIONS,
    MAX_DENSE_BYTES,
    MIN_ALIKE,
    MIN_BUNDLED_ENTRIES,
    MIN_BUNDLED_ROWS,
    MIN_DENSE_COLUMNS,
    MIN_ENTRIES_OF_ROW,
    MIN_SAVED,
)
from frameboost.runtime.intrinsics import AHEAD, add_pair, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import CALLED_ROWS_PER_TASK, VALUES_PER_TASK, Pieces, RowNumbers, Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = [
    "BundledCodes",
    "Bundles",
    "ExclusiveBundles",
    "SparseCodes",
    "StoredCodes",
    "bundle_exclusive",
    "coded",
    "complete_histograms",
    "find_bundles",
]

# Some rows, ascending, None for all; and the codes of a feature in them.
StoredCodes = Callable[[int, Bins], tuple[RowNumbers | None, Codes]]


class SparseCodes:
    """The entries of all sparse features, in compressed sparse row format.

    An entry is the histogram slot of a feature's code. The common code has no entries; its sum is the total minus the
    sums of the feature's other slots, which is exact (see `frameboost.expressions.grid`).

    Example: the features 1 and 3 have the slots 3 to 5 and 9 to 11, and the common codes 0 and 2. Four rows with the
    codes (0, 2), (1, 2), (0, 2), (2, 0) have ``starts`` 0, 0, 1, 1, 3 and the entries 4, 5, 9.

    Parameters
    ----------
    layout
        The slots.
    common
        The sparse features, each with its common code.
    n_rows
        The number of rows.

    Attributes
    ----------
    features
        int64 (sparse features,), ascending.
    firsts, stops
        int64 (sparse features,): the range of slots of each.
    common
        int64 (sparse features,): the slot of the common code.
    starts
        uint32 or uint64 (rows + 1,): the first entry of each row.
    entries
        uint16 or uint32 (entries,): ascending in each row.
    steps
        unsigned (entries,): the distance from the row of the previous entry (from row 0 for the first). In the example:
        1, 2, 0. None if a loop over each row's entries is faster than one over all: rows have equally many, as one-hot
        columns have, or many entries.
    bundles
        The same codes as bundles, if rows have many entries and the features are mutually exclusive, as one-hot columns
        are; ``starts``, ``entries`` and ``steps`` are then absent. None otherwise.
    by_column
        The same codes by column.
    """

    steps: npt.NDArray[np.unsignedinteger] | None
    starts: npt.NDArray[np.unsignedinteger]
    entries: npt.NDArray[np.unsignedinteger]
    bundles: ExclusiveBundles | None = None
    by_column: SparseColumns

    def __init__(self, layout: SlotLayout, common: Mapping[int, int], n_rows: int) -> None:
        self.features: IntArray = np.array(list(common), dtype=np.int64)
        self.firsts, self.stops = layout.offsets[self.features], layout.offsets[self.features + 1]
        self.common = self.firsts + np.array(list(common.values()), dtype=np.int64)
        self._layout = layout
        self._n_rows = n_rows

    @property
    def additions_per_row(self) -> int:
        """The average number of entries, or of codes of bundles, of a row."""
        if self.bundles is not None:
            return int(self.bundles.codes.shape[1])
        return len(self.entries) // max(1, self._n_rows)

    def fill(self, stored: StoredCodes, workers: Workers) -> None:
        """Write the entries, from the codes of each feature in a superset of the rows with an entry."""
        common = self.common - self.firsts

        def entries_of(index: int) -> tuple[RowNumbers, Codes]:
            feature = int(self.features[index])
            rows, codes = stored(feature, self._layout.bins[feature])
            differs = codes != common[index]
            if rows is not None and differs.all():
                return rows, codes
            differs = np.flatnonzero(differs)
            return (differs.astype(np.uint32) if rows is None else rows[differs]), codes[differs]

        columns = workers.each(range(len(self.features)), entries_of, alone=self._n_rows < 4 * CALLED_ROWS_PER_TASK)
        self.by_column = SparseColumns(self.features, common, columns, len(self._layout.bins), self._n_rows)
        per_row = sum(len(rows) for rows, _ in columns) // max(1, self._n_rows)
        if per_row >= MIN_BUNDLED_ENTRIES and self._n_rows >= MIN_BUNDLED_ROWS:
            most = per_row * 3 // 4
            slots = self.firsts, self.stops, self.common
            self.bundles = bundle_exclusive(columns, *slots, self._n_rows, most, workers)
            if self.bundles is not None:
                return
        counts = np.zeros(self._n_rows, np.uint32)
        for rows, _ in columns:
            counts[rows] += np.uint32(1)
        self._start(counts)
        self.entries = np.empty(int(self.starts[-1]), np.uint16 if self._layout.n_slots <= 1 << 16 else np.uint32)
        workers.over(self._n_rows, self._write, smallest=2 * CALLED_ROWS_PER_TASK)

    def _write(self, first: int, last: int) -> None:
        """Write the entries of the rows ``first`` to ``last - 1``."""
        free = self.starts[first:last].copy()
        for slot, (rows, codes) in zip(self.firsts.tolist(), self.by_column.columns, strict=True):
            start, stop = np.searchsorted(rows, [first, last])
            write_entries(rows[start:stop], codes[start:stop], slot, first, free, self.entries)

    def sort(self, order: RowNumbers, workers: Workers) -> None:
        """Reorder the rows."""
        self.by_column.sort(order)
        if self.bundles is not None:
            self.bundles.sort(order)
            return
        starts, entries = self.starts, self.entries
        self._start((starts[1:] - starts[:-1])[order])
        self.entries = np.empty_like(entries)
        gather = partial(gather_entries, starts, entries, order, self.starts, self.entries)
        workers.over(len(order), gather, smallest=VALUES_PER_TASK)

    def _start(self, counts: npt.NDArray[np.unsignedinteger]) -> None:
        """Set `starts` and `steps` from the number of entries of each row."""
        ends = np.cumsum(counts, dtype=np.uint64)
        n_entries = int(counts.sum(dtype=np.uint64))
        rows_of_count = np.bincount(counts.astype(np.uint32, copy=False), minlength=1)  # not of uint64
        most = int(rows_of_count.argmax())
        are_alike = most > 0 and rows_of_count[most] >= MIN_ALIKE * len(counts)
        self.steps = None
        if not are_alike and n_entries < MIN_ENTRIES_OF_ROW * len(counts):
            rows = np.flatnonzero(counts)
            steps = np.diff(rows, prepend=0)
            self.steps = np.zeros(n_entries, np.min_scalar_type(steps.max(initial=0)))
            self.steps[(ends - counts)[rows]] = steps
        is_small = len(ends) == 0 or ends[-1] < 1 << 32
        self.starts = np.append(np.zeros(1, np.uint64), ends).astype(np.uint32 if is_small else np.uint64)

    def sum_by_bin(
        self, team: IntArray, rows: RowNumbers, parts: Pieces, firsts: IntArray, gh: FloatArray, out: FloatArray,
        indices: IntArray, more: FloatArray, *, is_first: bool, are_in_order: bool,
    ) -> None:  # fmt: skip
        """Add rows to the slots of their entries (see `build_histograms`), unless these are in bundles.

        With ``are_in_order``, the rows are all rows in ascending order.
        """
        if self.bundles is not None:
            return
        to_add = parts, firsts, gh, int(self.common[0]), out, indices, more, is_first
        if self.steps is not None and are_in_order:
            add_entries_in_order(team, self.starts, self.steps, self.entries, *to_add)
        else:
            add_entries(team, self.starts, self.entries, rows, *to_add)


def coded(bins: Bins, values: pl.Series) -> Codes:
    """Return the codes of a column of physical values."""
    codes: Codes = np.empty(len(values), np.min_scalar_type(bins.largest_code))
    bin_column(bins, values, codes)
    return codes


# --- the entries of each column ---------------------------------------------------------------------------------------


class SparseColumns:
    """The codes of sparse columns, in compressed sparse column format.

    A split on a sparse column reads a dense copy, which is written on demand and cached; the cache evicts the least
    recently used columns.

    Example: a column with the common code 2 has the codes 0 and 3 in the rows 1 and 4. The dense column of five rows is
    2, 0, 2, 2, 3.

    Parameters
    ----------
    features
        int64 (columns,): the feature of each column, ascending.
    common
        int64 (columns,): the common code of each.
    columns
        For each column the rows with other codes, uint32, and these codes, (rows,).
    n_features, n_rows
        The number of all features, and of rows.
    """

    def __init__(
        self,
        features: IntArray,
        common: IntArray,
        columns: Sequence[tuple[RowNumbers, Codes]],
        n_features: int,
        n_rows: int,
    ) -> None:
        self.columns = list(columns)
        self._common = common
        self._index_of = np.full(n_features, -1, dtype=np.int64)  # feature -> its column
        self._index_of[features] = range(len(features))
        dtype = np.result_type(np.uint8, *(codes.dtype for _, codes in columns), *map(np.min_scalar_type, common))
        room = min(len(columns), max(MIN_DENSE_COLUMNS, MAX_DENSE_BYTES // max(1, n_rows * dtype.itemsize)))
        self._dense: Codes = np.empty((room, n_rows), dtype)
        self._index_in_dense: dict[int, int] = {}  # column -> its index in `_dense`; used last comes last

    def sort(self, order: RowNumbers) -> None:
        """Reorder the rows."""
        index = np.empty_like(order)
        index[order] = np.arange(len(order), dtype=order.dtype)
        self.columns = [(index[rows], codes) for rows, codes in self.columns]
        self._index_in_dense.clear()

    def dense(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield dense columns until each sparse one of the ``features`` was among them.

        With the columns, (columns, rows), the index of each feature among them is yielded, -1 for absent ones. The
        array is overwritten afterwards.
        """
        columns = self._index_of[features].tolist()
        distinct = sorted({column for column in columns if column >= 0})
        for start in range(0, len(distinct), len(self._dense)):
            at_once = distinct[start : start + len(self._dense)]
            self._keep(at_once)
            indices = {column: self._index_in_dense[column] for column in at_once}
            yield self._dense, np.array([indices.get(column, -1) for column in columns], np.int64)

    def _keep(self, columns: Sequence[int]) -> None:
        """Write the dense copies of these columns."""
        for column in columns:
            if column in self._index_in_dense:
                self._index_in_dense[column] = self._index_in_dense.pop(column)
        for column in columns:
            if column in self._index_in_dense:
                continue
            is_full = len(self._index_in_dense) == len(self._dense)
            index = self._index_in_dense.pop(next(iter(self._index_in_dense))) if is_full else len(self._index_in_dense)
            rows, codes = self.columns[column]
            self._dense[index] = self._common[column]
            self._dense[index, rows] = codes
            self._index_in_dense[column] = index


# --- kernels ----------------------------------------------------------------------------------------------------------


_ONE = np.uint64(1)
# Rows whose entries follow those of the row in hand closely enough to prefetch them.
_NEAR = AHEAD >> _ONE


@kernel
def _add_share(  # type: ignore[no-untyped-def]
    starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more, share
):
    gh = gradients.ravel()
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    for part in range(firsts[share], firsts[share + 1]):
        node, first, last = parts[part, 0], parts[part, 1], parts[part, 2]
        histogram = (more[share - 1] if node == before else histograms[indices[node]]).ravel()
        stop = np.uint64(last)
        all_g, all_h = 0.0, 0.0
        for i in range(np.uint64(first), stop):
            if i + AHEAD < stop:
                later = np.uint64(rows[i + AHEAD])
                prefetch(starts, later)
                prefetch(gh, later << _ONE)
                prefetch(entries, np.uint64(starts[np.uint64(rows[i + _NEAR])]))
            row = np.uint64(rows[i])
            g, h = gh[row << _ONE], gh[(row << _ONE) + _ONE]
            all_g += g
            all_h += h
            for k in range(np.uint64(starts[row]), np.uint64(starts[row + _ONE])):
                add_pair(histogram, np.uint64(entries[k]) << _ONE, g, h)
        add_pair(histogram, np.uint64(total) << _ONE, all_g, all_h)


_adding = outlined(_add_share)


@kernel
def _add_share_in_order(  # type: ignore[no-untyped-def]
    starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more, share
):
    gh = gradients.ravel()
    histogram = (more[share - 1] if share > 0 else histograms[indices[0]]).ravel()
    for part in range(firsts[share], firsts[share + 1]):
        first, last = parts[part, 1], parts[part, 2]
        all_g, all_h = gh_totals(gradients[first:last], last - first)
        add_pair(histogram, np.uint64(total) << _ONE, all_g, all_h)
        k, stop = np.uint64(starts[first]), np.uint64(starts[last])
        if k == stop:
            continue
        row = np.uint64(first)
        while np.uint64(starts[row + _ONE]) == k:
            row += _ONE
        row -= np.uint64(steps[k])
        for entry in range(k, stop):
            row += np.uint64(steps[entry])
            at = row << _ONE
            add_pair(histogram, np.uint64(entries[entry]) << _ONE, gh[at], gh[at + _ONE])


_adding_in_order = outlined(_add_share_in_order)


@kernel
def add_entries_in_order(  # type: ignore[no-untyped-def]
    team, starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more, is_first
):
    """Do the work of `add_entries` for all rows in order, as the rows of one node.

    One loop over all entries takes a third of the time, as branch prediction fails at the end of a loop over the few
    entries of a row. Rows without entries are skipped.

    Parameters
    ----------
    steps
        unsigned (entries,): the distance from the row of the previous entry, or from row 0.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    values = starts, steps, entries, parts, firsts, gradients, total, histograms, indices, more
    share_out(team, _adding_in_order(values), len(firsts) - 1)


@kernel
def add_entries(  # type: ignore[no-untyped-def]
    team, starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more, is_first
):
    """Add each row's gradient pair to the slots of its entries in its node's histogram, and to the slot ``total``.

    Parameters
    ----------
    team, rows, parts, firsts, gradients, histograms, indices, more, is_first
        As for `frameboost.engines.memory.histograms.build_histograms`.
    starts, entries
        The entries (see `SparseCodes`).
    total
        The slot that all rows of the node are added to, that of a code without entries.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    share_out(
        team,
        _adding((starts, entries, rows, parts, firsts, gradients, total, histograms, indices, more)),
        len(firsts) - 1,
    )


@kernel
def _complete_one(histograms, indices, firsts, stops, common, item):  # type: ignore[no-untyped-def]
    histogram = histograms[indices[item]]
    all_g, all_h = histogram[common[0], 0], histogram[common[0], 1]
    for k in range(len(common)):
        g, h = 0.0, 0.0
        for slot in range(firsts[k], stops[k]):
            if slot != common[k]:
                g += histogram[slot, 0]
                h += histogram[slot, 1]
        histogram[common[k], 0], histogram[common[k], 1] = all_g - g, all_h - h


_completing = outlined(_complete_one)


@kernel
def complete_histograms(team, histograms, indices, firsts, stops, common):  # type: ignore[no-untyped-def]
    """Write the sums of the common codes: the total of all rows, in the slot ``common[0]``, minus all other sums.

    Example: a feature has the slots 3 to 5, 4 is that of the common code, and g sums to 7 over all rows. The sums 2, 7,
    1 become 2, 4, 1.

    Parameters
    ----------
    team
        The threads.
    histograms, indices
        float64 (histograms, slots, 2), and int64 (nodes,): the index of each node's.
    firsts, stops, common
        int64 (sparse features,): the slots of each, and the one without entries.
    """
    share_out(team, _completing((histograms, indices, firsts, stops, common)), len(indices))


@kernel
def write_entries(rows, codes, slot, first, free, entries):  # type: ignore[no-untyped-def]
    """Write the entries of one feature.

    Parameters
    ----------
    rows, codes
        uint32 and unsigned (entries,): its codes in some rows.
    slot
        Its first slot.
    first, free
        The first row, and unsigned (rows,): the position of the next entry of each row from there on, incremented by 1
        for each entry.
    entries
        unsigned, written: slots.
    """
    for i in range(len(rows)):
        row = rows[i] - first
        entries[free[row]] = slot + codes[i]
        free[row] += 1


@kernel
def gather_entries(starts, entries, order, new_starts, out, first, last):  # type: ignore[no-untyped-def]
    """Copy the entries of the rows ``order[first:last]`` (uint32) to ``out``, from ``new_starts[first]`` on."""
    at = np.uint64(new_starts[first])
    for i in range(np.uint64(first), np.uint64(last)):
        row = np.uint64(order[i])
        for k in range(np.uint64(starts[row]), np.uint64(starts[row + _ONE])):
            out[at] = entries[k]
            at += _ONE


# --- several features as one ------------------------------------------------------------------------------------------


class Bundles:
    """Codes of bundled features by row, and the mapping from their sums to those of the features.

    Attributes
    ----------
    codes
        uint8 (rows, bundles).
    offsets
        int64 (bundles + 1,): the first slot of each bundle in the bundles' histograms; last, the number of slots.
    sources, targets
        int64: slots of the bundles, and the slots of features to which their sums are added.
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
    """Write the sums of features from the sums of their bundles.

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
    """Return the features of each bundle, in order; features of ``without`` are excluded.

    Example: of features with 10, 10, 2, 300, 2 and 16 codes, the first three are a bundle of 200 codes, and the last
    two one of 32.
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
    """The codes of bundles by row, mixed-radix numbers with the codes of the bundle's features as digits.

    Features with 3 and 4 codes have 12 combined codes, 4 a + b. Sums by combined code are summed to those of each
    feature's codes, which is exact (see `frameboost.expressions.grid`): that of b = 1 is the sum of 1, 5 and 9.

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
        """Write the codes, from the codes of each feature."""
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
    """The codes of sparse features by row, with a code for each combination that occurs in the bundle.

    LightGBM's exclusive feature bundling (Ke et al. 2017, section 4), but exact: rows with entries of several features
    are not conflicts, but further combinations. One-hot columns of a string column with ten values have ten
    combinations, those of two such columns at most a hundred.

    Example: two features have the slots 0 to 1 and 2 to 4, and the common codes 0 and 2. Rows with the codes (0, 2),
    (1, 2), (0, 0), (1, 0), (0, 2) have the combinations 0, 1, 2, 3, 0: no entry, slot 1, slot 2, and both.

    The sums of a combination are added to its entries, and those of the first bundle also to the slot ``total``.
    """

    def __init__(self, codes: Codes, combinations: Sequence[Sequence[IntArray]], slots: IntArray, total: int) -> None:
        """Store the codes, the entries of each bundle's combinations, and the slot to which all rows are added."""
        self.codes = codes
        self.slots = slots
        self.offsets = np.cumsum([0, *map(len, combinations)])
        entries = [entry for bundle in combinations for entry in bundle]
        of_total = np.arange(self.offsets[1])
        self.sources = np.append(of_total, np.repeat(np.arange(len(entries)), [len(entry) for entry in entries]))
        self.targets = np.concatenate([np.full_like(of_total, total), *entries])

    def sort(self, order: RowNumbers) -> None:
        """Reorder the rows."""
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
    """Return at most ``most`` bundles of adjacent sparse features; None if there would be more.

    Parameters
    ----------
    columns
        For each feature the rows with entries, uint32, ascending, and their codes.
    firsts, stops, common
        int64 (features,): the slots of each, and that of its common code.
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
    """The combination of each row, and the entries of each combination; initially only the empty one."""

    def __init__(self, n_rows: int) -> None:
        self.codes = np.zeros(n_rows, np.uint8)
        self.combinations: list[IntArray] = [np.empty(0, np.int64)]

    def take(self, rows: RowNumbers, codes: Codes, first: int, n_codes: int) -> bool:
        """Add a feature with its first slot; return False, without a change, if combinations would be too many."""
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
    """Add a feature to a bundle (see `ExclusiveBundles`) if possible.

    Combinations are numbered from 0, new ones in row order.

    Parameters
    ----------
    rows, codes
        uint32 and unsigned (entries,): the feature's codes in the rows with an entry.
    n_codes
        The largest code plus 1.
    combined
        uint8 (rows,): each row's combination of the bundle's codes; updated to include this feature.
    n_combinations
        Their number.
    numbers
        uint16 (`MAX_COMBINATIONS` * n_codes,), zero before, written: the new combination of an old one and a code, 0 if
        no row has both.

    Returns
    -------
    Whether there are at most `MAX_COMBINATIONS`; if not, ``combined`` is unchanged.
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

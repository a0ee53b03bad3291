"""The feature columns in memory: values, cuts, codes and histograms.

- `FeatureColumns`: the source of features of an engine; `FrameColumns`: a frame
- `BinnedColumns`: the codes of all features: dense, sparse, bundled, or stored by key of a dimension
- `DenseCodes`: codes by row for histograms, and by column for splits
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from threading import local
from typing import Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs

from frameboost.binning.arrays import (
    SAMPLE_SIZE,
    Codes,
    RareValues,
    bin_array,
    bin_column,
    bin_rare_values,
    bin_together,
    indices_by_type,
    interleave,
    propose_column,
    rare_values,
    take_codes,
)
from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import sample_of
from frameboost.checks.messages import reason, shown
from frameboost.engines.memory.histograms import add_more, build_histograms, may_block
from frameboost.engines.memory.limits import (
    CODES_OF_ANY_ROWS,
    CODES_PER_TREE,
    COLUMNS_PER_COPY,
    MAX_ENTRIES,
    MAX_FIRST_SPLITS,
    MAX_TWICE,
    MIN_SORTED,
    MIN_SPARSE_COLUMNS,
    MIN_SPARSE_VALUES,
)
from frameboost.engines.memory.partition import RowPartition, take_rows
from frameboost.engines.memory.sparse import (
    BundledCodes,
    SparseCodes,
    StoredCodes,
    coded,
    complete_histograms,
    find_bundles,
)
from frameboost.engines.memory.star.keyed import KeyedColumns
from frameboost.engines.memory.terms import Scale
from frameboost.errors import DataError
from frameboost.runtime.storage import IN_MEMORY, Storage, returned
from frameboost.runtime.workers import (
    ADDITIONS_PER_TASK,
    CALLED_ROWS_PER_TASK,
    VALUES_PER_TASK,
    Pieces,
    RowNumbers,
    Workers,
)
from frameboost.schema.types import Feature, column, physical_values
from frameboost.splits.split import BoolArray, FloatArray, IntArray

__all__ = ["BinnedColumns", "DenseCodes", "FeatureColumns", "FrameColumns"]


class FeatureColumns(Protocol):
    """The feature columns before binning: of a frame, a sparse matrix, or the tables of a star.

    In-memory engines read them by feature index, independent of their source.
    """

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """Read the data, once, before any other call; return the columns of these names."""

    def values(self, number: int) -> pl.Series:
        """Return a feature's physical values, until `drop`."""

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """Return the number of missing values of each feature; ``sample`` masks the rows that cuts come from."""

    def kept_for_cuts(self, number: int) -> pl.Series | None:
        """Return the present values of a feature in the sample of `count_missing`, once, if they were kept."""

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, RowNumbers | None]:
        """Return the codes, and the order to sort the rows by, if there is one and they may be sorted."""

    def coder(self, bins: Sequence[Bins]) -> Callable[[int, Bins, Codes], None]:
        """Return a thread-safe function that writes the codes of a feature in all rows, from its index and bins."""

    def drop(self) -> None:
        """Free the columns."""


_SPACED_ROWS = 1 << 8  # that tell whether most rows have one code
# Bins of which none is of most rows, unless one value is.
_FEW_BINS = 1 << 5
# Rows of which columns are binned together, and the values of these columns, which stay in the processor's cache.
_FEW_ROWS, _VALUES_TOGETHER = 1 << 13, 1 << 16


class FrameColumns:
    """`FeatureColumns` of a lazy frame, which is read once, or one column at a time if the storage holds none.

    Parameters
    ----------
    frame
        The columns of the features and the roles.
    features, workers, storage
        The features, the threads, and the storage, which decides whether columns are held.
    """

    def __init__(
        self, frame: pl.LazyFrame, features: Sequence[Feature], workers: Workers, storage: Storage = IN_MEMORY
    ) -> None:
        self.frame = frame
        self.features = features
        self.workers = workers
        self.n_rows = 0
        self._storage = storage
        self._held = pl.DataFrame()  # the features' columns, named by their number
        self._physical: dict[int, pl.Series] = {}  # those that hold physical values, without NaN
        self._rare: dict[int, RareValues | None] = {}
        self._for_cuts: dict[int, pl.Series] = {}
        self._coded_together: dict[int, Codes] = {}  # codes by the bins that have been proposed

    def load(self, names: Sequence[str]) -> pl.DataFrame:
        """See `FeatureColumns.load`."""
        held = self.features if self._storage.holds_columns else ()
        of_features, roles = [feature.name for feature in held], list(dict.fromkeys(names))
        # Of thousands of columns, expressions take longer than reading them.
        read = self.frame.select(cs.by_name(*dict.fromkeys([*of_features, *roles]))).collect()
        self._held = read.select(cs.by_name(*of_features))
        self._held.columns = list(map(str, range(len(held))))
        self.n_rows = len(read)
        return read.select(cs.by_name(*roles))

    def values(self, number: int) -> pl.Series:
        """See `FeatureColumns.values`."""
        if number in self._physical:
            return self._physical[number]
        values = self._held[str(number)] if self._storage.holds_columns else self._read_again(number)
        physical = physical_values(values, self.features[number].type)
        if physical is values and self._storage.holds_columns:
            self._physical[number] = physical
        return physical

    def _read_again(self, number: int) -> pl.Series:
        name = self.features[number].name
        try:
            values = self.frame.select(column(name).alias(str(number))).collect().to_series()
        except (pl.exceptions.PolarsError, OSError) as error:
            problem = f"can't be read again: {reason(error)}"
        else:
            if len(values) == self.n_rows:
                return values
            problem = f"has {len(values):,} rows, where there were {self.n_rows:,} before"
        raise DataError(f"column {shown(name)} {problem}; files must not change while they are trained on")

    def _some_values(self, number: int, rows: pl.Series) -> pl.Series:
        """Return the physical values of a held feature in some rows; to convert all of them may take longer."""
        if number in self._physical:
            return self._physical[number][rows]
        return physical_values(self._held[str(number)][rows], self.features[number].type)

    def rare_values(self, number: int) -> RareValues | None:
        """Return a feature's `rare_values`, cached until `drop`."""
        if self.n_rows < SAMPLE_SIZE:  # so few have no frequent value, and of thousands of columns to ask takes long
            return None
        if number in self._rare:
            return self._rare[number]
        feature = self.features[number]
        rare = None if feature.type.is_categorical else rare_values(feature, self.values(number))
        if self._storage.holds_columns:
            self._rare[number] = rare
        return rare

    def count_missing(self, sample: pl.Series | None) -> list[int]:
        """See `FeatureColumns.count_missing`."""

        def count(number: int) -> int:
            if self._storage.holds_columns and self.features[number].type.name == "string":
                return self._held[str(number)].null_count()  # categories of polars are converted where they are needed
            values = self.values(number)
            if self._storage.holds_columns:
                self.rare_values(number)  # while the column is in the cache of the processor
            elif sample is not None and not self.features[number].type.is_categorical:
                present = self._storage.kept_frame(values.filter(sample).drop_nulls().to_frame())
                self._for_cuts[number] = present.to_series()
            return values.null_count()

        alone = self._storage.holds_columns and self.n_rows < CALLED_ROWS_PER_TASK
        return self.workers.each(range(len(self.features)), count, alone=alone)

    def kept_for_cuts(self, number: int) -> pl.Series | None:
        """See `FeatureColumns.kept_for_cuts`."""
        return self._for_cuts.pop(number, None)

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`; each thread proposes bins of one column at a time."""
        sample = sample_of(self.n_rows)
        proposed = dict(user_bins)
        rooms = local()  # one of each thread

        def propose(number: int) -> None:
            if not hasattr(rooms, "array"):
                rooms.array = returned(self.n_rows)
            rare = self.rare_values(number) if sample is None else None
            proposed[number] = propose_column(
                self.features[number], self.values(number), max_bin, sample, rare, rooms.array
            )

        if sample is None and self.n_rows <= _FEW_ROWS:
            proposed |= self._propose_together(max_bin, user_bins)
        missing = [i for i in range(len(self.features)) if i not in proposed]
        for number in missing:
            rare = self._rare.get(number)
            if rare is not None and sample is None and len(rare.rows) < CALLED_ROWS_PER_TASK:
                propose(number)
        alone = self.n_rows * len(self.features) < VALUES_PER_TASK
        self.workers.each([i for i in missing if i not in proposed], propose, alone=alone)
        return [proposed[i] for i in range(len(self.features))]

    def _propose_together(self, max_bin: int, known: Mapping[int, Bins]) -> dict[int, Bins]:
        """Return the bins of the other columns of floats but those with a frequent value; keep their codes."""
        proposed: dict[int, Bins] = {}
        numbers_of: dict[pl.DataType, list[int]] = {}
        for name, dtype in self._held.schema.items():
            kind = self.features[int(name)].type
            if kind.is_float and not kind.is_categorical and dtype == kind.physical_dtype:
                numbers_of.setdefault(dtype, []).append(int(name))

        def propose(numbers: Sequence[int]) -> None:
            values = self._held.select(list(map(str, numbers))).to_numpy(order="fortran").T
            binned = bin_together([self.features[number] for number in numbers], values, max_bin)
            for number, (bins, codes) in zip(numbers, binned, strict=True):
                proposed[number], self._coded_together[number] = bins, codes

        width = max(1, _VALUES_TOGETHER // max(1, self.n_rows))
        blocks = []
        for numbers in numbers_of.values():
            others = [i for i in numbers if i not in known and self.rare_values(i) is None]
            blocks += [others[first : first + width] for first in range(0, len(others), width)]
        self.workers.each(blocks, propose)
        return proposed

    def bin(self, bins: Sequence[Bins], *, may_sort: bool) -> tuple[BinnedColumns, RowNumbers | None]:
        """See `FeatureColumns.bin`; the rows stay in their order."""
        numbers = range(len(bins)) if self._storage.holds_columns else ()  # else all would be read once more
        binned = BinnedColumns(bins, self.n_rows, self.find_sparse(bins, numbers))
        binned.fill(self.coder(bins), self.workers, self.stored_codes)
        return binned, None

    def coder(self, bins: Sequence[Bins]) -> Callable[[int, Bins, Codes], None]:
        """See `FeatureColumns.coder`."""
        return self.write_codes

    def find_sparse(self, bins: Sequence[Bins], numbers: Sequence[int]) -> dict[int, int]:
        """Return the sparse ones of some features, each with its most frequent code.

        That is the code of the most frequent value if three quarters of the rows have it (see `rare_values`), otherwise
        an estimate from evenly spaced rows. Small data has no sparse features: all codes are in one array.
        """
        n_rows = self.n_rows
        if (
            n_rows * len(numbers) < MIN_SPARSE_VALUES
            or len(numbers) < MIN_SPARSE_COLUMNS
            or n_rows * len(bins) <= CODES_OF_ANY_ROWS
        ):
            return {}
        spaced = pl.Series(np.arange(0, n_rows, max(1, n_rows // _SPACED_ROWS), dtype=np.uint32))

        def most_frequent(number: int) -> int:
            rare = self.rare_values(number)
            if rare is not None and len(rare.rows) <= MAX_ENTRIES * n_rows:
                of_common: Codes = np.empty(1, np.uint32)
                bin_array(bins[number], np.array([rare.common]), of_common)
                return int(of_common[0])
            if bins[number].count > _FEW_BINS:
                return -1
            counts = np.bincount(coded(bins[number], self._some_values(number, spaced)))
            code = int(counts.argmax())
            return code if counts[code] >= (1 - MAX_ENTRIES) * counts.sum() else -1

        codes = self.workers.each(numbers, most_frequent, alone=n_rows < CALLED_ROWS_PER_TASK)
        sparse = {number: code for number, code in zip(numbers, codes, strict=True) if code >= 0}
        return sparse if len(sparse) >= MIN_SPARSE_COLUMNS else {}

    def write_codes(self, number: int, bins: Bins, codes: Codes) -> None:
        """Write the codes of a dense feature."""
        coded_before = self._coded_together.pop(number, None)
        if coded_before is not None:
            codes[:] = coded_before
            return
        bin_column(bins, self.values(number), codes)

    def stored_codes(self, number: int, bins: Bins) -> tuple[RowNumbers | None, Codes]:
        """Return some rows (None for all) and a sparse feature's codes in them; others have the common code."""
        rare = self.rare_values(number)
        if rare is None:
            return None, coded(bins, self.values(number))
        return rare.rows, bin_rare_values(bins, rare)

    def drop(self) -> None:
        """See `FeatureColumns.drop`."""
        self._held = pl.DataFrame()
        self._physical.clear()
        self._rare.clear()
        self._coded_together.clear()


# --- the codes of all features ----------------------------------------------------------------------------------------


class BinnedColumns:
    """The codes of all features, for histograms and, as `SplitColumns`, for partitions.

    Features are grouped by the dtype of their codes, so that a feature with many categories does not widen the codes of
    others. Sparse features, bundles of features with few bins, and features of dimensions are stored separately.

    Attributes
    ----------
    layout
        The slots of the histograms.
    by_row
        For each group its codes, (rows, features of the group), and the first slot of each of its features.
    sparse
        The sparse features, None if there are none.
    bundled
        The codes by row of bundled features, which are in no group of ``by_row``; None if there are none.
    keyed
        The features of dimensions whose codes are stored by key; None if there are none.
    """

    _dense: list[DenseCodes]

    def __init__(
        self,
        bins: Sequence[Bins],
        n_rows: int,
        common: Mapping[int, int] | None = None,
        room: BinnedColumns | None = None,
        keyed: KeyedColumns | None = None,
    ) -> None:
        """Lay out the codes; ``common`` maps sparse features to their common codes (see `find_sparse`).

        The codes overwrite arrays of ``room`` with the same dtypes, as fresh memory is slow. Codes of ``keyed`` are
        stored by key alone.
        """
        self.layout = SlotLayout(bins)
        self.n_rows = n_rows
        self.keyed = keyed
        elsewhere = {*(common or ()), *(keyed.features if keyed is not None else ())}
        self.sparse = SparseCodes(self.layout, common, n_rows) if common else None
        free = {} if room is None else {group.columns.dtype: group for group in room._dense}
        bundles = find_bundles(bins, n_rows, elsewhere) if keyed is None else []  # records are as narrow
        bundled = [feature for bundle in bundles for feature in bundle]
        self.bundled = BundledCodes(self.layout, bundles, n_rows) if bundles else None
        self._may_be_in_one = keyed is None and not elsewhere and not bundles and _is_small(n_rows, len(bins))
        least = np.uint16 if self._may_be_in_one else np.uint8
        self._dense = [
            # Own codes of one byte are in the records of keys.
            DenseCodes(indices, dtype, n_rows, by_row=keyed is None or dtype != np.uint8, room=free.get(dtype))
            for dtype, indices in indices_by_type(bins, {*elsewhere, *bundled}, least)
        ]
        if bundled:
            self._dense.append(DenseCodes(_indices(bundled, len(bins)), np.uint8, n_rows, by_row=False))
        self.by_row = [
            (group.rows, self.layout.offsets[group.features]) for group in self._dense if group.rows is not None
        ]

    @property
    def columns(self) -> dict[int, Codes]:
        """The codes of each feature that is in a group or bundled, by feature index."""
        groups = [zip(group.features.tolist(), group.columns, strict=True) for group in self._dense]
        return {feature: codes for group in groups for feature, codes in group}

    # --- what splits compare ------------------------------------------------------------------------------------------

    @cached_property
    def n_codes(self) -> IntArray:
        """See `SplitColumns.n_codes`."""
        return np.diff(self.layout.offsets)

    def compared(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """See `SplitColumns.compared`."""
        for group in self._dense:
            yield from group.compared(features)
        if self.sparse is not None:
            yield from self.sparse.by_column.dense(features)
        if self.keyed is not None:
            yield from self.keyed.columns(features)

    def sides(self, features: IntArray, goes_left: BoolArray, starts: IntArray) -> tuple[BoolArray, IntArray]:
        """See `SplitColumns.sides`: for codes stored by key, the sides of the keys."""
        return (goes_left, starts) if self.keyed is None else self.keyed.sides_of_keys(features, goes_left, starts)

    # --- what histograms read -----------------------------------------------------------------------------------------

    @property
    def in_one(self) -> tuple[Codes, Codes] | None:
        """The codes of all features in one array by row and one by column, for few rows; None otherwise."""
        if not self._may_be_in_one or len(self._dense) != 1 or self.by_row[0][0].dtype != np.uint16:
            return None
        return self.by_row[0][0], self._dense[0].columns

    @property
    def records(self) -> KeyedColumns | None:
        """The object that holds the codes of all features, by key or beside the keys of each row; None without one."""
        return self.keyed if not self.by_row and self.sparse is None else None

    def start_tree(self, gh: FloatArray, scale: Callable[[], Scale | None]) -> None:
        """Start a tree of these pairs, (rows, 2), multiples of ``scale()``; None if records hold them."""
        if self.keyed is not None and len(gh):
            self.keyed.start_tree(gh, scale())

    @cached_property
    def additions_per_row(self) -> int:
        """Return the average number of sums that a row is added to, at least 1, once the codes are written."""
        groups = [codes for codes, _ in self.by_row] + ([] if self.bundled is None else [self.bundled.codes])
        of_sparse = 0 if self.sparse is None else self.sparse.additions_per_row
        of_dense = sum(int(codes.shape[1]) for codes in groups)
        return max(1, of_dense + of_sparse + (0 if self.keyed is None else self.keyed.additions_per_row))

    def sum_by_bin(
        self, partition: RowPartition, nodes: Sequence[int], gh: Sequence[FloatArray], out: FloatArray,
        indices: Sequence[IntArray], workers: Workers, *, are_of_tree: bool = True,
    ) -> None:  # fmt: skip
        """Write the histograms of some nodes to ``out`` (see `HistogramEngine.histograms`).

        Parameters
        ----------
        gh, indices
            Pairs, and for each of them the ``indices`` of the nodes' histograms.
        are_of_tree
            Whether the pairs are those of `start_tree` (unless records hold them).
        """
        parts, firsts = partition.shares(nodes, ADDITIONS_PER_TASK // self.additions_per_row)
        are_in_order = self.sparse is not None and partition.has_all_in_order(nodes)
        for pairs, at in zip(gh, indices, strict=True):
            self._sum(partition.rows, parts, firsts, pairs, out, at, workers, are_in_order, are_of_tree)

    def _sum(
        self, rows: RowNumbers, parts: Pieces, firsts: IntArray, gh: FloatArray, out: FloatArray, indices: IntArray,
        workers: Workers, are_in_order: bool, are_of_tree: bool,
    ) -> None:  # fmt: skip
        count = len(firsts) - 1
        team = workers.team(count)
        # The shares after the first may start within a node that the share before is adding up. Each gets a histogram
        # of that node apart, which is added in the end.
        more, is_first = np.zeros((count - 1, *out.shape[1:])), True
        for codes, slots in self.by_row:
            blocks = may_block(codes, out.shape[1])
            build_histograms(team, codes, rows, parts, firsts, gh, slots, out, indices, more, is_first, blocks)
            is_first = False
        if self.sparse is not None:
            self.sparse.sum_by_bin(
                team, rows, parts, firsts, gh, out, indices, more, is_first=is_first, are_in_order=are_in_order
            )
            is_first = False
        if self.keyed is not None:
            self.keyed.add(
                team, rows, parts, firsts, gh, out, indices, more, is_first=is_first, reads_records=are_of_tree
            )
        if count > 1:
            add_more(parts, firsts, more, out, indices)
        for bundles in (self.bundled, None if self.sparse is None else self.sparse.bundles):
            if bundles is not None:
                bundles.sum_by_bin(team, rows, parts, firsts, gh, out, indices)
        if self.sparse is not None:
            complete_histograms(team, out, indices, self.sparse.firsts, self.sparse.stops, self.sparse.common)

    # --- codes that are written ---------------------------------------------------------------------------------------

    def fill(
        self, write: Callable[[int, Bins, Codes], None], workers: Workers, stored: StoredCodes | None = None
    ) -> None:
        """Write the codes of all columns: ``write`` writes a feature's, ``stored`` is passed to `SparseCodes.fill`."""
        for group in self._dense:
            group.fill(lambda i, codes: write(i, self.layout.bins[i], codes), workers)
        if self.sparse is not None:
            assert stored is not None
            self.sparse.fill(stored, workers)
        self._fill_copies(workers)

    def sort(self, order: RowNumbers, buffer: FloatArray, workers: Workers) -> None:
        """Reorder the rows; ``buffer`` has room for a float64 of each, and is overwritten."""
        for group in self._dense:
            group.sort(order, buffer, workers)
        if self.sparse is not None:
            self.sparse.sort(order, workers)
        if self.keyed is not None:
            self.keyed.sort(order)
        self._fill_copies(workers)

    def _fill_copies(self, workers: Workers) -> None:
        """Write the codes of bundles, and the records of keys, from their columns."""
        columns = self.columns
        if self.bundled is not None:
            self.bundled.fill(columns, workers)
        if self.keyed is not None:
            self.keyed.forget_records([columns[i] for i in self.keyed.fact_features])


def _is_small(n_rows: int, n_features: int) -> bool:
    """Whether trees are grown in one call: all codes are in one array, of one dtype for all data."""
    n_codes = n_rows * n_features
    return n_codes <= CODES_PER_TREE and (n_rows < MIN_SORTED or n_codes <= CODES_OF_ANY_ROWS)


def _indices(features: Sequence[int], n_features: int) -> IntArray:
    """Return the index of each feature among some of them, -1 for others."""
    indices = np.full(n_features, -1, np.int64)
    indices[features] = range(len(features))
    return indices


# --- the codes of features most of whose rows differ ------------------------------------------------------------------


# Writes the codes of a feature to an array.
WriteCodes = Callable[[int, Codes], None]

# Features whose columns are written at once.
_WIDTH = 8


class DenseCodes:
    """The codes of some features, all of one dtype: by row for histograms, and for few rows by column too.

    A histogram reads all codes of a row, a partition one code of each row. By row, three features of four rows lie in
    memory as a0 b0 c0, a1 b1 c1, ..., by column as a0 a1 a2 a3, b0 ... A partition of codes by row reads more bytes,
    but not more cache lines if the rows of a node are scattered, as from the third level on. A column-major copy of all
    codes would take half of the memory, so large data has copies only of the features that split the first levels.

    Attributes
    ----------
    indices
        int64 (all features,): the index of each feature among these, -1 for others.
    features
        int64: their numbers.
    columns
        (features, rows): the codes by column; a view of ``rows`` where there is no copy.
    rows
        (rows, features): the codes by row; None if not needed.

    Parameters
    ----------
    indices
        See above.
    dtype
        The type.
    n_rows
        The number of rows.
    by_row
        Whether there are codes by row.
    room
        Codes whose memory to reuse if the shapes are equal, as fresh memory is slow.
    """

    columns: Codes
    rows: Codes | None
    _copies: Codes  # (copied features, rows)
    _copied: IntArray  # the index among them of each feature, -1 of others; last, of a split on none of these features

    def __init__(
        self,
        indices: IntArray,
        dtype: npt.DTypeLike,
        n_rows: int,
        *,
        by_row: bool = True,
        room: DenseCodes | None = None,
    ) -> None:
        self.indices = indices
        self.features = np.flatnonzero(indices >= 0)
        shape = len(self.features), n_rows
        is_alike = room is not None and (room.columns.shape, room.columns.dtype) == (shape, dtype)
        if room is not None and is_alike and (room.rows is not None) == by_row:
            self.columns, self.rows = room.columns, room.rows
        else:
            self.rows = np.empty(shape[::-1], dtype) if by_row else None
            has_copy = self.rows is None or self.rows.nbytes <= MAX_TWICE
            self.columns = np.empty(shape, dtype) if self.rows is None or has_copy else self.rows.T
        self._forget_copies()

    @property
    def has_columns(self) -> bool:
        """Whether the columns have separate memory, instead of being views of the rows."""
        return self.columns.base is None

    def fill(self, write: WriteCodes, workers: Workers) -> None:
        """Write all codes; ``write`` writes those of a feature to a column."""
        columns, width = self.columns, len(self.features)
        if not self.has_columns:
            width = min(width, max(_WIDTH, workers.n_jobs))
            columns = np.empty((width, columns.shape[1]), columns.dtype)
        for first in range(0, len(self.features), width):
            numbers = self.features[first : first + width].tolist()
            columns = columns[: len(numbers)]
            alone = columns.size < VALUES_PER_TASK
            workers.each(list(zip(numbers, columns, strict=True)), lambda each: write(*each), alone=alone)
            if self.rows is not None:
                self._interleave(columns, first, workers)

    def _interleave(self, columns: Codes, at: int, workers: Workers) -> None:
        assert self.rows is not None
        workers.over(len(self.rows), partial(interleave, columns, self.rows, at), smallest=VALUES_PER_TASK)

    def sort(self, order: RowNumbers, buffer: FloatArray, workers: Workers) -> None:
        """Reorder the rows; ``buffer`` has room for a float64 of each, and is overwritten."""
        if self.has_columns:
            workers.each(list(self.columns), lambda column: _sort_column(column, order))
            if self.rows is not None:
                self._interleave(self.columns, 0, workers)
            return
        rows = self.rows
        assert rows is not None
        room = buffer.view(rows.dtype)
        width = len(room) // len(rows)
        for at in range(0, rows.shape[1], width):
            block = rows[:, at : at + width]
            in_order = room[: block.size].reshape(block.shape)
            take = partial(take_codes, rows, order, at, in_order)
            workers.over(len(rows), take, smallest=VALUES_PER_TASK)
            workers.over(len(rows), partial(_put, block, in_order), smallest=VALUES_PER_TASK)
        self._forget_copies()

    # --- what splits compare ------------------------------------------------------------------------------------------

    def compared(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield columns, and the one that each split compares (-1 for none), for splits on some features."""
        indices = self.indices[features]
        if self.has_columns:
            yield self.columns, indices
            return
        if len(features) <= MAX_FIRST_SPLITS:
            self._copy(set(indices[indices >= 0].tolist()))
        copied = self._copied[indices]
        yield self._copies, copied
        yield self.columns, np.where(copied < 0, indices, -1)

    def _copy(self, indices: set[int]) -> None:
        """Copy the columns of some features while there is room."""
        for index in indices:
            at = int(self._copied.max()) + 1
            if self._copied[index] < 0 and at < len(self._copies):
                self._copies[at] = self.columns[index]
                self._copied[index] = at

    def _forget_copies(self) -> None:
        n_features, n_rows = self.columns.shape
        self._copies = np.empty((-(-n_features // COLUMNS_PER_COPY), n_rows), self.columns.dtype)
        self._copied = np.full(n_features + 1, -1)


def _put(rows: Codes, values: Codes, first: int, last: int) -> None:
    rows[first:last] = values[first:last]


def _sort_column(column: Codes, order: RowNumbers) -> None:
    in_order = np.empty_like(column)
    take_rows(column, order, in_order)
    column[:] = in_order

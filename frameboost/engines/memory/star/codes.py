"""Codes of attributes that are stored by key, and how their histograms are summed and their splits carried out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import SlotLayout
from frameboost.engines.memory.gradients import Scale
from frameboost.engines.memory.programs.program import Program
from frameboost.engines.memory.row_order import take_all
from frameboost.engines.memory.star.bins import CodedTable
from frameboost.engines.memory.star.kernels import add_by_key, take_sides
from frameboost.engines.memory.star.packed import PackedGradients
from frameboost.engines.memory.star.packed_kernels import add_packed_by_key
from frameboost.engines.memory.star.records import Records
from frameboost.runtime.task_sizes import CODES_PER_TREE, VALUES_PER_TASK
from frameboost.runtime.workers import Pieces, Workers
from frameboost.splits.split import BoolArray, FloatArray, IntArray

__all__ = ["KeyedColumns", "chosen", "most_keys"]

RowNumbers = npt.NDArray[np.uint32]

# With fewer facts, codes by fact are as fast.
MIN_FACTS = 1 << 17
# A row is added to one sum a dimension in place of one an attribute: of fewer attributes, to hardly fewer.
MIN_ATTRIBUTES = 3
# Facts for each key; and if their sums by key do not stay in the L2 cache, and facts are sorted by another key.
MIN_PER_KEY, MIN_SCATTERED = 3, 16
# Keys whose sums stay in the L2 cache.
MAX_IN_CACHE = 1 << 15
# Rows of a node for each key from which on they are added up by key.
ROWS_PER_KEY = 1
# Of the dimension that facts are sorted by: the rows of one key are side by side in every node.
_NEVER = np.iinfo(np.int64).max


def chosen(tables: Sequence[CodedTable], n_codes: int, *, may_sort: bool) -> tuple[list[CodedTable], CodedTable | None]:
    """Return the dimensions whose codes are to be stored by key, and the one that facts are to be sorted by, if any.

    ``n_codes`` is the number of codes of all facts.
    """
    if n_codes <= CODES_PER_TREE:  # trees are grown in one call
        return [], None
    found = [
        table for table in tables
        if len(table.keys) >= max(MIN_FACTS, MIN_PER_KEY * table.n_keys)
        and len(table.features) >= MIN_ATTRIBUTES
    ]  # fmt: skip
    large = [table for table in found if table.n_keys > MAX_IN_CACHE]
    sorted_by = max(large, key=lambda table: table.n_keys) if large and may_sort else None
    scattered = [t for t in large if t is not sorted_by and len(t.keys) < MIN_SCATTERED * t.n_keys]
    return [table for table in found if table not in scattered], sorted_by


def most_keys(n_facts: int) -> int:
    """Return how many keys a dimension may have at most for its codes to be stored by key."""
    return n_facts // max(MIN_PER_KEY, 1)


class KeyedColumns:
    """The codes of the attributes of dimensions, one a key, and the keys of each row.

    Say a dimension of 3 keys has the attributes 4 and 5, of the codes 0, 1, 1 and 2, 0, 2. The rows of a node have the
    sums 10, 20 and 30 by key. Then those of attribute 4 are 10 and 50, and of attribute 5 20 (code 0) and 40 (code 2).
    A split that code 1 of attribute 4 goes right in is one that keys 1 and 2 go right in.

    Parameters
    ----------
    tables
        The dimensions.
    layout
        The slots of all features.
    elsewhere
        Features of the facts whose codes are not stored here, as they are sparse.
    workers
        The threads.
    in_order
        The number of the dimension whose keys the rows are in the order of, if any.
    """

    def __init__(
        self, tables: Sequence[CodedTable], layout: SlotLayout, elsewhere: Collection[int],
        workers: Workers, in_order: int | None = None,
    ) -> None:  # fmt: skip
        self._workers = workers
        self.features = {feature for table in tables for feature in table.features}
        self._codes = [table.codes for table in tables]
        self._keys = [table.keys.astype(np.min_scalar_type(max(table.n_keys - 1, 0)), copy=False) for table in tables]
        self._index_of: IntArray = np.full((len(layout.bins), 2), -1)  # the dimension, and the attribute in it
        for index, table in enumerate(tables):
            self._index_of[table.features, 0] = index
            self._index_of[table.features, 1] = range(len(table.features))
        dtype = np.result_type(*self._codes)
        self._by_key: Codes = np.concatenate([codes.T.ravel().astype(dtype) for codes in self._codes])
        own_bytes = [i for i, each in enumerate(layout.bins) if i not in self.features and each.largest_code < 256]
        self.own = [i for i in own_bytes if i not in elsewhere]
        self._records = Records([table.n_keys for table in tables], len(self.own))
        of_bytes = {k: index for index, k in enumerate(self._records.of_bytes)}
        self._tables = np.zeros((len(tables), 7), np.int64)
        n_sums, first_code, first_slot = 0, 0, 0
        for index, table in enumerate(tables):
            n_features, fewest = len(table.features), _NEVER if index == in_order else ROWS_PER_KEY * table.n_keys
            own_of_table = fewest, table.n_keys, first_code, first_slot, n_features, n_sums, of_bytes.get(index, -1)
            self._tables[index] = own_of_table
            n_sums += 0 if index == in_order else table.n_keys
            first_code, first_slot = first_code + table.codes.size, first_slot + n_features
        self._sums = np.zeros((workers.n_jobs, 2 * n_sums))
        by_slot = [*(i for table in tables for i in table.features), *self.own]
        self._slots = layout.offsets[by_slot]
        self._first_slot = first_slot
        self._packed = PackedGradients(len(self._keys[0]), may_count=dtype == np.uint8)

    def forget_records(self, own: Sequence[Codes]) -> None:
        """Have the keys of each row and its ``own`` codes written side by side when they are next read."""
        self._records.forget(own)

    @property
    def additions_per_row(self) -> int:
        """How many sums a row is added to, at most half of which are those of keys."""
        return 2 * len(self._codes) + len(self.own)

    def sort(self, order: RowNumbers) -> None:
        """Put the rows into another order."""
        for index, keys in enumerate(self._keys):
            self._keys[index] = np.empty_like(keys)
            take_all(keys, order, self._keys[index], self._workers)

    def start_tree(self, gh: FloatArray, scale: Scale | None) -> None:
        """Get ready to add the pairs of a tree, float64 (rows, 2)."""
        self._records.write(self._keys, self._packed.bytes_of(scale), self._workers)
        self._packed.write(gh, scale, self._records, self._workers)

    def compute(
        self, program: Program, columns: IntArray, offsets: FloatArray, scale: Scale
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the pairs of a tree in the records alone (see `PackedGradients.compute`)."""
        self._records.write(self._keys, self._packed.bytes_of(scale), self._workers)
        return self._packed.compute(program, columns, offsets, scale, self._records, self._workers)

    @property
    def has_numbers(self) -> bool:
        """Whether the pairs that are added up are in the records."""
        return self._packed.grid is not None or self._packed.steps is not None

    def add(
        self, team: IntArray | None, rows: RowNumbers, parts: Pieces, firsts: IntArray, gh: FloatArray,
        out: FloatArray, indices: IntArray, more: FloatArray, *, is_first: bool,
    ) -> None:  # fmt: skip
        """Add the pairs of rows to histograms (see `add_by_key`); ``gh`` are not read if `has_numbers`."""
        records = self._records
        own = np.array([0, 0, records.first_code, self._first_slot, len(self.own), 0, len(records.of_bytes)])
        columns = records.bytes, records.fields, self._tables, self._by_key, self._slots, own
        if self._packed.grid is not None:
            add_packed_by_key(
                team, *columns, rows, parts, firsts, self._packed.grid, out, indices, more, self._sums.view(np.int64),
                is_first,
            )  # fmt: skip
            return
        may_block = True if self._by_key.itemsize == 1 else None
        given = rows, parts, firsts, gh, self._packed.steps
        add_by_key(team, *columns, *given, out, indices, more, self._sums, may_block, is_first)

    def sides_of_keys(self, features: IntArray, goes_left: BoolArray, starts: IntArray) -> tuple[BoolArray, IntArray]:
        """Return the sides of splits with those of codes replaced by those of keys, where codes are stored by key."""
        chosen = self._index_of[features].tolist()
        if all(table < 0 for table, _ in chosen):
            return goes_left, starts
        counts = np.diff(starts).tolist()
        sizes = [count if t < 0 else self._codes[t].shape[1] for (t, _), count in zip(chosen, counts, strict=True)]
        ends = np.cumsum([0, *sizes])
        found = np.empty(ends[-1], np.bool_)

        def write(k: int) -> None:
            (table, index), own = chosen[k], goes_left[starts[k] : starts[k + 1]]
            out = found[ends[k] : ends[k + 1]]
            if table < 0:
                out[:] = own
            else:
                _write_sides(self._codes[table][index], own, out)

        self._workers.each(range(len(sizes)), write, alone=len(found) < VALUES_PER_TASK)
        return found, ends

    def columns(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield the keys of each dimension that splits compare, as one column, and 0 for each such split, else -1."""
        tables = self._index_of[features, 0]
        for table in np.unique(tables[tables >= 0]).tolist():
            yield self._keys[table][None, :], np.where(tables == table, 0, -1)


def _write_sides(codes: Codes, sides: BoolArray, out: BoolArray) -> None:
    """Write the side of each code; the last of ``sides`` is that of missing values.

    Where codes below a bin go left, as in numeric splits, they are compared by vector instructions: 1,000,000 keys take
    0.05 ms in place of 1.
    """
    below = int(np.count_nonzero(sides[:-1]))
    if not sides[:below].all():
        take_sides(codes, sides, out)
        return
    np.less(codes, below, out=out)
    if sides[-1]:
        out |= codes == len(sides) - 1

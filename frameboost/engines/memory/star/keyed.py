"""Codes of attributes stored by key: their histograms and splits.

In kernels, indices are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.binning.bins import SlotLayout
from frameboost.engines.memory.histograms import clearing
from frameboost.engines.memory.limits import (
    CODES_OF_ANY_ROWS,
    MAX_IN_CACHE,
    MIN_ATTRIBUTES,
    MIN_FACTS,
    MIN_PER_KEY,
    MIN_ROWS,
    MIN_SCATTERED,
    ROWS_PER_KEY,
)
from frameboost.engines.memory.partition import take_all
from frameboost.engines.memory.star.packed import add_packed_by_key
from frameboost.engines.memory.star.records import PackedGradients, Records
from frameboost.engines.memory.star.tables import CodedTable
from frameboost.engines.memory.terms import Scale
from frameboost.engines.programs import Program
from frameboost.runtime.intrinsics import (
    AHEAD,
    STRIDE,
    WIDTH,
    add_pair,
    add_pairs,
    prefetch,
    prefetch_all,
    read_eight,
    read_four,
)
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out
from frameboost.runtime.workers import VALUES_PER_TASK, Pieces, RowNumbers, Workers
from frameboost.splits.split import BoolArray, FloatArray, IntArray

__all__ = ["KeyedColumns", "chosen", "most_keys"]


# Of the dimension that facts are sorted by: the rows of one key are side by side in every node.
_NEVER = np.iinfo(np.int64).max


def chosen(tables: Sequence[CodedTable], n_codes: int, *, may_sort: bool) -> tuple[list[CodedTable], CodedTable | None]:
    """Return the dimensions to store codes by key for, and the one to sort the facts by, if any.

    ``n_codes`` is the number of codes of all facts.
    """
    if n_codes <= CODES_OF_ANY_ROWS:  # trees are grown in one call
        return [], None
    worthwhile = [
        table for table in tables
        if len(table.keys) >= max(MIN_FACTS, MIN_PER_KEY * table.n_keys)
        and len(table.features) >= MIN_ATTRIBUTES
    ]  # fmt: skip
    large = [table for table in worthwhile if table.n_keys > MAX_IN_CACHE]
    sorted_by = max(large, key=lambda table: table.n_keys) if large and may_sort else None
    scattered = [t for t in large if t is not sorted_by and len(t.keys) < MIN_SCATTERED * t.n_keys]
    return [table for table in worthwhile if table not in scattered], sorted_by


def most_keys(n_facts: int) -> int:
    """Return the maximum number of keys of a dimension for its codes to be stored by key."""
    return n_facts // max(MIN_PER_KEY, 1)


class KeyedColumns:
    """The codes of the attributes of dimensions, by key, and the keys of each row.

    Example: a dimension with 3 keys has the attributes 4 and 5, with the codes 0, 1, 1 and 2, 0, 2. The rows of a node
    have the sums 10, 20 and 30 by key. The sums of attribute 4 are then 10 and 50, and those of attribute 5 are 20
    (code 0) and 40 (code 2). If a split sends code 1 of attribute 4 right, it sends the keys 1 and 2 right.

    Parameters
    ----------
    tables
        The dimensions.
    layout
        The slots of all features.
    elsewhere
        Sparse features of the facts, with codes stored elsewhere.
    workers
        The threads.
    in_order
        The index of the dimension that the rows are sorted by, if any.
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
        byte_features = [i for i, each in enumerate(layout.bins) if i not in self.features and each.largest_code < 256]
        self.fact_features = [i for i in byte_features if i not in elsewhere]
        self._records = Records([table.n_keys for table in tables], len(self.fact_features))
        of_bytes = {k: index for index, k in enumerate(self._records.of_bytes)}
        self._tables = np.zeros((len(tables), 7), np.int64)
        n_sums, first_code, first_slot = 0, 0, 0
        for index, table in enumerate(tables):
            n_features, fewest = len(table.features), _NEVER if index == in_order else ROWS_PER_KEY * table.n_keys
            fields = fewest, table.n_keys, first_code, first_slot, n_features, n_sums, of_bytes.get(index, -1)
            self._tables[index] = fields
            n_sums += 0 if index == in_order else table.n_keys
            first_code, first_slot = first_code + table.codes.size, first_slot + n_features
        self._sums = np.zeros((workers.n_jobs, 2 * n_sums))
        by_slot = [*(i for table in tables for i in table.features), *self.fact_features]
        self._slots = layout.offsets[by_slot]
        self._first_slot = first_slot
        self._packed = PackedGradients(len(self._keys[0]), may_count=dtype == np.uint8)

    def forget_records(self, fact_codes: Sequence[Codes]) -> None:
        """Rewrite the keys of each row and its ``fact_codes`` codes into records at the next read."""
        self._records.forget(fact_codes)

    @property
    def additions_per_row(self) -> int:
        """The number of sums that a row is added to; sums by key are at most half of them."""
        return 2 * len(self._codes) + len(self.fact_features)

    def sort(self, order: RowNumbers) -> None:
        """Reorder the rows."""
        for index, keys in enumerate(self._keys):
            self._keys[index] = np.empty_like(keys)
            take_all(keys, order, self._keys[index], self._workers)

    def start_tree(self, gh: FloatArray, scale: Scale | None) -> None:
        """Prepare to add the pairs of a tree, float64 (rows, 2)."""
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
        """Whether the pairs to sum are in the records."""
        return self._packed.grid is not None or self._packed.steps is not None

    def add(
        self, team: IntArray, rows: RowNumbers, parts: Pieces, firsts: IntArray, gh: FloatArray,
        out: FloatArray, indices: IntArray, more: FloatArray, *, is_first: bool, reads_records: bool = True,
    ) -> None:  # fmt: skip
        """Add the pairs of rows to histograms (see `add_by_key`), from the records if they hold them."""
        records = self._records
        n_features, n_byte_keys = len(self.fact_features), len(records.of_bytes)
        facts = np.array([0, 0, records.first_code, self._first_slot, n_features, 0, n_byte_keys])
        columns = records.bytes, records.fields, self._tables, self._by_key, self._slots, facts
        if self._packed.grid is not None and reads_records:
            add_packed_by_key(
                team, *columns, rows, parts, firsts, self._packed.grid, out, indices, more, self._sums.view(np.int64),
                is_first,
            )  # fmt: skip
            return
        may_block = True if self._by_key.itemsize == 1 else None
        pairs = rows, parts, firsts, gh, self._packed.steps if reads_records else None
        add_by_key(team, *columns, *pairs, out, indices, more, self._sums, may_block, is_first)

    def sides_of_keys(self, features: IntArray, goes_left: BoolArray, starts: IntArray) -> tuple[BoolArray, IntArray]:
        """Return the sides of splits, with sides of codes replaced by sides of keys if codes are stored by key."""
        chosen = self._index_of[features].tolist()
        if all(table < 0 for table, _ in chosen):
            return goes_left, starts
        counts = np.diff(starts).tolist()
        sizes = [count if t < 0 else self._codes[t].shape[1] for (t, _), count in zip(chosen, counts, strict=True)]
        ends = np.cumsum([0, *sizes])
        sides = np.empty(ends[-1], np.bool_)

        def write(k: int) -> None:
            (table, index), code_sides = chosen[k], goes_left[starts[k] : starts[k + 1]]
            out = sides[ends[k] : ends[k + 1]]
            if table < 0:
                out[:] = code_sides
            else:
                _write_sides(self._codes[table][index], code_sides, out)

        self._workers.each(range(len(sizes)), write, alone=len(sides) < VALUES_PER_TASK)
        return sides, ends

    def columns(self, features: IntArray) -> Iterator[tuple[Codes, IntArray]]:
        """Yield the keys of each dimension that splits compare, as one column, with 0 for such a split, else -1."""
        tables = self._index_of[features, 0]
        for table in np.unique(tables[tables >= 0]).tolist():
            yield self._keys[table][None, :], np.where(tables == table, 0, -1)


def _write_sides(codes: Codes, sides: BoolArray, out: BoolArray) -> None:
    """Write the side of each code; the last of ``sides`` is that of missing values.

    Numeric splits, where codes below a bin go left, are compared with vector instructions: 1,000,000 keys take 0.05 ms
    instead of 1 ms.
    """
    below = int(np.count_nonzero(sides[:-1]))
    if not sides[:below].all():
        take_sides(codes, sides, out)
        return
    np.less(codes, below, out=out)
    if sides[-1]:
        out |= codes == len(sides) - 1


# --- kernels ----------------------------------------------------------------------------------------------------------


_ONE = np.uint64(1)
# Rows that are read together: their pairs and keys stay in the L1 cache.
_ROWS = 1024
_WIDTH, _STRIDE = np.uint64(WIDTH), np.uint64(STRIDE)
# The fields of a dimension's row in ``tables``, see `add_by_key`.
_MIN_ROWS, _N_KEYS, _FIRST_CODE, _FIRST_SLOT, _N_FEATURES, _FIRST_SUM, _BYTE_KEY = range(7)
_N_BYTE_KEYS = _BYTE_KEY


@kernel
def take_sides(codes, sides, out):  # type: ignore[no-untyped-def]
    """Write the side (bool) of each code to ``out``."""
    for i in range(len(codes)):
        out[i] = sides[np.uint64(codes[i])]


@kernel
def _add_to_slots(histogram, slots, codes, starts, count, gh, n_features):  # type: ignore[no-untyped-def]
    """Add pairs to the bins of the codes that start at each of ``starts``."""
    for i in range(np.uint64(0), count):
        g, h = gh[i << _ONE], gh[(i << _ONE) + _ONE]
        for feature in range(n_features):
            slot = np.uint64(slots[feature]) + np.uint64(codes[starts[i] + feature])
            add_pair(histogram, slot << _ONE, g, h)


@kernel
def _add_in_blocks(sums, codes, starts, count, gh, n_features):  # type: ignore[no-untyped-def]
    """Do the same for 256 bins of each feature (see `frameboost.engines.memory.columns`)."""
    whole = n_features - n_features % _WIDTH
    for i in range(np.uint64(0), count):
        g, h, start = gh[i << _ONE], gh[(i << _ONE) + _ONE], starts[i]
        for k in range(np.uint64(0), whole, _WIDTH):
            add_pairs(sums, k * _STRIDE, codes, start + k, g, h)
        for k in range(whole, n_features):
            add_pair(sums, k * _STRIDE + (np.uint64(codes[start + k]) << _ONE), g, h)


@kernel
def _add(table, may_block, blocks, histogram, slots, codes, starts, count, gh):  # type: ignore[no-untyped-def]
    """Add pairs to the bins of a dimension's attributes, with codes that start at ``starts``."""
    n_features = np.uint64(table[_N_FEATURES])
    if may_block is not None and blocks is not None:
        _add_in_blocks(blocks[table[_FIRST_SLOT] * STRIDE :], codes, starts, count, gh, n_features)
    else:
        _add_to_slots(histogram, slots[table[_FIRST_SLOT] :], codes, starts, count, gh, n_features)


@kernel
def _merge_blocks(blocks, slots, histogram):  # type: ignore[no-untyped-def]
    """Add the sums of 256 bins of each feature to the feature's slots, and clear them."""
    for k in range(len(slots)):
        # After the feature's slots are those of other features: 0 is added to them.
        bins_of_feature, block_sums = histogram[2 * slots[k] :][:512], blocks[k * STRIDE :]
        for i in range(len(bins_of_feature)):
            bins_of_feature[i] += block_sums[i]
        for i in range(512):
            block_sums[i] = 0.0


@kernel
def _gh_of(bytes_, start, steps):  # type: ignore[no-untyped-def]
    """Return g and h of the record that starts at this byte (see `frameboost.engines.memory.star.records`)."""
    step_g, step_h, n_bytes = steps
    shift = np.int64(64 - 8 * n_bytes)
    g = (read_eight(bytes_, start) << shift) >> shift
    h = (read_eight(bytes_, start + np.uint64(n_bytes)) << shift) >> shift
    return np.float64(g) * step_g, np.float64(h) * step_h


@kernel
def _read_block(  # type: ignore[no-untyped-def]
    records, facts, rows, first, last, stop, gradients, steps, gh, starts, blocks,
):  # fmt: skip
    """Copy the pairs of ``rows[first:last]``, and the starts of their records.

    If there are ``blocks``, add the pairs to those of one-byte keys, and of the facts' codes, which follow the keys.
    """
    n_columns = np.uint64(facts[_N_BYTE_KEYS] + facts[_N_FEATURES])
    first_code, whole = np.uint64(facts[_FIRST_CODE] - facts[_N_BYTE_KEYS]), n_columns - n_columns % _WIDTH
    width = np.uint64(records.shape[1])
    bytes_, all_gh = records.ravel(), gradients.ravel()
    for i in range(first, last):
        if i + AHEAD < stop:
            later = np.uint64(rows[i + AHEAD])
            prefetch_all(bytes_, later * width, width)
            if steps is None:
                prefetch(all_gh, later << _ONE)
        row, at = np.uint64(rows[i]), (i - first) << _ONE
        start = row * width
        if steps is None:
            g, h = all_gh[row << _ONE], all_gh[(row << _ONE) + _ONE]
        else:
            g, h = _gh_of(bytes_, start, steps)
        gh[at], gh[at + _ONE], starts[i - first] = g, h, start
        if blocks is not None:
            for k in range(np.uint64(0), whole, _WIDTH):
                add_pairs(blocks, k * _STRIDE, bytes_, start + first_code + k, g, h)
            for k in range(whole, n_columns):
                add_pair(blocks, k * _STRIDE + (np.uint64(bytes_[start + first_code + k]) << _ONE), g, h)


@kernel
def _merge_runs(table, field, bytes_, records, count, gh, codes, starts, sums):  # type: ignore[no-untyped-def]
    """Write the start of the codes of each run of rows with one key, and its sum; return the number of runs."""
    first, n_features = np.uint64(table[_FIRST_CODE]), np.uint64(table[_N_FEATURES])
    at_key, mask = np.uint64(field[0]), np.uint32(field[1])
    run, before = np.uint64(0), np.uint32(0xFFFFFFFF)  # no key
    g = h = 0.0
    for i in range(np.uint64(0), count):
        key = read_four(bytes_, records[i] + at_key) & mask
        is_new = key != before
        run += np.uint64(is_new)
        g = gh[i << _ONE] + (0.0 if is_new else g)
        h = gh[(i << _ONE) + _ONE] + (0.0 if is_new else h)
        at = run - _ONE
        starts[at], sums[at << _ONE], sums[(at << _ONE) + _ONE] = first + np.uint64(key) * n_features, g, h
        prefetch_all(codes, starts[at], n_features)
        before = key
    return run


@kernel
def _add_to_keys(field, bytes_, records, count, gh, sums):  # type: ignore[no-untyped-def]
    """Sum pairs by key."""
    at_key, mask = np.uint64(field[0]), np.uint32(field[1])
    for i in range(np.uint64(0), count):
        key = np.uint64(read_four(bytes_, records[i] + at_key) & mask)
        add_pair(sums, key << _ONE, gh[i << _ONE], gh[(i << _ONE) + _ONE])


@kernel
def _take_sums(table, by_key, may_block, blocks, histogram, slots, codes, starts, gh):  # type: ignore[no-untyped-def]
    """Add the sums of all keys to the bins of their codes, and clear the sums."""
    first, n_features = np.uint64(table[_FIRST_CODE]), np.uint64(table[_N_FEATURES])
    count = np.uint64(0)
    for key in range(np.uint64(0), np.uint64(table[_N_KEYS])):
        at = key << _ONE
        g, h = by_key[at], by_key[at + _ONE]
        starts[count], gh[count << _ONE], gh[(count << _ONE) + _ONE] = first + key * n_features, g, h
        by_key[at] = by_key[at + _ONE] = 0.0
        count += np.uint64(g != 0.0 or h != 0.0)  # the next key overwrites one without rows: no branch
        if count == np.uint64(_ROWS):
            _add(table, may_block, blocks, histogram, slots, codes, starts, count, gh)
            count = np.uint64(0)
    _add(table, may_block, blocks, histogram, slots, codes, starts, count, gh)


@kernel
def _add_part(  # type: ignore[no-untyped-def]
    records, fields, tables, codes, slots, facts, rows, first, stop, gradients, steps, histogram, by_key, may_block,
    blocks, byte_blocks, n_rows, room,
):  # fmt: skip
    """Add the pairs of ``rows[first:stop]`` to bins, or to the sums by key, which are read at the end of the node."""
    gh, starts, run_starts, run_gh = room
    bytes_ = records.ravel()
    for start in range(first, stop, np.uint64(_ROWS)):
        last = min(start + np.uint64(_ROWS), stop)
        count = last - start
        _read_block(records, facts, rows, start, last, stop, gradients, steps, gh, starts, byte_blocks)
        if byte_blocks is None and facts[_N_FEATURES] > 0:
            fact_codes, fact_slots = bytes_[facts[_FIRST_CODE] :], slots[facts[_FIRST_SLOT] :]
            _add_to_slots(histogram, fact_slots, fact_codes, starts, count, gh, np.uint64(facts[_N_FEATURES]))
        for k in range(len(tables)):
            table = tables[k]
            if byte_blocks is not None and table[_BYTE_KEY] >= 0:
                continue
            if n_rows >= table[_MIN_ROWS]:
                _add_to_keys(fields[k], bytes_, starts, count, gh, by_key[2 * table[_FIRST_SUM] :])
            else:
                n_runs = _merge_runs(table, fields[k], bytes_, starts, count, gh, codes, run_starts, run_gh)
                _add(table, may_block, blocks, histogram, slots, codes, run_starts, n_runs, run_gh)


@kernel
def _add_share_by_key(  # type: ignore[no-untyped-def]
    records, fields, tables, codes, slots, facts, rows, parts, firsts, gradients, steps, histograms, indices, more,
    by_key, may_block, share,
):  # fmt: skip
    room = np.empty(2 * _ROWS), np.empty(_ROWS, np.uint64), np.empty(_ROWS + 1, np.uint64), np.empty(2 * _ROWS + 2)
    n_attributes, n_byte_keys = facts[_FIRST_SLOT], facts[_N_BYTE_KEYS]
    blocks = np.empty((len(slots) + n_byte_keys) * STRIDE)
    blocks[:] = 0.0
    byte_blocks = blocks[n_attributes * STRIDE :]
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    part = firsts[share]
    while part < firsts[share + 1]:
        node, end, n_rows = parts[part, 0], part, 0
        while end < firsts[share + 1] and parts[end, 0] == node:
            n_rows += parts[end, 2] - parts[end, 1]
            end += 1
        histogram = (more[share - 1] if node == before else histograms[indices[node]]).ravel()
        is_large = n_rows >= MIN_ROWS
        for each in range(part, end):
            first, stop = np.uint64(parts[each, 1]), np.uint64(parts[each, 2])
            values = (
                records, fields, tables, codes, slots, facts, rows, first, stop, gradients, steps, histogram,
                by_key[share],
            )  # fmt: skip
            if is_large:
                _add_part(*values, may_block, blocks, byte_blocks, n_rows, room)
            else:
                _add_part(*values, may_block, None, None, n_rows, room)
        for k in range(len(tables)):
            is_byte = is_large and tables[k, _BYTE_KEY] >= 0
            if is_byte or n_rows >= tables[k, _MIN_ROWS]:
                sums = by_key[share, 2 * tables[k, _FIRST_SUM] :]
                if is_byte:
                    sums = byte_blocks[tables[k, _BYTE_KEY] * STRIDE :]
                if is_large:
                    _take_sums(tables[k], sums, may_block, blocks, histogram, slots, codes, room[2], room[3])
                else:
                    _take_sums(tables[k], sums, may_block, None, histogram, slots, codes, room[2], room[3])
        if is_large:
            _merge_blocks(blocks, slots[:n_attributes], histogram)
            _merge_blocks(byte_blocks[n_byte_keys * STRIDE :], slots[n_attributes:], histogram)
        part = end


_adding_by_key = outlined(_add_share_by_key)


@kernel
def add_by_key(  # type: ignore[no-untyped-def]
    team, records, fields, tables, codes, slots, facts, rows, parts, firsts, gradients, steps, histograms, indices,
    more, by_key, may_block, is_first,
):  # fmt: skip
    """Add each row's gradient pair to the bins of the fact's codes, and of the attributes of its keys.

    In a node with many rows, the pairs are first summed by key, and then added once per key to the bins of its
    attributes. In a node with fewer rows, the pairs of adjacent rows with the same key are summed.

    Parameters
    ----------
    team, rows, parts, firsts, gradients, histograms, indices, more, is_first
        As for `frameboost.engines.memory.histograms.build_histograms`.
    records, fields
        See `frameboost.engines.memory.star.records.Records`.
    tables
        int64 (dimensions, 7): the minimum rows of a node for sums by key; the number of keys; the start of the codes;
        the first slot; the number of features; the start of the dimension's sums; the index of its key among the
        one-byte keys of records, or -1.
    codes, slots
        uint8, uint16 or uint32: the codes of each key's features, for all dimensions; and int64: the first slot of each
        feature, features of the facts last.
    facts
        int64 (7,), as a row of ``tables``: the start of the fact's codes in a record, their first slot, their number;
        and last the number of one-byte keys, which precede them.
    steps
        The steps of g and h, and the bytes of their numbers in records; None if records have no numbers, so that
        ``gradients`` is read.
    by_key
        float64 (shares, 2 sums): zero before and after.
    may_block
        Whether codes of dimensions are uint8; None instead of False.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    values = (
        records, fields, tables, codes, slots, facts, rows, parts, firsts, gradients, steps, histograms, indices, more,
        by_key, may_block,
    )  # fmt: skip
    share_out(team, _adding_by_key(values), len(firsts) - 1)

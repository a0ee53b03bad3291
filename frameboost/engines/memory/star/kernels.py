"""Kernels over facts whose attributes are in dimensions: rows of keys, and sums by key.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.histogram_kernels import MIN_ROWS, clearing
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
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["add_by_key", "count_rows", "look_up", "order_by_key", "take_sides", "write_records"]

_ONE = np.uint64(1)
# Rows that are read together: their pairs and keys stay in the L1 cache.
_ROWS = 1024
_WIDTH, _STRIDE = np.uint64(WIDTH), np.uint64(STRIDE)
# The fields of a dimension's row in ``tables``, see `add_by_key`.
_MIN_ROWS, _N_KEYS, _FIRST_CODE, _FIRST_SLOT, _N_FEATURES, _FIRST_SUM, _BYTE_KEY = range(7)
_N_BYTE_KEYS = _BYTE_KEY


@kernel
def look_up(values, lowest, table, unknown, out):  # type: ignore[no-untyped-def]
    """Write to ``out`` (uint32) the row of each key: ``table[value - lowest]``, or ``unknown`` beyond the table."""
    size = np.uint64(len(table))
    for i in range(len(values)):
        index = np.uint64(np.int64(values[i]) - lowest)  # of a value below, a large number
        out[i] = table[index] if index < size else unknown


@kernel
def count_rows(rows, of, counts):  # type: ignore[no-untyped-def]
    """Add to ``counts`` (int64) how often each row is in ``rows`` (uint32), or in ``rows[of]`` unless that is None."""
    if of is None:
        for i in range(np.uint64(0), np.uint64(len(rows))):
            counts[np.uint64(rows[i])] += 1
    else:
        for i in range(np.uint64(0), np.uint64(len(of))):
            counts[np.uint64(rows[np.uint64(of[i])])] += 1


@kernel
def order_by_key(keys, first, last, starts, order):  # type: ignore[no-untyped-def]
    """Write the row numbers of the keys ``first`` to ``last - 1`` to ``order`` (uint32) by ascending key.

    Those of equal keys are in order. ``starts`` (int64) is where the rows of each key start, and is changed.
    """
    n_keys = np.uint32(last - first)
    for row in range(np.uint64(0), np.uint64(len(keys))):
        index = np.uint32(np.uint32(keys[row]) - np.uint32(first))  # of a key below, a large number
        if index < n_keys:
            key = np.uint64(keys[row])
            order[np.uint64(starts[key])] = row
            starts[key] += 1


@kernel
def write_records(values, at, width, records, first, last):  # type: ignore[no-untyped-def]
    """Write the ``width`` lowest bytes of the values (unsigned) of some rows to their records, from ``at`` on."""
    n_bytes, bytes_ = np.uint64(records.shape[1]), records.ravel()
    for row in range(np.uint64(first), np.uint64(last)):
        rest, start = np.uint32(values[row]), row * n_bytes + np.uint64(at)
        for k in range(np.uint64(width)):
            bytes_[start + k] = np.uint8(rest & np.uint32(255))
            rest >>= np.uint32(8)


@kernel
def take_sides(codes, sides, out):  # type: ignore[no-untyped-def]
    """Write to ``out`` the side (bool) of each code."""
    for i in range(len(codes)):
        out[i] = sides[np.uint64(codes[i])]


@kernel
def _add_to_slots(histogram, slots, codes, starts, count, gh, n_features):  # type: ignore[no-untyped-def]
    """Add pairs to the bins of the codes from each of ``starts`` on."""
    for i in range(np.uint64(0), count):
        g, h = gh[i << _ONE], gh[(i << _ONE) + _ONE]
        for feature in range(n_features):
            slot = np.uint64(slots[feature]) + np.uint64(codes[starts[i] + feature])
            add_pair(histogram, slot << _ONE, g, h)


@kernel
def _add_in_blocks(sums, codes, starts, count, gh, n_features):  # type: ignore[no-untyped-def]
    """Do the same to 256 bins of each feature (see `histogram_kernels`)."""
    whole = n_features - n_features % _WIDTH
    for i in range(np.uint64(0), count):
        g, h, start = gh[i << _ONE], gh[(i << _ONE) + _ONE], starts[i]
        for k in range(np.uint64(0), whole, _WIDTH):
            add_pairs(sums, k * _STRIDE, codes, start + k, g, h)
        for k in range(whole, n_features):
            add_pair(sums, k * _STRIDE + (np.uint64(codes[start + k]) << _ONE), g, h)


@kernel
def _add(table, may_block, blocks, histogram, slots, codes, starts, count, gh):  # type: ignore[no-untyped-def]
    """Add pairs to the bins of a dimension's attributes, of which ``starts`` are the codes' places."""
    n_features = np.uint64(table[_N_FEATURES])
    if may_block is not None and blocks is not None:
        _add_in_blocks(blocks[table[_FIRST_SLOT] * STRIDE :], codes, starts, count, gh, n_features)
    else:
        _add_to_slots(histogram, slots[table[_FIRST_SLOT] :], codes, starts, count, gh, n_features)


@kernel
def _merge_blocks(blocks, slots, histogram):  # type: ignore[no-untyped-def]
    """Add the sums of 256 bins of each feature to the feature's slots, and clear them."""
    for k in range(len(slots)):
        # Behind the feature's own slots are those of other features: 0 is added to them.
        own, found = histogram[2 * slots[k] :][:512], blocks[k * STRIDE :]
        for i in range(len(own)):
            own[i] += found[i]
        for i in range(512):
            found[i] = 0.0


@kernel
def _gh_of(bytes_, start, steps):  # type: ignore[no-untyped-def]
    """Return g and h of the record that starts there (see `frameboost.engines.memory.star.packed`)."""
    step_g, step_h, n_bytes = steps
    shift = np.int64(64 - 8 * n_bytes)
    g = (read_eight(bytes_, start) << shift) >> shift
    h = (read_eight(bytes_, start + np.uint64(n_bytes)) << shift) >> shift
    return np.float64(g) * step_g, np.float64(h) * step_h


@kernel
def _read_block(  # type: ignore[no-untyped-def]
    records, own, rows, first, last, stop, gradients, steps, gh, starts, blocks,
):  # fmt: skip
    """Copy the pairs of ``rows[first:last]``, and where their records start.

    If there are ``blocks``, add the pairs to those of keys of one byte, and of the own codes, which lie behind them.
    """
    n_columns = np.uint64(own[_N_BYTE_KEYS] + own[_N_FEATURES])
    first_code, whole = np.uint64(own[_FIRST_CODE] - own[_N_BYTE_KEYS]), n_columns - n_columns % _WIDTH
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
    """Write where the codes of each run of rows of one key start, and the sum of its pairs; return how many."""
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
    """Add pairs up by key."""
    at_key, mask = np.uint64(field[0]), np.uint32(field[1])
    for i in range(np.uint64(0), count):
        key = np.uint64(read_four(bytes_, records[i] + at_key) & mask)
        add_pair(sums, key << _ONE, gh[i << _ONE], gh[(i << _ONE) + _ONE])


@kernel
def _take_sums(table, by_key, may_block, blocks, histogram, slots, codes, starts, gh):  # type: ignore[no-untyped-def]
    """Add the sums of all keys to the bins of their codes, and clear them."""
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
    records, fields, tables, codes, slots, own, rows, first, stop, gradients, steps, histogram, by_key, may_block,
    blocks, byte_blocks, n_rows, room,
):  # fmt: skip
    """Add the pairs of ``rows[first:stop]`` to bins, or to the sums by key that are taken at the end of the node."""
    gh, starts, run_starts, run_gh = room
    bytes_ = records.ravel()
    for start in range(first, stop, np.uint64(_ROWS)):
        last = min(start + np.uint64(_ROWS), stop)
        count = last - start
        _read_block(records, own, rows, start, last, stop, gradients, steps, gh, starts, byte_blocks)
        if byte_blocks is None and own[_N_FEATURES] > 0:
            own_codes, own_slots = bytes_[own[_FIRST_CODE] :], slots[own[_FIRST_SLOT] :]
            _add_to_slots(histogram, own_slots, own_codes, starts, count, gh, np.uint64(own[_N_FEATURES]))
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
    records, fields, tables, codes, slots, own, rows, parts, firsts, gradients, steps, histograms, indices, more,
    by_key, may_block, share,
):  # fmt: skip
    room = np.empty(2 * _ROWS), np.empty(_ROWS, np.uint64), np.empty(_ROWS + 1, np.uint64), np.empty(2 * _ROWS + 2)
    n_attributes, n_byte_keys = own[_FIRST_SLOT], own[_N_BYTE_KEYS]
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
                records, fields, tables, codes, slots, own, rows, first, stop, gradients, steps, histogram,
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
    team, records, fields, tables, codes, slots, own, rows, parts, firsts, gradients, steps, histograms, indices, more,
    by_key, may_block, is_first,
):  # fmt: skip
    """Add each row's gradient pair to the bins of its own codes, and of the attributes that its keys refer to.

    Of a node of many rows, the pairs are first added up by key, and then once for each key to the bins of its
    attributes. Of a node of fewer rows, the pairs of rows side by side that have one key are added up.

    Parameters
    ----------
    team, rows, parts, firsts, gradients, histograms, places, more, is_first
        As for `frameboost.engines.memory.histogram_kernels.build_histograms`.
    records, fields
        See `frameboost.engines.memory.star.records.Records`.
    tables
        int64 (dimensions, 7): the rows of a node from which on they are added up by key; the number of keys; where the
        codes start, by key; the first of the slots; the number of features; where the dimension's sums start; the place
        of its key among those of one byte in records, or -1.
    codes, slots
        uint8, uint16 or uint32: the codes of the features of each key, of all dimensions; and int64: the first slot of
        each feature, those of the rows' own last.
    own
        int64 (7,), as a row of ``tables``: where a record's own codes start, the first of their slots, their number;
        and last the number of keys of one byte, which lie before them.
    steps
        The steps of g and h, and the bytes of their numbers in records; None if these have no numbers, so that
        ``gradients`` are read.
    by_key
        float64 (shares, 2 sums): zero before and after.
    may_block
        Whether codes of dimensions are bytes; None in place of False.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    values = (
        records, fields, tables, codes, slots, own, rows, parts, firsts, gradients, steps, histograms, indices, more,
        by_key, may_block,
    )  # fmt: skip
    share_out(team, _adding_by_key(values), len(firsts) - 1)

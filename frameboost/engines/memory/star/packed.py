"""Kernels over facts with attributes in dimensions, for constant h: g and a count packed into one int64.

A sum then takes one addition of 8 bytes instead of 16, and twice as many bins fit into the L1 cache. A row with g = 5 s
on a grid of step s, and 16 bits for the count, has the number 5 · 2^16 + 1. Three rows with 5, -2 and -4 s sum to -1 ·
2^16 + 3: the lowest bits are the count, and the others, after an arithmetic shift, the sum of g.

In the record of a row (see `frameboost.engines.memory.star.records`) the number is 5 · 2 + 1, in few bytes, so that one
cache line holds all data of the row.

Indices are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

import numpy as np

from frameboost.engines.memory.histograms import clearing
from frameboost.runtime.intrinsics import (
    AHEAD,
    STRIDE_OF_WHOLE,
    WIDTH,
    add_whole,
    prefetch_all,
    read_eight,
    read_four,
)
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out

__all__ = ["add_packed_by_key"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
# Rows that are read together.
_ROWS = 512
_WIDTH, _STRIDE = np.uint64(WIDTH), np.uint64(STRIDE_OF_WHOLE)
# The fields of ``tables`` and of ``facts``, see `frameboost.engines.memory.star.keyed.add_by_key`.
_MIN_ROWS, _N_KEYS, _FIRST_CODE, _FIRST_SLOT, _N_FEATURES, _FIRST_SUM, _BYTE_KEY = range(7)
_N_BYTE_KEYS = _BYTE_KEY


@kernel
def _add(cells, codes, starts, count, numbers, n_features):  # type: ignore[no-untyped-def]
    """Add numbers to the cells of the codes that start at each of ``starts``."""
    whole = n_features - n_features % _WIDTH
    for i in range(_ZERO, count):
        number, start = numbers[i], starts[i]
        for k in range(_ZERO, whole, _WIDTH):
            add_whole(cells, k * _STRIDE, codes, start + k, number)
        for k in range(whole, n_features):
            cells[k * _STRIDE + np.uint64(codes[start + k])] += number


@kernel
def _flush(cells, slots, grid, histogram):  # type: ignore[no-untyped-def]
    """Add the cells of each feature to its slots, and clear the cells."""
    step, h, bits, _ = grid
    mask = np.int64((1 << bits) - 1)
    for k in range(len(slots)):
        # After the feature's slots are those of other features: 0 is added to them.
        bins_of_feature, feature_cells = histogram[2 * slots[k] :][:512], cells[k * STRIDE_OF_WHOLE :]
        for i in range(len(bins_of_feature) >> 1):
            bins_of_feature[2 * i] += np.float64(feature_cells[i] >> bits) * step
            bins_of_feature[2 * i + 1] += np.float64(feature_cells[i] & mask) * h
        for i in range(256):
            feature_cells[i] = 0


@kernel
def _read_block(  # type: ignore[no-untyped-def]
    bytes_, width, facts, grid, rows, first, last, stop, numbers, starts, cells
):
    """Copy the numbers of ``rows[first:last]`` and the starts of their records, and add the numbers to cells.

    The cells are those of one-byte keys, and of the facts' codes, which follow these keys.
    """
    n_columns = np.uint64(facts[_N_BYTE_KEYS] + facts[_N_FEATURES])
    first_code, whole = np.uint64(facts[_FIRST_CODE] - facts[_N_BYTE_KEYS]), n_columns - n_columns % _WIDTH
    bits, shift, one = np.int64(grid[2]), np.int64(grid[3]), np.int64(1)
    for i in range(first, last):
        if i + AHEAD < stop:
            prefetch_all(bytes_, np.uint64(rows[i + AHEAD]) * width, width)
        start = np.uint64(rows[i]) * width
        short = (read_eight(bytes_, start) << shift) >> shift
        number = ((short >> one) << bits) + (short & one)
        numbers[i - first], starts[i - first] = number, start
        for k in range(_ZERO, whole, _WIDTH):
            add_whole(cells, k * _STRIDE, bytes_, start + first_code + k, number)
        for k in range(whole, n_columns):
            cells[k * _STRIDE + np.uint64(bytes_[start + first_code + k])] += number


@kernel
def _merge_runs(table, field, bytes_, records, count, numbers, codes, starts, sums):  # type: ignore[no-untyped-def]
    """Write the start of the codes of each run of rows with one key, and its sum; return the number of runs."""
    first, n_features = np.uint64(table[_FIRST_CODE]), np.uint64(table[_N_FEATURES])
    at_key, mask = np.uint64(field[0]), np.uint32(field[1])
    run, before = _ZERO, np.uint32(0xFFFFFFFF)  # no key
    total = np.int64(0)
    for i in range(_ZERO, count):
        key = read_four(bytes_, records[i] + at_key) & mask
        is_new = key != before
        run += np.uint64(is_new)
        total = numbers[i] + (np.int64(0) if is_new else total)
        at = run - _ONE
        starts[at], sums[at] = first + np.uint64(key) * n_features, total
        prefetch_all(codes, starts[at], n_features)
        before = key
    return run


@kernel
def _add_to_keys(field, bytes_, records, count, numbers, sums):  # type: ignore[no-untyped-def]
    """Sum numbers by key."""
    at_key, mask = np.uint64(field[0]), np.uint32(field[1])
    for i in range(_ZERO, count):
        sums[np.uint64(read_four(bytes_, records[i] + at_key) & mask)] += numbers[i]


@kernel
def _take_sums(table, sums, cells, slots, codes, grid, histogram, starts, numbers):  # type: ignore[no-untyped-def]
    """Add the sums of all keys to the cells of their codes, and clear the sums."""
    first, n_features = np.uint64(table[_FIRST_CODE]), np.uint64(table[_N_FEATURES])
    most = np.int64((1 << grid[2]) - 1)
    count, in_cells = _ZERO, np.int64(0)
    for key in range(_ZERO, np.uint64(table[_N_KEYS])):
        number = sums[key]
        n_rows = number & most
        if count == np.uint64(_ROWS) or in_cells + n_rows > most:
            _add(cells, codes, starts, count, numbers, n_features)
            count = _ZERO
            if in_cells + n_rows > most:
                _flush(cells, slots[: table[_N_FEATURES]], grid, histogram)
                in_cells = np.int64(0)
        in_cells += n_rows
        starts[count], numbers[count] = first + key * n_features, number
        sums[key] = 0
        count += np.uint64(n_rows != 0)  # the next key overwrites one without rows: no branch
    _add(cells, codes, starts, count, numbers, n_features)


@kernel
def _add_node(  # type: ignore[no-untyped-def]
    records, fields, tables, codes, slots, facts, rows, parts, part, end, n_rows, grid, histogram, by_key, cells, room,
):  # fmt: skip
    """Add the parts ``part`` to ``end - 1``, of one node with ``n_rows`` rows, to its histogram."""
    numbers, starts, run_starts, run_numbers = room
    width, bytes_ = np.uint64(records.shape[1]), records.ravel()
    n_attributes = facts[_FIRST_SLOT]
    in_cells, byte_cells = np.int64(0), cells[n_attributes * STRIDE_OF_WHOLE :]
    fact_cells, fact_slots = byte_cells[facts[_N_BYTE_KEYS] * STRIDE_OF_WHOLE :], slots[n_attributes:]
    for each in range(part, end):
        first, stop = np.uint64(parts[each, 1]), np.uint64(parts[each, 2])
        for start in range(first, stop, np.uint64(_ROWS)):
            last = min(start + np.uint64(_ROWS), stop)
            count = last - start
            if in_cells + np.int64(count) >= 1 << grid[2]:
                _flush(cells, slots[:n_attributes], grid, histogram)
                _flush(fact_cells, fact_slots, grid, histogram)
                in_cells = np.int64(0)
            in_cells += np.int64(count)
            _read_block(bytes_, width, facts, grid, rows, start, last, stop, numbers, starts, byte_cells)
            for k in range(len(tables)):
                table = tables[k]
                if table[_BYTE_KEY] >= 0:
                    continue
                if n_rows >= table[_MIN_ROWS]:
                    _add_to_keys(fields[k], bytes_, starts, count, numbers, by_key[table[_FIRST_SUM] :])
                else:
                    n_runs = _merge_runs(
                        table, fields[k], bytes_, starts, count, numbers, codes, run_starts, run_numbers
                    )
                    table_cells = cells[table[_FIRST_SLOT] * STRIDE_OF_WHOLE :]
                    _add(table_cells, codes, run_starts, n_runs, run_numbers, np.uint64(table[_N_FEATURES]))
    for k in range(len(tables)):
        table = tables[k]
        if table[_BYTE_KEY] >= 0:
            sums = byte_cells[table[_BYTE_KEY] * STRIDE_OF_WHOLE :]
        elif n_rows >= table[_MIN_ROWS]:
            sums = by_key[table[_FIRST_SUM] :]
        else:
            continue
        at = table[_FIRST_SLOT]
        _take_sums(
            table, sums, cells[at * STRIDE_OF_WHOLE :], slots[at:], codes, grid, histogram, run_starts, run_numbers
        )
    _flush(cells, slots[:n_attributes], grid, histogram)
    _flush(fact_cells, fact_slots, grid, histogram)


@kernel
def _add_share(  # type: ignore[no-untyped-def]
    records, fields, tables, codes, slots, facts, rows, parts, firsts, grid, histograms, indices, more, by_key, share,
):  # fmt: skip
    room = (
        np.empty(_ROWS, np.int64), np.empty(_ROWS, np.uint64), np.empty(_ROWS + 1, np.uint64),
        np.empty(_ROWS + 1, np.int64),
    )  # fmt: skip
    cells = np.empty((len(slots) + facts[_N_BYTE_KEYS]) * STRIDE_OF_WHOLE, np.int64)
    cells[:] = 0
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    part = firsts[share]
    while part < firsts[share + 1]:
        node, end, n_rows = parts[part, 0], part, 0
        while end < firsts[share + 1] and parts[end, 0] == node:
            n_rows += parts[end, 2] - parts[end, 1]
            end += 1
        histogram = (more[share - 1] if node == before else histograms[indices[node]]).ravel()
        _add_node(
            records, fields, tables, codes, slots, facts, rows, parts, part, end, n_rows, grid, histogram,
            by_key[share], cells, room,
        )  # fmt: skip
        part = end


_adding = outlined(_add_share)


@kernel
def add_packed_by_key(  # type: ignore[no-untyped-def]
    team, records, fields, tables, codes, slots, facts, rows, parts, firsts, grid, histograms, indices, more, by_key,
    is_first,
):  # fmt: skip
    """Do the work of `frameboost.engines.memory.star.keyed.add_by_key` for uint8 codes and packed pairs.

    Bins are flushed before the count overflows its bits; no key has more rows.

    Parameters
    ----------
    team, records, fields, tables, codes, slots, facts, rows, parts, firsts, histograms, indices, more, is_first
        As there.
    grid
        The step of g, the h of all rows, the number of bits of the count, and the shift of numbers in records.
    by_key
        int64 (shares, sums): zero before and after.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    arguments = (
        records, fields, tables, codes, slots, facts, rows, parts, firsts, grid, histograms, indices, more, by_key,
    )  # fmt: skip
    share_out(team, _adding(arguments), len(firsts) - 1)

"""The radix sort of presorted columns: row numbers in the order of unsigned keys."""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["sort_rows"]

# Bits of a digit: three digits are a key of 32 bits, six one of 64.
_BITS = 11
_DIGITS = 1 << _BITS


@kernel
def sort_rows(keys, n_bits, more_keys, rows, more_rows):  # type: ignore[no-untyped-def]
    """Return the row numbers in ascending order of their keys; rows of equal keys keep their order.

    A radix sort by the lowest digit first. With digits of two bits, the keys 0111, 0100, 0001 of the rows 0, 1, 2 are
    put into the order 0100, 0001, 0111 by their last two bits, and then into 0001, 0100, 0111 by the first two.

    Parameters
    ----------
    keys
        uint32 or uint64 (rows,), overwritten.
    n_bits
        How many bits a key has.
    more_keys
        Like ``keys``, written.
    rows, more_rows
        uint32 (rows,), written; the returned array is one of them.
    """
    counts = np.empty(_DIGITS, dtype=np.int64)
    for row in range(len(rows)):
        rows[row] = row
    for low in range(0, n_bits, _BITS):
        shift = np.uint64(low)
        for digit in range(_DIGITS):
            counts[digit] = 0
        for i in range(len(keys)):
            counts[(np.uint64(keys[i]) >> shift) & np.uint64(_DIGITS - 1)] += 1
        before = 0
        for digit in range(_DIGITS):
            counts[digit], before = before, before + counts[digit]
        for i in range(len(keys)):
            own = (np.uint64(keys[i]) >> shift) & np.uint64(_DIGITS - 1)
            index = counts[own]
            counts[own] = index + 1
            more_keys[index], more_rows[index] = keys[i], rows[i]
        keys, more_keys, rows, more_rows = more_keys, keys, more_rows, rows
    return rows

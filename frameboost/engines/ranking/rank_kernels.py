"""Kernels that rank the rows of queries: the sort keys for numpy, and the order from the sorted keys.

Numpy sorts integers with SIMD instructions, several times faster than an argsort. So the keys are the bits of the
numbers, ordered as integers, with the position in the query in the lowest bits: for 0.5 and 0.25 in a query of 4 rows,
0x3FE0000000000000 and 0x3FD0000000000001. Numbers that differ only in these bits may be in the wrong order, which
`take_order` reports.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.kernel import kernel

__all__ = ["take_order", "write_keys"]

_LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)


@kernel
def write_keys(bits, starts, lengths, rank_bits, keys):  # type: ignore[no-untyped-def]
    """Write the sort keys of each query as one row of a matrix; padding after its rows sorts last.

    Parameters
    ----------
    bits
        int64 (rows,): the bits of the numbers, by query; no number is -0.0.
    starts, lengths
        int64 (queries,): the start and the number of rows of each query.
    rank_bits
        The bits of a key that hold the rank.
    keys
        int64 (queries, longest), written.
    """
    for query in range(len(starts)):
        line, start, length = keys[query], starts[query], lengths[query]
        for rank in range(length):
            key = bits[start + rank]
            key ^= (key >> 63) & _LARGEST  # of negative numbers the larger ones have the smaller bits
            line[rank] = (key & ~rank_bits) | rank
        for rank in range(length, len(line)):
            line[rank] = _LARGEST


@kernel
def take_order(numbers, starts, lengths, rank_bits, keys, order, rank_of):  # type: ignore[no-untyped-def]
    """Write the rows of each query in the order of its sorted keys; return the number of queries in the wrong order.

    The first key of such a query becomes 0, that of all others 1.

    Parameters
    ----------
    numbers
        float64 (rows,), by query.
    starts, lengths, rank_bits
        As for `write_keys`.
    keys
        int64 (queries, longest), sorted. The first of each row is overwritten.
    order
        int64 (rows,), written: positions in ``numbers``.
    rank_of
        float64 (rows,), written: the rank of each position in its query, from 0.
    """
    n_wrong = 0
    for query in range(len(starts)):
        line, start, is_right = keys[query], starts[query], True
        before = -np.inf
        for rank in range(lengths[query]):
            at = start + (line[rank] & rank_bits)
            order[start + rank], rank_of[at] = at, rank
            is_right &= numbers[at] >= before
            before = numbers[at]
        line[0] = np.int64(is_right)
        n_wrong += not is_right
    return n_wrong

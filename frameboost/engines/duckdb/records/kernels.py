"""Kernels over rows with codes in words: moves to children, and unpacking of some rows.

Indices are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.runtime.intrinsics import as_pointer
from frameboost.runtime.kernel import kernel

__all__ = ["move_records", "take", "unpack"]

# What a row of ``fields`` says of a split, see `move_records`.
_WORD, _SHIFT, _MASK, _CODES, _N_FEATURES, _FEATURE, _START = range(7)


@kernel
def move_records(numbers, splits, addresses, fields, codes, children):  # type: ignore[no-untyped-def]
    """Move rows to the children of their nodes, repeatedly until a node is not split.

    Parameters
    ----------
    numbers
        uint16 or uint32 (rows,): the node of each row, changed in place.
    splits
        int32 (nodes,): the split of each node, -1 if it is not split.
    addresses
        uint64 (words,): the addresses of the words of the rows, uint64 (rows,) each.
    fields
        uint64 (splits, 7): the word, shift and mask of the key that a split looks up; the start of the keys' codes in
        ``codes``, the number of a key's codes and the index of the compared one; and the start of the split's codes in
        ``children``. A code by row is a key with one code, itself.
    codes
        uint8 or uint32: codes of keys.
    children
        uint32: the child to which each code goes.
    """
    for i in range(np.uint64(0), np.uint64(len(numbers))):
        node = np.uint64(numbers[i])
        split = splits[node]
        if split < 0:
            continue
        while split >= 0:
            field = fields[split]
            words = carray(as_pointer(addresses[field[_WORD]]), (1,), np.uint64)
            key = (words[i] >> field[_SHIFT]) & field[_MASK]
            code = np.uint64(codes[field[_CODES] + key * field[_N_FEATURES] + field[_FEATURE]])
            node = np.uint64(children[field[_START] + code])
            split = splits[node]
        numbers[i] = node


@kernel
def take(values, rows, out):  # type: ignore[no-untyped-def]
    """Write ``values[rows]`` to ``out``."""
    for i in range(np.uint64(0), np.uint64(len(rows))):
        out[i] = values[np.uint64(rows[i])]


@kernel
def unpack(words, shift, out):  # type: ignore[no-untyped-def]
    """Write the bits of words (uint64) from bit ``shift``, as many as the dtype of ``out`` (unsigned) has."""
    lowest = np.uint64(shift)
    for i in range(np.uint64(0), np.uint64(len(out))):
        out[i] = words[i] >> lowest

"""Kernels over batches of facts: moves to the children of their nodes, and sums by bin of the codes of their keys.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.runtime.intrinsics import AHEAD, add_pair, as_pointer, prefetch
from frameboost.runtime.kernel import kernel

__all__ = ["add_codes_of_keys", "add_sums_of_keys", "move_facts", "take", "unpack"]

_ONE = np.uint64(1)
# What a row of ``fields`` says of a split, see `move_facts`.
_WORD, _SHIFT, _MASK, _CODES, _N_FEATURES, _FEATURE, _START = range(7)


@kernel
def move_facts(numbers, splits, addresses, fields, codes, children):  # type: ignore[no-untyped-def]
    """Move facts to the children of their nodes, as often as these are split in turn.

    Parameters
    ----------
    numbers
        uint16 or uint32 (rows,): the node of each fact, changed in place.
    splits
        int32 (nodes,): the split of each node, -1 if it is not split.
    addresses
        uint64 (words,): where the words of the facts are, uint64 (rows,) each.
    fields
        uint64 (splits, 7): the word, shift and mask of the key that a split looks up; where the codes of the keys start
        in ``codes``, the number of a key's codes and which of them is compared; and where the codes of the split start
        in ``children``. A code of the fact's own is a key with one code: itself.
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
            own = fields[split]
            words = carray(as_pointer(addresses[own[_WORD]]), (1,), np.uint64)
            key = (words[i] >> own[_SHIFT]) & own[_MASK]
            code = np.uint64(codes[own[_CODES] + key * own[_N_FEATURES] + own[_FEATURE]])
            node = np.uint64(children[own[_START] + code])
            split = splits[node]
        numbers[i] = node


@kernel
def take(values, rows, out):  # type: ignore[no-untyped-def]
    """Write ``values[rows]`` to ``out``."""
    for i in range(np.uint64(0), np.uint64(len(rows))):
        out[i] = values[np.uint64(rows[i])]


@kernel
def unpack(words, shift, out):  # type: ignore[no-untyped-def]
    """Write the bits of words (uint64) from ``shift`` on, as many as ``out`` (unsigned) takes."""
    lowest = np.uint64(shift)
    for i in range(np.uint64(0), np.uint64(len(out))):
        out[i] = words[i] >> lowest


@kernel
def add_codes_of_keys(places, keys, g, h, codes, slots, histograms):  # type: ignore[no-untyped-def]
    """Add each row's pair to the bins of its key's codes, (keys, features), in the histogram of its place.

    Adjacent rows of one key and place are added up first.
    """
    flat, all_codes = histograms.ravel(), codes.ravel()
    width, n_features = np.uint64(histograms.shape[1]), np.uint64(codes.shape[1])
    n_rows = np.uint64(len(keys))
    sum_g = sum_h = 0.0
    for i in range(np.uint64(0), n_rows):
        if i + AHEAD < n_rows:
            prefetch(all_codes, np.uint64(keys[i + AHEAD]) * n_features)
        sum_g += g[i]
        sum_h += h[i]
        if i + _ONE < n_rows and keys[i + _ONE] == keys[i] and places[i + _ONE] == places[i]:
            continue
        start, first = np.uint64(keys[i]) * n_features, np.uint64(places[i]) * width
        for feature in range(n_features):
            slot = first + np.uint64(slots[feature]) + np.uint64(all_codes[start + feature])
            add_pair(flat, slot << _ONE, sum_g, sum_h)
        sum_g = sum_h = 0.0


@kernel
def add_sums_of_keys(sums, codes, slots, histograms):  # type: ignore[no-untyped-def]
    """Add the sums by key, (places, keys, 2), to the bins of the keys' codes."""
    all_codes, n_features = codes.ravel(), np.uint64(codes.shape[1])
    for place in range(np.uint64(0), np.uint64(len(sums))):
        flat, found = histograms[place].ravel(), sums[place].ravel()
        for key in range(np.uint64(0), np.uint64(len(codes))):
            g, h = found[key << _ONE], found[(key << _ONE) + _ONE]
            if g != 0.0 or h != 0.0:
                for feature in range(n_features):
                    slot = np.uint64(slots[feature]) + np.uint64(all_codes[key * n_features + feature])
                    add_pair(flat, slot << _ONE, g, h)

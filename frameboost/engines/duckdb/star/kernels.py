"""Kernels over batches of facts: moves to the children of their nodes, and sums by bin of the codes of their keys.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]

from frameboost.runtime.intrinsics import AHEAD, add_pair, as_pointer, prefetch
from frameboost.runtime.kernel import kernel

__all__ = ["add_codes_of_keys", "add_sums_of_keys", "choose_facts", "move_facts", "unpack"]

_ONE = np.uint64(1)
# What a row of ``fields`` says of a split, see `move_facts`.
_WORD, _SHIFT, _MASK, _CODES, _N_FEATURES, _FEATURE, _START = range(7)


@kernel
def _word(addresses, number, i):  # type: ignore[no-untyped-def]
    """Return the word of a fact, of the words at these addresses."""
    return carray(as_pointer(addresses[number]), (1,), np.uint64)[i]


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
        uint64 (splits, 7): the word, shift and mask of what a split compares; if it is a key, where the codes of the
        keys are in ``codes``, the number of a key's codes and which of them is compared, otherwise 0 features; and
        where the codes of the split start in ``children``.
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
            code = (_word(addresses, own[_WORD], i) >> own[_SHIFT]) & own[_MASK]
            if own[_N_FEATURES] != 0:
                code = np.uint64(codes[own[_CODES] + code * own[_N_FEATURES] + own[_FEATURE]])
            node = np.uint64(children[own[_START] + code])
            split = splits[node]
        numbers[i] = node


@kernel
def choose_facts(numbers, places, g, h, addresses, ends, chosen, pairs, words):  # type: ignore[no-untyped-def]
    """Write the facts whose node has a place, one place after the other; return how many: a counting sort.

    Say facts 0 to 4 are in the nodes 1, 2, 1, 3, 2, and nodes 2, 1 and 3 have the places 0, 1 and 2, of which the last
    is not asked for. Then facts 1, 4, 0, 2 are written, and behind them the others. So the sums of one place at a time
    are in the cache.

    Parameters
    ----------
    numbers
        uint16 or uint32 (rows,): the node of each fact.
    places
        uint32 (nodes,): the place of each node; those not asked for have the last.
    g, h
        float64 (rows,).
    addresses
        uint64 (words,): where the words are, uint64 (rows,) each.
    ends
        int64 (places,), written.
    chosen, pairs, words
        uint32 (rows,), float64 (2, rows) and uint64 (words, rows), written: the places, pairs and words of the facts.
    """
    ends[:] = 0
    for i in range(np.uint64(0), np.uint64(len(numbers))):
        ends[places[np.uint64(numbers[i])]] += 1
    count = len(numbers) - ends[-1]
    end = np.int64(0)
    for place in range(len(ends)):  # where each place starts
        end, ends[place] = end + ends[place], end
    for i in range(np.uint64(0), np.uint64(len(numbers))):
        own = np.uint64(places[np.uint64(numbers[i])])
        at = np.uint64(ends[own])
        ends[own] += 1
        chosen[at], pairs[0, at], pairs[1, at] = own, g[i], h[i]
        for number in range(np.uint64(0), np.uint64(len(addresses))):
            words[number, at] = _word(addresses, number, i)
    return count


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

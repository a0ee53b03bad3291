"""Kernels over binned columns: histograms.

Indices are unsigned: of a signed one numba asks each time whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, WIDTH, add_pair, add_pairs, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["add_more", "build_histograms"]

_ONE = np.uint64(1)
# Rows and features that are gone through together: their histograms and gradients stay in the processor's first cache.
_ROWS, _FEATURES, _WIDTH = np.uint64(2048), np.uint64(16), np.uint64(WIDTH)
# From so many rows of a node on, a histogram that is made elsewhere, in a simpler form, pays.
_WORTH_BLOCKS = 1 << 12
# Features that are summed in one go over a node's rows otherwise: about as many as have their bins near the processor.
_AT_ONCE = 32


@kernel
def _clear_one(histograms, places, item):  # type: ignore[no-untyped-def]
    histograms[places[item]] = 0.0


_clearing = outlined(_clear_one)


@kernel
def _build_plainly(codes, rows, start, stop, gradients, slots, first, end, histogram):  # type: ignore[no-untyped-def]
    """Add the pairs of some rows to a histogram, for the features ``first`` to ``end - 1``."""
    n_features = np.uint64(codes.shape[1])
    first, end, stop = np.uint64(first), np.uint64(end), np.uint64(stop)
    all_codes, pairs = codes.ravel(), gradients.ravel()
    for i in range(np.uint64(start), stop):
        if i + AHEAD < stop:
            later = np.uint64(rows[i + AHEAD])
            prefetch(all_codes, later * n_features + first)
            prefetch(pairs, later << _ONE)
        row = np.uint64(rows[i])
        g, h = pairs[row << _ONE], pairs[(row << _ONE) + _ONE]
        start_of_row = row * n_features
        for feature in range(first, end):
            slot = np.uint64(slots[feature]) + np.uint64(all_codes[start_of_row + feature])
            add_pair(histogram, slot << _ONE, g, h)


@kernel
def _build_in_blocks(codes, rows, start, stop, gradients, slots, sums, pairs, histogram):  # type: ignore[no-untyped-def]
    """Do the same for all features, of codes below 256: faster where there are thousands of rows."""
    n_features = np.uint64(codes.shape[1])
    all_codes, stop = codes.ravel(), np.uint64(stop)
    sums[:] = 0.0
    for first in range(np.uint64(start), stop, _ROWS):
        last = min(first + _ROWS, stop)
        end = min(_FEATURES, n_features)
        _add_first(all_codes, n_features, gradients.ravel(), rows, first, last, stop, end, pairs, sums)
        for feature in range(_FEATURES, n_features, _FEATURES):
            end = min(feature + _FEATURES, n_features)
            _add_more(all_codes, n_features, rows, first, last, feature, end, pairs, sums)
    for feature in range(codes.shape[1]):
        count = (slots[feature + 1] if feature + 1 < len(slots) else len(histogram) >> 1) - slots[feature]
        # Behind a feature's own bins there may be those of one in another array; to them goes 0.
        own = histogram[slots[feature] << 1 :]
        for i in range(2 * min(count, 256)):
            own[i] += sums[(feature << 9) + i]


@kernel
def _build_share(  # type: ignore[no-untyped-def]
    codes, rows, parts, firsts, gradients, slots, histograms, places, more, share
):
    n_features = codes.shape[1]
    may_block = codes.itemsize == 1 and len(gradients) >= _WORTH_BLOCKS
    sums = np.empty(n_features << 9 if may_block else 0)  # a histogram of 256 bins a feature
    pairs = np.empty(np.int64(_ROWS) << 1 if may_block else 0)
    # A share that starts within a node has a histogram of its own for it.
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    for part in range(firsts[share], firsts[share + 1]):
        node, start, stop = parts[part]
        histogram = (more[share - 1] if node == before else histograms[places[node]]).ravel()
        if may_block and stop - start >= _WORTH_BLOCKS:
            _build_in_blocks(codes, rows, start, stop, gradients, slots, sums, pairs, histogram)
            continue
        for first in range(0, n_features, _AT_ONCE):
            end = min(first + _AT_ONCE, n_features)
            _build_plainly(codes, rows, start, stop, gradients, slots, first, end, histogram)


_building = outlined(_build_share)


@kernel
def build_histograms(  # type: ignore[no-untyped-def]
    team, codes, rows, parts, firsts, gradients, slots, histograms, places, more, is_first
):
    """Add each row's gradient pair to its bins of its node's histogram, for the features of one array of codes.

    Parameters
    ----------
    team
        Who does it (see `frameboost.runtime.team_kernels`).
    codes
        uint8, uint16 or uint32 (rows, features), row-major: the cache line that a row brings holds all its codes.
    rows
        uint32: row indices, those of a node side by side.
    parts, firsts
        What `frameboost.engines.memory.partition_kernels.share_pieces` returns of nodes and their rows.
    gradients
        float64 (rows, 2): g and h.
    slots
        int64 (features,): the first slot of each feature.
    histograms, places
        float64 (places, slots, 2), added to, and int64 (nodes,): where among them a node's is.
    more
        float64 (shares - 1, slots, 2), added to by shares that start within a node, which the one before has begun.
    is_first
        Whether the nodes' histograms are set to 0 before.
    """
    if is_first:
        share_out(team, _clearing((histograms, places)), len(places))
    share_out(
        team, _building((codes, rows, parts, firsts, gradients, slots, histograms, places, more)), len(firsts) - 1
    )


@kernel
def add_more(parts, firsts, more, histograms, places):  # type: ignore[no-untyped-def]
    """Add to histograms what shares that started within a node have found."""
    for share in range(1, len(firsts) - 1):
        if firsts[share] < firsts[share + 1] and parts[firsts[share], 0] == parts[firsts[share] - 1, 0]:
            histograms[places[parts[firsts[share], 0]]] += more[share - 1]


@kernel
def _add_first(  # type: ignore[no-untyped-def]
    codes, n_features, gradients, rows, first, last, stop, end, pairs, sums
):
    """Add the pairs of some rows to the histograms of the features before ``end``, and write them side by side."""
    whole = end - end % _WIDTH
    for i in range(first, last):
        if i + AHEAD < stop:
            later = np.uint64(rows[i + AHEAD])
            prefetch(codes, later * n_features)
            prefetch(gradients, later << _ONE)
        row, at = np.uint64(rows[i]), (i - first) << _ONE
        g, h = gradients[row << _ONE], gradients[(row << _ONE) + _ONE]
        pairs[at], pairs[at + _ONE] = g, h
        start = row * n_features
        for k in range(np.uint64(0), whole, _WIDTH):
            add_pairs(sums, k << np.uint64(9), codes, start + k, g, h)
        for k in range(whole, end):
            add_pair(sums, (k << np.uint64(9)) + (np.uint64(codes[start + k]) << _ONE), g, h)


@kernel
def _add_more(codes, n_features, rows, first, last, feature, end, pairs, sums):  # type: ignore[no-untyped-def]
    """Add them to those of the features ``feature`` to ``end - 1``."""
    whole = end - (end - feature) % _WIDTH
    for i in range(first, last):
        at = (i - first) << _ONE
        g, h = pairs[at], pairs[at + _ONE]
        start = np.uint64(rows[i]) * n_features
        for k in range(feature, whole, _WIDTH):
            add_pairs(sums, k << np.uint64(9), codes, start + k, g, h)
        for k in range(whole, end):
            add_pair(sums, (k << np.uint64(9)) + (np.uint64(codes[start + k]) << _ONE), g, h)

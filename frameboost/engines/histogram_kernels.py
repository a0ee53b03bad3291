"""Kernels over binned columns: histograms.

Indices are unsigned: of a signed one numba asks each time whether it counts from the end.
"""

from __future__ import annotations

import numba
import numpy as np

from frameboost.engines.intrinsics import AHEAD, WIDTH, add_pair, add_pairs, prefetch

__all__ = ["build_histograms", "build_in_blocks"]

_ONE = np.uint64(1)
# Rows and features that are gone through together: their histograms and gradients stay in the processor's first cache.
_ROWS, _FEATURES, _WIDTH = np.uint64(2048), np.uint64(16), np.uint64(WIDTH)


@numba.njit(nogil=True, cache=True)
def build_histograms(codes, rows, pieces, gradients, slots, out, first, last):  # type: ignore[no-untyped-def]
    """Add each row's gradient pair to its bins, for the features ``first`` to ``last - 1``.

    Parameters
    ----------
    codes
        uint8, uint16 or uint32 (rows, features), row-major: the cache line that a row brings holds all its codes.
    rows
        uint32 (rows,): row indices, those of a node side by side.
    pieces
        int64 (pieces, 3): a histogram's place in ``out``, and the part of ``rows`` that goes into it.
    gradients
        float64 (rows, 2): g and h.
    slots
        int64 (features,): the first slot of each feature.
    out
        float64 (histograms, slots, 2), added to.
    """
    n_features = np.uint64(codes.shape[1])
    first, last = np.uint64(first), np.uint64(last)
    all_codes, pairs = codes.ravel(), gradients.ravel()
    for piece in range(len(pieces)):
        histogram = out[pieces[piece, 0]].ravel()
        stop = np.uint64(pieces[piece, 2])
        for i in range(np.uint64(pieces[piece, 1]), stop):
            if i + AHEAD < stop:
                later = np.uint64(rows[i + AHEAD])
                prefetch(all_codes, later * n_features + first)
                prefetch(pairs, later << _ONE)
            row = np.uint64(rows[i])
            g, h = pairs[row << _ONE], pairs[(row << _ONE) + _ONE]
            start = row * n_features
            for feature in range(first, last):
                slot = np.uint64(slots[feature]) + np.uint64(all_codes[start + feature])
                add_pair(histogram, slot << _ONE, g, h)


@numba.njit(nogil=True, cache=True)
def build_in_blocks(codes, rows, pieces, gradients, slots, out):  # type: ignore[no-untyped-def]
    """Do the same for all features, of codes of one byte: faster where a piece has thousands of rows."""
    n_features = np.uint64(codes.shape[1])
    all_codes = codes.ravel()
    sums = np.empty(codes.shape[1] << 9)  # a histogram of 256 bins a feature
    pairs = np.empty(np.int64(_ROWS) << 1)
    for piece in range(len(pieces)):
        stop = np.uint64(pieces[piece, 2])
        sums[:] = 0.0
        for first in range(np.uint64(pieces[piece, 1]), stop, _ROWS):
            last = min(first + _ROWS, stop)
            end = min(_FEATURES, n_features)
            _add_first(all_codes, n_features, gradients.ravel(), rows, first, last, stop, end, pairs, sums)
            for feature in range(_FEATURES, n_features, _FEATURES):
                end = min(feature + _FEATURES, n_features)
                _add_more(all_codes, n_features, rows, first, last, feature, end, pairs, sums)
        histogram = out[pieces[piece, 0]]
        for feature in range(codes.shape[1]):
            count = (slots[feature + 1] if feature + 1 < len(slots) else len(histogram)) - slots[feature]
            # Behind a feature's own bins there may be those of one in another array; to them goes 0.
            own = histogram[slots[feature] :].ravel()
            for i in range(2 * min(count, 256)):
                own[i] += sums[(feature << 9) + i]


@numba.njit(nogil=True, cache=True)
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


@numba.njit(nogil=True, cache=True)
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

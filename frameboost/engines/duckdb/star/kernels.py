"""Kernels over batches of facts: sums by bin of the codes of their keys.

Indices are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, add_pair, prefetch
from frameboost.runtime.kernel import kernel

__all__ = ["add_codes_of_keys", "add_sums_of_keys"]

_ONE = np.uint64(1)


@kernel
def add_codes_of_keys(indices, keys, g, h, codes, slots, histograms):  # type: ignore[no-untyped-def]
    """Add each row's pair to the bins of its key's codes, (keys, features), in the histogram of its index.

    Adjacent rows with the same key and index are summed first.
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
        if i + _ONE < n_rows and keys[i + _ONE] == keys[i] and indices[i + _ONE] == indices[i]:
            continue
        start, first = np.uint64(keys[i]) * n_features, np.uint64(indices[i]) * width
        for feature in range(n_features):
            slot = first + np.uint64(slots[feature]) + np.uint64(all_codes[start + feature])
            add_pair(flat, slot << _ONE, sum_g, sum_h)
        sum_g = sum_h = 0.0


@kernel
def add_sums_of_keys(sums, codes, slots, histograms):  # type: ignore[no-untyped-def]
    """Add the sums by key, (histograms, keys, 2), to the bins of the keys' codes."""
    all_codes, n_features = codes.ravel(), np.uint64(codes.shape[1])
    for index in range(np.uint64(0), np.uint64(len(sums))):
        flat, by_key = histograms[index].ravel(), sums[index].ravel()
        for key in range(np.uint64(0), np.uint64(len(codes))):
            g, h = by_key[key << _ONE], by_key[(key << _ONE) + _ONE]
            if g != 0.0 or h != 0.0:
                for feature in range(n_features):
                    slot = np.uint64(slots[feature]) + np.uint64(all_codes[key * n_features + feature])
                    add_pair(flat, slot << _ONE, g, h)

"""The kernel that adds up batches of rows by bin.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import add_pair
from frameboost.runtime.kernel import kernel

__all__ = ["add_codes"]

_ONE = np.uint64(1)


@kernel
def add_codes(indices, codes, first_slot, g, h, sums):  # type: ignore[no-untyped-def]
    """Add each row's pair to the sums (float64, (histograms, slots, 2)) of its place at ``first_slot`` + its code."""
    flat, width, first = sums.ravel(), np.uint64(sums.shape[1]), np.uint64(first_slot)
    for i in range(np.uint64(0), np.uint64(len(codes))):
        slot = np.uint64(indices[i]) * width + first + np.uint64(codes[i])
        add_pair(flat, slot << _ONE, g[i], h[i])

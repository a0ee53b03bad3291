"""Batches of rows that a query reads, added up by bin by a kernel (see `frameboost.engines.query_costs`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.binning.arrays import Codes
from frameboost.runtime.intrinsics import add_pair
from frameboost.runtime.kernel import kernel, read_only
from frameboost.runtime.workers import RowNumbers
from frameboost.splits.split import FloatArray

__all__ = ["add_codes"]

_ONE = np.uint64(1)


def add_codes(
    indices: RowNumbers, codes: Codes, first_slot: int, g: FloatArray, h: FloatArray, sums: npt.NDArray[Any]
) -> None:
    """Add g and h of each row to the slot ``first_slot`` + its code of ``sums[index]``: (histograms, slots, 2)."""
    _add_codes(read_only(indices), read_only(codes), first_slot, read_only(g), read_only(h), sums)


@kernel
def _add_codes(indices, codes, first_slot, g, h, sums):  # type: ignore[no-untyped-def]
    """Do it. Indices are unsigned: for a signed one numba checks at each access whether it counts from the end."""
    flat, width, first = sums.ravel(), np.uint64(sums.shape[1]), np.uint64(first_slot)
    for i in range(np.uint64(0), np.uint64(len(codes))):
        slot = np.uint64(indices[i]) * width + first + np.uint64(codes[i])
        add_pair(flat, slot << _ONE, g[i], h[i])

"""Histograms without their empty bins, as they travel: deep nodes have far fewer rows than bins.

Of 8 bins, 2 have rows: one byte of flags and 2 pairs of sums travel, 33 bytes in place of 128.

>>> sums = np.zeros((1, 8, 2))
>>> sums[0, 1], sums[0, 6] = (0.5, 1.0), (-2.0, 4.0)
>>> travelling = packed(sums)
>>> np.unpackbits(travelling.has_rows).tolist(), travelling.sums.tolist()
([0, 1, 0, 0, 0, 0, 1, 0], [[0.5, 1.0], [-2.0, 4.0]])
>>> (unpacked(travelling) == sums).all()
np.True_
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frameboost.splits.split import FloatArray

__all__ = ["PackedHistograms", "packed", "unpacked"]

_MAX_FULL = 0.75  # of the bins; above it packing takes longer than it saves


@dataclass(frozen=True)
class PackedHistograms:
    """The bins of histograms whose sums are not both zero.

    Attributes
    ----------
    shape
        Of the histograms.
    has_rows
        A bit for each bin, uint8.
    sums
        G and H of each bin with a bit, float64 (bins, 2).
    """

    shape: tuple[int, ...]
    has_rows: npt.NDArray[np.uint8]
    sums: FloatArray


def packed(histograms: FloatArray) -> PackedHistograms | FloatArray:
    """Return histograms without their empty bins, or as they are if few are empty."""
    bins = histograms.reshape(-1, 2)
    has_rows = (bins[:, 0] != 0) | (bins[:, 1] != 0)
    if np.count_nonzero(has_rows) > _MAX_FULL * len(bins):
        return histograms
    return PackedHistograms(histograms.shape, np.packbits(has_rows), bins[has_rows])


def unpacked(result: Any) -> Any:
    """Return the histograms, or any other result as it is."""
    if not isinstance(result, PackedHistograms):
        return result
    histograms = np.zeros(result.shape)
    bins = histograms.reshape(-1, 2)
    bins[np.unpackbits(result.has_rows, count=len(bins)).view(np.bool_)] = result.sums
    return histograms

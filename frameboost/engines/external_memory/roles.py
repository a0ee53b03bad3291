"""Roles in as few bytes as hold them exactly: most labels are small integers, and most weights came from float32."""

from __future__ import annotations

import numpy as np
import polars as pl

__all__ = ["NARROW", "narrowed"]

NARROW = (pl.UInt8, pl.Float32)


def narrowed(values: pl.Series) -> pl.Series:
    """Return a float64 column as one of fewer bytes, if every value comes back from it, the sign of zero included."""
    if values.dtype != pl.Float64 or values.null_count():
        return values
    bits = values.to_numpy().view(np.int64)
    for dtype in NARROW:
        narrow = values.cast(dtype, strict=False)
        if not narrow.null_count() and np.array_equal(narrow.cast(pl.Float64).to_numpy().view(np.int64), bits):
            return narrow
    return values

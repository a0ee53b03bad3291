"""Helpers of the tables: optional weights, and weighted histograms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["shares_by_range", "weights_of"]

Floats = npt.NDArray[np.float64]


def weights_of(weights: npt.ArrayLike | None, n_rows: int) -> Floats:
    """Return the row weights, by default 1."""
    return np.ones(n_rows) if weights is None else np.asarray(weights, dtype=np.float64)


def shares_by_range(values: Floats, weight: Floats, bins: int, ends: tuple[float, float] | None = None) -> pl.DataFrame:
    """Return the shares of the weight in ranges of equal width: ``lower``, ``upper`` and ``share``.

    ``ends`` are by default the quantiles 0.005 and 0.995. Values below or above count in the first or last range.

    >>> shares_by_range(np.array([-1.0, 0.5, 1.0, 3.0]), np.ones(4), 2, (0.0, 2.0)).rows()
    [(0.0, 1.0, 0.5), (1.0, 2.0, 0.5)]
    """
    low, high = ends or np.quantile(values, (0.005, 0.995), weights=weight, method="inverted_cdf").tolist()
    shares, edges = np.histogram(np.clip(values, low, high), bins, (low, high), weights=weight / weight.sum())
    return pl.DataFrame({"lower": edges[:-1], "upper": edges[1:], "share": shares})

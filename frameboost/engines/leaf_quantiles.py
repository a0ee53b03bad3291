"""Quantiles of the rows of a leaf, by selection (quickselect) or, with weights, by sorting."""

from __future__ import annotations

import math

import numpy as np

from frameboost.splits.split import FloatArray

__all__ = ["interpolated_quantile", "leaf_quantile", "weighted_quantile"]


def leaf_quantile(values: FloatArray, weights: FloatArray | None, alpha: float) -> float:
    """Return the ``alpha`` quantile of the rows of a leaf (see `Engine.node_quantiles`)."""
    return interpolated_quantile(values, alpha) if weights is None else weighted_quantile(values, weights, alpha)


def interpolated_quantile(values: FloatArray, alpha: float) -> float:
    """Return the ``alpha`` quantile at rank alpha (n + 1), by linear interpolation (see `Engine.node_quantiles`).

    The median of 1, 2, 4, 8 has rank 2.5:

    >>> interpolated_quantile(np.array([8.0, 1.0, 4.0, 2.0]), 0.5)
    3.0
    """
    n = len(values)
    if alpha <= 1 / (n + 1):
        return float(values.min())
    if alpha >= n / (n + 1):
        return float(values.max())
    rank = alpha * (n + 1)
    below = math.floor(rank) - 1
    selected = np.partition(values, below)
    low, high = float(selected[below]), float(selected[below + 1 :].min())
    return low + (rank - 1 - below) * (high - low)


def weighted_quantile(values: FloatArray, weights: FloatArray, alpha: float) -> float:
    """Return the lowest value at which the running sum of weights, which is exact, reaches ``alpha`` of the total.

    >>> weighted_quantile(np.array([8.0, 1.0, 4.0]), np.array([1.0, 1.0, 3.0]), 0.5)
    4.0
    """
    order = np.argsort(values)
    running = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(running, running[-1] * alpha)]])

"""Quantiles of each node over the rows of all shards, by a search that passes on only counts.

The quantile of rank r is the lowest value v with at least r rows up to it. Float64 numbers have the order of their bits
read as integers, so a search over 2^64 integers finds v: each round asks the shards how many rows there are up to each
of 255 values between the bounds, and at least 1/256 of the range is left. Eight rounds are enough for any column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.splits.split import FloatArray

__all__ = ["NodeValues", "interpolated_quantiles", "number_of", "value_of", "weighted_quantiles"]

_PIVOTS = 255

WeightsUpTo = Callable[[dict[int, FloatArray]], Sequence[Mapping[int, FloatArray]]]
NextValues = Callable[[dict[int, float]], Sequence[Mapping[int, float]]]
Ends = Mapping[int, tuple[float, float, float]]


class NodeValues:
    """The values of the rows of each node, in order, with prefix sums of their weights.

    Parameters
    ----------
    rows
        ``node``, ``value`` and, where rows have weights, ``weight``.
    storage
        Where to keep them.
    """

    def __init__(self, rows: pl.DataFrame, storage: Storage = IN_MEMORY) -> None:
        ordered = rows.with_columns(pl.col("value") + 0.0).sort("node", "value")  # + 0.0 turns -0.0 into 0.0
        nodes, values = ordered["node"].to_numpy(), storage.kept(ordered["value"].to_numpy())
        weights = ordered["weight"].to_numpy() if "weight" in ordered.columns else np.ones(len(ordered))
        running = storage.empty(weights.shape, np.float64)
        bounds = list(pairwise([*np.flatnonzero(np.diff(nodes, prepend=-1)).tolist(), len(nodes)]))
        for start, stop in bounds:
            np.cumsum(weights[start:stop], out=running[start:stop])
        self._of: dict[int, tuple[FloatArray, FloatArray]] = {
            int(nodes[start]): (values[start:stop], running[start:stop]) for start, stop in bounds
        }

    def ends(self) -> dict[int, tuple[float, float, float]]:
        """Return for each node the weight of all rows, the lowest and the highest value."""
        return {node: (float(w[-1]), float(v[0]), float(v[-1])) for node, (v, w) in self._of.items()}

    def weights_up_to(self, values: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
        """Return the weight of each node's rows with values up to each of the given ones."""
        found = {}
        for node, wanted in values.items():
            if node in self._of:
                own, weights = self._of[node]
                found[node] = np.append(0.0, weights)[np.searchsorted(own, wanted, side="right")]
        return found

    def next_values(self, values: Mapping[int, float]) -> dict[int, float]:
        """Return the lowest value of each node above the given one; nothing for a node without."""
        found = {}
        for node, value in values.items():
            own = self._of[node][0] if node in self._of else np.empty(0)
            place = int(np.searchsorted(own, value, side="right"))
            if place < len(own):
                found[node] = float(own[place])
        return found


def weighted_quantiles(parts: Sequence[Ends], alpha: float, weights_up_to: WeightsUpTo) -> dict[int, float]:
    """Return the lowest value of each node at which the running sum of weights reaches alpha of the total."""
    ends = _merged(parts)
    return _search(ends, {node: total * alpha for node, (total, _, _) in ends.items()}, weights_up_to)


def interpolated_quantiles(
    parts: Sequence[Ends], alpha: float, weights_up_to: WeightsUpTo, next_values: NextValues
) -> dict[int, float]:
    """Return the value of each node at rank alpha (n + 1), interpolated (NIST handbook, section 7.2.6.2)."""
    ends = _merged(parts)
    ranks = {node: alpha * (n + 1) for node, (n, _, _) in ends.items()}
    # Places from 0 of the rows below and above the rank.
    places = {node: min(max(np.floor(rank) - 1, 0.0), ends[node][0] - 1) for node, rank in ranks.items()}
    low = _search(ends, {node: place + 1 for node, place in places.items()}, weights_up_to)
    up_to = _sums(weights_up_to({node: np.array([value]) for node, value in low.items()}))
    above: dict[int, float] = {}
    for part in next_values(low):
        above |= {node: min(value, above.get(node, value)) for node, value in part.items()}
    found = {}
    for node, (n, first, last) in ends.items():
        below = float(np.floor(ranks[node]) - 1)
        wanted = min(max(below + 1, 0.0), n - 1)
        high = low[node] if up_to[node][0] > wanted else above[node]
        if alpha <= 1 / (n + 1):
            found[node] = first
        elif alpha >= n / (n + 1):
            found[node] = last
        else:
            found[node] = low[node] + (ranks[node] - 1 - below) * (high - low[node])
    return found


def _search(ends: Ends, targets: Mapping[int, float], weights_up_to: WeightsUpTo) -> dict[int, float]:
    """Return the lowest value of each node up to which the weight of its rows reaches the target."""
    # The value lies in (after, last], in integers; only nodes with several candidates are asked for.
    bounds = {node: (number_of(low) - 1, number_of(high)) for node, (_, low, high) in ends.items()}
    while asked := {node: pivots for node, (a, b) in bounds.items() if (pivots := _between(a, b))}:
        sums = _sums(weights_up_to({node: np.array([value_of(p) for p in pivots]) for node, pivots in asked.items()}))
        for node, pivots in asked.items():
            place = int(np.searchsorted(sums[node], targets[node], side="left"))
            after, last = bounds[node]
            bounds[node] = pivots[place - 1] if place else after, pivots[place] if place < len(pivots) else last
    return {node: value_of(last) for node, (_, last) in bounds.items()}


def _between(after: int, last: int) -> list[int]:
    """Return up to 255 numbers, evenly spaced, above ``after`` and below ``last``."""
    count = min(_PIVOTS, last - after - 1)
    return [after + (last - after) * (i + 1) // (count + 1) for i in range(count)]


def _sums(parts: Sequence[Mapping[int, FloatArray]]) -> dict[int, FloatArray]:
    sums: dict[int, FloatArray] = {}
    for part in parts:
        sums |= {node: weights + sums[node] if node in sums else weights for node, weights in part.items()}
    return sums


def _merged(parts: Sequence[Ends]) -> dict[int, tuple[float, float, float]]:
    ends: dict[int, tuple[float, float, float]] = {}
    for part in parts:
        for node, (weight, low, high) in part.items():
            before = ends.get(node, (0.0, low, high))
            ends[node] = before[0] + weight, min(low, before[1]), max(high, before[2])
    return dict(sorted(ends.items()))


def number_of(value: float) -> int:
    """Return an integer for each float64, in the same order."""
    bits = int(np.float64(value).view(np.int64))
    return bits if bits >= 0 else -(bits & (2**63 - 1)) - 1


def value_of(number: int) -> float:
    """Return the float64 of an integer of `number_of`."""
    bits = number if number >= 0 else (-number - 1) - 2**63
    return float(np.int64(bits).view(np.float64))

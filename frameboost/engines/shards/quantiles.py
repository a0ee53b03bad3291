"""Quantiles of each node over the rows of all shards, from samples and few transferred values.

The quantile of rank r is the lowest value v with at least r rows up to it. It is selected in two or three calls, for
all nodes together, each at most one pass over the rows:

1. Each shard sends a sample of each node's values. 2. Some values around the rank in the samples are *pivots*; the
shards send the values between the outer pivots, if these are few, and otherwise count the rows up to each pivot. 3. The
rank lies between two pivots, and the shards send the values between them.

If these are too many, they are sampled in turn, at most twice; counts are exact for any samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.codes import count_distinct
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.splits.split import BoolArray, FloatArray

__all__ = ["Bracket", "NodeValues", "Values", "interpolated_quantiles", "weighted_quantiles"]

# The most values of a node that a shard sends, about how many it samples first, and the most pivots of a node.
_MAX_VALUES, _SAMPLED, _PIVOTS = 255, 63, 63
# How often values are sampled before all are sent: samples of rows in an unlucky order may say little.
_MAX_SAMPLES = 3
# How far from the rank in the samples it may well be, in standard deviations.
_DEVIATIONS = 3.0

Bracket = tuple[float, float]  # the values v with first < v <= last


class Values(NamedTuple):
    """Some values of a node in a shard, in any order, with the weight that each represents.

    ``are_all`` means that these are all values with their weights; otherwise they are a sample. ``total`` is the exact
    total weight.
    """

    values: FloatArray
    weights: FloatArray
    total: float
    are_all: bool


Start = Sequence[Mapping[int, Values]]
Around = Callable[[dict[int, FloatArray]], Sequence[Mapping[int, Values]]]
Within = Callable[[dict[int, Bracket], bool], Sequence[Mapping[int, Values]]]


class NodeValues:
    """The values of each node's rows, in any order, and their weights, by default 1.

    Parameters
    ----------
    rows
        ``node``, ``value`` and, if rows are weighted, ``weight``.
    storage
        Where to keep them.
    """

    def __init__(self, rows: pl.DataFrame, storage: Storage = IN_MEMORY) -> None:
        nodes = rows["node"].to_numpy()
        values = rows["value"].to_numpy() + 0.0  # which turns -0.0 into 0.0
        weights = rows["weight"].to_numpy() if "weight" in rows.columns else None
        starts = _starts(nodes)
        if (nodes[starts[1:]] < nodes[starts[:-1]]).any():
            narrow = nodes.astype(np.uint16) if nodes.max(initial=0) < 1 << 16 else nodes  # which are sorted by radix
            order = np.argsort(narrow, kind="stable")
            nodes, values = nodes[order], values[order]
            weights = None if weights is None else weights[order]
            starts = _starts(nodes)
        values = storage.kept(values)
        weights = None if weights is None else storage.kept(weights)
        bounds = pairwise([*starts.tolist(), len(nodes)])
        self._of: dict[int, tuple[FloatArray, FloatArray | None]] = {
            int(nodes[start]): (values[start:stop], None if weights is None else weights[start:stop])
            for start, stop in bounds
            if start < stop
        }

    def start(self) -> dict[int, Values]:
        """Return the values of each node, or a sample."""
        values_of = {}
        for node, (values, weights) in self._of.items():
            step = 1 if len(values) <= _MAX_VALUES else -(-len(values) // _SAMPLED)
            chosen = values[::step]
            if weights is None:
                total, of_each = float(len(values)), np.full(len(chosen), len(values) / len(chosen))
            else:
                total, of_each = float(weights.sum()), weights[::step]
                of_each = of_each * (total / (of_each.sum() or 1.0)) if step > 1 else of_each
            values_of[node] = Values(chosen, of_each, total, are_all=step == 1)
        return values_of

    def around(self, pivots: Mapping[int, FloatArray]) -> dict[int, Values]:
        """Return the values between the outer ones of each node's ascending pivots, or the weights between pivots.

        The first value is the first pivot, and has the weight of all rows up to it.
        """
        values_of = {}
        for node, node_pivots in pivots.items():
            if node in self._of:
                values, weights = self._of[node]
                is_low = values <= node_pivots[0]
                chosen = (values <= node_pivots[-1]) > is_low
                near, of_near = values[chosen], None if weights is None else weights[chosen]
                below = float(np.count_nonzero(is_low) if weights is None else weights[is_low].sum())
                if are_all := len(near) <= _MAX_VALUES:
                    of_near = np.ones(len(near)) if of_near is None else of_near
                else:
                    index = np.searchsorted(node_pivots, near, side="left") - 1
                    near, of_near = node_pivots[1:], np.bincount(index, of_near, len(node_pivots) - 1)
                near, of_near = np.concatenate([node_pivots[:1], near]), np.concatenate([[below], of_near])
                values_of[node] = Values(near, of_near, 0.0, are_all)
        return values_of

    def within(self, brackets: Mapping[int, Bracket], wants_all: bool) -> dict[int, Values]:
        """Return the values in the bracket of each node, or a sample; the node drops all others."""
        values_of = {}
        for node, bracket in brackets.items():
            if node in self._of:
                values, weights = self._of[node]
                chosen = _between(values, bracket)
                values, weights = values[chosen], None if weights is None else weights[chosen]
                if len(values) > _MAX_VALUES:  # which a value that many rows have must not be
                    values, weights = _distinct(values, weights)
                self._of[node] = values, weights
                of_each = np.ones(len(values)) if weights is None else weights
                values_of[node] = _summary(values, of_each, wants_all=wants_all)
        return values_of


def _starts(nodes: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return where rows of the same node begin."""
    return np.append(0, np.flatnonzero(nodes[1:] != nodes[:-1]) + 1)


def _between(values: FloatArray, bracket: Bracket) -> BoolArray:
    chosen: BoolArray = (values > bracket[0]) & (values <= bracket[1])
    return chosen


def _distinct(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the distinct values, ascending, and the weight of each."""
    if weights is None:
        distinct, counts = count_distinct(values)
        return distinct, counts.astype(np.float64)
    order = np.argsort(values)
    values, weights = values[order], weights[order]
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[first], np.add.reduceat(weights, first) if len(first) else weights


def _summary(values: FloatArray, weights: FloatArray, *, wants_all: bool) -> Values:
    """Return all values if they are few, else some of them, which ascend."""
    total = float(weights.sum())
    if wants_all or len(values) <= _MAX_VALUES:
        return Values(values, weights, total, are_all=True)
    chosen = np.linspace(0, len(values) - 1, _MAX_VALUES).astype(np.int64)
    return Values(values[chosen], np.diff(np.cumsum(weights)[chosen], prepend=0.0), total, are_all=False)


def weighted_quantiles(start: Start, alpha: float, around: Around, within: Within) -> dict[int, float]:
    """Return the lowest value of each node at which the running sum of weights reaches alpha of the total.

    Parameters
    ----------
    start
        `NodeValues.start` of each shard.
    alpha
        The share.
    around, within
        Functions that call these methods of all shards.
    """
    totals = _totals(start)
    targets = {node: (total * alpha, total * alpha) for node, total in totals.items()}
    selected = _select(start, targets, around, within)
    return {node: low for node, (low, _) in selected.items()}


def interpolated_quantiles(start: Start, alpha: float, around: Around, within: Within) -> dict[int, float]:
    """Return the value of each node at rank alpha (n + 1), interpolated (NIST handbook, section 7.2.6.2).

    Parameters are those of `weighted_quantiles`.
    """
    totals = _totals(start)
    ranks = {node: alpha * (n + 1) for node, n in totals.items()}
    # The ranks, from 1, of the rows below and above; at both ends they are one row.
    targets = {}
    for node, n in totals.items():
        below = min(max(np.floor(ranks[node]), 1.0), n)
        targets[node] = below, min(below + 1, n) if 1 / (n + 1) < alpha < n / (n + 1) else below
    quantiles = {}
    for node, (low, high) in _select(start, targets, around, within).items():
        below, above = targets[node]
        quantiles[node] = float(low if below == above else low + (ranks[node] - below) * (high - low))
    return quantiles


def _select(
    start: Start, targets: Mapping[int, tuple[float, float]], around: Around, within: Within
) -> dict[int, tuple[float, float]]:
    """Return for both ascending targets of each node the lowest value with at least that weight up to it."""
    results: dict[int, tuple[float, float]] = {}
    parts, below = start, dict.fromkeys(targets, 0.0)  # the weight of the values before those in the parts
    for number in count(1):
        waiting = {}
        for node in targets.keys() - results.keys():
            values, running, are_all = _in_order(parts, node, below[node])
            if are_all:
                results[node] = _reached(values, running, targets[node])
            else:
                waiting[node] = _pivots(values, running, targets[node])
        counts, brackets = around(dict(sorted(waiting.items()))) if waiting else [], {}
        for node, pivots in sorted(waiting.items()):
            values, running, are_all = _in_order(counts, node, below[node])
            sums, (low, high) = running[np.searchsorted(values, pivots, side="right") - 1], targets[node]
            if are_all and sums[0] < low and high <= sums[-1]:
                results[node] = _reached(values, running, targets[node])
            else:
                brackets[node], below[node] = _bracket(pivots, sums, targets[node], below[node])
        if not brackets:
            break
        parts = within(brackets, number == _MAX_SAMPLES)
    return dict(sorted(results.items()))


def _in_order(parts: Sequence[Mapping[int, Values]], node: int, below: float) -> tuple[FloatArray, FloatArray, bool]:
    """Return a node's values, ascending, the running sums of their weights, and whether these are all values."""
    of_node = [part[node] for part in parts if node in part]
    values, weights = map(np.concatenate, zip(*(part[:2] for part in of_node), strict=True))
    order = np.argsort(values)
    return values[order], below + np.cumsum(weights[order]), all(part.are_all for part in of_node)


def _reached(values: FloatArray, running: FloatArray, targets: tuple[float, float]) -> tuple[float, float]:
    """Return for both targets the lowest value at which the running sum reaches it."""
    low, high = np.searchsorted(running, targets, side="left").tolist()
    return float(values[low]), float(values[high])


def _pivots(values: FloatArray, running: FloatArray, targets: tuple[float, float]) -> FloatArray:
    """Return values around the targets, from a sample with running sums of its weights."""
    deviation = (running[-1] - running[0]) * _DEVIATIONS * 0.5 / np.sqrt(len(values))
    low, high = np.searchsorted(running, (targets[0] - deviation, targets[1] + deviation), side="left").tolist()
    low, high = max(0, min(low, len(values)) - 1), min(high + 1, len(values) - 1)  # two, so that a bracket is narrower
    return values[np.unique(np.linspace(low, high, min(_PIVOTS, high - low + 1)).astype(np.int64))]


def _bracket(pivots: FloatArray, sums: FloatArray, targets: tuple[float, float], below: float) -> tuple[Bracket, float]:
    """Return the pivots that enclose both targets, and the weight up to the first; ``below`` if there is none."""
    first = int(np.searchsorted(sums, targets[0], side="left")) - 1
    last = int(np.searchsorted(sums, targets[1], side="left"))
    bracket = pivots[first] if first >= 0 else -np.inf, pivots[last] if last < len(pivots) else np.inf
    return (float(bracket[0]), float(bracket[1])), float(sums[first]) if first >= 0 else below


def _totals(parts: Start) -> dict[int, float]:
    totals: dict[int, float] = {}
    for part in parts:
        for node, of_node in part.items():
            totals[node] = totals.get(node, 0.0) + of_node.total
    return dict(sorted(totals.items()))

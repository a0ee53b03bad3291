"""Kernels over binned columns: histograms.

Indices are unsigned: for a signed one numba checks at each access whether it counts from the end.
"""

from __future__ import annotations

import numpy as np

from frameboost.runtime.intrinsics import AHEAD, add_pair, prefetch
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team_intrinsics import outlined
from frameboost.runtime.team_kernels import share_out

__all__ = ["add_more", "build_histograms"]

_ONE = np.uint64(1)


@kernel
def _clear_one(histograms, places, item):  # type: ignore[no-untyped-def]
    histograms[places[item]] = 0.0


_clearing = outlined(_clear_one)


@kernel
def _add_rows(codes, rows, start, stop, gradients, slots, histogram):  # type: ignore[no-untyped-def]
    """Add the pairs of ``rows[start:stop]`` to a histogram."""
    n_features = np.uint64(codes.shape[1])
    all_codes, pairs, stop = codes.ravel(), gradients.ravel(), np.uint64(stop)
    for i in range(np.uint64(start), stop):
        if i + AHEAD < stop:
            later = np.uint64(rows[i + AHEAD])
            prefetch(all_codes, later * n_features)
            prefetch(pairs, later << _ONE)
        row = np.uint64(rows[i])
        g, h = pairs[row << _ONE], pairs[(row << _ONE) + _ONE]
        start_of_row = row * n_features
        for feature in range(n_features):
            slot = np.uint64(slots[feature]) + np.uint64(all_codes[start_of_row + feature])
            add_pair(histogram, slot << _ONE, g, h)


@kernel
def _build_share(  # type: ignore[no-untyped-def]
    codes, rows, parts, firsts, gradients, slots, histograms, places, more, share
):
    # The node that the share before has begun: its sums go to a histogram of this share's own.
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    for part in range(firsts[share], firsts[share + 1]):
        node, start, stop = parts[part]
        histogram = (more[share - 1] if node == before else histograms[places[node]]).ravel()
        _add_rows(codes, rows, start, stop, gradients, slots, histogram)


_building = outlined(_build_share)


@kernel
def build_histograms(  # type: ignore[no-untyped-def]
    team, codes, rows, parts, firsts, gradients, slots, histograms, places, more, is_first
):
    """Add each row's gradient pair to its bins of its node's histogram, for the features of one array of codes.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team_kernels`).
    codes
        uint8, uint16 or uint32 (rows, features), row-major: all codes of a row lie in one cache line or two.
    rows
        uint32: row numbers, those of a node side by side.
    parts, firsts
        The shares of the nodes and their rows (see `frameboost.engines.memory.partition_kernels.share_pieces`).
    gradients
        float64 (rows, 2): g and h.
    slots
        int64 (features,): the first slot of each feature.
    histograms, places
        float64 (places, slots, 2), added to, and int64 (nodes,): the place of each node.
    more
        float64 (shares - 1, slots, 2), zero at first, added to: the sums of each share but the first for the node that
        the share before has begun.
    is_first
        Whether to clear the nodes' histograms before.
    """
    if is_first:
        share_out(team, _clearing((histograms, places)), len(places))
    share_out(
        team, _building((codes, rows, parts, firsts, gradients, slots, histograms, places, more)), len(firsts) - 1
    )


@kernel
def add_more(parts, firsts, more, histograms, places):  # type: ignore[no-untyped-def]
    """Add to each histogram the sums of the shares that started within its node."""
    for share in range(1, len(firsts) - 1):
        if firsts[share] < firsts[share + 1] and parts[firsts[share], 0] == parts[firsts[share] - 1, 0]:
            histograms[places[parts[firsts[share], 0]]] += more[share - 1]

"""Histogram kernels in memory: g and h of rows summed by node and code.

`frameboost.engines.memory.columns.BinnedColumns.sum_by_bin` calls these kernels; the modules of sparse codes, bundles
and stars have their kernels. Indices are unsigned: numba checks signed ones at each access for wraparound.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.limits import MIN_BINS, MIN_ROWS
from frameboost.runtime.intrinsics import AHEAD, STRIDE, WIDTH, add_pair, add_pairs, prefetch, prefetch_all
from frameboost.runtime.kernel import kernel
from frameboost.runtime.team import outlined, share_out

__all__ = ["add_more", "add_rows", "build_histograms", "build_share", "clearing", "gh_totals", "may_block"]

_ZERO, _ONE = np.uint64(0), np.uint64(1)
# Rows and features of a block.
_ROWS, _FEATURES = np.uint64(2048), np.uint64(16)
_WIDTH, _STRIDE = np.uint64(WIDTH), np.uint64(STRIDE)


@kernel
def _clear_one(histograms, indices, item):  # type: ignore[no-untyped-def]
    histograms[indices[item]] = 0.0


clearing = outlined(_clear_one)


@kernel(no_cpython_wrapper=True)
def add_rows(codes, rows, start, stop, gradients, slots, first, last, histogram):  # type: ignore[no-untyped-def]
    """Add the pairs of ``rows[start:stop]`` to a histogram, for the features ``first`` to ``last - 1``."""
    n_features = np.uint64(codes.shape[1])
    all_codes, gh, stop = codes.ravel(), gradients.ravel(), np.uint64(stop)
    for i in range(np.uint64(start), stop):
        if i + AHEAD < stop:
            later = np.uint64(rows[i + AHEAD])
            prefetch_all(all_codes, later * n_features + np.uint64(first), np.uint64(last) - np.uint64(first))
            prefetch(gh, later << _ONE)
        row = np.uint64(rows[i])
        g, h = gh[row << _ONE], gh[(row << _ONE) + _ONE]
        start_of_row = row * n_features
        for feature in range(np.uint64(first), np.uint64(last)):
            slot = np.uint64(slots[feature]) + np.uint64(all_codes[start_of_row + feature])
            add_pair(histogram, slot << _ONE, g, h)


@kernel
def _add_in_blocks(codes, rows, start, stop, gradients, slots, sums, gh, histogram):  # type: ignore[no-untyped-def]
    """Do the same for codes below 256 by cache blocking (loop tiling): faster for thousands of rows with many bins.

    ``sums`` has 256 bins for each feature, so that their offsets are constants (see `add_pairs`). The working set of a
    block is about the L1 cache (48 KB): 28 features of 256 bins take 28 * 256 * 16 bytes = 112 KB, 16 of them 64 KB.
    The rest comes from L2.

    With 28 features, each block of 2,048 rows is read twice: once for the features 0 to 15, when the scattered pairs
    are gathered into ``gh`` (32 KB, then read in sequence), and once for the features 16 to 27.
    """
    n_features, stop = np.uint64(codes.shape[1]), np.uint64(stop)
    all_codes, all_gh = codes.ravel(), gradients.ravel()
    sums[:] = 0.0
    for first in range(np.uint64(start), stop, _ROWS):
        last = min(first + _ROWS, stop)
        for i in range(first, last):
            if i + AHEAD < stop:
                later = np.uint64(rows[i + AHEAD])
                prefetch_all(all_codes, later * n_features, n_features)
                prefetch(all_gh, later << _ONE)
            row, at = np.uint64(rows[i]), (i - first) << _ONE
            g, h = all_gh[row << _ONE], all_gh[(row << _ONE) + _ONE]
            gh[at], gh[at + _ONE] = g, h
            _add_row(sums, all_codes, row * n_features, _ZERO, min(_FEATURES, n_features), g, h)
        for feature in range(_FEATURES, n_features, _FEATURES):
            end = min(feature + _FEATURES, n_features)
            for i in range(first, last):
                at = (i - first) << _ONE
                _add_row(sums, all_codes, np.uint64(rows[i]) * n_features, feature, end, gh[at], gh[at + _ONE])
    for k in range(codes.shape[1]):
        # After the feature's slots are those of other features: 0 is added to them.
        bins_of_feature, block_sums = histogram[2 * slots[k] :][:512], sums[k * STRIDE :]
        for i in range(len(bins_of_feature)):
            bins_of_feature[i] += block_sums[i]


@kernel
def _add_row(sums, codes, start_of_row, feature, end, g, h):  # type: ignore[no-untyped-def]
    """Add a row's pair to its bins, for the features ``feature`` to ``end - 1``."""
    whole = end - (end - feature) % _WIDTH
    for k in range(feature, whole, _WIDTH):
        add_pairs(sums, k * _STRIDE, codes, start_of_row + k, g, h)
    for k in range(whole, end):
        add_pair(sums, k * _STRIDE + (np.uint64(codes[start_of_row + k]) << _ONE), g, h)


@kernel(inline="always")
def build_share(  # type: ignore[no-untyped-def]
    codes, rows, parts, firsts, gradients, slots, histograms, indices, more, may_block, share
):
    """Do the work of `build_histograms` after clearing, for one share."""
    sums, gh = np.empty(0), np.empty(0)
    if may_block is not None:
        sums, gh = np.empty(codes.shape[1] * STRIDE), np.empty(np.int64(_ROWS) << 1)
    # The node that the share before has begun: its sums go to a histogram of this share alone.
    before = parts[firsts[share] - 1, 0] if share > 0 else -1
    for part in range(firsts[share], firsts[share + 1]):
        node, start, stop = parts[part, 0], parts[part, 1], parts[part, 2]
        histogram = (more[share - 1] if node == before else histograms[indices[node]]).ravel()
        if may_block is not None and stop - start >= MIN_ROWS:
            _add_in_blocks(codes, rows, start, stop, gradients, slots, sums, gh, histogram)
        else:
            add_rows(codes, rows, start, stop, gradients, slots, 0, codes.shape[1], histogram)


_building = outlined(build_share)


@kernel
def build_histograms(  # type: ignore[no-untyped-def]
    team, codes, rows, parts, firsts, gradients, slots, histograms, indices, more, is_first, may_block
):
    """Add each row's gradient pair to the bins in the histogram of its node, for the features of one array of codes.

    Parameters
    ----------
    team
        The threads (see `frameboost.runtime.team`).
    codes
        uint8, uint16 or uint32 (rows, features), row-major, so that all codes of a row are in one or two cache lines.
    rows
        uint32: row numbers, contiguous by node.
    parts, firsts
        The shares of the nodes and their rows (see `frameboost.engines.memory.partition.share_pieces`).
    gradients
        float64 (rows, 2): g and h.
    slots
        int64 (features,): the first slot of each feature.
    histograms, indices
        float64 (histograms, slots, 2), added to, and int64 (nodes,): the index of each node's histogram.
    more
        float64 (shares - 1, slots, 2), zero at first, added to: the sums of each share but the first for the node that
        the share before has begun.
    is_first
        Whether to clear the histograms of the nodes first.
    may_block
        Whether nodes with many rows are added in blocks; None instead of False, so that the blocked variant is not
        compiled.
    """
    if is_first:
        share_out(team, clearing((histograms, indices)), len(indices))
    values = codes, rows, parts, firsts, gradients, slots, histograms, indices, more, may_block
    share_out(team, _building(values), len(firsts) - 1)


@kernel
def add_more(parts, firsts, more, histograms, indices):  # type: ignore[no-untyped-def]
    """Add to each histogram the sums of the shares that started within its node."""
    for share in range(1, len(firsts) - 1):
        if firsts[share] < firsts[share + 1] and parts[firsts[share], 0] == parts[firsts[share] - 1, 0]:
            histogram, share_sums = histograms[indices[parts[firsts[share], 0]]].ravel(), more[share - 1].ravel()
            for i in range(len(share_sums)):  # to add arrays whole takes numba three seconds to compile
                histogram[i] += share_sums[i]


def may_block(codes: Codes, n_slots: int) -> Literal[True] | None:
    """Return whether blocks can pay off; None instead of False, so that the blocked variant is not compiled."""
    is_large = codes.itemsize == 1 and n_slots >= MIN_BINS * codes.shape[1] and len(codes) >= MIN_ROWS
    return True if is_large else None


@kernel(fastmath={"reassoc"})
def gh_totals(gh, size):  # type: ignore[no-untyped-def]
    """Return the sums of the first ``size`` rows of ``gh``, float64 (rows, 2), on grids.

    The sums are exact in any order, so the compiler may use SIMD instructions.
    """
    total_g = total_h = 0.0
    for i in range(size):
        total_g += gh[i, 0]
        total_h += gh[i, 1]
    return total_g, total_h

"""Histograms in memory: the rows of the wanted nodes divided between threads, added up by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from frameboost.binning.arrays import Codes
from frameboost.engines.memory.binning import BinnedColumns
from frameboost.engines.memory.bundled_codes import Bundles
from frameboost.engines.memory.histogram_kernels import (
    MIN_BINS,
    MIN_ROWS,
    add_by_feature,
    add_more,
    build_histograms,
)
from frameboost.engines.memory.nodes import RowPartition
from frameboost.engines.memory.sparse.columns import RowNumbers
from frameboost.engines.memory.sparse.kernels import add_entries, add_entries_in_order, complete_histograms
from frameboost.runtime.task_sizes import ADDITIONS_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["may_block", "sum_by_bin"]


def sum_by_bin(
    binned: BinnedColumns,
    partition: RowPartition,
    gh: FloatArray,
    workers: Workers,
    nodes: Sequence[int],
    out: FloatArray,
    indices: IntArray,
) -> None:
    """Write the histograms of some nodes to their ``indices`` in ``out`` (see `HistogramEngine.histograms`)."""
    parts, firsts = partition.shares(nodes, ADDITIONS_PER_TASK // binned.additions_per_row)
    count = len(firsts) - 1
    team = workers.team(count)
    # The shares after the first may start within a node that the share before is adding up. Each gets a histogram of
    # its own for that node, which is added in the end.
    more = np.zeros((count - 1, *out.shape[1:]))
    for k, (codes, slots) in enumerate(binned.by_row):
        rows, blocks = partition.rows, may_block(codes, out.shape[1])
        build_histograms(team, codes, rows, parts, firsts, gh, slots, out, indices, more, k == 0, blocks)
    sparse, bundled = binned.sparse, binned.bundled
    if sparse is not None and sparse.bundles is None:
        is_first = not binned.by_row
        to_add = parts, firsts, gh, int(sparse.common[0]), out, indices, more, is_first
        if sparse.steps is not None and partition.has_all_in_order(nodes):
            add_entries_in_order(team, sparse.starts, sparse.steps, sparse.entries, *to_add)
        else:
            add_entries(team, sparse.starts, sparse.entries, partition.rows, *to_add)
    if binned.keyed is not None:
        is_first = not binned.by_row and sparse is None
        binned.keyed.add(team, partition.rows, parts, firsts, gh, out, indices, more, is_first=is_first)
    if count > 1:
        add_more(parts, firsts, more, out, indices)
    for bundles in (bundled, None if sparse is None else sparse.bundles):
        if bundles is not None:
            _sum_by_bundle(bundles, partition.rows, team, parts, firsts, gh, out, indices)
    if sparse is not None:
        complete_histograms(team, out, indices, sparse.firsts, sparse.stops, sparse.common)


def _sum_by_bundle(
    bundles: Bundles,
    rows: RowNumbers,
    team: IntArray | None,
    parts: IntArray,
    firsts: IntArray,
    gh: FloatArray,
    out: FloatArray,
    indices: IntArray,
) -> None:
    """Add up by the codes of bundles, and these sums to those of their features."""
    codes, slots, nodes = bundles.codes, bundles.offsets[:-1], np.arange(len(indices))
    sums = np.empty((len(nodes), bundles.offsets[-1], 2))
    more = np.zeros((len(firsts) - 2, *sums.shape[1:]))
    build_histograms(
        team, codes, rows, parts, firsts, gh, slots, sums, nodes, more, True, may_block(codes, sums.shape[1])
    )
    if len(more):
        add_more(parts, firsts, more, sums, nodes)
    add_by_feature(team, sums, bundles.sources, bundles.targets, bundles.slots, out, indices)


def may_block(codes: Codes, n_slots: int) -> Literal[True] | None:
    """Return whether blocks can pay; None in place of False, for which kernels are compiled without them."""
    is_large = codes.itemsize == 1 and n_slots >= MIN_BINS * codes.shape[1] and len(codes) >= MIN_ROWS
    return True if is_large else None

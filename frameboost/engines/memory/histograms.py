"""Histograms in memory: the rows of the wanted nodes divided between threads, added up by a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.engines.memory.binning import BinnedColumns
from frameboost.engines.memory.histogram_kernels import add_more, build_histograms
from frameboost.engines.memory.nodes import RowPartition
from frameboost.engines.memory.task_sizes import ADDITIONS_PER_TASK
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray

__all__ = ["sum_by_bin"]


def sum_by_bin(
    binned: BinnedColumns,
    partition: RowPartition,
    pairs: FloatArray,
    workers: Workers,
    nodes: Sequence[int],
    out: FloatArray,
    places: IntArray,
) -> None:
    """Write the histograms of some nodes to their ``places`` in ``out`` (see `HistogramEngine.histograms`)."""
    parts, firsts = partition.shares(nodes, ADDITIONS_PER_TASK // len(binned.columns))
    count = len(firsts) - 1
    team = workers.team(count)
    # The shares after the first may start within a node that the share before is adding up. Each gets a histogram of
    # its own for that node, which is added in the end.
    more = np.zeros((count - 1, *out.shape[1:]))
    for k, (codes, slots) in enumerate(binned.by_row):
        build_histograms(team, codes, partition.rows, parts, firsts, pairs, slots, out, places, more, k == 0)
    if count > 1:
        add_more(parts, firsts, more, out, places)

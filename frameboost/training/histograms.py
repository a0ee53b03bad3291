"""Histograms of open nodes, half of them by subtraction.

Of two siblings only the lighter one is summed from its rows; the other is parent − sibling. Sums on the gradient grid
are exact, so the difference is bit for bit the sum over the sibling's rows. Worked example, one feature of three bins,
sums of g:

=======================  ================  =====================================
node 0 (root)            ``[4, -1, 2]``    summed
node 1 (lighter child)   ``[1,  0, 2]``    summed
node 2 (its sibling)     ``[3, -1, 0]``    node 0 − node 1, in the place of node 0
=======================  ================  =====================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from frameboost.runtime.compile_later import CompileLater
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray, IntArray
from frameboost.splits.subtraction_kernels import subtract_from_parents
from frameboost.training.node import OpenNode

__all__ = ["SLOTS_PER_THREAD", "HistogramPool", "HistogramSource"]

# A thread that subtracts or scans fewer slots than this costs more than it saves.
SLOTS_PER_THREAD = 1 << 16
# As many as a tree of depth 6 needs. The operating system gives memory to a place when it is first written to.
_FIRST_PLACES = 32
# A level takes 20 us longer by numpy, and the kernel 0.2 s to compile.
_compiling_later = CompileLater(subtract_from_parents, most=5000)


class HistogramSource(Protocol):
    """Sums histograms: a `HistogramEngine`, of which no more is needed here."""

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `frameboost.engines.contract.HistogramEngine.histograms`."""


class HistogramPool:
    """The histograms that later ones are subtracted from, in one array that grows and is reused tree by tree."""

    def __init__(self, source: HistogramSource, n_slots: int, workers: Workers) -> None:
        self._source = source
        self._n_slots = n_slots
        self._workers = workers
        self._sums: FloatArray = np.empty((0, n_slots, 2))  # (histograms, slots, 2)
        self._indices: dict[int, int] = {}  # node -> place of its histogram
        self._free: list[int] = []

    def of(self, nodes: Sequence[OpenNode]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return histograms, float64 (histograms, slots, 2), and the place among them of each of ``nodes``.

        Siblings must be asked for in the same call. A parent's histogram is gone afterwards: the sibling has its place.
        """
        asked = [node for node in nodes if node.is_smaller or node.parent not in self._indices]
        own = self._free_indices(len(asked))
        parents = [self._indices.pop(node.parent, -1) for node in asked]
        for node, index, parent in zip(asked, own, parents, strict=True):
            self._indices[node.id] = index
            if parent >= 0:
                assert node.sibling is not None
                self._indices[node.sibling.id] = parent
        indices = np.array(own, dtype=np.int64)
        self._source.histograms([node.id for node in asked], self._sums, indices)
        self._subtract(own, parents)
        return self._sums, np.array([self._indices[node.id] for node in nodes], dtype=np.int64)

    def _subtract(self, indices: Sequence[int], parents: Sequence[int]) -> None:
        """Turn the histograms of parents (-1 for none) into those of the other child, in place."""
        count = self._workers.count(len(indices), SLOTS_PER_THREAD // self._sums.shape[1])
        if count == 1 and _compiling_later.spend(1):
            for index, parent in zip(indices, parents, strict=True):
                if parent >= 0:
                    self._sums[parent] -= self._sums[index]
            return
        of_indices, of_parents = np.array(indices, dtype=np.int64), np.array(parents, dtype=np.int64)
        subtract_from_parents(self._workers.team(count), self._sums, of_indices, of_parents)

    def _free_indices(self, count: int) -> list[int]:
        """Return ``count`` free places, with more memory if there are too few."""
        missing = count - len(self._free)
        if missing > 0:
            n_before = len(self._sums)
            new = max(missing, n_before, _FIRST_PLACES)
            before, self._sums = self._sums, np.empty((n_before + new, self._n_slots, 2))
            if n_before:
                self._sums[:n_before] = before
            self._free += range(n_before, len(self._sums))
        return [self._free.pop() for _ in range(count)]

    def forget(self, node: int) -> None:
        """Free the place of a node that has become a leaf."""
        self._free.append(self._indices.pop(node))

    def clear(self) -> None:
        """Free all places: the tree is grown."""
        self._free += self._indices.values()
        self._indices.clear()

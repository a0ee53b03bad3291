"""Histograms of open nodes, with as few asked of the engine as will do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frameboost.engines.contract import HistogramEngine
from frameboost.runtime.workers import Workers
from frameboost.splits.split import FloatArray
from frameboost.splits.subtraction_kernels import subtract_from_parents
from frameboost.training.node import OpenNode

__all__ = ["SMALLEST_TASK", "HistogramPool"]

# Below this many slots a thread costs more than it saves.
SMALLEST_TASK = 1 << 16
# As many as a tree of depth 6 needs; those that none needs take no memory, as nothing is ever written there.
_FIRST_PLACES = 32


class HistogramPool:
    """The histograms of nodes that may still be needed.

    Of two siblings only the one with the smaller H is asked of the engine; the other is parent − sibling, exact because
    all sums are on the gradient grid. In every engine this pays: fewer rows to add up, or fewer groups to bring over.
    """

    def __init__(self, engine: HistogramEngine, n_slots: int, workers: Workers) -> None:
        self._engine = engine
        self._n_slots = n_slots
        self._workers = workers
        self._sums: FloatArray = np.empty((0, n_slots, 2))  # (places, slots, 2), the same array tree by tree
        self._places: dict[int, int] = {}  # node -> its histogram's
        self._free: list[int] = []

    def of(self, nodes: Sequence[OpenNode]) -> tuple[FloatArray, npt.NDArray[np.int64]]:
        """Return histograms, float64 (places, slots, 2), and the place among them of each of ``nodes``.

        Siblings must be asked for together.
        """
        asked = [node for node in nodes if node.is_smaller or node.parent not in self._places]
        own = self._free_places(len(asked))
        parents = [self._places.pop(node.parent, -1) for node in asked]  # which nobody needs any more
        for node, place, parent in zip(asked, own, parents, strict=True):
            self._places[node.id] = place
            if parent >= 0:
                assert node.sibling is not None
                self._places[node.sibling.id] = parent
        places = np.array(own, dtype=np.int64)
        self._engine.histograms([node.id for node in asked], self._sums, places)
        count = self._workers.count(len(asked), SMALLEST_TASK // self._sums.shape[1])
        subtract_from_parents(self._workers.team(count), self._sums, places, np.array(parents, dtype=np.int64))
        return self._sums, np.array([self._places[node.id] for node in nodes], dtype=np.int64)

    def _free_places(self, count: int) -> list[int]:
        """Return so many free places, more of them being made if need be."""
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
        """Drop a node's histogram: it has become a leaf."""
        self._free.append(self._places.pop(node))

    def clear(self) -> None:
        """Drop everything: the tree is done."""
        self._free += self._places.values()
        self._places.clear()

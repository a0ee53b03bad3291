"""Histograms of open nodes, with as few asked of the engine as will do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frameboost.engines.contract import FloatArray, HistogramEngine
from frameboost.nodes import OpenNode

__all__ = ["HistogramPool"]


class HistogramPool:
    """The histograms of nodes that may still be needed.

    Of two siblings only the one with the smaller H is asked of the engine; the other is parent − sibling, exact because
    all sums are on the gradient grid. In every engine this pays: fewer rows to add up, or fewer groups to bring over.
    """

    def __init__(self, engine: HistogramEngine) -> None:
        self._engine = engine
        self._kept: dict[int, FloatArray] = {}

    def of(self, nodes: Sequence[OpenNode]) -> list[FloatArray]:
        """Return float64 (slots, 2) for each of ``nodes``, in their order; siblings must be asked for together."""
        asked = [node for node in nodes if not self._by_subtraction(node)]
        for node, histogram in zip(asked, self._engine.histograms([n.id for n in asked]), strict=True):
            self._kept[node.id] = histogram
        for node in nodes:
            if self._by_subtraction(node):
                assert node.sibling is not None
                parent = self._kept[node.parent]  # which nobody needs any more
                self._kept[node.id] = np.subtract(parent, self._kept[node.sibling.id], out=parent)
        for node in nodes:
            self._kept.pop(node.parent, None)
        return [self._kept[node.id] for node in nodes]

    def _by_subtraction(self, node: OpenNode) -> bool:
        return node.sibling is not None and not node.is_smaller and node.parent in self._kept

    def forget(self, node: int) -> None:
        """Drop a node's histogram: it has become a leaf."""
        self._kept.pop(node, None)

    def clear(self) -> None:
        """Drop everything: the tree is done."""
        self._kept.clear()

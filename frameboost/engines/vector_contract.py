"""The contract of an engine whose trees may be for all outputs at once (``multi_strategy="multi_output_tree"``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from frameboost.engines.contract import HistogramEngine, Sample
from frameboost.splits.split import FloatArray, IntArray, Stats

__all__ = ["VectorEngine"]


class VectorEngine(HistogramEngine, Protocol):
    """A `HistogramEngine` that sums the gradients of all outputs over the same nodes.

    The splits that `apply_splits` gets have `Split.left_outputs`.
    """

    def start_vector_tree(self, sample: Sample | None = None) -> list[Stats]:
        """Put every row into node 0, with the gradients of every output; return the sums of each.

        The rows of a sample are drawn once for all outputs.
        """

    def vector_histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """Write the sums of g and h by output and bin of each node to ``out[index]``.

        ``out`` is float64 (histograms, outputs, slots, 2), contiguous.
        """

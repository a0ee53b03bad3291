"""The bins of one feature where every node has its own cuts (``approx`` with local proposals)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from frameboost.binning.bins import Bins
from frameboost.schema.types import Physical

__all__ = ["NodeBins", "collect_bins"]


@dataclass(frozen=True, slots=True)
class NodeBins:
    """One feature's bins in each open node, with their sums of gradients.

    Attributes
    ----------
    histogram
        float64 (nodes, most bins of a node + 1, 2): sums of g and h by bin, zero in bins that a node does not have. The
        last is for missing values. A categorical feature has a bin for each category, in every node.
    cuts
        For each node the lowest value of each of its bins but the first; empty for a categorical feature.
    below
        For each node the highest value of each of its bins but the last, which is the one before a cut.
    """

    histogram: npt.NDArray[np.float64]
    cuts: Sequence[Sequence[Physical]]
    below: Sequence[Sequence[Physical]]

    def gap(self, index: int, bin_: int) -> tuple[Physical, Physical] | None:
        """Return the values on both sides of the start of a bin in a node; None past the last (is one present?)."""
        below, cuts = self.below[index], self.cuts[index]
        return (below[bin_ - 1], cuts[bin_ - 1]) if bin_ <= len(cuts) else None


def collect_bins(
    bins: Bins, nodes: Sequence[int], entries: Iterable[tuple[int, Physical | None, Physical | None, float, float]]
) -> NodeBins:
    """Return the bins of a feature from a table with a row for each bin.

    Parameters
    ----------
    bins
        The bins without cuts, by which it is known whether the feature is categorical.
    nodes
        The open nodes.
    entries
        For each bin its node, its lowest and its highest value (None for missing values; the code of a categorical
        feature), G and H. The bins of a node are in ascending order.
    """
    starts: dict[int, list[Physical]] = {node: [] for node in nodes}
    stops: dict[int, list[Physical]] = {node: [] for node in nodes}
    indices, slots, sums = [], [], []
    index_of = {node: index for index, node in enumerate(nodes)}
    for node, start, stop, G, H in entries:
        indices.append(index_of[node])
        sums.append((G, H))
        if start is None or stop is None:
            slots.append(-1)
        elif bins.feature.type.is_categorical:
            slots.append(int(start))
        else:
            slots.append(len(starts[node]))
            starts[node].append(start)
            stops[node].append(stop)
    most = bins.count if bins.feature.type.is_categorical else max(map(len, starts.values()))
    histogram = np.zeros((len(nodes), most + 1, 2))
    histogram[indices, slots] = np.array(sums).reshape(-1, 2)
    return NodeBins(histogram, [starts[node][1:] for node in nodes], [stops[node][:-1] for node in nodes])

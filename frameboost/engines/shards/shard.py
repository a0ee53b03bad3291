"""One shard: an engine over some of the rows, and what all shards are asked besides an engine's methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frameboost.binning.bins import Bins
from frameboost.binning.value_counts import Interval, Summary, ValueCounts, Within
from frameboost.engines.contract import ShardEngine
from frameboost.engines.shards.quantiles import NodeValues
from frameboost.losses.exact_sums import Scalar
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray

__all__ = ["Shard"]


class Shard:
    """An engine over some of the rows.

    Parameters
    ----------
    engine
        The engine.
    workers
        Its threads, which are closed with it.
    storage
        Where to keep arrays as long as the rows.
    """

    def __init__(self, engine: ShardEngine, workers: Workers, storage: Storage = IN_MEMORY) -> None:
        self._engine = engine
        self._workers = workers
        self._storage = storage
        self._counts: dict[int, ValueCounts] = {}
        self._n_slots = 0
        self._node_values: NodeValues | None = None

    def run(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """Carry out calls, of methods of the shard or of its engine; return the result of the last."""
        result = None
        for method, arguments in calls:
            result = getattr(self if hasattr(type(self), method) else self._engine, method)(*arguments)
        return result

    def count_rows(self) -> int:
        """Return the number of rows."""
        return self._engine.n_rows

    def close(self) -> None:
        """Close the engine and its threads; may be called more than once."""
        self._engine.close()
        self._workers.close()

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def summaries(self, features: Sequence[int], most: int) -> list[Summary]:
        """Return summaries of the values of some features, of which `values_within` may be asked next."""
        kept = self._storage.kept
        counted = self._engine.count_values(features)
        self._counts = {i: ValueCounts(kept(c.values), kept(c.counts)) for i, c in zip(features, counted, strict=True)}
        return [counts.summary(most) for counts in self._counts.values()]

    def values_within(self, intervals: dict[int, list[Interval]]) -> dict[int, Within]:
        """Return the values of the features of the last summaries within intervals, by feature."""
        return {feature: self._counts[feature].within(wanted) for feature, wanted in intervals.items()}

    def all_categories(self, features: Sequence[int]) -> list[list[Physical]]:
        """Return the distinct values of string features."""
        return [self._engine.categories(feature) for feature in features]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`; the counts of values are needed no more."""
        self._counts = {}
        self._engine.bin_columns(bins)

    # --- histograms ---------------------------------------------------------------------------------------------------

    def node_histograms(self, nodes: Sequence[int], n_slots: int) -> FloatArray:
        """Return the sums of g and h by bin of each node, float64 (nodes, slots, 2)."""
        out = np.empty((len(nodes), n_slots, 2))
        self._engine.histograms(nodes, out, np.arange(len(nodes)))
        return out

    # --- quantiles ----------------------------------------------------------------------------------------------------

    def start_quantiles(self, value: Scalar, weight: Scalar | None) -> dict[int, tuple[float, float, float]]:
        """Sort the values of each node; return the weight of its rows, its lowest and its highest value."""
        self._node_values = NodeValues(self._engine.node_values(value, weight), self._storage)
        return self._node_values.ends()

    def weights_up_to(self, values: dict[int, FloatArray]) -> dict[int, FloatArray]:
        """Return the weight of each node's rows with values up to each of the given ones."""
        assert self._node_values is not None
        return self._node_values.weights_up_to(values)

    def next_values(self, values: dict[int, float]) -> dict[int, float]:
        """Return the lowest value of each node above the given one; nothing for a node without."""
        assert self._node_values is not None
        return self._node_values.next_values(values)

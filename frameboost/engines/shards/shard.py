"""One shard: an engine over some of the rows, and what all shards are asked besides an engine's methods."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.binning.value_counts import Interval, Summary, ValueCounts, Within
from frameboost.engines.contract import ShardEngine
from frameboost.engines.shards.quantiles import Bracket, NodeValues, Values
from frameboost.expressions.grid import Scalar
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray

__all__ = ["Shard"]

_SAMPLED_KEYS = 255  # of a table, by which it is divided


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
        self._table = pl.DataFrame()
        self._pieces: list[tuple[int, int]] = []

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
        self._counts = {}
        kept, summaries = self._storage.kept, []
        for start in range(0, len(features), self._workers.n_jobs):
            at_once = features[start : start + self._workers.n_jobs]
            for feature, counted in zip(at_once, self._engine.count_values(at_once), strict=True):
                summaries.append(counted.summary(most))
                self._counts[feature] = ValueCounts(kept(counted.values), kept(counted.counts))
            self._storage.release_pages()
        return summaries

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

    # --- tables by key ------------------------------------------------------------------------------------------------

    def start_scores(self, score: Scalar, positive: Scalar, negative: Scalar, most: int) -> tuple[pl.DataFrame, bool]:
        """Keep the sums of each distinct score as the table; return it, or a sample if it is long; and which it is."""
        sums = self._engine.score_sums(score, positive, negative)
        return self._start_table(sums.with_columns(pl.col("score") + 0.0), most)  # which turns -0.0 into 0.0

    def start_queries(self, most: int) -> tuple[pl.DataFrame, bool]:
        """Keep the names of queries as the table; return what `start_scores` does."""
        return self._start_table(self._engine.query_names().alias("query").drop_nulls().to_frame(), most)

    def _start_table(self, table: pl.DataFrame, most: int) -> tuple[pl.DataFrame, bool]:
        table = table.sort(table.columns[0])
        if len(table) <= most:
            self._table = table
            return table, True
        self._table = self._storage.kept_frame(table)
        return table[:: -(-len(table) // _SAMPLED_KEYS)].select(table.columns[0]), False

    def divide(self, bounds: pl.Series) -> pl.DataFrame:
        """Divide the table into pieces, each from one of the ascending bounds on; return the sums of each piece."""
        keys, *values = self._table.get_columns()
        indices = [0, *keys.search_sorted(bounds, side="left").to_list(), len(keys)]
        self._pieces = list(pairwise(indices))
        return pl.DataFrame({each.name: [each[a:b].sum() for a, b in self._pieces] for each in values})

    def piece(self, number: int) -> pl.DataFrame:
        """Return a piece of the table."""
        start, stop = self._pieces[number]
        return self._table[start:stop]

    # --- quantiles ----------------------------------------------------------------------------------------------------

    def start_quantiles(self, value: Scalar, weight: Scalar | None) -> dict[int, Values]:
        """Keep the values of each node; see `NodeValues.start`."""
        self._node_values = NodeValues(self._engine.node_values(value, weight), self._storage)
        return self._node_values.start()

    def weights_up_to(self, pivots: dict[int, FloatArray]) -> dict[int, FloatArray]:
        """See `NodeValues.weights_up_to`."""
        assert self._node_values is not None
        return self._node_values.weights_up_to(pivots)

    def values_in_nodes(self, brackets: dict[int, Bracket], wants_all: bool) -> dict[int, Values]:
        """See `NodeValues.within`."""
        assert self._node_values is not None
        return self._node_values.within(brackets, wants_all)

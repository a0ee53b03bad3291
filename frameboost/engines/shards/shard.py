"""One shard: an engine over some of the rows, and calls of all shards of a fit.

A `ShardPool` sends lists of calls, which each shard executes in order: methods of `Shard`, or of its engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import polars as pl

from frameboost.binning.bins import Bins
from frameboost.binning.codes import Interval, Summary, ValueCounts, Within
from frameboost.engines.contract import CountingEngine, ShardEngine, check_engine
from frameboost.engines.shards.quantiles import Bracket, NodeValues, Values
from frameboost.expressions.draws import RowPositions
from frameboost.expressions.grid import Scalar
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.types import Physical
from frameboost.splits.split import FloatArray

__all__ = ["Call", "LocalShards", "Shard", "ShardPool", "one_after_another"]

_SAMPLED_KEYS = 255  # of a table, by which it is divided


class Shard:
    """An engine over some of the rows.

    Parameters
    ----------
    engine
        The engine.
    workers
        Its threads, closed with it.
    storage
        The storage of arrays as long as the rows.
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

    def check(self, name: str) -> None:
        """Raise `ParameterError` if the engine of that name can't be a shard."""
        check_engine(self._engine, ShardEngine, name)

    def run(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> Any:
        """Execute calls of methods of the shard or of its engine; return the result of the last."""
        result = None
        for method, arguments in calls:
            result = getattr(self if hasattr(type(self), method) else self._engine, method)(*arguments)
        return result

    def count_rows(self) -> int:
        """Return the number of rows."""
        return self._engine.n_rows

    def close(self) -> None:
        """Close the engine and its threads; may be called repeatedly."""
        self._engine.close()
        self._workers.close()

    # --- cuts ---------------------------------------------------------------------------------------------------------

    def summaries(self, features: Sequence[int], most: int) -> list[Summary]:
        """Return summaries of the values of some features, for `values_within`."""
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
        return {feature: self._counts[feature].within(of_feature) for feature, of_feature in intervals.items()}

    def all_categories(self, features: Sequence[int]) -> list[list[Physical]]:
        """Return the distinct values of string features."""
        return [self._engine.categories(feature) for feature in features]

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`; counts of values are dropped."""
        self._counts = {}
        self._engine.bin_columns(bins)

    # --- histograms ---------------------------------------------------------------------------------------------------

    def node_histograms(self, nodes: Sequence[int], n_slots: int) -> FloatArray:
        """Return the sums of g and h by bin of each node, float64 (nodes, slots, 2)."""
        out = np.empty((len(nodes), n_slots, 2))
        self._engine.histograms(nodes, out, np.arange(len(nodes)))
        return out

    def node_counts(self, nodes: Sequence[int], n_slots: int) -> FloatArray:
        """Return the number of rows with a gradient by bin of each node, float64 (nodes, slots)."""
        out = np.empty((len(nodes), n_slots, 2))
        cast(CountingEngine, self._engine).row_counts(nodes, out, np.arange(len(nodes)))
        return np.ascontiguousarray(out[:, :, 0])

    # --- tables by key ------------------------------------------------------------------------------------------------

    def start_scores(self, score: Scalar, positive: Scalar, negative: Scalar, most: int) -> tuple[pl.DataFrame, bool]:
        """Store the sums of each distinct score as the table; return it, or a sample if it is long, and which it is."""
        sums = self._engine.score_sums(score, positive, negative)
        return self._start_table(sums.with_columns(pl.col("score") + 0.0), most)  # which turns -0.0 into 0.0

    def start_queries(self, most: int) -> tuple[pl.DataFrame, bool]:
        """Store the names of queries as the table; return the result of `start_scores`."""
        return self._start_table(self._engine.query_names().alias("query").drop_nulls().to_frame(), most)

    def _start_table(self, table: pl.DataFrame, most: int) -> tuple[pl.DataFrame, bool]:
        table = table.sort(table.columns[0])
        if len(table) <= most:
            self._table = table
            return table, True
        self._table = self._storage.kept_frame(table)
        return table[:: -(-len(table) // _SAMPLED_KEYS)].select(table.columns[0]), False

    def divide(self, bounds: pl.Series) -> pl.DataFrame:
        """Divide the table into pieces at ascending bounds; return the sums of each piece."""
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
        """Store the values of each node; see `NodeValues.start`."""
        self._node_values = NodeValues(self._engine.node_values(value, weight), self._storage)
        return self._node_values.start()

    def values_around(self, pivots: dict[int, FloatArray]) -> dict[int, Values]:
        """See `NodeValues.around`."""
        assert self._node_values is not None
        return self._node_values.around(pivots)

    def values_in_nodes(self, brackets: dict[int, Bracket], wants_all: bool) -> dict[int, Values]:
        """See `NodeValues.within`."""
        assert self._node_values is not None
        return self._node_values.within(brackets, wants_all)


# --- how shards are called --------------------------------------------------------------------------------------------


class Call(NamedTuple):
    """A method of `Shard` or of its engine, and its arguments."""

    method: str
    arguments: tuple[Any, ...] = ()


class ShardPool(Protocol):
    """The shards of a fit, wherever they are."""

    def __len__(self) -> int:
        """Return the number of shards."""

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """Return the positions of each shard's rows among all, from the number of its rows."""

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """Make each shard execute its calls; return the result of each shard's last call.

        Sums (see `frameboost.engines.shards.engine.merged`) of several shards may be reduced to one.
        """

    @property
    def n_targets(self) -> int:
        """The number of processes or threads that `gather` can use in parallel."""

    def gather(self, finish: Sequence[Callable[[list[pl.DataFrame]], Any]]) -> list[Any]:
        """Gather piece k of all shards' tables (see `Shard.divide`); return the results of ``finish[k]``."""

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep only these shards, by index."""

    def close(self) -> None:
        """Close all shards; may be called repeatedly."""


def one_after_another(counts: Sequence[int]) -> list[RowPositions]:
    """Return the positions of the rows of consecutive shards."""
    return [RowPositions(((0, sum(counts[:number])),)) for number in range(len(counts))]


class LocalShards:
    """Shards in this process, as many at a time as there are threads.

    Calls alternate between first-to-last and last-to-first order: with arrays in files, the last read shards are then
    still in the page cache, which would never hit in a constant order.
    """

    def __init__(self, shards: Sequence[Shard], n_threads: int) -> None:
        self._shards = list(shards)
        self._n_threads = n_threads
        self._executor = ThreadPoolExecutor(n_threads)
        self._step = 1

    def __len__(self) -> int:
        """See `ShardPool.__len__`."""
        return len(self._shards)

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """See `ShardPool.positions`."""
        return one_after_another(counts)

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """See `ShardPool.run`."""
        pairs = list(zip(self._shards, calls, strict=True))[:: self._step]
        if self._n_threads == 1:  # this one, which a connection may be of
            results = [shard.run(its_calls) for shard, its_calls in pairs][:: self._step]
            self._step = -self._step
            return results
        futures = [self._executor.submit(shard.run, its_calls) for shard, its_calls in pairs][:: self._step]
        self._step = -self._step
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()  # after an error

    @property
    def n_targets(self) -> int:
        """See `ShardPool.n_targets`."""
        return self._n_threads

    def gather(self, finish: Sequence[Callable[[list[pl.DataFrame]], Any]]) -> list[Any]:
        """See `ShardPool.gather`."""
        positions = range(len(finish))
        return list(self._executor.map(lambda k: finish[k]([shard.piece(k) for shard in self._shards]), positions))

    def keep(self, numbers: Sequence[int]) -> None:
        """See `ShardPool.keep`."""
        for number, shard in enumerate(self._shards):
            if number not in numbers:
                shard.close()
        self._shards = [self._shards[number] for number in numbers]

    def close(self) -> None:
        """See `ShardPool.close`."""
        for shard in self._shards:
            shard.close()
        self._executor.shutdown()

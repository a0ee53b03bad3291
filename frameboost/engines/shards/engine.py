"""The engine over all shards: what is asked of it is asked of every shard, and the answers are merged.

Sums are of numbers on one grid (see `frameboost.expressions.grid`), so they are the same however the rows are
divided: the model equals that of one engine over all rows, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.value_counts import cut_intervals, gaps_of_counts, gaps_within
from frameboost.checks.messages import listed, reason, shown
from frameboost.engines.contract import Capabilities, Cumulative, QueryWindow, Sample
from frameboost.engines.frame import ScoreTable
from frameboost.engines.shards.gathering import GatheredScores, first_shared
from frameboost.engines.shards.merging import merged_aggregates, merged_scores, sum_histograms, sum_stats
from frameboost.engines.shards.pool import Call, ShardPool
from frameboost.engines.shards.quantiles import interpolated_quantiles, weighted_quantiles
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Aggregator, Scalar, grid_offset
from frameboost.losses.loss import RankingPairs
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["ShardedEngine"]

# Features whose sorted values the shards hold at a time, and the values of each that they send at first.
_FEATURES_AT_ONCE = 8
_SUMMARY = 1 << 12
# Raised by polars over a file that is gone, was written anew meanwhile, or has other types than the first of a scan.
_UNREADABLE = (OSError, pl.exceptions.ComputeError, pl.exceptions.SchemaError, pl.exceptions.PanicException)


class ShardedEngine:
    """`HistogramEngine` over shards, whose rows follow each other.

    Calls without an answer are sent together with the next that has one.

    Parameters
    ----------
    pool
        The shards.
    features
        The features.
    roles
        Role -> column name.
    names
        What messages call the rows of each shard; empty for rows that have no name.
    """

    def __init__(
        self, pool: ShardPool, features: tuple[Feature, ...], roles: Mapping[str, str], names: Sequence[str] = ()
    ) -> None:
        self.features = features
        self._pool = pool
        self._names = list(names) or [""] * len(pool)
        self._waiting: list[Call] = []
        self._offsets: dict[str, float] = {}  # of the grids of the gradients in the round before
        self._missing: list[int] | None = None
        try:
            self.n_rows = self._start()
            if "qid" in roles:
                self._check_queries(roles["qid"])
        except BaseException:
            pool.close()
            raise

    def capabilities(self, n_trees: int) -> Capabilities:
        """See `Capabilities`; a call may be a trip over a network."""
        return Capabilities(takes_batches=True)

    def _start(self) -> int:
        """Leave out empty shards, and tell the others the places of their rows; return the number of all rows."""
        pool = self._pool
        counts: list[int] = self._ask("count_rows")
        if 0 in counts and any(counts):
            kept = [number for number, count in enumerate(counts) if count]
            pool.keep(kept)
            counts, self._names = [counts[number] for number in kept], [self._names[number] for number in kept]
        n_rows = sum(counts)
        pool.run([[Call("start_at", (indices, n_rows))] for indices in pool.positions(counts)])
        return n_rows

    # --- asking -------------------------------------------------------------------------------------------------------

    def _tell(self, method: str, *arguments: Any) -> None:
        self._waiting.append(Call(method, arguments))

    def _ask(self, method: str, *arguments: Any) -> list[Any]:
        """Return each shard's answer."""
        calls = [*self._waiting, Call(method, arguments)]
        self._waiting = []
        try:
            return self._pool.run([calls] * len(self._pool))
        except _UNREADABLE as error:
            raise DataError(f"the rows of a shard can't be read: {reason(error)}") from error

    def close(self) -> None:
        """See `Engine.close`."""
        self._pool.close()

    # --- once a fit ---------------------------------------------------------------------------------------------------

    def _check_queries(self, group: str) -> None:
        """Raise `DataError` if rows of one query are in several shards."""
        parts = self._ask("start_queries", _SUMMARY)
        if all(is_whole for _, is_whole in parts):
            found = [first_shared([names for names, _ in parts])]
        else:
            self._divide(parts)
            found = self._pool.gather([first_shared] * self._pool.n_targets)
        if shared := sorted(name for name in found if name is not None):
            raise DataError(
                f"rows of {shown(shared[0])} in group {shown(group)} lie in several shards; put those of a query into "
                "one, such as by sorting the data by that column before it is divided"
            )

    def _divide(self, parts: Sequence[tuple[pl.DataFrame, bool]]) -> list[pl.DataFrame]:
        """Divide the shards' tables, given what they started with, into a piece for each place; return their sums."""
        keys = pl.concat(part.to_series(0) for part, _ in parts).sort()
        n = self._pool.n_targets
        return self._ask("divide", keys.gather([len(keys) * k // n for k in range(1, n)]))

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        return merged_aggregates(aggregates, self._ask("aggregate", dict(aggregates)))

    def shards_where(
        self, aggregates: Mapping[str, Aggregate], is_wrong: Callable[[Mapping[str, float | None], int], bool]
    ) -> list[str]:
        """Return the names of the shards of whose aggregates and number of rows ``is_wrong`` is true."""
        parts = zip(self._names, self._ask("aggregate", dict(aggregates)), self._ask("count_rows"), strict=True)
        return [name for name, found, n_rows in parts if name and is_wrong(found, n_rows)]

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        if self._missing is None:
            self._missing = [sum(counts) for counts in zip(*self._ask("count_missing"), strict=True)]
        return self._missing

    def propose_bins(self, max_bin: int, given: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        found = dict(given)
        missing = [count > 0 for count in self.count_missing()]
        strings = [i for i, f in enumerate(self.features) if f.type.is_categorical and i not in given]
        numbers = [i for i, f in enumerate(self.features) if not f.type.is_categorical and i not in given]
        parts = self._ask("all_categories", strings) if strings else []
        for i, values in zip(strings, zip(*parts, strict=True), strict=False):
            categories = tuple(sorted(set().union(*values)))
            feature = Feature(self.features[i].name, self.features[i].type, categories)
            found[i] = Bins(feature, has_missing=missing[i])
        for start in range(0, len(numbers), _FEATURES_AT_ONCE):
            batch = numbers[start : start + _FEATURES_AT_ONCE]
            for i, gaps in self._gaps(batch, [max_bin - missing[i] for i in batch]).items():
                found[i] = Bins.of_gaps(self.features[i], gaps, has_missing=missing[i])
        return [found[i] for i in range(len(self.features))]

    def _gaps(self, features: Sequence[int], max_bins: Sequence[int]) -> dict[int, npt.NDArray[Any]]:
        """Return the gaps at the cuts of some features (see `frameboost.binning.value_counts`)."""
        parts = self._ask("summaries", features, max(_SUMMARY, 2 * max(max_bins)))
        summaries = dict(zip(features, zip(*parts, strict=True), strict=True))
        gaps, intervals = {}, {}
        for feature, max_bin in zip(features, max_bins, strict=True):
            own = summaries[feature]
            if all(summary.is_complete for summary in own):
                gaps[feature] = gaps_of_counts(own, max_bin)
            else:
                intervals[feature] = cut_intervals(own, sum(summary.n_rows for summary in own), max_bin)
        if intervals:
            within = self._ask("values_within", intervals)
            gaps |= {i: gaps_within(own, [part[i] for part in within]) for i, own in intervals.items()}
        return gaps

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._n_slots = SlotLayout(bins).n_slots
        self._tell("bin_columns", tuple(bins))

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        self._tell("start_margins", dict(margins))

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`; running sums over all rows are refused."""
        if any(isinstance(term, Cumulative) for term in terms.values()):
            raise ParameterError(
                f"the objective or metric needs {listed(list(terms))}, a running sum over all rows, which shards "
                "do not have; train without shards"
            )
        self._tell("add_columns", dict(terms))

    # --- once a round -------------------------------------------------------------------------------------------------

    def sum_pairs(self, pairs: RankingPairs, offset: float) -> None:
        """See `Engine.sum_pairs`."""
        self._tell("sum_pairs", pairs, offset)

    def compute_gradients(self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]) -> None:
        """See `Engine.compute_gradients`.

        A grid depends on the largest gradient of all shards. Its step is a power of two and seldom differs from the
        round before, so the shards round to the last grids, and again only if these turn out to be the wrong ones.
        """
        if set(self._offsets) != set(gradients):
            self._offsets = dict.fromkeys(gradients, 0.0)
        while True:
            parts = self._ask("compute_gradients_on", self._offsets, dict(gradients), dict(others))
            offsets = {name: grid_offset(max(part[name] for part in parts), self.n_rows) for name in gradients}
            if offsets == self._offsets:
                return
            self._offsets = offsets

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        return sum_stats(self._ask("start_tree", output, sample))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self._tell("reset_nodes")

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        out[indices] = sum_histograms(self._ask("node_histograms", list(nodes), self._n_slots))

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._tell("apply_splits", dict(splits))

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self._tell("add_leaf_values", dict(values), margin)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        start = self._ask("start_quantiles", value, weight)
        asks = partial(self._ask, "weights_up_to"), partial(self._ask, "values_in_nodes")
        return (interpolated_quantiles if weight is None else weighted_quantiles)(start, alpha, *asks)

    # --- metrics ------------------------------------------------------------------------------------------------------

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        parts = self._ask("start_scores", score, positive, negative, _SUMMARY)
        if all(is_whole for _, is_whole in parts):
            return ScoreTable(merged_scores([scores for scores, _ in parts]), self.n_rows)
        return GatheredScores(self._pool, self._divide(parts), self.n_rows)

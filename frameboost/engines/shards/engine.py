"""The engine over all shards: each call goes to every shard, and the results are merged.

All numbers are on one grid (see `frameboost.expressions.grid`), so sums do not depend on the division of the rows: the
model equals that of one engine over all rows, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from frameboost.binning.bins import Bins, SlotLayout
from frameboost.binning.codes import cut_intervals, gaps_of_counts, gaps_within
from frameboost.checks.messages import listed, reason, shown
from frameboost.engines.contract import Capabilities, Cumulative, QueryWindow, Sample
from frameboost.engines.frame import ScoreTable
from frameboost.engines.shards.quantiles import interpolated_quantiles, weighted_quantiles
from frameboost.engines.shards.shard import Call, ShardPool
from frameboost.engines.sql.columns import TableColumns
from frameboost.errors import DataError, ParameterError
from frameboost.expressions.expression import Expression
from frameboost.expressions.grid import Aggregate, Aggregator, Scalar, grid_offsets
from frameboost.losses.loss import RankingPairs
from frameboost.schema.types import Feature
from frameboost.splits.split import FloatArray, IntArray, Split, Stats

__all__ = ["ShardedEngine", "is_sum", "merged"]

# Features whose sorted values the shards hold at a time, and the values of each that they send at first.
_FEATURES_AT_ONCE = 8
_SUMMARY = 1 << 12
# Raised by polars over a file that is gone, was written anew meanwhile, or has other types than the first of a scan.
_UNREADABLE = (OSError, pl.exceptions.ComputeError, pl.exceptions.SchemaError, pl.exceptions.PanicException)
_SIDES = ("positive", "negative")  # the sums of a distinct score


class ShardedEngine:
    """`HistogramEngine` over shards of consecutive rows.

    Calls without a result are sent with the next call that has one.

    Parameters
    ----------
    pool
        The shards.
    features
        The features.
    roles
        Role -> column name.
    names
        The name of each shard's rows in messages; empty for unnamed rows.
    columns
        The columns that propose bins instead of the shards, for a database table.
    """

    def __init__(
        self, pool: ShardPool, features: tuple[Feature, ...], roles: Mapping[str, str], names: Sequence[str] = (),
        columns: TableColumns | None = None,
    ) -> None:  # fmt: skip
        self.features = features
        self._pool = pool
        self._names = list(names) or [""] * len(pool)
        self._waiting: list[Call] = []
        self._offsets: dict[str, float] = {}  # of the grids of the gradients in the round before
        self._columns = columns
        self._missing: list[int] | None = None if columns is None else columns.n_missing
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
        """Drop empty shards, and pass row positions to the others; return the number of all rows."""
        pool = self._pool
        counts: list[int] = self._ask("count_rows")
        if 0 in counts and any(counts):
            filled = [number for number, count in enumerate(counts) if count]
            pool.keep(filled)
            counts, self._names = [counts[number] for number in filled], [self._names[number] for number in filled]
        n_rows = sum(counts)
        pool.run([[Call("start_at", (positions, n_rows))] for positions in pool.positions(counts)])
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
            split_queries = [_first_shared([names for names, _ in parts])]
        else:
            self._divide(parts)
            split_queries = self._pool.gather([_first_shared] * self._pool.n_targets)
        if shared := sorted(name for name in split_queries if name is not None):
            raise DataError(
                f"rows of {shown(shared[0])} in group {shown(group)} lie in several shards; keep the rows of a query "
                "together, such as by sorting the data by that column before it is divided"
            )

    def _divide(self, parts: Sequence[tuple[pl.DataFrame, bool]]) -> list[pl.DataFrame]:
        """Divide the shards' tables into a piece for each process, from their starts; return their sums."""
        keys = pl.concat(part.to_series(0) for part, _ in parts).sort()
        n = self._pool.n_targets
        return self._ask("divide", keys.gather([len(keys) * k // n for k in range(1, n)]))

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """See `Engine.aggregate`."""
        return _merged_aggregates(aggregates, self._ask("aggregate", dict(aggregates)))

    def parts_where(
        self, aggregates: Mapping[str, Aggregate], is_wrong: Callable[[Mapping[str, float | None], int], bool]
    ) -> list[str]:
        """See `frameboost.engines.contract.parts_where`."""
        parts = zip(self._names, self._ask("aggregate", dict(aggregates)), self._ask("count_rows"), strict=True)
        return [name for name, aggregated, n_rows in parts if name and is_wrong(aggregated, n_rows)]

    def count_missing(self) -> list[int]:
        """See `Engine.count_missing`."""
        if self._missing is None:
            self._missing = [sum(counts) for counts in zip(*self._ask("count_missing"), strict=True)]
        return self._missing

    def propose_bins(self, max_bin: int, user_bins: Mapping[int, Bins]) -> list[Bins]:
        """See `HistogramEngine.propose_bins`."""
        if self._columns is not None:
            return self._columns.propose_bins(max_bin, user_bins)
        bins = dict(user_bins)
        missing = [count > 0 for count in self.count_missing()]
        strings = [i for i, f in enumerate(self.features) if f.type.is_categorical and i not in user_bins]
        numbers = [i for i, f in enumerate(self.features) if not f.type.is_categorical and i not in user_bins]
        parts = self._ask("all_categories", strings) if strings else []
        for i, values in zip(strings, zip(*parts, strict=True), strict=False):
            categories = tuple(sorted(set().union(*values)))
            feature = Feature(self.features[i].name, self.features[i].type, categories)
            bins[i] = Bins(feature, has_missing=missing[i])
        for start in range(0, len(numbers), _FEATURES_AT_ONCE):
            batch = numbers[start : start + _FEATURES_AT_ONCE]
            for i, gaps in self._gaps(batch, [max_bin - missing[i] for i in batch]).items():
                bins[i] = Bins.of_gaps(self.features[i], gaps, has_missing=missing[i])
        return [bins[i] for i in range(len(self.features))]

    def _gaps(self, features: Sequence[int], max_bins: Sequence[int]) -> dict[int, npt.NDArray[Any]]:
        """Return the gaps at the cuts of some features (see `frameboost.binning.codes`)."""
        of_shards = self._ask("summaries", features, max(_SUMMARY, 2 * max(max_bins)))
        summaries = dict(zip(features, zip(*of_shards, strict=True), strict=True))
        gaps, intervals = {}, {}
        for feature, max_bin in zip(features, max_bins, strict=True):
            parts = summaries[feature]
            if all(summary.is_complete for summary in parts):
                gaps[feature] = gaps_of_counts(parts, max_bin)
            else:
                intervals[feature] = cut_intervals(parts, sum(summary.n_rows for summary in parts), max_bin)
        if intervals:
            within = self._ask("values_within", intervals)
            gaps |= {i: gaps_within(each, [part[i] for part in within]) for i, each in intervals.items()}
        return gaps

    def bin_columns(self, bins: Sequence[Bins]) -> None:
        """See `HistogramEngine.bin_columns`."""
        self._n_slots = SlotLayout(bins).n_slots
        self._tell("bin_columns", tuple(bins))

    def start_margins(self, margins: Mapping[str, Expression]) -> None:
        """See `Engine.start_margins`."""
        self._tell("start_margins", dict(margins))

    def add_columns(self, terms: Mapping[str, Scalar | Cumulative | QueryWindow]) -> None:
        """See `Engine.add_columns`; running sums over all rows are errors."""
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

    def computed(self, values: Mapping[str, Scalar]) -> dict[str, FloatArray]:
        """See `ArrayRows.computed`."""
        parts = self._ask("computed", dict(values))
        return {name: np.concatenate([part[name] for part in parts]) for name in values}

    def store_arrays(self, columns: Mapping[str, FloatArray]) -> None:
        """See `ArrayRows.store_arrays`."""
        ends = np.cumsum(self._ask("count_rows")).tolist()  # which sends all calls that wait
        parts = [{name: values[a:b] for name, values in columns.items()} for a, b in pairwise([0, *ends])]
        self._pool.run([[Call("store_arrays", (part,))] for part in parts])

    def compute_gradients(
        self, gradients: Mapping[str, Expression], others: Mapping[str, Scalar]
    ) -> dict[str, float]:  # fmt: skip
        """See `Engine.compute_gradients`.

        A grid depends on the largest gradient of all shards. Its step is a power of two that seldom changes between
        rounds, so the shards round to the last grids, and again only if these are wrong.
        """
        if set(self._offsets) != set(gradients):
            self._offsets = dict.fromkeys(gradients, 0.0)
        while True:
            parts = self._ask("compute_gradients", dict(gradients), dict(others), self._offsets)
            largest = {name: max(part[name] for part in parts) for name in gradients}
            offsets = grid_offsets(largest, self.n_rows)
            if offsets == self._offsets:
                return largest
            self._offsets = offsets

    # --- once a tree --------------------------------------------------------------------------------------------------

    def start_tree(self, output: int, sample: Sample | None = None) -> Stats:
        """See `Engine.start_tree`."""
        return _sum_stats(self._ask("start_tree", output, sample))

    def reset_nodes(self) -> None:
        """See `Engine.reset_nodes`."""
        self._tell("reset_nodes")

    def histograms(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `HistogramEngine.histograms`."""
        out[indices] = _sum_histograms(self._ask("node_histograms", list(nodes), self._n_slots))

    def row_counts(self, nodes: Sequence[int], out: FloatArray, indices: IntArray) -> None:
        """See `CountingEngine.row_counts`."""
        out[indices] = 0.0
        out[indices, :, 0] = _sum_histograms(self._ask("node_counts", list(nodes), self._n_slots))

    def apply_splits(self, splits: Mapping[int, tuple[Split, int, int]]) -> None:
        """See `Engine.apply_splits`."""
        self._tell("apply_splits", dict(splits))

    def add_leaf_values(self, values: Mapping[int, float], margin: str) -> None:
        """See `Engine.add_leaf_values`."""
        self._tell("add_leaf_values", dict(values), margin)

    def node_quantiles(self, value: Scalar, weight: Scalar | None, alpha: float) -> dict[int, float]:
        """See `Engine.node_quantiles`."""
        start = self._ask("start_quantiles", value, weight)
        asks = partial(self._ask, "values_around"), partial(self._ask, "values_in_nodes")
        return (interpolated_quantiles if weight is None else weighted_quantiles)(start, alpha, *asks)

    # --- metrics ------------------------------------------------------------------------------------------------------

    def by_score(self, score: Scalar, positive: Scalar, negative: Scalar) -> Aggregator:
        """See `Engine.by_score`."""
        parts = self._ask("start_scores", score, positive, negative, _SUMMARY)
        if all(is_whole for _, is_whole in parts):
            return ScoreTable(_merged_scores([scores for scores, _ in parts]), self.n_rows)
        return _GatheredScores(self._pool, self._divide(parts), self.n_rows)


# --- answers of all shards, merged ------------------------------------------------------------------------------------


def _merged_aggregates(
    aggregates: Mapping[str, Aggregate], parts: Sequence[Mapping[str, float | None]]
) -> dict[str, float | None]:
    """Return aggregates over all rows; sums are exact, as all numbers are on a grid."""
    return {
        name: _merged_number(aggregate.function, [value for part in parts if (value := part[name]) is not None])
        for name, aggregate in aggregates.items()
    }


def _merged_number(function: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if function == "sum":
        total = values[0]
        for value in values[1:]:
            total += value
        return total
    numbers = [value for value in values if value == value] or values
    return max(numbers) if function == "max" else min(numbers)


def _sum_stats(parts: Sequence[Stats]) -> Stats:
    """Return the sums of g and h of all rows."""
    total = parts[0]
    for part in parts[1:]:
        total = Stats(total.G + part.G, total.H + part.H)
    return total


def _sum_histograms(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of the shards' histograms, in the memory of the first."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


_SUMS: Mapping[str, Callable[[Sequence[Any]], Any]] = {
    "node_histograms": _sum_histograms, "node_counts": _sum_histograms, "start_tree": _sum_stats,
}  # fmt: skip


def is_sum(method: str) -> bool:
    """Whether results of a `Shard` method are only needed as a sum over shards."""
    return method in _SUMS


def merged(method: str, results: list[Any]) -> list[Any]:
    """Return the results of a `Shard` method, reduced to one if it `is_sum`."""
    return [_SUMS[method](results)] if is_sum(method) else results


def _merged_scores(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the sums of each distinct score over all rows."""
    return pl.concat(parts).group_by("score").agg(pl.col("positive", "negative").sum())


# --- tables by key that are too long for one process ------------------------------------------------------------------


class _GatheredScores:
    """Distinct scores (see `Engine.by_score`) too many for one process: the tables of a pool's shards.

    Each shard has the table of its rows, sorted by score. Ranges of scores are assigned to processes in about equal
    numbers, and the pieces of a range are gathered there: on a cluster from worker to worker. Only a sample of the
    scores, and the result of each range, go to the client. Query names are compared in the same way.

    Parameters
    ----------
    pool
        The shards.
    sums
        The results of each shard's `divide`.
    n_rows
        The number of all rows.
    """

    def __init__(self, pool: ShardPool, sums: Sequence[pl.DataFrame], n_rows: int) -> None:
        self.n_rows = n_rows
        self._pool = pool
        # Sums of numbers on a grid, and so exact.
        self._sums = {
            side: [sum(of_shards) for of_shards in zip(*(part[side] for part in sums), strict=True)] for side in _SIDES
        }

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        totals = {side: sum(of_side) for side, of_side in self._sums.items()}
        finish = []
        for k in range(len(self._sums["positive"])):  # in ascending order of the scores
            above = {side: sum(of_side[k + 1 :]) for side, of_side in self._sums.items()}
            finish.append(partial(_aggregated, above, totals, dict(aggregates)))
        return _merged_aggregates(aggregates, self._pool.gather(finish))


def _aggregated(
    above: Mapping[str, float],
    totals: Mapping[str, float],
    aggregates: Mapping[str, Aggregate],
    pieces: list[pl.DataFrame],
) -> dict[str, float | None]:
    return ScoreTable(_merged_scores(pieces), 0, above, totals).aggregate(aggregates)


def _first_shared(pieces: list[pl.DataFrame]) -> str | None:
    """Return the first name that occurs in several tables of distinct names, or None."""
    names = pl.concat(pieces).to_series()
    shared = names.filter(names.is_duplicated()).min()
    return None if shared is None else str(shared)

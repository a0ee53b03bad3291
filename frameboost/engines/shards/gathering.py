"""Tables by key that are too long for one process: distinct scores, and names of queries.

Each shard has such a table of its rows, sorted by key. Ranges of keys are chosen so that each place has about as many
of them, and the pieces of one range are brought together there: on a cluster from worker to worker. Only a sample of
the keys, and what becomes of each range, go to the client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from frameboost.engines.frame import ScoreTable
from frameboost.engines.shards.merging import merged_aggregates, merged_scores
from frameboost.engines.shards.pool import ShardPool
from frameboost.expressions.grid import Aggregate

__all__ = ["GatheredScores", "first_shared"]

_SIDES = ("positive", "negative")


class GatheredScores:
    """What `Engine.by_score` returns, over the tables of a pool's shards.

    Parameters
    ----------
    pool
        The shards.
    sums
        What each shard's `divide` returned.
    n_rows
        The number of all rows.
    """

    def __init__(self, pool: ShardPool, sums: Sequence[pl.DataFrame], n_rows: int) -> None:
        self.n_rows = n_rows
        self._pool = pool
        # Sums of numbers on a grid, and so exact.
        self._sums = {side: [sum(own) for own in zip(*(part[side] for part in sums), strict=True)] for side in _SIDES}

    def aggregate(self, aggregates: Mapping[str, Aggregate]) -> dict[str, float | None]:
        """Return aggregates over the distinct scores."""
        totals = {side: sum(own) for side, own in self._sums.items()}
        finish = []
        for k in range(len(self._sums["positive"])):  # in ascending order of the scores
            above = {side: sum(own[k + 1 :]) for side, own in self._sums.items()}
            finish.append(partial(_aggregated, above, totals, dict(aggregates)))
        return merged_aggregates(aggregates, self._pool.gather(finish))


def _aggregated(
    above: Mapping[str, float],
    totals: Mapping[str, float],
    aggregates: Mapping[str, Aggregate],
    pieces: list[pl.DataFrame],
) -> dict[str, float | None]:
    return ScoreTable(merged_scores(pieces), 0, above, totals).aggregate(aggregates)


def first_shared(pieces: list[pl.DataFrame]) -> str | None:
    """Return the first name that is in several tables of distinct names, None if there is none."""
    names = pl.concat(pieces).to_series()
    shared = names.filter(names.is_duplicated()).min()
    return None if shared is None else str(shared)

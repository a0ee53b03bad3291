"""What runs on a worker of Dask: an actor that holds one shard."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from frameboost.data.sources import FrameSource
from frameboost.engines.contract import ShardEngine
from frameboost.engines.description import EngineRequest
from frameboost.engines.shards.merging import merged
from frameboost.engines.shards.pool import Call
from frameboost.engines.shards.shard import Shard
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.version import __version__

__all__ = ["Outcome", "ShardActor", "ShardPlan", "versions"]


@dataclass(frozen=True)
class ShardPlan:
    """All that is needed to open a shard.

    Attributes
    ----------
    open
        Opens its engine.
    frame
        Its rows.
    features, roles, parameters
        As of `EngineRequest`.
    """

    open: Callable[[EngineRequest], ShardEngine]
    frame: pl.LazyFrame
    features: tuple[Feature, ...]
    roles: Mapping[str, str]
    parameters: Parameters


@dataclass(frozen=True)
class Outcome:
    """The results of calls, merged where they can be, or the error that ended them, which is none of the cluster."""

    results: Sequence[Any] = ()
    error: BaseException | None = None


class ShardActor:
    """Holds the shards of one worker between calls.

    Parameters
    ----------
    n_threads
        Threads of the worker.
    """

    def __init__(self, n_threads: int) -> None:
        self._n_threads = n_threads
        self._shards: dict[int, Shard] = {}

    def run(self, orders: Sequence[tuple[int, ShardPlan | None, Sequence[Call]]]) -> Outcome:
        """Carry out calls of some shards, given by their numbers; with a plan, open the shard first.

        The shards take turns, each with all threads.
        """
        try:
            results = []
            for number, plan, calls in orders:
                if plan is not None:
                    self._shards[number] = self._opened(plan)
                results.append(self._shards[number].run(calls))
            return Outcome(merged(orders[0][2][-1].method, results))
        except Exception as error:
            return Outcome(error=error)

    def close(self) -> None:
        """Close the shards."""
        while self._shards:
            self._shards.popitem()[1].close()

    def _opened(self, plan: ShardPlan) -> Shard:
        workers = Workers(self._n_threads)
        request = EngineRequest(FrameSource(plan.frame), plan.features, plan.roles, plan.parameters, workers)
        return Shard(plan.open(request), workers)


def versions() -> dict[str, str]:
    """Return the versions on which the bytes of a model, or what is sent between processes, depend."""
    import duckdb
    import numba
    import numpy as np

    found = {"frameboost": __version__, "polars": pl.__version__, "numpy": np.__version__}
    found |= {"numba": numba.__version__, "duckdb": duckdb.__version__}
    return found | {"python": ".".join(platform.python_version_tuple()[:2])}

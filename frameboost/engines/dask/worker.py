"""What runs on a worker of Dask: an actor that holds its shards."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import polars as pl

from frameboost.data.partitions import PartitionReader
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import ShardEngine
from frameboost.engines.dask.packing import packed, unpacked
from frameboost.engines.description import EngineRequest
from frameboost.engines.shards.memory_plan import storage_of
from frameboost.engines.shards.merging import merged
from frameboost.engines.shards.pool import Call
from frameboost.engines.shards.shard import Shard
from frameboost.parameters.parameters import Parameters
from frameboost.runtime.available_memory import MemoryBudget
from frameboost.runtime.storage import IN_MEMORY, Storage
from frameboost.runtime.workers import Workers
from frameboost.schema.feature import Feature
from frameboost.version import __version__

__all__ = ["LOST", "Order", "Outcome", "Relay", "ShardActor", "ShardPlan", "hand_over", "hold_rows", "versions"]


@dataclass(frozen=True)
class ShardPlan:
    """All that is needed to open a shard.

    Attributes
    ----------
    open
        Opens its engine.
    rows
        Its rows, or how they are read from partitions that the actor has been handed; None for those that the process
        itself holds (see `hold_rows`).
    features, roles, parameters
        As of `EngineRequest`.
    fits_files
        Whether arrays may be in files: the engine puts them there, and of the rows one column can be read at a time.
    """

    open: Callable[[EngineRequest], ShardEngine]
    rows: pl.LazyFrame | PartitionReader | None
    features: tuple[Feature, ...]
    roles: Mapping[str, str]
    parameters: Parameters
    fits_files: bool = False


@dataclass(frozen=True)
class Order:
    """Calls of one shard; with a plan, the shard is opened first."""

    number: int
    calls: Sequence[Call]
    plan: ShardPlan | None = None


@dataclass(frozen=True)
class Relay:
    """Orders for another worker, and for those that it passes on."""

    actor: Any
    orders: Sequence[Order]
    relays: Sequence[Relay] = ()


@dataclass(frozen=True)
class Outcome:
    """What came of orders.

    Attributes
    ----------
    results
        The result of each shard's last call; sums are merged.
    error
        The error that ended the calls, which is none of the cluster.
    lost
        The workers (by the first shard's number in their orders) whose results are missing, as they are gone.
    """

    results: Sequence[Any] = ()
    error: BaseException | None = None
    lost: Sequence[int] = ()


# Raised by an actor whose worker is gone: by the connection, or by the scheduler that knows of it.
LOST = (OSError, RuntimeError, TimeoutError)


class ShardActor:
    """Holds the shards of one worker between calls.

    Parameters
    ----------
    n_threads
        Threads of the worker.
    n_processes
        The workers on its machine.
    """

    def __init__(self, n_threads: int, n_processes: int = 1) -> None:
        self._n_threads = n_threads
        self._budget = _budget(n_processes)
        self._storages: dict[int, Storage] = {}
        self._shards: dict[int, Shard] = {}
        self._partitions: dict[int, Sequence[Any]] = {}

    def run(self, orders: Sequence[Order], relays: Sequence[Relay] = ()) -> Outcome:
        """Carry out orders, and add up what other workers answer to theirs.

        The shards take turns, each with all threads.
        """
        answers = [_sent(relay) for relay in relays]
        try:
            results = []
            storage = self._storage([order.plan for order in orders if order.plan is not None])
            for order in orders:
                if order.plan is not None:
                    self._shards[order.number] = self._opened(order.number, order.plan, storage)
                    self._storages[order.number] = storage
                results.append(self._shards[order.number].run(order.calls))
                self._storages[order.number].release_pages()  # which Dask counts as memory of the process
        except pl.exceptions.PanicException as error:  # no Exception, and can't be sent
            return Outcome(error=pl.exceptions.ComputeError(str(error)))
        except Exception as error:
            return Outcome(error=error)
        lost: list[int] = []
        for relay, answer in zip(relays, answers, strict=True):
            outcome = _received(relay, answer)
            if outcome.error is not None:
                return outcome
            results += map(unpacked, outcome.results)
            lost += outcome.lost
        sums = merged(orders[0].calls[-1].method, results)
        return Outcome([packed(each) if isinstance(each, np.ndarray) else each for each in sums], lost=lost)

    def take(self, number: int, partitions: Sequence[Any]) -> None:
        """Keep the pandas partitions of a shard until it is opened."""
        self._partitions[number] = partitions

    def close(self) -> None:
        """Close the shards."""
        self._partitions.clear()
        while self._shards:
            self._shards.popitem()[1].close()

    def _storage(self, plans: Sequence[ShardPlan]) -> Storage:
        """Return where to keep the arrays of new shards."""
        rows = [plan.rows for plan in plans if plan.fits_files and isinstance(plan.rows, pl.LazyFrame)]
        if not rows:
            return IN_MEMORY
        with closing(Workers(1)) as workers:
            return storage_of(self._request(rows[0], plans[0], workers), rows)

    def _request(
        self, frame: pl.LazyFrame, plan: ShardPlan, workers: Workers, storage: Storage = IN_MEMORY
    ) -> EngineRequest:
        source = FrameSource(frame, are_columnar=plan.fits_files)
        return EngineRequest(source, plan.features, plan.roles, plan.parameters, workers, storage, self._budget)

    def _opened(self, number: int, plan: ShardPlan, storage: Storage) -> Shard:
        own = self._partitions.pop(number, ())
        rows = _held.pop() if plan.rows is None else plan.rows  # which from now on are the shard's, to forget
        frame = rows.read(own) if isinstance(rows, PartitionReader) else rows
        workers = Workers(self._n_threads)
        return Shard(plan.open(self._request(frame, plan, workers, storage)), workers, storage)


# By worker, of which there may be several in a process; of all actors that are there, such as for rows to validate on.
_budgets: WeakValueDictionary[str, MemoryBudget] = WeakValueDictionary()


def _budget(n_processes: int) -> MemoryBudget:
    """Return the memory that the shards of this worker may use: what Dask allows it, less what it uses already."""
    from distributed import get_worker

    worker = get_worker()
    limit = worker.memory_manager.memory_limit
    at_most = max(0, limit - worker.monitor.get_process_memory()) if limit else None
    return _budgets.setdefault(worker.id, MemoryBudget(at_most, n_processes))


_held: list[pl.LazyFrame] = []


def hold_rows(frame: pl.LazyFrame | None) -> None:
    """Keep rows in this process for the next shard that is opened without any; None forgets them."""
    _held[:] = [] if frame is None else [frame]


def hand_over(actor: str, number: int, *partitions: Any) -> None:
    """Hand pandas partitions to the actor of that key on the same worker, as a task that Dask gives them to."""
    from distributed import get_worker

    held: Any = get_worker().state.actors[actor]
    held.take(number, partitions)


def _sent(relay: Relay) -> Any:
    """Pass orders on; return the answer to wait for, None if the worker is gone."""
    try:
        return relay.actor.run(relay.orders, relay.relays)
    except LOST:
        return None


def _received(relay: Relay, answer: Any) -> Outcome:
    """Wait for an answer; if the worker is gone, so are the answers to what it passed on."""
    try:
        outcome: Outcome | None = None if answer is None else answer.result()
    except LOST:
        outcome = None
    return Outcome(lost=_workers_of(relay)) if outcome is None else outcome


def _workers_of(relay: Relay) -> list[int]:
    return [relay.orders[0].number, *(number for other in relay.relays for number in _workers_of(other))]


def versions() -> dict[str, str]:
    """Return the versions on which the bytes of a model, or what is sent between processes, depend."""
    import duckdb
    import numba

    found = {"frameboost": __version__, "polars": pl.__version__, "numpy": np.__version__}
    found |= {"numba": numba.__version__, "duckdb": duckdb.__version__}
    return found | {"python": ".".join(platform.python_version_tuple()[:2])}

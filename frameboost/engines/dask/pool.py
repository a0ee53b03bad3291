"""The shards of a cluster, in an actor on each worker; shards of a lost worker are replayed on others.

`DaskShards` sends calls to the workers and receives their answers, with sums reduced along a tree of workers
(`Branch`). For each shard it logs the calls that restore its state (`ReplayLog`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import polars as pl
from dask.delayed import Delayed
from distributed import Actor, CancelledError, Client, Future, KilledWorker, wait
from distributed.comm.addressing import get_address_host

from frameboost.checks.messages import counted, reason, shortened
from frameboost.data.dask_source import PartitionReader
from frameboost.engines.contract import EngineDescription, HistogramEngine
from frameboost.engines.dask.worker import (
    LOST,
    Order,
    Outcome,
    Relay,
    Room,
    ShardActor,
    ShardPlan,
    Source,
    hand_over,
    unpacked,
)  # fmt: skip
from frameboost.engines.shards.engine import is_sum
from frameboost.engines.shards.shard import Call, one_after_another
from frameboost.errors import ClusterError, DataError
from frameboost.expressions.draws import RowPositions

__all__ = ["Branch", "DaskShard", "DaskShards", "ReplayLog", "branches"]

T = TypeVar("T")

# How often a shard may be lost before it has answered once more: its worker may be short of memory.
_MAX_LOSSES = 10
# How often until its arrays are in files, whatever memory its worker seems to have.
_LOSSES_OF_MEMORY = 2
_SECONDS_BETWEEN_LOOKS = 2
# How long a worker may take to answer a client that connects to it directly.
_SECONDS_TO_CONNECT = 5
# To how many workers a process sends a call whose results are sums, which it adds up.
_MAX_MESSAGES = 8
# Of the calls of a shard, those that do not change its state; and of quantiles, and of tables by key.
_READS = frozenset({
    "count_rows", "aggregate", "count_missing", "all_categories", "values_within", "node_histograms",
    "node_counts", "values_around",
})  # fmt: skip
_QUANTILES = frozenset({"start_quantiles", "values_in_nodes"})
_TABLES = frozenset({"start_queries", "start_scores", "divide"})
# The earlier calls that a call makes obsolete.
_OBSOLETE = {
    "summaries": frozenset({"summaries"}),
    "sum_pairs": frozenset({"sum_pairs"}),
    "compute_gradients": frozenset({"compute_gradients", *_QUANTILES, *_TABLES}),
    "start_tree": _QUANTILES,
    "reset_nodes": _QUANTILES,
    "start_quantiles": _QUANTILES,
    "start_scores": _TABLES,
    "bin_columns": frozenset({"summaries", "start_queries", "divide"}),
}
_END_OF_TREE = frozenset({"compute_gradients", "start_tree", "reset_nodes"})
_REPLACEABLE = frozenset().union(*_OBSOLETE.values())


class _Host:
    """A worker, and the actor on it that holds its shards; None as the actor means that it is lost."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.held: Future[Any] | None = None  # keeps the actor alive
        self.actor: Any = None


class _DirectActor(Actor):
    """An actor that the client calls without the scheduler, whether or not it is ``direct_to_workers``."""

    @property
    def _worker_rpc(self) -> Any:
        client: Any = self._client
        return super()._worker_rpc if self._worker else client.rpc(self._address)


class DaskShard:
    """One shard: its plan, its host, and its replay log."""

    def __init__(self, number: int, plan: ShardPlan, partitions: Sequence[Delayed]) -> None:
        self.number = number
        self.plan = plan
        self.partitions = partitions  # of the user's Dask DataFrame
        self.contents: list[str] | None = None  # of the partitions: a hash each, once they have been computed
        self.log = ReplayLog()
        self.host: _Host | None = None
        self.is_open = False  # whether the host's actor has the plan
        self.n_losses = 0  # since the last answer


class DaskShards:
    """`ShardPool` on the workers of a cluster. Each worker gets one message per call, however many shards it holds.

    Messages go directly between this process and the workers. If only the scheduler can reach the workers, they go
    through it, and sums are reduced on the workers first.

    Parameters
    ----------
    client
        The user's client.
    engine
        The engine of each shard.
    worker_timeout
        The timeout for a worker in seconds.
    """

    def __init__(self, client: Client, engine: EngineDescription, worker_timeout: float) -> None:
        self._client = client
        self._engine = engine
        self._timeout = worker_timeout
        self._is_direct: bool | None = None  # None until a worker has been called
        self._shards: list[DaskShard] = []
        self._hosts: dict[str, _Host] = {}
        self._n_lost = 0

    def rooms(self, most: int | None = None) -> list[Room]:
        """Return the room of each of ``most`` workers."""
        hosts = [_Host(address) for address in list(self._workers())[:most]]
        for host in hosts:
            self._hosts[host.address] = host
            self._submit(host)
        rooms = []
        for host in hosts:
            self._await(host)
            with contextlib.suppress(*LOST):
                if host.actor is not None:
                    rooms.append(host.actor.room().result())
            if host.actor is None:
                self._forget(host)
        return rooms or self.rooms(most)

    def open(self, plans: Sequence[ShardPlan], partitions: Sequence[Sequence[Delayed]] | None = None) -> None:
        """Assign the shards to workers.

        Parameters
        ----------
        plans
            A plan for each shard.
        partitions
            The partitions of each shard, if the data is a Dask DataFrame.
        """
        of_shards = partitions or [[]] * len(plans)
        self._shards = [DaskShard(number, *each) for number, each in enumerate(zip(plans, of_shards, strict=True))]
        try:
            for shard in self._shards:
                self._assign(shard)
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """See `ShardPool.__len__`."""
        return len(self._shards)

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """See `ShardPool.positions`."""
        return one_after_another(counts)

    # --- calls --------------------------------------------------------------------------------------------------------

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """See `ShardPool.run`."""
        calls_of = {shard.number: of_shard for shard, of_shard in zip(self._shards, calls, strict=True)}
        results: dict[int, Any] = {}
        waiting = list(self._shards)
        while waiting:
            groups = defaultdict(list)
            for shard in waiting:
                groups[self._host(shard)].append(shard)
            self._hand_out([shard for shard in waiting if shard.partitions and not shard.is_open])
            waiting = []
            sent = [
                (branch, self._send(branch, groups, calls_of)) for branch in self._branches(groups, calls[0][-1].method)
            ]
            for branch, answer in sent:
                outcome = self._outcome(branch.root, answer)
                if outcome is not None and outcome.error is not None:
                    raise outcome.error
                for host in branch:
                    if outcome is None or groups[host][0].number in outcome.lost:
                        waiting += groups[host]
                        self._lose(groups[host], host)
                if outcome is not None:
                    # Sums are fewer than shards: they stand with the first ones.
                    numbers = [shard.number for host in branch for shard in groups[host]]
                    results |= zip(numbers, map(unpacked, outcome.results), strict=False)
        for shard in self._shards:
            shard.log.add(calls_of[shard.number])
            shard.n_losses = 0
        return [results[number] for number in sorted(results)]

    @property
    def n_targets(self) -> int:
        """See `ShardPool.n_targets`: one for each worker with shards."""
        return len({id(shard.host) for shard in self._shards})

    def gather(self, finish: Sequence[Callable[[list[pl.DataFrame]], Any]]) -> list[Any]:
        """See `ShardPool.gather`; pieces go from worker to worker."""
        while True:
            if not all(shard.is_open for shard in self._shards):
                self.run([[Call("count_rows")]] * len(self._shards))
            groups = defaultdict(list)
            for shard in self._shards:
                groups[self._host(shard)].append(shard.number)
            hosts, sent = list(groups), []
            for index, each in enumerate(finish):
                root = hosts[index % len(hosts)]
                sources = [Source(host.actor, groups[host]) for host in hosts if host is not root]
                sent.append((root, self._asked(root, "gather", groups[root], index, sources, each)))
            lost: set[int] = set()
            results: list[Any] = []
            for root, answer in sent:
                outcome = self._outcome(root, answer)
                if outcome is not None and outcome.error is not None:
                    raise outcome.error
                lost |= {groups[root][0]} if outcome is None else set(outcome.lost)
                results += [] if outcome is None else outcome.results
            if not lost:
                return results
            for host in hosts:
                if groups[host][0] in lost:
                    self._lose([shard for shard in self._shards if shard.number in groups[host]], host)

    def _asked(self, host: _Host, method: str, *arguments: Any) -> Any:
        """Call a method of a host's actor; return the answer to wait for, None if the host is lost."""
        try:
            return None if host.actor is None else getattr(host.actor, method)(*arguments)
        except LOST:
            self._check_client()
            return None

    def _branches(self, groups: Mapping[_Host, Sequence[DaskShard]], method: str) -> Sequence[Branch[_Host]]:
        """Return how to call the hosts: each directly, or along a tree for sums over many."""
        if is_sum(method) and all(shard.is_open for shards in groups.values() for shard in shards):
            hosts = list(groups)
            if self._is_direct:
                return branches(hosts, _MAX_MESSAGES)
            return [Branch(hosts[0], branches(hosts[1:], _MAX_MESSAGES))]
        return [Branch(host) for host in groups]

    def _send(
        self, branch: Branch[_Host], groups: Mapping[_Host, Sequence[DaskShard]], calls_of: Mapping[int, Sequence[Call]]
    ) -> Any:
        """Send the calls of the shards on some hosts; return the answer to wait for, None if the first host is lost."""

        def relay(branch: Branch[_Host]) -> Relay:
            orders = [self._order(shard, calls_of[shard.number]) for shard in groups[branch.root]]
            return Relay(branch.root.actor, orders, [relay(other) for other in branch.others])

        if any(host.actor is None for host in branch):
            return None
        first = relay(branch)
        return self._asked(branch.root, "run", first.orders, first.relays)

    @staticmethod
    def _order(shard: DaskShard, calls: Sequence[Call]) -> Order:
        if shard.is_open:
            return Order(shard.number, calls)
        shard.is_open = True
        # The plan, which may hold the rows, goes straight to the worker, not through the scheduler's graph.
        in_files = shard.plan.fits_files and shard.n_losses >= _LOSSES_OF_MEMORY
        return Order(shard.number, [*shard.log.calls(), *calls], shard.plan, in_files)

    def _outcome(self, host: _Host, answer: Any) -> Outcome | None:
        """Wait for an answer; return None if the host is lost.

        Dask tries to connect to a worker for 30 seconds, even if the scheduler knows that it is gone.
        """
        outcome: Outcome | None = None
        while answer is not None and outcome is None:
            was_done = answer.done()
            try:
                outcome = answer.result(timeout=_SECONDS_BETWEEN_LOOKS)
            except LOST as error:
                self._check_client()
                if was_done or not isinstance(error, TimeoutError) or host.address not in self._workers():
                    return None
        return outcome

    # --- partitions of a Dask DataFrame -------------------------------------------------------------------------------

    def _hand_out(self, shards: Sequence[DaskShard]) -> None:
        """Compute the partitions of shards on the workers, and pass them to their actors.

        Dask recomputes lost partitions. If a worker is lost meanwhile, its host is left without an actor.
        """
        loading = []
        for shard in shards:
            host = self._host(shard)
            if host.actor is None or host.held is None:
                continue
            computed = self._client.compute(  # type: ignore[no-untyped-call]
                shard.partitions, workers=[host.address], allow_other_workers=True
            )
            handed = self._client.submit(
                hand_over, host.held.key, shard.number, *computed, pure=False, workers=[host.address]
            )
            loading.append((shard, host, computed, handed))
        try:
            for shard, host, computed, handed in loading:
                while handed.status == "pending" and host.address in self._workers():
                    with contextlib.suppress(TimeoutError, CancelledError):
                        wait(handed, timeout=_SECONDS_BETWEEN_LOOKS)  # type: ignore[no-untyped-call]
                _check_computed(shard, computed)
                if handed.status != "finished":
                    host.actor = None
                    continue
                contents = handed.result()
                if shard.contents is not None:
                    _check_same(shard, contents)
                shard.contents = contents
        finally:  # unless someone else holds them too, the cluster forgets them
            for _, _, computed, handed in loading:
                for future in (*computed, handed):
                    future.release()

    # --- hosts --------------------------------------------------------------------------------------------------------

    def _host(self, shard: DaskShard) -> _Host:
        if shard.host is None:
            self._assign(shard)
        assert shard.host is not None
        return shard.host

    def _assign(self, shard: DaskShard, besides: str | None = None) -> None:
        """Assign a shard to a worker, if possible other than the lost one."""
        address = self._worker_for(shard, besides)
        host = self._hosts.get(address)
        if host is None:
            host = self._hosts[address] = _Host(address)
            self._submit(host)
            self._await(host)
        shard.host = host

    def _worker_for(self, shard: DaskShard, besides: str | None) -> str:
        """Return the worker with the fewest shards."""
        workers = self._workers()
        load = {address: 0 for address in workers if address != besides} or dict.fromkeys(workers, 0)
        for other in self._shards:
            if other.host is not None and other.host.address in load:
                load[other.host.address] += 1
        return min(load, key=lambda address: load[address])

    def _submit(self, host: _Host) -> None:
        """Start the actor of a host on its worker."""
        workers = self._workers()
        n_threads = workers.get(host.address, 1)
        machines = [get_address_host(address) for address in workers]
        host.held = self._client.submit(
            ShardActor, n_threads, max(1, machines.count(get_address_host(host.address))),
            self._engine.openers[HistogramEngine], uses_storage=self._engine.uses_storage,
            actor=True, pure=False, workers=[host.address], allow_other_workers=False,
        )  # fmt: skip

    def _await(self, host: _Host) -> None:
        """Wait until the actor of a host has started; if the worker is lost, the host has no actor."""
        assert host.held is not None
        deadline = time.monotonic() + self._timeout
        while host.actor is None and host.address in self._workers():
            try:
                host.actor = self._own(host.held.result(timeout=_SECONDS_BETWEEN_LOOKS))
            except TimeoutError:
                worker = self._client.scheduler_info()["workers"].get(host.address, {})
                if worker.get("status") == "paused" and time.monotonic() > deadline:
                    raise ClusterError(
                        f"worker {host.address} is paused by Dask, as its memory is nearly used up, and took no task "
                        f"for {self._timeout:g} seconds (worker_timeout); free its memory, or add memory"
                    ) from None
            except LOST:
                return

    def _own(self, actor: Actor) -> Actor:
        """Return an actor that is called through this client, not through the process's most recent one."""
        with self._client.as_current():
            direct = _DirectActor(actor._cls, actor._address, actor.key)  # type: ignore[no-untyped-call]
            if self._is_direct is None:
                self._is_direct = direct._worker is not None or self._can_reach(actor._address)
            return direct if self._is_direct else Actor(actor._cls, actor._address, actor.key)  # type: ignore[no-untyped-call]

    def _can_reach(self, address: str) -> bool:
        """Whether this process can connect to a worker, which may be behind a gateway or a tunnel."""

        async def ask() -> None:
            await asyncio.wait_for(self._client.rpc(address).identity(), _SECONDS_TO_CONNECT)

        try:
            self._client.sync(ask)  # type: ignore[no-untyped-call]
        except (OSError, TimeoutError):
            return False
        return True

    def _lose(self, shards: Sequence[DaskShard], host: _Host) -> None:
        """Assign the shards of a lost host to other hosts."""
        self._forget(host)
        self._n_lost += 1
        for shard in shards:
            shard.host, shard.is_open = None, False
            shard.n_losses += 1
            if shard.n_losses >= _MAX_LOSSES:
                raise ClusterError(
                    f"shard {shard.number + 1} of {len(self._shards)} was lost {counted(_MAX_LOSSES, 'time')} in a "
                    "row with the worker that held it; its workers may be short of memory: use more shards, or workers "
                    "with more"
                )
        for shard in shards:
            self._assign(shard, besides=host.address)

    def _workers(self) -> dict[str, int]:
        """Return the number of threads of each worker, waiting for one if there is none."""
        self._check_client()
        deadline = time.monotonic() + self._timeout
        waiting: Future[Any] | None = None
        while time.monotonic() < deadline:
            n_threads: dict[str, int] = self._client.nthreads()  # type: ignore[no-untyped-call]
            if n_threads:
                return n_threads
            if waiting is None:  # adaptive clusters start workers where there are tasks
                waiting = self._client.submit(int, pure=False)
            with contextlib.suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=self._timeout)
        lost = (
            f" after {counted(self._n_lost, 'worker')} with rows of the fit had been lost; they may be short of memory"
            if self._n_lost
            else ""
        )
        raise ClusterError(
            f"the Dask cluster has no worker, and none came within {self._timeout:g} seconds (worker_timeout){lost}; "
            "start some"
        )

    def _check_client(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise ClusterError(f"the Dask client is {self._client.status}; pass one that is connected to its scheduler")

    # --- the end ------------------------------------------------------------------------------------------------------

    def keep(self, numbers: Sequence[int]) -> None:
        """See `ShardPool.keep`; actors close surplus shards with the others."""
        self._shards = [self._shards[number] for number in numbers]

    def close(self) -> None:
        """See `ShardPool.close`."""
        for host in list(self._hosts.values()):
            if host.actor is not None:
                with contextlib.suppress(*LOST):  # the actor of a lost worker or client no longer exists
                    host.actor.close().result(timeout=5)
            self._forget(host)
        self._shards = []

    def _forget(self, host: _Host) -> None:
        """Make the scheduler forget an actor, to which a traceback may still refer."""
        if host.held is not None and self._client.status == "running":
            self._client.cancel(host.held, force=True)  # type: ignore[no-untyped-call]
        host.actor = host.held = None
        self._hosts.pop(host.address, None)


def _first(shard: DaskShard) -> int:
    return shard.plan.rows.first if isinstance(shard.plan.rows, PartitionReader) else 1


def _check_same(shard: DaskShard, contents: Sequence[str]) -> None:
    """Raise `DataError` if a recomputed partition has other rows."""
    for number, (before, now) in enumerate(zip(shard.contents or (), contents, strict=True), start=_first(shard)):
        if now != before:
            raise DataError(
                f"partition {number} of the Dask DataFrame was computed again, after its worker was lost, and had "
                "other rows; set a seed in it, or write the DataFrame to files first"
            )


def _check_computed(shard: DaskShard, partitions: Sequence[Future[Any]]) -> None:
    """Raise an error if a partition can't be computed."""
    for number, future in enumerate(partitions, start=_first(shard)):
        what = f"partition {number} of the Dask DataFrame"
        if future.status == "error":
            error = future.exception()  # type: ignore[no-untyped-call]
            if isinstance(error, KilledWorker):
                raise ClusterError(f"{what} can't be computed: {reason(error)}") from error
            message = shortened(str(error), 200)
            raise DataError(f"{what} can't be computed: {type(error).__name__}: {message}") from error
        if future.status in ("lost", "cancelled"):
            raise ClusterError(f"{what} was lost with its worker, and Dask can't compute it again; read it by Dask")


# --- the tree along which sums come from many workers -----------------------------------------------------------------


@dataclass(frozen=True)
class Branch(Generic[T]):
    """A worker, and the branches whose sums it adds to its sums."""

    root: T
    others: Sequence[Branch[T]] = ()

    def __iter__(self) -> Iterator[T]:
        """Return all workers of the branch."""
        yield self.root
        for other in self.others:
            yield from other

    def __str__(self) -> str:
        return f"{self.root}({' '.join(map(str, self.others))})" if self.others else str(self.root)


def branches(workers: Sequence[T], most: int) -> list[Branch[T]]:
    """Return the workers as a tree of at most ``most`` branches at each level.

    With at most 3 messages to each process, 8 workers reduce their sums along this tree; the client receives three:

    >>> [str(branch) for branch in branches(list("abcdefgh"), 3)]
    ['a(b)', 'c(d e)', 'f(g h)']
    """
    n = min(most, len(workers))
    bounds = [len(workers) * k // n for k in range(n + 1)] if n else []
    parts = [workers[a:b] for a, b in pairwise(bounds)]
    return [Branch(part[0], branches(part[1:], most)) for part in parts]


# --- replay -----------------------------------------------------------------------------------------------------------


class ReplayLog:
    """The calls that restore the state of a lost shard.

    A shard's state is its codes, margins, gradients and the node of each row. The log keeps the calls that determine
    this state: no reads, only the last of calls that replace state in each round, and only the splits and leaf values
    of grown trees. Example, two rounds:

    ============================  ==============
    ``bin_columns(bins)``         kept
    ``start_margins(...)``        kept
    ``compute_gradients(…)``      replaced below
    ``start_tree(0)``             ``reset_nodes()``
    ``node_histograms(…)``        a read, as ``node_counts(…)`` is
    ``apply_splits(…)``           kept
    ``add_leaf_values(…)``        kept
    ``compute_gradients(…)``      kept
    ``start_tree(0)``             kept
    ============================  ==============
    """

    def __init__(self) -> None:
        self._settled: list[Call] = []  # of the rounds before, which no later call changes
        self._calls: list[Call] = []

    def add(self, calls: Iterable[Call]) -> None:
        """Add calls that the shard has executed."""
        for call in calls:
            if call.method in _READS:
                continue
            obsolete = _OBSOLETE.get(call.method, frozenset())
            self._calls = [other for other in self._calls if other.method not in obsolete]
            if call.method in _END_OF_TREE:  # the trees before are grown: no gradients are needed to follow them
                self._calls = [Call("reset_nodes") if each.method == "start_tree" else each for each in self._calls]
            if call.method == "compute_gradients":
                self._settled += [each for each in self._calls if each.method not in _REPLACEABLE]
                self._calls = [each for each in self._calls if each.method in _REPLACEABLE]
            self._calls.append(call)

    def calls(self) -> list[Call]:
        """Return the calls to replay, in order."""
        return [*self._settled, *self._calls]

"""The shards of a cluster: actors on its workers, which are opened and replayed on others if theirs is lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

from distributed import Client, Future

from frameboost.checks.messages import counted
from frameboost.engines.dask.replay import ReplayLog
from frameboost.engines.dask.worker import Outcome, ShardActor, ShardPlan
from frameboost.engines.shards.pool import Call
from frameboost.errors import ClusterError

__all__ = ["DaskShards"]

# How often a shard may be lost before it has answered once more: its worker may be short of memory.
_MOST_LOSSES = 10
_SECONDS_WITHOUT_WORKERS, _SECONDS_BETWEEN_LOOKS = 60, 2
# Raised by an actor whose worker is gone: by the connection, or by the scheduler that knows of it.
_LOST = (OSError, RuntimeError, TimeoutError)


class _DaskShard:
    """One shard: its plan, its actor on some worker, and what it has been told."""

    def __init__(self, number: int, plan: ShardPlan) -> None:
        self.number = number
        self.plan = plan
        self.log = ReplayLog()
        self.held: Future[Any] | None = None  # as long as it is held, the actor lives
        self.actor: Any = None
        self.is_new = True  # whether the actor has yet to be told the plan


class DaskShards:
    """`ShardPool` of actors.

    Parameters
    ----------
    client
        The user's client.
    plans
        A plan for each shard.
    """

    def __init__(self, client: Client, plans: Sequence[ShardPlan]) -> None:
        self._client = client
        self._shards = [_DaskShard(number, plan) for number, plan in enumerate(plans)]
        try:
            workers = list(self._workers())
            for shard in self._shards:
                self._open(shard, workers[shard.number % len(workers)])
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """See `ShardPool.__len__`."""
        return len(self._shards)

    # --- calls --------------------------------------------------------------------------------------------------------

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """See `ShardPool.run`."""
        asked = [self._asked(shard, own) for shard, own in zip(self._shards, calls, strict=True)]
        results = []
        for shard, own, answer in zip(self._shards, calls, asked, strict=True):
            outcome = self._outcome(shard, own, answer)
            if outcome.error is not None:
                raise outcome.error
            shard.log.add(own)
            results.append(outcome.result)
        return results

    def _asked(self, shard: _DaskShard, calls: Sequence[Call]) -> Any:
        """Send calls; return the answer to wait for, None if the worker is gone."""
        if shard.actor is None:
            return None
        # The plan, which may hold the rows, goes straight to the worker, not through the scheduler's graph.
        plan, shard.is_new = (shard.plan if shard.is_new else None), False
        try:
            return shard.actor.run([tuple(call) for call in calls], plan)
        except _LOST:
            self._check_client()
            return None

    def _outcome(self, shard: _DaskShard, calls: Sequence[Call], answer: Any) -> Outcome:
        """Wait for the outcome of calls; where the worker is lost, have another one catch up and carry them out."""
        n_losses = 0
        while n_losses < _MOST_LOSSES:
            if answer is not None:
                try:
                    outcome: Outcome = answer.result()
                except _LOST:
                    self._check_client()
                    n_losses += 1
                else:
                    return outcome
            answer = self._recovered(shard, calls)
        raise ClusterError(
            f"shard {shard.number + 1} of {len(self._shards)} was lost {counted(_MOST_LOSSES, 'time')} in a row with "
            "the worker that held it; its workers may be short of memory: use more shards, or workers with more"
        )

    def _recovered(self, shard: _DaskShard, calls: Sequence[Call]) -> Any:
        """Open the shard on another worker, and send what the lost one was told and the calls that it left open."""
        lost = self._address(shard)
        workers = self._workers()
        load = {address: 0 for address in workers if address != lost} or dict.fromkeys(workers, 0)
        for other in self._shards:
            if other is not shard and (address := self._address(other)) in load:
                load[address] += 1
        self._open(shard, min(load, key=lambda address: load[address]))
        return self._asked(shard, [*shard.log.calls(), *calls])

    # --- actors -------------------------------------------------------------------------------------------------------

    def _open(self, shard: _DaskShard, address: str) -> None:
        """Start the actor of a shard on a worker; leave the shard without one if the worker goes meanwhile."""
        self._forget(shard)
        shard.is_new = True
        n_threads = self._workers().get(address)
        if n_threads is None:
            return
        shard.held = self._client.submit(
            ShardActor, n_threads, actor=True, pure=False, workers=[address], allow_other_workers=False
        )
        while shard.actor is None and address in self._workers():
            try:
                shard.actor = shard.held.result(timeout=_SECONDS_BETWEEN_LOOKS)
            except TimeoutError:
                continue
            except _LOST:
                return

    @staticmethod
    def _address(shard: _DaskShard) -> str | None:
        return None if shard.actor is None else shard.actor._address

    def _workers(self) -> dict[str, int]:
        """Return the number of threads of each worker that is there, waiting for one if there is none."""
        self._check_client()
        deadline = time.monotonic() + _SECONDS_WITHOUT_WORKERS
        while time.monotonic() < deadline:
            found: dict[str, int] = self._client.nthreads()  # type: ignore[no-untyped-call]
            if found:
                return found
            with contextlib.suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=_SECONDS_WITHOUT_WORKERS)
        raise ClusterError(
            f"the Dask cluster has no worker, and none came within {_SECONDS_WITHOUT_WORKERS} seconds; start some"
        )

    def _check_client(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise ClusterError(f"the Dask client is {self._client.status}; give one that is connected to its scheduler")

    def keep(self, numbers: Sequence[int]) -> None:
        """See `ShardPool.keep`."""
        for shard in self._shards:
            if shard.number not in numbers:
                self._close(shard)
        self._shards = [self._shards[number] for number in numbers]

    def close(self) -> None:
        """See `ShardPool.close`."""
        for shard in self._shards:
            self._close(shard)
        self._shards = []

    def _close(self, shard: _DaskShard) -> None:
        """Close a shard, and have the scheduler forget its actor, to which a traceback may still refer."""
        if shard.actor is not None:
            with contextlib.suppress(*_LOST):  # nothing is left of an actor whose worker or client is gone
                shard.actor.close().result(timeout=5)
        self._forget(shard)

    def _forget(self, shard: _DaskShard) -> None:
        if shard.held is not None and self._client.status == "running":
            self._client.cancel(shard.held, force=True)  # type: ignore[no-untyped-call]
        shard.actor = shard.held = None

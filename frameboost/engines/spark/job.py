"""The Spark job with tasks that hold the rows of a fit, and the shards in these tasks.

`SparkShards` are Dask shards with the tasks of a `SparkJob` as workers, which connect to a scheduler in this process. A
`Driver` reads the state of the session, in this process or through Spark Connect.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from distributed import Client, LocalCluster

from frameboost.checks.messages import counted, reason
from frameboost.data.spark_source import SparkSource, functions_of, is_remote
from frameboost.engines.contract import EngineDescription
from frameboost.engines.dask.cluster import check_versions
from frameboost.engines.dask.pool import DaskShard, DaskShards
from frameboost.engines.dask.worker import ShardPlan, versions
from frameboost.engines.spark.task import Content, content, end, parse_name
from frameboost.errors import ClusterError, DataError
from frameboost.expressions.draws import RowPositions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Driver", "SparkJob", "SparkShards", "Stage", "Timeouts", "difference", "driver_of"]

_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_ENDS = 0.05, 0.5
# How long the job's end may take before it is cancelled.
_SECONDS_TO_END = 10
# More rows than a cluster has slots, so that no partition of them is empty.
_MANY_ROWS = 1 << 20


class Timeouts(NamedTuple):
    """Timeouts for Spark, in seconds.

    Attributes
    ----------
    slots
        Until executors have come.
    start
        Until all tasks have started.
    retry
        Until a lost task is retried and has read its rows again.
    """

    slots: float = 10.0
    start: float = 120.0
    retry: float = 600.0

    @classmethod
    def of(cls, task_timeout: float | None) -> Timeouts:
        """Return the user's ``task_timeout`` for all three, or the defaults."""
        return cls() if task_timeout is None else cls(task_timeout, task_timeout, task_timeout)


class SparkShards(DaskShards):
    """`ShardPool` of actors in the tasks of a job, one partition each.

    Parameters
    ----------
    job
        The job, which ends with the shards.
    engine
        The engine of every shard.
    plan
        The plan of every shard.
    in_order
        Whether the model depends on the order of the rows.
    """

    def __init__(
        self, job: SparkJob, engine: EngineDescription, plan: ShardPlan, *, in_order: bool
    ) -> None:  # fmt: skip
        self._job = job
        self._in_order = in_order
        try:
            self._contents = job.wait()
            check_versions(versions(), job.client.run(versions, on_error="return"))
        except BaseException:
            job.close()
            raise
        super().__init__(job.client, engine, job.timeouts.retry)
        self.open([plan] * len(self._contents))

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """See `ShardPool.positions`; Spark may assign nonconsecutive partitions to a task."""
        sizes = dict(sorted(part for content in self._contents for part in content.parts))
        starts = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
        return [_positions(self._contents[shard.number].parts, starts) for shard in self._shards]

    def _worker_for(self, shard: DaskShard, besides: str | None) -> str:
        """Return the worker with the shard's rows; wait until Spark has retried a lost task."""
        deadline = time.monotonic() + self._timeout
        while time.monotonic() < deadline:
            self._check_client()
            address = self._job.addresses().get(shard.number)
            if address is not None and address != besides:
                self._check_content(shard, address)
                return address
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        raise ClusterError(
            f"the task of partition {shard.number + 1} of {len(self._contents)} was lost, and Spark did not try it "
            f"again within {self._timeout:g} seconds (task_timeout)"
        )

    def _check_content(self, shard: DaskShard, address: str) -> None:
        """Raise `ClusterError` if a retried task has read other rows."""
        before, now = self._contents[shard.number], self._job.content(address)
        is_binned = any(call.method == "bin_columns" for call in shard.log.calls())
        changed = "" if now is None else difference(before, now, in_order=self._in_order or not is_binned)
        if changed:
            raise ClusterError(
                f"partition {shard.number + 1} of {len(self._contents)} was read again, after its task was lost, and "
                f"had {changed}; write the DataFrame to a table first"
            )

    def _check_client(self) -> None:
        self._job.check()
        super()._check_client()

    def close(self) -> None:
        """See `ShardPool.close`."""
        try:
            super().close()
        finally:
            self._job.close()


def difference(before: Content, now: Content, *, in_order: bool) -> str:
    """Return how rows differ that were read again, "" if not; with ``in_order`` also if they moved.

    >>> first = Content(n_rows=2, rows=11, order=17, parts=((0, 2),))
    >>> moved = Content(n_rows=2, rows=11, order=16, parts=((0, 2),))
    >>> difference(first, moved, in_order=False), difference(first, moved, in_order=True)
    ('', 'its rows in another order, by which they are drawn')
    >>> difference(first, moved._replace(rows=12), in_order=False)
    'other rows'
    >>> difference(first, Content(3, 20, 30, ((0, 3),)), in_order=False)
    '3 rows where it had 2'
    """
    if now.n_rows != before.n_rows:
        return f"{now.n_rows:,} rows where it had {before.n_rows:,}"
    if now.rows != before.rows:
        return "other rows"
    return "its rows in another order, by which they are drawn" if in_order and now != before else ""


def _positions(parts: Sequence[tuple[int, int]], starts: Mapping[int, int]) -> RowPositions:
    """Return the positions of rows, from their partitions and the position where each begins.

    >>> _positions([(0, 3), (1, 2), (7, 4)], {0: 0, 1: 3, 5: 5, 7: 25})
    RowPositions(runs=((0, 0), (5, 25)))
    """
    runs: list[tuple[int, int]] = []
    row = 0
    for partition, count in parts:
        start = starts[partition]
        if not runs or start - row != runs[-1][1] - runs[-1][0]:
            runs.append((row, start))
        row += count
    return RowPositions(tuple(runs))


# --- the job ----------------------------------------------------------------------------------------------------------


class SparkJob:
    """A job that reads each partition in a task, which then runs as a Dask worker until the end of the fit.

    The stage is an ordinary one, not a barrier stage: these allow neither ``coalesce`` nor dynamic allocation, and
    Spark retries all of their tasks if one is lost.

    Parameters
    ----------
    source
        The rows.
    names
        The columns to read.
    driver
        The driver of the source's session.
    n_tasks
        The maximum number of tasks.
    timeouts
        The timeouts.
    """

    def __init__(
        self, source: SparkSource, names: Sequence[str], driver: Driver, n_tasks: int, timeouts: Timeouts | None = None
    ) -> None:
        self.timeouts = timeouts or Timeouts()
        self._session = source.frame.sparkSession
        self._driver, self._most_tasks = driver, n_tasks
        self._tag = f"frameboost-{secrets.token_hex(6)}"
        self._error: BaseException | None = None
        host = driver.host()
        _check_host(host)
        self._cluster = LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", host=host, dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )  # type: ignore[no-untyped-call]  # fmt: skip
        self.client = Client(self._cluster, set_as_default=False, direct_to_workers=True)  # type: ignore[no-untyped-call]
        function = _function(source.arrow_schema(names), list(names), self._cluster.scheduler_address)
        rows = source.with_partitions(names).coalesce(n_tasks).mapInArrow(function, "nothing boolean")
        self._thread = driver.thread(lambda: self._run(rows))
        self._thread.start()

    def _run(self, rows: Any) -> None:
        """Run the job; in another thread."""
        try:
            self._session.addTag(self._tag)
            rows.collect()
        except BaseException as error:  # reported by `check`
            self._error = error

    # --- tasks --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `ClusterError` if the job is over."""
        if self._thread.is_alive():
            return
        why = "" if self._error is None else f": {_why(self._error)}"
        raise ClusterError(f"the Spark job that holds the rows has ended{why}") from self._error

    def addresses(self) -> dict[int, str]:
        """Return the addresses of the workers, by partition."""
        return {partition: address for (_, partition), address in self._workers().items()}

    def _workers(self) -> dict[tuple[int, int], str]:
        """Return the address of the worker of each stage and partition."""
        workers = self.client.scheduler_info()["workers"]
        return {parse_name(worker["name"]): address for address, worker in workers.items()}

    def wait(self) -> list[Content]:
        """Wait until all tasks hold their rows; return the content of each partition."""
        deadline = time.monotonic() + self.timeouts.start
        while True:
            if not self._thread.is_alive() and self._error is None:  # a DataFrame without partitions has no tasks
                raise DataError("the data has no rows; training needs at least 2")
            self.check()
            workers = self._workers()
            stage = next((self._driver.stage(number) for number, _ in workers), None)
            if not workers:  # all tasks still read
                deadline = time.monotonic() + self.timeouts.start
            if len(workers) == self._most_tasks or (stage is not None and len(workers) == stage.n_tasks):
                contents = self._contents(workers)
                if contents is not None:
                    return contents
            elif time.monotonic() > deadline:
                _check_started(stage, self.timeouts.start)
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _contents(self, workers: Mapping[tuple[int, int], str]) -> list[Content] | None:
        """Return the content of each partition, None if a worker is lost."""
        contents = [self.content(workers[key]) for key in sorted(workers)]
        return None if None in contents else [content for content in contents if content is not None]

    def content(self, address: str) -> Content | None:
        """Return the content of a worker's rows, None if it is lost."""
        contents: dict[str, Content | None] = self.client.run(content, workers=[address], on_error="ignore")
        return contents.get(address)

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all tasks, and with them the job; may be called repeatedly."""
        deadline = time.monotonic() + _SECONDS_TO_END
        while self._thread.is_alive() and self.client.status == "running" and time.monotonic() < deadline:
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # tasks that are gone have ended
                self.client.run(end, on_error="ignore")
            self._thread.join(_SECONDS_BETWEEN_ENDS)  # some tasks may have waited for the slots of others
        if self._thread.is_alive():  # a task that has not started, or still reads
            self._session.interruptTag(self._tag)
            self._thread.join(_SECONDS_TO_END)
        self.client.close()  # type: ignore[no-untyped-call]
        self._cluster.close()
        self._driver.close()


def _check_host(host: str) -> None:
    """Raise `ClusterError` if an address does not belong to this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        raise ClusterError(
            f"Spark's executors would connect to {host}, at which this process can't listen; with Spark Connect, use a "
            "server that is reached without a tunnel"
        ) from error


def _check_started(stage: Stage | None, seconds: float) -> None:
    """Raise `ClusterError` if some tasks wait for a slot while the others hold theirs and wait for them."""
    if stage is None:
        raise ClusterError(
            f"Spark has not reported on the job that holds the rows for {seconds:g} seconds (task_timeout); with "
            "Spark Connect, set spark.connect.progress.reportInterval to some seconds"
        )
    if stage.n_running < stage.n_tasks:
        raise ClusterError(
            f"only {stage.n_running} of {counted(stage.n_tasks, 'task')} of the fit run after "
            f"{seconds:g} seconds (task_timeout), as the session has no more slots, or other jobs hold them; end "
            "those, or set engine=fb.Spark(shards=...) with fewer"
        )


def _function(schema: pa.Schema, names: list[str], scheduler: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a task; Spark sends it as bytecode, so that nothing is imported before its first line."""

    def function(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:  # polars takes all cores of the machine unless set before its import
            os.environ.setdefault("POLARS_MAX_THREADS", str(context.cpus()))
        from frameboost.engines.spark.task import hold

        hold(batches, schema, names, scheduler)
        return iter(())

    return function


def _why(error: BaseException) -> str:
    r"""Return the first line of Spark's error, or the Python exception in a task.

    >>> _why(RuntimeError("a task: Traceback (most recent call last):\n  File ...\nValueError: no\n SQLSTATE: 38000"))
    'ValueError: no'
    """
    _, _, traceback = str(error).rpartition("Traceback (most recent call last):\n")
    raised = next((line for line in traceback.splitlines() if line and not line.startswith(" ")), str(error))
    return reason(ValueError(raised))


# --- the driver of the session ----------------------------------------------------------------------------------------


class Stage(NamedTuple):
    """The tasks of a stage, and the running ones (through Spark Connect, those of the whole job)."""

    n_tasks: int
    n_running: int


class Driver(Protocol):
    """The driver of a session, as far as a fit needs it."""

    def check(self) -> None:
        """Raise `ClusterError` if the session is stopped."""

    def host(self) -> str:
        """Return an address of this process that executors can connect to."""

    def n_slots(self) -> int:
        """Return the current number of tasks that can run at the same time."""

    def knows_slots(self) -> bool:
        """Whether `n_slots` is never too small."""

    def thread(self, run: Callable[[], None]) -> Thread:
        """Return an unstarted thread of the session."""

    def stage(self, number: int) -> Stage | None:
        """Return the known state of a stage."""

    def close(self) -> None:
        """Detach from the session, which continues."""


def driver_of(frame: DataFrame) -> Driver:
    """Return the driver of a frame's session."""
    return _RemoteDriver(frame) if is_remote(frame) else _LocalDriver(frame.sparkSession)


class _LocalDriver:
    """A driver in this process, read through its JVM."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def check(self) -> None:
        context = self._session.sparkContext
        if context._jsc is None or context._jsc.sc().isStopped():
            raise ClusterError("the Spark session of the data is stopped; make the DataFrame in a new one")

    def host(self) -> str:
        return str(self._session.conf.get("spark.driver.host"))

    def n_slots(self) -> int:
        java: Any = self._session.sparkContext._jsc.sc()
        return int(java.maxNumConcurrentTasks(java.resourceProfileManager().resourceProfileFromId(0)))

    def knows_slots(self) -> bool:
        return True

    def thread(self, run: Callable[[], None]) -> Thread:
        from pyspark import InheritableThread

        return InheritableThread(run, session=self._session, daemon=True)

    def stage(self, number: int) -> Stage | None:
        info = self._session.sparkContext.statusTracker().getStageInfo(number)
        return None if info is None else Stage(info.numTasks, info.numActiveTasks)

    def close(self) -> None:
        pass


class _RemoteDriver:
    """A driver behind Spark Connect, which reports the progress of jobs every two seconds."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame
        self._session: Any = frame.sparkSession
        self._stages: dict[int, Stage] = {}

    def _hear(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        self._stages |= {stage.stage_id: Stage(stage.num_tasks, inflight_tasks) for stage in stages or ()}

    def check(self) -> None:
        pass  # `SparkSource` has asked the server for the columns

    def host(self) -> str:
        from distributed.utils import get_ip

        server = self._session.client.host.strip("[]")
        address: str = get_ip(server, 80)  # type: ignore[no-untyped-call]
        # Executors on other machines need another address of a server on this machine.
        return (
            str(self._session.conf.get("spark.driver.host")) if ipaddress.ip_address(address).is_loopback else address
        )

    def n_slots(self) -> int:
        functions = functions_of(self._frame)
        rows = self._session.range(_MANY_ROWS).select(functions.spark_partition_id().alias("partition"))
        n_cores: int = rows.agg(functions.max("partition")).first()[0] + 1  # Spark's default parallelism
        return max(1, n_cores // int(self._session.conf.get("spark.task.cpus", "1")))

    def knows_slots(self) -> bool:
        return False

    def thread(self, run: Callable[[], None]) -> Thread:
        self._session.registerProgressHandler(self._hear)
        return Thread(target=run, daemon=True)

    def stage(self, number: int) -> Stage | None:
        return self._stages.get(number)

    def close(self) -> None:
        self._session.removeProgressHandler(self._hear)

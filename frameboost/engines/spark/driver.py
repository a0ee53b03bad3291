"""The driver of a Spark session, asked in this process or through Spark Connect."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from threading import Thread
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from frameboost.data.spark_source import functions_of, is_remote
from frameboost.errors import ClusterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Driver", "Stage", "driver_of"]

# More rows than a cluster has slots, so that no partition of them is empty.
_MANY_ROWS = 1 << 20


class Stage(NamedTuple):
    """The tasks of a stage, and those of them that run (through Spark Connect: all of the job's that run)."""

    n_tasks: int
    n_running: int


class Driver(Protocol):
    """What a fit asks the driver of a session."""

    def check(self) -> None:
        """Raise `ClusterError` if the session is stopped."""

    def host(self) -> str:
        """Return the address of this process that executors can connect to."""

    def n_slots(self) -> int:
        """Return the number of tasks that can run at the same time now."""

    def knows_slots(self) -> bool:
        """Whether `n_slots` is never too small."""

    def thread(self, run: Callable[[], None]) -> Thread:
        """Return a thread of the session, to be started."""

    def stage(self, number: int) -> Stage | None:
        """Return what is known of a stage."""

    def close(self) -> None:
        """Take leave of the session, which goes on."""


def driver_of(frame: DataFrame) -> Driver:
    """Return the driver of a frame's session."""
    return _RemoteDriver(frame) if is_remote(frame) else _LocalDriver(frame.sparkSession)


class _LocalDriver:
    """A driver in this process, asked through its JVM."""

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
    """A driver behind Spark Connect, which tells the progress of jobs every other second."""

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
        own: str = get_ip(server, 80)  # type: ignore[no-untyped-call]
        # Of a server on this machine, executors on other machines are told another address.
        return str(self._session.conf.get("spark.driver.host")) if ipaddress.ip_address(own).is_loopback else own

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

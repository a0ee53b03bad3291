"""The Spark job whose tasks hold the rows of a fit, and the Dask scheduler that they connect to."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from distributed import Client, LocalCluster

from frameboost.checks.messages import counted, reason
from frameboost.data.spark_source import SparkSource
from frameboost.engines.spark.task import Content, content, end, parse_name
from frameboost.errors import ClusterError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkStageInfo

__all__ = ["SparkJob"]

_SECONDS_BETWEEN_LOOKS = 0.05
# How long a task may wait for a slot, and how long the job's end may take before it is cancelled.
_SECONDS_WITHOUT_SLOTS, _SECONDS_TO_END = 120, 10


class SparkJob:
    """A job that reads each partition in a task, which then lives as a Dask worker until the end of the fit.

    The stage is an ordinary one, no barrier stage: these allow no ``coalesce`` and no dynamic allocation, and Spark
    tries all tasks of theirs again where one is lost.

    Parameters
    ----------
    source
        The rows.
    names
        The columns to read.
    n_tasks
        The largest number of tasks.
    """

    def __init__(self, source: SparkSource, names: Sequence[str], n_tasks: int) -> None:
        from pyspark import InheritableThread
        from pyspark.sql.functions import spark_partition_id

        self._session = source.frame.sparkSession
        self._tag = f"frameboost-{secrets.token_hex(6)}"
        self._error: BaseException | None = None
        self._cluster = LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", host=self._session.conf.get("spark.driver.host"),
            dashboard_address=":0", silence_logs=logging.CRITICAL,
        )  # type: ignore[no-untyped-call]  # fmt: skip
        self.client = Client(self._cluster, set_as_default=False, direct_to_workers=True)  # type: ignore[no-untyped-call]
        function = _function(source.arrow_schema(names), list(names), self._cluster.scheduler_address)
        rows = source.selected(names).select("*", spark_partition_id()).coalesce(n_tasks)
        rows = rows.mapInArrow(function, "nothing boolean")
        self._thread = InheritableThread(lambda: self._run(rows), session=self._session, daemon=True)
        self._thread.start()

    def _run(self, rows: Any) -> None:
        """Run the job; in a thread of its own."""
        try:
            self._session.addTag(self._tag)
            rows.collect()
        except BaseException as error:  # which `check` tells
            self._error = error

    # --- tasks --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise `ClusterError` if the job is over."""
        if self._thread.is_alive():
            return
        why = "" if self._error is None else f": {_why(self._error)}"
        raise ClusterError(f"the Spark job that holds the rows has ended{why}") from self._error

    def addresses(self) -> dict[int, str]:
        """Return the address of the worker of each partition that is there."""
        workers = self.client.scheduler_info()["workers"]
        return {parse_name(worker["name"])[1]: address for address, worker in workers.items()}

    def wait(self) -> list[Content]:
        """Wait until all tasks hold their rows; return the content of each partition."""
        n_tasks, deadline = 0, None
        while not n_tasks or len(self.addresses()) < n_tasks:
            self.check()
            if not n_tasks and (workers := self.client.scheduler_info()["workers"]):
                stage = parse_name(next(iter(workers.values()))["name"])[0]
                n_tasks, deadline = self._info(stage).numTasks, time.monotonic() + _SECONDS_WITHOUT_SLOTS
            if deadline is not None and time.monotonic() > deadline:
                self._check_started(self._info(stage).numActiveTasks, n_tasks)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        contents, addresses = self.client.run(content), self.addresses()
        if len(addresses) < n_tasks or not all(contents.values()):
            raise ClusterError(f"one of {n_tasks} tasks was lost before the fit began; try again")
        return [contents[addresses[partition]] for partition in range(n_tasks)]

    @staticmethod
    def _check_started(n_active: int, n_tasks: int) -> None:
        """Raise `ClusterError` if some tasks wait for a slot, while the others hold theirs and wait for them."""
        if n_active < n_tasks:
            raise ClusterError(
                f"only {n_active} of {counted(n_tasks, 'task')} of the fit run after {_SECONDS_WITHOUT_SLOTS} seconds, "
                "as other jobs hold the other slots; end those, or give engine=fb.Spark(shards=...) with fewer"
            )

    def content(self, address: str) -> Content | None:
        """Return the content of the rows that a worker holds."""
        found: Content | None = self.client.run(content, workers=[address])[address]
        return found

    def _info(self, stage: int) -> SparkStageInfo:
        info = self._session.sparkContext.statusTracker().getStageInfo(stage)
        if info is None:  # Spark forgets stages of jobs that are long over
            raise ClusterError("the Spark job that holds the rows is unknown to Spark; try again")
        return info

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all tasks, and with them the job; may be called more than once."""
        if self._thread.is_alive() and self.client.status == "running":
            with contextlib.suppress(OSError, TimeoutError, RuntimeError):  # tasks that are gone have ended
                self.client.run(end, on_error="ignore")
            self._thread.join(_SECONDS_TO_END)
        if self._thread.is_alive():  # a task that has not started, or still reads
            self._session.interruptTag(self._tag)
            self._thread.join(_SECONDS_TO_END)
        self.client.close()  # type: ignore[no-untyped-call]
        self._cluster.close()


def _function(schema: pa.Schema, names: list[str], scheduler: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a task; Spark sends it as bytecode, so that nothing is imported before its first line."""

    def function(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None:  # polars takes all cores of the machine unless it is told before its import
            os.environ.setdefault("POLARS_MAX_THREADS", str(context.cpus()))
        from frameboost.engines.spark.task import hold

        hold(batches, schema, names, scheduler)
        return iter(())

    return function


def _why(error: BaseException) -> str:
    """Return the first line of Spark's error, or the last line of a traceback of Python in a task."""
    text = str(error).strip()
    return reason(ValueError(text.rpartition("\n")[2])) if "Traceback (most recent" in text else reason(error)

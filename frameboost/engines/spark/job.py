"""The Spark job whose tasks hold the rows of a fit, and the Dask scheduler that they connect to."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from distributed import Client, LocalCluster

from frameboost.checks.messages import counted, reason
from frameboost.data.spark_source import SparkSource
from frameboost.engines.spark.driver import Driver, Stage
from frameboost.engines.spark.task import Content, content, end, parse_name
from frameboost.errors import ClusterError, DataError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SparkJob"]

_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_ENDS = 0.05, 0.5
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
    driver
        The driver of the source's session.
    n_tasks
        The largest number of tasks.
    timeout
        How many seconds they may take to start; None for `_SECONDS_WITHOUT_SLOTS`.
    """

    def __init__(
        self, source: SparkSource, names: Sequence[str], driver: Driver, n_tasks: int, timeout: float | None = None
    ) -> None:
        self._timeout = _SECONDS_WITHOUT_SLOTS if timeout is None else timeout
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
        return {partition: address for (_, partition), address in self._workers().items()}

    def _workers(self) -> dict[tuple[int, int], str]:
        """Return the address of the worker of each stage and partition."""
        workers = self.client.scheduler_info()["workers"]
        return {parse_name(worker["name"]): address for address, worker in workers.items()}

    def wait(self) -> list[Content]:
        """Wait until all tasks hold their rows; return the content of each partition."""
        deadline = time.monotonic() + self._timeout
        while True:
            if not self._thread.is_alive() and self._error is None:  # a DataFrame without partitions has no tasks
                raise DataError("the data has no rows; training needs at least 2")
            self.check()
            workers = self._workers()
            stage = next((self._driver.stage(number) for number, _ in workers), None)
            if not workers:  # all tasks still read
                deadline = time.monotonic() + self._timeout
            if len(workers) == self._most_tasks or (stage is not None and len(workers) == stage.n_tasks):
                contents = self._contents(workers)
                if contents is not None:
                    return contents
            elif time.monotonic() > deadline:
                _check_started(stage, self._timeout)
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _contents(self, workers: Mapping[tuple[int, int], str]) -> list[Content] | None:
        """Return the content of each partition, None if a worker has gone."""
        found = [self.content(workers[key]) for key in sorted(workers)]
        return None if None in found else [content for content in found if content is not None]

    def content(self, address: str) -> Content | None:
        """Return the content of the rows that a worker holds, None if it has gone."""
        found: dict[str, Content | None] = self.client.run(content, workers=[address], on_error="ignore")
        return found.get(address)

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all tasks, and with them the job; may be called more than once."""
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
    """Raise `ClusterError` if an address is not one of this machine."""
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
    """Raise `ClusterError` if some tasks wait for a slot, while the others hold theirs and wait for them."""
    if stage is None:
        raise ClusterError(
            f"Spark has told nothing of the job that holds the rows for {seconds:g} seconds (task_timeout); with "
            "Spark Connect, set spark.connect.progress.reportInterval to some seconds"
        )
    if stage.n_running < stage.n_tasks:
        raise ClusterError(
            f"only {stage.n_running} of {counted(stage.n_tasks, 'task')} of the fit run after "
            f"{seconds:g} seconds (task_timeout), as the session has no more slots, or other jobs hold them; end "
            "those, or give engine=fb.Spark(shards=...) with fewer"
        )


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
    r"""Return the first line of Spark's error, or what Python raised in a task.

    >>> _why(RuntimeError("a task: Traceback (most recent call last):\n  File ...\nValueError: no\n SQLSTATE: 38000"))
    'ValueError: no'
    """
    _, _, traceback = str(error).rpartition("Traceback (most recent call last):\n")
    raised = next((line for line in traceback.splitlines() if line and not line.startswith(" ")), str(error))
    return reason(ValueError(raised))

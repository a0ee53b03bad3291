"""``fit(spark_df, engine=fb.Spark(...))``: shards in the tasks of a job in the user's Spark session."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from frameboost.checks.messages import counted, shown
from frameboost.data.spark_source import SparkSource
from frameboost.engines.contract import EngineDescription, EngineRequest, HistogramEngine
from frameboost.engines.shards.engine import ShardedEngine
from frameboost.errors import ClusterError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from frameboost.engines.spark.job import Driver, Timeouts

__all__ = ["Spark"]

_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Spark:
    """A Spark session as an engine: the tasks of one job train on shards of the rows; the model is that of one machine.

    The default for a Spark DataFrame: ``fb.fit(spark_df, "delay")``. One job reads the rows and runs as long as the
    fit. Each task keeps codes and margins of its rows in memory; only histograms, counts and splits cross the network,
    through a scheduler of ``dask.distributed`` in the driver. If an executor is lost, Spark retries its task, which
    reads its rows again and is replayed; the model is the same.

    Parameters
    ----------
    engine
        The engine of each shard: ``numba``, ``polars`` or ``duckdb``.
    shards
        The maximum number of shards; each is a task, and all run at the same time. By default the number of task slots.
    task_timeout
        How long to wait for tasks, in seconds or as a string such as ``"5 minutes"``; by default 10 seconds for
        executors, 2 minutes for all tasks to start, and 10 minutes for Spark to retry a lost task.

    Examples
    --------
    >>> import frameboost as fb
    >>> model = fb.fit(spark.table("flights"), "delay", engine=fb.Spark(shards=16))  # doctest: +SKIP
    """

    engine: str = "numba"
    shards: int | None = None
    task_timeout: float | str | None = None

    def describe(self, engine: EngineDescription) -> EngineDescription:
        """Return the engine description of the session from that of each shard.

        Raises
        ------
        ParameterError
            If an argument has a wrong type or value, or a package is not installed.
        """
        try:
            import distributed  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError as error:
            raise ParameterError(
                f"training in Spark needs {error.name}: pip install 'frameboost[spark]', here and on the executors"
            ) from error
        from frameboost.engines.dask.cluster import seconds

        if self.shards is not None and (type(self.shards) is not int or self.shards < 1):
            raise ParameterError(f"the shards of fb.Spark must be an integer of at least 1, not {shown(self.shards)}")
        timeout = None if self.task_timeout is None else seconds(self.task_timeout, "task_timeout of fb.Spark")
        openers = {HistogramEngine: partial(self._open, engine, timeout)}
        return EngineDescription("spark", openers, ("spark",), threads_set_by="spark.task.cpus")

    def _open(self, engine: EngineDescription, timeout: float | None, request: EngineRequest) -> HistogramEngine:
        from frameboost.engines.dask.worker import ShardPlan
        from frameboost.engines.spark.job import SparkJob, SparkShards, Timeouts, driver_of

        if not isinstance(request.source, SparkSource):  # held-out rows, which `HeldOut.like` read
            held_out: HistogramEngine = engine.openers[HistogramEngine](request)
            return held_out
        driver, timeouts = driver_of(request.source.frame), Timeouts.of(timeout)
        n_tasks = self._n_tasks(driver, request.source.frame.sparkSession, timeouts)
        job = SparkJob(request.source, request.columns(), driver, n_tasks, timeouts)
        plan = ShardPlan(
            engine.openers[HistogramEngine], None, request.features, dict(request.roles), request.parameters
        )
        shards = SparkShards(job, engine, plan, in_order=request.parameters.subsample < 1)
        return ShardedEngine(shards, request.features, request.roles)

    def _n_tasks(self, driver: Driver, session: SparkSession, timeouts: Timeouts) -> int:
        """Return the number of tasks that can run at the same time; check that it covers the user's ``shards``."""
        driver.check()
        is_growing = session.conf.get("spark.dynamicAllocation.enabled", "false") == "true"
        if self.shards and (is_growing or not driver.knows_slots()):
            return self.shards
        n_tasks = self.shards or 1
        deadline = time.monotonic() + timeouts.slots
        while (slots := driver.n_slots()) < n_tasks:
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"fb.Spark needs {counted(n_tasks, 'task slot')} at the same time, but the session has {slots}; "
                    "add executors or cores, or set fewer shards"
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        return self.shards or slots

"""A session with two executors of their own processes, in a process of its own: a process has only one SparkContext."""

import os
import shutil
import socket
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import polars as pl

from tests.support.frames import every_type

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    _PORT = free.getsockname()[1]
FEATURES = ["float64", "int16", "decimal", "date", "string"]
OPTIONS = {"features": FEATURES, "n_estimators": 3, "max_depth": 4, "learning_rate": 0.5, "verbose": False}


_jobs: dict[Callable[[Any], Any], Future[Any]] = {}
_processes: list[ProcessPoolExecutor] = []


def is_there() -> bool:
    """Whether Spark and what it needs are installed."""
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    return has_java and all(find_spec(name) is not None for name in ("pyspark", "distributed"))


def start(job: Callable[[Any], Any]) -> Future[Any]:
    """Run a function of the session in the process, after those that were started before; only once."""
    if not _processes:
        _processes.append(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
    if job not in _jobs:
        _jobs[job] = _processes[0].submit(_in_session, job)
    return _jobs[job]


def end() -> None:
    """End the process."""
    _jobs.clear()
    while _processes:
        _processes.pop().shutdown(cancel_futures=True)


def _in_session(job):
    return job(session())


def session():
    warnings.simplefilter("ignore")  # pyspark warns of pandas 3
    import pyspark
    from pyspark.sql import SparkSession

    os.environ["SPARK_HOME"], os.environ["PYSPARK_PYTHON"] = pyspark.__path__[0], sys.executable
    # Three JVMs live for half a minute: the fast compiler, one thread to collect garbage, no check of Spark's classes.
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    options = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
        "spark.driver.extraJavaOptions": quick, "spark.executor.extraJavaOptions": quick,
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[3]), "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.task.maxFailures": "2", "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(_PORT),
    }  # fmt: skip
    return SparkSession.builder.master("local-cluster[2,1,1024]").config(map=options).getOrCreate()


@cache
def remote_session(spark):
    """Return a session of Spark Connect to the same cluster."""
    from pyspark.sql.connect.session import SparkSession

    remote = SparkSession.builder.remote(f"sc://127.0.0.1:{_PORT}").create()
    remote.conf.set("spark.connect.progress.reportInterval", "100ms")
    return remote


@cache
def rows_of(spark, n_rows=600):
    """Return rows in four partitions, as a Spark DataFrame and as polars has them in the order of Spark."""
    frame = every_type(n_rows, seed=4).select(*FEATURES, "boolean", "amount", "late", "w").with_row_index("id")
    rows = spark.createDataFrame(frame.cast({"id": pl.Int64}).to_arrow())
    data = rows.repartition(4, "int16").sortWithinPartitions("id").cache()  # a shuffle alone has no order
    return data, pl.DataFrame(data.toArrow())

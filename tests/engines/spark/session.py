"""A session with two executors of their own processes, in a process of its own: a process has only one SparkContext."""

import os
import shutil
import socket
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest

from tests.support.frames import every_type

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    _PORT = free.getsockname()[1]
FEATURES = ["float64", "int16", "decimal", "date", "string"]
OPTIONS = {"features": FEATURES, "n_estimators": 3, "max_depth": 4, "learning_rate": 0.5, "verbose": False}


@contextmanager
def spark_process():
    """Yield a function that runs a function of ``spark`` and more in the process, and returns its result."""
    pytest.importorskip("pyspark", reason="Spark comes from the package pyspark")
    pytest.importorskip("distributed")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield lambda function, *arguments: process.submit(_in_session, function, *arguments).result()


def _in_session(function, *arguments):
    return function(session(), *arguments)


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

"""Train W in Spark, on two executors with one core each: frameboost, xgboost.spark, MLlib's gradient boosted trees.

    python benchmarks/spark_cluster.py [--rows 1000000] [--trees 20] [--mllib-trees 4] [--rounds 2]

Prints the best time of each in seconds, and what a tree takes. MLlib grows fewer trees; its time for all of them is
worked out from two runs, of one tree and of ``--mllib-trees``. All read the same cached DataFrame of two partitions;
MLlib's has the features in one vector. Java and pyspark are needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import polars as pl
import pyspark
from peers import BINS, DEPTH, RATE
from pyspark.ml.classification import GBTClassifier
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import DataFrame, SparkSession
from xgboost.spark import SparkXGBClassifier

import frameboost as fb


def session() -> SparkSession:
    os.environ["SPARK_HOME"], os.environ["PYSPARK_PYTHON"] = pyspark.__path__[0], sys.executable
    options = {
        "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
        "spark.driver.memory": "4g", "spark.executorEnv.PYTHONPATH": str(Path(fb.__file__).parents[1]),
    }  # fmt: skip
    return SparkSession.builder.master("local-cluster[2,1,1024]").config(map=options).getOrCreate()


def frameboost(rows: DataFrame, n_trees: int) -> Any:
    return fb.fit(
        rows, data.LABEL, objective="binary:logistic", n_estimators=n_trees, max_depth=DEPTH, learning_rate=RATE,
        max_bin=BINS, verbose=False,
    )  # fmt: skip


def xgboost(rows: DataFrame, n_trees: int) -> Any:
    features = [name for name in rows.columns if name != data.LABEL]
    return SparkXGBClassifier(
        features_col=features, label_col=data.LABEL, num_workers=2, n_estimators=n_trees, max_depth=DEPTH,
        learning_rate=RATE, max_bin=BINS, tree_method="hist",
    ).fit(rows)  # fmt: skip


def mllib(rows: DataFrame, n_trees: int) -> Any:
    return GBTClassifier(labelCol=data.LABEL, maxIter=n_trees, maxDepth=DEPTH, stepSize=RATE, maxBins=BINS).fit(rows)


def best(train: Callable[[DataFrame, int], Any], rows: DataFrame, n_trees: int, rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        train(rows, n_trees)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in {"rows": 1_000_000, "trees": 20, "mllib-trees": 4, "rounds": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    spark = session()
    frame = data.made_up(given.rows).cast({data.LABEL: pl.Int32})
    rows = spark.createDataFrame(frame.to_arrow()).repartition(2).cache()
    features = [name for name in rows.columns if name != data.LABEL]
    vectors = VectorAssembler(inputCols=features, outputCol="features").transform(rows).select("features", data.LABEL)
    vectors = vectors.repartition(2).cache()
    few = rows.limit(1000).repartition(2)
    print(f"{rows.count():,} and {vectors.count():,} rows × {len(features)}", flush=True)
    frameboost(few, 2)  # compiles its kernels, once on a machine
    xgboost(few, 2)
    for train, read, n_trees in [(frameboost, rows, given.trees), (xgboost, rows, given.trees)]:
        seconds = best(train, read, n_trees, given.rounds)
        print(f"{train.__name__}: {n_trees} trees {seconds:.1f} s", flush=True)
    first = best(mllib, vectors, 1, 1)
    some = best(mllib, vectors, given.mllib_trees, 1)
    a_tree = (some - first) / (given.mllib_trees - 1)
    print(f"mllib: 1 tree {first:.1f} s, {given.mllib_trees} trees {some:.1f} s, {a_tree:.2f} s a tree; {given.trees} "
          f"trees would take {first + a_tree * (given.trees - 1):.1f} s")  # fmt: skip
    spark.stop()


if __name__ == "__main__":
    main()

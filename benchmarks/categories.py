"""Measure a tree over a column with many categories, and over the same rows with few, in each engine; see README.md.

Each measurement runs in its own process, so that it sees its own peak memory. It reports CPU time of all threads, which
is more stable than wall-clock time on a shared machine.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import duckdb
import numpy as np
import polars as pl

import frameboost as fb

ENGINES = ("numba", "polars", "duckdb")
SETTINGS = {"max_depth": 6, "learning_rate": 0.1, "verbose": False}


def workload(n_rows: int, n_categories: int) -> pl.DataFrame:
    """Return five numbers, strings of ``n_categories`` and of at most 1,000 values, and a label depending on all."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_rows, 5), dtype=np.float32)
    many = rng.integers(0, n_categories, n_rows)
    some = rng.integers(0, min(n_categories, 1000), n_rows)
    effect = rng.normal(size=n_categories)
    y = x[:, 0] * x[:, 1] + effect[many] + effect[some] / 2 + rng.standard_normal(n_rows)
    names = pl.Series([f"category {i}" for i in range(n_categories)])
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(5)]).with_columns(
        many=names.gather(many), some=names.gather(some), y=pl.Series(y)
    )


def measure(engine: str, n_rows: int, n_categories: int, n_trees: int) -> None:
    """Print the seconds to prepare, the seconds a tree, the peak in megabytes beyond the data, and the model's size."""
    frame: object = workload(n_rows, n_categories)
    if engine == "duckdb":
        con = duckdb.connect()
        con.execute("CREATE TABLE t AS FROM frame")
        frame = con.table("t")
    fb.fit(workload(2_000, 1_500), "y", engine=engine, n_estimators=1, **SETTINGS)  # compiles the kernels
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = {}
    for trees in (1, 1 + n_trees):
        start = time.process_time()
        model = fb.fit(frame, "y", engine=engine, n_estimators=trees, **SETTINGS)
        seconds[trees] = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    a_tree = (seconds[1 + n_trees] - seconds[1]) / n_trees
    megabytes = (len(model.to_json()) / 2**20, len(model.sql()) / 2**20)
    print(
        f"{engine:<8}{n_categories:>11,}{seconds[1] - a_tree:>10.2f}{a_tree:>8.2f}{(peak - before) / 1024:>10.0f}"
        f"{megabytes[0]:>9.2f}{megabytes[1]:>7.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--engine", choices=ENGINES, nargs="+", default=list(ENGINES))
    parser.add_argument("--categories", type=int, nargs="+", default=[256, 100_000])
    parser.add_argument("--here", action="store_true", help="measure in this process")
    given = parser.parse_args()
    if given.here:
        measure(given.engine[0], given.rows, given.categories[0], given.trees)
        return
    print("engine   categories   prepare    tree   peak MB  file MB SQL MB", flush=True)
    for engine in given.engine:
        for n_categories in given.categories:
            options = ["--engine", engine, "--categories", str(n_categories), "--rows", str(given.rows)]
            command = [sys.executable, __file__, "--here", *options, "--trees", str(given.trees)]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()

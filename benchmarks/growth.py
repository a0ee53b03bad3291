"""Measure how time and memory grow with rows, columns, depth, bins, classes, categories and trees.

Each point is a process of its own, which trains, predicts, evaluates, writes SQL, and saves and reads the model. An
exponent is the slope between the last two points in logarithms: 1 is linear. What grows faster than its input, with an
exponent above 1.15, is marked. See README.md.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import numpy as np
import peers
import polars as pl
import reporting
from memory import Watch

MOST = 1.15
BASE: dict[str, int] = {
    "rows": 100_000,
    "columns": 10,
    "depth": 6,
    "bins": 256,
    "classes": 1,
    "categories": 0,
    "trees": 10,
}
# The sizes in full, and with --quick; what else differs from BASE, so that the dimension is what costs.
SIZES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, int]]] = {
    "rows": ((10_000, 100_000, 1_000_000, 10_000_000), (1_000, 10_000), {}),
    "columns": ((10, 100, 1_000, 3_000), (10, 100), {"rows": 20_000}),
    "depth": ((2, 4, 6, 8, 12, 16), (2, 4), {}),
    "bins": ((16, 64, 256, 1_024, 4_096, 16_384), (16, 64), {}),
    "classes": ((3, 10, 30, 100, 300), (3, 10), {"rows": 20_000}),
    "categories": ((10, 100, 1_000, 10_000, 100_000, 1_000_000), (10, 100), {"rows": 2_000_000, "trees": 5}),
    "trees": ((10, 100, 1_000, 5_000), (10, 100), {"rows": 20_000}),
}
STEPS = ("train", "predict", "class", "evaluate", "sql", "save", "read")
_OF_MODEL = ("sql", "save", "read")
_WARM_ROWS = 2_000


def made_up(size: dict[str, int]) -> pl.DataFrame:
    """Return rows of a size: W, with its label cut into classes or its first column replaced by categories."""
    frame = data.made_up(size["rows"], size["columns"], is_binary=False)
    if size["categories"]:
        rng = np.random.default_rng(0)
        which = rng.integers(0, size["categories"], size["rows"])
        effect = pl.Series(rng.normal(size=size["categories"])[which])
        names = pl.Series([f"category {i}" for i in range(size["categories"])])
        frame = frame.with_columns(x0=names.gather(which), y=pl.col(data.LABEL) + effect)
    if size["classes"] > 1:
        y = frame[data.LABEL].to_numpy()
        edges = np.quantile(y, np.arange(1, size["classes"]) / size["classes"])
        frame = frame.with_columns(y=pl.Series(np.digitize(y, edges)))
    return frame


def measure(engine: str, size: dict[str, int]) -> dict[str, dict[str, float]]:
    """Return the seconds, CPU seconds and megabytes of each step, and the numbers of nodes and letters."""
    frame, warm = made_up(size), made_up(size | {"rows": min(_WARM_ROWS, size["rows"])})
    settings = {"max_depth": size["depth"], "max_bin": size["bins"]}
    objective = data.CLASSES if size["classes"] > 1 else data.REGRESSION
    settings |= {"num_class": size["classes"]} if size["classes"] > 1 else {}
    features = frame.drop(data.LABEL)
    import frameboost as fb

    def fit(rows: pl.DataFrame, n_trees: int) -> fb.Model:
        table: Any = data.table(rows) if engine == "duckdb" else rows
        return peers.fit(table, n_trees, objective, engine=engine, **settings)

    peers.fit(warm, 1, objective, **settings).predict(warm.drop(data.LABEL))  # compiles the kernels
    found: dict[str, dict[str, float]] = {}
    model = _step(found, "train", lambda: fit(frame, size["trees"]))
    _step(found, "predict", lambda: model.predict(features))
    if size["classes"] > 1:
        _step(found, "class", lambda: model.predict(features, "class"))
    _step(found, "evaluate", lambda: model.evaluate(frame, data.LABEL))
    text = _step(found, "sql", lambda: model.query("rows"))
    with tempfile.TemporaryDirectory(prefix="frameboost-growth-") as folder:
        path = Path(folder) / "model.json"
        _step(found, "save", lambda: model.save(path))
        _step(found, "read", lambda: fb.load(path).predict(features.head(1)))
        letters = path.stat().st_size
    found["model"] = {"nodes": len(model.trees), "letters of SQL": len(text), "bytes": letters}
    return found


def _step(found: dict[str, dict[str, float]], name: str, run: Callable[[], Any]) -> Any:
    watch, start, cpu = Watch(), time.perf_counter(), time.process_time()
    result = run()
    found[name] = {"s": time.perf_counter() - start, "cpu": time.process_time() - cpu, "MB": watch.peak()}
    return result


def exponent(points: list[tuple[float, float]]) -> float | None:
    """Return the slope between the last two points in logarithms; None where the input hardly grows."""
    (x0, y0), (x1, y1) = points[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0) if min(y0, y1) > 0 and x1 > 1.4 * x0 else None


def rows_of(dimension: str, found: dict[int, dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a row of the table for each step and each of CPU time and memory."""
    sizes = list(found)
    table = []
    for step in (step for step in STEPS if step in found[sizes[0]]):
        for unit, least in (("cpu", 0.05), ("MB", 50.0)):
            values = [found[size][step][unit] for size in sizes]
            # Of depth d a tree has up to 2**d nodes, so nodes count there; for what writes or reads a model its size.
            inputs = [found[size]["model"]["bytes"] if step in _OF_MODEL else size for size in sizes]
            if dimension == "depth" and step == "train":
                inputs = [found[size]["model"]["nodes"] for size in sizes]
            slope = exponent(list(zip(inputs, values, strict=True))) if len(sizes) > 1 else None
            text = "" if slope is None else f"{slope:.2f}{' GROWS' * (slope > MOST and values[-1] > least)}"
            name = "CPU s" if unit == "cpu" else unit
            table.append((dimension, step, name, "  ".join(f"{value:.3g}" for value in values), text))
    return table


def _times(found: dict[str, Any]) -> str:
    return ", ".join(f"{step} {found[step]['s']:.3g} s" for step in STEPS if step in found)


def _alone(engine: str, size: dict[str, int], limit: float) -> dict[str, Any] | str:
    """Measure in a process of its own; return the last line of its message if it fails."""
    command = [sys.executable, __file__, "--engine", engine, "--here", json.dumps(size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"takes more than {limit:.0f} s"
    if done.returncode:
        return done.stderr.strip().rpartition("\n")[2][:200] or f"ended with {done.returncode}"
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=["numba", "polars", "duckdb"], default="numba")
    parser.add_argument("--only", nargs="+", choices=list(SIZES), default=list(SIZES), metavar="DIMENSION")
    parser.add_argument("--quick", action="store_true", help="two small sizes each: checks that everything runs")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="the most that a point may take")
    parser.add_argument("--json", type=Path, help="where to write all points")
    parser.add_argument("--here", metavar="SIZE", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.engine, json.loads(given.here))))
        return
    lines: list[tuple[str, ...]] = [("against", "step", "unit", "at each size", "exponent")]
    everything: dict[str, Any] = {**reporting.about({"engine": given.engine}), "results": {}}
    for dimension in given.only:
        full, quick, more = SIZES[dimension]
        found: dict[int, dict[str, Any]] = {}
        for n in quick if given.quick else full:
            result = _alone(given.engine, BASE | more | {dimension: n}, given.limit)
            if isinstance(result, str):
                print(f"{dimension} {n:,}: {result}", flush=True)
                break
            print(f"{dimension} {n:,}: {_times(result)}", flush=True)
            found[n] = result
        everything["results"][dimension] = found
        if found:
            lines += rows_of(dimension, found)
        if given.json:
            reporting.write(given.json, everything)
    print("\n" + reporting.table(lines, (True, True, True, True, True)))


if __name__ == "__main__":
    main()

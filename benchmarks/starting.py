"""The workloads with fixed costs only: importing, and training on few rows."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import data
import peers
from measuring import Comparison, Scale, Target, Way, lacking


def importing(scale: Scale) -> Comparison:
    """Import in a fresh process, from the start of the interpreter to its end."""
    targets = {"frameboost": [Target(0.5)]}
    modules = ["frameboost", "polars", "duckdb", "numba"]
    modules += [] if scale.quick else ["xgboost", "lightgbm", "sklearn"]
    # Import from bytecode, as from an installed package; a clone may have none, or be told to write none.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(Path(scale.folder) / "bytecode")
    ways = [Way(f"import {m}", partial(_start, m, environment), None, targets.get(m, ()), lacking(m)) for m in modules]
    for module, way in zip(modules, ways, strict=True):
        if way.lacking is None:
            _start(module, environment)
    return Comparison(ways, "a fresh process", rounds=1 if scale.quick else 7)


def _start(module: str, environment: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True, env=environment)


def small(scale: Scale) -> Comparison:
    """Train on a thousand rows, which measures the fixed cost of a fit."""
    rows, n_trees = data.workload(1000, 10), scale.trees(100, 100)
    ways = [peers.xgboost(rows, n_trees), peers.lightgbm(rows, n_trees),
            peers.frameboost(rows, n_trees, targets=[Target(1.5, "xgboost hist")])]  # fmt: skip
    title = f"{len(rows.frame):,} rows × 10, {n_trees} trees of depth {peers.DEPTH}"
    return Comparison(ways, title, rows.quality_name, rounds=2 if scale.quick else 20)

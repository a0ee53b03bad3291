"""Time training, scoring and importing next to other libraries, and print one table (see README.md)."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import clusters
import larger_files
import reporting
import scoring
import starting
import training
from measuring import THREADS, Comparison, Scale

WORKLOADS: dict[str, Callable[[Scale], Comparison]] = {
    "import": starting.importing,
    "small": starting.small,
    "train": training.train,
    "wide": training.wide,
    "flights": training.flights,
    "exact": training.exact,
    "engines": training.engines,
    "joinboost": training.joinboost,
    "predict": scoring.predict,
    "sql-depth-4": partial(scoring.sql_of_depth, 4),
    "sql-depth-6": partial(scoring.sql_of_depth, 6),
    "memory": training.memory_of_training,
    "train-10m": training.train_10m,
    "larger-than-memory": training.larger,
    "larger-files": larger_files.larger_files,
    "dask": clusters.on_dask,
}
ASKED_FOR = {"larger-than-memory", "larger-files", "dask"}  # 10 GB on disk; 20 GB and root; ten minutes
NOT_QUICK = {"train-10m", "sql-depth-6"}  # at their quick sizes they repeat other workloads
RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, in two minutes: checks that everything runs, not how fast"
    )
    parser.add_argument("--only", nargs="+", choices=list(WORKLOADS), metavar="NAME",
                        help=f"of {', '.join(WORKLOADS)}; {', '.join(ASKED_FOR)} runs only if it is named")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="number of runs of each way, of which the best counts (3, quick 1)")
    parser.add_argument("--rows", type=float, default=1.0, metavar="FACTOR", help="times as many rows")
    parser.add_argument("--trees", type=int, help="number of trees in every workload")
    parser.add_argument("--joinboost", metavar="PYTHON", help="an interpreter with JoinBoost installed (see README.md)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the results (benchmarks/results/...)")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="print ratios beside those of an earlier run")
    return parser.parse_args()


def chosen_workloads(given: argparse.Namespace) -> list[str]:
    if given.only:
        return given.only
    left_out = ASKED_FOR | (NOT_QUICK if given.quick else set())
    return [name for name in WORKLOADS if name not in left_out]


def say(text: str) -> None:
    """Show progress at a terminal, on a line that is overwritten."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def measured(name: str, scale: Scale, rounds: int, wrong: list[str]) -> list[dict[str, Any]]:
    """Run one workload; append to ``wrong`` if frameboost fails or its results differ."""
    start = time.perf_counter()
    say(f"{name}: making the rows")
    comparison = WORKLOADS[name](scale)
    comparison.measure(rounds, lambda text: say(f"{name}: {text}"))
    say("")
    print(f"{time.perf_counter() - start:6.0f} s  {name}: {comparison.title}", flush=True)
    if (complaint := comparison.complaint()) is not None:
        wrong.append(f"{name}: {complaint}")
    rows = reporting.record(name, comparison)
    del comparison
    gc.collect()
    return rows


def main() -> None:
    given = arguments()
    old = reporting.read(given.compare) if given.compare else None
    warnings.filterwarnings("ignore", module="(sklearn|skl2onnx|lightgbm|xgboost|orbital|onnx)")
    if given.quick:  # spinning threads take minutes on a busy machine, and times do not count here
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    rounds = given.rounds or (1 if given.quick else 3)
    settings = {key: str(value) if isinstance(value, Path) else value for key, value in vars(given).items()}
    start, wrong = time.perf_counter(), list[str]()
    found: dict[str, Any] = {**reporting.about(settings), "results": []}
    path = given.json or RESULTS / f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}{'_quick' * given.quick}.json"
    print(f"{THREADS} threads, best of {rounds} or as many as a workload says")
    if (busy := found["load_before"] or 0) > THREADS / 4:
        print(f"the machine has other work to do (load {busy}); libraries suffer from that unequally")
    print(flush=True)
    with tempfile.TemporaryDirectory(prefix="frameboost-benchmarks-") as folder:
        scale = Scale(given.quick, folder, given.rows, given.trees, given.joinboost)
        for name in chosen_workloads(given):
            found["results"] += measured(name, scale, rounds, wrong)
            reporting.write(path, found)  # after each workload, because the next one may take long
    print("\n" + reporting.table([reporting.HEADS, *map(reporting.cells, found["results"])]))
    print(f"\nin {time.perf_counter() - start:.0f} s; ratios are to the first way of a workload; written to {path}")
    if given.quick:
        print("targets are for the full sizes: --quick shows that everything runs")
    if old is not None:
        print("\n" + reporting.changes(old, found))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

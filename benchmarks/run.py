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

import calls
import clusters
import databases
import everyday
import few_rows
import first_use
import larger_files
import reporting
import scoring
import stars
import stars_in_duckdb
import starting
import training
import variants
from measuring import THREADS, Comparison, Scale

GROUPS: dict[str, dict[str, Callable[[Scale], Comparison]]] = {
    "starting": {"import": starting.importing, "small": starting.small, "first-use": first_use.first_use},
    "training": {
        "train": training.train,
        "wide": training.wide,
        "flights": training.flights,
        "exact": training.exact,
        "memory": training.memory_of_training,
        "train-10m": training.train_10m,
    },
    "everyday": {
        **{name: partial(everyday.train, path) for name, path in everyday.PATHS.items()},
        "tables": everyday.tables,
    },
    "stars": {**stars.WORKLOADS, **stars_in_duckdb.WORKLOADS},
    "engines": {"engines": training.engines, **variants.WORKLOADS, "joinboost": training.joinboost},
    "scoring": {
        "predict": scoring.predict,
        **{name: partial(calls.predict, kind) for name, kind in calls.CALLS.items()},
        "save-and-load": calls.save_and_load,
    },
    "sql": {
        "sql-depth-4": partial(scoring.sql_of_depth, 4),
        "sql-depth-6": partial(scoring.sql_of_depth, 6),
        **few_rows.WORKLOADS,
    },
    "databases": databases.WORKLOADS,
    "large": {
        "larger-than-memory": training.larger,
        "larger-files": larger_files.larger_files,
        "dask": clusters.on_dask,
    },
}
WORKLOADS = {name: workload for group in GROUPS.values() for name, workload in group.items()}
ASKED_FOR = {*GROUPS["large"], *GROUPS["stars"]}  # 10 GB on disk; 20 GB and root; ten minutes each
# At their quick sizes these repeat other workloads.
NOT_QUICK = {"train-10m", "sql-depth-6", "predict-1000", "predict-depth-7", "predict-depth-10", "predict-depth-14",
             "predict-2000-columns", "few-rows-10x2", "few-rows-300x6", "few-rows-500x8",
             "few-rows-1000x12"}  # fmt: skip
RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, in three minutes: checks that everything runs, not how fast"
    )
    parser.add_argument("--only", nargs="+", choices=[*GROUPS, *WORKLOADS], metavar="NAME",
                        help=f"groups ({', '.join(GROUPS)}), or of {', '.join(WORKLOADS)}")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="number of runs of each way, of which the best counts (3, quick 1)")
    parser.add_argument("--rows", type=float, default=1.0, metavar="FACTOR", help="times as many rows")
    parser.add_argument("--trees", type=int, help="number of trees in every workload")
    parser.add_argument("--joinboost", metavar="PYTHON", help="an interpreter with JoinBoost installed (see README.md)")
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="compare CPU seconds, and let threads sleep while they wait: for a machine with other work",
    )
    parser.add_argument("--tables", metavar="FOLDER", help="a folder of real tables for the workload tables")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write the results (benchmarks/results/...)")
    parser.add_argument("--compare", type=Path, metavar="OLD.json", help="print ratios beside those of an earlier run")
    return parser.parse_args()


def chosen_workloads(given: argparse.Namespace) -> list[str]:
    if given.only:
        return list(dict.fromkeys(name for asked in given.only for name in GROUPS.get(asked, (asked,))))
    left_out = ASKED_FOR | (NOT_QUICK if given.quick else set())
    return [name for name in WORKLOADS if name not in left_out]


def say(text: str) -> None:
    """Show progress at a terminal, on a line that is overwritten."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def measured(name: str, scale: Scale, rounds: int, by_cpu: bool, wrong: list[str]) -> list[dict[str, Any]]:
    """Run one workload; append to ``wrong`` if frameboost fails or its results differ."""
    start = time.perf_counter()
    say(f"{name}: making the rows")
    comparison = WORKLOADS[name](scale)
    comparison.by_cpu = by_cpu
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
    if given.quick or given.cpu:  # spinning threads take minutes on a busy machine, and times do not count here
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
        scale = Scale(given.quick, folder, given.rows, given.trees, given.joinboost, given.tables)
        for name in chosen_workloads(given):
            found["results"] += measured(name, scale, rounds, given.cpu, wrong)
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

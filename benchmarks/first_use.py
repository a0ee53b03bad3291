"""The workload for first use: CPU seconds of a fresh process, with an empty and with a full cache of kernels.

    python benchmarks/first_use.py numba explain

prints what numba compiles for a first fit in that engine, and for the explanation after it: CPU seconds by function,
without those of the functions that it calls, and the number of compilations.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import data
import reporting
from measuring import Comparison, Scale, Target, Way, lacking

_ENGINES = ("numba", "polars", "duckdb")
_FIT = """
import polars as pl, frameboost as fb
rows = pl.read_parquet({path!r})
if {engine!r} == "duckdb":
    import duckdb
    rows = duckdb.sql("FROM rows")
model = fb.fit(rows, "y", engine={engine!r}, verbose=False)
"""
_EXPLAIN = 'model.explain(pl.read_parquet({path!r}).drop("y"))\n'
_XGBOOST = """
import polars as pl, xgboost as xgb
rows = pl.read_parquet({path!r})
matrix = xgb.QuantileDMatrix(rows.drop("y").to_numpy(), rows["y"].to_numpy())
xgb.train({{"objective": "binary:logistic"}}, matrix, 100)
"""
_LIGHTGBM = """
import polars as pl, lightgbm as lgb
rows = pl.read_parquet({path!r})
matrix = lgb.Dataset(rows.drop("y").to_numpy(), rows["y"].to_numpy())
lgb.train({{"objective": "binary", "num_leaves": 64, "verbose": -1}}, matrix, 100)
"""
_COMMAND = ["-m", "frameboost", "train", "{path}", "--target", "y", "-o", "{folder}/first.json"]
# Counts and times compilations; numba says when one begins and ends, in the thread that compiles.
_LISTEN = """
import atexit, json, threading, time
from numba.core import event
class _Compilations(event.Listener):
    def __init__(self):
        self.open, self.found = threading.local(), []
    def on_start(self, about):
        self.open.__dict__.setdefault("stack", []).append([time.thread_time(), 0.0])
    def on_end(self, about):
        now, (start, inner) = time.thread_time(), self.open.stack.pop()
        if self.open.stack:
            self.open.stack[-1][1] += now - start
        function = about.data["dispatcher"].py_func
        types = ", ".join(map(str, about.data["args"]))
        self.found.append((function.__module__, function.__qualname__, types, now - start - inner))
_compilations = _Compilations()
event.register("numba:compile", _compilations)
atexit.register(lambda: open({events!r}, "w").write(json.dumps(_compilations.found)))
"""


def first_use(scale: Scale) -> Comparison:
    """Fit, explain and train by the command line in fresh processes; the unit is CPU seconds, children included."""
    folder = Path(scale.folder)
    path = folder / "first.parquet"
    data.made_up(1_000, 10).write_parquet(path)
    engines = _ENGINES[:1] if scale.quick else _ENGINES
    scripts = {f"frameboost {engine}": _FIT.replace("{engine!r}", repr(engine)) for engine in engines}
    scripts["frameboost numba, explain"] = scripts["frameboost numba"] + _EXPLAIN
    ways = [Way("xgboost hist", partial(_cpu, _code(_XGBOOST, path)), lacking=lacking("xgboost")),
            Way("lightgbm", partial(_cpu, _code(_LIGHTGBM, path)), lacking=lacking("lightgbm"))]  # fmt: skip
    commands: dict[str, tuple[list[str], float | None, float | None]] = {
        name: (_code(script, path), None if "explain" in name else 6, None if "explain" in name else 1.5)
        for name, script in scripts.items()
    }
    command = [part.format(path=path, folder=folder) for part in _COMMAND]
    commands["frameboost train, the command"] = (command, None, None)
    for number, (name, (arguments, empty, full)) in enumerate(commands.items()):
        kept = folder / f"kernels-{number}"
        reason = "compiles for a minute: not with --quick" if scale.quick else None
        ways.append(
            Way(f"{name}, no cache", partial(_emptied, kept, arguments), targets=_at_most(empty), lacking=reason)
        )
        cache = None if scale.quick else kept  # what the user has, with --quick
        ways.append(Way(f"{name}, cache", partial(_cpu, arguments, cache), targets=_at_most(full)))
    return Comparison(ways, "1,000 rows × 10, 100 trees in a fresh process, CPU seconds", unit="CPU s", timed=False,
                      rounds=1 if scale.quick else 2)  # fmt: skip


def _at_most(seconds: float | None) -> list[Target]:
    return [] if seconds is None else [Target(seconds)]


def _code(script: str, path: Path) -> list[str]:
    return ["-c", script.format(path=str(path))]


def _emptied(cache: Path, arguments: list[str]) -> float:
    """Run with a new cache, and leave it for the run with a full one."""
    for file in sorted(cache.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    return _cpu(arguments, cache)


def _cpu(arguments: list[str], cache: Path | None = None) -> float:
    """Return the CPU seconds of a Python process with these arguments, and of its children."""
    environment = dict(os.environ)
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- what is compiled -------------------------------------------------------------------------------------------------


def compilations(script: str, rows: Any = None) -> tuple[float, list[list[Any]]]:
    """Return the CPU seconds of a script without a cache, and the compilations: module, function, types, seconds."""
    with tempfile.TemporaryDirectory(prefix="frameboost-first-use-") as folder:
        path, events = Path(folder) / "rows.parquet", Path(folder) / "events.json"
        (data.made_up(1_000, 10) if rows is None else rows).write_parquet(path)
        arguments = ["-c", _LISTEN.format(events=str(events)) + script.format(path=str(path))]
        seconds = _cpu(arguments, Path(folder) / "kernels")
        return seconds, json.loads(events.read_text())


def _by(found: list[list[Any]], key: Callable[[list[Any]], str]) -> list[tuple[str, str, str]]:
    sums: dict[str, tuple[float, int]] = {}
    for one in found:
        seconds, number = sums.get(key(one), (0.0, 0))
        sums[key(one)] = seconds + one[3], number + 1
    ordered = sorted(sums.items(), key=lambda item: -item[1][0])
    return [(name, f"{seconds:.2f}", str(number)) for name, (seconds, number) in ordered]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=_ENGINES, nargs="?", default="numba")
    parser.add_argument("more", choices=["explain"], nargs="?", help="what to do after the fit")
    parser.add_argument("--json", type=Path, help="where to write all compilations")
    given = parser.parse_args()
    script = _FIT.replace("{engine!r}", repr(given.engine)) + (_EXPLAIN if given.more else "")
    seconds, found = compilations(script)
    if given.json:
        reporting.write(given.json, {"seconds": seconds, "compilations": found})
    compiling = sum(one[3] for one in found)
    print(f"{given.engine}: {seconds:.1f} s of CPU, {compiling:.1f} of them in {len(found)} compilations\n")
    for key in (lambda one: one[0], lambda one: f"{one[0]}.{one[1]}"):
        rows = [("compiled", "s", "times"), *_by(found, key)[:40]]
        print(reporting.table(rows, (True, False, False)) + "\n")


if __name__ == "__main__":
    main()

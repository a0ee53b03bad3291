"""Train on Parquet files larger than the memory, in processes of their own under a limit of memory.

The limit is that of a control group, which counts the page cache, too. Making one takes root on Linux.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way, lacking

FEATURES, SHARDS, GIGABYTES = 28, 8, 4
_PART = 2_500_000
_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory", "memory.limit_in_bytes"), (".", "memory.max"))  # of cgroup v1 and v2


def larger_files(scale: Scale) -> Comparison:
    """Train the kernels in shards with 4 GB: time should be linear in the rows."""
    sizes = [scale.rows(full, full // 100) for full in (10_000_000, 30_000_000, 100_000_000)]
    n_trees, folder = scale.trees(10, 2), Path(scale.folder) / "parts"
    reason = lacking_limit()
    parts = [] if reason else write_parts(folder, sizes[-1])
    found: dict[str, float] = {}

    def run(name: str, peer: str, n_rows: int) -> float:
        own = parts[: -(-n_rows // _PART)]
        seconds, found[name] = _in_child(peer, own, n_trees)
        return seconds / n_rows * 1e6

    first = f"frameboost numba, {sizes[0]:,} rows"
    ways = []
    for peer, label in (("frameboost", "frameboost numba"), ("xgboost", "xgboost ExtMemQuantileDMatrix")):
        for n_rows in sizes:
            name = f"{label}, {n_rows:,} rows"
            targets = [Target(1.3, first)] if peer == "frameboost" and n_rows != sizes[0] else []
            missing = reason or (lacking("xgboost") if peer == "xgboost" else None)
            ways.append(Way(name, partial(run, name, peer, n_rows), lambda _, name=name: found[name], targets, missing))
    title = f"{FEATURES} features, {n_trees} trees, {GIGABYTES} GB of memory, seconds per million rows"
    return Comparison(ways, title, "anonymous MB", timed=False, rounds=1)


def write_parts(folder: Path, n_rows: int) -> list[Path]:
    """Write rows of W (see README.md) to Parquet files of 2.5 million rows, and return these."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, start in enumerate(range(0, n_rows, _PART)):
        paths.append(folder / f"part-{number:03}.parquet")
        rng, n = np.random.default_rng(number), min(_PART, n_rows - start)
        x = [rng.standard_normal(n, dtype=np.float32) for _ in range(FEATURES)]
        score = x[0] * x[1] + np.sin(2 * x[2]) + x[3] ** 2 / 2 + rng.standard_normal(n, dtype=np.float32)
        frame = pl.DataFrame({f"x{i}": values for i, values in enumerate(x)} | {"y": score > 0.5})
        frame.write_parquet(paths[-1])
    return paths


# --- processes with little memory -------------------------------------------------------------------------------------


def lacking_limit() -> str | None:
    """Return why memory can't be limited, None if it can."""
    try:
        _limit_file(Path(f"frameboost-{os.getpid()}")).parent.rmdir()
    except OSError as error:
        return f"memory can't be limited by a control group: {error.strerror}"
    return None


def _limit_file(name: Path) -> Path:
    """Make a control group; return the file of its limit of memory."""
    for folder, limit in _LIMITS:
        if not (_GROUPS / folder / "cgroup.procs").exists():
            continue
        group = _GROUPS / folder / name
        group.mkdir()
        if (group / limit).exists():
            return group / limit
        group.rmdir()
    raise OSError(0, "there is none for memory")


def _in_child(peer: str, parts: Sequence[Path], n_trees: int) -> tuple[float, float]:
    """Return the seconds, and the peak of anonymous memory in megabytes, of a process with little memory."""
    limit = _limit_file(Path(f"frameboost-{os.getpid()}"))
    limit.write_text(str(GIGABYTES << 30))
    try:
        with tempfile.TemporaryDirectory(dir=parts[0].parent) as folder:
            for part in parts:
                (Path(folder) / part.name).hardlink_to(part)
            command = [sys.executable, __file__, peer, folder, str(n_trees), str(limit.with_name("cgroup.procs"))]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
    finally:
        limit.parent.rmdir()
    seconds, megabytes = map(float, done.stdout.split())
    return seconds, megabytes


class AnonymousMemory:
    """The peak of this process's anonymous memory in megabytes, sampled ten times a second."""

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            text = Path("/proc/self/status").read_text()
            self.peak = max(self.peak, int(text.partition("RssAnon:")[2].split()[0]) // 1024)
            time.sleep(0.1)


def frameboost(folder: Path, n_trees: int) -> Callable[[], Any]:
    """Return a fit of the kernels in shards."""
    import peers

    first = next(folder.glob("part-*.parquet"))
    peers.fit(pl.read_parquet(first, n_rows=500), 2, shards=2)  # compiles the kernels
    return lambda: peers.fit(str(folder / "part-*.parquet"), n_trees, shards=SHARDS)


def xgboost(folder: Path, n_trees: int) -> Callable[[], Any]:
    """Return a fit of XGBoost, which keeps its binned pages in the folder."""
    import peers
    import xgboost as xgb

    paths = sorted(folder.glob("part-*.parquet"))

    class Parts(xgb.DataIter):
        def __init__(self) -> None:
            self._next = 0
            super().__init__(cache_prefix=str(folder / "cache"))

        def next(self, input_data: Callable[..., Any]) -> bool:
            if self._next == len(paths):
                return False
            frame = pl.read_parquet(paths[self._next])
            self._next += 1
            input_data(data=frame.drop("y").to_numpy(), label=frame["y"].to_numpy())
            return True

        def reset(self) -> None:
            self._next = 0

    def run() -> Any:
        matrix = xgb.ExtMemQuantileDMatrix(Parts(), max_bin=peers.BINS, nthread=THREADS)
        return xgb.train(peers.xgboost_settings() | {"max_bin": peers.BINS}, matrix, n_trees)

    return run


def main() -> None:
    peer, folder, n_trees, processes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    processes.write_text(str(os.getpid()))
    run = {"frameboost": frameboost, "xgboost": xgboost}[peer](folder, n_trees)
    anonymous, start = AnonymousMemory(), time.perf_counter()
    kept = run()
    print(time.perf_counter() - start, anonymous.peak)
    del kept


if __name__ == "__main__":
    main()

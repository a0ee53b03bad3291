"""Measure the peak memory of training beyond the data, each library in a fresh process.

The rows are read from a file, because creating them would leave freed memory that training could reuse. A fit of fewer
rows before the measurement loads the libraries and the kernels; what it has freed goes back to the operating system.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
import numpy as np
import polars as pl

MEGABYTE = 2**20
# Enough for the kernels of large data.
WARM_ROWS = 50_000
PEERS = ("xgboost", "lightgbm", "numba", "polars", "duckdb")


def peak(peer: str, rows: Path, n_trees: int) -> float:
    """Return the peak in megabytes, measured in a new process (see `main`)."""
    command = [sys.executable, __file__, peer, str(rows), str(n_trees)]
    # polars' allocator keeps freed memory for seconds, that of reading the file too, which training may reuse or not.
    environment = os.environ | {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}")
    return float(done.stdout)


def write_rows(frame: pl.DataFrame, folder: str) -> Path:
    """Write the rows for `peak`, as Parquet and as numpy arrays."""
    path = Path(folder) / "rows.parquet"
    frame.write_parquet(path)
    np.save(path.with_suffix(".x.npy"), np.ascontiguousarray(frame.drop("y").to_numpy()))
    np.save(path.with_suffix(".y.npy"), frame["y"].to_numpy())
    return path


class Watch:
    """The peak resident memory since the object was created, minus the resident memory at that time."""

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak to what is resident now
            self._before = self._status("VmRSS")
        except OSError:
            self._before = self._all_time()

    @staticmethod
    def _status(field: str) -> float:
        text = Path("/proc/self/status").read_text()
        return float(text.partition(f"{field}:")[2].split()[0]) / 1024

    @staticmethod
    def _all_time() -> float:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MEGABYTE

    def peak(self, *, beyond: bool = True) -> float:
        """Return the peak in megabytes; with ``beyond=False`` including what was resident before."""
        try:
            most = self._status("VmHWM")
        except OSError:
            most = self._all_time()
        return most - self._before * beyond


@dataclass(frozen=True)
class _Arrays:
    """The part of `data.Data` that training on arrays needs."""

    x: np.ndarray
    y: np.ndarray
    objective, valid, frame = data.BINARY, None, None

    def query_sizes(self, frame: None) -> None:
        """Return None: there are no queries."""


def _trainer(peer: str, path: Path, n_trees: int) -> Any:
    """Load the rows, and return a function that trains on them."""
    import peers

    if peer in ("xgboost", "lightgbm"):
        x, y = np.load(path.with_suffix(".x.npy")), np.load(path.with_suffix(".y.npy"))

        train = getattr(peers, peer)
        train(_Arrays(x[:WARM_ROWS].copy(), y[:WARM_ROWS].copy()), 2).run()
        return train(_Arrays(x, y), n_trees).run
    frame = pl.read_parquet(path)
    rows: Any = data.table(frame) if peer == "duckdb" else frame
    small_rows: Any = data.table(frame.head(WARM_ROWS)) if peer == "duckdb" else frame.head(WARM_ROWS)
    if peer == "duckdb":
        del frame
    peers.fit(small_rows, 2, engine=peer)
    return lambda: peers.fit(rows, n_trees, engine=peer)


def main() -> None:
    peer, path, n_trees = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    train = _trainer(peer, path, n_trees)
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    watch = Watch()
    kept = train()
    print(watch.peak())
    del kept


if __name__ == "__main__":
    main()

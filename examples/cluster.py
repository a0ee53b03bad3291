"""Train on a Dask cluster, kill one of its workers in the middle, and get the trees of one machine.

The data are the flights of ``examples/flights.py``, one Parquet file a month. Four worker processes read three files
each and keep these rows; only histograms, splits and leaf values are passed around. The rows of the worker that is
killed are read and brought up to date on another one, so the model does not change.

    python examples/cluster.py
"""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import polars as pl
from flights import SETTINGS, read_flights, timed

try:
    from distributed import Client, LocalCluster
except ImportError:
    raise SystemExit("this example needs Dask: pip install 'frameboost[dask]'") from None

import frameboost as fb

KILLED_AFTER = 15  # rounds


def write_months(flights: pl.DataFrame, folder: Path) -> None:
    """Write a file for each month."""
    for (month,), rows in flights.group_by(pl.col("date").dt.month(), maintain_order=True):
        rows.write_parquet(folder / f"2013-{month:02}.parquet")


def main() -> None:
    """Train on one machine, on four workers, and on four workers of which one is killed."""
    with tempfile.TemporaryDirectory() as folder:
        write_months(read_flights(), Path(folder))
        files = f"{folder}/2013-*.parquet"
        print("training")
        with timed("this process (and compiling the kernels)"):
            whole = fb.fit(files, "arr_delay", **SETTINGS)
        with (
            LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,  # pyright: ignore[reportArgumentType]
            Client(cluster) as client,
        ):
            print(f"  {len(client.nthreads())} workers have started")  # pyright: ignore[reportArgumentType]
            engine = fb.Dask(client)
            with timed("four workers"):
                on_four = fb.fit(files, "arr_delay", engine=engine, **SETTINGS)

            def kill_a_worker(number: int, _: object) -> None:
                if number == KILLED_AFTER:
                    worker = next(iter(cluster.workers.values()))  # pyright: ignore[reportAttributeAccessIssue]
                    os.kill(worker.pid, signal.SIGKILL)
                    print(f"  round {number}: process {worker.pid}, a worker, is killed")

            with timed("four workers, one of them killed"):
                survived = fb.fit(files, "arr_delay", engine=engine, callbacks=[kill_a_worker], **SETTINGS)
    print(f"  equal trees: {whole == on_four == survived}")
    print(f"  equal files, byte for byte: {whole.to_json() == on_four.to_json() == survived.to_json()}")


if __name__ == "__main__":
    main()

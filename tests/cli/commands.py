"""The data of the tests of the command line, and calls of the command in this process and in another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from frameboost.cli import main

__all__ = ["ENVIRONMENT", "FEATURES", "ROOT", "call", "files", "flights", "numbers", "refused", "run", "write_data"]

ROOT = Path(__file__).parents[2]
FEATURES = ["carrier", "dep_delay"]
_PATHS = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
ENVIRONMENT = os.environ | {"PYTHONPATH": _PATHS, "PYTHONWARNINGS": "error"}


def flights():
    days, delays = [i // 4 for i in range(400)], [i * 37 % 101 for i in range(400)]
    rows = pl.DataFrame({"id": range(400), "carrier": ["AA", "UA", "B6", None] * 100, "dep_delay": delays, "day": days})
    rows = rows.with_columns(arr_delay=pl.col("dep_delay") - 9 * (pl.col("carrier") == "UA").fill_null(False))
    return rows.with_columns(late=pl.col("arr_delay") > 50, kind=(pl.col("arr_delay") // 40 + 1).clip(0, 2))


def write_data(folder):
    df = flights()
    df.write_parquet(folder / "flights.parquet")
    df.write_csv(folder / "flights.csv")
    df.write_ipc(folder / "flights.arrow")
    df.drop("late", "arr_delay", "kind").write_csv(folder / "new.csv")
    with duckdb.connect(folder / "flights.duckdb") as con:
        con.execute("CREATE TABLE flights AS SELECT * FROM df")


def numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    return x, x[:, 0] * 3 + (x[:, 1] > 0)


def files():
    return sorted(path.name for path in Path().iterdir() if not path.is_symlink())


def call(line):
    return main(line.split())


def run(line):
    command = [sys.executable, "-m", "frameboost", *line.split()]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)


def refused(capsys, words, code=1):
    """Return the sentence with which a command is refused, having written nothing."""
    before = files()
    assert main(words.split() if isinstance(words, str) else words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("frameboost: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert files() == before
    return err.removeprefix("frameboost: ").rstrip("\n")

"""Processes that are killed in a fit on a database's file, or while they save a model."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import duckdb

import frameboost as fb

__all__ = ["check_killed_fit", "check_killed_save"]

_ROOT = Path(__file__).parents[2]
_FIT = """
import json, sys, duckdb
from tests.fuzz.faults import fit
con = duckdb.connect(sys.argv[1])
print("ready", flush=True)
while True:
    fit(con.table("t"), json.loads(sys.argv[2]))
"""
_SAVE = """
import sys, frameboost as fb
models = [fb.load(path) for path in sys.argv[2:]]
print("ready", flush=True)
while True:
    for model in models:
        model.save(sys.argv[1])
"""


def _killed(program: str, arguments: list[str], seconds: float) -> None:
    """Run the program, and kill it so long after it has started what it does over and over."""
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=_ROOT, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        assert process.poll() is None, "the program ended by itself"
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def check_killed_fit(folder: Path, options: dict, moment: float) -> None:
    """Make sure that a database whose user was killed in a fit holds what it held, and can be trained on."""
    from tests.fuzz.faults import Place, fit

    place = Place("file database", folder)
    before = place.con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL").fetchall()
    rows = place.con.execute("SELECT count(*), sum(hash(t)) FROM t").fetchall()
    expected = fit(place.data(), options)
    place.con.close()
    _killed(_FIT, [str(folder / "d.db"), json.dumps(options)], moment)
    with duckdb.connect(folder / "d.db") as con:
        assert con.execute("SELECT count(*), sum(hash(t)) FROM t").fetchall() == rows, "the user's rows have changed"
        after = con.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        assert after == before, f"left behind: {after}"
        assert fit(con.table("t"), options) == expected, "the next fit gives another model"


def check_killed_save(folder: Path, moment: float) -> None:
    """Make sure that a file that was being written over when the process was killed is one model or the other."""
    con = duckdb.connect()
    paths = []
    for rounds in (60, 61):
        rows = con.sql("SELECT hash(i) % 1000 AS x, hash(-i) % 1000 AS y FROM range(3000) AS r(i)")
        model = fb.fit(rows, "y", n_estimators=rounds, verbose=False)
        paths.append(folder / f"{rounds}.json")
        model.save(paths[-1])
    _killed(_SAVE, [str(folder / "saved.json"), *map(str, paths)], moment / 2)
    if (folder / "saved.json").exists():
        assert fb.load(folder / "saved.json").n_rounds in (60, 61)
        assert (folder / "saved.json").read_bytes() in [path.read_bytes() for path in paths]

"""Checks of child processes that are killed while they train on a database file or save a model."""

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


def _run_and_kill(program: str, arguments: list[str], seconds: float) -> None:
    """Run a program, wait for its line "ready", and kill it after that many seconds."""
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
    """Check that a database file is unchanged after a process was killed in a fit on it, and can be trained on."""
    from tests.fuzz.faults import Workspace, fit

    workspace = Workspace("file database", folder)
    before = workspace.con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY ALL").fetchall()
    rows = workspace.con.execute("SELECT count(*), sum(hash(t)) FROM t").fetchall()
    expected = fit(workspace.data(), options)
    workspace.con.close()
    _run_and_kill(_FIT, [str(folder / "d.db"), json.dumps(options)], moment)
    with duckdb.connect(folder / "d.db") as con:
        assert con.execute("SELECT count(*), sum(hash(t)) FROM t").fetchall() == rows, "the user's rows have changed"
        after = con.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        assert after == before, f"left behind: {after}"
        assert fit(con.table("t"), options) == expected, "the next fit gives another model"


def check_killed_save(folder: Path, moment: float) -> None:
    """Check that a file is one of two whole models after a process was killed while it saved them in turn."""
    con = duckdb.connect()
    paths = []
    for rounds in (60, 61):
        rows = con.sql("SELECT hash(i) % 1000 AS x, hash(-i) % 1000 AS y FROM range(3000) AS r(i)")
        model = fb.fit(rows, "y", n_estimators=rounds, verbose=False)
        paths.append(folder / f"{rounds}.json")
        model.save(paths[-1])
    _run_and_kill(_SAVE, [str(folder / "saved.json"), *map(str, paths)], moment / 2)
    if (folder / "saved.json").exists():
        assert fb.load(folder / "saved.json").n_rounds in (60, 61)
        assert (folder / "saved.json").read_bytes() in [path.read_bytes() for path in paths]

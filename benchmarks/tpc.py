"""TPC-H and TPC-DS as Parquet files, from DuckDB's generators.

DuckDB's extensions come in wheels of a version of DuckDB that has them, which an environment of its own gets. It and
the tables are kept in a folder of the user's cache (`FRAMEBOOST_BENCHMARKS` names another).
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

VERSION = "1.5.5"
_GENERATE = """
import sys, pathlib, importlib
import duckdb
name, generator, scale, folder = sys.argv[1:]
package = importlib.import_module("duckdb_extension_" + name)
[extension] = pathlib.Path(list(package.__path__)[0]).rglob("*.duckdb_extension")
con = duckdb.connect(folder + "/tables.duckdb")
con.execute(f"LOAD '{extension}'")
con.execute(f"CALL {generator}(sf = {scale})")
for (table,) in con.execute("SHOW TABLES").fetchall():
    con.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
con.close()
pathlib.Path(folder, "tables.duckdb").unlink()
"""
_GENERATORS = {"tpch": "dbgen", "tpcds": "dsdgen"}


def cache() -> Path:
    """Return the folder that generated tables are kept in."""
    return Path(os.environ.get("FRAMEBOOST_BENCHMARKS", Path.home() / ".cache" / "frameboost-benchmarks"))


def tables(name: str, scale: float) -> Path:
    """Return the folder of the tables of ``tpch`` or ``tpcds`` of a scale factor, generated if it is not there.

    Raises
    ------
    RuntimeError
        If the generator can't be installed, or fails.
    """
    folder = cache() / f"{name}-{scale:g}"
    if not folder.exists():
        python = _python(name)
        made = cache() / f"{name}-{scale:g}-{os.getpid()}"
        made.mkdir(parents=True)
        _run([python, "-c", _GENERATE, name, _GENERATORS[name], f"{scale:g}", str(made)], f"generating {name} failed")
        made.rename(folder)
    return folder


def _python(name: str) -> str:
    """Return the interpreter of an environment that has the generator."""
    folder = cache() / f"duckdb-{VERSION}"
    python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    if not Path(python).exists():
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", f"import duckdb_extension_{name}"], capture_output=True, check=False).returncode:
        wanted = [f"duckdb=={VERSION}", f"duckdb-extension-{name}=={VERSION}"]
        _run([python, "-m", "pip", "install", "-q", *wanted], f"{' and '.join(wanted)} can't be installed from PyPI")
    return python


def _run(command: list[str], complaint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
        raise RuntimeError(f"{complaint}: {said}")

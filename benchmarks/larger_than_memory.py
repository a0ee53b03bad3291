"""Train in DuckDB on a table larger than DuckDB's memory limit, in a process of its own.

Prints the seconds, and the peak resident memory of the process in megabytes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import duckdb
from measuring import THREADS
from memory import Watch

FEATURES = 10
MEMORY_LIMIT = "2GB"
_SLICE = 5_000_000


def write_table(path: Path, n_rows: int) -> None:
    """Write a table of ten FLOAT columns, hashes of the row number, and a label that depends on four of them."""
    con = duckdb.connect(str(path))
    con.execute(f"SET threads = {THREADS}; SET memory_limit = '{MEMORY_LIMIT}'; SET preserve_insertion_order = false")
    numbers = ", ".join(f"(hash(i * {FEATURES} + {k}) / 1.8446744073709552e19)::FLOAT AS x{k}" for k in range(FEATURES))
    score = "x0 * x1 + sin(6 * x2) / 2 + x3 * x3 + hash(-i) / 1.8446744073709552e19"
    con.execute(f"CREATE TABLE rows AS SELECT {numbers}, FALSE AS y FROM range(0) AS r(i)")
    for start in range(0, n_rows, _SLICE):
        rows = f"SELECT {numbers}, i FROM range({start}, {min(start + _SLICE, n_rows)}) AS r(i)"
        con.execute(f"INSERT INTO rows SELECT * EXCLUDE i, {score} > 1.2 FROM ({rows})")
    con.close()


def main() -> None:
    path, n_rows, n_trees = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    import peers

    con = duckdb.connect(str(path))
    con.execute(f"SET threads = {THREADS}; SET memory_limit = '{MEMORY_LIMIT}'")
    con.execute(f"SET temp_directory = '{path.parent / 'spilled'}'")
    peers.fit(con.sql("SELECT * FROM rows LIMIT 500"), 2, engine="duckdb")
    watch, start = Watch(), time.perf_counter()
    rows = con.sql(f"SELECT * FROM rows WHERE rowid < {n_rows}")
    peers.fit(rows, n_trees, engine="duckdb")
    print(time.perf_counter() - start, watch.peak(beyond=False))


if __name__ == "__main__":
    main()

"""Train with JoinBoost and print the seconds; run by an interpreter of an environment for JoinBoost (see README.md).

The columns hold bin numbers, because JoinBoost considers every distinct value of a column. They are FLOAT, because it
fails on integers.
"""

from __future__ import annotations

import sys
import time

import duckdb
from joinboost.app import GradientBoosting
from joinboost.joingraph import JoinGraph


def main() -> None:
    path, n_trees, depth, rate, threads = sys.argv[1:]
    con = duckdb.connect()
    con.execute(f"SET threads = {threads}")
    con.execute(f"CREATE TABLE w AS FROM read_parquet('{path}')")
    names = [row[0] for row in con.execute("DESCRIBE w").fetchall()]
    graph = JoinGraph(con)
    graph.add_relation("w", names[:-1], y=names[-1])
    booster = GradientBoosting(
        learning_rate=float(rate), max_leaves=2 ** int(depth), max_depth=int(depth), iteration=int(n_trees)
    )
    start = time.perf_counter()
    booster.fit(graph)
    print(time.perf_counter() - start)


if __name__ == "__main__":
    main()

"""Train in DuckDB on facts and dimensions: as they are, and joined first; the join is timed too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import peers
from measuring import THREADS, Comparison, Scale, Target, Way

import frameboost as fb

JOINED, STAR = "frameboost, joined", "frameboost, star"
_OWN = 5  # columns of the facts
_DIMENSIONS = {"a": (200, 10), "b": (10_000, 20), "c": (1_000_000, 20)}  # rows and attributes
_CATEGORIES = (8, 30, 200)
_JOINS = " ".join(f"LEFT JOIN {name} USING ({name}_id)" for name in _DIMENSIONS)


def tables(con: duckdb.DuckDBPyConnection, n_facts: int) -> None:
    """Create facts and dimensions: of the attributes a fifth are strings and a fifth integers, the others DOUBLE.

    One in twenty numbers is missing, and one in fifty keys is in no dimension.
    """
    for name, (n_rows, n_attributes) in _sizes(n_facts).items():
        columns = ", ".join(f"{_attribute(name, i)} AS {name}{i}" for i in range(n_attributes))
        con.execute(f"CREATE TABLE {name} AS SELECT id AS {name}_id, {columns} FROM range({n_rows}) AS r(id)")
    own = ", ".join(f"{_uniform('id', f'x{i}')} AS x{i}" for i in range(_OWN))
    keys = ", ".join(
        f"CAST(hash(id, '{name}') % {n_rows + n_rows // 50 + 1} AS BIGINT) AS {name}_id"
        for name, (n_rows, _) in _sizes(n_facts).items()
    )
    noise = f"{_uniform('id', 'noise')} AS noise"
    con.execute(f"CREATE TABLE base AS SELECT {own}, {keys}, {noise} FROM range({n_facts}) AS r(id)")
    effects = "noise + x0 * COALESCE(a0, 1) + COALESCE(b0 * b3 / 50, 0) + COALESCE(c0 * c1, x1)"
    con.execute(f"CREATE TABLE facts AS SELECT base.* EXCLUDE noise, {effects} AS y FROM base {_JOINS}")
    con.execute("DROP TABLE base")


def _sizes(n_facts: int) -> dict[str, tuple[int, int]]:
    return {name: (min(n_rows, n_facts // 2), n) for name, (n_rows, n) in _DIMENSIONS.items()}


def _uniform(row: str, name: str) -> str:
    return f"CAST(hash({row}, '{name}') % 1000003 AS DOUBLE) / 1000003"


def _attribute(table: str, i: int) -> str:
    drawn = _uniform("id", f"{table}{i}")
    if i % 5 == 4:
        return f"'{table}' || CAST(floor({drawn} * {_CATEGORIES[i // 5 % 3]}) AS INTEGER)"
    if i % 5 == 3:
        return f"CAST(floor({drawn} * 50) AS INTEGER)"
    return f"CASE WHEN {drawn} >= 0.05 THEN {drawn} END"


def _features(n_facts: int) -> list[str]:
    own = [f"x{i}" for i in range(_OWN)]
    return own + [f"{name}{i}" for name, (_, n) in _sizes(n_facts).items() for i in range(n)]


def _fit(data: Any, n_facts: int, n_trees: int) -> fb.Model:
    settings = {"n_estimators": n_trees, "max_bin": peers.BINS, **peers.SETTINGS}
    return fb.fit(data, "y", features=_features(n_facts), **settings)


def _star(con: duckdb.DuckDBPyConnection, n_facts: int, n_trees: int) -> fb.Model:
    star: Any = con.table("facts")
    for name in _DIMENSIONS:
        star = fb.join(star, con.table(name), on=f"{name}_id")
    return _fit(star, n_facts, n_trees)


def _joined(con: duckdb.DuckDBPyConnection, n_facts: int, n_trees: int) -> fb.Model:
    con.execute(f"CREATE OR REPLACE TEMP TABLE joined AS SELECT * FROM facts {_JOINS}")
    model = _fit(con.table("joined"), n_facts, n_trees)
    con.execute("DROP TABLE joined")
    return model


def train(scale: Scale) -> Comparison:
    """Train on three dimensions, of 200, 10,000 and 1,000,000 rows, with the join where there is one."""
    n_facts, n_trees = scale.rows(10_000_000, 20_000), scale.trees(20, 2)
    con = duckdb.connect(str(Path(scale.folder) / "star.duckdb"))
    con.execute(f"SET threads = {THREADS}")
    tables(con, n_facts)
    ways = [
        Way(JOINED, partial(_joined, con, n_facts, n_trees)),
        Way(STAR, partial(_star, con, n_facts, n_trees), targets=[Target(0.25, JOINED)]),
    ]
    title = f"{n_facts:,} facts, 50 attributes of three dimensions, {n_trees} trees, with the join"
    return Comparison(ways, title, rounds=1)


WORKLOADS = {"star-duckdb": train}

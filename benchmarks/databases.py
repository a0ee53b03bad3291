"""Training on a table in a database, next to reading its rows by pandas and training XGBoost on them."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import data
import peers
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way, lacking

import frameboost as fb

_TREES_THERE = 3  # of engine="sql", whose time is taken for each tree


def in_postgres(scale: Scale) -> Comparison:
    """Train on W in PostgreSQL."""
    if reason := lacking("pgserver", "psycopg", "pandas", "sqlalchemy", "xgboost"):
        return Comparison([Way("postgres", lacking=reason)], "W in PostgreSQL")
    import pandas as pd
    import pgserver
    import psycopg
    import sqlalchemy

    rows = data.workload(scale.rows(1_000_000, 10_000), 28)
    server = pgserver.get_server(Path(scale.folder) / "postgres", cleanup_mode="delete")
    con = psycopg.connect(server.get_uri(), autocommit=True)
    atexit.register(con.close)
    frame = rows.frame.cast({pl.Float32: pl.Float64, pl.Boolean: pl.Int64})
    columns = ", ".join(f"{name} {'float8' if dtype.is_float() else 'int8'}" for name, dtype in frame.schema.items())
    con.execute(f"DROP TABLE IF EXISTS w; CREATE TABLE w ({columns})".encode())
    with con.cursor() as cursor, cursor.copy("COPY w FROM STDIN (FORMAT CSV)") as copy:
        for part in frame.iter_slices(50_000):
            copy.write(part.write_csv(include_header=False))
    con.execute("VACUUM ANALYZE w")
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: con)
    return _beside(
        scale, rows, lambda: fb.table(con, "w"), lambda: pd.read_sql("SELECT * FROM w", engine), "PostgreSQL"
    )


def in_clickhouse(scale: Scale) -> Comparison:
    """Train on W in ClickHouse."""
    if reason := lacking("chdb", "pandas", "pyarrow", "xgboost"):
        return Comparison([Way("clickhouse", lacking=reason)], "W in ClickHouse")
    import pyarrow as pa

    rows = data.workload(scale.rows(1_000_000, 10_000), 28)
    opened, _ = _stored(scale.folder, len(rows.frame))

    def read() -> Any:
        return pa.ipc.open_stream(opened.query("SELECT * FROM w", "ArrowStream").bytes()).read_pandas()

    return _beside(scale, rows, lambda: fb.table(opened, "w"), read, "ClickHouse")


@cache
def _stored(folder: str, n_rows: int) -> tuple[Any, Any]:
    """Return a session of ClickHouse, and a connection to DuckDB, that have W as a table."""
    import duckdb
    from chdb import session

    files = Path(folder) / "clickhouse"
    files.mkdir(exist_ok=True)
    data.workload(n_rows, 28).frame.cast({pl.Float32: pl.Float64}).write_parquet(files / "w.parquet")
    opened = session.Session(str(files))
    opened.query("CREATE DATABASE d ENGINE = Atomic; USE d")
    opened.query(
        f"CREATE TABLE w ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{files}/w.parquet', Parquet)"
    )
    con = duckdb.connect(config={"threads": THREADS})
    con.execute(f"CREATE TABLE w AS FROM '{files}/w.parquet'")
    return opened, con


def trees_by_queries(scale: Scale) -> Comparison:
    """Grow trees by queries of ClickHouse and of DuckDB, next to DuckDB's engine."""
    n_rows = scale.rows(1_000_000, 10_000)
    if reason := lacking("chdb"):
        return Comparison([Way("trees-by-queries", lacking=reason)], "trees by queries")
    opened, con = _stored(scale.folder, n_rows)
    few, more = (1, 2) if scale.quick else (2, 12)

    def a_tree(rows: Callable[[], Any], **options: Any) -> float:
        """Return the CPU seconds of a tree, of all threads."""
        seconds = {}
        for n_trees in (1, few, more):  # the first fit compiles
            start = time.process_time()
            settings = {"objective": data.BINARY, "max_depth": peers.DEPTH, "n_estimators": n_trees, "verbose": False}
            fb.fit(rows(), data.LABEL, **settings, **options)
            seconds[n_trees] = time.process_time() - start
        return (seconds[more] - seconds[few]) / (more - few)

    ours, by_queries = "frameboost duckdb", {"engine": "sql"}
    ways = [
        Way(ours, lambda: a_tree(lambda: con.table("w"))),
        Way("engine='sql', ClickHouse", lambda: a_tree(lambda: fb.table(opened, "w"), **by_queries),
            targets=[Target(3.0, ours)]),
        Way("engine='sql', DuckDB", lambda: a_tree(lambda: fb.table(con, "w"), **by_queries)),
    ]  # fmt: skip
    title = f"{n_rows:,} rows × 28, CPU seconds of a tree of depth {peers.DEPTH}"
    return Comparison(ways, title, unit="CPU s", timed=False)


def _beside(scale: Scale, rows: data.Data, table: Callable[[], Any], read: Callable[[], Any], name: str) -> Comparison:
    """Compare fits on a table with XGBoost on the rows that pandas has read."""
    import xgboost

    n_trees = scale.trees()
    settings = {"objective": data.BINARY, "max_depth": peers.DEPTH, "verbose": False}

    def by_xgboost() -> Any:
        frame = read()
        matrix = xgboost.DMatrix(frame.drop(columns=data.LABEL), frame[data.LABEL])
        parameters = {"objective": data.BINARY, "max_depth": peers.DEPTH, "nthread": THREADS}
        return xgboost.train(parameters, matrix, n_trees)

    def by_us(trees: int, **more: Any) -> fb.Model:
        return fb.fit(table(), data.LABEL, n_estimators=trees, **settings, **more)

    def quality(model: fb.Model) -> float:
        return rows.quality(model.predict(rows.held_out))

    def of_xgboost(booster: Any) -> float:
        return rows.quality(booster.predict(xgboost.DMatrix(rows.held_out.drop(data.LABEL).to_pandas())))

    peer, ours = "pandas.read_sql and xgboost", "frameboost, binned there"
    ways = [
        Way(peer, by_xgboost, of_xgboost),
        Way(ours, partial(by_us, n_trees), quality, [Target(1.0, peer)]),
        Way(f"frameboost, engine='sql', {_TREES_THERE} trees", partial(by_us, _TREES_THERE, engine="sql"), quality),
    ]
    return Comparison(ways, f"{len(rows.frame):,} rows × 28 in {name}, {n_trees} trees", "logloss", rounds=1)


WORKLOADS = {"postgres": in_postgres, "clickhouse": in_clickhouse, "trees-by-queries": trees_by_queries}

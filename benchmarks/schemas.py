"""Train over the schemas of TPC-H, TPC-DS and Favorita: as they are, and joined first; and score them in DuckDB.

    python benchmarks/schemas.py [tpch] [tpcds] [favorita]

Each way trains in a fresh process, whose seconds and peak memory beyond the tables' are measured, with the join. The
generators of TPC's tables are installed from PyPI (see `tpc`). It fails if models differ that must be equal.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import duckdb
import memory
import numpy as np
import polars as pl
import reporting
from measuring import THREADS
from peers import BINS, SETTINGS, lightgbm_settings
from schema_tables import SCHEMAS, Schema

import frameboost as fb

Tables = Mapping[str, pl.DataFrame]
OBJECTIVE = "reg:squarederror"
_WARM = 200_000  # facts of the fit that compiles the kernels
_SCORED = 1_000_000


def _settings(n_trees: int) -> dict[str, Any]:
    return {"n_estimators": n_trees, "max_bin": BINS, **SETTINGS}


def _star(schema: Schema, tables: Tables, n_trees: int) -> fb.Model:
    return fb.fit(schema.star(tables), schema.target, features=schema.all_features(), **_settings(n_trees))


def _joined(schema: Schema, tables: Tables, n_trees: int) -> fb.Model:
    return fb.fit(schema.joined(tables), schema.target, features=schema.all_features(), **_settings(n_trees))


def _matrix(schema: Schema, tables: Tables) -> tuple[pl.DataFrame, np.ndarray]:
    """Return the join in types that XGBoost and LightGBM take: strings as categories, times and decimals as numbers."""
    frame = schema.joined(tables)
    strings = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    frame = frame.with_columns(
        pl.col(pl.Decimal).cast(pl.Float64), pl.col(pl.Date).to_physical(), pl.col(pl.Boolean).cast(pl.UInt8),
        *(pl.col(name).cast(pl.Enum(frame[name].drop_nulls().unique().sort())) for name in strings),
    )  # fmt: skip
    return frame.drop(schema.target), frame[schema.target].to_numpy()


def _xgboost(schema: Schema, tables: Tables, n_trees: int) -> None:
    import xgboost as xgb

    x, y = _matrix(schema, tables)
    rows = xgb.QuantileDMatrix(x, y, max_bin=BINS, nthread=THREADS, enable_categorical=True)
    del x
    xgb.train({"objective": OBJECTIVE, "max_bin": BINS, "nthread": THREADS, **SETTINGS}, rows, n_trees)


def _lightgbm(schema: Schema, tables: Tables, n_trees: int) -> None:
    import lightgbm as lgb

    x, y = _matrix(schema, tables)
    strings = [i for i, dtype in enumerate(x.dtypes) if dtype == pl.Enum]
    settings = lightgbm_settings(OBJECTIVE) | {"max_bin": BINS - 1}
    codes = x.with_columns(pl.col(pl.Enum).to_physical()).to_numpy().astype(np.float32)
    del x
    lgb.train(settings, lgb.Dataset(codes, y, categorical_feature=strings, params=settings), n_trees)


WAYS: dict[str, Callable[[Schema, Tables, int], fb.Model | None]] = {
    "frameboost, joined": _joined, "frameboost, star": _star, "xgboost hist": _xgboost, "lightgbm": _lightgbm,
}  # fmt: skip


def _differs_in_duckdb(schema: Schema, tables: Tables, model: fb.Model) -> int:
    """Return in how many rows the query of a model, which has the joins, differs from `predict`."""
    rows = {**tables, schema.facts: tables[schema.facts].head(_SCORED).with_row_index("row")}
    with duckdb.connect() as con:
        for name, frame in rows.items():
            con.register("given", frame)
            con.execute(f'CREATE TABLE "{name}" AS FROM given')
        query = model.query(schema.facts, keep=["row"])
        found = con.sql(f"SELECT prediction FROM ({query}) ORDER BY row").pl().to_series()
    return int((found != model.predict(schema.star(rows))).sum())


def measure(schema: Schema, way: str, size: float, n_trees: int, *, score: bool) -> dict[str, Any]:
    """Train once, and return seconds, megabytes, and a hash of the model if it is frameboost's."""
    tables = schema.read(size)
    train = WAYS[way]
    train(schema, {**tables, schema.facts: tables[schema.facts].head(_WARM)}, 2)
    watch, start, cpu = memory.Watch(), time.perf_counter(), time.process_time()
    model = train(schema, tables, n_trees)
    found: dict[str, Any] = {"wall": time.perf_counter() - start, "cpu": time.process_time() - cpu, "MB": watch.peak()}
    if model is not None:
        text = fb.Model(replace(model.ensemble, joins=())).to_json()
        found["model"] = hashlib.sha256(text.encode()).hexdigest()
    if model is not None and score:
        found["differ"] = _differs_in_duckdb(schema, tables, model)
    return found


def _in_child(name: str, way: str, size: float, n_trees: int, *, score: bool) -> dict[str, Any]:
    command = [sys.executable, __file__, name, "--way", way, "--size", f"{size}", "--trees", f"{n_trees}"]
    # polars' allocator keeps freed memory for seconds, that of reading the files too; threads of others spin.
    environment = {"_RJEM_MALLOC_CONF": "dirty_decay_ms:0,muzzy_decay_ms:0", "OMP_WAIT_POLICY": "passive"} | os.environ
    done = subprocess.run(
        [*command, *["--score"] * score], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"{way} ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(
    name: str, ways: list[str], size: float, n_trees: int, rounds: int
) -> tuple[list[tuple[str, ...]], list[str]]:
    """Measure all ways on a schema in turn; return the lines of a table, and what is wrong."""
    SCHEMAS[name].folder(size)
    best: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        for way in ways:
            found = _in_child(name, way, size, n_trees, score=number == 0 and way == "frameboost, star")
            best[way] = {key: min(value, best.get(way, found).get(key, value)) for key, value in found.items()}
    star = best.get("frameboost, star", {})
    wrong = [f"{name}: the query differs from predict in {n} rows" for n in [star.get("differ", 0)] if n]
    if len({found["model"] for found in best.values() if "model" in found}) > 1:
        wrong.append(f"{name}: the models of the star and of the join differ")
    first = best[ways[0]]["cpu"]
    lines = [
        (name, way, f"{found['cpu']:.1f}", f"{found['wall']:.1f}", f"{found['cpu'] / first:.2f}", f"{found['MB']:.0f}")
        for way, found in best.items()
    ]
    return lines, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", nargs="*", default=list(SCHEMAS), help=f"of {', '.join(SCHEMAS)}")
    parser.add_argument("--size", type=float, default=1.0, help="the scale factor; 1 is 8 million facts of Favorita")
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1, help="runs of each way, of which the best counts")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), help=f"of {', '.join(WAYS)}")
    parser.add_argument("--way", help=argparse.SUPPRESS)  # in a process of its own
    parser.add_argument("--score", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(measure(SCHEMAS[given.schemas[0]], given.way, given.size, given.trees, score=given.score)))
        return
    heads, wrong = ("schema", "way", "CPU s", "wall s", "ratio", "MB"), list[str]()
    for name in given.schemas:
        try:
            lines, complaints = compare(name, given.ways, given.size, given.trees, given.rounds)
        except RuntimeError as error:
            lines, complaints = [], [f"{name}: {error}"]
        wrong += complaints
        if lines:
            print("\n" + reporting.table([heads, *lines], [True, True, *[False] * 4]), flush=True)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

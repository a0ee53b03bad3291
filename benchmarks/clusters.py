"""The libraries that train on a Dask cluster, each over the same Parquet files and the same worker processes."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data
import peers
import polars as pl
from measuring import Comparison, Scale, Target, Way, lacking

import frameboost as fb

_FILES, _WORKERS = 8, 2


def on_dask(scale: Scale) -> Comparison:
    """Train on W over two worker processes of one thread each, from files to a model."""
    if reason := lacking("distributed", "dask", "pandas", "pyarrow"):
        return Comparison([Way("dask", lacking=reason)], "two workers of Dask")
    from distributed import Client, LocalCluster

    n_rows, n_trees = scale.rows(10_000_000, 100_000), scale.trees()
    files = _write(data.made_up(n_rows), Path(scale.folder))
    first = _write(data.made_up(10_000), Path(scale.folder) / "first")
    held_out = data.Data(pl.DataFrame(), data.made_up(min(n_rows, 200_000), seed=1))
    cluster = LocalCluster(n_workers=_WORKERS, threads_per_worker=1, processes=True, dashboard_address=None)
    client = Client(cluster)
    atexit.register(lambda: (client.close(), cluster.close()))

    def way(name: str, train: Callable[..., Any], predict: Callable[[Any], Any], *targets: Target) -> Way:
        if reason := lacking(name.partition(".")[0].partition(" ")[0]):
            return Way(name, lacking=reason)
        train(client, first, 2)  # imports the library and loads its kernels
        return Way(name, lambda: train(client, files, n_trees), lambda m: held_out.quality(predict(m)), targets)

    def ours(shards: int) -> Callable[..., fb.Model]:
        return lambda *given: _frameboost(*given, shards=shards)

    beside = [Target(1.0, "xgboost.dask"), Target(1.0, "lightgbm.dask")]
    two, eight = f"frameboost {_WORKERS} shards", f"frameboost {_FILES} shards"
    ways = [
        way("xgboost.dask", _xgboost, lambda m: _predicted_by_xgboost(m, held_out)),
        way("lightgbm.dask", _lightgbm, lambda m: m.booster_.predict(held_out.held_out_x)),
        way(two, ours(_WORKERS), lambda m: m.predict(held_out.held_out), *beside),
        way(eight, ours(_FILES), lambda m: m.predict(held_out.held_out), Target(1.15, two)),
    ]
    title = (
        f"{n_rows:,} rows × 28 in {_FILES} Parquet files, {n_trees} trees of depth {peers.DEPTH}, {_WORKERS} workers"
    )
    return Comparison(ways, title, "logloss", rounds=1, equal=(two, eight))


def _write(frame: pl.DataFrame, folder: Path) -> str:
    """Write the rows to several files; return the glob that finds them."""
    folder.mkdir(exist_ok=True)
    size = -(-len(frame) // _FILES)
    for number in range(_FILES):
        frame[number * size : (number + 1) * size].write_parquet(folder / f"part-{number}.parquet")
    return str(folder / "part-*.parquet")


def _frameboost(client: Any, files: str, n_trees: int, *, shards: int) -> fb.Model:
    return peers.fit(files, n_trees, engine=fb.Dask(client, shards=shards))


def _columns(files: str) -> tuple[Any, Any]:
    import dask.dataframe as dd

    rows = dd.read_parquet(files).persist()  # or else features and labels are read in different partitions
    return rows.drop(columns=data.LABEL), rows[data.LABEL]


def _xgboost(client: Any, files: str, n_trees: int) -> Any:
    from xgboost import dask as dxgb

    settings = {
        "objective": "binary:logistic", "tree_method": "hist", "max_depth": peers.DEPTH, "learning_rate": peers.RATE,
        "reg_lambda": 1.0, "min_child_weight": 1.0, "max_bin": peers.BINS,
    }  # fmt: skip
    x, y = _columns(files)
    rows = dxgb.DaskQuantileDMatrix(client, x, y, max_bin=peers.BINS)
    return dxgb.train(client, settings, rows, n_trees)["booster"]


def _predicted_by_xgboost(booster: Any, rows: data.Data) -> Any:
    import xgboost as xgb

    columns = rows.held_out.drop(data.LABEL)
    return booster.predict(xgb.DMatrix(columns.to_numpy(), feature_names=columns.columns))


def _lightgbm(client: Any, files: str, n_trees: int) -> Any:
    from lightgbm import DaskLGBMClassifier

    settings = {
        "n_estimators": n_trees, "max_depth": peers.DEPTH, "num_leaves": 2**peers.DEPTH, "learning_rate": peers.RATE,
        "reg_lambda": 1.0, "min_child_weight": 1.0, "min_child_samples": 1, "max_bin": peers.BINS - 1,
        "tree_learner": "data", "verbose": -1,
    }  # fmt: skip
    x, y = _columns(files)
    return DaskLGBMClassifier(client=client, **settings).fit(x, y)

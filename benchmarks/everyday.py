"""The workloads for everyday training: early stopping, ranking, sampling, sparse columns, other losses, small data.

Each is one row of `PATHS`, timed next to XGBoost and LightGBM with the same settings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import data
import numpy as np
import peers
import polars as pl
from measuring import Comparison, Scale, Target, Way

_STOPPING = 50  # rounds without a better metric


@dataclass(frozen=True)
class Training:
    """A way to train: its rows, trees (in full and quick), settings, and bounds for the ratios to the others."""

    what: str
    rows: Callable[[Scale], data.Data]
    trees: tuple[int, int]
    at_most: tuple[float | None, float | None]
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: int | None = None


def train(path: Training, scale: Scale) -> Comparison:
    """Train as `PATHS` says."""
    rows, n_trees = path.rows(scale), scale.trees(*path.trees)
    ways = peers.beside(rows, n_trees, *path.at_most, **path.settings)
    sizes = f"{len(rows.frame):,} rows × {rows.n_features}, {n_trees} {'rounds' if path.settings else 'trees'}"
    return Comparison(ways, f"{path.what}, {sizes}", rows.quality_name, rounds=1 if scale.quick else path.rounds)


# --- rows -------------------------------------------------------------------------------------------------------------


def _w(full: int, quick: int, width: int = 28, *, is_binary: bool = True) -> Callable[[Scale], data.Data]:
    return lambda scale: data.workload(scale.rows(full, quick), width, is_binary=is_binary)


def _with_valid(full: tuple[int, int], quick: tuple[int, int], width: int) -> Callable[[Scale], data.Data]:
    def rows(scale: Scale) -> data.Data:
        n_rows, n_valid = (scale.rows(full[i], quick[i]) for i in range(2))
        w = data.workload(n_rows, width)
        return data.Data(w.frame, w.held_out, valid=data.made_up(n_valid, width, seed=2))

    return rows


def _split(x: np.ndarray, y: Any, objective: str = data.BINARY, **more: Any) -> data.Data:
    """Return the first four fifths of the rows to train on, and the others to judge by."""
    frame = pl.DataFrame(x, schema=[f"x{i}" for i in range(x.shape[1])]).with_columns(pl.Series(data.LABEL, y))
    at = len(x) * 4 // 5
    return data.Data(frame[:at], frame[at:], objective, **more)


def _queries(scale: Scale) -> data.Data:
    """Return queries of 100 rows with relevances from 0 to 4."""
    n_queries, width = scale.rows(3_000, 100), 20
    at_queries = np.repeat(np.arange(n_queries * 5 // 4), 100)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((len(at_queries), width), dtype=np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 / 2 + rng.standard_normal(len(x))
    rows = _split(x, np.digitize(score, [0.5, 1.2, 2, 3]), data.RANKING)
    numbers = pl.Series("query", at_queries)
    at = len(rows.frame)
    frames = rows.frame.with_columns(numbers[:at]), rows.held_out.with_columns(numbers[at:])
    return data.Data(*frames, data.RANKING, group="query")


def _sparse(scale: Scale) -> data.Data:
    """Return 300 independent columns of which 2 % are 1."""
    rng = np.random.default_rng(0)
    x = (rng.random((scale.rows(125_000, 5_000), 300)) < 0.02).astype(np.float32)
    score = x @ rng.normal(size=300) * 2 + rng.standard_normal(len(x))
    return _split(x, score > 0, is_sparse=True)


def _one_hot(scale: Scale) -> data.Data:
    """Return 30 columns of 10 categories, each as 10 columns of 0 and 1."""
    rng = np.random.default_rng(0)
    x = np.eye(10, dtype=np.float32)[rng.integers(0, 10, (scale.rows(125_000, 5_000), 30))].reshape(-1, 300)
    score = x @ rng.normal(size=300) + rng.standard_normal(len(x))
    return _split(x, score > 0, is_sparse=True)


def _classes(scale: Scale) -> data.Data:
    rows = data.made_up(scale.rows(125_000, 5_000), is_binary=False)
    y = rows[data.LABEL].to_numpy()
    edges = np.quantile(y, np.arange(1, 7) / 7)
    return _split(rows.drop(data.LABEL).to_numpy(), np.digitize(y, edges), data.CLASSES)


def _few_values(scale: Scale) -> data.Data:
    """Return 20 columns of integers from 0 to 9."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 10, (scale.rows(250_000, 10_000), 20))
    z = x / 3 - 1.5
    score = z[:, 0] * z[:, 1] + np.sin(2 * z[:, 2]) + z[:, 3] ** 2 / 2 + rng.standard_normal(len(x))
    return _split(x, score > 0.5)


def _zeros(scale: Scale) -> data.Data:
    """Return 20 columns of which 95 % are 0, the others from N(0, 1)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((scale.rows(250_000, 10_000), 20), dtype=np.float32)
    x[rng.random(x.shape) < 0.95] = 0
    score = x @ rng.normal(size=20) + (x**2).sum(1) + rng.standard_normal(len(x))
    return _split(x, score > 0.5)


def _one_column_of_categories(scale: Scale) -> data.Data:
    """Return a column of strings with half as many categories as rows to train on."""
    n_rows = scale.rows(250_000, 10_000)
    rng = np.random.default_rng(0)
    n_categories = n_rows * 2 // 5
    which = rng.integers(0, n_categories, n_rows)
    y = rng.normal(size=n_categories)[which] + rng.standard_normal(n_rows)
    names = pl.Series([f"category {i}" for i in range(n_categories)])
    frame = pl.DataFrame({"x0": names.gather(which), data.LABEL: y})
    at = n_rows * 4 // 5
    return data.Data(frame[:at], frame[at:], data.REGRESSION)


_VALID = _with_valid((300_000, 100_000), (20_000, 5_000), 28)
_WATCH = {"early_stopping_rounds": _STOPPING}
PATHS = {
    "valid-small": Training("valid= and early stopping, small data", _with_valid((5_000, 1_000), (5_000, 1_000), 10),
                         (300, 50), (1.0, 1.0), {"early_stopping_rounds": 300}, rounds=5),
    "valid": Training("valid= and early stopping", _VALID, (50, 10), (0.7, 0.7), _WATCH),
    "valid-auc": Training("valid= with AUC", _VALID, (50, 10), (0.7, 0.7), _WATCH | {"eval_metric": "auc"}),
    "ranking": Training("rank:ndcg, queries of 100 rows", _queries, (50, 5), (0.9, 0.9)),
    "sparse": Training("independent columns with 2 % ones", _sparse, (100, 10), (0.8, 0.8)),
    "one-hot": Training("30 one-hot columns of 10 categories", _one_hot, (100, 10), (0.8, 0.8)),
    "sampling": Training("rows and columns sampled", _w(300_000, 20_000), (100, 10), (0.7, 0.7),
                      {"subsample": 0.8, "colsample_bytree": 0.8}),
    "forest": Training("a random forest of 50 trees", _w(300_000, 20_000), (1, 1), (0.7, None),
                    {"num_parallel_tree": 50, "subsample": 0.8, "colsample_bynode": 0.8, "learning_rate": 1.0}),
    "absolute-error": Training("reg:absoluteerror", lambda scale: _of_loss(scale, data.MEDIAN), (100, 10), (0.9, 0.9)),
    "quantile": Training("reg:quantileerror", lambda scale: _of_loss(scale, data.QUANTILE), (100, 10), (0.9, 0.9),
                      {"quantile_alpha": data.ALPHA}),
    "lossguide": Training("leaf by leaf to 255 leaves", _w(300_000, 20_000), (100, 10), (0.8, 0.8),
                       {"grow_policy": "lossguide", "max_leaves": 255, "max_depth": 0}),
    "classes": Training("7 classes", _classes, (50, 3), (0.7, 0.7), {"num_class": 7}),
    "approx": Training("approx", _w(200_000, 20_000), (50, 5), (0.6, None), {"tree_method": "approx"}),
    "few-values": Training("integers of 10 values", _few_values, (100, 10), (0.6, 0.6)),
    "zeros": Training("95 % zeros", _zeros, (100, 10), (0.6, 0.6)),
    "stumps": Training("stumps", _w(5_000, 5_000, 10), (1_000, 100), (0.9, None), {"max_depth": 1}, rounds=5),
    "middle": Training("middle-sized data", _w(20_000, 5_000), (500, 20), (0.6, 0.6)),
    "thousands-of-columns": Training("thousands of columns", _w(2_000, 500, 5_000), (10, 1), (0.7, 0.9)),
    "more-columns-than-rows": Training("more columns than rows", _w(100, 50, 20_000), (10, 1), (1.1, 1.1)),
    "one-column": Training("one column of 100,000 categories", _one_column_of_categories, (100, 5), (0.9, None)),
}  # fmt: skip


def _of_loss(scale: Scale, objective: str) -> data.Data:
    rows = data.workload(scale.rows(300_000, 20_000), is_binary=False)
    return data.Data(rows.frame, rows.held_out, objective)


# --- real tables ------------------------------------------------------------------------------------------------------

_KINDS = {"reg": data.REGRESSION, "bin": data.BINARY, "multi": data.CLASSES, "pois": data.POISSON}


def tables(scale: Scale) -> Comparison:
    """Train on three fifths of real tables, up to 1,000 rounds, stop early by one fifth, and judge by the last."""
    title = "real tables, up to 1,000 rounds with early stopping, all together"
    names = ("xgboost hist", "lightgbm", "frameboost numba")
    if scale.tables is None:
        return Comparison([Way("tables", lacking="needs --tables FOLDER (see README.md)")], title)
    rows = _read_tables(Path(scale.tables), 2 if scale.quick else None)
    n_trees = scale.trees(1_000, 20)
    trios = [
        peers.beside(table, n_trees, early_stopping_rounds=_STOPPING,
                     **({"num_class": table.frame[data.LABEL].n_unique()} if table.objective == data.CLASSES else {}))
        for table in rows.values()
    ]  # fmt: skip
    targets = [Target(1.0, name) for name in names[:2]]
    ways = [_all_of([trio[i] for trio in trios], targets if i == 2 else []) for i in range(3)]
    n_rows = sum(len(table.frame) for table in rows.values())
    return Comparison(ways, f"{len(rows)} {title}, {n_rows:,} rows", "geometric mean", rounds=1 if scale.quick else 2)


def _all_of(ways: list[Way], targets: list[Target]) -> Way:
    """Return a way that runs several, one after the other, and is judged by the geometric mean of their errors."""

    def judge(results: list[Any]) -> float:
        errors = [way.judge(result) for way, result in zip(ways, results, strict=True) if way.judge is not None]
        return math.exp(sum(map(math.log, errors)) / len(errors))

    return Way(ways[0].name, lambda: [way.run() for way in ways], judge, targets, ways[0].lacking)


def _read_tables(folder: Path, n_tables: int | None) -> dict[str, data.Data]:
    """Read the tables of a folder whose ``index.json`` has the label and the kind of each."""
    index = json.loads((folder / "index.json").read_text())
    return {
        name: _in_three(pl.read_parquet(folder / f"{name}.parquet"), about["target"], _KINDS[about["kind"]])
        for name, about in list(index.items())[:n_tables]
    }


def _in_three(frame: pl.DataFrame, label: str, objective: str) -> data.Data:
    y = frame[label]
    if objective in (data.BINARY, data.CLASSES) and y.dtype != pl.Boolean:
        y = y.rank("dense") - 1
    y = y.cast(pl.Boolean if objective == data.BINARY else pl.Int64 if objective == data.CLASSES else pl.Float64)
    frame = frame.drop(label).with_columns(y.alias(data.LABEL)).sample(fraction=1, shuffle=True, seed=0)
    first, second = len(frame) * 3 // 5, len(frame) * 4 // 5
    return data.Data(frame[:first], frame[second:], objective, valid=frame[first:second])

"""Train on facts and dimensions: as they are, and joined first, as other libraries need them; the join is timed too.

As a script, ``stars.py WAY FOLDER TREES OBJECTIVE`` trains once in a fresh process, on the tables of a folder, and
prints the peak memory beyond the tables', in megabytes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import memory
import numpy as np
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way, lacking
from peers import BINS, SETTINGS

import frameboost as fb

Tables = Mapping[str, pl.DataFrame]
JOINED, STAR = "frameboost, joined", "frameboost, star"
_OWN = 5  # columns of the facts
_WARM = 200_000  # facts of the fit that compiles the kernels


def tables(n_facts: int, dimensions: Mapping[str, tuple[int, int]]) -> dict[str, pl.DataFrame]:
    """Return facts and dimensions of so many rows and attributes, of which a fifth are strings."""
    rng = np.random.default_rng(0)
    facts: dict[str, Any] = {f"x{i}": rng.normal(size=n_facts) for i in range(_OWN)}
    y = facts["x0"] * facts["x1"] + np.sin(2 * facts["x2"]) + rng.normal(size=n_facts)
    found = {}
    for name, (n_rows, n_attributes) in dimensions.items():
        columns: dict[str, Any] = {f"{name}_id": np.arange(n_rows)}
        effect = np.zeros(n_rows)
        for i in range(n_attributes):
            if i % 5 == 4:
                codes = rng.integers(0, 12, n_rows)
                columns[f"{name}{i}"] = np.array([f"kind {k}" for k in range(12)])[codes]
                effect += 0.2 * (codes % 3 - 1)
            else:
                columns[f"{name}{i}"] = rng.normal(size=n_rows)
                effect += np.sin(columns[f"{name}{i}"] * (1 + i % 3)) / (1 + i)
        found[name] = pl.DataFrame(columns)[rng.permutation(n_rows)]
        facts[f"{name}_id"] = rng.integers(0, n_rows, n_facts)
        y += effect[facts[f"{name}_id"]]
    return {"facts": pl.DataFrame(facts | {"y": y, "z": (y > 0).astype(np.int64)}), **found}


def _joined(given: Tables) -> pl.DataFrame:
    facts, *names = given
    frame = given[facts]
    for name in names:
        frame = frame.join(given[name], on=f"{name}_id", how="left", maintain_order="left")
    return frame.drop(f"{name}_id" for name in names)


def _star(given: Tables) -> Any:
    facts, *names = given
    star: Any = given[facts]
    for name in names:
        star = fb.join(star, given[name], on=f"{name}_id", name=name)
    return star


def _target(objective: str) -> str:
    return "y" if objective.startswith("reg:") else "z"


def _frameboost(given: Tables, n_trees: int, objective: str, *, star: bool) -> Callable[[Tables], Any]:
    target = _target(objective)
    out = {"y", "z", *(f"{name}_id" for name in given)} - {target, "facts_id"}
    data = _star(given) if star else _joined(given)
    exclude = sorted(out & set(data.columns))
    settings: dict[str, Any] = {"n_estimators": n_trees, "max_bin": BINS, **SETTINGS}
    model = fb.fit(data, target, objective=objective, exclude=exclude, **settings)
    return lambda rows: model.predict(_star(rows))


def _arrays(given: Tables, target: str) -> tuple[pl.DataFrame, np.ndarray]:
    frame = _joined(given)
    strings = [name for name, dtype in frame.schema.items() if dtype == pl.String]
    codes = (pl.col(name).cast(pl.Enum([f"kind {k}" for k in range(12)])) for name in strings)
    return frame.drop("y", "z").with_columns(codes), frame[target].to_numpy()


def _xgboost(given: Tables, n_trees: int, objective: str) -> Callable[[Tables], Any]:
    import xgboost as xgb

    x, y = _arrays(given, _target(objective))
    rows = xgb.QuantileDMatrix(x, y, max_bin=BINS, nthread=THREADS, enable_categorical=True)
    del x
    settings = {"objective": objective, "tree_method": "hist", "max_bin": BINS, "nthread": THREADS, **SETTINGS}
    booster = xgb.train(settings, rows, n_trees)
    return lambda rows: booster.predict(xgb.DMatrix(_arrays(rows, "y")[0], enable_categorical=True))


def _lightgbm(given: Tables, n_trees: int, objective: str) -> Callable[[Tables], Any]:
    import lightgbm as lgb
    from peers import lightgbm_settings

    def matrix(rows: Tables) -> np.ndarray:
        x, _ = _arrays(rows, "y")
        return x.with_columns(pl.col(pl.Enum).to_physical()).to_numpy().astype(np.float32)

    x, y = _arrays(given, _target(objective))
    strings = [i for i, dtype in enumerate(x.dtypes) if dtype == pl.Enum]
    settings = lightgbm_settings(objective) | {"max_bin": BINS - 1}
    booster = lgb.train(settings, lgb.Dataset(matrix(given), y, categorical_feature=strings, params=settings), n_trees)
    return lambda rows: booster.predict(matrix(rows))


_WAYS: dict[str, Callable[[Tables, int, str], Any]] = {
    "xgboost hist": _xgboost,
    "lightgbm": _lightgbm,
    JOINED: partial(_frameboost, star=False),
    STAR: partial(_frameboost, star=True),
}
_PEERS = ("xgboost hist", "lightgbm")
_MODULES = {"xgboost hist": "xgboost", "lightgbm": "lightgbm"}


def _head(given: Tables, n_facts: int) -> dict[str, pl.DataFrame]:
    return {**given, "facts": given["facts"].head(n_facts)}


def _error(given: Tables, objective: str, predict: Callable[[Tables], Any]) -> float:
    """Return the squared error of predictions of some of the facts."""
    rows = _head(given, _WARM)
    return float(np.mean((rows["facts"][_target(objective)].to_numpy() - np.asarray(predict(rows))) ** 2))


def _dimensions(n_facts: int) -> dict[str, tuple[int, int]]:
    return {"a": (200, 10), "b": (10_000, 20), "c": (n_facts // 10, 20)}


def train(objective: str, scale: Scale) -> Comparison:
    """Train on three dimensions, the largest of a tenth as many rows as the facts."""
    n_facts, n_trees = scale.rows(10_000_000, 20_000), scale.trees(20, 3)
    given = tables(n_facts, _dimensions(n_facts))
    targets = [Target(1 / 3, JOINED), Target(0.25, _PEERS)]
    return _compared(given, n_trees, objective, targets, f"{n_facts:,} facts, 50 attributes of three dimensions")


def does_not_pay(scale: Scale) -> Comparison:
    """Train where codes by fact are as fast: on a small dimension of two attributes and one as large as the facts."""
    n_facts, n_trees = scale.rows(1_000_000, 20_000), scale.trees(20, 3)
    given = tables(n_facts, {"a": (50, 2), "b": (n_facts, 10)})
    return _compared(given, n_trees, "reg:squarederror", [Target(1.0, JOINED)], f"{n_facts:,} facts, as many keys")


def _compared(given: Tables, n_trees: int, objective: str, targets: list[Target], title: str) -> Comparison:
    for way in (JOINED, STAR):
        _WAYS[way](_head(given, _WARM), 2, objective)
    ways = [
        Way(name, partial(run, given, n_trees, objective), partial(_error, given, objective),
            targets if name == STAR else (), lacking(_MODULES[name]) if name in _MODULES else None)
        for name, run in _WAYS.items()
    ]  # fmt: skip
    return Comparison(ways, f"{title}, {n_trees} trees, with the join", "squared error")


def peak_memory(scale: Scale) -> Comparison:
    """Train as `train` does, in fresh processes, and measure the peak memory beyond the tables'."""
    n_facts, n_trees = scale.rows(10_000_000, 20_000), scale.trees(5, 2)
    folder = Path(scale.folder)
    for name, frame in tables(n_facts, _dimensions(n_facts)).items():
        frame.write_parquet(folder / f"star-{name}.parquet")

    def run(way: str) -> float:
        command = [sys.executable, __file__, way, str(folder), str(n_trees), "reg:squarederror"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"ended with {done.returncode}")
        return float(done.stdout.split()[-1])

    targets = {STAR: [Target(0.25, JOINED), Target(0.25, _PEERS)]}
    ways = [
        Way(name, partial(run, name), None, targets.get(name, ()),
            lacking(_MODULES[name]) if name in _MODULES else None)
        for name in _WAYS
    ]  # fmt: skip
    return Comparison(ways, f"{n_facts:,} facts, megabytes beyond the tables'", unit="MB", timed=False, rounds=1)


WORKLOADS: dict[str, Callable[[Scale], Comparison]] = {
    "star": partial(train, "reg:squarederror"),
    "star-logistic": partial(train, "binary:logistic"),
    "star-does-not-pay": does_not_pay,
    "star-memory": peak_memory,
}


def main() -> None:
    way, folder, n_trees, objective = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    given = {name: pl.read_parquet(folder / f"star-{name}.parquet") for name in ("facts", "a", "b", "c")}
    _WAYS[way](_head(given, 2000), 2, objective)
    watch = memory.Watch()
    kept = _WAYS[way](given, n_trees, objective)
    print(watch.peak())
    del kept


if __name__ == "__main__":
    main()

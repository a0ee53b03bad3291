"""The workloads for calls of `predict`, from one row to wide and deep, and for saving and loading a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import data
import peers
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way

import frameboost as fb

XGBOOST, LIGHTGBM, OURS = "xgboost inplace_predict", "lightgbm predict", "frameboost predict"


@dataclass(frozen=True)
class Calls:
    """Calls of `predict`: the rows to train on and to score (full, quick), the trees, how often, and the bounds.

    ``container`` is what the rows come in: a ``"frame"`` of polars, which others get as a row-major array; an
    ``"array"``, which frameboost's estimator scores, and the boosters of the others; a frame of ``"pandas"``; a table
    of PyArrow, ``"arrow"``; or a ``"lazy"`` frame, which others collect and convert to an array.
    """

    what: str
    train_rows: tuple[int, int]
    rows: tuple[int, int]
    at_most: tuple[float | None, float | None]
    width: tuple[int, int] = (28, 28)
    trees: tuple[int, int] = (100, 20)
    calls: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    rounds: int | None = 5
    container: str = "frame"


# Containers, and the bounds for one row in them.
_CONTAINERS = {"array": (0.6, 3.0), "pandas": (0.6, 0.7), "arrow": (0.6, 1.0), "lazy": (0.8, 2.0)}

CALLS = {
    "predict-one": Calls("one row, 200 times", (10_000, 2_000), (1, 1), (1.0, 2.0), calls=200),
    "predict-1000": Calls("1,000 rows, 50 times", (10_000, 2_000), (1_000, 1_000), (0.7, 0.7), calls=50),
    **{
        f"predict-{name}-{container}": Calls(f"{what}, 100 times", (10_000, 2_000), (n_rows, n_rows), bounds, calls=100,
                                             container=container)
        for container, of_one in _CONTAINERS.items()
        for name, what, n_rows, bounds in (("one", "one row", 1, of_one), ("100", "100 rows", 100, (0.8, 0.6)))
    },
    **{
        f"predict-depth-{depth}": Calls(f"trees of depth {depth}", (200_000, 20_000), (200_000, 20_000), (0.7, 0.7),
                                        trees=(200, 10), settings={"max_depth": depth}, rounds=None)
        for depth in (7, 8, 10, 14)
    },
    "predict-leaves": Calls("255 leaves grown leaf by leaf", (200_000, 20_000), (200_000, 20_000), (0.7, 0.7),
                            trees=(200, 10), rounds=None,
                            settings={"grow_policy": "lossguide", "max_leaves": 255, "max_depth": 0}),
    "predict-5000-columns": Calls("wide rows, 20 times", (200, 200), (200, 200), (1.5, 1.5), (5_000, 500), (100, 5),
                                  calls=20),
    "predict-5000-columns-arrow": Calls("wide rows, 20 times", (200, 200), (200, 200), (0.6, 0.6), (5_000, 500),
                                        (100, 5), calls=20, container="arrow"),
    "predict-2000-columns": Calls("wide rows", (5_000, 1_000), (5_000, 1_000), (1.5, 1.5), (2_000, 200), (100, 5)),
}  # fmt: skip


def predict(calls: Calls, scale: Scale) -> Comparison:
    """Score as `CALLS` says, the same rows at each call."""
    at = int(scale.quick)
    trained = data.workload(calls.train_rows[at], calls.width[at])
    n_rows, n_trees = scale.rows(*calls.rows) if calls.rows[0] > 1_000 else calls.rows[at], scale.trees(*calls.trees)
    rows = data.Data(trained.frame, data.made_up(max(n_rows, 100), calls.width[at], seed=1).head(n_rows))
    ways = _trained(rows, n_trees, calls)
    targets = [Target(most, of) for most, of in zip(calls.at_most, (XGBOOST, LIGHTGBM), strict=True) if most]
    labels = rows.held_out[data.LABEL].to_numpy()
    for way in ways:
        way.run = partial(_repeat, way.run, calls.calls)
        way.judge = lambda scores: data.error_of(labels, scores, data.BINARY)
        way.targets = targets if way.name == OURS else ()
    size = f"{calls.container}, {n_rows:,} row{'s' * (n_rows > 1)} × {calls.width[at]}, {n_trees} trees"
    return Comparison(ways, f"{calls.what}: {size}", rows.quality_name, rounds=1 if scale.quick else calls.rounds)


def _repeat(run: Callable[[], Any], times: int) -> Any:
    for _ in range(times - 1):
        run()
    return run()


def _trained(rows: data.Data, n_trees: int, calls: Calls) -> list[Way]:
    """Return the libraries' ways to score the held-out rows, with models that each has trained by itself."""
    settings = calls.settings
    xgboost, lightgbm = peers.xgboost(rows, n_trees, **settings), peers.lightgbm(rows, n_trees, **settings)
    features = rows.held_out.drop(data.LABEL)
    theirs, ours = _containers(calls.container, rows.held_out_x, features)
    threads = 1 if len(features) == 1 else THREADS  # one row is no work for a team of threads
    first, second = Way(XGBOOST, lacking=xgboost.lacking), Way(LIGHTGBM, lacking=lightgbm.lacking)
    if xgboost.lacking is None:
        booster = xgboost.run()
        booster.set_param({"nthread": threads})
        first.run = lambda: booster.inplace_predict(theirs(), validate_features=False)
    if lightgbm.lacking is None:
        trained = lightgbm.run()
        second.run = lambda: trained.predict(theirs(), num_threads=threads)
    if calls.container == "array":
        settings = peers.SETTINGS | {"max_bin": peers.BINS, "n_jobs": threads} | settings
        estimator = fb.FrameBoostClassifier(n_estimators=n_trees, **settings).fit(rows.x, rows.y)
        third = Way(OURS, lambda: estimator.predict_proba(ours())[:, 1])
    else:
        model = peers.fit(rows.frame, n_trees, **settings)
        third = Way(OURS, lambda: model.predict(ours(), n_jobs=threads))
    third.run()  # compiles the kernels, once on a machine
    return [first, second, third]


def _containers(name: str, x: Any, features: pl.DataFrame) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return what makes the rows that other libraries get, and those that frameboost gets."""
    if name == "lazy":
        return lambda: features.lazy().collect().to_numpy(), features.lazy
    if name == "frame":
        return lambda: x, lambda: features
    rows = {"array": lambda: x, "pandas": features.to_pandas, "arrow": features.to_arrow}[name]()
    return lambda: rows, lambda: rows


def save_and_load(scale: Scale) -> Comparison:
    """Write a model's file and read it, each library in its fastest format; XGBoost's and frameboost's JSON, too."""
    rows, n_trees = data.workload(scale.rows(100_000, 5_000)), scale.trees()
    folder, held_out = Path(scale.folder), rows.held_out.drop(data.LABEL)
    ways = [peers.xgboost(rows, n_trees), peers.lightgbm(rows, n_trees)]
    made = [way.run() if way.lacking is None else None for way in ways]

    def by_xgboost(name: str) -> Any:
        import xgboost as xgb

        made[0].save_model(folder / name)
        return xgb.Booster(model_file=folder / name)

    def by_lightgbm() -> Any:
        import lightgbm as lgb

        made[1].save_model(folder / "model.txt")
        return lgb.Booster(model_file=folder / "model.txt")

    def by_frameboost(name: str) -> fb.Model:
        model.save(folder / name)
        return fb.load(folder / name)

    model = peers.fit(rows.frame, n_trees)
    targets = [Target(1.5, "xgboost hist"), Target(1.5, "lightgbm")]
    ways[0].run, ways[1].run = partial(by_xgboost, "model.ubj"), by_lightgbm
    ways.insert(1, Way("xgboost, as JSON", partial(by_xgboost, "model_.json"), lacking=ways[0].lacking))
    for name, file, bounds in (("frameboost", "model_.ubj", targets), ("frameboost, as JSON", "model__.json", ())):
        ways.append(Way(name, partial(by_frameboost, file), lambda m: rows.quality(m.predict(held_out)), bounds))
    return Comparison(ways, f"a model of {n_trees} trees of depth {peers.DEPTH}", rows.quality_name,
                      rounds=2 if scale.quick else 10)  # fmt: skip

"""Time training and scoring beside XGBoost and LightGBM, in one run, and print ratios (see README.md)."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import duckdb
import lightgbm
import numpy as np
import polars as pl
import xgboost

import frameboost as fb

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SETTINGS = {"max_depth": 6, "learning_rate": 0.1, "max_bin": 256}


@dataclass
class Entry:
    """What is timed: how to prepare (not timed), run, and judge it."""

    name: str
    run: Callable[[], object]
    logloss: Callable[[object], float]
    seconds: list[float] = field(default_factory=list)
    loss: float = float("nan")

    @property
    def best(self) -> float:
        """The shortest time."""
        return min(self.seconds)


def workload(n_rows: int) -> pl.DataFrame:
    """Return W: 28 float32 features and a Boolean label."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n_rows, 28), dtype=np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 / 2 + rng.standard_normal(n_rows)
    return pl.DataFrame(x, schema=[f"x{i}" for i in range(28)]).with_columns(y=pl.Series(score > 0.5))


def logloss(labels: np.ndarray, probabilities: np.ndarray) -> float:
    p = np.clip(np.asarray(probabilities, dtype=np.float64), 1e-15, 1 - 1e-15)
    return float(-np.where(labels, np.log(p), np.log1p(-p)).mean())


def training(frame: pl.DataFrame, n_trees: int) -> list[Entry]:
    """Return the trainers, XGBoost first."""
    features = frame.drop("y")
    x, y = features.to_numpy(), frame["y"].to_numpy()
    con = duckdb.connect()
    con.execute(f"SET threads = {THREADS}")
    con.register("arrived", frame)
    con.execute("CREATE TABLE w AS FROM arrived")

    def train_xgboost() -> xgboost.Booster:
        data = xgboost.QuantileDMatrix(x, y, max_bin=256, nthread=THREADS)
        settings = {"objective": "binary:logistic", "tree_method": "hist", "nthread": THREADS, **SETTINGS}
        return xgboost.train(settings, data, n_trees)

    def train_lightgbm() -> lightgbm.Booster:
        settings = {"objective": "binary", "num_leaves": 63, "max_bin": 255, "learning_rate": 0.1, "verbose": -1,
                    "num_threads": THREADS, "min_sum_hessian_in_leaf": 1.0, "min_data_in_leaf": 1}  # fmt: skip
        return lightgbm.train(settings, lightgbm.Dataset(x, y, params={"max_bin": 255}), n_trees)

    def train_frameboost(data: object, engine: str) -> fb.Model:
        return fb.fit(data, "y", objective="binary:logistic", engine=engine, n_estimators=n_trees, verbose=False,
                      **SETTINGS)  # fmt: skip

    def ours(model: object) -> float:
        return logloss(y, model.predict(frame).to_numpy())

    return [
        Entry("xgboost hist", train_xgboost, lambda m: logloss(y, m.inplace_predict(x))),
        Entry("lightgbm, 63 leaves", train_lightgbm, lambda m: logloss(y, m.predict(x))),
        Entry("frameboost numba", lambda: train_frameboost(frame, "numba"), ours),
        Entry("frameboost polars", lambda: train_frameboost(frame, "polars"), ours),
        Entry("frameboost duckdb", lambda: train_frameboost(con.table("w"), "duckdb"), ours),
    ]


def scoring(frame: pl.DataFrame, booster: xgboost.Booster, model: fb.Model) -> list[Entry]:
    """Return the ways of scoring, XGBoost first."""
    x, y = frame.drop("y").to_numpy(), frame["y"].to_numpy()
    con = duckdb.connect()
    con.execute(f"SET threads = {THREADS}")
    con.register("arrived", frame)
    con.execute("CREATE TABLE w AS FROM arrived")
    query = model.query("w", keep=[])

    def judge(scores: object) -> float:
        return logloss(y, np.asarray(scores))

    def in_polars() -> pl.Series:
        return frame.lazy().select(model.expr()).collect(engine="streaming").to_series()

    return [
        Entry("xgboost inplace_predict", lambda: booster.inplace_predict(x), judge),
        Entry("frameboost predict", lambda: model.predict(frame), judge),
        Entry("frameboost expr, polars", in_polars, judge),
        Entry("frameboost sql, duckdb", lambda: con.execute(query).fetchnumpy()["prediction"], judge),
    ]


def run(entries: list[Entry], rounds: int) -> list[object]:
    """Run the entries in turn, ``rounds`` times over; return their last results."""
    results: list[object] = [None] * len(entries)
    for _ in range(rounds):
        for i, entry in enumerate(entries):
            start = time.perf_counter()
            results[i] = entry.run()
            entry.seconds.append(time.perf_counter() - start)
    for entry, result in zip(entries, results, strict=True):
        entry.loss = entry.logloss(result)
    return results


def show(title: str, entries: list[Entry]) -> None:
    print(f"\n{title:<28}{'seconds':>10}{'ratio':>9}{'logloss':>10}")
    for entry in entries:
        print(f"{entry.name:<28}{entry.best:>10.2f}{entry.best / entries[0].best:>9.2f}{entry.loss:>10.5f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="100,000 rows, 20 trees, 1 round")
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.rows, chosen.trees, chosen.rounds = 100_000, 20, 1
    print(f"W: {chosen.rows:,} rows × 28, {chosen.trees} trees of depth 6, {THREADS} threads, best of {chosen.rounds}")
    frame = workload(chosen.rows)
    # Kernels compile once a machine; that is not what is measured here.
    fb.fit(frame.head(1000), "y", objective="binary:logistic", n_estimators=2).predict(frame.head(1000))
    trainers = training(frame, chosen.trees)
    trained = run(trainers, chosen.rounds)
    show("training, binning included", trainers)
    assert trained[2] == trained[3] == trained[4], "the engines disagree"
    scorers = scoring(frame, trained[0], trained[2])  # type: ignore[arg-type]
    run(scorers, chosen.rounds)
    show("scoring, planning included", scorers)


if __name__ == "__main__":
    main()

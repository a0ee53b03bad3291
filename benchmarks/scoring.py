"""The workloads for scoring."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import data
import numpy as np
import peers
import polars as pl
from measuring import THREADS, Comparison, Scale, Target, Way, lacking

import frameboost as fb

XGBOOST, ORBITAL = "xgboost inplace_predict", "orbital"
_KEY = "id"
_TRAINED_ON = 10_000  # training rows for scikit-learn, as in sql_export.py: its exact splits are slow


def predict(scale: Scale) -> Comparison:
    """Score a million rows with models of a hundred trees."""
    rows, n_trees = data.workload(scale.rows(1_000_000, 20_000)), scale.trees()
    model = peers.fit(rows.frame, n_trees)
    symmetric = peers.fit(rows.frame, n_trees, grow_policy="symmetric")
    features = rows.frame.drop(data.LABEL)
    ways = [*_of_others(rows, n_trees),
            Way("frameboost predict", lambda: model.predict(features), targets=[Target(0.8, XGBOOST)]),
            Way("frameboost expr, polars", lambda: _in_polars(model, features), targets=[Target(3, XGBOOST)]),
            _in_duckdb("frameboost udf, duckdb", model, features, [Target(1.3, XGBOOST)], form="udf"),
            Way("frameboost symmetric predict", lambda: symmetric.predict(features)),
            Way("frameboost symmetric expr, polars", lambda: _in_polars(symmetric, features))]  # fmt: skip
    for way in ways:
        way.judge = lambda scores: data.error_of(rows.y, _in_order(scores), data.BINARY)
    model.predict(features.head(100))  # compiles the kernels, once on a machine
    return Comparison(ways, f"{len(features):,} rows × 28, {n_trees} trees of depth 6", rows.quality_name)


def _of_others(rows: data.Data, n_trees: int) -> list[Way]:
    xgboost, lightgbm = peers.xgboost(rows, n_trees), peers.lightgbm(rows, n_trees)
    if xgboost.lacking:
        first = Way(XGBOOST, lacking=xgboost.lacking)
    else:
        booster = xgboost.run()
        first = Way(XGBOOST, lambda: booster.inplace_predict(rows.x))
    if lightgbm.lacking:
        return [first, Way("lightgbm predict", lacking=lightgbm.lacking)]
    trained = lightgbm.run()
    return [first, Way("lightgbm predict", lambda: trained.predict(rows.x, num_threads=THREADS))]


def _in_polars(model: fb.Model, frame: pl.DataFrame) -> pl.Series:
    return frame.lazy().select(model.expr()).collect(engine="streaming").to_series()


def _in_duckdb(name: str, model: fb.Model, frame: pl.DataFrame, targets: list[Target], form: str = "sorted") -> Way:
    con = data.database(frame.with_row_index(_KEY), "w")
    if form == "udf":
        if reason := lacking("pyarrow"):
            return Way(name, lacking=reason)
        model.register(con, "score", form="udf")
        query = f"SELECT score({', '.join(model.features)}) AS prediction FROM w"
        return Way(name, lambda: con.execute(query).fetchnumpy()["prediction"], targets=targets)
    return Way(name, lambda: con.execute(model.query("w", keep=[_KEY], form=form)).fetchnumpy(), targets=targets)


def _in_order(found: Any) -> Any:
    """Return the predictions sorted by their key, if they have one."""
    return found["prediction"][np.argsort(found[_KEY])] if isinstance(found, dict) else found


def sql_of_depth(depth: int, scale: Scale) -> Comparison:
    """Score with SQL in DuckDB, writing and planning it included, next to orbital's SQL for scikit-learn's trees."""
    rows, n_trees = data.workload(scale.rows(1_000_000, 20_000), is_binary=False), scale.trees(quick=10)
    features, sample = rows.frame.drop(data.LABEL), rows.frame.head(_TRAINED_ON)
    own = peers.fit(rows.frame, n_trees, data.REGRESSION, max_depth=depth)
    symmetric = peers.fit(rows.frame, n_trees, data.REGRESSION, max_depth=depth, grow_policy="symmetric")
    ways = [Way(ORBITAL, lacking=lacking("orbital", "sklearn"))]
    others = []
    if lacking("sklearn") is None:
        from sklearn.ensemble import GradientBoostingRegressor

        trees = GradientBoostingRegressor(n_estimators=n_trees, max_depth=depth, max_features=0.3, random_state=0)
        trees.fit(sample.drop(data.LABEL), sample[data.LABEL].to_numpy())
        read = fb.from_sklearn(trees)
        others = [_in_duckdb("frameboost sql, the same trees", read, features, [Target(1 / 2.8, ORBITAL)])]
        if ways[0].lacking is None:
            ways[0].run = _by_orbital(trees, features)
    looked_up = _in_duckdb("frameboost sql, symmetric", symmetric, features, [Target(1 / 8, ORBITAL)], form="case")
    ways += [*others, _in_duckdb("frameboost sql", own, features, [Target(1 / 3.5, ORBITAL)]), looked_up]
    for way in ways:
        way.judge = lambda scores: data.error_of(rows.y, _in_order(scores), data.REGRESSION)
    return Comparison(ways, f"{len(features):,} rows × 28, {n_trees} trees of depth {depth}", rows.quality_name)


def _by_orbital(model: Any, frame: pl.DataFrame) -> Callable[[], np.ndarray]:
    from orbital import export_sql, parse_pipeline, types
    from sklearn.pipeline import Pipeline

    con = data.database(frame, "w")
    columns = dict.fromkeys(frame.columns, types.FloatColumnType())

    def run() -> np.ndarray:
        query = export_sql("w", parse_pipeline(Pipeline([("model", model)]), columns), dialect="duckdb")
        return next(reversed(con.execute(query).fetchnumpy().values()))

    return run

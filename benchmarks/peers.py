"""The libraries that train, each with the same settings and number of threads.

Settings have XGBoost's names, which frameboost shares; LightGBM's are translated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from data import BINARY, CLASSES, LABEL, MEDIAN, POISSON, QUANTILE, RANKING, REGRESSION, Data, table
from measuring import THREADS, Target, Way, lacking

import frameboost as fb
from frameboost.runtime.kernel import CompileLater

DEPTH, RATE, BINS = 6, 0.1, 256
SETTINGS = {"max_depth": DEPTH, "learning_rate": RATE, "reg_lambda": 1.0, "min_child_weight": 1.0}
_WHOLE = 300_000  # rows up to which the fit that compiles the kernels takes all, so that it needs the same ones
CompileLater.is_on = False  # nothing is compiled while the clock runs
_LIGHTGBM = {
    BINARY: "binary", REGRESSION: "regression", MEDIAN: "l1", QUANTILE: "quantile", CLASSES: "multiclass",
    POISSON: "poisson", RANKING: "lambdarank",
}  # fmt: skip
_LIGHTGBM_NAMES = {
    "max_depth": "max_depth", "learning_rate": "learning_rate", "reg_lambda": "lambda_l2", "max_leaves": "num_leaves",
    "min_child_weight": "min_sum_hessian_in_leaf", "subsample": "bagging_fraction", "num_class": "num_class",
    "colsample_bytree": "feature_fraction", "quantile_alpha": "alpha", "eval_metric": "metric",
}  # fmt: skip


def xgboost_settings(objective: str = BINARY, tree_method: str = "hist", **more: Any) -> dict[str, Any]:
    """Return XGBoost's parameters."""
    return {"objective": objective, "tree_method": tree_method, "nthread": THREADS} | SETTINGS | more


def xgboost(data: Data, n_trees: int, tree_method: str = "hist", **more: Any) -> Way:
    """Return XGBoost; ``hist`` uses a QuantileDMatrix, which does not store the raw values."""
    name = f"xgboost {tree_method}"
    if reason := lacking("xgboost"):
        return Way(name, lacking=reason)
    import xgboost as xgb

    stopping = more.get("early_stopping_rounds")
    tuning = {key: value for key, value in more.items() if key != "early_stopping_rounds"}
    settings = xgboost_settings(data.objective, tree_method, **tuning)
    options = {"nthread": THREADS, "enable_categorical": hasattr(data.x, "columns")}
    if tree_method != "exact":
        settings["max_bin"] = BINS

    def matrix(x: Any, y: Any, frame: Any, ref: Any = None) -> xgb.DMatrix:
        more = options | {"group": data.query_sizes(frame)}
        if tree_method == "hist":
            return xgb.QuantileDMatrix(x, y, max_bin=BINS, ref=ref, **more)
        return xgb.DMatrix(x, y, **more)

    def run() -> xgb.Booster:
        rows = matrix(data.x, data.y, data.frame)
        if data.valid is None:
            return xgb.train(settings, rows, n_trees)
        valid = matrix(data.valid_x, data.valid[LABEL].to_numpy(), data.valid, rows)
        watched = {"evals": [(valid, "valid")], "early_stopping_rounds": stopping, "verbose_eval": False}
        return xgb.train(settings, rows, n_trees, **watched)

    def judge(booster: xgb.Booster) -> float:
        kept = (0, booster.best_iteration + 1) if stopping else (0, 0)
        return data.quality(booster.predict(xgb.DMatrix(data.held_out_x, **options), iteration_range=kept))

    return Way(name, run, judge)


def lightgbm_settings(objective: str = BINARY, **more: Any) -> dict[str, Any]:
    """Return LightGBM's parameters, with as many leaves as trees of the depth have."""
    given = SETTINGS | {key: value for key, value in more.items() if key in _LIGHTGBM_NAMES}
    depth = given["max_depth"] or -1
    settings = {"num_leaves": 2**depth if depth > 0 else 31} | {_LIGHTGBM_NAMES[k]: v for k, v in given.items()}
    settings |= {"objective": _LIGHTGBM[objective], "max_depth": depth, "min_data_in_leaf": 1, "max_cat_to_onehot": 4}
    if "subsample" in more:
        settings["bagging_freq"] = 1
    if "num_parallel_tree" in more:
        settings["boosting"] = "rf"
    return settings | {"num_threads": THREADS, "verbose": -1}


def lightgbm(data: Data, n_trees: int, **more: Any) -> Way:
    """Return LightGBM, which grows leaf-wise to at most 64 leaves, those of depth 6, with bins stored in bytes."""
    if reason := lacking("lightgbm"):
        return Way("lightgbm", lacking=reason)
    import lightgbm as lgb

    settings = lightgbm_settings(data.objective, **more)
    bins = {"max_bin": BINS - 1, "min_data_in_leaf": 1, "num_threads": THREADS, "verbose": -1}
    n_rounds = n_trees * more.get("num_parallel_tree", 1)

    def run() -> lgb.Booster:
        rows = lgb.Dataset(data.x, data.y, group=data.query_sizes(data.frame), params=bins)
        if data.valid is None:
            return lgb.train(settings, rows, n_rounds)
        valid = lgb.Dataset(data.valid_x, data.valid[LABEL].to_numpy(), reference=rows, params=bins)
        stopping = more.get("early_stopping_rounds")
        callbacks = [lgb.early_stopping(stopping, verbose=False)] if stopping else []
        return lgb.train(settings, rows, n_rounds, valid_sets=[valid], callbacks=callbacks)

    return Way("lightgbm", run, lambda m: data.quality(m.predict(data.held_out_x)))


def sklearn(data: Data, n_trees: int) -> Way:
    """Return scikit-learn's histogram gradient boosting."""
    if reason := lacking("sklearn"):
        return Way("sklearn hist", lacking=reason)
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    is_binary = data.objective == BINARY
    kind = HistGradientBoostingClassifier if is_binary else HistGradientBoostingRegressor
    settings: dict[str, Any] = {
        "max_iter": n_trees, "max_depth": DEPTH, "max_leaf_nodes": 2**DEPTH, "learning_rate": RATE,
        "l2_regularization": 1.0, "min_samples_leaf": 1, "max_bins": BINS - 1, "early_stopping": False,
    }  # fmt: skip

    def predicted(model: Any) -> Any:
        return model.predict_proba(data.held_out_x)[:, 1] if is_binary else model.predict(data.held_out_x)

    return Way("sklearn hist", lambda: kind(**settings).fit(data.x, data.y), lambda m: data.quality(predicted(m)))


def catboost(data: Data, n_trees: int) -> Way:
    """Return CatBoost, which grows symmetric trees, unlike the others."""
    if reason := lacking("catboost"):
        return Way("catboost, symmetric", lacking=reason)
    import catboost as cb

    is_binary = data.objective == BINARY
    settings = {
        "iterations": n_trees, "depth": DEPTH, "learning_rate": RATE, "l2_leaf_reg": 1.0, "border_count": BINS - 2,
        "thread_count": THREADS, "verbose": False, "allow_writing_files": False,
    }  # fmt: skip
    kind = cb.CatBoostClassifier if is_binary else cb.CatBoostRegressor

    def predicted(model: Any) -> Any:
        return model.predict_proba(data.held_out_x)[:, 1] if is_binary else model.predict(data.held_out_x)

    return Way(
        "catboost, symmetric",
        lambda: kind(**settings).fit(data.x, data.y),
        lambda m: data.quality(predicted(m)),
    )


def fit(data: Any, n_trees: int, objective: str = BINARY, *, engine: str | fb.Dask = "numba", **more: Any) -> fb.Model:
    """Train frameboost with the settings of the other libraries."""
    settings = {"objective": objective} | SETTINGS | ({"n_jobs": THREADS} if engine == "numba" else {})
    if more.get("tree_method") != "exact":
        settings["max_bin"] = BINS
    return fb.fit(data, LABEL, engine=engine, n_estimators=n_trees, verbose=False, **settings | more)


def frameboost(data: Data, n_trees: int, engine: str = "numba", targets: Sequence[Target] = (), **more: Any) -> Way:
    """Return frameboost with one of its engines; a small fit first compiles the kernels, once on a machine."""
    more |= {} if data.group is None else {"group": data.group}
    first = data.frame.head(500 if len(data.frame) > _WHOLE else _WHOLE)
    fit(first, 2, data.objective, valid=data.valid, engine=engine, **more)
    rows, valid = data.frame, data.valid
    if engine == "duckdb":
        rows, valid = data.table(), None if valid is None else table(valid)
    return Way(
        f"frameboost {' '.join([engine, *(v for k, v in more.items() if k == 'tree_method')])}",
        lambda: fit(rows, n_trees, data.objective, valid=valid, engine=engine, **more),
        lambda m: data.quality(m.predict(data.held_out)),
        targets,
    )


def auto(data: Data, **options: Any) -> Way:
    """Return a model whose settings frameboost chooses, as one call would have it."""

    def run() -> fb.Model:
        return fb.auto(data.frame, LABEL, objective=data.objective, n_jobs=THREADS, verbose=False, **options)

    return Way("frameboost auto", run, lambda m: data.quality(m.predict(data.held_out)))


def beside(data: Data, n_trees: int, xgboost_at_most: float | None = None, lightgbm_at_most: float | None = None,
           tree_method: str = "hist", **more: Any) -> list[Way]:  # fmt: skip
    """Return XGBoost, LightGBM where it has the tree method, and frameboost with bounds for its ratios to them."""
    first = xgboost(data, n_trees, tree_method, **more)
    ways, targets = [first], [] if xgboost_at_most is None else [Target(xgboost_at_most, first.name)]
    if tree_method == "hist":
        ways.append(lightgbm(data, n_trees, **more))
        targets += [] if lightgbm_at_most is None else [Target(lightgbm_at_most, "lightgbm")]
    chosen = {} if tree_method == "hist" else {"tree_method": tree_method}
    return [*ways, frameboost(data, n_trees, targets=targets, **chosen, **more)]

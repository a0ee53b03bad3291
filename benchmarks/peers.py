"""The libraries that train, each with the same depth, bins, λ, minimum child hessian and number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from data import LABEL, Data
from measuring import THREADS, Target, Way, lacking

import frameboost as fb

DEPTH, RATE, BINS = 6, 0.1, 256


def xgboost_settings(*, is_binary: bool, tree_method: str = "hist", depth: int = DEPTH) -> dict[str, Any]:
    """Return XGBoost's parameters."""
    return {
        "objective": "binary:logistic" if is_binary else "reg:squarederror", "tree_method": tree_method,
        "max_depth": depth, "learning_rate": RATE, "reg_lambda": 1.0, "min_child_weight": 1.0, "nthread": THREADS,
    }  # fmt: skip


def xgboost(data: Data, n_trees: int, tree_method: str = "hist", depth: int = DEPTH) -> Way:
    """Return XGBoost; ``hist`` uses a QuantileDMatrix, which does not store the raw values."""
    name = f"xgboost {tree_method}"
    if reason := lacking("xgboost"):
        return Way(name, lacking=reason)
    import xgboost as xgb

    settings = xgboost_settings(is_binary=data.is_binary, tree_method=tree_method, depth=depth)
    options = {"nthread": THREADS, "enable_categorical": not hasattr(data.x, "dtype")}

    def run() -> xgb.Booster:
        if tree_method == "exact":
            return xgb.train(settings, xgb.DMatrix(data.x, data.y, **options), n_trees)
        rows = xgb.QuantileDMatrix(data.x, data.y, max_bin=BINS, **options)
        return xgb.train({**settings, "max_bin": BINS}, rows, n_trees)

    return Way(name, run, lambda m: data.quality(m.predict(xgb.DMatrix(data.held_out_x, **options))))


def lightgbm(data: Data, n_trees: int) -> Way:
    """Return LightGBM, which grows leaf-wise to at most 64 leaves, those of depth 6, with bins stored in bytes."""
    if reason := lacking("lightgbm"):
        return Way("lightgbm", lacking=reason)
    import lightgbm as lgb

    settings = {
        "objective": "binary" if data.is_binary else "regression", "max_depth": DEPTH, "num_leaves": 2**DEPTH,
        "learning_rate": RATE, "lambda_l2": 1.0, "min_sum_hessian_in_leaf": 1.0, "min_data_in_leaf": 1,
        "max_cat_to_onehot": 4, "num_threads": THREADS, "verbose": -1,
    }  # fmt: skip
    bins = {"max_bin": BINS - 1, "min_data_in_leaf": 1, "num_threads": THREADS, "verbose": -1}
    return Way(
        "lightgbm",
        lambda: lgb.train(settings, lgb.Dataset(data.x, data.y, params=bins), n_trees),
        lambda m: data.quality(m.predict(data.held_out_x)),
    )


def sklearn(data: Data, n_trees: int) -> Way:
    """Return scikit-learn's histogram gradient boosting."""
    if reason := lacking("sklearn"):
        return Way("sklearn hist", lacking=reason)
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if data.is_binary else HistGradientBoostingRegressor
    settings: dict[str, Any] = {
        "max_iter": n_trees, "max_depth": DEPTH, "max_leaf_nodes": 2**DEPTH, "learning_rate": RATE,
        "l2_regularization": 1.0, "min_samples_leaf": 1, "max_bins": BINS - 1, "early_stopping": False,
    }  # fmt: skip

    def predicted(model: Any) -> Any:
        return model.predict_proba(data.held_out_x)[:, 1] if data.is_binary else model.predict(data.held_out_x)

    return Way("sklearn hist", lambda: kind(**settings).fit(data.x, data.y), lambda m: data.quality(predicted(m)))


def catboost(data: Data, n_trees: int) -> Way:
    """Return CatBoost, which grows symmetric trees, unlike the others."""
    if reason := lacking("catboost"):
        return Way("catboost, symmetric", lacking=reason)
    import catboost as cb

    settings = {
        "iterations": n_trees, "depth": DEPTH, "learning_rate": RATE, "l2_leaf_reg": 1.0, "border_count": BINS - 2,
        "thread_count": THREADS, "verbose": False, "allow_writing_files": False,
    }  # fmt: skip
    kind = cb.CatBoostClassifier if data.is_binary else cb.CatBoostRegressor

    def predicted(model: Any) -> Any:
        return model.predict_proba(data.held_out_x)[:, 1] if data.is_binary else model.predict(data.held_out_x)

    return Way(
        "catboost, symmetric",
        lambda: kind(**settings).fit(data.x, data.y),
        lambda m: data.quality(predicted(m)),
    )


def fit(data: Any, n_trees: int, *, is_binary: bool, engine: str | fb.Dask = "numba", **more: Any) -> fb.Model:
    """Train frameboost with the settings of the other libraries."""
    settings = {
        "objective": "binary:logistic" if is_binary else "reg:squarederror", "max_depth": DEPTH, "learning_rate": RATE,
        "reg_lambda": 1.0, "min_child_weight": 1.0,
    } | ({"n_jobs": THREADS} if engine == "numba" else {})  # fmt: skip
    if more.get("tree_method") != "exact":
        settings["max_bin"] = BINS
    return fb.fit(data, LABEL, engine=engine, n_estimators=n_trees, verbose=False, **settings | more)


def frameboost(data: Data, n_trees: int, engine: str = "numba", targets: Sequence[Target] = (), **more: Any) -> Way:
    """Return frameboost with one of its engines; a small fit first compiles the kernels, once on a machine."""
    fit(data.frame.head(500), 2, is_binary=data.is_binary, **more)
    rows = data.table() if engine == "duckdb" else data.frame
    return Way(
        f"frameboost {' '.join([engine, *(v for k, v in more.items() if k == 'tree_method')])}",
        lambda: fit(rows, n_trees, is_binary=data.is_binary, engine=engine, **more),
        lambda m: data.quality(m.predict(data.held_out)),
        targets,
    )

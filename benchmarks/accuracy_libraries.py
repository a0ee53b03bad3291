"""The libraries that `accuracy` compares, each with its defaults and early stopping; each function trains and predicts.

XGBoost's default learning rate of 0.3 is meant for few rounds, so it gets 0.1, as LightGBM has, and at most 1,000
rounds, as CatBoost has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from data import BINARY, CLASSES, LABEL, POISSON, Data
from measuring import THREADS

import frameboost as fb

__all__ = ["ABLATION", "LIBRARIES", "Library"]

Library = Callable[[Data], Any]

_RATE, _ROUNDS, _STOPPING = 0.1, 1_000, 50


def xgboost(rows: Data) -> Any:
    """Train XGBoost."""
    import xgboost as xgb

    settings = {"objective": rows.objective, "learning_rate": _RATE, "nthread": THREADS} | _classes(rows)
    options = {"enable_categorical": True, "nthread": THREADS}
    assert rows.valid is not None
    train = xgb.QuantileDMatrix(rows.x, rows.y, **options)
    valid = xgb.QuantileDMatrix(rows.valid_x, rows.valid[LABEL].to_numpy(), ref=train, **options)
    booster = xgb.train(settings, train, _ROUNDS, evals=[(valid, "valid")], early_stopping_rounds=_STOPPING,
                        verbose_eval=False)  # fmt: skip
    kept = (0, booster.best_iteration + 1)
    return booster.predict(xgb.DMatrix(rows.held_out_x, **options), iteration_range=kept)


def lightgbm(rows: Data) -> Any:
    """Train LightGBM."""
    import lightgbm as lgb

    names = {BINARY: "binary", CLASSES: "multiclass", POISSON: "poisson"}
    settings = {"objective": names.get(rows.objective, "regression"), "num_threads": THREADS, "verbose": -1}
    assert rows.valid is not None
    train = lgb.Dataset(rows.x, rows.y)
    valid = lgb.Dataset(rows.valid_x, rows.valid[LABEL].to_numpy(), reference=train)
    stopping = lgb.early_stopping(_STOPPING, verbose=False)
    booster = lgb.train(settings | _classes(rows), train, _ROUNDS, valid_sets=[valid], callbacks=[stopping])
    return booster.predict(rows.held_out_x)


def catboost(rows: Data) -> Any:
    """Train CatBoost, whose default learning rate depends on the data."""
    import catboost as cb

    losses = {BINARY: "Logloss", CLASSES: "MultiClass", POISSON: "Poisson"}
    assert rows.valid is not None
    texts = [name for name, kind in rows.frame.schema.items() if kind == pl.String]
    train, valid, held_out = (
        cb.Pool(_pandas(frame, "missing"), frame[LABEL].to_numpy(), cat_features=texts)
        for frame in (rows.frame, rows.valid, rows.held_out)
    )
    settings = {"iterations": _ROUNDS, "thread_count": THREADS, "verbose": False, "allow_writing_files": False}
    model = cb.CatBoost(settings | {"loss_function": losses.get(rows.objective, "RMSE")})
    model.fit(train, eval_set=valid, early_stopping_rounds=_STOPPING)
    kinds = {BINARY: "Probability", CLASSES: "Probability", POISSON: "Exponent"}
    found = model.predict(held_out, prediction_type=kinds.get(rows.objective, "RawFormulaVal"))
    return found[:, 1] if rows.objective == BINARY else found


def chimeraboost(rows: Data) -> Any:
    """Train ChimeraBoost, which holds out rows by itself, and in the end trains on all of them."""
    import chimeraboost as chimera

    assert rows.valid is not None
    frame = pl.concat([rows.frame, rows.valid])
    texts = [name for name, kind in rows.frame.schema.items() if kind == pl.String]
    x, held_out = _pandas(frame, "missing"), _pandas(rows.held_out, "missing")
    if rows.objective in (BINARY, CLASSES):
        classifier = chimera.ChimeraBoostClassifier(thread_count=THREADS, random_state=0)
        found = classifier.fit(x, frame[LABEL].to_numpy(), cat_features=texts).predict_proba(held_out)
        return found[:, 1] if rows.objective == BINARY else found
    loss = "Poisson" if rows.objective == POISSON else "RMSE"
    model = chimera.ChimeraBoostRegressor(loss=loss, thread_count=THREADS, random_state=0)
    return model.fit(x, frame[LABEL].to_numpy(), cat_features=texts).predict(held_out)


def frameboost(rows: Data, **more: Any) -> Any:
    """Train `frameboost.fit`."""
    settings = {"learning_rate": _RATE, "n_estimators": _ROUNDS, "early_stopping_rounds": _STOPPING, "n_jobs": THREADS}
    model = fb.fit(rows.frame, LABEL, objective=rows.objective, valid=rows.valid, verbose=False, **settings | more)
    return model.predict(rows.held_out)


def frameboost_auto(rows: Data, quality: int) -> Any:
    """Train `frameboost.auto`, which holds out rows by itself."""
    assert rows.valid is not None
    frame = pl.concat([rows.frame, rows.valid])
    model = fb.auto(frame, LABEL, objective=rows.objective, quality=quality, n_jobs=THREADS, verbose=False)
    return model.predict(rows.held_out)


def _classes(rows: Data) -> dict[str, int]:
    return {"num_class": rows.frame[LABEL].n_unique()} if rows.objective == CLASSES else {}


def _pandas(frame: pl.DataFrame, missing: str) -> Any:
    """Return the features with strings as objects, for libraries that encode them by their labels."""
    import pandas as pd

    columns: dict[str, np.ndarray] = {}
    for column in frame.drop(LABEL):
        if column.dtype == pl.String:
            columns[column.name] = np.array(column.fill_null(missing).to_list(), dtype=object)
        else:
            columns[column.name] = column.to_physical().cast(pl.Float64).to_numpy()
    return pd.DataFrame(columns)


LIBRARIES: Mapping[str, Library] = {
    "xgboost": xgboost,
    "lightgbm": lightgbm,
    "catboost": catboost,
    "chimeraboost": chimeraboost,
    "frameboost fit": frameboost,
    "frameboost auto 3": partial(frameboost_auto, quality=3),
}

# Each has what the one before it has, and one ingredient more.
_SAMPLED = {"subsample": 0.8, "colsample_bylevel": 0.8, "cat_smooth": 10.0}
ABLATION: Mapping[str, Library] = {
    "frameboost fit, cat_smooth=0": partial(frameboost, cat_smooth=0.0),
    "frameboost fit": frameboost,
    "frameboost fit, sampled": partial(frameboost, **_SAMPLED),
    "frameboost fit, symmetric": partial(frameboost, grow_policy="symmetric", **_SAMPLED),
    **{f"frameboost auto {quality}": partial(frameboost_auto, quality=quality) for quality in range(1, 5)},
}

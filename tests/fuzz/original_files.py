"""Small undamaged model files of every supported format, as the libraries write them."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

import frameboost as fb

__all__ = ["FORMATS", "original"]

FORMATS = ["frameboost", "frameboost classes", "frameboost own loss", "frameboost ubj", "xgboost", "xgboost ubj",
           "lightgbm", "catboost", "catboost leafwise"]  # fmt: skip


@cache
def original(format_: str) -> bytes:
    """Return the bytes of a model file of that format."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from other libraries
        path = Path(folder) / ("model.ubj" if format_.endswith(" ubj") else "model.json")
        {"frameboost": _frameboost, "xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}[
            format_.partition(" ")[0]
        ](path, format_)
        return path.read_bytes()


def _rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)).round(2)
    X[:, 2] = rng.integers(0, 5, 60)
    return X, (X[:, 0] + X[:, 2] > 1.5).astype(float)


def _frameboost(path: Path, format_: str) -> None:
    X, y = _rows()
    frame = pl.DataFrame(X, schema=["x", "z", "k"]).with_columns(
        pl.col("k").replace_strict({0: "a", 1: "b", 2: "it's", 3: "d", 4: None}, return_dtype=pl.String),
        pl.Series("day", range(60)).cast(pl.Date), pl.Series("y", y),
    )  # fmt: skip
    objective = {
        "frameboost": "binary:logistic",
        "frameboost classes": "multi:softprob",
        "frameboost ubj": "multi:softprob",
    }.get(format_, fb.Objective("margin - label", "1", "margin", "mae"))
    model = fb.fit(frame, "y", objective=objective, n_estimators=3, max_depth=2, min_child_weight=0, verbose=False)
    (model.calibrate(frame, "y") if format_ == "frameboost" else model).save(path)


def _xgboost(path: Path, format_: str) -> None:
    import xgboost

    X, y = _rows()
    parameters = {"objective": "binary:logistic", "max_depth": 2, "max_cat_to_onehot": 1, "nthread": 1}
    names, types = ["x", "z", "k"], ["float", "float", "c"]
    rows = xgboost.DMatrix(X, label=y, feature_names=names, feature_types=types, enable_categorical=True, nthread=1)
    xgboost.train(parameters, rows, 3).save_model(path)


def _lightgbm(path: Path, format_: str) -> None:
    import lightgbm

    X, y = _rows()
    parameters = {"objective": "binary", "num_leaves": 4, "min_data_in_leaf": 3, "min_data_per_group": 3,
                  "verbose": -1, "num_threads": 1}  # fmt: skip
    lightgbm.train(parameters, lightgbm.Dataset(X, y, categorical_feature=[2]), 3).save_model(path)


def _catboost(path: Path, format_: str) -> None:
    import catboost

    X, y = _rows()
    policy = "Lossguide" if format_ == "catboost leafwise" else "SymmetricTree"
    model = catboost.CatBoost({"iterations": 3, "depth": 2, "loss_function": "Logloss", "grow_policy": policy,
                               "verbose": 0, "allow_writing_files": False, "thread_count": 1})  # fmt: skip
    model.fit(X, y).save_model(str(path), format="json")


def _is_installed(format_: str) -> bool:
    library = format_.partition(" ")[0]
    return library == "frameboost" or importlib.util.find_spec(library) is not None


FORMATS = [format_ for format_ in FORMATS if _is_installed(format_)]

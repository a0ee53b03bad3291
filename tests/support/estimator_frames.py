"""Frames and arrays for the tests of the estimators."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
from sklearn.datasets import make_regression

import frameboost as fb
from tests.support.frames import every_type

__all__ = ["COLUMNS", "ESTIMATORS", "SHAPE", "as_pandas", "numbers", "typed"]

SHAPE = {"n_estimators": 4, "max_depth": 3}
COLUMNS = ["int16", "float64", "boolean", "date", "datetime_us", "string"]
ESTIMATORS = [fb.FrameBoostRegressor, fb.FrameBoostClassifier, fb.FrameBoostRanker]


def typed() -> pl.DataFrame:
    """Return a frame of many types: the features ``COLUMNS``, and ``amount``, ``late`` and ``w``."""
    return every_type(300).select(*COLUMNS, "amount", "late", "w")


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """Return 200 rows of 5 numbers, and a numeric target that depends on them."""
    return make_regression(200, 5, noise=5.0, random_state=0)


def as_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """Return the frame in pandas with the same types (Arrow extension arrays)."""
    return frame.to_pandas(use_pyarrow_extension_array=True)

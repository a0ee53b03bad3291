"""The data sets: synthetic rows, the same on every machine, and the flights that left New York in 2013."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
from measuring import THREADS

LABEL = "y"


@dataclass(frozen=True)
class Data:
    """Training rows and held-out rows, in the form that each library handles best; the conversion is not timed."""

    frame: pl.DataFrame
    held_out: pl.DataFrame
    is_binary: bool

    @cached_property
    def x(self) -> Any:
        """The features: a row-major array, or a pandas frame if they have different types."""
        return self._features(self.frame)

    @cached_property
    def held_out_x(self) -> Any:
        """The features of the held-out rows."""
        return self._features(self.held_out)

    @cached_property
    def y(self) -> np.ndarray:
        """The labels."""
        return self.frame[LABEL].to_numpy()

    def _features(self, frame: pl.DataFrame) -> Any:
        features = frame.drop(LABEL)
        if all(dtype.is_float() for dtype in features.dtypes):
            return np.ascontiguousarray(features.to_numpy())
        import pandas as pd

        columns = {}
        for column in features:
            if column.dtype == pl.String:
                names = self.frame[column.name].drop_nulls().unique().sort().to_list()
                columns[column.name] = pd.Categorical(column.to_list(), categories=names)
            else:
                columns[column.name] = column.to_physical().cast(pl.Float64).to_numpy()
        return pd.DataFrame(columns)

    def table(self) -> duckdb.DuckDBPyRelation:
        """Return the training rows as a table of an in-memory database."""
        return table(self.frame)

    def quality(self, predictions: Any) -> float:
        """Return the logloss or the root mean squared error over the held-out rows."""
        return error_of(self.held_out[LABEL].to_numpy(), predictions, is_binary=self.is_binary)

    @property
    def quality_name(self) -> str:
        """The name of the metric that `quality` returns."""
        return "logloss" if self.is_binary else "rmse"


def table(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    """Return a frame as a table of an in-memory database."""
    return database(frame, "rows").table("rows")


def database(frame: pl.DataFrame, name: str) -> duckdb.DuckDBPyConnection:
    """Return an in-memory database with the frame as a table of that name."""
    con = duckdb.connect()
    con.execute(f"SET threads = {THREADS}")
    con.register("arrived", frame)
    con.execute(f"CREATE TABLE {name} AS FROM arrived")
    con.unregister("arrived")
    return con


def error_of(y: np.ndarray, predictions: Any, *, is_binary: bool) -> float:
    found = np.asarray(predictions, dtype=np.float64)
    if not is_binary:
        return float(np.sqrt(np.mean((found - y) ** 2)))
    p = np.clip(found, 1e-15, 1 - 1e-15)
    return float(-np.where(y, np.log(p), np.log1p(-p)).mean())


def made_up(n_rows: int, n_features: int = 28, *, is_binary: bool = True, seed: int = 0) -> pl.DataFrame:
    """Return W: float32 features from N(0, 1), of which four matter."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    score = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x[:, 3] ** 2 / 2 + rng.standard_normal(n_rows)
    frame = pl.DataFrame(x, schema=[f"x{i}" for i in range(n_features)])
    return frame.with_columns(pl.Series(LABEL, score > 0.5 if is_binary else score))


def workload(n_rows: int, n_features: int = 28, *, is_binary: bool = True) -> Data:
    """Return W, and at most 200,000 held-out rows."""
    held_out = made_up(min(n_rows, 200_000), n_features, is_binary=is_binary, seed=1)
    return Data(made_up(n_rows, n_features, is_binary=is_binary), held_out, is_binary)


def flights(n_rows: int) -> Data:
    """Return the flights joined with weather and planes, as in examples/flights.py; the label is the arrival delay."""
    path = Path(__file__).parent.parent / "examples" / "flights.py"
    spec = importlib.util.spec_from_file_location("flights_example", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints the number of flights
        rows = example.read_flights().rename({"arr_delay": LABEL})
    before = pl.col("date") < example.FIRST_TEST_DAY
    return Data(rows.filter(before).head(n_rows), rows.filter(~before), is_binary=False)

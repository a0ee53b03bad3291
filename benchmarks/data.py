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
BINARY, REGRESSION, CLASSES, POISSON = "binary:logistic", "reg:squarederror", "multi:softprob", "count:poisson"
MEDIAN, QUANTILE, RANKING = "reg:absoluteerror", "reg:quantileerror", "rank:ndcg"
ALPHA = 0.9  # the quantile
QUALITIES = {
    BINARY: "logloss", REGRESSION: "rmse", MEDIAN: "mae", QUANTILE: "pinball", CLASSES: "mlogloss",
    POISSON: "deviance", RANKING: "1 − ndcg",
}  # fmt: skip


@dataclass(frozen=True)
class Data:
    """Training rows and held-out rows, in the form that each library handles best; the conversion is not timed.

    Attributes
    ----------
    frame, held_out
        The rows to train on, and those to judge by.
    objective
        The loss, under XGBoost's name.
    valid
        Rows for early stopping; None without them.
    group
        The column with the number of the query, for ranking; the rows of a query follow each other.
    is_sparse
        Whether most values are zero, so that other libraries get a compressed matrix.
    """

    frame: pl.DataFrame
    held_out: pl.DataFrame
    objective: str = BINARY
    valid: pl.DataFrame | None = None
    group: str | None = None
    is_sparse: bool = False

    @cached_property
    def x(self) -> Any:
        """The features: a row-major array, a compressed matrix, or a pandas frame if they have different types."""
        return self.matrix(self.frame)

    @cached_property
    def held_out_x(self) -> Any:
        """The features of the held-out rows."""
        return self.matrix(self.held_out)

    @cached_property
    def valid_x(self) -> Any:
        """The features of the rows for early stopping."""
        return self.matrix(self.valid)

    @cached_property
    def y(self) -> np.ndarray:
        """The labels."""
        return self.frame[LABEL].to_numpy()

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.frame.width - 1 - (self.group is not None)

    def query_sizes(self, frame: pl.DataFrame) -> np.ndarray | None:
        """Return the number of rows of each query, None without queries."""
        return None if self.group is None else frame[self.group].rle().struct.field("len").to_numpy()

    def matrix(self, frame: pl.DataFrame) -> Any:
        """Return the features of some rows."""
        features = frame.drop(LABEL, *([] if self.group is None else [self.group]))
        if self.is_sparse:
            from scipy.sparse import csr_matrix

            return csr_matrix(features.to_numpy())
        if all(dtype.is_float() for dtype in features.dtypes):
            return np.ascontiguousarray(features.to_numpy())
        if all(dtype.is_integer() for dtype in features.dtypes):
            return np.ascontiguousarray(features.cast(pl.Float32).to_numpy())
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
        """Return the error over the held-out rows; less is better."""
        return error_of(self.held_out[LABEL].to_numpy(), predictions, self.objective, self.query_sizes(self.held_out))

    @property
    def quality_name(self) -> str:
        """The name of what `quality` returns."""
        return QUALITIES[self.objective]


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


def error_of(y: np.ndarray, predictions: Any, objective: str, query_sizes: np.ndarray | None = None) -> float:
    """Return the error that `QUALITIES` names, over labels and predictions."""
    found = as_array(predictions)
    if objective == MEDIAN:
        return float(np.abs(found - y).mean())
    if objective == QUANTILE:
        return float(np.maximum(ALPHA * (y - found), (ALPHA - 1) * (y - found)).mean())
    if objective == CLASSES:
        return float(-np.log(np.clip(found[np.arange(len(y)), y], 1e-15, 1)).mean())
    if objective == POISSON:
        return float(2 * (np.where(y > 0, y * np.log(np.maximum(y, 1e-15) / found), 0) - (y - found)).mean())
    if objective == RANKING:
        assert query_sizes is not None
        ends = np.cumsum(query_sizes)
        return 1 - float(
            np.mean([_ndcg(y[e - n : e], found[e - n : e]) for n, e in zip(query_sizes, ends, strict=True)])
        )
    if objective == REGRESSION:
        return float(np.sqrt(np.mean((found - y) ** 2)))
    p = np.clip(found, 1e-15, 1 - 1e-15)
    return float(-np.where(y, np.log(p), np.log1p(-p)).mean())


def as_array(predictions: Any) -> np.ndarray:
    """Return predictions as float64; those of several classes with a column for each."""
    if isinstance(predictions, pl.Series) and isinstance(predictions.dtype, pl.Struct):
        predictions = predictions.struct.unnest().to_numpy()
    return np.asarray(predictions, dtype=np.float64)


def _ndcg(relevance: np.ndarray, scores: np.ndarray) -> float:
    gains, discounts = 2.0**relevance - 1, 1 / np.log2(np.arange(2, len(scores) + 2))
    best = np.sort(gains)[::-1] @ discounts
    return float(gains[np.argsort(-scores, kind="stable")] @ discounts / best) if best else 1.0


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
    return Data(made_up(n_rows, n_features, is_binary=is_binary), held_out, BINARY if is_binary else REGRESSION)


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
    return Data(rows.filter(before).head(n_rows), rows.filter(~before), REGRESSION)

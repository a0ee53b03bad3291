"""Databases that don't run here: their SQL, translated by sqlglot, trains the same model in DuckDB."""

import re

import duckdb
import polars as pl
import pytest
import sqlglot

import frameboost as fb
from tests.engines.databases.test_tables import SHAPE, in_types_of, model_in, rows_of_two_outcomes, statements_of_a_tree
from tests.support.frames import every_type


class Translated:
    """A connection of PEP 249 to a database of which DuckDB plays the part."""

    def __init__(self, con, dialect):
        self.con, self.dialect = con, dialect

    def cursor(self):
        return Cursor(self)


class Cursor:
    def __init__(self, connection):
        self.connection = connection

    def execute(self, statement):
        # A star stands alone there, or has a table, which sqlglot does not ask for.
        assert self.connection.dialect != "oracle" or not re.search(r"(?<!\.)\*,", statement)
        # Which sqlglot passes on as it is; SQL Server's FLOAT has 53 bits.
        statement = re.sub(r'("\w+") IS (NOT )?NAN', r"\2isnan(\1)", statement)
        if self.connection.dialect in ("tsql", "fabric"):
            statement = statement.replace(" AS FLOAT)", " AS DOUBLE PRECISION)")
        statement = statement.replace("LIMIT 18446744073709551615", "")  # MySQL's, of 64 bits without a sign
        [text] = sqlglot.transpile(statement, read=self.connection.dialect, write="duckdb")
        self.result = self.connection.con.execute(text)
        described = [(name, str(kind)) for name, kind, *_ in self.result.description]
        digits = [[*map(int, re.findall(r"\d+", kind)), None, None][:2] for _, kind in described]
        self.description = [(*column, None, None, *of_kind) for column, of_kind in zip(described, digits, strict=True)]

    def fetchall(self):
        return self.result.fetchall()

    def fetchmany(self, size):
        return self.result.fetchmany(size)

    def close(self):
        pass


DIALECTS = [
    "bigquery", "trino", "presto", "athena", "databricks", "snowflake", "redshift", "tsql", "fabric", "oracle", "mysql"
]  # fmt: skip
translated_rightly = pytest.mark.skipif(
    tuple(map(int, sqlglot.__version__.split(".")[:2])) < (30, 30), reason="sqlglot translates some types wrongly"
)


@pytest.mark.slow
@translated_rightly
@pytest.mark.parametrize("name", DIALECTS)
def test_the_sql_of_a_database_trains_the_same_model(name):
    # Not all of them have NaN and microseconds, and the collations by which strings are compared are their own.
    kinds = ["int32", "float64", "decimal", "date", "boolean"]
    frame = every_type(300, seed=3).select(*kinds, pl.col("float64").fill_nan(None).alias("x"), "amount", "w")
    frame = frame.drop("float64").with_row_index("id").cast({"id": pl.Int64})
    frame = frame.with_columns(search=pl.col("id") * 7 % 23, grade=pl.col("amount").rank("dense") * 3 % 4)
    frame = frame.cast({"grade": pl.Int32})
    con = duckdb.connect()
    con.register("rows", frame.to_arrow())
    con.execute("CREATE SCHEMA s; CREATE TABLE orders AS FROM rows; CREATE VIEW dual AS SELECT 1")
    con.execute("CREATE MACRO bitand(a, b) AS CAST(a AS BIGINT) & CAST(b AS BIGINT)")
    table = fb.table(Translated(con, name), "orders", dialect=name, key="id", scratch="s")
    rows = in_types_of(frame, table)
    options = {"exclude": ["id", "search", "grade"], "weight": "w", "max_bin": 40, "valid": "id >= 250", **SHAPE}
    # sqlglot knows no operator of bits in Redshift, and makes Snowflake's integers decimals.
    sampled = {} if name in ("redshift", "snowflake") else {"subsample": 0.6}
    in_database = {"engine": "sql", "eval_metric": ["mae"], **sampled}
    both = {**in_database, "multi_strategy": "multi_output_tree", "weight": None}
    held_out = {"valid": 0.3} if sampled else {}
    ranks = {"engine": "sql", "weight": None, "valid": "search < 5", "group": "search", "objective": "rank:ndcg"}
    ranks |= {"n_estimators": 1, "max_depth": 3}
    ways = [("amount", held_out), ("amount", in_database), (["amount", "w"], both), ("grade", ranks)]
    for target, more in ways:
        model = fb.fit(table, target, **options | more)
        expected = fb.fit(rows, target, **options | more | {"engine": "auto"})
        assert model_in(model) == model_in(expected)
        assert model.history.equals(expected.history)
    assert con.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("orders",)]


@pytest.mark.slow
@translated_rightly
@pytest.mark.parametrize("name", DIALECTS)
def test_a_tree_is_a_few_statements(name):
    con = duckdb.connect()
    con.register("rows", rows_of_two_outcomes().to_arrow())
    con.execute("CREATE SCHEMA s; CREATE TABLE outcomes AS FROM rows")
    table = fb.table(Translated(con, name), "outcomes", dialect=name, scratch="s")
    assert statements_of_a_tree(table, 2) == 4


def test_a_database_without_temporary_tables_that_serve_needs_a_schema():
    con = duckdb.connect()
    con.execute("CREATE TABLE orders AS SELECT 1 AS x, 2 AS y, 3 AS z FROM range(9)")
    with pytest.raises(fb.ParameterError, match=r"bigquery has no temporary tables .*scratch="):
        fb.fit(fb.table(Translated(con, "bigquery"), "orders", dialect="bigquery"), "y", engine="sql")
    table = fb.table(Translated(con, "mysql"), "orders", dialect="mysql", key="x")
    with pytest.raises(
        fb.ParameterError, match=r"a ranking joins .*, and mysql reads a temporary table once .*scratch="
    ):
        fb.fit(table, "y", engine="sql", objective="rank:ndcg", group="z")

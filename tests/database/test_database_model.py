"""`DatabaseModel`: columns, base margins and limits that are given once apply to every statement."""

import dataclasses
import pickle
from functools import cache

import duckdb
import polars as pl
import pytest

import frameboost as fb

FRAME = pl.DataFrame({"id": [7, 8, 9, 10], "x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]})


@cache
def fitted():
    return fb.fit(FRAME, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)


@pytest.fixture
def con():
    """Return a connection with a table whose feature has another name, and with margins to start from."""
    con = duckdb.connect()
    con.execute('CREATE TABLE t (id INTEGER, "the x" BIGINT, start DOUBLE, score DOUBLE)')
    con.execute("INSERT INTO t VALUES (7, 1, 0.5, NULL), (8, 4, 100, NULL), (9, 4, NULL, NULL)")
    return con


@pytest.fixture
def database():
    return fitted().database(columns={"x": "the x"}, base_margin="start")


# The tree's leaves are -4 and 4; they are added to the margin in ``start``, and a NULL there is one here.
EXPECTED = [(7, -3.5), (8, 104.0), (9, None)]


def test_columns_and_margins_go_into_every_statement(con, database):
    ordered = "SELECT * FROM {} ORDER BY id"
    assert con.execute(f"SELECT id, {database.sql()} FROM t ORDER BY id").fetchall() == EXPECTED
    for form in ("auto", "case", "lists", "staged", "sorted"):
        query = database.query("t", keep=["id"], form=form)
        assert con.execute(ordered.format(f"({query})")).fetchall() == EXPECTED
    con.execute(database.create_view_sql("v", "t", keep=["id"]))
    con.execute(database.create_table_sql("w", "t", keep=["id"]))
    for name in ("v", "w"):
        assert con.execute(ordered.format(name)).fetchall() == EXPECTED
    con.execute(database.update_sql("t", "score"))
    assert con.execute("SELECT id, score FROM t ORDER BY id").fetchall() == EXPECTED


def test_the_query_adds_the_margins_to_the_trees_of_a_table(con, database):
    for statement in database.table_statements("trees"):
        con.execute(statement)
    query = database.query("t", keep=["id"], form="table", trees="trees")
    assert con.execute(f"SELECT * FROM ({query}) ORDER BY id").fetchall() == EXPECTED


def test_columns_and_margins_go_into_files(con, database, tmp_path):
    database.to_sql(tmp_path / "m.sql", "t", keep=["id"])
    text = (tmp_path / "m.sql").read_text()
    assert '--          "the x": int64, BIGINT' in text
    assert sorted(con.execute(text).fetchall()) == EXPECTED
    database.to_dbt(tmp_path, "scored", "orders", keep=["id"])
    macro = (tmp_path / "macros" / "scored.sql").read_text()
    assert '"the x"' in macro
    assert '"start"' in macro


def test_model_sql_and_query_are_those_of_the_database_model():
    how = {"columns": {"x": "X"}, "base_margin": ["start"], "limits": {"text": 10_000}}
    database = fitted().database("postgres", **how)
    assert fitted().sql("margin", "postgres", **how) == database.sql("margin")
    options = {"keep": ["id"], "where": "1 = 1", "output": "margin", "name": "score", "form": "staged"}
    assert fitted().query("s.t", "postgres", **options, **how) == database.query("s.t", **options)


def test_columns_are_named_by_a_function():
    rows = FRAME.with_columns(years=pl.lit(2.0), area=pl.lit("a"))
    model = fb.fit(rows, "y", features=["x"], exposure="years", objective="count:poisson", n_estimators=2)
    sure = model.conform(pl.concat([rows] * 20), "y", coverage=0.5, groups="area")
    con = duckdb.connect()
    con.register("rows", rows.rename(str.upper).with_row_index("id"))
    con.execute('CREATE TABLE "upper" AS FROM rows')
    for dialect in ("postgres", "snowflake"):
        names = {name: name.upper() for name in ("x", "years", "area")}
        for output in ("mean", "interval"):
            by_function = sure.query("t", dialect, columns=str.upper, output=output, keep=["ID"])
            assert by_function == sure.query("t", dialect, columns=names, output=output, keep=["ID"])
            assert '"X"' in by_function and '"YEARS"' in by_function
    found = con.sql(sure.database(columns=lambda name: name.upper()).query("upper", keep=["id"])).order("id").fetchall()
    assert [score for _, score in found] == sure.predict(rows).to_list()
    with pytest.raises(fb.ParameterError, match="columns must return a column name, not 1 for 'x'"):
        sure.database(columns=len)
    with pytest.raises(fb.ParameterError, match="columns gives 'x', 'X' the same name, 'X'"):
        fb.fit(FRAME.with_columns(X="x"), "y", features=["x", "X"], n_estimators=1).database("tsql", columns=str.upper)


def test_wrong_arguments_are_refused_when_the_database_model_is_made():
    twins = fb.fit(FRAME.with_columns(X="x"), "y", features=["x", "X"], n_estimators=1)
    for call, said in (
        (lambda: fitted().database("excel"), "dialect must be one of 'duckdb', 'postgres', "),
        (lambda: fitted().database(columns={"z": "x"}), "columns names 'z', which is not a feature of the model"),
        (
            lambda: fitted().database(columns=3),
            "columns must be a dict of feature to column name, or a function of a feature's name, not 3",
        ),
        (lambda: fitted().database(base_margin=["a", "b"]), "base_margin must name a column for each of 1 margins"),
        (
            lambda: fitted().database(limits={"txt": 1}),
            "limits names 'txt', which is not a limit; did you mean 'text'?",
        ),
        (twins.database, "features 'x' and 'X' differ only in case, which duckdb can't tell apart"),
        (lambda: twins.register(duckdb.connect(), "score"), "features 'x' and 'X' differ only in case, which duckdb"),
    ):
        with pytest.raises(fb.ParameterError) as error:
            call()
        assert str(error.value).startswith(said)
    assert twins.database("postgres").columns[1].name == '"X"'


def test_a_database_model_is_frozen_and_can_be_pickled():
    database = fitted().database("snowflake")
    assert repr(database) == "DatabaseModel: reg:squarederror, 1 tree, for snowflake"
    assert database.ensemble is fitted().ensemble
    with pytest.raises(dataclasses.FrozenInstanceError):
        database.dialect = None
    assert pickle.loads(pickle.dumps(database)).query("t") == database.query("t")

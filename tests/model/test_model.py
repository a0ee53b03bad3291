"""Methods of a model that write SQL and polars expressions."""

import duckdb
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases

SHARP = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}


@pytest.fixture
def frame() -> pl.DataFrame:
    return pl.DataFrame({"id": [7, 8, 9], "x": [1.0, 2.0, None], "y": [0.0, 8.0, 1.0]})


@pytest.fixture
def model(frame) -> fb.Model:
    return fb.fit(frame, "y", features=["x"], max_depth=2, **SHARP)


@pytest.fixture
def con(frame):
    con = duckdb.connect()
    con.execute("CREATE SCHEMA sales; CREATE TABLE sales.orders AS SELECT * FROM frame")
    con.execute('CREATE TABLE "odd ""name"".t; --" AS SELECT * FROM frame')
    return con


def test_sql_is_one_scalar_expression(con, model, frame):
    query = f"SELECT {model.sql()} FROM sales.orders WHERE {model.sql()} >= 0 ORDER BY id"
    assert [v for (v,) in con.execute(query).fetchall()] == model.predict(frame).to_list() == [0.0, 8.0, 1.0]


@cases(
    ("keep", "columns"),
    [(None, ["id", "x", "y", "prediction"]), ([], ["prediction"]), (["id"], ["id", "prediction"]),
     (("y", "id"), ["y", "id", "prediction"])],
)  # fmt: skip
def test_query_keeps_what_is_asked_for(con, model, frame, keep, columns):
    result = con.sql(model.query("sales.orders", keep=keep))
    assert result.columns == columns
    assert [row[-1] for row in result.fetchall()] == model.predict(frame).to_list()


def test_table_names_are_quoted(con, model):
    query = model.query('"odd ""name"".t; --"', keep=[])
    assert len(con.execute(query).fetchall()) == 3
    with pytest.raises(duckdb.CatalogException):
        con.execute(model.query("sales; DROP TABLE sales.orders", keep=[]))
    assert con.execute("SELECT count(*) FROM sales.orders").fetchall() == [(3,)]


def test_expr_works_wherever_an_expression_does(model, frame):
    expected = model.predict(frame).to_list()
    assert frame.with_columns(model.expr())["prediction"].to_list() == expected
    assert frame.with_columns(mine=model.expr())["mine"].to_list() == expected
    assert frame.lazy().select(model.expr() * 2).collect()["prediction"].to_list() == [2 * v for v in expected]
    assert frame.lazy().filter(model.expr() > 4).collect(engine="streaming")["id"].to_list() == [8]
    assert frame.group_by("id", maintain_order=True).agg(model.expr().sum())["prediction"].to_list() == expected


def test_predictions_of_several_margins_are_null_where_one_that_they_depend_on_is():
    frame = pl.DataFrame({"x": [1, 2, 3, 4], "y": [0, 1, 2, 1], "a": [0.5, None, 3, 0], "b": [None, None, 1.0, 5.0]})
    con = duckdb.connect()
    con.register("t", frame)
    options = {"features": ["x"], "n_estimators": 1, "learning_rate": 1e-6}
    classes = fb.fit(frame, "y", objective="multi:softprob", **options)
    quantiles = fb.fit(frame, "y", objective="reg:quantileerror", quantile_alpha=[0.2, 0.5], **options)
    for model, starts, output, expected in (
        (classes, ["a", "b", "a"], "class", [None, None, 0, 1]),
        (classes, ["a", "b", "a"], "mean", [[True] * 3, [True] * 3, [False] * 3, [False] * 3]),
        (quantiles, ["a", "b"], "mean", [[False, True], [True, True], [False, False], [False, False]]),
    ):
        frames = model.predict(frame, output, base_margin=starts), frame.select(model.expr(output, base_margin=starts))
        rows = sorted(con.sql(model.query("t", keep=["x"], output=output, base_margin=starts)).fetchall())
        listed = con.sql(f"SELECT {model.sql(output, base_margin=starts)} FROM t ORDER BY x").fetchall()
        found = [*(series.to_list() for series in (frames[0], frames[1].to_series())), [row[0] for row in listed]]
        found.append([row[1] if output == "class" else list(row[1:]) for row in rows])
        for values in found:
            nulls = values if output == "class" else [[value is None for value in row] for row in values]
            assert nulls == expected


def test_margins_to_start_from_are_numbers(model, frame):
    for wrong in (pl.lit("a"), pl.lit(0).cast(pl.Date)):
        with pytest.raises(fb.DataError, match=r"^base_margin column 'start' has type .*; it must be numeric or Bool"):
            model.predict(frame.with_columns(start=wrong), base_margin="start")

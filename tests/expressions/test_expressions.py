"""SQL expressions of losses: the same values in polars and DuckDB; all else than the grammar is refused."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

import frameboost as fb
from frameboost.data.duckdb_session import DuckDBSession
from frameboost.engines.duckdb.engine import DuckDBEngine
from frameboost.engines.memory.engine import MemoryEngine
from frameboost.engines.polars.engine import PolarsEngine
from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.grid import Aggregate
from frameboost.runtime.workers import Workers
from tests.support.cases import cases

ROWS = pl.DataFrame({
    "label": [0.0, 1.0, -2.5, 3.0, None, 1e-300],
    "margin": [0.5, -0.25, 4.0, -0.0, 1.0, 1e300],
    "weight": [1.0, 2.0, 0.0, 0.5, 1.0, 1.0],
})  # fmt: skip

EXACT = [
    "margin - label", "(margin + label) * weight / 3", "-margin", "+1.5e-3 * label", "ABS(margin) - SQRT(ABS(label))",
    "CASE WHEN margin > label THEN 1 WHEN margin = 4 THEN 2.5 ELSE -1 END", "CASE WHEN label IS NULL THEN 7 END",
    "CASE WHEN NOT (margin <= 0) AND label <> 1 OR weight = 0 THEN 1 ELSE 0 END", "GREATEST(label, margin, 0)",
    "LEAST(label, 1)", "SIGN(margin)", "1 / 8", "label IS NULL", "2 * GREATEST(margin - label) * LEAST(weight)",
]  # fmt: skip
CLOSE = ["EXP(-ABS(label))", "LN(ABS(margin) + 1)", "POWER(ABS(label), 0.3)", "1 / (1 + EXP(-label))"]


def both(text: str) -> tuple[list, list]:
    expression = Expression(text)
    names = {name: name for name in ROWS.columns}
    in_polars = ROWS.with_columns(expression.to_polars().alias("out"))["out"].cast(pl.Float64).to_list()
    query = f"SELECT CAST({expression.to_sql(names)} AS DOUBLE) FROM ROWS"
    return in_polars, [value for (value,) in duckdb.execute(query).fetchall()]


@cases("text", EXACT)
def test_arithmetic_is_alike_to_the_last_bit(text):
    in_polars, in_duckdb = both(text)
    assert in_polars == in_duckdb
    assert any(value is not None for value in in_polars)


@pytest.mark.parametrize("text", CLOSE)
def test_functions_are_alike_to_an_ulp_or_two(text):
    in_polars, in_duckdb = both(text)
    for a, b in zip(in_polars, in_duckdb, strict=True):
        assert (a is None and b is None) or a == pytest.approx(b, rel=1e-15)


def test_precedence_is_sqls():
    assert both("1 + 2 * 3 - 4 / 2")[0][0] == 5.0
    assert both("2 - 3 - 4")[1][0] == -5.0
    assert both("-(2 - 3)")[1][0] == 1.0


@given(st.floats(allow_nan=False))
@settings(deadline=None)
def test_float_literals_come_back_the_same(value):
    ((returned,),) = duckdb.execute(f"SELECT {float_literal(value)}").fetchall()
    assert isinstance(returned, float)
    assert np.float64(returned).view(np.int64) == np.float64(value).view(np.int64)


@pytest.mark.parametrize("make", ["numba", "polars", "duckdb"])
def test_aggregates_count_every_row(make):
    frame = pl.DataFrame({"x": [1, 2, 3], "y": [1.0, 2.0, math.nan]})
    if make == "duckdb":
        con = duckdb.connect()
        con.execute("CREATE TABLE t AS SELECT * FROM frame")
        engine = DuckDBEngine(DuckDBSession(con.table("t")), [], [], {"label": '"y"'})
    else:
        arguments = (frame.lazy(), (), {"label": "y"})
        engine = MemoryEngine(*arguments, Workers(1)) if make == "numba" else PolarsEngine(*arguments)
    sums = engine.aggregate({
        "weight": Aggregate("sum", Expression("weight")),
        "labels": Aggregate("sum", Expression("label")),
        "largest": Aggregate("max", Expression("label * weight")),
        "least": Aggregate("min", Expression("label")),
        "missing": Aggregate("sum", Expression("CASE WHEN label IS NULL THEN 1 ELSE 0 END")),
    })  # fmt: skip
    assert sums == {"weight": 3.0, "labels": 3.0, "largest": 2.0, "least": 1.0, "missing": 1.0}


# --- losses -----------------------------------------------------------------------------------------------------------


def test_certain_rows_do_not_divide_by_zero():
    frame = pl.DataFrame({"x": [0.0, 1.0] * 50, "y": [0, 1] * 50})
    options = {"n_estimators": 60, "learning_rate": 1.0, "reg_lambda": 0, "min_child_weight": 0}
    model = fb.fit(frame, "y", objective="binary:logistic", **options)
    assert model.trees["value"].is_finite().all()
    assert model.predict(frame).is_between(0, 1).all()


@pytest.mark.parametrize("text", ["(" * 5000 + "margin" + ")" * 5000, " + ".join(["margin"] * 5000), "-" * 5000 + "1"])
def test_an_expression_without_end_is_refused(text):
    with pytest.raises(fb.ParameterError):
        Expression(text, ("margin",))


@pytest.mark.parametrize("number", [7.0, 3.0, 0.49, 1e-16, 4.0, 0.0])
def test_polars_divides_by_constants(number):
    values = np.concatenate([np.random.default_rng(0).normal(size=500), [0.0, np.inf, -np.inf]])
    found = pl.DataFrame({"margin": values}).select(Expression(f"margin / {number!r}", ("margin",)).to_polars())
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found.to_series().to_numpy(), values / number)
    missing = pl.DataFrame({"margin": [None, 1.0]}).select(Expression("margin / 3", ("margin",)).to_polars())
    assert missing.to_series().to_list() == [None, 1 / 3]


CONDITIONS = {
    "label > 0": True, "NOT label = 1": True, "label > 0 AND margin < 1 OR weight = 1": True, "label IS NULL": True,
    "CASE WHEN label > 0 THEN margin > 1 ELSE margin < 1 END": True, "(label) <> 1": True,
    "label": False, "1": False, "CASE WHEN label > 0 THEN 1 END": False, "-EXP(margin)": False,
    "GREATEST(label, 0) + CASE WHEN label IS NULL THEN 0 ELSE label END": False,
}  # fmt: skip


@cases("text", CONDITIONS)
def test_a_condition_is_told_from_a_number(text):
    expression = Expression(text)
    assert expression.is_condition == CONDITIONS[text]
    with duckdb.connect() as con:
        kind = con.sql(f"SELECT typeof({text}) FROM (SELECT 1e0 AS label, 2e0 AS margin, 3e0 AS weight)").fetchall()
    assert (kind == [("BOOLEAN",)]) == CONDITIONS[text]  # as a database has it


@cases(("text", "message"), [
    ("margin -", "is not a SQL expression"), ("other + 1", "uses 'other'; it may use label, margin, weight"),
    ("t.label", "uses 't.label'; it may use label, margin, weight"), ("", "is not "), ("-- nothing", "is not "),
    ("label; DROP TABLE t", "is not one SQL expression"),
    *((text, "which not every engine has") for text in
      ("'a'", "RANDOM()", "SUM(label)", "(SELECT 1)", "read_csv('/etc/passwd')", "label IN (1, 2)",
       "CAST(label AS INTEGER)", "FLOOR(label, 1)", "FLOOR(label TO DAY)")),
    ("(label > 0) + 1", "has a condition in +, which takes a number"),
    ("-(label > 0)", "has a condition in NEG, which takes a number"),
    ("ABS(label > 0)", "has a condition in ABS, which takes a number"),
    ("(label > 0) = (margin > 0)", "has a condition in =, which takes a number"),
    ("label AND margin > 0", "has a number in AND, which takes a condition"),
    ("NOT label", "has a number in NOT, which takes a condition"),
    ("CASE WHEN label THEN 1 ELSE 0 END", "has a number in WHEN, which takes a condition"),
    ("CASE WHEN label > 0 THEN 1 ELSE label > 0 END", "has a condition in CASE, which takes a number"),
    ("1e400", "has the number 1e400, which is beyond any float64"),
    ("label + 1" + "0" * 400, "beyond any float64"),
])  # fmt: skip
def test_anything_else_and_what_databases_read_in_different_ways_is_refused(text, message):
    with pytest.raises(fb.ParameterError) as error:
        Expression(text)
    assert message in str(error.value)


def test_names_are_counted_in_one_walk(monkeypatch):
    """The class of hundreds of classes names each margin hundreds of times, and each margin's uses are asked for."""
    walks = []
    walk = exp.Expression.find_all
    monkeypatch.setattr(exp.Expression, "find_all", lambda self, *kinds: walks.append(kinds) or walk(self, *kinds))
    expression = Expression("CASE WHEN a >= GREATEST(B, c) THEN a * 2 ELSE -A END", ("a", "b", "c", "d"))
    assert [expression.uses(name) for name in ("a", "b", "c", "d", "e")] == [3, 1, 1, 0, 0]
    assert len(walks) == 1

"""``valid=`` as a SQL predicate: it selects the same rows in every engine, and must be deterministic."""

import datetime as dt

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.predicates import check_repeatable
from tests.support.cases import cases

DAYS = pl.date_range(dt.date(2012, 1, 1), dt.date(2012, 7, 18), eager=True)
TIMES = DAYS.cast(pl.Datetime("us"))
FRAME = pl.DataFrame({
    "day": DAYS, "us": TIMES, "ms": TIMES.cast(pl.Datetime("ms")), "ns": TIMES.cast(pl.Datetime("ns")),
    "zoned": TIMES.dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"), "k": range(200),
}).with_columns(
    f=pl.col("k") / 8, decimal=pl.col("k").cast(pl.Decimal(10, 2)), even=pl.col("k") % 2 == 0,
    text=pl.col("k").cast(pl.String), random=pl.col("k"),
    y=pl.col("k") % 7,
)  # fmt: skip


@pytest.fixture(scope="module")
def con():
    con = duckdb.connect()
    con.register("arrived", FRAME)
    con.execute("CREATE TABLE t AS FROM arrived")
    con.execute("CREATE MACRO below(x, y) AS x < y")
    con.execute("CREATE MACRO shaky(x) AS x < 200 * random()")
    con.execute("CREATE MACRO shakier(x) AS shaky(x) OR below(x, 5)")
    return con


def counted(data, valid):
    """Return how many rows are trained on, and how many held out; ``k`` is each row's number."""
    rows = fb.Metric("rows", "COUNT(*)")
    options = {"n_estimators": 1, "max_depth": 1, "eval_metric": rows, "train_metrics": True}
    model = fb.fit(data, "y", features=["k"], valid=valid, **options)
    return model.history["train_rows"].item(), model.history["valid_rows"].item()


@pytest.mark.slow
@cases(("number", "predicate", "held_out"), [(number, *case) for number, case in enumerate([
    ("day >= '2012-07-01'", 18), ("day = '2012-07-01' OR k < 10", 11), ("day IN ('2012-02-01', '2012-03-01')", 2),
    ("NOT (day IN ('2012-02-01', '2012-03-01'))", 198), ("us < '2012-01-03 12:00'", 3),
    ("ms < '2012-01-03 00:00:00.001'", 3), ("ns <= '2012-01-03'", 3), ("zoned > '2012-07-17 00:00:00+00'", 1),
    ("k < '20'", 20), ("decimal < '20.5'", 21), ("even = 'true'", 100), ("text = '5'", 1),
    ("text < '5'", 145),  # 0 to 4 and those that begin so: 5 + 40 + 100
    ("random < 20", 20),
    ("abs(k - 100) < 10", 19),
])])  # fmt: skip
def test_a_text_is_compared_in_the_columns_type_as_sql_has_it(con, number, predicate, held_out):
    assert con.sql("FROM t").filter(predicate).aggregate("COUNT(*)").fetchall() == [(held_out,)]
    if number % 6 == 0:  # DuckDB itself has compared them
        assert counted(con.table("t"), predicate) == (200 - held_out, held_out)
    assert counted(FRAME, predicate) == (200 - held_out, held_out)


def refused(data, valid):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(data, "y", features=["k"], valid=valid, n_estimators=1)
    return str(error.value)


@pytest.mark.slow
@cases("predicate", [
    "random() < 0.5", "k < 200 * RANDOM ( )", "day < current_date", "us < now()", "day > today() - 3",
    "text < uuid()::VARCHAR", "us < CURRENT_TIMESTAMP",
])  # fmt: skip
def test_nondeterministic_predicates_are_refused(con, predicate):
    for data in (FRAME, con.table("t")):
        assert "whose result may change each time that the rows are read" in refused(data, predicate)


def test_parts_of_times_are_repeatable():
    check_repeatable("year(day) = 2013 AND dayofyear(us) > 300 AND date_trunc('hour', us) > '2013-10-01'", "it")


@pytest.mark.slow
def test_predicates_are_checked_inside_macros(con):
    assert counted(con.table("t"), "below(k, 20)") == (180, 20)
    assert "calls 'shaky', whose result may" in refused(con.table("t"), "shaky(k)")
    assert "calls 'shakier', whose result may" in refused(con.table("t"), "shakier(k)")


@pytest.mark.slow
def test_a_nondeterministic_relation_may_be_split(con):
    drawn = con.sql("SELECT *, random() < 0.5 AS late FROM t")
    assert fb.fit(drawn, "y", features=["k"], valid="late", n_estimators=1).history.height == 1


def test_a_text_that_is_no_value_of_the_column_is_refused(con):
    assert "compares a column of type date with 'soon', which is none of its values" in refused(FRAME, "day > 'soon'")
    assert "invalid date field format" in refused(con.table("t"), "day > 'soon'")


def test_quoted_names_and_strings_are_not_taken_for_calls():
    check_repeatable("\"random\" < 5 AND text = 'random()' -- random()", "it")
    check_repeatable("random IN (1, 2) AND (random) < 5", "it")
    with pytest.raises(fb.ParameterError, match=r"^it calls 'random', whose"):
        check_repeatable('"random"() < 5', "it")


def test_the_users_frame_gets_no_column(con):
    frame = FRAME.with_columns(frameboost_constant_0=pl.col("k"))
    model = fb.fit(frame, "y", valid="day >= '2012-07-01'", n_estimators=2)
    assert model.features == [name for name in frame.columns if name != "y"]
    assert con.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() in ([], [("arrived",)])

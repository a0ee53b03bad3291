"""Rows to validate on that are drawn, ``valid=0.2``, or are the last ones, ``valid="last 20%"``."""

import datetime as dt

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.data.held_out import held_out_sources
from frameboost.data.opening import open_source
from frameboost.expressions.draws import draw_key, hash32
from tests.support.cases import cases
from tests.support.engines import ENGINES, as_relation

SHAPE = {"n_estimators": 2, "max_depth": 2, "verbose": False}
RNG = np.random.default_rng(3)
FRAME = pl.DataFrame({
    "row": range(300), "x": RNG.normal(size=300),
    "day": [dt.date(2013, 1, 1) + dt.timedelta(i % 60) for i in range(300)],
    "query": [f"q{i}" for i in RNG.integers(0, 40, 300)], "y": RNG.integers(0, 3, 300),
}).with_columns(
    at=pl.col("day").cast(pl.Datetime("us")) + pl.duration(hours=pl.col("row") % 24),
    number=pl.col("day").dt.ordinal_day() / 7, exact=pl.col("row").cast(pl.Decimal(9, 2)) / 4,
)  # fmt: skip


def held(data, valid, column: str = "row", **options) -> list:
    """Return the values of a column in the rows that are held out, after checking that the others are trained on."""
    training, parts = held_out_sources(open_source(data), valid, **options)
    found, rest = (
        source.to_frame([column]).collect()[column].to_list() for source in (parts["valid"].source, training)
    )
    everything = open_source(data).to_frame([column]).collect()[column].to_list()
    assert sorted(found + rest) == sorted(everything)
    return sorted(found)


def sources(tmp_path) -> dict:
    FRAME[:100].write_parquet(tmp_path / "1.parquet")
    FRAME[100:].write_parquet(tmp_path / "2.parquet")
    rows = as_relation(FRAME)
    return {
        "frame": FRAME, "lazy": FRAME.lazy(), "list": [FRAME[:7], FRAME[7:]], "relation": rows,
        "condition": rows.filter("row >= 0").project("*"), "files": str(tmp_path / "*.parquet"),
        "scan": pl.scan_parquet(tmp_path / "*.parquet"),
    }  # fmt: skip


def test_a_share_is_drawn_by_position_and_seed_alike_from_every_source(tmp_path):
    key = draw_key(7, 21)
    expected = [row for row in range(300) if hash32(row, key) / 2**32 < 0.25]
    assert 50 < len(expected) < 100
    for name, data in sources(tmp_path).items():
        assert held(data, 0.25, seed=7) == expected, name


@pytest.mark.slow
@cases(("query", "rows"), [
    ("SELECT * FROM rows LIMIT 100", FRAME[:100]), ("SELECT * FROM rows LIMIT 100 OFFSET 30", FRAME[30:130]),
    ("FROM (FROM rows LIMIT 100) WHERE x > 0", FRAME[:100].filter(pl.col("x") > 0)),
])  # fmt: skip
def test_the_first_rows_of_a_table_have_positions(query, rows):
    with duckdb.connect() as con:  # whose plan reads them by a join of row ids, sorted
        con.register("frame", FRAME)
        con.execute("CREATE TABLE rows AS FROM frame")
        assert held(con.sql(query), 0.25, seed=7) == held(rows, 0.25, seed=7)
        with pytest.raises(fb.DataError, match="the rows of this query have no fixed order"):
            held(con.sql("SELECT * FROM rows ORDER BY x LIMIT 100"), 0.25)


def test_queries_are_drawn_whole_alike_from_every_source(tmp_path):
    names = sorted(FRAME["query"].unique())
    key = draw_key(5, 21)
    expected = {name for rank, name in enumerate(names) if hash32(rank, key) / 2**32 < 0.3}
    rows = sorted(FRAME.filter(pl.col("query").is_in(list(expected)))["row"])
    joined = as_relation(FRAME)
    for name, data in {**sources(tmp_path), "categories": FRAME.with_columns(pl.col("query").cast(pl.Categorical)),
                       "aggregate": joined.aggregate("row, query")}.items():  # fmt: skip
        assert held(data, 0.3, seed=5, group="query") == rows, name


@pytest.mark.slow
def test_the_last_rows_are_those_of_the_last_times(tmp_path):
    # 60 days of 5 rows each, so that 20% of the rows are the last 12 days; 21% and 20% are the same.
    last = [row for row in range(300) if row % 60 >= 48]
    for name, data in sources(tmp_path).items():
        for valid in ("last 20%", "LAST  21.5 %", "last 12 days"):
            assert held(data, valid, time="day") == last, (name, valid)
        assert held(data, "last 1 week", time="day") == [row for row in range(300) if row % 60 >= 53], name
        assert held(data, "last 20%", time="number") == last, name
        assert held(data, "last 10%", time="exact") == list(range(270, 300)), name
        newest = FRAME["at"].max()
        hours = FRAME.filter(pl.col("at") > newest - dt.timedelta(hours=30))["row"].to_list()
        assert held(data, "last 30 hours", time="at") == sorted(hours), name
        queries = FRAME.filter(pl.col("row").is_in(last))["query"]
        whole = sorted(FRAME.filter(pl.col("query").is_in(queries.implode()))["row"])
        assert held(data, "last 20%", time="day", group="query") == whole, name


@pytest.mark.slow
@cases(("text", "first"), [
    ("last 1 month", dt.date(2013, 2, 2)), ("last 2 months", dt.date(2013, 1, 2)),
    ("Last 1 Quarter", dt.date(2012, 12, 2)), ("last 1 year", dt.date(2012, 3, 2)),
])  # fmt: skip
def test_months_are_those_of_the_calendar(text, first):
    newest = dt.date(2013, 3, 1)
    assert FRAME["day"].max() == newest
    older = pl.DataFrame({"row": [400, 401], "day": [first - dt.timedelta(1), first]})
    frame = pl.concat([FRAME.select("row", "day"), older]).with_columns(
        at=pl.col("day").cast(pl.Datetime("ns")) + pl.duration(hours=5),
        zone=pl.col("day").cast(pl.Datetime("ms", "UTC")),
    )
    expected = sorted(frame.filter(pl.col("day") >= first)["row"])
    assert 401 in expected and 400 not in expected
    for data in (frame, as_relation(frame)):
        for time in ("day", "at", "zone"):
            assert held(data, text, time=time) == expected, time


def test_a_month_has_the_same_day_or_the_last_one():
    days = [dt.date(2026, 2, 28), dt.date(2026, 3, 1), dt.date(2026, 3, 31)]
    assert held(pl.DataFrame({"row": range(3), "day": days}), "last 1 month", time="day") == [1, 2]


def test_a_column_of_that_name_is_a_column():
    frame = FRAME.with_columns((pl.col("row") < 9).alias("last 20%"))
    assert held(frame, "last 20%") == list(range(9))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_trains_on_the_other_rows(engine):
    key = draw_key(11, 21)
    share = FRAME.filter([hash32(row, key) / 2**32 < 0.3 for row in range(300)])
    rest = FRAME.filter([hash32(row, key) / 2**32 >= 0.3 for row in range(300)])
    options = {"features": ["x", "day"], **SHAPE}
    data, options = (as_relation(FRAME), options) if engine == "relation" else (FRAME, options | {"engine": engine})
    expected = fb.fit(rest, "y", valid=share, **{"features": ["x", "day"], **SHAPE}, seed=11)
    model = fb.fit(data, "y", valid=0.3, seed=11, **options)
    assert model == expected
    assert model.history.equals(expected.history)
    rank = options | {"objective": "rank:ndcg", "group": "query"}
    assert fb.fit(data, "y", valid=0.3, **rank).history["valid_ndcg@32"].is_between(0.1, 1).all()


@pytest.mark.slow
def test_shards_of_files_train_on_the_same_rows(tmp_path):
    made = sources(tmp_path)
    expected = fb.fit(FRAME, "y", valid=0.3, features=["x", "day"], **SHAPE)
    for name in ("files", "scan", "list"):
        model = fb.fit(made[name], "y", valid=0.3, features=["x", "day"], shards=3, **SHAPE)
        assert model == expected, name
        assert model.history.equals(expected.history), name


@pytest.mark.slow
def test_rows_without_a_certain_order_are_not_drawn():
    con = duckdb.connect()
    con.execute("CREATE TABLE t AS SELECT range AS x, range % 3 AS g, range * 2.0 AS y FROM range(60)")
    without = {
        "HASH_JOIN": con.sql("SELECT a.* FROM t AS a JOIN t AS b USING (x)"),
        "GROUP_BY": con.sql("SELECT x, ANY_VALUE(g) AS g, SUM(y) AS y FROM t GROUP BY x"),
        "ORDER_BY": con.table("t").order("g"),
    }
    for step, rows in without.items():
        for use, options in ((fb.fit, {"valid": 0.5}), (fb.cv, {"folds": 2})):
            with pytest.raises(fb.DataError, match=rf"have no fixed order \(its plan has '[A-Z_]*{step}'\)"):
                use(rows, "y", **options)
    assert fb.fit(without["GROUP_BY"], "y", valid="last 20%", time="x", **SHAPE).n_rounds == 2
    sample = con.sql("FROM t USING SAMPLE 50 PERCENT (bernoulli)")
    assert fb.fit(sample, "y", valid=0.5, **SHAPE).n_rounds == 2  # no two fits have its rows
    con.execute("SET preserve_insertion_order = false")
    with pytest.raises(fb.DataError, match=r"^rows have no fixed position while preserve_insertion_order is off; "):
        fb.fit(con.table("t"), "y", valid=0.5)
    assert con.sql("SELECT COUNT(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


_REFUSED = {
    "too large": ({"valid": 3}, "valid=3 is not a share of the rows; it must be between 0 and 1, such as 0.2"),
    "zero": ({"valid": 0.0}, "valid=0.0 is not a share of the rows; it must be between 0 and 1, such as 0.2"),
    "no number": ({"valid": float("nan")}, "valid=nan is not a share of the rows; it must be between 0 and 1"),
    "true": ({"valid": True}, "valid is 'bool', and must be data; to hold out training rows, add a"),
    "no time": ({"valid": "last 20%"}, "valid='last 20%' needs time, the column that orders the rows"),
    "time alone": ({"time": "day"}, "time is for valid='last 20%' or 'last 4 weeks', not for valid=None"),
    "time of a share": ({"valid": 0.2, "time": "day"}, "or 'last 4 weeks', not for valid=0.2"),
    "all": ({"valid": "last 100%", "time": "day"}, "valid='last 100%' must name a share between 0% and 100%"),
    "too few": ({"valid": "last 1%", "time": "day"}, "the last value of time column 'day' is in more rows than that"),
    "unknown": ({"valid": "last 20%", "time": "dy"}, "time column 'dy' is not in the data; did you mean 'day'?"),
    "text": ({"valid": "last 20%", "time": "query"}, "time column 'query' has type"),
    "hours of dates": ({"valid": "last 5 hours", "time": "day"}, "valid='last 5 hours' can't be combined with time"),
    "days of numbers": ({"valid": "last 5 days", "time": "x"}, "valid='last 5 days' can't be combined with time"),
    "part of a month": ({"valid": "last 1.5 months", "time": "day"}, "valid='last 1.5 months' can't be combined"),
    "months of numbers": ({"valid": "last 2 months", "time": "x"}, "valid='last 2 months' can't be combined with time"),
    "no unit": ({"valid": "last 3 moons", "time": "day"}, "time is for valid='last 20%' or 'last 4 weeks', not for"),
    "missing": ({"valid": "last 20%", "time": "gaps"}, "time column 'gaps' is NULL or NaN in 3 rows; "),
    "nan": ({"valid": "last 20%", "time": "nan"}, "time column 'nan' is NULL or NaN in 4 rows; "),
    "all queries": ({"valid": "last 40%", "time": "day", "group": "thirds"}, "holds out all rows: each group of"),
    "group of lists": ({"valid": "last 20%", "time": "day", "group": "lists"}, "which can't identify queries"),
    "rows without group": ({"valid": 0.2, "group": "gaps"}, "group 'gaps' is NULL or NaN in 3 rows; set a group"),
    "group of NaN": ({"valid": "last 20%", "time": "day", "group": "nan"}, "group 'nan' is NULL or NaN in 4 rows"),
    "group for nothing": ({"group": "query"}, "to keep rows of one value together where folds is a number or valid a"),
    "group of other rows": ({"group": "query", "valid": "row > 9"}, "objective 'reg:squarederror' does not use it"),
    "no group": ({"valid": 0.2, "group": "qery"}, "group column 'qery' is not in the data; did you mean 'query'?"),
}  # fmt: skip


@pytest.mark.slow
@cases("name", _REFUSED)
def test_what_cannot_be_held_out_is_refused(name):
    options, message = _REFUSED[name]
    frame = FRAME.with_columns(
        thirds=pl.col("row") % 3, lists=pl.concat_list("row"), gaps=pl.when(pl.col("row") > 2).then("day"),
        nan=pl.when(pl.col("row") > 3).then("x").otherwise(float("nan")),
    )  # fmt: skip
    for data in (frame, as_relation(frame)):
        with pytest.raises((fb.DataError, fb.ParameterError)) as error:
            fb.fit(data, "y", features=["x"], **options)
        assert message in str(error.value)


@pytest.mark.slow
def test_rows_on_a_cluster_are_told_by_a_condition():
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(FRAME.select("x", "y").to_pandas(), npartitions=2)
    for options in ({"valid": 0.2}, {"valid": "last 20%", "time": "x"}):
        with pytest.raises(fb.ParameterError, match="condition on each row alone, such as valid=") as no:
            fb.fit(frame, "y", **options)
        assert ("valid='id % 5 = 0'" in str(no.value)) == (options["valid"] == 0.2)

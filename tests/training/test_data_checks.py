"""Every engine refuses the same data with the same sentence, before any of them starts to work."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import frameboost as fb
from tests.support.cases import cases
from tests.support.refusals import ENGINES, good, is_one_sentence, refused

OF_LABELS = [
    ("survival:aft", [0.0, 0.0, 1.0, 2.0], "times of 0 or more whose label_upper_bound is greater than 0 and no "
     "earlier in 2 of 4 rows, such as 0; objective 'survival:aft' needs those"),
    ("multi:softprob", [0.0, 1.5, 2.0, 2.0], "the classes 0 to 2 in 1 of 4 rows, such as 1.5; objective "
     "'multi:softprob' needs those; number them from 0, or use strings as labels"),
    ("binary:logitraw", [0.0, 0.3, 1.0, 1.0], "0 and 1 (or false and true) in 1 of 4 rows, such as 0.3; objective "
     "'binary:logitraw' needs those; 'reg:logistic' takes shares from 0 to 1"),
    ("binary:hinge", [-1.0, 1.0, 1.0, -1.0], "0 and 1 (or false and true) in 2 of 4 rows, such as -1; objective "
     "'binary:hinge' needs those; use 0 and 1 instead of other numbers, or strings"),
    ("reg:gamma", [0.0, 1.0, 1.0, 2.0], "numbers greater than 0 in 1 of 4 rows, such as 0; objective 'reg:gamma' needs "
     "those"),
    ("reg:logistic", [0.0, 1.01, 1.0, 0.5], "numbers from 0 to 1 in 1 of 4 rows, such as 1.01; objective "
     "'reg:logistic' needs those"),
    ("count:poisson", [0.0, -0.5, 1.0, 2.0], "numbers of 0 or more in 1 of 4 rows, such as -0.5; objective "
     "'count:poisson' needs those"),
    ("reg:tweedie", [0.0, -1.0, 1.0, 2.0], "numbers of 0 or more in 1 of 4 rows, such as -1; objective 'reg:tweedie' "
     "needs those"),
    ("reg:squaredlogerror", [-1.5, 1.0, -2.0, 2.0], "numbers greater than -1 in 2 of 4 rows, such as -2; objective "
     "'reg:squaredlogerror' needs those"),
]  # fmt: skip


@pytest.mark.slow
@cases(("objective", "labels", "message"), OF_LABELS)
def test_labels_that_a_loss_does_not_take_are_shown(objective, labels, message):
    data = good().with_columns(y=pl.Series(labels))
    bound = {"label_upper_bound": "y"} if objective == "survival:aft" else {}
    for rows in (data, duckdb.from_arrow(data.to_arrow())):
        with pytest.raises(fb.DataError) as error:
            fb.fit(rows, "y", objective=objective, features=["x"], **bound)
        assert str(error.value) == f"target 'y' holds other values than {message}"


NO_TYPE = pl.DataFrame({"y": [None, None], "x": [0, 1]})
NO_COLUMNS = "target column 'y' is not in the data, which has no columns$"


@cases(("data", "options", "message"), [
    (good().with_columns(y=pl.Series([0, 1, 2, 1_000_000])), {"objective": "multi:softprob"},
     "target 'y' holds 1000000, and objective 'multi:softprob' has a class for"),
    (NO_TYPE, {}, "target 'y' has no label in any row$"),
    (duckdb.connect().sql("SELECT i AS x, NULL AS y FROM range(2) AS r(i)"), {},
     "target 'y' has no label in any row$"),
    (pl.DataFrame(), {}, NO_COLUMNS), (pl.LazyFrame(), {}, NO_COLUMNS), (pd.DataFrame(), {}, NO_COLUMNS),
])  # fmt: skip
def test_targets_that_are_none_are_refused(data, options, message):
    with pytest.raises(fb.DataError, match=f"^{message}"):
        fb.fit(data, "y", **options)


def test_a_type_with_pages_of_categories_is_cut_short():
    kinds = [str(i) for i in range(999)]
    long = pl.DataFrame({"kind": pl.Series(kinds, dtype=pl.Enum(kinds)), "x": range(999)})
    con = duckdb.connect()
    con.execute(f"CREATE TYPE kinds AS ENUM ({', '.join(map(repr, kinds))})")
    con.execute("CREATE TABLE t AS SELECT CAST('7' AS kinds) AS kind, 1 AS x")
    for data in (long, con.table("t")):
        with pytest.raises(
            fb.ParameterError, match=r"needs numbers, but target 'kind' has type .*\.\.\., who"
        ) as error:
            fb.fit(data, "kind", objective="reg:squarederror")
        assert len(str(error.value)) < 350
        assert is_one_sentence(str(error.value))


def test_features_may_come_in_anything_that_has_an_order():
    expected = fb.fit(good(), "y", features=["s", "x"], n_estimators=2)
    assert expected.features == ["s", "x"]
    for features in (("s", "x"), iter(["s", "x"]), {"s": 1, "x": 2}, pd.Index(["s", "x"]), np.array(["s", "x"])):
        assert fb.fit(good(), "y", features=features, n_estimators=2) == expected


@pytest.mark.parametrize("engine", ENGINES[:3])
def test_weights_may_be_boolean(engine):
    frame = good().with_columns(w=pl.Series([True, True, False, True]))
    options = {"weight": "w", "engine": engine, "n_estimators": 2, "min_child_weight": 0}
    expected = fb.fit(frame.with_columns(pl.col("w").cast(pl.Float64)), "y", **options)
    assert fb.fit(frame, "y", **options) == expected


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT i AS y, i AS x, -i AS x FROM range(4) AS r(i)",
         "column 'x' occurs 2 times; column names must be unique"),
        ("SELECT i AS y, i AS x, -i AS X FROM range(4) AS r(i)",
         "columns 'x' and 'X' differ only in case, which DuckDB ignores; rename one of them"),
        ("SELECT i AS y, i AS \"straße A\", -i AS \"STRAße a\" FROM range(4) AS r(i)",
         "columns 'straße A' and 'STRAße a' differ only in case, which DuckDB ignores; rename one of them"),
        ("SELECT * FROM range(4) AS a(y) JOIN range(4) AS b(y) ON a.y = b.y",
         "column 'y' occurs 2 times; column names must be unique"),
    ],
)  # fmt: skip
def test_columns_that_sql_cannot_tell_apart_are_refused(query, message):
    model = fb.fit(good(), "y", features=["x"], n_estimators=1)
    for use in (lambda data: fb.fit(data, "y"), model.predict):
        with pytest.raises(fb.DataError) as error:
            use(duckdb.connect().sql(query))
        assert str(error.value) == message
        assert is_one_sentence(message)


def test_columns_that_differ_in_the_case_of_an_umlaut_are_two():
    frame = pl.DataFrame({"ä": [1, 2, 1, 2], "Ä": [1, 1, 2, 2], "y": [0.0, 1.0, 3.0, 9.0]})
    options = {"n_estimators": 2, "min_child_weight": 0}
    relation = duckdb.connect().from_arrow(frame.to_arrow())
    model = fb.fit(frame, "y", **options)
    assert set(model.trees["feature"].drop_nulls()) == {"ä", "Ä"}
    assert fb.fit(relation, "y", **options) == model


def failing_rows(frame: pl.DataFrame) -> list:
    """Return the frame's columns over rows that can't be read."""

    def fail(_):
        raise AssertionError("the rows were read")

    arrived = frame.lazy().map_batches(fail, schema=frame.schema)
    con = duckdb.connect()
    con.register("arrived", frame.to_arrow())
    con.execute("CREATE TABLE stored AS FROM arrived")  # rows that may differ the next time are copied first
    return [arrived, con.sql("SELECT * REPLACE (CAST('the rows were read' || y AS DOUBLE) AS y) FROM stored")]


@pytest.mark.slow
@pytest.mark.parametrize("relation", [False, True])
def test_bad_columns_and_parameters_are_refused_before_rows_are_read(relation):
    data = failing_rows(good())[relation]
    for options in (
        {"target": "z"}, {"target": "s", "objective": "reg:squarederror"}, {"target": "s", "weight": "z"},
        {"weight": "z"}, {"features": ["z"]}, {"features": ["y"]}, {"engine": "spark"}, {"n_estimators": 0},
        {"objective": "none"}, {"max_bin": 1}, {"cuts": {"x": [1]}, "tree_method": "exact"},
    ):  # fmt: skip
        for call in (fb.fit, fb.plan):
            with pytest.raises(fb.FrameboostError):
                call(data, **{"target": "y"} | options)


@pytest.mark.parametrize("relation", [False, True])
def test_rows_that_fail_tell_that_they_were_read(relation):
    with pytest.raises((pl.exceptions.PolarsError, duckdb.Error, AssertionError), match="the rows were read"):
        fb.fit(failing_rows(good())[relation], "y")
    assert fb.plan(failing_rows(good())[relation], "y").features


@pytest.mark.parametrize("engine", ENGINES)
def test_bad_rows_are_refused_before_training(engine, monkeypatch):
    def start(*_):
        raise AssertionError("training has begun")

    monkeypatch.setattr("frameboost.training.train.train", start)
    for frame in (good().head(1), good().with_columns(y=pl.lit(None, pl.Float64))):
        refused(engine, frame)
    with pytest.raises(AssertionError, match="training has begun"):
        fb.fit(good(), "y")

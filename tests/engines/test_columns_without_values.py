"""Columns without a value, of every type and by every engine: they are kept, never split, and change nothing else."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import frameboost as fb
from frameboost.engines import query_costs

N = 60
FRAME = pl.DataFrame({
    "x": [(i * 37 % 23) / 2 for i in range(N)], "c": ["abc"[i % 3] for i in range(N)], "k": [i % 5 for i in range(N)],
}).with_columns(y=pl.col("x").sin() + pl.col("k") + 2 * (pl.col("c") == "b"))  # fmt: skip
SHAPE = {"n_estimators": 2, "max_depth": 3}
TYPES = [
    pl.Null(), pl.Float64(), pl.Float32(), pl.Int8(), pl.UInt64(), pl.Boolean(), pl.Date(), pl.Datetime("us"),
    pl.Datetime("ns", "UTC"), pl.Duration("us"), pl.String(), pl.Enum(["p", "q"]), pl.Categorical(), pl.Decimal(9, 2),
]  # fmt: skip
EMPTY = FRAME.with_columns(
    *(pl.lit(None, dtype).alias(f"e{i}") for i, dtype in enumerate(TYPES)), nan=pl.lit(float("nan"))
)
ADDED = EMPTY.columns[4:]


@pytest.fixture(scope="module")
def trees() -> pl.DataFrame:
    return fb.fit(FRAME, "y", **SHAPE).trees


@pytest.fixture
def _queries(monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", 0)  # or all engines would read so few rows into memory


@pytest.mark.usefixtures("_queries")
@pytest.mark.parametrize(
    "engine",
    ["numba", "star", *(pytest.param(e, marks=pytest.mark.slow) for e in ("polars", "duckdb", "shards", "relation"))],
)
def test_they_are_kept_and_never_split(engine, trees):
    data, options = EMPTY, {"engine": engine} if engine in ("numba", "polars", "duckdb") else {}
    with duckdb.connect() as con:
        if engine == "shards":
            options = {"shards": 3}
        elif engine == "relation":
            con.register("t", EMPTY.to_arrow())
            data = con.sql("SELECT *, NULL AS untyped FROM t")
        elif engine == "star":
            dimension = EMPTY.select("k", *ADDED).unique("k")
            data = fb.join(FRAME, dimension, on="k")
        model = fb.fit(data, "y", **SHAPE, **options)
    assert model.features == ["x", "c", "k", *ADDED, *(["untyped"] if engine == "relation" else [])]
    assert model.trees.equals(trees)


@pytest.mark.parametrize(
    "none",
    [
        None, np.nan, pd.Categorical([None] * N), pd.array([pd.NA] * N, dtype="Int64"), pd.array([pd.NA] * N, "string"),
        pd.array([pd.NaT] * N, dtype="datetime64[ns]"), pd.array([pd.NA] * N, dtype="boolean"), pa.nulls(N),
    ],
    ids=["object", "float", "category", "Int64", "string", "datetime", "boolean", "arrow"],
)  # fmt: skip
def test_columns_of_pandas_and_arrow_without_a_value(none, trees):
    frame = (
        FRAME.to_arrow().append_column("e", none) if isinstance(none, pa.Array) else FRAME.to_pandas().assign(e=none)
    )
    assert fb.fit(frame, "y", **SHAPE).trees.equals(trees)


# --- rows to score, evaluate and train on further: a column that has values in training has none ----------------------

FULL = FRAME.with_columns(
    d=pl.lit(dt.date(2024, 1, 1)) + pl.duration(days="k"), b=pl.col("k") > 2, p=pl.col("x").cast(pl.Decimal(9, 2)),
    t=pl.lit(dt.datetime(2024, 1, 1)) + pl.duration(hours="k"),
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> fb.Model:
    model = fb.fit(FULL, "y", n_estimators=12, max_depth=3, colsample_bytree=0.5)
    assert set(model.trees["feature"]) >= {*model.features, None} - {"t"}  # so that types matter
    return model


def batches(names):
    """Return one row without values in every container that may hold it."""
    record = dict.fromkeys(names)
    yield "record", [record]
    yield "polars", pl.DataFrame([record])
    yield "lazy", pl.LazyFrame([record])
    yield "strings", pl.DataFrame({name: pl.Series([None], dtype=pl.String) for name in names})
    yield "lists", pl.DataFrame({name: pl.Series([None], dtype=pl.List(pl.Int8)) for name in names})
    yield "objects", pd.DataFrame([record])
    yield "floats", pd.DataFrame([dict.fromkeys(names, np.nan)])
    yield "arrow", pa.Table.from_pylist([record])


def relations(con, names):
    con.execute(f"CREATE TABLE t AS SELECT {', '.join(f'NULL AS {name}' for name in names)}")  # INTEGER
    yield "table", con.table("t")
    yield "query", con.sql(f"SELECT {', '.join(f'NULL AS {name}' for name in names)}")
    yield "booleans", con.sql(f"SELECT {', '.join(f'NULL::BOOLEAN AS {name}' for name in names)}")


@pytest.mark.slow
def test_a_record_of_nothing_is_scored_alike_in_every_container(model):
    record = dict.fromkeys(model.features)
    expected = model.predict(record).to_list()
    explained = model.explain(record).drop(model.features, strict=False)
    with duckdb.connect() as con:
        for name, rows in (*batches(model.features), *relations(con, model.features)):
            assert model.predict(rows).to_list() == expected, name
            found = model.explain(rows)
            assert found.drop(model.features, strict=False).equals(explained), name
        rows = pl.DataFrame([record])
        assert rows.select(model.expr()).to_series().to_list() == expected
        model.register(con, "score")
        con.execute(f"CREATE VIEW v AS SELECT {', '.join(f'NULL AS {name}' for name in model.features)}")
        assert con.sql(f"SELECT score({', '.join(model.features)}) FROM v").fetchall() == [(expected[0],)]
        assert con.sql(model.query("v")).fetchall()[0][-1] == expected[0]


@pytest.mark.slow
def test_labelled_rows_of_nothing_are_evaluated_validated_on_and_trained_on(model):
    expected = None
    with duckdb.connect() as con:
        con.register("y", FULL.select("y").to_arrow())
        nulls = ", ".join(f"NULL AS {name}" for name in model.features)
        strings = FULL.with_columns(pl.lit(None, pl.String).alias(name) for name in model.features)
        for rows in (strings, strings.to_pandas(), con.sql(f"SELECT y, {nulls} FROM y")):
            found = [
                model.evaluate(rows, "y").metrics.rows(),
                model.refit(rows, "y").predict(dict.fromkeys(model.features)).to_list(),
                fb.fit(rows, "y", init_model=model, n_estimators=1).n_rounds,
                fb.fit(FULL, "y", valid=rows, n_estimators=1).history.rows(),
                fb.fit(FULL, "y", valid={"late": rows}, n_estimators=1).history.rows(),
            ]
            expected = expected or found
            assert found == expected
    estimator = fb.FrameBoostRegressor(n_estimators=1)
    X, empty = FULL.drop("y"), strings.drop("y")
    estimator.fit(X, FULL["y"], eval_set=[(empty, FULL["y"])])
    assert estimator.evals_result_["validation_0"]["rmse"] == pytest.approx([found[3][0][1]])


def test_other_values_are_still_refused(model):
    rows = FULL.with_columns(x=pl.when(pl.int_range(N) == 7).then(pl.lit("n/a")))
    with pytest.raises(fb.DataError, match=r"feature 'x' has type String \(such as 'n/a'\), but the model was trained"):
        model.predict(rows)
    with pytest.raises(fb.DataError, match="feature 'x' has type String"):
        fb.fit(FULL, "y", valid=rows)


def test_moments_of_a_zone_in_an_expression():
    rows = FULL.select("y", z=pl.col("t").dt.replace_time_zone("Europe/Paris"))
    model = fb.fit(rows, "y", n_estimators=1, max_depth=2)
    expected = [model.predict({"z": None}).item()] * N
    for nothing in (pl.lit(None), pl.lit(None, pl.Datetime("ns", "Asia/Tokyo"))):
        assert rows.select(z=nothing).select(model.expr()).to_series().to_list() == expected[:1]
    moved = rows.with_columns(pl.col("z").dt.convert_time_zone("Asia/Tokyo"))
    assert moved.select(model.expr()).to_series().equals(model.predict(rows))
    with pytest.raises(pl.exceptions.ComputeError):
        rows.with_columns(z=pl.lit(5)).select(model.expr())

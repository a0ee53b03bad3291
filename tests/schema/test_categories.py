"""Categories that are no strings, from every container that has them: what is promised of strings holds of them."""

import datetime as dt
import math
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, feather, parquet

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.cases import cases

FIT = {"n_estimators": 2, "learning_rate": 1, "reg_lambda": 0, "max_depth": 3, "min_child_weight": 0, "verbose": False}
# Ascending categories of each type, and values of other types or widths that are none of them.
VALUES = {
    "int8": pd.Index([-7, 0, 1, 3, 5], dtype="int8"),
    "int64": pd.Index([-7, 1, 3, 2**60, 2**60 + 1]),  # the last two are one float64
    "uint64": pd.Index([1, 3, 5, 2**63, 2**63 + 1], dtype="uint64"),
    "float64": pd.Index([-9.5, 0.0, 0.1, 5.0, math.inf]),
    "float32": pd.Index([-9.5, 0.0, 0.1, 5.0, math.inf], dtype="float32"),
    "boolean": pd.Index([False, True]),
    "date": pd.Index([dt.date(2020, 1, day) for day in (1, 2, 5, 7, 9)], dtype=object),
    "timestamp[us]": pd.date_range("2020-01-01 12:00:00.000001", periods=5, freq="D", unit="us"),
    "timestamptz[us]": pd.date_range("2020-01-01", periods=5, freq="D", unit="us", tz="Europe/Berlin"),
    "duration[us]": pd.to_timedelta(range(5), unit="h").as_unit("us"),
    "decimal(4,2)": pd.Index(list(map(Decimal, ("-3.30", "0.00", "1.10", "2.20", "12.34"))), dtype=object),
}
TYPES = pytest.mark.parametrize("name", VALUES)


def rows_of(name: str) -> pd.DataFrame:
    """Return rows with every category, and missing ones; the target is in no order of the categories."""
    values = VALUES[name]
    codes = np.arange(60) % (len(values) + 1)
    codes[codes == len(values)] = -1
    target = np.array([30.0, 0.0, 50.0, 20.0, 70.0, 10.0])[codes] + np.arange(60) % 5
    x = pd.Categorical.from_codes(codes, categories=values)
    return pd.DataFrame({"x": x, "z": np.arange(60) % 5, "y": target})


def by_rank(rows: pd.DataFrame) -> pl.DataFrame:
    """Return the rows with the letters a, b, c, ... for the categories, in their order."""
    letters = [None if code < 0 else "abcdefgh"[code] for code in rows["x"].cat.codes]
    return pl.DataFrame({"x": letters, "z": rows["z"].to_numpy(), "y": rows["y"].to_numpy()})


@TYPES
def test_trees_are_those_of_strings_in_the_same_order_in_every_container(name, tmp_path):
    if name == "timestamptz[us]" and pd.__version__ < "3":
        pytest.skip("categories of pandas before 3 reach Arrow without their time zone")
    rows = rows_of(name)
    model, strings = fb.fit(rows, "y", **FIT), fb.fit(by_rank(rows), "y", **FIT)
    assert model.ensemble.features[0].type == FeatureType(f"category({name})")
    assert model.ensemble.trees == strings.ensemble.trees
    predicted = strings.predict(by_rank(rows))
    assert model.predict(rows).equals(predicted)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    assert fb.fit(table, "y", **FIT) == model
    if name not in ("int64", "float32", "timestamp[us]"):
        return
    batches = table.to_batches()
    for same in (batches[0], pa.RecordBatchReader.from_batches(table.schema, batches), dataset.dataset(table)):
        assert fb.fit(same, "y", **FIT) == model
    parameters = {key: value for key, value in FIT.items() if key != "verbose"}
    estimator = fb.FrameBoostRegressor(**parameters).fit(rows[["x", "z"]], rows["y"])
    assert estimator.model_.ensemble == model.ensemble
    np.testing.assert_array_equal(estimator.predict(table.select(["x", "z"])), predicted.to_numpy())
    parquet.write_table(table, path := tmp_path / "rows.parquet")
    assert fb.fit(path, "y", **FIT) == model
    assert fb.fit(rows, "y", folds=2, **FIT).ensemble.features[0].type == model.ensemble.features[0].type


@pytest.mark.parametrize(("name", "engine", "method"), [
    (name, ("polars", "duckdb")[i % 2], ("hist", "approx")[i // 2 % 2]) for i, name in enumerate(VALUES)
])  # fmt: skip
def test_every_engine_has_the_same_categories(name, engine, method):
    rows = rows_of(name)
    assert fb.fit(rows, "y", engine=engine, tree_method=method, **FIT) == fb.fit(rows, "y", tree_method=method, **FIT)


@TYPES
def test_every_output_is_the_prediction_and_every_later_fit_takes_the_categories(name, tmp_path):
    rows = rows_of(name)
    model, frame = fb.fit(rows, "y", **FIT), pl.from_pandas(rows).with_row_index("id")
    expected = model.predict(rows)
    assert frame.select(prediction=model.expr())["prediction"].equals(expected)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("frame", frame.to_arrow())
    con.execute("CREATE TABLE t AS FROM frame")
    for statement in model.database("duckdb").table_statements("nodes"):
        con.execute(statement)
    for form in ("case", "lists", "table"):
        query = model.query("t", keep=["id"], form=form, **({"trees": "nodes"} if form == "table" else {}))
        assert con.sql(query).order("id").pl()["prediction"].equals(expected)
    model.register(con, "score")
    assert con.sql("SELECT score(x, z) AS prediction, id FROM t").order("id").pl()["prediction"].equals(expected)
    for file in ("model.json", "model.ubj"):
        model.save(tmp_path / file)
        assert fb.load(tmp_path / file) == model
    np.testing.assert_allclose(model.explain(rows).sum_horizontal(), expected, atol=1e-9)
    assert model.partial_dependence(rows, "x").height == len(VALUES[name])
    assert model.refit(rows, "y").predict(rows).to_numpy() == pytest.approx(expected.to_numpy())
    assert fb.fit(rows, "y", valid=rows, **FIT) == model
    assert fb.fit(rows, "y", init_model=model, **FIT).n_trees == 4


@pytest.mark.slow
@cases("name, others", [
    ("int8", pl.Series([2, 300, None])), ("int8", pl.Series([1.5, math.nan, 1e300])),
    ("int64", pl.Series([2.0**60 + 2**10, math.nan, -7.5])),
    ("float64", pl.Series([0.1, math.nan, 6.0], dtype=pl.Float32)),  # 0.1 as a float32 is another number
    ("float32", pl.Series([0.1, math.nan, 6.0], dtype=pl.Float64)),
    ("date", pl.Series([dt.date(2020, 1, 3), None, dt.date(1999, 1, 1)])),
    ("timestamp[us]", pl.Series([dt.datetime(2020, 1, 1, 12), None])),
    ("decimal(4,2)", pl.Series([Decimal("1.101"), None], dtype=pl.Decimal(9, 3))),
])  # fmt: skip
def test_what_is_no_category_goes_with_missing_values(name, others):
    rows = rows_of(name)
    model = fb.fit(rows, "y", **FIT)
    null = pl.from_pandas(rows)["x"].clear(1)
    expected = model.predict(pl.DataFrame({"x": null, "z": [0]})).item()
    frame = pl.DataFrame({"x": others, "z": [0] * len(others)})
    assert model.predict(frame).to_list() == [expected] * len(others)
    assert frame.select(model.expr()).to_series().to_list() == [expected] * len(others)
    con = duckdb.connect()
    con.register("others", frame.to_arrow())
    assert con.sql(model.query("others", keep=[])).fetchall() == [(expected,)] * len(others)


def test_sql_compares_in_the_type_of_the_column():
    def condition(values, **options):
        place = np.arange(42) % len(values)
        x = pd.Categorical.from_codes(place, categories=values)
        rows = pd.DataFrame({"x": x, "y": np.where(np.isin(place, (0, 2, 4)), 8.0, 0.0)})
        model = fb.fit(rows, "y", n_estimators=1, learning_rate=1, reg_lambda=0, max_depth=1, verbose=False)
        return " ".join(model.sql(**{"dialect": "postgres", **options}).split())

    days = pd.Index([dt.date(2020, 1, day) for day in range(1, 8)], dtype=object)
    assert 'WHEN "x" IN (1, 5, 9) THEN' in condition(pd.Index([1, 3, 5, 7, 9, 11, 13]))
    assert "WHEN \"x\" IN (DATE '2020-01-01', DATE '2020-01-03', DATE '2020-01-05') THEN" in condition(days)
    floats = pd.Index([1.25, 2.0, 3.5, 4.0, 5.0, 6.0, 7.0])
    assert 'WHEN "x" IN (1.25::float8, 3.5::float8, 5.0::float8) THEN' in condition(floats)
    assert 'WHEN NOT "x" THEN' in condition(pd.Index([False, True]))
    assert "IF(`x` = 0, " in condition(pd.Index([False, True]), dialect="mysql")
    # No column of PostgreSQL has a time between two microseconds; DuckDB has such columns.
    times = pd.to_datetime([1, 2, 5, 7, 9, 11, 13], unit="ns")
    assert "WHEN 1 = 0 THEN" in condition(times)
    assert "make_timestamp_ns(5)" in condition(times, dialect="duckdb")


def test_dimensions_files_and_dask_have_categories(tmp_path):
    rows = rows_of("int64")
    keys = rows["x"].cat.codes
    facts = pd.DataFrame({"key": keys, "z": rows["z"], "y": rows["y"]})
    dimension = pd.DataFrame({"key": range(5), "x": pd.Categorical(VALUES["int64"])})
    star = fb.join(facts, dimension, on="key")
    alone = fb.fit(rows, "y", features=["x", "z"], **FIT)
    for engine in ("numba", "polars", "duckdb"):
        model = fb.fit(star, "y", features=["x", "z"], engine=engine, **FIT)
        assert (model.ensemble.trees, model.ensemble.features) == (alone.ensemble.trees, alone.ensemble.features)
    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    feather.write_feather(table.drop_null(), tmp_path / "rows.arrow", compression="uncompressed")
    found = fb.fit(tmp_path / "rows.arrow", "y", **FIT).ensemble.features[0]
    assert (found.type.name, found.categories) == ("category(int64)", tuple(VALUES["int64"]))
    # Nothing tells that these are categories.
    parquet.write_table(table, tmp_path / "plain.parquet", store_schema=False)
    assert fb.fit(tmp_path / "plain.parquet", "y", **FIT).ensemble.features[0].type.name == "int64"


@pytest.mark.slow
def test_dask_finds_categories_that_nobody_has_listed():
    dask = pytest.importorskip("dask.dataframe")
    from frameboost.data.opening import open_source

    rows = rows_of("int64")
    listed = dask.from_pandas(rows, npartitions=2)
    unlisted = dask.from_pandas(rows.astype({"x": "Int64"}), npartitions=2).astype({"x": "category"})
    for frame in (listed, unlisted):
        source = open_source(frame, clusters=True)
        assert source.categorical == {"x"}
        assert source.types()["x"] == FeatureType("int64")


@cases("kind, categories, message", [
    ("category(int8)", [1, 300], "values of type int8"), ("category(int8)", [5, 1], "values of type int8"),
    ("category(boolean)", [0, True], "values of type boolean"),
    ("category(float64)", [0.5, "x"], "values of type float64"), ("category(float32)", [0.1], "values of type float32"),
    ("category(date)", ["2020-01-01"], "values of type date"), ("category(string)", ["a"], "a feature type"),
    ("category(category(int8))", [1], "a feature type"), ("category(codes)", [1], "a feature type"),
])  # fmt: skip
def test_the_file_has_categories_of_the_type(kind, categories, message, tmp_path):
    import json

    fb.fit(rows_of("int8"), "y", **FIT).save(path := tmp_path / "model.json")
    document = json.loads(path.read_text())
    document["features"][0] |= {"type": kind, "categories": categories}
    path.write_text(json.dumps(document))
    with pytest.raises(fb.ModelFileError, match=message):
        fb.load(path)

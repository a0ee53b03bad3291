"""Anything that is a table will do, in training and in scoring."""

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import frameboost as fb
from tests.frames import every_type

COLUMNS = ["int16", "uint64", "float32", "float64", "boolean", "date", "datetime_us", "datetime_tz", "duration_us",
           "decimal", "string", "categorical"]  # fmt: skip
SHAPE = {"n_estimators": 3, "max_depth": 4}


class Capsule:
    """A table that is known only by the Arrow PyCapsule interface."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    return every_type(300).select(*COLUMNS, "amount")


@pytest.fixture(scope="module")
def model(frame) -> fb.Model:
    return fb.fit(frame, "amount", **SHAPE)


def tables(frame: pl.DataFrame, tmp_path) -> dict:
    arrow = frame.to_arrow()
    frame.write_parquet(tmp_path / "t.parquet")
    con = duckdb.connect()
    return {
        "lazy": frame.lazy(),
        "scan": pl.scan_parquet(tmp_path / "t.parquet"),
        "pyarrow table": arrow,
        "record batch": arrow.combine_chunks().to_batches()[0],
        "reader": arrow.to_reader(),
        "capsule": Capsule(arrow),
        "duckdb": con.from_arrow(arrow),
    }


def test_every_kind_of_table_trains_and_scores_alike(frame, model, tmp_path):
    expected = model.predict(frame)
    for kind, table in tables(frame, tmp_path).items():
        assert fb.fit(table, "amount", **SHAPE) == model, kind
    for kind, table in tables(frame, tmp_path).items():
        predicted = model.predict(table)
        assert predicted.name == "prediction"
        assert predicted.equals(expected), kind


@pytest.mark.parametrize("engine", ["numba", "polars", "duckdb"])
def test_pandas_with_its_own_idea_of_missing(engine):
    pandas = pd.DataFrame(
        {
            "number": [1.5, None, 3.0, 4.0] * 10,
            "nullable": pd.array([1, 2, None, 4] * 10, dtype="Int64"),
            "text": ["a", None, "b", "a"] * 10,
            "kind": pd.Categorical(["x", "y", None, "y"] * 10),
            "when": pd.to_datetime(["2013-01-01", None, "2013-01-03", "2013-01-04"] * 10),
            "flag": [True, False, True, True] * 10,
            "y": [1.0, 2.0, 5.0, 3.0] * 10,
        },
        index=range(100, 140),
    )
    frame = pl.DataFrame(
        {
            "number": [1.5, None, 3.0, 4.0] * 10,
            "nullable": [1, 2, None, 4] * 10,
            "text": ["a", None, "b", "a"] * 10,
            "kind": ["x", "y", None, "y"] * 10,
            "flag": [True, False, True, True] * 10,
            "y": [1.0, 2.0, 5.0, 3.0] * 10,
        }
    )
    model = fb.fit(pandas, "y", engine=engine, **SHAPE)
    assert model.features == ["number", "nullable", "text", "kind", "when", "flag"]
    without = fb.fit(pandas.drop(columns="when"), "y", engine=engine, **SHAPE)
    assert without == fb.fit(frame, "y", **SHAPE)
    assert without.predict(pandas).equals(without.predict(frame))


def test_columns_in_another_order_and_of_other_numeric_types_score_alike(frame, model):
    other = frame.with_columns(pl.col("int16").cast(pl.Float64), pl.col("float32").cast(pl.Float64),
                               pl.col("string").cast(pl.Categorical), pl.col("datetime_us").cast(pl.Datetime("ns")),
                               pl.col("decimal").cast(pl.Decimal(20, 5)))  # fmt: skip
    assert model.predict(other.select(reversed(other.columns))).equals(model.predict(frame))


def test_numbers_of_another_type_are_compared_exactly():
    ints = pl.DataFrame({"x": [2**53, 2**53 + 1], "y": [0.0, 2.0]})
    model = fb.fit(ints, "y", n_estimators=1, learning_rate=1, reg_lambda=0, min_child_weight=0)
    # The threshold is 2^53 + 1, which no float64 is: 2^53 is below, the next one, 2^53 + 2, is not.
    assert model.predict(pl.DataFrame({"x": [2.0**53, 2.0**53 + 2]})).to_list() == [0.0, 2.0]
    floats = pl.DataFrame({"x": [0.25, 0.5], "y": [0.0, 2.0]}, schema_overrides={"x": pl.Float32})
    model = fb.fit(floats, "y", n_estimators=1, learning_rate=1, reg_lambda=0, min_child_weight=0)
    for values in ([0, 1], [0.4999999999999999, 0.5], [False, True]):
        frame = pl.DataFrame({"x": values})
        if frame["x"].dtype == pl.Boolean:
            with pytest.raises(fb.DataError, match="has type Boolean"):
                model.predict(frame)
        else:
            assert model.predict(frame).to_list() == [0.0, 2.0]


def test_no_rows_are_scored_as_none(frame, model):
    assert model.predict(frame.head(0)).equals(pl.Series("prediction", [], dtype=pl.Float64))
    assert model.predict(frame.head(0), output="leaf").len() == 0
    assert frame.head(0).select(model.expr()).height == 0

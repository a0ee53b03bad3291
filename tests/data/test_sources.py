"""Every kind of table (polars, pandas, Arrow, DuckDB), in training and in scoring."""

import re
import sys
from datetime import date, datetime
from decimal import Decimal
from types import ModuleType

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import frameboost as fb
from frameboost.data.opening import open_source
from tests.support.cases import cases
from tests.support.frames import every_type

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


@pytest.mark.slow
def test_every_kind_of_table_trains_and_scores_alike(frame, model, tmp_path):
    expected = model.predict(frame)
    for kind, table in tables(frame, tmp_path).items():
        assert fb.fit(table, "amount", **SHAPE) == model, kind
    for kind, table in tables(frame, tmp_path).items():
        predicted = model.predict(table)
        assert predicted.name == "prediction"
        assert predicted.equals(expected), kind


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
    # The threshold is 0.4, between the two.
    for values in ([0, 1], [0.3999999999999999, 0.4], [False, True]):
        assert model.predict(pl.DataFrame({"x": values})).to_list() == [0.0, 2.0]


def test_no_rows_are_scored_as_none(frame, model):
    assert model.predict(frame.head(0)).equals(pl.Series("prediction", [], dtype=pl.Float64))
    assert model.predict(frame.head(0), output="leaf").len() == 0
    assert frame.head(0).select(model.expr()).height == 0


# --- pandas -----------------------------------------------------------------------------------------------------------

ENGINES = ["numba", "polars", "duckdb"]
LABELS = [1.0, 2.0, 5.0, 3.0] * 10
DAYS = [datetime(2013, 3, 31), None, datetime(2013, 4, 2), datetime(2013, 4, 1)]

# name -> (four values as pandas has them, the same as polars has them)
FROM_PANDAS = {
    "objects of text": (pd.Series(["a", None, "b", float("nan")], dtype=object), pl.Series(["a", None, "b", None])),
    "string": (pd.array(["a", None, "b", "ä"], dtype="string"), pl.Series(["a", None, "b", "ä"])),
    "category": (pd.Categorical(["z", "y", None, "y"]), pl.Series(["z", "y", None, "y"])),
    "Int64": (pd.array([2**60 + 1, 2**60, None, 7], dtype="Int64"), pl.Series([2**60 + 1, 2**60, None, 7])),
    "Float64": (pd.array([1.5, None, 2.0, 3.0], dtype="Float64"), pl.Series([1.5, None, 2.0, 3.0])),
    "NaN": (pd.array([1.5, float("nan"), 2.0, 3.0]), pl.Series([1.5, None, 2.0, 3.0])),
    "boolean": (pd.array([True, None, False, True], dtype="boolean"), pl.Series([True, None, False, True])),
    "bool": (pd.Series([True, True, False, True]), pl.Series([True, True, False, True])),
    "decimals": (pd.Series([Decimal("1.25"), None, Decimal("2.00"), Decimal("1.50")], dtype=object),
                 pl.Series(["1.25", None, "2.00", "1.50"], dtype=pl.String).cast(pl.Decimal(3, 2))),
    "dates": (pd.Series([date(2013, 4, 1), None, date(2013, 4, 3), date(2013, 4, 2)], dtype=object),
              pl.Series([date(2013, 4, 1), None, date(2013, 4, 3), date(2013, 4, 2)])),
    "datetime": (pd.to_datetime(DAYS).as_unit("ns"), pl.Series(DAYS, dtype=pl.Datetime("ns"))),
    "datetime of a zone": (pd.to_datetime(DAYS).as_unit("us").tz_localize("Europe/Paris"),
                           pl.Series(DAYS).dt.replace_time_zone("Europe/Paris")),
    "timedelta": (pd.to_timedelta([1, None, 3, 2], unit="ms").as_unit("us"),
                  pl.Series([1000, None, 3000, 2000]).cast(pl.Duration("us"))),
}  # fmt: skip


@pytest.mark.slow
@cases(("name", "engine"), [(name, ENGINES[i % 3]) for i, name in enumerate(FROM_PANDAS)])
def test_a_column_of_pandas_is_that_of_polars(name, engine):
    in_pandas, in_polars = FROM_PANDAS[name]
    pandas = pd.concat([pd.DataFrame({"x": in_pandas})] * 10, ignore_index=True).assign(y=LABELS)
    frame = pl.concat([in_polars.rename("x").to_frame()] * 10).with_columns(y=pl.Series(LABELS))
    copy = pandas.copy(deep=True)
    model = fb.fit(pandas, "y", engine=engine, **SHAPE)
    assert model == fb.fit(frame, "y", **SHAPE)
    assert model.predict(pandas).equals(model.predict(frame))
    pd.testing.assert_frame_equal(pandas, copy)


def test_the_index_and_the_class_of_a_pandas_frame_do_not_matter():
    class Flights(pd.DataFrame):
        pass

    columns = {"x": [1, 2, 3, 4] * 10, "y": LABELS}
    expected = fb.fit(pl.DataFrame(columns), "y", **SHAPE)
    by_text = pd.DataFrame(columns, index=pd.Index([f"row {i % 7}" for i in range(40)], name="row"))
    for pandas in (by_text, by_text.set_index(pd.MultiIndex.from_arrays([LABELS, LABELS])), Flights(by_text)):
        assert fb.fit(pandas, "y", **SHAPE) == expected
        assert expected.predict(pandas).equals(expected.predict(pl.DataFrame(columns)))


def test_numbers_of_pandas_are_what_polars_reads_of_them():
    numbers = np.arange(15, dtype=float).reshape(5, 3)
    numbers[0, 0] = np.nan
    floats = pd.DataFrame(numbers, columns=["a", 1, ("x", "y")])
    by_kind = {kind: np.arange(5).astype(kind) for kind in ("?", "i1", "u2", "i4", "u8", "i8", "f4")}
    mixed = pd.concat([floats, pd.DataFrame(by_kind)], axis=1)[["f4", "a", "?", 1, "i1", "u2", "i4", "u8", "i8"]]
    for pandas in (floats, floats.iloc[:, :1], floats.T.T, mixed, mixed.iloc[::2], mixed[:0]):
        read = open_source(pandas).frame.collect()
        expected = pl.from_pandas(pandas)
        assert read.schema == expected.schema
        assert read.equals(expected)


def test_columns_of_pandas_that_are_numbered_are_called_by_their_numbers():
    pandas = pd.DataFrame({0: [1, 2, 3, 4] * 10, "y": LABELS})
    assert fb.fit(pandas, "y", **SHAPE) == fb.fit(pl.DataFrame({"0": [1, 2, 3, 4] * 10, "y": LABELS}), "y", **SHAPE)
    with pytest.raises(fb.DataError, match=r"^column '0' occurs 2 times; column names must be unique$"):
        fb.fit(pandas.assign(**{"0": 1}), "y")


# --- Arrow ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_an_arrow_stream_is_read_once_by_every_engine(frame, model, engine):
    streams = []

    class Counted(Capsule):
        def __arrow_c_stream__(self, requested_schema=None):
            streams.append(self)
            return super().__arrow_c_stream__(requested_schema)

    arrow = frame.to_arrow()
    assert fb.fit(Counted(arrow), "amount", engine=engine, **SHAPE) == model
    assert len(streams) == 1
    assert fb.fit(arrow.to_reader(max_chunksize=7), "amount", engine=engine, **SHAPE) == model
    assert fb.fit(pa.concat_tables([arrow.slice(0, 7), arrow.slice(7)]), "amount", engine=engine, **SHAPE) == model


@pytest.mark.slow
@cases(("column", "engine"), [
    (pa.array(["a", None, "b", "a"] * 10), "duckdb"),
    (pa.array(["a", None, "b", "a"] * 10, pa.large_string()), "numba"),
    (pa.array(["a", None, "b", "a"] * 10, pa.string_view()), "polars"),
    (pa.array(["a", None, "b", "a"] * 10).dictionary_encode(), "numba"),
])  # fmt: skip
def test_arrow_has_many_kinds_of_text_and_all_are_text(column, engine):
    expected = fb.fit(pl.DataFrame({"x": column.to_pylist(), "y": LABELS}), "y", **SHAPE)
    for table in (pa.table({"x": column, "y": LABELS}), Capsule(pa.table({"x": column, "y": LABELS}))):
        assert fb.fit(table, "y", engine=engine, **SHAPE) == expected


# --- lazy frames ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lazy_frame_may_be_a_whole_query_over_files(frame, engine, tmp_path):
    numbers = frame.select("int16", "float64", "string", "amount")
    for i in range(3):
        numbers[i::3].write_csv(tmp_path / f"part{i}.csv")
    schema = {"int16": pl.Int16}
    scan = pl.scan_csv(tmp_path / "part*.csv", schema_overrides=schema)
    query = scan.with_columns(twice=pl.col("float64") * 2).filter(pl.col("int16").is_not_null())
    eager = pl.concat([pl.read_csv(tmp_path / f"part{i}.csv", schema_overrides=schema) for i in range(3)])
    expected = eager.with_columns(twice=pl.col("float64") * 2).filter(pl.col("int16").is_not_null())
    assert fb.fit(query, "amount", engine=engine, **SHAPE) == fb.fit(expected, "amount", **SHAPE)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lazy_frame_may_give_its_rows_in_another_order_each_time(engine):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.permutation(2000), "z": rng.integers(0, 9, 2000), "y": rng.normal(size=2000)})
    turns = []

    def shuffled(rows: pl.DataFrame) -> pl.DataFrame:
        turns.append(len(rows))
        return rows.sample(fraction=1, shuffle=True, seed=len(turns))

    lazy = frame.lazy().map_batches(shuffled, schema=frame.schema)
    assert fb.fit(lazy, "y", engine=engine, **SHAPE) == fb.fit(frame, "y", **SHAPE)
    assert turns


# --- what can't be read -----------------------------------------------------------------------------------------------


@cases("values, reason", [
    ([1, "a"] * 20, "Could not convert 'a' with type str: tried to convert to int64"), ([1 + 2j] * 40, ".*"),
    ([object()] * 40, "Could not convert <object object at .*"), ([10**30, 1] * 20, ".*"),
])  # fmt: skip
def test_a_column_of_pandas_that_polars_cannot_hold_is_named(values, reason):
    pandas = pd.DataFrame({"fine": range(40), "odd": values, "y": LABELS})
    with pytest.raises(fb.DataError) as error:
        fb.fit(pandas, "y")
    rest = "convert it to numbers, dates or strings, or drop it"
    assert re.fullmatch(rf"column 'odd' can't be read by polars \({reason}\); {rest}", str(error.value))
    assert fb.fit(pandas.drop(columns="odd"), "y", **SHAPE).features == ["fine"]


@pytest.mark.parametrize("kind", [pa.decimal256(50, 0), pa.month_day_nano_interval()], ids=str)
def test_a_column_of_arrow_that_polars_cannot_hold_is_refused(kind):
    table = pa.table({"fine": range(40), "odd": pa.nulls(40, kind), "y": LABELS})
    with pytest.raises(fb.DataError, match=r"^column 'odd' can't be read by polars \(.*\); convert it to numbers, "):
        fb.fit(table, "y")
    with pytest.raises(fb.DataError, match=r"^the Capsule can't be read by polars as a table \(.*\)$"):
        fb.fit(Capsule(table), "y")


MUST_BE = "it must be a polars DataFrame or LazyFrame, a DuckDB relation .*, or a list of frames or paths$"


@cases("data, message", [
    (pl.Series("y", LABELS), f"Series; {MUST_BE}"), (pl.DataFrame, f"type; {MUST_BE}"),
    (pd.DataFrame, f"type; {MUST_BE}"), (pl.DataFrame({"y": LABELS}).group_by("y"), f"GroupBy; {MUST_BE}"),
    (pd.DataFrame({"y": LABELS}).groupby("y"), f"DataFrameGroupBy; {MUST_BE}"),
    (pa.array(LABELS), f"DoubleArray; {MUST_BE}"),
    (type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})(),
     "PySpark DataFrame, whose rows are in a cluster; pass"),
    (type("DMatrix", (), {"__module__": "xgboost.core"})(),
     "DMatrix, which can't be read back; pass the frame that it was"),
])  # fmt: skip
def test_what_is_no_table_is_refused_as_data(data, message):
    with pytest.raises(fb.DataError, match=f"^data is a {message}"):
        fb.fit(data, "y")


TEXT = pa.Array.from_buffers(
    pa.string(), 2, [None, pa.py_buffer(np.array([0, 1, 2], dtype=np.int32)), pa.py_buffer(b"\xff\xfe")]
)


@cases("data, message", [
    *((data, rf"the {type(data).__name__} can't be read by polars as a table \(.*\)$")  # an Arrow stream of a column
      for data in (pd.Series(LABELS), pa.chunked_array([LABELS])) if hasattr(data, "__arrow_c_stream__")),
    (Capsule(pa.table([pa.array(LABELS)] * 2, names=["y", "y"])),
     r"the Capsule can't .* \(column with name 'y' has more than one occurr"),
    (pa.table({"x": TEXT, "y": [0, 1]}), "column 'x' holds text that is not UTF-8; decode it first$"),
])  # fmt: skip
def test_what_arrow_has_and_polars_has_not_is_refused(data, message):
    with pytest.raises(fb.DataError, match=f"^{message}"):
        fb.fit(data, "y")


AWKWARD = [("^a.*$", "*"), ("", "a.b"), ("true", "x'\"y"), ("values", "stage_1")]


@pytest.mark.slow
@pytest.mark.parametrize("names, engine", [*((AWKWARD[0], engine) for engine in ENGINES),
                                           *((names, "numba") for names in AWKWARD[1:])])  # fmt: skip
def test_a_name_is_a_name_and_no_pattern(names, engine):
    plain = pl.DataFrame({"a": [1, 2, 3, 4] * 10, "b": ["p", "q"] * 20, "y": [0.0, 1.0, 1.0, 0.0] * 10})
    frame = plain.rename(dict(zip("ab", names, strict=True)))
    model, expected = (fb.fit(f, "y", n_estimators=2, max_depth=2, engine=engine) for f in (frame, plain))
    assert model.predict(frame).to_list() == expected.predict(plain).to_list()
    assert frame.select(model.expr()).to_series().to_list() == expected.predict(plain).to_list()
    for name, other in zip(names, "ab", strict=True):
        found, wanted = model.partial_dependence(frame, name), expected.partial_dependence(plain, other)
        assert found.columns == [name, "prediction"]
        assert found.rows() == wanted.rows()
        assert model.partial_dependence(frame, name, grid=frame[name].head(1)).height == 1
    assert model.explain(frame).columns == [*names, "bias"]
    assert model.explain(frame).rows() == expected.explain(plain).rows()
    assert sorted(model.importance()["feature"]) == sorted(names)
    if all(names):  # DuckDB has no empty names
        bins, wanted = (m.database().baseline(f).drop("feature") for m, f in ((model, frame), (expected, plain)))
        assert bins.rows() == wanted.rows()
    by_name, by_a = (fb.cv(f, "y", folds=folds, n_estimators=1) for f, folds in ((frame, names[0]), (plain, "a")))
    assert by_name.rows() == by_a.rows()


def test_spark_may_be_half_imported_by_another_thread(frame, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspark.sql", ModuleType("pyspark.sql"))
    assert fb.fit(frame, "amount", **SHAPE) == model

"""Few rows, and frames of plain numbers, are scored without a query, and as by columns."""

import datetime as dt
import random

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest

import frameboost as fb
from frameboost.compile.arrays.flat_trees import FewRows
from frameboost.errors import DataError
from frameboost.prediction.predictor import Predictor
from tests.support.cases import cases
from tests.support.random_models import bits, naive_margins, random_case

KINDS = [["float32", "float64", "int8", "uint64"], ["int64", "string", "float64", "string"],
         ["date", "int64", "boolean", "decimal(9,2)"]]  # fmt: skip


def coded(model, row):
    return FewRows(Predictor(model.ensemble).arrays, model.ensemble.features).of_dict(row)


@pytest.mark.parametrize("types", KINDS)
def test_rows_by_themselves_score_as_by_hand(types):
    model, columns, frame = random_case(types, random.Random(str(types)), n_trees=6, depth=5)
    expected = naive_margins(model, columns)
    assert model.predict(frame, output="margin").to_numpy().tobytes() == expected.tobytes()
    more = frame.select(pl.lit("other").alias("e"), *reversed(frame.columns))
    for i in range(60):
        for data in (frame[i : i + 2], more[i : i + 1]):
            found = model.predict(data, output="margin").to_numpy()
            assert found.tobytes() == expected[i : i + len(data)].tobytes()
    if "date" not in types:
        for i, row in enumerate(frame.iter_rows(named=True)):
            assert coded(model, row) is not None
            assert model.predict(row, output="margin").to_list() == [expected[i]]


def tables(frame):
    """Yield the rows in other containers."""
    arrow = frame.to_arrow()
    yield frame.lazy()
    yield pl.concat([frame[:1], frame[1:]], rechunk=False)
    yield arrow
    yield pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)])
    yield frame.with_columns(more=pl.lit("text")).to_arrow()
    yield arrow.combine_chunks().to_batches()[0]
    if all(s.dtype.is_float() or (s.dtype.is_integer() and not s.null_count()) for s in frame):  # else pandas rounds
        yield frame.to_pandas()


@pytest.mark.parametrize("types", KINDS)
def test_every_container_scores_as_by_hand(types):
    model, columns, frame = random_case(types, random.Random(str(types)), n_trees=6, depth=5)
    expected = naive_margins(model, columns)
    for n_rows in (1, 3, 17, len(frame)):
        for table in tables(frame[:n_rows]):
            for _ in range(2):  # the second time with what the first prepared
                found = model.predict(table, output="margin").to_numpy()
                assert found.tobytes() == expected[:n_rows].tobytes(), (type(table), n_rows)


def test_containers_are_checked_again_when_their_columns_change(model):
    frame = pl.DataFrame({"x": [1.0, 4.0], "z": [1, 1]})
    for good, bad, lacking in zip(
        tables(frame), tables(frame.with_columns(x=pl.lit("a"))), tables(frame.drop("z")), strict=False
    ):
        model.predict(good)
        with pytest.raises(DataError, match="feature 'x' has type"):
            model.predict(bad)
        model.predict(good)
        with pytest.raises(DataError, match="lacks 1 feature of the model: 'z'"):
            model.predict(lacking)


ROWS = {
    "same": lambda frame: frame,
    "other order": lambda frame: frame.select(reversed(frame.columns)),
    "more columns": lambda frame: frame.with_columns(more=pl.lit("text"), other=pl.lit(None)).select(
        "more", *frame.columns[1:], "other", frame.columns[0]
    ),
    "NULL": lambda frame: frame.with_columns(pl.when(pl.int_range(pl.len()) % 2 > 0).then(pl.all())),
    "only NULL": lambda frame: frame.with_columns(pl.lit(None, dtype=frame.dtypes[0]).alias(frame.columns[0])),
    "columns of NULL": lambda frame: frame.with_columns(pl.lit(None).alias(frame.columns[-1])),
    "float32": lambda frame: frame.with_columns(cs.numeric().cast(pl.Float32)),
    "Int128": lambda frame: frame.with_columns(cs.integer().cast(pl.Int128)),
    "Decimal": lambda frame: frame.with_columns(cs.integer().cast(pl.Decimal(38, 0), strict=False)),
    "Booleans": lambda frame: frame.with_columns(cs.numeric() > 0),
    "Categorical": lambda frame: frame.with_columns(cs.string().cast(pl.Categorical)),
    "Enum": lambda frame: frame.with_columns(
        s.cast(pl.Enum(sorted({*s.drop_nulls(), "new"}, reverse=True))) for s in frame if s.dtype == pl.String
    ),
    "other strings": lambda frame: frame.with_columns(cs.string().fill_null("") + "?"),
    "strings": lambda frame: frame.with_columns(pl.first().cast(pl.String)),
    "lists": lambda frame: frame.with_columns(pl.concat_list(pl.last())),
    "dates": lambda frame: frame.with_columns(pl.lit(dt.date(2020, 1, 1)).alias(frame.columns[-1])),
    "objects": lambda frame: frame.with_columns(pl.Series(frame.columns[0], [*range(len(frame) - 1), "3"], pl.Object)),
    "lacking": lambda frame: frame.drop(frame.columns[-1]),
}


@pytest.mark.slow
@cases("types", [["float64", "int64", "float32", "uint64"], ["string", "float64", "int8", "string"]])
@cases("n_rows", [1, 2, 9, 16, 17])
def test_a_call_is_answered_as_the_first_one_whatever_came_before(types, n_rows):
    """What the calls before have prepared changes no prediction and no error."""
    rng = random.Random(n_rows)
    model, _, frame = random_case(types, rng, n_trees=6, depth=4)
    frame = frame[rng.randrange(40) :][:n_rows]
    containers = {"frame": lambda rows: rows, "lazy": pl.DataFrame.lazy, "arrow": pl.DataFrame.to_arrow}

    def answer(asked, rows):
        try:
            return bits(asked.predict(rows, output="margin"))
        except DataError as error:
            return str(error)

    previous = []
    for name in rng.choices(list(ROWS), k=30):
        rows = ROWS[name](frame)
        kind = rng.choice(["frame", "frame", "lazy", "arrow"])
        kind = "frame" if name in ("Int128", "objects") else kind  # which PyArrow and lazy frames lack
        if name == "objects" and n_rows == 1:  # Python's numbers and strings are scored as such
            continue
        previous.append((name, kind))
        data = containers[kind](rows)
        assert answer(model, data) == answer(fb.Model(model.ensemble), data), previous[-3:]


def test_integers_that_no_float_holds_are_compared_exactly():
    x = [2**53 + k for k in range(4)] * 10
    frame = pl.DataFrame({"x": x, "y": [float(value % 4 > 2) for value in x]})
    model = fb.fit(frame, "y", n_estimators=1, max_depth=1, learning_rate=1.0, reg_lambda=0.0, min_child_weight=0)
    assert model.predict(frame)[:4].to_list() == [0.0, 0.0, 0.0, 1.0]
    for n_rows in (1, 2):
        for start in range(4 - n_rows):
            rows = frame[start : start + n_rows]
            expected = [float(value % 4 > 2) for value in rows["x"]]
            assert all(model.predict(table).to_list() == expected for table in (rows, *tables(rows)))


@pytest.fixture(scope="module")
def model():
    """Return a model of x, and of z, which no tree asks about."""
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "z": [1, 1, 1, 1], "y": [0.0, 0.0, 8.0, 8.0]})
    return fb.fit(frame, "y", n_estimators=1, max_depth=1, learning_rate=1.0, reg_lambda=0.0, min_child_weight=0)


def test_numbers_of_other_types(model):
    low, high = model.predict(pl.DataFrame({"x": [1.0, 4.0], "z": [1, 1]}))
    assert low != high
    rows = [{"x": 1, "z": 5}, {"x": np.float32(4), "z": None}, {"x": 2**70, "z": 1.5}, {"x": None, "z": 1},
            {"x": float("nan"), "z": 1, "text": "of no use"}]  # fmt: skip
    missing = model.predict(pl.DataFrame({"x": [None] * 20, "z": [1] * 20}, schema={"x": pl.Float64, "z": pl.Int64}))[0]
    assert [model.predict(row)[0] for row in rows] == [low, high, high, missing, missing]
    for dtype in (pl.UInt8, pl.Float16, pl.Decimal(9, 2)):
        assert model.predict(pl.DataFrame({"x": pl.Series([1, 4]).cast(dtype), "z": [1, 1]})).to_list() == [low, high]
    for n_rows in (1, 5, 9, 20):
        large = pl.DataFrame({"x": [4] * n_rows, "z": 1}, schema={"x": pl.Int128, "z": pl.Int128})
        assert model.predict(large).to_list() == [high] * n_rows


@pytest.mark.parametrize("n_rows", [1, 100])
def test_the_same_columns_with_other_types(model, n_rows):
    low, high = model.predict(pl.DataFrame({"x": [1.0, 4.0], "z": [1, 1]}))
    for dtype in (pl.Float32, pl.Float64, pl.Int64, pl.Float16, pl.Int8, pl.Float64):
        x = pl.Series([4] * n_rows, dtype=dtype)
        assert model.predict(pl.DataFrame({"x": x, "z": [1] * n_rows})).to_list() == [high] * n_rows
    with_null = pl.DataFrame({"x": pl.Series([None, *[1] * n_rows]), "z": 1})
    assert model.predict(with_null).to_list() == [model.predict({"x": None, "z": 1})[0], *[low] * n_rows]
    for x in (pl.Series(["a"] * n_rows), pl.Series([[1]] * n_rows)):
        with pytest.raises(DataError, match="feature 'x' has type"):
            model.predict(pl.DataFrame({"x": x, "z": [1] * n_rows}))
        with pytest.raises(DataError, match="feature 'z' has type"):
            model.predict(pl.DataFrame({"x": [1.0] * n_rows, "z": x}))
    with pytest.raises(DataError, match="lacks 1 feature of the model: 'z'"):
        model.predict(pl.DataFrame({"x": [1.0] * n_rows}))


@pytest.mark.parametrize("row", [{"x": 1.0}, {"x": "1", "z": 1}, {"x": 1, "z": "1"},
                                 {"x": 1, "z": 1, "more": [1, 2]}, {"x": 1, "z": 1, 3: 4}])  # fmt: skip
def test_a_row_that_cannot_be_scored(model, row):
    with pytest.raises(DataError):
        model.predict(row)


@pytest.mark.parametrize("output", ["mean", "margin", "class", "probability"])
@pytest.mark.parametrize(
    "labels, objective",
    [([0, 1], "binary:logistic"), ([False, True], "binary:logistic"), (["no", "yes"], "binary:logistic"),
     ([0, 1, 2], "multi:softprob"), (["a", "b", "c"], "multi:softprob"), ([0, 1, 5], "count:poisson")],
)  # fmt: skip
def test_outputs_of_few_rows_are_those_of_many(labels, objective, output):
    if objective == "count:poisson" and output not in ("mean", "margin"):
        return
    rng = np.random.default_rng(len(labels))
    frame = pl.DataFrame({"x": rng.normal(size=64), "y": [labels[k] for k in rng.integers(len(labels), size=64)]})
    model = fb.fit(frame, "y", objective=objective, n_estimators=3, max_depth=2)
    whole = model.predict(frame, output=output)
    for n_rows in (1, 2, 7):
        few = model.predict(frame[:n_rows], output=output)
        assert few.dtype == whole.dtype
        assert few.name == whole.name
        assert few.to_list() == whole[:n_rows].to_list()


def test_trees_without_a_split_score_tables_of_any_columns():
    rows = pl.DataFrame({"s": ["a", None, "b"] * 20, "x": [1.0] * 60, "when": [None] * 60, "y": [1.0, 2.0, 3.0] * 20})
    with pytest.warns(fb.FrameboostWarning, match="no tree has a split"):
        model = fb.fit(rows, "y", features=["x"], n_estimators=2)
    for n in (1, 8, 60):
        few = rows.head(n)
        for data in (
            few,
            few.lazy(),
            few.to_arrow(),
            few.to_pandas(),
            few.select("x"),
            few.select("x", "s").to_arrow(),
        ):
            assert model.predict(data).to_list() == [2.0] * n


@pytest.fixture(scope="module")
def with_times():
    rng, n = np.random.default_rng(0), 200
    return pl.DataFrame({
        "x": rng.normal(size=n), "s": rng.choice(["a", "b", "c"], n), "d": rng.integers(0, 9_000, n),
        "t": rng.integers(0, 10**12, n), "y": rng.normal(size=n),
    }).with_columns(pl.col("d").cast(pl.Date), pl.col("t").cast(pl.Datetime("ms")))  # fmt: skip


@pytest.mark.parametrize("features", [["x"], ["s"], ["x", "s"], ["x", "d"], ["s", "d"], ["t"]], ids="+".join)
@pytest.mark.parametrize("form", ["frame", "lazy frame", "Arrow"])
def test_rows_of_any_time_are_scored_alike_alone_and_among_many(with_times, features, form):
    # After the year 9999 and before 1 of dates and timestamps, in columns that the model reads or does not.
    days = pl.Series([3_000_000, 2**31 - 1, -(2**31)], dtype=pl.Int32).cast(pl.Date)
    times = pl.Series([2**63 - 1, -(2**63), 5]).cast(pl.Datetime("ms"))
    far = with_times.head(3).with_columns(days.alias("d"), times.alias("t"))
    model = fb.fit(with_times, "y", features=features, n_estimators=5, verbose=False)
    few = {"frame": far, "lazy frame": far.lazy(), "Arrow": far.to_arrow()}[form]
    assert model.predict(few).to_list() == model.predict(pl.concat([far] * 20)).to_list()[:3]

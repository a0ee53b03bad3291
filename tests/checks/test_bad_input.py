"""Bad data and bad options: refused in one clear sentence before any work starts, in training and in scoring."""

import math

import duckdb
import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

import frameboost as fb
from tests.support.cases import cases
from tests.support.refusals import ENGINES, good, is_one_sentence, refused

# Rows, options, and the sentence of every engine.
BAD_ROWS = [
    (good().head(0), {}, "the data has no rows; training needs at least 2"),
    (good().head(1), {}, "the data has 1 row; training needs at least 2"),
    (good().rename({"y": "arr_delay"}), {"target": "ar_delay"},
     "target column 'ar_delay' is not in the data; did you mean 'arr_delay'?"),
    (good().with_columns(y=pl.Series([0.0, None, 1.0, 1.0])), {},
     "target 'y' is NULL or NaN in 1 of 4 rows; drop those rows first"),
    (good().with_columns(y=pl.Series([0.0, math.inf, 1.0, 1.0])), {},
     "target 'y' holds an infinite value; every label must be finite"),
    (good().with_columns(y=pl.Series([0.0, 1e200, 1.0, 1.0])), {},
     "target 'y' holds values beyond ±1e+150; rescale it"),
    (good().with_columns(y=pl.Series([1, 2, 1, 3])), {"objective": "binary:logistic"},
     "target 'y' holds other values than 0 and 1 (or false and true) in 2 of 4 rows, such as 2; objective "
     "'binary:logistic' needs those; use 0 and 1 instead of other numbers, or strings"),
    (good().with_columns(w=pl.Series([1.0, -2.5, 1.0, 1.0])), {"weight": "w"},
     "weight 'w' holds negative values (down to -2.5); weights are 0 or more"),
    (good().with_columns(w=pl.Series([1.0, None, 1.0, 1.0])), {"weight": "w"},
     "weight 'w' is NULL or NaN in 1 of 4 rows; set a weight in every row"),
    (good().with_columns(w=pl.Series([1.0, math.inf, 1.0, 1.0])), {"weight": "w"},
     "weight 'w' holds an infinite value; every weight must be finite"),
    (good().with_columns(w=pl.Series([1.0, 1e308, 1.0, 1.0])), {"weight": "w"},
     "weight 'w' holds values beyond 1e+150; rescale it"),
    (good().with_columns(w=pl.lit(1e-308)), {"weight": "w"},
     "weight 'w' is at most 1e-308, too little to divide by; rescale it, so that the largest is 1e-150 or "
     "more"),
    (good().with_columns(w=pl.lit(0.0)), {"weight": "w"}, "weight 'w' is 0 in every row; at least one must be "
     "positive"),
    (good(), {"weight": "s"}, "weight column 's' has type {string}; it must be numeric or Boolean"),
    (good(), {"target": "s", "objective": "reg:gamma"},
     "objective 'reg:gamma' needs numbers, but target 's' has type {string}, whose values are labels of "
     "classes; omit objective, set 'binary:logistic' or 'multi:softprob', or convert the column to "
     "numbers"),
    (good().select("y", "w"), {"weight": "w"}, "no usable feature: the data has no column but 'y', 'w'"),
    (good().rename({"x": "Departure"}), {"features": ["departure "]},
     "feature column 'departure ' is not in the data; did you mean 'Departure'?"),
    (pl.DataFrame({f"c{i}": [i] for i in range(12)}), {"target": "yield"},
     "target column 'yield' is not in the data, which has 'c0', 'c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', "
     "'c8', 'c9' and 2 more"),
    (good().with_columns(y=pl.Series([0.0, 0.5, 1.0, 1.0])), {"objective": "binary:logistic"},
     "target 'y' holds other values than 0 and 1 (or false and true) in 1 of 4 rows, such as 0.5; objective "
     "'binary:logistic' needs those; 'reg:logistic' takes shares from 0 to 1"),
    (good().with_columns(y=pl.date(2013, 1, 1)), {},
     "target column 'y' has type {date}; it must be numeric or Boolean, or strings that are labels of classes"),
    (good().with_columns(w=pl.date(2013, 1, 1)), {"weight": "w"},
     "weight column 'w' has type {date}; it must be numeric or Boolean"),
    (good().with_columns(y=pl.Series([[1], [2], [3], [4]])), {},
     "target column 'y' has type {list}; it must be numeric or Boolean, or strings that are labels of classes"),
]  # fmt: skip
# Options beside good rows, which are checked in one place for frames and in one for relations.
BAD_OPTIONS = [
    ({"target": "z"}, "target column 'z' is not in the data, which has 'x', 's', 'y', 'w'"),
    ({"weight": "weights"}, "weight column 'weights' is not in the data, which has 'x', 's', 'y', 'w'"),
    ({"target": 3}, "target must be a column name or a list of them, not 3"),
    ({"features": []}, "features is an empty list; name at least one column"),
    ({"weight": "y"}, "weight 'y' is also the target"),
    ({"features": "x"}, "features must be a list of column names, not the string 'x'"),
    ({"features": ["x", "x"]}, "feature 'x' is listed 2 times"),
    ({"features": ["x", "y"]}, "feature 'y' is also the target"),
    ({"features": ["x", "w"], "weight": "w"}, "feature 'w' is also the weight"),
    ({"features": ["xx"]}, "feature column 'xx' is not in the data; did you mean 'x'?"),
    ({"features": 5}, "features must be a list of column names, a polars selector or a function of a name, not 5"),
]  # fmt: skip
_TYPES = {"{string}": ("String", "VARCHAR"), "{date}": ("Date", "DATE"), "{list}": ("List(Int64)", "BIGINT[]")}


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_data_that_cannot_be_trained_on_is_refused(engine):
    options = [(good(), *each) for each in BAD_OPTIONS] if engine in ("numba", "relation") else []
    rows = {"polars": BAD_ROWS[::2], "duckdb": BAD_ROWS[1::2]}.get(engine, BAD_ROWS)

    @cases(("frame", "options", "message"), [*rows, *options])
    def check(frame, options, message):
        for name, types in _TYPES.items():
            message = message.replace(name, types[engine == "relation"])
        assert refused(engine, frame, **options) == message
        assert is_one_sentence(message)

    check()


_UNUSABLE = {
    "list": (pl.Series([[1], [2], [3], [4]]), "List(Int64)", "BIGINT[]"),
    "struct": (pl.Series([{"a": 1}] * 4), "Struct({'a': Int64})", "STRUCT(a BIGINT)"),
    "binary": (pl.Series([b"a"] * 4), "Binary", "BLOB"),
    "time": (pl.Series([0, 1, 2, 3]).cast(pl.Time), "Time", "TIME"),
    "array": (pl.Series([[1, 2]] * 4, dtype=pl.Array(pl.Int8, 2)), "Array(Int8, shape=(2,))", "TINYINT[2]"),
}


@pytest.mark.parametrize("engine", ENGINES)
@cases("kind", _UNUSABLE)
def test_a_column_that_cannot_be_a_feature_is_named(engine, kind):
    values, in_polars, in_duckdb = _UNUSABLE[kind]
    message = refused(engine, good().with_columns(odd=values))
    assert message.startswith(f"feature 'odd' has type {in_duckdb if engine == 'relation' else in_polars}")
    assert message.endswith("or leave it out with exclude=['odd']")


def test_duplicate_names_are_refused():
    arrow = pl.DataFrame({"x": [1, 2], "y": [0, 1]}).to_arrow().rename_columns(["y", "y"])
    with pytest.raises(fb.DataError, match=r"^column 'y' occurs 2 times; column names must be unique$"):
        fb.fit(arrow, "y")


@pytest.mark.parametrize("data", [None, [[1, 2]], "flights", {1, 2}, 7], ids=str)
def test_what_is_no_table_is_refused(data):
    for use in (lambda: fb.fit(data, "y"), lambda: fb.fit(good(), "y", n_estimators=1).predict(data)):
        with pytest.raises(fb.DataError, match=rf"^data is a {type(data).__name__}; it must be a polars DataFrame"):
            use()


def test_arrays_are_pointed_to_the_estimators():
    X, y = np.ones((4, 2)), np.arange(4)
    for data in (X, sp.csr_array(X)):
        for use in (
            lambda data=data: fb.fit(data, "y"),
            lambda data=data: fb.fit(good(), "y", n_estimators=1).predict(data),
        ):
            with pytest.raises(fb.DataError, match=r"is a \w+, whose columns have no names; .* takes arrays: fb\.Fr"):
                use()
    for target in (y, pl.Series(y), y.tolist(), y.reshape(-1, 1)):
        with pytest.raises(fb.ParameterError, match=r"^target must .*, or pass X and y to an estimator, as in fb\.Fr"):
            fb.fit(X, target)


@cases("options, message", [
    ({"cuts": {"x": [1]}, "tree_method": "exact"},
     "cuts can't be combined with tree_method='exact', which splits between any two values"),
    ({"objective": "reg:linear"}, "objective must be an fb.Objective or one of 'reg:squarederror', 'reg:squaredlog"),
    ({"base_score": 1.5, "objective": "binary:logistic"},
     "base_score must lie between 0 and 1 for objective 'binary:logistic', not 1.5"),
    ({"cuts": {"z": [1]}}, "cuts names 'z', which is not a feature"),
    ({"cuts": {"s": ["a"]}}, "cuts names 's', which holds categories; only columns with an order have cuts"),
    ({"cuts": {"x": 3}}, "cuts['x'] must be a list of values, not 3"),
    ({"cuts": {"x": "123"}}, "cuts['x'] must be a list of values, not '123'"),
    ({"cuts": {"x": [1, "2"]}}, "cuts['x'] holds '2', which is not a value of type float64"),
    ({"cuts": {"x": [math.nan]}}, "cuts['x'] holds nan, which is not a value of type float64"),
    ({"cuts": {"x": [None]}}, "cuts['x'] holds None, which is not a value of type float64"),
])  # fmt: skip
def test_invalid_cuts_and_conflicting_options_are_refused(options, message):
    with pytest.raises(fb.ParameterError) as error:
        fb.fit(good(), "y", **options)
    assert str(error.value).startswith(message)


# --- scoring ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fb.fit(good(), "y", features=["x", "s"], n_estimators=2)


@pytest.mark.slow
@pytest.mark.parametrize("relation", [False, True])
@cases(
    ("frame", "message"),
    [
        (good().drop("x"), "the data lacks 1 feature of the model: 'x'; it has 's', 'y', 'w'"),
        (good().select("y"), "the data lacks 2 features of the model: 'x', 's'; it has 'y'"),
        (good().with_columns(x=pl.col("s")),
         "feature 'x' has type {text}, but the model was trained on float64; cast it to a number"),
        (good().with_columns(s=pl.col("x")),
         "feature 's' has type {double}, but the model was trained on string; cast it to a string"),
        (good().with_columns(x=pl.date(2013, 1, 1)),
         "feature 'x' has type {date}, but the model was trained on float64; cast it to a number"),
        (good().with_columns(x=pl.Series([[1], [2], [3], [4]])),
         "feature 'x' has type {list}, but the model was trained on float64; cast it to a number"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_scored_is_refused(model, frame, message, relation):
    names = {"string": "String", "text": "String (such as 'a')", "double": "Float64", "date": "Date"}
    if relation:
        names = {"string": "VARCHAR", "text": "VARCHAR", "double": "DOUBLE", "date": "DATE"}
    names["list"] = "BIGINT[]" if relation else "List(Int64)"
    data = duckdb.connect().from_arrow(frame.to_arrow()) if relation else frame
    with pytest.raises(fb.DataError) as error:
        model.predict(data)
    assert str(error.value) == message.format(**names)


@pytest.mark.parametrize("use", ["predict", "expr", "sql"])
def test_an_unknown_output_is_refused(model, use):
    arguments = [good()] if use == "predict" else []
    with pytest.raises(fb.ParameterError, match=r"^output must be one of 'mean', 'margin'.*, not 'probability'$"):
        getattr(model, use)(*arguments, output="probability")


def test_an_output_that_is_refused_is_not_among_those_that_are_named():
    hinge = fb.fit(pl.DataFrame({"x": [1, 2], "y": [0, 1]}), "y", objective="binary:hinge", n_estimators=1)
    with pytest.raises(fb.ParameterError) as error:
        hinge.expr("probability")
    assert str(error.value) == "output must be one of 'mean', 'margin', 'class', not 'probability'"


def test_the_users_frame_is_not_modified():
    frame = good()
    copy = frame.clone()
    for engine in ENGINES[:3]:
        fb.fit(frame, "y", weight="w", engine=engine, n_estimators=2).predict(frame)
    assert frame.equals(copy)

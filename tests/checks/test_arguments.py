"""Argument checks: every public function refuses a value of a wrong type in one sentence."""

import contextlib
import inspect
import warnings
from itertools import islice

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.checks.arguments import BY_NAME, checked, whole
from frameboost.namespace import FrameNamespace, LazyFrameNamespace
from tests.fuzz import calls
from tests.fuzz.entry_points import PRELUDE
from tests.support.cases import cases
from tests.support.examples import examples

DATA = pl.DataFrame({"x": [1, 2, 3, 4] * 5, "s": ["a", "b"] * 10, "y": [0.0, 1.0, 1.0, 0.0] * 5, "w": [1.0] * 20})


@pytest.fixture(scope="module")
def model():
    return fb.fit(DATA, "y", features=["x", "s"], n_estimators=2, objective="binary:logistic")


# Values that no argument takes, and that crash what is not ready for them.
HOSTILE = {
    "array": np.array(["a", "b"]), "object": object(), "set": {1, 2}, "bytes": b"\xff", "class": pl.DataFrame,
    "surrogate": "\ud800", "nested": [[[]]], "complex": 1j, "huge": "x" * 10**6,
}  # fmt: skip
# What a call needs besides the argument in question.
GIVEN = {
    "data": DATA, "target": "y", "table": "t", "view": "v", "column": "c", "name": "n", "path": None, "folder": None,
    "source": "t", "feature": "x", "method": "platt", "history": "h", "time": "at", "threshold": "f1",
}  # fmt: skip
# Arguments of which some hostile value is a good one: a million letters name a column or are the comment of a file.
TAKES = {
    ("huge", "table"), ("huge", "view"), ("huge", "column"), ("huge", "name"), ("huge", "trees"), ("huge", "where"),
    ("huge", "target"), ("huge", "trained"), ("huge", "materialized"), ("huge", "source"), ("huge", "base_margin"),
    ("huge", "title"), ("huge", "label"), ("huge", "history"), ("huge", "time"), ("huge", "by"), ("huge", "weight"),
}  # fmt: skip

# Which look the columns up at once.
READS_DATA = ("fit", "cv", "predict", "evaluate", "refit", "calibrate", "conform")

# Whose arguments `database` and the methods of the same name check.
SHORT_WAYS = ("sql", "query")


def methods_of(kind):
    return [
        name for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in ("to_json", "register", "table_frame")
    ]  # fmt: skip


METHODS, OF_DATABASE = methods_of(fb.Model), methods_of(fb.DatabaseModel)


def arguments_of(function):
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]


CALLS = [
    *(("fit", name) for name in arguments_of(fb.fit)),
    *(("cv", name) for name in arguments_of(fb.cv)),
    *((method, name) for method in METHODS for name in arguments_of(getattr(fb.Model, method))),
    *((f"database.{method}", name) for method in OF_DATABASE
      for name in arguments_of(getattr(fb.DatabaseModel, method))),
]  # fmt: skip


@pytest.mark.slow
@cases("value", HOSTILE)
@cases(("function", "argument"), CALLS)
def test_a_value_of_a_wrong_kind_is_one_sentence(model, function, argument, value, tmp_path):
    owner = fb if function in ("fit", "cv") else model.database() if "database." in function else model
    if function == "conform":  # which is not for classes
        owner = fb.fit(DATA, "y", objective="reg:squarederror", features=["x"], n_estimators=1)
    called = getattr(owner, function.removeprefix("database."))
    needed = [p.name for p in inspect.signature(called).parameters.values() if p.default is p.empty]
    given = {name: GIVEN[name] for name in needed if name in GIVEN}
    given |= {name: tmp_path / "made" for name in ("path", "folder") if name in needed}
    if "baseline" in needed:
        given["baseline"] = model.database().baseline(DATA)
    if "challenger" in needed:
        given["challenger"] = model
    if function == "fit":
        given |= {"n_estimators": 1, "features": ["x"]}
    given[argument] = HOSTILE[value]
    if (value, argument) in TAKES and function not in READS_DATA:
        pytest.skip("a million letters are a name, or a title")
    with pytest.raises(fb.FrameboostError) as error:
        called(**given)
    message = str(error.value)
    assert 10 < len(message) < 1000
    assert "\n" not in message
    assert argument.rstrip("s") in message or argument in ("source", "kind")


def test_every_public_function_checks_its_arguments():
    public = [fb.fit, fb.cv, fb.load, *(getattr(fb.Model, name) for name in METHODS if name not in SHORT_WAYS)]
    public += [getattr(fb.DatabaseModel, name) for name in OF_DATABASE]
    public += [getattr(space, name) for space in (FrameNamespace, LazyFrameNamespace) for name in ("fit", "predict")]
    assert [f.__qualname__ for f in public if not hasattr(f, "__wrapped__")] == []


def test_an_argument_without_a_check_is_an_error_at_once():
    assert "invented" not in BY_NAME
    with pytest.raises(KeyError, match="invented"):

        @checked()
        def function(invented):
            """Do nothing."""


def test_positional_and_keyword_arguments_are_checked():
    @checked(a=whole(1), b=whole(1, 9))
    def function(a, *, b=5, weight=None):
        return a, b, weight

    assert function(1, b=2, weight=None) == (1, 2, None)
    assert function(np.int64(3)) == (3, 5, None)
    for args, options, message in (
        ((0,), {}, "a must be an integer of at least 1, not 0"),
        ((True,), {}, "a must be an integer of at least 1, not True"),
        ((1,), {"b": 10}, "b must be an integer from 1 to 9, not 10"),
        ((1,), {"b": None}, "b must be an integer from 1 to 9, not None"),
        ((1,), {"weight": 5}, "weight must be a column name, not 5"),
    ):
        with pytest.raises(fb.ParameterError) as error:
            function(*args, **options)
        assert str(error.value) == message
    with pytest.raises(TypeError):
        function()
    with pytest.raises(TypeError):
        function(1, c=2)


REFUSED = [
    (lambda m: fb.fit(DATA, []), "target is an empty list; name at least one column"),
    (lambda m: fb.fit(DATA, "y", base_margin=[]), "base_margin is an empty list; name at least one column"),
    (lambda m: fb.fit(DATA, "y", base_margin=[1]), "base_margin must be a column name, not 1"),
    (lambda m: fb.fit(DATA, "y", cuts=5), "cuts must be a dict of column name to a list of values, not 5"),
    (lambda m: fb.fit(DATA, "y", verbose="x"), "verbose must be True or False, or a number, not 'x'"),
    (lambda m: fb.cv(DATA, "y", early_stopping_rounds=0),
     "early_stopping_rounds must be an integer of at least 1, not 0"),
    (lambda m: fb.cv(DATA, "y", folds=np.array([2, 3])),
     "folds must be an integer from 2 to 1,000,000, a column name, a splitter of scikit-learn, or pairs of positions "
     "of rows to train on and to validate on, not array([2, 3])"),
    (lambda m: m.register(duckdb.connect(), "n", form=DATA), "form must be one of 'auto', 'macro', 'udf', not shape"),
    (lambda m: fb.cv(["a", "b"], "y"), "'a' is not a table in a supported format"),
    (lambda m: DATA.boost.predict(None), "model must be a Model, not None"),
    (lambda m: DATA.lazy().boost.predict(5), "model must be a Model, not 5"),
    (lambda m: m.calibrate(DATA, "y", weight=""), "weight column '' is not in the data"),
    (lambda m: fb.auto(DATA, "y", weight=["w"]), "weight must be a column name, not ['w']"),
    (lambda m: fb.auto(DATA, "y", base_margin=[[1]]), "base_margin must be a column name, not [1]"),
    (lambda m: m.query("t", rows=10**400), "rows must be an integer from 0 to 9223372036854775807 or a DuckDB connec"),
    (lambda m: fb.Objective([]), "gradient must be a SQL expression, a string or a function, not []"),
    (lambda m: fb.Objective("margin", metric=[]), "metric must be the name of a metric, not []"),
    (lambda m: fb.Metric("m", "SUM(label)", maximize=1), "maximize must be True or False, not 1"),
    (lambda m: fb.auto(DATA, "absent"), "target column 'absent' is not in the data, which has 'x', 's', 'y', 'w'"),
    (lambda m: fb.fit(DATA, "y", folds=2, seed=1.5), "seed must be an integer of at least 0 and at most"),
    (lambda m: fb.join(DATA, DATA, on=5), "on must be a column name or a list of them, not 5"),
    (lambda m: fb.join(DATA, DATA, left_on="x", right_on=DATA), "right_on must be a column name or a list of them"),
    (lambda m: fb.aggregate(DATA, by=5), "by must be a column name or a list of them, not 5"),
    (lambda m: fb.aggregate(DATA, by="s", columns={"x": 5}), "columns has 5 for 'x', not one of"),
    (lambda m: fb.aggregate(DATA, by="s", time=5), "time must be a column name, not 5"),
    (lambda m: fb.Metric("m", "SUM(label)", columns=5), "columns must be a list of names, not 5"),
    (lambda m: fb.Metric("m", "SUM(label)", terms=5), "terms must be a dict of terms by name, not 5"),
    (lambda m: fb.fit(DATA, "y", eval_metric=fb.Metric("m", "SUM(label * 1e)")), "has '1e', which is not a number"),
    (lambda m: fb.Objective("margin - 1.e"), "which is not a number"),
    (lambda m: m.query("t", tables=DATA), "tables is for a model that was trained on a star of tables"),
    (lambda m: m.sql(dialect="snowflak"), "did you mean 'snowflake'?"),
    (lambda m: m.query("t", form="cas"), "did you mean 'case'?"),
    (lambda m: m.partial_dependence(DATA, "x", grid=[lambda x: x]), "grid must hold values of column 'x', which has"),
    (lambda m: m["a":"b"], "slice a model by rounds, such as model[:50], not by slice('a', 'b', None)"),
    (lambda m: m[::-1], "slice a model by rounds, such as model[:50], not by slice(None, None, -1)"),
    (lambda m: m.sql(columns={"x": "\ud800"}), "the name '\\ud800' holds an unpaired surrogate"),
    (lambda m: fb.fit(DATA, "\ud800"), "target holds an unpaired surrogate: '\\ud800'"),
    (lambda m: fb.FrameBoostClassifier(objective=5).fit([[1], [2]], [1, 2]), "objective 5 is not for a classifier"),
    (lambda m: fb.FrameBoostRegressor().fit([[1], [2]], [1, 10**400]), "y holds a number beyond any float64"),
    (lambda m: fb.FrameBoostRegressor().fit([[1], [2]], [1, 2], eval_set=[(1,)]),
     "eval_set must be a list of pairs (X, y)"),
]  # fmt: skip


@cases(("call", "message"), REFUSED)
def test_wrong_values_raise_no_internal_exception(model, call, message):
    with pytest.raises(fb.FrameboostError) as error:
        call(model)
    assert message in str(error.value)


@cases("where", ["", "  \n", 0, False, [], 5, b"x > 1"])
@cases("call", [
    lambda m, where: m.database().update_sql("t", "c", where=where), lambda m, where: m.query("t", where=where),
    lambda m, where: m.database().create_view_sql("v", "t", where=where),
    lambda m, where: m.database("tsql").create_table_sql("v", "t", where=where),
    lambda m, where: m.database().drift_query("t", m.database().baseline(DATA), where=where),
])  # fmt: skip
def test_only_none_as_condition_means_all_rows(model, call, where):
    with pytest.raises(fb.ParameterError, match=r"^where must be a condition as SQL, or None for all rows, not"):
        call(model, where)


def test_relations_that_can_not_be_read_any_more_are_refused():
    con = duckdb.connect()
    con.execute("CREATE TABLE gone AS SELECT 1 AS x, 2 AS y")
    table, query = con.table("gone"), con.sql("SELECT * FROM gone")
    con.execute("DROP TABLE gone")
    for relation in (table, query):
        with pytest.raises(fb.DataError, match=r"^the relation can't be read: Catalog Error: Table with name gone"):
            fb.fit(relation, "y")
    con.execute("CREATE TABLE closed AS SELECT 1 AS x, 2 AS y")
    relation = con.table("closed")
    con.close()
    with pytest.raises(fb.DataError, match=r"^the relation can't be read: Connection Error: Connection has already"):
        fb.fit(relation, "y")


def test_the_tables_of_a_star_are_named():
    star = fb.join(DATA, pl.DataFrame({"s": ["a", "b"], "n": [1, 2]}), on="s", name="kinds")
    model = fb.fit(star, "y", n_estimators=1, features=["x", "n"])
    for tables in (DATA, 5, ["kinds"], pl.col("x"), pl.Series(["x"]), {"kinds": 5}, {"kinds": DATA}, {5: "kinds"}):
        with pytest.raises(fb.ParameterError, match=r"^tables "):
            model.query("t", tables=tables)


SEVERAL = {
    "features": lambda value: fb.fit(DATA, "y", features=value),
    "cuts": lambda value: fb.fit(DATA, "y", cuts={"x": value}),
    "eval_metric": lambda value: fb.fit(DATA, "y", eval_metric=value),
    "quantile_alpha": lambda value: fb.fit(DATA, "y", objective="reg:quantileerror", quantile_alpha=value),
    "interaction_constraints": lambda value: fb.fit(DATA, "y", interaction_constraints=value),
    "interaction_constraints, a set": lambda value: fb.fit(DATA, "y", interaction_constraints=[value]),
    "grid": lambda value: fb.fit(DATA, "y", n_estimators=1).partial_dependence(DATA, "x", grid=value),
}


@cases("argument", SEVERAL)
def test_an_array_without_dimensions_is_no_list(argument):
    with pytest.raises(fb.ParameterError, match=rf"^{argument.partition(',')[0]}.*array\(0\.5\)"):
        SEVERAL[argument](np.array(0.5))


@pytest.mark.slow
def test_wrong_values_of_every_parameter_give_errors_of_ours(tmp_path):
    """Of some dozen calls with one wrong argument, or of all 200,000 in the profile ``thorough``."""
    namespace, number = {}, 0
    exec(PRELUDE, namespace)
    for number, case in enumerate(islice(calls.every(), 7, None, 9001 if examples(1) == 1 else 1)):
        namespace["folder"] = tmp_path / str(number)
        namespace["folder"].mkdir()
        with contextlib.chdir(tmp_path), warnings.catch_warnings(action="ignore"):
            calls.check_call(case, namespace)
    assert number > 12

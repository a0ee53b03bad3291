"""Targets of labels: the objective that they ask for, the same trees in every engine, and the labels in predictions."""

import html
import json
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import read_model
from frameboost.model.model import Model
from tests.support.cases import cases

SHAPE = {"n_estimators": 2, "max_depth": 3, "learning_rate": 0.5}
KINDS = ["low", "mid", "high"]  # sorted: high, low, mid


def rows(n: int = 240) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 30, n)
    frame = pl.DataFrame({"x": x, "g": rng.choice(["u", "v"], n), "noise": rng.random(n)})
    level = ((x + 6 * (frame["g"] == "u").to_numpy() + rng.integers(0, 4, n)) // 13).clip(0, 2)
    return frame.with_columns(kind=pl.Series([KINDS[k] for k in level]), late=pl.Series(level > 0))


def coded(frame: pl.DataFrame, labels: list[str], name: str = "kind") -> pl.DataFrame:
    """Return the frame with the places of the labels, worked out row by row."""
    return frame.with_columns(pl.Series(name, [labels.index(label) for label in frame[name]]))


def same_trees(model: Model, other: Model) -> bool:
    return replace(model.ensemble, labels=()) == replace(other.ensemble, labels=())


@cases("dtype", [pl.String, pl.Categorical, pl.Enum(["mid", "unused", "low", "high"])])
def test_strings_are_classes_in_their_order(dtype):
    frame, classes = rows().drop("late"), ["mid", "low", "high"] if dtype == pl.Enum else ["high", "low", "mid"]
    model = fb.fit(frame.with_columns(pl.col("kind").cast(dtype)), "kind", **SHAPE)
    assert (model.objective, model.classes) == ("multi:softprob", classes)
    assert same_trees(model, fb.fit(coded(frame, classes), "kind", objective="multi:softprob", **SHAPE))
    labels = np.array(classes)[np.argmax(model.predict(frame).to_numpy(), axis=1)].tolist()
    assert model.predict(frame, "class").equals(pl.Series("prediction", labels))
    assert repr(model).startswith(f"Model: multi:softprob (3 classes: {str(classes)[1:-1]}), 6 trees")


def test_booleans_are_two_classes_and_numbers_a_regression():
    frame = rows().drop("kind")
    model = fb.fit(frame, "late", **SHAPE)
    assert (model.objective, model.classes) == ("binary:logistic", [False, True])
    numbers = frame.with_columns(pl.col("late").cast(pl.Int8))
    assert same_trees(model, fb.fit(numbers, "late", objective="binary:logistic", **SHAPE))
    predicted = model.predict(frame)
    assert model.predict(frame, "class").equals(pl.Series("prediction", predicted > 0.5))
    assert model.predict(frame, "probability").equals(predicted)
    by_default = fb.fit(numbers, "late", **SHAPE)
    assert by_default.objective == "reg:squarederror"
    hint = "target 'late' is 0 or 1: objective='binary:logistic' would predict the probability of 1"
    assert repr(by_default).splitlines()[-1] == hint
    assert html.escape(hint) in by_default._repr_html_()
    for other in (fb.fit(numbers, "late", objective="reg:squarederror", **SHAPE), model):
        assert "would predict" not in repr(other)
    given = fb.fit(frame, "late", objective="reg:squarederror", **SHAPE)
    assert given == fb.fit(numbers, "late", objective="reg:squarederror", **SHAPE)
    assert (given.classes, fb.fit(numbers, "late", objective="multi:softprob", **SHAPE).classes) == ([], [0, 1])


def test_two_labels_are_the_classes_of_one_margin():
    frame = rows().with_columns(kind=pl.col("late").replace_strict({True: "late", False: "on time"})).drop("late")
    model = fb.fit(frame, "kind", **SHAPE)
    assert (model.objective, model.classes) == ("binary:logistic", ["late", "on time"])
    second = model.predict(frame).to_list()
    assert model.predict(frame, "class").to_list() == ["on time" if p > 0.5 else "late" for p in second]
    shares = model.predict(frame, "probability")
    assert shares.dtype == pl.Struct({"late": pl.Float64, "on time": pl.Float64})
    assert shares.to_list() == [{"late": 1 - p, "on time": p} for p in second]
    of_each = fb.fit(frame, "kind", objective="multi:softprob", **SHAPE)
    assert (of_each.n_trees, of_each.classes) == (4, ["late", "on time"])
    for objective in ("binary:hinge", "binary:logitraw"):
        model = fb.fit(frame, "kind", objective=objective, **SHAPE)
        margins = model.predict(frame, "margin").to_list()
        assert model.predict(frame, "class").to_list() == ["on time" if m > 0 else "late" for m in margins]


@pytest.mark.slow
def test_the_positive_class_is_the_one_that_is_predicted():
    frame = rows().with_columns(kind=pl.col("late").replace_strict({True: "late", False: "on time"})).drop("late")
    model = fb.fit(frame, "kind", positive="late", **SHAPE)
    assert model.classes == ["on time", "late"]
    late = fb.fit(frame.with_columns(pl.col("kind") == "late"), "kind", **SHAPE)
    assert same_trees(model, late)
    assert model.predict(frame).equals(late.predict(frame))
    assert model.predict(frame, "class").to_list() == [
        {True: "late", False: "on time"}[is_late] for is_late in late.predict(frame, "class")
    ]
    assert fb.fit(frame, "kind", positive="on time", **SHAPE) == fb.fit(frame, "kind", **SHAPE)
    enum = frame.with_columns(pl.col("kind").cast(pl.Enum(["late", "on time"])))
    con = duckdb.connect()
    con.register("frame", frame)
    hinge = {"positive": "late", "objective": "binary:hinge", **SHAPE}
    for data, engine in ((enum, "polars"), (con.sql("FROM frame"), "duckdb")):
        assert fb.fit(data, "kind", engine=engine, **hinge) == fb.fit(frame, "kind", **hinge)
    shape = SHAPE | {"eval_metric": "auc", "folds": 2}
    by_label = fb.cv(frame, "kind", positive="late", scale_pos_weight=3.0, **shape)
    assert by_label.equals(fb.cv(frame.with_columns(pl.col("kind") == "late"), "kind", scale_pos_weight=3.0, **shape))
    more = fb.fit(frame, "kind", init_model=model, positive="late", n_estimators=1)
    assert (more.classes, more.n_rounds) == (["on time", "late"], 3)
    with pytest.raises(
        fb.ParameterError, match=r"positive='on time' can't be combined with init_model, whose positive cla"
    ):
        fb.fit(frame, "kind", init_model=model, positive="on time", n_estimators=1)


@pytest.mark.slow
def test_expressions_and_functions_say_what_predict_says():
    frame = rows().drop("late")
    two = frame.filter(pl.col("kind") != "low")
    con = duckdb.connect()
    con.register("t", frame.with_row_index("id"))
    for data in (frame, two):
        model = fb.fit(data, "kind", **SHAPE)
        labels = model.predict(frame, "class").to_list()
        shares = model.predict(frame, "probability")
        assert frame.lazy().select(model.expr("class")).collect()["prediction"].to_list() == labels
        assert frame.lazy().select(model.expr("probability")).collect()["prediction"].to_list() == shares.to_list()
        for form in ("macro", "udf"):
            names = [f"{form}_{output}_{len(model.classes)}" for output in ("class", "probability")]
            for name, output in zip(names, ("class", "probability"), strict=True):
                model.register(con, name, output=output, form=form)
            label, share = (f"{name}({', '.join(model.features)})" for name in names)
            scored = con.sql(f"SELECT {label}, {share} FROM t ORDER BY id").fetchall()
            assert scored == list(zip(labels, shares.to_list(), strict=True))


@pytest.mark.slow
def test_labels_of_an_enum_keep_its_order_and_stay_in_the_database():
    frame, con = rows().drop("late"), duckdb.connect()
    con.register("frame", frame)
    con.execute("CREATE TYPE kinds AS ENUM ('mid', 'unused', 'low', 'high')")
    con.execute("CREATE TABLE enums AS SELECT * REPLACE (kind::kinds AS kind) FROM frame")
    expected = fb.fit(frame.with_columns(pl.col("kind").cast(pl.Enum(["mid", "low", "high"]))), "kind", **SHAPE)
    for engine in ("numba", "polars", "duckdb"):
        assert fb.fit(con.table("enums"), "kind", engine=engine, **SHAPE) == expected
    assert con.table("enums").types == ["BIGINT", "VARCHAR", "DOUBLE", "ENUM('mid', 'unused', 'low', 'high')"]
    assert fb.fit([frame[:100], frame[100:]], "kind", shards=3, **SHAPE) == fb.fit(frame, "kind", **SHAPE)


def tiny(**columns: list) -> pl.DataFrame:
    return pl.DataFrame({"x": [1, 2, 3, 4], "y": ["a", "b", "c", "a"], **columns})


@cases(
    ("frame", "options", "message"),
    [
        (tiny(), {"objective": "reg:squarederror"}, "'reg:squarederror' needs numbers, but target 'y' has type String"),
        (tiny(), {"objective": "binary:logistic"}, "is for two classes; target 'y' has 3: 'a', 'b', 'c'"),
        (tiny(), {"num_class": 4}, "num_class is 4, but target 'y' has 3 labels"),
        (tiny(y=[None] * 4).cast({"y": pl.String}), {}, "target 'y' has no label in any row"),
        (tiny(y=[True, None, False, None]), {}, "target 'y' is NULL or NaN in 2 of 4 rows; drop those rows first"),
        (tiny(), {"valid": tiny(y=["a", "z", "c", "a"])}, "has the label 'z' in 'valid', the held-out data"),
        (tiny(), {"valid": {"new": tiny(y=[0, 1, 2, 0])}}, "has type Int64 in 'new', the held-out data"),
        (tiny(z=[1, 2, 3, 4]), {"target": ["z", "y"]}, "target column 'y' has type String; several targets"),
        (tiny(y=[True, False] * 2, z=[1, 2, 3, 4]), {"target": ["y", "z"]}, "target 'y' is Boolean and 'z' is not"),
        (tiny(y=["no", "yes"] * 2), {"positive": "Yes"}, "'Yes' is not a label .* has 'no', 'yes'; did you mean"),
        (tiny(), {"positive": "a"}, "positive='a' is for two classes and an objective such as 'binary:logistic'"),
        (tiny(y=[True, False] * 2), {"positive": "true"}, "'y' has type Boolean, of which true is the positive class"),
        (tiny(y=[1, 0] * 2), {"positive": "1"}, "and 'y' has type Int64, of which 1 is the positive class"),
        (tiny(y=[1, 0] * 2), {"positive": 1}, "positive must be a label of the target, not 1"),
    ],
)  # fmt: skip
def test_what_does_not_go_with_labels_is_refused_in_a_sentence(frame, options, message):
    with pytest.raises(fb.FrameboostError, match=message):
        fb.fit(frame, **{"target": "y", **options})


def test_several_booleans_have_a_class_each():
    frame = rows().with_columns(high=pl.col("kind") == "high").drop("kind")
    model = fb.fit(frame, ["late", "high"], **SHAPE)
    assert (model.objective, model.classes) == ("binary:logistic", [False, True])
    shares = model.predict(frame).to_numpy()
    assert model.predict(frame, "class").to_list() == (shares > 0.5).tolist()
    for k, target in enumerate(("late", "high")):
        alone = fb.fit(frame, target, features=["x", "g", "noise"], **SHAPE)
        assert alone.predict(frame).to_list() == shares[:, k].tolist()
    found = duckdb.sql(model.query("frame", keep=[], output="class"))
    assert found.columns == ["prediction_0", "prediction_1"]
    assert found.fetchall() == [tuple(row) for row in (shares > 0.5).tolist()]


def test_training_goes_on_with_the_labels_of_the_model():
    frame = rows().drop("late")
    first = fb.fit(frame, "kind", **SHAPE)
    fewer = frame.filter(pl.col("kind") != "mid")
    more = fb.fit(fewer, "kind", init_model=first, **SHAPE)
    assert more.classes == first.classes
    numbered = fb.fit(coded(frame, first.classes), "kind", objective="multi:softprob", **SHAPE)
    options = {"objective": "multi:softprob", "num_class": 3, **SHAPE}
    assert same_trees(more, fb.fit(coded(fewer, first.classes), "kind", init_model=numbered, **options))
    other = frame.with_columns(kind=pl.col("kind") + "!")
    with pytest.raises(fb.DataError, match=r"^target 'kind' has the label 'high!', which init_model does not know; "):
        fb.fit(other, "kind", init_model=first, **SHAPE)
    with pytest.raises(fb.DataError, match=r"but init_model has numbered classes; number the labels in"):
        fb.fit(frame, "kind", init_model=numbered, **SHAPE)
    with pytest.raises(fb.DataError, match=r"^target 'kind' has type Int64, but the model's classes are labels: "):
        fb.fit(coded(frame, first.classes), "kind", init_model=first, **SHAPE)


@pytest.mark.slow
def test_refit_and_cross_validation_take_labels():
    frame = rows().drop("late")
    model, codes = fb.fit(frame, "kind", **SHAPE), coded(frame, ["high", "low", "mid"])
    numbered = Model(replace(model.ensemble, labels=()))
    assert same_trees(model.refit(frame[:90], "kind"), numbered.refit(codes[:90], "kind"))
    assert model.refit(frame[:90], "kind").classes == ["high", "low", "mid"]
    with pytest.raises(fb.DataError, match=r"has the label 'new', which the model does not know; its classes are 'hig"):
        model.refit(frame.with_columns(kind=pl.lit("new")), "kind")
    options = {"folds": 3, "n_estimators": 2}
    numbers = fb.cv(codes, "kind", objective="multi:softprob", num_class=3, **options)
    assert fb.cv(frame, "kind", **options).equals(numbers)


def test_labels_are_part_of_a_checkpoint(tmp_path):
    frame, path = rows().drop("late"), tmp_path / "fit.checkpoint"
    fb.fit(frame, "kind", checkpoint=path, **SHAPE)
    more = fb.fit(frame, "kind", checkpoint=path, **{**SHAPE, "n_estimators": 5})
    assert more == fb.fit(frame, "kind", **{**SHAPE, "n_estimators": 5})
    with pytest.raises(fb.ParameterError, match=r"belongs to another fit: labels is \['high', 'low', 'mid'\] in it, "):
        fb.fit(frame.with_columns(kind=pl.col("kind") + "!"), "kind", checkpoint=path, **SHAPE)


def test_the_model_file_has_the_labels():
    frame = rows()
    for target in ("kind", "late"):
        model = fb.fit(frame, target, features=["x"], **SHAPE)
        assert read_model(model.to_json().encode()) == model.ensemble
        document = json.loads(model.to_json())
        assert document["labels"] == model.classes
        del document["labels"]
        assert same_trees(Model(read_model(json.dumps(document).encode())), model)
    for target, all_wrong in {
        "kind": [["a", "b"], ["a", "b", "b"], ["a", "b", 3], "abc", [False, True], [], None, {"a": 1}],
        "late": [[0, 1], [True, False], [False, 1]], "x": [["a", "b"]],
    }.items():  # fmt: skip
        document = json.loads(fb.fit(frame, target, features=["noise"], **SHAPE).to_json())
        for wrong in all_wrong:
            with pytest.raises(fb.ModelFileError, match=r'^damaged model: "labels" must be '):
                read_model(json.dumps({**document, "labels": wrong}).encode())


ONE_CLASS = rows(60).with_columns(kind=pl.lit("it's"))
MAKERS = {
    "fit": lambda data, **options: fb.fit(data, "kind", features=["x"], **options),
    "folds": lambda data: fb.fit(data, "kind", features=["x"], folds=2, **SHAPE),
    "auto": lambda data: fb.auto(data, "kind", features=["x"], quality=1, n_estimators=3),
    "binary": lambda data: fb.fit(data, "kind", features=["x"], objective="binary:logistic", positive="it's", **SHAPE),
}


@pytest.mark.slow
@cases("maker", MAKERS)
def test_one_label_is_predicted(maker, tmp_path):
    """LightGBM, XGBoost and random forests train on a single class as well; CatBoost refuses it."""
    with pytest.warns(fb.FrameboostWarning, match="target 'kind' is constant"):
        model = MAKERS[maker](ONE_CLASS)
    assert (model.objective, model.classes) == ("multi:softprob", ["it's"])
    assert model.predict(ONE_CLASS, "class").to_list() == ["it's"] * 60
    if maker != "fit":
        return
    model.save(tmp_path / "m.json")
    assert fb.load(tmp_path / "m.json") == model
    con = duckdb.connect()
    con.register("t", ONE_CLASS)
    for output, value in {"mean": 1.0, "class": "it's", "probability": {"it's": 1.0}}.items():
        for found in (model.predict(ONE_CLASS, output), ONE_CLASS.select(model.expr(output)).to_series()):
            assert found.to_list() == [value] * 60
    for output, value in {"mean": 1.0, "class": "it's", "probability": 1.0}.items():
        assert con.sql(model.query("t", keep=[], output=output)).fetchall() == [(value,)] * 60
    for data in (ONE_CLASS, con.table("t")):
        errors = dict(model.evaluate(data, "kind").metrics.rows())
        assert (errors["mlogloss"], errors["merror"]) == (0.0, 0.0)
    with pytest.raises(fb.DataError, match="label 'other', which the model does not know; its classes are"):
        model.evaluate(ONE_CLASS.with_columns(kind=pl.lit("other")), "kind")

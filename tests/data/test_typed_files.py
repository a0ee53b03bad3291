"""Files of text with the column types of training: rows to validate on, to train on from a model, and to score."""

import datetime as dt
import gzip
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.data.opening import open_source
from frameboost.data.table_files import TableFiles
from frameboost.schema.types import FeatureType
from tests.support.cases import cases

TRAIN = pl.DataFrame({
    "x": [0.5, 1.5, 2.5, 3.5] * 10, "n": [1, 2, 3, 4] * 10, "code": ["01", "02", "A3", None] * 10,
    "day": [dt.date(2013, 1, 1 + i % 4) for i in range(40)], "y": [1.0, 2.0, 3.0, 4.5] * 10,
    "kind": ["1", "2", "1", "3"] * 10,
})  # fmt: skip
# Rows that look like integers in each column of numbers and strings.
OTHERS = TRAIN[:2].with_columns(x=pl.Series([1.0, 2.0]), y=pl.Series([2.0, 3.0]))
SHAPE = {"n_estimators": 2, "features": ["x", "n", "code", "day"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "x,n,code,day,y,kind\n1,1,01,2013-01-01,2,1\n2,2,02,2013-01-02,3,2\n"
    Path("others.csv").write_text(text)
    Path("others.csv.gz").write_bytes(gzip.compress(text.encode()))
    header, first, second = text.splitlines()
    Path("part-1.csv").write_text(f"{header}\n{first}\n")
    Path("part-2.csv").write_text(f"{header}\n{second}\n")
    Path("others.ndjson").write_text('{"x":1,"n":1,"code":"01","day":"2013-01-01","y":2,"kind":"1"}\n'
                                     '{"x":2,"n":2,"code":"02","day":"2013-01-02","y":3,"kind":"2"}\n')  # fmt: skip
    TRAIN.write_csv("train.csv")


@pytest.fixture(scope="module")
def expected() -> fb.Model:
    return fb.fit(TRAIN, "y", valid=OTHERS, **SHAPE)


_FORMS = {
    "path": Path("others.csv"), "text": "others.csv", "glob": "part-*.csv", "list": ["part-1.csv", Path("part-2.csv")],
    "gzip": Path("others.csv.gz"), "ndjson": "others.ndjson", "dict": {"valid": "others.csv"},
}  # fmt: skip


@cases("form", list(_FORMS.values()))
def test_rows_to_validate_on_have_the_types_of_training(form, expected):
    model = fb.fit(TRAIN, "y", valid=form, **SHAPE)
    assert model == expected
    assert_frame_equal(model.history, expected.history)
    if form == "others.csv":
        assert_frame_equal(fb.fit("train.csv", "y", valid=form, **SHAPE).history, expected.history)


def test_a_column_goes_before_a_file():
    held = TRAIN.with_columns((pl.col("n") == 4).alias("others.csv"))
    by_column = fb.fit(held, "y", valid="others.csv", **SHAPE)
    assert by_column == fb.fit(TRAIN.filter(pl.col("n") < 4), "y", **SHAPE)


@pytest.mark.slow
def test_text_for_a_model_has_the_types_of_the_model(expected):
    for path in ("others.csv", "part-*.csv", "others.ndjson"):
        assert expected.predict(path).equals(expected.predict(OTHERS))
        assert expected.refit(path, "y") == expected.refit(OTHERS, "y")
        assert_frame_equal(expected.evaluate(path, "y").metrics, expected.evaluate(OTHERS, "y").metrics)
        more = {"init_model": expected, "n_estimators": 1}
        assert fb.fit(path, "y", **more) == fb.fit(OTHERS, "y", **more)


def test_labels_that_look_like_numbers_are_those_of_the_model():
    model = fb.fit(TRAIN, "kind", **SHAPE)
    for path in ("others.csv", "others.ndjson"):
        assert_frame_equal(model.evaluate(path, "kind").metrics, model.evaluate(OTHERS, "kind").metrics)
        assert fb.fit(TRAIN, "kind", valid=path, **SHAPE).best_score == pytest.approx(
            model.evaluate(OTHERS, "kind", eval_metric="mlogloss").metrics["value"][0]
        )


_READ = {
    "whole floats": ("v\n1.0\n\n3.0\n", "int16", [1, None, 3]),
    "a fraction": ("v\n1.5\n2\n", "int64", [1.5, 2.0]),
    "too large": ("v\n70000\n1\n", "int16", [70000, 1]),
    "cents": ("v\n0.5\n12\n", "decimal(9,2)", [Decimal("0.50"), Decimal("12.00")]),
    "tenths of cents": ("v\n0.005\n", "decimal(9,2)", [0.005]),
    "no value": ("v,w\n,1\n", "float64", [None]),
    "no whole number": ("v,w\n,1\n", "int16", [None]),
    "more digits than int64 has": ("v\n99999999999999999999999\n", "float64", [1e23]),
    "words": ("v\n1\nn/a\n", "float64", ["1", "n/a"]),
    "days": ("v\n2013-01-01\n", "timestamp[ms]", [dt.datetime(2013, 1, 1)]),
    "zeros in front": ("v\n007\n", "string", ["007"]),
}


@cases(("text", "wanted", "values"), list(_READ.values()))
def test_a_column_has_the_wanted_type_where_all_its_values_are_of_it(text, wanted, values):
    Path("v.csv").write_text(text)
    source = open_source(TableFiles(("v.csv",)), types={"v": FeatureType(wanted)})
    assert source.frame.collect()["v"].to_list() == values


def test_of_ndjson_too():
    Path("v.ndjson").write_text('{"v": 1}\n{"v": 2}\n{"v": null}\n')
    Path("texts.ndjson").write_text('{"v": "0.50"}\n{"v": null}\n{"v": "1.25"}\n')
    exact, floats = [Decimal("0.50"), None, Decimal("1.25")], [0.5, None, 1.25]
    for kind, values in {"decimal(9,2)": exact, "int8": floats, "float64": floats}.items():
        texts = open_source(TableFiles(("texts.ndjson",)), types={"v": FeatureType(kind)})
        assert texts.frame.collect()["v"].to_list() == values
    whole = open_source(TableFiles(("v.ndjson",)), types={"v": FeatureType("int8")}).frame.collect()
    assert_frame_equal(whole, pl.DataFrame({"v": [1, 2, None]}, schema={"v": pl.Int8}))


def test_messages_name_the_file_or_the_column():
    with pytest.raises(fb.DataError, match=r"^missing.csv can't be read: No such file or directory$"):
        fb.fit(TRAIN, "y", valid="missing.csv")
    Path("rows.txt").write_text("x\n1\n")
    with pytest.raises(fb.ParameterError, match=r"and its rows are valid=pl.scan_csv\('rows.txt'\)$"):
        fb.fit(TRAIN, "y", valid="rows.txt")
    with pytest.raises(
        fb.DataError, match=r"^valid is a PosixPath, and the format of rows.txt cannot be inferred from its name; pass"
    ):
        fb.fit(TRAIN, "y", valid=Path("rows.txt").absolute())
    Path("folder").mkdir()
    with pytest.raises(fb.ParameterError, match=r"^valid='folder' is neither a column [^;]*; valid columns: [^;]*\)$"):
        fb.fit(TRAIN, "y", valid="folder")
    Path("words.csv").write_text("x,n,code,day,y\nlow,1,01,2013-01-01,2\n")
    with pytest.raises(fb.DataError, match=r"^feature 'x' has type String \(such as 'low'\) in 'valid', .* but"):
        fb.fit(TRAIN, "y", valid="words.csv", **SHAPE)

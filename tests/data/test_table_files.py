"""Files of text that are not what they seem: tokens among numbers, damaged lines, other separators, columns twice."""

import gzip
import warnings

import polars as pl
import pytest

import frameboost as fb
from frameboost.cli import main
from frameboost.data.opening import open_source
from frameboost.data.table_files import read_table
from frameboost.data.text_files import problem_of_text
from tests.support.cases import cases

ROWS = [f"{i},{i * 7 % 50}" for i in range(100)]


def csv(rows, header="x,y"):
    return ("\n".join([header, *rows]) + "\n").encode()


def written(folder, content, name="t.csv"):
    path = folder / name
    path.write_bytes(content)
    return str(path)


TOKENS = ["NA", r"\N", "?", "NULL", "-", "#N/A", "nan", "None", "."]
WITH_TOKENS = {token: csv([row if i % 17 else f"{token},{i}" for i, row in enumerate(ROWS)]) for token in TOKENS}


@pytest.mark.slow
@cases("token", TOKENS)
def test_a_token_among_numbers_is_named_with_the_option_that_makes_it_null(token, tmp_path, capsys):
    path = written(tmp_path, WITH_TOKENS[token])
    with pytest.warns(fb.FrameboostWarning) as seen:
        model = fb.fit(path, "y", n_estimators=1)
    (message,) = [str(each.message) for each in seen]
    assert str(model.ensemble.features[0].type) == "string"
    said = f"column 'x' of '{path}' is read as strings, so each value is a category: all but {token!r}"
    assert message.startswith(said)
    assert message.endswith(f"pl.scan_csv(path, null_values={[token]})")
    numbers = fb.fit(pl.scan_csv(path, null_values=[token]), "y", n_estimators=1)
    assert str(numbers.ensemble.features[0].type) == "int64"


@pytest.mark.slow
@cases("token", [r"\N", "-"])
def test_commands_take_tokens_for_missing_values(token, tmp_path, capsys):
    path, made = written(tmp_path, WITH_TOKENS[token]), str(tmp_path / "m.json")
    options = ["--target", "y", "--n-estimators", "1", "-o", made, "--null-values", token]
    assert main(["train", path, "--valid", path, *options]) == 0
    assert "warning" not in capsys.readouterr().err
    assert str(fb.load(made).ensemble.features[0].type) == "int64"
    scored = str(tmp_path / "scored.csv")
    assert main(["score", made, path, "--null-values", token, "-o", scored]) == 0
    assert main(["score", made, path, "-o", scored]) == 1  # the model has numbers
    assert f"feature 'x' has type String (such as {token!r})" in capsys.readouterr().err


@cases(
    "content",
    [
        csv([f"{'abcdefgh'[i % 8]},{i}" for i in range(60)]),  # words
        csv([f"{i % 3 if i % 4 else 'x'},{i}" for i in range(60)]),  # more kinds of words than of numbers, nearly
        csv([f"{i}{'kg' if i % 2 else ''},{i}" for i in range(60)]),  # more tokens than a few
        csv(ROWS),
    ],
)
def test_other_columns_give_no_warning(content, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "no tree has a split")
        fb.fit(written(tmp_path, content), "y", n_estimators=1)


SAID = [
    ("t.csv", csv([*ROWS, "1"]) + b"2,3\n", "'t.csv' has a row that is too short: line 102 has 1 field, and the"),
    ("t.csv", csv(["", *ROWS]), "line 2 has 0 fields, and the header has 2; missing values of such rows"),
    ("t.csv.gz", gzip.compress(csv([*ROWS, "1"])), "line 102 has 1 field"),
    ("t.tsv", b'x\ty\n1\t2\n"a\nb"\t2\n3\n', "line 5 has 1 field, and the header has 2"),  # a value of two lines
    ("t.ndjson", b'{"x":1,"y":1}\n{"x":"b","y":2}\n', "has strings, such as 'b', and others, such as 1; write"),
    ("t.ndjson", b'{"x":"true","y":1}\n{"x":true,"y":2}\n', "has strings, such as 'true', and others, such as True"),
    ("t.ndjson", b'{"x":0.5,"y":1}\n{"x":"NA","y":2}\n', "that stands for a missing value, write null in its place"),
]  # fmt: skip


@cases(("name", "content", "message"), SAID)
def test_what_is_read_otherwise_than_it_is_written_gives_a_warning(name, content, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(fb.FrameboostWarning) as seen:
        open_source(written(tmp_path, content, name).removeprefix(f"{tmp_path}/"))
    (warning,) = [str(each.message) for each in seen]
    assert message in warning


@cases("content", [b'x,y\n"a\nb",2\n', b'x,y\n"a,b",\n"c\n",1\n', b"x\n1\n\n2\n", b"x,y\n1,\n,2\n"])
def test_rows_with_all_fields_give_no_warning(content, tmp_path):
    open_source(written(tmp_path, content))


def test_a_column_of_csv_without_a_value_has_no_type(tmp_path):
    path = written(tmp_path, b"x,s,z,y\n,a,1,1\n,,2,2\n,,3,4\n")
    model = fb.fit(path, "y", n_estimators=1)
    assert [str(feature.type) for feature in model.ensemble.features] == ["float64", "string", "int64"]
    record = pl.DataFrame({"x": [1.5], "s": ["a"], "z": [2]})
    assert model.predict(record).to_list() == model.predict(path)[:1].to_list()
    on_text = fb.fit(pl.DataFrame({"x": ["p", "q"], "s": ["a", "b"], "z": [1, 2], "y": [0, 1]}), "y", n_estimators=1)
    assert on_text.predict(path).len() == 3


def test_ndjson_with_tokens_for_null_has_numbers(tmp_path):
    lines = b'{"a":1,"b":"NA","s":"NA"}\n{"a":"NA","b":"2","s":"x"}\n{"a":null,"b":"2.5","s":"3"}\n'
    frame = read_table(written(tmp_path, lines, "t.ndjson"), null_values=["NA"]).collect()
    assert frame.rows() == [(1, None, None), (None, 2.0, "x"), (None, 2.5, "3")]
    assert frame.dtypes == [pl.Int64, pl.Float64, pl.String]


def test_a_file_that_is_named_twice_is_read_twice(tmp_path, monkeypatch):
    path = written(tmp_path, csv(ROWS), "a.csv")
    monkeypatch.chdir(tmp_path)
    for data in ([path, "a.csv"], [path, "*.csv"], (path, path)):
        with pytest.warns(fb.FrameboostWarning, match=r"a\.csv' is listed 2 times in the data, so its rows"):
            source = open_source(data)
        assert source.frame.collect()["x"].to_list() == [*range(100), *range(100)]


def test_decimal_commas_are_named(tmp_path):
    path = written(tmp_path, csv([f'"{i},5",{i}' for i in range(40)]))
    with pytest.warns(fb.FrameboostWarning, match=r"numbers with commas, such as '\d+,5'; .* decimal_comma=True\)$"):
        fb.fit(path, "y", n_estimators=1)


REFUSED = [
    ("t.csv", csv(ROWS) + b"5,\xff\n", "line 102 is not UTF-8"),
    ("t.csv.gz", gzip.compress(csv(ROWS) + b"5,\xff\n"), "line 102 is not UTF-8"),
    ("t.csv", csv(ROWS).decode().encode("utf-16"), "line 1 is not UTF-8"),
    ("t.csv", csv([*ROWS[:9], "1,2,3", *ROWS]), "line 11 has 3 fields, and the header has 2"),
    ("t.tsv", b"x\ty\n1\t2\n1\t2\t3\n", "line 3 has 3 fields, and the header has 2"),
    ("t.csv", b'x,y\n"a\nb",2\n3,4,5\n', "line 4 has 3 fields, and the header has 2"),
    ("t.csv.gz", gzip.compress(csv(ROWS))[:-20], "unexpected end of file"),
    ("t.csv", b"", "empty CSV"),
    ("t.ndjson", b'{"x": 1, "y": 2}\n{"x": 1, "y"\n', "line 2 is not a JSON object"),
    ("t.ndjson", b'[{"x": 1, "y": 2}]', "line 1 is not a JSON object"),
    ("t.ndjson", b'{"x":1,"y":2}\n{"x":true,"y":3}\n', "column 'x' is true or false in line 2 and a number in line 1"),
    ("t.parquet", b"PAR1", "parquet"),
    ("t.arrow", b"ARROW1" * 9, ""),
    ("t.duckdb", b"x" * 99, ""),
]


@pytest.mark.slow
@cases(("name", "content", "why"), REFUSED)
def test_a_damaged_file_is_named_with_the_line(name, content, why, tmp_path, capsys):
    path = written(tmp_path, content, name)
    with pytest.raises(fb.DataError) as error:
        fb.fit(path, "y", n_estimators=1)
    assert str(error.value).startswith(f"{path} can't be read: ")
    assert why in str(error.value)
    if name != "t.duckdb" and "fields" not in why:  # polars parses the columns that are asked for alone
        good = pl.DataFrame({"x": [1, 2], "y": [0, 1]})
        with pytest.raises(fb.DataError, match="can't be read"):
            fb.fit(good, "y", valid={"late": path}, n_estimators=1)
        with pytest.raises(fb.DataError, match="can't be read"):
            fb.fit(good, "y", n_estimators=1).predict(path)
        model = str(tmp_path / "m.json")
        fb.fit(good, "y", n_estimators=1).save(model)
        assert main(["score", model, path, "-o", str(tmp_path / "out.csv")]) == 1
        assert f"{path} can't be read: " in capsys.readouterr().err


def test_a_damaged_file_among_others_is_named(tmp_path):
    good, bad = written(tmp_path, csv(ROWS), "a.csv"), written(tmp_path, csv([*ROWS, "1,2,3"]), "b.csv")
    for data in ([good, bad], str(tmp_path / "*.csv")):
        with pytest.raises(fb.DataError, match=r"b\.csv can't be read: line 102 has 3 fields"):
            fb.fit(data, "y", n_estimators=1)


@cases(
    ("content", "message"),
    [
        (b"x,x,y\n1,2,3\n4,5,6\n", "t.csv has column 'x' 2 times; column names must be unique"),
        (b"x;y\n1;2\n", "t.csv has one column, 'x;y', whose values seem to be separated by ';'; pass it as a frame"),
        (b"x\ty\n1\t2\n", r"separator='\\t'\), or write it as CSV"),
        (b"x,y\r1,2\r3,4\r", r"t.csv can't be read: its lines end by \\r alone; write it with"),
        (b"x,y\n", "the data has no rows; training needs at least 2"),
        (b"x,y\n1,2\n", "the data has 1 row; training needs at least 2"),
    ],
)
def test_what_is_no_table_to_train_on_is_refused(content, message, tmp_path):
    with pytest.raises(fb.DataError, match=message):
        fb.fit(written(tmp_path, content), "y")


def test_names_as_polars_makes_them_a_mark_and_quoted_lines_are_read(tmp_path):
    model = fb.fit(written(tmp_path, b"x,x_duplicated_0,y\n1,2,3\n4,5,6\n"), "y", n_estimators=1)
    assert model.features == ["x", "x_duplicated_0"]
    assert fb.fit(written(tmp_path, b"\xef\xbb\xbf" + csv(ROWS)), "y", n_estimators=1).features == ["x"]
    quoted = written(tmp_path, b'x,s,y\n1,"a\nb",2\n3,"c",4\n5,"a\nb",6\n')
    assert fb.fit(quoted, "y", n_estimators=1).features == ["x", "s"]
    assert problem_of_text(quoted, "csv") is None

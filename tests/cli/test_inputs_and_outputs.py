"""Where rows come from and go to: standard input, compressed files, files of unequal columns, tables of DuckDB."""

import gzip
import io
import os
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest
import zstandard
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.cli import main
from tests.cli.commands import FEATURES, call, files, flights, refused
from tests.support.cases import cases


def give(monkeypatch, content):
    """Make the bytes what standard input has."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def written(how):
    buffer = io.BytesIO()
    df = flights()
    ways = {"csv": df.write_csv, "ndjson": df.write_ndjson, "parquet": df.write_parquet, "arrow": df.write_ipc,
            "stream": df.write_ipc_stream, "tsv": lambda file: df.write_csv(file, separator="\t")}  # fmt: skip
    ways[how](buffer)
    return buffer.getvalue()


def scored(model="delay"):
    return flights().select("id", fb.load(f"{model}.json").predict(flights()))


@pytest.mark.slow
@cases(("how", "format_"), [("csv", ""), ("tsv", ""), ("ndjson", ""), ("parquet", ""), ("arrow", ""), ("stream", ""),
                            ("csv", "csv"), ("ndjson", "ndjson"), ("csv.gz", ""), ("ndjson.gz", ""),
                            ("csv.zst", "csv")])  # fmt: skip
def test_standard_input_is_read_as_what_its_first_bytes_tell(here, capsys, monkeypatch, how, format_):
    kind, _, packed = how.partition(".")
    pack = {"": bytes, "gz": gzip.compress, "zst": zstandard.compress}[packed]
    give(monkeypatch, pack(written(kind)))
    options = ["--format", format_] if format_ else []
    assert main(["score", "delay.json", "-", "-o", "-", "--keep", "id", *options]) == 0
    assert capsys.readouterr().out == scored().write_csv()


def test_training_from_standard_input_gives_the_model_of_python(here, capsys, monkeypatch):
    give(monkeypatch, written("csv"))
    line = "train - --target arr_delay --features carrier,dep_delay --n-estimators 4 --max-depth 3 -o m.json"
    assert call(line) == 0
    assert fb.load("m.json") == fb.load("delay.json")
    assert "400 to train on" in capsys.readouterr().out


@cases(("content", "line", "says"), [
    (b"", "score delay.json - -o -", "standard input is empty"),
    (b"\x80\x04K\x01.", "score delay.json - -o -", "the first bytes of standard input do not tell its format; set "
     "--format, one of 'csv', 'tsv', 'ndjson', 'parquet', 'arrow'"),
    (zstandard.compress(b"x\n1\n"), "score delay.json - -o -", "do not tell its format"),
    (b'{"x": 1', "score delay.json - -o -", "do not tell its format"),
    (b"x,y\n1,2\n", "score delay.json - -o - --format parquet", "standard input can't be read: "),
    (gzip.compress(b"x,y\n1,2\n" * 99)[:-12], "score delay.json - -o -", "standard input can't be read: "),
    (b"x,y\n1,2\n", "score delay.json - -o -", "the data lacks 2 features of the model: 'carrier', 'dep_delay'"),
])  # fmt: skip
def test_standard_input_that_is_no_table_is_refused(here, capsys, monkeypatch, content, line, says):
    give(monkeypatch, content)
    assert says in refused(capsys, line)


@cases("line", ["score delay.json - flights.csv -o -", "score delay.json a.csv b.csv --table t -o -",
                "score delay.json flights.csv -o - --replace", "score delay.json flights.csv -o out.csv --replace",
                "score delay.json flights.csv -o - --format xlsx"])  # fmt: skip
def test_inputs_and_outputs_that_do_not_go_together(here, capsys, line):
    refused(capsys, line, 2)


@pytest.mark.slow
@cases("name", ["f.csv.gz", "f.csv.zst", "f.tsv.gz", "f.ndjson", "f.jsonl.gz"])
def test_compressed_text_is_written_and_read_by_the_library_too(here, name):
    assert call(f"score delay.json flights.parquet --name p -o {name}") == 0
    if name.endswith(".gz"):
        with gzip.open(name) as file:
            assert file.read(4) in (b"id,c", b"id\tc", b'{"id')
    shape = {"features": FEATURES, "n_estimators": 4, "max_depth": 3}
    assert fb.fit(name, "arr_delay", **shape) == fb.load("delay.json")
    assert fb.load("delay.json").predict(Path(name)).to_list() == fb.load("delay.json").predict(flights()).to_list()


def test_columns_of_text_have_one_type_in_all_files_of_a_glob(here, capsys):
    Path("p1.csv").write_text("x,c,y\n1,a,1\n2,b,2\n")
    Path("p2.csv").write_text("x,c,y\n2.5,b,3\n4,b,4\n")  # floats
    Path("p3.csv").write_text("x,c,y\n,a,5\n,,6\n")  # no value of x
    whole = pl.DataFrame({"x": [1.0, 2.0, 2.5, 4.0, None, None], "y": [1, 2, 3, 4, 5, 6]})
    model = fb.fit(whole, "y", n_estimators=2, min_child_weight=0)
    assert fb.fit("p[123].csv", "y", features=["x"], n_estimators=2, min_child_weight=0) == model
    assert fb.fit(["p1.csv", "p2.csv", "p3.csv"], "y", features=["x"], n_estimators=2, min_child_weight=0) == model
    Path("p4.csv").write_text("x,c,y\n1,7,3\nn/a,8,4\n")
    assert refused(capsys, "train p1.csv p4.csv --target y -o m.json") == (
        "column 'x' has type Int64 in 'p1.csv' and String in 'p4.csv' (such as 'n/a'); cast it to one type"
    )
    model.save("m.json")
    assert call("score m.json p[12].csv p3.csv -o - --keep x") == 0
    assert capsys.readouterr().out.splitlines()[5] == f",{model.predict(whole)[4]}"


def test_a_column_that_a_file_lacks_is_named_with_the_way_out(here, capsys):
    Path("p1.csv").write_text("x,z,y\n1,1,1\n2,5,2\n")
    Path("p2.csv").write_text("x,y\n3,3\n4,4\n")
    assert refused(capsys, "train p1.csv p2.csv --target y -o m.json") == (
        "column 'z' is in 'p1.csv' but not in 'p2.csv'; add it there, or join the rows by --fill-missing, "
        "which has NULL in its place"
    )
    assert "'z' is in 'p1.csv' but not in 'p2.csv'" in refused(capsys, "train p2.csv p1.csv --target y -o m.json")
    assert call("train p[12].csv --target y -o m.json --fill-missing --n-estimators 2 --quiet") == 0
    whole = pl.DataFrame({"x": [1, 2, 3, 4], "z": [1, 5, None, None], "y": [1, 2, 3, 4]})
    assert fb.load("m.json") == fb.fit(whole, "y", n_estimators=2)


def test_columns_without_a_value_have_the_type_of_training_or_of_other_files(here, capsys):
    rows = flights().select("dep_delay", "carrier", day=pl.date(2024, 1, 1) + pl.duration(days="day"), y="arr_delay")
    shape = {"n_estimators": 3, "max_depth": 3}
    model = fb.fit(rows, "y", **shape)
    model.save("m.json")
    empty = rows.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in rows.schema.items() if name != "y")
    empty[:2].write_csv("empty.csv")
    empty[:2].write_ndjson("empty.ndjson")
    expected = model.predict(empty[:2]).to_list()
    for name in ("empty.csv", "empty.ndjson"):
        assert model.predict(name).to_list() == expected
        assert call(f"score m.json {name} -o - --keep=") == 0
        assert capsys.readouterr().out.split() == ["prediction", *map(str, expected)]
    rows.write_csv("rows.csv")
    both = pl.concat([rows, empty[:2]])
    assert fb.fit(["rows.csv", "empty.csv"], "y", **shape) == fb.fit(both, "y", **shape)
    rows.drop("day").write_ndjson("rows.ndjson")
    empty[:2].drop("day").write_ndjson("empty.ndjson")
    assert fb.fit("[re]*.ndjson", "y", **shape) == fb.fit(pl.concat([empty[:2], rows]).drop("day"), "y", **shape)


def test_a_file_has_the_format_that_is_named(here, capsys):
    Path("rows.txt").write_bytes(written("tsv"))
    assert call("score delay.json rows.txt --format tsv -o - --keep id") == 0
    assert capsys.readouterr().out == scored().write_csv()
    assert "'rows.txt' is not a table in a supported format" in refused(capsys, "score delay.json rows.txt -o -")


def table(path, name):
    with duckdb.connect(path, read_only=True) as con:
        return con.sql(f"FROM {name}").pl()


@pytest.mark.slow
def test_scores_become_a_table_of_duckdb(here, capsys):
    assert call("score delay.json flights.csv -o new.duckdb::scored --keep id") == 0
    assert_frame_equal(table("new.duckdb", "scored"), scored(), check_exact=True)
    assert files() == ["new.duckdb"]
    before = Path("new.duckdb").read_bytes()
    says = refused(capsys, "score delay.json flights.csv -o new.duckdb::scored")
    assert says == "new.duckdb has a table 'scored' already; choose another name, or replace it (--replace)"
    assert Path("new.duckdb").read_bytes() == before
    assert call("score late.json flights.csv -o new.duckdb::scored --keep id --replace") == 0
    assert_frame_equal(table("new.duckdb", "scored"), scored("late"), check_exact=True)
    assert call("score kind.json flights.csv -o new.duckdb::main.classes --keep id --output class") == 0
    expected = fb.load("kind.json").predict(flights(), "class").to_list()
    assert table("new.duckdb", "classes")["prediction"].to_list() == expected


def test_a_table_is_scored_into_its_own_database(here):
    Path("own.duckdb").write_bytes(Path("flights.duckdb").read_bytes())
    assert call("score delay.json own.duckdb::flights -o own.duckdb::scored --keep id") == 0
    assert_frame_equal(table("own.duckdb", "scored"), scored(), check_exact=True)
    assert_frame_equal(table("own.duckdb", "flights"), flights(), check_dtypes=False)


def test_types_that_parquet_lacks_come_to_duckdb(here):
    rows = flights().select(*FEATURES).with_columns(
        wait=pl.duration(seconds=pl.int_range(pl.len())), wide=pl.int_range(pl.len(), dtype=pl.Int128) + 2**70
    )  # fmt: skip
    rows.write_ipc("wide.arrow")
    assert call("score delay.json wide.arrow -o new.duckdb::t") == 0
    with duckdb.connect("new.duckdb", read_only=True) as con:
        kept = con.sql("SELECT wait, wide FROM t")
        assert kept.types == ["INTERVAL", "HUGEINT"]
        found = con.sql("SELECT EPOCH(wait), wide FROM t").fetchall()
        assert found[3] == (3.0, 2**70 + 3)


@cases(("line", "says"), [
    ("-o new.duckdb", "'new.duckdb' can't be written as a table: it must end in .parquet, .pq, .csv, .tsv, .ndjson, "
     ".jsonl, .arrow, .ipc, .feather, or be a table of a DuckDB file; name the table: new.duckdb::scored"),
    ("-o text.duckdb::t", "text.duckdb can't be opened: "),
    ("-o no/new.duckdb::t", "no/new.duckdb: can't be written: No such file or directory"),
    ("-o new.duckdb::s.t", "table 's.t' of new.duckdb can't be written: Catalog Error: Schema with name s"),
])  # fmt: skip
def test_tables_that_cannot_be_made_are_refused_and_leave_nothing(here, capsys, line, says):
    Path("text.duckdb").write_text("no database")
    assert says in refused(capsys, f"score delay.json flights.csv {line}")


def test_an_error_while_rows_are_scored_leaves_the_database_as_it_was(here, capsys):
    Path("rows.csv").write_text("carrier,dep_delay\n" + "AA,1\n" * 10 + "AA,1,2,3\n")
    with duckdb.connect("old.duckdb") as con:
        con.execute("CREATE TABLE t AS SELECT 1 AS x")
    for name in ("old", "new"):
        assert call(f"score delay.json rows.csv -o {name}.duckdb::t --replace") == 1
    assert capsys.readouterr().err.count("\n") == 2
    assert files() == ["old.duckdb", "rows.csv"]
    assert table("old.duckdb", "t").rows() == [(1,)]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to(here, capsys):
    Path("closed").mkdir(mode=0o555)
    says = refused(capsys, "score delay.json flights.csv -o closed/d.duckdb::t")
    assert "can't be written: Permission denied" in says


def test_the_positive_class_and_the_history_of_a_fit(here, capsys):
    named = flights().with_columns(late=pl.when("late").then(pl.lit("late")).otherwise(pl.lit("on time")))
    named.write_parquet("named.parquet")
    line = "train named.parquet --target late --positive late --features dep_delay --n-estimators 3 -o m.json"
    assert call(f"{line} --valid 0.25 --history h.csv") == 0
    expected = fb.fit(named, "late", features=["dep_delay"], n_estimators=3, positive="late", valid=0.25)
    assert fb.load("m.json") == expected
    assert_frame_equal(pl.read_csv("h.csv"), expected.history, check_exact=True)
    assert "classes        'on time', 'late'; predicted is that of 'late'" in capsys.readouterr().out
    assert "--positive lat is not a label of target 'late'" in refused(capsys, f"{line} --positive lat")

"""Export of models: SQL files, and functions of a DuckDB connection."""

import datetime as dt
import hashlib
import json
import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.ensemble.model_file import dump_file
from frameboost.expressions.duckdb_sql import quote_identifier
from frameboost.losses.custom import foreign_loss
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.exported import named, scored, small, table_of
from tests.support.models import model_of_parts
from tests.support.random_models import NAMES, TYPES, frame_of, random_model, random_values, to_duckdb
from tests.support.warehouses import databases, open_warehouse

ESCAPING = ["x\nDROP TABLE t; --", "*/ SELECT 1; /*", "a\r\nb", "\u2028", "\x85", "日本 😀", "\\", ";"]


# --- SQL files --------------------------------------------------------------------------------------------------------


def test_the_head_says_what_the_file_is(tmp_path):
    model, _ = small()
    path = tmp_path / "m.sql"
    model.database("postgres").to_sql(path, "orders", trained="on 2026-11-21, by hand: ½", keep=["id"])
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[:6] == [
        '-- A gradient boosted model: "reg:squarederror", 3 trees, as SQL for postgres.',
        f"-- model    sha256 {hashlib.sha256(model.to_json().encode()).hexdigest()}",
        "-- trained  on 2026-11-21, by hand: ½",
        "-- reads    column: type in training, column type here",
        '--          "x": int64, BIGINT',
        '--          "s": string, TEXT',
    ]
    assert "\n".join(lines[6:]) == model.query("orders", "postgres", keep=["id"]) + ";"
    assert path.read_bytes().endswith(b";\n") and b"\r" not in path.read_bytes()


@cases("trained, lines", [
    (dt.date(2026, 11, 21), ["-- trained  2026-11-21"]),
    (dt.datetime(2026, 11, 21, 7, 30, tzinfo=dt.UTC), ["-- trained  2026-11-21T07:30:00+00:00"]),
    ("*/ DROP TABLE t; --", ["-- trained  */ DROP TABLE t; --"]),
])  # fmt: skip
def test_when_it_was_trained(tmp_path, trained, lines):
    model, _ = small()
    model.database().to_sql(tmp_path / "m.sql", "t", trained=trained)
    assert [line for line in (tmp_path / "m.sql").read_text().splitlines() if line.startswith("-- trained")] == lines


def test_the_head_has_the_metadata(tmp_path):
    model, _ = small()
    called = model.with_metadata(name="ü ${HOME}; --", version="v'3", tags={"team": 'a"b', "cost": "&1"})
    called.database("postgres").to_sql(tmp_path / "m.sql", "orders", keep=["id"])
    lines = (tmp_path / "m.sql").read_text().splitlines()
    moment = called.metadata.trained.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert lines[2:5] == [
        r'-- called   name "\u00fc \u0024\u007bHOME\u007d\u003b --", version "v\u00273"',
        f"-- trained  {moment} on 6 rows by frameboost {fb.__version__}",
        r'-- tags     "cost": "\u00261", "team": "a\u0022b"',
    ]


@cases("trained", [2026, 1.5, b"x", ["a"], "a\nb", "a\rb", "a\u2028b", "a\x85b", "\0", "a\tb", True])
def test_trained_must_be_a_date_or_one_line(tmp_path, trained):
    model, _ = small()
    with pytest.raises(fb.ParameterError) as error:
        model.database().to_sql(tmp_path / "m.sql", "t", trained=trained)
    assert str(error.value) == f"trained must be a date or a line of text, not {trained!r}"
    with pytest.raises(fb.ParameterError, match="trained must be"):
        model.database().to_dbt(tmp_path, "a", "b", trained=trained)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("database", databases("duckdb", "postgres", "sqlite"))
def test_no_name_breaks_out_of_the_comment(tmp_path, database):
    names = list(dict.fromkeys([*ESCAPING, *(name for name in NAMES if name.strip())]))
    model, frame = named(names)
    opened = open_warehouse(database)
    frame = frame.with_columns(pl.col(pl.String).str.replace_all("\0", ""))
    opened.fill_features("t", model, frame.to_dict(as_series=False))
    model.database(database).to_sql(tmp_path / "m.sql", "t", keep=["id"], trained="; DROP TABLE t")
    text = (tmp_path / "m.sql").read_bytes().decode()  # with carriage returns as they are
    head = text.splitlines()[: 4 + len(names)]
    assert all(line.startswith("-- ") and (line.isascii() and line.isprintable()) for line in head)
    assert [json.loads(line[11:].rpartition(": ")[0]) for line in head[4:]] == names
    found = sorted(tuple(row) for row in opened.rows(text))
    assert [row[1] for row in found] == model.predict(frame).to_list()


def test_an_objective_of_any_name_stays_in_its_line(tmp_path):
    model, frame = small()
    loss = foreign_loss("x\n; DROP TABLE t; --", ["margin"])
    other = model_of_parts(loss, {}, model.ensemble.features, model.ensemble.base_margins, model.ensemble.trees)
    other.database().to_sql(tmp_path / "m.sql", "t", keep=["id"])
    con = duckdb.connect()
    table_of(con, frame)
    assert scored(con, (tmp_path / "m.sql").read_text()) == model.predict(frame).to_list()


@pytest.mark.parametrize("database", databases("duckdb", "postgres", "sqlite"))
@pytest.mark.parametrize("statement", ["view", "table"])
def test_views_and_tables(tmp_path, database, statement):
    model, frame = small()
    opened = open_warehouse(database)
    opened.fill_features("t", model, frame.to_dict(as_series=False))
    target = 'new "one"'
    opened.run(f"DROP {statement} IF EXISTS {opened.dialect.quote(target)}")
    how = {"keep": ["id"], "name": "score", "where": "1 = 1", "form": "staged"}
    model.database(database).to_sql(tmp_path / "m.sql", "t", statement=statement, target='"new ""one"""', **how)
    opened.run((tmp_path / "m.sql").read_text())
    rows = sorted(opened.rows(f'SELECT "id", "score" FROM {opened.dialect.quote(target)}'))
    assert [row[1] for row in rows] == model.predict(frame).to_list()
    opened.run(f"DROP {statement} {opened.dialect.quote(target)}")


@pytest.mark.parametrize(("statement", "target"), [("query", "v"), ("view", None), ("table", None)])
def test_an_unknown_statement_is_refused(tmp_path, statement, target):
    model, _ = small()
    with pytest.raises(fb.ParameterError) as error:
        model.database().to_sql(tmp_path / "m.sql", "t", statement=statement, target=target)
    assert str(error.value).endswith(f"not {statement!r} with {target!r}")
    assert list(tmp_path.iterdir()) == []


def test_files_are_replaced_atomically(tmp_path, monkeypatch):
    model, _ = small()
    path, link = tmp_path / "m.sql", tmp_path / "link.sql"
    model.database().to_sql(path, "first")
    link.symlink_to(path)
    model.database().to_sql(str(link), "second")
    assert link.is_symlink() and 'FROM "second"' in path.read_text()
    before = path.read_bytes()
    with pytest.raises(fb.ParameterError):
        model.database("klingon").to_sql(path, "third")
    with pytest.raises(fb.ParameterError):
        model.database().to_sql(path, "third", output="odds")
    with pytest.raises(fb.ParameterError, match="surrogate"):
        model.database().to_sql(path, "third", where="'\udc00' = ''")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda self, other: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            model.database().to_sql(path, "third")
        with pytest.raises(OSError, match="full"):
            model.to_xgboost(path)
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.sql", "m.sql"]
    with pytest.raises(FileNotFoundError):
        model.database().to_sql(tmp_path / "none" / "m.sql", "t")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_written_to_and_stays(tmp_path):
    model, _ = small()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_text)
        model.save(pipe)
        assert read.result() == dump_file(model.ensemble)
    assert pipe.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


# --- views, tables, columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["case", "staged"])
def test_statements_in_duckdb(form):
    model, frame = named([name for name in NAMES if name.strip()])
    con = duckdb.connect()
    con.execute('CREATE SCHEMA "my schema"')
    table_of(con, frame, '"my schema".t')
    expected = model.predict(frame).to_list()
    how = {"keep": ["id"], "form": form}
    con.execute(model.database().create_view_sql("my schema.v", "my schema.t", **how))
    con.execute(model.database().create_table_sql('"a.b"', "my schema.t", **how))
    assert scored(con, 'FROM "my schema".v') == scored(con, 'FROM "a.b"') == expected
    con.execute("""ALTER TABLE "my schema".t ADD COLUMN "the ""score" DOUBLE""")
    con.execute(model.database().update_sql("my schema.t", 'the "score', where="id < 20"))
    assert scored(con, """SELECT id, "the ""score" FROM "my schema".t""") == expected[:20] + [None] * 20
    con.execute(model.database().update_sql("my schema.t", 'the "score', output="margin"))
    assert scored(con, """SELECT id, "the ""score" FROM "my schema".t""") == expected


# --- functions --------------------------------------------------------------------------------------------------------

# DuckDB's batches have UHUGEINT as decimals that wrap around, and intervals as what polars can't read.
NO_UDF = {"uint128", "duration[ms]", "duration[us]", "duration[ns]"}


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


@cases("type_name", sorted(NO_UDF))
def test_types_that_no_udf_takes(con, type_name):
    model = random_model([FeatureType(type_name)], ["x"], random.Random(1), n_trees=2, depth=2)
    with pytest.raises(fb.ParameterError) as error:
        model.register(con, "f", form="udf")
    assert f"feature 'x' has type {type_name}, which DuckDB can't pass to a udf" in str(error.value)


@pytest.mark.slow
def test_functions_of_all_types_together():
    rng = random.Random("all")
    kinds = [FeatureType(t) for t in TYPES if t not in NO_UDF]
    names = [f"{NAMES[i % len(NAMES)]} {i}" for i in range(len(kinds))]
    model = random_model(kinds, names, rng, n_trees=20, depth=5)
    frame = frame_of(model, {name: random_values(k, 2500, rng) for k, name in zip(kinds, names, strict=True)})
    con = duckdb.connect()
    to_duckdb(con, frame, "t")
    model.register(con, "f", form="udf")
    expected = model.predict(frame).to_list()
    call = f"f({', '.join(map(quote_identifier, names))})"
    assert scored(con, f"SELECT position, {call} FROM t") == expected
    above = sum(value > expected[0] for value in expected)
    assert con.execute(f"SELECT count(*) FROM t WHERE {call} > {expected[0]!r}").fetchall() == [(above,)]
    assert con.execute(f"SELECT {call} FROM t WHERE false").fetchall() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "outputs"),
    [
        ("multi:softprob", ["mean", "margin", "class", "probability"]),
        ("binary:logistic", ["mean", "margin", "class", "probability"]),
        ("reg:quantileerror", ["mean", "margin"]),
    ],
)
def test_functions_of_every_output(objective, outputs):
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({"x": rng.normal(size=300), "z": rng.integers(0, 9, 300)})
    label = (pl.col("x") > 0).cast(pl.Int64) + (pl.col("z") > 4).cast(pl.Int64) * int(objective == "multi:softprob")
    alpha = {"quantile_alpha": [0.1, 0.5, 0.9]} if objective == "reg:quantileerror" else {}
    model = fb.fit(frame.with_columns(y=label), "y", objective=objective, n_estimators=3, **alpha)
    con = duckdb.connect()
    table_of(con, frame)
    for output in outputs:
        for form in ("macro", "udf"):
            model.register(con, f"{form}_{output}", output=output, form=form)
        found = {form: scored(con, f"SELECT id, {form}_{output}(x, z) FROM t") for form in ("macro", "udf")}
        expected = model.predict(frame, output).to_numpy()
        np.testing.assert_array_equal(np.array(found["udf"]), expected)
        if output in ("margin", "class"):
            np.testing.assert_array_equal(np.array(found["macro"]), expected)
        else:
            np.testing.assert_allclose(np.array(found["macro"]), expected, rtol=1e-14)
        for form in ("macro", "udf"):
            [(kind,)] = con.execute(f"SELECT typeof({form}_{output}(x, z)) FROM t LIMIT 1").fetchall()
            assert kind.split("[")[0] == ("BIGINT" if output == "class" else "DOUBLE")


@pytest.mark.slow
def test_functions_are_called_from_several_threads():
    rng = np.random.default_rng(6)
    frame = pl.DataFrame({"x": rng.normal(size=60_000), "z": rng.integers(0, 99, 60_000)})
    model = fb.fit(frame[:2000].with_columns(y=pl.col("x") * pl.col("z")), "y", n_estimators=5)
    con = duckdb.connect(config={"threads": 4})
    table_of(con, frame)
    model.register(con, "f", form="udf")
    expected = model.predict(frame)
    assert [row[0] for row in con.execute("SELECT f(x, z) FROM t ORDER BY id").fetchall()] == expected.to_list()

    def half(parity: int) -> list:
        with con.cursor() as cursor:
            return cursor.execute(f"SELECT f(x, z) FROM t WHERE id % 2 = {parity} ORDER BY id").fetchall()

    with ThreadPoolExecutor(4) as pool:
        for parity, found in zip([0, 1] * 3, pool.map(half, [0, 1] * 3), strict=True):
            assert [row[0] for row in found] == expected[parity::2].to_list()


def test_what_functions_are_called_with():
    model, _ = small()
    con = duckdb.connect()
    model.register(con, "f", form="udf")
    model.register(con, "g")
    for values in ("1, 'a'", "NULL, NULL", "4, 'never seen'", "1 + 1, lower('B')"):
        (row,) = con.execute(f"SELECT f({values}), g({values})").fetchall()
        assert row[0] == row[1]
    con.execute("CREATE TABLE e AS SELECT 3::TINYINT AS x, 'a'::ENUM('a', 'b') AS s")
    assert con.execute("SELECT f(x, s) = g(x, s) FROM e").fetchall() == [(True,)]


def test_invalid_options_of_register_are_refused(monkeypatch):
    model, _ = small()
    con = duckdb.connect()
    for how, sentence in [
        ({"form": "c"}, "form must be one of 'auto', 'macro', 'udf', not 'c'"),
        (
            {"form": "udf", "temporary": False},
            "a udf is dropped with the connection; temporary=False needs form='macro'",
        ),
    ]:
        with pytest.raises(fb.ParameterError) as error:
            model.register(con, "f", **how)
        assert str(error.value) == sentence
    with pytest.raises(fb.ParameterError, match="output"):
        model.register(con, "f", form="udf", output="odds")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(fb.ParameterError) as error:
        model.register(con, "f", form="udf")
    assert str(error.value) == "form='udf' needs pyarrow: pip install 'frameboost[arrow]'; form='macro' does not"
    assert con.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name = 'f'").fetchall() == [(0,)]


def test_a_macro_may_stay_in_the_database(tmp_path):
    model, frame = small()
    with duckdb.connect(tmp_path / "d.db") as con:
        table_of(con, frame)
        model.register(con, "stays", temporary=False)
        model.register(con, "goes")
    with duckdb.connect(tmp_path / "d.db") as con:
        assert scored(con, "SELECT id, stays(x, s) FROM t") == model.predict(frame).to_list()
        with pytest.raises(duckdb.CatalogException):
            con.execute("SELECT goes(x, s) FROM t")


def test_codes_and_zeros_of_other_libraries():
    rng = random.Random("foreign")
    one = random_model([FeatureType("float64")], ["z"], rng, n_trees=8, depth=3)
    model = model_of_parts(one.ensemble.loss, {}, [Feature("z", FeatureType("float64"), (), zero_is_missing=True)],
                     one.ensemble.base_margins, one.ensemble.trees)  # fmt: skip
    frame = pl.DataFrame({"z": [0.0, -0.0, 1e-36, -1e-36, 1e-34, None, float("nan"), 1.0, -1.0, float("inf")]})
    con = duckdb.connect()
    table_of(con, frame)
    model.register(con, "f", form="udf")
    model.register(con, "g")
    expected = model.predict(frame).to_list()
    assert scored(con, "SELECT id, f(z) FROM t") == scored(con, "SELECT id, g(z) FROM t") == expected

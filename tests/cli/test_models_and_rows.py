"""The commands ``cv``, ``refit``, ``calibrate``, ``drift``, ``reasons``, ``register`` and ``dbt``, and ``--where``."""

import json
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.cli import main
from tests.cli.commands import FEATURES, call, flights, refused
from tests.support.cases import cases
from tests.support.dbt import run_dbt

DATA = ["flights.parquet", "flights.csv", "flights.duckdb::flights"]
LATER = flights().filter(pl.col("day") > 60)


def printed(capsys, words):
    assert main(words.split() if isinstance(words, str) else words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


# --- rows that a condition chooses ------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("data", DATA)
@cases(("where", "rows"), [
    ("day > 60", pl.col("day") > 60), ("carrier IS NULL OR carrier = 'UA'", pl.col("carrier").fill_null("UA") == "UA"),
    ("late -- a comment", pl.col("late")), ("kind IN (0, 2) AND NOT late", pl.col("kind").ne(1) & ~pl.col("late")),
])  # fmt: skip
def test_only_rows_for_which_a_condition_holds_are_read(here, data, where, rows):
    chosen = flights().filter(rows)
    assert main(["score", "delay.json", data, "--where", where, "--keep", "id", "-o", "s.parquet"]) == 0
    expected = chosen.select("id", prediction=fb.load("delay.json").predict(chosen))
    assert_frame_equal(pl.read_parquet("s.parquet").sort("id"), expected, check_exact=True)


def test_a_condition_is_one_of_every_command_that_reads_rows(here, capsys):
    line = ["--target", "arr_delay", "--where", "day > 60"]
    assert main(["train", "flights.csv", *line, "--features", "dep_delay", "--n-estimators", "2", "-o", "m.json"]) == 0
    assert fb.load("m.json") == fb.fit(LATER, "arr_delay", features=["dep_delay"], n_estimators=2)
    capsys.readouterr()
    text = printed(capsys, ["evaluate", "delay.json", "flights.parquet", *line, "--eval-metric", "mae"])
    assert float(text.split()[-1]) == pytest.approx(
        fb.load("delay.json").evaluate(LATER, "arr_delay", eval_metric="mae").metrics["value"].item()
    )


@pytest.mark.slow
@cases(("where", "says"), [
    ("dayy > 3", "--where 'dayy > 3' is not a SQL condition over the columns of the data"),
    ("day", "is not a SQL condition"), ("sum(day) > 3", "is not a SQL condition"), (" ", "where must be a condition"),
    ("day > 3; DROP TABLE flights", "is not a SQL condition"), ("false", "no rows"),
])  # fmt: skip
def test_what_is_no_condition_is_refused(here, capsys, where, says):
    for data in DATA:
        words = ["evaluate", "delay.json", data, "--target", "arr_delay", "--where", where]
        assert says in refused(capsys, words)


@pytest.mark.slow
def test_rows_that_chance_chooses_are_the_same_in_all_readings(here):
    words = ["train", "flights.duckdb", "--target", "arr_delay", "--features", "dep_delay", "--n-estimators", "2"]
    assert main([*words, "--where", "random() < 0.5", "--valid", "0.5", "-o", "m.json"]) == 0
    assert fb.load("m.json").n_rounds == 2


# --- other models -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("data", DATA)
def test_a_model_is_refitted_and_calibrated_as_in_python(here, data):
    words = ["--where", "day > 60", "-o", "m.json"]
    assert main(["refit", "delay.json", data, "--target", "arr_delay", "--decay-rate", "0.25", *words]) == 0
    assert fb.load("m.json") == fb.load("delay.json").refit(LATER, "arr_delay", decay_rate=0.25)
    assert main(["calibrate", "late.json", data, "--target", "late", "--method", "isotonic", *words]) == 0
    assert fb.load("m.json") == fb.load("late.json").calibrate(LATER, "late", method="isotonic")


@cases(("line", "says"), [
    ("calibrate delay.json flights.csv --target arr_delay", "two classes"),
    ("calibrate late.json flights.csv --target late --method isotnic", "did you mean 'isotonic'?"),
    ("refit delay.json flights.csv --target arr_delay --decay-rate 2", "--decay-rate must be a number from 0 to 1"),
    ("cv flights.csv --target late --folds 1", "folds must be an integer from 2 to"),
    ("cv flights.csv --target late --param valid=0.2", "cv takes no valid"),
    ("cv flights.csv --target late --early-stopping-rounds 0", "--early-stopping-rounds must be an integer of"),
])  # fmt: skip
def test_models_that_cannot_be_made_are_refused(here, capsys, line, says):
    assert says in refused(capsys, line if line.startswith("cv") else f"{line} -o m.json")


@pytest.mark.slow
@cases("data", DATA)
def test_cross_validation_prints_and_writes_the_metrics_of_python(here, capsys, data):
    line = f"cv {data} --target arr_delay --features carrier,dep_delay --folds 3 --n-estimators 4 --seed 5 --eta 0.5"
    expected = fb.cv(
        flights(), "arr_delay", features=FEATURES, folds=3, n_estimators=4, seed=5, learning_rate=0.5,
        early_stopping_rounds=2,
    )  # fmt: skip
    text = printed(capsys, f"{line} --early-stopping-rounds 2 --quiet")
    head, names, *lines = text.splitlines()
    assert head.startswith(f"after {len(expected)} rounds") and names.split() == ["metric", "mean", "deviation"]
    last = expected.row(-1, named=True)
    assert [each.split() for each in lines] == [
        [name, f"{last[f'{name}_mean']:.6g}", f"{last[f'{name}_std']:.6g}"] for name in ("train_rmse", "valid_rmse")
    ]
    assert call(f"{line} --early-stopping-rounds 2 --quiet -o rounds.parquet") == 0
    assert_frame_equal(pl.read_parquet("rounds.parquet"), expected, rel_tol=1e-12)


@pytest.mark.slow
@cases("data", DATA)
def test_predictions_of_rows_that_were_held_out_are_written(here, data):
    shared = ["--target", "kind", "--objective", "multi:softprob", "--features", "dep_delay", "--n-estimators", "3",
              "--param", "stratified=true", "--quiet", "--out-of-fold", "o.parquet"]  # fmt: skip
    options = {"features": ["dep_delay"], "n_estimators": 3, "objective": "multi:softprob", "stratified": True}
    model = fb.fit(flights(), "kind", folds=3, **options)
    validated = fb.cv(flights(), "kind", folds=3, **options, return_models=True)
    for line, expected in (
        (["train", data, "--folds", "3", "-o", "m.json"], model), (["cv", data, "--folds", "3"], validated)
    ):  # fmt: skip
        assert main([*line, *shared]) == 0
        found = expected.out_of_fold.with_columns(
            pl.col("prediction").arr.to_struct([f"prediction_{k}" for k in range(3)])
        ).unnest("prediction")
        assert_frame_equal(pl.read_parquet("o.parquet"), found, check_exact=True)


# --- drift and reasons, here or by a query ----------------------------------------------------------------------------


@pytest.fixture
def named(here):
    """A model with the shares of its rows of training."""
    fb.load("delay.json").with_baseline(flights(), bins=4).save("named.json")
    return here


@pytest.mark.slow
def test_drift_is_that_of_the_query(named, capsys):
    lines = printed(capsys, "drift named.json flights.parquet --where day>60").splitlines()
    query = printed(capsys, ["drift", "named.json", "--table", "flights", "--where", "day > 60"])
    with duckdb.connect("flights.duckdb", read_only=True) as con:
        expected = con.sql(f"SELECT DISTINCT feature, psi FROM ({query}) ORDER BY psi DESC").fetchall()
    assert lines[0].split() == ["feature", "psi", "rows"]
    assert [line.split() for line in lines[1:]] == [[name, f"{psi:.6g}", f"{len(LATER)}"] for name, psi in expected]
    baseline = printed(capsys, "drift delay.json flights.csv --where day>60 --baseline flights.parquet").splitlines()
    assert [line.split()[0] for line in baseline[1:]] == [line.split()[0] for line in lines[1:]]
    assert call("drift named.json flights.csv --fail-above 0.01") == 0
    assert call("drift named.json flights.csv --time kind -o d.csv --fail-above 0.2") == 1
    assert "psi is above 0.2 in 'carrier', 'dep_delay'" in capsys.readouterr().err
    assert pl.read_csv("d.csv")["period"].unique().sort().to_list() == [0, 1, 2]


@pytest.mark.slow
def test_reasons_are_those_of_python_and_of_the_query(here, capsys):
    model = fb.load("delay.json")
    expected = pl.concat([flights().select("id"), model.explain(flights(), top=1)], how="horizontal")
    for data in DATA:
        assert call(f"reasons delay.json {data} --top 1 --keep id -o r.parquet") == 0
        assert_frame_equal(pl.read_parquet("r.parquet").sort("id"), expected, check_exact=True)
    query = printed(capsys, "reasons delay.json --table flights --top 1 --keep id --sign -1 --texts carrier=Who")
    lower = model.explain(flights(), top=1, sign=-1, texts={"carrier": "Who"})["reason_1"]
    with duckdb.connect("flights.duckdb", read_only=True) as con:
        assert con.sql(query).pl().sort("id")["reason_1"].to_list() == lower.to_list()
    lines = printed(capsys, "reasons kind.json flights.csv --output 2 --top 2").splitlines()
    assert lines[0] == "reasons, of the first 10 of 400 rows" and len(lines) == 12
    of_class = fb.load("kind.json").explain(flights(), top=2, output=2)
    assert [line.split()[0] for line in lines[2:]] == of_class["reason_1"].head(10).to_list()


@pytest.mark.slow
@cases(("line", "says"), [
    ("cv flights.csv --target late --param return_models=true", "--out-of-fold writes the predictions"),
    ("train flights.csv --target late -o m.json --out-of-fold o.csv", "--out-of-fold needs --folds"),
    ("drift delay.json", "pass DATA, the rows, or --table"), ("reasons delay.json", "pass DATA, the rows, or --table"),
    ("drift delay.json flights.csv", "pass the training rows as --baseline"),
    ("drift delay.json flights.csv --column-map x=y", "--column-map is for a query, without DATA"),
    ("drift delay.json --table t --time day", "--time needs DATA"),
    ("drift delay.json --table t --null-values NA", "--null-values and --fill-missing are for DATA"),
    ("reasons delay.json flights.csv --trees t", "--trees is for a query, without DATA"),
    ("reasons kind.json flights.csv", "name one by --output: 0, 1, 2"),
    ("reasons delay.json flights.csv --sign two", "invalid int value: 'two'"),
    ("register delay.json --name f --in flights.duckdb --dialect postgres", "--in is for a DuckDB file"),
    ("register delay.json --name f --in flights.duckdb --column-map carrier=c", "passes the columns by position"),
])  # fmt: skip
def test_usage_of_rows_here_or_there(here, capsys, line, says):
    assert says in refused(capsys, line, 2)


@pytest.mark.slow
@cases(("line", "says"), [
    ("reasons delay.json flights.csv --top 3", "top must be an integer from 1 to 2"),
    ("reasons delay.json flights.csv --sign 2", "sign must be 1"),
    ("reasons delay.json flights.csv --texts carier=x", "did you mean 'carrier'?"),
    ("drift delay.json --table t", "the model has no baseline; pass the training rows as --baseline, or store"),
    ("drift delay.json flights.csv --baseline flights.csv --time dayy", "'dayy' is not in the data"),
    ("drift delay.json flights.csv --baseline flights.csv --where false", "the data has no rows"),
    ("register delay.json --name f --in no.duckdb", "no.duckdb: no such file"),
    ("register delay.json --name f --in flights.parquet", "flights.parquet is not a DuckDB file"),
    ("register delay.json --name f --in flights.csv", "flights.csv is not a DuckDB file"),
    ("prove delay.json --table flights --run flights.parquet", "flights.parquet is not a DuckDB file"),
    ("register delay.json --name sum --in flights.duckdb", "sum"),
    ("drift delay.json no*.parquet --baseline flights.csv", "no file matches 'no*.parquet'"),
    ("train no*.parquet --target late -o m.json", "no file matches 'no*.parquet'"),
    ("register kind.json --name f --output probability --dialect mysql", "mysql"),
    ("dbt delay.json . --name a-b --source t", "name"), ("dbt delay.json . --name a --source a", "can't read itself"),
    ("dbt delay.json . --name a --source t --materialized incremental", "--unique-key id"),
    ("dbt delay.json . --name a --source t --contract", "contract needs keep"),
    ("dbt delay.json . --name a --source t --contract id=BIGINT --keep day", "contract has a type of 'id'"),
])  # fmt: skip
def test_bad_input_of_rows_here_or_there(here, capsys, line, says):
    if "--in flights.duckdb" in line:
        Path("flights.duckdb").rename("old.duckdb")
        Path("flights.duckdb").write_bytes(Path("old.duckdb").read_bytes())
        Path("old.duckdb").unlink()
    assert says in refused(capsys, line)


@pytest.mark.slow
def test_names_are_data_in_drift_and_register(here, capsys):
    name, table, function = "we\"ird, name=1 '$(x);--", 't "t', "sc\"o're"
    hostile = flights().select(pl.col("dep_delay").alias(name), "arr_delay")
    hostile.write_csv("hostile.csv")
    with duckdb.connect("hostile.duckdb") as con:
        con.execute('CREATE TABLE "t ""t" AS FROM hostile')
    model = fb.fit(hostile, "arr_delay", n_estimators=2)
    model.with_baseline(hostile[:300]).save("hostile.json")
    later = fb.load("hostile.json").database().drift_query('"t ""t"', where="rowid >= 0")
    with duckdb.connect("hostile.duckdb") as con:
        psi = dict(con.sql(later).select("feature", "psi").fetchall())[name]
    for data in ("hostile.csv", f"hostile.duckdb::{table}"):
        line = printed(capsys, ["drift", "hostile.json", data]).splitlines()[1]
        assert line.startswith(name) and line.split()[-2:] == [f"{psi:.6g}", "400"]
    said = printed(capsys, ["register", "hostile.json", "--in", "hostile.duckdb", "--name", function])
    assert said == f"hostile.duckdb has the function {function}, of {name!r}\n"
    with duckdb.connect("hostile.duckdb") as con:
        scored = con.sql(f'SELECT "sc""o\'re"("{name.replace(chr(34), chr(34) * 2)}") FROM "t ""t" ORDER BY rowid')
        assert [value for (value,) in scored.fetchall()] == model.predict(hostile).to_list()


# --- in a database, and in a project of dbt ---------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_is_a_function_of_a_database(here, capsys):
    with duckdb.connect("own.duckdb") as con:
        con.execute("ATTACH 'flights.duckdb' AS f (READ_ONLY); CREATE TABLE flights AS FROM f.flights")
    line = "register delay.json --in own.duckdb --name delay"
    assert printed(capsys, line) == "own.duckdb has the function delay, of 'carrier', 'dep_delay'\n"
    assert printed(capsys, line)  # its own function is replaced
    with duckdb.connect("own.duckdb") as con:
        found = con.sql("SELECT delay(carrier, dep_delay) FROM flights ORDER BY id").fetchall()
        con.execute("CREATE MACRO theirs(x) AS x")
    assert [value for (value,) in found] == fb.load("delay.json").predict(flights()).to_list()
    assert "theirs" in refused(capsys, "register delay.json --in own.duckdb --name theirs")
    assert printed(capsys, "register delay.json --in own.duckdb --name theirs --replace")
    statement = printed(capsys, "register late.json --dialect postgres --name late --output margin")
    assert fb.load("late.json").database("postgres").create_function_sql("late", output="margin") in statement
    assert statement.endswith(";\n")


@pytest.mark.slow
def test_a_model_is_one_of_a_dbt_project(named, capsys):
    project = Path("shop").resolve()
    project.mkdir()
    (project / "dbt_project.yml").write_text("name: shop\nversion: 1.0.0\nprofile: shop\n")
    own = {"type": "duckdb", "path": str(Path("shop.duckdb").resolve())}
    (project / "profiles.yml").write_text(json.dumps({"shop": {"target": "own", "outputs": {"own": own}}}))
    with duckdb.connect("shop.duckdb") as con:
        con.execute("ATTACH 'flights.duckdb' AS f (READ_ONLY); CREATE TABLE stg AS FROM f.flights")
    (project / "models").mkdir()
    (project / "models" / "stg_flights.sql").write_text("SELECT * FROM stg")
    line = "dbt named.json shop --name scored --source stg_flights --keep id --contract id=BIGINT --self-test 20"
    words = [*line.split(), "--check", "flights.csv", "--exposure",
             '{"name": "board", "type": "dashboard", "owner": {"name": "O\'Hara"}}']  # fmt: skip
    paths = printed(capsys, words).splitlines()
    assert "shop/models/scored.sql" in paths and "shop/tests/scored_drift.sql" in paths
    (built,) = run_dbt(project, "build")
    assert built["error"] is None and {status for status, _ in built["nodes"].values()} <= {"success", "pass", "no-op"}
    with duckdb.connect("shop.duckdb", read_only=True) as con:
        scored = con.sql("SELECT prediction FROM scored ORDER BY id").fetchall()
    assert [value for (value,) in scored] == fb.load("delay.json").predict(flights()).to_list()


# --- hostile names ----------------------------------------------------------------------------------------------------

NAMES = ['a"b', "x=1,y", "it's; DROP TABLE t; --", "{{ jinja }}", "日本 ☃", "--where", " "]


@pytest.mark.slow
def test_names_and_values_are_data(here, capsys, tmp_path):
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({name: rng.normal(size=80) for name in NAMES[:-1]})
    rows = rows.with_columns(
        pl.Series(NAMES[-1], rng.choice(["it's", "'; --", "{% x %}", "a,b"], 80)), id=pl.int_range(80)
    )
    rows = rows.with_columns(y=pl.col(NAMES[0]) + pl.col(NAMES[1]), late=pl.col(NAMES[2]) > 0)
    rows.write_parquet("h.parquet")
    rows.write_csv("h.csv")
    with duckdb.connect("h.duckdb") as con:
        con.execute('CREATE TABLE "h t" AS FROM rows')
    model = fb.fit(rows, "y", exclude=["id", "late"], n_estimators=3)
    model.with_baseline(rows).save("h.json")
    fb.fit(rows, "late", exclude=["id", "y"], n_estimators=3).save("hl.json")
    where = """ "it's; DROP TABLE t; --" > 0 AND " " IN ('it''s', '''; --', '{% x %}') """
    chosen = rows.filter(pl.col(NAMES[2]) > 0, pl.col(" ") != "a,b")
    texts = json.dumps({NAMES[0]: "a text, = too", NAMES[5]: "{{ x }}"})
    for data in ("h.parquet", "h.csv", "h.duckdb::h t"):
        assert main(["score", "h.json", data, "--where", where, "--keep", '"x=1,y"', "-o", "s.parquet"]) == 0
        assert pl.read_parquet("s.parquet")["prediction"].sort().to_list() == model.predict(chosen).sort().to_list()
        assert main(["refit", "h.json", data, "--target", "y", "--where", where, "-o", "r.json"]) == 0
        assert fb.load("r.json") == model.refit(chosen, "y")
        assert main(["reasons", "h.json", data, "--texts", texts, "--keep", "id", "-o", "q.parquet"]) == 0
        reasons = model.explain(rows, top=3, texts=json.loads(texts))
        assert_frame_equal(pl.read_parquet("q.parquet").sort("id").drop("id"), reasons, check_exact=True)
        assert main(["drift", "h.json", data, "-o", "d.parquet"]) == 0
        assert sorted(pl.read_parquet("d.parquet")["feature"]) == sorted(NAMES)
        assert pl.read_parquet("d.parquet")["psi"].max() < 1e-9
        assert main(["calibrate", "hl.json", data, "--target", "late", "-o", "c.json"]) == 0
        assert main(["cv", data, "--target", "y", "--exclude", "id,late", "--n-estimators", "1", "-o", "cv.csv"]) == 0
    capsys.readouterr()
    assert printed(capsys, ["register", "h.json", "--in", "h.duckdb", "--name", '"a ""b"""']).startswith("h.duckdb has")
    query = printed(capsys, ["reasons", "h.json", "--table", "h t", "--texts", texts, "--keep", "id"])
    with duckdb.connect("h.duckdb", read_only=True) as con:
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in model.features)
        found = con.sql(f'SELECT "a ""b"""({names}) FROM "h t" ORDER BY id').fetchall()
        assert [value for (value,) in found] == model.predict(rows).to_list()
        assert con.sql(query).pl().sort("id")["reason_1"].to_list() == reasons["reason_1"].to_list()
    assert main(["dbt", "h.json", "shop", "--name", "scored", "--source", "stg", "--keep", '"{{ jinja }}",id']) == 0
    text = Path("shop/models/scored.sql").read_text()
    assert '{{ ref("stg") }}' in text and '"{{ jinja }}"' not in text

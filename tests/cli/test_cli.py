"""The command line: the same results as the Python API, and errors of one line."""

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.cli import main, warmup
from frameboost.loading import open_model
from frameboost.parameters.parameters import Parameters
from tests.cli.commands import ENVIRONMENT, FEATURES, ROOT, call, files, flights, numbers, refused, run, write_data
from tests.support.cases import cases

# --- train ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("data", ["flights.parquet", "flights.csv", "flights.arrow", "flights.duckdb::flights", "flights.duckdb"])
def test_training_gives_the_model_of_python(here, capsys, data):
    line = f"train {data} --target arr_delay --features carrier,dep_delay --n-estimators 4 --max-depth 3 -o m.json"
    assert main(line.split()) == 0
    assert fb.load("m.json") == fb.load("delay.json")
    *facts, seconds, file = capsys.readouterr().out.splitlines()
    assert facts == [
        "objective  reg:squarederror, as target 'arr_delay' is numeric",
        "rows       400 to train on",
        "features   2: carrier string, dep_delay int64",
        "trees      4 in 4 rounds (depth 3, 32 leaves)",
        "metric     none, as no rows were held out; --valid 0.2 holds out a fifth",
    ]
    assert re.fullmatch(r"seconds    \d+\.\d", seconds)
    assert file == f"file       m.json ({Path('m.json').stat().st_size / 1000:.1f} kB)"


@pytest.mark.slow
def test_training_says_that_zeros_and_ones_may_be_classes(here, capsys):
    flights().select("dep_delay", pl.col("late").cast(pl.Int8)).write_csv("numbers.csv")
    con = duckdb.connect("numbers.duckdb")
    con.execute("CREATE TABLE numbers AS FROM 'numbers.csv'")
    con.close()
    for data in ("numbers.csv", "numbers.duckdb"):
        assert main(f"train {data} --target late --n-estimators 1 -o m.json".split()) == 0
        said = capsys.readouterr().out
        assert "as target 'late' is 0 or 1; --objective binary:logistic would predict the probability of 1\n" in said


@pytest.mark.slow
def test_train_takes_every_argument_of_fit(here, capsys):
    words = [
        "train", "flights.parquet", "--target", "late", "-o", "m.json", "--objective", "binary:logistic",
        "--features", "carrier", "--features", "dep_delay,day", "--weight", "id", "--valid", "day >= 80",
        "--eval-metric", "auc,logloss", "--engine", "polars", "--early-stopping-rounds", "3", "--learning-rate", ".5",
        "--reg-lambda", "1e-1", "--grow-policy", "symmetric", "--monotone-constraints", "dep_delay=1,day=-1",
        "--interaction-constraints", '[["carrier", "dep_delay"], ["day"]]', "--subsample", "0.8",
        "--min-delta", "0.001", "--param", "max_depth=3", "--param", "reg-alpha=0.01", "--n-estimators", "6",
    ]  # fmt: skip
    assert main(words) == 0
    expected = fb.fit(
        flights(), "late", objective="binary:logistic", features=[*FEATURES, "day"], weight="id", valid="day >= 80",
        eval_metric=["auc", "logloss"], engine="polars", early_stopping_rounds=3, learning_rate=0.5, reg_lambda=0.1,
        grow_policy="symmetric", monotone_constraints={"dep_delay": 1, "day": -1}, max_depth=3, reg_alpha=0.01,
        n_estimators=6, min_delta=0.001, interaction_constraints=[["carrier", "dep_delay"], ["day"]], subsample=0.8,
    )  # fmt: skip
    assert fb.load("m.json") == expected
    said = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert said["objective"].strip() == "binary:logistic, as --objective says"
    assert said["best round"].strip() == f"{expected.best_iteration} of {expected.n_rounds}"
    last = expected.history.row(expected.n_rounds - 1, named=True)
    assert said["valid_logloss"].strip() == f"{last['valid_logloss']:.6g}"
    assert said["rows"].strip() == "320 to train on, 80 to validate on"


@pytest.mark.slow
def test_training_in_a_database_with_flags_targets_and_other_tables(here, capsys):
    flights().filter(pl.col("day") > 70).write_csv("valid.csv")
    flights().filter(pl.col("day") > 70).write_parquet("valid.parquet")
    shared = "--features dep_delay,carrier --n-estimators 2 --booster dart --rate-drop 0.5 --one-drop --quiet -o m.json"
    shared += " --objective reg:squarederror"
    more = {"n_estimators": 2, "booster": "dart", "rate_drop": 0.5, "one_drop": True, "objective": "reg:squarederror"}
    expected = fb.fit(flights(), ["arr_delay", "late"], features=["dep_delay", "carrier"], **more)
    for data, valid in [("flights.duckdb::flights", "valid.csv"), ("flights.csv", "valid.parquet"),
                        ("flights.csv", "flights.duckdb::flights")]:  # fmt: skip
        assert call(f"train {data} --target arr_delay,late --valid {valid} {shared}") == 0
        assert fb.load("m.json") == expected
    assert call("train flights.csv --target arr_delay --quiet --n-estimators 1 -o q.json --objective "
                "reg:quantileerror --quantile-alpha 0.1,0.9") == 0  # fmt: skip
    assert fb.load("q.json").parameters["quantile_alpha"] == [0.1, 0.9]
    assert capsys.readouterr().out == ""


def test_train_goes_on_from_a_checkpoint(here, capsys):
    line = "train flights.parquet --target arr_delay --features carrier,dep_delay --max-depth 3 --quiet -o m.json"
    line += " --checkpoint fit.json --checkpoint-every 2"
    for number, writes in ((3, [2, 1]), (4, [2, 1, 1])):
        assert main([*line.split(), "--n-estimators", str(number)]) == 0
        _, *lines = Path("fit.json").read_text().splitlines()
        assert [len(json.loads(each)["rounds"]) for each in lines] == writes
    assert fb.load("m.json") == fb.load("delay.json")
    assert main([*line.split(), "--n-estimators", "4", "--subsample", "0.5"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_train_continues_a_model_and_trains_rankers(here):
    shared = "--features carrier,dep_delay --max-depth 3 --quiet"
    line = f"train flights.parquet --target arr_delay --init-model delay.json {shared} --n-estimators 2 -o m.json"
    assert main(line.split()) == 0
    assert fb.load("m.json").n_rounds == 6
    line = f"train flights.parquet --target kind --objective rank:ndcg --group day {shared} --n-estimators 2 -o r.json"
    assert main([*line.split(), "--no-lambdarank-normalization"]) == 0
    expected = fb.fit(flights(), "kind", objective="rank:ndcg", group="day", features=FEATURES, max_depth=3,
                      n_estimators=2, lambdarank_normalization=False)  # fmt: skip
    assert fb.load("r.json") == expected


def test_every_parameter_is_an_option(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    for name in Parameters.__dataclass_fields__:
        assert f"--{name.replace('_', '-')} " in text or f"--{name.replace('_', '-')}," in text


@pytest.mark.slow
def test_auto_gives_the_model_of_python(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"x": rng.normal(size=60), "s": rng.choice(["a", "b"], 60), "w": rng.integers(1, 3, 60)})
    frame = frame.with_columns(y=pl.col("x") * 2 + pl.col("s").eq("a"))
    frame.write_parquet(tmp_path / "rows.parquet")
    out = tmp_path / "model.json"
    words = ["auto", str(tmp_path / "rows.parquet"), "--target", "y", "-o", str(out), "--quality", "2",
             "--features", "x,s"]  # fmt: skip
    assert main([*words, "--param", "n_estimators=8", "--param", "weight=w", "--seed", "3"]) == 0
    expected = fb.auto(frame, "y", quality=2, features=["x", "s"], n_estimators=8, weight="w", seed=3)
    assert fb.load(out) == expected
    printed = capsys.readouterr().out
    assert "trees      " in printed and "symmetric" in printed
    assert main([*words, "--quality", "9"]) == 1
    assert "quality must be an integer from 1 to 5, not 9" in capsys.readouterr().err


@pytest.mark.slow
def test_warmup_compiles_kernels_once(monkeypatch, capsys):
    monkeypatch.setattr(warmup, "_MANY", 10_000)  # not to compile what no other test needs
    for _ in range(2):
        assert main(["warmup", "explain"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["explain", "kernels"]
    assert lines[0].split()[1] == "0"


def test_an_unknown_kind_to_warm_up_is_named(capsys):
    assert main(["warmup", "numbers", "nonsense"]) == 1
    assert capsys.readouterr().err.startswith("frameboost: kind 'nonsense' is not one of 'numbers', 'strings', ")


# --- sql --------------------------------------------------------------------------------------------------------------


def sql(capsys, line):
    assert main(line if isinstance(line, list) else line.split()) == 0
    return capsys.readouterr().out


def test_sql_says_what_python_says(here, capsys):
    delay, late, kind = (fb.load(f"{name}.json") for name in ("delay", "late", "kind"))
    assert sql(capsys, "sql delay.json") == delay.sql() + "\n"
    assert sql(capsys, "sql late.json --dialect snowflake --output margin") == late.sql("margin", "snowflake") + "\n"
    query = sql(capsys, shlex.split("sql late.json --table flights --keep id,day --name p --where 'id < 9'"))
    assert query == late.query("flights", keep=["id", "day"], where="id < 9", name="p") + "\n"
    with duckdb.connect("flights.duckdb", read_only=True) as con:
        scored = con.sql(query).pl()
        expected = flights().head(9).select("id", "day", late.predict(flights().head(9)).alias("p"))
        assert_frame_equal(scored.sort("id"), expected, check_exact=True)
        several = con.sql(sql(capsys, "sql kind.json --table flights --keep id --output probability")).pl().sort("id")
        assert (several.drop("id").to_numpy() == kind.predict(flights(), "probability").to_numpy()).all()
    query = sql(capsys, "sql delay.json --table t --column-map dep_delay=delay,carrier=airline --keep=")
    assert query == delay.query("t", columns={"dep_delay": "delay", "carrier": "airline"}, keep=[]) + "\n"


@pytest.mark.slow
@cases("what", ["--view scored", "--create-table scored", "--update score",
                "--create-table scored --keep id --form table --trees tt --statements"])  # fmt: skip
def test_sql_statements_run_in_duckdb(here, what):
    assert call(f"sql delay.json --table flights {what} -o s.sql") == 0
    df = flights().with_columns(score=pl.lit(None, pl.Float64))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE flights AS SELECT * FROM df")
        con.execute(Path("s.sql").read_text())
        column, table = ("score", "flights") if "--update" in what else ("prediction", "scored")
        found = con.sql(f"SELECT {column} FROM {table} ORDER BY id").pl().to_series()
        assert found.to_list() == fb.load("delay.json").predict(df).to_list()


def test_every_statement_may_start_from_margins(here, capsys):
    database = fb.load("delay.json").database(base_margin="start")
    line = "sql delay.json --table t --base-margin start"
    assert sql(capsys, f"{line} --update score") == database.update_sql("t", "score") + ";\n"
    assert sql(capsys, f"{line} --view v --keep id") == database.create_view_sql("v", "t", keep=["id"]) + ";\n"
    assert '"start"' in database.update_sql("t", "score")


def test_limits_are_given_one_by_one(here, capsys):
    line = "sql delay.json --dialect snowflake --table t --keep id"
    size = len(sql(capsys, f"{line} --view v")) - len(";\n")
    assert sql(capsys, f"{line} --view v --limit view={size} --limit text=none").startswith("CREATE VIEW")
    said = f"it has {size:,} bytes, and a view in snowflake at most {size - 1:,}; make a table of it"
    assert said in refused(capsys, f"{line} --view v --limit view={size - 1}")
    assert "a query in snowflake at most 99;" in refused(capsys, f"{line} --limit text=99")
    assert "a query in duckdb at most 99" in refused(capsys, "sql delay.json --table t --update u --limit text=99")
    assert "a query in duckdb at most 99" in refused(capsys, "sql delay.json --limit text=99")
    staged = sql(capsys, f"{line} --limit case-depth=2")
    assert staged == fb.load("delay.json").query("t", "snowflake", keep=["id"], limits={"case_depth": 2}) + "\n"
    assert staged.startswith("WITH")


@pytest.mark.slow
@cases("options", ["--keep id", "--form table", "--trees t", "--view v", "--where x", "--statements",
                   "--table t --view v --create-table w", "--table t --update u --keep id", "--column-map x",
                   "--limit 5", "--limit", "--out"])  # fmt: skip
def test_sql_options_that_do_not_go_together(here, capsys, options):
    refused(capsys, f"sql delay.json {options}", 2)


# --- score ------------------------------------------------------------------------------------------------------------


@cases(("data", "out"), [("flights.parquet", "out.csv"), ("flights.csv", "out.parquet"), ("flights.arrow", "out.tsv"),
                         ("flights.duckdb", "out.feather")])  # fmt: skip
def test_scores_are_those_of_python(here, data, out):
    assert main(["score", "late.json", data, "-o", out]) == 0
    read = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".feather": pl.read_ipc,
            ".tsv": lambda path: pl.read_csv(path, separator="\t")}  # fmt: skip
    expected = flights().with_columns(fb.load("late.json").predict(flights()))
    assert_frame_equal(read[Path(out).suffix](out), expected, check_exact=True)
    assert files() == [out]
    Path(out).unlink()


@pytest.mark.slow
def test_labels_are_trained_on_and_written(here, capsys):
    named = flights().with_columns(pl.col("kind").replace_strict({0: "early", 1: "on time", 2: "late"}))
    named.write_csv("named.csv")
    options = "--features dep_delay,carrier --n-estimators 2 --valid 'day > 80' -o named.json"
    assert main(["train", "named.csv", "--target", "kind", *shlex.split(options)]) == 0
    model = fb.fit(named, "kind", features=["dep_delay", "carrier"], n_estimators=2, valid="day > 80")
    assert fb.load("named.json") == model
    said = capsys.readouterr().out
    assert "multi:softprob, as target 'kind' has 3 labels\nclasses         'early', 'late', 'on time'\n" in said
    assert call("score named.json named.csv -o p.parquet --keep id --output probability") == 0
    shares = model.predict(named, "probability").struct.unnest()
    expected = shares.rename({label: f"prediction_{label}" for label in model.classes})
    assert_frame_equal(pl.read_parquet("p.parquet").drop("id"), expected, check_exact=True)
    assert call("score named.json named.csv -o - --keep id --output class") == 0
    assert capsys.readouterr().out.splitlines()[1] == f"0,{model.predict(named, 'class')[0]}"
    assert call("sql named.json --table flights --keep id --output class --dialect postgres") == 0
    assert " THEN 'late' ELSE 'on time' END AS \"prediction\"" in capsys.readouterr().out
    assert call("train flights.csv --target late --features dep_delay --n-estimators 1 -o l.json") == 0
    assert capsys.readouterr().out.startswith("objective  binary:logistic, as target 'late' is Boolean\n")


def test_score_writes_a_column_for_each_tree(here, capsys):
    model = fb.load("kind.json")
    for data in ("flights.duckdb", "flights.csv"):
        assert main(["score", "kind.json", data, "-o", "-", "--keep", "", "--output", "leaf"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == ",".join(f"prediction_{i}" for i in range(model.n_trees))
        assert [list(map(int, line.split(","))) for line in lines[1:]] == model.predict(flights(), "leaf").to_list()


@pytest.mark.slow
def test_score_writes_intervals_that_differ_by_a_column_that_is_no_feature(here, capsys):
    assert "kind" not in FEATURES
    model = fb.load("delay.json").conform(flights(), "arr_delay", groups="kind")
    model.save("sure.json")
    expected = model.predict(flights(), "interval").struct.unnest()
    for data in ("flights.parquet", "flights.csv", "flights.duckdb"):
        assert call(f"score sure.json {data} -o p.parquet --keep id --output interval") == 0
        found = pl.read_parquet("p.parquet").sort("id")
        assert found.columns == ["id", "prediction_lower", "prediction_upper"]
        assert found.drop("id").rows() == expected.rows()
    assert call("sql sure.json --table flights --keep id --output interval") == 0
    query = capsys.readouterr().out.replace('"flights"', "'flights.parquet'")
    assert duckdb.sql(query).order("id").pl().drop("id").rows() == expected.rows()
    assert call("show sure.json") == 0
    assert "\ninterval     90 % coverage, prediction ± " in capsys.readouterr().out
    options = "flights.parquet --target arr_delay --resamples 2"
    assert call(f"compare delay.json sure.json {options}") == 0
    assert "interval" in capsys.readouterr().out


def test_no_rows_and_many_rows(here, capsys, monkeypatch):
    flights().clear().write_parquet("none.parquet")
    assert call("score delay.json none.parquet -o - --keep id") == 0
    assert capsys.readouterr().out == "id,prediction\n"
    monkeypatch.setattr("frameboost.cli.scoring._ROWS_AT_A_TIME", 7)
    assert call("score delay.json flights.csv -o flights.arrow.parquet --keep id") == 0
    expected = flights().select("id", fb.load("delay.json").predict(flights()))
    assert_frame_equal(pl.read_parquet("flights.arrow.parquet"), expected, check_exact=True)


def test_scoring_over_its_own_input(here):
    flights().write_parquet("own.parquet")
    assert call("score delay.json own.parquet -o own.parquet") == 0
    assert pl.read_parquet("own.parquet").width == flights().width + 1


def test_output_replaces_the_target_of_a_link_but_no_device(here):
    Path("old.csv").write_text("old")
    Path("link.csv").symlink_to(here / "old.csv")
    assert call("score delay.json flights.parquet -o link.csv") == 0
    assert Path("link.csv").is_symlink()
    assert Path("old.csv").read_text().startswith("id,")
    assert call("convert delay.json -o /dev/null") == 0
    assert not Path("/dev/null").is_file()


# --- show, convert ----------------------------------------------------------------------------------------------------


def test_show(here, capsys):
    df = pl.DataFrame({"x": [1, 2, 3, None], "c": ["a", "b", "a", "b"], "y": [0.0, 4.0, 8.0, 8.0]})
    model = fb.fit(df, "y", n_estimators=2, learning_rate=1, reg_lambda=0)
    model.with_metadata(name="small", version="2", tags={"team": "ops"}).save("m.json")
    assert call("show m.json --trees 1 --importance weight") == 0
    expected = f"""\
Model: reg:squarederror, 2 trees (depth 2, 4 leaves), 2 features
rounds       2
base margin  5
called       small, version 2
trained      {model.metadata.moment} on 4 rows by frameboost {fb.__version__}
tag          team=ops
sha256       {model.sha256}

parameters other than by default
  learning_rate  1.0
  n_estimators   2
  reg_lambda     0.0

feature  type                   weight
x        int64                       2
c        string (2 categories)       0

tree 0
  "x" < 3?
    yes: "x" < 2?
      yes: -5
      no or missing: -1
    no or missing: 3
"""
    assert capsys.readouterr().out == expected
    assert call("show kind.json --trees 4") == 0
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("tree ")] == [
        "tree 0 (output 0)", "tree 1 (output 1)", "tree 2 (output 2)", "tree 3 (output 0)",
    ]  # fmt: skip
    assert "num_class" in out


def test_show_writes_floats_short_and_asks_for_what_is_missing(here, capsys):
    df = pl.DataFrame({"x": [None, None, 0.1, 0.3], "y": [0.0, 0.0, 8.0, 7.0]}, schema_overrides={"x": pl.Float32})
    fb.fit(df, "y", n_estimators=1, learning_rate=1, reg_lambda=0).save("m.json")
    assert call("show m.json --trees 1") == 0
    *_, tree = capsys.readouterr().out.partition("tree 0\n")
    inside = ["      yes: 4.25", "      no or missing: 3.25"]
    assert tree.splitlines() == ['  "x" IS NOT NULL?', '    yes: "x" < 0.2?', *inside, "    no: -3.75"]


def test_a_model_is_tagged_and_deployed_and_gone_back_to(here, capsys):
    line = (
        "tag delay.json --name delay --version 3 --tag team=ops --tag note=a=b --baseline flights.parquet -o named.json"
    )
    assert call(line) == 0
    named, model = fb.load("named.json"), fb.load("delay.json")
    assert (named.metadata.title, named.metadata.tags) == ("delay, version 3", {"team": "ops", "note": "a=b"})
    assert named.baseline.features.equals(model.database().baseline(pl.read_parquet("flights.parquet")))
    database = named.database("postgres", columns={"carrier": "line"})
    how = "--dialect postgres --view s.scored --label v3"
    line = f"deploy named.json {how} --table flights --column-map carrier=line --keep id --where id>3 --stamp"
    assert call(line) == 0
    head, begin, text = capsys.readouterr().out.partition("BEGIN;\n")
    statements = database.deploy_statements("s.scored", "flights", label="v3", keep=["id"], where="id>3", stamp=True)
    assert begin + text == "".join(f"{statement};\n" for statement in statements)
    assert '-- called   name "delay", version "3"' in head.splitlines()
    assert call(f"rollback named.json {how} -o back.sql") == 0
    back = "".join(f"{statement};\n" for statement in database.rollback_statements("s.scored", label="v3"))
    assert Path("back.sql").read_text().endswith(back)
    assert "tag needs --name, --version, --tag or --baseline" in refused(capsys, "tag delay.json -o x.json", 2)
    assert "must be like team=ops" in refused(capsys, "tag delay.json --tag team -o x.json", 2)
    assert call("sql named.json --dialect snowflake --table t --view v --keep id --replace --stamp") == 0
    written = capsys.readouterr().out
    made = named.database("snowflake").create_view_sql("v", "t", keep=["id"], replace=True, stamp=True)
    assert written == f"{made};\n"
    assert "--replace needs --view" in refused(capsys, "sql named.json --table t --replace", 2)
    assert "--stamp needs --table" in refused(capsys, "sql named.json --stamp", 2)


def test_convert(here, capsys):
    xgboost = pytest.importorskip("xgboost")
    x, y = numbers()
    booster = xgboost.train({"max_depth": 3}, xgboost.DMatrix(x, label=y), 3)
    booster.save_model("b.ubj")
    assert call("convert b.ubj -o m.json") == 0
    assert fb.load("m.json") == fb.from_xgboost(booster)
    assert call("convert b.ubj -o m.ubj") == 0
    assert fb.load("m.ubj") == fb.from_xgboost(booster)
    assert Path("m.ubj").read_bytes() != Path("m.json").read_bytes()
    assert call("convert m.json --to xgboost -o x.json") == 0
    again = xgboost.Booster(model_file="x.json")
    np.testing.assert_allclose(again.predict(xgboost.DMatrix(x, feature_names=["f0", "f1"])),
                               booster.predict(xgboost.DMatrix(x)), rtol=1e-5)  # fmt: skip
    assert call("convert delay.json -o -") == 0
    assert capsys.readouterr().out == Path("delay.json").read_text()


# --- models of other libraries ----------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("library", "name"), [("xgboost", "b.json"), ("lightgbm", "b.txt")])
def test_models_of_others_are_read_everywhere(here, capsys, library, name):
    train, (x, y) = pytest.importorskip(library), numbers()
    data = {"xgboost": "DMatrix", "lightgbm": "Dataset"}[library]
    rows = getattr(train, data)(x, label=y, **{"feature_names" if library == "xgboost" else "feature_name": ["a", "b"]})
    booster = train.train({"verbosity": 0 if library == "xgboost" else -1}, rows, 3)
    booster.save_model(name)
    model = getattr(fb, f"from_{library}")(booster)
    Path(name).rename("foreign")  # what is in it tells, not its name
    assert open_model("foreign") == model
    data = pl.DataFrame(x, schema=["a", "b"])
    data.write_parquet("x.parquet")
    assert sql(capsys, "sql foreign") == model.sql() + "\n"
    assert call("score foreign x.parquet -o out.parquet --keep=") == 0
    assert pl.read_parquet("out.parquet").to_series().to_list() == model.predict(data).to_list()
    assert sql(capsys, "show foreign").startswith(repr(model).partition("\n")[0])
    assert call("convert foreign -o own.json") == 0
    assert fb.load("own.json") == model


def test_categories_of_catboost_come_from_a_table(here, capsys):
    catboost = pytest.importorskip("catboost")
    pytest.importorskip("clickhouse_cityhash")
    df = flights().with_columns(pl.col("carrier").fill_null("none"))
    df.write_parquet("c.parquet")
    model = catboost.CatBoostRegressor(iterations=3, depth=3, one_hot_max_size=10, verbose=0, allow_writing_files=False)
    model.fit(catboost.Pool(df.select(FEATURES).to_pandas(), df["arr_delay"].to_numpy(), cat_features=["carrier"]))
    model.save_model("cat.json", format="json")
    assert "only by their hashes" in refused(capsys, "sql cat.json")
    df.drop("carrier").write_csv("without.csv")
    says = refused(capsys, "convert cat.json --categories without.csv -o m.json")
    assert "'carrier' is not in the data" in says
    assert call("convert cat.json --categories c.parquet -o m.json") == 0
    expected = model.predict(df.select(FEATURES).to_pandas())
    np.testing.assert_allclose(fb.load("m.json").predict(df).to_numpy(), expected, rtol=1e-9)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases(("line", "says"), [
    ("train no.parquet --target y", "no.parquet can't be read: No such file or directory"),
    ("train no.duckdb --target y", "no.duckdb can't be read: No such file or directory"),
    ("train flights.duckdb::f --target y", "Table with name f does not exist"),
    ("train flights.parquet --table t --target y", "'flights.parquet' is a Parquet file, which is one table"),
    ("train flights.duckdb::f --table t --target y", "two tables are named"),
    ("train flights.xlsx --target y", "it must end in .parquet"),
    ("train delay.json --target y", "'delay.json' is not a table in a supported format"),
    ("train damaged.parquet --target y", "damaged.parquet can't be read: "),
    ("train empty.csv --target y", "empty.csv can't be read: empty CSV"),
    ("train flights.duckdb --target late --features carier", "did you mean 'carrier'?"),
    ("train flights.csv --target carrier", "target 'carrier' is NULL or NaN in 100 of 400 rows"),
    ("train flights.csv --target late --param max_dept=3", "unknown parameter 'max_dept'; did you mean 'max_depth'?"),
    ("train flights.csv --target late --param eta=0.3 --learning-rate 0.1",
     "--learning-rate 0.1 and --eta 0.3 are the same parameter, --learning-rate; set only that"),
    ("train flights.csv --target late --valid dayy>3", "neither a column of the data nor a SQL predicate"),
    ("train flights.csv --target late --init-model nope.json", "nope.json: No such file or directory"),
])  # fmt: skip
def test_train_refuses_bad_input(here, capsys, line, says):
    Path("damaged.parquet").write_text("PAR1 and no more")
    Path("empty.csv").write_text("")
    assert says in refused(capsys, f"{line} -o m.json")


@pytest.mark.slow
@cases(("line", "says"), [
    ("sql nope.json", "nope.json: No such file or directory"),
    ("sql damaged.json", "damaged.json: not a frameboost model: the file is not JSON"),
    ("show wrong.json", "wrong.json: damaged model"),
    ("show flights.csv", "flights.csv: not a model that can be read here: it is not a model of frameboost"),
    ("show .", "'.' is a folder"),
    ("show damaged.ubj", "damaged.ubj: "),
    ("show damaged.txt", "damaged.txt: damaged LightGBM model: feature_names is missing"),
    ("sql delay.json --limit txt=5", "limits names 'txt', which is not a limit; did you mean 'text'?"),
    ("sql delay.json --limit text=1e6", "must have a positive integer for 'text', or none for no limit, not 1000000.0"),
    ("sql delay.json -o no/such.sql", "no/such.sql: can't be written: No such file or directory"),
    ("sql delay.json -o .", ".: can't be written: Is a directory"),
    ("score delay.json flights.csv -o no/such.csv", "no/such.csv: can't be written"),
    ("score delay.json flights.csv -o out.xlsx", "'out.xlsx' can't be written as a table"),
    ("score delay.json flights.csv -o out.duckdb", "'out.duckdb' can't be written as a table"),
    ("score delay.json flights.csv -o out.csv --keep idd", "column 'idd' is not in the data"),
    ("score delay.json flights.csv -o out.csv --name id", "the data has a column 'id' already"),
    ("score delay.json other.csv -o out.csv", "the data lacks 1 feature of the model: 'carrier'; it has 'dep_delay'"),
    ("score delay.json texts.csv -o out.csv", "feature 'dep_delay' has type String (such as 'soon'), but"),
    ("score delay.json flights.duckdb --keep idd -o out.csv", "column 'idd' is not in the data"),
    ("convert late.json --to xgboost -o no/x.json", "can't be written"),
])  # fmt: skip
def test_bad_models_and_data_are_refused(here, capsys, line, says):
    text = Path("delay.json").read_text()
    Path("damaged.json").write_text(text[:500])
    Path("wrong.json").write_text(text.replace('"base_margin": ', '"base_margin": 1'))
    Path("damaged.ubj").write_bytes(b"{L\x00")
    Path("damaged.txt").write_text("tree\nversion=v4\n")
    Path("other.csv").write_text("dep_delay\n1\n")
    Path("texts.csv").write_text("carrier,dep_delay\nAA,soon\n")
    assert says in refused(capsys, line)


@pytest.mark.slow
@cases(("line", "says"), [
    ("trian", "invalid choice: 'trian'"),
    ("train flights.csv -o m.json", "required: --target"),
    ("train flights.csv --target late -o m.json --eata 0.1", "unknown option --eata; did you mean --learning-rate?"),
    ("train flights.csv --target late -o m.json --max_depth 3", "unknown option --max_depth; did you mean --max-d"),
    ("train flights.csv --target late -o m.json --max-dep=3", "unknown option --max-dep; did you mean --max-depth?"),
    ("train flights.csv --target late -o m.json --one-drop yes", "too many arguments: yes"),
    ("train flights.csv --target late -o m.json --param max_depth", "must be like max_depth=3"),
    ("train flights.csv --target late -o m.json --max-depth 3 --param max_depth=3", "max_depth is set twice"),
    ("score delay.json flights.csv", "required: -o"),
    ("show delay.json --tree 3", "unknown option --tree; did you mean --trees?"),
    ("show delay.json --trees three", "invalid int value: 'three'"),
    ("convert delay.json -o x --to lightgbm", "invalid choice: 'lightgbm'"),
])  # fmt: skip
def test_usage(here, capsys, line, says):
    assert says in refused(capsys, line, 2)


def test_an_error_leaves_the_output_file_unchanged(here, capsys):
    Path("rows.csv").write_text("carrier,dep_delay\n" + "AA,1\n" * 10 + "AA,1,2,3\n")
    Path("out.parquet").write_text("old")
    assert call("score delay.json rows.csv -o out.parquet") == 1  # a row has too many values
    assert Path("out.parquet").read_text() == "old"
    assert files() == ["out.parquet", "rows.csv"]
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.slow
def test_an_interrupted_command_leaves_no_file(here):
    os.mkfifo("model")
    line = "train flights.parquet --target arr_delay --init-model model -o m.json"
    # Without warnings as errors: Python itself warns of a file that is not closed when it is interrupted in opening it.
    # A shell has its background jobs ignore Ctrl-C, and with them these tests.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import frameboost.cli as cli; "
    program += "cli.main()"
    process = subprocess.Popen([sys.executable, "-c", program, *line.split()], text=True,
                               env=ENVIRONMENT | {"PYTHONWARNINGS": "default::SyntaxWarning"},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    with Path("model").open("wb"):  # which waits until the process opens it too
        process.send_signal(signal.SIGINT)
    # The process may already have been waiting to read: polars has it go on with that after the signal, until the pipe
    # is closed, and only then Python looks for signals.
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "frameboost: interrupted\n")
    assert files() == ["model"]


# --- as a process -----------------------------------------------------------------------------------------------------


def test_version_and_help(capsys):
    assert call("--version") == 0
    assert capsys.readouterr().out == f"frameboost {fb.__version__}\n"
    assert call("--help") == 0
    text = capsys.readouterr().out
    assert "exit codes:" in text
    assert call("") == 0
    assert capsys.readouterr().out == text


@pytest.mark.slow
def test_a_process_ends_with_the_code_and_one_line(here):
    done = run("show nope.json")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "frameboost: nope.json: No such file or directory\n")


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(here):
    pl.concat([flights()] * 50).write_parquet("many.parquet")
    line = "score delay.json many.parquet -o -"
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads, from the first letter on
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run([sys.executable, "-m", "frameboost", *line.split()], stdout=pipe, stderr=subprocess.PIPE,
                              text=True, env=ENVIRONMENT)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "cli.md").read_text(), re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_documentation_run(tmp_path, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr("frameboost.report.material._DRAWS", 5)
    write_data(tmp_path)
    x, y = numbers()
    xgboost.train({}, xgboost.DMatrix(x, label=y), 2).save_model(tmp_path / "booster.ubj")
    monkeypatch.chdir(tmp_path)
    lines = "".join(BLOCKS).replace("\\\n", "").splitlines()
    assert len(lines) == 47
    pytest.importorskip("shtab")
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "frameboost"
        if "|" in words:
            words = words[: words.index("|")]
        if words[-2:-1] == ["<"]:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(words[-1]).read_bytes())))
        assert main(words[:-2] if words[-2] in ("<", ">") else words) == 0, line
    written = {path.name for path in tmp_path.iterdir()}
    assert {"model.json", "late.json", "query.sql", "view.sql", "score.sql", "scored.parquet", "scored.arrow",
            "scores.csv.gz", "metrics.csv", "roc.html", "response.html", "row.html", "rounds.html",
            "booster.json", "for-xgboost.json"} <= written  # fmt: skip
    assert not [name for name in written if name.endswith(".partial")]

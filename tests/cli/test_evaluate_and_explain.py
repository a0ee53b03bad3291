"""The commands that say how good a model is, what moves it, how two differ, and the charts."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import frameboost as fb
from frameboost.cli import _SHELLS, inspection, main
from tests.cli.commands import ENVIRONMENT, FEATURES, call, files, flights, refused, write_data
from tests.support.cases import cases


def printed(capsys, line):
    assert call(line) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def rows_of(text):
    """Return the cells of a printed table, by line."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


# --- evaluate ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@cases("data", ["flights.csv", "flights.duckdb"])
def test_evaluate_prints_the_metrics_of_python(here, capsys, data):
    predicted, actual = fb.load("delay.json").predict(flights()).to_numpy(), flights()["arr_delay"].to_numpy()
    wrong = actual - predicted
    expected = {"rmse": np.sqrt(np.mean(wrong**2)), "mae": np.mean(np.abs(wrong)),
                "r2": 1 - np.sum(wrong**2) / np.sum((actual - actual.mean()) ** 2)}  # fmt: skip
    found = rows_of(printed(capsys, f"evaluate delay.json {data} --target arr_delay"))
    assert found == [["metric", "value"], *([name, f"{value:.6g}"] for name, value in expected.items())]


@pytest.mark.slow
def test_evaluate_by_group_and_with_the_confusion_of_classes(here, capsys):
    text = printed(capsys, "evaluate late.json flights.parquet --target late --by carrier --eval-metric error")
    predicted = fb.load("late.json").predict(flights(), "class")
    wrong = flights().select("carrier", error=pl.col("late") != predicted.cast(pl.Boolean))
    shares = wrong.group_by("carrier").agg(pl.col("error").mean()).sort("carrier").rows()
    expected = [[name or "NULL", "100", f"{share:.6g}"] for name, share in shares]
    assert rows_of(text) == [["carrier", "rows", "error"], *expected]
    text = printed(capsys, "evaluate kind.json flights.parquet --target kind --eval-metric merror")
    _, _, matrix = text.partition("\n\n")
    counts = flights().select("kind", predicted=fb.load("kind.json").predict(flights(), "class"))
    lines = rows_of(matrix)
    assert lines[:2] == [["rows by actual class (down) and predicted class (across)"], ["actual", "0", "1", "2"]]
    for kind, line in enumerate(lines[2:]):
        of_kind = counts.filter(kind=kind)
        assert line == [str(kind), *(str(len(of_kind.filter(predicted=other))) for other in range(3))]
    assert call("evaluate kind.json flights.csv --target kind --by carrier -o m.parquet") == 0
    expected = fb.load("kind.json").evaluate(flights(), "kind", by="carrier").metrics
    assert_frame_equal(pl.read_parquet("m.parquet"), expected, check_exact=True)


# --- compare ----------------------------------------------------------------------------------------------------------


def test_compare_has_both_models_metrics_and_what_differs(here, capsys):
    fb.fit(flights(), "arr_delay", features=["dep_delay", "day"], n_estimators=3, max_depth=3).save("other.json")
    text = printed(capsys, "compare delay.json other.json flights.parquet --target arr_delay --resamples 50")
    metrics, model, features, parameters = (rows_of(block) for block in text.split("\n\n"))
    actual = flights()["arr_delay"].to_numpy()
    first, second = (actual - fb.load(f"{name}.json").predict(flights()).to_numpy() for name in ("delay", "other"))
    rmse = [np.sqrt(np.mean(wrong**2)) for wrong in (first, second)]
    assert metrics[1] == ["metric", "first", "second", "difference", "low", "high"]
    assert metrics[2][:4] == ["rmse", f"{rmse[0]:.6g}", f"{rmse[1]:.6g}", f"{rmse[1] - rmse[0]:.6g}"]
    draws = np.random.default_rng(0)
    differences = []
    for _ in range(50):  # the same draws, each evaluated by itself
        drawn = draws.integers(0, 400, 400)
        differences.append(np.sqrt(np.mean(second[drawn] ** 2)) - np.sqrt(np.mean(first[drawn] ** 2)))
    assert metrics[2][4:] == [f"{bound:.6g}" for bound in np.quantile(differences, (0.025, 0.975))]
    assert model[1:3] == [["first", "second"], ["trees", "4", "3"]]
    assert features == [["features, where they differ"], ["first", "second"], ["carrier", "string", "-"],
                        ["day", "-", "int64"]]  # fmt: skip
    assert parameters[2:] == [["n_estimators", "4", "3"]]


def test_compare_says_that_a_model_is_the_same(here, capsys):
    text = printed(capsys, "compare late.json late.json flights.csv --target late --resamples 20")
    assert rows_of(text)[2][3:] == ["0", "0", "0"]
    assert text.endswith("model: the same in both\n\nfeatures: the same in both\n\nparameters: the same in both\n")
    says = refused(capsys, "compare late.json delay.json flights.csv --target late")
    assert says.startswith("the models, of 'binary:logistic' and 'reg:squarederror', have no metric in common; name")


# --- explain ----------------------------------------------------------------------------------------------------------


def test_explain_sums_up_all_rows_or_shows_some(here, capsys):
    model = fb.load("delay.json")
    contributions = model.explain(flights())
    text = printed(capsys, "explain delay.json flights.csv")
    size = {name: contributions[name].abs().mean() for name in model.features}
    assert rows_of(text) == [
        ["contributions to the margin, of 400 rows"], ["feature", "mean magnitude", "mean"],
        *([name, f"{size[name]:.6g}", f"{contributions[name].mean():.6g}"] for name in ("dep_delay", "carrier")),
    ]  # fmt: skip
    assert "of 134 of 400 rows" in printed(capsys, "explain delay.json flights.csv --sample 150")
    text = printed(capsys, "explain delay.json flights.parquet --rows 4 --top 1 --keep id,day")
    *_, last = text.split("\n\n")
    row = contributions.row(3, named=True)
    prediction = model.predict(flights())[3]
    assert rows_of(last) == [
        [f"row 3, id 3, day 0: prediction {prediction:.6g}, margin {prediction:.6g}"],
        ["feature", "value", "contribution"], ["(mean)", f"{row['bias']:.6g}"],
        ["dep_delay", "10", f"{row['dep_delay']:.6g}"], ["(others)", f"{row['carrier']:.6g}"],
    ]  # fmt: skip
    assert call("explain delay.json flights.csv --keep id -o c.csv") == 0
    expected = flights().select("id").hstack(contributions.get_columns())
    assert_frame_equal(pl.read_csv("c.csv"), expected, check_exact=True)


@pytest.mark.slow
def test_explain_takes_a_class_by_its_label_or_number(here, capsys):
    assert call("explain kind.json flights.csv --output 2 -o c.parquet") == 0
    assert_frame_equal(pl.read_parquet("c.parquet"), fb.load("kind.json").explain(flights(), output=2))
    text = printed(capsys, "explain kind.json flights.csv --output 1 --rows 1")
    assert text.startswith(f"row 0: margin of output 1 {fb.load('kind.json').predict(flights(), 'margin')[0][1]:.6g}\n")
    says = refused(capsys, "explain kind.json flights.csv", 2)
    assert says.startswith("the model has several outputs; name one by --output: 0, 1, 2")
    says = refused(capsys, "explain kind.json flights.csv --output late")
    assert says.startswith("output must be the number of a margin, from 0 to 2, not 'late'")
    assert "has its name" in refused(capsys, "explain delay.json flights.csv -o c.csv --keep dep_delay")


@cases("options", ["--rows 0", "--top -1", "--rows 2 -o c.csv", "--keep id", "--output", "--replace"])
def test_explain_options_that_do_not_go_together(here, capsys, options):
    refused(capsys, f"explain delay.json flights.csv {options}", 2)


# --- plot -------------------------------------------------------------------------------------------------------------


def test_every_chart_is_known():
    assert list(inspection.CHARTS) == fb.plots.__all__


@pytest.mark.slow
@cases("line", [
    "tree delay.json --set number=1", "learning_curves h.csv",
    "residuals delay.json flights.csv --target arr_delay",
    "threshold_costs late.json flights.csv --target late --set false_positive=2",
    "waterfall delay.json new.csv --row 3", "shap_summary kind.json flights.csv --set output=1",
    "partial_dependence delay.json flights.csv --feature dep_delay",
    "partial_dependence delay.json flights.csv --feature dep_delay,carrier",
    "drift delay.json flights.csv --baseline flights.parquet --time day",
])  # fmt: skip
def test_charts_are_drawn(here, line):
    pl.DataFrame({"round": [1, 2], "train_rmse": [3.0, 2.0]}).write_csv("h.csv")
    assert call(f"plot {line} -o chart.json") == 0
    assert json.loads(Path("chart.json").read_text())["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


@pytest.mark.slow
def test_a_chart_is_the_one_of_python(here, capsys):
    assert call("plot importance delay.json -o chart.html") == 0
    assert "vega" in Path("chart.html").read_text()
    pytest.importorskip("vl_convert")
    assert call("plot importance delay.json -o chart.svg") == 0
    assert Path("chart.svg").read_text().startswith("<svg")
    assert files() == ["chart.html", "chart.svg"]


@pytest.mark.slow
@cases(("line", "says", "code"), [
    ("plot roc late.json -o c.html", "roc needs DATA", 2),
    ("plot roc late.json flights.csv -o c.html", "roc needs --target", 2),
    ("plot importance late.json flights.csv -o c.html", "importance draws the model alone", 2),
    ("plot importance late.json --target y -o c.html", "importance takes no target; it takes 'kind', 'top'", 2),
    ("plot importance late.json --set topp=3 -o c.html", "importance takes no topp; did you mean 'top'?", 2),
    ("plot drift late.json flights.csv --time day -o c.html", "drift needs --baseline", 2),
    ("plot importance late.json -o c.pdf", "--out must end in .html, .svg, .png, .json, not 'c.pdf'", 2),
    ("plot rok late.json -o c.html", "invalid choice: 'rok'", 2),
    ("plot importance late.json --set top=0 -o c.html", "top must be an integer from 1 to 500, not 0", 1),
    ("plot learning_curves flights.csv -o c.html", "flights.csv is not a history of a fit", 1),
    ("plot waterfall delay.json new.csv --row 400 -o c.html", "the data has no row 400; they are numbered from 0", 1),
])  # fmt: skip
def test_charts_that_cannot_be_drawn(here, capsys, line, says, code):
    assert says in refused(capsys, line, code)


# --- completion, help and terminals -----------------------------------------------------------------------------------


def test_completion_scripts_have_the_options_of_all_commands(here, capsys):
    pytest.importorskip("shtab")
    for shell in _SHELLS:
        text = printed(capsys, f"completion {shell}")
        assert all(word in text for word in ("frameboost", "train", "evaluate", "early-stopping-rounds"))
    Path("frameboost.bash").write_text(printed(capsys, "completion bash"))
    complete = """
        source frameboost.bash; COMP_WORDS=(frameboost "$@" ""); COMP_CWORD=$(($# + 1))
        COMP_WORDS[$COMP_CWORD]=$WORD; _shtab_frameboost; echo "${COMPREPLY[@]}" """
    for words, word, expected in ((["score", "delay.json"], "fli", "flights."), (["explain"], "--sam", "--sample"),
                                  ([], "exp", "explain")):  # fmt: skip
        command = ["bash", "-c", complete, "bash", *words]
        done = subprocess.run(command, env=ENVIRONMENT | {"WORD": word}, capture_output=True, text=True, check=True)
        assert expected in done.stdout, (words, done.stderr)


def test_completion_without_shtab_says_what_to_install(here, capsys, monkeypatch):
    monkeypatch.setattr("frameboost.cli.importlib.util.find_spec", lambda name: None)
    assert refused(capsys, "completion fish") == "completion needs shtab: pip install 'frameboost[cli]'"


def test_conform_writes_a_model_with_intervals_that_evaluate_judges(here, capsys):
    assert call("conform delay.json flights.parquet --target arr_delay --coverage 0.8 -o sure.json") == 0
    rows = flights()
    sure = fb.load("delay.json").conform(rows, "arr_delay", coverage=0.8)
    assert fb.load("sure.json") == sure
    held = sure.evaluate(rows, "arr_delay").interval
    capsys.readouterr()
    text = printed(capsys, "evaluate sure.json flights.parquet --target arr_delay")
    assert rows_of(text.split("\n\n")[1])[1:] == [
        ["coverage", "held", "mean_width"], ["0.8", *(f"{value:.6g}" for value in held.row(0)[1:])]
    ]  # fmt: skip
    message = refused(capsys, "conform late.json flights.parquet --target late -o sure.json")
    assert "prediction intervals are for a regression of one target" in message


COMMANDS = (
    "train",
    "score",
    "evaluate",
    "compare",
    "explain",
    "plot",
    "report",
    "conform",
    "sql",
    "show",
    "convert",
    "tag",
    "deploy",
    "rollback",
    "cv",
    "refit",
    "calibrate",
    "reasons",
    "drift",
    "dbt",
    "register",
)


@pytest.mark.slow
def test_the_examples_of_help_run(tmp_path, monkeypatch, capsys):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.setattr("frameboost.report.material._DRAWS", 5)
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    fb.fit(flights(), "arr_delay", features=["dep_delay"], n_estimators=2).save("other.json")
    fb.fit(flights(), "late", features=FEATURES, n_estimators=2).save("late.json")
    xgboost.train({}, xgboost.DMatrix([[1.0], [2.0]], label=[1, 2]), 1).save_model("booster.ubj")
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        examples = re.findall(r"^  frameboost (.*)$", capsys.readouterr().out.partition("example:\n")[2], re.MULTILINE)
        assert len(examples) == 1
        assert call(examples[0]) == 0, examples
        out, err = capsys.readouterr()
        assert err == ""
        written = {"score", "plot", "report", "conform", "sql", "convert", "tag", "deploy", "rollback", "refit"}
        assert out or command in written | {"calibrate", "reasons"}
    assert main(["completion", "--help"]) == 0
    assert "example:\n  frameboost completion bash > frameboost.bash" in capsys.readouterr().out


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_shows_bars_and_colours_unless_they_are_not_wanted(here, monkeypatch, colours):
    pytest.importorskip("rich")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")
    assert call("explain delay.json flights.csv") == 0
    assert call("train flights.csv --target late --features dep_delay --n-estimators 1 --valid 0.2 -o m.json") == 0
    text = shown.getvalue()
    assert "█" * 24 in text
    assert ("\x1b[34m" in text) == colours
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert "contributions to the margin, of 400 rows" in plain
    assert re.search(r"^objective +binary:logistic, as target 'late' is Boolean *$", plain, re.MULTILINE)


def test_a_terminal_without_rich_has_plain_tables(here, monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr("frameboost.cli.screen.importlib.util.find_spec", lambda name: None)
    assert call("evaluate delay.json flights.csv --target arr_delay --eval-metric rmse") == 0
    assert "\x1b" not in shown.getvalue()
    assert shown.getvalue().startswith("metric")

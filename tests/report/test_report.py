"""Reports: every objective and kind of data, the numbers of `Model.evaluate`, and names that would be markup."""

import html
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS
from frameboost.evaluation.drift import periods_of
from frameboost.report.conditions import in_sql, in_words, path_to
from frameboost.report.data_check import _facts, check_features
from frameboost.report.drift import metric_by_period, shares_by_leaf, unseen_categories
from frameboost.report.groups import quality_by_group
from frameboost.report.material import ReportOptions, gather
from frameboost.report.report import sizes_by_dialect
from frameboost.report.segments import worst_segments
from frameboost.report.thresholds import decisions
from tests.support.cases import cases
from tests.support.hostile import NOT_SHOWN, SCRIPT, hostile

RNG = np.random.default_rng(3)
N = 160
DATA = pl.DataFrame({
    "x": RNG.normal(size=N), "z": RNG.integers(0, 9, N), "kind": RNG.choice(["a", "b", "c"], N),
    "query": np.repeat(np.arange(N // 8), 8), "noise": RNG.normal(size=N), "who": RNG.integers(0, 40, N),
}).with_columns(y=pl.col("x") * 2 + (pl.col("kind") == "a") + pl.col("noise")).with_columns(
    late=pl.col("y") > 0, count=pl.col("y").abs().floor(), size=pl.col("y").abs() + 0.1,
    grade=pl.when(pl.col("y") > 0).then(pl.lit("up")).otherwise(pl.concat_str(pl.lit("down"), pl.col("z") < 4)),
    rank=pl.col("y").clip(0, 3).floor().cast(pl.Int64), time=pl.col("y").abs() + 0.5,
).with_columns(latest=pl.when(pl.col("x") > 0).then(pl.col("time")).otherwise(pl.col("time") + 1))  # fmt: skip
FEATURES = ["x", "z", "kind"]
ALWAYS = {"about", "importance", "response", "data", "drift", "training", "sql", "parameters"}
LABELLED = ALWAYS | {"quality", "segments"}


def fitted(target, **more) -> fb.Model:
    return fb.fit(DATA, target, features=FEATURES, **{"n_estimators": 3, "max_depth": 2, **more})


def sections(page: str) -> dict[str, str]:
    """Return the HTML of each section, by its name."""
    parts = re.split(r'<section id="(\w+)">', page)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def charts(page: str) -> list[dict]:
    return json.loads(re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL)[1])


def reported(model, tmp_path, data=DATA, *wanted, **more) -> str:
    path = tmp_path / "report.html"
    model.report(data, path, *wanted, **more)
    return path.read_text(encoding="utf-8")


# --- what is in it ----------------------------------------------------------------------------------------------------

OBJECTIVES = {
    "binary:logistic": ("late", {}, {"groups": "who", "by": "kind"}, {"calibration", "groups", "thresholds"}),
    "multi:softprob": ("grade", {}, {}, {"calibration"}),
    "reg:quantileerror": ("y", {"quantile_alpha": [0.1, 0.9]}, {"by": "kind"}, {"calibration", "groups"}),
    "rank:ndcg": ("rank", {"group": "query"}, {"group": "query"}, set()),
    "survival:aft": ("time", {"label_upper_bound": "latest"}, {"label_upper_bound": "latest"}, set()),
    "reg:squarederror": (["y", "size"], {}, {}, set()),
}


@pytest.mark.slow
@cases("objective", OBJECTIVES)
def test_every_objective_has_its_sections(objective, tmp_path, monkeypatch):
    monkeypatch.setattr("frameboost.report.material._DRAWS", 5)
    target, parameters, roles, expected = OBJECTIVES[objective]
    model = fitted(target, objective=objective, **parameters, n_estimators=2)
    page = reported(model, tmp_path, DATA, target, **roles)
    found = sections(page)
    assert set(found) == LABELLED | expected
    assert objective in found["about"]
    assert ("2 numbers, of a target each" in found["about"]) == isinstance(target, list)
    own = {name: value for name, value in roles.items() if name not in ("groups", "by")}
    for name, value in model.evaluate(DATA, target, **own).metrics.rows():
        assert re.search(rf'<td>{re.escape(name)}</td><td class="number">{value:.4g}<', found["quality"]), name
    assert page.count('class="chart"') == len(charts(page)) >= 3


@pytest.mark.slow
def test_without_labels_nothing_is_said_of_quality(tmp_path):
    found = sections(reported(fitted("y"), tmp_path))
    assert set(found) == ALWAYS
    assert "Without labels" in found["about"]


@pytest.fixture(scope="module")
def model() -> fb.Model:
    return fitted("y", valid=0.2)


def tables(page: str) -> str:
    """Return a page without its charts and the time."""
    return re.sub(r"<footer>.*", "", page, flags=re.DOTALL)


@pytest.mark.slow
def test_data_as_they_come(model, tmp_path, monkeypatch):
    monkeypatch.setattr("frameboost.report.material._DRAWS", 5)
    expected = tables(reported(model, tmp_path, DATA, "y"))
    DATA.write_parquet(tmp_path / "rows.parquet")
    con = duckdb.connect()
    con.register("arrived", DATA.to_arrow())
    con.execute("CREATE TABLE rows AS FROM arrived")
    for data in (tmp_path / "rows.parquet", con.sql("FROM rows WHERE z < 100")):
        assert tables(reported(model, tmp_path, data, "y")) == expected
    assert con.sql("SHOW TABLES").fetchall() == [("arrived",), ("rows",)]


@pytest.mark.slow
def test_intervals_are_judged(model, tmp_path):
    sure = model.conform(DATA[:80], "y", coverage=0.8)
    ends = sure.predict(DATA, output="interval").struct.unnest()
    held = DATA["y"].is_between(ends["lower"], ends["upper"]).mean()
    page = reported(sure, tmp_path, DATA, "y")
    assert f"promise to hold 80 % of the labels, and hold {100 * held:.3g} % of these; their mean width is" in page


@pytest.mark.slow
def test_one_row_and_rows_as_dicts(model, tmp_path):
    for data in (DATA[:1], DATA.rows(named=True)[:3]):
        assert set(sections(reported(model, tmp_path, data, "y"))) == LABELLED | {"calibration"}


@pytest.mark.slow
def test_a_model_that_was_evaluated_has_learning_curves(model, tmp_path):
    assert "chart-" in sections(reported(model, tmp_path))["training"]
    assert "no learning curves" in sections(reported(model[1:], tmp_path))["training"]


@pytest.mark.slow
def test_the_sql_scores(model, tmp_path):
    found = sections(reported(model, tmp_path, DATA, dialect="postgres"))["sql"]
    query = html.unescape(re.search(r"<pre><code>(.*?)</code>", found, re.DOTALL)[1])
    assert query == model.query("your_table", "postgres")


@pytest.mark.slow
def test_a_sample_of_many_rows(model, tmp_path, monkeypatch):
    monkeypatch.setattr("frameboost.report.material._MAX_ROWS", 100)
    con = duckdb.connect()
    con.register("arrived", DATA.to_arrow())
    for data in (DATA, con.table("arrived")):
        material = gather(model, data, ReportOptions("y"))
        assert (len(material.rows), material.n_rows) == (100, N)
        assert material.values == pytest.approx(dict(model.evaluate(DATA, "y").metrics.rows()), rel=1e-12)
        of_groups = gather(model, data, ReportOptions("y", groups="who"))
        kept = DATA.filter(pl.col("who").is_in(of_groups.rows["who"].unique().implode()))
        assert len(kept) == len(of_groups.rows) < N  # whole groups
    assert "of a sample of 100 of the 160 rows" in reported(model, tmp_path)


# --- names that would be markup ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_names_and_categories_are_escaped(hostile_page):
    assert hostile_page.count("<script") == 4  # the theme, the charts' JSON, Vega, the page's own
    assert hostile_page.count("</script") == 4
    theme, found, _, _ = re.findall(r"<script.*?>(.*?)</script>", hostile_page, re.DOTALL)
    assert "ran" not in theme
    assert "<" not in found
    assert not re.search(r"<(?:img|b|i|script>)\b", without_scripts(hostile_page))
    assert not NOT_SHOWN & set(without_scripts(hostile_page).partition('<section id="sql"')[0])
    assert html.escape(SCRIPT) in hostile_page
    assert html.escape('\\" + warn(1) + "') in hostile_page
    assert any(SCRIPT in json.dumps(chart) for chart in charts(hostile_page))
    query = re.search(r"<pre><code>((?:SELECT|WITH).*?)</code>", sections(hostile_page)["sql"], re.DOTALL)[1]
    con = duckdb.connect()
    con.register("your_table", hostile().rows.to_arrow())
    assert con.sql(html.unescape(query)).columns[-1] == "prediction"


def without_scripts(page: str) -> str:
    return re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_nothing_is_loaded_from_elsewhere(hostile_page):
    outside = without_scripts(hostile_page)
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!#)", outside)
    assert "url(" not in outside
    assert "default-src 'none'" in outside


# --- the file ---------------------------------------------------------------------------------------------------------


def test_a_path_that_cannot_be_written_is_refused_first(model, tmp_path):
    with pytest.raises(OSError, match="can't be written: No such file or directory"):
        model.report(None, tmp_path / "nowhere" / "report.html")  # nor are the data looked at
    with pytest.raises(OSError, match="can't be written: Is a directory"):
        model.report(None, tmp_path)


def test_nothing_is_left_of_a_report_that_fails(model, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before", encoding="utf-8")
    for wrong, message in (
        ({"target": "nothing"}, "'nothing' is not in the data"), ({"dialect": "cobol"}, "dialect must be one of"),
        ({"groups": "x"}, "groups needs labels"), ({"target": "y", "groups": "nobody"}, "groups column 'nobody'"),
        ({"training": DATA.drop("x")}, "lacks 1 feature"), ({"training": 5}, "training is a int"),
    ):  # fmt: skip
        with pytest.raises(fb.FrameboostError, match=message):
            model.report(DATA, path, **wrong)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8") == "before"


@pytest.mark.slow
def test_a_pipe_is_written_to(model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(model.report, DATA[:2], tmp_path / "pipe")
        found = b""
        while not done.done() or found[-8:] != b"</html>\n":
            with suppress(BlockingIOError):
                found += os.read(reader, 1 << 20)
            if done.done() and done.exception():
                break
        done.result()
    os.close(reader)
    assert found.startswith(b"<!DOCTYPE html>")
    assert (tmp_path / "pipe").is_fifo()


def test_without_its_distributions_a_report_says_what_to_install(model, tmp_path, monkeypatch):
    import sys

    for name in [name for name in sys.modules if name.startswith("frameboost.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(ImportError, match=r"pip install 'frameboost\[report\]'"):
        model.report(DATA, tmp_path / "report.html")


# --- where it is bad --------------------------------------------------------------------------------------------------


def test_the_worst_segment_is_the_one_that_was_spoilt():
    n, rng = 4000, np.random.default_rng(8)
    rows = pl.DataFrame({
        "x": rng.normal(size=n).round(2), "place": rng.choice(["here", "there", "away"], n), "g": rng.normal(size=n),
    })  # fmt: skip
    spoilt = (pl.col("place") == "away") & (pl.col("x") >= 1)
    less = (pl.col("place") == "there") & (pl.col("x") < 0)
    rows = rows.with_columns(y=pl.col("g") * pl.when(spoilt).then(9).when(less).then(4).otherwise(1))
    model = fb.fit(rows.with_columns(y=pl.col("g")), "y", features=["x", "place"], n_estimators=1, max_depth=1)
    material = gather(model, rows, ReportOptions("y"))
    segments, in_halves = worst_segments(material, material.metrics[0])
    assert in_halves and len(segments) > 1
    worst = segments[0]
    found = duckdb.sql(f"SELECT * FROM rows WHERE {worst.sql}").pl()
    assert worst.share == len(found) / n
    assert found["place"].unique().to_list() == ["away"]
    assert found["x"].min() >= 0.95
    assert "place is away" in worst.words
    whole = model.evaluate(found, "y", eval_metric="rmse").metrics["value"][0]
    assert worst.value == pytest.approx(whole, rel=0.2)  # of the half that the tree was not fitted to


def test_conditions_hold_for_the_rows_of_their_leaf():
    rows = pl.DataFrame({
        "x": [None if i % 5 == 0 else float(i % 11) for i in range(200)],
        "kind": [None if i % 7 == 0 else "abc"[i % 3] for i in range(200)], "flag": [i % 2 == 0 for i in range(200)],
    })  # fmt: skip
    rows = rows.with_columns(y=pl.col("x").fill_null(20) * (1 + pl.col("kind").eq_missing("b")) + pl.col("flag") * 9)
    model = fb.fit(rows, "y", n_estimators=1, max_depth=4, min_child_weight=2)
    tree, features = model.ensemble.trees[0], model.ensemble.features
    leaves = model.predict(rows, "leaf").arr.get(0)
    assert leaves.n_unique() > 6
    for leaf in leaves.unique():
        steps = path_to(tree, leaf)
        sql = in_sql(tree, steps, features, gather(model, rows, ReportOptions()).dialect)
        held = duckdb.sql(f"SELECT * FROM rows WHERE {sql}").pl()
        assert held.sort(pl.all()).equals(rows.filter(leaves == leaf).sort(pl.all()))
        assert in_words(tree, steps, features, ()) != "all rows"
    assert in_words(tree, [], features, ()) == "all rows"


def test_words_of_a_path():
    rows = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0, None] * 8, "k": (["a"] * 5 + ["b"] * 5) * 4})
    rows = rows.with_columns(y=pl.when(pl.col("x") < 3).then(0.0).otherwise(5.0) + (pl.col("k") == "a"))
    tree = fb.fit(rows, "y", n_estimators=1, max_depth=2, reg_lambda=0, features=["x", "k"]).ensemble
    first = tree.trees[0]
    texts = {in_words(first, path_to(first, leaf), tree.features, {"x"}) for leaf in first.leaves()}
    assert texts == {f"x {x} and k is {k}" for x in ("below 3", "at least 3 or missing") for k in ("a", "not a")}
    plain = {in_words(first, path_to(first, leaf), tree.features, ()) for leaf in first.leaves()}
    assert "x below 3 and k is a" in plain


# --- drift ------------------------------------------------------------------------------------------------------------


def test_shares_of_training_are_those_of_the_rows(model):
    trained = fitted("late", objective="binary:logistic")
    found = shares_by_leaf(trained, DATA)
    assert found["training"].to_list() == pytest.approx(found["here"].to_list(), rel=1e-12)
    moved = shares_by_leaf(trained, DATA.filter(pl.col("x") > 0))
    assert moved["here"].to_list() != pytest.approx(moved["training"].to_list(), rel=0.1)
    assert moved["training"].to_list() == found["training"].to_list()
    assert shares_by_leaf(fitted("size", objective="reg:gamma"), DATA) is None  # whose hessians depend on the labels


def test_categories_that_training_did_not_have(model):
    new = DATA[:10].with_columns(kind=pl.Series(["a", None, "new", "new", "other", "b", "b", "b", "b", "c"]))
    assert unseen_categories(model.ensemble, new).rows() == [("kind", 0.3, ["new", "other"])]
    assert unseen_categories(model.ensemble, DATA).is_empty()


@pytest.mark.slow
def test_drift_of_features_against_training(model, tmp_path):
    moved = DATA.with_columns(z=pl.col("z") + 100)
    found = sections(reported(model, tmp_path, moved, training=DATA))["drift"]
    first = re.search(r'<tbody><tr><td>(\w+)</td>.*?<span class="bad">much</span>', found, re.DOTALL)
    assert first[1] == "z"
    other = sections(reported(model, tmp_path, moved.with_columns(pl.col("z").cast(pl.Int32)), training=DATA))["drift"]
    assert "has type Int32, but int64 in the model" in html.unescape(other)
    with_baseline = model.with_baseline(DATA)
    assert sections(reported(with_baseline, tmp_path, moved))["drift"] == found
    as_other = sections(reported(with_baseline, tmp_path, moved.with_columns(pl.col("z").cast(pl.Int32))))["drift"]
    assert as_other == sections(reported(model, tmp_path, moved.with_columns(pl.col("z").cast(pl.Int32))))["drift"]


@pytest.mark.slow
def test_the_metadata_is_there_as_data(model, tmp_path):
    called = model.with_metadata(name="<b>name</b>", version="3", tags={"<i>": "&amp;"}, data=DATA)
    found = sections(reported(called, tmp_path))["parameters"]
    assert "<b>" not in found and "<i>" not in found
    shown = html.unescape(found)
    for text in ("<b>name</b>, version 3", "tag <i>", "&amp;", called.sha256, called.metadata.data):
        assert text in shown
    assert called.metadata.training in shown


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command(model, tmp_path, capsys):
    from frameboost.cli import main

    model.save(tmp_path / "m.json")
    DATA.write_parquet(tmp_path / "rows.parquet")
    given = ["report", str(tmp_path / "m.json"), str(tmp_path / "rows.parquet"), "--target", "y", "--title", "Rows"]
    assert main([*given, "-o", str(tmp_path / "r.html"), "--training", str(tmp_path / "rows.parquet")]) == 0
    assert "<title>Rows</title>" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert main([*given, "-o", str(tmp_path / "no" / "r.html")]) == 1
    assert capsys.readouterr().err.endswith("can't be written: No such file or directory\n")


# --- margins and times ------------------------------------------------------------------------------------------------

STARTED = DATA.with_columns(
    start=pl.col("x") * 3, day=pl.date(2013, 1, 1) + pl.duration(days=pl.int_range(N) // 20), w=pl.int_range(N) % 3
)


@pytest.mark.slow
def test_all_numbers_start_from_the_base_margin(tmp_path):
    model = fb.fit(STARTED, "y", features=["kind"], base_margin="start", n_estimators=2, max_depth=1)
    page = reported(model, tmp_path, STARTED, "y", base_margin="start")
    y, start = STARTED["y"].to_numpy(), STARTED["start"].to_numpy()
    predicted = model.predict(STARTED, base_margin="start").to_numpy()
    for values in (predicted, start + model.base_margin):
        assert f'<td class="number">{np.sqrt(np.mean((y - values) ** 2)):.4g}</td>' in sections(page)["quality"]
    dots = [float(value) for value in re.findall(r'"residual": (-?[\d.]+)[,}]', json.dumps(charts(page)))]
    for name in ("quality", "calibration"):
        assert "chart-" in sections(page)[name]
    assert np.abs(np.subtract.outer(y - predicted, dots)).min(axis=1).max() < 1e-5
    material = gather(model, STARTED, ReportOptions("y", base_margin="start"))
    assert np.array_equal(material.predictions.predictions, predicted)
    segments, _ = worst_segments(material, material.metrics[0])
    con = duckdb.connect()
    con.register("rows_of_report", STARTED)
    for segment in segments:
        of_segment = con.sql(f"FROM rows_of_report WHERE {segment.sql}").pl()
        expected = model.evaluate(of_segment, "y", base_margin="start", eval_metric="rmse").metrics["value"][0]
        assert segment.value == pytest.approx(expected)


@pytest.mark.slow
def test_the_metric_of_each_period_is_that_of_its_rows(model, tmp_path):
    material = gather(model, STARTED, ReportOptions("y", weight="w", time="day"))
    found = metric_by_period(material, periods_of(STARTED, "day"))
    assert found["period"].to_list() == sorted(set(STARTED["day"]))
    for period, rows, value in found.rows():
        of_day = STARTED.filter(pl.col("day") == period)
        assert rows == of_day.filter(pl.col("w") > 0).height
        assert value == pytest.approx(model.evaluate(of_day, "y", weight="w").metrics["value"][0])
    page = reported(model, tmp_path, STARTED, "y", time="day", training=STARTED[:80])
    assert sections(page)["time"].count('class="chart"') == 2
    assert set(sections(reported(model, tmp_path, STARTED, time="z"))) == ALWAYS | {"time"}


@cases(
    ("given", "message"),
    [
        ({"time": "dya"}, "time column 'dya' is not in the data; did you mean 'day'?"),
        ({"time": "x"}, "time column 'x' has 240 periods, more than 200; pass dates, or a column of fewer values"),
        ({"base_margin": "kind"}, "base_margin column 'kind' has type String; it must be numeric or Boolean"),
        ({"base_margin": ["x", "z"]}, "base_margin must name a column for each of 1 margins"),
    ],
)
def test_wrong_columns_of_times_and_margins(given, message, model, tmp_path):
    rows = pl.concat([STARTED, STARTED[:80].with_columns(pl.col("x") + 9)])
    with pytest.raises(fb.FrameboostError) as error:
        model.report(rows, tmp_path / "report.html", "y", **given)
    assert str(error.value).startswith(message)
    assert not list(tmp_path.iterdir())


# --- groups, thresholds, the data, sizes ------------------------------------------------------------------------------


def test_quality_by_group_is_that_of_its_rows():
    model = fitted("late", objective="binary:logistic")
    rows = DATA.with_columns(weight=pl.col("z") / 2, kind=pl.when(pl.col("kind") != "c").then("kind"))
    material = gather(model, rows, ReportOptions("late", weight="weight", by="kind"))
    frame, n_groups = quality_by_group(material)
    assert n_groups == len(frame) == 3
    for row in frame.rows(named=True):
        part = rows.filter(pl.col("kind").eq_missing(row["group"]), pl.col("weight") > 0)
        assert row["rows"] == len(part)
        for name, value in model.evaluate(part, "late", weight="weight").metrics.rows():
            assert row[name] == pytest.approx(value, rel=1e-12)
        weight = part["weight"].to_numpy()
        assert row["mean_label"] == pytest.approx(np.average(part["late"].to_numpy(), weights=weight))
        assert row["mean_prediction"] == pytest.approx(np.average(model.predict(part).to_numpy(), weights=weight))


@pytest.mark.slow
def test_groups_beyond_the_most_frequent_are_counted(tmp_path):
    model = fitted("y")
    found = sections(reported(model, tmp_path, DATA, "y", by="who"))["groups"]
    assert found.count("<tr>") == 1 + 30 + 1
    assert f"{DATA['who'].n_unique() - 30} groups of fewer rows left out" in found
    refused = [
        ({"by": "nowhere"}, "by column 'nowhere' is not in the data"),
        ({"costs": {"both": 1}}, "costs must be a dict with costs false_positive and"),
        ({"costs": {"false_positive": -1}}, "costs['false_positive'] must be a finite number"),
    ]
    for wrong, message in refused:
        with pytest.raises(fb.FrameboostError, match=re.escape(message)):
            reported(model, tmp_path, DATA, "y", **wrong)
    with pytest.raises(fb.FrameboostError, match="by needs labels"):
        reported(model, tmp_path, DATA, by="kind")


def test_decisions_are_counted():
    labels, scores = np.array([0.0, 1.0, 1.0, 0.0, 1.0]), np.array([0.1, 0.4, 0.8, 0.6, 0.4])
    weights = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    at = decisions(labels, scores, weights, [0.4, 0.9], (1.0, 5.0)).rows(named=True)
    # Above 0.4: 0.8 (weight 1, right) and 0.6 (3, wrong); missed are the two of 0.4, of weights 2 and 1.
    assert at[0] == {"threshold": 0.4, "share": 0.5, "precision": 0.25, "recall": 0.25, "f1": 0.25,
                     "false_positives": 3.0, "false_negatives": 3.0, "cost": (3 * 1 + 3 * 5) / 8}  # fmt: skip
    assert at[1] == {"threshold": 0.9, "share": 0.0, "precision": None, "recall": 0.0, "f1": 0.0,
                     "false_positives": 0.0, "false_negatives": 4.0, "cost": 20 / 8}  # fmt: skip


@pytest.mark.slow
def test_the_threshold_of_the_model_is_marked(tmp_path):
    model = fitted("late", objective="binary:logistic").with_threshold(0.35)
    found = sections(reported(model, tmp_path, DATA, "late", costs={"false_negative": 4}))["thresholds"]
    assert "<strong>0.35</strong></td><td>the model</td>" in found
    positive = model.predict(DATA, "class")
    wrong = (positive & ~DATA["late"]).sum() + 4 * (~positive & DATA["late"]).sum()
    row = re.search("<strong>0.35</strong>.*?</tr>", found)[0]
    assert f">{wrong / len(DATA):.4g}</td></tr>" in row
    assert "a false negative 4;" in found


def test_odd_features_and_repeated_rows_are_named():
    rows = DATA.with_columns(
        one=pl.lit(1), key=pl.int_range(pl.len()).cast(pl.String), leak=pl.col("y") ** 3,
        gap=pl.when(pl.col("z") > 3).then("noise"), none=pl.lit(None, pl.Float64),
    )  # fmt: skip
    here = pl.concat([rows, rows[:7]])
    features = ["one", "key", "leak", "gap", "none", "x"]
    model = fb.fit(rows, "y", features=features, n_estimators=3, max_depth=3)
    training = rows.with_columns(gap=pl.col("noise"), x=pl.when(pl.col("who") > 3).then("x"))
    material = gather(model, here, ReportOptions("y", training=training))
    checks = {check.name: check for check in check_features(material)}
    assert checks["one"].remarks[:2] == ("constant", "in no split")
    assert checks["none"].remarks[0] == "no value"
    assert any("rank correlation 1)" in remark for remark in checks["leak"].remarks)
    assert checks["gap"].missing == pytest.approx((here["z"] <= 3).mean())
    assert (checks["gap"].missing_in_training, checks["x"].missing) == (0, 0)
    assert checks["x"].missing_in_training == pytest.approx((rows["who"] <= 3).mean())
    assert "missing more often than in training" in checks["gap"].remarks
    assert "missing more often than in training" not in checks["x"].remarks
    assert not any("identifier" in remark for remark in checks["key"].remarks)  # it is repeated here
    alone = gather(model, rows, ReportOptions("y", training=rows[:40]))
    assert any("identifier" in remark for check in check_features(alone) for remark in check.remarks)
    assert dict(_facts(material))["repeated rows"] == f"7 ({7 / 167:.1%})".replace("%)", " %)")
    assert dict(_facts(alone))["rows that training has too"] == "40 (25.0 %)"


def test_sizes_are_those_of_the_statements(model, monkeypatch):
    sizes = {size.dialect: size for size in sizes_by_dialect(model)}
    assert set(sizes) == set(DIALECTS)
    for name in ("duckdb", "oracle"):
        query = model.query("your_table", name)
        assert (sizes[name].statements, sizes[name].bytes) == (1, len(query.encode()))

    def refused(*arguments, form="auto", **more):
        if form == "auto":
            raise fb.ParameterError("too large")
        return "SELECT é"

    monkeypatch.setattr(fb.Model, "query", refused)
    monkeypatch.setattr("frameboost.database.database_model.DatabaseModel.query", refused)
    statements = [*model.database("sqlite").table_statements("your_trees"), "SELECT é"]
    [sqlite] = [size for size in sizes_by_dialect(model) if size.dialect == "sqlite"]
    assert (sqlite.statements, sqlite.bytes) == (len(statements), len("".join(statements).encode()))


@pytest.mark.slow
def test_charts_have_what_they_show_as_heading(model, tmp_path):
    page = reported(model, tmp_path, DATA, "y")
    half = (DATA["y"] - model.predict(DATA)).abs().median()
    assert f"<h3>Half of the rows are within {half:.3g} of the label</h3>" in page
    assert all("title" not in chart for chart in charts(page))
    assert page.count("<h3></h3>") == page.count("<figcaption></figcaption>") == 0

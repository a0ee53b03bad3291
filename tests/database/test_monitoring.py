"""Measures of a table by window of time, beside those of each window's rows in polars, and the history of them."""

import datetime as dt
from functools import cache

import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.parsed_sql import n_statements
from tests.support.warehouses import ALL_BUT_SPARK, WAREHOUSES, databases, open_warehouse

DAY = dt.timedelta(1)
MONDAY = dt.datetime(2026, 3, 2)
END = MONDAY + 5 * DAY
KINDS = {"x": "float64", "s": "string", "who": "string", "at": "timestamp[us]", "y": "float64", "w": "float64"}


@pytest.fixture(params=ALL_BUT_SPARK)
def warehouse(request):
    return open_warehouse(request.param)


@cache
def rows() -> pl.DataFrame:
    """Rows of Monday, Tuesday and Thursday; on Tuesday one group has none, on Thursday labels are missing."""
    rng, n = np.random.default_rng(1), 240
    error = rng.normal(size=n)
    day = np.repeat([0, 1, 3], n // 3)
    x = rng.normal(size=n).round(2) + day
    return pl.DataFrame({
        "x": [None if i % 9 == 0 else v for i, v in enumerate(x)],
        "s": [None if i % 7 == 0 else ["a", "b", "never seen"][i % 3 if d else i % 2] for i, d in enumerate(day)],
        "who": [["p", "q"][i % 2] if d != 1 else "p" for i, d in enumerate(day)],
        "at": [MONDAY + int(d) * DAY + dt.timedelta(minutes=17 * int(i) % 1440) for i, d in enumerate(day)],
        "y": [None if day[i] == 3 and i % 5 == 0 else float(x[i] + error[i]) for i in range(n)],
        "w": rng.integers(1, 4, n) / 2,
    })  # fmt: skip


@cache
def model_of() -> fb.Model:
    monday = rows().filter(pl.col("at") < MONDAY + DAY)
    model = fb.fit(monday, "y", features=["x", "s"], n_estimators=5, max_depth=3)
    return model.conform(monday, "y", coverage=0.7, groups="who").with_baseline(monday, bins=4)


def fill(opened, frame: pl.DataFrame, **kinds: str) -> None:
    values = frame.with_columns(at=pl.col("at").dt.epoch("us"))
    values = values.with_columns(day=pl.col("at") // 86_400_000_000)
    opened.fill("t", {name: (FeatureType(kind), values[name].to_list()) for name, kind in {**KINDS, **kinds}.items()})


def measured(opened, query: str, n_keys: int) -> dict[tuple, float | None]:
    """Return the values by their other columns, times as datetimes."""
    found = {}
    for *keys, measure, name, value in opened.rows(query):
        moment = [] if not n_keys else [dt.datetime.fromisoformat(str(keys[0])).replace(tzinfo=None)]
        key = (*moment, *keys[1:], measure, name)
        assert key not in found
        found[key] = None if value is None else float(value)
    return found


def index(frame: pl.DataFrame, values: pl.Series) -> float:
    """Return the population stability index of values, by the edges of a baseline's bins."""
    e = np.maximum(frame["share"].to_numpy(), 1e-4)
    missing = values.is_null()
    inside = [missing]
    categories = frame["category"].drop_nulls()
    for lower, upper, category in frame.select("lower", "upper", "category").rows()[1:]:
        if values.dtype == pl.String:
            named = [name.strip('"') for name in categories]
            inside.append(values == category.strip('"') if category else ~values.is_in(named))
        else:
            least, most = float(lower or "-inf"), float(upper or "inf")
            inside.append((values >= least) & (values < most))
    a = np.maximum([(part.fill_null(False)).sum() / max(len(values), 1) for part in inside], 1e-4)
    return float(np.sum((a - e) * np.log(a / e)))


def expected(frame: pl.DataFrame) -> dict[tuple[str, str], float | None]:
    model, n = model_of(), frame.height
    features, scores = model.baseline.features, model.baseline.scores
    known = frame.drop_nulls("y")
    predicted = model.predict(frame) if n else pl.Series([], dtype=pl.Float64)
    of = {
        ("rows", "all"): n, ("rows", "labelled"): known.height, ("rows", "invalid"): 0,
        **{("missing", name): frame[name].is_null().mean() if n else 1.0 for name in ("x", "s")},
        ("unseen", "s"): (frame["s"] == "never seen").fill_null(False).mean() if n else 1.0,
        **{("drift", name): index(features.filter(feature=name), frame[name]) for name in ("x", "s")},
        ("score_drift", "prediction"): index(scores, predicted),
    }  # fmt: skip
    metrics = dict.fromkeys(("rmse", "mae", "r2"))
    of["coverage", "interval"] = None
    if n and known.height >= 0.9 * n:
        whole = model.evaluate(known, "y", weight="w")
        metrics = dict(whole.metrics.rows())
        of["coverage", "interval"] = whole.interval["held"][0]
    return {**of, **{("metric", name): value for name, value in metrics.items()}}


def assert_same(found: dict[tuple, float | None], by_key: dict[tuple, pl.DataFrame]) -> None:
    of_all = {(*key, *name): value for key, frame in by_key.items() for name, value in expected(frame).items()}
    assert found.keys() == of_all.keys()
    assert {key: value is None for key, value in found.items()} == {key: value is None for key, value in of_all.items()}
    for key, value in of_all.items():
        assert value is None or found[key] == pytest.approx(value, rel=1e-9, abs=1e-9), key


# --- windows and groups -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_windows_with_rows_and_a_table_without(warehouse):
    fill(warehouse, rows())
    database, labels = model_of().database(warehouse.name), {"target": "y", "weight": "w"}
    assert_same(measured(warehouse, database.monitor_query("t", **labels), 0), {(): rows()})
    empty = database.monitor_query("t", **labels, where="1 = 0")
    assert_same(measured(warehouse, empty, 0), {(): rows()[:0]})
    days = {(MONDAY + i * DAY,): rows().filter(pl.col("at").dt.date() == (MONDAY + i * DAY).date()) for i in (0, 1, 3)}
    assert_same(measured(warehouse, database.monitor_query("t", time="at", **labels), 1), days)


@cases("window", ["hour", "week", "month"])
def test_each_unit_begins_where_polars_says(warehouse, window):
    fill(warehouse, rows())
    query = model_of().database(warehouse.name).monitor_query("t", time="at", window=window, measures=["rows"])
    found = {key[0]: value for key, value in measured(warehouse, query, 1).items()}
    starts = rows()["at"].dt.truncate({"hour": "1h", "week": "1w", "month": "1mo"}[window])
    assert found == dict(starts.value_counts().rows())


@pytest.mark.slow
def test_windows_and_groups_without_rows_are_an_alarm(warehouse):
    fill(warehouse, rows())
    database = model_of().database(warehouse.name)
    options = {"time": "at", "last": 4, "until": END - 7 * dt.timedelta(hours=1), "target": "y", "weight": "w"}
    days = {(MONDAY + i * DAY,): rows().filter(pl.col("at").dt.date() == (MONDAY + i * DAY).date()) for i in range(4)}
    assert_same(measured(warehouse, database.monitor_query("t", **options), 1), days)
    groups = {(*key, who): frame.filter(who=who) for key, frame in days.items() for who in ("p", "q")}
    found = measured(warehouse, database.monitor_query("t", by="who", **options), 2)
    assert_same(found, groups)
    assert found[MONDAY + DAY, "q", "rows", "all"] == 0
    assert found[MONDAY + DAY, "q", "drift", "x"] > 4.5
    for by, key in ((None, ()), ("who", (None,))):
        query = database.monitor_query("t", by=by, **{**options, "until": MONDAY - DAY})
        found = measured(warehouse, query, 1 + len(key))
        assert_same(found, {(MONDAY - i * DAY, *key): rows()[:0] for i in range(2, 6)})


def test_null_is_another_group_than_any_text(warehouse):
    fill(warehouse, rows().with_columns(who=pl.col("who").replace({"p": "?", "q": None})))
    database, quote = model_of().database(warehouse.name), warehouse.dialect.quote
    options = {"time": "at", "last": 4, "until": END - DAY, "by": "who", "measures": ["rows"]}
    found = measured(warehouse, database.monitor_query("t", **options), 2)
    day = (pl.col("at") - MONDAY).dt.total_days()
    counts = {row[:2]: row[2] for row in rows().group_by(day, "who").len().rows()}
    days = {MONDAY + i * DAY: i for i in range(4)}
    names = {"?": "p", None: "q"}
    assert found == {
        (start, who, "rows", "all"): counts.get((i, names[who]), 0) for start, i in days.items() for who in names
    }
    warehouse.run(f"DROP TABLE IF EXISTS {quote('watched')}")
    warehouse.run(database.create_history_sql("watched", by="who"))
    for _ in range(2):
        warehouse.run(database.append_history_sql("watched", "t", **options))
    columns = ", ".join(quote(name) for name in ("window_start", "who", "measure", "name", "value"))
    assert measured(warehouse, f"SELECT {columns} FROM {quote('watched')}", 2) == found


@pytest.mark.slow
@cases("unit, first", [("hour", MONDAY - dt.timedelta(hours=2)), ("day", MONDAY - 2 * DAY), ("week", MONDAY - 14 * DAY),
                       ("month", dt.datetime(2026, 1, 1))])  # fmt: skip
def test_last_windows_of_each_unit(warehouse, unit, first):
    fill(warehouse, rows())
    options = {"time": "at", "window": unit, "last": 2, "measures": ["rows"]}
    database = model_of().database(warehouse.name)
    query = database.monitor_query("t", until=MONDAY + dt.timedelta(minutes=3), **options)
    assert min(key[0] for key in measured(warehouse, query, 1)) == first
    now = measured(warehouse, database.monitor_query("t", **options), 1)
    assert len(now) == 2
    assert all(dt.timedelta(0) < dt.datetime.now() + DAY - key[0] < 96 * DAY for key in now)


def test_last_windows_of_dates_and_of_a_condition_that_ends_in_a_comment(warehouse):
    fill(warehouse, rows(), day="date")
    database, column = model_of().database(warehouse.name), warehouse.dialect.quote("w")
    options = {
        "last": 2,
        "until": MONDAY + 2 * DAY,
        "measures": ["rows"],
        "where": f"{column} > 1 OR {column} < 1 -- most",
    }
    found = [measured(warehouse, database.monitor_query("t", time=time, **options), 1) for time in ("at", "day")]
    of_days = rows().filter(pl.col("w") != 1).group_by(pl.col("at").dt.truncate("1d")).len().rows()
    expected = {(day, "rows", "all"): n for day, n in of_days if day < MONDAY + 2 * DAY}
    assert found == [expected, expected]
    assert len(expected) == 2


def test_times_of_sqlite_are_texts_of_any_form():
    opened = open_warehouse("sqlite")
    texts = ["2026-03-02", "2026-03-02T00:00:00", "2026-03-02 23:59:59.999", "2026-03-03T00:30:00+02:00",
             "2026-03-01 23:30:00-02:00", "2026-03-03", "2026-03-01 23:59:59", None]  # fmt: skip
    fill(opened, rows().head(len(texts)), at="string")
    for number, text in enumerate(texts):
        opened.con.execute("UPDATE t SET at = ? WHERE id = ?", (text, number))
    query = model_of().database("sqlite").monitor_query("t", time="at", last=1, until=MONDAY + DAY, measures=["rows"])
    assert measured(opened, query, 1) == {(MONDAY, "rows", "all"): 5}


COLLATED = {
    "mariadb": ["VARCHAR(9) COLLATE utf8mb4_bin", "VARCHAR(9) COLLATE utf8mb4_general_ci"],
    "sqlite": ["TEXT", "TEXT COLLATE NOCASE"], "duckdb": ["VARCHAR", "VARCHAR COLLATE NOCASE"],
}  # fmt: skip


@pytest.mark.parametrize("name", databases(*COLLATED))
def test_groups_are_those_of_the_columns_collation(name):
    opened, quote = open_warehouse(name), open_warehouse(name).dialect.quote
    fill(opened, rows().with_columns(who=pl.Series(["p", "P", "q"] * 80)))
    for type_, sizes in zip(COLLATED[name], ([80, 80, 80], [80, 160]), strict=True):
        opened.run(f"DROP TABLE IF EXISTS {quote('collated')}")
        kept = ", ".join(map(quote, ("x", "s", "who")))
        opened.run(f"CREATE TABLE {quote('collated')} (x DOUBLE, s VARCHAR(20), who {type_})")
        opened.run(f"INSERT INTO {quote('collated')} SELECT {kept} FROM {quote('t')}")
        query = model_of().database(name).monitor_query("collated", by="who", measures=["rows"])
        assert sorted(row[-1] for row in opened.rows(query)) == sizes


@cases("objective", ["count:poisson", "binary:hinge"])
def test_rows_without_an_offset_have_no_prediction(warehouse, objective):
    frame = rows().with_columns(target=(pl.col("y") > 0).fill_null(value=False).cast(pl.Int64))
    model = fb.fit(frame, "target", features=["x"], objective=objective, base_margin="w", n_estimators=2)
    model = model.with_baseline(frame, bins=4)
    holed = frame.with_columns(w=pl.when(pl.int_range(pl.len()) % 3 > 0).then("w"))
    fill(warehouse, holed)
    query = model.database(warehouse.name).monitor_query("t", measures=["score_drift"])
    predicted = model.predict(holed)
    assert predicted.null_count() == 80
    expected = index(model.baseline.scores, predicted)
    assert measured(warehouse, query, 0) == {("score_drift", "prediction"): pytest.approx(expected, rel=1e-9)}


# --- a history --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_history_gets_each_measure_once_and_metrics_when_labels_are_there(warehouse):
    database, quote = model_of().database(warehouse.name), warehouse.dialect.quote
    options = {"time": "at", "last": 3, "by": "who", "target": "y"}
    fill(warehouse, rows())
    warehouse.run(f"DROP TABLE IF EXISTS {quote('watched')}")
    warehouse.run(database.create_history_sql("watched", by="who"))
    columns = [quote(name) for name in ("window_start", "who", "measure", "name", "value")]
    everything = f"SELECT {', '.join(columns)} FROM {quote('watched')}"
    appended = []
    for end in (MONDAY + 3 * DAY, MONDAY + 3 * DAY, END, END):
        warehouse.run(database.append_history_sql("watched", "t", until=end, **options))
        appended.append(len(warehouse.rows(everything)))
    assert appended[0] == appended[1] < appended[2] == appended[3]
    assert (MONDAY + 3 * DAY, "p", "metric", "rmse") not in measured(warehouse, everything, 2)
    fill(warehouse, rows().with_columns(pl.col("y").fill_null(1.5)))
    warehouse.run(database.append_history_sql("watched", "t", until=END, **options))
    found = measured(warehouse, everything, 2)
    assert found[MONDAY + 3 * DAY, "p", "metric", "rmse"] > 0
    query = database.monitor_query("t", **{**options, "last": 5, "until": END})
    whole = measured(warehouse, query, 2)
    assert all(value == pytest.approx(whole[key]) for key, value in found.items() if key[0] == MONDAY)
    other = fb.fit(rows().drop_nulls("y"), "y", features=["x"], n_estimators=1).database(warehouse.name)
    before = len(warehouse.rows(everything))
    warehouse.run(other.append_history_sql("watched", "t", until=END, measures=["rows"], **options))
    assert len(warehouse.rows(everything)) == before + 3 * 2 * 3


@pytest.mark.slow
@cases("dialect", [name for name in DIALECTS if name not in WAREHOUSES])
def test_every_dialect_has_the_query_and_the_statements(dialect):
    database = model_of().database(dialect)
    options = {"time": "at", "by": "who", "target": "y", "eval_metric": "mae"}
    texts = [database.monitor_query("t", window="week", last=2, **options)]
    texts.append(database.append_history_sql("a.h", "t", window="month", **options))
    if dialect == "athena":
        with pytest.raises(fb.ParameterError, match="a table of athena is made with a path"):
            database.create_history_sql("h")
    else:
        texts.append(database.create_history_sql("a.h", by="who"))
    for text in texts:
        assert n_statements(text, DIALECTS[dialect]) == 1


# --- what is refused --------------------------------------------------------------------------------------------------


@cases("arguments, message", [
    ({"last": 3}, "set time, a column"),
    ({"time": "at", "until": END}, "set last, their number"),
    ({"time": "at", "last": 1, "until": "2026-01-01"}, "until must be a datetime without a time zone"),
    ({"window": "year"}, "window must be one of 'hour'"),
    ({"measures": ["psi"]}, "measures must be a list of 'rows', .*'metric', not"),
    ({"measures": ["metric"]}, "there is nothing to measure"),
    ({"by": "measure"}, "by column 'measure' has the name of another column"),
    ({"baseline": 3}, "baseline must be a frame"),
    ({"eval_metric": "rmse"}, "eval_metric needs labels: set target"),
    ({"labelled": 2}, "labelled must be a number from 0 to 1"),
])  # fmt: skip
def test_what_a_query_has_not_is_said(arguments, message):
    with pytest.raises(fb.ParameterError, match=message):
        model_of().database().monitor_query("t", **arguments)


@cases("limits", [{"text": 900}, {"columns": 5}, {"stages": 2}])
def test_a_query_that_is_too_large_says_what_to_leave_out(limits):
    with pytest.raises(fb.ParameterError, match=r"at (the )?most.*; pass the rows of some features of the baseline"):
        model_of().database("postgres", limits=limits).monitor_query("t")


def test_a_frame_of_bins_of_some_features_and_no_baseline():
    opened = open_warehouse("duckdb")
    fill(opened, rows())
    model = fb.fit(rows().drop_nulls("y"), "y", features=["x", "s"], n_estimators=2)
    assert model.baseline is None
    found = measured(opened, model.database().monitor_query("t"), 0)
    assert set(found) == {("rows", "all"), ("missing", "x"), ("missing", "s"), ("unseen", "s")}
    bins = model.database().baseline(rows()).filter(feature="x")
    found = measured(opened, model.database().monitor_query("t", baseline=bins, measures=["drift"]), 0)
    assert found == {("drift", "x"): pytest.approx(0, abs=1e-9)}

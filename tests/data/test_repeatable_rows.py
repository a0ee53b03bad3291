"""Rows that may be others the next time are read once, in whatever way they are used, and nothing of them stays."""

import threading

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.checks.arguments import anything, checked
from frameboost.data.opening import open_source
from frameboost.engines import query_costs

SHAPE = {"n_estimators": 1, "max_depth": 2, "verbose": False}


@pytest.fixture
def con():
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE t AS SELECT range AS id, (range * 7 % 100)::DOUBLE AS x, 'c' || (range % 3) AS s, "
        "(range * 7 % 100)::DOUBLE * 2 AS y, range % 2 = 0 AS late FROM range(400)"
    )
    con.execute("CREATE TABLE keys AS SELECT 'c' || range AS s, range AS k FROM range(3)")
    return con


def left(con):
    """Return what a connection has that it had not at first."""
    names = "SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views() WHERE NOT internal"
    return {name for (name,) in con.sql(names).fetchall() if name.startswith("frameboost")}


# --- what is read once ------------------------------------------------------------------------------------------------


@checked(relation=anything)
def is_copied(relation):
    return open_source(relation).is_copy


@pytest.mark.slow
def test_only_what_may_differ_is_copied(con, tmp_path):
    parquet, csv = (str(tmp_path / f"t.{kind}") for kind in ("parquet", "csv"))
    con.execute(f"COPY t TO '{parquet}'; COPY t TO '{csv}'")
    con.execute("CREATE TEMP TABLE mine AS FROM t; CREATE VIEW plain AS SELECT x + 1 AS x FROM t")
    con.execute("CREATE MACRO coin() AS random() < 0.5; CREATE MACRO rows() AS TABLE FROM t WHERE coin()")
    con.execute('CREATE VIEW drawn AS FROM t WHERE coin(); CREATE TEMP VIEW "Drawn Again" AS SELECT x FROM drawn')
    con.execute("CREATE TABLE made (x INT, z DOUBLE AS (random())); CREATE SEQUENCE numbers")
    con.execute("CREATE MACRO twice(a) AS 2 * a; CREATE TABLE random AS SELECT 1 AS now; SET VARIABLE v = 3")
    con.create_function("in_python", lambda x: x, ["DOUBLE"], "DOUBLE")
    frame = pl.DataFrame({"x": [1, 2]}).to_arrow()  # noqa: F841 - DuckDB finds it by its name
    stays = [
        "FROM plain", "SELECT twice(x) AS z, s FROM t WHERE y > 3 AND s LIKE 'c%'",
        "FROM random",
        "SELECT random.now FROM random WHERE now > 0 -- random()",
        f"FROM '{parquet}'", f"SELECT x * 2 AS x FROM read_parquet('{parquet}') WHERE x > 1",
        "FROM t JOIN keys USING (s)", "SELECT x FROM t UNION ALL SELECT y FROM t", "FROM (VALUES (1, 2)) AS v(a, b)",
        "SELECT year(DATE '2020-01-01' + id::INT) AS x FROM t",
    ]  # fmt: skip
    differs = [
        "FROM t USING SAMPLE 50 PERCENT (bernoulli)", "FROM t TABLESAMPLE reservoir(20 ROWS)",
        "SELECT *, \"random\" ( ) AS z FROM t",
        "SELECT uuid() AS u FROM t", "FROM t WHERE current_date > DATE '2020-01-01'",
        "SELECT age(DATE '2020-01-01') AS a, get_current_timestamp() AS n FROM t", "FROM drawn", 'FROM "Drawn Again"',
        "FROM rows()", "SELECT in_python(x) AS x FROM t",
        "SELECT list_transform([x], lambda a: a + random()) AS l FROM t", "SELECT x, (SELECT random()) AS r FROM t",
        "FROM t ORDER BY s LIMIT 50", "FROM t LIMIT 50",
        "SELECT DISTINCT ON (s) * FROM t", "SELECT *, row_number() OVER (ORDER BY s) AS n FROM t",
        "SELECT s, SUM(x) AS x, FIRST(y) AS y FROM t GROUP BY s", f"FROM '{csv}'", "FROM frame",
        "FROM duckdb_settings()", "FROM query('SELECT random() AS x')", "FROM query_table('drawn')",
    ]  # fmt: skip
    for query in stays:
        assert not is_copied(con.sql(query)), query
    for query in differs:
        assert is_copied(con.sql(query)), query
    relations = [
        con.table("t"),
        con.view("plain"),
        con.table("t").filter("x > 3").project("x + 1 AS z"),
        con.values([1]),
    ]
    assert [is_copied(relation) for relation in relations] == [False] * 4
    relations = [con.view("drawn"), con.table("made"), con.table("t").filter("random() < 0.5"), con.read_csv(csv)]
    assert [is_copied(relation) for relation in relations] == [True] * 4
    assert left(con) == set()


def test_tables_that_another_connection_may_write_to_are_copied(con, tmp_path):
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other; CREATE TABLE other.t AS FROM t; DETACH other")
    con.execute(f"ATTACH '{tmp_path / 'other.db'}' AS other (READ_ONLY); CREATE TEMP TABLE mine AS FROM t")
    assert not is_copied(con.table("t"))
    with con.cursor():
        assert is_copied(con.table("t"))
        assert is_copied(con.sql("SELECT x FROM t"))
        assert not is_copied(con.table("other.t"))
        assert not is_copied(con.table("mine"))
        con.execute("BEGIN")
        assert not is_copied(con.table("t")), "a transaction sees one state"
        con.execute("ROLLBACK")
    assert not is_copied(con.table("t"))


# --- in whatever way --------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(con, monkeypatch):
    """Return a relation of 400 rows whose y and x are drawn anew, equally, in each reading, and the drawn numbers."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", -1)  # queries, in place of a copy in memory
    drawn = []

    def draw(number):
        drawn.append(number)
        return float(len(drawn) * 7 % 100)

    con.create_function("draw", draw, ["BIGINT"], "DOUBLE", side_effects=True)
    rows = "SELECT id, s, late, draw(id) AS x FROM t"
    return con.sql(f"SELECT *, x * 2 AS y, x > 50 AS is_large, x % 5 AS day FROM ({rows})"), drawn


_FEATURES = {"features": ["x", "s"]}


@pytest.fixture(scope="module")
def model():
    x = [float(i * 7 % 100) for i in range(400)]
    frame = pl.DataFrame({"x": x, "s": [f"c{i % 3}" for i in range(400)], "y": [2 * value for value in x]})
    return fb.fit(frame, "y", **_FEATURES, **SHAPE)


_USES = {
    "fit": lambda rows, _: fb.fit(rows, "y", **_FEATURES, **SHAPE),
    "share": lambda rows, _: fb.fit(rows, "y", valid=0.2, **_FEATURES, **SHAPE),
    "condition": lambda rows, _: fb.fit(rows, "y", valid="x > 50", **_FEATURES, **SHAPE),
    "other rows": lambda rows, model: fb.fit(rows, "y", valid={"again": rows}, **_FEATURES, **SHAPE),
    "folds": lambda rows, _: fb.fit(rows, "y", folds=2, **_FEATURES, **SHAPE),
    "init_model": lambda rows, model: fb.fit(rows, "y", init_model=model, **SHAPE),
    "cv": lambda rows, _: fb.cv(rows, "y", folds=2, **_FEATURES, **SHAPE),
    "auto": lambda rows, _: fb.auto(rows, "y", quality=1, features=["x"], n_estimators=2),
    "predict": lambda rows, model: model.predict(rows),
    "explain": lambda rows, model: model.explain(rows),
    "evaluate": lambda rows, model: model.evaluate(rows, "y").calibration,
    "drift": lambda rows, model: model.database("duckdb").baseline(rows),
    "refit": lambda rows, model: model.refit(rows, "y"),
    "conform": lambda rows, model: model.conform(rows, "y").evaluate(rows, "y").interval,
    "star": lambda rows, _: fb.fit(
        fb.join(rows, rows.query("r", "FROM keys"), on="s"), "y", features=["x", "k"], **SHAPE),
    "dimension": lambda rows, _: fb.fit(
        fb.join(rows.query("r", "FROM t"), rows.project("id, x AS z"), on="id"), "y", features=["z"], **SHAPE),
    "aggregates": lambda rows, _: fb.fit(
        fb.join(rows.query("r", "FROM keys"), fb.aggregate(rows, "s", {"x": "max"}), on="s"), "k", features=["x_max"],
        **SHAPE),
}  # fmt: skip


QUICK = ("fit", "condition", "predict", "explain", "drift", "refit")


@pytest.mark.parametrize("use", [
    pytest.param(use, id=name, marks=() if name in QUICK else pytest.mark.slow)
    for name, use in _USES.items()
])  # fmt: skip
def test_rows_are_read_once(con, counted, model, use):
    rows, drawn = counted
    calls = 2 if use is _USES["conform"] else 1
    use(rows, model)
    assert len(drawn) == 400 * calls
    assert left(con) == set()


@pytest.mark.slow
def test_labels_and_values_are_of_the_same_rows(con, monkeypatch):
    monkeypatch.setattr(query_costs, "MAX_VALUES", -1)
    rows = con.sql("SELECT *, x * 2 AS y FROM (SELECT floor(random() * 200) AS x FROM range(500))")
    options = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0, "max_depth": 12}
    model = fb.fit(rows, "y", **options)
    assert model.evaluate(rows, "y").metrics["value"][0] < 12, "x tells y but for values that no row has had"


@pytest.mark.slow
def test_what_is_evaluated_later_is_of_the_same_rows(con):
    model = fb.fit(con.table("t"), "late", features=["x", "s"], **SHAPE)
    found = model.evaluate(con.sql("FROM t WHERE random() < 0.5"), "late", by="s")
    assert found.confusion["weight"].sum() == found.metrics.unique("s")["rows"].sum()
    assert len(found.roc) > 2


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_stays_after_an_error(con):
    def fail(*_):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fb.fit(con.sql("FROM t WHERE random() < 2"), "y", callbacks=[fail], **SHAPE)
    with pytest.raises(fb.DataError, match="not in the data"):
        fb.fit(con.sql("FROM t WHERE random() < 2"), "absent", **SHAPE)
    with pytest.raises(duckdb.ConversionException):
        fb.fit(con.sql("SELECT *, (s || random())::INT AS z FROM t"), "y", **SHAPE)
    assert left(con) == set()


@pytest.mark.slow
def test_rows_that_another_thread_adds_are_not_seen_in_part(con, monkeypatch):
    """Every row has y = 2 * x, and x from 0 to 99; rows that come later have other labels."""
    monkeypatch.setattr(query_costs, "MAX_VALUES", -1)
    stopped, cursor = threading.Event(), con.cursor()

    def add():
        while not stopped.wait(0.001):
            cursor.execute("INSERT INTO t SELECT id, x + 1000, 'new', 1e9, late FROM t LIMIT 5")

    thread = threading.Thread(target=add)
    thread.start()
    try:
        model = fb.fit(con.table("t"), "s", features=["x"], **SHAPE)
    finally:
        stopped.set()
        thread.join()
    assert set(model.ensemble.labels) <= {"c0", "c1", "c2", "new"}


def test_a_column_of_nulls_keeps_its_type(con):
    with pytest.raises(fb.DataError) as plain:
        fb.fit(con.sql("SELECT x, NULL AS y FROM t"), "y")
    with pytest.raises(fb.DataError) as drawn:
        fb.fit(con.sql("SELECT x, NULL AS y FROM t WHERE random() < 2"), "y")
    assert str(drawn.value) == str(plain.value)

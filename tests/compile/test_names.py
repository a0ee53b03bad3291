"""Columns whose names mean something else in SQL, in every form of query and every installed database."""

import random
import sqlite3

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.dialects.built_in import DIALECTS
from frameboost.errors import ParameterError
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.random_models import naive_margins, random_model, random_values
from tests.support.warehouses import ALL_BUT_SPARK, nameable, open_warehouse

NAMES = [
    "true", "false", "null", "current_date", "current_timestamp", "rowid", "_rowid_", "user", "select", "default",
    "date", "a.b", "d", "n", "m", "f", "t", "left", "value", "category", "node", "*", "'", '"', "`", "]", "1", "1=1",
    "--", "/*", "?", ":x", "@x", "%s", "{x}", "v_1", "stage_1", " x",
]  # fmt: skip
KINDS = ["float64", "int64", "string"]


def model_over(names: list[str], rng: random.Random) -> fb.Model:
    kinds = [FeatureType(KINDS[i % len(KINDS)]) for i in range(len(names))]
    return random_model(kinds, names, rng, n_trees=15, depth=4)


@pytest.fixture(params=ALL_BUT_SPARK)
def filled(request):
    """Return a database, a model over columns of such names, and their values."""
    warehouse = open_warehouse(request.param)
    rng = random.Random(request.param)
    model = model_over(nameable(warehouse.dialect, NAMES), rng)
    drawn = {f.name: random_values(f.type, 40, rng) for f in model.ensemble.features}
    return warehouse, model, warehouse.fill_features("t", model, drawn)


@pytest.mark.slow
@cases("form", ["case", "staged", "table", "sorted", "lists"])
def test_every_form_reads_the_columns(filled, form, tmp_path):
    warehouse, model, values = filled
    if form in ("lists", "sorted") and warehouse.name != "duckdb":
        pytest.skip(f"{warehouse.name} has no such form")
    warehouse.load_trees("trees", model, tmp_path)
    query = model.query("t", warehouse.name, keep=["id"], form=form, trees="trees" if form == "table" else None)
    assert [margin for _, margin in sorted(warehouse.rows(query))] == naive_margins(model, values).tolist()


@pytest.mark.slow
def test_contributions_and_reasons_read_the_columns(filled):
    warehouse, model, _ = filled
    rows = sorted(warehouse.rows(model.database(warehouse.name).explain_query("t", keep=["id"], approx=True)))
    reasons = sorted(warehouse.rows(model.database(warehouse.name).explain_query("t", keep=["id"], top=3, approx=True)))
    names = [feature.name for feature in model.ensemble.features]
    for (i, *contributions), found in zip(rows, reasons, strict=True):
        by_size = sorted(zip(names, contributions, strict=False), key=lambda pair: -abs(pair[1]))
        assert tuple(found) == (i, *by_size[0], *by_size[1], *by_size[2])


@pytest.mark.slow
@cases("form", ["case", "staged", "table", "top"])
def test_the_columns_are_kept(filled, form, tmp_path):
    warehouse, model, values = filled
    model = model[:4]
    warehouse.load_trees("trees", model, tmp_path)
    keep = ["id", *(name for name in values if name != "f")]
    if form == "top":
        query = model.database(warehouse.name).explain_query("t", keep=keep, top=1, approx=True)
    else:
        query = model.query("t", warehouse.name, keep=keep, form=form, trees="trees" if form == "table" else None)
    expected = sorted(zip(range(40), *(values[name] for name in keep[1:]), strict=True), key=lambda row: row[0])
    found = sorted(warehouse.rows(query), key=lambda row: row[0])
    assert list(map(_comparable, (row[: len(keep)] for row in found))) == list(map(_comparable, expected))


def _comparable(row: tuple) -> list:
    return [None if value is None or value != value else value for value in row]


@pytest.mark.parametrize("form", ["staged", "table"])
@pytest.mark.parametrize("name", ["true", "FALSE"])
def test_sqlite_starts_from_margins_of_such_names(name, form):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 0.0, 8.0, 8.0], name: [0.5, 1.5, None, 2.0]})
    model = fb.fit(frame, "y", features=["x"], n_estimators=1, learning_rate=1, reg_lambda=0)
    con = sqlite3.connect(":memory:")
    con.execute(f'CREATE TABLE t (x REAL, "{name}" REAL)')
    con.executemany("INSERT INTO t VALUES (?, ?)", frame.select("x", name).rows())
    for statement in model.database("sqlite").table_statements("trees"):
        con.execute(statement)
    query = model.query("t", "sqlite", keep=["x", name], base_margin=name, form=form, trees="trees")
    expected = [(1.0, 0.5, -3.5), (2.0, 1.5, -2.5), (3.0, None, None), (4.0, 2.0, 6.0)]  # leaves of −4 and 4
    found = con.execute(query)
    assert [column[0] for column in found.description] == ["x", name, "prediction"]
    assert sorted(found.fetchall()) == expected


@pytest.mark.parametrize("form", ["case", "staged"])
def test_sqlite_says_that_a_column_is_not_there(form):
    # In double quotes it would be a string, which is above every number.
    model = model_over(["x", "z"], random.Random(1))
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE t (id INTEGER, x REAL)")
    con.execute("INSERT INTO t VALUES (1, 0.5)")
    with pytest.raises(sqlite3.OperationalError, match="no such column: z"):
        con.execute(model.query("t", "sqlite", keep=["id"], form=form))


# --- names of the results ---------------------------------------------------------------------------------------------

RESULTS = pl.DataFrame({"id": [1, 2], "Prediction": [10, 20], "v_1": [1, 1], "fb_v": [0, 0], "x": [0, 4]})


def two_leaves(feature: str = "x", threshold: int = 3) -> fb.Model:
    return made([Feature(feature, FeatureType("int64"))], [grown((0, threshold, "right", 0.25, 0.75))], (0.0,))


@pytest.mark.parametrize("form", ["case", "staged", "sorted", "lists"])
def test_a_new_prediction_replaces_an_old_one_in_duckdb(form):
    con = duckdb.connect()
    con.execute("CREATE TABLE rows AS FROM RESULTS")
    database = two_leaves().database()
    con.execute(database.create_table_sql("scored", "rows", form=form))
    con.execute(database.create_view_sql("seen", "rows", form=form))
    for source in ("scored", "seen", f"({database.query('rows', form=form)})"):
        found = con.sql(f"SELECT * FROM {source} ORDER BY id")
        assert found.columns == ["id", "v_1", "fb_v", "x", "prediction"]
        assert found.project("id, v_1, prediction").fetchall() == [(1, 1, 0.25), (2, 1, 0.75)]
    con.execute("CREATE TABLE others AS SELECT id, x FROM rows")
    assert con.sql(database.query("others", form=form)).columns == ["id", "x", "prediction"]


def test_a_model_that_reads_a_prediction_replaces_it_or_says_what_to_do():
    stacked = two_leaves("PREDICTION", 15)
    found = duckdb.sql(stacked.query("RESULTS"))
    assert found.columns == ["id", "v_1", "fb_v", "x", "prediction"]
    assert found.project("id, prediction").order("id").fetchall() == [(1, 0.25), (2, 0.75)]
    for dialect in DIALECTS:
        database = stacked.database(dialect, columns={"PREDICTION": "prediction"})
        kept = database.query("rows", keep=["id"])
        assert "prediction" in kept
        if database.dialect.statements.except_columns is None:
            with pytest.raises(ParameterError, match=r"prediction. twice, which the model reads; name the columns"):
                database.query("rows")
        else:
            assert "* EXC" in database.query("rows")


@pytest.mark.parametrize("database", ALL_BUT_SPARK)
def test_a_prediction_that_is_read_and_one_that_is_written(database):
    warehouse, kind = open_warehouse(database), FeatureType("int64")
    warehouse.fill("stacked", {"prediction": (kind, [10, 20, None])})
    query = two_leaves("prediction", 15).database(database).query("stacked", keep=["id"])
    assert dict(warehouse.rows(query)) == {0: 0.25, 1: 0.75, 2: 0.75}


def test_sqlite_means_the_new_prediction():
    con = sqlite3.connect(":memory:")
    con.execute("CREATE TABLE rows AS SELECT 1 AS id, 10 AS prediction, 4 AS x")
    database = two_leaves().database("sqlite")
    assert con.execute(f"SELECT prediction FROM ({database.query('rows')})").fetchall() == [(0.75,)]
    con.execute(database.create_table_sql("scored", "rows"))
    assert con.execute("SELECT prediction FROM scored").fetchall() == [(0.75,)]


def test_names_of_results_that_differ_in_case_from_kept_ones_are_refused():
    for dialect in ("duckdb", "tsql", "mysql"):
        with pytest.raises(ParameterError, match="column 'prediction' twice"):
            two_leaves().query("rows", dialect, keep=["PREDICTION"])
    assert two_leaves().query("rows", "postgres", keep=["PREDICTION"])


@pytest.mark.parametrize("database", ALL_BUT_SPARK)
def test_greatest_of_one_is_no_aggregate(database):
    loss = fb.Objective(gradient="margin - label", hessian="1", link="GREATEST(margin)")
    model = fb.fit(pl.DataFrame({"x": [1, 2, 3, 4], "y": [0.0, 0.0, 8.0, 8.0]}), "y", objective=loss, n_estimators=1,
                   learning_rate=1, reg_lambda=0, base_score=4)  # fmt: skip
    warehouse = open_warehouse(database)
    warehouse.fill("greatest", {"x": (FeatureType("int64"), [1, 2, 4])})
    rows = sorted(warehouse.rows(model.database(database).query("greatest", keep=["id"])))
    assert [value for _, value in rows] == model.predict(pl.DataFrame({"x": [1, 2, 4]})).to_list() == [0.0, 0.0, 8.0]

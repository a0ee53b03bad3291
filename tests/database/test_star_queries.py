"""Queries of a model that was trained on a star: the joins are in them, in every database."""

import json
import re

import duckdb
import jinja2
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.schema.types import FeatureType
from tests.support.cases import cases
from tests.support.documents import put
from tests.support.stars import random_star
from tests.support.warehouses import ALL, databases, open_warehouse

STRING, INT, FLOAT = (FeatureType(name) for name in ("string", "int64", "float64"))
SHIPS = "ships"
# Facts with a key that is missing, one that is unknown, and one that differs from a known one in case only.
FACTS = {
    "key": (STRING, ["a", "b", "c", None, "z", "A", "a", "b", "c", "b"]),
    "x": (INT, [0, 1, 0, 1, 0, 1, 1, 0, 1, None]),
    "y": (FLOAT, [1.0, 5.0, 3.0, 0.0, 0.5, 0.0, 2.0, 6.0, 4.0, 7.0]),
}
SHIPS_COLUMNS = {"key": (STRING, ["a", "b", "c", "d"]), "size": (INT, [10, 30, 20, 40]), "yard": (INT, [1, 2, None, 1])}
YARDS = {"number": (INT, [1, 2]), "land": (STRING, ["no", "se"])}


def frame(columns):
    return pl.DataFrame({name: pl.Series(values, dtype=kind.to_polars()) for name, (kind, values) in columns.items()})


@pytest.fixture(scope="module")
def star():
    ships = fb.join(frame(FACTS), frame(SHIPS_COLUMNS), on="key", prefix="ship.", name=SHIPS)
    return ships.join(frame(YARDS), left_on="ship.yard", right_on="number", name="yards")


@pytest.fixture(scope="module")
def model(star):
    features = ["x", "ship.size", "land"]
    return star.pipe(fb.fit, target="y", features=features, n_estimators=6, max_depth=3, min_child_weight=0)


def filled(name):
    database = open_warehouse(name)
    for table, columns in {"facts_of_day": FACTS, SHIPS: SHIPS_COLUMNS, "yards": YARDS}.items():
        database.fill(table, columns)
    return database


@pytest.mark.parametrize("form", ["case", "staged"])
@pytest.mark.parametrize("name", ALL)
def test_a_query_has_the_joins(name, form, star, model):
    database = filled(name)
    found = database.rows(model.query("facts_of_day", name, keep=["id"], form=form))
    assert [value for _, value in sorted(found)] == model.predict(star).to_list()
    assert len(set(model.predict(star).to_list())) > 4


@pytest.mark.parametrize("name", ALL)
def test_explanations_and_drift_have_the_joins(name, star, model):
    database, of_model = filled(name), model.database(name)
    for approx in (True, False):
        found = sorted(database.rows(of_model.explain_query("facts_of_day", keep=["id"], approx=approx)))
        expected = model.explain(star, approx=approx).to_numpy()
        np.testing.assert_allclose([row[1:] for row in found], expected, atol=0.0 if approx else 1e-12)
    drift = database.rows(of_model.drift_query("facts_of_day", of_model.baseline(star)))
    assert {row[0] for row in drift} == set(model.features)
    assert {round(row[5], 12) for row in drift} == {0.0}


def test_tables_and_columns_may_be_called_otherwise(star, model):
    with duckdb.connect() as con:
        con.register("f", frame(FACTS).rename({"x": "X1"}))
        con.register('s" --', frame(SHIPS_COLUMNS).rename({"size": "metres"}))
        con.register("yards", frame(YARDS))
        names = {"x": "X1", "ship.size": "metres"}
        query = model.query("f", columns=names, tables={SHIPS: 's" --'}, keep=["key", "ship.yard"])
        found = con.sql(query).fetchall()
    assert [row[0] for row in found] == frame(FACTS)["key"].to_list()
    assert [row[1] for row in found] == [1, 2, None, None, None, None, 1, 2, None, 2]
    assert [row[2] for row in found] == model.predict(star).to_list()


def test_a_joined_table_is_scored_as_it_is(star, model):
    with duckdb.connect() as con:
        con.register("all_columns", star.collect())
        query = model.query("all_columns", tables="joined")
        assert "JOIN" not in query
        assert con.sql(query).pl()["prediction"].to_list() == model.predict(star).to_list()
        assert star.collect().with_columns(model.expr())["prediction"].to_list() == model.predict(star).to_list()


def test_only_tables_that_are_read_are_joined(star):
    by_size = star.pipe(fb.fit, target="y", features=["x", "ship.size"], n_estimators=2, min_child_weight=0)
    assert "yards" not in by_size.query("t")
    by_facts = star.pipe(fb.fit, target="y", features=["x"], n_estimators=2, min_child_weight=0)
    assert "JOIN" not in by_facts.query("t")
    assert by_facts.to_json() == fb.fit(frame(FACTS), "y", features=["x"], n_estimators=2, min_child_weight=0).to_json()


def test_a_column_that_bigquery_cannot_name(model):
    query = model.query("t", "bigquery", tables={SHIPS: "ships"})
    assert "dimension_1.`size` AS `dimension_1_size`" in query
    assert "`dimension_1_size` < " in query
    assert "`ship.size`" not in query


def test_the_joins_are_in_the_file(tmp_path, model):
    for path in (tmp_path / "m.json", tmp_path / "m.ubj"):
        model.save(path)
        loaded = fb.load(path)
        assert loaded == model
        assert loaded.query("t") == model.query("t")
    head = json.loads(model.to_json())["joins"]
    assert head == [
        {"table": SHIPS, "on": [{"left": "key", "right": "key", "text": True}],
         "columns": {"ship.size": "size", "ship.yard": "yard"}},
        {"table": "yards", "on": [{"left": "ship.yard", "right": "number", "text": False}],
         "columns": {"land": "land"}},
    ]  # fmt: skip


@cases("path, value", [
    (["joins"], 3), (["joins", 0], []), (["joins", 0, "table"], ""), (["joins", 0, "on"], []),
    (["joins", 0, "on", 0], "key"), (["joins", 0, "on", 0, "left"], 1), (["joins", 0, "on", 0, "text"], "yes"),
    (["joins", 0, "columns"], ["size"]), (["joins", 0, "columns"], {"size": 1}),
    (["joins", 1, "columns"], {"ship.size": "size"}), (["joins", 0, "more"], 1),
])  # fmt: skip
def test_damaged_files(tmp_path, model, path, value):
    (tmp_path / "m.json").write_text(json.dumps(put(json.loads(model.to_json()), path, value)))
    with pytest.raises(fb.ModelFileError, match="join"):
        fb.load(tmp_path / "m.json")


def test_a_dbt_model_refers_to_every_table(tmp_path, star, model):
    database = model.database(tables={SHIPS: "stg_ships"})
    database.to_dbt(tmp_path, "scored", "stg_facts", keep=["key"])
    text = (tmp_path / "models" / "scored.sql").read_text()
    rendered = jinja2.Environment().from_string(text).render(ref=lambda name: f'"{name}"', config=lambda **_: "")
    with duckdb.connect() as con:
        for name, columns in {"stg_facts": FACTS, "stg_ships": SHIPS_COLUMNS, "yards": YARDS}.items():
            con.register(name, frame(columns))
        assert [row[1] for row in con.sql(rendered).fetchall()] == model.predict(star).to_list()
    with pytest.raises(fb.ParameterError, match=r"^tables must be the name of a dbt model, of letters"):
        model.database(tables={SHIPS: "ship s"}).to_dbt(tmp_path, "scored", "stg_facts")


def plain():
    return fb.fit(frame(FACTS), "y", features=["x"], n_estimators=1, min_child_weight=0)


@cases("call, message", [
    (lambda m: m.query("t", tables={"ship": "s"}), "tables names 'ship'; the dimensions of the model are"),
    (lambda m: m.query("t", tables=["yards"]), "tables must be a dict"),
    (lambda m: m.query("t", tables={"yards": ""}), "tables must have the name of a table for 'yards'"),
    (lambda m: m.query("t", tables="join"), "tables must be a dict of the tables' names by dimension, or 'joined'"),
    (lambda m: m.database().update_sql("facts", "score"), "update_sql reads the columns of one table"),
    (lambda _: plain().query("t", tables="joined"), "tables is for a model that was trained on a star"),
])  # fmt: skip
def test_tables_that_are_none_and_what_joins_do_not_go_with(model, call, message):
    with pytest.raises(fb.ParameterError, match=message):
        call(model)


@pytest.mark.parametrize("name", databases("postgres", "mariadb"))
def test_an_index_finds_the_key_of_a_join_on_strings(name):
    model = fb.fit(fb.join(frame(FACTS), frame(SHIPS_COLUMNS), on="key", name=SHIPS), "y", features=["size"])
    warehouse, query = open_warehouse(name), model.query("facts", name, keep=["id"])
    warehouse.fill("facts", {"key": FACTS["key"]})
    warehouse.run(f"DROP TABLE IF EXISTS {SHIPS}")
    warehouse.run(f"CREATE TABLE {SHIPS} AS SELECT id + 1000 AS size FROM facts WHERE id < 0")
    key = "VARCHAR(9) COLLATE utf8mb4_unicode_ci" if name == "mariadb" else "VARCHAR(9)"  # another one than the facts'
    warehouse.run(f"ALTER TABLE {SHIPS} ADD {warehouse.dialect.quote('key')} {key} PRIMARY KEY")
    only = {"postgres": "enable_seqscan enable_hashjoin enable_mergejoin", "mariadb": "max_seeks_for_key"}[name].split()
    warehouse.run("; ".join(f"SET {setting} = {'1' if name == 'mariadb' else 'off'}" for setting in only))
    plan = str(warehouse.rows(f"EXPLAIN {query}"))
    warehouse.run("; ".join(f"SET {setting} = DEFAULT" for setting in only))
    assert {"postgres": "Index Cond: ((key)::text = ", "mariadb": "'eq_ref', 'PRIMARY'"}[name] in plan


# --- trees of one dimension are scored once a row of it, to the last bit ----------------------------------------------

APART = [["x"], ["ship.size"], ["land"]]


def additive(star):
    how = {"n_estimators": 12, "min_child_weight": 0, "interaction_constraints": APART, "colsample_bytree": 0.4}
    return star.pipe(fb.fit, target="y", features=["x", "ship.size", "land"], max_depth=3, **how)


@pytest.mark.parametrize("name", ALL)
def test_scores_by_key_are_those_of_python(name, star):
    model = additive(star)
    query = model.query("facts_of_day", name, keep=["id"], form="by_key")
    assert "frameboost_score_1_1" in query and "frameboost_score_2_1" in query
    assert [value for _, value in sorted(filled(name).rows(query))] == model.predict(star).to_list()


@pytest.mark.parametrize("name", databases("duckdb", "sqlite", "postgres"))
def test_each_class_has_scores(name):
    classes = fb.join(frame(FACTS).with_columns(kind=pl.Series([0, 1, 2, 0, 1, 0, 2, 1, 2, 1])), frame(SHIPS_COLUMNS),
                      on="key", prefix="ship.", name=SHIPS)  # fmt: skip
    how = {"features": ["x", "ship.size"], "interaction_constraints": [["x"], ["ship.size"]], "min_child_weight": 0}
    model = classes.pipe(fb.fit, target="kind", objective="multi:softprob", n_estimators=4, **how)
    query = model.query("facts_of_day", name, keep=["id"], form="by_key", output="margin")
    assert len(set(re.findall(r"frameboost_score_\d_\d", query))) == 3
    found = [row[1:] for row in sorted(filled(name).rows(query))]
    assert found == [tuple(row) for row in model.predict(classes, output="margin").to_list()]
    most_likely = model.query("facts_of_day", name, keep=["id"], form="by_key", output="class")
    found = [row[1] for row in sorted(filled(name).rows(most_likely))]
    assert found == model.predict(classes, output="class").to_list()


def test_a_tree_of_one_dimension_is_in_its_table_only():
    # Planes 1 and 2 have the target 0 and 8: one stump, which adds -4 and 4 to the mean 4. Of plane 3, no plane is
    # known, and what is missing goes with the larger number of rows in training: left.
    facts = pl.DataFrame({"plane": [1, 2, 3], "y": [0.0, 8.0, 8.0]})
    planes = pl.DataFrame({"plane": [1, 2], "seats": [10, 20]})
    seen = fb.join(facts.head(2), planes, on="plane", name="planes")
    how = {"n_estimators": 1, "learning_rate": 1, "reg_lambda": 0, "min_child_weight": 0}
    model = seen.pipe(fb.fit, target="y", features=["seats"], **how)
    query = model.query("facts", keep=["plane"], form="by_key")
    facts_part, planes_part = query.split("LEFT JOIN")
    assert "CASE" not in facts_part
    assert 'CASE WHEN "seats" < 20 THEN -4.0e0 ELSE 4.0e0 END' in planes_part
    with duckdb.connect() as con:
        con.register("facts", facts)
        con.register("planes", planes)
        found = dict(con.sql(query).fetchall())
    unknown = model.predict(pl.DataFrame({"seats": [None]}, schema={"seats": pl.Int64})).item()
    assert found == {1: 0.0, 2: 8.0, 3: unknown}


@pytest.mark.parametrize("seed", range(4))
def test_scores_by_key_of_random_stars(seed):
    star = random_star(seed)
    tables = star.of_frames()
    model = tables.pipe(fb.fit, target="y", features=star.features(), n_estimators=20, max_depth=1, max_bin=16)
    rows = star.tables["facts"].height
    with duckdb.connect() as con:
        star.of_relations(con)
        numbered = star.tables["facts"].with_columns(number=pl.Series(np.arange(rows)))
        con.register("numbered", numbered)
        query = model.query("numbered", keep=["number"], form="by_key")
        found = con.sql(f"SELECT prediction FROM ({query}) ORDER BY number").pl().to_series()
    assert found.to_list() == model.predict(tables).to_list()


def test_without_joins_there_are_no_keys(star):
    by_facts = star.pipe(fb.fit, target="y", features=["x"], n_estimators=2, min_child_weight=0)
    model = additive(star)
    with pytest.raises(fb.ParameterError, match="this query joins none"):
        by_facts.query("t", keep=["id"], form="by_key")
    with pytest.raises(fb.ParameterError, match="this query joins none"):
        model.query("t", keep=["id"], form="by_key", tables="joined")
    with pytest.raises(fb.ParameterError, match="form='by_key' needs keep"):
        model.query("t", form="by_key")
    assert "frameboost_score" not in model.query("t", keep=["id"], form="by_key", output="leaf")


def test_dbt_has_the_scores_by_key_in_the_reference(star, tmp_path):
    [path, *_] = additive(star).database().to_dbt(tmp_path, "scored", "facts_of_day", keep=["id"], form="by_key")
    assert re.search(r'FROM \{\{ ref\("ships"\) \}\} AS dimension_1\)', path.read_text())

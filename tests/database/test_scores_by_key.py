"""Queries that score trees of one dimension once a row of it give what `predict` gives, to the last bit."""

import re

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from tests.database.test_star_queries import FACTS, SHIPS, SHIPS_COLUMNS, YARDS, filled, frame
from tests.support.stars import random_star
from tests.support.warehouses import ALL

APART = [["x"], ["ship.size"], ["land"]]


@pytest.fixture(scope="module")
def star():
    ships = fb.join(frame(FACTS), frame(SHIPS_COLUMNS), on="key", prefix="ship.", name=SHIPS)
    return ships.join(frame(YARDS), left_on="ship.yard", right_on="number", name="yards")


def additive(star):
    features = ["x", "ship.size", "land"]
    how = {
        "n_estimators": 12,
        "max_depth": 3,
        "min_child_weight": 0,
        "interaction_constraints": APART,
        "colsample_bytree": 0.4,
    }
    return star.pipe(fb.fit, target="y", features=features, **how)


@pytest.mark.parametrize("name", ALL)
def test_scores_are_those_of_python(name, star):
    model = additive(star)
    query = model.query("facts_of_day", name, keep=["id"], form="by_key")
    assert "frameboost_score_1_1" in query and "frameboost_score_2_1" in query
    assert [value for _, value in sorted(filled(name).rows(query))] == model.predict(star).to_list()


@pytest.mark.parametrize("name", ["duckdb", "sqlite", "postgres"])
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
    assert [row[1] for row in sorted(filled(name).rows(most_likely))] == model.predict(
        classes, output="class"
    ).to_list()


def test_a_tree_of_one_dimension_is_in_its_table_only():
    # Planes 1 and 2 have the target 0 and 8: one stump, which adds -4 and 4 to the mean 4. Of plane 3, no plane is
    # known, and what is missing goes with the larger number of rows in training: left.
    facts = pl.DataFrame({"plane": [1, 2, 3], "y": [0.0, 8.0, 8.0]})
    planes = pl.DataFrame({"plane": [1, 2], "seats": [10, 20]})
    seen = fb.join(facts.head(2), planes, on="plane", name="planes")
    model = seen.pipe(
        fb.fit, target="y", features=["seats"], n_estimators=1, learning_rate=1, reg_lambda=0, min_child_weight=0
    )
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
def test_random_stars(seed):
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
    with pytest.raises(fb.ParameterError, match="this query joins none"):
        by_facts.query("t", keep=["id"], form="by_key")
    with pytest.raises(fb.ParameterError, match="this query joins none"):
        additive(star).query("t", keep=["id"], form="by_key", tables="joined")
    leaves = additive(star).query("t", keep=["id"], form="by_key", output="leaf")
    assert "frameboost_score" not in leaves


def test_what_it_does_not_go_with(star):
    model = additive(star)
    with pytest.raises(fb.ParameterError, match="form='by_key' needs keep"):
        model.query("t", form="by_key")


def test_dbt_has_the_scores_in_the_reference(star, tmp_path):
    [path, *_] = additive(star).database().to_dbt(tmp_path, "scored", "facts_of_day", keep=["id"], form="by_key")
    assert re.search(r'FROM \{\{ ref\("ships"\) \}\} AS dimension_1\)', path.read_text())

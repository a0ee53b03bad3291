"""Conditions on rows that are data: the rows that they choose, and trees without the branches of others."""

import datetime as dt
import math
import random
from dataclasses import replace
from decimal import Decimal

import duckdb
import pytest

import frameboost as fb
from frameboost.compile.sql import sql_model
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import Tree
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.random_models import bits, frame_of, naive_margins, random_model, random_values, to_duckdb
from tests.support.warehouses import ALL_BUT_SPARK, open_warehouse

KINDS = {"x": "float64", "n": "int32", "place": "string", "ok": "boolean"}
PLACES = ("Bern", "it's", "Ulm", "ulm")


def asked(rng: random.Random) -> dict:
    """Return conditions on some features."""
    low, high = sorted((rng.uniform(-2, 2), rng.uniform(-2, 2)))
    n = rng.randint(-5, 5)
    of = {
        "x": [(low, high), (low, None), (None, high), low, None, [0.5, 1.5]],
        "n": [n, (n, n + 3), (None, 2.5), None, [n, 4]],
        "place": ["Ulm", ["Bern", "it's"], ["ulm", "Graz"], "Graz", None],
        "ok": [True, False, None],
    }
    return {name: rng.choice(of[name]) for name in rng.sample(list(of), rng.randint(1, 3))}


def holds(value, condition) -> bool:
    if value is None or value != value:
        return condition is None
    if isinstance(condition, tuple):
        return (condition[0] is None or value >= condition[0]) and (condition[1] is None or value <= condition[1])
    return value in condition if isinstance(condition, list) else condition is not None and value == condition


def over_places(tree: Tree) -> Tree:
    named = [codes and (tuple(code for code in codes if code < len(PLACES)) or (0,)) for codes in tree.categories]
    return replace(tree, categories=tuple(named))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_rows_and_scores_are_those_of_the_condition(name):
    warehouse, rng = open_warehouse(name), random.Random(name)
    drawn = random_model(list(map(FeatureType, KINDS.values())), list(KINDS), rng, n_trees=6, depth=5)
    model = made(
        [Feature(f.name, f.type, PLACES if f.type.is_categorical else ()) for f in drawn.ensemble.features],
        [over_places(tree) for tree in drawn.ensemble.trees],
    )
    values = {f.name: random_values(f.type, 300, rng) for f in model.ensemble.features}
    values["place"] = [rng.choice([*PLACES, "Graz", None]) for _ in range(300)]
    values["x"] = [rng.choice([None, math.nan, 0.5, 1.5, rng.uniform(-2, 2)]) for _ in range(300)]
    values["n"] = [rng.choice([None, *range(-6, 7)]) for _ in range(300)]
    values = warehouse.fill_features("t", model, values)
    margins, shorter = naive_margins(model, values), 0
    for _ in range(20):
        where = asked(rng)
        chosen = [i for i in range(300) if all(holds(values[each][i], condition) for each, condition in where.items())]
        query = model.query("t", name, keep=["id"], output="margin", form="case", where=where)
        rows = sorted(tuple(row) for row in warehouse.rows(query))
        assert [row[0] for row in rows] == chosen
        assert bits([row[1] for row in rows]) == bits(margins[chosen])
        plain = model.query("t", name, keep=["id"], form="case")
        shorter += len(query.partition("FROM")[0]) < len(plain.partition("FROM")[0])
    assert shorter > 10


@pytest.mark.parametrize("form", ["auto", "case", "staged", "sorted", "lists"])
def test_every_form_has_the_condition(form, monkeypatch):
    monkeypatch.setattr(sql_model, "_MIN_UNREAD", 0)
    rng = random.Random(form)
    model = random_model(list(map(FeatureType, KINDS.values())), list(KINDS), rng, n_trees=6, depth=5)
    values = {f.name: random_values(f.type, 100, rng) for f in model.ensemble.features}
    con, frame = duckdb.connect(), frame_of(model, values)
    to_duckdb(con, frame, "t")
    for where in ({"x": (-1, None)}, {"n": (None, 3), "ok": True}):
        chosen = [i for i in range(100) if all(holds(values[each][i], value) for each, value in where.items())]
        query = model.query("t", keep=["position"], output="margin", form=form, where=where)
        rows = sorted(con.execute(query).fetchall())
        assert [row[0] for row in rows] == chosen
        assert bits([row[1] for row in rows]) == bits(naive_margins(model, values)[chosen])


def test_branches_of_other_rows_are_left_out():
    model = made(
        [Feature("age", FeatureType("int64")), Feature("region", FeatureType("string"), ("EU", "US"))],
        [grown((0, 18, "left", 1.0, (1, {0}, "right", 2.0, (0, 65, "right", 3.0, 4.0))))],
    )
    written = model.query("t", "sqlite", keep=["id"], where={"region": "EU", "age": (18, None)})
    assert written == (
        "SELECT `id`, 2.5 AS `prediction`\nFROM `t`\n"
        "WHERE (`region` COLLATE BINARY = 'EU') AND (`age` IS NOT NULL AND `age` >= 18)"
    )
    written = model.query("t", "sqlite", keep=["id"], where={"region": ["US"]})
    assert "region" not in written.partition("WHERE")[0]
    assert written.count("WHEN") == 2


def test_levels_that_are_decided_leave_symmetric_trees_symmetric():
    level = (1, 7, "left", (2, 1, "right", 0.5, 0.25), (2, 1, "right", -0.5, -0.25))
    below = (3, 2, "right", level, (1, 7, "left", (2, 1, "right", 1.5, 1.25), (2, 1, "right", -1.5, -1.25)))
    features = [Feature(f"x{i}", FeatureType("int64")) for i in range(4)]
    model = made(features, [grown((0, 5, "right", below, below))])
    query = model.query("t", "postgres", keep=["id"], where={"x0": (5, None)})
    assert "(ARRAY[0.5::float8,0.25::float8,-0.5::float8,-0.25::float8,1.5::float8" in query
    assert '"x0" <' not in query
    assert model.query("t", "postgres", keep=["id"], where={"x0": (5, None), "x3": 3}).count("WHEN") == 3


@cases(("kind", "value", "sql"), [
    ("float32", 0.1, "1 = 0"),  # no float32 is 0.1
    ("float32", (0.1, 0.5), '"x" >= 0.10000000149011612e0 AND "x" < 0.5000000596046448e0'),
    ("float64", (-math.inf, 1), '"x" < 1.0000000000000002e0'),
    ("int8", (None, 300), '"x" IS NOT NULL'),
    ("decimal(9,2)", Decimal("1.5"), '"x" >= CAST(\'1.50\' AS DECIMAL(9, 2)) AND "x" < '),
    ("date", dt.date(2026, 1, 2), "\"x\" >= DATE '2026-01-02' AND \"x\" < DATE '2026-01-03'"),
    ("boolean", True, '"x"'),
    ("int8", (300, None), "1 = 0"), ("int64", (5, 3), "1 = 0"), ("int64", [], "1 = 0"), ("int64", 1.5, "1 = 0"),
    ("int64", [(5, 3), 7], '"x" >= 7 AND "x" < 8'),
])  # fmt: skip
def test_values_are_those_of_the_column(kind, value, sql):
    model = made([Feature("x", FeatureType(kind))], [grown(0.5)])
    assert sql in model.query("t", keep=["id"], where={"x": value})


@cases(("where", "message"), [
    ({"y": 3}, "where names 'y', which is not a feature of the model"),
    ({}, "where must be a condition as SQL, values by feature, or None, not {}"),
    ({"x": "three"}, "where['x'] holds 'three'; it must be a value of type int64, a pair (low, high)"),
    ({"x": (1, 2, 3)}, "where['x'] holds (1, 2, 3)"),
    ({"place": 3}, "where['place'] holds 3; it must be a value of type string"),
    (3, "where must be a condition as SQL, or None for all rows, not 3"),
])  # fmt: skip
def test_other_conditions_are_refused(where, message):
    model = made([Feature("x", FeatureType("int64")), Feature("place", FeatureType("string"), PLACES)], [grown(0.5)])
    with pytest.raises(fb.ParameterError) as error:
        model.query("t", where=where)
    assert message in str(error.value)

"""Shapley values and reasons that databases work out: those of the definition, and of `Model.explain`."""

import random

import duckdb
import numpy as np
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql import shapley
from frameboost.schema.types import Feature, FeatureType
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.naive_shap import shapley as shapley_of_row
from tests.support.naive_shap import with_covers
from tests.support.random_models import frame_of, random_case, random_values, to_duckdb
from tests.support.warehouses import ALL, ALL_BUT_SPARK, databases, open_warehouse

KINDS = ["float64", "int32", "string", "boolean"]
SYMMETRIC = (0, 0.5, "left", (1, 2, "right", -1.0, 0.25), (1, 2, "right", 0.75, 2.0))
OBLIVIOUS = (0, 0.5, "left", *[(1, -3, "right", *[(0, 1.0, "left", a, b) for a, b in pair])
                               for pair in (((-1.0, 0.25), (2.0, -2.0)), ((0.5, 1.5), (-0.75, 3.0)))])  # fmt: skip
# The right child of the root has equal leaves, and one feature is split on three times.
EQUAL = (1, 2, "left", (1, 0, "right", (1, -1, "left", 1.0, -2.0), 0.5), (0, 0.5, "right", 0.25, 0.25))


def several(seed: int, depth: int = 4) -> tuple[fb.Model, dict[str, list]]:
    """Return a model of random, symmetric and degenerate trees over columns of four types, and values of theirs."""
    rng = random.Random(seed)
    model, columns, _ = random_case(KINDS, rng, n_rows=40, n_trees=3, depth=depth)
    trees = [*model.ensemble.trees, *map(grown, (SYMMETRIC, OBLIVIOUS, EQUAL))]
    return with_covers(made(model.ensemble.features, trees), rng), columns


def found_in(warehouse, query: str) -> list[tuple]:
    rows = sorted((tuple(row) for row in warehouse.rows(query)), key=lambda row: row[0])
    assert [row[0] for row in rows] == list(range(len(rows)))
    return [row[1:] for row in rows]


def assert_close(found, expected) -> None:
    np.testing.assert_allclose(np.array(found, dtype=float), np.array(expected, dtype=float), rtol=1e-11, atol=1e-11)


def reasons_of(contributions: pl.DataFrame, top: int, sign: int | None = None, texts=None) -> list[tuple]:
    """Return each row's largest contributions, of a sign if there is one, and what they are called."""
    found = []
    for row in contributions.drop("bias").rows():
        sums: dict[str, float] = {}
        for feature, value in zip(contributions.columns, row, strict=False):
            text = (texts or {}).get(feature, feature)
            sums[text] = sums.get(text, 0.0) + value
        pairs = [(text, value) for text, value in sums.items() if sign is None or value * sign > 0]
        pairs = sorted(pairs, key=lambda pair: -abs(round(pair[1], 9)))[:top] + [(None, None)] * top
        found.append(pairs[:top])
    return found


def assert_reasons(found, expected) -> None:
    assert [row[::2] for row in found] == [tuple(name for name, _ in row) for row in expected]
    assert_close([row[1::2] for row in found], [[value for _, value in row] for row in expected])


# --- values -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_values_are_those_of_the_definition(name, monkeypatch):
    warehouse = open_warehouse(name)
    for seed, most in ((1, 800), (2, 12)):  # the second in many stages
        monkeypatch.setattr(shapley, "_MOST_COLUMNS", most)
        model, columns = several(seed, depth=3 if name == "spark" else 4)
        held = warehouse.fill_features("t", model, columns)
        query = model.database(name).explain_query("t", keep=["id"])
        assert (query.count(" AS (") + query.count("MATERIALIZED") > 4) == (most == 12)
        found = found_in(warehouse, query)
        assert_close(found, model.explain(frame_of(model, held)).rows())
        by_definition = [
            shapley_of_row(model, dict(zip(held, row, strict=True))) for row in zip(*held.values(), strict=True)
        ]
        assert_close([row[:-1] for row in found], by_definition)


@pytest.mark.slow
@cases("shape", [{"max_depth": 6}, {"max_depth": 3, "grow_policy": "symmetric"},
                 {"grow_policy": "lossguide", "max_leaves": 12, "max_depth": 0}])  # fmt: skip
@pytest.mark.parametrize("name", databases("duckdb", "postgres", "sqlite", "mariadb", "datafusion"))
def test_trained_models_explain_themselves(name, shape):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"x{i}": rng.normal(size=400).round(2) for i in range(5)}).with_columns(
        pl.Series("place", rng.choice(["a", "A", "it's", None], size=400).tolist(), dtype=pl.String)
    )
    frame = frame.with_columns(y=pl.col("x0") * pl.col("x1") + (pl.col("place") == "A").fill_null(value=False) * 2.0)
    model = fb.fit(frame, "y", n_estimators=10, min_child_weight=0, **shape)
    warehouse, frame = open_warehouse(name), frame[:30]
    warehouse.fill_features("t", model, frame.to_dict(as_series=False))
    assert_close(found_in(warehouse, model.database(name).explain_query("t", keep=["id"])), model.explain(frame).rows())


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_each_class_has_reasons_of_its_own_in_views_and_tables(name):
    warehouse, rng = open_warehouse(name), np.random.default_rng(1)
    frame = pl.DataFrame({"x": rng.normal(size=90), "z": rng.normal(size=90), "w": rng.normal(size=90)})
    labels = ((pl.col("x") > 0).cast(pl.Int8) + (pl.col("z") + pl.col("w") > 0).cast(pl.Int8)).cast(pl.String)
    frame = frame.with_columns(y=pl.lit("it's ") + labels)
    model = fb.fit(frame, "y", n_estimators=3, max_depth=3, min_child_weight=0)
    warehouse.fill_features("t", model, frame[:20].to_dict(as_series=False))
    database, quote = model.database(name), warehouse.dialect.quote
    how = {"keep": ["id"], "output": "it's 2", "top": 2, "sign": -1}
    expected = reasons_of(model.explain(frame[:20], output="it's 2"), 2, sign=-1)
    for kind, of_rows in (("VIEW", database.explain_view_sql), ("TABLE", database.explain_table_sql)):
        warehouse.run(f"DROP {kind} IF EXISTS {quote('reasons')}")
        warehouse.run(of_rows("reasons", "t", **how | {"approx": True}))
        try:
            warehouse.run(of_rows("reasons", "t", **how, replace=True))
        except fb.ParameterError as error:
            assert f"{name} has no statement that replaces a {kind.lower()}" in str(error)
            warehouse.run(f"DROP {kind} {quote('reasons')}")
            warehouse.run(of_rows("reasons", "t", **how))
        assert_reasons(found_in(warehouse, f"SELECT * FROM {quote('reasons')}"), expected)
        warehouse.run(f"DROP {kind} {quote('reasons')}")


# --- reasons ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_reasons_have_a_sign_texts_and_a_condition(name):
    warehouse, (model, columns) = open_warehouse(name), several(3)
    held = warehouse.fill_features("t", model, columns)
    database, frame = model.database(name), frame_of(model, held)
    hostile = {"x0": 'It\'s "x" \\ %s :y ${z} {{ x }} -- ☃', "x2": ""}
    merged = {"x0": "x2", "x1": "x2"}
    for sign, texts, approx in ((None, hostile, False), (1, merged, False), (1, hostile, True), (-1, hostile, False)):
        expected = reasons_of(model.explain(frame, approx=approx), 3, sign, texts)
        query = database.explain_query("t", keep=["id"], top=3, sign=sign, texts=texts, approx=approx)
        found = found_in(warehouse, query)
        assert_reasons(found, expected)
        in_python = model.explain(frame, top=3, sign=sign, texts=texts, approx=approx)
        assert in_python.columns == [
            "reason_1",
            "contribution_1",
            "reason_2",
            "contribution_2",
            "reason_3",
            "contribution_3",
        ]
        assert_reasons(in_python.rows(), expected)
    assert any(None in row for row in found)
    chosen = [i for i, value in enumerate(held["x1"]) if value is not None and value >= 0]
    query = database.explain_query("t", keep=["id"], top=1, where={"x1": (0, None)})
    found = sorted(tuple(row) for row in warehouse.rows(query))
    assert [row[0] for row in found] == chosen
    assert_reasons([row[1:] for row in found], reasons_of(model.explain(frame[chosen]), 1))


@pytest.mark.parametrize("name", databases("duckdb", "postgres", "sqlite", "datafusion"))
def test_of_equal_contributions_the_first_feature_comes_first(name):
    rng = random.Random(5)
    features = [Feature(f"x{i}", FeatureType("float64"), ()) for i in range(3)]
    orders = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0), (1, 0, 2), (0, 2, 1)]
    trees = [grown((i, 0.0, "right", 0.1, (j, 0.0, "right", 0.1, (k, 0.0, "right", 0.1, 0.7)))) for i, j, k in orders]
    model = made(features, trees)
    warehouse = open_warehouse(name)
    warehouse.fill_features("t", model, {f.name: random_values(f.type, 30, rng) for f in features} | {"x0": [1.0] * 30})
    warehouse.fill("t", {f.name: (f.type, [1.0, -1.0]) for f in features})
    found = found_in(warehouse, model.database(name).explain_query("t", keep=["id"], top=3))
    in_python = model.explain(pl.DataFrame({f.name: [1.0, -1.0] for f in features}), top=3).rows()
    for rows in (found, in_python):
        assert [row[::2] for row in rows] == [("x0", "x1", "x2")] * 2
        assert [len(set(row[1::2])) for row in rows] == [1, 1]


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_does_not_fit_is_refused_or_said():
    model, columns = several(4)
    con = duckdb.connect()
    to_duckdb(con, frame_of(model, columns), "t")
    database = model.database(limits={"text": 7_000})
    said = (
        r"^the Shapley values do not fit into one query: it has .*[\d,]+ bytes, and a query in duckdb at most 7,000; "
        r".* set approx=True for Saabas' .* a fifth of the rows$"
    )
    with pytest.raises(fb.ParameterError, match=said):
        database.explain_query("t", approx=False)
    for options in ({}, {"top": 2}):
        approximate = database.explain_query("t", approx=True, **options)
        either = database.explain_query("t", **options)
        first, second, query = either.split("\n", 2)
        assert first.startswith("-- Saabas' contributions, as the Shapley values do not fit into one query: it has")
        assert second.startswith("-- these credit each split")
        assert query == approximate
        assert con.sql(either).fetchall() == con.sql(approximate).fetchall()
        whole = model.database()
        assert whole.explain_query("t", **options) == whole.explain_query("t", approx=False, **options)
    with pytest.raises(
        fb.ParameterError, match=r"it is about \d+ levels deep, and an expression in sqlite at most 8; "
    ):
        model.database("sqlite", limits={"depth": 8}).explain_query("t", approx=False)
    large = made(model.ensemble.features, [grown(full(8))] * 30)
    with pytest.raises(fb.ParameterError, match=r"bytes, and a query in snowflake at most 1,000,000; explain a"):
        large.database("snowflake").explain_query("t", approx=False)
    deep = made([Feature("x", FeatureType("float64"), ())], [chain(14)])
    with pytest.raises(fb.ParameterError, match="a tree has 14 levels, and Shapley values are written of 12 at most"):
        deep.database().explain_query("t", approx=False)
    with pytest.raises(fb.ParameterError, match="the explanations do not fit into one query: it has"):
        model.database(limits={"text": 900}).explain_query("t")
    # Without being asked for, they are not written where they take seconds to plan.
    large = made(model.ensemble.features, [grown(full(8))] * 30)
    first = large.database().explain_query("t").split("\n", 1)[0]
    assert first.endswith("and a query of Shapley values at most 1,048,576.")


def full(levels: int, node: int = 1):
    """Return a tree of nested tuples whose splits are on three features in turn."""
    if not levels:
        return float(node)
    feature = (0, 1, 3)[node % 3]
    threshold = 1 if feature == 3 else node % 7
    return (feature, threshold, "left", full(levels - 1, 2 * node), full(levels - 1, 2 * node + 1))


def chain(levels: int):
    question = 1.0
    for i in range(levels):
        question = (0, float(-i), "left", question, float(i))
    return grown(question)


@cases(
    ("options", "said"),
    [
        ({"approx": "yes"}, "approx must be True, False or 'auto', not 'yes'"),
        ({"approx": 1}, "approx must be True, False or 'auto', not 1"),
        ({"sign": 1}, "sign is for reason codes; set top, their number per row"),
        ({"texts": {}}, "texts is for reason codes; set top, their number per row"),
        ({"top": 1, "sign": 0}, "sign must be 1, for reasons that raise the margin only, -1, for those that lower it, "
                                "or None, not 0"),
        ({"top": 1, "sign": True}, "sign must be 1, for reasons that raise the margin only, -1, for those that lower "
                                   "it, or None, not True"),
        ({"top": 1, "texts": {"X0": "a"}}, "texts names 'X0', which is not a feature of the model; did you mean 'x0'?"),
        ({"top": 1, "texts": {"x0": None}}, "texts must have a string for feature 'x0', not None"),
        ({"top": 1, "texts": ["a"]}, "texts must be a dict of texts by feature, not ['a']"),
        ({"top": 1, "where": {"y": 1}}, "where names 'y', which is not a feature of the model; write other conditions "
                                        "as SQL, where=\"...\""),
        ({"where": ""}, "where must be a condition as SQL, or None for all rows, not ''"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused(options, said):
    model, columns = several(4)
    if "where" not in options:
        with pytest.raises(fb.ParameterError) as error:
            model.explain(frame_of(model, columns), **options)
        assert str(error.value) == said.replace(", False or 'auto'", " or False")
    for method in ("explain_query", "explain_view_sql", "explain_table_sql"):
        target = () if method == "explain_query" else ("r",)
        with pytest.raises(fb.ParameterError) as error:
            getattr(model.database("postgres"), method)(*target, "t", **options)
        assert str(error.value) == said


def test_reasons_are_of_one_output_and_not_of_pairs():
    model, columns = several(4)
    frame = frame_of(model, columns)
    with pytest.raises(fb.ParameterError, match="top can't be combined with interactions"):
        model.explain(frame, top=1, interactions=True)
    with pytest.raises(fb.ParameterError, match="top can't be combined with form='shap'"):
        model.explain(frame, top=1, form="shap")
    one_text = model.explain(frame, top=2, texts=dict.fromkeys(model.features, "all"))
    assert one_text.drop("contribution_1").rows() == [("all", None, None)] * len(frame)
    assert_close(one_text["contribution_1"], model.explain(frame).drop("bias").sum_horizontal())
    assert model.explain(frame[:0], top=2).schema == one_text.schema

"""``form="lists"``: nodes in lists give the same scores, bit for bit; and which form ``auto`` takes."""

import math
import random

import duckdb
import polars as pl
import pytest

import frameboost as fb
from frameboost.compile.sql.conditions import compare_numbers
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.tree import TreeColumns
from tests.support.cases import cases
from tests.support.models import grown, made
from tests.support.random_models import TYPES, random_model

NO_BASE = (0.0,)
FLOATS = [Feature(name, FeatureType("float64")) for name in ("x", "y")]


@pytest.fixture(scope="module")
def con() -> duckdb.DuckDBPyConnection:
    return duckdb.connect()


def full_tree(depth: int, feature: int = 0, first: float = 0.0):
    """Return a complete tree for `grown`; the leaf of a row is the number of thresholds up to its value."""
    half = 2.0 ** (depth - 1)
    if depth == 0:
        return first
    return (feature, first + half, "right", full_tree(depth - 1, feature, first),
            full_tree(depth - 1, feature, first + half))  # fmt: skip


def full_trees(n_trees: int, depth: int) -> fb.Model:
    return made(FLOATS, [grown(full_tree(depth, i % 2)) for i in range(n_trees)])


# --- the same scores --------------------------------------------------------------------------------------------------


def test_the_lists_of_a_small_model(con):
    # Missing values of x go left in the first tree and right in the second: two answers, 3 and 2.
    trees = [grown((0, 3.0, "left", -4.0, 4.0)), grown((0, 5.0, "right", -1.0, 1.0))]
    query = made(FLOATS, trees, NO_BASE).query("t", keep=["id"], form="lists")
    for items in ("[3,2,1,1,1,1]' AS BIGINT", "[3.0,5.0,-4.0,4.0,-1.0,1.0]' AS DOUBLE", "[3,5,3,4,5,6]' AS BIGINT"):
        assert f"CAST('{items}[])" in query
    con.register("t", pl.DataFrame({"id": [1, 2, 3, 4, 5], "x": [2.0, 3.0, 6.0, None, math.nan]}))
    assert con.execute(query).fetchall() == [(1, -5.0), (2, 3.0), (3, 5.0), (4, -3.0), (5, -3.0)]


@cases("type_name", TYPES)
def test_which_nodes_compare_numbers_is_told_alike_one_by_one_and_all_at_once(type_name):
    rng = random.Random(type_name)
    kinds = [FeatureType(type_name), FeatureType("string"), FeatureType("float64")]
    model = random_model(kinds, ["x", "s", "y"], rng, n_trees=30, depth=4).database()
    columns, trees = model.columns, model.ensemble.trees
    one_by_one = [not tree.is_leaf(node) and columns[tree.feature[node]].compares_numbers(tree, node)
                  for tree in trees for node in range(len(tree))]  # fmt: skip
    arrays = TreeColumns.of(trees)
    threshold = arrays.nodes["threshold"].copy()
    threshold[arrays.integer_at] = [float(value) for value in arrays.integers]
    at_once = compare_numbers(kinds, arrays.nodes["feature"], threshold, arrays.nodes["missing_left"] == 1)
    assert at_once.tolist() == one_by_one
    assert any(one_by_one)


def test_the_deepest_trees(con):
    tree = 0.0
    for i in range(100):
        tree = (0, 100.0 - i, "right", float(i), tree)
    chain = made(FLOATS[:1], [grown(tree), grown(0.5)])
    with pytest.raises(fb.ParameterError, match=r"^form='lists' walks 100 levels at most, and a tree has 101"):
        made(FLOATS[:1], [grown((0, 0.0, "right", 0.0, tree))]).query("t", form="lists")
    con.execute("CREATE OR REPLACE TABLE deep AS SELECT i::DOUBLE AS x FROM range(-1, 102) r(i)")
    by_case, by_lists = (con.execute(chain.query("deep", form=form)).fetchall() for form in ("case", "lists"))
    assert by_lists == by_case


# --- outputs, columns, macros and views -------------------------------------------------------------------------------


def test_a_macro_a_view_and_a_table_of_a_large_model(con):
    model = full_trees(40, 6)
    frame = pl.DataFrame({"x": [*range(-2, 70), None, math.nan], "y": [*range(73, -1, -1)]}, strict=False)
    con.register("numbers", frame.cast(pl.Float64))
    model.register(con, "score")
    ((macro,),) = con.execute(
        "SELECT macro_definition FROM duckdb_functions() WHERE function_name = 'score'").fetchall()  # fmt: skip
    assert "list_transform" in macro
    assert "(VALUES (" in macro, "5,080 nodes are no constants"
    con.execute(model.database().create_view_sql("scored_view", "numbers", keep=[], rows=1))
    con.execute(model.database().create_table_sql("scored_table", "numbers", keep=[], rows=1))
    queries = ["SELECT score(x, y) FROM numbers", "FROM scored_view", "FROM scored_table"]
    expected = model.predict(frame.cast(pl.Float64)).to_list()
    assert [[value for (value,) in con.execute(query).fetchall()] for query in queries] == [expected] * 3


# --- which form -------------------------------------------------------------------------------------------------------


def form_of(query: str) -> str:
    if "list_transform" in query:
        return "lists"
    # Floats that CASE compares are columns of a stage too.
    return "sorted" if "ORDER BY" in query else "staged" if "stage_1" in query else "case"


@pytest.mark.parametrize(
    ("n_trees", "depth", "forms"),
    [
        (10, 2, "lists lists staged staged"),
        (100, 4, "lists lists sorted sorted"),
        (100, 6, "lists lists sorted sorted"),
    ],
)
def test_auto_chooses_by_the_rows(n_trees, depth, forms):
    model = full_trees(n_trees, depth)
    found = [form_of(model.query("t", keep=["id"], rows=rows)) for rows in (1, 1_000, 200_000, 10_000_000)]
    assert found == forms.split()
    assert form_of(model.query("t", keep=["id"])) == ("staged" if depth < 5 else "lists")


def test_the_more_rows_are_sorted_the_cheaper_is_each():
    # Ten trees of 1,203 leaves, CPU seconds by lists and over sorted rows: 0.6 and 1.6 of 200,000, 10.8 and 5.2 of 4
    # million.
    model = full_trees(10, 10)
    assert [form_of(model.query("t", keep=["id"], rows=rows)) for rows in (200_000, 10_000_000)] == ["lists", "sorted"]


def test_leaves_and_symmetric_trees_stay_expressions():
    symmetric = (0, 1.0, "right", (1, 2.0, "right", (0, 5.0, "right", 1.0, 2.0), (0, 5.0, "right", 3.0, 4.0)),
                 (1, 2.0, "right", (0, 5.0, "right", 5.0, 6.0), (0, 5.0, "right", 7.0, 8.0)))  # fmt: skip
    model = made(FLOATS, [grown(symmetric)] * 9)
    assert form_of(model.query("t", keep=["id"], rows=1)) == "staged"
    assert form_of(full_trees(9, 3).query("t", keep=["id"], output="leaf", rows=1)) == "staged"

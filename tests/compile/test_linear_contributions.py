"""Contributions where leaves have slopes: Shapley values by definition, Saabas' steps, and both as SQL.

The game: v(S) is what the trees say on average when only the features in S are known, leaves counting as their values
without slopes, and for each feature in S what its slopes add in the row's own leaves. So slopes add to Shapley values,
and to Saabas' steps, of their own features only.
"""

import random
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.trees.linear_leaves import LinearLeaf, LinearTerm
from frameboost.trees.tree import Tree
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.linear_models import drawn
from tests.support.models import model_of_parts
from tests.support.naive_shap import saabas, shapley, with_covers
from tests.support.random_models import frame_of, naive_leaves, naive_margins, to_duckdb
from tests.support.warehouses import ALL_BUT_SPARK, open_warehouse

ROWS = 15


def covered(seed: int, type_names: list[str]):
    """Return a model with covers and linear leaves, the same one without slopes, and rows."""
    drawn_model, columns = drawn(seed, type_names)
    columns = {name: values[:ROWS] for name, values in columns.items()}
    plain = with_covers(drawn_model, random.Random(seed))
    linear = [replace(own, linear=tree.linear)
              for own, tree in zip(plain.ensemble.trees, drawn_model.ensemble.trees, strict=True)]  # fmt: skip
    constant = [replace(tree, linear=()) for tree in linear]
    parts = (plain.ensemble.loss, {}, plain.ensemble.features, [plain.base_margin])
    return model_of_parts(*parts, linear), model_of_parts(*parts, constant), columns


def slopes(model: fb.Model, columns: dict[str, list]) -> np.ndarray:
    """Return what slopes add to each feature in each row; what a constant adds goes to a leaf's first term."""
    found, leaves = np.zeros((ROWS, len(columns))), naive_leaves(model, columns)
    for row in range(ROWS):
        values = [values[row] for values in columns.values()]
        for tree, node in zip(model.ensemble.trees, leaves[row], strict=True):
            leaf = tree.linear[node] if tree.linear else None
            numbers = [] if leaf is None else [values[term.feature] for term in leaf.terms]
            if leaf is None or any(x is None or x != x for x in numbers):
                continue
            found[row, leaf.terms[0].feature] += leaf.constant - tree.value[node]
            for term, x in zip(leaf.terms, numbers, strict=True):
                found[row, term.feature] += term.slope * term.on_grid(float(x))
    return found


def test_by_hand():
    # x < 0 ? 4 : −2 with covers 1 and 2, so the mean is 0. Left, around x = −3, there is a slope of 2.
    term = LinearTerm(feature=0, slope=2.0, step=0.5, centre=-3.0, low=-2.0, high=2.0)
    leaves = (None, LinearLeaf(4.0, (term,)), None)
    tree = Tree((0, -1, -1), (0.0, None, None), (None,) * 3, (False,) * 3, (1, -1, -1), (2, -1, -1), (1.0, 0.0, 0.0),
                (3.0, 1.0, 2.0), (0.0, 4.0, -2.0), linear=leaves)  # fmt: skip
    model, _ = drawn(0, [])
    model = model_of_parts(model.ensemble.loss, {}, model.ensemble.features[:1], [10.0], [tree])
    frame = pl.DataFrame({"x0": [-2.0, -4.5, -100.0, 1.0, None]})
    expected = [4.0 + 2.0, 4.0 - 3.0, 4.0 - 4.0, -2.0, -2.0]
    for approx in (False, True):
        found = model.explain(frame, approx=approx)
        assert found["x0"].to_list() == pytest.approx(expected, abs=1e-12)
        assert found["bias"].to_list() == [10.0] * 5
    pairs = model.explain(frame, interactions=True).filter(feature="x0", other="x0")
    assert pairs["value"].to_list() == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(["float64", "int8", "string", "float32"]), max_size=2))
@settings(max_examples=examples(5), deadline=None)
def test_slopes_add_to_their_own_features(seed, type_names):
    model, constant, columns = covered(seed, type_names)
    frame = frame_of(model, columns)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    added = slopes(model, columns)
    largest = 1 + sum(leaf.largest() for tree in model.ensemble.trees for leaf in tree.linear_leaves().values())
    for approx, by_definition in ((False, shapley), (True, saabas)):
        found = model.explain(frame, approx=approx).drop("bias").to_numpy()
        expected = np.array([by_definition(constant, row) for row in rows]) + added
        tolerance = {"rtol": 0, "atol": (1e-7 if approx else 1e-12) * largest}
        np.testing.assert_allclose(found, expected, **tolerance)
        sums = model.explain(frame, approx=approx).to_numpy().sum(axis=1)
        np.testing.assert_allclose(sums, naive_margins(model, columns), **tolerance)
    sums = model.explain(frame, interactions=True).group_by("row").agg(pl.sum("value")).sort("row")["value"]
    np.testing.assert_allclose(sums, naive_margins(model, columns), rtol=0, atol=1e-12 * largest)


@pytest.mark.slow
def test_sql_says_what_python_says_to_the_last_bit():
    con = duckdb.connect()
    for seed in range(6):
        model, _, columns = covered(seed, ["int64", "string", "float32"][: seed % 4])
        frame = frame_of(model, columns)
        con.execute("DROP TABLE IF EXISTS t")
        to_duckdb(con, frame, "t")
        query = model.database().explain_query("t", keep=["position"], approx=True)
        found = con.sql(query).pl().sort("position").drop("position")
        assert found.equals(model.explain(frame, approx=True))
        top = con.sql(model.database().explain_query("t", keep=["position"], top=1, approx=True)).pl().sort("position")
        largest = model.explain(frame, approx=True).drop("bias").to_numpy()
        assert top["contribution_1"].abs().to_list() == np.abs(largest).max(axis=1).tolist()


@pytest.mark.parametrize("name", ALL_BUT_SPARK)
def test_databases_say_what_python_says(name):
    warehouse = open_warehouse(name)
    model, _, columns = covered(3, ["int64", "string"])
    held = warehouse.fill_features("t", model, columns)
    for approx in (True, False):
        rows = sorted(warehouse.rows(model.database(warehouse.name).explain_query("t", keep=["id"], approx=approx)))
        found = np.array([row[1:] for row in rows], np.float64)
        expected = model.explain(frame_of(model, held), approx=approx).to_numpy()
        # Steps and slopes are on a grid with approx=True.
        np.testing.assert_allclose(found, expected, rtol=0.0 if approx else 1e-12, atol=0.0 if approx else 1e-12)


@cases("shape", [{"max_depth": 3}, {"grow_policy": "symmetric", "max_depth": 3}, {"grow_policy": "lossguide"}])
def test_the_bias_of_a_trained_model_is_the_mean_margin(shape):
    rng = np.random.default_rng(0)
    rows = pl.DataFrame({"x": rng.normal(size=500), "z": rng.normal(size=500)})
    rows = rows.with_columns(y=pl.col("x").sin() * 3 + pl.col("x") * pl.col("z"))
    model = fb.fit(rows, "y", n_estimators=10, linear_tree=True, reg_lambda=0.0, verbose=False, **shape)
    assert model.ensemble.is_linear
    found = model.explain(rows)
    # Each leaf's slopes have the mean 0, but for the coarse grid of the sums.
    assert found["bias"][0] == pytest.approx(model.predict(rows).mean(), abs=2e-3)
    np.testing.assert_allclose(found.sum_horizontal(), model.predict(rows, output="margin"), rtol=0, atol=1e-9)
    constants = [leaf.constant - tree.value[node]
                 for tree in model.ensemble.trees for node, leaf in tree.linear_leaves().items()]  # fmt: skip
    assert np.abs(constants).max() < 1e-4

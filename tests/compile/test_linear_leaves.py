"""Linear leaves score to the same bits everywhere, and what can't have them says so."""

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.compile.sql import linear_lists, sql_model
from frameboost.dialects.built_in import DIALECTS
from frameboost.ensemble.averaging import average
from frameboost.errors import ParameterError
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.linear_models import drawn
from tests.support.random_models import bits, frame_of, naive_leaves, naive_margins, to_duckdb

TYPES = ["float64", "float32", "int64", "int8", "uint32", "uint64", "string", "date"]


@pytest.fixture(scope="module")
def con():
    return duckdb.connect()


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), max_size=3))
@settings(max_examples=examples(5), deadline=None)
def test_margins_are_exact_everywhere(con, seed, type_names):
    model, columns = drawn(seed, type_names)
    frame = frame_of(model, columns)
    to_duckdb(con, frame, "t")
    expected = bits(naive_margins(model, columns))
    assert bits(model.predict(frame, output="margin")) == expected
    assert bits(model.predict(frame[:1], output="margin")) == expected[:1]
    assert model.predict(frame, output="leaf").to_list() == naive_leaves(model, columns)
    assert bits(frame.select(model.expr("margin")).to_series()) == expected
    for form in ("auto", "case", "staged", "sorted"):
        query = model.query("t", keep=["position"], output="margin", form=form)
        found = con.execute(f"SELECT prediction FROM ({query}) ORDER BY position").fetchnumpy()["prediction"]
        assert bits(found) == expected
    for function in ("udf", "macro"):
        model.register(con, "score", output="margin", form=function, replace=True)
        found = con.execute(f"SELECT score({', '.join(columns)}) AS s FROM t ORDER BY position").fetchnumpy()["s"]
        assert bits(found) == expected


@pytest.mark.slow
@cases(("name", "value"), [("_BITS", 2), ("_MOST_STEPS", 3.0), ("_LARGEST_STEP", 1.0)])
def test_many_features_and_large_grids_are_exact_in_duckdb(con, name, value):
    """Missing numbers have bits of several integers, and trees with grids of too many steps no lists."""
    for seed in (2, 3):
        model, columns = drawn(seed, ["int64", "float32", "float64", "int8", "date"])
        to_duckdb(con, frame_of(model, columns), "t")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(linear_lists, name, value)
            query = model.query("t", keep=["position"], output="margin")
            expression = f"SELECT position, {model.sql('margin')} FROM t"
        for sql in (query, expression):
            found = [row[1] for row in sorted(con.execute(sql).fetchall())]
            assert bits(found) == bits(naive_margins(model, columns))


def test_symmetric_trees_with_slopes_are_exact_in_duckdb(con):
    rows = np.random.default_rng(0).normal(size=(400, 3))
    frame = pl.DataFrame(rows, schema=["a", "b", "y"]).with_columns(a=pl.when(pl.col("b") < 1).then("a"))
    model = fb.fit(frame.with_columns(y=pl.col("b") * 2 + pl.col("y") / 9), "y", n_estimators=3, max_depth=3,
                   linear_tree=True, grow_policy="symmetric", verbose=False)  # fmt: skip
    assert model.ensemble.is_linear
    to_duckdb(con, frame, "t")
    assert model.query("t", keep=["position"]) == model.query("t", keep=["position"], form="staged")
    for form in ("case", "staged", "sorted"):
        found = sorted(con.execute(model.query("t", keep=["position"], form=form)).fetchall())
        assert bits([row[1] for row in found]) == bits(model.predict(frame))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["depthwise", "symmetric", "lossguide"])
@pytest.mark.parametrize("strategy", ["multi_output_tree", "one_output_per_tree"])
def test_leaves_of_several_outputs_are_exact_everywhere(con, strategy, policy):
    """Means of two models too, and trees some of which lack a leaf of an output, or read other numbers."""
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({"a": rng.normal(size=900), "b": rng.integers(0, 50, 900), "k": rng.choice(list("xyz"), 900)})
    frame = frame.with_columns(c=pl.Series(rng.normal(size=900) * 1e6, dtype=pl.Float32), w=rng.integers(0, 3, 900))
    frame = frame.with_columns(pl.when(pl.col("b") > 3).then("a"), pl.when(pl.col("c") < 1e6).then("c"))
    side = (pl.col("b") > 20).cast(pl.Int64) + (pl.col("a").fill_null(0.0) * 9 > pl.col("b") - 25)
    frame = frame.with_columns(y=side.cast(pl.String))
    options = {"features": ["a", "b", "c", "k"], "objective": "multi:softprob", "multi_strategy": strategy,
               "linear_tree": True, "grow_policy": policy, "max_depth": 3, "verbose": False}  # fmt: skip
    models = [
        fb.fit(frame, "y", n_estimators=6, weight="w", min_child_weight=0.0, **options),
        fb.fit(frame, "y", n_estimators=5, subsample=0.7, seed=3, **options),
    ]
    models.append(fb.Model(average([each.ensemble for each in models], [0.75, 0.25], is_short=True)))
    to_duckdb(con, frame.drop("y", "w"), "t")
    for model in models:
        columns = {name: frame[name][:60].to_list() for name in ("a", "b", "c", "k")}
        expected = np.stack([naive_margins(model, columns, output) for output in range(3)], axis=1).tolist()
        margins = model.predict(frame, output="margin").to_list()
        assert margins[:60] == expected
        assert model.predict(frame[:7], output="margin").to_list() == margins[:7]
        assert frame.select(model.expr("margin")).to_series().to_list() == margins
        for form in ("case", "staged", "sorted"):
            for least in (0, 10**9):  # of 0 leaf values are written as integers
                with pytest.MonkeyPatch.context() as patched:
                    patched.setattr(sql_model, "_MIN_UNREAD", least)
                    query = model.query("t", keep=["position"], output="margin", form=form)
                assert [list(row[1:]) for row in sorted(con.execute(query).fetchall())] == margins


def test_every_dialect_writes_them():
    model, _ = drawn(1, ["int64"] * 30)  # so many that no split says one above again
    for name, dialect in DIALECTS.items():
        query = model.query("t", name, keep=["id"], output="margin")
        terms = [term for tree in model.ensemble.trees for leaf in tree.linear_leaves().values() for term in leaf.terms]
        if name == "duckdb":  # all first terms of a tree at once, and so on
            n_terms = [
                max(len(leaf.terms) for leaf in tree.linear_leaves().values())
                for tree in model.ensemble.trees
                if tree.is_linear
            ]
            assert query.count("LEAST(GREATEST(") == sum(n_terms)
        else:
            assert query.count(dialect.call("GREATEST", ["("]).removesuffix(")")) == len(terms) > 0


def test_without_numba_polars_scores(monkeypatch):
    from frameboost.prediction import predictor

    model, columns = drawn(5, ["float32"])
    frame = frame_of(model, columns)
    monkeypatch.setattr(predictor, "has_numba", lambda: False)
    assert bits(model.predict(frame, output="margin")) == bits(naive_margins(model, columns))


def test_what_needs_one_value_a_leaf_says_so():
    model, _ = drawn(2, [])
    for call in (
        model.database().table_frame,
        lambda: model.database().table_statements("trees"),
        lambda: model.query("t", form="lists"),
        lambda: model.query("t", form="table", trees="trees"),
        lambda: model.to_xgboost("never written.json"),
    ):
        with pytest.raises(ParameterError, match=r"needs constant leaves.*linear_tree=True"):
            call()


def test_partial_dependence_is_the_mean_of_predictions():
    rng = np.random.default_rng(3)
    frame = pl.DataFrame({"x": rng.normal(size=200), "z": rng.normal(size=200)})
    frame = frame.with_columns(y=pl.col("x") * 2 + pl.col("z"))
    model = fb.fit(frame, "y", n_estimators=5, max_depth=2, linear_tree=True, verbose=False)
    found = model.partial_dependence(frame, "x", grid=[-1.0, 0.25])
    expected = [model.predict(frame.with_columns(x=pl.lit(value))).mean() for value in (-1.0, 0.25)]
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)

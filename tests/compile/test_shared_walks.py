"""Trees with the same splits are walked once: in SQL, in polars, and to the same bits as each by itself."""

import itertools
import random
import re
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.compile.sql import sql_model
from frameboost.dialects.built_in import DIALECTS
from frameboost.losses.built_in import get_loss
from frameboost.trees.tree import on_leaf_grid, shared_splits
from tests.support.examples import examples
from tests.support.models import model_of_parts
from tests.support.random_models import bits, naive_margins, random_case, to_duckdb

TYPES = ["float64", "float32", "int64", "int8", "uint64", "string", "date", "boolean"]
K = 3


def drawn(seed: int, type_names: list[str], n_trees=4, depth=3, own=1):
    """Return a model of three outputs whose trees share splits, but for the last ``own`` trees of each; and rows."""
    rng = random.Random(seed)
    one, columns, frame = random_case(["float64", *type_names], rng, 50, n_trees, depth)
    trees = []
    for number in range(n_trees):
        for output in range(K):
            at = (number + output) % n_trees if number >= n_trees - own else number
            splits = one.ensemble.trees[at]
            trees.append(replace(splits, value=tuple(rng.uniform(-9, 9) for _ in splits.value), output=output))
    base, trees = on_leaf_grid([0.5, -1.25, 3.0], trees)
    loss = get_loss("multi:softprob", {"num_class": K, "scale_pos_weight": 1.0})
    return model_of_parts(loss, {"num_class": K}, one.ensemble.features, base, trees), columns, frame


def naive(model: fb.Model, columns) -> list:
    """Return the margins of each output by the scorer that is independent of the package's."""
    loss, found = get_loss("reg:squarederror", {"scale_pos_weight": 1.0}), []
    for output, base in enumerate(model.ensemble.base_margins):
        trees = [replace(tree, output=0) for tree in model.ensemble.trees_of(output)]
        found.append(naive_margins(model_of_parts(loss, {}, model.ensemble.features, [base], trees), columns))
    return np.array(found).T.tolist()


@pytest.fixture(scope="module")
def con():
    return duckdb.connect()


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), max_size=3), st.integers(1, 5), st.integers(0, 2))
@settings(max_examples=examples(5), deadline=None)
def test_margins_are_the_same_bits_in_polars_and_duckdb(con, seed, type_names, depth, own):
    model, columns, frame = drawn(seed, type_names, depth=depth, own=own)
    to_duckdb(con, frame, "t")
    expected = bits(naive(model, columns))
    assert bits(model.predict(frame, output="margin").to_list()) == expected
    assert bits(frame.select(model.expr("margin")).to_series().to_list()) == expected
    lazy = frame.lazy().select(model.expr("margin")).collect(engine="streaming").to_series()
    assert bits(lazy.to_list()) == expected
    for form, least in itertools.product(("auto", "staged", "sorted"), (2_000, 0)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sql_model, "_MIN_UNREAD", least)  # of 0 leaf values are written as integers
            query = model.query("t", keep=["position"], output="margin", form=form)
        assert bits([row[1:] for row in sorted(con.execute(query).fetchall())]) == expected


def flat(n_rounds: int = 3) -> fb.Model:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300), "y": rng.integers(0, 5, 300)})
    return fb.fit(frame, "y", objective="multi:softprob", n_estimators=n_rounds, max_depth=3, verbose=False,
                  multi_strategy="multi_output_tree")  # fmt: skip


def test_every_dialect_writes_each_question_once():
    """Five classes ask 3 · 7 questions, where each by itself asks five times as many."""
    model = flat()
    groups = shared_splits(model.ensemble.trees)
    assert [len(group) for group in groups] == [5, 5, 5]
    thresholds = sum(t is not None for group in groups for t in model.ensemble.trees[group[0]].threshold)
    for name in DIALECTS:
        query = model.query("t", name, keep=["a"], output="margin")
        asked = len(re.findall(r'["`[][ab]["`\]](?:, NULL\))? [<>]', query))  # NaN is NULL in DataFusion
        assert asked <= 2 * thresholds, name
        assert asked > 0 or name == "duckdb", name


def test_probabilities_and_classes_are_those_of_predict(con):
    model = flat()
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"id": range(50), "a": rng.normal(size=50), "b": rng.normal(size=50)})
    con.register("scored", frame.to_arrow())
    for output in ("mean", "class", "margin"):
        expected = model.predict(frame, output=output).to_list()
        assert frame.select(model.expr(output)).to_series().to_list() == expected
        rows = sorted(con.execute(model.query("scored", keep=["id"], output=output)).fetchall())
        found = [list(row[1:]) if output != "class" else row[1] for row in rows]
        assert found == expected
    margins = [f"m{k}" for k in range(5)]
    starts = frame.with_columns(pl.lit(float(k)).alias(name) for k, name in enumerate(margins))
    expected = model.predict(starts, base_margin=margins).to_list()
    assert starts.select(model.expr(base_margin=margins)).to_series().to_list() == expected


def test_only_equal_splits_are_shared():
    model = flat()
    first, second, *_ = model.ensemble.trees
    other = replace(second, missing_left=tuple(not left and second.feature[i] >= 0
                                               for i, left in enumerate(second.missing_left)))  # fmt: skip
    assert shared_splits([first, other]) == []
    assert shared_splits([first, replace(first, feature=(-1,), threshold=(None,)), second]) == [[0, 2]]
    assert shared_splits([first, replace(second, output=first.output)]) == [], "one output"


def test_targets_without_columns_to_keep():
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60)})
    targets = frame.with_columns(u=pl.col("a") * 2, v=pl.col("b") - pl.col("a"))
    model = fb.fit(targets, ["u", "v"], n_estimators=3, max_depth=2, multi_strategy="multi_output_tree")
    assert "WITH" in model.query("t", "postgres", keep=["a"])
    assert "WITH" in model.query("t", "snowflake")
    # PostgreSQL cannot leave out columns that are not named, so the query has no stages.
    assert "WITH" not in model.query("t", "postgres")


def test_few_rows_take_lists():
    rng = np.random.default_rng(2)
    kinds = pl.Series(rng.integers(0, 40, 300)).cast(pl.String)
    frame = pl.DataFrame({"a": rng.normal(size=300), "kind": kinds, "y": rng.integers(0, 4, 300)})
    model = fb.fit(frame, "y", objective="multi:softprob", n_estimators=20, multi_strategy="multi_output_tree")
    few, many = (model.query("t", keep=["a"], output="margin", rows=n) for n in (1, 1_000_000))
    assert "list_transform" in few
    assert "list_transform" not in many
    assert "stage_2" in many

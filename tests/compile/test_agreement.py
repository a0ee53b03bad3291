"""Bit-identical scores of predict, expr and sql, for columns with any values."""

import pickle
import random

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.schema.types import FeatureType
from frameboost.trees.tree import on_leaf_grid
from tests.support.examples import examples
from tests.support.models import model_of_parts
from tests.support.random_models import (
    NAMES,
    TYPES,
    bits,
    frame_of,
    naive_leaves,
    naive_margins,
    random_case,
    random_model,
    random_values,
    to_duckdb,
)  # fmt: skip


@pytest.fixture(scope="module")
def con():
    return duckdb.connect()


def in_duckdb(con, expression: str) -> np.ndarray:
    return con.execute(f"SELECT {expression} FROM t ORDER BY position").fetchnumpy().popitem()[1]


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
@settings(max_examples=examples(10), deadline=None)
def test_margins_are_bit_identical_everywhere(con, seed, type_names):
    rng = random.Random(seed)
    names = rng.sample([name for name in NAMES if name], len(type_names))
    model = random_model(list(map(FeatureType, type_names)), names, rng, n_trees=3, depth=4)
    columns = {feature.name: random_values(feature.type, 40, rng) for feature in model.ensemble.features}
    frame = frame_of(model, columns)
    to_duckdb(con, frame, "t")
    expected = bits(naive_margins(model, columns))
    assert bits(model.predict(frame, output="margin")) == expected
    assert model.predict(frame, output="leaf").to_list() == naive_leaves(model, columns)
    assert bits(frame.select(model.expr("margin")).to_series()) == expected
    assert bits(in_duckdb(con, model.sql("margin"))) == expected
    model.register(con, "score", output="margin")
    quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in model.features)
    assert bits(in_duckdb(con, f"score({quoted})")) == expected
    assert bits(model.predict(con.table("t"), output="margin")) == expected


@given(st.integers(0, 2**32), st.sampled_from([1.0, 30.0, 800.0]))
@settings(max_examples=examples(8), deadline=None)
def test_probabilities_agree_to_one_ulp(con, seed, scale):
    model, columns, frame = random_case(["float64"], random.Random(seed), depth=3, objective="binary:logistic")
    base, trees = on_leaf_grid([model.base_margin * scale], model.ensemble.trees)
    model = model_of_parts(model.ensemble.loss, {}, model.ensemble.features, base, trees)
    to_duckdb(con, frame, "t")
    margins = naive_margins(model, columns)
    with np.errstate(over="ignore"):
        expected = 1 / (1 + np.exp(-margins))
    for scores in (model.predict(frame), frame.select(model.expr()).to_series(), in_duckdb(con, model.sql())):
        scores = np.asarray(scores)
        # One ulp of exp is at most one ulp of the result and one of its rounding.
        np.testing.assert_array_max_ulp(scores, expected, maxulp=2)
        assert ((scores >= 0) & (scores <= 1)).all()


# --- DuckDB's types that polars doesn't have --------------------------------------------------------------------------


def test_one_lookup_of_an_expression_sums_several_trees():
    model, columns, frame = random_case(["float64"], random.Random("lookups"), n_trees=30, depth=5)
    _ = model.ensemble.loss.margins  # names that the loss, which many models have, keeps once they are asked for
    pickled = pickle.dumps(model)
    assert 1 < str(model.expr("margin")).count("gather") < len(model.ensemble.trees)
    assert bits(frame.select(model.expr("margin")).to_series()) == bits(naive_margins(model, columns))
    assert pickle.dumps(model) == pickled  # what has been compiled goes into no pickle
    copy = pickle.loads(pickled)
    assert bits(frame.select(copy.expr("margin")).to_series()) == bits(naive_margins(model, columns))

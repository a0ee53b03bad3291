"""Trees over byte codes score like a plain walk down the same trees."""

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.compile.arrays.byte_trees import ByteScorer, ByteTrees
from frameboost.compile.arrays.score_kernels import add_leaves
from frameboost.losses.built_in import get_loss
from frameboost.prediction.predictor import Predictor
from frameboost.runtime.workers import Workers
from frameboost.schema.types import FeatureType
from tests.support.models import model_of_parts
from tests.support.naive_kernels import naive_add_leaves
from tests.support.random_models import chain_model, lopsided_model, naive_leaves, naive_margins, random_case

SEEDS = st.integers(0, 2**32 - 1)


def random_tree(rng, depth):
    """Return a random tree as `naive_add_leaves` takes it."""
    questions = {}

    def grow(number, levels):
        if levels == 0 or rng.random() < 0.2:
            return number + 1
        right = grow(number + 1, levels - 1)
        table = rng.integers(0, 2) if rng.random() < 0.3 else -1
        questions[number] = (rng.integers(0, 3), rng.integers(0, 255), rng.choice([254, 255]), right, table)
        return grow(right, levels - 1)

    grow(0, depth)
    return questions


@pytest.mark.slow
@given(SEEDS, st.sampled_from([1, 50, 1024, 2500]))
@settings(max_examples=10, deadline=None)
def test_add_leaves(seed, n_rows):
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, 6) for _ in range(4)]
    codes = rng.choice([0, 1, 7, 100, 253, 255], (3, -(-n_rows // 64) * 64)).astype(np.uint8)
    tables, value = rng.random((2, 256)) < 0.5, rng.normal(size=(4, 256, 3))
    asked = [(number, *tree[number]) for tree in trees for number in sorted(tree)]
    number, column, bound, also, right, table = np.array(asked, dtype=np.int64).reshape(-1, 6).T.copy()
    starts = np.cumsum([0, *(len(tree) for tree in trees)])
    narrow = [array.astype(np.uint8) for array in (number, bound, also, right)]
    nodes = starts, narrow[0], column, narrow[1], narrow[2], narrow[3], table, tables
    for of_outputs in (value, np.ascontiguousarray(value[..., :1])):
        margins = np.full((of_outputs.shape[-1], n_rows + 7), 0.5)
        add_leaves(codes, *nodes, of_outputs, margins, 4, n_rows)
        for output, found in enumerate(margins):
            expected = naive_add_leaves(codes[:, :n_rows], trees, tables, of_outputs[..., output], np.full(n_rows, 0.5))
            assert found.tolist() == [0.5] * 4 + expected.tolist() + [0.5] * 3


def walked(model, frame):
    types = {feature.name: feature.type for feature in model.ensemble.features}
    arrays = Predictor(model.ensemble).arrays
    return arrays.margins(arrays.codes(frame.lazy(), types), model.ensemble.base_margins)


def test_a_feature_of_many_thresholds_takes_several_byte_columns():
    rng = np.random.default_rng(0)
    x = np.arange(1500.0)
    frame = pl.DataFrame({"x": x, "z": rng.integers(0, 700, 1500), "y": rng.normal(size=1500)})
    frame = frame.with_columns(z=pl.when(pl.int_range(1500) % 7 > 0).then("z"))  # NULL among integers
    model = fb.fit(frame, "y", n_estimators=100, max_depth=5, max_bin=2000, min_child_weight=0)
    assert max(len(edges) for edges in Predictor(model.ensemble).arrays.edges) > 2 * 253
    assert len(Predictor(model.ensemble).byte_trees.columns) > 4
    for rows in (frame, pl.DataFrame({"x": [None, np.nan, np.inf, -np.inf, 1499.5], "z": [5, None, -1, 2**40, 699]})):
        found = model.predict(rows, output="margin").to_list()
        assert found == walked(model, rows)[0].tolist()
    known = {value for tree in model.ensemble.trees for value in tree.threshold if isinstance(value, float)}
    edges = pl.DataFrame({"x": [v for t in known for v in (np.nextafter(t, -9e9), t)]}).with_columns(z=pl.lit(3))
    assert model.predict(edges, output="margin").to_list() == walked(model, edges)[0].tolist()


@pytest.mark.parametrize(("depth", "n_names"), [(7, 200), (9, 20), (4, 300)])
def test_categories_too_many_for_bytes_are_walked(depth, n_names):
    rng = np.random.default_rng(1)
    names = pl.Series([f"c{i}" for i in rng.integers(0, n_names, 2000)])
    frame = pl.DataFrame({"x": rng.normal(size=2000), "c": names, "y": rng.normal(size=2000)})
    settings = {"min_child_weight": 0, "max_cat_threshold": n_names, "cat_smooth": 0}
    model = fb.fit(frame, "y", n_estimators=3, max_depth=depth, **settings)
    are_few = len(Predictor(model.ensemble).arrays.edges[-1]) <= 253
    assert (Predictor(model.ensemble).byte_trees is not None) == are_few == (n_names < 253)
    assert (max(map(len, model.ensemble.trees)) > 255) == (depth == 9)
    rows = pl.DataFrame({"x": [0.0, None, 9.0], "c": ["c3", "never seen", None]})
    for data in (frame, rows):
        assert model.predict(data, output="margin").to_list() == walked(model, data)[0].tolist()


@pytest.mark.parametrize("others, is_lopsided", [([], True), (["string", "boolean"], False)])
def test_deep_trees_score_like_a_walk_by_hand(others, is_lopsided):
    rng = random.Random(len(others))
    model, columns, frame = random_case(["float64", "int16", "uint64", *others], rng, 1_100, 3, depth=12)
    if is_lopsided:
        model = lopsided_model(list(model.ensemble.features), rng, 3, 300)
    assert Predictor(model.ensemble).byte_trees.outputs[0].walk
    expected = naive_margins(model, columns)
    assert model.predict(frame, output="margin").to_numpy().tobytes() == expected.tobytes()
    assert model.predict(frame[7:8], output="margin").to_list() == [expected[7]]


@pytest.mark.slow
@pytest.mark.parametrize(("side", "n_splits", "is_in_bytes"), [("left", 300, True), ("right", 1_500, False)])
def test_a_chain_of_splits(side, n_splits, is_in_bytes):
    model = chain_model(n_splits, side)
    # Each 253 thresholds of a feature take a column of bytes; the second chain would take too many for one tree.
    assert (Predictor(model.ensemble).byte_trees is not None) == is_in_bytes
    values = [None, -1.0, *(i / 2 for i in range(2 * n_splits + 10))]
    found = model.predict(pl.DataFrame({"x": values}), output="margin")
    assert found.to_list() == naive_margins(model, {"x": values}).tolist()


@pytest.mark.parametrize("max_depth, max_bin, more", [(9, 2000, {"booster": "dart", "rate_drop": 0.5}), (3, 256, {})])
def test_several_outputs(max_depth, max_bin, more):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame({"x": rng.normal(size=3000), "z": rng.normal(size=3000), "y": rng.integers(0, 3, 3000)})
    frame = frame.with_columns(z=pl.when(pl.col("x") > -1.5).then("z"))
    options = {"objective": "multi:softprob", "n_estimators": 3, "min_child_weight": 0}
    model = fb.fit(frame, "y", max_depth=max_depth, max_bin=max_bin, **options, **more)
    trees = Predictor(model.ensemble).byte_trees
    assert (len(trees.columns) > 2) == (max_bin > 256)
    assert all(output.walk for output in trees.outputs) == (max_depth == 9)
    scorer = ByteScorer(trees, {name: FeatureType("float64") for name in "xz"})
    margins = scorer.margins(frame.lazy(), model.ensemble.base_margins, Workers(1))
    assert [m.tolist() for m in margins] == [m.tolist() for m in walked(model, frame)]


def test_a_single_leaf():
    frame = pl.DataFrame({"x": np.arange(300.0), "y": np.arange(300) % 3})
    leaf = fb.fit(frame, "y", n_estimators=2, max_depth=3, gamma=1e9)
    assert leaf.predict(frame).unique().to_list() == [leaf.base_margin + sum(t.value[0] for t in leaf.ensemble.trees)]
    assert isinstance(Predictor(leaf.ensemble).byte_trees, ByteTrees)
    assert leaf.predict(frame.clear()).to_list() == []


def of_all_outputs(model: fb.Model, n_outputs: int, rng: random.Random, order: list[int]) -> fb.Model:
    """Return a model with a copy of each tree for each output, with other values, in an order within a round."""
    trees = [
        replace(tree, output=k, value=tuple([rng.randint(-999, 999) / 8 for _ in tree.value]))
        for tree in model.ensemble.trees
        for k in range(n_outputs)
    ]
    trees = [trees[at : at + len(order)][k] for at in range(0, len(trees), len(order)) for k in order]
    loss = get_loss("multi:softprob", {"num_class": n_outputs})
    return model_of_parts(loss, {}, model.ensemble.features, [k / 2 for k in range(n_outputs)], trees)


@pytest.mark.parametrize(
    ("kinds", "depth", "order"),
    [(["float64", "int16"], 4, [0, 1, 2]), (["float32", "string", "boolean"], 5, [2, 0, 1]),
     (["float64", "uint64", "string"], 12, [0, 1, 2]), (["float64", "int16"], 4, [0, 3, 1, 4, 2, 5])],
)  # fmt: skip
def test_splits_that_trees_of_all_outputs_share_are_compared_once(kinds, depth, order):
    rng = random.Random(depth)
    one, columns, frame = random_case(kinds, rng, 1_100, 4, depth=depth)
    model = of_all_outputs(one, 3, rng, order)
    leaves = np.array(naive_leaves(model, columns))
    expected = [
        [k / 2 + sum(tree.value[leaf] for tree, leaf in zip(model.ensemble.trees, row, strict=True) if tree.output == k)
         for row in leaves]
        for k in range(3)
    ]  # fmt: skip
    assert len(Predictor(model.ensemble).arrays.roots) == 4
    for rows in (slice(None), slice(5, 8)):  # many rows, and few
        found = model.predict(frame[rows], output="margin").to_numpy()
        assert found.T.tolist() == [margins[rows] for margins in expected]
    assert [margins.tolist() for margins in walked(model, frame)] == expected
    assert model.predict(frame, output="leaf").to_numpy().tolist() == leaves.tolist()
    # One other threshold, category or direction, and no tree is shared.
    first, *others = model.ensemble.trees
    changed = replace(first, missing_left=(not first.missing_left[0], *first.missing_left[1:]))
    apart = replace(model.ensemble, trees=(changed, *others))
    assert len(Predictor(apart).arrays.roots) == 12

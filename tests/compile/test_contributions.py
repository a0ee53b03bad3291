"""Contribution kernels against definitions: sums over all subsets, algorithm 2 of the paper, a walk per row."""

import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.schema.types import Feature, FeatureType
from frameboost.trees.node_means import means_on_grid, node_means, node_shares
from tests.support.cases import cases
from tests.support.examples import examples
from tests.support.models import grown, made
from tests.support.naive_shap import algorithm_2, expectation, interaction, saabas, shapley, with_covers
from tests.support.random_models import TYPES, random_case

N_ROWS = 6


def covered(seed: int, type_names: list[str], depth: int = 4, n_trees: int = 2, n_rows: int = N_ROWS, **covers):
    """Return a model with random covers, some of them 0, and rows as physical values and as a frame."""
    rng = random.Random(seed)
    model, columns, frame = random_case(type_names, rng, n_rows, n_trees, depth)
    rows = [{name: column[i] for name, column in columns.items()} for i in range(n_rows)]
    return with_covers(model, rng, **covers), rows, frame


@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_shapley_values_are_the_sum_over_all_subsets(seed, type_names):
    model, rows, frame = covered(seed, type_names)
    expected = [shapley(model, row) for row in rows]
    np.testing.assert_allclose(model.explain(frame).drop("bias").to_numpy(), expected, rtol=0, atol=1e-14)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=2, max_size=4))
@settings(max_examples=12, deadline=None)
def test_interactions_are_the_sum_over_all_subsets(seed, type_names):
    model, rows, frame = covered(seed, type_names)
    m = len(type_names)
    found = model.explain(frame, interactions=True)["value"].to_numpy().reshape(N_ROWS, m * m + 1)
    for values, row in zip(found, rows, strict=True):
        square = values[:-1].reshape(m, m)
        for i in range(m):
            for j in range(i):
                expected = interaction(model, row, i, j)
                assert square[i, j] == square[j, i] == pytest.approx(expected, rel=0, abs=1e-14)
        np.testing.assert_allclose(square.sum(axis=1), shapley(model, row), rtol=0, atol=1e-14)


@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
@example(10524204, ["float64", "float32"])  # one step off on each of several splits
@settings(max_examples=20, deadline=None)
def test_saabas_values_are_changes_of_the_mean_along_the_path(seed, type_names):
    model, rows, frame = covered(seed, type_names)
    expected = [saabas(model, row) for row in rows]
    found = model.explain(frame, approx=True)
    # Means are on a grid of 2^-46 where they vary by up to 2^5 in all, and a row passes 4 splits of 2 trees.
    np.testing.assert_allclose(found.drop("bias").to_numpy(), expected, rtol=0, atol=8 * 2.0**-46)
    mean = model.base_margin + sum(expectation(model, tree, rows[0], set()) for tree in model.ensemble.trees)
    assert found["bias"].to_list() == model.explain(frame)["bias"].to_list() == pytest.approx([mean] * N_ROWS)


@pytest.mark.slow
@given(st.integers(0, 2**32), st.lists(st.sampled_from(TYPES), min_size=1, max_size=6), st.booleans())
@settings(max_examples=examples(8), deadline=None)
def test_contributions_add_up_to_the_margin(seed, type_names, approx):
    model, _, frame = covered(seed, type_names, depth=8, n_trees=4)
    margins = model.predict(frame, output="margin")
    total = model.explain(frame, approx=approx).sum_horizontal()
    np.testing.assert_allclose(total, margins, rtol=0, atol=1e-13)  # of sums of up to 2^7
    by_pairs = model.explain(frame, interactions=True).group_by("row", maintain_order=True).agg(pl.col("value").sum())
    np.testing.assert_allclose(by_pairs["value"], margins, rtol=0, atol=1e-13)


@given(st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_shapley_values_are_those_of_the_papers_algorithm(seed):
    model, rows, frame = covered(seed, ["float64"] * 5, depth=7, n_trees=1, empty=0.0)
    expected = [algorithm_2(model, model.ensemble.trees[0], row) for row in rows]
    np.testing.assert_allclose(model.explain(frame).drop("bias").to_numpy(), expected, rtol=0, atol=1e-12)


def chain(depth: int, share: float) -> fb.Model:
    """Return a tree that asks for each of ``depth`` features once, and says 1 if none of them is 0, otherwise 0.

    Each split passes ``share`` of its rows on to the next.
    """

    def split(i: int):
        return (i, 1.0, "right", 0.0, split(i + 1)) if i < depth else 1.0

    cover = tuple(share ** (i // 2) * (1 if i % 2 == 0 else 1 - share) for i in range(2 * depth + 1))
    return made([Feature(f"x{i}", FeatureType("float64")) for i in range(depth)],
                [replace(grown(split(0)), cover=cover)], (0.0,))  # fmt: skip


@pytest.mark.slow
@cases("share, depth", [(0.5, 1), (0.1, 2), (0.5, 20), (0.9, 60), (0.1, 150), (0.9, 150)])
def test_a_chain_has_equal_shares_however_deep(depth, share):
    # For a row of ones symmetry gives each feature the same part of 1 − the mean, share^depth.
    model = chain(depth, share)
    row = pl.DataFrame({name: [1.0] for name in model.features})
    found = model.explain(row)
    assert found["bias"].to_list() == pytest.approx([share**depth], rel=1e-12, abs=1e-15)
    np.testing.assert_allclose(found.drop("bias").row(0), [(1 - share**depth) / depth] * depth, rtol=1e-12)


def test_a_tree_without_covers_is_shared_in_halves():
    tree = replace(grown((0, 0, "right", -3.0, 5.0)), cover=(0.0,) * 3)
    for cover in [(0.0, 0.0, 0.0), (0.0, -1.0, 1.0), (1.0, -1.0, 2.0), (np.inf, 1e308, 1e308)]:
        odd = replace(tree, cover=cover)
        assert (node_shares(odd), node_means(odd)) == ([1.0, 0.5, 0.5], [1.0, -3.0, 5.0])
    model = made([Feature("x", FeatureType("int8"))], [tree], (2.0,))
    frame = pl.DataFrame({"x": [-1, 1]}, schema={"x": pl.Int8})
    for approx in (False, True):
        assert model.explain(frame, approx=approx).rows() == [(-4.0, 3.0), (4.0, 3.0)]


def test_node_means_on_the_grid_are_close_to_the_exact_means():
    model, _, _ = covered(5, ["float64"] * 3, depth=6, n_trees=20)
    bias, means, _ = means_on_grid(model.base_margin, model.ensemble.trees)
    for tree, on_grid in zip(model.ensemble.trees, means, strict=True):
        np.testing.assert_allclose(on_grid, node_means(tree), rtol=0, atol=2.0**-43)  # |base| + Σ is below 2^8
    assert bias == pytest.approx(model.base_margin + sum(node_means(t)[0] for t in model.ensemble.trees), abs=2e-12)
    assert means_on_grid(0.0, []) == (0.0, [], [])


def test_threads_and_blocks_change_nothing(monkeypatch):
    model, _, frame = covered(3, ["float64", "string"], depth=5, n_trees=3, n_rows=330)
    whole = {approx: model.explain(frame, approx=approx) for approx in (False, True)}
    pairs = model.explain(frame, interactions=True)["value"]
    for cores in (1, 3):
        monkeypatch.setattr("frameboost.runtime.workers.available_cores", lambda cores=cores: cores)
        for approx in (False, True):
            assert model.explain(frame, approx=approx).equals(whole[approx])
            assert model.explain(frame[300:310], approx=approx).equals(whole[approx][300:310])
        assert model.explain(frame, interactions=True)["value"].equals(pairs)

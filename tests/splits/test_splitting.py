"""Ties between splits, and histograms by subtraction; `tests.training.test_constraints` compares whole trees."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frameboost as fb
from frameboost.runtime.workers import Workers
from frameboost.splits.split import Stats
from frameboost.training.open_nodes import OpenNode
from frameboost.training.splitter import HistogramPool

SEEDS = st.integers(0, 2**32 - 1)
BY_HAND = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.0}
METHODS = pytest.mark.parametrize("tree_method", ["hist", "exact"])


@METHODS
def test_a_lower_threshold_comes_before_missing_right(tree_method):
    # (1 | rest) with missing left and (1 2 | 3) with missing right gain alike: 4²/2 + 4²/2, nothing else as much.
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, None], "y": [-2.0, 2.0, -2.0, 2.0], "w": [1.0, 1.0, 1.0, 1.0]})
    gains = {}
    for threshold in (1.5, 2.5):
        for missing_left in (False, True):
            left = [y for x, y in frame.select("x", "y").rows() if (missing_left if x is None else x < threshold)]
            right_sum, right_count = sum(frame["y"]) - sum(left), 4 - len(left)
            gains[threshold, missing_left] = sum(left) ** 2 / len(left) + right_sum**2 / right_count
    best = max(gains.values())
    assert [key for key, gain in gains.items() if gain == best] == [(1.5, False), (2.5, True)]
    root = fb.fit(frame, "y", tree_method=tree_method, max_depth=1, features=["x"], **BY_HAND).trees.row(0, named=True)
    assert (root["threshold"], root["missing"]) == (2.0, "right")


def test_a_threshold_above_all_values_comes_before_presence():
    # x < 5 holds for all that is present; so would x < 9, and x IS NOT NULL; x < 1 or missing is the mirror image.
    frame = pl.DataFrame({"x": [2.0, 3.0, None], "y": [1.0, 1.0, -1.0]})
    root = fb.fit(frame, "y", cuts={"x": [1.0, 5.0, 9.0]}, **BY_HAND).trees.row(0, named=True)
    assert (root["threshold"], root["missing"]) == (5.0, "right")


@METHODS
def test_presence_is_asked_for_where_only_that_helps(tree_method):
    frame = pl.DataFrame({"x": [1.0, 2.0, None, None], "y": [3.0, 3.0, -1.0, -1.0]})
    model = fb.fit(frame, "y", tree_method=tree_method, **BY_HAND)
    assert model.trees["condition"].to_list() == ['"x" IS NOT NULL', None, None]
    assert (model.trees["threshold"][0], model.trees["missing"][0]) == (None, "right")
    assert model.predict(frame).to_list() == [3.0, 3.0, -1.0, -1.0]


@METHODS
@pytest.mark.parametrize("size, leaves", [(4.98e-4, 1), (5.02e-4, 2)])
def test_a_gain_of_at_most_1e_minus_6_makes_no_split(tree_method, size, leaves):
    # G of the sides is -2s and 2s, H is 2: the gain is 2s² + 2s² - 0, and 1e-6 the least that counts where some label
    # is 1 or more away. 4 · 4.98e-4² is 0.992e-6.
    labels = [1 - size, -1 - size, 1 + size, -1 + size]
    frame = pl.DataFrame({"x": [1.0, 1.0, 2.0, 2.0], "y": labels})
    assert fb.fit(frame, "y", tree_method=tree_method, **BY_HAND).trees["feature"].null_count() == leaves


class Histograms:
    """A stand-in for an engine: rows with gradients, in nodes that the test names."""

    def __init__(self, codes: np.ndarray, pairs: np.ndarray, n_codes: int) -> None:
        self.codes, self.pairs, self.n_codes = codes, pairs, n_codes
        self.rows = {0: np.arange(len(codes))}
        self.asked: list[list[int]] = []

    def histograms(self, nodes: list[int], out: np.ndarray, places: np.ndarray) -> None:
        self.asked.append(list(nodes))
        for node, place in zip(nodes, places, strict=True):
            out[place] = self.direct(node)

    def direct(self, node: int) -> np.ndarray:
        out = np.zeros((self.n_codes, 2))
        np.add.at(out, self.codes[self.rows[node]], self.pairs[self.rows[node]])
        return out

    def stats(self, node: int) -> Stats:
        return Stats(*self.pairs[self.rows[node]].sum(axis=0).tolist())


@METHODS
def test_a_category_never_seen_in_a_node_goes_with_missing(tree_method):
    frame = pl.DataFrame({
        "x": [0.0] * 4 + [1.0] * 3,
        "s": ["a", "a", "b", None, "c", "c", None],
        "y": [8.0, 8.0, 2.0, 2.0, -30.0, -30.0, -20.0],
    })  # fmt: skip
    model = fb.fit(frame, "y", tree_method=tree_method, max_depth=2, **BY_HAND)
    scored = pl.DataFrame({"x": [0.0, 0.0, 1.0], "s": ["c", "zebra", "a"]})
    assert model.predict(frame).to_list() == [8.0, 8.0, 2.0, 2.0, -30.0, -30.0, -20.0]
    assert model.predict(scored).to_list() == [2.0, 2.0, -20.0]


def histograms_of(pool: HistogramPool, nodes: list[OpenNode]) -> np.ndarray:
    kept, places = pool.of(nodes)
    return kept[places]


@given(seed=SEEDS, lossguide=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_histogram_by_subtraction_is_the_one_summed_up(seed, lossguide):
    rng = np.random.default_rng(seed)
    pairs = np.stack([rng.integers(-40, 40, 60) / 8, rng.integers(0, 9, 60) / 8], axis=1)
    engine = Histograms(rng.integers(0, 7, 60), pairs, 7)
    pool = HistogramPool(engine, 7, Workers(1))
    root = OpenNode(0, 0, engine.stats(0))
    np.testing.assert_array_equal(histograms_of(pool, [root])[0], engine.direct(0))
    open_nodes, made = [root], 1
    for _ in range(4):
        batch = (
            [open_nodes.pop(rng.integers(len(open_nodes)))] if lossguide else [open_nodes.pop(0) for _ in open_nodes[:]]
        )
        children = []
        for node in batch:
            rows, goes_left = engine.rows[node.id], rng.random(len(engine.rows[node.id])) < 0.4
            engine.rows[made], engine.rows[made + 1] = rows[goes_left], rows[~goes_left]
            left, right = (OpenNode(made + k, node.depth + 1, engine.stats(made + k), node.id) for k in (0, 1))
            left.sibling, right.sibling = right, left
            left.is_smaller = left.stats.H <= right.stats.H
            right.is_smaller = not left.is_smaller
            children += [left, right]
            made += 2
        found = histograms_of(pool, children)
        assert engine.asked[-1] == [child.id for child in children if child.is_smaller]
        for child, histogram in zip(children, found, strict=True):
            np.testing.assert_array_equal(histogram, engine.direct(child.id))
        open_nodes += children


def test_a_tree_leaves_no_histogram_behind():
    engine = Histograms(np.array([0, 1]), np.array([[1.0, 1.0], [-1.0, 1.0]]), 3)
    pool = HistogramPool(engine, 3, Workers(1))
    root = OpenNode(0, 0, engine.stats(0))
    pool.of([root])
    engine.rows[0] = np.array([1])  # another tree: other gradients, the same number of the root
    pool.clear()
    np.testing.assert_array_equal(histograms_of(pool, [root])[0], engine.direct(0))

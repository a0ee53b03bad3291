"""Kernels over histograms, compared with their plain twins on random input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.runtime.workers import Workers
from frameboost.splits.categories import category_room, ends_by_weight, present_categories
from frameboost.splits.gain import bounded_weights
from frameboost.splits.search import find_splits, subtract_from_parents
from tests.support import naive_kernels as twins

SEEDS = st.integers(0, 2**32 - 1)


def gradients(rng, n):
    """Return g and h, multiples of 1/8, so that sums are exact."""
    return np.stack([rng.integers(-40, 40, n) / 8, rng.integers(0, 9, n) / 8], axis=1)


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]), st.sampled_from([1, 2, 5, 8]))
@settings(max_examples=100, deadline=None)
def test_find_splits(seed, reg_lambda, min_child_weight, n_shares):
    rng = np.random.default_rng(seed)
    sizes, places = rng.integers(2, 7, 3), np.array([6, 2, 0, 1, 5])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    histograms = np.zeros((7, sizes.sum(), 2))
    for place in places:  # all features of a node have its sums
        pairs = gradients(rng, 40)
        for feature, size in enumerate(sizes):
            np.add.at(histograms[place], offsets[feature] + rng.integers(0, size - seed % 2, 40), pairs)
    best, stats = np.empty((5, 3), dtype=np.int64), np.empty((5, 3))
    find_splits(Workers(1).team(1), histograms, places, offsets, None, np.ones((5, 3), dtype=bool), None, None, None,
                4, 64, 0.0, reg_lambda, 0.0, 0.0, min_child_weight, best, stats, n_shares)  # fmt: skip
    expected = twins.naive_find_splits(histograms, places, offsets, reg_lambda, min_child_weight)
    for place, (gain, split), found, of_found in zip(places, expected, best.tolist(), stats.tolist(), strict=True):
        assert (found[0] == -1) == (split is None)
        if split is not None:
            feature, position, missing_left = split
            bins = histograms[place, offsets[feature] : offsets[feature + 1]]
            left = bins[:position].sum(axis=0) + missing_left * bins[-1]
            assert (found, of_found) == (split, [gain, *left.tolist()])


def test_subtract_from_parents():
    histograms, places, parents = np.arange(20.0).reshape(5, 2, 2), np.array([1, 4, 0]), np.array([2, -1, 3])
    expected = twins.naive_subtract_from_parents(histograms, places, parents)
    subtract_from_parents(Workers(1).team(1), histograms, places, parents)
    assert histograms.tolist() == expected.tolist()
    assert histograms[2].tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert histograms[3].tolist() == [[12.0, 12.0], [12.0, 12.0]]


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]))
@settings(max_examples=30, deadline=None)
def test_bounded_weights(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    G, H = rng.integers(-40, 40, 20) / 8, rng.integers(1, 40, 20) / 8
    bounds = np.stack([rng.choice([-np.inf, -1.0], 20), rng.choice([0.5, np.inf], 20)], axis=1)
    found = bounded_weights(G, H, bounds, reg_lambda, 0.0, 0.0, min_child_weight)
    assert found.tolist() == twins.naive_bounded_weights(G, H, bounds, reg_lambda, min_child_weight)


@given(SEEDS, st.integers(1, 25), st.sampled_from([0.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_present_categories_and_ends_by_weight(seed, most, cat_smooth):
    rng = np.random.default_rng(seed)
    histogram = np.stack([rng.integers(-9, 9, 21), rng.integers(1, 5, 21)], axis=1).astype(float)
    histogram[rng.random(21) < 0.3] = 0.0
    present, heavy = (twins.naive_present_categories(histogram, lightest) for lightest in (0.0, 3.0))
    room = category_room(25)  # more than is needed
    codes = room[0][0]
    assert present_categories(histogram, 3.0, codes) == (len(heavy), len(present))
    assert codes[: len(heavy)].tolist() == heavy
    assert present_categories(histogram, 0.0, codes) == (len(present), len(present))
    assert codes[: len(present)].tolist() == present
    low, high = ends_by_weight(histogram, len(present), room, most, cat_smooth, 1.0, 0.0, 0.0, 0.0)
    assert (low.tolist(), high.tolist()) == twins.naive_ends_by_weight(histogram, present, most, cat_smooth, 1.0)


@pytest.mark.parametrize("most", [256, 257, 600])
def test_long_ends_by_weight_are_those_of_a_sort(most):
    # Up to 256 categories are inserted one by one, of more all are sorted; many weights are equal.
    rng = np.random.default_rng(4)
    histogram = np.stack([rng.integers(-9, 9, 601), rng.integers(1, 5, 601)], axis=1).astype(float)
    room = category_room(600)
    room[0][0] = range(600)
    low, high = ends_by_weight(histogram, 600, room, most, 0.0, 1.0, 0.0, 0.0, 0.0)
    order = np.lexsort((np.arange(600), -histogram[:-1, 0] / (histogram[:-1, 1] + 1.0)))
    assert low.tolist() == order[:most].tolist()
    assert high.tolist() == order[::-1][:most].tolist()

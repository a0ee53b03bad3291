"""Kernels over histograms, compared with their plain twins on random input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.runtime.workers import Workers
from frameboost.splits.search import (
    bounded_weights,
    category_room,
    ends_by_weight,
    find_splits,
    present_categories,
    scan_histograms,
    scan_numbers,
    subtract_from_parents,
)
from tests.support import naive_kernels as twins

SEEDS = st.integers(0, 2**32 - 1)


def gradients(rng, n):
    """Return g and h, multiples of 1/8, so that sums are exact."""
    return np.stack([rng.integers(-40, 40, n) / 8, rng.integers(0, 9, n) / 8], axis=1)


def test_subtract_from_parents():
    histograms, places, parents = np.arange(20.0).reshape(5, 2, 2), np.array([1, 4, 0]), np.array([2, -1, 3])
    expected = twins.naive_subtract_from_parents(histograms, places, parents)
    subtract_from_parents(Workers(1).team(1), histograms, places, parents)
    assert histograms.tolist() == expected.tolist()
    assert histograms[2].tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert histograms[3].tolist() == [[12.0, 12.0], [12.0, 12.0]]


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_scan_numbers(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    histogram = gradients(rng, 9)
    histogram[rng.random(9) < 0.3] = 0.0
    G, H = histogram.sum(axis=0)
    parent = G * G / (H + reg_lambda) if H > 0 else 0.0
    room = np.empty((2, 9)), np.empty(9), np.empty(9, dtype=np.int64)
    found, position, missing_left, gain, GL, HL = scan_numbers(
        histogram, G, H, parent, reg_lambda, 0.0, min_child_weight, 0.0, *room
    )
    expected = twins.naive_scan_numbers(histogram, G, H, reg_lambda, min_child_weight)
    assert found == (expected[1] >= 0)
    if found:
        assert (gain, position, missing_left) == expected
        left = histogram[:position].sum(axis=0) + missing_left * histogram[-1]
        assert left.tolist() == [GL, HL]


@given(SEEDS, st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 2.0]))
@settings(max_examples=60, deadline=None)
def test_scan_histograms(seed, reg_lambda, min_child_weight):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, 3)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    pairs, histograms = gradients(rng, 40), np.zeros((1, sizes.sum(), 2))
    for feature, size in enumerate(sizes):
        np.add.at(histograms[0], offsets[feature] + rng.integers(0, size - seed % 2, 40), pairs)
    best, stats = np.empty((1, 3), dtype=np.int64), np.empty((1, 3))
    scan_histograms(
        histograms, np.array([0]), offsets, None, np.ones((1, 3), dtype=bool), 0, None, None, True, 4, 64, 0.0,
        reg_lambda, 0.0, 0.0, min_child_weight, best, stats,
    )  # fmt: skip
    gain, split = twins.naive_scan_histograms(histograms[0], offsets, reg_lambda, min_child_weight)
    if split is None:
        assert best[0, 0] == -1
    else:
        assert (stats[0, 0], best[0].tolist()) == (gain, split)


def test_find_splits_in_shares():
    rng = np.random.default_rng(0)
    histograms, places, offsets = gradients(rng, 7 * 12).reshape(7, 12, 2), np.array([6, 2, 0, 1, 5]), [0, 5, 12]
    for place in places:  # all features of a node have its sums
        histograms[place, -1] += histograms[place, :5].sum(axis=0) - histograms[place, 5:].sum(axis=0)
    expected = twins.naive_find_splits(histograms, places, offsets, 1.0, 0.0)
    assert all(split is not None for _, split in expected)
    for count in (1, 2, 5, 8):
        best, stats = np.empty((5, 3), dtype=np.int64), np.empty((5, 3))
        find_splits(Workers(1).team(1), histograms, places, np.array(offsets), None,
                    np.ones((5, 2), dtype=bool), None, None, None, 4, 64,
                    0.0, 1.0, 0.0, 0.0, 0.0, best, stats, count)  # fmt: skip
        assert list(zip(stats[:, 0].tolist(), best.tolist(), strict=True)) == expected


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

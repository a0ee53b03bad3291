"""Kernels over histograms, compared with their plain twins on random input."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.runtime.workers import Workers
from frameboost.splits.search import find_splits
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
                None, 4, 64, 0.0, reg_lambda, 0.0, 0.0, min_child_weight, best, stats, n_shares)  # fmt: skip
    expected = twins.naive_find_splits(histograms, places, offsets, reg_lambda, min_child_weight)
    for place, (gain, split), found, of_found in zip(places, expected, best.tolist(), stats.tolist(), strict=True):
        assert (found[0] == -1) == (split is None)
        if split is not None:
            feature, position, missing_left = split
            bins = histograms[place, offsets[feature] : offsets[feature + 1]]
            left = bins[:position].sum(axis=0) + missing_left * bins[-1]
            assert (found, of_found) == (split, [gain, *left.tolist()])

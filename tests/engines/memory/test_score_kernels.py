"""Rows in the order of their scores, as numpy's sort has them, whatever the scores are."""

import numpy as np
import pytest

from frameboost.engines.memory.scores import MAX_CROWDED, distinct_scores, group_keys, pack_scores
from tests.support.cases import cases

N = 20_000
RNG = np.random.default_rng(4)
CLOSE = np.nextafter(0.3, 1, dtype=np.float64)
SCORES = {
    "spread": RNG.random(N),
    "few": RNG.choice([0.1, 0.3, 0.31, 0.9], N),
    "rare": RNG.random(N) ** 8,
    "certain": 1 - RNG.random(N) ** 8,
    "neighbours": RNG.choice([0.2, 0.3, CLOSE, 0.75], N),  # in one bucket, which is crowded
    "ends": RNG.choice([0.0, 1.0, 5e-324, 1 - 2**-53, 0.5], N),
    "above one": RNG.random(N) * 1.999,
    "all alike": np.full(N, 0.125),
}


def packed(scores: np.ndarray, positive: np.ndarray) -> np.ndarray:
    keys = np.empty(len(scores), np.int64)
    assert pack_scores(scores, positive, 1 - positive, keys)
    return keys


def test_too_many_crowded_buckets_are_left_to_numpy():
    odds = np.repeat(np.linspace(-20, 20, 400), 70)
    scores = np.clip(1 / (1 + np.exp(-odds)) * (1 + RNG.integers(0, 2, len(odds)) * 2**-52), 0, 1)
    positive = RNG.integers(0, 2, len(odds)).astype(float)
    grouped, crowded = np.empty(len(odds), np.int64), np.zeros((MAX_CROWDED, 2), np.int64)
    assert group_keys(scores, packed(scores, positive), grouped, crowded) == -1
    check_steps(scores, positive)


@cases("name", SCORES)
def test_sums_by_score_are_those_of_counting(name):
    check_steps(SCORES[name], RNG.integers(0, 2, N).astype(float))


def check_steps(scores: np.ndarray, positive: np.ndarray) -> None:
    found = distinct_scores(scores, positive, 1 - positive)
    values, which = np.unique(-scores, return_inverse=True)
    of_one = np.bincount(which, positive, len(values)), np.bincount(which, 1 - positive, len(values))
    above = [np.cumsum(each) - each for each in of_one]
    for ours, expected in zip(found, (*above, *of_one), strict=True):
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("bad", [2.0, -0.25, np.nan])
def test_scores_without_room_are_not_packed(bad):
    keys, scores, positive = np.empty(3, np.int64), np.array([0.5, bad, 0.25]), np.array([1.0, 0, 1])
    assert not pack_scores(scores, positive, 1 - positive, keys)
    found = distinct_scores(np.repeat(scores, N), np.repeat(positive, N), np.repeat(1 - positive, N))
    assert (found is None) == np.isnan(bad)

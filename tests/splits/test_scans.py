"""The scans of one feature's histogram, on the worked examples of their modules."""

from __future__ import annotations

import numpy as np
import pytest

from frameboost.splits.search import (
    category_candidates,
    category_room,
    scan_bounded_numbers,
    scan_categories,
    scan_numbers,
)

FREE = (-np.inf, np.inf)  # bounds of the weight
# The codes of the example's categories.
A, B, C, D = range(4)


def scan(histogram, reg_lambda, least=0.0):
    """Return the best split of a numeric feature: found, position, missing left, gain, GL, HL."""
    G, H = histogram.sum(axis=0)
    n = len(histogram)
    given, room = (histogram, None, G, H, G * G / (H + reg_lambda)), (np.empty((2, n)), np.empty(n), np.empty(n, int))
    found = scan_bounded_numbers(*given, np.int8(0), *FREE, reg_lambda, 0.0, 0.0, 0.0, least, *room)
    assert found == scan_numbers(*given, reg_lambda, 0.0, 0.0, least, *room)
    return found


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("magnitude", [1e-160, 1e-90, 1.0, 1e90, 1e160])
@pytest.mark.parametrize("reg_lambda", [0.0, 1.0])
def test_no_split_is_missed_that_gains_the_least_bit_more(magnitude, reg_lambda):
    # `scan_bounded_numbers` computes every gain; `scan_numbers` only if one may be large enough.
    rng = np.random.default_rng(0)
    for _ in range(100):
        histogram = np.stack([rng.integers(-50, 50, 19) * magnitude, rng.integers(0, 9, 19) / 8], axis=1)
        histogram[rng.random(19) < 0.3] = 0.0
        gain = scan(histogram, reg_lambda)[3]
        assert not scan(histogram, reg_lambda, gain)[0]
        if 0.0 < gain < np.inf:
            assert scan(histogram, reg_lambda, np.nextafter(gain, 0.0))[0]


FOUR_CATEGORIES = np.array([(6, 2), (-2, 2), (-6, 3), (3, 3), (0, 0)], dtype=float)


def scan_four(histogram, *, max_cat_to_onehot=4):
    G, H = histogram.sum(axis=0)
    room = category_room(4)
    given, limits = (histogram, None, room, G, H, G * G / H), (max_cat_to_onehot, 64, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    found = scan_categories(*given, None, 0, *limits)
    assert found == scan_categories(*given, np.array([[3.0, 3.0], FREE]), 1, *limits), "no weight is clipped"
    return found


def test_the_candidates_of_four_categories():
    def candidates(histogram, max_cat_to_onehot=4, max_cat_threshold=64):
        one_hot, steps, n, lowest, highest = category_candidates(
            histogram, category_room(4), max_cat_to_onehot, max_cat_threshold, 0.0, 0.0, 0.0, 0.0, 0.0
        )
        return one_hot, steps, n, lowest[:steps].tolist(), highest[:steps].tolist()

    assert candidates(FOUR_CATEGORIES) == (False, 2, 4, [A, D], [C, B])
    assert candidates(FOUR_CATEGORIES, max_cat_threshold=2) == (False, 1, 4, [A], [C])
    assert candidates(FOUR_CATEGORIES, max_cat_to_onehot=5) == (True, 4, 4, [A, B, C, D], [A, B, C, D])
    # With missing values to go the other way, to name a, d and b is not to name c.
    with_missing = FOUR_CATEGORIES.copy()
    with_missing[-1] = (1, 1)
    assert candidates(with_missing) == (False, 4, 4, [A, D, B, C], [C, B, D, A])
    assert candidates(with_missing, max_cat_to_onehot=5)[:3] == (True, 5, 4)


def test_missing_values_go_with_the_category_or_with_the_rest():
    histogram = FOUR_CATEGORIES.copy()
    histogram[-1] = (6, 1)  # G = 7, H = 11
    # With a to the right: 144/3 + 25/8; with the rest to the left: 36/2 + 1/9; on their own: 36/1 + 1/10.
    found, position, missing_left, gain, GL, HL = scan_four(histogram, max_cat_to_onehot=5)
    assert (found, position, missing_left, GL, HL) == (True, 1, 0, -5.0, 8.0)
    assert gain == pytest.approx(48 + 25 / 8 - 49 / 11)
    histogram[-1] = (-30, 1)  # G = -29, H = 11. On their own: 900/1 + 1/10; with c: 1296/4 + 49/7.
    found, position, missing_left, gain, GL, HL = scan_four(histogram, max_cat_to_onehot=5)
    assert (found, position, missing_left, GL, HL) == (True, 5, 0, 1.0, 10.0)
    assert gain == pytest.approx(900.1 - 841 / 11)

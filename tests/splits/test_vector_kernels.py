"""The split of several outputs: every candidate by loops over plain numbers, on random histograms."""

import numpy as np
import pytest

from frameboost.runtime.workers import Workers
from frameboost.splits.vector import find_vector_splits, gains_of_outputs, named_by_outputs, scan_outputs
from tests.support.cases import cases


def score(G, H, penalties):
    reg_lambda, reg_alpha, step, least = penalties
    if H <= 0 or least > H:
        return 0.0
    T = np.sign(G) * max(abs(G) - reg_alpha, 0.0)
    w = -T / (H + reg_lambda)
    w = np.clip(w, -step, step) if step else w
    return -(2 * G * w + (H + reg_lambda) * w * w + 2 * reg_alpha * abs(w))


def weight(G, H, smooth, penalties):
    reg_lambda, reg_alpha, step, least = penalties
    if least > H or H + smooth <= 0:
        return 0.0
    w = -np.sign(G) * max(abs(G) - reg_alpha, 0.0) / (H + smooth + reg_lambda)
    return np.clip(w, -step, step) if step else w


def gain(goes_left, sums, penalties):
    """Return the gain of a split, ``goes_left`` by code, of sums (outputs, codes, 2)."""
    left, total = sums[:, goes_left].sum(axis=1), sums.sum(axis=1)
    return sum(
        score(*a, penalties) + score(*(whole - a), penalties) - score(*whole, penalties)
        for a, whole in zip(left, total, strict=True)
    )


def numeric_candidates(sums):
    """Yield position, side of missing, and the codes that go left."""
    n = sums.shape[1] - 1
    for position in range(1, n + 1):
        if sums[:, position - 1].any():
            for side in range(1 + sums[:, n].any()):
                left = np.arange(n + 1) < position
                left[n] = side
                yield position, side, left


def category_candidates(sums, penalties, onehot, threshold, smooth):
    K, n = sums.shape[0], sums.shape[1] - 1
    present = [c for c in range(n) if sums[:, c].any()]
    sees_missing = bool(sums[:, n].any())
    if n < onehot:
        for i, c in enumerate(present, 1):
            for side in (0, 1) if sees_missing else (1,):
                left = np.ones(n + 1, bool)
                left[c], left[n] = False, side
                yield i, side, left
        if sees_missing:
            yield len(present) + 1, 0, np.arange(n + 1) < n
        return
    smooth = min(smooth, sums[:, :, 1].sum() / K / 20)
    named = [c for c in present if sums[:, c, 1].sum() >= smooth * K]
    vectors = np.array([[weight(*sums[k, c], smooth, penalties) for k in range(K)] for c in named]).reshape(-1, K)
    mass = sums[:, named, 1].sum(axis=0)
    vectors = vectors - (mass @ vectors / mass.sum() if mass.sum() else 0.0)
    axis = vectors[np.argmax(mass * (vectors**2).sum(axis=1))] if len(named) else np.zeros(K)
    for _ in range(4):
        axis = (vectors * mass[:, None]).T @ (vectors @ axis)
        axis = axis / (np.abs(axis).max() or 1.0)
    key = dict(zip(named, vectors @ axis, strict=True))
    order = sorted(named, key=lambda c: (round(key[c], 12), c))
    for step in range(1, min(threshold - 1, len(order)) + 1):
        right = np.ones(n + 1, bool)
        right[order[:step]] = False
        yield step, 1, right
        left = np.zeros(n + 1, bool)
        left[order[::-1][:step]] = True
        yield step, 0, left


def drawn(seed):
    """Return histograms of 3 nodes and K outputs on a grid, their offsets, which are categorical, and penalties."""
    rng = np.random.default_rng(seed)
    K, widths = int(rng.integers(2, 5)), rng.integers(2, 9, 4)
    offsets = np.concatenate([[0], np.cumsum(widths)])
    histograms = np.zeros((3, K, offsets[-1], 2))
    for node in range(3):
        rows = rng.integers(10, 60)
        g, h = rng.integers(-16, 17, (rows, K)) / 8, rng.integers(0, 9, (rows, K)) / 8
        for f in range(4):
            codes = rng.integers(0, widths[f] - rng.integers(0, 2), rows)
            for k in range(K):
                np.add.at(histograms[node, k, :, 0], offsets[f] + codes, g[:, k])
                np.add.at(histograms[node, k, :, 1], offsets[f] + codes, h[:, k])
    penalties = tuple(float(rng.choice(each)) for each in ([0.5, 2.0], [0.0, 0.5], [0.0, 0.3], [0.0, 1.0, 4.0]))
    return histograms, offsets, np.array([False, True, False, True]), penalties


@cases("seed", range(30))
def test_the_split_is_the_best_of_all_candidates(seed):
    histograms, offsets, is_categorical, penalties = drawn(seed)
    onehot, threshold, smooth = [(4, 64, 0.0), (1, 3, 0.0), (9, 64, 3.0), (1, 64, 2.0)][seed % 4]
    best, gains = np.empty((3, 3), np.int64), np.empty(3)
    allowed = np.ones((3, 4), bool)
    allowed[1, 0] = False
    settings = (onehot, threshold, smooth, *penalties)
    scan_outputs(histograms, np.arange(3), offsets, is_categorical, allowed, 0, None, *settings, best, gains)
    for node in range(3):
        candidates = []
        for f in np.flatnonzero(allowed[node]):
            own = histograms[node, :, offsets[f] : offsets[f + 1]]
            ways = category_candidates(own, penalties, onehot, threshold, smooth) if is_categorical[f] else (
                numeric_candidates(own))  # fmt: skip
            candidates += [(gain(left, own, penalties), f, position, side, left) for position, side, left in ways]
        most = max((each[0] for each in candidates), default=0.0)
        if most <= 1e-12:
            assert best[node, 0] == -1 or gains[node] < 1e-12
            continue
        assert gains[node] == pytest.approx(most)
        f, position, side = best[node]
        assert any(each[0] == pytest.approx(most) and each[1:4] == (f, position, side) for each in candidates)
        own = np.ascontiguousarray(histograms[node, :, offsets[f] : offsets[f + 1]])
        left = next(each[4] for each in candidates if each[1:4] == (f, position, side))
        if is_categorical[f]:
            named = named_by_outputs(own, position, side == 1, *settings)
            goes_left = np.full(own.shape[1], bool(side))
            goes_left[named] = not side
            rows = own.any(axis=(0, 2))
            assert (goes_left == left)[rows].all()
        by_output = gains_of_outputs(own[:, left].sum(axis=1), own.sum(axis=1), *penalties)
        assert by_output.sum() == pytest.approx(gains[node])


def test_the_example_of_the_module():
    found = gains_of_outputs(np.array([[-2, 2], [1, 0.5]]), np.array([[-1, 3], [2, 2.5]]), 0.0, 0.0, 0.0, 1.0)
    np.testing.assert_allclose(found, [4 / 2 + 1 / 1 - 1 / 3, 0 + 1 / 2 - 4 / 2.5])


def test_shares_of_threads_find_the_same():
    histograms, offsets, is_categorical, penalties = drawn(5)
    of_features = histograms, np.arange(3), offsets, is_categorical, np.ones((3, 4), bool)
    settings = None, 4, 64, 0.0, *penalties
    alone, shared = ((np.empty((3, 3), np.int64), np.empty(3)) for _ in range(2))
    scan_outputs(*of_features, 0, *settings, *alone)
    workers = Workers(2)
    try:
        find_vector_splits(workers.team(2), *of_features, *settings, *shared, 2)
    finally:
        workers.close()
    np.testing.assert_array_equal(alone[0], shared[0])
    np.testing.assert_array_equal(alone[1], shared[1])

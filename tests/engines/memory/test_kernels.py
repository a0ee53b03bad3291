"""Kernels over rows, compared with their plain twins on random input."""

from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.engines.memory import partition
from frameboost.engines.memory.histograms import add_more, build_histograms, may_block
from frameboost.engines.memory.terms import put_gh, round_gh
from frameboost.runtime.workers import Workers
from tests.support import naive_kernels as twins

SEEDS = st.integers(0, 2**32 - 1)
PIECES = st.lists(st.integers(0, 40), max_size=6).map(
    lambda lengths: [[i // 2, 100 * i, 100 * i + length] for i, length in enumerate(lengths)]
)


def gradients(rng, n):
    """Return g and h, multiples of 1/8, so that sums are exact."""
    return np.stack([rng.integers(-40, 40, n) / 8, rng.integers(0, 9, n) / 8], axis=1)


def as_array(pieces):
    return np.array(pieces, dtype=np.int64).reshape(-1, 3)


@pytest.mark.slow
@given(SEEDS, st.integers(1, 40), st.integers(1, 4), st.sampled_from(["u1", "u2", "u4"]), st.booleans())
@settings(max_examples=12, deadline=None)
def test_build_histograms(seed, n_features, most, dtype, is_first):
    rng = np.random.default_rng(seed)
    n = int(rng.choice([60, 9000]))  # thousands of rows of uint8 codes are added in blocks
    sizes = rng.integers(2, 257, n_features)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(dtype)
    pairs, ends = gradients(rng, n), np.cumsum(sizes)
    rows = rng.permutation(n).astype(np.uint32)
    middle = n * 4 // 5  # the first node has the most, so several shares are of it
    pieces = [[0, 3, middle], [1, middle, middle], [2, middle + 5, n - 7], [2, n - 2, n]]
    parts, firsts = partition.share_pieces(as_array(pieces), most, 1)
    places, out = np.array([4, 0, 3]), np.full((5, ends[-1], 2), 0.5)
    more = np.zeros((most - 1, ends[-1], 2))
    expected = twins.naive_build_histograms(codes, rows, pieces, pairs, ends - sizes, out, places, is_first=is_first)
    with closing(Workers(2)) as workers:
        team = workers.team(most)
        slots, blocks = ends - sizes, may_block(codes, ends[-1])
        build_histograms(team, codes, rows, parts, firsts, pairs, slots, out, places, more, is_first, blocks)
    summed = twins.naive_add_more(parts.tolist(), firsts.tolist(), more, out, places)
    add_more(parts, firsts, more, out, places)
    np.testing.assert_array_equal(out, summed)
    np.testing.assert_array_equal(out, expected)


@given(PIECES, st.integers(1, 7), st.integers(0, 30))
@settings(deadline=None)
def test_share_pieces(pieces, most, smallest):
    parts, firsts = partition.share_pieces(as_array(pieces), most, smallest)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(pieces, most, smallest)
    sizes = [sum(stop - start for _, start, stop in parts[a:b]) for a, b in pairwise(firsts)]
    assert len(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 1 or min(sizes) >= smallest
    parts, firsts = partition.shares_of(np.array([2, 0]), as_array(pieces), 3, most, smallest)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(
        twins.naive_pieces_of([2, 0], pieces), most, smallest
    )


def test_shares_by_hand():
    pieces = as_array([[5, 0, 7], [6, 9, 9], [7, 10, 13], [7, 20, 22]])
    parts, firsts = partition.share_pieces(pieces, 3, 4)
    assert parts.tolist() == [[5, 0, 4], [5, 4, 7], [7, 10, 11], [7, 11, 13], [7, 20, 22]]
    assert firsts.tolist() == [0, 1, 3, 5]
    assert partition.share_pieces(pieces, 3, 5)[1].tolist() == [0, 1, 4], "12 rows are two shares of 5 or more"


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_put_gh_and_round_gh(seed):
    rng = np.random.default_rng(seed)
    g, h, pairs = rng.normal(size=40), rng.random(40), np.full((40, 2), 7.0)
    expected, largest = twins.naive_put_gh(g[3:], h[3:])
    assert put_gh(g[3:], h[3:], pairs[3:]) == largest
    assert pairs.tolist() == [[7.0, 7.0]] * 3 + expected.tolist()
    expected, totals = twins.naive_round_gh(pairs[10:], 16, 4)
    assert round_gh(pairs[10:], 1.5 * 2.0**52 / 16, 1.5 * 2.0**52 / 4) == totals
    assert pairs[10:].tolist() == expected.tolist()
    g[7] = np.nan
    assert put_gh(g, h, pairs) == twins.naive_put_gh(g, h)[1]


@given(PIECES, st.lists(st.integers(0, 5), unique=True))
def test_one_share(pieces, nodes):
    parts, firsts = partition.one_share(np.array(nodes, dtype=np.int64), as_array(pieces), 6)
    assert (parts.tolist(), firsts.tolist()) == twins.naive_share_pieces(twins.naive_pieces_of(nodes, pieces), 1, 1)

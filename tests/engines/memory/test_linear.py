"""Kernels of linear leaves, compared with fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.engines.contract import sums_of_terms
from frameboost.engines.memory.linear import add_linear, grids_of, range_of_leaf, sum_leaf
from frameboost.trees.tree import LinearTerm

N_ROWS = 30


def drawn(seed: int):
    """Return rows of a leaf, pairs, numbers with gaps, and terms; all are small dyadic fractions."""
    rng = np.random.default_rng(seed)
    pairs = np.stack([rng.integers(-64, 64, N_ROWS) / 8, rng.integers(0, 3, N_ROWS) / 4], axis=1)
    numbers = rng.integers(-40, 40, (3, N_ROWS)) / 4
    numbers[rng.random((3, N_ROWS)) < 0.1] = math.nan
    rows = rng.permutation(N_ROWS)[: rng.integers(1, N_ROWS)].astype(np.uint32)
    places = rng.permutation(3)[: rng.integers(1, 4)]
    terms = [LinearTerm(int(place), float(rng.integers(-9, 9)), 0.5, 1.0, -4.0, 3.5) for place in places]
    return rows, pairs, numbers, places, terms


def u_of(term: LinearTerm, x: float) -> Fraction:
    step = Fraction(term.step)
    return min(max(round(Fraction(x) / step) * step - Fraction(term.centre), Fraction(term.low)), Fraction(term.high))


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_ranges_and_sums_are_those_of_complete_rows(seed):
    rows, pairs, numbers, places, terms = drawn(seed)
    complete = [row for row in rows if pairs[row, 1] > 0 and not np.isnan(numbers[places, row]).any()]
    ranges = np.empty(3 + 2 * len(places))
    range_of_leaf(rows, pairs, numbers, places, ranges)
    assert ranges[0] == len(complete)
    if complete:
        assert ranges[1:3].tolist() == [abs(pairs[complete, 0]).max(), pairs[complete, 1].max()]
        ends = [(numbers[place, complete].min(), numbers[place, complete].max()) for place in places]
        assert ranges[3:].reshape(-1, 2).tolist() == [list(each) for each in ends]

    n = len(terms)
    sums = np.empty(2 + 2 * n + n * (n + 1) // 2)
    coarse = 1.5 * 2.0**52 * 0.25  # g is rounded to quarters, h as it is
    sum_leaf(rows, pairs, numbers, places, grids_of(terms), coarse, 1.5 * 2.0**52 * 2.0**-8, sums)
    g = {row: Fraction(round(Fraction(pairs[row, 0]) * 4), 4) for row in complete}
    h = {row: Fraction(pairs[row, 1]) for row in complete}
    u = {row: [u_of(term, numbers[term.feature, row]) for term in terms] for row in complete}
    expected = [sum(g.values()), sum(h.values())]
    expected += [sum(side[row] * u[row][k] for row in complete) for side in (g, h) for k in range(n)]
    expected += [sum(h[r] * u[r][k] * u[r][j] for r in complete) for k in range(n) for j in range(k + 1)]
    assert sums.tolist() == [float(each) for each in expected]


@given(st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_values_of_linear_leaves_are_added(seed):
    rows, _, numbers, places, terms = drawn(seed)
    margins = np.arange(N_ROWS) / 16
    slopes = np.array([term.slope for term in terms])
    add_linear(rows, numbers, places, grids_of(terms), slopes, 0.25, -7.0, margins)
    for row in range(N_ROWS):
        added = 0.0
        if row in rows and np.isnan(numbers[places, row]).any():
            added = -7.0
        elif row in rows:
            added = 0.25 + sum(Fraction(term.slope) * u_of(term, numbers[term.feature, row]) for term in terms)
        assert margins[row] == row / 16 + added


def test_sums_of_a_leaf_with_fewer_terms():
    # g, h, g·u of three terms, h·u of three, then the pairs 00, 01, 11, 02, 12, 22
    values = np.array([1, 2, 10, 11, 12, 20, 21, 22, 100, 101, 111, 102, 112, 122])
    assert sums_of_terms(values, 3, 2).tolist() == [1, 2, 10, 11, 20, 21, 100, 101, 111]
    assert sums_of_terms(values, 3, 3).tolist() == values.tolist()

"""Sums on the grid are exact, in any order; leaf values too."""

import math
import random
from dataclasses import replace
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.expressions.expression import Expression, float_literal
from frameboost.expressions.grid import bit_step, grid_offset, grid_step
from frameboost.trees.tree import Tree, on_leaf_grid

FINITE = st.floats(-1e150, 1e150)


@given(st.floats(min_value=2.0**-1000, allow_infinity=False), st.integers(10, 20))
def test_steps_are_the_smallest_power_of_two_that_so_many_bits_can_count(value, bits):
    step = Fraction(bit_step(value, bits))
    assert Fraction(value) <= 2**bits * step
    assert Fraction(value) > 2**bits * step / 2


def test_no_step_is_subnormal():
    assert bit_step(5e-324, 52) == bit_step(0.0, 52) == 2.0**-1022


@given(st.lists(FINITE, min_size=1, max_size=200), st.randoms())
@settings(deadline=None)
def test_sums_of_numbers_on_the_grid_are_exact_in_any_order(values, rng):
    largest = max(map(abs, values))
    step, offset = grid_step(largest, len(values)), grid_offset(largest, len(values))
    gridded = [(v + offset) - offset for v in values]
    for value, on_grid in zip(values, gridded, strict=True):
        steps = Fraction(on_grid) / Fraction(step)
        assert steps.denominator == 1
        assert steps == round(Fraction(value) / Fraction(step))  # half to even, as Python's round
    total = sum(map(Fraction, gridded))
    for _ in range(3):
        rng.shuffle(gridded)
        assert Fraction(sum(gridded)) == total
        assert Fraction(sum(gridded[::2])) + Fraction(sum(gridded[1::2])) == total
    assert abs(total - sum(map(Fraction, values))) <= len(values) * Fraction(step) / 2


def test_the_step_is_the_designs():
    assert grid_step(1.0, 1024) == 2.0 ** (0 + 10 - 52)
    assert grid_step(1.5, 1000) == 2.0 ** (1 + 10 - 52)
    assert grid_step(0.0, 10) > 0


@pytest.mark.slow
@given(st.lists(st.floats(-1e30, 1e30), min_size=4, max_size=50))
@settings(max_examples=30, deadline=None)
def test_engines_round_to_the_grid_alike(values):
    offset = grid_offset(max(map(abs, values)), len(values))
    term = Expression(f"(margin + {float_literal(offset)}) - {float_literal(offset)}")
    frame = pl.DataFrame({"margin": values})
    in_polars = frame.select(term.to_polars()).to_series().to_list()
    in_duckdb = duckdb.connect().execute(f"SELECT {term.to_sql({'margin': 'margin'})} FROM frame").fetchall()
    assert in_polars == [v for (v,) in in_duckdb] == [(v + offset) - offset for v in values]


def _stump(*values: float) -> Tree:
    n = len(values)
    none = (None,) * n
    return Tree(feature=(-1,) * n, threshold=none, categories=none, missing_left=(False,) * n, left=(-1,) * n,
                right=(-1,) * n, gain=(0.0,) * n, cover=(1.0,) * n, value=values)  # fmt: skip


@given(st.floats(-1e6, 1e6), st.lists(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4), min_size=1, max_size=40))
@settings(deadline=None)
def test_leaves_on_the_grid_add_up_exactly_in_any_order(base, leaves):
    (base_on_grid,), trees = on_leaf_grid([base], [_stump(*values) for values in leaves])
    rng = random.Random(1)
    for _ in range(5):
        terms = [base_on_grid, *(rng.choice(tree.value) for tree in trees)]
        exact = sum(map(Fraction, terms))
        assert Fraction(sum(terms)) == exact == Fraction(sum(reversed(terms)))
    bound = abs(base) + sum(max(map(abs, values)) for values in leaves)
    pairs = [(base, base_on_grid)]
    for values, tree in zip(leaves, trees, strict=True):
        pairs += zip(values, tree.value, strict=True)
    assert max(abs(a - b) for a, b in pairs) <= bound * 2.0**-52 + 2.0**-1022  # the step is never a subnormal


def test_leaves_on_the_grid_stay_there():
    base, trees = on_leaf_grid([0.1], [_stump(0.3, -0.7), _stump(1e-9, 3.0)])
    assert on_leaf_grid(base, trees) == (base, trees)
    assert replace(trees[0]) == trees[0]
    assert math.isclose(trees[1].value[0], 1e-9, abs_tol=2**-50)


def test_zeros_stay_zeros():
    assert on_leaf_grid([0.0], [_stump(0.0)]) == ((0.0,), (_stump(0.0),))
    assert np.signbit(on_leaf_grid([0.0], [_stump(0.0)])[0][0]) == np.False_

"""Cuts by counts in cells, beside those of all values in order."""

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frameboost.binning import arrays
from frameboost.binning.arrays import MIN_IN_CELLS, count_cells, gaps_by_cells, propose_column, rows_of_cells
from frameboost.binning.bins import gaps_of_distinct
from frameboost.binning.codes import count_distinct, propose_bins
from frameboost.engines.memory.star.tables import gaps_of
from frameboost.schema.types import Feature, FeatureType
from tests.support.examples import examples

KINDS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "few": lambda rng, n: rng.integers(-9, int(rng.integers(10, 500)), n) * -0.5,
    "whole": lambda rng, n: rng.integers(-5, 300, n),
    "narrow": lambda rng, n: np.exp(9 * rng.normal(size=n)).astype(np.float32),
    "equal": lambda rng, n: np.where(rng.random(n) < 0.9, 0.0, rng.normal(size=n)),
    "zeros of both signs": lambda rng, n: rng.integers(-3, 4, n) * rng.choice([0.0, -0.0, 0.5], n),
    "infinite": lambda rng, n: np.where(rng.random(n) < 0.01, rng.choice([-np.inf, np.inf], n), rng.normal(size=n)),
    "the widest integers": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
    "unsigned": lambda rng, n: rng.integers(2**64 - 5000, 2**64 - 1, n, dtype=np.uint64),
    "an outlier": lambda rng, n: np.where(np.arange(n) == n // 2, 1e300, rng.normal(size=n)),
}


@settings(deadline=None, max_examples=examples(6), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.integers(2, 100), st.booleans())
@pytest.mark.parametrize("kind", KINDS)
def test_cuts_are_those_of_all_values_in_order(monkeypatch, kind, seed, max_bin, is_counted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 3000))
    settings_ = {"MIN_IN_CELLS": 1, "_CELLS": int(rng.integers(2, 5000)), "_CELL_SAMPLE": n, "_MAX_SORTED": 1.0}
    for name, value in settings_.items():
        monkeypatch.setattr(arrays, name, value)
    values = KINDS[kind](rng, n)
    counts = rng.integers(1, int(rng.choice([2, 5, 400])), n) if is_counted else None
    distinct, rows = np.unique(values if counts is None else np.repeat(values, counts), return_counts=True)
    expected = gaps_of_distinct(distinct, rows, max_bin)
    found, ordered = gaps_by_cells(values, counts, max_bin), np.sort(values)
    # All values are looked at. Few distinct ones are left to be sorted, and those without a range but for outliers.
    has_range = 0 < float(ordered[-5]) - float(ordered[4]) < np.inf
    assert (found is not None) == (len(distinct) > max_bin and has_range)
    if found is not None:
        assert found.tolist() == expected.tolist()
        assert not np.signbit(found[found == 0]).any()
    if counts is not None:  # by cells or by sorting
        assert gaps_of(values, counts, max_bin).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("kind", "has_missing"),
    [(kind, False) for kind in ("normal", "whole", "narrow", "an outlier", "the widest integers")]
    + [(kind, True) for kind in ("normal", "narrow", "an outlier")],  # numpy's integers have no NULL
)
def test_a_long_column_has_the_cuts_that_polars_finds(kind, has_missing):
    values = pl.Series("x", KINDS[kind](np.random.default_rng(1), MIN_IN_CELLS + 1000))
    if has_missing:
        values = values.scatter(list(range(3, len(values), 50)), None)
    feature = Feature("x", FeatureType.from_polars(values.dtype))
    assert propose_column(feature, values, 256) == propose_bins(feature, values, 256)


def test_most_values_of_a_long_column_are_not_sorted(monkeypatch):
    sorted_ = []
    monkeypatch.setattr(arrays, "count_distinct", lambda v, c=None: sorted_.append(len(v)) or count_distinct(v, c))
    values = np.random.default_rng(0).normal(size=200_000)
    assert gaps_by_cells(values, None, 256) is not None
    assert sorted_[0] < 200_000 / 20
    assert gaps_by_cells(np.exp(20 * values), None, 256) is None, "most values are in one cell"
    assert gaps_by_cells(np.sign(values), None, 256) is None
    assert gaps_by_cells(values[: MIN_IN_CELLS - 1], None, 256) is None


def test_kernels():
    values, weights = np.array([-5.0, 0.0, 0.9, 1.0, 2.5, 99.0, np.inf, -np.inf]), np.arange(1, 9)
    cells = [0, 0, 0, 1, 2, 3, 3, 0]  # four of width 1 from 0 on
    for given_weights, expected in ((None, np.bincount(cells)), (weights, np.bincount(cells, weights))):
        counts = np.zeros(4, np.int64)
        count_cells(values, given_weights, 0.0, 1.0, counts)
        assert counts.tolist() == expected.tolist()
    rows = np.empty(len(values), np.uint32)
    n = rows_of_cells(values, 0.0, 1.0, np.array([False, True, False, True]), rows)
    assert rows[:n].tolist() == [3, 5, 6]

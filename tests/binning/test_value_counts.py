"""Cuts from counts of values in several places are the cuts of all rows in one place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frameboost.binning.bins import gaps_of_distinct
from frameboost.binning.codes import ValueCounts, cut_intervals, gaps_of_counts, gaps_within

VALUES = [
    lambda rng, n: np.round(rng.normal(size=n) * 50, 1),
    lambda rng, n: rng.normal(size=n).astype(np.float32),
    lambda rng, n: rng.integers(-40, 40, n) * 10**15,
    lambda rng, n: np.array([int(v) * 10**30 for v in rng.integers(-200, 200, n)], dtype=object),
    lambda rng, n: np.repeat(rng.normal(size=-(-n // 20)), 20)[:n],
]


def counts_of(values: np.ndarray) -> ValueCounts:
    return ValueCounts(*np.unique(values, return_counts=True))


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32 - 1), n=st.integers(1, 400), kind=st.integers(0, len(VALUES) - 1),
    n_places=st.integers(1, 5), max_bin=st.integers(2, 40), more=st.integers(0, 60), is_sorted=st.booleans(),
)  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_cuts_are_those_of_all_rows(seed, n, kind, n_places, max_bin, more, is_sorted):
    rng = np.random.default_rng(seed)
    values = VALUES[kind](rng, n)
    place = np.argsort(np.argsort(values)) * n_places // n if is_sorted else rng.integers(0, n_places, n)
    parts = [counts_of(values[place == number]) for number in range(n_places)]
    expected = gaps_of_distinct(*np.unique(values, return_counts=True), max_bin).tolist()
    summaries = [part.summary(max(max_bin, 3) + more) for part in parts]
    if all(summary.is_complete for summary in summaries):
        assert gaps_of_counts(summaries, max_bin).tolist() == expected
    else:
        intervals = cut_intervals(summaries, n, max_bin)
        assert gaps_within(intervals, [part.within(intervals) for part in parts]).tolist() == expected


def test_few_values_are_sent():
    rng = np.random.default_rng(0)
    parts = [counts_of(rng.normal(size=100_000)) for _ in range(2)]
    intervals = cut_intervals([part.summary(4096) for part in parts], 200_000, 256)
    sent = sum(len(part.within(intervals).values) for part in parts)
    # Two places with a point every 25 rows: a cut is known to about 4 × 25 rows of 200,000.
    assert sent < 255 * 4 * 25

"""Threads share work out in order, and leave nothing out."""

import threading
import time
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.parallel import Workers


@given(st.integers(1, 7), st.lists(st.integers(0, 40), max_size=6), st.integers(0, 30))
def test_shares_are_all_rows_in_order(n_jobs, lengths, smallest):
    ranges = [(i // 2, 100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    with closing(Workers(n_jobs)) as workers:
        shares = workers.shares(np.array(ranges, dtype=np.int64).reshape(-1, 3), smallest)
    pieces = [piece for share in shares for piece in share]
    found = [(i, row) for i, start, stop in pieces for row in range(start, stop)]
    assert found == [(i, row) for i, start, stop in ranges for row in range(start, stop)]
    sizes = [sum(stop - start for _, start, stop in share) for share in shares]
    assert len(shares) <= n_jobs
    assert max(sizes) - min(sizes) <= 1
    assert len(shares) == 1 or min(sizes) >= smallest


@given(st.integers(1, 5), st.integers(0, 50), st.integers(0, 20))
def test_slices_cover_the_range(n_jobs, size, smallest):
    slices = []
    with closing(Workers(n_jobs)) as workers:
        workers.over(size, lambda start, stop: slices.append((start, stop)), smallest=smallest)
    edges = sorted(slices)
    assert [row for start, stop in edges for row in range(start, stop)] == list(range(size))
    assert all(first[1] == second[0] for first, second in pairwise(edges))


def test_results_come_in_the_order_of_the_items():
    with closing(Workers(3)) as workers:
        assert workers.each(range(50), lambda item: item * item) == [item * item for item in range(50)]
        assert workers.each([], str) == []


@pytest.mark.parametrize("fails", [0, 7, 49])
def test_what_is_raised_in_any_thread_is_raised(fails):
    def run(item):
        time.sleep(0.001)
        return 1 // (item != fails)

    with closing(Workers(3)) as workers:
        with pytest.raises(ZeroDivisionError):
            workers.each(range(50), run)
        assert workers.each([1, 2], str) == ["1", "2"]


def test_all_threads_take_part():
    both = threading.Barrier(2, timeout=60)  # which one thread alone would wait at in vain
    with closing(Workers(2)) as workers:
        assert sorted(workers.each([1, 2], lambda _: both.wait())) == [0, 1]

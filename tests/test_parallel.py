"""Threads share work out in order, and leave nothing out."""

from contextlib import closing
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from frameboost.parallel import Workers


@given(st.integers(1, 7), st.lists(st.integers(0, 40), max_size=6), st.integers(0, 30))
def test_shares_are_all_rows_in_order(n_jobs, lengths, smallest):
    ranges = [(100 * i, 100 * i + length) for i, length in enumerate(lengths)]
    with closing(Workers(n_jobs)) as workers:
        shares = workers.shares(ranges, smallest)
    pieces = [piece for share in shares for piece in share]
    found = [(i, row) for i, start, stop in pieces for row in range(start, stop)]
    assert found == [(i, row) for i, (start, stop) in enumerate(ranges) for row in range(start, stop)]
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

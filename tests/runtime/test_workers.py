"""Worker threads: results in the order of the items, no item left out, exceptions raised again."""

import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frameboost.runtime.workers import Workers, kept_workers


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


def test_others_that_start_too_late_are_not_waited_for():
    """While a caller keeps the only other thread, another caller does all items and returns."""
    free, is_kept = threading.Event(), threading.Event()
    with closing(Workers(2)) as workers:

        def keep(item):
            if threading.current_thread() is not caller:
                is_kept.set()
                free.wait(60)
            else:
                is_kept.wait(60)
            return item

        def first():
            nonlocal caller
            caller = threading.current_thread()
            assert workers.each([1, 2], keep) == [1, 2]

        caller = None
        thread = threading.Thread(target=first)
        thread.start()
        assert is_kept.wait(60)
        assert workers.each([3, 4, 5], lambda item: -item) == [-3, -4, -5]
        free.set()
        thread.join()


@pytest.mark.slow
def test_threads_are_kept_and_a_forked_process_has_its_own():
    assert kept_workers() is kept_workers()
    script = """
import os, threading
from frameboost.runtime.workers import kept_workers
if kept_workers().n_jobs > 1:
    both = threading.Barrier(2, timeout=60)
    kept_workers().each([1, 2], lambda _: both.wait())  # which needs both threads
    child = os.fork()
    if child == 0:
        kept_workers().each([1, 2], lambda _: both.wait())
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    if sys.platform != "win32":
        subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)

"""Threads in a kernel: each work item is done exactly once, by any number of threads."""

import threading
import time
from contextlib import closing, contextmanager

import numba
import numpy as np
import pytest

from frameboost.runtime.team import SIZE, outlined, serve, share_out
from frameboost.runtime.workers import NO_TEAM, Workers


@numba.njit(nogil=True)
def note(done, addend, item):
    for _ in range(50 * (item % 3)):  # some take longer
        done[item] += addend
        done[item] -= addend
    done[item] += addend


noting = outlined(note)


@contextmanager
def serving(team, n_threads):
    """Have threads take part in the work of a team."""
    threads = [threading.Thread(target=serve, args=(team, 1 << 16)) for _ in range(n_threads)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


@numba.njit(nogil=True)
def note_all(team, done, addend, count):
    share_out(team, noting((done, addend)), count)


@pytest.mark.parametrize("n_threads", [0, 1, 3])
def test_every_item_is_done_once(n_threads):
    team, done, expected = np.zeros(SIZE, dtype=np.int64), np.zeros(70), np.zeros(70)
    note_all(team, done, 0.0, 0)  # which compiles it
    with serving(team, n_threads):
        for turn, count in enumerate(np.random.default_rng(0).integers(0, 70, 3000).tolist()):
            note_all(team, done, float(turn), count)
            expected[:count] += turn  # all are done by now
            assert done.tolist() == expected.tolist()


def test_every_one_of_200_000_items_is_done_once():
    team, done = np.zeros(SIZE, dtype=np.int64), np.zeros(200_000)
    with serving(team, 2):
        note_all(team, done, 1.0, 200_000)
        assert (done == 1.0).all()


def test_without_a_team_the_caller_runs_all_items():
    done = np.zeros(7)
    note_all(NO_TEAM, done, 2.0, 5)
    assert done.tolist() == [2.0] * 5 + [0.0] * 2


@numba.njit(nogil=True)
def add_views(sums, tables, item):
    (values, more), scale = tables
    own = sums[item : item + 1]
    own[0] += scale * (values[item:].sum() + more[item, :2].sum())


adding_views = outlined(add_views)


@numba.njit(nogil=True)
def add_all_views(team, sums, values, more, scale):
    share_out(team, adding_views((sums, ((values, more), scale))), len(sums))


@pytest.mark.slow
def test_items_take_views_of_arrays_in_tuples():
    # The arrays are borrowed: no item counts references to them, and they outlive the call.
    rng = np.random.default_rng(1)
    sums, values, more = np.zeros(200), rng.random(200), rng.random((200, 3))
    expected = 2.0 * (values[::-1].cumsum()[::-1] + more[:, :2].sum(axis=1))
    team = np.zeros(SIZE, dtype=np.int64)
    with serving(team, 2):
        for turn in range(1, 200):
            add_all_views(team, sums, values, more, 2.0)
            np.testing.assert_allclose(sums, turn * expected, rtol=1e-12)


def test_threads_start_on_demand_and_end_when_idle():
    with closing(Workers(3)) as workers:
        before = threading.active_count()
        assert not len(workers.team(1)), "one item is the caller's"
        assert threading.active_count() == before
        assert workers.smallest(800) == 800
        team = workers.team(2)
        assert workers.team(1) is team, "kernels are not compiled again"
        assert workers.smallest(800) == 25, "who waits already can do with less"
        assert (workers.count(50, 800), workers.count(5000, 800), workers.count(0, 800)) == (2, 3, 1)
        deadline = time.monotonic() + 60
        while workers.smallest(800) == 25:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        done = np.zeros(5)
        for _ in range(3):
            note_all(workers.team(5), done, 1.0, 5)
            time.sleep(0.05)  # they have gone
        assert done.tolist() == [3.0] * 5
    assert threading.active_count() == before

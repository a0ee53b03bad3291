"""Threads for kernels that release the GIL, and the minimum work that pays for another thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from frameboost.errors import ParameterError
from frameboost.runtime.control_groups import cpu_quota

__all__ = [
    "ADDITIONS_PER_TASK",
    "CALLED_ROWS_PER_TASK",
    "MOVED_ROWS_PER_TASK",
    "NO_TEAM",
    "ROWS_PER_TASK",
    "VALUES_PER_TASK",
    "Pieces",
    "RowNumbers",
    "Shares",
    "Workers",
    "at_most",
    "available_cores",
    "has_numba",
    "kept_workers",
    "require_numba",
]

IntArray = npt.NDArray[np.int64]
RowNumbers = npt.NDArray[np.uint32]
Pieces = IntArray  # (pieces, 3)
Shares = tuple[Pieces, IntArray]  # pieces, and the first piece of each share; last, the number of pieces
Item = TypeVar("Item")
Result = TypeVar("Result")

NO_TEAM: IntArray = np.empty(0, dtype=np.int64)  # of one thread
# Turns without work before a thread leaves the team: some two milliseconds.
_PATIENCE = 1 << 16


class Workers:
    """A thread pool for one caller, whose thread takes part.

    Numba's parallel backends are not used: on some platforms two Python threads cannot enter them at once, and they
    make each kernel compile several times longer.

    Parameters
    ----------
    n_jobs
        The number of threads, including the caller's; None for all available cores.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or available_cores()
        self._others = ThreadPoolExecutor(self.n_jobs - 1) if self.n_jobs > 1 else None
        self._servers = ThreadPoolExecutor(self.n_jobs - 1) if self.n_jobs > 1 else None
        self._serving: list[None] = []  # an entry for each thread in the team: cheaper to look at than its future
        self._team: IntArray = NO_TEAM

    # --- kernels that share out work themselves -----------------------------------------------------------------------

    def team(self, count: int) -> IntArray:
        """Return the team (see `frameboost.runtime.team`), with enough threads spinning in it for ``count`` items.

        Idle threads leave after a while, and are restarted here. The team is empty until there is work for two.
        """
        if count > 1 and self._servers is not None:
            if not len(self._team):
                from frameboost.runtime.team import SIZE  # which needs numba

                self._team = np.zeros(SIZE, dtype=np.int64)
            for _ in range(min(self.n_jobs, count) - 1 - len(self._serving)):
                self._serving.append(None)
                self._servers.submit(self._serve)
        return self._team

    def _serve(self) -> None:
        from frameboost.runtime.team import serve

        try:
            serve(self._team, _PATIENCE)
        finally:
            self._serving.pop()

    def count(self, size: int, smallest: int) -> int:
        """Return the number of shares to divide ``size`` into, each at least `smallest` unless there is only one."""
        return self._count(size, self.smallest(smallest))

    def smallest(self, size: int) -> int:
        """Return the minimum size of a share: ``size`` if threads must be woken for it, a 32nd of it if they spin."""
        return size >> 5 if self._serving else size

    # --- anything else ------------------------------------------------------------------------------------------------

    def over(self, size: int, run: Callable[[int, int], object], *, smallest: int = 1) -> None:
        """Call ``run(start, stop)`` on slices that cover ``range(size)``, in threads if ``smallest`` allows."""
        if size < 2 * smallest:  # decided first: to set up slices takes as long as little work
            run(0, size)
            return
        self.each(self.slices(size, smallest), lambda slice_: run(*slice_))

    def slices(self, size: int, smallest: int) -> list[tuple[int, int]]:
        """Divide ``range(size)`` into a slice per thread, none shorter than ``smallest`` unless there is one slice."""
        count = self._count(size, smallest)
        return list(pairwise(size * k // count for k in range(count + 1)))

    def each(self, items: Sequence[Item], run: Callable[[Item], Result], *, alone: bool = False) -> list[Result]:
        """Call ``run`` on each item, from a queue for all threads; return the results, in order.

        The caller starts at once, while the other threads wake up. With ``alone`` it runs all items.
        """
        if self._others is None or len(items) < 2 or alone:
            return [run(item) for item in items]
        results: list[Any] = [None] * len(items)
        queue: SimpleQueue[int] = SimpleQueue()
        for index in range(len(items)):
            queue.put(index)

        def work() -> None:
            with suppress(Empty):
                while True:
                    index = queue.get_nowait()
                    results[index] = run(items[index])

        others = [self._others.submit(work) for _ in range(min(self.n_jobs, len(items)) - 1)]
        try:
            work()
        finally:
            started = [other for other in others if not other.cancel()]  # there is nothing left for the others
            wait(started)
        for other in started:
            other.result()  # raises what was raised in the thread
        return results

    def _count(self, size: int, smallest: int) -> int:
        return max(1, min(self.n_jobs, size // max(smallest, 1)))

    def close(self) -> None:
        """Shut down the threads."""
        for pool in (self._others, self._servers):
            if pool is not None:
                pool.shutdown()


# The threads of `kept_workers`, by their number. A forked process has none of its parent's.
_kept: dict[int, Workers] = {}
# The number of threads of `at_most`, in this thread or asynchronous task.
_at_most: ContextVar[int | None] = ContextVar("at_most", default=None)
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_kept.clear)


def kept_workers() -> Workers:
    """Return threads for short work that stay for later calls: starting one takes as long as scoring 500 rows.

    Several callers may share them. They must not be closed.
    """
    n_jobs = _at_most.get() or available_cores()
    if n_jobs not in _kept:
        _kept[n_jobs] = Workers(n_jobs)
    return _kept[n_jobs]


class at_most:  # noqa: N801  (a context of its own kind, as one made by a generator takes longer than scoring a row)
    """Limit `kept_workers` to this many threads, including the caller's; None, 0 or -1 for all cores."""

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs = n_jobs if n_jobs is not None and n_jobs > 0 else None

    def __enter__(self) -> None:
        self._before = _at_most.set(self._n_jobs)

    def __exit__(self, *_: object) -> None:
        _at_most.reset(self._before)


def available_cores() -> int:
    """Return the number of available cores: the CPU affinity, limited by the quota.

    For a quota of 2.5 it is 2: a third thread would be throttled half of the time, and others would wait for it.
    """
    # Some systems, such as macOS and Windows, do not say.
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


# --- the least work for another thread --------------------------------------------------------------------------------


# Values read in order and computed on: gradients, codes, pairs of rows.
VALUES_PER_TASK = 1 << 15
# Rows of a column of which some calls of numpy are a task: shorter ones leave each other waiting for Python's lock, and
# two threads take twice as long as one.
CALLED_ROWS_PER_TASK = 1 << 18
# Rows of which a program is computed, or that go down a tree.
ROWS_PER_TASK = 1 << 14
# Rows gathered by row number: moved to child nodes, or given the value of their leaf.
MOVED_ROWS_PER_TASK = 1 << 17
# Gradient pairs added to histograms, one per row and feature.
ADDITIONS_PER_TASK = 1 << 20


# --- whether kernels can be compiled ----------------------------------------------------------------------------------


@cache
def has_numba() -> bool:
    """Whether kernels can be compiled; numba itself is not imported, which takes half a second."""
    return bool(find_spec("numba"))


def require_numba(what: str) -> None:
    """Raise an error if numba is not installed, which names what needs it.

    Raises
    ------
    ParameterError
        If numba is not installed.
    """
    if not has_numba():
        raise ParameterError(
            f"{what} needs numba, which is not installed: pip install numba (without it models load, predict and "
            "become SQL)"
        )

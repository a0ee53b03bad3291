"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Pieces", "Shares", "Workers"]

IntArray = npt.NDArray[np.int64]
Pieces = IntArray  # (pieces, 3)
Shares = tuple[Pieces, IntArray]  # pieces, and which of them each share starts with, and one more: their number
Item = TypeVar("Item")
Result = TypeVar("Result")

# How often a thread of the team asks for work before it goes: some two milliseconds.
_PATIENCE = 1 << 16


class Workers:
    """Threads for the work of one caller, who takes part in it.

    Threads rather than numba's own parallel backends: those can't be entered from two Python threads at once on every
    platform, and make each kernel compile several times longer.

    Parameters
    ----------
    n_jobs
        Threads, the caller's among them; None for as many as the process may use.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or _available_cores()
        self._others = ThreadPoolExecutor(self.n_jobs - 1) if self.n_jobs > 1 else None
        self._servers = ThreadPoolExecutor(self.n_jobs - 1) if self.n_jobs > 1 else None
        self._serving: list[Future[None]] = []
        self._team: IntArray = np.empty(0, dtype=np.int64)

    # --- kernels that share out work themselves -----------------------------------------------------------------------

    def team(self, count: int) -> IntArray:
        """Return the team for kernels (see `runtime.team_kernels`), in which threads for ``count`` items wait.

        They go when there has been nothing to do for a while, and are called again.
        """
        if not len(self._team):
            from frameboost.runtime.team_kernels import (
                SIZE,  # which needs numba, as what the package imports at once does not
            )

            self._team = np.zeros(SIZE, dtype=np.int64)
        if count > 1 and self._servers is not None:
            self._serving = [each for each in self._serving if not each.done()]
            missing = min(self.n_jobs, count) - 1 - len(self._serving)
            if missing > 0:
                from frameboost.runtime.team_kernels import serve

                self._serving += [self._servers.submit(serve, self._team, _PATIENCE) for _ in range(missing)]
        return self._team

    def count(self, size: int, smallest: int) -> int:
        """Return into how many parts to cut what is as long as that: one, or none shorter than `smallest`."""
        return self._count(size, self.smallest(smallest))

    def smallest(self, size: int) -> int:
        """Return what the smallest part may be, given what it may be if others have to be woken up for it."""
        return size >> 3 if self._serving and not self._serving[0].done() else size

    # --- anything else ------------------------------------------------------------------------------------------------

    def over(self, size: int, run: Callable[[int, int], object], *, smallest: int = 1) -> None:
        """Call ``run(start, stop)`` on slices that cover ``range(size)``, as long as ``smallest`` if it is."""
        if size < 2 * smallest:  # said twice, since it takes as long to find out as little work takes
            run(0, size)
            return
        self.each(self.slices(size, smallest), lambda slice_: run(*slice_))

    def slices(self, size: int, smallest: int) -> list[tuple[int, int]]:
        """Share ``range(size)`` out between threads: a slice for each, as long as ``smallest`` if it is."""
        count = self._count(size, smallest)
        return list(pairwise(size * k // count for k in range(count + 1)))

    def each(self, items: Sequence[Item], run: Callable[[Item], Result], *, alone: bool = False) -> list[Result]:
        """Call ``run`` on each item, whichever thread is free; return the results, in order.

        The caller's thread is one of them: by the time that another wakes up, it has done some of the work. With
        ``alone`` it does all of it.
        """
        if self._others is None or len(items) < 2 or alone:
            return [run(item) for item in items]
        results: list[Any] = [None] * len(items)
        queue: SimpleQueue[int] = SimpleQueue()
        for place in range(len(items)):
            queue.put(place)

        def work() -> None:
            with suppress(Empty):
                while True:
                    place = queue.get_nowait()
                    results[place] = run(items[place])

        others = [self._others.submit(work) for _ in range(min(self.n_jobs, len(items)) - 1)]
        try:
            work()
        finally:
            wait(others)
        for other in others:
            other.result()  # which raises what was raised there
        return results

    def _count(self, size: int, smallest: int) -> int:
        return max(1, min(self.n_jobs, size // max(smallest, 1)))

    def close(self) -> None:
        """Let the threads go."""
        for pool in (self._others, self._servers):
            if pool is not None:
                pool.shutdown()


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Pieces", "Workers"]

Pieces = npt.NDArray[np.int64]  # (pieces, 3)
Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """A pool of threads that runs one kernel over slices of a range.

    Threads rather than numba's own parallel backends: those can't be entered from two Python threads at once on every
    platform, and make each kernel compile several times longer.

    Parameters
    ----------
    n_jobs
        Threads; None for as many as the process may use.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs or _available_cores()
        self._others = ThreadPoolExecutor(self.n_jobs - 1) if self.n_jobs > 1 else None

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

    def shares(self, pieces: Pieces, smallest: int) -> list[Pieces]:
        """Share pieces, ``(of what, start, stop)`` each, out between threads: for each pieces and parts of pieces.

        All shares are as long, and in order, so few pieces are cut. There are fewer of them than threads where they
        would be shorter than ``smallest``.
        """
        starts, stops = pieces[:, 1], pieces[:, 2]
        total = int(stops.sum() - starts.sum())
        count = self._count(total, smallest)
        if count == 1:
            return [pieces]
        offset = stops - np.cumsum(stops - starts)  # from the place in all of them together to that in the piece
        shares = []
        for k in range(count):
            firsts = np.maximum(starts, total * k // count + offset)
            lasts = np.minimum(stops, total * (k + 1) // count + offset)
            own = np.flatnonzero(firsts < lasts)
            shares.append(np.stack([pieces[own, 0], firsts[own], lasts[own]], axis=1))
        return shares

    def _count(self, size: int, smallest: int) -> int:
        """Return into how many parts to cut what is as long as that."""
        return max(1, min(self.n_jobs, size // max(smallest, 1)))

    def close(self) -> None:
        """Let the threads go."""
        if self._others is not None:
            self._others.shutdown()


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

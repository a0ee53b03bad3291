"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Pieces", "Workers"]

Pieces = npt.NDArray[np.int64]
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
        self._pool = ThreadPoolExecutor(self.n_jobs) if self.n_jobs > 1 else None

    def over(self, size: int, run: Callable[[int, int], object], *, smallest: int = 1) -> None:
        """Call ``run(start, stop)`` on slices that cover ``range(size)``, as long as ``smallest`` if it is."""
        self.each(self.slices(size, smallest), lambda slice_: run(*slice_))

    def slices(self, size: int, smallest: int) -> list[tuple[int, int]]:
        """Share ``range(size)`` out between threads: a slice for each, as long as ``smallest`` if it is."""
        count = self._count(size, smallest)
        return list(pairwise(size * k // count for k in range(count + 1)))

    def each(self, items: Sequence[Item], run: Callable[[Item], Result], *, alone: bool = False) -> list[Result]:
        """Call ``run`` on each item, whichever thread is free; return the results, in order.

        With ``alone`` all are the caller's: what is little work is done before another thread wakes up.
        """
        if self._pool is None or len(items) < 2 or alone:
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

        for done in [self._pool.submit(work) for _ in range(min(self.n_jobs, len(items)))]:
            done.result()
        return results

    def shares(self, ranges: Pieces | Sequence[tuple[int, int]], smallest: int) -> list[Pieces]:
        """Share ranges out between threads: for each an array of ``(i, start, stop)``, parts of ``ranges[i]``.

        All shares are as long, and in order, so few ranges are cut. There are fewer of them than threads where they
        would be shorter than ``smallest``.
        """
        ranges = np.asarray(ranges, dtype=np.int64).reshape(-1, 2)
        starts, stops = ranges[:, 0], ranges[:, 1]
        total = int(stops.sum() - starts.sum())
        count = self._count(total, smallest)
        if count == 1:
            whole = np.empty((len(ranges), 3), dtype=np.int64)
            whole[:, 0], whole[:, 1:] = np.arange(len(ranges)), ranges
            return [whole]
        offset = stops - np.cumsum(stops - starts)  # from the place in all of them together to that in the range
        shares = []
        for k in range(count):
            firsts = np.maximum(starts, total * k // count + offset)
            lasts = np.minimum(stops, total * (k + 1) // count + offset)
            own = np.flatnonzero(firsts < lasts)
            shares.append(np.stack([own, firsts[own], lasts[own]], axis=1))
        return shares

    def _count(self, size: int, smallest: int) -> int:
        """Return into how many parts to cut what is as long as that."""
        return max(1, min(self.n_jobs, size // max(smallest, 1)))

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

__all__ = ["Piece", "Workers"]

Piece = tuple[int, int, int]
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
        """Call ``run(start, stop)`` on slices that cover ``range(size)``, none but the last below ``smallest``."""
        slices = [piece for share in self.shares([(0, size)], smallest) for piece in share]
        self.each(slices, lambda piece: run(piece[1], piece[2]))

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

    def shares(self, ranges: Sequence[tuple[int, int]], smallest: int) -> list[list[Piece]]:
        """Share ranges out between threads: a list for each of ``(i, start, stop)``, parts of ``ranges[i]``.

        All shares are as long, and in order, so few ranges are cut. There are fewer of them than threads where they
        would be shorter than ``smallest``.
        """
        total = sum(stop - start for start, stop in ranges)
        count = max(1, min(self.n_jobs, total // max(smallest, 1)))
        shares: list[list[Piece]] = [[] for _ in range(count)]
        before = 0
        for i, (start, stop) in enumerate(ranges):
            first, k = start, before * count // total if total else 0
            while first < stop:
                end = min(stop, start - before + total * (k + 1) // count)
                if end > first:
                    shares[k].append((i, first, end))
                first, k = max(first, end), k + 1
            before += stop - start
        return shares

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

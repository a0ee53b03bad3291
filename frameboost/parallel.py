"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

__all__ = ["Workers"]


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
        slices = list(self._slices(size, smallest))
        if self._pool is None or len(slices) == 1:
            for start, stop in slices:
                run(start, stop)
            return
        for done in [self._pool.submit(run, start, stop) for start, stop in slices]:
            done.result()

    def _slices(self, size: int, smallest: int) -> Iterator[tuple[int, int]]:
        count = max(1, min(self.n_jobs, size // max(smallest, 1)))
        edges = np.linspace(0, size, count + 1).astype(int).tolist()
        return pairwise(edges)

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()


def _available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

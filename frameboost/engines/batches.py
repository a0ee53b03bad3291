"""When the rows that a query reads are added up by a kernel, batch by batch, and when by group-bys of the query itself.

A kernel adds a row to a bin in 1 ns of one thread. A group-by takes 5 ns in DuckDB and 9 in polars, divided among all
threads, and 10 to 15 ms to plan those of a level. So a few threads are faster by the kernel, many by group-bys.
"""

from __future__ import annotations

__all__ = ["kernel_pays"]

_MAX_THREADS = 6


def kernel_pays(n_threads: int) -> bool:
    """Whether a kernel adds up rows in less time than group-bys on so many threads."""
    return n_threads <= _MAX_THREADS

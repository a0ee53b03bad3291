"""The costs of queries relative to kernels, and which rows an engine of queries therefore reads into memory.

A query takes a millisecond to plan, and a tree of depth 6 takes a dozen: for a thousand rows that is ten times as long
as all sums. So small tables are read into memory when the engine is opened, and kernels grow their trees (`read_few`),
which are the same in every engine.

For more rows, a kernel adds a row to a bin in 1 ns of one thread. A group-by takes 5 ns in DuckDB and 9 in polars,
divided among all threads, and 10 to 15 ms to plan those of a level. So with few threads a kernel sums the rows that a
query reads, batch by batch, and with many threads group-bys do (`kernel_pays`). DuckDB's codes are held in memory where
they fit, and are then summed by kernels of as many threads.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from frameboost.data.sources import FrameSource, RelationSource
from frameboost.engines.contract import EngineRequest

__all__ = ["MAX_VALUES", "kernel_pays", "read_few"]

# Rows × features that one thread sums in the planning time of a few queries.
MAX_VALUES = 1 << 19
# A query of more features takes as much longer to plan, so that they may have MAX_VALUES / _FEATURES rows, 4096.
_FEATURES = 128
# This many values take 256 MB.
_MAX_OF_ALL = 1 << 25
# The number of threads with which group-bys are as fast as a kernel.
_MAX_THREADS = 6


def read_few(request: EngineRequest) -> EngineRequest | None:
    """Return the request with its rows in memory, or None for larger data, which is only counted."""
    n_features = max(1, len(request.features))
    max_rows = min(MAX_VALUES * max(1, n_features // _FEATURES), _MAX_OF_ALL) // n_features
    source = request.source
    if isinstance(source, RelationSource):
        first_rows = source.fact_rows().relation.limit(max_rows + 1)
        n_rows = int(first_rows.aggregate("COUNT(*)").fetchall()[0][0])
    else:
        n_rows = int(request.frame().head(max_rows + 1).select(pl.len()).collect().item())
    return None if n_rows > max_rows else replace(request, source=FrameSource(request.frame().collect().lazy()))


def kernel_pays(n_threads: int) -> bool:
    """Whether a kernel sums rows faster than group-bys on this many threads."""
    return n_threads <= _MAX_THREADS

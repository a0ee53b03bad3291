"""Fits of few values, which are read once and trained on in memory, whatever engine is asked for.

A query takes a millisecond to plan, and a tree of depth 6 takes a dozen of them: for a thousand rows that is ten times
as long as all sums. So a table of few values is read into memory when its engine is opened, and its trees are grown by
compiled kernels. They are the same trees, as every engine's are.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from frameboost.data.sources import FrameSource, RelationSource
from frameboost.engines.description import EngineRequest

__all__ = ["MAX_VALUES", "read_few"]

# Rows × features: so many are summed on one thread in the time that a few queries take to plan.
MAX_VALUES = 1 << 19
# A query of more features takes as much longer to plan, so that they may have MAX_VALUES / _FEATURES rows, 4096.
_FEATURES = 128
# So many values take 256 MB.
_MAX_OF_ALL = 1 << 25


def read_few(request: EngineRequest) -> EngineRequest | None:
    """Return the request with its rows in memory, or None where they are more; then they are only counted so far."""
    n_features = max(1, len(request.features))
    most_rows = min(MAX_VALUES * max(1, n_features // _FEATURES), _MAX_OF_ALL) // n_features
    if _count_up_to(most_rows + 1, request) > most_rows:
        return None
    return replace(request, source=FrameSource(request.frame().collect().lazy()))


def _count_up_to(most: int, request: EngineRequest) -> int:
    """Return the number of rows, or ``most`` if there are more."""
    if isinstance(request.source, RelationSource):
        relation = request.source.own_rows().relation
        return int(relation.limit(most).aggregate("COUNT(*)").fetchall()[0][0])
    return int(request.frame().head(most).select(pl.len()).collect().item())

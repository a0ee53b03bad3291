"""Shards in this process: rows divided evenly, with an engine over each part."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl

from frameboost.data.database_table import DatabaseTable
from frameboost.data.sources import FrameSource
from frameboost.engines.contract import DataKind, EngineDescription, EngineRequest, HistogramEngine
from frameboost.engines.shards.engine import ShardedEngine
from frameboost.engines.shards.memory_plan import storage_of
from frameboost.engines.shards.shard import LocalShards, Shard
from frameboost.engines.sql.columns import TableColumns
from frameboost.runtime.storage import IN_MEMORY
from frameboost.runtime.workers import Workers
from frameboost.schema.types import column

__all__ = ["columns_of", "divided", "evenly", "in_shards", "name_of"]


def in_shards(engine: EngineDescription, n_shards: int) -> EngineDescription:
    """Return the description of an engine of ``n_shards`` shards of another."""

    def open_shards(request: EngineRequest) -> ShardedEngine:
        parts, names = divided(request, n_shards)
        storage = storage_of(request) if engine.uses_storage else IN_MEMORY
        # A connection is used by the thread that it is of.
        n_threads = 1 if isinstance(request.source, DatabaseTable) else min(len(parts), request.workers.n_jobs)
        shards = []
        with ExitStack() as opened:
            for part in parts:
                workers = Workers(request.workers.n_jobs // n_threads)
                opened.callback(workers.close)
                of_part = replace(request, source=part, workers=workers, storage=storage)
                shards.append(Shard(engine.openers[HistogramEngine](of_part), workers, storage))
                opened.callback(shards[-1].close)
                shards[-1].check(engine.name)
            pool = LocalShards(shards, n_threads)
            made = ShardedEngine(pool, request.features, request.roles, names, columns_of(request))
            opened.pop_all()  # which the engine closes from now on
        return made

    name = f"{engine.name} in {n_shards} shards"
    in_database: tuple[DataKind, ...] = ("database",) if "database" in engine.data else ()
    data: tuple[DataKind, ...] = ("frame", "relation", *in_database)
    openers = {HistogramEngine: open_shards}
    return EngineDescription(name, openers, data, engine.threads_set_by, has_arrays=engine.has_arrays)


def columns_of(request: EngineRequest) -> TableColumns | None:
    """Return the columns that cut a database table for all shards."""
    return TableColumns(request.source, request.features) if isinstance(request.source, DatabaseTable) else None


def divided(request: EngineRequest, n_shards: int) -> tuple[list[FrameSource | DatabaseTable], list[str]]:
    """Return the rows of a request in at most ``n_shards`` parts, and the name of each part in messages, if any.

    The parts are consecutive and of about equal length. The user's frames stay whole if there are at least as many; any
    other frame is read. A database table is divided by its key. Consecutive rows of a query stay together.
    """
    columns, source, group = request.columns(), request.source, request.roles.get("qid")
    if isinstance(source, DatabaseTable):
        n_rows = source.count_rows()
        bounds = evenly(n_rows, max(1, min(n_shards, n_rows)))
        if group is not None and len(bounds) > 1:
            bounds = _between_queries(bounds, source.to_frame([group]).collect().to_series())
        return [*source.divided([start for start, _ in bounds[1:]])], [""] * len(bounds)
    if isinstance(source, FrameSource) and (source.are_files or len(source.parts) >= n_shards):
        parts = [FrameSource(part).to_frame(columns) for part in source.parts]
        names = list(source.part_names)
        if len(parts) < n_shards:
            parts, names = _by_position(parts, names, n_shards, group)
        bounds = evenly(len(parts), min(n_shards, len(parts)))
        of_shards = (pl.concat(parts[a:b]) for a, b in bounds)
        return [FrameSource(rows, are_columnar=source.are_columnar) for rows in of_shards], [
            name_of(names[a:b]) for a, b in bounds
        ]
    frame = request.frame().collect()
    bounds = evenly(len(frame), max(1, min(n_shards, len(frame))))
    if group is not None:
        bounds = _between_queries(bounds, frame[group])
    return [FrameSource(frame[a:b].lazy()) for a, b in bounds], [""] * len(bounds)


def name_of(names: Sequence[str]) -> str:
    """Return the name of consecutive parts in messages."""
    return names[0] if names[0] == names[-1] else f"{names[0]} to {names[-1]}"


def _by_position(
    files: Sequence[pl.LazyFrame], names: Sequence[str], n_shards: int, group: str | None
) -> tuple[list[pl.LazyFrame], list[str]]:
    """Return the rows of files in slices, at least ``n_shards`` in all if there are as many rows."""
    counts = [int(file.select(pl.len()).collect().item()) for file in files]
    size = max(1, sum(counts) // n_shards)
    slices, of_files = [], []
    for file, name, count in zip(files, names, counts, strict=True):
        bounds = evenly(count, max(1, round(count / size)))
        if group is not None and len(bounds) > 1:
            bounds = _between_queries(bounds, file.select(column(group)).collect().to_series())
        slices += [file.slice(a, b - a) for a, b in bounds]
        of_files += [name] * len(bounds)
    return slices, of_files


def _between_queries(bounds: Sequence[tuple[int, int]], queries: pl.Series) -> Sequence[tuple[int, int]]:
    """Return slices that begin where the query changes, each moved to the next such position.

    >>> _between_queries([(0, 2), (2, 4), (4, 6)], pl.Series(["a", "a", "a", "b", "b", "c"]))
    [(0, 3), (3, 5), (5, 6)]
    """
    changes = np.flatnonzero(queries.ne_missing(queries.shift()).to_numpy()[1:]) + 1
    indices = np.concatenate([[0], changes, [len(queries)]])
    bounds_of_slices = [0, *(end for _, end in bounds)]
    return list(pairwise(np.unique(indices[np.searchsorted(indices, bounds_of_slices)]).tolist()))


def evenly(count: int, parts: int) -> Sequence[tuple[int, int]]:
    """Return start and end of each of ``parts`` slices of about equal length."""
    return list(pairwise(count * k // parts for k in range(parts + 1)))

"""Shards in this process: rows divided evenly, with an engine over each part."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import pairwise

import polars as pl

from frameboost.data.sources import FrameSource
from frameboost.engines.contract import HistogramEngine
from frameboost.engines.description import EngineDescription, EngineRequest
from frameboost.engines.shards.engine import ShardedEngine
from frameboost.engines.shards.pool import LocalShards
from frameboost.engines.shards.shard import Shard
from frameboost.runtime.workers import Workers

__all__ = ["divided", "evenly", "in_shards"]


def in_shards(engine: EngineDescription, n_shards: int) -> EngineDescription:
    """Return the description of an engine made of ``n_shards`` of another."""

    def open_shards(request: EngineRequest) -> ShardedEngine:
        parts = divided(request, n_shards)
        n_threads = min(len(parts), request.workers.n_jobs)
        shards = []
        with ExitStack() as opened:
            for part in parts:
                workers = Workers(request.workers.n_jobs // n_threads)
                opened.callback(workers.close)
                own = replace(request, source=FrameSource(part), workers=workers)
                shards.append(Shard(engine.openers[HistogramEngine](own), workers))
                opened.callback(shards[-1].close)
            made = ShardedEngine(LocalShards(shards, n_threads), request.features, request.roles)
            opened.pop_all()  # which the engine closes from now on
        return made

    name = f"{engine.name} in {n_shards} shards"
    return EngineDescription(name, {HistogramEngine: open_shards}, ("frame", "relation"), engine.threads_set_by)


def divided(request: EngineRequest, n_shards: int) -> list[pl.LazyFrame]:
    """Return the rows of a request in ``n_shards`` parts or fewer, of about equal length, that follow each other.

    Frames that the user gave in parts stay whole if there are at least as many of them; any other frame is read.
    """
    names, source = request.columns(), request.source
    if isinstance(source, FrameSource) and (source.are_files or len(source.parts) >= n_shards):
        parts = [FrameSource(part).to_frame(names) for part in source.parts]
        if len(parts) < n_shards:
            parts = _by_position(parts, n_shards)
        return [pl.concat(parts[a:b]) for a, b in evenly(len(parts), min(n_shards, len(parts)))]
    frame = request.frame().collect()
    return [frame[a:b].lazy() for a, b in evenly(len(frame), max(1, min(n_shards, len(frame))))]


def _by_position(files: Sequence[pl.LazyFrame], n_shards: int) -> list[pl.LazyFrame]:
    """Return the rows of files in slices, at least ``n_shards`` in all if there are as many rows."""
    counts = [int(file.select(pl.len()).collect().item()) for file in files]
    size = max(1, sum(counts) // n_shards)
    bounds = [evenly(count, max(1, round(count / size))) for count in counts]
    return [file.slice(a, b - a) for file, slices in zip(files, bounds, strict=True) for a, b in slices]


def evenly(count: int, parts: int) -> Sequence[tuple[int, int]]:
    """Return the first place and the place after the last of each of ``parts`` slices of about equal length."""
    return list(pairwise(count * k // parts for k in range(parts + 1)))

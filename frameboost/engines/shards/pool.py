"""How shards are asked: lists of calls, which each shard carries out in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import polars as pl

from frameboost.engines.shards.shard import Shard
from frameboost.expressions.draws import RowPositions

__all__ = ["Call", "LocalShards", "ShardPool", "one_after_another"]


class Call(NamedTuple):
    """A method of `Shard` or of its engine, and its arguments."""

    method: str
    arguments: tuple[Any, ...] = ()


class ShardPool(Protocol):
    """The shards of a fit, wherever they are."""

    def __len__(self) -> int:
        """Return the number of shards."""

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """Return the positions of each shard's rows among all, given the number of its rows."""

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """Have each shard carry out its own calls; return the result of each shard's last call.

        Where sums are asked (see `frameboost.engines.shards.merging.merged`), those of several shards may be one.
        """

    @property
    def n_targets(self) -> int:
        """The number of places that `gather` brings pieces to at the same time."""

    def gather(self, finish: Sequence[Callable[[list[pl.DataFrame]], Any]]) -> list[Any]:
        """Bring piece k of all shards' tables (see `Shard.divide`) to one place; return what ``finish[k]`` gives."""

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep only the shards of these numbers."""

    def close(self) -> None:
        """Close all shards; may be called more than once."""


def one_after_another(counts: Sequence[int]) -> list[RowPositions]:
    """Return the positions of the rows of shards, whose rows follow each other."""
    return [RowPositions(((0, sum(counts[:number])),)) for number in range(len(counts))]


class LocalShards:
    """Shards in this process, as many at a time as there are threads.

    They are asked from the first to the last, next time from the last to the first, and so on. Where their arrays are
    in files, what was read last is still in the page cache then; always in the same order, nothing would be.
    """

    def __init__(self, shards: Sequence[Shard], n_threads: int) -> None:
        self._shards = list(shards)
        self._n_threads = n_threads
        self._executor = ThreadPoolExecutor(n_threads)
        self._step = 1

    def __len__(self) -> int:
        """See `ShardPool.__len__`."""
        return len(self._shards)

    def positions(self, counts: Sequence[int]) -> list[RowPositions]:
        """See `ShardPool.places`."""
        return one_after_another(counts)

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """See `ShardPool.run`."""
        pairs = list(zip(self._shards, calls, strict=True))[:: self._step]
        found = [self._executor.submit(shard.run, own) for shard, own in pairs][:: self._step]
        self._step = -self._step
        try:
            return [each.result() for each in found]
        finally:
            for each in found:
                each.cancel()  # after an error

    @property
    def n_targets(self) -> int:
        """See `ShardPool.n_places`."""
        return self._n_threads

    def gather(self, finish: Sequence[Callable[[list[pl.DataFrame]], Any]]) -> list[Any]:
        """See `ShardPool.gather`."""
        positions = range(len(finish))
        return list(self._executor.map(lambda k: finish[k]([shard.piece(k) for shard in self._shards]), positions))

    def keep(self, numbers: Sequence[int]) -> None:
        """See `ShardPool.keep`."""
        for number, shard in enumerate(self._shards):
            if number not in numbers:
                shard.close()
        self._shards = [self._shards[number] for number in numbers]

    def close(self) -> None:
        """See `ShardPool.close`."""
        for shard in self._shards:
            shard.close()
        self._executor.shutdown()

"""How shards are asked: lists of calls, which each shard carries out in order."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from frameboost.engines.shards.shard import Shard

__all__ = ["Call", "LocalShards", "ShardPool"]


class Call(NamedTuple):
    """A method of `Shard` or of its engine, and its arguments."""

    method: str
    arguments: tuple[Any, ...] = ()


class ShardPool(Protocol):
    """The shards of a fit, wherever they are."""

    def __len__(self) -> int:
        """Return the number of shards."""

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """Have each shard carry out its own calls; return the result of each shard's last call.

        Where sums are asked (see `frameboost.engines.shards.merging.merged`), those of several shards may be one.
        """

    def keep(self, numbers: Sequence[int]) -> None:
        """Keep only the shards of these numbers."""

    def close(self) -> None:
        """Close all shards; may be called more than once."""


class LocalShards:
    """Shards in this process, as many at a time as there are threads."""

    def __init__(self, shards: Sequence[Shard], n_threads: int) -> None:
        self._shards = list(shards)
        self._executor = ThreadPoolExecutor(n_threads)

    def __len__(self) -> int:
        """See `ShardPool.__len__`."""
        return len(self._shards)

    def run(self, calls: Sequence[Sequence[Call]]) -> list[Any]:
        """See `ShardPool.run`."""
        return list(self._executor.map(Shard.run, self._shards, calls))

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

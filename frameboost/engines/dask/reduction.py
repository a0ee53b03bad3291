"""The tree along which sums come from many workers: each adds those of some others to its own.

With at most 3 messages to each process, 8 workers send their sums along this tree, of which the client receives three:

>>> [str(branch) for branch in branches(list("abcdefgh"), 3)]
['a(b)', 'c(d e)', 'f(g h)']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

__all__ = ["Branch", "branches"]

T = TypeVar("T")


@dataclass(frozen=True)
class Branch(Generic[T]):
    """A worker, and the branches whose sums it adds to its own."""

    root: T
    others: Sequence[Branch[T]] = ()

    def __iter__(self) -> Iterator[T]:
        """Return all workers of the branch."""
        yield self.root
        for other in self.others:
            yield from other

    def __str__(self) -> str:
        return f"{self.root}({' '.join(map(str, self.others))})" if self.others else str(self.root)


def branches(workers: Sequence[T], most: int) -> list[Branch[T]]:
    """Return the workers as at most ``most`` branches, each of which has at most so many in turn."""
    n = min(most, len(workers))
    bounds = [len(workers) * k // n for k in range(n + 1)] if n else []
    parts = [workers[a:b] for a, b in pairwise(bounds)]
    return [Branch(part[0], branches(part[1:], most)) for part in parts]

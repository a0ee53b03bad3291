"""Blocks of rows: what is computed of one stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ROWS", "Block", "blocks"]

# 28 codes and a gradient pair of each row take 11 MB.
ROWS = 1 << 18


class Block(NamedTuple):
    """The rows ``start`` to ``stop - 1``."""

    start: int
    stop: int


def blocks(first: int, last: int) -> Iterator[Block]:
    """Divide the rows ``first`` to ``last - 1`` into blocks."""
    for start in range(first, last, ROWS):
        yield Block(start, min(start + ROWS, last))

"""Aggregates, sums and cuts of all shards, from those of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from frameboost.expressions.grid import Aggregate
from frameboost.splits.split import FloatArray, Stats

__all__ = ["is_sum", "merged", "merged_aggregates", "merged_scores", "sum_histograms", "sum_stats"]


def merged_aggregates(
    aggregates: Mapping[str, Aggregate], parts: Sequence[Mapping[str, float | None]]
) -> dict[str, float | None]:
    """Return aggregates over all rows; sums are of numbers on a grid, and so exact."""
    return {
        name: _merged(aggregate.function, [value for part in parts if (value := part[name]) is not None])
        for name, aggregate in aggregates.items()
    }


def _merged(function: str, values: Sequence[float]) -> float | None:
    if not values:
        return None
    if function == "sum":
        total = values[0]
        for value in values[1:]:
            total += value
        return total
    numbers = [value for value in values if value == value] or values
    return max(numbers) if function == "max" else min(numbers)


def sum_stats(parts: Sequence[Stats]) -> Stats:
    """Return the sums of g and h of all rows."""
    total = parts[0]
    for part in parts[1:]:
        total = Stats(total.G + part.G, total.H + part.H)
    return total


def sum_histograms(parts: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of the shards' histograms, in the memory of the first."""
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


_SUMS: Mapping[str, Callable[[Sequence[Any]], Any]] = {"node_histograms": sum_histograms, "start_tree": sum_stats}


def is_sum(method: str) -> bool:
    """Whether the sum of all shards' results of a method of `Shard` says all that is asked of them."""
    return method in _SUMS


def merged(method: str, results: list[Any]) -> list[Any]:
    """Return the results of a method of `Shard`, as one if it `is_sum`."""
    return [_SUMS[method](results)] if is_sum(method) else results


def merged_scores(parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the sums of each distinct score over all rows."""
    return pl.concat(parts).group_by("score").agg(pl.col("positive", "negative").sum())

"""The learning rate of each round."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["shrinkage_of"]

# How much a growing learning rate grows in a round, as a share of the first one.
_GROWTH = 0.01


def shrinkage_of(parameters: Mapping[str, Any], round_: int) -> float:
    """Return the factor of the leaf values in a round, counted from 0; parallel trees share the learning rate.

    With ``max_learning_rate`` it grows by 1 % of the first one a round, up to that.

    >>> [shrinkage_of({"learning_rate": 0.1, "max_learning_rate": 0.2}, round_) for round_ in (0, 50, 150)]
    [0.1, 0.15000000000000002, 0.2]
    """
    rate, largest = parameters.get("learning_rate", 0.3), parameters.get("max_learning_rate")
    if largest is not None:
        rate = min(rate * (1.0 + _GROWTH * round_), largest)
    return float(rate / parameters.get("num_parallel_tree", 1))

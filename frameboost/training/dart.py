"""Dropout: trees that are left out of a round, and what they weigh afterwards (Rashmi & Gilad-Bachrach 2015, "DART").

In each round some of the earlier trees are dropped: their leaves are taken off the margins, the new trees are grown on
what is left, and then all of them are scaled so that together they weigh what the dropped ones did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from frameboost.engines.contract import Engine
from frameboost.expressions.draws import key_of, mix
from frameboost.parameters.parameters import Parameters
from frameboost.training.grower import Growth
from frameboost.trees.tree import Tree

__all__ = ["Dropout"]

_SKIP, _DROP, _ONE = 10, 11, 12  # which draw a key is for; `frameboost.training.sampling` has others


class Dropout:
    """The trees of a fit so far and their weights; without ``booster="dart"`` nothing is ever dropped.

    Parameters
    ----------
    engines
        All engines whose margins move with the trees.
    parameters
        Of which ``rate_drop`` and its like are read.
    """

    def __init__(self, engines: Sequence[Engine], parameters: Parameters) -> None:
        self._engines = tuple(engines)
        self._parameters = parameters
        self._drops = parameters.booster == "dart"
        self._growths: list[Growth] = []
        self._weights: list[float] = []
        self._dropped: list[int] = []

    def __len__(self) -> int:
        return len(self._growths)

    def start_round(self, round_: int) -> None:
        """Choose the trees to drop, and take them off the margins."""
        self._dropped = self._chosen(round_) if self._drops else []
        for number in self._dropped:
            self._move(number, -self._weights[number])

    def add(self, growth: Growth) -> None:
        """Take a new tree in, whose leaves are in the margins at their full weight."""
        # What can't be dropped need not be grown again.
        self._growths.append(growth if self._drops else Growth(growth.tree, growth.margin, (), {}))
        self._weights.append(1.0)

    def end_round(self, n_new: int) -> None:
        """Scale the last ``n_new`` trees and the dropped ones, and put those back."""
        n_dropped, rate = len(self._dropped), self._parameters.learning_rate / n_new
        if not n_dropped:
            return
        if self._parameters.normalize_type == "forest":
            factor = new = 1.0 / (1.0 + rate)
        else:
            factor, new = n_dropped / (n_dropped + rate), 1.0 / (n_dropped + rate)
        for number in range(len(self._growths) - n_new, len(self._growths)):
            self._weights[number] = new
            self._move(number, new - 1.0)
        for number in self._dropped:
            self._weights[number] *= factor
            self._move(number, self._weights[number])

    def trees(self) -> tuple[Tree, ...]:
        """Return the trees with their weights in their leaves."""
        return tuple(
            growth.tree if weight == 1.0 else replace(growth.tree, value=tuple(v * weight for v in growth.tree.value))
            for growth, weight in zip(self._growths, self._weights, strict=True)
        )

    def _chosen(self, round_: int) -> list[int]:
        p, n = self._parameters, len(self._growths)
        if not n or _uniform(p.seed, _SKIP, round_) < p.skip_drop:
            return []
        mean = sum(self._weights) / n
        rates = [p.rate_drop * (w / mean if p.sample_type == "weighted" else 1.0) for w in self._weights]
        chosen = [i for i, rate in enumerate(rates) if _uniform(p.seed, _DROP, round_, i) < rate]
        if not chosen and p.one_drop:
            draws = [_uniform(p.seed, _ONE, round_, i) for i in range(n)]
            weights = self._weights if p.sample_type == "weighted" else [1.0] * n
            # Of exponential variates with these rates the least is each one's in proportion to its rate.
            chosen = [min(range(n), key=lambda i: (1.0 - draws[i]) ** (-1.0 / weights[i]))]
        return chosen

    def _move(self, number: int, weight: float) -> None:
        """Add a tree's leaves, times ``weight``, to the margins of all rows."""
        growth = self._growths[number]
        values = {node: value * weight for node, value in growth.values.items()}
        for engine in self._engines:
            engine.follow_tree()
            for moves in growth.steps:
                engine.apply_splits(moves)
            engine.add_leaf_values(values, growth.margin)


def _uniform(seed: int, *path: int) -> float:
    return mix(0, key_of(seed, *path)) / 2.0**32
